//! Who did it: what is decided stands in the audit file, with the task and in the events of the run
//! under the name of the token that was shown, whatever was sent; and a token that is taken away, or
//! whose time is up, ends the streams that it opened. The feed tells where each of these changed
//! something.

use crate::door::{Answer, Door, written};
use crate::ostler::BOUND_MS;
use serde_json::{Value, json};
use std::io::Read as _;
use std::io::Write as _;
use std::net::TcpStream;
use testkit::until;

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Someone with a token.
struct Holder<'a> {
    door: &'a Door,
    bearer: String,
}

impl<'a> Holder<'a> {
    fn owner(door: &'a Door) -> Self {
        Self { door, bearer: format!("Bearer {}", door.token) }
    }

    fn given(door: &'a Door, name: &str, scope: &str, expires_ms: Option<u64>) -> Self {
        let body = json!({ "name": name, "scope": scope, "expires_ms": expires_ms });
        let token = parsed(&door.owner("POST", "/api/v1/tokens", &body.to_string()));
        Self { door, bearer: format!("Bearer {}", token["token"].as_str().unwrap()) }
    }

    fn ask(&self, method: &str, target: &str, body: &Value, more: &[(&str, &str)]) -> Answer {
        let mut headers = vec![
            ("host", self.door.address.as_str()),
            ("authorization", self.bearer.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(more);
        self.door.request(method, target, &headers, &body.to_string())
    }

    fn gets(&self, target: &str) -> Value {
        let answer = self.ask("GET", target, &json!({}), &[]);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        parsed(&answer)
    }

    fn posts(&self, target: &str, body: &Value) -> Value {
        let answer = self.ask("POST", target, body, &[]);
        assert!((200..300).contains(&answer.status), "{target}: {}", answer.body);
        if answer.body.is_empty() { Value::Null } else { parsed(&answer) }
    }

    fn follows(&self, target: &str) -> Stream {
        let mut stream = self.door.connect();
        let headers = [
            ("host", self.door.address.as_str()),
            ("authorization", self.bearer.as_str()),
            ("accept", "text/event-stream"),
        ];
        stream.write_all(&written("GET", target, &headers, b"")).unwrap();
        Stream { stream, seen: String::new() }
    }

    /// A live run that has asked its question, and that question.
    fn asking_run(&self) -> (String, String) {
        let work = self.door.ostler.instance.work();
        let body = json!({ "agent": "demo", "prompt": "ask me", "cwd": work, "permission": "ask", "attended": true });
        let run = self.posts("/api/v1/runs", &body)["run_id"].as_str().unwrap().to_owned();
        let ask = until("a question", BOUND_MS, || {
            self.gets("/api/v1/asks")["items"][0]["ask_id"].as_str().map(str::to_owned)
        });
        (run, ask)
    }

    fn new_task(&self, title: &str) -> String {
        let work = self.door.ostler.instance.work();
        let body = json!({ "title": title, "agent": "demo", "cwd": work });
        self.posts("/api/v1/tasks", &body)["id"].as_str().unwrap().to_owned()
    }

    fn waits_for(&self, task: &str, state: &str) -> Value {
        until(&format!("the task to be {state}"), BOUND_MS, || {
            let sheet = self.gets(&format!("/api/v1/tasks/{task}"));
            (sheet["state"] == state).then_some(sheet)
        })
    }
}

struct Stream {
    stream: TcpStream,
    seen: String,
}

impl Stream {
    /// Reads on until this was there since the last time, or the stream ends.
    fn reads(&mut self, what: &str) -> bool {
        let mut piece = [0; 65536];
        loop {
            if let Some(at) = self.seen.find(what) {
                self.seen.drain(..at + what.len());
                return true;
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return false,
                Ok(count) => self.seen.push_str(&String::from_utf8_lossy(&piece[..count])),
                Err(error) => panic!("neither {what} nor an end came: {error}: {}", self.seen),
            }
        }
    }

    fn ends(&mut self) -> bool {
        !self.reads("what is never said")
    }
}

/// Who said this of a task, each time.
fn said(sheet: &Value, text: &str) -> Vec<String> {
    let said = sheet["comments"].as_array().unwrap().iter().filter(|said| said["text"] == text);
    said.map(|said| said["author"].as_str().unwrap().to_owned()).collect()
}

/// The line of the audit file for a deed about something.
fn audited(door: &Door, what: &str, about: &str) -> Value {
    let path = door.ostler.instance.data().join("audit.jsonl");
    until(&format!("{what} of {about} to be written down"), BOUND_MS, || {
        let text = std::fs::read_to_string(&path).ok()?;
        let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut lines = lines.filter(|line| line["what"] == what);
        lines.find(|line| line.to_string().contains(about))
    })
}

#[test]
fn who_decided_about_a_task_is_told_by_its_token_and_not_by_its_words() {
    let door = Door::open();
    let owner = Holder::owner(&door);
    let ci = Holder::given(&door, "ci", "operator", None);
    let sly = Holder::given(&door, "owner", "operator", None);
    let task = ci.new_task("look around");
    owner.waits_for(&task, "review");
    ci.posts(&format!("/api/v1/tasks/{task}/comment"), &json!({ "text": "closer" }));
    // The comment woke its agent.
    owner.waits_for(&task, "review");
    let sent_back =
        ci.posts(&format!("/api/v1/tasks/{task}/reject"), &json!({ "text": "look again" }));
    assert!(["queued", "running"].contains(&sent_back["state"].as_str().unwrap()), "{sent_back}");
    let sheet = owner.waits_for(&task, "review");
    assert_eq!(said(&sheet, "closer"), ["token ci"]);
    ci.posts(&format!("/api/v1/tasks/{task}/budget"), &json!({ "nanousd": 7 }));
    sly.posts(&format!("/api/v1/tasks/{task}/approve"), &json!({}));
    let sheet = owner.gets(&format!("/api/v1/tasks/{task}"));
    assert_eq!(
        (&sheet["state"], &sheet["note"]),
        (&"done".into(), &"approved by token owner".into())
    );
    for (what, by) in [
        ("task_commented", "token ci"),
        ("task_rejected", "token ci"),
        ("task_budget_changed", "token ci"),
        ("task_approved", "token owner"),
    ] {
        let line = audited(&door, what, &task);
        assert_eq!(line["by"], by, "{line}");
        assert!(line["by_token"].as_str().is_some_and(|id| id.starts_with("token_")), "{line}");
    }
    let other = owner.new_task("slow");
    owner.posts(&format!("/api/v1/tasks/{other}/cancel"), &json!({}));
    assert_eq!(audited(&door, "task_cancelled", &other)["by"], "owner");
    assert_eq!(audited(&door, "token_added", "operator")["by"], "owner");
}

#[test]
fn who_answered_is_an_event_of_the_run_whatever_name_was_sent() {
    let door = Door::open();
    let ci = Holder::given(&door, "ci", "operator", None);
    let (run, ask) = ci.asking_run();
    let forged = json!({ "wish": "answer", "ask_id": ask, "option": "allow", "by": "owner" });
    assert_eq!(ci.ask("POST", &format!("/api/v1/runs/{run}/commands"), &forged, &[]).status, 202);
    until("the end of the run", BOUND_MS, || {
        (ci.gets(&format!("/api/v1/runs/{run}"))["state"] == "settled").then_some(())
    });
    let events = ci.ask("GET", &format!("/api/v1/runs/{run}/events"), &json!({}), &[]).body;
    let decided = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|event| event["kind"] == "permission" && event["decision"] == "allow")
        .unwrap_or_else(|| panic!("nobody decided: {events}"));
    assert_eq!((&decided["decided_by"], &decided["by"]), (&"person".into(), &"token ci".into()));
    assert_eq!(audited(&door, "answered", &ask)["by"], "token ci");
}

#[test]
fn a_token_that_is_taken_away_or_over_ends_the_streams_that_it_opened() {
    let door = Door::open();
    let owner = Holder::owner(&door);
    let (run, _) = owner.asking_run();
    let events = format!("/api/v1/runs/{run}/events");
    let mut own = owner.follows("/api/v1/feed");
    assert!(own.reads("missed"));
    for (name, target) in [("feed", "/api/v1/feed"), ("events", &events)] {
        let guest = Holder::given(&door, name, "viewer", None);
        let other = Holder::given(&door, &format!("another {name}"), "viewer", None);
        let (mut stream, mut stays) = (guest.follows(target), other.follows(target));
        assert!(stream.reads("id: 1\n") && stays.reads("id: 1\n"), "{target}");
        let id = owner.gets("/api/v1/tokens");
        let id = id["items"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let revoke = format!("/api/v1/tokens/{}/revoke", id["id"].as_str().unwrap());
        owner.posts(&revoke, &json!({}));
        assert!(stream.ends(), "{target} goes on without a token");
        let short = Holder::given(&door, &format!("short {name}"), "viewer", Some(2_000));
        let mut stream = short.follows(target);
        assert!(stream.reads("id: 1\n"), "{target}");
        assert!(stream.ends(), "{target} outlives its token");
        // Nobody else's stream has ended.
        if target == "/api/v1/feed" {
            owner.new_task("tell them");
            assert!(stays.reads("\"kind\":\"task\"") && own.reads("\"kind\":\"task\""));
        } else {
            owner.posts(
                &format!("/api/v1/runs/{run}/commands"),
                &json!({ "wish": "stop", "reason": "cancelled" }),
            );
            assert!(stays.reads("\"kind\":\"result\""));
        }
    }
}

#[test]
fn every_change_of_the_board_makes_a_hint_and_what_it_leads_to_is_there_by_then() {
    let door = Door::open();
    let owner = Holder::owner(&door);
    let mut feed = owner.follows("/api/v1/feed");
    assert!(feed.reads("\"kind\":\"missed\""));
    let work = door.ostler.instance.work();
    let spec = json!({ "adapter": "demo", "cwd": work });
    let hired = owner.posts("/api/v1/agents", &json!({ "name": "helper", "spec": spec }));
    let agent = format!(
        "\"agent_id\":\"{}\"",
        hired["agent"]["id"].as_str().or(hired["id"].as_str()).unwrap()
    );
    assert!(feed.reads(&agent));
    for state in ["paused", "active", "retired"] {
        owner.posts("/api/v1/agents/helper/state", &json!({ "state": state }));
        assert!(feed.reads(&agent), "{state}");
    }
    let (run, ask) = {
        let body = json!({ "agent": "demo", "prompt": "ask me", "cwd": work, "permission": "ask", "attended": true });
        let run = owner.posts("/api/v1/runs", &body)["run_id"].as_str().unwrap().to_owned();
        assert!(feed.reads(&format!("\"kind\":\"asks\",\"run_id\":\"{run}\"")));
        let open = owner.gets("/api/v1/asks");
        (
            run.clone(),
            open["items"][0]["ask_id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned(),
        )
    };
    owner.posts(&format!("/api/v1/asks/{ask}/answer"), &json!({ "option": "allow" }));
    assert!(feed.reads(&format!("\"kind\":\"asks\",\"run_id\":\"{run}\"")));
    assert_eq!(owner.gets("/api/v1/asks"), json!({ "items": [] }));
    assert!(feed.reads("\"settled\":true"));
    let task = owner.new_task("look around");
    let hint = format!("\"kind\":\"task\",\"task_id\":\"{task}\"");
    assert!(feed.reads(&hint));
    owner.waits_for(&task, "review");
    for (verb, words) in [("comment", json!({ "text": "x" })), ("approve", json!({}))] {
        feed.seen.clear();
        owner.posts(&format!("/api/v1/tasks/{task}/{verb}"), &words);
        assert!(feed.reads(&hint), "{verb}");
        if verb == "comment" {
            // It woke the agent of the task.
            owner.waits_for(&task, "review");
        }
    }
}

/// What is left of a request whose answer was lost in a crash: its id was chosen, and no more.
const FORGET: &str = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
    db.execute('UPDATE answers SET status = NULL, body = NULL'); db.commit()";

#[test]
fn a_key_makes_one_task_one_comment_and_one_agent_even_when_the_answer_was_lost() {
    let mut door = Door::open();
    let work = door.ostler.instance.work().to_owned();
    let new = json!({ "title": "once", "agent": "demo", "cwd": work, "review": "none" });
    let hire = json!({ "name": "helper", "spec": { "adapter": "demo" } });
    let made = |door: &Door, key: &str, target: &str, body: &Value| {
        let answer = Holder::owner(door).ask("POST", target, body, &[("idempotency-key", key)]);
        assert!((200..300).contains(&answer.status), "{target}: {}", answer.body);
        (parsed(&answer), answer.header("idempotency-replayed").is_some())
    };
    let (task, replayed) = made(&door, "k-task", "/api/v1/tasks", &new);
    assert!(!replayed);
    assert_eq!(made(&door, "k-task", "/api/v1/tasks", &new), (task.clone(), true));
    let task = task["id"].as_str().unwrap().to_owned();
    let comment = format!("/api/v1/tasks/{task}/comment");
    let words = json!({ "text": "heard once" });
    made(&door, "k-comment", &comment, &words);
    let (agent, replayed) = made(&door, "k-agent", "/api/v1/agents", &hire);
    assert!(!replayed);
    assert_eq!(made(&door, "k-agent", "/api/v1/agents", &hire), (agent, true));
    Holder::owner(&door).waits_for(&task, "done");
    let _ = door.serve.child.kill();
    let _ = door.serve.child.wait();
    let database = door.ostler.instance.data().join("ostler.db");
    let mut forgets = std::process::Command::new("python3");
    let forgotten = forgets.args(["-c", FORGET]).arg(&database).status();
    assert!(forgotten.is_ok_and(|status| status.success()));
    let mut serve = door.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    door.address = serve.line().trim().strip_prefix("listening on http://").unwrap().to_owned();
    door.serve = serve;
    let (again, replayed) = made(&door, "k-task", "/api/v1/tasks", &new);
    assert!(!replayed);
    assert_eq!(again["id"], task.as_str(), "a second task was made");
    made(&door, "k-comment", &comment, &words);
    let sheet = Holder::owner(&door).gets(&format!("/api/v1/tasks/{task}"));
    assert_eq!(said(&sheet, "heard once"), ["owner"]);
}
