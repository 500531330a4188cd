//! The two programs of `docs/protocols/`, run as their page says: with the environment of the
//! protocol alone, over pipes, by a test that plays the other side.

#![allow(clippy::disallowed_methods, reason = "this test starts processes")]

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use testkit::Instance;

/// An example under way.
struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Declared last: dropping it ends what is left of the others.
    _instance: Instance,
}

impl Talk {
    fn start(program: &str, args: &[&str]) -> Self {
        let instance = Instance::new();
        let docs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols"));
        let mut child = instance
            .command("python3")
            .arg(docs.join(program))
            .args(args)
            .env("MCP_SERVER_URL", "http://127.0.0.1:1/mcp")
            .env("CA_LEASE_TOKEN", "lease")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdin, stdout, _instance: instance }
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}': {error}"))
    }

    fn say(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("still open");
        writeln!(stdin, "{line}").expect("it is read");
    }

    fn hear_call(&mut self, tool: &str) -> Value {
        let call = self.hear();
        assert_eq!((&call["type"], &call["tool"]), (&json!("tool_call"), &json!(tool)));
        call["id"].clone()
    }

    fn answer(&mut self, tool: &str, value: &Value) {
        let id = self.hear_call(tool);
        self.say(&json!({ "type": "tool_result", "id": id, "ok": true, "value": value }));
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("ends").code()
    }
}

fn task(prompt: &str) -> Value {
    json!({ "id": "task_1", "title": "a task", "prompt": prompt, "system_prompt": null })
}

#[test]
fn the_agent_reads_its_task_looks_around_and_completes() {
    let mut talk = Talk::start("agent.py", &[]);
    assert_eq!(talk.hear()["accepts"], json!(["resume"]));
    talk.answer("read_task", &task("good day"));
    assert_eq!(talk.hear()["event"]["kind"], "session");
    assert_eq!(talk.hear()["type"], "progress");
    talk.answer("list_files", &json!({ "files": ["a", "b"], "truncated": false }));
    assert_eq!(talk.hear()["event"]["text"], "You said 'good day', and I see 2 files.");
    let end = talk.hear();
    assert_eq!((&end["type"], &end["cost"]["usd"]), (&json!("complete"), &json!(0.001)));
    assert_eq!(talk.exit_code(), Some(0));
}

#[test]
fn agent_refuses_a_conversation_that_it_does_not_know() {
    for session in ["6f1d3a52-0f0e-4a52-9a40-58b1ee1f4b6d", "../../etc/passwd"] {
        let mut talk = Talk::start("agent.py", &[]);
        assert_eq!(talk.hear()["type"], "hello");
        talk.answer("read_task", &json!({ "title": "t", "prompt": "p", "session": session }));
        assert_eq!(talk.hear()["reason"], "native_session_unknown", "{session}");
    }
}

#[test]
fn the_agent_leaves_when_told_and_fails_when_a_tool_does() {
    let mut talk = Talk::start("agent.py", &[]);
    assert_eq!(talk.hear()["type"], "hello");
    talk.hear_call("read_task");
    talk.say(&json!({ "type": "shutdown", "reason": "cancelled" }));
    assert_eq!(talk.exit_code(), Some(0));

    let mut talk = Talk::start("agent.py", &[]);
    assert_eq!(talk.hear()["type"], "hello");
    let id = talk.hear_call("read_task");
    talk.say(&json!({ "type": "tool_result", "id": id, "ok": false, "error": "unknown_tool: no" }));
    let end = talk.hear();
    assert_eq!(
        (&end["type"], &end["details"]),
        (&json!("failed"), &json!("read_task: unknown_tool: no"))
    );
}

#[test]
fn the_wrapper_shows_text_and_tools_of_a_foreign_command() {
    let args =
        ["--tool-begins", "^> (?P<name>\\w+) (?P<input>.*)", "--tool-ends", "^< (?P<output>.*)"];
    let mut talk = Talk::start("wrap.py", &[&args[..], &["--", "cat"]].concat());
    talk.answer("read_task", &task("one\n> shell make\n< 12 passed\ntwo"));
    let shown: Vec<Value> = (0..4).map(|_| talk.hear()["event"].clone()).collect();
    assert_eq!(shown[0]["text"], "one\n");
    assert_eq!((&shown[1]["name"], &shown[1]["input"]), (&json!("shell"), &json!("make")));
    assert_eq!((&shown[2]["status"], &shown[2]["output"]), (&json!("ok"), &json!("12 passed")));
    assert_eq!(shown[1]["tool_call_id"], shown[2]["tool_call_id"]);
    assert_eq!(shown[3]["text"], "two\n");
    assert_eq!(talk.hear()["type"], "complete");
    assert_eq!(talk.exit_code(), Some(0));
}

#[test]
fn the_wrapper_reports_a_command_that_fails_or_is_not_there() {
    let mut talk = Talk::start("wrap.py", &["--", "sh", "-c", "exit 3"]);
    talk.answer("read_task", &task("hello"));
    let end = talk.hear();
    assert_eq!((&end["type"], &end["details"]), (&json!("failed"), &json!("sh ended with 3")));
    assert_eq!(talk.exit_code(), Some(3));

    let mut talk = Talk::start("wrap.py", &["--", "no-such-command-anywhere"]);
    talk.answer("read_task", &task("hello"));
    assert_eq!(talk.hear()["reason"], "not_started");
}

#[test]
fn the_wrapper_hands_a_shutdown_to_its_command_as_sigterm() {
    let script = "trap 'echo parting; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let mut talk = Talk::start("wrap.py", &["--", "sh", "-c", script]);
    talk.answer("read_task", &task("hello"));
    assert_eq!(talk.hear()["event"]["text"], "ready\n");
    talk.say(&json!({ "type": "shutdown", "reason": "cancelled" }));
    assert_eq!(talk.hear()["event"]["text"], "parting\n");
    assert_eq!(talk.exit_code(), Some(0));
}
