//! What this agent's own tools do, by their names and arguments: the kind, a title for people, the
//! file a call is about, the change it made, the plan it writes and the answer it ends with. A tool
//! that is not known here is shown by its name alone. Arguments are the model's words, so every part
//! may be missing.

use super::wire::Observation;
use crate::headless::{About, change as diff, part, short};
use contract::event::{Diff, Plan, PlanEntry, ToolStatus};
use serde_json::Value;

/// What a call was given: as it was understood, else as the model wrote it.
pub(super) fn input(understood: Value, written: &Value) -> Value {
    if let Value::Object(mut known) = understood {
        known.remove("kind");
        known.retain(|_, value| !value.is_null());
        return Value::Object(known);
    }
    let written = part(written, "arguments").unwrap_or_default();
    serde_json::from_str(written).unwrap_or_else(|_| Value::from(written))
}

pub(super) fn about<'v>(name: &str, input: &'v Value) -> About<'v> {
    let path = part(input, "path");
    let command = part(input, "command").filter(|_| name == "terminal");
    let title = command.or(path).or_else(|| part(input, "description"));
    About { kind: kind(name, input), title, path }
}

fn kind(name: &str, input: &Value) -> Option<&'static str> {
    Some(match (name, part(input, "command")) {
        ("terminal", _) => "execute",
        ("file_editor", Some("view")) => "read",
        ("file_editor", _) => "edit",
        ("think" | "finish" | "task_tracker", _) => "think",
        _ => return None,
    })
}

/// The words of the call that says that the task is done.
pub(super) fn answer(name: &str, action: &Value) -> Option<String> {
    part(action, "message").filter(|_| name == "finish").map(str::to_owned)
}

/// The plan that a call writes down.
pub(super) fn plan(name: &str, action: &Value) -> Option<Plan> {
    if name != "task_tracker" {
        return None;
    }
    let entry = |task: &Value| {
        let status = match part(task, "status") {
            Some("done") => "completed",
            Some("in_progress") => "in_progress",
            Some(_) | None => "pending",
        };
        let text = part(task, "title")?.to_owned();
        Some(PlanEntry { text, status: status.to_owned(), priority: None })
    };
    let tasks = action.get("task_list")?.as_array()?;
    (!tasks.is_empty()).then(|| Plan { entries: tasks.iter().filter_map(entry).collect() })
}

/// How a call went and what it gave. A command that failed is an error, whatever the tool says.
pub(super) fn outcome(result: &Observation) -> (ToolStatus, Value) {
    if let Some(words) = result.error.as_ref().or(result.rejection_reason.as_ref()) {
        return (ToolStatus::Error, Value::from(words.as_str()));
    }
    let observation = &result.observation;
    let exit = observation.get("exit_code").and_then(Value::as_i64).unwrap_or(0);
    let failed = observation.get("is_error") != Some(&Value::Bool(false)) || exit != 0;
    let status = if failed { ToolStatus::Error } else { ToolStatus::Ok };
    let parts = observation.get("content").and_then(Value::as_array);
    let texts: Vec<&str> =
        parts.into_iter().flatten().filter_map(|piece| part(piece, "text")).collect();
    // A command that printed nothing has one empty text; what has none at all is told whole.
    (status, if texts.is_empty() { observation.clone() } else { Value::from(texts.concat()) })
}

/// What a call changed.
pub(super) fn change(id: &str, result: &Observation) -> Option<Diff> {
    let told = &result.observation;
    if part(told, "kind") != Some("FileEditorObservation") {
        return None;
    }
    let text = |name: &str| part(told, name).filter(short);
    let (old, new) = (text("old_content"), text("new_content"));
    let same = new.is_none() || old == new;
    let viewed = part(told, "command") == Some("view");
    let path = part(told, "path").filter(|_| !viewed && !same)?;
    Some(diff(id, path, old, new))
}
