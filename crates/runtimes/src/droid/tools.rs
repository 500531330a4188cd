//! What this agent's own tools do, by their names and parameters: the kind, a title for people, the
//! file a call is about, the change it makes and the plan it writes. A tool that is not known here is
//! shown by its name alone. Parameters are the model's words, so every part may be missing.

use super::wire::ToolCall;
use crate::headless::part;
use contract::event::{self, Diff, Location, Plan, PlanEntry, Via};
use contract::limits::TEXT_BYTES_MAX;
use serde_json::Value;

/// The call as an event.
pub(super) fn event(call: &ToolCall, id: &str) -> event::ToolUse {
    let name = call.tool_name.clone().unwrap_or_default();
    let input = &call.parameters;
    let path = part(input, "file_path").or_else(|| part(input, "directory_path"));
    let title = part(input, "command").or(path).or_else(|| part(input, "pattern"));
    let location = |path: &str| Location { path: path.to_owned(), line: None };
    event::ToolUse {
        tool_call_id: id.to_owned(),
        tool_kind: kind(&name).map(str::to_owned),
        name,
        input: input.clone(),
        via: Via::Native,
        title: title.map(str::to_owned),
        locations: path.map(location).into_iter().collect(),
        parent: None,
    }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "Read" | "LS" => "read",
        "Grep" | "Glob" => "search",
        "Create" | "Edit" | "MultiEdit" | "ApplyPatch" => "edit",
        "Execute" => "execute",
        "FetchUrl" | "WebSearch" => "fetch",
        _ => return None,
    })
}

/// What a call changes if it goes well. A text too long to be remembered is left out; the call's own
/// event has it.
pub(super) fn changes(call: &ToolCall, id: &str) -> Vec<Diff> {
    let either = |one: &str, other: &str| {
        let text = part(&call.parameters, one).or_else(|| part(&call.parameters, other));
        text.filter(|text| text.len() <= TEXT_BYTES_MAX).map(str::to_owned)
    };
    let (old_text, new_text) = match call.tool_name.as_deref() {
        Some("Create") => (None, either("content", "text")),
        Some("Edit") => (either("old_str", "old_string"), either("new_str", "new_string")),
        Some(_) | None => return Vec::new(),
    };
    let diff = |path: &str| Diff {
        path: path.to_owned(),
        patch: None,
        old_text,
        new_text,
        tool_call_id: Some(id.to_owned()),
    };
    part(&call.parameters, "file_path").map(diff).into_iter().collect()
}

/// The plan that a call writes down.
pub(super) fn plan(call: &ToolCall) -> Option<Plan> {
    if call.tool_name.as_deref() != Some("TodoWrite") {
        return None;
    }
    let entry = |todo: &Value| {
        Some(PlanEntry {
            text: part(todo, "content")?.to_owned(),
            status: part(todo, "status").unwrap_or("pending").to_owned(),
            priority: part(todo, "priority").map(str::to_owned),
        })
    };
    let todos = call.parameters.get("todos")?.as_array()?;
    Some(Plan { entries: todos.iter().filter_map(entry).collect() })
}
