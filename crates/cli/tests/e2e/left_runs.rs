//! A host that is killed with hundreds of living agents, or with keepers that do not answer: the next one
//! takes every run over once, looks at the processes of the machine a fixed number of times, and answers
//! requests meanwhile. `fifty.rs` shows that each of many runs goes on to its own end.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, keepers, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Instant;
use testkit::until;

/// Looks at the environments of all processes until two in a row found nobody, with room for agents that
/// need a second kill. Not one for each run.
const SCANS_MAX: u64 = 8;
/// Several for each core may start at once.
const STARTERS: usize = 8;

/// A server whose adapter `waits` does nothing until it is told to leave.
fn served() -> Door {
    let ostler = Ostler::new();
    let script = ostler.instance.root().join("agent.sh");
    std::fs::write(&script, "while read -r line; do case $line in *shutdown*) exit;; esac; done\n")
        .unwrap();
    let adapter = json!({ "type": "process", "binary": "sh", "args": [script] });
    ostler.instance.write_config(&json!({ "adapters": { "waits": adapter } }).to_string());
    Door::of(ostler)
}

fn start(door: &Door) -> String {
    let body = json!({ "agent": "waits", "prompt": "x", "cwd": door.ostler.instance.work() });
    let answer = door.owner("POST", "/api/v1/runs", &body.to_string());
    let run: Value = serde_json::from_str(&answer.body).expect("JSON");
    run["run_id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn start_many(door: &Door, count: usize) -> Vec<String> {
    std::thread::scope(|scope| {
        let starters: Vec<_> = (0..STARTERS)
            .map(|n| {
                scope.spawn(move || {
                    (n..count).step_by(STARTERS).map(|_| start(door)).collect::<Vec<_>>()
                })
            })
            .collect();
        starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
    })
}

/// The value of a metric without labels.
fn metric(door: &Door, name: &str) -> u64 {
    let text = door.owner("GET", "/metrics", "").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().expect("a number")
}

/// Kills the server, and starts the next one. Gives how long it took until that one answered.
fn restart(door: &mut Door) -> u128 {
    signal(door.serve.child.id() as i32, Signal::KILL);
    door.serve.child.wait().unwrap();
    let began = Instant::now();
    door.serve = door.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = door.serve.line();
    door.address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    let answer = door.owner("GET", "/api/v1/runs", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    began.elapsed().as_millis()
}

/// Lets a server with so many runs be killed, and gives how often the next one looked at all processes.
fn scans_for(count: usize) -> u64 {
    let mut door = served();
    let runs = start_many(&door, count);
    until("every agent to run", BOUND_MS, || {
        (metric(&door, "ostler_keepers") == count as u64).then_some(())
    });
    let began = Instant::now();
    let answered_ms = restart(&mut door);
    until("every run to be adopted", 4 * BOUND_MS, || {
        (metric(&door, "ostler_runs_adopted_total") >= count as u64).then_some(())
    });
    let scans = metric(&door, "ostler_process_scans_total");
    eprintln!(
        "{count} runs: the next host answered after {answered_ms} ms, had adopted all after {} ms, and looked \
         at all processes {scans} times",
        began.elapsed().as_millis()
    );
    for (name, expected) in [
        ("ostler_runs_adopted_total", count),
        ("ostler_runs_driven", count),
        ("ostler_keepers", count),
    ] {
        assert_eq!(metric(&door, name), expected as u64, "{name}: nothing is doubled");
    }
    for run in runs.iter().step_by(runs.len() / 3) {
        let events = door.ostler.events(&["show", run, "--json"]);
        for phase in ["running", "adopted"] {
            let seen = events.iter().filter(|event| event["phase"] == phase).count();
            assert_eq!(seen, 1, "{phase}: {events:#?}");
        }
        assert!(!keepers(run).is_empty());
    }
    // A run that is started now is one more.
    start(&door);
    until("the new run", BOUND_MS, || {
        (metric(&door, "ostler_runs_driven") == count as u64 + 1).then_some(())
    });
    scans
}

#[test]
fn restart_with_300_runs_scans_processes_as_often_as_with_3() {
    let (few, many) = (scans_for(3), scans_for(300));
    assert!(few <= SCANS_MAX && many <= SCANS_MAX, "{few} and {many} looks at all processes");
}

/// Keepers that are stopped by a signal; they go on when this is dropped.
struct Hung(Vec<i32>);

impl Drop for Hung {
    fn drop(&mut self) {
        for pid in &self.0 {
            signal(*pid, Signal::CONT);
        }
    }
}

#[test]
fn host_answers_while_it_takes_over_keepers_that_hang() {
    const HUNG: usize = 48;
    let mut door = served();
    let runs = start_many(&door, HUNG + 1);
    until("every agent to run", BOUND_MS, || {
        (metric(&door, "ostler_keepers") == HUNG as u64 + 1).then_some(())
    });
    // The newest run is looked at first; every other keeper does not answer.
    let (alive, hung) = runs.iter().max().map(|newest| (newest.clone(), newest)).unwrap();
    let hung = Hung(runs.iter().filter(|run| *run != hung).flat_map(|run| keepers(run)).collect());
    for pid in &hung.0 {
        signal(*pid, Signal::STOP);
    }
    let answered_ms = restart(&mut door);
    let adopting = metric(&door, "ostler_runs_driven");
    eprintln!(
        "{HUNG} keepers that hang: the next host answered after {answered_ms} ms, driving {adopting} runs"
    );

    // A stop of a run that is not taken over yet is kept for whoever takes it over.
    let waiting = runs.iter().filter(|run| **run != alive).min().unwrap();
    let asked = Instant::now();
    let stopped = door.owner("POST", &format!("/api/v1/runs/{waiting}/stop"), "{}");
    assert!(stopped.status < 300, "{stopped:?}");
    eprintln!("a stop was accepted after {} ms", asked.elapsed().as_millis());
    // A start waits, and is answered: what the others hold is known by then.
    start(&door);
    let events = door.ostler.events(&["show", &alive, "--json"]);
    let adopted = events.iter().filter(|event| event["phase"] == "adopted").count();
    assert_eq!(adopted, 1, "{events:#?}");
    drop(hung);
}
