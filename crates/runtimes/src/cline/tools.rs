//! What this agent's own tools do, by their names and arguments: the kind, a title for people, the
//! files a call is about and the changes it makes. A tool that is not known here is shown by its
//! name alone. Arguments are the model's words, so every part may be missing.

use super::wire::Content;
use crate::headless::{About, change, kept, part, tool_use};
use contract::event::{self, Diff, ToolStatus};
use serde_json::Value;

/// The call as an event. What it does to several things at once is in lists.
pub(super) fn event(call: Content) -> event::ToolUse {
    let list = |name: &str| words(&call.input[name]);
    let path = || part(&call.input, "path").map(str::to_owned);
    let title = list("commands").or_else(path).or_else(|| list("queries"));
    let title = title.or_else(|| list("files"));
    let id = call.tool_call_id.unwrap_or_default();
    let event = tool_use(id, call.tool_name.unwrap_or_default(), call.input, about);
    event::ToolUse { title, ..event }
}

fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    About { kind: kind(name), title: None, path: part(input, "path") }
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

/// What a call changes if it goes well.
pub(super) fn changes(call: &Content) -> Vec<Diff> {
    let id = call.tool_call_id.as_deref().unwrap_or_default();
    let text = |name: &str| part(&call.input, name);
    match (text("path"), call.tool_name.as_deref()) {
        (Some(path), Some("editor")) => {
            kept(vec![change(id, path, text("old_text"), text("new_text"))])
        }
        (_, _) => Vec::new(),
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
        let word = item.as_str().or_else(|| part(item, "path"))?;
        Some(word.to_owned())
    };
    let words: Vec<_> = list.iter().filter_map(word).collect();
    (!words.is_empty()).then(|| words.join("; "))
}
