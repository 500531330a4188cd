//! One line, looked at strictly: a request, a notification or a reply of JSON-RPC 2.0, or what is
//! wrong with it. What a message means is not known here.

use crate::verdict::not_json;
use serde_json::{Map, Value};

/// A line as far as it can be understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    /// It means nothing and is allowed to.
    Blank,
    NotAnObject {
        why: String,
    },
    Message(Message),
}

/// A JSON object, which should be a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub kind: Kind,
    pub fields: Map<String, Value>,
    /// What JSON-RPC would have otherwise.
    pub wrong: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Request {
        method: String,
        id: Value,
    },
    Notification {
        method: String,
    },
    Reply {
        id: Value,
    },
    /// Neither a method nor an id.
    Nothing,
}

impl Message {
    pub(super) fn params(&self) -> &Value {
        self.fields.get("params").unwrap_or(&Value::Null)
    }

    pub(super) fn result(&self) -> Option<&Value> {
        self.fields.get("result")
    }

    pub(super) fn error(&self) -> Option<&Value> {
        self.fields.get("error").filter(|error| !error.is_null())
    }

    /// The update that it carries, with its kind.
    pub(super) fn update(&self) -> Option<(&str, &Value)> {
        match &self.kind {
            Kind::Notification { method } if method == "session/update" => {
                let update = self.params().get("update")?;
                Some((update["sessionUpdate"].as_str().unwrap_or_default(), update))
            }
            Kind::Request { .. }
            | Kind::Notification { .. }
            | Kind::Reply { .. }
            | Kind::Nothing => None,
        }
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.params().get("sessionId")?.as_str()
    }
}

pub(super) fn look(bytes: &[u8]) -> Seen {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_end_matches('\r'),
        Err(error) => {
            let why = format!("byte {} is not UTF-8", error.valid_up_to() + 1);
            return Seen::NotAnObject { why };
        }
    };
    if text.trim_ascii().is_empty() {
        return Seen::Blank;
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Seen::Message(message(fields)),
        Ok(Value::Array(_)) => Seen::NotAnObject { why: "it is JSON, but a list".to_owned() },
        Ok(_) => Seen::NotAnObject { why: "it is JSON, but not an object".to_owned() },
        Err(error) => Seen::NotAnObject { why: not_json(text, &error) },
    }
}

fn message(fields: Map<String, Value>) -> Message {
    let mut wrong = Vec::new();
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        wrong.push("jsonrpc must be \"2.0\"".to_owned());
    }
    let method = match fields.get("method") {
        None => None,
        Some(Value::String(method)) => Some(method.clone()),
        Some(_) => {
            wrong.push("method must be a text".to_owned());
            None
        }
    };
    let id = fields.get("id").cloned();
    if !matches!(id, None | Some(Value::Null | Value::String(_) | Value::Number(_))) {
        wrong.push("id must be a text or a number".to_owned());
    }
    let kind = match (method, id) {
        (Some(method), Some(id)) => Kind::Request { method, id },
        (Some(method), None) => Kind::Notification { method },
        (None, Some(id)) => Kind::Reply { id },
        (None, None) => Kind::Nothing,
    };
    let (result, error) = (fields.get("result"), fields.get("error").filter(|e| !e.is_null()));
    match (&kind, result, error) {
        (Kind::Reply { .. }, None, None) => {
            wrong.push("it has neither a result nor an error".to_owned());
        }
        // A result of null beside an error is said by some libraries and means nothing.
        (Kind::Reply { .. }, Some(result), Some(_)) if !result.is_null() => {
            wrong.push("it has both a result and an error".to_owned());
        }
        (Kind::Nothing, ..) => wrong.push("it has neither a method nor an id".to_owned()),
        (Kind::Reply { .. } | Kind::Request { .. } | Kind::Notification { .. }, ..) => {}
    }
    if let Some(error) = error
        && !(error["code"].is_i64() && error["message"].is_string())
    {
        wrong.push("an error must have a code and a message".to_owned());
    }
    Message { kind, fields, wrong }
}
