//! One line, looked at strictly: what the dialect forgives for the sake of the run is named here.

use super::super::{cost, state, wire};
use crate::template::closest;
use crate::verdict::not_json;
use serde_json::{Map, Value};

/// The types of lines.
const TYPES: [&str; 7] =
    ["progress", "tool_call", "comment", "complete", "failed", "hello", "event"];

/// A line as far as it can be understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    /// It means nothing and is allowed to.
    Blank,
    NotAnObject {
        why: String,
    },
    NoType {
        why: String,
    },
    Line(Line),
}

/// A line of a known type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub kind: Kind,
    pub fields: Map<String, Value>,
    /// What is wrong with its fields.
    pub wrong: Vec<String>,
    /// What is wrong with its cost; `None` when it reports none.
    pub cost: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Progress,
    ToolCall,
    Comment,
    Complete,
    Failed,
    Hello,
    Event,
}

impl Kind {
    /// Whether it is the end of the work.
    pub(super) fn closes(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }

    fn of(line: &wire::Line) -> Self {
        match line {
            wire::Line::Progress(_) => Self::Progress,
            wire::Line::ToolCall(_) => Self::ToolCall,
            wire::Line::Comment(_) => Self::Comment,
            wire::Line::Complete(_) => Self::Complete,
            wire::Line::Failed(_) => Self::Failed,
            wire::Line::Hello(_) => Self::Hello,
            wire::Line::Event(_) => Self::Event,
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "progress" => Self::Progress,
            "tool_call" => Self::ToolCall,
            "comment" => Self::Comment,
            "complete" => Self::Complete,
            "failed" => Self::Failed,
            "hello" => Self::Hello,
            "event" => Self::Event,
            _ => return None,
        })
    }
}

/// The complaint about a type that is not known, with the one that was meant.
fn no_type(word: &str) -> String {
    let meant = closest(word, TYPES.into_iter()).map(|name| format!("; did you mean '{name}'?"));
    format!("the protocol has no type '{word}'{}", meant.unwrap_or_default())
}

pub(super) fn look(bytes: &[u8]) -> Seen {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}').trim_end_matches('\r'),
        Err(error) => {
            let why = format!("byte {} is not UTF-8", error.valid_up_to() + 1);
            return Seen::NotAnObject { why };
        }
    };
    if text.trim_ascii().is_empty() {
        return Seen::Blank;
    }
    let fields = match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Seen::NotAnObject { why: "it is JSON, but not an object".to_owned() },
        Err(error) => return Seen::NotAnObject { why: not_json(text, &error) },
    };
    let kind = match fields.get("type") {
        Some(Value::String(word)) => match Kind::from_word(word) {
            Some(kind) => kind,
            None => return Seen::NoType { why: no_type(word) },
        },
        Some(_) => return Seen::NoType { why: "its type is not a text".to_owned() },
        None => return Seen::NoType { why: "it has no type".to_owned() },
    };
    let mut wrong = wrong_fields(kind, &fields, text);
    let cost = cost_of(kind, &fields, text);
    // A key that is given twice is read differently by different readers; ours takes the first.
    let read = wire::Line::read(text).ok().map(|line| Kind::of(&line));
    let kind = match read {
        Some(read) if read != kind => {
            wrong.push("type is given twice".to_owned());
            read
        }
        _ => kind,
    };
    Seen::Line(Line { kind, fields, wrong, cost })
}

fn wrong_fields(kind: Kind, fields: &Map<String, Value>, text: &str) -> Vec<String> {
    let mut form = Form { fields, wrong: Vec::new() };
    match kind {
        Kind::Progress => {
            form.text("summary", true);
            form.list("beliefs");
            form.list("attempted");
        }
        Kind::ToolCall => {
            form.call_id();
            form.text("tool", true);
            form.object("args");
        }
        Kind::Comment => {
            form.text("text", true);
            form.texts("mentions");
        }
        Kind::Complete => {}
        Kind::Failed => form.text("reason", true),
        Kind::Hello => form.texts("accepts"),
        Kind::Event => {
            if let Err(error) = wire::Line::read(text) {
                form.wrong.push(error.to_string());
            }
        }
    }
    form.wrong
}

fn cost_of(kind: Kind, fields: &Map<String, Value>, text: &str) -> Option<Vec<String>> {
    match kind {
        Kind::Progress | Kind::Complete | Kind::Failed => {
            let given = fields.get("cost").filter(|cost| !cost.is_null())?;
            Some(cost::read(given).complaints)
        }
        Kind::Event => match wire::Line::read(text) {
            Ok(wire::Line::Event(wire::Event::Usage(usage))) => Some(cost::check(usage).complaints),
            _ => None,
        },
        Kind::ToolCall | Kind::Comment | Kind::Hello => None,
    }
}

/// The fields of one line, checked one by one.
struct Form<'a> {
    fields: &'a Map<String, Value>,
    wrong: Vec<String>,
}

impl Form<'_> {
    /// Null is the same as missing.
    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn expect(&mut self, name: &str, wanted: &str, fits: impl Fn(&Value) -> bool) {
        if self.get(name).is_some_and(|value| !fits(value)) {
            self.wrong.push(format!("{name} must be {wanted}"));
        }
    }

    fn text(&mut self, name: &str, required: bool) {
        if required && self.get(name).is_none() {
            self.wrong.push(format!("{name} is missing"));
        }
        self.expect(name, "a text", Value::is_string);
    }

    fn list(&mut self, name: &str) {
        self.expect(name, "a list", Value::is_array);
    }

    fn texts(&mut self, name: &str) {
        let texts =
            |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        self.expect(name, "a list of texts", texts);
    }

    fn object(&mut self, name: &str) {
        self.expect(name, "an object", Value::is_object);
    }

    fn call_id(&mut self) {
        let max = state::CALL_ID_BYTES_MAX;
        match self.get("id").map(id_text) {
            None => self.wrong.push("id is missing".to_owned()),
            Some(None) => self.wrong.push("id must be a text or a number".to_owned()),
            Some(Some(id)) if id.is_empty() || id.len() > max => {
                self.wrong.push(format!("id must have 1 to {max} bytes"));
            }
            Some(Some(_)) => {}
        }
    }
}

/// The id of a call, by which its answer is known.
pub(super) fn id_text(id: &Value) -> Option<String> {
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
