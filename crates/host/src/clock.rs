//! The only place that asks what time it is. Everything else is told.

use contract::Timestamp;
use engine::Now;
use rustix::time::{ClockId, clock_gettime};

/// Wall clock for people, monotonic clock for watchdogs and leases: a laptop may sleep and a wall
/// clock may be set, and neither may end a run.
pub fn now() -> Now {
    #[cfg(test)]
    if let Some(now) = played::now() {
        return now;
    }
    Now { wall: Timestamp(ms(ClockId::Realtime)), mono_ms: ms(ClockId::Monotonic).unsigned_abs() }
}

fn ms(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// A clock that a test sets, for everything that runs on the thread of that test.
#[cfg(test)]
pub(crate) mod played {
    use contract::Timestamp;
    use engine::Now;
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<Option<Timestamp>> = const { Cell::new(None) };
    }

    pub fn now() -> Option<Now> {
        NOW.get().map(|wall| Now { wall, mono_ms: wall.ms().unsigned_abs() })
    }

    pub fn set(now: Timestamp) {
        NOW.set(Some(now));
    }
}
