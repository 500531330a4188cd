//! Calls of tools over MCP that wait for a person: they show signs of life while they wait, and a caller
//! that leaves or cancels takes its question with it, so that a later answer does nothing.

use crate::mcp::{AGENT, Guest};
use crate::ostler::{BOUND_MS, Ostler, result};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use testkit::until;

/// An open call of `write_file`, whose question waits.
struct Waiting {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Waiting {
    fn call(guest: &Guest, id: u64, file: &str, progress: bool) -> Self {
        let meta = if progress { json!({ "progressToken": id }) } else { json!({}) };
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {
                "name": "write_file",
                "arguments": { "path": file, "content": "x" },
                "_meta": meta,
            },
        });
        let address = guest.url().strip_prefix("http://").unwrap();
        let (address, path) = address.split_once('/').unwrap();
        let body = call.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let head = format!(
            "POST /{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {}\r\n\r\n{body}",
            guest.token(),
            body.len(),
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self { stream, heard: Vec::new() }
    }

    /// Waits until the server has sent this.
    fn hears(&mut self, wanted: &str) {
        until(&format!("{wanted} to be sent"), BOUND_MS, || {
            let mut piece = [0; 4096];
            if let Ok(read) = self.stream.read(&mut piece) {
                self.heard.extend_from_slice(&piece[..read]);
            }
            String::from_utf8_lossy(&self.heard).contains(wanted).then_some(())
        });
    }
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
    let call = Waiting::call(&guest, 1, "early", false);
    let ask = asked(&ostler, 1).remove(0);
    call.stream.shutdown(Shutdown::Both).unwrap();
    drop(call);
    assert_withdrawn(&ostler, &guest, &ask, "early");
    guest.finish();
}

#[test]
fn cancelled_notification_withdraws_the_question() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "ask"]);
    let _call = Waiting::call(&guest, 7, "first", false);
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
    let mut told = Waiting::call(&guest, 1, "told", true);
    let mut silent = Waiting::call(&guest, 2, "silent", false);
    let asks = asked(&ostler, 2);
    told.hears("notifications/progress");
    silent.hears(": waiting");
    for ask in &asks {
        assert_eq!(ostler.says(&["answer", ask, "allow"]).code, 0);
    }
    // The answer comes on the same stream, and what was allowed is done.
    told.hears(r#""id":1"#);
    silent.hears(r#""id":2"#);
    let text = String::from_utf8_lossy(&silent.heard).into_owned();
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
