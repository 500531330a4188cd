//! What an agent was given lasts longer than the host that gave it: the address of its tools, its
//! token, and the MCP servers of the configuration, with their secrets. Also what those servers may
//! send at most.

use crate::mcp::{AGENT, Guest, called, door, list, post, request, tool_call};
use crate::ostler::{BOUND_MS, Ostler, Running, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::{find_marked, until};

const HUSH: &str = "near-hush-2026";

/// A run whose agent was told where its tools are, and whose host can be killed.
struct Orphan {
    ostler: Ostler,
    id: String,
    token: String,
    url: String,
    host: Running,
}

impl Orphan {
    fn new() -> Self {
        let ostler = Ostler::new();
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_server.py");
        let servers = json!({ "mcpServers": { "near": {
            "command": "python3", "args": [server], "env": { "NEAR_KEY": "${NEAR_KEY}" },
        } } });
        ostler.instance.write_config(&servers.to_string());
        let script = ostler.instance.root().join("agent.sh");
        std::fs::write(&script, AGENT).unwrap();
        let agent = format!("sh {}", script.display());
        let args =
            ["run", "--json", "--permission", "allow-reads", "--process", &agent, "be there"];
        let mut host = Running::of(ostler.command(&args).env("NEAR_KEY", HUSH));
        let begun = host.event("the agent to run", |event| event["phase"] == "running");
        let id = begun["run_id"].as_str().unwrap().to_owned();
        let (token, url) = door(&ostler.instance.work());
        Self { ostler, id, token, url, host }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    fn kill(&mut self) {
        signal(self.host.child.id() as i32, Signal::KILL);
        self.host.child.wait().unwrap();
    }

    /// The next host: it has neither the address nor the secrets of the first.
    fn serve(&mut self) {
        self.host = self.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        let line = self.host.line();
        let own = line.trim().strip_prefix("listening on http://").expect("it listens").to_owned();
        assert_ne!(own, self.address(), "it has an address of its own");
    }

    fn call(&self, tool: &str, args: &Value) -> Value {
        let (status, answer) = post(&self.url, &self.token, &tool_call(tool, args));
        assert_eq!(status, 200, "{answer}");
        answer["result"].clone()
    }

    /// Uses a tool of our own and two of the server.
    fn use_tools(&self, a: i64, b: i64) {
        let task = called(&post(&self.url, &self.token, &tool_call("read_task", &json!({}))).1);
        assert_eq!(task.unwrap()["prompt"], "be there");
        let sum = self.call("near__add", &json!({ "a": a, "b": b }));
        assert_eq!(sum["content"][0]["text"], (a + b).to_string(), "{sum}");
        let seen = self.call("near__env", &json!({}));
        let seen = seen["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(seen.contains(HUSH), "its secret came with it");
    }

    fn events(&self) -> Vec<Value> {
        self.ostler.events(&["show", &self.id, "--json"])
    }
}

fn said<'a>(events: &'a [Value], part: &str) -> Vec<&'a Value> {
    let fits = |event: &&Value| event["text"].as_str().is_some_and(|text| text.contains(part));
    events.iter().filter(|event| event["kind"] == "log").filter(fits).collect()
}

#[test]
fn an_adopted_agent_finds_its_tools_and_its_servers_where_it_was_told() {
    let mut orphan = Orphan::new();
    orphan.use_tools(3, 4);
    orphan.kill();
    orphan.serve();
    orphan.use_tools(5, 6);
    orphan.kill();
    orphan.serve();
    orphan.use_tools(7, 8);
    // The door is as well guarded as the front.
    assert_eq!(post(&orphan.url, "wrong", &list()).0, 401);
    let foreign = format!(
        "POST /mcp HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\
         authorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
        orphan.token
    );
    assert_eq!(request(orphan.address(), &foreign).0, 403);

    std::fs::write(orphan.ostler.instance.work().join("done"), "").unwrap();
    until("the door to close with its last run", BOUND_MS, || {
        TcpStream::connect(orphan.address()).is_err().then_some(())
    });
    let events = until("the end of the run", BOUND_MS, || {
        Some(orphan.events()).filter(|events| events.last().is_some_and(|e| e["kind"] == "result"))
    });
    assert_eq!(result(&events)["outcome"], "succeeded");
    // Each host says for itself how the server fared.
    assert_eq!(said(&events, "the MCP server 'near' is connected: 4 tools").len(), 3);
    assert!(!serde_json::to_string(&events).unwrap().contains(HUSH), "kept out of the events");
    signal(orphan.host.child.id() as i32, Signal::TERM);
    orphan.host.child.wait().unwrap();
    until("everyone to be gone", BOUND_MS, || {
        find_marked(&orphan.ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn an_address_that_someone_else_has_is_told_and_tried_again() {
    let mut orphan = Orphan::new();
    orphan.kill();
    let stranger = TcpListener::bind(orphan.address()).unwrap();
    orphan.serve();
    until("the run to be told", BOUND_MS, || {
        let events = orphan.events();
        let told = said(&events, "where this host cannot listen").first().cloned().cloned();
        told.filter(|told| told["level"] == "warning")
    });
    drop(stranger);
    until("the door to open", BOUND_MS, || TcpStream::connect(orphan.address()).ok());
    orphan.use_tools(1, 2);
    std::fs::write(orphan.ostler.instance.work().join("done"), "").unwrap();
    until("the end of the run", BOUND_MS, || {
        orphan.events().last().is_some_and(|event| event["kind"] == "result").then_some(())
    });
    assert_eq!(said(&orphan.events(), "where this host cannot listen").len(), 1, "told once");
    signal(orphan.host.child.id() as i32, Signal::KILL);
    orphan.host.child.wait().unwrap();
}

/// More than any answer may have, and far less than would hurt.
const ENDLESS_BYTES: u64 = 256 << 20;

/// Answers every request with this head and a body that does not end by itself.
fn endless(head: &'static str) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let mut chunk = head.as_bytes().to_vec();
            while stream.write_all(&chunk).is_ok() {
                if count.fetch_add(chunk.len() as u64, Ordering::SeqCst) > ENDLESS_BYTES {
                    return;
                }
                chunk = vec![b' '; 64 * 1024];
            }
        }
    });
    (url, sent)
}

#[test]
fn an_answer_without_end_is_given_up_before_it_fills_memory() {
    let (plain, of_plain) = endless("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
    let (failing, of_failing) =
        endless("HTTP/1.1 500 Oh\r\ncontent-type: application/json\r\n\r\n");
    let (events, of_events) =
        endless("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ");
    let ostler = Ostler::new();
    let servers = json!({ "mcpServers": {
        "plain": { "url": plain }, "failing": { "url": failing }, "events": { "url": events },
    } });
    ostler.instance.write_config(&servers.to_string());
    let guest = Guest::new(&ostler, &["--permission", "allow-all"]);
    let (status, answer) = guest.post(&list());
    assert_eq!(status, 200, "{answer}");
    for server in ["plain", "failing", "events"] {
        let refused = guest.call(&format!("{server}__x"), &json!({}));
        assert_eq!(refused, Err("remote_unavailable".to_owned()), "{server}");
    }
    for (name, sent) in [("plain", of_plain), ("failing", of_failing), ("events", of_events)] {
        let sent = sent.load(Ordering::SeqCst);
        // What is on its way in sockets counts too, once for each time it was tried.
        assert!(sent < ENDLESS_BYTES, "{name}: {sent} bytes were taken");
    }
    let peak_kb = guest.host_peak_kb();
    assert!(peak_kb < 200_000, "the host took {peak_kb} kB");
    let events = guest.finish();
    for server in ["plain", "failing"] {
        let told = said(&events, &format!("the MCP server '{server}' failed: "));
        assert_eq!(told.len(), 1, "{server}");
        let why = told[0]["text"].as_str().unwrap();
        assert!(why.contains("its answer has more than 8388608 bytes"), "{why}");
    }
}
