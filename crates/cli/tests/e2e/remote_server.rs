//! `ostler remote` as a caller elsewhere meets it, by plain HTTP: a session to its end, its stream cut
//! and taken up again, tools that the caller carries out, sessions that are closed or left alone, a
//! server that is killed in the middle, and who is let in. `remote_judged.rs` has what a judge says.

use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, kinds, result};
use crate::remote_caller::{Caller, Remote, TOKEN, answer};
use contract::limits::INBOX_MAX;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_is_told_to_its_end_and_its_tools_are_the_callers() {
    let ostler = Ostler::new();
    let remote = Remote::bearer(&ostler);
    let caller = Caller::of(&remote);
    let path = caller.open("run_far", "hello from here").await;
    let again = caller
        .post("/v1/sessions", &json!({ "runId": "run_far", "prompt": "something else" }))
        .await;
    assert_eq!(
        (again.0, format!("/v1/sessions/{}", again.1["id"].as_str().unwrap())),
        (200, path.clone())
    );
    let lines = caller.serve(&path, 0).await;
    assert_eq!(lines[0], json!({ "type": "hello", "accepts": ["message", "interrupt"] }));
    assert_eq!(types(&lines).iter().filter(|kind| **kind == "complete").count(), 1);
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "complete");
    let text = last["output"]["text"].as_str().unwrap();
    assert!(text.contains("hello from afar") && text.contains("# Elsewhere"), "{text}");
    let calls: Vec<_> = lines.iter().filter(|line| line["type"] == "tool_call").collect();
    let tools: Vec<_> = calls.iter().map(|call| call["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["read_task", "list_files", "read_file", "get_budget"]);
    let usage = lines.iter().filter(|line| line["event"]["kind"] == "usage").count();
    assert!(usage >= 1, "what it spent is told");

    // Read again from anywhere it is the same, under the same numbers.
    for after in [0, 1, 7, lines.len() as u64 - 1] {
        let again = caller.hear(&path, after, |_| false).await;
        let again: Vec<_> = again.into_iter().map(|(_, line)| line).collect();
        assert_eq!(again, lines[after as usize..], "after {after}");
    }
    let beyond = caller.request(Method::GET, &format!("{path}/events"));
    let beyond = caller.sent(beyond.header("Last-Event-ID", "9999")).await;
    assert_eq!((beyond.0, beyond.1["code"].as_str()), (400, Some("usage")));

    // It is a run of this side like any other, in whose directory nothing was looked at.
    let run = path.rsplit('/').next().unwrap();
    let events = ostler.events(&["show", run, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    assert!(kinds(&events).contains(&"tool_result"));
    let workspaces = || std::fs::read_dir(ostler.instance.root().join("tmp")).unwrap().count();
    assert_eq!(workspaces(), 1);
    assert_eq!(caller.delete(&path).await, 204);
    testkit::until("the session's directory goes", BOUND_MS, || (workspaces() == 0).then_some(()));
    for (method, path) in [
        (Method::GET, format!("{path}/events")),
        (Method::POST, format!("{path}/input")),
        (Method::DELETE, path.clone()),
        (Method::GET, path.clone()),
    ] {
        let gone =
            caller.sent(caller.request(method, &path).json(&json!({"type": "interrupt"}))).await;
        assert_eq!((gone.0, gone.1["code"].as_str()), (410, Some("not_found")), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_input_that_is_sent_again_is_taken_once_and_one_of_an_older_fence_never() {
    let ostler = Ostler::new();
    let remote = Remote::bearer(&ostler);
    let caller = Caller::of(&remote);
    let body = json!({ "runId": "r", "prompt": "hello", "fencingToken": "5" });
    let (_, opened) = caller.post("/v1/sessions", &body).await;
    let path = format!("/v1/sessions/{}", opened["id"].as_str().unwrap());
    let heard = caller.hear(&path, 0, |line| line["type"] == "tool_call").await;
    let (at, call) = heard.last().unwrap();
    let fenced = |fence: &'static str, line: Value| {
        let request = caller.request(Method::POST, &format!("{path}/input"));
        caller.sent(request.header("Ostler-Fence", fence).json(&line))
    };
    let stale = fenced("4", answer(call)).await;
    assert_eq!((stale.0, stale.1["code"].as_str()), (409, Some("fence_stale")));
    assert_eq!(fenced("6", json!({ "type": "budget_update", "remaining": {} })).await.0, 202);
    assert_eq!(fenced("5", answer(call)).await.0, 409, "a newer fence was seen");
    let older = json!({ "runId": "r", "prompt": "hello", "fencingToken": 5 });
    assert_eq!(caller.post("/v1/sessions", &older).await.0, 409);

    // The numbers of inputs are those of the lines they answer, and these come before any.
    let say = json!({ "type": "message", "text": "are you there, far one?" });
    for _ in 0..3 {
        assert_eq!(caller.input(&path, 1_000, &say).await, 202);
    }
    for _ in 0..3 {
        assert_eq!(caller.input(&path, 1_001, &answer(call)).await, 202);
    }
    let run = path.rsplit('/').next().unwrap().to_owned();
    let lines = caller.serve(&path, *at).await;
    assert_eq!(lines.last().unwrap()["type"], "complete");
    let events = ostler.events(&["show", &run, "--json"]);
    let said =
        |event: &&Value| event["text"] == "are you there, far one?" && event["kind"] == "user_text";
    assert_eq!(events.iter().filter(said).count(), 1, "a message is said once");
    // What helps along is in time for a run that has ended; what wants an answer is not.
    assert_eq!(caller.input(&path, 1_002, &json!({ "type": "shutdown" })).await, 202);
    assert_eq!(caller.input(&path, 1_003, &say).await, 409);
    for nonsense in [json!(7), json!({ "type": "complete" }), json!([])] {
        assert_eq!(caller.input(&path, 1_004, &nonsense).await, 400, "{nonsense}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_that_is_closed_or_left_alone_leaves_no_process() {
    let ostler = Ostler::new();
    let remote = Remote::of(&ostler, &["--token-env", "REMOTE_TOKEN", "--silence", "700ms"]);
    let caller = Caller::of(&remote);
    let alive = || {
        let runs = ostler.says(&["runs", "--live", "--json"]);
        serde_json::from_str::<Value>(&runs.stdout).unwrap().as_array().unwrap().len()
    };
    let never = format!("/v1/sessions/run_{}", "0".repeat(32));
    let closed = caller.open("closed", "slow").await;
    caller.hear(&closed, 0, |line| line["type"] == "tool_call").await;
    assert_eq!(alive(), 1);
    assert_eq!(caller.delete(&closed).await, 204);
    testkit::until("the closed one ends", BOUND_MS, || (alive() == 0).then_some(()));

    // One that is read is not alone, however long it takes; one that nobody reads is closed.
    let left = caller.open("left", "slow").await;
    let reading = caller.hear(&left, 0, |line| line["type"] == "never");
    let waited = tokio::time::timeout(Duration::from_millis(2_500), reading).await;
    assert!(waited.is_err(), "it is still read");
    assert_eq!(alive(), 1);
    testkit::until("the silent one ends", BOUND_MS, || (alive() == 0).then_some(()));
    // Whoever comes late is told that it was there; of one that never was nobody knows.
    for (path, status) in [(&closed, 410), (&left, 410), (&never, 404)] {
        for late in [path.clone(), format!("{path}/events")] {
            let gone = caller.sent(caller.request(Method::GET, &late)).await;
            assert_eq!((gone.0, &gone.1["code"]), (status, &json!("not_found")), "{late}");
        }
        assert_eq!(caller.input(path, 1, &json!({ "type": "interrupt" })).await, status, "{path}");
        assert_eq!(caller.delete(path).await, status, "{path}");
    }
    for run in [&closed, &left] {
        let events = ostler.events(&["show", run.rsplit('/').next().unwrap(), "--json"]);
        assert_eq!(result(&events)["outcome"], "cancelled");
    }
    let server = remote.running.child.id();
    let others = || {
        testkit::find_marked(&ostler.instance.mark())
            .into_iter()
            .filter(|left| left.pid != server)
            .count()
    };
    testkit::until("no process is left but the server", BOUND_MS, || (others() == 0).then_some(()));
    let kept = || std::fs::read_dir(ostler.instance.data().join("sessions")).unwrap().count();
    testkit::until("nothing is kept but the runs", BOUND_MS, || (kept() == 0).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_is_killed_is_followed_by_one_that_goes_on_with_its_sessions() {
    let ostler = Ostler::new();
    let mut remote = Remote::bearer(&ostler);
    let port = remote.url.rsplit(':').next().unwrap().to_owned();
    let caller = Caller::of(&remote);
    let path = caller.open("far", "hello").await;
    // Two calls in, the second one unanswered: a tool that a host would not carry out twice.
    let first = caller.hear(&path, 0, |line| line["type"] == "tool_call").await;
    let (at, call) = first.last().unwrap().clone();
    let task = json!({ "type": "tool_result", "id": call["id"], "ok": true, "value": { "prompt": "ask" } });
    assert_eq!(caller.input(&path, 1, &task).await, 202);
    let second = caller.hear(&path, at, |line| line["type"] == "tool_call").await;
    let (at, call) = second.last().unwrap().clone();
    assert_eq!(call["tool"], "write_file");
    remote.kill();
    let listen = format!("127.0.0.1:{port}");
    let args = ["remote", "--agent", "demo", "--listen", &listen, "--token-env", "REMOTE_TOKEN"];
    let remote = Remote::with(&ostler, &args);
    assert_eq!(remote.url, caller.url);
    let (status, again) =
        caller.post("/v1/sessions", &json!({ "runId": "far", "prompt": "x" })).await;
    assert_eq!((status, again["id"].as_str()), (200, path.rsplit('/').next()));
    // The input before the last answer may be repeated, and the open call is answered now.
    assert_eq!(caller.input(&path, 1, &task).await, 202);
    assert_eq!(caller.input(&path, 2, &answer(&call)).await, 202);
    let rest = caller.serve(&path, at).await;
    let end = rest.last().unwrap();
    assert_eq!(end["type"], "complete", "{rest:#?}");
    assert!(end["text"].as_str().unwrap().contains("Thank you"), "the answer came: {end}");
    let heard = [first, second].concat().into_iter().map(|(_, line)| line);
    let heard: Vec<_> = heard.chain(rest).collect();
    let all = caller.hear(&path, 0, |_| false).await;
    let all: Vec<_> = all.into_iter().map(|(_, line)| line).collect();
    assert_eq!(heard, all, "nothing is lost, doubled or numbered anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn inputs_that_nobody_takes_are_refused_at_a_limit_and_the_end_is_not() {
    let ostler = Ostler::new();
    // Whoever has said nothing yet is not known to take messages: they wait.
    let mute = json!({ "type": "process", "binary": "sleep", "args": ["600"] });
    ostler.instance.write_config(&json!({ "adapters": { "mute": mute } }).to_string());
    let args = ["remote", "--agent", "mute", "--listen", "127.0.0.1:0"];
    let remote = Remote::with(&ostler, &[&args[..], &["--token-env", "REMOTE_TOKEN"]].concat());
    let caller = Caller::of(&remote);
    let path = caller.open("full", "x").await;
    let message = |n: u64| json!({ "type": "message", "text": n.to_string() });
    for n in 1..=INBOX_MAX as u64 {
        assert_eq!(caller.input(&path, n, &message(n)).await, 202, "{n}");
    }
    let next = INBOX_MAX as u64 + 1;
    let full = caller.request(Method::POST, &format!("{path}/input")).json(&message(next));
    let (status, full) = caller.sent(full).await;
    assert_eq!((status, &full["code"]), (429, &json!("overloaded")), "{full}");
    assert_eq!(caller.input(&path, 1, &message(1)).await, 202, "one that was taken before");
    let shutdown = json!({ "type": "shutdown", "reason": "cancelled" });
    assert_eq!(caller.input(&path, next + 1, &shutdown).await, 202);
    let heard = caller.hear(&path, 0, |line| line["type"] == "failed").await;
    assert_eq!(heard.last().map(|(_, line)| &line["type"]), Some(&json!("failed")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn there_is_a_limit_to_sessions_to_bodies_and_to_what_may_be_asked() {
    let ostler = Ostler::new();
    let remote = Remote::of(&ostler, &["--token-env", "REMOTE_TOKEN", "--max-sessions", "1"]);
    let caller = Caller::of(&remote);
    let path = caller.open("one", "slow").await;
    let second = json!({ "runId": "two", "prompt": "hello" });
    let (status, full) = caller.post("/v1/sessions", &second).await;
    assert_eq!((status, full["code"].as_str()), (429, Some("overloaded")));
    assert_eq!(caller.delete(&path).await, 204);
    let make = || async { caller.post("/v1/sessions", &second).await.0 };
    let mut status = make().await;
    while status == 429 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        status = make().await;
    }
    assert_eq!(status, 201);
    let rows = [
        (json!({ "prompt": "p" }), 400, "usage"),
        (json!({ "runId": "", "prompt": "p" }), 400, "usage"),
        (json!({ "runId": "x".repeat(300), "prompt": "p" }), 400, "usage"),
        (json!({ "runId": "x" }), 400, "usage"),
        (json!({ "runId": "x", "prompt": "p", "protocol": "other-v9" }), 422, "not_supported"),
        (
            json!({ "runId": "x", "prompt": "p", "sessionResume": "s" }),
            409,
            "native_session_unknown",
        ),
        (json!({ "runId": "x", "prompt": "p", "fencingToken": "soon" }), 400, "usage"),
    ];
    for (body, status, code) in rows {
        let (got, problem) = caller.post("/v1/sessions", &body).await;
        let shown: String = body.to_string().chars().take(80).collect();
        assert_eq!((got, problem["code"].as_str()), (status, Some(code)), "{shown}");
    }
    // What is announced as too long is not waited for.
    let mut wire = TcpStream::connect(remote.url.trim_start_matches("http://")).unwrap();
    wire.set_read_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
    let host = remote.url.trim_start_matches("http://");
    write!(
        wire,
        "POST /v1/sessions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{{",
        9 << 20
    )
    .unwrap();
    let mut status = String::new();
    BufReader::new(wire).read_line(&mut status).unwrap();
    assert_eq!(status.trim(), "HTTP/1.1 413 Payload Too Large");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_who_has_the_token_is_served_and_browsers_never() {
    let ostler = Ostler::new();
    let remote = Remote::bearer(&ostler);
    let caller = Caller::of(&remote);
    let path = caller.open("one", "slow").await;
    let stranger = Caller { token: None, ..Caller::of(&remote) };
    let liar = Caller { token: Some("remote-hush-2027"), ..Caller::of(&remote) };
    for who in [stranger, liar] {
        let asked = [
            who.post("/v1/sessions", &json!({ "runId": "x", "prompt": "p" })).await,
            who.sent(who.request(Method::GET, &format!("{path}/events"))).await,
            who.post(&format!("{path}/input"), &json!({ "type": "shutdown" })).await,
            who.sent(who.request(Method::DELETE, &path)).await,
            who.sent(who.request(Method::GET, "/nothing")).await,
        ];
        for (status, problem) in asked {
            assert_eq!((status, problem["code"].as_str()), (401, Some("unauthorized")));
        }
        assert_eq!(who.sent(who.request(Method::GET, "/healthz")).await.0, 200);
    }
    for (name, value) in [("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")] {
        let request = caller.request(Method::GET, &format!("{path}/events")).header(name, value);
        assert_eq!(caller.sent(request).await.0, 403, "{name}");
    }
    let rows: [(&[&str], &str); 5] = [
        (&[], "no way for callers to authenticate is given"),
        (&["--token-env", "NOT_SET"], "--token-env NOT_SET: the variable holds no token"),
        (&["--no-auth", "--listen", "0.0.0.0:0"], "connections beyond loopback must be encrypted"),
        (&["--cert", "x.pem"], "--key"),
        (&["--no-auth", "--token-env", "REMOTE_TOKEN"], "cannot be used with"),
    ];
    let other = Ostler::new();
    for (flags, complaint) in rows {
        let said = other.says(&[&["remote", "--agent", "demo"], flags].concat());
        assert!(said.code != 0 && said.stderr.contains(complaint), "{flags:?}: {}", said.stderr);
    }
    let said = other.says(&["remote", "--agent", "nobody-like-that", "--no-auth"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    // The directory is hosted: a second server of it would be another's.
    let said = ostler.says(&["remote", "--agent", "demo", "--no-auth", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 13, "{}", said.stderr);
}
