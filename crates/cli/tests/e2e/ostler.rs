//! The binary under test in an instance of its own, and what its output says.

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use testkit::Instance;
pub use testkit::keepers;
pub use testkit::promises::deeds;

/// The longest any single command of these tests may take.
pub const BOUND_MS: u64 = 60_000;

/// One instance of the product.
pub struct Ostler {
    pub instance: Instance,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ostler {
    pub fn new() -> Self {
        Self { instance: Instance::new() }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.instance.command(program());
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn says(&self, args: &[&str]) -> Said {
        Said::from(self.command(args).output().expect("ostler starts"))
    }

    /// Runs a command that prints JSON lines and succeeds or not, and gives the events.
    pub fn events(&self, args: &[&str]) -> Vec<Value> {
        self.says(args).events()
    }

    /// Starts a command in the background; its output can be read line by line.
    pub fn starts(&self, args: &[&str]) -> Running {
        Running::of(&mut self.command(args))
    }

    /// The command line of an agent of bad manners, for `--process`.
    pub fn fake(&self, flags: &str) -> String {
        format!("{} {flags}", testkit::fake_agent().display())
    }

    /// Everything the instance left on disk that may be looked at, by path.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![self.instance.root().to_owned()];
        while let Some(dir) = waiting.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                    Ok(kind) if kind.is_file() => found.push(entry.path()),
                    _ => {}
                }
            }
        }
        found
    }

    /// What is there of raw output: it goes a moment after its run has ended.
    pub fn spools(&self) -> Vec<PathBuf> {
        let mut found = self.files();
        found.retain(|path| path.extension().is_some_and(|ending| ending == "seg"));
        found
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Said {
    pub fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.stderr))
            })
            .collect()
    }

    /// The first line of what went wrong.
    pub fn complaint(&self) -> &str {
        self.stderr.lines().next().unwrap_or_default()
    }
}

/// A command in the background.
pub struct Running {
    pub child: Child,
    pub stdout: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// The same, with changes to the command.
    pub fn of(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ostler starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdout }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("ostler writes lines");
        line
    }

    /// Reads events until one fits.
    pub fn event(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the output ended before {what}");
            let event: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if fits(&event) {
                return event;
            }
        }
    }

    pub fn finish(mut self) -> Said {
        let mut stdout = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut stdout).expect("text");
        let output = self.child.wait_with_output().expect("ostler ends");
        Said { stdout, ..Said::from(output) }
    }
}

pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ostler"))
}

/// The one result of a run, which is its last event.
pub fn result(events: &[Value]) -> &Value {
    let results: Vec<_> = events.iter().filter(|event| event["kind"] == "result").collect();
    assert_eq!(results.len(), 1, "a run has exactly one result");
    let last = events.last().expect("a run has events");
    assert_eq!(last["kind"], "result", "the result is the last event");
    last
}

/// Numbers from 1 without a gap or a double, in order.
pub fn assert_gap_free(events: &[Value]) {
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], i as u64 + 1, "event {i}: {event}");
    }
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process has a pid");
    // One that is gone already has what it was to have.
    let _ = rustix::process::kill_process(pid, signal);
}

pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["kind"].as_str()).collect()
}
