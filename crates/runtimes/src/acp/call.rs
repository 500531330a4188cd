//! Calls of tools: announced, changed piece by piece, and ended. Agents announce a call before its
//! input is known, or never announce it and ask about it at once, or repeat themselves; here a call
//! is told once, when its input is known or it goes on without, changes are told when something
//! changed, and every call that was told gets one result, at the latest with its turn.

use super::ear::{Ear, text_of};
use super::policy::says_not_executed;
use super::state::{OpenCall, append, digest, short};
use super::wire::{Call, Place};
use contract::event::{
    Body, Diff, Location, PermissionRequest, ToolResult, ToolStatus, ToolUpdate, ToolUse,
    UpdateStatus, Via,
};
use contract::{Signal, limits};
use serde_json::{Value, json};

/// What a call is known by that only looks.
const READING: [&str; 2] = ["read", "search"];

/// Where an exit code stands in what a call brought.
const EXIT_CODES: [&str; 3] = ["/metadata/exit", "/exit_code", "/exitCode"];

impl Ear<'_> {
    /// A call, or what changed of one; an update of a call that was never announced announces it.
    pub(super) fn call(&mut self, mut call: Call, content: Option<Value>, meta: Option<&Value>) {
        call.status = call.status.map(|status| status.to_lowercase());
        let Some(id) = short(call.tool_call_id.clone()) else { return self.unrecognised() };
        self.lift();
        self.state.speaking = None;
        let ended = call.status.as_deref().and_then(end_of);
        let content = content.unwrap_or_default();
        if !self.announce(&id, &call, ended.is_some()) {
            return self.judge_stranger(&call, has_diffs(&content));
        }
        self.note_conduct(&id, &call, true);
        self.printed(&id, meta);
        self.keep_diffs(&id, &content);
        match ended {
            Some(status) => self.ended(&id, status, call, &content),
            None => self.changed(&id, call, &content, meta),
        }
    }

    /// Tells a call once, as soon as there is something to tell. False when it cannot be followed.
    pub(super) fn announce(&mut self, id: &str, call: &Call, at_once: bool) -> bool {
        if self.state.call(id).is_none() {
            let Some(open) = self.state.open(id) else {
                self.unrecognised();
                return false;
            };
            open.untold = Some(Box::new(ToolUse {
                tool_call_id: id.to_owned(),
                name: short(call.name.clone()).or(short(call.kind.clone())).unwrap_or_else(tool),
                input: Value::Null,
                via: Via::Native,
                title: None,
                tool_kind: None,
                locations: Vec::new(),
                parent: None,
            }));
            self.state.acted = true;
            self.state.refused = false;
            self.signal(Signal::ToolOpened { tool_call_id: id.to_owned() });
        }
        let Some(open) = self.state.call(id) else { return false };
        let Some(untold) = &mut open.untold else { return true };
        untold.title = call.title.clone().or(untold.title.take());
        untold.tool_kind = short(call.kind.clone()).or(untold.tool_kind.take());
        if !call.locations.is_empty() {
            untold.locations = places(&call.locations);
        }
        let pending = call.status.as_deref().is_none_or(|status| status == "pending");
        // OpenCode and Kilo announce a command by its directory alone, and tell it a moment later.
        let unfinished = |input: &Value| is_empty(input) || pending && !at_once && is_place(input);
        let input = call.raw_input.as_ref().filter(|input| !unfinished(input));
        if input.is_none() && pending && !at_once {
            return true;
        }
        let input = input.cloned().unwrap_or_default();
        open.input = digest(&input);
        open.title = open.untold.as_ref().and_then(|told| told.title.clone());
        open.status = call.status.clone().or_else(|| Some("pending".to_owned()));
        if let Some(told) = open.untold.take() {
            self.push(Body::ToolUse(ToolUse { input, ..*told }));
        }
        true
    }

    /// What a terminal printed, which some agents tell beside the protocol.
    fn printed(&mut self, id: &str, meta: Option<&Value>) {
        let (Some(open), Some(meta)) = (self.state.call(id), meta) else { return };
        for name in ["terminal_output_delta", "terminal_output"] {
            let data = meta[name]["data"].as_str().unwrap_or_default();
            append(&mut open.printed, data, limits::TOOL_BYTES_MAX);
        }
        open.exit_code = meta["terminal_exit"]["exit_code"].as_i64().or(open.exit_code);
    }

    /// Tells what is new of a call that goes on.
    fn changed(&mut self, id: &str, call: Call, content: &Value, meta: Option<&Value>) {
        let Some(open) = self.state.call(id).filter(|open| open.untold.is_none()) else { return };
        let status = call.status.filter(|status| open.status.as_deref() != Some(status));
        let title = call.title.filter(|title| open.title.as_ref() != Some(title));
        let content = Some(shown(content)).filter(|shown| !is_empty(shown));
        let content = content.filter(|shown| open.content != digest(shown));
        let input = call.raw_input.filter(|input| !is_empty(input));
        let input = input.filter(|input| open.input != digest(input));
        let printed = meta.and_then(|meta| meta["terminal_output_delta"]["data"].as_str());
        let places = places(&call.locations);
        open.status = status.clone().or(open.status.take());
        open.title = title.clone().or(open.title.take());
        open.content = content.as_ref().map_or(open.content, digest);
        open.input = input.as_ref().map_or(open.input, digest);
        let quiet = status.is_none() && title.is_none() && content.is_none();
        if quiet && input.is_none() && printed.is_none() {
            return;
        }
        let shown = content.or(printed.map(Value::from));
        self.push(Body::ToolUpdate(ToolUpdate {
            tool_call_id: id.to_owned(),
            status: match status.as_deref() {
                Some("pending") => Some(UpdateStatus::Pending),
                Some("in_progress") => Some(UpdateStatus::InProgress),
                _ => None,
            },
            title,
            content: match input {
                Some(input) => Some(json!({ "input": input })),
                None => shown,
            },
            locations: places,
        }));
    }

    fn ended(&mut self, id: &str, status: ToolStatus, call: Call, content: &Value) {
        let Some(open) = self.state.close(id) else { return };
        let raw = call.raw_output.filter(|output| !is_empty(output));
        let exit = raw.as_ref().and_then(exit_code).or(open.exit_code);
        let output = raw.unwrap_or_else(|| match shown(content) {
            shown if !is_empty(&shown) => shown,
            _ => printed(&open),
        });
        let not_executed = open.denied && exit.is_none() && says_not_executed(&output);
        let completed = status == ToolStatus::Ok && !not_executed;
        // Some call a command completed that ended badly, and only its exit code tells.
        let status = match (status, exit) {
            (ToolStatus::Ok, Some(code)) if code != 0 => ToolStatus::Error,
            (ToolStatus::Ok, None) if not_executed => ToolStatus::Error,
            (status, _) => status,
        };
        let denied = open.denied && status == ToolStatus::Error;
        self.result(id, status, denied, output);
        // A command that ended badly has run too.
        if completed || exit.is_some() {
            self.judge_conduct(&open);
        }
        if status == ToolStatus::Ok {
            open.diffs.into_iter().for_each(|diff| self.push(Body::Diff(diff)));
        }
    }

    pub(super) fn result(&mut self, id: &str, status: ToolStatus, denied: bool, output: Value) {
        let tool_call_id = id.to_owned();
        self.push(Body::ToolResult(ToolResult {
            tool_call_id: tool_call_id.clone(),
            status,
            denied: denied.then_some(true),
            output,
            duration_ms: None,
        }));
        self.signal(Signal::ToolClosed { tool_call_id, denied });
    }

    /// Remembers the changes of files that a call is about: they are facts once it has ended well.
    pub(super) fn keep_diffs(&mut self, id: &str, content: &Value) {
        let items = content.as_array().into_iter().flatten();
        let diffs: Vec<_> =
            items.filter(|item| item["type"] == "diff").map(|item| diff(id, item)).collect();
        if let Some(open) = self.state.call(id).filter(|_| !diffs.is_empty()) {
            open.diffs = diffs;
        }
    }
}

/// How a call ended; `None` of a status that is no end. Some agents have words of their own for it.
pub(super) fn end_of(status: &str) -> Option<ToolStatus> {
    match status.to_lowercase().as_str() {
        "completed" | "success" | "succeeded" | "done" => Some(ToolStatus::Ok),
        "failed" | "error" => Some(ToolStatus::Error),
        _ => None,
    }
}

/// Whether what a call brought holds changes of files.
pub(super) fn has_diffs(content: &Value) -> bool {
    content.as_array().into_iter().flatten().any(|item| item["type"] == "diff")
}

/// A change of a file; of one that is too long to be remembered only its place is.
fn diff(id: &str, item: &Value) -> Diff {
    let text = |name: &str| item[name].as_str().map(str::to_owned);
    let (old_text, new_text) = (text("oldText"), text("newText"));
    let bytes: usize = old_text.iter().chain(&new_text).map(String::len).sum();
    let held = |text: Option<String>| text.filter(|_| bytes <= limits::TEXT_BYTES_MAX);
    Diff {
        path: text("path").unwrap_or_default(),
        patch: None,
        old_text: held(old_text),
        new_text: held(new_text),
        tool_call_id: Some(id.to_owned()),
    }
}

/// The content of a question about a call.
pub(super) fn request(
    call: &Call,
    content: Option<&Value>,
    cwd: Option<String>,
) -> PermissionRequest {
    let items = content.and_then(Value::as_array).into_iter().flatten();
    let diffs: Vec<Diff> = items
        .filter(|item| item["type"] == "diff")
        .map(|item| Diff { tool_call_id: None, ..diff("", item) })
        .collect();
    let input = call.raw_input.clone().filter(|input| !is_empty(input));
    let text = |key: &str| input.as_ref()?.get(key)?.as_str().map(str::to_owned);
    let words = || {
        let words = input.as_ref()?.get("command")?.as_array()?;
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    let command = text("command").or_else(words).or_else(|| text("cmd"));
    let mut paths: Vec<String> = places(&call.locations).into_iter().map(|at| at.path).collect();
    for path in diffs.iter().map(|diff| &diff.path).filter(|path| !path.is_empty()) {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    let is_told = command.is_some() || !diffs.is_empty();
    PermissionRequest {
        tool: short(call.name.clone()),
        tool_kind: short(call.kind.clone()),
        cwd: text("cwd").or_else(|| text("workdir")).or(cwd),
        reason: text("description"),
        command,
        input: input.filter(|_| !is_told),
        diffs,
        paths,
        cut: None,
    }
    .bounded()
}

/// Whether a call only looks.
pub(super) fn reads(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| READING.contains(&kind.to_lowercase().as_str()))
}

/// What a call brought, for people: its texts; other things by their names.
fn shown(content: &Value) -> Value {
    let texts = content.as_array().into_iter().flatten().filter_map(|item| {
        match item["type"].as_str()? {
            "content" => text_of(item.get("content")),
            _ => None,
        }
    });
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { Value::Null } else { Value::from(texts.join("\n")) }
}

/// The exit code of a command, where agents put it into what a call brought.
fn exit_code(raw: &Value) -> Option<i64> {
    let told = EXIT_CODES.iter().find_map(|place| raw.pointer(place)?.as_i64());
    let mut ends = raw["contents"].as_array().into_iter().flatten();
    told.or_else(|| ends.find(|item| item["type"] == "shell_exit")?["exitCode"].as_i64())
}

fn printed(open: &OpenCall) -> Value {
    match (open.printed.as_str(), open.exit_code) {
        ("", None) => Value::Null,
        ("", Some(code)) => json!({ "exit_code": code }),
        (printed, None) => json!(printed),
        (printed, Some(code)) => json!({ "output": printed, "exit_code": code }),
    }
}

fn places(places: &[Place]) -> Vec<Location> {
    let place = |place: &Place| Some(Location { path: place.path.clone()?, line: place.line });
    places.iter().filter_map(place).collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether an input only says where a command is to be run.
fn is_place(input: &Value) -> bool {
    input.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("cwd"))
}

fn tool() -> String {
    "tool".to_owned()
}
