//! What agents of other manners do in a session: one that calls its tools over MCP, one that is
//! interrupted, one that is stopped, and one whose caller has little to spend.

use crate::ostler::{Ostler, result};
use crate::remote_caller::{Caller, Remote};
use serde_json::{Value, json};

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_caller.py");

fn last(lines: &[(u64, Value)]) -> (u64, Value) {
    lines.last().expect("something was told").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tools_that_are_called_over_mcp_are_the_callers_too() {
    let ostler = Ostler::new();
    ostler.instance.write_config(
        &json!({ "adapters": { "mine": { "type": "process", "binary": "python3", "args": [AGENT] } } })
            .to_string(),
    );
    let args =
        ["remote", "--agent", "mine", "--listen", "127.0.0.1:0", "--token-env", "REMOTE_TOKEN"];
    let remote = Remote::with(&ostler, &args);
    let caller = Caller::of(&remote);
    let path = caller.open("far", "look").await;
    let is_call = |line: &Value| line["type"] == "tool_call";
    let answered = |call: &Value, more: Value| {
        let mut line = json!({ "type": "tool_result", "id": call["id"] });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let (at, call) = last(&caller.hear(&path, 0, is_call).await);
    assert_eq!((&call["tool"], &call["args"]["path"]), (&json!("read_file"), &json!("notes.txt")));
    let read = answered(&call, json!({ "ok": true, "value": { "content": "far away" } }));
    assert_eq!(caller.input(&path, 1, &read).await, 202);
    // What there is, is for the caller to say.
    let heard = caller.hear(&path, at, is_call).await;
    // What it printed and what it calls come by two ways, in either order.
    let mut told = format!("{heard:?}");
    let (at, call) = last(&heard);
    assert_eq!(call["tool"], "no_such_tool");
    let refused = answered(&call, json!({ "ok": false, "error": "unknown_tool: there is none" }));
    assert_eq!(caller.input(&path, 2, &refused).await, 202);
    let heard = caller.hear(&path, at, is_call).await;
    told.push_str(&format!("{heard:?}"));
    let (at, call) = last(&heard);
    assert_eq!(call["tool"], "mark_complete");
    let noted = answered(&call, json!({ "ok": true, "value": { "noted": true } }));
    assert_eq!(caller.input(&path, 3, &noted).await, 202);
    // The end it marked is its session's end, though it printed none.
    let heard = caller.hear(&path, at, |_| false).await;
    assert_eq!(last(&heard).1, json!({ "type": "complete", "text": "marked as done" }));
    told.push_str(&format!("{heard:?}"));
    assert!(told.contains("far away") && told.contains("there is none"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_can_be_interrupted_and_told_to_leave() {
    let ostler = Ostler::new();
    let remote = Remote::bearer(&ostler);
    let caller = Caller::of(&remote);
    let started = |line: &Value| line["event"]["kind"] == "turn";
    let mut ends = Vec::new();
    for (name, input) in [
        ("interrupted", json!({ "type": "interrupt" })),
        ("stopped", json!({ "type": "shutdown", "reason": "lease_expired" })),
    ] {
        let path = caller.open(name, "slow").await;
        let (at, call) = last(&caller.hear(&path, 0, |line| line["type"] == "tool_call").await);
        let task = json!({ "type": "tool_result", "id": call["id"], "ok": true, "value": { "prompt": "slow" } });
        assert_eq!(caller.input(&path, 1, &task).await, 202);
        let (at, _) = last(&caller.hear(&path, at, started).await);
        assert_eq!(caller.input(&path, 2, &input).await, 202);
        let (_, end) = last(&caller.hear(&path, at, |_| false).await);
        let run = path.rsplit('/').next().unwrap().to_owned();
        ends.push((end, result(&ostler.events(&["show", &run, "--json"]))["outcome"].clone()));
    }
    assert_eq!((&ends[0].0["type"], &ends[0].1), (&json!("complete"), &json!("succeeded")));
    assert_eq!(
        (&ends[1].0["type"], &ends[1].0["code"]),
        (&json!("failed"), &json!("lease_expired"))
    );
    assert_eq!(ends[1].1, "lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_spends_no_more_than_its_caller_allows() {
    let ostler = Ostler::new();
    let remote = Remote::bearer(&ostler);
    let caller = Caller::of(&remote);
    // From the beginning, or by what is said later.
    let small = json!({ "runId": "small", "prompt": "hello", "budgetEnvelope": { "tokens": 3 } });
    let ample =
        json!({ "runId": "ample", "prompt": "hello", "budgetEnvelope": { "tokens": 1_000_000 } });
    for (body, said) in [(small, None), (ample, Some(json!({ "tokens": 3 })))] {
        let (status, opened) = caller.post("/v1/sessions", &body).await;
        assert_eq!(status, 201, "{opened}");
        let path = format!("/v1/sessions/{}", opened["id"].as_str().unwrap());
        if let Some(remaining) = said {
            let update = json!({ "type": "budget_update", "remaining": remaining });
            assert_eq!(caller.input(&path, 1_000, &update).await, 202);
        }
        let lines = caller.serve(&path, 0).await;
        let end = lines.last().unwrap();
        assert_eq!((&end["type"], &end["reason"]), (&json!("failed"), &json!("budget_exceeded")));
    }
}
