//! What this agent's own tools do, by their names and arguments: the kind, a title for people and
//! the file a call is about. What a call changed is told by the agent itself when it is over. A tool
//! that is not known here is shown by its name alone.

use super::wire::{ToolComplete, ToolStart};
use crate::headless::{About, part, tool_use};
use contract::event::{self, Diff};
use serde_json::Value;

/// The call as an event. The agent has a title too, for those that tell nothing by themselves.
pub(super) fn event(call: ToolStart) -> event::ToolUse {
    let id = call.tool_call_id.unwrap_or_default();
    let event = tool_use(id, call.tool_name.unwrap_or_default(), call.arguments, about);
    let title = event.title.or(call.tool_title);
    event::ToolUse { title, parent: call.parent_tool_call_id, ..event }
}

fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    let path = part(input, "path");
    let title = part(input, "command").or(path).or_else(|| part(input, "pattern"));
    About { kind: kind(name), title, path }
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
    let patch = part(&done.result, "detailedContent").filter(|_| done.file_edits.len() == 1);
    let patch = patch.map(|patch| patch.trim_start_matches('\n'));
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
