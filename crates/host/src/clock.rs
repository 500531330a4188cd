//! The only place that asks what time it is. Everything else is told.

use contract::Timestamp;
use engine::Now;
use rustix::time::{ClockId, clock_gettime};

/// Wall clock for people, monotonic clock for watchdogs and leases: a laptop may sleep and a wall
/// clock may be set, and neither may end a run.
pub fn now() -> Now {
    Now { wall: Timestamp(ms(ClockId::Realtime)), mono_ms: ms(ClockId::Monotonic).unsigned_abs() }
}

fn ms(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}
