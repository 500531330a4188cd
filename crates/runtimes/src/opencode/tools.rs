//! What this agent's own tools do, by their names, inputs and results: the kind, a title for people,
//! the file a call is about, the changes it made and the plan it wrote. A tool that is not known here
//! is shown by its name alone. Inputs are the model's words, so every part may be missing.

use super::trouble;
use super::wire::{Tool, ToolState};
use crate::headless::{About, Came, change, part, todos, tool_use};
use contract::event::{self, Diff, Plan, ToolStatus};
use serde_json::Value;

/// The tool that stands for a call of one that does not exist.
const INVALID: &str = "invalid";
const COMPLETED: &str = "completed";

/// The call as an event. What the agent itself calls it comes after a command and before a file.
pub(super) fn call(tool: &Tool, id: &str) -> event::ToolUse {
    let (name, input) = (tool.tool.clone().unwrap_or_default(), tool.state.input.clone());
    let call = tool_use(id.to_owned(), name, input, about);
    let own = tool.state.title.clone().filter(|_| part(&call.input, "command").is_none());
    event::ToolUse { title: own.or(call.title), ..call }
}

fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    let path = part(input, "filePath").or_else(|| part(input, "path"));
    About { kind: kind(name), title: part(input, "command").or(path), path }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "read" | "list" => "read",
        "glob" | "grep" | "codesearch" => "search",
        "write" | "edit" | "multiedit" | "patch" | "apply_patch" => "edit",
        "bash" => "execute",
        "webfetch" | "websearch" => "fetch",
        _ => return None,
    })
}

/// What came of it. A command that ended badly is completed for the agent, and not for us.
pub(super) fn came(tool: &Tool) -> Came {
    let state = &tool.state;
    let went_well = state.status.as_deref() == Some(COMPLETED)
        && tool.tool.as_deref() != Some(INVALID)
        && state.metadata["exit"].as_i64().is_none_or(|exit| exit == 0);
    let output = state.error.as_ref().or(state.output.as_ref());
    Came {
        status: if went_well { ToolStatus::Ok } else { ToolStatus::Error },
        denied: denied(state).is_some(),
        output: output.map_or(Value::Null, |output| Value::from(output.as_str())),
        duration_ms: state.time.as_ref().and_then(|time| time.end?.checked_sub(time.start?)),
        changes: Vec::new(),
    }
}

/// The words by which a call was not permitted.
pub(super) fn denied(state: &ToolState) -> Option<&str> {
    state.error.as_deref().filter(|error| trouble::denied(error))
}

/// What a call changed. The agent tells it as patches where it made some.
pub(super) fn changes(tool: &Tool, id: &str) -> Vec<Diff> {
    let ToolState { input, metadata, .. } = &tool.state;
    let patched = |path: &str, patch: Option<&str>| {
        let patch = patch.map(str::to_owned);
        Diff { patch, ..change(id, path, None, None) }
    };
    match (tool.tool.as_deref(), part(input, "filePath")) {
        (Some("write"), Some(path)) => vec![change(id, path, None, part(input, "content"))],
        (Some("edit"), Some(path)) => vec![match part(metadata, "diff") {
            patch @ Some(_) => patched(path, patch),
            None => change(id, path, part(input, "oldString"), part(input, "newString")),
        }],
        (Some("apply_patch"), _) => {
            let files = metadata["files"].as_array().into_iter().flatten();
            let change = |file: &Value| {
                let path = part(file, "movePath").or_else(|| part(file, "filePath"))?;
                Some(patched(path, part(file, "patch")))
            };
            files.filter_map(change).collect()
        }
        (Some(_) | None, _) => Vec::new(),
    }
}

/// The plan that a call wrote down.
pub(super) fn plan(tool: &Tool) -> Option<Plan> {
    let plans = tool.tool.as_deref() == Some("todowrite");
    plans.then(|| todos(&tool.state.input, "content")).flatten()
}
