//! What this agent's own tools do, by the key that names them: the kind, a title for people, the
//! file a call is about, the change it made and the plan it writes. A tool that is not known here is
//! shown by its name alone. Arguments are the model's words, so every part may be missing.

use crate::headless::{About, change, part, short};
use contract::event::{Diff, Plan, PlanEntry, ToolStatus};
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
        let name = part(body, "name")?;
        Some(Self { name, args: read.unwrap_or(given), result: body.get("result") })
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

    /// What it changed.
    pub(super) fn change(&self, id: &str) -> Option<Diff> {
        if kind(self.name) != Some("edit") {
            return None;
        }
        let told = self.result?.get("success")?;
        let path = part(&self.args, "path").or_else(|| part(told, "path"))?;
        let new = part(&self.args, "fileText").or_else(|| part(told, "afterFullFileContent"));
        let patch = part(told, "diffString").filter(short).map(str::to_owned);
        Some(Diff { patch, ..change(id, path, None, new.filter(short)) })
    }

    /// The plan that a call writes down.
    pub(super) fn plan(&self) -> Option<Plan> {
        if self.name != "updateTodos" {
            return None;
        }
        let entry = |todo: &Value| {
            let status = part(todo, "status").unwrap_or("pending").to_lowercase();
            let status = status.strip_prefix("todo_status_").unwrap_or(&status).to_owned();
            Some(PlanEntry { text: part(todo, "content")?.to_owned(), status, priority: None })
        };
        let todos = self.args.get("todos")?.as_array()?;
        Some(Plan { entries: todos.iter().filter_map(entry).collect() })
    }
}

/// What a call is about.
pub(super) fn about<'v>(name: &str, args: &'v Value) -> About<'v> {
    let path = part(args, "path");
    let words = ["command", "globPattern", "pattern", "query", "url", "toolName"];
    let title = path.or_else(|| words.iter().find_map(|word| part(args, word)));
    About { kind: kind(name), title, path }
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
