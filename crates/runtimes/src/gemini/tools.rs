//! What this agent's own tools do, by their names and parameters: the kind, a title for people, the
//! file a call is about, the change it makes, and the plan it writes. A tool that is not known here
//! is shown by its name alone. Parameters are the model's words, so every part may be missing.

use super::wire::ToolUse;
use contract::event::{self, Diff, Location, Plan, PlanEntry, Via};
use contract::limits::TEXT_BYTES_MAX;
use serde_json::Value;

/// The call as an event.
pub(super) fn event(call: &ToolUse, id: &str) -> event::ToolUse {
    let name = call.tool_name.clone().unwrap_or_default();
    let path = text(&call.parameters, "file_path").or_else(|| text(&call.parameters, "dir_path"));
    let title =
        text(&call.parameters, "command").or(path).or_else(|| text(&call.parameters, "pattern"));
    let location = |path: &str| Location { path: path.to_owned(), line: None };
    event::ToolUse {
        tool_call_id: id.to_owned(),
        tool_kind: kind(&name).map(str::to_owned),
        name,
        input: call.parameters.clone(),
        via: Via::Native,
        title: title.map(str::to_owned),
        locations: path.map(location).into_iter().collect(),
        parent: None,
    }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "read_file" | "read_many_files" | "list_directory" => "read",
        "glob" | "grep_search" | "search_file_content" => "search",
        "write_file" | "replace" => "edit",
        "run_shell_command" => "execute",
        "web_fetch" | "google_web_search" => "fetch",
        _ => return None,
    })
}

/// What a call changes if it goes well. A text too long to be remembered is left out; the call's
/// own event has it.
pub(super) fn change(call: &ToolUse, id: &str) -> Option<Diff> {
    let part = |name: &str| text(&call.parameters, name);
    let (old, new) = match call.tool_name.as_deref()? {
        "write_file" => (None, part("content")),
        "replace" => (part("old_string"), part("new_string")),
        _ => return None,
    };
    let kept = |text: &str| (text.len() <= TEXT_BYTES_MAX).then(|| text.to_owned());
    Some(Diff {
        path: part("file_path")?.to_owned(),
        patch: None,
        old_text: old.and_then(kept),
        new_text: new.and_then(kept),
        tool_call_id: Some(id.to_owned()),
    })
}

/// The plan that a call writes down.
pub(super) fn plan(call: &ToolUse) -> Option<Plan> {
    if call.tool_name.as_deref() != Some("write_todos") {
        return None;
    }
    let entry = |todo: &Value| {
        Some(PlanEntry {
            text: text(todo, "description")?.to_owned(),
            status: text(todo, "status").unwrap_or("pending").to_owned(),
            priority: None,
        })
    };
    let todos = call.parameters.get("todos")?.as_array()?;
    Some(Plan { entries: todos.iter().filter_map(entry).collect() })
}

fn text<'a>(parameters: &'a Value, name: &str) -> Option<&'a str> {
    parameters.get(name).and_then(Value::as_str)
}
