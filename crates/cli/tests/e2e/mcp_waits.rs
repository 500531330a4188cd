//! Calls of tools over MCP that wait for a person: they show signs of life while they wait, and a caller
//! that leaves or cancels takes its question with it, so that a later answer does nothing.

use crate::mcp::{AGENT, Guest};
use crate::ostler::{BOUND_MS, Ostler, result};
use crate::stream::Stream;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::until;

/// An open call of `write_file`, whose question waits.
fn waiting(guest: &Guest, id: u64, file: &str, progress: bool) -> Stream {
    let token = progress.then_some("waiting");
    Stream::call(guest, id, "write_file", &json!({ "path": file, "content": "x" }), token)
}

fn approvals(ostler: &Ostler) -> Vec<Value> {
    let said = ostler.says(&["approvals", "--json"]);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// The ids of so many open approvals.
fn asked(ostler: &Ostler, count: usize) -> Vec<String> {
    until("the approvals", BOUND_MS, || {
        let open = approvals(ostler);
        let ids = open.iter().map(|ask| ask["ask_id"].as_str().unwrap().to_owned());
        (open.len() == count).then(|| ids.collect())
    })
}

fn events(ostler: &Ostler, guest: &Guest) -> Vec<Value> {
    let said = ostler.says(&["show", &guest.run(), "--json"]).stdout;
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A withdrawn question is told as cancelled, its call has failed, and an answer finds nothing.
fn assert_withdrawn(ostler: &Ostler, guest: &Guest, ask: &str, file: &str) {
    until("the question to be withdrawn", BOUND_MS, || {
        let open = approvals(ostler);
        open.iter().all(|open| open["ask_id"] != ask).then_some(())
    });
    assert_eq!(ostler.says(&["answer", ask, "allow"]).code, 16, "there is nothing to answer");
    let told = events(ostler, guest);
    let decided = told.iter().rev().find(|event| event["ask_id"] == ask).expect("an event");
    assert_eq!(decided["decision"], "cancelled", "{decided}");
    let result = told.iter().find(|event| {
        event["kind"] == "tool_result" && event["tool_call_id"] == decided["tool_call_id"]
    });
    let result = result.expect("the call is answered");
    assert_eq!(result["status"], "error", "{result}");
    assert!(!guest.work().join(file).exists(), "{file} must not be written");
}

#[test]
fn closed_connection_withdraws_the_question() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "ask"]);
    let call = waiting(&guest, 1, "early", false);
    let ask = asked(&ostler, 1).remove(0);
    drop(call);
    assert_withdrawn(&ostler, &guest, &ask, "early");
    guest.finish();
}

#[test]
fn cancelled_notification_withdraws_the_question() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "ask"]);
    let _call = waiting(&guest, 7, "first", false);
    let ask = asked(&ostler, 1).remove(0);
    let cancel = |id: u64| {
        let params = json!({ "requestId": id });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    // Another id is another call.
    assert_eq!(guest.post(&cancel(8)).0, 202);
    assert_eq!(asked(&ostler, 1), std::slice::from_ref(&ask));
    assert_eq!(guest.post(&cancel(7)).0, 202);
    assert_withdrawn(&ostler, &guest, &ask, "first");
    guest.finish();
}

#[test]
fn waiting_calls_show_signs_of_life() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "ask"]);
    let mut told = waiting(&guest, 1, "told", true);
    let mut silent = waiting(&guest, 2, "silent", false);
    let asks = asked(&ostler, 2);
    told.hears("notifications/progress");
    silent.hears(": waiting");
    for ask in &asks {
        assert_eq!(ostler.says(&["answer", ask, "allow"]).code, 0);
    }
    // The answer comes on the same stream, and what was allowed is done.
    told.hears(r#""id":1"#);
    silent.hears(r#""id":2"#);
    let text = silent.text();
    assert!(text.contains("text/event-stream"), "{text}");
    assert!(guest.work().join("told").exists() && guest.work().join("silent").exists());
    guest.finish();
}

#[test]
fn undeclared_capabilities_are_not_answered() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &[]);
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let (_, answer) = guest.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method }));
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    guest.finish();
}

#[test]
fn calls_over_mcp_are_output() {
    let ostler = Ostler::new();
    let script = ostler.instance.root().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    let agent = json!({ "type": "process", "binary": "sh", "args": [script], "firstOutputSec": 3 });
    ostler.instance.write_config(&json!({ "adapters": { "quiet": agent } }).to_string());
    let mut command = ostler.command(&["run", "quiet", "be there", "--json"]);
    let guest = Guest::at(ostler.instance.work(), &mut command);
    guest.call("report_progress", &json!({ "summary": "looking" })).unwrap();
    // It prints nothing until after the time for the first output.
    std::thread::sleep(Duration::from_secs(4));
    let events = guest.finish();
    let end = result(&events);
    assert_eq!(end["outcome"], "succeeded", "{end}");
}
