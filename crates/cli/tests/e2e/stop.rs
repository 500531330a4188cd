//! Stopping: by a signal, from another process, and at once.

use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, result};
use rustix::process::{Pid, Signal, kill_process};
use testkit::{find_marked, until};

fn interrupt(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
}

#[test]
fn ctrl_c_stops_the_run_and_exits_130() {
    let ostler = Ostler::new();
    let mut run =
        ostler.starts(&["run", "--process", &ostler.fake("--wait-shutdown"), "x", "--json"]);
    run.event("the agent to run", |event| event["phase"] == "running");
    interrupt(run.child.id());
    let said = run.finish();
    let events = said.events();
    let result = events.last().unwrap();
    assert_eq!(
        (said.code, &result["outcome"], &result["code"]),
        (130, &"cancelled".into(), &"cancelled".into())
    );
    assert!(result["evidence"]["forced"] != true, "it obeyed: {result}");
    assert!(find_marked(&ostler.instance.mark()).is_empty());
}

#[test]
fn a_second_ctrl_c_ends_an_agent_that_does_not_listen() {
    let ostler = Ostler::new();
    let mut run = ostler.starts(&[
        "run",
        "--process",
        &ostler.fake("--silent --ignore-term --never-read-stdin"),
        "x",
        "--json",
    ]);
    run.event("the agent to run", |event| event["phase"] == "running");
    interrupt(run.child.id());
    run.event("the stop to begin", |event| event["phase"] == "stopping");
    interrupt(run.child.id());
    let said = run.finish();
    let events = said.events();
    let result = events.last().unwrap();
    assert_eq!((said.code, &result["evidence"]["forced"]), (130, &true.into()), "{result}");
}

#[test]
fn a_run_is_watched_and_stopped_from_other_terminals() {
    let ostler = Ostler::new();
    let mut run = ostler.starts(&["run", "demo", "slow", "--json"]);
    let first = run.event("the run to begin", |event| event["phase"] == "running");
    let id = first["run_id"].as_str().unwrap().to_owned();
    let mut watch = ostler.starts(&["watch", &id, "--json"]);
    watch.line();
    let stopped = ostler.says(&["stop", &id]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let (ran, watched) = (run.finish(), watch.finish());
    assert_eq!((ran.code, watched.code), (130, 0), "{}\n{}", ran.stderr, watched.stderr);
    assert_eq!(ran.events().last(), watched.events().last(), "both saw the same end");

    let again = ostler.says(&["stop", &id]);
    assert_eq!(again.code, 13, "{again:?}");
    assert!(again.complaint().contains("conflict"), "{again:?}");
}

#[test]
fn leaving_a_watch_leaves_the_run_alone() {
    let ostler = Ostler::new();
    let mut run =
        ostler.starts(&["run", "--process", &ostler.fake("--sleep-ms 1500"), "x", "--json"]);
    let first = run.event("the run to begin", |event| event["phase"] == "running");
    let mut watch = ostler.starts(&["watch", first["run_id"].as_str().unwrap(), "--json"]);
    watch.line();
    interrupt(watch.child.id());
    assert_eq!(watch.finish().code, 130);
    assert_eq!(run.finish().code, 0);
}

#[test]
fn a_lingering_agent_does_not_change_its_success() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "lingers": {{ "type": "process", "binary": "{}", "lingerSec": 1, "graceSec": 1, "args": ["--linger"] }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let events = ostler.events(&["run", "lingers", "x", "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    until("the family to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn a_stop_is_heard_over_an_agent_that_never_pauses() {
    let ostler = Ostler::new();
    let flood = ostler.instance.work().join("flood.py");
    let line = r#"{"type":"progress","summary":"and on and on and on"}"#;
    std::fs::write(
        &flood,
        format!("import sys, time\nwhile True:\n    sys.stdout.write('{line}\\n' * 200)\n    sys.stdout.flush()\n    time.sleep(0.002)\n"),
    )
    .unwrap();
    let command = format!("python3 {}", flood.display());
    let mut run = ostler.starts(&["run", "--process", &command, "x", "--json"]);
    let heard = run.event("the flood", |event| event["seq"].as_u64() > Some(2_000));
    let id = heard["run_id"].as_str().unwrap().to_owned();
    // Nobody reads the flood any more, and it goes on.
    let drain = std::thread::spawn(move || run.finish());
    let stopped = ostler.says(&["stop", &id, "--now"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert_eq!(drain.join().unwrap().code, 130);
    assert!(find_marked(&ostler.instance.mark()).is_empty());
}
