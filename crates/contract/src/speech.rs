//! The words siblings share. A dialect (runtimes) turns bytes into drafts and signals; the run
//! machine (engine) turns signals into utterances; a dialect turns utterances into frames.
//! The engine sees signals, never message text.

use crate::event::{Body, Origin, Raw, Remaining, StopReason, Usage};
use crate::fault::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event before it has a number: not yet sealed, so it never leaves the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub origin: Origin,
    pub body: Body,
    pub raw: Option<Raw>,
}

impl Draft {
    pub fn agent(body: Body) -> Self {
        Self { origin: Origin::Agent, body, raw: None }
    }

    pub fn ostler(body: Body) -> Self {
        Self { origin: Origin::Ostler, body, raw: None }
    }

    pub fn operator(body: Body) -> Self {
        Self { origin: Origin::Operator, body, raw: None }
    }
}

/// A fact the run machine needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum Signal {
    /// The agent said what it takes beyond the bare protocol.
    Accepts {
        message: bool,
        interrupt: bool,
    },
    TurnStarted,
    TurnEnded {
        stop: StopReason,
    },
    /// A native call that silence does not count against.
    ToolOpened {
        tool_call_id: String,
    },
    ToolClosed {
        tool_call_id: String,
    },
    /// A relayed call: an obligation, answered exactly once.
    ToolCalled(ToolCall),
    /// Spending, as an increment or a total by its basis; already a `usage` draft too.
    Spent(Usage),
    /// The model's provider reported an error; an end of turn after it is no success.
    ModelError {
        code: Code,
    },
    /// The agent's explicit end.
    Ended(Ending),
    /// A structured result that is not an explicit end.
    Result(Ending),
}

/// What the agent said of its own end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// `None` is success.
    pub code: Option<Code>,
    pub text: Option<String>,
    pub output: Option<Value>,
    pub detail: Option<String>,
}

/// A call of a relayed tool. The arguments are the agent's own and untrusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    pub tool_call_id: String,
    pub tool: String,
    #[serde(default)]
    pub args: Value,
}

/// What a relayed tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolAnswer {
    Value(Value),
    Error { code: Code, message: String },
}

/// What the agent is to be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Utterance {
    ToolResult { tool_call_id: String, answer: ToolAnswer },
    BudgetUpdate { remaining: Remaining },
    Message { text: String },
    Interrupt,
    Shutdown { reason: Code },
}

/// How the agent's output ended: what a dialect is told when no more frames will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// The process ended and its pipes were read to the end.
    Ended,
    /// The end of the output is missing: keeper or remote lost.
    Cut,
}
