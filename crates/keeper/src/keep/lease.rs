//! The lease: until when the agent may run, and under which fence.
//!
//! Counted by an absolute timer on the plan's clock. A timeout of `poll` would not do: it does not
//! count the time the machine sleeps, which a shared store wants counted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::plan::LeaseClock;
use crate::wire::Refusal;

pub struct Lease {
    timer: OwnedFd,
    clock: LeaseClock,
    deadline_ms: u64,
    fence: u64,
}

impl Lease {
    pub fn start(clock: LeaseClock, fence: u64, deadline_ms: u64) -> io::Result<Self> {
        let id = match clock {
            LeaseClock::Monotonic => TimerfdClockId::Monotonic,
            LeaseClock::Boottime => TimerfdClockId::Boottime,
        };
        let timer = timerfd_create(id, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let mut lease = Self { timer, clock, deadline_ms, fence };
        lease.arm(deadline_ms)?;
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

    /// Sets a new end.
    pub fn renew(&mut self, fence: u64, deadline_ms: u64) -> Result<(), Refusal> {
        self.pass_fence(fence)?;
        self.arm(deadline_ms).map_err(|_| Refusal::Malformed)
    }

    /// Whether it has ended. Also clears the timer's readiness.
    pub fn is_over(&self) -> bool {
        // Fails when the timer has not fired, which the clock below says as well.
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        self.clock.now_ms() >= self.deadline_ms
    }

    pub fn fence(&self) -> u64 {
        self.fence
    }

    pub fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    fn arm(&mut self, deadline_ms: u64) -> io::Result<()> {
        let it_value = Timespec {
            tv_sec: (deadline_ms / 1_000) as i64,
            // A timer set to zero is switched off; a deadline of zero is long past instead.
            tv_nsec: ((deadline_ms % 1_000) as i64 * 1_000_000).max(1),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        self.deadline_ms = deadline_ms;
        Ok(())
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
