//! The lines of `--headless --json`, as serde sees them. They have no `type`; `kind` names them.
//! Every field may be missing, and a line of an unknown kind is no error of ours: whoever hears it
//! keeps it as a `log`. Nothing outside this folder may know these shapes.

use serde::Deserialize;
use serde_json::Value;

/// One line that is JSON; all others are words for people.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Line {
    MessageEvent(Message),
    ActionEvent(Box<Action>),
    ObservationEvent(Observation),
    /// A call that was held back.
    UserRejectObservation(Observation),
    /// A call that could not be made at all.
    AgentErrorEvent(Observation),
    ConversationErrorEvent(Trouble),
}

/// A message of the user or of the model, by its source.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub source: Option<String>,
    pub llm_message: Option<Words>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Words {
    #[serde(default)]
    pub content: Vec<Part>,
    pub reasoning_content: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    pub text: Option<String>,
}

/// A call of a tool, with what was said and thought before it.
#[derive(Debug, Deserialize)]
pub(super) struct Action {
    #[serde(default)]
    pub thought: Vec<Part>,
    pub reasoning_content: Option<String>,
    pub tool_name: Option<String>,
    pub tool_call_id: Option<String>,
    /// The arguments as they were understood; nothing when they were not.
    #[serde(default)]
    pub action: Value,
    #[serde(default)]
    pub tool_call: Value,
}

/// What came of a call.
#[derive(Debug, Deserialize)]
pub(super) struct Observation {
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub observation: Value,
    pub error: Option<String>,
    pub rejection_reason: Option<String>,
}

/// The conversation cannot go on.
#[derive(Debug, Deserialize)]
pub(super) struct Trouble {
    pub code: Option<String>,
    pub detail: Option<String>,
}

/// The texts of all parts.
pub(super) fn joined(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| part.text.as_deref()).collect()
}
