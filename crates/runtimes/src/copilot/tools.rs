//! What this agent's own tools do, by their names and arguments: the kind, a title for people and
//! the file a call is about. What a call changed is told by the agent itself when it is over. A tool
//! that is not known here is shown by its name alone.

use super::wire::{ToolComplete, ToolStart};
use contract::event::{self, Diff, Location, Via};
use serde_json::Value;

/// The call as an event.
pub(super) fn event(call: ToolStart) -> event::ToolUse {
    let name = call.tool_name.unwrap_or_default();
    let text = |key: &str| call.arguments.get(key).and_then(Value::as_str);
    let (path, command) = (text("path"), text("command"));
    let title = command.or(path).or_else(|| text("pattern")).map(str::to_owned).or(call.tool_title);
    let location = |path: &str| Location { path: path.to_owned(), line: None };
    let locations = path.map(location).into_iter().collect();
    event::ToolUse {
        tool_call_id: call.tool_call_id.unwrap_or_default(),
        tool_kind: kind(&name).map(str::to_owned),
        name,
        title,
        locations,
        input: call.arguments,
        via: Via::Native,
        parent: call.parent_tool_call_id,
    }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "view" => "read",
        "grep" | "rg" | "glob" => "search",
        "create" | "edit" | "apply_patch" => "edit",
        "bash" | "read_bash" | "write_bash" | "stop_bash" => "execute",
        "web_fetch" => "fetch",
        _ => return None,
    })
}

/// The files that a call changed, with the agent's own patch where it can only mean one of them.
pub(super) fn changes(done: &ToolComplete) -> Vec<Diff> {
    let patch = done.result.get("detailedContent").and_then(Value::as_str);
    let patch =
        patch.filter(|_| done.file_edits.len() == 1).map(|patch| patch.trim_start_matches('\n'));
    let paths = done.file_edits.iter().filter_map(|edit| edit.path.as_ref());
    let diff = |path: &String| Diff {
        path: path.clone(),
        patch: patch.map(str::to_owned),
        old_text: None,
        new_text: None,
        tool_call_id: done.tool_call_id.clone(),
    };
    paths.map(diff).collect()
}
