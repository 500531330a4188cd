//! What this agent's own tools do, by their names and parameters: the kind, a title for people, the
//! file a call is about, the change it makes, and the plan it writes. A tool that is not known here
//! is shown by its name alone. Parameters are the model's words, so every part may be missing.

use crate::headless::{About, change, part, short, todos};
use contract::event::{Diff, Plan};
use serde_json::Value;

pub(super) fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    let path = part(input, "file_path").or_else(|| part(input, "dir_path"));
    let title = part(input, "command").or(path).or_else(|| part(input, "pattern"));
    About { kind: kind(name), title, path }
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

/// What a call changes if it goes well.
pub(super) fn changes(id: &str, name: &str, input: &Value) -> Vec<Diff> {
    let text = |name: &str| part(input, name).filter(short);
    let (old, new) = match name {
        "write_file" => (None, text("content")),
        "replace" => (text("old_string"), text("new_string")),
        _ => return Vec::new(),
    };
    part(input, "file_path").map(|path| change(id, path, old, new)).into_iter().collect()
}

/// The plan that a call writes down.
pub(super) fn plan(name: &str, input: &Value) -> Option<Plan> {
    (name == "write_todos").then(|| todos(input, "description")).flatten()
}
