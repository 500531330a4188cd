//! The lines of `--output-format stream-json`, as serde sees them. Every field may be missing, and a
//! line of an unknown type is no error of ours: whoever hears it keeps it as a `log`. Nothing
//! outside this folder may know these shapes.

use crate::lenient::Lenient;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    System(Init),
    /// The prompt said back.
    User {},
    Assistant(Said),
    Thinking(Thought),
    ToolCall(ToolCall),
    Result(Box<Finish>),
}

/// The first line, of subtype `init`.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    pub subtype: Option<String>,
    pub session_id: Option<String>,
    /// The name that people see, such as `Auto`.
    pub model: Option<String>,
    pub cwd: Option<String>,
}

/// A message of the model: whole, or a piece when pieces were asked for.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    pub message: Option<Message>,
    /// A piece has this, and so has a message that is said once more whole before a tool.
    pub timestamp_ms: Option<Value>,
    /// Only what is said once more has this.
    pub model_call_id: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub content: Vec<Part>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    pub text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Thought {
    pub subtype: Option<String>,
    pub text: Option<String>,
}

/// `started`, then `completed`. The one key of `tool_call` that names a tool holds its arguments
/// and, when it is completed, its result.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    pub subtype: Option<String>,
    pub call_id: Option<String>,
    #[serde(default)]
    pub tool_call: Map<String, Value>,
}

/// The last line. Its parts are read one by one, so that a change in one does not cost the end.
#[derive(Debug, Deserialize)]
pub(super) struct Finish {
    #[serde(default)]
    pub subtype: Value,
    #[serde(default)]
    pub is_error: Value,
    #[serde(default)]
    pub result: Value,
    pub usage: Option<Lenient<Count>>,
}

/// What the whole process spent. The cached tokens are not among `input_tokens`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Count {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
}

impl Said {
    /// The text of all its parts.
    pub(super) fn text(&self) -> String {
        let parts = self.message.iter().flat_map(|message| &message.content);
        parts.filter_map(|part| part.text.as_deref()).collect()
    }
}
