//! With `server.activity: off` nothing of what the agent shows of its work is stored, and everything
//! else is as with it.

use crate::ostler::{Ostler, assert_gap_free, kinds, result};
use serde_json::Value;

const SHOWN: [&str; 7] =
    ["session", "turn", "assistant_text", "thinking", "tool_update", "plan", "diff"];

/// What remains comparable between two runs: no ids, no times.
fn timeless(event: &Value) -> Value {
    let mut event = event.clone();
    if let Some(fields) = event.as_object_mut() {
        for name in ["run_id", "seq", "ts", "pid", "duration_ms", "expires_at", "output", "why"] {
            fields.remove(name);
        }
    }
    event
}

/// Whether it is the agent's own activity, said independently of the product.
fn is_activity(event: &Value) -> bool {
    let kind = event["kind"].as_str().unwrap();
    let native = (kind == "tool_use" && event["via"] == "native") || kind == "tool_result";
    event["origin"] == "agent"
        && (SHOWN.contains(&kind) || native || kind == "log" || kind == "user_text")
}

fn run(config: &str) -> (i32, Vec<Value>, Ostler) {
    let ostler = Ostler::new();
    ostler.instance.write_config(config);
    // A file for the agent to find, and a run that uses its own tools as well as ours.
    std::fs::write(ostler.instance.work().join("note.txt"), "hi there").unwrap();
    let said = ostler.says(&["run", "demo", "hello tools", "--json"]);
    let events = said.events();
    assert_gap_free(&events);
    (said.code, events, ostler)
}

#[test]
fn without_activity_the_rest_of_the_run_is_the_same() {
    let (full_code, full, _keep) = run("{}");
    let (off_code, off, ostler) = run(r#"{ "server": { "activity": "off" } }"#);
    assert!(full.iter().any(is_activity), "{:?}", kinds(&full));
    assert!(!off.iter().any(is_activity), "{:?}", kinds(&off));
    assert!(off.iter().any(|event| event["via"] == "relayed"), "{:?}", kinds(&off));
    let rest = |events: &[Value]| -> Vec<Value> {
        let kept = |event: &&Value| !is_activity(event) && event["kind"] != "result";
        let mut rest: Vec<Value> = events.iter().filter(kept).map(timeless).collect();
        // Where a line and its answer meet in time is chance; which there are is not.
        rest.sort_by_key(Value::to_string);
        rest
    };
    assert_eq!(rest(&full), rest(&off));
    assert_eq!(full_code, off_code);
    for field in ["outcome", "code", "text", "output", "totals", "evidence"] {
        assert_eq!(result(&full)[field], result(&off)[field], "{field}");
    }
    let id = result(&off)["run_id"].as_str().unwrap().to_owned();
    assert_eq!(ostler.events(&["show", &id, "--json"]), off, "stored as it was shown");
}
