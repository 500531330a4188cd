//! Whether a task may be claimed now and, if not, what it waits for. A run is made by the claim, so
//! what waits before it is the task. The store asks inside the transaction that claims.

use contract::Timestamp;
use contract::state::{TaskState, WaitingFor};

/// What is known of a task at the moment of the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub state: TaskState,
    pub not_before: Option<Timestamp>,
    /// When the quota of its account is expected back, while it is used up.
    pub quota_until: Option<Timestamp>,
    /// Tasks that must be done before this one and are not.
    pub dependencies_open: u32,
    /// Whether a person must approve it first.
    pub approval_open: bool,
    /// Whether a question to a person is open.
    pub answer_open: bool,
    pub budget_left: bool,
    /// Whether another run works in its directory.
    pub workspace_busy: bool,
    /// Live runs of its agent and how many it may have.
    pub agent: Room,
    /// Live runs of its pool and how many there may be.
    pub pool: Room,
}

/// How many places are taken, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub taken: u32,
    pub places: Option<u32>,
}

impl Room {
    fn full(self) -> bool {
        self.places.is_some_and(|places| self.taken >= places)
    }
}

/// What the claim may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Now,
    Wait {
        waiting_for: WaitingFor,
        /// When to look again, if that is known.
        until: Option<Timestamp>,
    },
    /// The task is not in the queue.
    Not,
}

/// What a person must do comes first in the list of reasons, then what time will bring, then what
/// other runs hold: whoever looks sees the reason that they can change.
pub fn claimable(facts: &Facts, now: Timestamp) -> Claim {
    match facts.state {
        TaskState::Queued | TaskState::Waiting => {}
        TaskState::Running
        | TaskState::Review
        | TaskState::Done
        | TaskState::Failed
        | TaskState::Cancelled => return Claim::Not,
    }
    let later = |at: Option<Timestamp>| at.filter(|at| *at > now);
    let reasons = [
        (facts.approval_open, WaitingFor::Approval, None),
        (facts.answer_open, WaitingFor::Answer, None),
        (!facts.budget_left, WaitingFor::Budget, None),
        (facts.dependencies_open > 0, WaitingFor::Dependency, None),
        (later(facts.not_before).is_some(), WaitingFor::NotBefore, facts.not_before),
        (later(facts.quota_until).is_some(), WaitingFor::Quota, facts.quota_until),
        (facts.workspace_busy, WaitingFor::Workspace, None),
        (facts.agent.full(), WaitingFor::Agent, None),
        (facts.pool.full(), WaitingFor::Pool, None),
    ];
    match reasons.into_iter().find(|(holds, _, _)| *holds) {
        Some((_, waiting_for, until)) => Claim::Wait { waiting_for, until },
        None => Claim::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);
    const OPEN: Room = Room { taken: 9, places: None };
    const FREE: Facts = Facts {
        state: TaskState::Queued,
        not_before: None,
        quota_until: None,
        dependencies_open: 0,
        approval_open: false,
        answer_open: false,
        budget_left: true,
        workspace_busy: false,
        agent: OPEN,
        pool: OPEN,
    };

    fn wait(waiting_for: WaitingFor, until: Option<i64>) -> Claim {
        Claim::Wait { waiting_for, until: until.map(Timestamp) }
    }

    #[test]
    fn a_task_waits_for_the_first_reason_that_holds() {
        let full = Room { taken: 2, places: Some(2) };
        let room = Room { taken: 1, places: Some(2) };
        let late = Some(Timestamp(1_001));
        let rows = [
            (FREE, Claim::Now),
            (Facts { state: TaskState::Waiting, ..FREE }, Claim::Now),
            (Facts { not_before: Some(NOW), quota_until: Some(NOW), ..FREE }, Claim::Now),
            (Facts { agent: room, pool: room, ..FREE }, Claim::Now),
            (Facts { not_before: late, ..FREE }, wait(WaitingFor::NotBefore, Some(1_001))),
            (Facts { quota_until: late, ..FREE }, wait(WaitingFor::Quota, Some(1_001))),
            (Facts { dependencies_open: 1, ..FREE }, wait(WaitingFor::Dependency, None)),
            (Facts { approval_open: true, ..FREE }, wait(WaitingFor::Approval, None)),
            (Facts { answer_open: true, ..FREE }, wait(WaitingFor::Answer, None)),
            (Facts { budget_left: false, ..FREE }, wait(WaitingFor::Budget, None)),
            (Facts { workspace_busy: true, ..FREE }, wait(WaitingFor::Workspace, None)),
            (Facts { agent: full, pool: full, ..FREE }, wait(WaitingFor::Agent, None)),
            (Facts { pool: full, ..FREE }, wait(WaitingFor::Pool, None)),
            (Facts { pool: full, approval_open: true, ..FREE }, wait(WaitingFor::Approval, None)),
        ];
        for (facts, claim) in rows {
            assert_eq!(claimable(&facts, NOW), claim, "{facts:?}");
        }
    }

    #[test]
    fn only_what_is_in_the_queue_is_claimed() {
        for state in TaskState::ALL {
            let queued = matches!(state, TaskState::Queued | TaskState::Waiting);
            let claim = claimable(&Facts { state: *state, ..FREE }, NOW);
            assert_eq!(claim == Claim::Now, queued, "{state:?}");
        }
    }
}
