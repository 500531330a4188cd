//! An ACP turn whose host dies, over and over: between a question and its answer, between the pieces
//! of a text, before the session is opened, and with words of ours still on their way. The run is the
//! same as one that nobody harmed, the agent hears every answer once, and the relay it is offered is
//! the one it would have been offered. `deaths.rs` has the same for agents that speak JSON lines.

use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, deeds, result, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use testkit::{find_marked, until};

/// How many rounds each of the two turns has; each waits for an answer of ours.
const WORK: &str = "work 48";
/// How often the host is killed.
const DEATHS: u64 = 28;

fn killed(mut run: Running) {
    signal(run.child.id() as i32, Signal::KILL);
    run.child.wait().expect("it ends");
}

/// Starts the worker, and says once more the same while it works.
fn worker(ostler: &Ostler) -> (Running, String, Vec<Value>) {
    let agent = ostler.fake("--acp");
    let args = ["run", "--acp", &agent, WORK, "--json", "--permission", "allow-all"];
    let mut run = ostler.starts(&args);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Value| event["kind"] != "tool_use") {
        seen.push(run.event("its first call", |_| true));
    }
    let id = seen[0]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(ostler.says(&["say", &id, WORK]).code, 0);
    (run, id, seen)
}

/// The questions and their decisions, without what differs from run to run.
fn questions(events: &[Value]) -> Vec<[&Value; 5]> {
    let asked = events.iter().filter(|event| event["kind"] == "permission");
    let told = ["tool_call_id", "title", "decision", "option", "decided_by"];
    asked.map(|event| told.map(|name| &event[name])).collect()
}

/// What the agent did, without the directory it did it in.
fn deeds_anywhere(events: &[Value]) -> Vec<Value> {
    let mut deeds = deeds(events);
    for deed in deeds.iter_mut().filter(|deed| deed["kind"] == "session") {
        deed["cwd"].take();
    }
    deeds
}

#[test]
fn a_server_killed_at_28_points_of_two_turns_changes_nothing_of_the_run() {
    let quiet = Ostler::new();
    let (run, _, mut expected) = worker(&quiet);
    expected.extend(run.finish().events());
    let end = "worked 48 rounds and was allowed 48 times";
    assert_eq!(result(&expected)["text"], end, "{:#?}", expected.last());

    let ostler = Ostler::new();
    let (run, id, mut seen) = worker(&ostler);
    killed(run);
    for moment in 1..DEATHS {
        if moment % 4 == 0 {
            // From before it has the lock to the middle of taking over.
            let serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
            std::thread::sleep(Duration::from_millis(10 + moment * 37 % 200));
            killed(serve);
            continue;
        }
        // At the first event that is new, or the second, and so on: a question, its decision, a
        // piece of a text, a result.
        let mut watch = ostler.starts(&["watch", &id, "--json"]);
        let known = seen.last().and_then(|event| event["seq"].as_u64()).unwrap_or_default();
        let until_seq = known + 1 + moment % 9;
        let event = watch.event("something new", |event| event["seq"].as_u64() >= Some(until_seq));
        killed(watch);
        seen.push(event);
    }
    let watched = ostler.says(&["watch", &id, "--json"]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    let events = ostler.events(&["show", &id, "--json"]);
    assert_eq!(watched.events(), events, "a watcher sees what is stored");
    assert_gap_free(&events);
    for event in &seen {
        assert!(events.contains(event), "what was seen is gone: {event}");
    }
    let adopted = events.iter().filter(|event| event["phase"] == "adopted").count();
    assert!(adopted >= 20, "it was taken over {adopted} times only: the deaths came too late");
    assert_eq!(result(&events)["text"], end, "{:#?}", events.last());
    assert_eq!(questions(&events), questions(&expected));
    let (expected, events) = (deeds_anywhere(&expected), deeds_anywhere(&events));
    assert_eq!(testkit::promises::differs(&events, &expected), None);
    until("everything of the run to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

/// Lets the host of an agent that is asked for its tools die at an event, then lets the agent go on
/// under the next one, and gives what it answered.
fn tools_after_a_death(manner: &str, at: impl Fn(&Value) -> bool) -> String {
    let ostler = Ostler::new();
    let gate = ostler.instance.root().join("gate");
    let agent = ostler.fake(&format!("--acp {manner} {}", gate.display()));
    let mut run = ostler.starts(&["run", "--acp", &agent, "tools", "--json"]);
    let event = run.event("the moment", at);
    killed(run);
    std::fs::write(&gate, "").expect("a file");
    let id = event["run_id"].as_str().expect("an id").to_owned();
    let watched = ostler.says(&["watch", &id, "--json"]);
    let events = watched.events();
    assert_gap_free(&events);
    assert!(events.iter().any(|event| event["phase"] == "adopted"), "{events:#?}");
    assert!(!watched.stdout.contains("gets no relayed tools"), "{}", watched.stdout);
    result(&events)["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_host_that_takes_over_between_the_greeting_and_the_session_offers_the_relay() {
    let text = tools_after_a_death("--greets-when", |event| event["phase"] == "running");
    assert!(text.split(' ').any(|tool| tool == "read_task"), "{text}");
}

#[test]
fn a_session_that_was_about_to_be_opened_is_opened_with_the_token_it_had() {
    // The agent does not listen: our first answer fills its pipe, and the session waits behind it.
    let greeted = |event: &Value| event["text"] == "it is fake 1";
    let text = tools_after_a_death("--deaf-until", greeted);
    assert!(text.split(' ').any(|tool| tool == "read_task"), "{text}");
}
