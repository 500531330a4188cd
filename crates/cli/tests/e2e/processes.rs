//! One data directory, many processes.

use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{find_marked, until};

#[test]
fn two_runs_in_two_terminals_just_work() {
    let ostler = Ostler::new();
    let running: Vec<_> =
        (0..4).map(|i| ostler.starts(&["run", "demo", &format!("hello {i}"), "--json"])).collect();
    for running in running {
        let said = running.finish();
        let events = said.events();
        assert_gap_free(&events);
        assert_eq!(
            (said.code, &result(&events)["outcome"]),
            (0, &"succeeded".into()),
            "{}",
            said.stderr
        );
    }
    let runs: Vec<Value> = serde_json::from_str(&ostler.says(&["runs", "--json"]).stdout).unwrap();
    assert_eq!(runs.len(), 4);
}

#[test]
fn a_host_that_is_done_stays_while_another_run_needs_it() {
    let ostler = Ostler::new();
    let mut first =
        ostler.starts(&["run", "--process", &ostler.fake("--sleep-ms 700"), "short", "--json"]);
    first.event("the first run to begin", |event| event["phase"] == "running");
    let second =
        ostler.starts(&["run", "--process", &ostler.fake("--sleep-ms 2500"), "long", "--json"]);
    assert_eq!(first.finish().code, 0);
    let said = second.finish();
    assert_eq!(
        (said.code, &result(&said.events())["outcome"]),
        (0, &"succeeded".into()),
        "{}",
        said.stderr
    );
}

#[test]
fn a_run_outlives_the_host_that_was_killed_under_it() {
    let ostler = Ostler::new();
    let mut host = ostler.starts(&[
        "run",
        "--process",
        &ostler.fake("--burst 50 --sleep-ms 3000 --burst 50"),
        "x",
        "--json",
    ]);
    let begun = host.event("the run to begin", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    kill_process(Pid::from_raw(host.child.id() as i32).unwrap(), Signal::KILL).unwrap();
    host.child.wait().unwrap();

    // The next process that acts takes over; the agent has not noticed.
    let watched = ostler.says(&["watch", &id, "--json"]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    let events = ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    let bursts = events
        .iter()
        .filter(|event| event["origin"] == "agent" && event["kind"] != "usage")
        .count();
    assert!(bursts >= 100, "{bursts} events of 100");
    assert!(events.iter().any(|event| event["phase"] == "adopted"));
    until("the family to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn a_second_server_is_refused_with_the_address_of_the_first() {
    let ostler = Ostler::new();
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = serve.line();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    let second = ostler.says(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 13, "{second:?}");
    assert!(second.stderr.contains(address), "{second:?}");
    kill_process(Pid::from_raw(serve.child.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(serve.finish().code, 0);
}
