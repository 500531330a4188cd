//! Items that are calls of tools, told the same way whichever shape the agent prints: a name, what
//! kind of doing it is, a title and an input. What is no call is `None` and left to `ear`.

use super::state::Proposed;
use super::wire::{Change, Item};
use contract::event::PermissionRequest;
use serde_json::{Value, json};

/// What a call is, whichever shape told it.
pub(super) struct Call {
    pub name: String,
    pub kind: &'static str,
    pub title: Option<String>,
    pub input: Value,
}

/// Whether an item is a call.
pub(super) fn is_one(item: &Item) -> bool {
    of(item).is_some()
}

/// The call that an item is; `None` for what is none.
pub(super) fn of(item: &Item) -> Option<Call> {
    let named = |name: &str, kind, title: Option<String>, input| {
        Some(Call { name: name.to_owned(), kind, title, input })
    };
    match item.kind.as_deref()? {
        "command_execution" | "commandExecution" => {
            let mut input = json!({ "command": item.command });
            if let Some(cwd) = &item.cwd {
                input["cwd"] = json!(cwd);
            }
            named("shell", "execute", item.command.clone(), input)
        }
        "file_change" | "fileChange" => {
            let row = |change: &Change| json!({ "path": change.path, "kind": change.word() });
            let changes: Vec<_> = item.changes.iter().flatten().map(row).collect();
            named("apply_patch", "edit", None, json!({ "changes": changes }))
        }
        "mcp_tool_call" | "mcpToolCall" => {
            let server = item.server.as_deref().unwrap_or("mcp");
            let name = format!("{server}.{}", item.tool.as_deref().unwrap_or("tool"));
            named(&name, "other", None, item.arguments.clone().unwrap_or_default())
        }
        "web_search" | "webSearch" => {
            named("web_search", "search", item.query.clone(), json!({ "query": item.query }))
        }
        _ => None,
    }
}

/// The changes to files that a call proposes, for a question about it.
pub(super) fn proposed(item: &Item, id: &str, cwd: Option<String>) -> Proposed {
    let changes = item.changes.iter().flatten();
    let diffs: Vec<_> = changes.map(|change| change.to_diff(None)).collect();
    let request = PermissionRequest {
        tool: Some("apply_patch".to_owned()),
        tool_kind: Some("edit".to_owned()),
        paths: diffs.iter().map(|diff| diff.path.clone()).collect(),
        diffs,
        cwd,
        ..PermissionRequest::default()
    };
    Proposed { tool_call_id: id.to_owned(), request: request.bounded() }
}
