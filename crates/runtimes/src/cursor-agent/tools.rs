//! What this agent's own tools do, by the key that names them: the kind, a title for people, the
//! file a call is about, the change it made and the plan it writes. A tool that is not known here is
//! shown by its name alone. Arguments are the model's words, so every part may be missing.

use contract::event::{Diff, Location, Plan, PlanEntry, ToolStatus, ToolUse, Via};
use contract::limits::TEXT_BYTES_MAX;
use serde_json::{Map, Value};

/// The end of a key that names a tool.
const KEY_END: &str = "ToolCall";

/// One tool and what is told of it.
pub(super) struct Tool<'a> {
    pub name: &'a str,
    pub args: Value,
    result: Option<&'a Value>,
}

impl<'a> Tool<'a> {
    /// Finds the tool among the keys of a call; `function` is the form for all that have none.
    pub(super) fn find(call: &'a Map<String, Value>) -> Option<Self> {
        let named = call.iter().find_map(|(key, body)| Some((key.strip_suffix(KEY_END)?, body)));
        if let Some((name, body)) = named.filter(|(name, _)| !name.is_empty()) {
            let args = body.get("args").cloned().unwrap_or_default();
            return Some(Self { name, args, result: body.get("result") });
        }
        let body = call.get("function")?;
        let given = body.get("arguments").cloned().unwrap_or_default();
        // Arguments may be JSON within a text.
        let read = given.as_str().and_then(|text| serde_json::from_str(text).ok());
        let name = text(body, "name")?;
        Some(Self { name, args: read.unwrap_or(given), result: body.get("result") })
    }

    /// The call as an event.
    pub(super) fn event(&self, id: String) -> ToolUse {
        let path = text(&self.args, "path");
        let words = ["command", "globPattern", "pattern", "query", "url", "toolName"];
        let title = path.or_else(|| words.iter().find_map(|word| text(&self.args, word)));
        let location = |path: &str| Location { path: path.to_owned(), line: None };
        ToolUse {
            tool_call_id: id,
            tool_kind: kind(self.name).map(str::to_owned),
            name: self.name.to_owned(),
            input: self.args.clone(),
            via: Via::Native,
            title: title.map(str::to_owned),
            locations: path.map(location).into_iter().collect(),
            parent: None,
        }
    }

    /// How it went, whether it was held back, and what is told of it. Only `success` is one, and
    /// not when the command or the server behind it failed.
    pub(super) fn outcome(&self) -> (ToolStatus, bool, Value) {
        let Some(result) = self.result else { return (ToolStatus::Error, false, Value::Null) };
        let denied = ["rejected", "permissionDenied"].iter().any(|key| result.get(key).is_some());
        let Some(success) = result.get("success") else {
            return (ToolStatus::Error, denied, result.clone());
        };
        let exit = success.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
        let failed = exit != 0 || success.get("isError") == Some(&Value::Bool(true));
        (if failed { ToolStatus::Error } else { ToolStatus::Ok }, false, success.clone())
    }

    /// What it changed. A text too long to be kept here is in the call's own event.
    pub(super) fn change(&self, id: &str) -> Option<Diff> {
        if kind(self.name) != Some("edit") {
            return None;
        }
        let success = self.result?.get("success")?;
        let kept = |text: &str| (text.len() <= TEXT_BYTES_MAX).then(|| text.to_owned());
        let new = text(&self.args, "fileText").or_else(|| text(success, "afterFullFileContent"));
        Some(Diff {
            path: text(&self.args, "path").or_else(|| text(success, "path"))?.to_owned(),
            patch: text(success, "diffString").and_then(kept),
            old_text: None,
            new_text: new.and_then(kept),
            tool_call_id: Some(id.to_owned()),
        })
    }

    /// The plan that a call writes down.
    pub(super) fn plan(&self) -> Option<Plan> {
        if self.name != "updateTodos" {
            return None;
        }
        let entry = |todo: &Value| {
            let status = text(todo, "status").unwrap_or("pending").to_lowercase();
            let status = status.strip_prefix("todo_status_").unwrap_or(&status).to_owned();
            Some(PlanEntry { text: text(todo, "content")?.to_owned(), status, priority: None })
        };
        let todos = self.args.get("todos")?.as_array()?;
        Some(Plan { entries: todos.iter().filter_map(entry).collect() })
    }
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "read" | "ls" => "read",
        "glob" | "grep" | "semSearch" => "search",
        "write" | "edit" | "delete" => "edit",
        "shell" => "execute",
        "webFetch" | "webSearch" | "fetch" => "fetch",
        _ => return None,
    })
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
