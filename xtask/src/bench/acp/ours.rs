//! The product as each peer is used: a command by itself, a command where a host is there already,
//! and a server that is asked over HTTP. Every update is stored durably before it comes out.

use super::super::serve::Serve;
use super::super::{Programs, said, usage};
use super::tally::{Tally, Timed};
use super::{Driver, RUN_SEC, http};
use contract::plan::Adapter;
use runtimes::Runtime as _;
use serde_json::json;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::Instance;

/// The kind of event that carries text.
const TEXT: &str = "\"kind\":\"assistant_text\"";
/// The last event of a run.
const RESULT: &[u8] = b"\"kind\":\"result\"";

/// Runs a command to its end, and counts what it prints.
pub fn printed(command: &mut Command, updates: u32, needle: &'static str) -> Result<Timed, String> {
    let doing = format!("running {}", command.get_program().display());
    let began_ns = usage::now_ns();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(said(&doing))?;
    let mut stdout = child.stdout.take().ok_or("no standard output")?;
    let mut tally = Tally::new(updates, needle);
    let mut chunk = vec![0; 1 << 18];
    let mut tail = Vec::new();
    loop {
        let count = stdout.read(&mut chunk).map_err(said(&doing))?;
        if count == 0 {
            break;
        }
        tally.push(&chunk[..count]);
        tail = chunk[count.saturating_sub(400)..count].to_vec();
    }
    let output = child.wait_with_output().map_err(said(&doing))?;
    let wall_ms = (usage::now_ns() - began_ns) as f64 / 1e6;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let words = if stderr.trim().is_empty() { String::from_utf8_lossy(&tail) } else { stderr };
        let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let words: String = words.chars().take(300).collect();
        return Err(format!("ended with {}: {words}", output.status));
    }
    Ok(Timed { wall_ms, tally })
}

/// A program of an instance that is ended when it takes too long.
pub fn bounded(instance: &Instance, program: &Path) -> Command {
    let mut command = instance.command("timeout");
    command.arg("--kill-after=5").arg(RUN_SEC.to_string()).arg(program);
    command
}

fn run(instance: &Instance, ostler: &Path, agent: &str, updates: u32) -> Result<Timed, String> {
    let mut command = bounded(instance, ostler);
    command.args(["run", "--acp", agent, "go", "--json", "--permission", "deny"]);
    printed(&mut command, updates, TEXT)
}

/// `ostler run`, alone in its data directory.
pub struct OneShot {
    instance: Instance,
    ostler: PathBuf,
    agent: String,
    updates: u32,
}

impl OneShot {
    pub fn new(programs: &Programs, agent: &str, updates: u32) -> Self {
        let (ostler, agent) = (programs.ostler.clone(), agent.to_owned());
        Self { instance: Instance::new(), ostler, agent, updates }
    }
}

impl Driver for OneShot {
    fn run(&mut self) -> Result<Timed, String> {
        run(&self.instance, &self.ostler, &self.agent, self.updates)
    }
}

/// `ostler run`, where `ostler serve` hosts the data directory.
pub struct Hosted {
    serve: Serve,
    ostler: PathBuf,
    agent: String,
    updates: u32,
}

impl Hosted {
    pub fn new(programs: &Programs, agent: &str, updates: u32) -> Result<Self, String> {
        let (ostler, agent) = (programs.ostler.clone(), agent.to_owned());
        Ok(Self { serve: Serve::start(programs)?, ostler, agent, updates })
    }
}

impl Driver for Hosted {
    fn run(&mut self) -> Result<Timed, String> {
        run(&self.serve.instance, &self.ostler, &self.agent, self.updates)
    }
}

/// `ostler serve`, asked and followed over HTTP.
pub struct Served {
    serve: Serve,
    body: String,
    updates: u32,
}

impl Served {
    pub fn new(programs: &Programs, agent: &str, updates: u32) -> Result<Self, String> {
        let serve = Serve::start(programs)?;
        let mut words = agent.split(' ').map(str::to_owned);
        let adapter = Adapter {
            name: "bench".to_owned(),
            runtime: runtimes::acp::Acp.card().id,
            binary: words.next(),
            args: words.collect(),
            trace: true,
            mcp: true,
            ..Adapter::default()
        };
        let cwd = serve.instance.work();
        let body = json!({ "agent": "bench", "prompt": "go", "cwd": cwd, "adapter": adapter,
            "permission": "deny" });
        Ok(Self { serve, body: body.to_string(), updates })
    }
}

impl Driver for Served {
    fn run(&mut self) -> Result<Timed, String> {
        let began_ns = usage::now_ns();
        // A connection of its own for each request, as on the peer's side.
        let headers = format!("authorization: Bearer {}\r\n", self.serve.token());
        let address = self.serve.address();
        let started = http::ask(address, "POST", "/api/v1/runs", &headers, &self.body)?;
        let run = started["run_id"].as_str().ok_or_else(|| format!("not started: {started}"))?;
        let path = format!("/api/v1/runs/{run}/events");
        let mut stream = http::events(address, &path, &headers)?;
        let mut tally = Tally::new(self.updates, TEXT);
        let (mut chunk, mut tail) = (vec![0; 1 << 18], Vec::new());
        loop {
            let count = stream.read(&mut chunk).map_err(said("following a run"))?;
            tally.push(&chunk[..count]);
            // The mark of the end may lie across two reads.
            tail.extend_from_slice(&chunk[..count]);
            if memchr::memmem::find(&tail, RESULT).is_some() {
                break;
            }
            if count == 0 {
                return Err("the stream ended before the run".to_owned());
            }
            tail.drain(..tail.len().saturating_sub(RESULT.len()));
        }
        Ok(Timed { wall_ms: (usage::now_ns() - began_ns) as f64 / 1e6, tally })
    }
}
