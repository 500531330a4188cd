//! What is known of the agent's own tools by their names: what kind they are, which files they are
//! about, which only look, and what a result says was changed. A tool that is not known here is
//! shown with what it says of itself.

use contract::event::{Diff, Location, PermissionRequest, Plan, PlanEntry};
use serde_json::{Map, Value};
use std::fmt::Write;

/// The MCP server by which our own tools reach the agent; the relay governs them itself.
pub(super) const OWN_SERVER: &str = "ostler";

/// A tool that asks a person to choose, which nobody can in a run.
pub(super) const CHOICE: &str = "AskUserQuestion";

/// Name, kind, and whether it only looks.
const KNOWN: &[(&str, &str, bool)] = &[
    ("Read", "read", true),
    ("NotebookRead", "read", true),
    ("Glob", "search", true),
    ("Grep", "search", true),
    ("LS", "search", true),
    ("ToolSearch", "search", true),
    ("ListAgents", "search", true),
    ("Edit", "edit", false),
    ("MultiEdit", "edit", false),
    ("Write", "edit", false),
    ("NotebookEdit", "edit", false),
    ("Bash", "execute", false),
    ("WebFetch", "fetch", false),
    ("WebSearch", "fetch", false),
    ("Task", "other", false),
    ("Agent", "other", false),
];

fn known(name: &str) -> Option<&'static (&'static str, &'static str, bool)> {
    KNOWN.iter().find(|(known, _, _)| *known == name)
}

pub(super) fn kind(name: &str) -> Option<String> {
    known(name).map(|(_, kind, _)| (*kind).to_owned())
}

pub(super) fn reads(name: &str) -> bool {
    known(name).is_some_and(|(_, _, reads)| *reads)
}

/// Whether it is a tool of the relay, which asks for itself.
pub(super) fn is_own(name: &str) -> bool {
    let own = name.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(OWN_SERVER));
    own.is_some_and(|rest| rest.starts_with("__"))
}

/// The file that a call is about.
pub(super) fn locations(input: &Value) -> Vec<Location> {
    let path = ["file_path", "notebook_path", "path"].iter().find_map(|key| input[*key].as_str());
    path.map(|path| Location { path: path.to_owned(), line: None }).into_iter().collect()
}

/// What a question is about, in one line: the part of the input that matters most.
pub(super) fn about(name: &str, input: &Map<String, Value>, description: Option<&str>) -> String {
    let keys = ["command", "file_path", "notebook_path", "path", "url", "query", "pattern"];
    let what = keys.iter().find_map(|key| input.get(*key).and_then(Value::as_str));
    match what.or(description) {
        Some(what) => format!("{name}: {what}"),
        None => name.to_owned(),
    }
}

/// The content of a question: the command, the changes to files, or else the whole input.
pub(super) fn request(
    name: &str,
    input: &Map<String, Value>,
    reason: Option<&str>,
    cwd: Option<String>,
) -> PermissionRequest {
    let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    let path = text("file_path").or_else(|| text("notebook_path"));
    let change = |fields: &Map<String, Value>| {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let new_text =
            text("new_string").or_else(|| text("content")).or_else(|| text("new_source"));
        Some(Diff {
            path: path.clone()?,
            patch: None,
            old_text: text("old_string").filter(|old| !old.is_empty()),
            new_text: Some(new_text?),
            tool_call_id: None,
        })
    };
    let edits = input.get("edits").and_then(Value::as_array);
    let diffs: Vec<Diff> = match edits {
        Some(edits) => edits.iter().filter_map(Value::as_object).filter_map(change).collect(),
        None => change(input).into_iter().collect(),
    };
    let command = text("command").filter(|_| kind(name).as_deref() == Some("execute"));
    let is_told = command.is_some() || !diffs.is_empty();
    PermissionRequest {
        tool: Some(name.to_owned()),
        tool_kind: kind(name),
        command,
        input: (!is_told && !input.is_empty()).then(|| Value::Object(input.clone())),
        diffs,
        paths: path.or_else(|| text("path")).into_iter().collect(),
        cwd,
        reason: text("description").or_else(|| reason.map(str::to_owned)),
        cut: None,
    }
    .bounded()
}

/// The plan that a to-do list states.
pub(super) fn plan(name: &str, input: &Value) -> Option<Plan> {
    let todos = input["todos"].as_array().filter(|_| name == "TodoWrite")?;
    let entry = |todo: &Value| {
        let text = todo["content"].as_str()?.to_owned();
        let status = todo["status"].as_str().unwrap_or("pending").to_owned();
        let priority = todo["priority"].as_str().map(str::to_owned);
        Some(PlanEntry { text, status, priority })
    };
    Some(Plan { entries: todos.iter().filter_map(entry).collect() })
}

/// The change to a file that a result tells of: hunks where there are some, else the new text.
pub(super) fn diff(tool_call_id: &str, result: &Value) -> Option<Diff> {
    let path = result["filePath"].as_str()?.to_owned();
    let hunks = result["structuredPatch"].as_array()?;
    let patch: String = hunks.iter().map(hunk).collect();
    let text = |key: &str| result[key].as_str().map(str::to_owned);
    let (patch, old_text, new_text) = match patch.is_empty() {
        false => (Some(patch), None, None),
        true => (None, text("originalFile"), text("content")),
    };
    let tool_call_id = Some(tool_call_id.to_owned());
    Some(Diff { path, patch, old_text, new_text, tool_call_id })
}

fn hunk(hunk: &Value) -> String {
    let n = |key: &str| hunk[key].as_u64().unwrap_or(0);
    let (old, new) = ((n("oldStart"), n("oldLines")), (n("newStart"), n("newLines")));
    let mut shown = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(shown, "@@ -{},{} +{},{} @@", old.0, old.1, new.0, new.1);
    for line in hunk["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}
