//! Decides whether a keeper has hung. A keeper that was stopped by a signal, or that waits for a disk,
//! keeps its socket open and obeys no order, so its run would never end. The host sends it a numbered
//! ping with every renewal and every stop; a keeper that does not answer in time is ended by the
//! host. Other reports do not count, because older ones may still wait in the socket.
//! Times are those of the monotonic clock, which does not advance while the machine sleeps.

use contract::limits::{KEEPER_ANSWER_MS, KEEPER_STOP_ANSWER_MS};

/// The pings of one keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeeperPing {
    /// Keepers of earlier versions do not know pings.
    answers_pings: bool,
    /// The latest ping.
    n: u32,
    /// The earliest ping that is unanswered, and the time by which it must be answered.
    awaited: Option<(u32, u64)>,
}

/// The reason for a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingReason {
    Renewal,
    /// The run is to end. Until the graces of the stop are over the keeper may be busy with it.
    Stop {
        graces_ms: u64,
    },
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
            PingReason::Stop { graces_ms } => graces_ms.saturating_add(KEEPER_STOP_ANSWER_MS),
        };
        let answer_by_ms = now_ms.saturating_add(patience_ms);
        self.answers_pings.then(|| {
            self.n = self.n.wrapping_add(1);
            let (first, earlier_ms) = self.awaited.unwrap_or((self.n, u64::MAX));
            self.awaited = Some((first, earlier_ms.min(answer_by_ms)));
            self.n
        })
    }

    /// Takes an answer. Pings are answered in their order, so that any of those that are unanswered
    /// shows that the keeper obeys; an answer to an earlier one shows nothing.
    pub fn answered(&mut self, n: u32) {
        if self.awaited.is_some_and(|(first, _)| (first..=self.n).contains(&n)) {
            self.awaited = None;
        }
    }

    pub fn deadline_ms(&self) -> Option<u64> {
        self.awaited.map(|(_, answer_by_ms)| answer_by_ms)
    }

    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.awaited.is_some_and(|(_, answer_by_ms)| now_ms >= answer_by_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP_NOW: PingReason = PingReason::Stop { graces_ms: 0 };

    #[test]
    fn answer_to_any_unanswered_ping_counts() {
        let mut ping = KeeperPing::new(true);
        let first = ping.ask(0, PingReason::Renewal).unwrap();
        assert_eq!(ping.deadline_ms(), Some(KEEPER_ANSWER_MS));
        ping.answered(first);
        assert_eq!(ping.deadline_ms(), None);
        let second = ping.ask(100, STOP_NOW).unwrap();
        ping.ask(200, PingReason::Renewal).unwrap();
        assert_eq!(ping.deadline_ms(), Some(100 + KEEPER_STOP_ANSWER_MS));
        ping.answered(first);
        assert!(ping.is_overdue(100 + KEEPER_STOP_ANSWER_MS));
        ping.answered(second);
        assert!(!ping.is_overdue(u64::MAX));
    }

    #[test]
    fn a_keeper_may_be_busy_for_the_graces_of_a_stop() {
        let mut ping = KeeperPing::new(true);
        ping.ask(0, PingReason::Stop { graces_ms: 20_000 });
        assert_eq!(ping.deadline_ms(), Some(20_000 + KEEPER_STOP_ANSWER_MS));
        ping.ask(100, STOP_NOW);
        assert_eq!(ping.deadline_ms(), Some(100 + KEEPER_STOP_ANSWER_MS));
    }

    #[test]
    fn new_ping_does_not_extend_the_deadline() {
        let mut ping = KeeperPing::new(true);
        ping.ask(0, STOP_NOW);
        ping.ask(KEEPER_STOP_ANSWER_MS - 1, STOP_NOW);
        assert!(ping.is_overdue(KEEPER_STOP_ANSWER_MS));
        assert!(!ping.is_overdue(KEEPER_STOP_ANSWER_MS - 1));
    }

    #[test]
    fn keepers_that_do_not_know_pings_are_not_asked() {
        let mut ping = KeeperPing::new(false);
        assert_eq!(ping.ask(0, STOP_NOW), None);
        assert!(!ping.is_overdue(u64::MAX));
    }
}
