//! Agents on other machines: a remote of good manners is run like any other agent, and one of bad
//! manners ends its run once, with the code that says what was wrong, and nothing of it is lost.

use crate::ostler::{Ostler, Running, assert_gap_free, kinds, result};
use serde_json::{Value, json};
use testkit::remote::{Remote, Script, Step, numbered};

fn run(ostler: &Ostler, remote: &Remote) -> Vec<Value> {
    ostler.events(&["run", "--json", "--http", &remote.url(), "mend it"])
}

fn happy() -> Vec<Value> {
    vec![
        json!({ "type": "progress", "summary": "looking" }),
        json!({ "type": "complete", "output": { "text": "done" } }),
    ]
}

#[test]
fn a_remote_is_run_like_any_other_agent() {
    let ostler = Ostler::new();
    let events = numbered(&[
        json!({ "type": "progress", "summary": "looking" }),
        json!({ "type": "tool_call", "id": "c1", "tool": "read_task", "args": {} }),
        json!({ "type": "complete", "output": { "text": "done" }, "cost": { "usd": 0.25 } }),
    ]);
    let (first, rest) = events.split_at(2);
    let remote = Remote::play(Script::streams(vec![vec![
        Step::After(first.to_vec()),
        Step::Await("tool_result"),
        Step::After(rest.to_vec()),
        Step::Hold,
    ]]));
    let events = run(&ostler, &remote);
    assert_gap_free(&events);
    let result = result(&events);
    assert_eq!((&result["outcome"], &result["text"]), (&json!("succeeded"), &json!("done")));
    assert_eq!(result["evidence"]["end"], "explicit");
    for kind in ["session", "progress", "tool_use", "tool_result", "usage"] {
        assert!(kinds(&events).contains(&kind), "{kind}: {events:?}");
    }
    let body = &remote.asked("POST sessions")[0].body;
    assert_eq!((&body["prompt"], &body["protocol"]), (&json!("mend it"), &json!("ca-http-v1")));
    assert_eq!(remote.heard()[0]["type"], "tool_result");
    assert_eq!(remote.asked("DELETE").len(), 1, "the session was taken away");
}
