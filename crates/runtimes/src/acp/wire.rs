//! The private mirror of what an agent says in ACP: JSON-RPC messages, one per line. Every field may
//! be missing and unknown ones are ignored, because agents differ more than their versions do.
//! Texts of arbitrary shape (inputs, outputs, `_meta`) stay JSON. Nothing here decides what a
//! message means: see `dialect` for requests and replies, `ear` for updates.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One message: a request (method and id), a notification (method alone) or a reply (id alone).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub method: Option<String>,
    pub id: Option<Value>,
    pub params: Option<Value>,
    pub result: Option<Value>,
    #[serde(deserialize_with = "refusal")]
    pub error: Option<Refusal>,
}

/// An error of JSON-RPC. `data` is a text, or an object with more about it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub code: Option<i64>,
    pub message: Option<String>,
    pub data: Option<Value>,
}

/// The answer to `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Greeting {
    pub protocol_version: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub agent_capabilities: Capabilities,
    #[serde(deserialize_with = "lenient")]
    pub agent_info: AgentInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentInfo {
    pub name: Option<String>,
    pub version: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Capabilities {
    pub load_session: bool,
    #[serde(deserialize_with = "lenient")]
    pub mcp_capabilities: McpCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub session_capabilities: SessionCapabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct McpCapabilities {
    pub http: bool,
}

/// Each is an object when it is offered.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionCapabilities {
    pub resume: Option<Value>,
}

/// The answer to `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Opened {
    pub session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub models: Option<Models>,
    #[serde(deserialize_with = "lenient")]
    pub modes: Option<Modes>,
    #[serde(deserialize_with = "lenient")]
    pub config_options: Vec<ConfigOption>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Models {
    pub current_model_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Modes {
    pub current_mode_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub available_modes: Vec<Mode>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mode {
    pub id: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
}

/// One value of an option.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OptionValue {
    pub value: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ConfigOption {
    pub id: Option<String>,
    pub category: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub current_value: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub options: Vec<OptionValue>,
}

impl ConfigOption {
    /// Whether the model is chosen by this one.
    pub fn is_model(&self) -> bool {
        let named = [&self.category, &self.id].into_iter().flatten().any(|word| word == "model");
        named && self.kind.as_deref().is_none_or(|kind| kind == "select")
    }

    /// Whether the mode is chosen by this one.
    pub fn is_mode(&self) -> bool {
        self.category.as_deref() == Some("mode")
    }

    /// Whether it has this value, as a text or as a yes or no.
    pub fn is(&self, value: &str) -> bool {
        match &self.current_value {
            Some(Value::String(current)) => current == value,
            Some(Value::Bool(current)) => *current == (value == "on"),
            _ => false,
        }
    }
}

/// The answer to `session/prompt`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Prompted {
    pub stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub usage: Option<Counts>,
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub meta: PromptedMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptedMeta {
    #[serde(deserialize_with = "lenient")]
    pub quota: Quota,
}

/// What some agents tell of their tokens beside the protocol: all together, and model by model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Quota {
    pub token_count: Option<Counts>,
    #[serde(deserialize_with = "lenient")]
    pub model_usage: Vec<ModelUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelUsage {
    pub model: Option<String>,
    pub token_count: Option<Counts>,
}

/// Tokens, by all the names that are used for them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Counts {
    pub total_tokens: Option<u64>,
    #[serde(alias = "input_tokens")]
    pub input_tokens: Option<u64>,
    #[serde(alias = "output_tokens")]
    pub output_tokens: Option<u64>,
    #[serde(alias = "cachedInputTokens")]
    pub cached_read_tokens: Option<u64>,
    #[serde(alias = "cacheWriteInputTokens")]
    pub cached_write_tokens: Option<u64>,
    #[serde(alias = "reasoningOutputTokens")]
    pub thought_tokens: Option<u64>,
}

/// What a `session/update` carries.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Updated {
    pub session_id: Option<String>,
    pub update: Option<Update>,
}

/// One update; each kind uses some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Update {
    pub session_update: Option<String>,
    /// One piece of a text, or a list of what a call brought.
    pub content: Option<Value>,
    pub message_id: Option<String>,
    pub description: Option<String>,
    pub severity: Option<String>,
    #[serde(flatten)]
    pub call: Call,
    #[serde(deserialize_with = "lenient")]
    pub entries: Vec<Entry>,
    pub current_mode_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub available_commands: Vec<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "lenient")]
    pub config_options: Vec<ConfigOption>,
    pub used: Option<u64>,
    pub size: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub cost: Option<Cost>,
    /// Of a turn that an update ends, as its reply would have them.
    pub stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub usage: Option<Counts>,
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// A call of a tool, or what changed of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Call {
    pub tool_call_id: Option<String>,
    pub title: Option<String>,
    pub name: Option<String>,
    pub kind: Option<String>,
    pub status: Option<String>,
    pub raw_input: Option<Value>,
    pub raw_output: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub locations: Vec<Place>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Place {
    pub path: Option<String>,
    pub line: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub content: Option<String>,
    pub status: Option<String>,
    pub priority: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cost {
    pub amount: Option<f64>,
    pub currency: Option<String>,
}

/// What a `session/request_permission` carries.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Asking {
    #[serde(deserialize_with = "lenient")]
    pub tool_call: AskedCall,
    #[serde(deserialize_with = "lenient")]
    pub options: Vec<Choice>,
}

/// The call that a question is about, as far as the agent tells it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AskedCall {
    pub content: Option<Value>,
    #[serde(flatten)]
    pub call: Call,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Choice {
    pub option_id: Option<String>,
    pub kind: Option<String>,
    pub name: Option<String>,
}

/// An error of another shape than an object's is its own message: the request is answered by it all the
/// same.
fn refusal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Refusal>, D::Error> {
    let said = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(match Value::deserialize(from)? {
        Value::Null => None,
        object @ Value::Object(_) => {
            Some(serde_json::from_value(object.clone()).unwrap_or_else(|_| Refusal {
                message: Some(object.to_string()),
                ..Refusal::default()
            }))
        }
        other => Some(Refusal { message: Some(said(other)), ..Refusal::default() }),
    })
}

/// What cannot be read as this, or is null, is as if it were not there.
fn lenient<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: serde::de::DeserializeOwned + Default,
{
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
