//! Clocks: each stops with its own code, names itself and its limit, and knows when to wait.

use crate::ostler::{Ostler, result};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

fn configured(ostler: &Ostler, clocks: Value, flags: &[&str]) {
    let mut adapter = json!({
        "type": "process", "binary": testkit::fake_agent(), "args": flags, "graceSec": 1,
    });
    for (name, value) in clocks.as_object().unwrap() {
        adapter[name] = value.clone();
    }
    ostler.instance.write_config(&json!({ "adapters": { "watched": adapter } }).to_string());
}

fn ends(clocks: Value, flags: &[&str]) -> (i32, Value) {
    let ostler = Ostler::new();
    configured(&ostler, clocks, flags);
    let said = ostler.says(&["run", "watched", "x", "--json"]);
    (said.code, result(&said.events()).clone())
}

#[test]
fn each_clock_names_itself_and_its_limit() {
    let rows = [
        (json!({ "timeoutSec": 1 }), vec!["--wait-shutdown"], "timeout_wall", "wall 1 s"),
        (
            json!({ "firstOutputSec": 1.5 }),
            vec!["--silent"],
            "timeout_first_output",
            "first output 1.5 s",
        ),
        (json!({ "silenceSec": 1 }), vec!["--wait-shutdown"], "timeout_silence", "silence 1 s"),
    ];
    for (clocks, flags, code, stopped_by) in rows {
        let (exit, result) = ends(clocks, &flags);
        assert_eq!(
            (exit, &result["code"], &result["outcome"], &result["evidence"]["stopped_by"]),
            (8, &code.into(), &"timed_out".into(), &stopped_by.into()),
            "{result}"
        );
    }
}

/// An agent that says that it is done and stays.
fn stays(linger: Value) -> Value {
    let ostler = Ostler::new();
    let script = ostler.instance.root().join("agent.sh");
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtimes/src/droid/recordings/hello");
    let fake = testkit::fake_agent();
    let text = format!("#!/bin/sh\n{} --again {recordings}\nexec sleep 60\n", fake.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let adapter = json!({
        "type": "cli", "runtime": "droid", "binary": script.display().to_string(), "graceSec": 1,
        "lingerSec": linger, "permission": "allow-all",
    });
    ostler.instance.write_config(&json!({ "adapters": { "mine": adapter } }).to_string());
    result(&ostler.says(&["run", "mine", "x", "--json"]).events()).clone()
}

#[test]
fn an_agent_that_is_known_to_leave_late_is_given_the_time_unless_the_configuration_says_otherwise()
{
    for (linger, stopped_by) in [(json!(0), "linger 8 s"), (json!(1), "linger 1 s")] {
        let end = stays(linger);
        let seen = (&end["outcome"], &end["evidence"]["stopped_by"]);
        assert_eq!(seen, (&"succeeded".into(), &stopped_by.into()), "{end}");
    }
}

#[test]
fn silence_does_not_count_while_a_tool_is_at_work() {
    let clocks = json!({ "silenceSec": 3 });
    let (exit, quiet) = ends(clocks.clone(), &["--open-tool", "7000"]);
    assert_eq!((exit, &quiet["outcome"]), (0, &"succeeded".into()), "{quiet}");
    let (exit, after) = ends(clocks, &["--open-tool", "100", "--sleep-ms", "60000"]);
    assert_eq!((exit, &after["evidence"]["stopped_by"]), (8, &"silence 3 s".into()), "{after}");
}

#[test]
fn unlimited_is_a_word_and_zero_is_the_default() {
    let unlimited = json!({
        "timeoutSec": "unlimited", "silenceSec": "unlimited", "firstOutputSec": "unlimited",
    });
    let (exit, result) = ends(unlimited, &["--sleep-ms", "1500"]);
    assert_eq!((exit, &result["outcome"]), (0, &"succeeded".into()), "{result}");

    let ostler = Ostler::new();
    configured(&ostler, json!({ "timeoutSec": "unlimited" }), &["--tool", "get_budget", "{}"]);
    let events = ostler.events(&["run", "watched", "x", "--json"]);
    let left = |events: &[Value]| {
        let answer = events.iter().find(|event| event["kind"] == "tool_result");
        answer.expect("an answer")["output"]["remaining"].clone()
    };
    assert_eq!(left(&events)["ms"], Value::Null, "there is no wall");
    configured(&ostler, json!({ "timeoutSec": 0 }), &["--tool", "get_budget", "{}"]);
    let events = ostler.events(&["run", "watched", "x", "--json"]);
    let ms = left(&events)["ms"].as_u64().expect("the default wall");
    assert!(ms <= 2 * 3600 * 1000 && ms > 3600 * 1000, "{ms}");
    let said = ostler.says(&["run", "watched", "x", "--timeout", "forever"]);
    assert_eq!(said.code, 2, "{said:#?}");
}
