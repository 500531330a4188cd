//! A turn with something of everything in it: thoughts, texts in pieces, a plan, calls that are asked
//! about and then change a file, and how full the window is. Each round waits for its answer, so a
//! host that is gone holds it up and loses it nothing. At its end it says how many answers it heard,
//! so that one which came twice, or never, shows.

use super::{Agent, chunk, piece, say, update};
use serde_json::{Value, json};
use std::time::Duration;

/// Between two pieces of a text, so that a host may die between them.
const PAUSE: Duration = Duration::from_millis(4);
/// The most rounds one turn may have.
const ROUNDS_MAX: u32 = 200;

/// `work N`: N rounds. `None` when its input ends before.
pub(super) fn work(agent: &mut Agent, text: &str) -> Option<&'static str> {
    let rounds = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let mut heard = Vec::new();
    for round in 1..=u32::min(rounds, ROUNDS_MAX) {
        think(round);
        plan(round);
        heard.push(call(agent, round)?);
        let (used, size) = (u64::from(round) * 10, 1000);
        update(&json!({ "sessionUpdate": "usage_update", "used": used, "size": size }));
    }
    let allowed = heard.iter().filter(|option| *option == "yes").count();
    chunk(&format!("worked {rounds} rounds and was allowed {allowed} times"));
    Some("end_turn")
}

fn think(round: u32) {
    for word in ["what ", "now"] {
        piece("agent_thought_chunk", word);
        std::thread::sleep(PAUSE);
    }
    for word in ["this is round ", &round.to_string(), ", and I ", "work"] {
        chunk(word);
        std::thread::sleep(PAUSE);
    }
}

fn plan(round: u32) {
    if round == 1 {
        let entry = json!({ "content": "work", "status": "in_progress", "priority": "high" });
        update(&json!({ "sessionUpdate": "plan", "entries": [entry] }));
    }
}

/// One call: announced, asked about, carried out or not. Gives the option that was chosen.
fn call(agent: &mut Agent, round: u32) -> Option<String> {
    let id = format!("call-{round}");
    let fields = |fields: Value| {
        let mut whole = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id });
        if let (Some(whole), Some(fields)) = (whole.as_object_mut(), fields.as_object()) {
            whole.extend(fields.clone());
        }
        whole
    };
    let path = format!("file-{round}");
    update(&json!({ "sessionUpdate": "tool_call", "toolCallId": id, "kind": "edit",
        "title": "edit", "status": "pending", "rawInput": {} }));
    update(&fields(json!({ "rawInput": { "path": path }, "title": format!("edit {path}") })));
    let option = ask(agent, round, &id)?;
    if option != "yes" {
        update(&fields(json!({ "status": "failed" })));
        return Some(option);
    }
    update(&fields(json!({ "status": "in_progress" })));
    let diff = json!({ "type": "diff", "path": path, "oldText": "a", "newText": "b" });
    let text = json!({ "type": "content", "content": { "type": "text", "text": "changed" } });
    update(&fields(json!({ "status": "completed", "content": [diff, text] })));
    Some(option)
}

/// Asks, with two options of one kind, and waits for the answer to this very question.
fn ask(agent: &mut Agent, round: u32, call: &str) -> Option<String> {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "kind": kind, "name": id });
    let options = [
        option("always", "allow_always"),
        option("yes", "allow_once"),
        option("yes-too", "allow_once"),
        option("no", "reject_once"),
    ];
    let params = json!({ "sessionId": "fake-session", "options": options,
        "toolCall": { "toolCallId": call, "title": format!("edit file-{round}"), "kind": "edit" } });
    let id = format!("ask-{round}");
    say(&json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission",
        "params": params }));
    loop {
        let heard = agent.next()?;
        if heard["id"] == id.as_str() {
            let outcome = &heard["result"]["outcome"];
            return Some(outcome["optionId"].as_str().unwrap_or("cancelled").to_owned());
        }
        // An answer to an earlier question came twice, or something that nobody asked for: it is
        // told, so that no test can overlook it.
        chunk(&format!("unexpected: {heard}"));
    }
}
