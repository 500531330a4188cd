//! `ostler status`: one screen with what runs, what waits and what needs attention.

use crate::ostler::{BOUND_MS, Ostler};
use serde_json::{Value, json};
use testkit::until;

fn configured() -> Ostler {
    let ostler = Ostler::new();
    let agent = testkit::fake_agent();
    let config = json!({
        "adapters": {
            "bad": { "type": "process", "binary": agent, "args": ["--failed", "no"] },
            "slow": { "type": "process", "binary": agent, "args": ["--burst", "1", "--wait-shutdown"] },
        },
        "budgets": [{ "window": "day", "tokens": 1_000_000 }],
    });
    ostler.instance.write_config(&config.to_string());
    ostler
}

#[test]
fn status_names_what_needs_attention() {
    let ostler = configured();
    assert_eq!(ostler.says(&["status"]).stdout.trim(), "nothing is running");
    assert_ne!(ostler.says(&["run", "bad", "x"]).code, 0);
    assert_eq!(ostler.says(&["task", "add", "later", "--agent", "slow"]).code, 0);
    let mut slow = ostler.starts(&["run", "slow", "x", "--json"]);
    slow.event("its first words", |event| {
        event["kind"] == "lifecycle" && event["phase"] == "running"
    });
    let shown = ostler.says(&["status"]);
    for line in [
        "slow",
        "✗ 1 run failed in the last 24 hours: ostler runs --failed --since 24h",
        "… tasks: 1 queued: no server is running, start one with ostler serve",
    ] {
        assert!(shown.stdout.contains(line), "{line}: {shown:?}");
    }
    let status = ostler.says(&["status", "--json"]);
    let status: Value =
        serde_json::from_str(&status.stdout).unwrap_or_else(|_| panic!("{status:?}"));
    assert_eq!(status["running"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["queued"][0]["title"], "later");
    assert_eq!((&status["failed_24h"], &status["approvals"]), (&json!(1), &json!(0)));
    assert_eq!((&status["host"], &status["store"]["state"]), (&json!("command"), &json!("ok")));
    assert_eq!(ostler.says(&["stop", "--now"]).code, 0);
    slow.finish();
}

#[test]
fn status_of_a_server_names_reviews() {
    let ostler = configured();
    let mut config: Value = json!({});
    config["adapters"]["good"] =
        json!({ "type": "process", "binary": testkit::fake_agent(), "args": ["--burst", "1"] });
    ostler.instance.write_config(&config.to_string());
    let mut server = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(server.line().starts_with("listening on "));
    assert_eq!(ostler.says(&["task", "add", "look", "--agent", "good"]).code, 0);
    until("the review", BOUND_MS, || {
        let shown = ostler.says(&["status"]).stdout;
        let line = "? 1 task waits for your review: ostler task list --state review";
        shown.contains(line).then_some(())
    });
    crate::ostler::signal(server.child.id() as i32, rustix::process::Signal::TERM);
    assert_eq!(server.finish().code, 0);
}
