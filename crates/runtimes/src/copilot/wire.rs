//! The lines of `--output-format json`, as serde sees them. Every field may be missing; types whose
//! lines only repeat what others tell are known and carry nothing. A line of an unknown type is kept
//! as a `log` by whoever hears it. Nothing outside this folder may know these shapes.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// One line of standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", content = "data")]
pub(super) enum Line {
    #[serde(rename = "session.tools_updated")]
    ToolsUpdated(Tools),
    #[serde(rename = "session.mcp_servers_loaded")]
    ServersLoaded(Servers),
    #[serde(rename = "session.mcp_server_status_changed")]
    ServerStatus(ServerStatus),
    #[serde(rename = "user.message")]
    UserMessage(IgnoredAny),
    #[serde(rename = "assistant.turn_start")]
    TurnStart(IgnoredAny),
    #[serde(rename = "assistant.message_delta")]
    MessageDelta(Delta),
    #[serde(rename = "assistant.message")]
    Message(Message),
    #[serde(rename = "assistant.reasoning_delta")]
    ReasoningDelta(Delta),
    #[serde(rename = "assistant.reasoning")]
    Reasoning(Reasoning),
    #[serde(rename = "assistant.turn_retry")]
    TurnRetry(Retry),
    #[serde(rename = "model.call_finished")]
    CallFinished(Finished),
    #[serde(rename = "model.call_failure")]
    CallFailure(Failure),
    #[serde(rename = "tool.execution_start")]
    ToolStart(ToolStart),
    #[serde(rename = "tool.execution_partial_result")]
    ToolPartial(ToolPartial),
    #[serde(rename = "tool.execution_complete")]
    ToolComplete(ToolComplete),
    #[serde(rename = "session.info")]
    Info(Info),
    #[serde(rename = "session.error")]
    Error(SessionError),
    #[serde(rename = "abort")]
    Abort(IgnoredAny),
    // What these say, the others say too.
    #[serde(
        rename = "session.skills_loaded",
        alias = "session.mcp_server_tools_loaded",
        alias = "session.background_tasks_changed",
        alias = "assistant.message_start",
        alias = "assistant.tool_call_delta",
        alias = "assistant.turn_end",
        alias = "assistant.idle",
        alias = "agent.interrupted",
        alias = "model.call_start",
        alias = "model.call_final_result",
        alias = "tool.shell_output"
    )]
    Known(IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub(super) struct Tools {
    pub model: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Servers {
    #[serde(default)]
    pub servers: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ServerStatus {
    pub status: Option<String>,
}

/// A piece of a text (`messageId`) or of a thought (`reasoningId`).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta {
    pub message_id: Option<String>,
    pub reasoning_id: Option<String>,
    pub delta_content: Option<String>,
    pub parent_tool_call_id: Option<String>,
}

/// A whole message of the model, whose pieces may have come before.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub message_id: Option<String>,
    #[serde(default)]
    pub content: String,
    pub parent_tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasoning {
    pub reasoning_id: Option<String>,
    #[serde(default)]
    pub content: String,
    pub parent_tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Retry {
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Finished {
    pub outcome: Option<String>,
}

/// A call of the model that failed; whether it is tried again is told by a line after it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    pub status_code: Option<u64>,
    pub error_message: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolStart {
    pub tool_call_id: Option<String>,
    pub tool_name: Option<String>,
    pub tool_title: Option<String>,
    #[serde(default)]
    pub arguments: Value,
    pub parent_tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolPartial {
    pub tool_call_id: Option<String>,
    pub partial_output: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolComplete {
    pub tool_call_id: Option<String>,
    /// Missing is no proof that it went well.
    pub success: Option<bool>,
    #[serde(default)]
    pub result: Value,
    pub error: Option<ToolError>,
    pub shell_execution: Option<Shell>,
    #[serde(default)]
    pub file_edits: Vec<FileEdit>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolError {
    pub message: Option<String>,
    pub code: Option<String>,
}

/// How a command ended; the call itself counts as a success whatever it was.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shell {
    pub exit_code: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileEdit {
    pub path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Info {
    pub info_type: Option<String>,
    pub message: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionError {
    pub error_type: Option<String>,
    pub message: Option<String>,
    pub status_code: Option<u64>,
}

/// The last line, which alone has no `data`. An enum, because the tag of a mere struct is not looked at:
/// every line of an unknown type would be the last one.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Last {
    Result(Result),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Result {
    pub session_id: Option<String>,
    pub exit_code: Option<i64>,
    pub usage: Option<Used>,
}

/// What a run cost is told in requests of a subscription, never in tokens.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Used {
    pub premium_requests: Option<f64>,
}
