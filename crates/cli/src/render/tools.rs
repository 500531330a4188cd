//! A tool call folded to one line, and its result folded to another: the name and the part of the
//! input a person would ask for; then how it went, the first line, and how much more there is.

use super::clean::{clean, one_line};
use contract::event::{Diff, ToolResult, ToolUse};
use serde_json::Value;

/// The keys of an input that say most, best first.
const TELLING: [&str; 14] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "summary",
    "text",
    "title",
    "name",
];

/// What a call is about, on one line.
pub fn about(call: &ToolUse) -> String {
    let title = call.title.as_deref().map(one_line).filter(|title| !title.is_empty());
    let telling = match &call.input {
        Value::Object(fields) => TELLING.iter().find_map(|key| fields.get(*key)).map(scalar),
        _ => None,
    };
    match (title, telling) {
        // A title of one word is the name of the tool; what it works on says more.
        (Some(title), Some(telling)) if is_bare_word(&title) => return telling,
        (Some(title), _) => return title,
        (None, _) => {}
    }
    match &call.input {
        Value::Null => String::new(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Object(fields) => {
            let telling = TELLING.iter().find_map(|key| fields.get(*key));
            match telling.or_else(|| fields.values().next().filter(|_| fields.len() == 1)) {
                Some(value) => scalar(value),
                None => one_line(&call.input.to_string()),
            }
        }
        other => scalar(other),
    }
}

fn is_bare_word(title: &str) -> bool {
    title.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        // A command may come as its words.
        Value::Array(items) if items.iter().all(Value::is_string) => {
            one_line(&items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        // Changes to files: the files are what matters.
        Value::Array(items)
            if !items.is_empty() && items.iter().all(|it| it["path"].is_string()) =>
        {
            let paths: Vec<&str> = items.iter().filter_map(|it| it["path"].as_str()).collect();
            one_line(&paths.join(" "))
        }
        other => one_line(&other.to_string()),
    }
}

/// A result folded: its first line that says something, and how many lines follow it.
pub struct Folded {
    pub first: String,
    pub more_lines: usize,
}

pub fn folded(result: &ToolResult) -> Folded {
    let text = clean(&text_of(&result.output));
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty());
    let first = one_line(lines.next().unwrap_or_default());
    let rest: Vec<&str> = lines.collect();
    let more_lines = rest.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    Folded { first, more_lines }
}

/// The text inside an output, whatever it is wrapped in.
fn text_of(output: &Value) -> String {
    match output {
        Value::Null => String::new(),
        Value::String(text) => message_in(text).unwrap_or_else(|| text.clone()),
        Value::Array(items) => match items.iter().map(inner_text).collect::<Option<Vec<_>>>() {
            Some(texts) => texts.join("\n"),
            None => output.to_string(),
        },
        Value::Object(fields) => {
            // `{"noted": true}` is a word, not a structure.
            if let (1, Some((word, Value::Bool(true)))) = (fields.len(), fields.iter().next()) {
                return word.clone();
            }
            let wrapped =
                ["content", "text", "output", "error", "message", "value", "files", "prompt"];
            match wrapped.iter().find_map(|key| fields.get(*key)) {
                Some(inner @ (Value::String(_) | Value::Array(_))) => text_of(inner),
                Some(_) | None => output.to_string(),
            }
        }
        Value::Bool(_) | Value::Number(_) => output.to_string(),
    }
}

/// The words of an error that comes as an object in a text.
fn message_in(text: &str) -> Option<String> {
    let fields: Value = serde_json::from_str(text.trim().strip_prefix('{').map(|_| text)?).ok()?;
    let is_error = fields.get("code").is_some() || fields.get("error").is_some();
    is_error.then(|| fields.get("message")?.as_str().map(str::to_owned)).flatten()
}

fn inner_text(item: &Value) -> Option<String> {
    let named = || item.get("text").or_else(|| item.get("path"))?.as_str();
    item.as_str().or_else(named).map(str::to_owned)
}

/// Lines a change adds and takes away.
pub fn changed(diff: &Diff) -> (usize, usize) {
    if let Some(patch) = &diff.patch {
        let count = |sign: &str, head: &str| {
            patch.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count()
        };
        return (count("+", "+++"), count("-", "---"));
    }
    let lines = |text: &Option<String>| text.as_deref().map_or(0, |text| text.lines().count());
    (lines(&diff.new_text), lines(&diff.old_text))
}
