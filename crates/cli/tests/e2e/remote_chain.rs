//! A run whose agent is a session elsewhere shows what the same agent shows here, but for processes,
//! paths and times: the events of the two are compared, one by one. Between them stands a courier of a
//! few lines (`courier.py`), which hands lines on and knows nothing.

use crate::ostler::{Ostler, assert_gap_free, result};
use crate::remote_caller::Remote;
use serde_json::{Map, Value, json};

const COURIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/courier.py");

/// What belongs to this run and no other.
const OWN: &[&str] = &[
    "run_id",
    "seq",
    "ts",
    "raw",
    "pid",
    "duration_ms",
    "expires_at",
    "attempt",
    "fence",
    "exit_code",
    "ms",
    "id",
];

/// An event without what is its run's own.
fn bare(event: &Value) -> Value {
    match event {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), bare(value))).collect())
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// The events with deltas of one block joined, as they mean the same however they were cut.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for event in events.iter().map(bare) {
        let goes_on = all.last().is_some_and(|last| {
            event["delta"] == true
                && last["kind"] == event["kind"]
                && last["block"] == event["block"]
        });
        match (goes_on, all.last_mut()) {
            (true, Some(last)) => {
                let text = [&last["text"], &event["text"]].map(|text| text.as_str().unwrap());
                last["text"] = text.concat().into();
            }
            _ => all.push(event),
        }
    }
    all
}

fn both(prompt: &str) -> (Vec<Value>, Vec<Value>) {
    let (here, there) = (Ostler::new(), Ostler::new());
    let remote = Remote::of(&there, &["--token-env", "REMOTE_TOKEN"]);
    let adapter: Map<String, Value> = serde_json::from_value(json!({
        "type": "process", "binary": "python3", "args": [COURIER, remote.url, prompt],
        "env": { "REMOTE_TOKEN": "${REMOTE_TOKEN}" },
    }))
    .unwrap();
    here.instance.write_config(&json!({ "adapters": { "far": adapter } }).to_string());
    std::fs::write(here.instance.work().join("README.md"), "# Here\n\nand not there\n").unwrap();
    let run = |agent: &str| {
        let mut command =
            here.command(&["run", agent, prompt, "--json", "--permission", "allow-all"]);
        command.env("REMOTE_TOKEN", "remote-hush-2026");
        crate::ostler::Said::from(command.output().unwrap()).events()
    };
    (run("demo"), run("far"))
}

fn same(prompt: &str) -> (Vec<Value>, Vec<Value>) {
    let (local, far) = both(prompt);
    assert_gap_free(&far);
    let (local, far) = (joined(&local), joined(&far));
    for (local, far) in local.iter().zip(&far) {
        assert_eq!(local, far);
    }
    assert_eq!(local.len(), far.len());
    (local, far)
}

#[test]
fn a_run_elsewhere_shows_what_the_same_run_shows_here() {
    let (_, far) = same("hello");
    let text = result(&far)["text"].as_str().unwrap();
    assert!(text.contains("# Here"), "its tools look into the caller's directory: {text}");
    let spent: i64 = far
        .iter()
        .filter(|event| event["kind"] == "usage")
        .map(|event| event["effective_nanousd"].as_i64().unwrap())
        .sum();
    assert_eq!(result(&far)["totals"]["effective_nanousd"], spent, "each cent is counted once");
}

#[test]
fn a_run_elsewhere_that_uses_tools_or_fails_shows_the_same_too() {
    same("tools");
    let (_, far) = same("fail");
    assert_eq!(result(&far)["code"], "agent_failed");
}

#[test]
fn what_is_too_long_for_an_event_comes_whole() {
    let (_, far) = same("big");
    assert!(far.iter().any(|event| event["truncated"] == true), "something was kept apart");
}
