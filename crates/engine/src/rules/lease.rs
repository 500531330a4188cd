//! The lease of one run as its holder counts it: until when it may write, and when it asks for more.
//! By the monotonic clock alone, which its keeper counts on too; a wall clock that is set changes
//! nothing here. What counts is when a renewal was asked for, never when its answer came, and an
//! answer that comes when the lease is over is no renewal: the keeper has acted on the end by then.

use contract::limits::{LEASE_RENEW_PERCENT, LEASE_RETRY_MS};

/// Never: nothing is asked for any more.
const NEVER_MS: u64 = u64::MAX;

/// A lease that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    length_ms: u64,
    until_ms: u64,
    renew_at_ms: u64,
}

/// What the store answered when it was asked for a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Renewed,
    /// Another has a higher fence.
    Stale,
    /// It did not say, or could not.
    Unknown,
}

/// What the answer means to the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The keeper may be told this end.
    Until(u64),
    /// Someone else has the run.
    Lost,
    /// It is over; whoever is next settles what the keeper left.
    Expired,
    /// Unchanged; it is asked for again soon.
    AsBefore,
}

impl Lease {
    /// One that was granted until then.
    pub fn granted(now_ms: u64, until_ms: u64, length_ms: u64) -> Self {
        let renew_at_ms = now_ms + length_ms * LEASE_RENEW_PERCENT / 100;
        Self { length_ms, until_ms, renew_at_ms }
    }

    /// One that another has counted so far: it is renewed at once.
    pub fn taken_over(now_ms: u64, until_ms: u64, length_ms: u64) -> Self {
        Self { length_ms, until_ms, renew_at_ms: now_ms }
    }

    /// Whether nothing may be written or done under it any more.
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms
    }

    pub fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.renew_at_ms
    }

    pub fn renew_at_ms(&self) -> u64 {
        self.renew_at_ms
    }

    /// Asks for a renewal as soon as may be.
    pub fn renew_now(&mut self, now_ms: u64) {
        self.renew_at_ms = now_ms;
    }

    /// As the keeper counts it too.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    pub fn length_ms(&self) -> u64 {
        self.length_ms
    }

    /// Takes the answer to a renewal: when it was asked for, and what time it is now.
    pub fn answered(&mut self, asked_ms: u64, now_ms: u64, answer: Answer) -> Held {
        match answer {
            Answer::Stale => {
                self.renew_at_ms = NEVER_MS;
                Held::Lost
            }
            Answer::Renewed | Answer::Unknown if self.is_over(now_ms) => Held::Expired,
            Answer::Renewed => {
                self.renew_at_ms = asked_ms + self.length_ms * LEASE_RENEW_PERCENT / 100;
                self.until_ms = asked_ms + self.length_ms;
                Held::Until(self.until_ms)
            }
            Answer::Unknown => {
                self.renew_at_ms = now_ms + LEASE_RETRY_MS.min(self.length_ms / 10);
                Held::AsBefore
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease::granted(0, 1_000, 1_000)
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_asked_for() {
        let mut lease = lease();
        assert!(!lease.is_due(599) && lease.is_due(600));
        assert_eq!(lease.answered(600, 990, Answer::Renewed), Held::Until(1_600));
        assert!(!lease.is_over(1_599) && lease.is_over(1_600));
        assert_eq!(lease.renew_at_ms(), 1_200);
    }

    #[test]
    fn an_answer_that_comes_after_the_end_is_no_renewal() {
        let mut lease = lease();
        assert_eq!(lease.answered(600, 1_000, Answer::Renewed), Held::Expired);
        assert!(lease.is_over(1_000));
    }

    #[test]
    fn three_lost_renewals_in_a_row_leave_the_lease_and_a_fourth_try() {
        let mut lease = lease();
        let mut now_ms = 600;
        for _ in 0..3 {
            assert!(lease.is_due(now_ms));
            assert_eq!(lease.answered(now_ms, now_ms, Answer::Unknown), Held::AsBefore);
            now_ms = lease.renew_at_ms();
        }
        assert_eq!(lease.answered(now_ms, now_ms, Answer::Renewed), Held::Until(now_ms + 1_000));
    }

    #[test]
    fn a_lease_that_another_has_is_not_asked_for_again() {
        let mut lease = lease();
        assert_eq!(lease.answered(600, 601, Answer::Stale), Held::Lost);
        assert!(!lease.is_due(u64::MAX - 1));
    }
}
