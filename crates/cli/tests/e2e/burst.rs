//! A hundred thousand events at once, with a watcher that does not read.

use crate::ostler::{Ostler, assert_gap_free, result};
use std::fs;
use std::time::Instant;

const EVENTS: usize = 100_000;

/// Resident memory of a process, in kilobytes.
fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

#[test]
fn a_burst_loses_nothing_and_a_stalled_watcher_costs_no_memory() {
    let ostler = Ostler::new();
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on http://127.0.0.1:"));
    let pid = serve.child.id();

    // The agent waits until the watcher is there and stalled.
    let agent = ostler.fake(&format!("--sleep-ms 1500 --burst {EVENTS}"));
    let mut run = ostler.starts(&["run", "--process", &agent, "go", "--json"]);
    let first = run.event("the first event", |event| event["seq"] == 1);
    let id = first["run_id"].as_str().unwrap().to_owned();
    let mut stalled = ostler.starts(&["watch", &id, "--json"]);
    stalled.line();
    let before_kb = resident_kb(pid);

    let begun = Instant::now();
    let said = run.finish();
    let took = begun.elapsed();
    let mut peak_kb = resident_kb(pid);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let rest = said.events();
    assert_eq!(result(&rest)["outcome"], "succeeded");
    assert_eq!(
        rest.len() as u64 + 1,
        rest.last().unwrap()["seq"].as_u64().unwrap(),
        "no gap, no double"
    );

    // Late and slow, the stalled watcher still sees everything once and in order.
    let late = stalled.finish().events();
    peak_kb = peak_kb.max(resident_kb(pid));
    assert_eq!(late.last().unwrap()["seq"], rest.last().unwrap()["seq"]);
    for (event, seq) in late.iter().zip(2..) {
        assert_eq!(event["seq"], seq);
    }

    let shown = ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&shown);
    let said_by_agent = shown.iter().filter(|event| event["origin"] == "agent").count();
    assert!(said_by_agent >= EVENTS, "{said_by_agent} of {EVENTS} events were kept");
    assert_eq!(shown.len(), rest.len() + 1);

    let grown_kb = peak_kb.saturating_sub(before_kb);
    eprintln!(
        "burst: {said_by_agent} events in {:.2} s ({:.0} a second, durable), host {before_kb} kB -> {peak_kb} kB",
        took.as_secs_f64(),
        said_by_agent as f64 / took.as_secs_f64()
    );
    // All events together are over 30 MB; holding them for a watcher would show.
    assert!(grown_kb < 24_000, "the host grew by {grown_kb} kB");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(serve.finish().code, 0);
}

#[test]
fn deltas_of_one_block_are_joined_and_no_character_is_lost() {
    let ostler = Ostler::new();
    let events =
        ostler.events(&["run", "--process", &ostler.fake("--deltas --burst 5000"), "go", "--json"]);
    assert_gap_free(&events);
    let deltas: Vec<_> = events
        .iter()
        .filter(|event| event["kind"] == "assistant_text" && event["delta"] == true)
        .collect();
    assert!(deltas.len() < 5000, "{} events for 5000 deltas", deltas.len());
    // Each delta is its number, a space and dots, so that one lost, doubled or moved shows.
    let joined: String = deltas.iter().filter_map(|event| event["text"].as_str()).collect();
    let numbers: Vec<u32> =
        joined.split('.').filter_map(|piece| piece.trim().parse().ok()).collect();
    assert_eq!(numbers, (1..=5000).collect::<Vec<_>>());
    assert_eq!(joined.len() % 5000, 0, "every delta is as long as the others");
    assert_eq!(result(&events)["outcome"], "succeeded");
}
