//! From the wish that a run stop to a family of nobody: an agent that obeys, and one that leaves
//! fifty children in sessions of their own. Every process of a family holds a named pipe open, so
//! its end is the kernel's word that the last of them is gone. Floor: the same program without
//! Ostler, told to stop on its own pipe, its strays killed by hand.

use super::figures::{Bound, Pairs, median};
use super::report::Report;
use super::serve::Serve;
use super::{Programs, said, usage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use testkit::{Instance, find_marked, until};

/// A stop is too short to be a figure alone: medians are taken within a block, and pairs are made
/// of blocks.
const BLOCKS: usize = 9;
const ROUNDS: usize = 7;
const ESCAPEES: usize = 50;
const PATIENCE_MS: u64 = 60_000;
const SHELL: &str = "/bin/sh";
/// The pipe stays open in the agent and in whatever it starts.
const SCRIPT: &str = r#"exec 9>"$1"; shift; exec "$@""#;
const SHUTDOWN: &[u8] = b"{\"type\":\"shutdown\",\"reason\":\"cancelled\"}\n";
const WISH: &str = r#"{"wish":"stop","reason":"cancelled"}"#;

/// One shape of family.
#[derive(Clone, Copy)]
struct Shape {
    what: &'static str,
    escapees: usize,
    bound: Bound,
}

const SHAPES: [Shape; 2] = [
    Shape {
        what: "stop of an agent that obeys → nobody left",
        escapees: 0,
        bound: Bound::AtMost { gate: 20.0, goal: 3.0 },
    },
    Shape {
        what: "stop with 50 escapees → nobody left",
        escapees: ESCAPEES,
        bound: Bound::AtMost { gate: 200.0, goal: 15.0 },
    },
];

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    let how = format!("{BLOCKS} blocks of {ROUNDS} rounds of floor, ours for each shape");
    report.begin("stop", &how);
    let mut serve = Serve::start(programs)?;
    for shape in SHAPES {
        let mut pairs = Pairs::default();
        for _ in 0..BLOCKS {
            let (mut floors, mut stops) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                floors.push(bare(programs, shape.escapees)?);
                stops.push(ours(programs, &mut serve, shape.escapees)?);
            }
            pairs.push(median(&floors), median(&stops));
        }
        report.absolute(shape.what, "ms", &pairs, shape.bound);
    }
    Ok(())
}

fn ours(programs: &Programs, serve: &mut Serve, escapees: usize) -> Result<f64, String> {
    let family = Family::expect(serve.instance.root(), escapees)?;
    let args = family.args(programs, escapees);
    let run = serve.run(Path::new(SHELL), args, BTreeMap::new())?;
    family.await_all(&serve.instance, Some(serve.pid()));
    let from_ns = usage::now_ns();
    serve.ask("POST", &format!("/api/v1/runs/{run}/commands"), WISH)?;
    let took = family.await_nobody(from_ns)?;
    serve.settled(&run)?;
    Ok(took)
}

fn bare(programs: &Programs, escapees: usize) -> Result<f64, String> {
    let instance = Instance::new();
    let family = Family::expect(instance.root(), escapees)?;
    let mut child = instance
        .command(SHELL)
        .args(family.args(programs, escapees))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(said("starting the floor's agent"))?;
    let mut stdin = child.stdin.take().ok_or("the floor's agent has no pipe")?;
    let strays = family.await_all(&instance, None);
    let from_ns = usage::now_ns();
    stdin.write_all(SHUTDOWN).map_err(said("saying shutdown"))?;
    for pid in strays.into_iter().filter(|pid| *pid != child.id()) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // One that is gone already is what was wanted.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    child.wait().map_err(said("waiting for the floor's agent"))?;
    family.await_nobody(from_ns)
}

/// A pipe that an agent and all it starts hold open, read from here.
struct Family {
    path: PathBuf,
    pipe: OwnedFd,
    size: usize,
}

impl Family {
    fn expect(dir: &Path, escapees: usize) -> Result<Self, String> {
        let path = dir.join("family");
        let _ = std::fs::remove_file(&path);
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0)
            .map_err(said("making a named pipe"))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(said("opening the named pipe"))?;
        Ok(Self { path, pipe, size: 1 + escapees })
    }

    fn args(&self, programs: &Programs, escapees: usize) -> Vec<String> {
        let pipe = self.path.display().to_string();
        let agent = programs.fake_agent.display().to_string();
        let mut args: Vec<String> =
            ["-c", SCRIPT, "agent", &pipe, &agent].map(str::to_owned).into();
        if escapees > 0 {
            args.extend(["--fork-often".to_owned(), escapees.to_string()]);
        }
        args.push("--wait-shutdown".to_owned());
        args
    }

    /// Waits until every member lives as itself, and gives their pids.
    fn await_all(&self, instance: &Instance, server: Option<u32>) -> Vec<u32> {
        until("the whole family", PATIENCE_MS, || {
            let members = find_marked(&instance.mark()).into_iter();
            let members: Vec<u32> = members
                .filter(|found| Some(found.pid) != server && !found.command.starts_with(SHELL))
                .map(|found| found.pid)
                .collect();
            (members.len() >= self.size).then_some(members)
        })
    }

    /// Milliseconds from `from_ns` until nobody holds the pipe.
    fn await_nobody(&self, from_ns: u64) -> Result<f64, String> {
        let mut bytes = [0; 64];
        loop {
            poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], None)
                .map_err(said("waiting for a family to end"))?;
            match rustix::io::read(&self.pipe, &mut bytes) {
                Ok(0) => return Ok((usage::now_ns() - from_ns) as f64 / 1e6),
                Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("reading a family's pipe: {error}")),
            }
        }
    }
}
