//! The shapes in which the fake agent's children try to outlive their run.
//!
//! A descendant is this same program under the flag `DESCENDANT`, followed by one word for each
//! generation. It takes the first for itself, starts the rest below it, tells its parent over
//! standard error that all have taken their shape, so that a test never looks too early, then
//! sleeps, and ends by itself after `LIFE_MS_MAX`. How many there may be is capped; families that
//! grow by themselves are in `swarm.rs`.

use crate::agent::{LIFE_MS_MAX, swarm};
use rustix::process::{setpgid, setsid};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The flag, followed by the generations.
pub const DESCENDANT: &str = "--as-descendant";
/// How many processes one fake agent may start one by one.
pub const CHILDREN_MAX: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A child in a session of its own.
    SetsidChild,
    /// A grandchild in our session; the process between is gone.
    Orphan,
    /// A grandchild in a session of its own; the process between is gone.
    DoubleFork,
    /// A child in a process group of its own.
    NewGroup,
    /// Three that live below each other, each out of reach in another way.
    Deep,
    /// A grandchild in our session that keeps our standard output; the process between is gone.
    HoldStdout,
}

impl Shape {
    /// The generations, and where their standard output goes.
    fn generations(self) -> (&'static [&'static str], Stdio) {
        match self {
            Self::SetsidChild => (&["setsid"], Stdio::null()),
            Self::Orphan => (&["gone", "stay"], Stdio::null()),
            Self::DoubleFork => (&["gone", "setsid"], Stdio::null()),
            Self::NewGroup => (&["group"], Stdio::null()),
            Self::Deep => (&["group", "setsid", "gone", "setsid"], Stdio::null()),
            Self::HoldStdout => (&["gone", "stay"], Stdio::inherit()),
        }
    }

    /// How many processes it is, those that are soon gone included.
    pub fn count(self) -> u32 {
        self.generations().0.len().try_into().unwrap_or(u32::MAX)
    }
}

/// Starts descendants of this shape, and returns when they have taken it.
pub fn start(shape: Shape) {
    let (words, stdout) = shape.generations();
    let mut child = spawn(words, stdout).expect("this program can be started again");
    wait_ready(&mut child);
    if words.first() == Some(&"gone") {
        // It exits by itself; without this it would stay as a zombie.
        let _ = child.wait();
    }
}

/// Starts children one after the other, without waiting for any.
pub fn start_often(children: u32) {
    for _ in 0..children.min(CHILDREN_MAX) {
        drop(spawn(&["setsid"], Stdio::null()).expect("this program can be started again"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Standard output leads nowhere from now on, so the reader of the pipe sees its end.
pub fn close_stdout() {
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
}

/// The life of a descendant.
pub fn live(words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((own, below)) = words.split_first() else { return ExitCode::FAILURE };
    match *own {
        swarm::WORD => return swarm::live(below),
        // Both fail only for one who has that shape already.
        "setsid" => drop(setsid()),
        "group" => drop(setpgid(None, None)),
        _ => {}
    }
    let child = (!below.is_empty()).then(|| spawn(below, Stdio::inherit()));
    if let Some(Ok(mut child)) = child {
        wait_ready(&mut child);
        if below.first() == Some(&"gone") {
            let _ = child.wait();
        }
    }
    tell_ready();
    if *own != "gone" {
        sleep_for_life();
    }
    ExitCode::SUCCESS
}

pub(super) fn sleep_for_life() {
    std::thread::sleep(Duration::from_millis(LIFE_MS_MAX));
}

/// This program again, as a descendant.
pub(super) fn spawn(words: &[&str], stdout: Stdio) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(DESCENDANT)
        .args(words)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
}

pub(super) fn tell_ready() {
    let _ = std::io::stderr().write_all(b".");
}

/// Waits for the byte that says so, or for the end of a descendant that failed.
pub(super) fn wait_ready(child: &mut Child) {
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read(&mut [0]);
    }
}
