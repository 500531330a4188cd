//! A host that renews no lease, because it is stopped by a signal: the keeper takes leave of the agent in the
//! words of its protocol, sends SIGTERM, and kills it at the deadline. `remote.rs` has the same for couriers,
//! `crates/keeper/tests/keeper/stopping.rs` the times of the ladder.

use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, keepers, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use testkit::{find_marked, until};

/// Long enough for a busy machine between the renewal and the stop, and between its steps.
const LEASE_SEC: u64 = 10;

/// An instance whose adapter `mine` is the agent of `lease_agent.py`, and where its log is.
fn with_agent(protocol: &str) -> (Ostler, std::path::PathBuf) {
    let ostler = Ostler::new();
    let root = ostler.instance.root();
    let (log, program) = (root.join("agent.log"), root.join("agent.sh"));
    let python = testkit::python().expect("tests need Python 3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/lease_agent.py");
    let exec = format!(
        "#!/bin/sh\nexec {} {script} {protocol} {} \"$@\"\n",
        python.display(),
        log.display()
    );
    std::fs::write(&program, exec).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let adapter = match protocol {
        "acp" => json!({ "type": "acp", "binary": program, "args": [] }),
        "claude" => json!({ "type": "cli", "runtime": "claude", "binary": program }),
        _ => json!({ "type": "process", "binary": program, "protocol": "json-lines" }),
    };
    let server = json!({ "leaseSec": LEASE_SEC });
    ostler
        .instance
        .write_config(&json!({ "server": server, "adapters": { "mine": adapter } }).to_string());
    (ostler, log)
}

/// Runs the agent until it works, stops the host until the keeper is gone, and gives the log of the agent from
/// the farewell on, and the events of the run.
fn lose_lease(protocol: &str, farewell: impl Fn(&Value) -> bool) -> (Vec<String>, Vec<Value>) {
    let (ostler, log) = with_agent(protocol);
    let mut run = ostler.starts(&["run", "mine", "x", "--json"]);
    let works = |event: &Value| {
        event["text"]
            .as_str()
            .or(event["summary"].as_str())
            .is_some_and(|text| text.starts_with("work"))
    };
    let id = run.event("the agent to work", works)["run_id"].as_str().unwrap().to_owned();
    let host = run.child.id() as i32;
    signal(host, Signal::STOP);
    until("the keeper to leave", BOUND_MS, || keepers(&id).is_empty().then_some(()));
    let noted = std::fs::read_to_string(log).unwrap();
    signal(host, Signal::CONT);
    let events = ended(&ostler, run, &id);
    let lines: Vec<String> = noted.lines().map(str::to_owned).collect();
    let parsed = |line: &String| serde_json::from_str::<Value>(line).unwrap_or_default();
    let told = lines.iter().position(|line| farewell(&parsed(line)));
    let told = told.unwrap_or_else(|| panic!("{protocol}: the agent was not told: {noted}"));
    (lines[told + 1..].to_vec(), events)
}

fn ended(ostler: &Ostler, run: Running, id: &str) -> Vec<Value> {
    let said = run.finish();
    let events = ostler.events(&["show", id, "--json"]);
    assert_gap_free(&events);
    let end = result(&events);
    let (outcome, code) = (&end["outcome"], &end["code"]);
    assert_eq!((outcome, code), (&json!("lost"), &json!("lease_expired")), "{events:#?}");
    assert_eq!(said.code, 13, "{}", said.stderr);
    let lost = events.iter().filter(|event| event["kind"] == "lease" && event["action"] == "lost");
    assert_eq!(lost.count(), 1, "{events:#?}");
    let left = find_marked(&ostler.instance.mark());
    assert!(left.is_empty(), "{left:?}");
    events
}

#[test]
fn process_agent_is_told_and_terminated_before_it_is_killed() {
    let is_shutdown =
        |line: &Value| *line == json!({ "type": "shutdown", "reason": "lease_expired" });
    let (after, events) = lose_lease("process", is_shutdown);
    assert_eq!(after, ["SIGTERM"]);
    assert_eq!(result(&events)["evidence"]["forced"], true, "it did not obey: {events:#?}");
}

#[test]
fn acp_agent_is_cancelled_and_its_answer_is_no_outcome() {
    let is_cancel =
        |line: &Value| line["method"] == "session/cancel" && line["params"]["sessionId"] == "s1";
    let (after, _) = lose_lease("acp", is_cancel);
    assert_eq!(after, ["SIGTERM"]);
}

#[test]
fn native_agent_is_interrupted() {
    let is_interrupt = |line: &Value| line["request"]["subtype"] == "interrupt";
    let (after, _) = lose_lease("claude", is_interrupt);
    assert_eq!(after, ["SIGTERM"]);
}

/// A host that is stopped and goes on within the last part of the lease: its renewal comes after the agent was
/// told to leave, and does not call the stop off.
#[test]
fn renewal_after_the_farewell_is_too_late() {
    let (ostler, log) = with_agent("process");
    let mut run = ostler.starts(&["run", "mine", "x", "--json"]);
    let works = |event: &Value| event["summary"] == "working";
    let id = run.event("the agent to work", works)["run_id"].as_str().unwrap().to_owned();
    let host = run.child.id() as i32;
    signal(host, Signal::STOP);
    let noted = || std::fs::read_to_string(&log).unwrap_or_default();
    until("the farewell", BOUND_MS, || noted().contains("lease_expired").then_some(()));
    signal(host, Signal::CONT);
    ended(&ostler, run, &id);
    assert_eq!(noted().lines().filter(|line| line.contains("shutdown")).count(), 1, "{}", noted());
}
