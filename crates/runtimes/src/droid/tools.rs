//! What this agent's own tools do, by their names and parameters: the kind, a title for people, the
//! file a call is about, the change it makes and the plan it writes. A tool that is not known here is
//! shown by its name alone. Parameters are the model's words, so every part may be missing.

use crate::headless::{About, change, kept, part, todos};
use contract::event::{Diff, Plan};
use serde_json::Value;

pub(super) fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    let path = part(input, "file_path").or_else(|| part(input, "directory_path"));
    let title = part(input, "command").or(path).or_else(|| part(input, "pattern"));
    About { kind: kind(name), title, path }
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

/// What a call changes if it goes well.
pub(super) fn changes(id: &str, name: &str, input: &Value) -> Vec<Diff> {
    let either = |one: &str, other: &str| part(input, one).or_else(|| part(input, other));
    let (old, new) = match name {
        "Create" => (None, either("content", "text")),
        "Edit" => (either("old_str", "old_string"), either("new_str", "new_string")),
        _ => return Vec::new(),
    };
    let path = part(input, "file_path");
    kept(path.map(|path| change(id, path, old, new)).into_iter().collect())
}

/// The plan that a call writes down.
pub(super) fn plan(name: &str, input: &Value) -> Option<Plan> {
    (name == "TodoWrite").then(|| todos(input, "content")).flatten()
}
