//! The lease: until when the agent may run, and under which fence.
//!
//! Counted by an absolute timer on the plan's clock. A timeout of `poll` would not do: it does not
//! count the time the machine sleeps, which a shared store wants counted. The timer fires twice: when
//! the agent must be asked to leave, so that it has time for that, and when it must be gone. Once the
//! agent was asked, a renewal is too late: no protocol can take a farewell back
//! (`docs/decisions/0032-a-lease-ends-by-the-stop-ladder.md`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::ladder::Graces;
use crate::limits::LEASE_STOP_PERCENT;
use crate::plan::LeaseClock;
use crate::wire::Refusal;

pub struct Lease {
    timer: OwnedFd,
    clock: LeaseClock,
    deadline_ms: u64,
    fence: u64,
    times: StopTimes,
    /// When the stop begins, unless a renewal comes before.
    stop_at_ms: u64,
    /// When the agent is killed, once the stop has begun.
    kill_at_ms: Option<u64>,
}

/// The time that the stop of a lease may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopTimes {
    pub graces: Graces,
    /// How long the agent may outlive the deadline if its lease is too short for the graces.
    pub overrun_ms: u64,
}

/// The step of a lease whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The stop begins.
    Stop(Graces),
    /// The agent must be gone.
    Kill,
}

impl StopTimes {
    fn graces_ms(self) -> u64 {
        self.graces.farewell_ms.saturating_add(self.graces.term_ms)
    }

    /// When the stop of a lease begins that is granted now: early enough for its graces, and not
    /// before the last part of the lease, which is short for a short lease.
    fn stop_at_ms(self, now_ms: u64, deadline_ms: u64) -> u64 {
        let length_ms = deadline_ms.saturating_sub(now_ms);
        let last_part_ms = (length_ms / 100).saturating_mul(LEASE_STOP_PERCENT)
            + length_ms % 100 * LEASE_STOP_PERCENT / 100;
        deadline_ms - self.graces_ms().min(last_part_ms)
    }

    /// When an agent is killed whose stop begins now: at the deadline, or later by at most the overrun
    /// if the graces need it.
    fn kill_at_ms(self, now_ms: u64, deadline_ms: u64) -> u64 {
        let latest_ms = deadline_ms.max(now_ms).saturating_add(self.overrun_ms);
        now_ms.saturating_add(self.graces_ms()).min(latest_ms).max(deadline_ms)
    }

    /// The graces of a stop that has so much time. The shares of farewell and SIGTERM stay as they are;
    /// SIGTERM may take all the rest, because the kill has a time of its own.
    fn within(self, time_ms: u64) -> Graces {
        let farewell_ms = u128::from(self.graces.farewell_ms) * u128::from(time_ms)
            / u128::from(self.graces_ms().max(time_ms).max(1));
        let farewell_ms = u64::try_from(farewell_ms).unwrap_or(u64::MAX);
        let may_term = self.graces.term_ms > 0;
        Graces { farewell_ms, term_ms: if may_term { time_ms } else { 0 } }
    }
}

impl Lease {
    pub fn start(
        clock: LeaseClock,
        fence: u64,
        deadline_ms: u64,
        times: StopTimes,
    ) -> io::Result<Self> {
        let id = match clock {
            LeaseClock::Monotonic => TimerfdClockId::Monotonic,
            LeaseClock::Boottime => TimerfdClockId::Boottime,
        };
        let timer = timerfd_create(id, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let stop_at_ms = times.stop_at_ms(clock.now_ms(), deadline_ms);
        let lease = Self { timer, clock, deadline_ms, fence, times, stop_at_ms, kill_at_ms: None };
        lease.arm(stop_at_ms)?;
        Ok(lease)
    }

    /// Raises the fence for a new owner, or refuses one that was overtaken.
    pub fn pass_fence(&mut self, fence: u64) -> Result<(), Refusal> {
        if fence < self.fence {
            return Err(Refusal::Fence);
        }
        self.fence = fence;
        Ok(())
    }

    /// Sets a new end, unless the stop of this lease has begun. Gives whether it did.
    pub fn renew(&mut self, fence: u64, deadline_ms: u64) -> Result<bool, Refusal> {
        self.pass_fence(fence)?;
        if self.kill_at_ms.is_some() {
            return Ok(false);
        }
        let stop_at_ms = self.times.stop_at_ms(self.clock.now_ms(), deadline_ms);
        self.arm(stop_at_ms).map_err(|_| Refusal::Malformed)?;
        (self.deadline_ms, self.stop_at_ms) = (deadline_ms, stop_at_ms);
        Ok(true)
    }

    /// The step whose time has come; call it when the timer is ready.
    pub fn due(&mut self) -> Option<Due> {
        // Fails when the timer has not fired, which the clock below says as well.
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        let now_ms = self.clock.now_ms();
        match self.kill_at_ms {
            None if now_ms >= self.stop_at_ms => {
                let kill_at_ms = self.times.kill_at_ms(now_ms, self.deadline_ms);
                self.kill_at_ms = Some(kill_at_ms);
                if kill_at_ms <= now_ms || self.arm(kill_at_ms).is_err() {
                    return Some(Due::Stop(Graces::NONE));
                }
                Some(Due::Stop(self.times.within(kill_at_ms - now_ms)))
            }
            Some(kill_at_ms) if now_ms >= kill_at_ms => Some(Due::Kill),
            None | Some(_) => None,
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.clock.now_ms() >= self.deadline_ms
    }

    pub fn fence(&self) -> u64 {
        self.fence
    }

    pub fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    fn arm(&self, at_ms: u64) -> io::Result<()> {
        let it_value = Timespec {
            tv_sec: (at_ms / 1_000) as i64,
            // A timer set to zero is switched off; a time of zero is long past instead.
            tv_nsec: ((at_ms % 1_000) as i64 * 1_000_000).max(1),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)
            .map_err(io::Error::from)
            .map(drop)
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: StopTimes =
        StopTimes { graces: Graces { farewell_ms: 5_000, term_ms: 15_000 }, overrun_ms: 0 };
    const COURIER: StopTimes =
        StopTimes { graces: Graces { farewell_ms: 2_000, term_ms: 3_000 }, overrun_ms: 5_000 };

    /// When the stop of a lease begins that is granted at zero, when it kills, and its farewell grace.
    fn planned(times: StopTimes, lease_ms: u64) -> (u64, u64, u64) {
        let stop_at_ms = times.stop_at_ms(0, lease_ms);
        let kill_at_ms = times.kill_at_ms(stop_at_ms, lease_ms);
        (stop_at_ms, kill_at_ms, times.within(kill_at_ms - stop_at_ms).farewell_ms)
    }

    #[test]
    fn stop_fits_before_the_deadline() {
        for (lease_ms, expected) in [
            (300_000, (280_000, 300_000, 5_000)),
            (100_000, (80_000, 100_000, 5_000)),
            (10_000, (8_000, 10_000, 500)),
            (3_000, (2_400, 3_000, 150)),
            (2_000, (1_600, 2_000, 100)),
        ] {
            assert_eq!(planned(AGENT, lease_ms), expected, "{lease_ms}");
        }
    }

    #[test]
    fn holder_of_a_remote_keeps_its_graces() {
        assert_eq!(planned(COURIER, 300_000), (295_000, 300_000, 2_000));
        assert_eq!(planned(COURIER, 25_000), (20_000, 25_000, 2_000));
        assert_eq!(planned(COURIER, 2_000), (1_600, 6_600, 2_000));
    }

    #[test]
    fn late_stop_has_what_is_left() {
        assert_eq!(AGENT.kill_at_ms(295_000, 300_000), 300_000);
        assert_eq!(AGENT.within(5_000), Graces { farewell_ms: 1_250, term_ms: 5_000 });
        // The machine slept past the deadline.
        assert_eq!(AGENT.kill_at_ms(400_000, 300_000), 400_000);
        assert_eq!(COURIER.kill_at_ms(400_000, 300_000), 405_000);
    }

    #[test]
    fn plan_without_graces_is_killed_at_the_deadline() {
        let none = StopTimes { graces: Graces::NONE, overrun_ms: 0 };
        assert_eq!(none.stop_at_ms(0, 300_000), 300_000);
        assert_eq!(none.kill_at_ms(300_000, 300_000), 300_000);
        assert_eq!(none.within(7), Graces::NONE);
        assert_eq!(none.stop_at_ms(5, u64::MAX), u64::MAX);
        assert_eq!(AGENT.stop_at_ms(5, u64::MAX), u64::MAX - 20_000);
        assert_eq!(AGENT.stop_at_ms(5, 0), 0);
    }

    #[test]
    fn renewal_is_refused_once_the_stop_has_begun() {
        let clock = LeaseClock::Monotonic;
        let mut lease = Lease::start(clock, 1, clock.now_ms() + 60_000, AGENT).unwrap();
        assert_eq!(lease.due(), None);
        assert_eq!(lease.renew(1, clock.now_ms() + 1), Ok(true));
        while lease.due().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(lease.renew(2, clock.now_ms() + 60_000), Ok(false));
        assert_eq!(lease.renew(1, clock.now_ms() + 60_000), Err(Refusal::Fence));
    }
}
