//! Decides whether a keeper has hung. A keeper that was stopped by a signal, or that waits for a disk,
//! keeps its socket open and obeys no order, so its run would never end. The host sends it a numbered
//! ping with every renewal and every stop; a keeper that does not answer the latest ping in time is
//! ended by the host. Only the answer counts, because older reports may still wait in the socket.
//! Times are those of the monotonic clock, which does not advance while the machine sleeps.

use contract::limits::{KEEPER_ANSWER_MS, KEEPER_STOP_ANSWER_MS};

/// The pings of one keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeeperPing {
    /// Keepers of earlier versions do not know pings.
    answers_pings: bool,
    /// The latest ping.
    n: u32,
    /// The time by which the latest ping must be answered.
    answer_by_ms: Option<u64>,
}

/// The reason for a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingReason {
    Renewal,
    /// The user or a limit wants the run to end, so little patience is left.
    Stop,
}

impl KeeperPing {
    pub fn new(answers_pings: bool) -> Self {
        Self { answers_pings, ..Self::default() }
    }

    /// The number of the ping to send now, or `None` for a keeper that does not know pings. A ping
    /// that is still unanswered keeps its deadline.
    pub fn ask(&mut self, now_ms: u64, reason: PingReason) -> Option<u32> {
        let patience_ms = match reason {
            PingReason::Renewal => KEEPER_ANSWER_MS,
            PingReason::Stop => KEEPER_STOP_ANSWER_MS,
        };
        let answer_by_ms = now_ms.saturating_add(patience_ms);
        self.answers_pings.then(|| {
            self.n = self.n.wrapping_add(1);
            self.answer_by_ms = Some(self.answer_by_ms.unwrap_or(u64::MAX).min(answer_by_ms));
            self.n
        })
    }

    pub fn answered(&mut self, n: u32) {
        if n == self.n {
            self.answer_by_ms = None;
        }
    }

    pub fn deadline_ms(&self) -> Option<u64> {
        self.answer_by_ms
    }

    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.answer_by_ms.is_some_and(|answer_by_ms| now_ms >= answer_by_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_the_latest_ping_counts() {
        let mut ping = KeeperPing::new(true);
        let first = ping.ask(0, PingReason::Renewal).unwrap();
        assert_eq!(ping.deadline_ms(), Some(KEEPER_ANSWER_MS));
        let second = ping.ask(100, PingReason::Stop).unwrap();
        assert_eq!(ping.deadline_ms(), Some(100 + KEEPER_STOP_ANSWER_MS));
        ping.answered(first);
        assert!(ping.is_overdue(100 + KEEPER_STOP_ANSWER_MS));
        ping.answered(second);
        assert!(!ping.is_overdue(u64::MAX));
    }

    #[test]
    fn a_new_ping_does_not_extend_the_deadline_of_one_that_is_unanswered() {
        let mut ping = KeeperPing::new(true);
        ping.ask(0, PingReason::Stop);
        ping.ask(KEEPER_STOP_ANSWER_MS - 1, PingReason::Stop);
        assert!(ping.is_overdue(KEEPER_STOP_ANSWER_MS));
        assert!(!ping.is_overdue(KEEPER_STOP_ANSWER_MS - 1));
    }

    #[test]
    fn keepers_that_do_not_know_pings_are_not_asked() {
        let mut ping = KeeperPing::new(false);
        assert_eq!(ping.ask(0, PingReason::Stop), None);
        assert!(!ping.is_overdue(u64::MAX));
    }
}
