//! A session of two kilobytes whose answer is cut at every single byte, from the first of its head to
//! the last of its last event, and taken up again. The process that holds a session is driven itself
//! at every cut, and the whole way to the store is walked at every hundredth: nothing is lost,
//! nothing is heard twice, and there is one end.

use crate::ostler::{BOUND_MS, Ostler, kinds, program, result};
use crate::remote::{PATIENT_MS, knowing, progress, run, steps};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use testkit::remote::{Answer, Remote, Script, Step, numbered, wire};
use testkit::until;

const STEPS: u64 = 12;
/// Couriers at once: nearly all of their time is the pause before a stream is taken up.
const COURIERS: usize = 24;
/// Whole runs at once, and how many cuts lie between two of them.
const RUNS: usize = 4;
const RUN_EVERY: usize = 100;

/// What the remote tells.
fn told() -> Vec<(u64, Value)> {
    let mut events: Vec<Value> = (1..=STEPS).map(progress).collect();
    events.push(json!({ "type": "complete", "output": { "text": "x".repeat(1_300) } }));
    numbered(&events)
}

/// Every byte of the answer to whoever asks for the events.
fn answer() -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let events = told().into_iter().flat_map(|(id, event)| wire(id, &event));
    head.iter().copied().chain(events).collect()
}

/// A remote whose first stream is cut there, and which then tells what is asked for, or, after every
/// second cut, all of it again, whatever was asked for.
fn cut_at(cut: usize) -> Remote {
    let first = vec![Step::Answer(Answer::Raw(answer()[..cut].to_vec()))];
    let again = match cut % 2 {
        0 => Step::After(told()),
        _ => Step::Raw(told().into_iter().flat_map(|(id, event)| wire(id, &event)).collect()),
    };
    let rest = vec![again, Step::Hold];
    Remote::play(Script::streams(vec![first, rest]))
}

/// Does it for every cut, so many at once.
fn at_once(many: usize, cuts: &[usize], each: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..many {
            scope.spawn(|| {
                while let Some(cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(*cut);
                }
            });
        }
    });
}

/// The lines of one courier from its first to its end, which must be a good one.
fn carried(ostler: &Ostler, remote: &Remote, cut: usize) -> Vec<Value> {
    let mut courier = ostler.instance.command(program());
    courier.args(["courier", "--protocol", "ca-http-v1", "--", &remote.url()]);
    let patience = PATIENT_MS.to_string();
    for name in ["OSTLER_REMOTE_START_MS", "OSTLER_REMOTE_LOST_MS", "OSTLER_REMOTE_IDLE_MS"] {
        courier.env(name, &patience);
    }
    let piped = courier.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut courier = piped.spawn().expect("ostler starts");
    let mut to = courier.stdin.take();
    let open = json!({ "open": { "runId": "run_1", "prompt": "mend it", "fencingToken": 1 } });
    writeln!(to.as_mut().expect("piped"), "{open}").expect("it reads");
    let mut said = Vec::new();
    for line in BufReader::new(courier.stdout.take().expect("piped")).lines() {
        let line: Value = serde_json::from_str(&line.expect("text")).expect("a line of JSON");
        if line["event"]["type"] == "complete" {
            // As a host does when it hears the end.
            drop(to.take());
        }
        said.push(line);
    }
    let left = courier.wait().expect("it ends");
    assert!(left.success(), "cut at {cut}: {left}: {said:?}");
    said
}

#[test]
fn a_session_cut_at_every_byte_is_carried_whole_and_once() {
    let ostler = Ostler::new();
    let cuts: Vec<usize> = (0..=answer().len()).collect();
    assert!(cuts.len() > 2_048, "{}", cuts.len());
    let expected: Vec<(String, Value)> =
        told().into_iter().map(|(id, event)| (id.to_string(), event)).collect();
    let began = Instant::now();
    at_once(COURIERS, &cuts, |cut| {
        let remote = cut_at(cut);
        let said = carried(&ostler, &remote, cut);
        assert_eq!(said[0]["courier"], "opened", "cut at {cut}");
        let heard: Vec<(String, Value)> = said[1..]
            .iter()
            .map(|line| (line["id"].as_str().unwrap_or_default().to_owned(), line["event"].clone()))
            .collect();
        assert_eq!(heard, expected, "cut at {cut}");
        assert_eq!(remote.asked("POST sessions").len(), 1, "cut at {cut}");
        // Whoever sent it does not wait for a remote that is slow to read it.
        until("the session to be taken away", BOUND_MS, || {
            (!remote.asked("DELETE").is_empty()).then_some(())
        });
        assert_eq!(remote.asked("DELETE").len(), 1, "cut at {cut}");
    });
    eprintln!("{} cuts in {} ms", cuts.len(), began.elapsed().as_millis());
}

#[test]
fn a_run_of_a_session_cut_at_every_hundredth_byte_is_stored_whole_and_once() {
    let all = answer().len();
    let cuts: Vec<usize> = (0..all).step_by(RUN_EVERY).chain([all - 1, all]).collect();
    let expected: Vec<String> = (1..=STEPS).map(|n| format!("step {n}")).collect();
    at_once(RUNS, &cuts, |cut| {
        let remote = cut_at(cut);
        let events = run(&knowing(&remote, PATIENT_MS));
        assert_eq!(result(&events)["outcome"], "succeeded", "cut at {cut}");
        assert_eq!(result(&events)["text"].as_str().map(str::len), Some(1_300), "cut at {cut}");
        assert_eq!(steps(&events), expected, "cut at {cut}");
        let ends = kinds(&events).iter().filter(|kind| **kind == "result").count();
        assert_eq!(ends, 1, "cut at {cut}");
    });
}
