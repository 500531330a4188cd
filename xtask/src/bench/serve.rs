//! An `ostler serve` of one's own: its instance, its address, and as much HTTP as a bench needs.
//! The connection is kept, as a client's would be, so a request costs no handshake. Dropping it
//! ends the server, its keepers and its agents.

use super::{Programs, said};
use contract::plan::Adapter;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use testkit::{Instance, until};

/// Longer than anything here takes.
const PATIENCE_MS: u64 = 120_000;

/// What the kernel takes for a watcher who does not read: as little as it can.
const STALLED_BYTES: usize = 4 * 1024;

pub struct Serve {
    pub instance: Instance,
    child: Child,
    address: String,
    token: String,
    kept: BufReader<TcpStream>,
}

impl Serve {
    pub fn start(programs: &Programs) -> Result<Self, String> {
        let instance = Instance::new();
        let mut child = instance
            .command(&programs.ostler)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(said("starting ostler serve"))?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("the server has no standard output")?;
        BufReader::new(out).read_line(&mut line).map_err(said("reading the server's address"))?;
        let address = line.trim().strip_prefix("listening on http://").map(str::to_owned);
        let address = address.ok_or_else(|| format!("the server said '{}'", line.trim()))?;
        let token = std::fs::read_to_string(instance.data().join("token"))
            .map_err(said("reading the server's token"))?;
        let kept = BufReader::new(connect(&address)?);
        Ok(Self { instance, child, address, token: token.trim().to_owned(), kept })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// Starts a run of a command that speaks JSON lines, and gives its id.
    pub fn run(
        &mut self,
        program: &Path,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    ) -> Result<String, String> {
        let body = self.request_body(program, args, env);
        self.started(&body)
    }

    /// Starts a run of this adapter, and gives its id.
    pub fn run_by(&mut self, adapter: &Adapter) -> Result<String, String> {
        let body = self.body(adapter);
        self.started(&body)
    }

    fn started(&mut self, body: &str) -> Result<String, String> {
        let started = self.ask("POST", "/api/v1/runs", body)?;
        let id = started["run_id"].as_str().map(str::to_owned);
        id.ok_or_else(|| format!("the server started nothing: {started}"))
    }

    /// The request of a run, ready to send.
    pub fn request_body(
        &self,
        program: &Path,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    ) -> String {
        use runtimes::Runtime as _;
        let adapter = Adapter {
            name: "bench".to_owned(),
            runtime: runtimes::process::Process.card().id,
            binary: Some(program.display().to_string()),
            args,
            env,
            trace: true,
            mcp: true,
            ..Adapter::default()
        };
        self.body(&adapter)
    }

    fn body(&self, adapter: &Adapter) -> String {
        let cwd = self.instance.work();
        json!({ "agent": "bench", "prompt": "go", "cwd": cwd, "adapter": adapter }).to_string()
    }

    /// One request on the kept connection.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let doing = || format!("{method} {path}");
        let request = self.head(method, path, "content-type: application/json\r\n", body);
        self.kept.get_mut().write_all(request.as_bytes()).map_err(said(doing()))?;
        let (mut status, mut bytes) = (String::new(), 0);
        loop {
            let mut line = String::new();
            self.kept.read_line(&mut line).map_err(said(doing()))?;
            if status.is_empty() {
                status = line.trim().to_owned();
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                bytes = value.trim().parse().map_err(said(doing()))?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; bytes];
        self.kept.read_exact(&mut answer).map_err(said(doing()))?;
        if !status.contains(" 20") {
            let answer = String::from_utf8_lossy(&answer);
            return Err(format!("{} answered '{status}' {answer}", doing()));
        }
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(said(doing()))
    }

    /// Speaks by a new connection: a server leaves one that is silent for long.
    pub fn connect_again(&mut self) -> Result<(), String> {
        self.kept = BufReader::new(connect(&self.address)?);
        Ok(())
    }

    /// Asks for the events of a run and reads none of them.
    pub fn stall(&self, run: &str) -> Result<TcpStream, String> {
        let mut stream = connect(&self.address)?;
        let doing = || format!("watching {run} without reading");
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, STALLED_BYTES)
            .map_err(said(doing()))?;
        let path = format!("/api/v1/runs/{run}/events");
        let request = self.head("GET", &path, "accept: text/event-stream\r\n", "");
        stream.write_all(request.as_bytes()).map_err(said(doing()))?;
        Ok(stream)
    }

    fn head(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let Self { address, token, .. } = self;
        let bytes = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             {headers}content-length: {bytes}\r\n\r\n{body}"
        )
    }

    /// Follows a run until its events hold `wanted`.
    pub fn follow_until(&self, run: &str, wanted: &str) -> Result<(), String> {
        let doing = || format!("following {run}");
        let path = format!("/api/v1/runs/{run}/events");
        let mut stream = connect(&self.address)?;
        let request = self.head("GET", &path, "accept: text/event-stream\r\n", "");
        stream.write_all(request.as_bytes()).map_err(said(doing()))?;
        let mut heard = Vec::new();
        let mut chunk = [0; 8192];
        loop {
            let count = stream.read(&mut chunk).map_err(said(doing()))?;
            heard.extend_from_slice(&chunk[..count]);
            if memchr::memmem::find(&heard, wanted.as_bytes()).is_some() {
                return Ok(());
            }
            if count == 0 {
                return Err(format!("{run} ended without {wanted}"));
            }
        }
    }

    /// Waits until the run is over, its keeper waited for and its spool gone, without asking the
    /// server anything; then gives its row.
    pub fn settled(&mut self, run: &str) -> Result<Value, String> {
        let digits = run.trim_start_matches("run_");
        let spools = self.spools();
        until("the end of a run", PATIENCE_MS, || {
            let mut spools = spools.iter().flat_map(std::fs::read_dir).flatten().flatten();
            let lives = spools.any(|entry| entry.file_name().to_string_lossy().starts_with(digits));
            (!lives).then_some(())
        });
        // On a busy machine a run may take longer than a connection is kept without a word.
        self.connect_again()?;
        until("the last commit of a run", PATIENCE_MS, || {
            let row = self.ask("GET", &format!("/api/v1/runs/{run}"), "");
            row.map_or_else(
                |error| Some(Err(error)),
                |row| (row["state"] == "settled").then_some(Ok(row)),
            )
        })
    }

    /// Where spools lie: one folder per data directory, below the runtime directory.
    fn spools(&self) -> Vec<PathBuf> {
        let house = self.instance.runtime().join("ostler");
        std::fs::read_dir(house).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(said(format!("connecting to {address}")))?;
    let patience = Some(Duration::from_millis(PATIENCE_MS));
    stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(patience))
        .map_err(said("preparing a connection"))?;
    Ok(stream)
}

impl Drop for Serve {
    fn drop(&mut self) {
        // Agents first: a keeper carries no mark and leaves when its agent does.
        let server = self.pid();
        for agent in testkit::find_marked(&self.instance.mark()) {
            if agent.pid != server {
                end(agent.pid, Signal::KILL);
            }
        }
        end(server, Signal::TERM);
        let left = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !matches!(self.child.try_wait(), Ok(None))
        });
        if !left {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Ends a process that this bench started; one that is gone already is what was wanted.
fn end(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
