//! What this agent's own tools do, by their names and arguments: the kind, a title for people, the
//! file a call is about and the changes it makes. A tool that is not known here is shown by its name
//! alone. Arguments are the model's words, so every part may be missing.

use crate::headless::{About, change, kept, part};
use contract::event::Diff;
use serde_json::Value;

pub(super) fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    let path = part(input, "path");
    let title = part(input, "command").or(path).or_else(|| part(input, "pattern"));
    About { kind: kind(name), title, path }
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

/// What a call changes if it goes well.
pub(super) fn changes(id: &str, name: &str, input: &Value) -> Vec<Diff> {
    let Some(path) = part(input, "path") else {
        return Vec::new();
    };
    let edit = |edit: &Value| change(id, path, part(edit, "oldText"), part(edit, "newText"));
    kept(match (name, input.get("edits").and_then(Value::as_array)) {
        ("write", _) => vec![change(id, path, None, part(input, "content"))],
        ("edit", Some(edits)) => edits.iter().map(edit).collect(),
        ("edit", None) => vec![edit(input)],
        _ => Vec::new(),
    })
}
