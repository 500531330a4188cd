//! What the calls of an agent's own tools have in common: the event of one, the change it makes, and
//! the plan it writes down. Inputs are the model's words, so every part may be missing. Which tool
//! does what is in each agent's `tools.rs`.

use contract::event::{self, Diff, Location, Plan, PlanEntry, Via};
use contract::limits::TEXT_BYTES_MAX;
use serde_json::Value;

/// What a call is about: of what kind its tool is, a title for people, and the file.
#[derive(Debug, Default)]
pub(crate) struct About<'a> {
    pub kind: Option<&'static str>,
    pub title: Option<&'a str>,
    pub path: Option<&'a str>,
}

/// A call as an event; `about` reads what it is about from the name and the input.
pub(crate) fn tool_use(
    id: String,
    name: String,
    input: Value,
    about: for<'v> fn(&str, &'v Value) -> About<'v>,
) -> event::ToolUse {
    let About { kind, title, path } = about(&name, &input);
    let location = |path: &str| Location { path: path.to_owned(), line: None };
    event::ToolUse {
        tool_call_id: id,
        tool_kind: kind.map(str::to_owned),
        title: title.map(str::to_owned),
        locations: path.map(location).into_iter().collect(),
        via: Via::Native,
        parent: None,
        name,
        input,
    }
}

/// A part of what a model put into a call, if it is a text.
pub(crate) fn part<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}

/// A change of a file that a call makes.
pub(crate) fn change(id: &str, path: &str, old: Option<&str>, new: Option<&str>) -> Diff {
    Diff {
        path: path.to_owned(),
        patch: None,
        old_text: old.map(str::to_owned),
        new_text: new.map(str::to_owned),
        tool_call_id: Some(id.to_owned()),
    }
}

/// Whether a text may be told with a change; a longer one is in the call's own event.
pub(crate) fn short(text: &&str) -> bool {
    text.len() <= TEXT_BYTES_MAX
}

/// Changes as they are remembered until their call ends: when all of them together are too long,
/// only the first, without its texts. The call's own event has them.
pub(crate) fn kept(mut changes: Vec<Diff>) -> Vec<Diff> {
    let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let size = |diff: &Diff| {
        diff.path.len() + bytes(&diff.old_text) + bytes(&diff.new_text) + bytes(&diff.patch)
    };
    if changes.iter().map(size).sum::<usize>() > TEXT_BYTES_MAX {
        changes.truncate(1);
        for change in &mut changes {
            (change.old_text, change.new_text, change.patch) = (None, None, None);
        }
    }
    changes
}

/// The plan in the `todos` of a call, whose words are under this name.
pub(crate) fn todos(input: &Value, words: &str) -> Option<Plan> {
    let entry = |todo: &Value| {
        Some(PlanEntry {
            text: part(todo, words)?.to_owned(),
            status: part(todo, "status").unwrap_or("pending").to_owned(),
            priority: part(todo, "priority").map(str::to_owned),
        })
    };
    let todos = input.get("todos")?.as_array()?;
    Some(Plan { entries: todos.iter().filter_map(entry).collect() })
}
