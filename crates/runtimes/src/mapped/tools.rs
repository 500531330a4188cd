//! What a call is about, by the mapping's table of tools: a kind, a title for people, a file, the
//! changes it makes and the plan it writes. A tool that is not in the table is shown by its name
//! alone. Inputs are the model's words, so every part may be missing.

use super::book::Book;
use super::path::Place;
use crate::headless::{change as change_of, kept};
use contract::event::{self, Diff, Location, Plan, PlanEntry, Via};
use contract::limits::TEXT_BYTES_MAX;
use contract::mapping::Change;
use serde_json::Value;

/// A call as it was found.
pub(super) struct Call {
    pub id: String,
    pub name: String,
    pub input: Value,
    pub parent: Option<String>,
}

/// The call as an event.
pub(super) fn event(book: &Book, call: Call) -> event::ToolUse {
    let tools = &book.mapping.tools;
    let place = Place::line(&call.input);
    let first = |paths: &[String]| paths.iter().find_map(|path| book.text_at(path, place));
    let location = |path: String| Location { path, line: None };
    event::ToolUse {
        title: first(&tools.title),
        tool_kind: tools.kinds.get(&call.name).cloned(),
        locations: first(&tools.location).map(location).into_iter().collect(),
        tool_call_id: call.id,
        name: call.name,
        input: call.input,
        via: Via::Native,
        parent: call.parent,
    }
}

/// What a call changes if it goes well; all of it together must be short enough to be remembered,
/// and what is not is in the call's own event.
pub(super) fn changes(book: &Book, call: &Call) -> Vec<Diff> {
    let place = Place::line(&call.input);
    let known = book.mapping.tools.changes.get(&call.name);
    let path = known.and_then(|change| book.text_at(&change.path, place));
    let (Some(change), Some(path)) = (known, path.filter(|path| path.len() <= TEXT_BYTES_MAX))
    else {
        return Vec::new();
    };
    let Change { each, old, new, .. } = change;
    let listed = each.as_ref().and_then(|each| book.members_at(each, place));
    let text = |path: &Option<String>, here| {
        path.as_ref().and_then(|path| book.text_at(path, place.inside(here)))
    };
    let heres = listed.unwrap_or_else(|| vec![&call.input]);
    let changes = heres.into_iter().map(|here| {
        let (old, new) = (text(old, here), text(new, here));
        change_of(&call.id, &path, old.as_deref(), new.as_deref())
    });
    kept(changes.collect())
}

/// The plan that a call writes down.
pub(super) fn plan(book: &Book, call: &Call) -> Option<Plan> {
    let steps = book.mapping.tools.plans.get(&call.name)?;
    let place = Place::line(&call.input);
    let entry = |here: &Value| {
        let text = |path: &str| book.text_at(path, place.inside(here));
        Some(PlanEntry {
            text: text(&steps.text)?,
            status: steps.status.as_deref().and_then(text).unwrap_or_else(|| "pending".to_owned()),
            priority: None,
        })
    };
    let members = book.members_at(&steps.each, place)?;
    Some(Plan { entries: members.into_iter().filter_map(entry).collect() })
}
