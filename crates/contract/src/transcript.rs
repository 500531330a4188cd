//! The one projection of events to the entries of a transcript, as people and other tools read it:
//! `init`, `assistant`, `thinking`, `user`, `tool_call`, `tool_result`, `diff`, `result`, `stderr`,
//! `stdout`, `system`. Used by the CLI, the API's `?view=transcript` and the dashboard alike.

use crate::event::{Body, Event, Outcome, Stream, ToolStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One entry of a transcript. Camel case: this is a foreign format, kept as it is known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Entry {
    Init {
        model: Option<String>,
        session_id: Option<String>,
    },
    Assistant {
        text: String,
        delta: bool,
    },
    Thinking {
        text: String,
        delta: bool,
    },
    User {
        text: String,
    },
    ToolCall {
        name: String,
        tool_use_id: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Value,
        is_error: bool,
    },
    Diff {
        path: String,
        patch: Option<String>,
    },
    Result {
        text: Option<String>,
        input_tokens: u64,
        output_tokens: u64,
        cached_tokens: u64,
        cost_usd: Option<f64>,
        subtype: &'static str,
        is_error: bool,
        errors: Vec<String>,
    },
    Stderr {
        text: String,
    },
    Stdout {
        text: String,
    },
    System {
        text: String,
    },
}

/// What an event is in a transcript. Bookkeeping that says nothing to a reader is `None`.
pub fn entry(event: &Event) -> Option<Entry> {
    Some(match &event.body {
        Body::Session(session) => {
            Entry::Init { model: session.model.clone(), session_id: session.native_session.clone() }
        }
        Body::AssistantText(text) => {
            Entry::Assistant { text: text.text.clone(), delta: text.delta }
        }
        Body::Thinking(text) => Entry::Thinking { text: text.text.clone(), delta: text.delta },
        Body::UserText(text) => Entry::User { text: text.text.clone() },
        Body::ToolUse(tool) => Entry::ToolCall {
            name: tool.name.clone(),
            tool_use_id: tool.tool_call_id.clone(),
            input: tool.input.clone(),
        },
        Body::ToolResult(result) => Entry::ToolResult {
            tool_use_id: result.tool_call_id.clone(),
            content: result.output.clone(),
            is_error: result.status != ToolStatus::Ok,
        },
        Body::Diff(diff) => Entry::Diff { path: diff.path.clone(), patch: diff.patch.clone() },
        Body::Result(result) => Entry::Result {
            text: result.text.clone(),
            input_tokens: result.totals.tokens.input_uncached,
            output_tokens: result.totals.tokens.output,
            cached_tokens: result.totals.tokens.cache_read,
            cost_usd: result.totals.effective_nanousd.map(|nano| nano.usd()),
            subtype: result.outcome.word(),
            is_error: result.outcome != Outcome::Succeeded,
            errors: result.message.iter().cloned().collect(),
        },
        Body::Log(log) => match log.stream {
            Stream::Stderr => Entry::Stderr { text: log.text.clone() },
            Stream::Stdout => Entry::Stdout { text: log.text.clone() },
            Stream::Ostler => Entry::System { text: log.text.clone() },
        },
        Body::Progress(progress) => Entry::System { text: progress.summary.clone() },
        Body::Comment(comment) => Entry::System { text: comment.text.clone() },
        Body::Error(error) => Entry::System { text: format!("{}: {}", error.code, error.message) },
        Body::Permission(permission) => Entry::System { text: permission.title.clone() },
        Body::Plan(plan) => Entry::System {
            text: plan
                .entries
                .iter()
                .map(|entry| entry.text.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
        },
        Body::Lifecycle(lifecycle) => Entry::System {
            text: match &lifecycle.why {
                Some(why) => format!("{:?}: {why}", lifecycle.phase).to_lowercase(),
                None => format!("{:?}", lifecycle.phase).to_lowercase(),
            },
        },
        Body::Quota(quota) => Entry::System { text: format!("quota of {}", quota.provider) },
        Body::Budget(budget) => Entry::System {
            text: format!("budget of {}: {:?}", budget.scope, budget.level).to_lowercase(),
        },
        Body::Turn(_) | Body::ToolUpdate(_) | Body::Usage(_) | Body::Lease(_) => return None,
    })
}
