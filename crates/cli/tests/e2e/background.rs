//! Runs that outlive the command that started them: detached, started by an MCP client that leaves, or
//! at a terminal that is closed. A background host drives them to their end and then exits.

use crate::ostler::{BOUND_MS, Ostler, Running, program, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;
use testkit::{find_marked, until};

/// An agent that speaks, works for a while and succeeds.
const WORKS: &str = "--burst 5 --sleep-ms 2500 --burst 5";

fn host_of(ostler: &Ostler) -> Option<(String, i32)> {
    let data = ostler.instance.data();
    let address = std::fs::read_to_string(data.join("address")).ok()?;
    let token = std::fs::read_to_string(data.join("token")).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let host: Value = runtime.block_on(async {
        let url = format!("{}/api/v1/host", address.trim());
        let client = reqwest::Client::builder().no_proxy().build().ok()?;
        client.get(url).bearer_auth(token.trim()).send().await.ok()?.json().await.ok()
    })?;
    Some((host["role"].as_str()?.to_owned(), i32::try_from(host["pid"].as_i64()?).ok()?))
}

fn detach(ostler: &Ostler, flags: &str) -> String {
    let said = ostler.says(&["run", "--detach", "--process", &ostler.fake(flags), "x", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let started: Value = serde_json::from_str(&said.stdout).unwrap();
    started["run_id"].as_str().unwrap().to_owned()
}

fn until_ended(ostler: &Ostler, run: &str) -> Value {
    until("the run to end", BOUND_MS, || {
        let rows = ostler.says(&["runs", "--json"]);
        let rows: Vec<Value> = serde_json::from_str(&rows.stdout).ok()?;
        rows.into_iter().find(|row| row["id"] == run && !row["outcome"].is_null())
    })
}

fn until_nothing_is_left(ostler: &Ostler) {
    until("every process to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
    assert!(!ostler.instance.data().join("address").exists());
}

#[test]
fn detached_run_ends_after_its_starter() {
    let ostler = Ostler::new();
    let run = detach(&ostler, WORKS);
    let (role, pid) = host_of(&ostler).expect("a host answers");
    assert_eq!(role, "background");
    // A session of its own: no terminal can take it down.
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert_eq!(rustix::process::getsid(Some(pid)).unwrap(), pid);
    assert_eq!(until_ended(&ostler, &run)["outcome"], "succeeded");
    let events = ostler.events(&["show", &run, "--json"]);
    assert_eq!(result(&events)["outcome"], "succeeded");
    until_nothing_is_left(&ostler);
}

#[test]
fn detached_run_says_how_to_follow_it_and_can_be_stopped() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 1 --wait-shutdown");
    let said = ostler.says(&["run", "--detach", "--process", &agent, "x"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let run = said.stdout.split_whitespace().nth(1).expect("the run's id");
    for next in ["ostler watch", "ostler stop"] {
        assert!(said.stdout.contains(&format!("{next} {run}")), "{}", said.stdout);
    }
    let stopped = ostler.says(&["stop", run]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    until_nothing_is_left(&ostler);
}

#[test]
fn two_detached_runs_share_one_background_host() {
    let ostler = Ostler::new();
    let first = detach(&ostler, "--burst 1 --wait-shutdown");
    let (_, pid) = host_of(&ostler).expect("a host answers");
    let second = detach(&ostler, "--burst 1 --wait-shutdown");
    assert_eq!(host_of(&ostler), Some(("background".to_owned(), pid)));
    for run in [&first, &second] {
        assert_eq!(ostler.says(&["stop", run]).code, 0);
    }
    until_nothing_is_left(&ostler);
}

#[test]
fn detached_run_that_cannot_start_says_so() {
    let ostler = Ostler::new();
    let said = ostler.says(&["run", "--detach", "--process", "/no/such/program", "x"]);
    assert_ne!(said.code, 0, "{}", said.stdout);
    assert!(said.stderr.contains("/no/such/program"), "{}", said.stderr);
    until_nothing_is_left(&ostler);
}

#[test]
fn server_takes_over_from_the_background_host() {
    let ostler = Ostler::new();
    let run = detach(&ostler, "--burst 1 --wait-shutdown");
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    assert_eq!(host_of(&ostler).map(|(role, _)| role).as_deref(), Some("server"));
    assert_eq!(ostler.says(&["stop", &run]).code, 0);
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    until_nothing_is_left(&ostler);
}

#[test]
fn run_goes_on_when_its_terminal_is_closed() {
    let ostler = Ostler::new();
    let agent = ostler.fake(WORKS);
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let begun = run.event("the agent to run", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    signal(run.child.id() as i32, Signal::HUP);
    assert!(run.child.wait().unwrap().code().is_some(), "it ends by itself");
    assert_eq!(until_ended(&ostler, &id)["outcome"], "succeeded");
    until_nothing_is_left(&ostler);
}

#[test]
fn nohup_keeps_a_run_in_the_foreground() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 5 --sleep-ms 1500 --burst 5");
    let mut command = ostler.instance.command("nohup");
    command.arg(program()).args(["run", "--process", &agent, "x", "--json"]).stdin(Stdio::null());
    let mut run = Running::of(&mut command);
    let mut seen = vec![run.event("the agent to run", |event| event["phase"] == "running")];
    signal(run.child.id() as i32, Signal::HUP);
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    seen.extend(said.events());
    assert_eq!(result(&seen)["outcome"], "succeeded");
}

#[test]
fn run_of_an_mcp_client_outlives_the_client() {
    let ostler = Ostler::new();
    let config = json!({ "adapters": { "worker": {
        "type": "process", "binary": testkit::fake_agent(),
        "args": WORKS.split(' ').collect::<Vec<_>>(),
    } } });
    ostler.instance.write_config(&config.to_string());
    let mut command = ostler.command(&["mcp"]);
    let mut client = Running::of(command.stdin(Stdio::piped()));
    let mut stdin = client.child.stdin.take().unwrap();
    let mut send = |message: Value| writeln!(stdin, "{message}").unwrap();
    send(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    } }));
    client.line();
    send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "start_run", "arguments": { "agent": "worker", "prompt": "x" },
    } }));
    let answer: Value = serde_json::from_str(&client.line()).unwrap();
    let run = answer["result"]["structuredContent"]["run_id"].as_str().unwrap_or_else(|| {
        panic!("{answer}");
    });
    // An assistant that leaves kills its servers.
    signal(client.child.id() as i32, Signal::KILL);
    client.child.wait().unwrap();
    assert_eq!(until_ended(&ostler, run)["outcome"], "succeeded");
    until_nothing_is_left(&ostler);
}

#[test]
fn hangup_makes_a_server_reload() {
    let ostler = Ostler::new();
    ostler.instance.write_config("{}");
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    signal(serve.child.id() as i32, Signal::HUP);
    let stderr = std::io::BufReader::new(serve.child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(stderr).map_while(Result::ok);
    assert!(lines.any(|line| line.contains("SIGHUP: reloaded")));
    assert_eq!(host_of(&ostler).map(|(role, _)| role).as_deref(), Some("server"));
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}
