//! What watchers who do not read cost those who work: a run of 100,000 events with nobody watching,
//! and with sixty watchers who asked for its events and read none. The agent waits until they all
//! are there. Floor: the same run unwatched, so that 1 is free.

use super::agent::{self, Note, Writes};
use super::figures::{Bound, Pairs, median};
use super::report::Report;
use super::serve::Serve;
use super::usage::{self, Memory};
use super::{Programs, said};
use rustix::fs::{CWD, FileType, Mode};
use std::collections::BTreeMap;
use std::path::Path;

const ROUNDS: usize = 7;
const EVENTS: u64 = 100_000;
/// A few fewer than a host takes.
const WATCHERS: usize = contract::limits::WATCHERS_MAX - 4;
const SHELL: &str = "/bin/sh";
const SCRIPT: &str = r#"read go <"$1"; shift; exec "$@""#;

/// One run of it.
struct Watched {
    wall_ms: f64,
    cpu_ms: f64,
    /// What the server held more at the end than at the beginning, for each watcher.
    kb_each: f64,
}

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    let how = format!("{ROUNDS} rounds of {EVENTS} events unwatched, and with {WATCHERS} stalled");
    report.begin("fanout", &how);
    let mut serve = Serve::start(programs)?;
    watched(programs, &mut serve, 0)?;
    let (mut wall, mut cpu, mut held) = (Pairs::default(), Pairs::default(), Vec::new());
    for _ in 0..ROUNDS {
        let alone = watched(programs, &mut serve, 0)?;
        let stalled = watched(programs, &mut serve, WATCHERS)?;
        wall.push(alone.wall_ms, stalled.wall_ms);
        cpu.push(alone.cpu_ms, stalled.cpu_ms);
        held.push(stalled.kb_each);
    }
    report.ratio("60 stalled watchers, wall time of a run", "ms", &wall, Bound::None);
    report.ratio("60 stalled watchers, CPU of server and keeper", "ms", &cpu, Bound::None);
    report.figure("memory for each of them", "kB", median(&held), Bound::None);
    Ok(())
}

fn watched(programs: &Programs, serve: &mut Serve, watchers: usize) -> Result<Watched, String> {
    let root = serve.instance.root().to_owned();
    let (note, start) = (root.join("note"), root.join("start"));
    let _ = std::fs::remove_file(&start);
    rustix::fs::mknodat(CWD, &start, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(said("making a named pipe"))?;
    let (pipe, own) = (start.display().to_string(), programs.xtask.display().to_string());
    let mut args: Vec<String> = ["-c", SCRIPT, "agent", &pipe, &own].map(str::to_owned).into();
    args.extend(agent::args(Writes::Blocks, EVENTS, &note));
    let before = Memory::of(serve.pid())?;
    let before_ns = usage::family_cpu_ns(serve.pid())?;
    let run = serve.run(Path::new(SHELL), args, BTreeMap::new())?;
    let held: Vec<_> = (0..watchers).map(|_| serve.stall(&run)).collect::<Result<_, _>>()?;
    // Opening waits for the agent, which waits for this.
    std::fs::write(&start, "go\n").map_err(said("letting the agent begin"))?;
    let row = serve.settled(&run)?;
    let (ended_ns, after_ns) = (usage::now_ns(), usage::family_cpu_ns(serve.pid())?);
    let after = Memory::of(serve.pid())?;
    drop(held);
    let head = row["head_seq"].as_u64().unwrap_or(0);
    if row["outcome"] != "succeeded" || head < EVENTS {
        return Err(format!("the run has {head} events: {row}"));
    }
    let Note { began_ns, cpu_ns } = Note::read(&note)?;
    let grown_kb = after.private_dirty_kb - before.private_dirty_kb;
    Ok(Watched {
        wall_ms: (ended_ns - began_ns) as f64 / 1e6,
        cpu_ms: (after_ns - before_ns).saturating_sub(cpu_ns) as f64 / 1e6,
        kb_each: grown_kb / watchers.max(1) as f64,
    })
}
