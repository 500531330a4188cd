//! The one document that `agent --local --json` prints at its end, as serde sees it. Every field may
//! be missing, and what is not read here is in the trace. Nothing outside this folder may know this
//! shape.

use serde::Deserialize;
use serde_json::Value;

/// What is printed at the end: a run, or why there was none.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    /// Only a failure says so.
    pub ok: Option<bool>,
    #[serde(default)]
    pub error: Value,
    #[serde(default)]
    pub payloads: Vec<Payload>,
    pub meta: Option<Meta>,
}

/// A piece of the answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload {
    pub text: Option<String>,
    #[serde(default)]
    pub is_error: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    /// Missing is no proof that nobody stopped it.
    pub aborted: Option<bool>,
    pub stop_reason: Option<String>,
    #[serde(default)]
    pub error: Value,
    pub final_assistant_visible_text: Option<String>,
    pub agent_meta: Option<AgentMeta>,
    pub tool_summary: Option<ToolSummary>,
    pub system_prompt_report: Option<PromptReport>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentMeta {
    pub session_id: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub usage: Option<Spent>,
}

/// Tokens and dollars of the run. The buckets are disjoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spent {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    pub total: Option<f64>,
}

/// All that is told of its calls: how many, of which tools, and how many failed.
#[derive(Debug, Deserialize)]
pub(super) struct ToolSummary {
    #[serde(default)]
    pub calls: u64,
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default)]
    pub failures: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptReport {
    pub workspace_dir: Option<String>,
    pub tools: Option<Tools>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tools {
    #[serde(default)]
    pub entries: Vec<serde::de::IgnoredAny>,
}

impl Document {
    /// Any object would do as a document of which every field is missing, so one that has neither a
    /// run nor an error in it is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let document: Self = serde_json::from_str(text).ok()?;
        let told = document.meta.is_some() || document.ok.is_some() || !document.error.is_null();
        told.then_some(document)
    }
}
