//! The words siblings share. A dialect (runtimes) turns bytes into drafts and signals; the run
//! machine (engine) turns signals into utterances; a dialect turns utterances into frames.
//! The engine sees signals, never message text.

use crate::event::{
    Body, Origin, PermissionOption, PermissionRequest, Raw, Remaining, StopReason, Usage,
};
use crate::fault::Code;
use crate::known::{self, Known};
use crate::money::Billing;
use crate::reset::Reset;
use crate::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The level of the `log` event that tells what the agent of a run takes during it, in a run whose
/// caller is elsewhere: its text has the words of the agent's hello.
pub const ACCEPTS: &str = "accepts";

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
        /// The agent said that the call was denied.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
    },
    /// A relayed call: an obligation, answered exactly once.
    ToolCalled(ToolCall),
    /// The agent asks whether it may do something of its own: answered exactly once.
    Asked(Question),
    /// The agent took its question back, or answered it by itself.
    AskWithdrawn {
        request: String,
    },
    /// The agent named its own conversation, by which it can be taken up again.
    Session {
        id: String,
    },
    /// The agent does not know the conversation that it was to take up.
    SessionUnknown,
    /// The model's provider holds the agent back, and the agent waits by itself.
    Limited(Limited),
    /// When a limit of the provider ends, in the words it was told in.
    Resets(Reset),
    /// The model answers again.
    LimitLifted,
    /// The model gave one more answer: told at its beginning where the agent says when that is, else
    /// at its end. A budget of turns counts these.
    ModelAnswer,
    /// The model wrote a whole text: unless a call follows, its turn is about to end. Told before the
    /// spending of that answer, so that finished work is not stopped for its last report.
    FinalText,
    /// The agent named the model of its conversation.
    Model {
        model: String,
    },
    /// The runtime told how the use of its account is paid for. Never sent for what an agent could
    /// state of itself: it lifts budgets of dollars.
    Billing {
        billing: Billing,
    },
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
    /// All that an agent without a closing mark says of its end: it counts if the process then
    /// exits with 0, and not at all otherwise.
    ResultAtExit(Ending),
    /// The agent did not end by itself when it was told to, and its session was taken away.
    Forced,
    /// The agent acted against the permission policy: the run ends for it.
    PolicyBroken {
        /// What it did, for a person.
        what: String,
    },
    /// The agent answered the first request of its protocol.
    Greeted,
    /// The agent said something that shows that it goes on. From the first one on, other output of
    /// the agent no longer counts against the limit of silence.
    Progress,
}

/// A question of the agent's own: may it do this?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What the agent's side knows it by; the answer carries it back.
    pub request: String,
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// In the agent's words, untrusted.
    pub title: String,
    /// What is asked for only looks.
    pub reads: bool,
    /// What is asked for, in full as far as it fits.
    #[serde(default)]
    pub content: Box<PermissionRequest>,
    /// The answers the agent takes, each with its kind: `allow_once`, `allow_always`,
    /// `reject_once`, `reject_always`.
    pub options: Vec<PermissionOption>,
}

/// How the model's provider holds an agent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    pub code: Code,
    /// Waiting does not help: the agent goes on trying in vain, or hangs.
    pub terminal: bool,
    /// How long the agent said it waits.
    #[serde(default)]
    pub wait_ms: Option<u64>,
    #[serde(default)]
    pub resets_at: Option<Timestamp>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolAnswer {
    Value(Value),
    #[schemars(with = "ToolError")]
    Error {
        #[serde(deserialize_with = "known::word")]
        code: Code,
        message: String,
    },
}

/// Why a relayed tool gave no answer.
// A type of its own, so that schemas name it: generators of clients make up names, even one twice.
#[derive(JsonSchema)]
pub struct ToolError {
    #[schemars(with = "Known<Code>")]
    pub code: Code,
    pub message: String,
}

impl ToolAnswer {
    /// The words of a failure that another MCP server told. Its answer is kept whole, since it may hold
    /// images and structured content.
    pub fn foreign_failure(&self) -> Option<String> {
        let Self::Value(value) = self else { return None };
        let blocks = value["content"].as_array().filter(|_| value["isError"] == true)?;
        let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        Some(texts.join("\n"))
    }
}

/// What the agent is to be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Utterance {
    ToolResult {
        tool_call_id: String,
        answer: ToolAnswer,
    },
    BudgetUpdate {
        remaining: Remaining,
    },
    /// The answer to a question of the agent's own: one of its options, or none of them.
    Decide {
        request: String,
        option: Option<String>,
        /// Why a person denied it, for the agent to read.
        #[serde(default)]
        reason: Option<String>,
    },
    Message {
        text: String,
    },
    Interrupt,
    Shutdown {
        reason: Code,
    },
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
