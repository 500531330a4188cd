//! Odd things that an agent says over ACP, by name: lines that are no messages, replies that nobody
//! waits for, turns that end in no way there is. What is not named here is an odd line of
//! `garbage.rs`, said before the greeting, before the session and in the turn.

use super::{answer, chunk};
use crate::agent::{garbage, signals};
use serde_json::{Value, json};
use std::io::{self, Write as _};

/// Says the odd thing that follows.
pub const ODD: &str = "--odd";
/// How long the text of a long line is.
const LONG_BYTES: usize = 10_000_000;
const DEPTH: usize = 100_000;

/// What is odd about the protocol itself.
pub const NAMES: [&str; 26] = [
    "a reply with a wrong id",
    "a reply with an odd id",
    "a reply with no id",
    "a reply to the greeting, again",
    "the prompt is answered twice",
    "the prompt is answered under its id as a text",
    "a request under the id of ours",
    "a request that is not served",
    "a notification of another protocol",
    "an array in the place of a message",
    "two messages on one line",
    "a batch of messages",
    "a text of ten million bytes",
    "a deep input",
    "a lone surrogate in a text",
    "invalid UTF-8 in a text",
    "raw ESC in a text",
    "an update of another session",
    "an update of no kind",
    "an error in place of the answer",
    "an error that is a text",
    "an answer without a result",
    "leaves in the middle of a turn",
    "is killed in the middle of a turn",
    "never answers",
    "never greets",
];

/// What becomes of the request that is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is answered as it should be.
    Answer,
    /// Nothing more is said, for as long as input comes.
    Wait,
    /// The agent exits.
    Leave,
}

/// Says what is odd before this request is answered; `None` for a name that means nothing.
pub(super) fn say(name: &str, method: &str, id: &Value) -> Option<Then> {
    if !["initialize", "session/new", "session/prompt"].contains(&method) {
        return Some(Then::Answer);
    }
    if !NAMES.contains(&name) {
        raw(&garbage::odd(name)?);
        return Some(Then::Answer);
    }
    if name == "never greets" {
        return Some(Then::Wait);
    }
    if method != "session/prompt" {
        return Some(Then::Answer);
    }
    let end_turn = json!({ "stopReason": "end_turn" });
    match name {
        "a reply with a wrong id" => answer(&json!(999), &end_turn),
        "a reply with an odd id" => answer(&json!({ "a": 1 }), &end_turn),
        "a reply with no id" => answer(&Value::Null, &end_turn),
        "a reply to the greeting, again" => answer(&json!(1), &json!({ "protocolVersion": 7 })),
        "the prompt is answered twice" => {
            chunk("once");
            answer(id, &end_turn);
        }
        "the prompt is answered under its id as a text" => {
            chunk("as a text");
            answer(&json!(id.to_string()), &end_turn);
        }
        "a request under the id of ours" => line(&request(id, "not/served")),
        "a request that is not served" => line(&request(&json!("own"), "fs/read_text_file")),
        "a notification of another protocol" => {
            line(&json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": [1] }));
        }
        "an array in the place of a message" => line(&json!([null, id, null, end_turn])),
        "two messages on one line" => {
            raw(format!("{}{}\n", update("one"), update("two")).as_bytes());
        }
        "a batch of messages" => line(&json!([update("one"), update("two")])),
        "a text of ten million bytes" => line(&update(&"x".repeat(LONG_BYTES))),
        "a deep input" => {
            let (open, close) = ("[".repeat(DEPTH), "]".repeat(DEPTH));
            let deep = update("<>").to_string().replace("\"<>\"", &format!("{open}{close}"));
            raw(format!("{deep}\n").as_bytes());
        }
        "a lone surrogate in a text" => within(br"\ud800"),
        "invalid UTF-8 in a text" => within(b"\xff\xfe"),
        "raw ESC in a text" => within(b"\x1b[31mred"),
        "an update of another session" => {
            let text = update("elsewhere").to_string();
            raw(format!("{}\n", text.replace("fake-session", "another")).as_bytes());
        }
        "an update of no kind" => {
            let params = json!({ "sessionId": "fake-session", "update": { "song": "la la" } });
            line(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
        }
        "an error in place of the answer" => {
            let error = json!({ "code": -32_603, "message": "it broke" });
            line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            return Some(Then::Wait);
        }
        "an error that is a text" => {
            line(&json!({ "jsonrpc": "2.0", "id": id, "error": "it broke" }));
            return Some(Then::Wait);
        }
        "an answer without a result" => {
            line(&json!({ "jsonrpc": "2.0", "id": id }));
            return Some(Then::Wait);
        }
        "leaves in the middle of a turn" => return Some(Then::Leave),
        "is killed in the middle of a turn" => signals::kill_self(),
        _ => return Some(Then::Wait),
    }
    Some(Then::Answer)
}

fn request(id: &Value, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method })
}

/// A piece of text as a message.
fn update(text: &str) -> Value {
    let content = json!({ "type": "text", "text": text });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    let params = json!({ "sessionId": "fake-session", "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}

/// A piece of text with these bytes in it, as they are.
fn within(bytes: &[u8]) {
    let text = update("<>").to_string();
    let (before, after) = text.split_once("<>").unwrap_or_default();
    raw(&[before.as_bytes(), bytes, after.as_bytes(), b"\n"].concat());
}

fn line(message: &Value) {
    raw(format!("{message}\n").as_bytes());
}

fn raw(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    // A closed pipe is one of the situations under test.
    let _ = stdout.write_all(bytes);
    let _ = stdout.flush();
}
