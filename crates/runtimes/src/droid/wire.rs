//! The lines of `exec -o stream-json`, as serde sees them. Every field may be missing; a line of an
//! unknown type is kept as a `log` by whoever hears it. Nothing outside this folder may know these
//! shapes.

use serde::Deserialize;
use serde_json::Value;

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    System(Init),
    Message(Message),
    Reasoning(Message),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Completion(Completion),
    Error(Complaint),
}

#[derive(Debug, Deserialize)]
pub(super) struct Init {
    /// Only `init` was seen.
    pub subtype: Option<String>,
    pub session_id: Option<String>,
    pub cwd: Option<String>,
    pub model: Option<String>,
    pub tools: Option<Vec<Value>>,
}

/// A whole text: the prompt said back, the model's words, or a thought without a role.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub role: Option<String>,
    pub id: Option<String>,
    pub text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    pub id: Option<String>,
    pub tool_name: Option<String>,
    #[serde(default)]
    pub parameters: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult {
    pub id: Option<String>,
    /// Missing is no proof that it went well.
    pub is_error: Option<bool>,
    #[serde(default)]
    pub value: Value,
    #[serde(default)]
    pub error: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Completion {
    pub final_text: Option<String>,
    pub usage: Option<Spent>,
}

/// Tokens of the whole run; the buckets are disjoint.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
}

/// An error of `agent_loop`, or the word of `cli` that it failed.
#[derive(Debug, Deserialize)]
pub(super) struct Complaint {
    pub source: Option<String>,
    pub message: Option<String>,
}
