//! What this agent's own tools do, by their names and arguments: the kind, a title for people, the
//! files a call is about and the changes it makes. A tool that is not known here is shown by its
//! name alone. Arguments are the model's words, so every part may be missing.

use super::wire::Content;
use crate::headless;
use contract::event::{self, Diff, Location, ToolStatus, Via};
use serde_json::Value;

/// The call as an event.
pub(super) fn event(call: Content) -> event::ToolUse {
    let name = call.tool_name.unwrap_or_default();
    let path = text(&call.input, "path").map(str::to_owned);
    let title = words(&call.input["commands"])
        .or_else(|| path.clone())
        .or_else(|| words(&call.input["queries"]))
        .or_else(|| words(&call.input["files"]));
    let location = |path: String| Location { path, line: None };
    event::ToolUse {
        tool_call_id: call.tool_call_id.unwrap_or_default(),
        tool_kind: kind(&name).map(str::to_owned),
        name,
        title,
        locations: path.map(location).into_iter().collect(),
        input: call.input,
        via: Via::Native,
        parent: None,
    }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "read_files" => "read",
        "search_codebase" => "search",
        "editor" => "edit",
        "run_commands" => "execute",
        "fetch_web_content" => "fetch",
        _ => return None,
    })
}

/// What a call changes if it goes well; what is too long to be remembered is in the call's event.
pub(super) fn changes(call: &Content) -> Vec<Diff> {
    let path = text(&call.input, "path");
    let (Some(path), Some("editor")) = (path, call.tool_name.as_deref()) else {
        return Vec::new();
    };
    let part = |name: &str| text(&call.input, name).map(str::to_owned);
    let change = Diff {
        path: path.to_owned(),
        patch: None,
        old_text: part("old_text"),
        new_text: part("new_text"),
        tool_call_id: call.tool_call_id.clone(),
    };
    if headless::can_be_kept(std::slice::from_ref(&change)) {
        vec![change]
    } else {
        vec![Diff { old_text: None, new_text: None, ..change }]
    }
}

/// How a call went: it may hold several steps, and each says for itself whether it went well.
pub(super) fn status(done: &Content) -> ToolStatus {
    let failed = |step: &Value| step["success"] == false;
    let steps = done.output.as_array().map(Vec::as_slice).unwrap_or_default();
    let bad = !done.error.is_null() || steps.iter().any(failed) || failed(&done.output);
    if bad { ToolStatus::Error } else { ToolStatus::Ok }
}

/// The words of a list, one after the other.
fn words(list: &Value) -> Option<String> {
    let list = list.as_array()?;
    let word = |item: &Value| {
        let word = item.as_str().or_else(|| text(item, "path"))?;
        Some(word.to_owned())
    };
    let words: Vec<_> = list.iter().filter_map(word).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn text<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}
