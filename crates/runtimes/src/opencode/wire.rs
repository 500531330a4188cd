//! The lines of `run --format json`, as serde sees them: a kind, the conversation and one part of a
//! message. Every field may be missing; a line of an unknown kind is kept as a `log` by whoever hears
//! it. Nothing outside this folder may know these shapes.

use serde::Deserialize;
use serde_json::Value;

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    StepStart(Said<StepStart>),
    Text(Said<Text>),
    /// A thought; printed with `--thinking` alone.
    Reasoning(Said<Text>),
    ToolUse(Said<Tool>),
    StepFinish(Said<StepFinish>),
    Error(Trouble),
}

/// A line about a part of a message.
#[derive(Debug, Deserialize)]
pub(super) struct Said<Part> {
    #[serde(rename = "sessionID")]
    pub session: Option<String>,
    pub part: Option<Part>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StepStart {}

/// Always whole: a text is printed when it has ended.
#[derive(Debug, Deserialize)]
pub(super) struct Text {
    pub id: Option<String>,
    pub text: Option<String>,
}

/// A call with its result: calls are printed when they are over.
#[derive(Debug, Deserialize)]
pub(super) struct Tool {
    pub id: Option<String>,
    pub tool: Option<String>,
    #[serde(rename = "callID")]
    pub call_id: Option<String>,
    #[serde(default)]
    pub state: ToolState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolState {
    /// `completed` or `error`.
    pub status: Option<String>,
    pub input: Value,
    pub output: Option<String>,
    pub error: Option<String>,
    pub title: Option<String>,
    pub metadata: Value,
    pub time: Option<Span>,
}

/// Milliseconds since 1970.
#[derive(Debug, Deserialize)]
pub(super) struct Span {
    pub start: Option<u64>,
    pub end: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StepFinish {
    pub id: Option<String>,
    /// `stop`, `tool-calls`, `length`, `content-filter`, and what else a provider may say.
    pub reason: Option<String>,
    pub tokens: Option<Tokens>,
    pub cost: Option<f64>,
}

/// What one step took. All buckets are disjoint: `output` does not hold `reasoning`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub input: u64,
    pub output: u64,
    pub reasoning: u64,
    pub cache: Cache,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cache {
    pub read: u64,
    pub write: u64,
}

/// An error of the session: an object with a name, or plain words.
#[derive(Debug, Deserialize)]
pub(super) struct Trouble {
    #[serde(rename = "sessionID")]
    pub session: Option<String>,
    #[serde(default)]
    pub error: Value,
}
