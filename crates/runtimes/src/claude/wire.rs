//! The private mirror of the agent's lines, both ways. Every field may be missing and unknown ones
//! are ignored, because the vendor adds some with every version. The keys of a line come in any
//! order (`type` may be the last), so one struct holds the fields of all lines and a line is read in
//! one pass. Nothing here decides what a line means; that is in `ear.rs` and `result.rs`.

use crate::lenient::Lenient;
use contract::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    System,
    Assistant,
    User,
    StreamEvent,
    Result,
    RateLimitEvent,
    ControlRequest,
    ControlResponse,
    ControlCancelRequest,
    KeepAlive,
    #[default]
    #[serde(other)]
    Other,
}

/// Any line: the fields of its kind are set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    #[serde(rename = "type")]
    pub kind: Kind,
    pub subtype: Option<String>,
    pub session_id: Option<String>,
    /// The call of the sub-agent whose line this is.
    pub parent_tool_use_id: Option<String>,

    // system
    pub model: Option<String>,
    pub tools: Option<Vec<Value>>,
    #[serde(rename = "apiKeySource")]
    pub api_key_source: Option<String>,
    pub cwd: Option<String>,
    pub attempt: Option<u64>,
    pub max_retries: Option<u64>,
    pub retry_delay_ms: Option<f64>,
    pub error_status: Option<u64>,
    /// A word here and on an `assistant` line.
    pub error: Option<Value>,
    pub content: Option<Value>,
    pub level: Option<String>,
    pub description: Option<String>,
    pub tool_use_id: Option<String>,

    // assistant and user
    pub message: Option<Message>,
    pub is_api_error_message: Option<bool>,
    #[serde(rename = "isReplay")]
    pub is_replay: Option<bool>,
    #[serde(rename = "isSynthetic")]
    pub is_synthetic: Option<bool>,
    pub tool_use_result: Option<Value>,
    pub tool_result_meta: Option<Vec<ResultMeta>>,

    // stream_event
    pub event: Option<StreamEvent>,

    // result
    pub is_error: Option<bool>,
    pub result: Option<String>,
    pub structured_output: Option<Value>,
    pub errors: Option<Vec<Value>>,
    pub stop_reason: Option<String>,
    pub terminal_reason: Option<String>,
    pub api_error: Option<String>,
    pub api_error_status: Option<u64>,
    pub usage: Option<TurnSpent>,
    pub total_cost_usd: Option<f64>,
    #[serde(rename = "modelUsage")]
    pub model_usage: Option<BTreeMap<String, ModelSpent>>,
    pub model_usage_since_last_result: Option<BTreeMap<String, ModelSpent>>,
    pub queued_turn_count: Option<u64>,

    // rate_limit_event
    pub rate_limit_info: Option<RateLimit>,

    // control
    pub request_id: Option<String>,
    pub request: Option<Request>,
    pub response: Option<Response>,
}

impl Line {
    /// The text of the first block, which is all that a line made by the agent itself has.
    pub(super) fn text(&self) -> String {
        let texts = self.blocks().iter().map(|block| block.text.as_deref().unwrap_or_default());
        texts.collect::<Vec<_>>().join("\n")
    }

    pub(super) fn blocks(&self) -> &[Block] {
        match self.message.as_ref().and_then(|message| message.content.as_ref()) {
            Some(Content::Blocks(blocks)) => blocks,
            Some(Content::Text(block)) => std::slice::from_ref(block),
            None => &[],
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub id: Option<String>,
    pub model: Option<String>,
    pub content: Option<Content>,
    pub usage: Option<Lenient<AnswerSpent>>,
}

/// What an answer has cost so far.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnswerSpent {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl AnswerSpent {
    pub(super) fn tokens(&self) -> Tokens {
        Tokens {
            input_uncached: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            reasoning: None,
        }
    }
}

/// A list of blocks, or a bare text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Blocks(Vec<Block>),
    #[serde(deserialize_with = "bare")]
    Text(Block),
}

fn bare<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Block, D::Error> {
    let text = Some(String::deserialize(deserializer)?);
    Ok(Block { kind: BlockKind::Text, text, ..Block::default() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlockKind {
    Text,
    Thinking,
    ToolUse,
    ToolResult,
    #[default]
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub kind: BlockKind,
    pub text: Option<String>,
    pub thinking: Option<String>,
    pub id: Option<String>,
    pub name: Option<String>,
    pub input: Option<Value>,
    pub tool_use_id: Option<String>,
    pub content: Option<Value>,
    pub is_error: Option<bool>,
}

impl Block {
    /// The length of what the model wrote in it.
    pub(super) fn written_bytes(&self) -> usize {
        let texts = [&self.text, &self.thinking, &self.name].into_iter().flatten();
        let input = self.input.as_ref().map_or(0, |input| input.to_string().len());
        texts.map(String::len).fold(input, usize::saturating_add)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultMeta {
    pub id: Option<String>,
    pub permission_decision: Option<PermissionDecision>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PermissionDecision {
    pub decision: Option<String>,
}

/// An event of the model's own stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamEvent {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub index: Option<u64>,
    pub message: Option<Message>,
    pub delta: Option<Delta>,
    pub usage: Option<Lenient<AnswerSpent>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub text: Option<String>,
    pub thinking: Option<String>,
}

/// What one model cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelSpent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub thinking_tokens: Option<u64>,
    #[serde(rename = "costUSD")]
    pub cost_usd: Option<f64>,
    pub provider: Option<String>,
}

/// What the main model of one turn cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TurnSpent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub service_tier: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RateLimit {
    /// `allowed`, `allowed_warning` or `rejected`.
    pub status: Option<String>,
    pub resets_at: Option<f64>,
    pub rate_limit_type: Option<String>,
    /// A share of one.
    pub utilization: Option<f64>,
    pub is_using_overage: Option<bool>,
    pub unified_windows: Option<BTreeMap<String, Window>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Window {
    pub utilization: Option<f64>,
    pub resets_at: Option<f64>,
}

/// What the agent asks of us.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    pub subtype: Option<String>,
    pub tool_name: Option<String>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub input: Option<Map<String, Value>>,
    pub tool_use_id: Option<String>,
}

/// What the agent answers us.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    pub subtype: Option<String>,
    pub request_id: Option<String>,
    pub error: Option<Value>,
}

/// A line to the agent.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Said<'a> {
    User { message: UserMessage<'a> },
    ControlRequest { request_id: &'a str, request: Control },
    ControlResponse { response: Reply<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct UserMessage<'a> {
    role: &'static str,
    content: [TextBlock<'a>; 1],
}

#[derive(Debug, Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum Control {
    Initialize,
    Interrupt,
}

#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum Reply<'a> {
    Success { request_id: &'a str, response: Permit<'a> },
    Error { request_id: &'a str, error: &'a str },
}

#[derive(Debug, Serialize)]
#[serde(tag = "behavior", rename_all = "snake_case")]
pub(super) enum Permit<'a> {
    Allow {
        #[serde(rename = "updatedInput", skip_serializing_if = "Option::is_none")]
        updated_input: Option<&'a Map<String, Value>>,
    },
    Deny {
        message: &'a str,
    },
}

impl Said<'_> {
    /// The line with its newline.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut frame = serde_json::to_vec(self).unwrap_or_default();
        debug_assert!(!frame.is_empty(), "plain data with string keys always serializes");
        frame.push(b'\n');
        frame
    }
}

pub(super) fn user(text: &str) -> Vec<u8> {
    let content = [TextBlock { r#type: "text", text }];
    Said::User { message: UserMessage { role: "user", content } }.frame()
}

pub(super) fn control(request_id: &str, request: Control) -> Vec<u8> {
    Said::ControlRequest { request_id, request }.frame()
}

pub(super) fn permit(request_id: &str, response: Permit<'_>) -> Vec<u8> {
    Said::ControlResponse { response: Reply::Success { request_id, response } }.frame()
}

pub(super) fn refuse(request_id: &str, error: &str) -> Vec<u8> {
    Said::ControlResponse { response: Reply::Error { request_id, error } }.frame()
}
