//! The courier against a remote that plays a script, without a keeper and without a process: lines go
//! in, lines come out, and the remote says what it was asked.

use super::*;
use serde_json::{Value, json};
use std::collections::VecDeque;
use testkit::remote::{Answer, Remote, SESSION, Script, Step, numbered, wire};
use tokio::task::JoinHandle;

/// For remotes that are left: the sooner, the better.
const QUICK: Limits = Limits {
    start: Duration::from_millis(300),
    lost: Duration::from_millis(600),
    idle: Duration::from_millis(500),
};

/// For remotes that are heard to their end, on however busy a machine.
const PATIENT: Limits = Limits {
    start: Duration::from_secs(30),
    lost: Duration::from_secs(30),
    idle: Duration::from_secs(30),
};

fn config(remote: &Remote) -> Config {
    Config {
        base_url: remote.url(),
        protocol: RemoteProtocol::CaHttpV1,
        auth: RemoteAuth::Bearer { token_env: "T".to_owned(), token_file: None },
        token: Some("hush-token".to_owned()),
        ca_path: None,
        allow_insecure: false,
        limits: PATIENT,
    }
}

/// A courier at work.
struct Work {
    lines: Option<mpsc::Sender<Vec<u8>>>,
    out: mpsc::Receiver<Line>,
    /// Lines that came with the one before.
    ready: VecDeque<Value>,
    term: Option<tokio::sync::oneshot::Sender<()>>,
    carried: JoinHandle<Result<(), Fault>>,
}

impl Work {
    fn begin(config: Config, first: &Value) -> Self {
        let (lines, given) = mpsc::channel(8);
        lines.try_send(first.to_string().into_bytes()).unwrap();
        let (said, out) = mpsc::channel(1024);
        let (term, asked) = tokio::sync::oneshot::channel();
        let term_asked = Box::pin(async move {
            if asked.await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        let ends = Ends { lines: given, out: said, term: term_asked };
        let carried = tokio::spawn(async move { carry(&config, ends).await });
        Self { lines: Some(lines), out, ready: VecDeque::new(), term: Some(term), carried }
    }

    fn open(remote: &Remote) -> Self {
        let body = json!({ "runId": "run_1", "prompt": "mend it" });
        Self::begin(config(remote), &json!({ "open": body }))
    }

    /// The same for a remote that is to be left.
    fn hurried(remote: &Remote) -> Self {
        let config = Config { limits: QUICK, ..config(remote) };
        Self::begin(config, &json!({ "open": { "runId": "run_1", "prompt": "mend it" } }))
    }

    async fn say(&self, line: Value) {
        let lines = self.lines.as_ref().expect("it was not closed");
        lines.send(line.to_string().into_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Option<Value> {
        let mut bytes = Vec::new();
        while self.ready.is_empty() {
            let said = tokio::time::timeout(Duration::from_secs(60), self.out.recv());
            let Some(said) = said.await.expect("it says something within the bound") else {
                assert_eq!(bytes, b"", "a line that does not end");
                return None;
            };
            bytes.extend(said.bytes);
            if bytes.ends_with(b"\n") {
                let lines = bytes.split_inclusive(|byte| *byte == b'\n');
                let read = lines.map(|line| serde_json::from_slice(line).expect("a line of JSON"));
                self.ready.extend(read);
            }
        }
        self.ready.pop_front()
    }

    /// Everything until its end; what it ended as.
    async fn rest(mut self) -> (Vec<Value>, Option<Code>) {
        let mut said = Vec::new();
        while let Some(line) = self.next().await {
            let over = line["event"]["type"] == "complete" || line["event"]["type"] == "failed";
            said.push(line);
            if over {
                // As the host does, when it hears the end.
                self.lines = None;
            }
        }
        let carried = self.carried.await.unwrap();
        (said, carried.err().map(|fault| fault.code))
    }
}

fn progress(n: u64) -> Value {
    json!({ "type": "progress", "summary": format!("step {n}") })
}

fn complete() -> Value {
    json!({ "type": "complete", "output": "done" })
}

/// The numbers of the events that were passed on.
fn ids(said: &[Value]) -> Vec<&str> {
    said.iter()
        .filter(|line| line.get("event").is_some())
        .filter_map(|l| l["id"].as_str())
        .collect()
}

fn notes(said: &[Value]) -> Vec<&str> {
    let notes = said.iter().filter(|line| line["courier"] == "note");
    notes.filter_map(|line| line["message"].as_str()).collect()
}

#[tokio::test]
async fn a_session_is_opened_heard_and_taken_away() {
    let remote = Remote::play(Script::good(&[progress(1), complete()]));
    let (said, code) = Work::open(&remote).rest().await;
    assert_eq!((ids(&said), code), (vec!["1", "2"], None));
    assert_eq!((&said[0]["courier"], &said[0]["session"]), (&json!("opened"), &json!(SESSION)));
    let seen = remote.seen();
    let asked: Vec<_> = seen.iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect();
    assert_eq!(
        asked,
        ["POST /v1/sessions", "GET /v1/sessions/sess-1/events", "DELETE /v1/sessions/sess-1"]
    );
    assert!(seen.iter().all(|seen| seen.header("authorization") == Some("Bearer hush-token")));
    assert!(seen.iter().all(|seen| seen.header("accept-encoding").is_none()));
    assert_eq!(seen[0].header("idempotency-key"), Some("run_1"));
}

#[tokio::test]
async fn a_session_cut_at_every_byte_is_heard_once_and_whole() {
    let events = [progress(1), progress(2), complete()];
    let whole: Vec<u8> =
        numbered(&events).iter().flat_map(|(id, event)| wire(*id, event)).collect();
    for cut in 0..=whole.len() {
        let first = vec![Step::Raw(whole[..cut].to_vec())];
        let rest = vec![Step::After(numbered(&events)), Step::Hold];
        let remote = Remote::play(Script::streams(vec![first, rest]));
        let (said, code) = Work::open(&remote).rest().await;
        assert_eq!((ids(&said), code), (vec!["1", "2", "3"], None), "cut at {cut}");
    }
}

#[tokio::test]
async fn what_is_repeated_is_dropped_and_what_is_missing_is_asked_for_once() {
    let all = numbered(&[progress(1), progress(2), progress(3), complete()]);
    let event = |n: usize| Step::Event(all[n - 1].0, all[n - 1].1.clone());
    let rows = [
        (
            "repeated",
            vec![vec![event(1), event(1), event(2), event(1), event(3), event(4), Step::Hold]],
            vec!["1", "2", "3", "4"],
            1,
            0,
        ),
        (
            "missing, and sent when asked",
            vec![
                vec![event(1), event(3), event(4), Step::Hold],
                vec![Step::After(all.clone()), Step::Hold],
            ],
            vec!["1", "2", "3", "4"],
            2,
            0,
        ),
        ("missing for good", vec![vec![event(1), event(4), Step::Hold]], vec!["1", "4"], 2, 1),
    ];
    for (what, streams, heard, connections, told) in rows {
        let remote = Remote::play(Script::streams(streams));
        let (said, code) = Work::open(&remote).rest().await;
        assert_eq!((ids(&said), code), (heard, None), "{what}");
        assert_eq!(remote.asked("GET events").len(), connections, "{what}");
        assert_eq!(notes(&said).len(), told, "{what}: {said:?}");
    }
}

#[tokio::test]
async fn every_bad_answer_has_its_code() {
    let status = |status: u16| Answer::Json(status, json!({ "message": "no\u{1b}[31m" }));
    let raw = |text: &str| Answer::Raw(text.as_bytes().to_vec());
    let gzip =
        "HTTP/1.1 201 X\r\ncontent-encoding: gzip\r\ncontent-length: 10\r\n\r\n{\"id\":\"s\"}";
    let headers = format!("HTTP/1.1 201 X\r\n{}", "a: b\r\n".repeat(5000));
    let long = format!("HTTP/1.1 201 X\r\n\r\n{}", " ".repeat(200_000));
    let unnamed = Answer::Json(201, json!({ "id": "" }));
    let create = [
        ("401", status(401), Code::AuthFailed),
        ("403", status(403), Code::AuthFailed),
        ("404", status(404), Code::ProtocolError),
        ("422", status(422), Code::ProtocolError),
        ("500", status(500), Code::RemoteUnavailable),
        ("429", status(429), Code::RemoteUnavailable),
        ("dropped", Answer::Drop, Code::RemoteUnavailable),
        ("no JSON", raw("HTTP/1.1 201 X\r\ncontent-length: 2\r\n\r\nhi"), Code::ProtocolError),
        ("no HTTP", raw("hello there\r\n\r\n"), Code::RemoteUnavailable),
        ("gzip", raw(gzip), Code::ProtocolError),
        ("endless headers", raw(&headers), Code::RemoteUnavailable),
        ("endless body", raw(&long), Code::ProtocolError),
        ("no id", unnamed, Code::ProtocolError),
    ];
    for (what, answer, code) in create {
        let remote = Remote::play(Script::good(&[complete()]).create(vec![answer]));
        let (said, ended) = Work::hurried(&remote).rest().await;
        assert_eq!(ended, Some(code), "{what}: {said:?}");
        assert_eq!((said.len(), &said[0]["courier"]), (1, &json!("fault")), "{what}");
        let message = said[0]["message"].as_str().unwrap();
        assert!(!message.contains("hush-token") && !message.contains('\u{1b}'), "{message}");
    }
    let stream = [
        ("404", Answer::Json(404, Value::Null), Code::RemoteLost),
        ("410", Answer::Json(410, Value::Null), Code::RemoteLost),
        ("401", status(401), Code::AuthFailed),
        ("500", status(500), Code::RemoteLost),
        ("no stream", Answer::Json(200, json!({})), Code::ProtocolError),
    ];
    for (what, answer, code) in stream {
        let remote = Remote::play(Script::streams(vec![vec![Step::Answer(answer)]]));
        let (said, ended) = Work::hurried(&remote).rest().await;
        assert_eq!(ended, Some(code), "stream {what}: {said:?}");
    }
}

#[tokio::test]
async fn a_remote_that_refuses_at_first_is_asked_again_with_the_same_key() {
    let session = json!({ "id": SESSION });
    let create = vec![Answer::Json(503, Value::Null), Answer::Drop, Answer::Json(200, session)];
    let remote = Remote::play(Script::good(&[complete()]).create(create));
    let (said, code) = Work::open(&remote).rest().await;
    assert_eq!((ids(&said), code), (vec!["1"], None));
    let asked = remote.asked("POST sessions");
    assert!(asked.len() >= 3);
    assert!(asked.iter().all(|seen| seen.header("idempotency-key") == Some("run_1")));
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_and_no_other() {
    let trap = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let elsewhere = trap.local_addr().unwrap();
    let to = |status: u16, place: &str| {
        Answer::Raw(
            format!("HTTP/1.1 {status} X\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .into_bytes(),
        )
    };
    let places = [
        to(307, &format!("http://{elsewhere}/v1/sessions")),
        to(308, "http://169.254.169.254/latest"),
        to(302, "/v1/sessions"),
        to(307, "/v1/sessions"),
    ];
    for (row, answer) in places.into_iter().enumerate() {
        let remote = Remote::play(Script::good(&[complete()]).create(vec![answer]));
        let (said, ended) = Work::open(&remote).rest().await;
        assert_eq!(ended, Some(Code::ProtocolError), "row {row}: {said:?}");
    }
    assert!(trap.accept().is_err(), "nobody came to the trap");
    let session = Answer::Json(201, json!({ "id": SESSION }));
    let create = vec![to(307, "/v1/sessions"), session];
    let remote = Remote::play(Script::good(&[complete()]).create(create));
    let (said, code) = Work::open(&remote).rest().await;
    assert_eq!((ids(&said), code), (vec!["1"], None));
    assert_eq!(remote.asked("POST sessions")[1].body["runId"], "run_1", "it was posted again");
}

#[tokio::test]
async fn one_that_dribbles_or_floods_is_left_with_its_code() {
    let dribble = Step::Dribble { bytes: vec![b'x'; 400], pause_ms: 20 };
    let rows = [
        ("a byte at a time", vec![dribble], Code::RemoteLost, "nothing whole"),
        ("silence", vec![Step::Hold], Code::RemoteLost, "nothing whole"),
        (
            "an event without end",
            vec![Step::Flood(vec![b'x'; 1 << 20])],
            Code::OutputLimit,
            "one event",
        ),
        (
            "lines without end",
            vec![Step::Flood(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n".repeat(1 << 15))],
            Code::OutputLimit,
            "one event",
        ),
    ];
    for (what, steps, code, says) in rows {
        let remote = Remote::play(Script::streams(vec![steps]));
        let (said, ended) = Work::hurried(&remote).rest().await;
        assert_eq!(ended, Some(code), "{what}: {said:?}");
        let message = said.last().unwrap()["message"].as_str().unwrap();
        assert!(message.contains(says), "{what}: {message}");
        assert_eq!(remote.asked("DELETE").len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_stream_that_is_slow_but_alive_is_heard_to_its_end() {
    let mut bytes = Vec::new();
    for (id, event) in numbered(&[progress(1), progress(2), complete()]) {
        bytes.extend(b": still here\n\n".repeat(3));
        bytes.extend(wire(id, &event));
    }
    let dribble = Step::Dribble { bytes, pause_ms: 4 };
    let remote = Remote::play(Script::streams(vec![vec![dribble, Step::Hold]]));
    let (said, code) = Work::open(&remote).rest().await;
    assert_eq!((ids(&said), code), (vec!["1", "2", "3"], None));
    assert_eq!(remote.asked("GET events").len(), 1);
}

#[tokio::test]
async fn what_is_for_another_run_or_no_event_at_all_is_told_and_not_taken() {
    let remote = Remote::play(Script::streams(vec![vec![
        Step::Event(1, json!({ "type": "complete", "runId": "run_other" })),
        Step::Event(2, json!({ "type": "complete", "session_id": "sess-2" })),
        Step::Raw(b"id: 3\ndata: no JSON \xff\ndata: at all\n\n".to_vec()),
        Step::Event(4, json!({ "type": "progress", "summary": "s", "runId": "run_1" })),
        Step::Event(5, complete()),
        Step::Hold,
    ]]));
    let (said, code) = Work::open(&remote).rest().await;
    assert_eq!((ids(&said), code), (vec!["4", "5"], None));
    assert_eq!(notes(&said).len(), 2);
    let text = said.iter().find(|line| line.get("text").is_some()).expect("it is kept");
    assert_eq!((&text["id"], &text["text"]), (&json!("3"), &json!("no JSON \u{fffd} at all")));
}

#[tokio::test]
async fn a_word_whose_answer_was_lost_is_said_again_under_its_number() {
    let steps = vec![Step::Await("message"), Step::After(numbered(&[complete()])), Step::Hold];
    let good = Answer::Json(202, Value::Null);
    let input = vec![Answer::Drop, Answer::Json(503, Value::Null), good];
    let remote = Remote::play(Script::streams(vec![steps]).input(input));
    let work = Work::open(&remote);
    work.say(json!({ "n": 1, "input": { "type": "budget_update" } })).await;
    work.say(json!({ "n": 2, "input": { "type": "message", "text": "hi" } })).await;
    let (_, code) = work.rest().await;
    assert_eq!(code, None);
    let inputs = remote.asked("POST input");
    let numbers: Vec<_> = inputs.iter().filter_map(|seen| seen.header("ostler-input")).collect();
    assert_eq!(numbers, ["1", "1", "1", "2"]);
}

#[tokio::test]
async fn every_word_carries_the_fence_that_its_session_was_opened_under() {
    let steps = vec![Step::Await("message"), Step::After(numbered(&[complete()])), Step::Hold];
    let lost = vec![Answer::Drop, Answer::Json(202, Value::Null)];
    let open = |fence: Value| json!({ "open": { "runId": "run_1", "fencingToken": fence } });
    let attach = json!({ "attach": { "session": SESSION, "run": "run_1", "fence": 7 } });
    let plain = json!({ "attach": { "session": SESSION, "run": "run_1" } });
    for (first, fence) in
        [(open(json!(7)), Some("7")), (attach, Some("7")), (open(Value::Null), None), (plain, None)]
    {
        let remote = Remote::play(Script::streams(vec![steps.clone()]).input(lost.clone()));
        let work = Work::begin(config(&remote), &first);
        work.say(json!({ "n": 1, "input": { "type": "budget_update" } })).await;
        work.say(json!({ "n": 2, "input": { "type": "message", "text": "hi" } })).await;
        assert_eq!(work.rest().await.1, None);
        let inputs = remote.asked("POST input");
        assert_eq!(inputs.len(), 3, "one of them twice");
        for input in inputs {
            assert_eq!(input.header("ostler-fence"), fence, "{first}");
        }
    }
}

#[tokio::test]
async fn a_remote_that_says_our_fence_is_stale_ends_the_run_so() {
    let stale = Answer::Json(409, json!({ "code": "fence_stale" }));
    let remote = Remote::play(Script::streams(vec![vec![Step::Hold]]).input(vec![stale]));
    let work = Work::open(&remote);
    work.say(json!({ "n": 1, "input": { "type": "budget_update" } })).await;
    assert_eq!(work.rest().await.1, Some(Code::FenceStale));
}

#[tokio::test]
async fn one_that_ends_when_it_is_told_to_is_not_forced() {
    let failed = json!({ "type": "failed", "reason": "cancelled" });
    let steps = vec![Step::Await("shutdown"), Step::After(numbered(&[failed])), Step::Hold];
    let remote = Remote::play(Script::streams(vec![steps]));
    let work = Work::open(&remote);
    work.say(json!({ "input": { "type": "shutdown", "reason": "cancelled" } })).await;
    let (said, code) = work.rest().await;
    assert_eq!((ids(&said), code), (vec!["1"], None));
    assert!(!said.iter().any(|line| line["courier"] == "forced"));
    assert_eq!(remote.asked("DELETE").len(), 1);
}

#[tokio::test]
async fn one_that_does_not_end_when_it_is_told_to_is_taken_away_and_that_is_said() {
    let remote = Remote::play(Script::streams(vec![vec![Step::Hold]]));
    let mut work = Work::open(&remote);
    assert_eq!(work.next().await.unwrap()["courier"], "opened");
    work.say(json!({ "input": { "type": "shutdown", "reason": "cancelled" } })).await;
    work.term.take().unwrap().send(()).unwrap();
    let (said, code) = work.rest().await;
    assert_eq!((said, code), (vec![json!({ "courier": "forced" })], None));
    assert_eq!(remote.asked("DELETE").len(), 1);
}

#[tokio::test]
async fn after_a_lost_lease_nothing_of_the_remote_is_taken_and_it_is_told_so() {
    let call = json!({ "type": "tool_call", "id": 7, "tool": "write_file", "args": {} });
    let remote = Remote::play(Script::streams(vec![vec![
        Step::Event(1, progress(1)),
        Step::Await("shutdown"),
        Step::Event(2, progress(2)),
        Step::Event(3, call),
        Step::Event(4, progress(4)),
        Step::Await("tool_result"),
        Step::Event(5, complete()),
        Step::Hold,
    ]]));
    let mut work = Work::open(&remote);
    while work.next().await.unwrap()["id"] != "1" {}
    work.say(json!({ "input": { "type": "shutdown", "reason": "lease_expired" } })).await;
    let (said, code) = work.rest().await;
    assert_eq!((said, code), (vec![], None), "nothing is passed on");
    let heard = remote.heard();
    assert_eq!(heard[0], json!({ "type": "shutdown", "reason": "lease_expired" }));
    assert_eq!(heard[1], json!({ "type": "shutdown", "reason": "fence_stale" }));
    assert_eq!((&heard[2]["id"], &heard[2]["ok"]), (&json!(7), &json!(false)));
    assert!(heard[2]["error"].as_str().unwrap().starts_with("fence_stale"));
    assert_eq!(heard.len(), 3, "it is said once");
    assert_eq!(remote.asked("DELETE").len(), 1);
}

#[tokio::test]
async fn a_session_is_taken_up_behind_what_was_stored() {
    let remote = Remote::play(Script::good(&[progress(1), progress(2), complete()]));
    let attach = json!({ "attach": { "session": SESSION, "run": "run_1", "after": 1 } });
    let (said, code) = Work::begin(config(&remote), &attach).rest().await;
    assert_eq!((ids(&said), code), (vec!["2", "3"], None));
    assert_eq!(remote.asked("POST sessions").len(), 0);
    assert_eq!(remote.asked("GET events")[0].header("last-event-id"), Some("1"));
}

#[tokio::test]
async fn when_nothing_more_will_be_said_the_session_is_taken_away() {
    let remote = Remote::play(Script::streams(vec![vec![Step::Event(1, progress(1)), Step::Hold]]));
    let mut work = Work::open(&remote);
    while work.next().await.unwrap()["id"] != "1" {}
    work.lines = None;
    let (said, code) = work.rest().await;
    assert_eq!((said, code), (vec![], None));
    assert_eq!(remote.asked("DELETE").len(), 1);
}

#[tokio::test]
async fn a_machine_that_no_remote_lives_on_is_not_asked() {
    for url in ["http://169.254.169.254", "http://[::ffff:169.254.1.1]", "http://0.0.0.0:1"] {
        let remote = Remote::play(Script::good(&[complete()]));
        let config = Config { base_url: url.to_owned(), token: None, ..config(&remote) };
        let work = Work::begin(config, &json!({ "open": { "prompt": "x" } }));
        assert_eq!(work.rest().await.1, Some(Code::InvalidConfig), "{url}");
    }
}

/// A courier to a gateway of runs, and what the gateway begins with.
fn gateway(streams: Vec<Vec<Step>>, status: Vec<Answer>) -> (Remote, Config) {
    let begun = Answer::Json(202, json!({ "run_id": "run_far", "status": "started" }));
    let script = Script { create: vec![begun], status, ..Script::streams(streams) };
    let remote = Remote::play(script);
    let config = Config { protocol: RemoteProtocol::HermesRunsV1, ..config(&remote) };
    (remote, config)
}

fn sent(event: Value) -> Step {
    Step::Raw(format!("data: {event}\n\n").into_bytes())
}

#[tokio::test]
async fn a_gateway_of_runs_is_heard_in_the_words_of_the_process_protocol() {
    let (remote, config) = gateway(
        vec![vec![
            sent(json!({ "event": "tool.started", "tool": "terminal", "preview": "ls" })),
            sent(json!({ "event": "tool.completed", "tool": "terminal", "error": false })),
            sent(json!({ "event": "message.delta", "delta": "Done." })),
            sent(json!({ "event": "run.completed", "output": "Done." })),
            Step::Hold,
        ]],
        vec![Answer::Json(404, Value::Null)],
    );
    let body =
        json!({ "runId": "run_1", "agentId": "agent_1", "prompt": "go", "systemPrompt": "s" });
    let (said, code) = Work::begin(config, &json!({ "open": body })).rest().await;
    let kinds: Vec<_> = said
        .iter()
        .map(|line| line["event"]["event"]["kind"].as_str().or(line["event"]["type"].as_str()))
        .collect();
    let told = ["tool_use", "tool_result", "assistant_text", "complete"].map(Some);
    assert_eq!((&kinds[1..], code), (&told[..], None));
    let asked = &remote.asked("POST runs")[0];
    assert_eq!(asked.body, json!({ "input": "go", "instructions": "s" }));
    assert_eq!(asked.header("idempotency-key"), Some("run_1"));
    assert_eq!(asked.header("x-hermes-session-key"), Some("agent_1"));
    assert!(remote.asked("POST stop").is_empty(), "what has ended is not stopped");
}

#[tokio::test]
async fn a_gateway_whose_stream_was_cut_is_asked_how_its_run_stands() {
    let usage = json!({ "input_tokens": 5, "output_tokens": 2 });
    let done = json!({ "status": "completed", "output": "late", "usage": usage });
    let running = Answer::Json(200, json!({ "status": "running" }));
    let first = vec![sent(json!({ "event": "message.delta", "delta": "a" }))];
    let (remote, config) = gateway(vec![first, vec![]], vec![running, Answer::Json(200, done)]);
    let work = Work::begin(config, &json!({ "open": { "runId": "run_1", "prompt": "go" } }));
    let (said, code) = work.rest().await;
    let last = &said.last().unwrap()["event"];
    assert_eq!((&last["type"], &last["output"], code), (&json!("complete"), &json!("late"), None));
    assert_eq!(last["cost"]["inputTokens"], 5);
    assert_eq!(remote.asked("GET events").len(), 2);
}

#[tokio::test]
async fn a_gateway_that_is_told_to_end_is_told_to_stop() {
    let cancelled = sent(json!({ "event": "run.cancelled" }));
    let steps = vec![Step::Gate, cancelled, Step::Hold];
    let (remote, config) = gateway(vec![steps], vec![Answer::Json(404, Value::Null)]);
    let work = Work::begin(config, &json!({ "open": { "runId": "run_1", "prompt": "go" } }));
    work.say(json!({ "n": 1, "input": { "type": "budget_update" } })).await;
    work.say(json!({ "n": 2, "input": { "type": "shutdown", "reason": "cancelled" } })).await;
    while remote.asked("POST stop").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    remote.release();
    let (said, code) = work.rest().await;
    assert_eq!((said.last().unwrap()["event"]["type"].as_str(), code), (Some("failed"), None));
    assert_eq!(remote.asked("POST stop").len(), 1);
}

/// A courier to a service that only answers: what it answers to the task, and what of the work later.
fn service(create: Vec<Answer>, status: Vec<Answer>) -> (Remote, Config) {
    let remote = Remote::play(Script { create, status, ..Script::streams(Vec::new()) });
    let base_url = format!("{}/v1/runs", remote.url());
    let config = Config { base_url, protocol: RemoteProtocol::WebhookV1, ..config(&remote) };
    (remote, config)
}

fn task() -> Value {
    json!({ "open": { "runId": "run_1", "prompt": "go", "callbackUrl": "http://h/cb" } })
}

/// An answer that is words, or lines.
fn plain(body: &str) -> Answer {
    let length = body.len();
    let head = format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    Answer::Raw([head.as_bytes(), body.as_bytes()].concat())
}

fn later(status_url: &str) -> Answer {
    Answer::Json(202, json!({ "statusUrl": status_url, "retryAfterMs": 1 }))
}

#[tokio::test]
async fn a_service_answers_at_once_or_says_where_to_look() {
    let lines = format!("{}\n{}\n", progress(1), complete());
    let running = || Answer::Json(202, json!({ "retryAfterMs": 1 }));
    let done = || Answer::Json(200, complete());
    // What it answers, what it says of the work later, what is told, and how often it was asked.
    let rows = [
        ("the end", vec![done()], vec![], "complete", (1, 0)),
        ("lines", vec![plain(&lines)], vec![], "progress complete", (1, 0)),
        ("words", vec![plain("all is well")], vec![], "complete", (1, 0)),
        (
            "500, then the end",
            vec![Answer::Json(500, Value::Null), Answer::Drop, done()],
            vec![],
            "complete",
            (3, 0),
        ),
        (
            "later",
            vec![later("/jobs/1")],
            vec![running(), Answer::Json(503, Value::Null), running(), plain(&lines)],
            "opened alive progress complete",
            (1, 4),
        ),
    ];
    for (what, create, status, told, asked) in rows {
        let (remote, config) = service(create, status);
        let (said, code) = Work::begin(config, &task()).rest().await;
        let word = |line: &Value| {
            line["courier"].as_str().or(line["event"]["type"].as_str()).unwrap_or("?").to_owned()
        };
        let mut words: Vec<_> = said.iter().map(word).collect();
        // On a slow machine it may be told more than once that the work goes on.
        words.dedup();
        assert_eq!((words.join(" ").as_str(), code), (told, None), "{what}: {said:?}");
        let (posts, looks) = (remote.asked("POST runs"), remote.asked("GET jobs/1"));
        assert_eq!((posts.len(), looks.len()), asked, "{what}");
        for post in posts {
            assert_eq!(post.header("idempotency-key"), Some("run_1"), "{what}");
            assert_eq!(post.body, task()["open"], "{what}");
        }
        assert!(looks.iter().all(|look| look.header("authorization").is_some()), "{what}");
        assert!(remote.asked("DELETE").is_empty(), "what has ended is not taken away: {what}");
    }
}

#[tokio::test]
async fn every_bad_answer_of_a_service_has_its_code() {
    let status = |status: u16| Answer::Json(status, Value::Null);
    let long = format!("HTTP/1.1 200 X\r\n\r\n{}", "x".repeat(9 * 1024 * 1024));
    let far = format!("http://127.0.0.1:9/{}", "x".repeat(10));
    let rows = [
        ("401", status(401), status(404), Code::AuthFailed),
        ("404", status(404), status(404), Code::ProtocolError),
        ("422", status(422), status(404), Code::ProtocolError),
        ("500", status(500), status(404), Code::RemoteUnavailable),
        ("cut", plain("{\"type\":\"complete\""), status(404), Code::ProtocolError),
        ("no end", Answer::Json(200, progress(1)), status(404), Code::ProtocolError),
        ("endless", Answer::Raw(long.into_bytes()), status(404), Code::ProtocolError),
        ("elsewhere", later(&far), status(404), Code::ProtocolError),
        ("long address", later(&"x".repeat(3000)), status(404), Code::ProtocolError),
        ("forgotten", later("/jobs/1"), status(404), Code::RemoteLost),
        ("gone", later("/jobs/1"), Answer::Drop, Code::RemoteLost),
        ("401 later", later("/jobs/1"), status(401), Code::AuthFailed),
    ];
    for (what, create, status, code) in rows {
        let (_remote, config) = service(vec![create], vec![status]);
        let config = Config { limits: QUICK, ..config };
        let (said, ended) = Work::begin(config, &task()).rest().await;
        assert_eq!(ended, Some(code), "{what}: {said:?}");
        assert_eq!(said.last().unwrap()["courier"], "fault", "{what}");
    }
}

#[tokio::test]
async fn a_service_that_never_ends_is_left_and_its_work_taken_away_where_that_can_be_said() {
    let running = || vec![Answer::Json(202, json!({ "retryAfterMs": 1 }))];
    let called_back = Answer::Json(202, Value::Null);
    // How it takes the task, whether it is told to end, and what it is told then.
    let rows = [
        ("it hangs", Answer::Hang, true, 0),
        ("it says where to look", later("/jobs/1"), true, 1),
        ("it will call back", called_back.clone(), true, 0),
        ("it has called back", called_back, false, 0),
        ("it has called back, and said where to look", later("/jobs/1"), false, 0),
    ];
    for (what, create, told, deletes) in rows {
        let (remote, config) = service(vec![create.clone()], running());
        let mut work = Work::begin(config, &task());
        if !matches!(create, Answer::Hang) {
            assert_eq!(work.next().await.unwrap()["courier"], "opened", "{what}");
        }
        if told {
            let shutdown = json!({ "type": "shutdown", "reason": "cancelled" });
            work.say(json!({ "n": 1, "input": shutdown })).await;
        } else {
            work.lines = None;
        }
        let (said, code) = work.rest().await;
        assert!(said.iter().all(|line| line["courier"] == "alive"), "{what}: {said:?}");
        assert_eq!(code, None, "{what}");
        assert_eq!(remote.asked("DELETE").len(), deletes, "{what}");
    }
}

#[tokio::test]
async fn the_work_of_a_service_is_looked_at_again_by_the_next_courier() {
    let (remote, config) = service(vec![Answer::Drop], vec![Answer::Json(200, complete())]);
    let session = format!("{}/jobs/1", remote.url());
    let attach = json!({ "attach": { "session": session, "run": "run_1", "after": null } });
    let (said, code) = Work::begin(config, &attach).rest().await;
    assert_eq!((ids(&said), code), (vec!["1"], None));
    assert!(remote.asked("POST runs").is_empty(), "the task is not posted again");
}
