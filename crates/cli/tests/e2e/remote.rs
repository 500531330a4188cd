//! Agents on other machines: a remote of good manners is run like any other agent, and one of bad
//! manners ends its run once, with the code that says what was wrong, and nothing of it is lost. The
//! courier alone has a finer table in `crates/remote/src/courier/tests.rs`; `remote_cuts.rs` cuts a
//! session at every byte, `remote_memory.rs` has what all of it may cost in memory.

use crate::ostler::{
    BOUND_MS, Ostler, Running, assert_gap_free, deeds, keepers, kinds, result, signal,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::remote::{Answer, Remote, Script, Step, numbered};
use testkit::{find_marked, until};

pub const HUSH: &str = "far-hush-2026";

/// An instance that knows a remote by the name `far`, with patience for a test.
pub fn knowing(remote: &Remote, patience_ms: u64) -> Ostler {
    with_server(remote, patience_ms, json!({}))
}

/// The same, with keys of the server.
fn with_server(remote: &Remote, patience_ms: u64, server: Value) -> Ostler {
    let ostler = Ostler::new();
    let env = json!({
        "OSTLER_REMOTE_START_MS": patience_ms.to_string(),
        "OSTLER_REMOTE_LOST_MS": patience_ms.to_string(),
        "OSTLER_REMOTE_IDLE_MS": patience_ms.to_string(),
    });
    let far = json!({
        "type": "http", "baseUrl": remote.url(), "protocol": "ca-http-v1", "costModel": "far/far-1",
        "auth": { "type": "bearer", "tokenEnv": "FAR_TOKEN" }, "env": env, "graceSec": 5,
    });
    ostler
        .instance
        .write_config(&json!({ "adapters": { "far": far }, "server": server }).to_string());
    ostler
}

/// Long enough for any machine, and short enough for a test that waits it out.
pub const PATIENT_MS: u64 = 30_000;
pub const QUICK_MS: u64 = 700;

fn started(ostler: &Ostler) -> Running {
    Running::of(ostler.command(&["run", "far", "mend it", "--json"]).env("FAR_TOKEN", HUSH))
}

pub fn run(ostler: &Ostler) -> Vec<Value> {
    let events = started(ostler).finish().events();
    assert_gap_free(&events);
    assert!(!serde_json::to_string(&events).unwrap().contains(HUSH), "the token is kept out");
    events
}

pub fn progress(n: u64) -> Value {
    json!({ "type": "progress", "summary": format!("step {n}") })
}

pub fn complete() -> Value {
    json!({ "type": "complete", "output": { "text": "done" } })
}

/// What the remote told of its work.
pub fn steps(events: &[Value]) -> Vec<&str> {
    let progress = events.iter().filter(|event| event["kind"] == "progress");
    progress.filter_map(|event| event["summary"].as_str()).collect()
}

fn warned(events: &[Value], part: &str) -> bool {
    let logs = events.iter().filter(|event| event["kind"] == "log");
    logs.filter_map(|event| event["text"].as_str()).any(|text| text.contains(part))
}

#[test]
fn a_remote_is_run_like_any_other_agent() {
    let ostler = Ostler::new();
    let events = numbered(&[
        progress(1),
        json!({ "type": "tool_call", "id": "c1", "tool": "read_task", "args": {} }),
        json!({ "type": "complete", "output": { "text": "done" }, "cost": { "usd": 0.25 } }),
    ]);
    let (first, rest) = events.split_at(2);
    let remote = Remote::play(Script::streams(vec![vec![
        Step::After(first.to_vec()),
        Step::Await("tool_result"),
        Step::After(rest.to_vec()),
        Step::Hold,
    ]]));
    let events = ostler.events(&["run", "--json", "--http", &remote.url(), "mend it"]);
    assert_gap_free(&events);
    let result = result(&events);
    assert_eq!((&result["outcome"], &result["text"]), (&json!("succeeded"), &json!("done")));
    assert_eq!(result["evidence"]["end"], "explicit");
    for kind in ["session", "progress", "tool_use", "tool_result", "usage"] {
        assert!(kinds(&events).contains(&kind), "{kind}: {events:?}");
    }
    // A remote that tells dollars alone is counted by them.
    let usage = events.iter().find(|event| event["kind"] == "usage").unwrap();
    assert_eq!(usage["cost_source"], "direct");
    assert_eq!(result["totals"]["effective_nanousd"], 250_000_000);
    let opened = &remote.asked("POST sessions")[0];
    let body = &opened.body;
    assert_eq!((&body["prompt"], &body["protocol"]), (&json!("mend it"), &json!("ca-http-v1")));
    assert_eq!(body["runId"], events[0]["run_id"]);
    assert_eq!(opened.header("idempotency-key"), events[0]["run_id"].as_str());
    assert!(body["leaseToken"].is_string() && body["leaseExpiresAt"].is_string(), "{body}");
    assert_eq!(body["fencingToken"], 1);
    let ours = body["mcpUrl"].as_str().unwrap().strip_suffix("/mcp").unwrap();
    let run = body["runId"].as_str().unwrap();
    let snapshot = format!("{ours}/api/v1/runs/{run}/workspace");
    assert_eq!(body["workspace"], json!({ "url": snapshot, "format": "tar" }));
    assert_eq!(remote.heard()[0]["type"], "tool_result");
    assert_eq!(remote.asked("DELETE").len(), 1, "the session was taken away");
}

/// What a remote does, what its run must come to, and what must have been heard of it.
struct Row {
    name: &'static str,
    script: Script,
    outcome: &'static str,
    code: Option<&'static str>,
    /// A part of the message.
    says: &'static str,
    steps: &'static [&'static str],
}

fn rows() -> Vec<Row> {
    let good = || vec![Step::After(numbered(&[progress(1), progress(2), complete()])), Step::Hold];
    let event = |id: u64, event: Value| Step::Event(id, event);
    let first = || event(1, progress(1));
    let status = |status: u16| Answer::Json(status, json!({ "message": "not now" }));
    let created = |answer: Answer| Script::streams(vec![good()]).create(vec![answer]);
    let stream = |steps: Vec<Step>| Script::streams(vec![steps]);
    let gzip = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\
        connection: close\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\xff";
    let both: &[&str] = &["step 1", "step 2"];
    let row = |name, script, code: &'static str, says, steps| {
        let outcome = if code == "remote_lost" { "lost" } else { "failed" };
        Row { name, script, outcome, code: Some(code), says, steps }
    };
    let well = |name, script| Row {
        name,
        script,
        outcome: "succeeded",
        code: None,
        says: "",
        steps: both,
    };
    vec![
        row("401", created(status(401)), "auth_failed", "auth: it answered 401", &[]),
        row("403", created(status(403)), "auth_failed", "auth: it answered 403", &[]),
        row("500", created(status(500)), "remote_unavailable", "not now", &[]),
        row("drops", created(Answer::Drop), "remote_unavailable", "", &[]),
        row("no session", created(Answer::Json(201, json!([]))), "protocol_error", "", &[]),
        well("cut", Script::streams(vec![vec![first()], good()])),
        well(
            "cut in the middle of an event",
            Script::streams(vec![vec![first(), Step::Raw(b"id: 2\ndata: {\"ty".to_vec())], good()]),
        ),
        well(
            "repeated",
            stream(vec![first(), first(), event(2, progress(2)), event(3, complete())]),
        ),
        well(
            "skipped, and sent when asked",
            Script::streams(vec![vec![first(), event(3, complete())], good()]),
        ),
        row(
            "restarted",
            Script::streams(vec![
                vec![first()],
                vec![Step::Answer(Answer::Json(404, Value::Null))],
            ]),
            "remote_lost",
            "no longer knows the session",
            &["step 1"],
        ),
        row(
            "gone for good",
            Script::streams(vec![vec![first()], vec![Step::Answer(Answer::Drop)]]),
            "remote_lost",
            "it was tried",
            &["step 1"],
        ),
        row(
            "silent",
            stream(vec![first(), Step::Hold]),
            "remote_lost",
            "nothing whole",
            &["step 1"],
        ),
        row(
            "a byte at a time",
            stream(vec![first(), Step::Dribble { bytes: vec![b'x'; 500], pause_ms: 20 }]),
            "remote_lost",
            "nothing whole",
            &["step 1"],
        ),
        row(
            "an event without end",
            stream(vec![first(), Step::Flood(vec![b'x'; 1 << 20])]),
            "output_limit",
            "one event has more than",
            &["step 1"],
        ),
        row(
            "gzip bomb",
            stream(vec![Step::Answer(Answer::Raw(gzip.to_vec()))]),
            "protocol_error",
            "gzip",
            &[],
        ),
        row(
            "another's end",
            stream(vec![
                event(1, json!({ "type": "complete", "runId": "run_other" })),
                event(2, json!({ "type": "failed", "reason": "mine" })),
                Step::Hold,
            ]),
            "agent_failed",
            "mine",
            &[],
        ),
    ]
}

#[test]
fn every_bad_manner_of_a_remote_ends_its_run_once_with_its_code() {
    for Row { name, script, outcome, code, says, steps: told } in rows() {
        let patience = if outcome == "succeeded" { PATIENT_MS } else { QUICK_MS };
        let remote = Remote::play(script);
        let ostler = knowing(&remote, patience);
        let events = run(&ostler);
        let result = result(&events);
        assert_eq!(result["outcome"], outcome, "{name}: {result}");
        assert_eq!(result["code"].as_str(), code, "{name}: {result}");
        let message = result["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{name}: {message}");
        assert_eq!(steps(&events), told, "{name}");
        assert_eq!(kinds(&events).iter().filter(|kind| **kind == "result").count(), 1, "{name}");
        until("everyone to be gone", BOUND_MS, || {
            find_marked(&ostler.instance.mark()).is_empty().then_some(())
        });
    }
}

#[test]
fn nobody_there_and_nobody_answering_are_unavailable() {
    let remote = Remote::play(Script::good(&[complete()]));
    let ostler = knowing(&remote, QUICK_MS);
    drop(remote);
    let events = run(&ostler);
    assert_eq!(result(&events)["code"], "remote_unavailable", "{:?}", events.last());
    // One that takes the connection and says nothing can still be stopped.
    let hangs = Remote::play(Script::good(&[complete()]).create(vec![Answer::Hang]));
    let ostler = knowing(&hangs, QUICK_MS);
    let mut run = started(&ostler);
    let begun = run.event("the courier to run", |event| event["phase"] == "running");
    until("it to be asked", BOUND_MS, || (!hangs.asked("POST sessions").is_empty()).then_some(()));
    let stopped = ostler.says(&["stop", "--now", begun["run_id"].as_str().unwrap()]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert_eq!(result(&run.finish().events())["code"], "cancelled");
}

#[test]
fn the_token_is_shown_in_every_request_and_read_anew_for_every_session() {
    let remote = Remote::play(Script::good(&[progress(1), complete()]));
    let ostler = knowing(&remote, PATIENT_MS);
    for token in ["far-hush-first", "far-hush-second"] {
        let said = ostler.command(&["run", "far", "x"]).env("FAR_TOKEN", token).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
    let seen = remote.seen();
    let shown = |token: &str| {
        let header = format!("Bearer {token}");
        seen.iter().filter(|seen| seen.header("authorization") == Some(&header)).count()
    };
    assert_eq!((shown("far-hush-first"), shown("far-hush-second"), seen.len()), (3, 3, 6));
    let said = ostler.says(&["run", "far", "x"]);
    assert!(said.complaint().contains("FAR_TOKEN is not set"), "{}", said.complaint());
    assert_eq!(remote.seen().len(), 6, "nothing was asked without it");
    for file in ostler.files() {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let found = bytes.windows(8).any(|window| window == b"far-hush");
        assert!(!found, "{} holds the token", file.display());
    }
}

#[test]
fn a_token_is_not_sent_in_the_clear_to_another_machine() {
    let ostler = Ostler::new();
    let args = ["run", "--http", "http://far.example", "--token-env", "FAR_TOKEN", "x"];
    let output = ostler.command(&args).env("FAR_TOKEN", HUSH).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("in the clear"), "{complaint}");
}

#[test]
fn a_remote_that_is_stopped_ends_by_itself_or_is_taken_away() {
    let failed = json!({ "type": "failed", "reason": "told to" });
    let polite = vec![
        Step::Event(1, progress(1)),
        Step::Await("shutdown"),
        Step::Event(2, failed),
        Step::Hold,
    ];
    let deaf = vec![Step::Event(1, progress(1)), Step::Hold];
    for (steps, how, forced) in [
        (polite, "--grace", Value::Null),
        (deaf.clone(), "--grace", json!(true)),
        (deaf, "--now", json!(true)),
    ] {
        let remote = Remote::play(Script::streams(vec![steps]));
        let ostler = knowing(&remote, PATIENT_MS);
        let mut run = started(&ostler);
        let heard = run.event("its first step", |event| event["kind"] == "progress");
        let id = heard["run_id"].as_str().unwrap().to_owned();
        let args: Vec<&str> =
            ["stop", &id].into_iter().chain((how == "--now").then_some(how)).collect();
        assert_eq!(ostler.says(&args).code, 0);
        let events = run.finish().events();
        let result = result(&events);
        assert_eq!(
            (&result["code"], &result["evidence"]["forced"]),
            (&json!("cancelled"), &forced),
            "{how} {result}"
        );
        assert_eq!(remote.asked("DELETE").len(), 1, "{how}");
        if how == "--grace" {
            assert_eq!(remote.heard()[0], json!({ "type": "shutdown", "reason": "cancelled" }));
        }
    }
}

/// A remote that talks, waits at a gate, and talks on, and a run of it that has come to the gate.
fn at_the_gate() -> (Remote, Ostler, Running, String) {
    at_the_gate_before(progress(3))
}

/// The same, and the first that the remote says behind the gate.
fn at_the_gate_before(next: Value) -> (Remote, Ostler, Running, String) {
    at_the_gate_of(next, json!({}))
}

/// The same of a host that serves so.
fn at_the_gate_of(next: Value, server: Value) -> (Remote, Ostler, Running, String) {
    let call = json!({ "type": "tool_call", "id": "c1", "tool": "list_files", "args": {} });
    let all = numbered(&[progress(1), call, next, progress(4), complete()]);
    let (first, rest) = all.split_at(2);
    let steps = vec![
        Step::After(first.to_vec()),
        Step::Await("tool_result"),
        Step::Gate,
        Step::After(rest.to_vec()),
        Step::Hold,
    ];
    let remote = Remote::play(Script::streams(vec![steps]));
    let ostler = with_server(&remote, PATIENT_MS, server);
    let mut run = started(&ostler);
    let heard = run.event("its call to be answered", |event| event["kind"] == "tool_result");
    until("the answer to arrive", BOUND_MS, || (!remote.heard().is_empty()).then_some(()));
    let id = heard["run_id"].as_str().unwrap().to_owned();
    (remote, ostler, run, id)
}

fn kill(mut run: Running) {
    signal(run.child.id() as i32, Signal::KILL);
    run.child.wait().unwrap();
}

/// The events of the run when it has ended, under whichever host.
fn ended(ostler: &Ostler, id: &str) -> Vec<Value> {
    ostler.command(&["watch", id, "--json"]).env("FAR_TOKEN", HUSH).output().unwrap();
    let events = ostler.events(&["show", id, "--json"]);
    assert_gap_free(&events);
    events
}

#[test]
fn a_host_that_dies_takes_no_remote_run_with_it() {
    let (remote, quiet, quiet_run, id) = at_the_gate();
    remote.release();
    quiet_run.finish();
    let expected = ended(&quiet, &id);
    assert_eq!(result(&expected)["outcome"], "succeeded");

    let (remote, ostler, run, id) = at_the_gate();
    kill(run);
    remote.release();
    let events = ended(&ostler, &id);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:?}", events.last());
    assert_eq!(deeds(&expected), deeds(&events), "the same events");
    assert_eq!(remote.asked("GET events").len(), 1, "the courier lived on");
}

#[test]
fn a_session_whose_host_and_keeper_died_is_taken_up_behind_its_last_stored_event() {
    let (remote, ostler, run, id) = at_the_gate();
    kill(run);
    for pid in keepers(&id) {
        signal(pid, Signal::KILL);
    }
    until("the courier to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
    assert!(remote.asked("DELETE").is_empty(), "the session lives on");
    remote.release();
    let events = ended(&ostler, &id);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:?}", events.last());
    assert_eq!(steps(&events), ["step 1", "step 3", "step 4"]);
    let calls = events.iter().filter(|event| event["kind"] == "tool_use").count();
    assert_eq!(calls, 1, "what was stored is not told again");
    let streams = remote.asked("GET events");
    assert_eq!(streams.len(), 2);
    assert_eq!(streams[1].header("last-event-id"), Some("2"));
    assert_eq!(streams[1].header("authorization"), Some(format!("Bearer {HUSH}").as_str()));
    assert_eq!(remote.asked("POST sessions").len(), 1);
    assert_eq!(remote.asked("DELETE").len(), 1);
    until("everyone to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn a_session_whose_keeper_alone_died_is_taken_up_by_the_same_host() {
    let (remote, ostler, run, id) = at_the_gate();
    for pid in keepers(&id) {
        signal(pid, Signal::KILL);
    }
    until("the stream to be taken up", BOUND_MS, || {
        (remote.asked("GET events").len() == 2).then_some(())
    });
    remote.release();
    run.finish();
    let events = ended(&ostler, &id);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:?}", events.last());
    assert_eq!(remote.asked("GET events")[1].header("last-event-id"), Some("2"));
}

#[test]
fn a_secret_that_is_told_after_a_session_was_taken_up_is_kept_out_too() {
    let telling = json!({ "type": "comment", "text": format!("the word is {HUSH}") });
    let (remote, ostler, run, id) = at_the_gate_before(telling);
    for pid in keepers(&id) {
        signal(pid, Signal::KILL);
    }
    until("the stream to be taken up", BOUND_MS, || {
        (remote.asked("GET events").len() == 2).then_some(())
    });
    remote.release();
    run.finish();
    let events = ended(&ostler, &id);
    let comment = events.iter().find(|event| event["kind"] == "comment").unwrap();
    assert_eq!(comment["text"], "the word is [redacted:FAR_TOKEN]");
    for file in ostler.files() {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(HUSH), "{}", file.display());
    }
}

#[test]
fn when_both_sides_were_restarted_the_loss_is_told() {
    let (remote, ostler, run, id) = at_the_gate();
    kill(run);
    for pid in keepers(&id) {
        signal(pid, Signal::KILL);
    }
    remote.forget();
    let events = ended(&ostler, &id);
    let result = result(&events);
    assert_eq!((&result["outcome"], &result["code"]), (&json!("lost"), &json!("remote_lost")));
    assert!(
        result["message"].as_str().unwrap().contains("no longer knows the session"),
        "{result}"
    );
    assert_eq!(steps(&events), ["step 1"], "nothing that was stored is lost");
}

#[test]
fn what_a_remote_writes_after_its_lease_was_lost_is_refused() {
    let call = json!({ "type": "tool_call", "id": "late", "tool": "write_file", "args": {} });
    let script = vec![
        Step::Event(1, progress(1)),
        Step::Await("shutdown"),
        Step::Event(2, call),
        Step::Event(3, progress(3)),
        Step::Hold,
    ];
    let remote = Remote::play(Script::streams(vec![script]));
    let ostler = with_server(&remote, PATIENT_MS, json!({ "leaseSec": 2 }));
    let mut run = started(&ostler);
    let heard = run.event("its first step", |event| event["kind"] == "progress");
    let id = heard["run_id"].as_str().unwrap().to_owned();
    // A host that stands still renews nothing, and the keeper counts on.
    let host = run.child.id() as i32;
    signal(host, Signal::STOP);
    until("the refusal to be said", BOUND_MS, || {
        remote.heard().iter().any(|word| word["id"] == "late").then_some(())
    });
    until("the session to be taken away", BOUND_MS, || {
        (!remote.asked("DELETE").is_empty()).then_some(())
    });
    signal(host, Signal::CONT);
    run.finish();
    let events = ended(&ostler, &id);
    let result = result(&events);
    assert_eq!(result["code"], "lease_expired", "{result}");
    assert_eq!(result["evidence"]["forced"], true, "{result}");
    assert_eq!(steps(&events), ["step 1"], "what came later is not taken");
    let heard = remote.heard();
    assert_eq!(heard[0], json!({ "type": "shutdown", "reason": "lease_expired" }));
    assert!(heard[1]["error"].as_str().unwrap().starts_with("fence_stale"), "{heard:?}");
    assert_eq!(heard[2], json!({ "type": "shutdown", "reason": "fence_stale" }));
}

#[test]
fn a_session_that_is_taken_up_after_its_lease_was_lost_is_ended() {
    const LEASE: Duration = Duration::from_secs(2);
    let (remote, ostler, run, id) = at_the_gate_of(progress(3), json!({ "leaseSec": 2 }));
    // A host that stands still renews nothing, and nobody is left who would count.
    let (host, begun) = (run.child.id() as i32, Instant::now());
    signal(host, Signal::STOP);
    for pid in keepers(&id) {
        signal(pid, Signal::KILL);
    }
    until("its lease to be over", BOUND_MS, || (begun.elapsed() > 2 * LEASE).then_some(()));
    signal(host, Signal::CONT);
    until("the stream to be taken up", BOUND_MS, || {
        (remote.asked("GET events").len() == 2).then_some(())
    });
    remote.release();
    run.finish();
    let events = ended(&ostler, &id);
    let result = result(&events);
    assert_eq!(result["code"], "lease_expired", "{result}");
    assert_eq!(steps(&events), ["step 1"], "what came later is not taken");
}

#[test]
fn a_redirect_to_elsewhere_is_not_followed() {
    let trap = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let place = trap.local_addr().unwrap();
    let head = |path: &str| {
        let to = format!("location: http://{place}{path}\r\ncontent-length: 0\r\n");
        Answer::Raw(format!("HTTP/1.1 307 X\r\n{to}connection: close\r\n\r\n").into_bytes())
    };
    let at_create = Script::good(&[complete()]).create(vec![head("/v1/sessions")]);
    let at_stream = Script::streams(vec![vec![Step::Answer(head("/v1/sessions/sess-1/events"))]]);
    for script in [at_create, at_stream] {
        let remote = Remote::play(script);
        let events = run(&knowing(&remote, QUICK_MS));
        let result = result(&events);
        assert_eq!(result["code"], "protocol_error", "{result}");
        assert!(result["message"].as_str().unwrap().contains("which is not followed"), "{result}");
    }
    assert!(trap.accept().is_err(), "nobody came to the trap");
}

#[test]
fn numbers_that_no_one_can_have_spent_are_not_counted() {
    let cost = |cost: Value| json!({ "type": "progress", "summary": "s", "cost": cost });
    let remote = Remote::play(Script::good(&[
        cost(json!({ "usd": -5 })),
        cost(json!({ "usd": 9.3e18 })),
        cost(json!({ "inputTokens": -1, "outputTokens": 9_223_372_036_854_775_807_u64 })),
        cost(json!({ "usd": 0.5, "cumulative": true })),
        cost(json!({ "usd": 0.25, "cumulative": true })),
        complete(),
    ]));
    let events = run(&knowing(&remote, PATIENT_MS));
    let result = result(&events);
    assert_eq!(result["outcome"], "succeeded");
    assert_eq!(result["totals"]["effective_nanousd"], 500_000_000, "{result}");
    assert_eq!(result["totals"]["tokens"]["output"], 0);
    assert!(warned(&events, "dropped"), "{events:?}");
}

#[test]
fn doctor_says_whether_a_remote_is_there_and_spends_nothing_on_it() {
    let remote = Remote::play(Script::good(&[complete()]));
    let ostler = knowing(&remote, QUICK_MS);
    let doctor = |token: Option<&str>| {
        let mut command = ostler.command(&["doctor", "far", "--json"]);
        command.envs(token.map(|token| ("FAR_TOKEN", token)));
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        let checks = said["diagnoses"][0]["checks"].as_array().unwrap().clone();
        checks.iter().map(|check| check["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(doctor(None).contains(&"login_not_seen".to_owned()));
    assert!(remote.seen().is_empty(), "without its token it is not asked");
    assert!(doctor(Some(HUSH)).contains(&"handshake_answered".to_owned()));
    let seen = remote.seen();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/healthz"));
    drop(remote);
    assert!(doctor(Some(HUSH)).contains(&"handshake_failed".to_owned()));
}
