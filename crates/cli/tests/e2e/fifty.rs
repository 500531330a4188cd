//! A host that is killed with fifty living agents: the next one takes over every one of them, and each
//! run goes on to its own end. How long that took is printed, for it depends on the machine.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, result, signal};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Instant;
use testkit::{find_marked, until};

const AGENTS: usize = 50;

/// Waits until nobody holds the gate, then says whose agent it is.
const AGENT: &str = r#"echo '{"type":"progress","summary":"waiting"}'
flock --shared gate true
echo "{\"type\":\"complete\",\"output\":{\"text\":\"of $OSTLER_RUN_ID\"}}"
"#;

/// Waits until every run has an event that fits.
fn until_all(ostler: &Ostler, runs: &[String], what: &str, fits: fn(&Value) -> bool) {
    for run in runs {
        until(what, BOUND_MS, || {
            ostler.events(&["show", run, "--json"]).iter().any(fits).then_some(())
        });
    }
}

#[test]
fn a_host_that_is_killed_with_fifty_agents_loses_none_of_them() {
    let ostler = Ostler::new();
    let (work, script) = (ostler.instance.work(), ostler.instance.root().join("agent.sh"));
    std::fs::write(&script, AGENT).unwrap();
    let gate = std::fs::File::create(work.join("gate")).unwrap();
    flock(&gate, FlockOperation::LockExclusive).unwrap();
    let adapter = json!({ "type": "process", "binary": "sh", "args": [script] });
    ostler.instance.write_config(&json!({ "adapters": { "waits": adapter } }).to_string());

    let mut door = Door::of(ostler);
    let body = json!({ "agent": "waits", "prompt": "x", "cwd": work }).to_string();
    let runs: Vec<String> = (0..AGENTS)
        .map(|_| {
            let answer = door.owner("POST", "/api/v1/runs", &body);
            let run: Value = serde_json::from_str(&answer.body).expect("JSON");
            run["run_id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
        })
        .collect();
    until_all(&door.ostler, &runs, "an agent to wait", |event| event["summary"] == "waiting");
    signal(door.serve.child.id() as i32, Signal::KILL);
    door.serve.child.wait().unwrap();

    let began = Instant::now();
    let mut next = door.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(next.line().starts_with("listening on "));
    let ready = began.elapsed();
    until_all(&door.ostler, &runs, "a run to be adopted", |event| event["phase"] == "adopted");
    eprintln!(
        "{AGENTS} agents: the next host was there after {ready:?}, and had all of them at the latest after {:?}",
        began.elapsed()
    );

    flock(&gate, FlockOperation::Unlock).unwrap();
    until_all(&door.ostler, &runs, "a run to end", |event| event["kind"] == "result");
    for run in &runs {
        let events = door.ostler.events(&["show", run, "--json"]);
        assert_gap_free(&events);
        let end = result(&events);
        let text = end["text"].as_str().unwrap_or_default();
        assert_eq!((&end["outcome"], text), (&"succeeded".into(), &*format!("of {run}")), "{end}");
        let began = events.iter().filter(|event| event["phase"] == "running").count();
        assert_eq!(began, 1, "{run} was launched once");
        assert!(find_marked(run).is_empty(), "{run} left someone");
    }
    signal(next.child.id() as i32, Signal::TERM);
    assert_eq!(next.finish().code, 0);
}
