//! The bodies of ca-http-v1 as a server reads and writes them. Names are camelCase; unknown fields are
//! passed over and nearly everything may be missing, because callers are written by others. Numbers
//! that some send as texts are read as either. Nothing here decides what a session is.

use serde::{Deserialize, Deserializer, Serialize};

/// The name of the protocol, under which number an input is sent, so that the same one sent again is
/// not taken twice, and the caller's fencing token on it: the same words as on the caller's side.
pub use crate::wire::{FENCE as FENCE_HEADER, INPUT_NUMBER as INPUT_HEADER, PROTOCOL};

/// What a session is asked for with.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBody {
    /// The caller's run: asked for again with it, the same session is given.
    pub run_id: Option<String>,
    pub protocol: Option<String>,
    pub prompt: Option<String>,
    pub system_prompt: Option<String>,
    pub model: Option<String>,
    #[serde(default)]
    pub task: Option<Task>,
    #[serde(default, deserialize_with = "count")]
    pub fencing_token: Option<u64>,
    #[serde(default)]
    pub budget_envelope: Option<Remaining>,
    /// A conversation to be taken up, by the name that an earlier session gave it.
    #[serde(default)]
    pub session_resume: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Task {
    pub title: Option<String>,
    pub body: Option<String>,
}

/// What may still be spent. A unit that is absent has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct Remaining {
    #[serde(default, deserialize_with = "count")]
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    #[serde(default, deserialize_with = "count")]
    pub turns: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub ms: Option<u64>,
}

/// What a session is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    pub id: String,
    pub protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    pub resume: bool,
    pub cancel: bool,
    pub usage: bool,
}

/// A number that may be written as a text.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(u64),
        Text(String),
    }
    match Option::<Given>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Given::Number(number)) => Ok(Some(number)),
        Some(Given::Text(text)) if text.is_empty() => Ok(None),
        Some(Given::Text(text)) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_body_of_any_caller_is_read_as_far_as_it_goes() {
        let body = json!({
            "runId": "run_1", "taskId": "task_1", "leaseToken": "x", "fencingToken": "7",
            "mcpUrl": "http://127.0.0.1:1/mcp", "workspace": null, "prompt": "p",
            "budgetEnvelope": { "tokens": 5, "usd": 0.5 }, "sessionResume": null, "more": 1,
        });
        let read: SessionBody = serde_json::from_value(body).unwrap();
        assert_eq!((read.run_id.as_deref(), read.fencing_token), (Some("run_1"), Some(7)));
        let budget = read.budget_envelope.unwrap();
        assert_eq!((budget.tokens, budget.usd, budget.turns), (Some(5), Some(0.5), None));
        assert_eq!(serde_json::from_str::<SessionBody>("{}").unwrap(), SessionBody::default());
        assert!(serde_json::from_str::<SessionBody>(r#"{"fencingToken":"x"}"#).is_err());
    }
}
