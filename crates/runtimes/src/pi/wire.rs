//! The lines of `--mode json`, as serde sees them. Every field may be missing; types whose lines only
//! repeat what others tell are known and carry nothing. A line of an unknown type is kept as a `log`
//! by whoever hears it. Nothing outside this folder may know these shapes.

use crate::lenient::Lenient;
use serde::Deserialize;
use serde_json::Value;

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Session(Session),
    AgentStart,
    MessageUpdate(Update),
    MessageEnd(MessageEnd),
    ToolExecutionStart(ToolStart),
    ToolExecutionUpdate(ToolUpdate),
    ToolExecutionEnd(ToolEnd),
    AutoRetryStart(RetryStart),
    AutoRetryEnd(RetryEnd),
    EntryAppended(Appended),
    AgentSettled,
    // What these say, the others say too.
    TurnStart,
    TurnEnd,
    MessageStart,
    AgentEnd,
}

/// Something that it wrote into its own record of the conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Appended {
    pub entry: Option<Entry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    pub id: Option<String>,
    pub cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Update {
    pub assistant_message_event: Option<Piece>,
}

/// A piece of a message: `text_delta`, `thinking_delta`, and their starts, ends and calls.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub content_index: u64,
    pub delta: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageEnd {
    pub message: Option<Message>,
}

/// A whole message; only the model's own says anything new.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub role: Option<String>,
    #[serde(default)]
    pub content: Value,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub usage: Option<Lenient<Spent>>,
    pub stop_reason: Option<String>,
    pub raw_stop_reason: Option<String>,
    pub error_message: Option<String>,
}

/// Tokens and dollars of one message. The buckets are disjoint, and `output` holds `reasoning`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spent {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: Option<u64>,
    pub cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    pub total: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolStart {
    pub tool_call_id: Option<String>,
    pub tool_name: Option<String>,
    #[serde(default)]
    pub args: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUpdate {
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub partial_result: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolEnd {
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub result: Value,
    /// Missing is no proof that it went well.
    pub is_error: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetryStart {
    pub delay_ms: Option<u64>,
    pub error_message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RetryEnd {
    #[serde(default)]
    pub success: bool,
}

/// The texts of a list of contents, joined; `None` when there is none.
pub(super) fn text_in(content: &Value) -> Option<String> {
    let part = |part: &Value| {
        (part["type"] == "text").then(|| part["text"].as_str().map(str::to_owned)).flatten()
    };
    let texts: Vec<_> = content.as_array()?.iter().filter_map(part).collect();
    (!texts.is_empty()).then(|| texts.concat())
}
