//! `ostler conformance agent`: a good agent passes on every lane, and an agent with one fault is named by
//! the point of that fault and by no other.

use crate::ostler::{Ostler, Said, program};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/adapter_agent.py");

/// The configuration of the agent with this fault.
fn mapped(fault: &str) -> Value {
    json!({
        "type": "cli", "binary": "python3", "graceSec": 2,
        "mapping": {
            "args": [AGENT, "--fault", fault],
            "with": {
                "session": ["--session", "{{session}}"],
                "systemPrompt": ["--system", "{{systemPrompt}}"],
            },
            "prompt": "stdin",
            "policies": { "deny": ["--may", "look"], "allow-all": ["--may", "all"] },
            "provider": "acme",
            "rules": [
                { "when": { "ev": "hi" }, "session": { "id": "session", "cwd": "cwd" } },
                { "when": { "ev": "lost", "stubborn": false }, "sessionUnknown": true },
                { "when": { "ev": "lost", "stubborn": true }, "error": { "message": "ev" } },
                { "when": { "ev": "talk" }, "text": { "at": "bit", "delta": true } },
                { "when": { "ev": "do" },
                  "toolUse": { "id": "call", "name": "ev", "input": "call" } },
                { "when": { "ev": "did" }, "toolResult": { "id": "call", "output": "call" } },
                { "when": { "ev": "bill" },
                  "usage": { "basis": "run_total", "input": "read", "output": "wrote" } },
                { "when": { "ev": "bye", "well": true }, "end": { "success": true } },
                { "when": { "ev": "bye", "well": false }, "end": { "success": false } },
            ],
        },
    })
}

fn judged(ostler: &Ostler, adapters: Value) -> (Said, Value) {
    // Budgets that runs share are neither read nor written.
    let budgets = json!([{ "window": "day", "usd": 0.0001 }]);
    let config = json!({ "adapters": adapters, "budgets": budgets });
    ostler.instance.write_config(&config.to_string());
    let said = ostler.says(&["conformance", "agent", "it", "--json", "--timeout", "60s"]);
    let report =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:#?}"));
    (said, report)
}

/// The points with this verdict.
fn with_verdict<'r>(report: &'r Value, verdict: &str) -> BTreeSet<&'r str> {
    let points = report["points"].as_array().expect("points");
    let points = points.iter().filter(|point| point["verdict"] == verdict);
    points.map(|point| point["id"].as_str().expect("an id")).collect()
}

/// Nothing of a judged agent is left: no process, no file, and nothing in the user's own data.
fn assert_swept(ostler: &Ostler) {
    assert_eq!(testkit::find_marked(&ostler.instance.mark()), []);
    let left: Vec<_> =
        std::fs::read_dir(ostler.instance.root().join("tmp")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!ostler.instance.data().exists(), "it has a data directory of its own");
}

#[test]
fn a_good_mapped_agent_passes_every_point() {
    let ostler = Ostler::new();
    let (said, report) = judged(&ostler, json!({ "it": mapped("") }));
    assert_eq!(with_verdict(&report, "fail"), BTreeSet::new(), "{said:#?}");
    // An agent without quotas has none to be wrong about, which is a pass.
    assert_eq!(with_verdict(&report, "not_seen"), BTreeSet::new(), "{said:#?}");
    assert_eq!((said.code, &report["ok"], &report["can_run"]), (0, &true.into(), &true.into()));
    assert_swept(&ostler);
}

#[test]
fn faults_of_an_answer_are_named_by_their_points() {
    check_faults(&[
        ("crash", "run.succeeds"),
        ("abrupt", "run.succeeds"),
        ("sad", "run.succeeds"),
        // A success that neither said nor did anything is none.
        ("mute", "run.succeeds"),
        ("wordless", "run.answer"),
        ("blank", "usage.whole"),
        ("penniless", "usage.whole"),
    ]);
}

#[test]
fn faults_of_behaviour_are_named_by_their_points() {
    check_faults(&[
        ("babble", "events.understood"),
        ("unruly", "deny.kept"),
        ("astray", "prompt.cwd"),
        ("deaf", "stop.obeys"),
        ("forgetful", "resume.works"),
        ("stubborn", "resume.unknown"),
    ]);
}

/// Each agent has one fault, and fails at that point alone.
fn check_faults(faults: &[(&str, &str)]) {
    for (fault, point) in faults {
        let ostler = Ostler::new();
        let (said, report) = judged(&ostler, json!({ "it": mapped(fault) }));
        let failed = with_verdict(&report, "fail");
        assert_eq!(failed, BTreeSet::from([*point]), "{fault}: {said:#?}");
        let advice = ["events.understood", "stop.obeys"];
        let breaks = failed.iter().any(|point| !advice.contains(point));
        assert_eq!((said.code != 0, report["ok"] == false), (breaks, breaks), "{fault}");
        for point in report["points"].as_array().unwrap() {
            let is_failed = point["verdict"] == "fail";
            assert_eq!(point["hint"].is_string(), is_failed, "a hint where it fails: {point}");
        }
        assert_swept(&ostler);
    }
}

#[test]
fn a_wrong_configuration_is_named_before_anything_is_sent() {
    let ostler = Ostler::new();
    let (said, report) = judged(&ostler, json!({ "it": { "type": "process", "binry": "x" } }));
    assert!(with_verdict(&report, "fail").contains("config.good"), "{said:#?}");
    assert_eq!(report["cut_short"], "its configuration has errors");
    let (said, report) =
        judged(&ostler, json!({ "it": { "type": "process", "binary": "no-such-program-here" } }));
    let failed = with_verdict(&report, "fail");
    assert!(failed.contains("doctor.answers") && failed.contains("run.starts"), "{said:#?}");
    assert_eq!(report["can_run"], false);
    assert_swept(&ostler);
}

#[test]
fn a_good_process_agent_passes() {
    let ostler = Ostler::new();
    let own = program().display().to_string();
    let demo = json!({ "type": "process", "binary": own, "args": ["demo-agent"] });
    let (said, report) = judged(&ostler, json!({ "it": demo }));
    assert_eq!(with_verdict(&report, "fail"), BTreeSet::new(), "{said:#?}");
    let not_seen = with_verdict(&report, "not_seen");
    assert!(not_seen.contains("resume.works"), "it has no conversations: {said:#?}");
    assert_swept(&ostler);
}

#[test]
fn the_report_for_people_has_the_line_and_a_hint() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&json!({ "adapters": { "it": mapped("babble") } }).to_string());
    let said = ostler.says(&["conformance", "agent", "it", "--timeout", "60s"]);
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.stderr.contains("at most 5 prompts"), "it says what it costs first: {said:#?}");
    assert!(said.stdout.contains("! events.understood"), "{said:#?}");
    assert!(said.stdout.contains("never heard of"), "the line itself: {said:#?}");
    assert!(said.stdout.contains("→ map the line"), "{said:#?}");
    assert!(said.stdout.contains("it follows the specification: yes"), "{said:#?}");
}
