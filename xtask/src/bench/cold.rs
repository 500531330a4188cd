//! From exec to a server that listens, in an empty house and in one that remembers a million events
//! of a thousand runs; and how large the program is. Floor: a shell that says one line.

use super::figures::{Bound, Pairs, median};
use super::report::Report;
use super::stored::{self, Maker, run_number, wait_for};
use super::{Programs, said, usage};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use testkit::Instance;

/// A start is too short to be a figure alone: medians are taken within a block, and pairs are made of
/// blocks.
const BLOCKS: usize = 9;
const ROUNDS: usize = 5;
const RUNS: u64 = 1_000;
const EVENTS_PER_RUN: u64 = 1_000;
const BATCH_EVENTS: u64 = 250;

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    let events = RUNS * EVENTS_PER_RUN;
    let how = format!(
        "{BLOCKS} blocks of {ROUNDS} rounds of floor, without history, floor, with {events} events"
    );
    report.begin("cold", &how);
    let (empty, full) = (Instance::new(), Instance::new());
    remember(&full)?;
    // Not counted: files are made, and read for the first time.
    for instance in [&empty, &full] {
        serve(programs, instance)?;
    }
    let (mut without, mut with) = <(Pairs, Pairs)>::default();
    for _ in 0..BLOCKS {
        for (instance, pairs) in [(&empty, &mut without), (&full, &mut with)] {
            let (mut floors, mut starts) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                floors.push(floor(instance)?);
                starts.push(serve(programs, instance)?);
            }
            pairs.push(median(&floors), median(&starts));
        }
    }
    let bound = Bound::AtMost { gate: 50.0, goal: 10.0 };
    report.absolute("cold start, no history", "ms", &without, bound);
    report.absolute("cold start, 10⁶ events of 1,000 runs", "ms", &with, bound);
    Ok(())
}

/// The size of the program itself.
pub fn size(programs: &Programs, report: &mut Report) -> Result<(), String> {
    report.begin("size", "the optimised program, stripped");
    let found = std::fs::metadata(&programs.ostler).map_err(said("looking at the program"))?;
    let megabytes = found.len() as f64 / 1e6;
    let bound = Bound::AtMost { gate: 30.0, goal: 15.0 };
    report.figure("binary, without a dashboard", "MB", megabytes, bound);
    Ok(())
}

/// Fills the store of an instance that nobody serves.
fn remember(instance: &Instance) -> Result<(), String> {
    let store = stored::open(&instance.data())?;
    for n in 0..RUNS {
        let run = run_number(n);
        stored::admit(&store, run)?;
        let maker = Maker::new(run);
        for first in (1..=EVENTS_PER_RUN).step_by(BATCH_EVENTS as usize) {
            let batch = maker.batch(first, BATCH_EVENTS.min(EVENTS_PER_RUN + 1 - first));
            wait_for(store.commit(batch)).map_err(said("remembering a run"))?;
        }
        let last = maker.settling(EVENTS_PER_RUN + 1);
        wait_for(store.commit(last)).map_err(said("ending a run"))?;
    }
    wait_for(store.close());
    Ok(())
}

/// Milliseconds until a line comes.
fn first_line(mut command: Command, end: Option<Signal>) -> Result<f64, String> {
    let name = command.get_program().display().to_string();
    let from_ns = usage::now_ns();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(said(format!("starting {name}")))?;
    let out = child.stdout.take().ok_or("a program without standard output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).map_err(said(format!("reading from {name}")))?;
    let took = (usage::now_ns() - from_ns) as f64 / 1e6;
    if let (Some(signal), Ok(pid)) = (end, i32::try_from(child.id()))
        && let Some(pid) = Pid::from_raw(pid)
    {
        // One that is gone already is found by the wait.
        let _ = kill_process(pid, signal);
    }
    child.wait().map_err(said(format!("waiting for {name}")))?;
    if line.trim().is_empty() {
        return Err(format!("{name} said nothing"));
    }
    Ok(took)
}

fn serve(programs: &Programs, instance: &Instance) -> Result<f64, String> {
    let mut command = instance.command(&programs.ostler);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    first_line(command, Some(Signal::TERM))
}

fn floor(instance: &Instance) -> Result<f64, String> {
    let mut command = instance.command("/bin/sh");
    command.args(["-c", "echo up"]);
    first_line(command, None)
}
