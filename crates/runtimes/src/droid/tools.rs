//! What this agent's own tools do, by their names and parameters: the kind, a title for people, the
//! file a call is about, the change it makes and the plan it writes. A tool that is not known here is
//! shown by its name alone. Parameters are the model's words, so every part may be missing.

use super::wire::ToolCall;
use crate::headless::can_be_kept;
use crate::told::{self, part};
use contract::event::{self, Diff, Plan};

/// The call as an event.
pub(super) fn event(call: &ToolCall, id: &str) -> event::ToolUse {
    let name = call.tool_name.as_deref().unwrap_or_default();
    let input = &call.parameters;
    let path = part(input, "file_path").or_else(|| part(input, "directory_path"));
    let title = part(input, "command").or(path).or_else(|| part(input, "pattern"));
    told::tool_use(id, name, kind(name), input, title, path)
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

/// What a call changes if it goes well. Texts too long to be remembered are left out; the call's own
/// event has them.
pub(super) fn changes(call: &ToolCall, id: &str) -> Vec<Diff> {
    let either = |one: &str, other: &str| {
        part(&call.parameters, one).or_else(|| part(&call.parameters, other)).map(str::to_owned)
    };
    let (old_text, new_text) = match call.tool_name.as_deref() {
        Some("Create") => (None, either("content", "text")),
        Some("Edit") => (either("old_str", "old_string"), either("new_str", "new_string")),
        Some(_) | None => return Vec::new(),
    };
    let Some(path) = part(&call.parameters, "file_path").map(str::to_owned) else {
        return Vec::new();
    };
    let tool_call_id = Some(id.to_owned());
    let change = vec![Diff { path, patch: None, old_text, new_text, tool_call_id }];
    if can_be_kept(&change) {
        return change;
    }
    change.into_iter().map(|diff| Diff { old_text: None, new_text: None, ..diff }).collect()
}

/// The plan that a call writes down.
pub(super) fn plan(call: &ToolCall) -> Option<Plan> {
    let plans = call.tool_name.as_deref() == Some("TodoWrite");
    plans.then(|| told::todos(&call.parameters)).flatten()
}
