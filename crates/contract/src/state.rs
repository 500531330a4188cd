//! The states of tasks and runs, and which may follow which.

use crate::event::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a task stands. `done` and `cancelled` never change; a person may reopen `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    Queued,
    Waiting,
    Running,
    Review,
    Done,
    Failed,
    Cancelled,
}

/// Why a task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    NotBefore,
    Quota,
    Pool,
    Dependency,
    Workspace,
    Agent,
    Approval,
    Answer,
    Budget,
}

/// Who looks at a task's result before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    #[default]
    None,
    Person,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Planned,
    Live,
    Stopping,
    Settled,
}

/// How a hired agent stands. A retired one never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    Active,
    Paused,
    Retired,
}

macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

words!(TaskState {
    Queued = "queued",
    Waiting = "waiting",
    Running = "running",
    Review = "review",
    Done = "done",
    Failed = "failed",
    Cancelled = "cancelled",
});
words!(WaitingFor {
    NotBefore = "not_before",
    Quota = "quota",
    Pool = "pool",
    Dependency = "dependency",
    Workspace = "workspace",
    Agent = "agent",
    Approval = "approval",
    Answer = "answer",
    Budget = "budget",
});
words!(AgentState { Active = "active", Paused = "paused", Retired = "retired" });
words!(RunState { Planned = "planned", Live = "live", Stopping = "stopping", Settled = "settled" });
words!(Outcome {
    Succeeded = "succeeded",
    Failed = "failed",
    Cancelled = "cancelled",
    TimedOut = "timed_out",
    Lost = "lost",
});

impl AgentState {
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Active | Self::Paused => next != self,
            Self::Retired => false,
        }
    }
}

impl RunState {
    /// A run only moves forward, and ends once.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Planned => next != Self::Planned,
            Self::Live => matches!(next, Self::Stopping | Self::Settled),
            Self::Stopping => next == Self::Settled,
            Self::Settled => false,
        }
    }
}

impl TaskState {
    /// Where a run's outcome takes its task.
    pub fn after(outcome: Outcome, review: Review) -> Self {
        match (outcome, review) {
            (Outcome::Succeeded, Review::None) => Self::Done,
            (Outcome::Succeeded, Review::Person) => Self::Review,
            (Outcome::Cancelled, _) => Self::Cancelled,
            (Outcome::Failed | Outcome::TimedOut | Outcome::Lost, _) => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_run_becomes_nothing_else() {
        for next in RunState::ALL {
            assert!(!RunState::Settled.may_become(*next));
        }
    }

    #[test]
    fn a_word_reads_back_as_its_state() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::from_word(state.word()), Some(*state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
        for state in RunState::ALL {
            assert_eq!(RunState::from_word(state.word()), Some(*state));
        }
        for why in WaitingFor::ALL {
            assert_eq!(serde_json::to_value(why).unwrap(), why.word());
        }
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.word());
        }
    }
}
