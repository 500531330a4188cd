//! Services that take a task and answer it: now, at an address where the work stands, or by calling
//! back with the token of their run. What the courier makes of each answer has a finer table in
//! `crates/remote/src/courier/tests.rs`; here whole runs end as their services say.

use crate::mcp::request;
use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, keepers, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::remote::{Answer, Remote, Script};
use testkit::{find_marked, until};

const HUSH: &str = "hook-hush-2026";

/// A service with an instance that knows it by the name `far`.
struct Service {
    remote: Remote,
    ostler: Ostler,
}

impl Service {
    fn new(create: Vec<Answer>, status: Vec<Answer>) -> Self {
        let remote = Remote::play(Script { create, status, ..Script::streams(Vec::new()) });
        let ostler = Ostler::new();
        let far = json!({
            "type": "http", "baseUrl": format!("{}/v1/runs", remote.url()), "graceSec": 5,
            "protocol": "webhook-v1", "auth": { "type": "bearer", "tokenEnv": "FAR_TOKEN" },
        });
        ostler.instance.write_config(&json!({ "adapters": { "far": far } }).to_string());
        Self { remote, ostler }
    }

    /// One that will call back.
    fn calling() -> Self {
        Self::new(vec![Answer::Json(202, json!({}))], Vec::new())
    }

    fn start(&self) -> Running {
        let args = ["run", "far", "mend it", "--json"];
        Running::of(self.ostler.command(&args).env("FAR_TOKEN", HUSH))
    }

    fn run(&self) -> Vec<Value> {
        let events = self.start().finish().events();
        assert_gap_free(&events);
        assert!(!serde_json::to_string(&events).unwrap().contains(HUSH), "the token is kept out");
        events
    }

    /// The task that it was given.
    fn task(&self) -> Value {
        until("the task", BOUND_MS, || Some(self.remote.asked("POST runs").first()?.body.clone()))
    }

    /// The events of the run when it has ended, under whichever host.
    fn ended(&self, id: &str) -> Vec<Value> {
        let mut watch = self.ostler.command(&["watch", id, "--json"]);
        watch.env("FAR_TOKEN", HUSH).output().unwrap();
        let events = self.ostler.events(&["show", id, "--json"]);
        assert_gap_free(&events);
        events
    }
}

/// Calls back as the service whose task this is.
fn call_back(task: &Value, token: &str, given: &Value) -> (u16, Value) {
    let url = task["callbackUrl"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (address, path) = url.split_once('/').unwrap();
    let body = given.to_string();
    let asked = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, answer) = request(address, &asked);
    (status, serde_json::from_str::<Value>(&answer).unwrap_or_default()["code"].clone())
}

fn token(task: &Value) -> &str {
    task["leaseToken"].as_str().unwrap()
}

fn step(n: u64) -> Value {
    json!({ "id": n, "event": { "type": "progress", "summary": format!("step {n}") } })
}

fn complete() -> Value {
    json!({ "type": "complete", "output": { "text": "done" }, "cost": { "usd": 0.25 } })
}

fn steps(events: &[Value]) -> Vec<&str> {
    let progress = events.iter().filter(|event| event["kind"] == "progress");
    progress.filter_map(|event| event["summary"].as_str()).collect()
}

#[test]
fn a_service_that_answers_is_an_agent() {
    let later = json!({ "statusUrl": "/jobs/1", "retryAfterMs": 1 });
    let lines = format!("{}\n{}\n", step(1)["event"], complete());
    let text = |body: &str| {
        let length = body.len();
        let head = format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\n\r\n{body}");
        Answer::Raw(head.into_bytes())
    };
    let unused = || vec![Answer::Json(404, Value::Null)];
    // What it answers, what it says of the work later, and how the run ends.
    let rows = [
        (vec![Answer::Json(200, complete())], unused(), "succeeded", json!("done")),
        (vec![text(&lines)], unused(), "succeeded", json!("done")),
        (vec![text("all is well")], unused(), "succeeded", json!("all is well")),
        (
            vec![Answer::Json(202, later.clone())],
            vec![Answer::Json(202, later), Answer::Json(200, complete())],
            "succeeded",
            json!("done"),
        ),
        (
            vec![Answer::Json(200, json!({ "type": "failed", "reason": "no" }))],
            unused(),
            "failed",
            Value::Null,
        ),
        (vec![text("{\"type\":\"complete\"")], unused(), "failed", Value::Null),
    ];
    for (create, status, outcome, text) in rows {
        let service = Service::new(create, status);
        let events = service.run();
        let result = result(&events);
        assert_eq!((&result["outcome"], &result["text"]), (&json!(outcome), &text), "{result}");
        let posts = service.remote.asked("POST runs");
        let [asked] = &posts[..] else { panic!("{posts:?}") };
        assert_eq!(asked.header("idempotency-key"), events[0]["run_id"].as_str());
        assert_eq!(asked.body["prompt"], "mend it");
    }
}

#[test]
fn a_service_that_calls_back_is_heard_in_order_and_once() {
    let service = Service::calling();
    let mut run = service.start();
    let task = service.task();
    let call = |given: Value| call_back(&task, token(&task), &given);
    let taken = (202, Value::Null);
    // Alone, in a list, and told again because the answer was lost.
    assert_eq!(call(step(1)), taken);
    assert_eq!(call(json!([step(1), step(2), step(3)])), taken);
    assert_eq!(call(step(2)), taken);
    run.event("what was taken to be seen", |event| event["summary"] == "step 3");
    let refused = [
        (json!([step(4), { "type": "progress", "runId": "run_of_others" }]), (400, json!("usage"))),
        (json!([]), (400, json!("usage"))),
        (json!("step 4"), (400, json!("usage"))),
    ];
    for (given, answer) in refused {
        assert_eq!(call(given.clone()), answer, "{given}");
    }
    assert_eq!(call_back(&task, "nobody", &step(4)), (401, json!("unauthorized")));
    assert_eq!(call(json!([step(4), complete()])), taken);
    run.finish();
    let events = service.ended(task["runId"].as_str().unwrap());
    let result = result(&events);
    assert_eq!((&result["outcome"], &result["text"]), (&json!("succeeded"), &json!("done")));
    assert_eq!(steps(&events), ["step 1", "step 2", "step 3", "step 4"]);
    let shown = serde_json::to_string(&events).unwrap();
    assert!(!shown.contains(token(&task)) && !shown.contains(HUSH), "tokens are kept out");
    assert!(service.remote.asked("DELETE").is_empty(), "there is no place to take it away");
}

#[test]
fn a_service_whose_run_has_ended_is_told_that_its_fence_is_stale() {
    let service = Service::calling();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let mut serve = service.ostler.starts(&serve);
    serve.line();
    let run = service.start();
    let task = service.task();
    assert_eq!(call_back(&task, token(&task), &complete()), (202, Value::Null));
    run.finish();
    assert_eq!(call_back(&task, token(&task), &step(1)), (409, json!("fence_stale")));
    assert_eq!(call_back(&task, "nobody", &step(1)), (401, json!("unauthorized")));
    signal(serve.child.id() as i32, Signal::TERM);
    serve.finish();
}

#[test]
fn a_service_that_calls_back_outlives_the_keeper_of_its_run() {
    let service = Service::calling();
    let mut run = service.start();
    let task = service.task();
    let id = task["runId"].as_str().unwrap().to_owned();
    assert_eq!(call_back(&task, token(&task), &step(1)).0, 202);
    run.event("the service to have taken the task", |event| event["kind"] == "session");
    for pid in keepers(&id) {
        signal(pid, Signal::KILL);
    }
    run.event("the next attempt", |event| event["phase"] == "attempt_ended");
    assert_eq!(call_back(&task, token(&task), &json!([step(1), step(2)])).0, 202);
    assert_eq!(call_back(&task, token(&task), &complete()).0, 202);
    run.finish();
    let events = service.ended(&id);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:?}", events.last());
    assert_eq!(steps(&events), ["step 1", "step 2"]);
    assert_eq!(service.remote.asked("POST runs").len(), 1, "the task is not posted again");
}

#[test]
fn a_service_that_calls_back_finds_the_next_host_at_the_same_address() {
    let service = Service::calling();
    // A port of its own, which a service is told once and keeps.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let serve = || {
        until("the address to be free", BOUND_MS, || {
            let mut serve = service.ostler.starts(&["serve", "--listen", &address]);
            serve.line().starts_with("listening").then_some(serve)
        })
    };
    let mut first = serve();
    let mut run = service.start();
    let task = service.task();
    let id = task["runId"].as_str().unwrap().to_owned();
    assert!(task["callbackUrl"].as_str().unwrap().contains(&address), "{task}");
    assert_eq!(call_back(&task, token(&task), &step(1)), (202, Value::Null));
    run.event("the service to have taken the task", |event| event["kind"] == "session");
    // Killed while the service works; whoever asked for the run is not there to take over.
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let second = serve();
    assert_eq!(call_back(&task, token(&task), &json!([step(1), step(2)])).0, 202);
    assert_eq!(call_back(&task, token(&task), &complete()).0, 202);
    let events = service.ended(&id);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:?}", events.last());
    assert_eq!(steps(&events), ["step 1", "step 2"]);
    assert!(events.iter().any(|event| event["phase"] == "adopted"), "another host took it over");
    assert_eq!(service.remote.asked("POST runs").len(), 1, "the task is not posted again");
    signal(second.child.id() as i32, Signal::TERM);
    second.finish();
}

#[test]
fn a_service_that_never_ends_is_stopped_and_told_where_it_can_be() {
    let later = json!({ "statusUrl": "/jobs/1", "retryAfterMs": 1 });
    for (create, deletes) in [(json!({}), 0), (later, 1)] {
        let running = vec![Answer::Json(202, json!({ "retryAfterMs": 1 }))];
        let service = Service::new(vec![Answer::Json(202, create)], running);
        let mut run = service.start();
        let begun = run.event("the task to be taken", |event| event["kind"] == "session");
        let id = begun["run_id"].as_str().unwrap().to_owned();
        service.ostler.says(&["stop", &id]);
        run.finish();
        let events = service.ended(&id);
        assert_eq!(result(&events)["outcome"], "cancelled", "{:?}", events.last());
        assert_eq!(service.remote.asked("DELETE").len(), deletes);
        until("everyone to be gone", BOUND_MS, || {
            find_marked(&service.ostler.instance.mark()).is_empty().then_some(())
        });
    }
}
