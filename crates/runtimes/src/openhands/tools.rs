//! What this agent's own tools do, by their names and arguments: the kind, a title for people, the
//! file a call is about, the change it made, the plan it writes and the answer it ends with. A tool
//! that is not known here is shown by its name alone. Arguments are the model's words, so every part
//! may be missing.

use super::wire::{Action, Observation};
use contract::event::{Diff, Location, Plan, PlanEntry, ToolStatus, ToolUse, Via};
use contract::limits::TEXT_BYTES_MAX;
use serde_json::Value;

/// What a call was given: as it was understood, else as the model wrote it.
fn input(call: &Action) -> Value {
    if let Value::Object(known) = &call.action {
        let mut known = known.clone();
        known.remove("kind");
        known.retain(|_, value| !value.is_null());
        return Value::Object(known);
    }
    let written = call.tool_call.get("arguments").and_then(Value::as_str).unwrap_or_default();
    serde_json::from_str(written).unwrap_or_else(|_| Value::from(written))
}

/// The call as an event.
pub(super) fn event(call: &Action, id: &str) -> ToolUse {
    let name = call.tool_name.clone().unwrap_or_default();
    let input = input(call);
    let path = text(&input, "path").map(str::to_owned);
    let command = text(&input, "command").filter(|_| name == "terminal").map(str::to_owned);
    let described = text(&input, "description").map(str::to_owned);
    let location = |path: &String| Location { path: path.clone(), line: None };
    ToolUse {
        tool_call_id: id.to_owned(),
        tool_kind: kind(&name, &input).map(str::to_owned),
        name,
        via: Via::Native,
        locations: path.iter().map(location).collect(),
        title: command.or(path).or(described),
        input,
        parent: None,
    }
}

fn kind(name: &str, input: &Value) -> Option<&'static str> {
    Some(match (name, text(input, "command")) {
        ("terminal", _) => "execute",
        ("file_editor", Some("view")) => "read",
        ("file_editor", _) => "edit",
        ("think" | "finish" | "task_tracker", _) => "think",
        _ => return None,
    })
}

/// The words of the call that says that the task is done.
pub(super) fn answer(call: &Action) -> Option<&str> {
    text(&call.action, "message").filter(|_| call.tool_name.as_deref() == Some("finish"))
}

/// The plan that a call writes down.
pub(super) fn plan(call: &Action) -> Option<Plan> {
    if call.tool_name.as_deref() != Some("task_tracker") {
        return None;
    }
    let entry = |task: &Value| {
        let status = match text(task, "status") {
            Some("done") => "completed",
            Some("in_progress") => "in_progress",
            Some(_) | None => "pending",
        };
        let text = text(task, "title")?.to_owned();
        Some(PlanEntry { text, status: status.to_owned(), priority: None })
    };
    let tasks = call.action.get("task_list")?.as_array()?;
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
    let texts = parts.into_iter().flatten().filter_map(|part| text(part, "text"));
    let output: String = texts.collect();
    (status, if output.is_empty() { observation.clone() } else { Value::from(output) })
}

/// What a call changed. A text too long to be kept here is in the call's own event.
pub(super) fn change(result: &Observation, id: &str) -> Option<Diff> {
    let observation = &result.observation;
    let kept = |name: &str| {
        let text = text(observation, name).filter(|text| text.len() <= TEXT_BYTES_MAX);
        text.map(str::to_owned)
    };
    if text(observation, "kind") != Some("FileEditorObservation") {
        return None;
    }
    let (old_text, new_text) = (kept("old_content"), kept("new_content"));
    let same = new_text.is_none() || old_text == new_text;
    let viewed = text(observation, "command") == Some("view");
    (!viewed && !same).then_some(Diff {
        path: text(observation, "path")?.to_owned(),
        patch: None,
        old_text,
        new_text,
        tool_call_id: Some(id.to_owned()),
    })
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
