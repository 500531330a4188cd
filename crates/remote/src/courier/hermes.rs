//! The runs of a Hermes gateway, in the words of the process protocol. Pure: what it sends is turned
//! into events, one by one, and what it does not number is numbered by nobody. Its tools are its own,
//! so nothing is asked of us; it takes no words but the one to stop. Written from its documentation:
//! what it sends beyond that becomes `log`.

use crate::wire::{NewSession, Session};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Where its runs are.
pub const RUNS: [&str; 2] = ["v1", "runs"];
/// The header by which it remembers beyond one conversation.
pub const SESSION_KEY: &str = "X-Hermes-Session-Key";
/// Tools that were begun and have not ended; it names them by their name alone.
const TOOLS_OPEN_MAX: usize = 64;

/// The body with which a run is asked for.
pub fn asked(asked: &NewSession) -> Value {
    let mut body = json!({ "input": asked.prompt });
    let fields = [
        ("instructions", &asked.system_prompt),
        ("session_id", &asked.session_resume),
        ("model", &asked.model),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    body
}

pub fn session(answer: &[u8]) -> Result<Session, serde_json::Error> {
    #[derive(Deserialize)]
    struct Begun {
        run_id: String,
        model: Option<String>,
    }
    let Begun { run_id, model } = serde_json::from_slice(answer)?;
    Ok(Session { id: run_id, protocol: None, model, capabilities: None })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    event: String,
    delta: Option<String>,
    text: Option<String>,
    tool: Option<String>,
    preview: Value,
    error: Value,
    output: Value,
    usage: Value,
    status: String,
}

/// Puts what a run sends into events.
#[derive(Debug, Default)]
pub struct Ear {
    tools: u64,
    open: VecDeque<(String, String)>,
}

impl Ear {
    /// The events that one record is. What is no JSON is none, but for its mark of the end.
    pub fn hear(&mut self, data: &[u8]) -> Result<Vec<Value>, serde_json::Error> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(Vec::new());
        }
        let sent: Sent = serde_json::from_slice(data)?;
        Ok(match sent.event.as_str() {
            "message.delta" => text("assistant_text", sent.delta.or(sent.text)),
            "reasoning.delta" | "reasoning.available" => text("thinking", sent.delta.or(sent.text)),
            "tool.started" => vec![self.begun(sent)],
            "tool.completed" | "tool.failed" => vec![self.done(sent)],
            "run.completed" => vec![completed(&sent)],
            "run.failed" => vec![failed(&sent)],
            "run.cancelled" | "run.stopped" | "run.interrupted" => {
                vec![json!({ "type": "failed", "reason": "cancelled" })]
            }
            _ => vec![stated(json!({ "kind": "log", "text": String::from_utf8_lossy(data) }))],
        })
    }

    fn begun(&mut self, sent: Sent) -> Value {
        self.tools += 1;
        let (id, name) = (format!("tool-{}", self.tools), sent.tool.unwrap_or_default());
        if self.open.len() == TOOLS_OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((name.clone(), id.clone()));
        let input =
            if sent.preview.is_null() { json!({}) } else { json!({ "preview": sent.preview }) };
        stated(json!({
            "kind": "tool_use", "tool_call_id": id, "name": name, "input": input, "via": "native",
        }))
    }

    /// The end of the oldest tool of this name.
    fn done(&mut self, sent: Sent) -> Value {
        let name = sent.tool.unwrap_or_default();
        let open = self.open.iter().position(|(open, _)| *open == name);
        let id = open.and_then(|index| self.open.remove(index)).map(|(_, id)| id);
        let went_wrong = match &sent.error {
            Value::Null | Value::Bool(false) => sent.event == "tool.failed",
            _ => true,
        };
        let status = if went_wrong { "error" } else { "ok" };
        stated(json!({
            "kind": "tool_result", "tool_call_id": id.unwrap_or_else(|| format!("{name}-ended")),
            "status": status, "output": if went_wrong { sent.error } else { sent.output },
        }))
    }
}

/// The event that a status is, when the run has ended.
pub fn ended(status: &[u8]) -> Option<Value> {
    let sent: Sent = serde_json::from_slice(status).ok()?;
    match sent.status.as_str() {
        "completed" => Some(completed(&sent)),
        "failed" | "error" => Some(failed(&sent)),
        "cancelled" | "stopped" | "interrupted" => {
            Some(json!({ "type": "failed", "reason": "cancelled" }))
        }
        _ => None,
    }
}

fn completed(sent: &Sent) -> Value {
    let mut complete = json!({ "type": "complete", "output": sent.output });
    let tokens = |name: &str| sent.usage[name].as_u64();
    if let (Some(input), Some(output)) = (tokens("input_tokens"), tokens("output_tokens")) {
        complete["cost"] = json!({ "inputTokens": input, "outputTokens": output });
    }
    complete
}

fn failed(sent: &Sent) -> Value {
    let reason = match &sent.error {
        Value::String(error) => json!(error),
        Value::Null => json!("the run failed"),
        other => other.get("message").unwrap_or(other).clone(),
    };
    json!({ "type": "failed", "reason": reason })
}

fn text(kind: &str, text: Option<String>) -> Vec<Value> {
    let event = |text| stated(json!({ "kind": kind, "text": text, "delta": true }));
    text.map(event).into_iter().collect()
}

fn stated(event: Value) -> Value {
    json!({ "type": "event", "event": event })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_in_the_words_of_the_process_protocol() {
        let mut ear = Ear::default();
        let rows = [
            (json!({ "event": "message.delta", "delta": "Hel" }), "event assistant_text"),
            (json!({ "event": "reasoning.delta", "text": "hm" }), "event thinking"),
            (
                json!({ "event": "tool.started", "tool": "terminal", "preview": "ls" }),
                "event tool_use",
            ),
            (json!({ "event": "tool.completed", "tool": "terminal" }), "event tool_result"),
            (json!({ "event": "subagent.start", "x": 1 }), "event log"),
            (json!({ "event": "run.completed", "output": "Done." }), "complete"),
            (json!({ "event": "run.failed", "error": "no" }), "failed"),
            (json!({ "event": "run.cancelled" }), "failed"),
        ];
        for (sent, told) in rows {
            let heard = ear.hear(sent.to_string().as_bytes()).unwrap();
            let [heard] = &heard[..] else { panic!("{sent}: {heard:?}") };
            let kind = heard["event"]["kind"].as_str().unwrap_or_default();
            let word = format!("{} {kind}", heard["type"].as_str().unwrap());
            assert_eq!(word.trim_end(), told, "{sent}");
        }
        assert_eq!(ear.hear(b"[DONE]").unwrap(), Vec::<Value>::new());
        assert!(ear.hear(b"nonsense").is_err());
    }

    #[test]
    fn tools_of_one_name_end_in_the_order_in_which_they_began() {
        let mut ear = Ear::default();
        let mut id = |event: &str, tool: &str| {
            let sent = json!({ "event": event, "tool": tool, "error": event == "tool.failed" });
            let heard = ear.hear(sent.to_string().as_bytes()).unwrap();
            heard[0]["event"]["tool_call_id"].as_str().unwrap().to_owned()
        };
        let begun = [id("tool.started", "a"), id("tool.started", "b"), id("tool.started", "a")];
        let ended = [id("tool.completed", "a"), id("tool.completed", "a"), id("tool.failed", "b")];
        assert_eq!(ended, [begun[0].clone(), begun[2].clone(), begun[1].clone()]);
    }

    #[test]
    fn a_status_is_an_end_only_when_it_is_one() {
        let rows = [
            ("completed", Some("complete")),
            ("failed", Some("failed")),
            ("error", Some("failed")),
            ("cancelled", Some("failed")),
            ("stopped", Some("failed")),
            ("interrupted", Some("failed")),
            ("running", None),
            ("stopping", None),
            ("waiting_for_approval", None),
        ];
        for (status, told) in rows {
            let usage = json!({ "input_tokens": 5, "output_tokens": 2 });
            let body = json!({ "status": status, "output": "x", "usage": usage });
            let ended = ended(body.to_string().as_bytes());
            let word = ended.as_ref().map(|ended| ended["type"].as_str().unwrap());
            assert_eq!(word, told, "{status}");
            if status == "completed" {
                assert_eq!(ended.unwrap()["cost"]["outputTokens"], 2);
            }
        }
    }
}
