//! The demo agent driven through pipes by a small host that answers its calls, as any agent would
//! be. No process is started and no time is waited for.

use super::*;
use std::io::{PipeReader, PipeWriter, pipe};

const AT_ONCE: Pace = Pace { beat_ms: 0, slow_ms: 0, patience_ms: 0 };

/// The other side of the conversation.
struct Host {
    to_agent: Option<PipeWriter>,
    from_agent: BufReader<PipeReader>,
    agent: std::thread::JoinHandle<()>,
    prompt: &'static str,
}

impl Host {
    fn of(prompt: &'static str, pace: Pace) -> Self {
        let (input, to_agent) = pipe().unwrap();
        let (from_agent, output) = pipe().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the thread is joined by the test")]
        let agent = std::thread::spawn(move || play(BufReader::new(input), output, pace));
        let from_agent = BufReader::new(from_agent);
        Self { to_agent: Some(to_agent), from_agent, agent, prompt }
    }

    fn send(&mut self, line: &Value) {
        let to_agent = self.to_agent.as_mut().unwrap();
        writeln!(to_agent, "{line}").unwrap();
    }

    /// The next line of the agent, its call answered; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        let mut text = String::new();
        self.from_agent.read_line(&mut text).unwrap();
        let line: Value = serde_json::from_str(&text).ok()?;
        if line["type"] == "tool_call" {
            let answer = self.answer(&line);
            self.send(&answer);
        }
        Some(line)
    }

    fn answer(&self, call: &Value) -> Value {
        let value = match call["tool"].as_str().unwrap() {
            "read_task" => json!({ "id": "task_1", "prompt": self.prompt }),
            "list_files" => json!({ "files": [
                { "path": ".env", "kind": "file" },
                { "path": "notes.txt", "kind": "file" },
                { "path": "README.md", "kind": "file" },
                { "path": "src", "kind": "directory" },
            ] }),
            "read_file" if call["args"]["path"] == "README.md" => {
                json!({ "path": "README.md", "content": "\n# A house\n\nMore.\n" })
            }
            "get_budget" => json!({ "remaining": {} }),
            "report_progress" | "comment" => json!({ "noted": true }),
            "read_file" => {
                return json!({ "type": "tool_result", "id": call["id"], "ok": false, "error": "not_found: no such file" });
            }
            other => {
                let error = format!("unknown_tool: no tool is called '{other}'");
                return json!({ "type": "tool_result", "id": call["id"], "ok": false, "error": error });
            }
        };
        json!({ "type": "tool_result", "id": call["id"], "ok": true, "value": value })
    }

    /// Everything until the agent leaves.
    fn all(mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.next() {
            lines.push(line);
        }
        self.agent.join().expect("the agent does not panic");
        lines
    }
}

fn story(prompt: &'static str) -> Vec<Value> {
    Host::of(prompt, AT_ONCE).all()
}

/// A story a line per line, deltas of one block joined.
fn told(lines: &[Value]) -> String {
    let mut told: Vec<(String, String)> = Vec::new();
    for line in lines {
        let body = if line["type"] == "event" { &line["event"] } else { line };
        let text = body["text"].as_str().unwrap_or_default().to_owned();
        let word = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let (head, rest) = match (line["type"].as_str().unwrap(), body["kind"].as_str()) {
            (_, Some(kind @ ("assistant_text" | "thinking"))) => {
                (format!("{kind} {}", word("block")), text)
            }
            (_, Some(kind)) => {
                let mut body = body.clone();
                body.as_object_mut().unwrap().remove("kind");
                (kind.to_owned(), body.to_string())
            }
            ("tool_call", None) => (format!("call {}", word("tool")), body["args"].to_string()),
            (kind, None) => {
                let mut body = body.clone();
                body.as_object_mut().unwrap().remove("type");
                (kind.to_owned(), body.to_string())
            }
        };
        match told.last_mut() {
            Some((before, joined)) if *before == head && body["delta"] == true => {
                joined.push_str(&rest)
            }
            Some(_) | None => told.push((head, rest)),
        }
    }
    told.iter().map(|(head, rest)| format!("{head}: {rest}")).collect::<Vec<_>>().join("\n")
}

#[test]
fn it_greets_looks_around_and_touches_nothing() {
    insta::assert_snapshot!(told(&story("hello")), @r#"
    hello: {"accepts":["message","interrupt"]}
    session: {"model":"demo","resumed":false}
    call read_task: {}
    turn: {"n":1,"phase":"started"}
    thinking thought: Someone is at the door. I will answer, look around, and touch nothing.
    assistant_text greeting: Good day! You said: “hello”.

    I am the demo agent. I have no model and no opinions, but I run like any other agent, so here is how a run looks.
    plan: {"entries":[{"status":"in_progress","text":"Look around"},{"status":"pending","text":"Ask what may be spent"},{"status":"pending","text":"Say goodbye"}]}
    call list_files: {"path":"."}
    call read_file: {"path":"README.md"}
    call get_budget: {}
    plan: {"entries":[{"status":"completed","text":"Look around"},{"status":"completed","text":"Ask what may be spent"},{"status":"in_progress","text":"Say goodbye"}]}
    progress: {"attempted":["read_task","list_files","read_file","get_budget"],"beliefs":["I see 4 things here; README.md begins with “# A house”","there is no limit on what I spend, so I was modest"],"cost":{"extras":[{"label":"play money","usd":0.0002}],"inputTokens":201,"model":"demo","outputTokens":56,"usd":0.001},"summary":"looked around"}
    assistant_text seen: I see 4 things here; README.md begins with “# A house”. As for money: there is no limit on what I spend, so I was modest.
    comment: {"mentions":[],"text":"That was the demo. Nothing was changed, and the cost is play money."}
    turn: {"n":1,"phase":"ended","stop_reason":"end_turn"}
    complete: {"cost":{"usd":0.0001},"output":{"text":"Good day! You said: “hello”. I see 4 things here; README.md begins with “# A house”."}}
    "#);
}

#[test]
fn it_fails_when_it_is_asked_to() {
    insta::assert_snapshot!(told(&story("please FAIL, would you")), @r#"
    hello: {"accepts":["message","interrupt"]}
    session: {"model":"demo","resumed":false}
    call read_task: {}
    turn: {"n":1,"phase":"started"}
    thinking thought: I am asked to fail. That much I can do.
    call read_file: {"path":"the-file-that-is-not-there"}
    assistant_text failing: I looked for a file that does not exist, and it did not. I give up.
    turn: {"n":1,"phase":"ended","stop_reason":"end_turn"}
    failed: {"details":"the prompt asked me to fail, and I did my best","reason":"asked_to_fail"}
    "#);
    assert_eq!(story("a failure is not asked for").last().unwrap()["type"], "complete");
}

#[test]
fn it_tries_many_tools_and_one_that_is_not_listed() {
    insta::assert_snapshot!(told(&story("show me tools")), @r#"
    hello: {"accepts":["message","interrupt"]}
    session: {"model":"demo","resumed":false}
    call read_task: {}
    turn: {"n":1,"phase":"started"}
    assistant_text tools: Tools, then. First those that are relayed for me:
    call list_files: {"depth":2,"path":"."}
    call read_file: {"path":"the-file-that-is-not-there"}
    call get_budget: {}
    call report_progress: {"summary":"half of the tools are tried"}
    call comment: {"text":"Hello from a tool."}
    call juggle: {"balls":3}
    call list_files: {"path":"."}
    call read_file: {"path":"README.md"}
    assistant_text own: And now some that would be my own:
    tool_use: {"input":{"at_most":10},"name":"think_of_a_number","tool_call_id":"own_1"}
    tool_result: {"output":"7","status":"ok","tool_call_id":"own_1"}
    tool_use: {"input":{"where":"the beach"},"name":"watch_the_sea","tool_call_id":"own_2"}
    tool_result: {"output":"wave 1\nwave 2\nwave 3\nwave 4\nwave 5\nwave 6\nwave 7\nwave 8\nwave 9\nwave 10\nwave 11\nwave 12\n","status":"ok","tool_call_id":"own_2"}
    tool_use: {"input":{"a":1,"b":0},"name":"divide","tool_call_id":"own_3"}
    tool_result: {"output":"nothing divides by 0","status":"error","tool_call_id":"own_3"}
    diff: {"patch":"--- a/imaginary.txt\n+++ b/imaginary.txt\n-a thought\n+a better thought\n","path":"imaginary.txt"}
    assistant_text summary: Refused: read_file (not_found: no such file), juggle (unknown_tool: no tool is called 'juggle'). I see 4 things here; README.md begins with “# A house”.
    turn: {"n":1,"phase":"ended","stop_reason":"end_turn"}
    complete: {"cost":{"usd":0.0001},"output":{"text":"Refused: read_file (not_found: no such file), juggle (unknown_tool: no tool is called 'juggle'). I see 4 things here; README.md begins with “# A house”."}}
    "#);
}

#[test]
fn it_can_be_big() {
    let lines = story("big");
    let longest = lines.iter().map(|line| line.to_string().len()).max().unwrap();
    assert!(longest > 100_000, "{longest}");
    let burst = lines.iter().filter(|line| line["event"]["kind"] == "log").count();
    assert_eq!(burst, 2_000);
    let tool = lines.iter().find(|line| line["event"]["kind"] == "tool_result").unwrap();
    assert!(tool["event"]["output"].as_str().unwrap().len() > 64 * 1024);
}

#[test]
fn a_shutdown_is_obeyed_in_the_middle_of_a_rest() {
    let hours = Pace { beat_ms: 0, slow_ms: 3_600_000, patience_ms: 0 };
    let mut host = Host::of("slow", hours);
    while host.next().unwrap()["event"]["kind"] != "assistant_text" {}
    host.send(&json!({ "type": "budget_update", "remaining": { "tokens": 1 } }));
    host.send(&json!({ "type": "shutdown", "reason": "cancelled" }));
    assert_eq!(host.all(), Vec::<Value>::new(), "it says nothing more");
}

#[test]
fn it_leaves_when_nobody_speaks_or_listens() {
    // Nobody speaks.
    let mut host = Host::of("hello", AT_ONCE);
    drop(host.to_agent.take());
    let lines: Vec<_> = std::iter::from_fn(|| {
        let mut text = String::new();
        host.from_agent.read_line(&mut text).unwrap();
        (!text.is_empty()).then_some(text)
    })
    .collect();
    assert_eq!(lines.len(), 3, "hello, its session and one call, then it leaves: {lines:?}");
    host.agent.join().expect("the agent does not panic");

    // Nobody listens.
    let Host { mut to_agent, from_agent, agent, .. } = Host::of("hello", AT_ONCE);
    drop(from_agent);
    let answer = json!({ "type": "tool_result", "id": "call_1", "ok": true, "value": {} });
    // The agent may already be gone; that is the point.
    let _ = writeln!(to_agent.as_mut().unwrap(), "{answer}");
    agent.join().expect("the agent does not panic");
}

#[test]
fn a_message_is_answered_and_an_interrupt_ends_the_turn() {
    let hours = Pace { beat_ms: 0, slow_ms: 3_600_000, patience_ms: 3_600_000 };
    let mut host = Host::of("slow", hours);
    while host.next().unwrap()["event"]["kind"] != "assistant_text" {}
    host.send(&json!({ "type": "interrupt" }));
    host.send(&json!({ "type": "message", "text": "say something nice" }));
    insta::assert_snapshot!(told(&host.all()), @r#"
    turn: {"n":1,"phase":"ended","stop_reason":"cancelled"}
    turn: {"n":2,"phase":"started"}
    assistant_text again: Of course. You said: “say something nice”.
    turn: {"n":2,"phase":"ended","stop_reason":"end_turn"}
    complete: {"cost":{"usd":0.0001},"output":{"text":"Of course. You said: “say something nice”."}}
    "#);

    let mut host = Host::of("slow", AT_ONCE);
    host.send(&json!({ "type": "message", "text": "are you there?" }));
    let lines = told(&host.all());
    assert!(lines.contains("Noted: “are you there?”."), "{lines}");
}

#[test]
fn an_interrupt_without_a_message_ends_the_run() {
    let hours = Pace { beat_ms: 0, slow_ms: 3_600_000, patience_ms: 0 };
    let mut host = Host::of("slow", hours);
    while host.next().unwrap()["event"]["kind"] != "assistant_text" {}
    host.send(&json!({ "type": "interrupt" }));
    let lines = host.all();
    assert_eq!(lines[0]["event"]["stop_reason"], "cancelled");
    assert_eq!(lines.last().unwrap()["type"], "complete");
}

#[test]
fn a_task_that_cannot_be_read_is_a_failure_with_its_reason() {
    let (input, mut to_agent) = pipe().unwrap();
    let (from_agent, output) = pipe().unwrap();
    writeln!(to_agent, "not json\n{{\"type\":\"novelty\"}}").unwrap();
    let refusal =
        json!({ "type": "tool_result", "id": "call_1", "ok": false, "error": "forbidden" });
    writeln!(to_agent, "{refusal}").unwrap();
    play(BufReader::new(input), output, AT_ONCE);
    let last = BufReader::new(from_agent).lines().last().unwrap().unwrap();
    insta::assert_snapshot!(last, @r#"
    {"type":"failed","details":"the task could not be read: forbidden","reason":"no_task"}
    "#);
}

#[test]
fn the_greeting_is_short_and_alive() {
    // Rests are the only time it takes of itself: 30 ms after each few words and each step.
    let lines = story("hello");
    let rests = lines.iter().filter(|line| line["event"]["delta"] == true).count() + 5;
    let told_ms = rests as u64 * LIVELY.beat_ms;
    assert!((300..1_500).contains(&told_ms), "{told_ms} ms");
}
