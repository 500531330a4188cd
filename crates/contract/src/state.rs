//! The states of tasks and runs, and which may follow which. Each has an `Unknown` case for words
//! that a newer version wrote: such a word is read and shown, and is never written
//! (`docs/decisions/0035-unknown-words-are-read.md`).

use crate::event::Outcome;
use crate::known::{UNKNOWN, Words};
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
    // A word of a newer version.
    #[serde(other)]
    Unknown,
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
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

/// Who looks at a task's result before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    #[default]
    None,
    Person,
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Planned,
    Live,
    Stopping,
    Settled,
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

/// How a hired agent stands. A retired one never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    Active,
    Paused,
    Retired,
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// Every value that this version writes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ Self::Unknown => UNKNOWN }
            }

            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }

            /// Reads a stored word; one of a newer version is `Unknown`.
            pub fn read(word: &str) -> Self {
                Self::from_word(word).unwrap_or(Self::Unknown)
            }
        }

        impl Words for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Option<Self> {
                Self::from_word(word)
            }
        }
    };
}

words!(Review { None = "none", Person = "person" });

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
            Self::Active | Self::Paused => next != self && next != Self::Unknown,
            Self::Retired | Self::Unknown => false,
        }
    }
}

impl RunState {
    /// A run only moves forward, and ends once.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Planned => matches!(next, Self::Live | Self::Stopping | Self::Settled),
            Self::Live => matches!(next, Self::Stopping | Self::Settled),
            Self::Stopping => next == Self::Settled,
            Self::Settled | Self::Unknown => false,
        }
    }
}

impl TaskState {
    /// Where a run's outcome takes its task.
    pub fn after(outcome: Outcome, review: Review) -> Self {
        match (outcome, review) {
            (Outcome::Succeeded, Review::None) => Self::Done,
            // A kind of review that this version does not know is left to a person.
            (Outcome::Succeeded, Review::Person | Review::Unknown) => Self::Review,
            (Outcome::Cancelled, _) => Self::Cancelled,
            (Outcome::Failed | Outcome::TimedOut | Outcome::Lost | Outcome::Unknown, _) => {
                Self::Failed
            }
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

    #[test]
    fn a_word_of_a_newer_version_is_unknown() {
        fn read<T: serde::de::DeserializeOwned>() -> T {
            serde_json::from_value("frobnicated".into()).unwrap()
        }
        assert_eq!(read::<TaskState>(), TaskState::Unknown);
        assert_eq!(read::<WaitingFor>(), WaitingFor::Unknown);
        assert_eq!(read::<Review>(), Review::Unknown);
        assert_eq!(read::<RunState>(), RunState::Unknown);
        assert_eq!(read::<AgentState>(), AgentState::Unknown);
        assert_eq!(read::<Outcome>(), Outcome::Unknown);
        assert_eq!(RunState::read("frobnicated").word(), UNKNOWN);
        assert_eq!(serde_json::to_value(RunState::Unknown).unwrap(), UNKNOWN);
        for next in RunState::ALL {
            assert!(!RunState::Unknown.may_become(*next) && !next.may_become(RunState::Unknown));
        }
    }
}
