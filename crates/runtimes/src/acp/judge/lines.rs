//! Rules over single lines, whatever scene they were said in: JSON-RPC itself, ids, updates and
//! questions. What a line answers, and in which session it is, comes from the exchanges.

use super::fields::{self, UPDATES};
use super::message::{Kind, Message, Seen};
use super::script::Step;
use super::verdict::Played;
use crate::template::closest;
use crate::verdict::Case;
use serde_json::Value;
use std::collections::HashSet;

const NO_UPDATE: &str = "it sent no update";
pub(super) const NEVER_ASKED: &str = "it never asked for permission";
/// Methods of the protocol that an agent may use.
const METHODS: [&str; 13] = [
    "session/update",
    "session/request_permission",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/release",
    "terminal/wait_for_exit",
    "terminal/kill",
    "elicitation/create",
    "elicitation/complete",
    "mcp/connect",
    "mcp/message",
];

/// What one scene has shown so far.
#[derive(Default)]
struct Known {
    answered: HashSet<String>,
    calls: HashSet<String>,
}

/// What is wrong with a message in one respect; `None` when it says nothing about it.
type Look = fn(&Played, usize, &Message, &mut Known) -> Option<Vec<String>>;

/// Looks at every message of every scene.
fn each(case: &mut Case, scenes: &[Played], missing: &'static str, look: Look) {
    case.missing = missing;
    for played in scenes {
        let mut known = Known::default();
        for (at, seen) in played.seen.iter().enumerate() {
            let Seen::Message(message) = seen else { continue };
            match look(played, at, message, &mut known) {
                None => {}
                Some(wrong) if wrong.is_empty() => case.seen = true,
                Some(wrong) => case.offend(played, Some(at), wrong.join("; ")),
            }
        }
    }
}

pub(super) fn json(case: &mut Case, scenes: &[Played]) {
    for played in scenes {
        for (at, seen) in played.seen.iter().enumerate() {
            match seen {
                Seen::Blank => {}
                // A line that our own end of the process may have cut says nothing.
                Seen::NotAnObject { .. } if played.was_cut(at) => {}
                Seen::NotAnObject { why } => case.offend(played, Some(at), why.as_str()),
                Seen::Message(_) => case.seen = true,
            }
        }
    }
}

pub(super) fn rpc(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, "it said nothing", |_, _, message, _| Some(message.wrong.clone()));
}

pub(super) fn ids(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, "it answered nothing", id);
}

pub(super) fn methods(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, "it sent nothing and asked for nothing", |_, _, message, _| {
        let method = method(message)?;
        Some(match METHODS.contains(&method) || method.starts_with(['_', '$']) {
            true => Vec::new(),
            false => vec![format!("the protocol has no '{method}' that an agent may use")],
        })
    });
}

pub(super) fn offered(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, "it said nothing", |_, _, message, _| {
        let files = |method: &&str| method.starts_with("fs/") || method.starts_with("terminal/");
        let asked = method(message).filter(files);
        Some(asked.map(|method| format!("'{method}' was not offered")).into_iter().collect())
    });
}

pub(super) fn options(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, NEVER_ASKED, |_, _, message, _| match &message.kind {
        Kind::Request { method, .. } if method == "session/request_permission" => {
            Some(fields::of_question(message.params()))
        }
        Kind::Request { .. } | Kind::Notification { .. } | Kind::Reply { .. } | Kind::Nothing => {
            None
        }
    });
}

pub(super) fn sessions(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, NO_UPDATE, |played, at, message, _| {
        message.update().map(|_| session(played, at, message))
    });
}

pub(super) fn kinds(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, NO_UPDATE, |_, _, message, _| {
        message.update().map(|(kind, _)| match UPDATES.contains(&kind) {
            true => Vec::new(),
            false => {
                let meant = closest(kind, UPDATES.into_iter());
                let meant = meant.map(|name| format!("; did you mean '{name}'?"));
                vec![format!("there is no update '{kind}'{}", meant.unwrap_or_default())]
            }
        })
    });
}

pub(super) fn updates(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, NO_UPDATE, |_, _, message, _| {
        message.update().map(|(kind, update)| fields::of_update(kind, update))
    });
}

pub(super) fn calls(case: &mut Case, scenes: &[Played]) {
    each(case, scenes, "it reported no tool call", |_, _, message, known| call(message, known));
}

fn method(message: &Message) -> Option<&str> {
    match &message.kind {
        Kind::Request { method, .. } | Kind::Notification { method } => Some(method),
        Kind::Reply { .. } | Kind::Nothing => None,
    }
}

/// A reply has the id of a request that was said before it and was not answered yet.
fn id(played: &Played, at: usize, message: &Message, known: &mut Known) -> Option<Vec<String>> {
    let Kind::Reply { id } = &message.kind else { return None };
    let said = || played.recording.exchanges.iter().filter(|exchange| exchange.after <= at);
    if id.is_null() {
        // Who cannot read a line cannot know its id.
        let broken = said().any(|exchange| exchange.step == Step::BrokenLine);
        let why = || vec!["it answers nothing: its id is null".to_owned()];
        return Some(if broken { Vec::new() } else { why() });
    }
    let asked = said().any(|exchange| exchange.id.map(Value::from).as_ref() == Some(id));
    Some(match (asked, known.answered.insert(id.to_string())) {
        (true, true) => Vec::new(),
        (true, false) => vec![format!("{id} was answered before")],
        (false, _) => vec![format!("nothing was asked by the id {id}")],
    })
}

/// An update is of a session that is open, or that the next reply opens.
fn session(played: &Played, at: usize, message: &Message) -> Vec<String> {
    let Some(session) = message.session() else {
        return vec!["it has no sessionId".to_owned()];
    };
    let mut said = played.recording.exchanges.iter().filter(|exchange| exchange.after <= at);
    match said.any(|exchange| exchange.session.as_deref() == Some(session)) {
        true => Vec::new(),
        // A session that was opened by the way, when it should have been refused, is one too.
        false if played.opened().any(|opened| opened == session) => Vec::new(),
        false => vec![format!("there is no session '{session}'")],
    }
}

/// A call is announced, or asked about, before anything is told of it.
fn call(message: &Message, known: &mut Known) -> Option<Vec<String>> {
    let id = |value: &Value| value["toolCallId"].as_str().map(str::to_owned);
    if let Kind::Request { .. } = &message.kind {
        known.calls.extend(id(&message.params()["toolCall"]));
        return None;
    }
    let (kind, update) = message.update()?;
    match (kind, id(update)) {
        ("tool_call", Some(id)) => {
            known.calls.insert(id);
            Some(Vec::new())
        }
        ("tool_call_update", Some(id)) => match known.calls.insert(id.clone()) {
            false => Some(Vec::new()),
            true => Some(vec![format!("the call '{id}' was never announced")]),
        },
        _ => None,
    }
}
