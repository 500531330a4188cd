//! The lines of `-o stream-json`, as serde sees them. Every field may be missing, and a line of an
//! unknown type is no error of ours: whoever hears it keeps it as a `log`. Nothing outside this
//! folder may know these shapes.

use crate::lenient::Lenient;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Init(Init),
    Message(Message),
    ToolUse(ToolUse),
    ToolResult(ToolResult),
    Error(Complaint),
    Result(Box<Finish>),
}

/// The first line.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    pub session_id: Option<String>,
    /// What was asked for; `auto` unless a model was named.
    pub model: Option<String>,
}

/// Text of the model in pieces, or the prompt said back.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub role: Option<String>,
    pub content: Option<String>,
    #[serde(default)]
    pub delta: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolUse {
    pub tool_name: Option<String>,
    pub tool_id: Option<String>,
    #[serde(default)]
    pub parameters: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolResult {
    pub tool_id: Option<String>,
    pub status: Option<String>,
    #[serde(default)]
    pub output: Value,
    #[serde(default)]
    pub error: Value,
}

/// Trouble on the way: `severity` is `warning` or `error`.
#[derive(Debug, Deserialize)]
pub(super) struct Complaint {
    pub severity: Option<String>,
    pub message: Option<String>,
}

/// The last line. Its parts are read one by one, so that a change in one does not cost the end.
#[derive(Debug, Deserialize)]
pub(super) struct Finish {
    #[serde(default)]
    pub status: Value,
    #[serde(default)]
    pub error: Value,
    pub stats: Option<Lenient<Stats>>,
}

/// What a whole process spent, and each of its models.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    #[serde(flatten)]
    pub all: Count,
    pub models: BTreeMap<String, Count>,
}

/// Tokens of one model. `input_tokens` holds the cached ones, `input` does not; what `total_tokens`
/// has beyond input and output are the thoughts.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Count {
    pub total_tokens: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached: u64,
}
