//! Every error path logs: faults are injected one by one, and each is found in the operator log with its
//! level, its message and, where it belongs to a run, the id of that run. The whole log, at the level
//! `debug`, holds no secret, no token and no text of an agent. A fault is a row of a table: what an
//! agent does is a row of `runs()`, what happens to a host is a row of one of the scenes below.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, Running, keepers, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{HungMount, until};

/// Printed by every agent; no line of the log may hold it.
const WORDS: &str = "words-of-the-agent-7713";
/// The value of a variable that every agent gets and prints.
const SECRET: &str = "canary-of-the-injected-faults-4711";
/// The fewest faults that have to be found, over all scenes.
const FAULTS_MIN: usize = 40;

/// The record that a fault must leave. A fault with a `run` must have its id.
#[derive(Debug, Clone)]
struct Expected {
    fault: &'static str,
    level: &'static str,
    /// The beginning of the message.
    message: &'static str,
    code: Option<&'static str>,
    run: Option<String>,
}

impl Expected {
    fn of_host(fault: &'static str, level: &'static str, message: &'static str) -> Self {
        Self { fault, level, message, code: None, run: None }
    }

    fn of_run(fault: &'static str, level: &'static str, message: &'static str, run: &str) -> Self {
        Self { run: Some(run.to_owned()), ..Self::of_host(fault, level, message) }
    }

    fn fits(&self, record: &Value) -> bool {
        let message = record["message"].as_str().unwrap_or_default();
        record["level"] == self.level
            && message.starts_with(self.message)
            && self.code.is_none_or(|code| record["code"] == code)
            && self.run.as_ref().is_none_or(|run| record["run"] == **run)
            && record["target"].is_string()
    }
}

/// A served instance whose log goes to a file.
struct Scene {
    door: Door,
    log: PathBuf,
    expected: Vec<Expected>,
}

impl Scene {
    fn open(ostler: Ostler) -> Self {
        Self::with(ostler, |_| {})
    }

    fn with(ostler: Ostler, change: impl FnOnce(&mut Command)) -> Self {
        let log = ostler.instance.root().join("log");
        let args =
            ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"];
        let mut command = ostler.command(&args);
        command.env("CANARY", SECRET);
        change(&mut command);
        let stdout = std::process::Stdio::piped();
        let mut child =
            command.stdout(stdout).stderr(File::create(&log).unwrap()).spawn().expect("it starts");
        let stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut serve = Running { child, stdout };
        let line = serve.line();
        let address = line.trim().strip_prefix("listening on http://");
        let address =
            address.unwrap_or_else(|| panic!("{:?}", fs::read_to_string(&log))).to_owned();
        let token = fs::read_to_string(ostler.instance.data().join("token")).unwrap();
        let door = Door { ostler, serve, address, token: token.trim().to_owned() };
        Self { door, log, expected: Vec::new() }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.door.owner(method, path, &body.to_string());
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// Asks for a run and gives its id.
    fn start(&self, agent: &str) -> String {
        let body = json!({ "agent": agent, "prompt": "x", "cwd": self.door.ostler.instance.work(),
            "permission": "allow-all" });
        let started = self.ask("POST", "/api/v1/runs", &body);
        let run = started["run_id"].as_str().unwrap_or_else(|| panic!("{agent}: {started}"));
        run.to_owned()
    }

    /// A run whose agent works.
    fn working(&self, agent: &str) -> String {
        let run = self.start(agent);
        until("the agent to run", BOUND_MS, || {
            let events = self.door.ostler.events(&["show", &run, "--json"]);
            events.iter().any(|event| event["phase"] == "running").then_some(())
        });
        run
    }

    fn expect(&mut self, expected: Expected) {
        self.expected.push(expected);
    }

    /// Waits for the record of a fault that was just injected.
    fn found(&mut self, expected: Expected) {
        until(&format!("the record of {expected:?} in {}", self.said()), BOUND_MS, || {
            self.records().iter().any(|record| expected.fits(record)).then_some(())
        });
        self.expect(expected);
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn records(&self) -> Vec<Value> {
        self.said().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Stops the server; every fault must be in its log, and nothing that is secret. Gives how many
    /// faults were found.
    fn close(mut self) -> usize {
        // A server that was killed on purpose has ended already.
        signal(self.door.serve.child.id() as i32, Signal::TERM);
        self.door.serve.child.wait().unwrap();
        let (said, records) = (self.said(), self.records());
        for expected in &self.expected {
            let fits = records.iter().any(|record| expected.fits(record));
            assert!(fits, "{} is not in the log: {expected:?}\n{said}", expected.fault);
        }
        for word in [WORDS, SECRET, &self.door.token] {
            let line = said.lines().find(|line| line.contains(word));
            assert!(line.is_none(), "{word} is in the log: {line:?}");
        }
        self.expected.len()
    }
}

fn script(ostler: &Ostler, name: &str, text: &str) -> PathBuf {
    let path = ostler.instance.root().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// An agent that prints what a real one printed once, the secret and words of its own, and ends so.
fn recorded(ostler: &Ostler, runtime: &str, name: &str) -> Value {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runtimes/src");
    let recording = root.join(runtime).join("recordings").join(name);
    let meta: Value =
        serde_json::from_slice(&fs::read(recording.with_extension("meta.json")).unwrap()).unwrap();
    let path = recording.display();
    let text = format!(
        "cat >/dev/null 2>&1 </dev/null\necho \"$CANARY {WORDS}\" >&2\n\
         cat '{path}.stderr' >&2 2>/dev/null\ncat '{path}.ndjson'\nexit {}",
        meta["exit_code"].as_i64().unwrap_or(1)
    );
    let binary = script(ostler, &format!("{runtime}-{name}"), &text);
    json!({ "type": "cli", "runtime": runtime, "lane": "native", "binary": binary,
        "env": { "CANARY": "${CANARY}" } })
}

fn fake(flags: &str) -> Value {
    let args: Vec<&str> = ["--leak", "CANARY"].into_iter().chain(flags.split(' ')).collect();
    json!({ "type": "process", "binary": testkit::fake_agent(), "args": args,
        "env": { "CANARY": "${CANARY}" } })
}

fn and(mut adapter: Value, more: Value) -> Value {
    let (Some(into), Value::Object(more)) = (adapter.as_object_mut(), more) else {
        panic!("objects")
    };
    into.extend(more);
    adapter
}

/// What an agent does wrong, and the code that its run ends with.
fn runs(ostler: &Ostler) -> Vec<(&'static str, Value, &'static str)> {
    let not_executable = ostler.instance.root().join("not-executable");
    fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    let not_a_program = script(ostler, "not-a-program", "");
    fs::write(&not_a_program, "\u{7f}ELF and nothing more").unwrap();
    let process = |binary: &Path| json!({ "type": "process", "binary": binary });
    vec![
        ("credentials refused", recorded(ostler, "pi", "auth_error"), "auth_failed"),
        ("unpaid bill", recorded(ostler, "pi", "billing"), "billing"),
        ("conversation too long", recorded(ostler, "pi", "context_overflow"), "context_overflow"),
        ("provider drops connections", recorded(ostler, "pi", "drop"), "upstream_error"),
        ("model says nothing", recorded(ostler, "pi", "empty"), "ended_without_result"),
        ("provider overloaded", recorded(ostler, "pi", "overloaded"), "overloaded"),
        ("provider limits the rate", recorded(ostler, "pi", "rate_limit"), "rate_limited"),
        ("model refuses", recorded(ostler, "pi", "refusal"), "model_refusal"),
        ("quota used up", recorded(ostler, "pi", "usage_limit"), "provider_quota"),
        ("unknown model", recorded(ostler, "cursor-agent", "model"), "model_not_found"),
        ("agent not logged in", recorded(ostler, "cursor-agent", "login"), "auth_required"),
        ("program missing", process(Path::new("/nowhere/at/all")), "not_installed"),
        ("program not executable", process(&not_executable), "spawn_failed"),
        ("program of another machine", process(&not_a_program), "spawn_failed"),
        ("agent reports a failure", fake(&format!("--failed {WORDS} --exit 3")), "agent_failed"),
        ("agent crashes", fake("--no-complete --exit 3"), "process_crashed"),
        ("agent killed by a signal", fake("--kill-self"), "process_killed"),
        ("agent ends without a result", fake("--no-complete"), "ended_without_result"),
        ("agent reports a used-up budget", fake("--failed budget_exceeded"), "budget_exceeded"),
        (
            "no first output",
            json!({ "type": "process", "binary": "sleep", "args": ["600"], "firstOutputSec": 1 }),
            "timeout_first_output",
        ),
        (
            "silent agent",
            and(fake("--burst 1 --sleep-ms 600000"), json!({ "silenceSec": 1 })),
            "timeout_silence",
        ),
        (
            "run too long",
            and(fake("--burst 1 --sleep-ms 600000"), json!({ "timeoutSec": 1 })),
            "timeout_wall",
        ),
        (
            "too much output",
            and(fake("--burst 100 --line-bytes 20000"), json!({ "maxOutputBytes": 100_000 })),
            "output_limit",
        ),
        (
            "remote not reachable",
            json!({ "type": "http", "baseUrl": "http://127.0.0.1:1", "graceSec": 1 }),
            "remote_unavailable",
        ),
    ]
}

/// MCP servers of an agent that fail, each in its own way.
fn mcp_servers() -> Vec<(&'static str, Value)> {
    vec![
        ("MCP server missing", json!({ "command": "/nowhere/at/all" })),
        ("MCP server exits at once", json!({ "command": "false" })),
        ("MCP server writes garbage", json!({ "command": "echo", "args": [WORDS] })),
        ("MCP server not reachable", json!({ "url": "http://127.0.0.1:1/mcp" })),
    ]
}

fn faults_of_agents() -> usize {
    let ostler = Ostler::new();
    let (runs, servers) = (runs(&ostler), mcp_servers());
    let mut adapters = serde_json::Map::new();
    for (at, (_, adapter, _)) in runs.iter().enumerate() {
        adapters.insert(format!("run-{at}"), adapter.clone());
    }
    let mut mcp_servers = serde_json::Map::new();
    for (at, (_, server)) in servers.iter().enumerate() {
        mcp_servers.insert(format!("far{at}"), server.clone());
        adapters.insert(format!("mcp-{at}"), fake(&format!("--tool far{at}__tool {{}}")));
    }
    // An account that cannot be asked: no login, and a login that is no JSON.
    for (name, login) in [("no-login", None), ("bad-login", Some(WORDS))] {
        let dir = ostler.instance.root().join(name);
        fs::create_dir(&dir).unwrap();
        if let Some(login) = login {
            fs::write(dir.join(".credentials.json"), login).unwrap();
        }
        let binary = script(&ostler, &format!("claude-{name}"), "exit 1");
        adapters.insert(
            name.to_owned(),
            json!({ "type": "cli", "runtime": "claude", "lane": "native", "binary": binary,
                "quota": { "source": "oauth" }, "env": { "CLAUDE_CONFIG_DIR": dir } }),
        );
    }
    let config = json!({ "adapters": adapters, "mcpServers": mcp_servers,
        "notify": { "command": ["/nowhere/at/all"] } });
    ostler.instance.write_config(&config.to_string());
    fs::create_dir_all(ostler.instance.data()).unwrap();
    fs::write(ostler.instance.data().join("prices.json"), WORDS).unwrap();
    let mut scene = Scene::open(ostler);
    for (at, (fault, _, code)) in runs.iter().enumerate() {
        let run = scene.start(&format!("run-{at}"));
        let ended = Expected::of_run(fault, "warn", "run ended", &run);
        scene.expect(Expected { code: Some(code), ..ended });
    }
    for (at, (fault, _)) in servers.iter().enumerate() {
        let run = scene.start(&format!("mcp-{at}"));
        scene.expect(Expected::of_run(fault, "warn", "an MCP server cannot be used", &run));
    }
    for (fault, agent) in [("no login to ask with", "no-login"), ("login unreadable", "bad-login")]
    {
        let run = scene.start(agent);
        scene.expect(Expected::of_run(fault, "warn", "the state of an account", &run));
    }
    scene.expect(Expected::of_host("notify missing", "warn", "the notification command failed"));
    scene.ask("GET", "/api/v1/prices", &Value::Null);
    scene.expect(Expected::of_host("prices unreadable", "warn", "imported prices cannot be read"));
    until("every run to end", 4 * BOUND_MS, || {
        let live = scene.ask("GET", "/api/v1/runs?live=true&limit=100", &Value::Null);
        live["items"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
    scene.close()
}

/// What happens to a host that serves, and to its keepers and directories.
fn faults_of_a_host() -> usize {
    let ostler = Ostler::new();
    let config = |more: Value| {
        let adapters = json!({
            "patient": fake("--burst 1 --sleep-ms 600000"),
            "late": fake("--burst 1 --sleep-ms 3000 --burst 3"),
            "missing": { "type": "process", "binary": "/nowhere/at/all" },
        });
        and(json!({ "adapters": adapters, "notify": { "command": ["false"] } }), more).to_string()
    };
    ostler.instance.write_config(&config(json!({})));
    let mut scene = Scene::open(ostler);
    let (data, config_file) =
        (scene.door.ostler.instance.data(), scene.door.ostler.instance.config());

    // A task that cannot be started.
    let added = scene.door.ostler.says(&["task", "add", "x", "--agent", "missing", "--json"]);
    assert_eq!(added.code, 0, "{added:?}");
    let unstarted = Expected::of_host("task cannot start", "warn", "");
    scene.found(Expected { code: Some("not_installed"), ..unstarted });

    // A keeper that is killed, and one that hangs.
    let run = scene.working("patient");
    keepers(&run).into_iter().for_each(|keeper| signal(keeper, Signal::KILL));
    let ended = Expected::of_run("keeper killed", "warn", "run ended", &run);
    scene.found(Expected { code: Some("process_lost"), ..ended });
    scene.found(Expected::of_host("notify fails", "warn", "the notification command failed"));
    let run = scene.working("patient");
    keepers(&run).into_iter().for_each(|keeper| signal(keeper, Signal::STOP));
    assert_eq!(scene.door.ostler.says(&["stop", &run, "--now"]).code, 0);
    scene.found(Expected::of_run("keeper hangs", "warn", "the keeper of this run hung", &run));

    // A trace that cannot be written: a file lies where its directory was.
    let run = scene.start("late");
    let traces = data.join("traces");
    until("the traces", BOUND_MS, || traces.exists().then_some(()));
    fs::rename(&traces, data.join("traces.away")).unwrap();
    fs::write(&traces, "").unwrap();
    let next = scene.start("late");
    scene.found(Expected::of_run("trace unwritable", "warn", "the trace of the run", &next));
    fs::remove_file(&traces).unwrap();
    fs::rename(data.join("traces.away"), &traces).unwrap();
    drop(run);

    // A wrong token, and an audit log that cannot be written.
    let refused = || {
        let headers = [("host", scene.door.address.as_str()), ("authorization", "Bearer wrong")];
        assert_eq!(scene.door.request("GET", "/api/v1/runs", &headers, "").status, 401);
    };
    refused();
    let audit = data.join("audit.jsonl");
    until("the audit log", BOUND_MS, || audit.is_file().then_some(()));
    fs::remove_file(&audit).unwrap();
    fs::create_dir(&audit).unwrap();
    refused();
    scene.found(Expected::of_host("wrong token", "warn", "a request was refused for its token"));
    scene.found(Expected::of_host("audit log unwritable", "error", "a line of the audit log"));

    // A configuration that cannot be taken up: not JSON, an unknown key, and not a file.
    for (fault, text) in [
        ("configuration not JSON", Some("{")),
        ("configuration with an unknown key", Some("{ \"wrong\": 1 }")),
        ("configuration is a directory", None),
    ] {
        let before = scene.records().len();
        match text {
            Some(text) => fs::write(&config_file, text).unwrap(),
            None => {
                fs::remove_file(&config_file).unwrap();
                fs::create_dir(&config_file).unwrap();
            }
        }
        signal(scene.door.serve.child.id() as i32, Signal::HUP);
        let expected = Expected::of_host(fault, "error", "the configuration was not reloaded");
        until(fault, BOUND_MS, || {
            scene.records()[before..].iter().any(|record| expected.fits(record)).then_some(())
        });
        scene.expect(expected);
    }
    fs::remove_dir(&config_file).unwrap();
    scene.door.ostler.instance.write_config(&config(json!({})));

    // The place of the spools is taken away.
    fs::remove_dir_all(scene.door.ostler.instance.runtime().join("ostler")).unwrap();
    let run = scene.start("patient");
    scene.found(Expected::of_run("spools removed", "warn", "the run is lost", &run));

    // A file system that hangs.
    let point = scene.door.ostler.instance.root().join("hung");
    fs::create_dir(&point).unwrap();
    match HungMount::over(&point) {
        Ok(_mount) => {
            let body = json!({ "agent": "patient", "prompt": "x", "cwd": point });
            scene.ask("POST", "/api/v1/runs", &body);
            scene.found(Expected::of_host("directory hangs", "warn", "blocking work is given up"));
        }
        Err(error) => eprintln!("SKIPPED: a hung file system cannot be mounted here ({error})"),
    }
    scene.close()
}

/// Damages the only row of a store that has one run: `sql` changes what is kept of it.
fn change(ostler: &Ostler, script: &str) {
    let mut python = Command::new(testkit::python().expect("there is a python3"));
    let store = ostler.instance.data().join("ostler.db");
    let head = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=30)\n";
    let changed = python.args(["-c", &format!("{head}{script}\ndb.commit()")]).arg(store);
    let changed = changed.output().expect("python runs");
    assert!(changed.status.success(), "{changed:?}");
}

/// An instance with an agent that works on and a lease of two seconds.
fn patient() -> Ostler {
    let ostler = Ostler::new();
    let adapters = json!({ "patient": fake("--burst 1 --sleep-ms 600000") });
    let config = json!({ "server": { "leaseSec": 2 }, "adapters": adapters });
    ostler.instance.write_config(&config.to_string());
    ostler
}

/// Rows of the store that are damaged while a run is under way.
fn faults_of_the_store() -> usize {
    // The driver of a run panics, because the store refuses what it asks for.
    let mut scene = Scene::open(patient());
    let run = scene.working("patient");
    change(
        &scene.door.ostler,
        "for (run,) in db.execute('SELECT run FROM states').fetchall():\n  for n in range(1, 60):\n    \
         db.execute('INSERT INTO effects (run, n, bytes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING', \
         (run, n, b'{}'))",
    );
    scene.door.ostler.says(&["stop", &run]);
    scene.found(Expected::of_run("driver panics", "error", "panic", &run));
    scene.found(Expected::of_run("driver ended", "error", "the driver of the run panicked", &run));
    let mut found = scene.close();

    // A host that slept past its lease.
    let mut scene = Scene::open(patient());
    let run = scene.working("patient");
    let pid = scene.door.serve.child.id() as i32;
    signal(pid, Signal::STOP);
    until("the keeper to leave", BOUND_MS, || keepers(&run).is_empty().then_some(()));
    signal(pid, Signal::CONT);
    scene.found(Expected::of_run("host slept", "warn", "the lease of the run expired", &run));
    found += scene.close();

    // A host that finds a run whose stored state cannot be read.
    let ostler = patient();
    let mut host =
        Running::of(ostler.command(&["run", "patient", "x", "--json"]).env("CANARY", SECRET));
    let begun = host.event("the agent to run", |event| event["phase"] == "running");
    let run = begun["run_id"].as_str().unwrap().to_owned();
    signal(host.child.id() as i32, Signal::KILL);
    host.child.wait().unwrap();
    change(&ostler, "db.execute(\"UPDATE states SET dialect = X'00'\")");
    let mut scene = Scene::open(ostler);
    scene.found(Expected::of_run("stored state damaged", "warn", "the run is lost", &run));
    found + scene.close()
}

#[test]
fn every_injected_fault_is_logged_without_secrets() {
    let scenes: [fn() -> usize; 3] = [faults_of_agents, faults_of_a_host, faults_of_the_store];
    let found = std::thread::scope(|scope| {
        let threads = scenes.map(|scene| scope.spawn(scene));
        threads.map(|thread| thread.join().expect("the scene finds its faults; see above"))
    });
    let faults: usize = found.iter().sum();
    eprintln!("{faults} faults were injected and found in the log: {found:?}");
    assert!(faults >= FAULTS_MIN, "{faults} faults");
}
