//! The private mirror of what the agent prints, in both of its shapes: lines with a `type` (`exec
//! --json`) and JSON-RPC messages without the `jsonrpc` field (`app-server`). Every field may be
//! missing, because versions differ; the two shapes share their items, spelled in snake case in one
//! and in camel case in the other. Nothing here decides what a line means: see `dialect`.

use contract::Tokens;
use contract::event::Diff;
use serde::Deserialize;
use serde_json::Value;

/// One line, of either shape.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub method: Option<String>,
    pub id: Option<Value>,
    pub params: Option<Params>,
    pub result: Option<Reply>,
    /// Of a reply that refuses, and of `turn.failed`.
    pub error: Option<Trouble>,
    pub thread_id: Option<String>,
    pub message: Option<String>,
    pub item: Option<Item>,
    pub usage: Option<Counts>,
}

/// What a notification or a question carries; each uses some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Params {
    pub thread_id: Option<String>,
    pub item: Option<Item>,
    pub item_id: Option<String>,
    pub delta: Option<String>,
    pub turn: Option<Turn>,
    pub token_usage: Option<TokenUsage>,
    pub rate_limits: Option<RateLimits>,
    pub auth_mode: Option<String>,
    pub request_id: Option<Value>,
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    pub command_actions: Option<Vec<Action>>,
    pub available_decisions: Option<Vec<Value>>,
    pub error: Option<Trouble>,
    pub will_retry: Option<bool>,
    pub plan: Option<Vec<Step>>,
    pub message: Option<String>,
    /// What a `configWarning` says.
    pub summary: Option<String>,
    /// How the start of an MCP server goes.
    /// A word, or an object in the notifications of a thread.
    pub status: Option<Value>,
}

/// The answer to a request of ours.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Reply {
    pub user_agent: Option<String>,
    pub thread: Option<Thread>,
    pub turn: Option<Turn>,
    pub model: Option<String>,
    pub cwd: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Thread {
    pub id: Option<String>,
    pub model: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Turn {
    pub id: Option<String>,
    pub status: Option<String>,
    pub error: Option<Trouble>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Trouble {
    pub message: Option<String>,
    /// A word, or an object with one key whose value may hold `httpStatusCode`.
    pub codex_error_info: Option<Value>,
    pub additional_details: Option<String>,
}

/// A unit of the agent's work.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    pub id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub text: Option<String>,
    pub message: Option<String>,
    pub command: Option<String>,
    pub cwd: Option<String>,
    #[serde(alias = "aggregatedOutput")]
    pub aggregated_output: Option<String>,
    #[serde(alias = "exitCode")]
    pub exit_code: Option<i64>,
    #[serde(alias = "durationMs")]
    pub duration_ms: Option<u64>,
    pub status: Option<String>,
    pub changes: Option<Vec<Change>>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub arguments: Option<Value>,
    pub result: Option<Value>,
    pub error: Option<Value>,
    pub query: Option<String>,
    pub summary: Option<Vec<Value>>,
    pub content: Option<Vec<Value>>,
    pub items: Option<Vec<Step>>,
}

/// A file that is changed; `kind` is a word in one shape and an object with a `type` in the other.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change {
    pub path: Option<String>,
    pub kind: Option<Value>,
    pub diff: Option<String>,
}

impl Change {
    /// The change as it is told to others: of a file that is new or goes away the agent gives the
    /// whole text, of any other a patch.
    pub(super) fn to_diff(&self, tool_call_id: Option<String>) -> Diff {
        let text = self.diff.clone();
        let is_patch = text.as_deref().is_some_and(|text| text.starts_with("@@"));
        let (patch, old_text, new_text) = match self.word() {
            "add" if !is_patch => (None, None, text),
            "delete" if !is_patch => (None, text, None),
            _ => (text, None, None),
        };
        let path = self.path.clone().unwrap_or_default();
        Diff { path, patch, old_text, new_text, tool_call_id }
    }

    pub(super) fn word(&self) -> &str {
        let kind = self.kind.as_ref();
        kind.and_then(|kind| kind.as_str().or_else(|| kind.get("type")?.as_str())).unwrap_or("")
    }
}

/// A step of a plan: `text` and `completed`, or `step` and `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    #[serde(alias = "step")]
    pub text: Option<String>,
    pub completed: Option<bool>,
    pub status: Option<String>,
}

/// What a command does, as the agent itself reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Action {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TokenUsage {
    pub total: Option<Counts>,
    pub last: Option<Counts>,
    pub model_context_window: Option<u64>,
}

/// Tokens as they are told: `input_tokens` includes the cached ones, and reasoning is a part of the
/// output.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    #[serde(alias = "inputTokens")]
    input_tokens: u64,
    #[serde(alias = "cachedInputTokens")]
    cached_input_tokens: u64,
    #[serde(alias = "cacheWriteInputTokens")]
    cache_write_input_tokens: u64,
    #[serde(alias = "outputTokens")]
    output_tokens: u64,
    #[serde(alias = "reasoningOutputTokens")]
    reasoning_output_tokens: Option<u64>,
}

impl Counts {
    /// The same in disjoint buckets.
    pub(super) fn tokens(&self) -> Tokens {
        let cached = self.cached_input_tokens.saturating_add(self.cache_write_input_tokens);
        Tokens {
            input_uncached: self.input_tokens.saturating_sub(cached),
            cache_read: self.cached_input_tokens,
            cache_write: self.cache_write_input_tokens,
            output: self.output_tokens,
            reasoning: self.reasoning_output_tokens,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RateLimits {
    pub primary: Option<Window>,
    pub secondary: Option<Window>,
    pub rate_limit_reached_type: Option<String>,
    pub plan_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Window {
    pub used_percent: Option<f64>,
    pub window_duration_mins: Option<u64>,
    /// Seconds since the Unix epoch.
    pub resets_at: Option<i64>,
}
