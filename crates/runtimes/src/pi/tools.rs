//! What this agent's own tools do, by their names and arguments: the kind, a title for people, the
//! file a call is about and the changes it makes. A tool that is not known here is shown by its name
//! alone. Arguments are the model's words, so every part may be missing.

use super::wire::ToolStart;
use contract::event::{self, Diff, Location, Via};
use contract::limits::TEXT_BYTES_MAX;
use serde_json::Value;

/// The call as an event.
pub(super) fn event(call: &ToolStart, id: &str) -> event::ToolUse {
    let name = call.tool_name.clone().unwrap_or_default();
    let path = text(&call.args, "path");
    let title = text(&call.args, "command").or(path).or_else(|| text(&call.args, "pattern"));
    let location = |path: &str| Location { path: path.to_owned(), line: None };
    event::ToolUse {
        tool_call_id: id.to_owned(),
        tool_kind: kind(&name).map(str::to_owned),
        name,
        input: call.args.clone(),
        via: Via::Native,
        title: title.map(str::to_owned),
        locations: path.map(location).into_iter().collect(),
        parent: None,
    }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "read" | "ls" => "read",
        "grep" | "find" => "search",
        "write" | "edit" => "edit",
        "bash" => "execute",
        _ => return None,
    })
}

/// What a call changes if it goes well; all of it together must be short enough to be remembered,
/// and what is not is in the call's own event.
pub(super) fn changes(call: &ToolStart, id: &str) -> Vec<Diff> {
    let Some(path) = text(&call.args, "path") else {
        return Vec::new();
    };
    let diff = |old: Option<&str>, new: Option<&str>| Diff {
        path: path.to_owned(),
        patch: None,
        old_text: old.map(str::to_owned),
        new_text: new.map(str::to_owned),
        tool_call_id: Some(id.to_owned()),
    };
    let changes = match call.tool_name.as_deref() {
        Some("write") => vec![diff(None, text(&call.args, "content"))],
        Some("edit") => {
            let edits = call.args.get("edits").and_then(Value::as_array);
            let edit = |edit: &Value| diff(text(edit, "oldText"), text(edit, "newText"));
            edits.map_or_else(|| vec![edit(&call.args)], |edits| edits.iter().map(edit).collect())
        }
        Some(_) | None => Vec::new(),
    };
    let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let size = |diff: &Diff| diff.path.len() + bytes(&diff.old_text) + bytes(&diff.new_text);
    if changes.iter().map(size).sum::<usize>() > TEXT_BYTES_MAX {
        return vec![diff(None, None)];
    }
    changes
}

fn text<'a>(args: &'a Value, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}
