//! What someone wants of a live run: a wish in its durable inbox, taken exactly once by the run's
//! holder in the Batch that acts on it.

use crate::event::Remaining;
use crate::speech::ToolAnswer;
use crate::{AskId, Code, CommandId, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A wish, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    pub id: CommandId,
    pub run_id: RunId,
    pub asked_at: Timestamp,
    #[serde(flatten)]
    pub wish: Wish,
}

/// Interrupt a turn, stop a run; cancelling is said of tasks alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum Wish {
    /// End the run. `at_once` skips the graces.
    Stop {
        reason: Code,
        #[serde(default)]
        at_once: bool,
    },
    /// Give the agent another message.
    Say { text: String },
    /// End the turn, not the run.
    Interrupt,
    /// Answer a permission question.
    Answer {
        ask_id: AskId,
        option: String,
        /// Who answers. The host writes it down by the token that came; what is sent is not looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why it is denied; the agent is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The result of a tool call that the requester of this run carried out.
    ToolResult { tool_call_id: String, answer: ToolAnswer },
    /// From now on no more than this may be spent; a unit that is absent stays as it is.
    Budget { remaining: Remaining },
    /// A wish of a newer version. It is taken, and the run logs that it was not understood.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}
