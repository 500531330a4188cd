//! Others that drive ACP agents, each as its own documentation has it, in an instance of its own:
//! an empty HOME, nothing of the machine's environment, telemetry off. What they print or send is
//! counted as it comes out of them.
//!
//! acpx is a command for Node: `exec` keeps nothing, `prompt` goes to a session whose owner stays.
//! sandbox-agent is a server that knows a closed list of agents, so ours is put where it keeps the
//! launcher of one of them; it streams what the agent says as server-sent events.

use super::super::{said, usage};
use super::ours::{bounded, printed};
use super::tally::{Tally, Timed};
use super::{Driver, http};
use runtimes::Runtime as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::Instance;
use testkit::agents::{NODE, Pin};

/// The peers at their versions.
pub const PINS: [Pin; 2] = [
    Pin {
        id: "acpx",
        package: "acpx",
        version: "0.19.1",
        program: ".bin/acpx",
        newer_node: true,
        ..NODE
    },
    Pin {
        id: "sandbox-agent",
        package: "@sandbox-agent/cli",
        version: "0.4.2",
        program: ".bin/sandbox-agent",
        newer_node: false,
        ..NODE
    },
];

/// What every update of an agent holds.
const UPDATE: &str = "\"agent_message_chunk\"";
/// A stream that was quiet for so long after the turn has nothing more.
const QUIET: Duration = Duration::from_millis(500);
/// The longest a server may take to listen.
const START_MS: u64 = 30_000;

/// acpx in an instance of its own.
struct Acpx {
    instance: Instance,
    program: PathBuf,
    agent: String,
    path: String,
    updates: u32,
}

impl Acpx {
    fn new(home: &Path, agent: &str, updates: u32) -> Result<Self, String> {
        let node = NODE.path(home);
        let node = node.parent().ok_or("no Node")?.display().to_string();
        let instance = Instance::new();
        let env = instance.env();
        let own = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
        let path = [&node, own.unwrap_or_default()].join(":");
        let (program, agent) = (PINS[0].path(home), agent.to_owned());
        Ok(Self { instance, program, agent, path, updates })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = bounded(&self.instance, &self.program);
        command.env("PATH", &self.path).args(["--agent", &self.agent]);
        command.args(["--approve-all", "--format", "json"]).args(words);
        command
    }
}

/// `acpx exec`: a session for one prompt, of which nothing is kept.
pub struct OneShot(Acpx);

impl OneShot {
    pub fn new(home: &Path, agent: &str, updates: u32) -> Result<Self, String> {
        Acpx::new(home, agent, updates).map(Self)
    }
}

impl Driver for OneShot {
    fn run(&mut self) -> Result<Timed, String> {
        printed(&mut self.0.command(&["exec", "go"]), self.0.updates, UPDATE)
    }
}

/// `acpx prompt`: a session that is kept, with an owner that stays between prompts.
pub struct Persistent(Acpx);

impl Persistent {
    pub fn new(home: &Path, agent: &str, updates: u32) -> Result<Self, String> {
        let acpx = Acpx::new(home, agent, updates)?;
        printed(&mut acpx.command(&["sessions", "new"]), updates, UPDATE)?;
        Ok(Self(acpx))
    }
}

impl Driver for Persistent {
    fn run(&mut self) -> Result<Timed, String> {
        printed(&mut self.0.command(&["prompt", "go"]), self.0.updates, UPDATE)
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        // Its owner is ended with the instance in any case.
        let _ = self.0.command(&["sessions", "close"]).stdout(Stdio::null()).status();
    }
}

/// A running `sandbox-agent server`.
pub struct Sandbox {
    instance: Instance,
    child: Child,
    address: String,
    runs: u32,
    updates: u32,
}

impl Sandbox {
    pub fn new(home: &Path, agent: &str, updates: u32) -> Result<Self, String> {
        let instance = Instance::new();
        put(&instance, agent).map_err(said("putting the agent in place"))?;
        // Free a moment ago, and nobody else listens here.
        let free = TcpListener::bind("127.0.0.1:0").map_err(said("finding a port"))?;
        let port = free.local_addr().map_err(said("finding a port"))?.port();
        drop(free);
        let mut command = instance.command(PINS[1].path(home));
        let child = command
            .args(["server", "--no-token", "--no-telemetry", "--host", "127.0.0.1"])
            .args(["--port", &port.to_string()])
            .env("SANDBOX_AGENT_REQUIRE_PREINSTALL", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said("starting sandbox-agent"))?;
        let address = format!("127.0.0.1:{port}");
        let mut sandbox = Self { instance, child, address, runs: 0, updates };
        sandbox.listens()?;
        Ok(sandbox)
    }

    fn listens(&mut self) -> Result<(), String> {
        let mut why = String::new();
        for _ in 0..START_MS / 50 {
            match http::ask(&self.address, "GET", "/v1/health", "", "") {
                Ok(_) => return Ok(()),
                Err(error) => why = error,
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("sandbox-agent server ended with {status}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(why)
    }

    fn say(&self, path: &str, id: u32, method: &str, params: &Value) -> Result<Value, String> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = http::ask(&self.address, "POST", path, "", &message.to_string())?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(format!("{method} was answered {answer}")),
        }
    }
}

/// The agent of its list that ours stands for, one that needs no other program; it has the same name
/// here.
fn stand_in() -> String {
    runtimes::pi::Pi.card().id
}

/// Puts our agent where the server keeps the launcher of one that it knows.
fn put(instance: &Instance, agent: &str) -> std::io::Result<()> {
    let folder = instance.root().join("data/sandbox-agent/bin/agent_processes");
    std::fs::create_dir_all(&folder)?;
    let launcher = folder.join(format!("{}-acp", stand_in()));
    std::fs::write(&launcher, format!("#!/bin/sh\nexec {agent}\n"))?;
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755))
}

impl Driver for Sandbox {
    fn run(&mut self) -> Result<Timed, String> {
        self.runs += 1;
        let path = format!("/v1/acp/bench-{}", self.runs);
        let began_ns = usage::now_ns();
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        self.say(&format!("{path}?agent={}", stand_in()), 1, "initialize", &hello)?;
        let cwd = self.instance.work();
        let new = json!({ "cwd": cwd, "mcpServers": [] });
        let session = self.say(&path, 2, "session/new", &new)?["sessionId"].clone();
        let stream = http::events(&self.address, &path, "")?;
        let over = Arc::new(AtomicBool::new(false));
        let (ended, tally) = (over.clone(), Tally::new(self.updates, UPDATE));
        let reader = std::thread::spawn(move || followed(stream, tally, &ended));
        let prompt = [json!({ "type": "text", "text": "go" })];
        let answered = self.say(
            &path,
            3,
            "session/prompt",
            &json!({ "sessionId": session, "prompt": prompt }),
        );
        let answered_ns = usage::now_ns();
        over.store(true, Ordering::Relaxed);
        let (last_ns, tally) = reader.join().map_err(|_| "the reader failed")?;
        // 0.4.2 does not answer this while the agent lives on, so nobody waits for it; what is left
        // ends with the instance.
        http::tell(&self.address, "DELETE", &path)?;
        answered?;
        let wall_ms = (last_ns.max(answered_ns) - began_ns) as f64 / 1e6;
        Ok(Timed { wall_ms, tally })
    }
}

/// Reads until the last update, or until the turn is over and nothing more comes; gives when the last
/// of it came.
fn followed(mut stream: BufReader<TcpStream>, mut tally: Tally, over: &AtomicBool) -> (u64, Tally) {
    let mut chunk = vec![0; 1 << 18];
    let mut last_ns = usage::now_ns();
    // Without it the stream would be waited for as long as it is open.
    let _ = stream.get_ref().set_read_timeout(Some(QUIET));
    loop {
        let ended = over.load(Ordering::Relaxed);
        match stream.read(&mut chunk) {
            Ok(0) => return (last_ns, tally),
            Ok(count) => {
                tally.push(&chunk[..count]);
                last_ns = usage::now_ns();
            }
            Err(error) if ended && is_quiet(&error) => return (last_ns, tally),
            Err(error) if is_quiet(&error) => {}
            Err(_) => return (last_ns, tally),
        }
        if tally.is_whole() {
            return (last_ns, tally);
        }
    }
}

fn is_quiet(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
