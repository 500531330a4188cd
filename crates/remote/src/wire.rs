//! The bodies and headers of ca-http-v1, as both sides write and read them. Names are camelCase, what
//! is not known is null or absent, and unknown fields are passed over, because the other side is
//! written by others. What an event looks like is no business of this crate: it is passed on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The protocol's own name.
pub const PROTOCOL: &str = "ca-http-v1";
/// Where sessions are, behind the base address of a remote.
pub const SESSIONS: [&str; 2] = ["v1", "sessions"];
/// The header by which a session is asked for once: the run's id.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// The header by which a word is taken once: its number, counted from 1 in each session.
pub const INPUT_NUMBER: &str = "Ostler-Input";
/// The header by which a word of someone who owns the work no longer is known: the fencing token under
/// which its session was opened.
pub const FENCE: &str = "Ostler-Fence";
/// The header by which a stream is taken up: the number of the last event that was heard.
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
/// The code of a refusal whose reason is that someone else owns the work by now.
pub const FENCE_STALE: &str = "fence_stale";
/// The code of a refusal whose reason is that the session to be resumed is not known.
pub const SESSION_UNKNOWN: &str = "native_session_unknown";

/// What a session is asked for with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewSession {
    pub run_id: Option<String>,
    pub task_id: Option<String>,
    pub agent_id: Option<String>,
    /// The bearer of the relay, and the number that rises when the work changes hands.
    pub lease_token: Option<String>,
    pub fencing_token: Option<u64>,
    pub lease_expires_at: Option<String>,
    /// Where the relayed tools are, should the remote reach it.
    pub mcp_url: Option<String>,
    pub budget_envelope: Option<BudgetEnvelope>,
    /// Null, or how the workspace is had: a remote does not see our disk.
    pub workspace: Option<Value>,
    pub task: Option<Task>,
    pub prompt: String,
    pub system_prompt: Option<String>,
    pub model: Option<String>,
    /// A session of an earlier run that is to be gone on with.
    pub session_resume: Option<String>,
    pub protocol: Option<String>,
}

/// What may be spent; what is absent has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetEnvelope {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub turns: Option<u32>,
    pub ms: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    pub title: Option<String>,
    pub body: Option<String>,
    pub context: Option<Value>,
}

/// A session that was made, or was there already.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// What a remote can do beyond the least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    pub resume: Option<bool>,
    pub cancel: Option<bool>,
    pub usage: Option<bool>,
}

/// Why a remote refused something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusal {
    pub code: Option<String>,
    pub message: Option<String>,
}
