//! The lines of `--json`, as serde sees them. Every field may be missing, and `accumulated`, which
//! repeats the whole text with every piece of it, is not read at all. A line of an unknown type is
//! kept as a `log` by whoever hears it. Nothing outside this folder may know these shapes.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    AgentEvent { event: Event },
    RunResult(RunResult),
    // What the hooks were told, the events say too.
    HookEvent(IgnoredAny),
}

/// What an agent does.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    IterationStart(IgnoredAny),
    ContentStart(Content),
    ContentUpdate(Content),
    ContentEnd(Content),
    Usage(Spent),
    Error(Failure),
    // The result of the run says it again, and more.
    IterationEnd(IgnoredAny),
    Done(IgnoredAny),
}

/// A piece of a text or a thought, or a call. The event of a start brings a piece too.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    pub content_type: Option<String>,
    pub text: Option<String>,
    pub reasoning: Option<String>,
    pub tool_name: Option<String>,
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub input: Value,
    pub update: Option<Update>,
    #[serde(default)]
    pub output: Value,
    #[serde(default)]
    pub error: Value,
    pub duration_ms: Option<u64>,
}

/// What a command printed since the last update.
#[derive(Debug, Deserialize)]
pub(super) struct Update {
    pub chunk: Option<String>,
}

/// Tokens of one answer, or of the run. `inputTokens` hold the cached ones.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Dollars of the run so far; 0 also for a model whose price is not known.
    pub total_cost: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    pub error: Option<Words>,
    pub error_class: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Words {
    pub message: Option<String>,
}

/// The last line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunResult {
    pub finish_reason: Option<String>,
    pub text: Option<String>,
    pub usage: Option<Spent>,
    /// With the agents that were started by the first one.
    pub aggregate_usage: Option<Spent>,
}
