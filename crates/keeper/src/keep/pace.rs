//! How often the agent's pipes are looked at. What comes after a pause is read at once; what comes
//! line upon line is left to gather for a moment, because a look costs four calls of the kernel here
//! and a wake-up of the server, however little there is. Knows no clock; `watch.rs` asks it before it
//! waits, and waits for everything else meanwhile.

use std::time::{Duration, Instant};

use crate::limits::{READ_FULL_BYTES, READ_REST_US};

const REST: Duration = Duration::from_micros(READ_REST_US);

/// Since when the pipes may be read, or from when on.
pub struct Pace {
    free_at: Instant,
}

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self { free_at: now }
    }

    /// So much was read. The next read rests if this one followed closely, and did not bring enough
    /// for a rest to gain anything.
    pub fn read(&mut self, now: Instant, bytes: usize) {
        let closely = now.saturating_duration_since(self.free_at) < REST;
        self.free_at = if closely && bytes < READ_FULL_BYTES { now + REST } else { now };
    }

    /// Until when the pipes are left alone, if they are.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        (now < self.free_at).then_some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_after_a_pause_is_read_at_once_and_so_is_the_next_after_another() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        for n in 1..10 {
            let now = begun + n * 2 * REST;
            assert_eq!(pace.rests_until(now), None);
            pace.read(now, 300);
            assert_eq!(pace.rests_until(now), None);
        }
    }

    #[test]
    fn line_upon_line_is_read_once_in_every_rest() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let (mut reads, rests) = (0, 50);
        for tick in 0..rests * 100 {
            let now = begun + REST * tick / 100;
            if pace.rests_until(now).is_none() {
                pace.read(now, 300);
                reads += 1;
            }
        }
        assert_eq!(reads, rests);
    }

    #[test]
    fn whoever_fills_the_pipe_does_not_wait() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..5 {
            pace.read(now, READ_FULL_BYTES);
            assert_eq!(pace.rests_until(now), None);
        }
    }
}
