//! Plans and lines of the http lane, as data: what the courier is started with, what it is told, what
//! becomes of its words, and what is refused before anything is started.

use super::*;
use crate::trial::{hear, lines, spec_with};
use crate::{Dialect, Out, Stream};
use contract::event::Body;
use contract::plan::RemoteProtocol;
use contract::speech::{Close, ToolAnswer};
use contract::{Signal, Utterance};

fn remote(auth: Value) -> Remote {
    let auth = serde_json::from_value(auth).unwrap();
    Remote { base_url: "https://far.example/agents".into(), auth, ..Remote::default() }
}

fn spec(remote: Remote) -> Spec {
    spec_with("remote", |spec| {
        spec.adapter.remote = Some(remote);
        spec.lane = Lane::Http;
        spec.caller_env = [("FAR_TOKEN".to_owned(), "hush-far".to_owned())].into();
        spec.model = Some("far-1".into());
        spec.context
            .set("taskId", "task_1")
            .set("agentId", "agent_1")
            .set("leaseToken", "lease-1")
            .set("fencingToken", "3")
            .set("leaseExpiresAt", "2026-11-16T10:00:00.000Z")
            .set("budgetEnvelope", json!({ "tokens": 1000, "usd": null }))
            .set("task", json!({ "title": "a task", "body": "Please do the small task now." }))
            .set("context", json!({}));
    })
}

fn bearer() -> Value {
    json!({ "type": "bearer", "token_env": "FAR_TOKEN" })
}

#[test]
fn a_remote_is_our_own_program_and_its_token_stands_in_no_argument() {
    let plan = ByHttp.plan(&spec(remote(bearer()))).unwrap();
    assert_eq!((plan.lane, plan.program.as_str()), (Lane::Http, "/usr/bin/ostler"));
    assert_eq!(
        plan.args,
        [
            "courier",
            "--protocol",
            "ca-http-v1",
            "--token-env",
            "FAR_TOKEN",
            "--",
            "https://far.example/agents"
        ]
    );
    assert_eq!(plan.secrets, ["FAR_TOKEN"]);
    assert!(!serde_json::to_string(&plan).unwrap().contains("hush-far"));
    let mtls = json!({ "type": "mtls", "cert_path": "/c.pem", "key_path": "/k.pem" });
    let mut mtls = remote(mtls);
    mtls.ca_path = Some("/ca.pem".into());
    let args = ByHttp.plan(&spec(mtls)).unwrap().args;
    assert_eq!(args[3..9], ["--cert", "/c.pem", "--key", "/k.pem", "--ca", "/ca.pem"]);
}

#[test]
fn the_first_line_asks_for_a_session_with_all_that_a_remote_may_need() {
    let mut dialect = ByHttp.dialect(&spec(remote(bearer())));
    let open = String::from_utf8(dialect.open().unwrap()).unwrap();
    assert!(dialect.open().is_none(), "it is asked for once");
    let open: Value = serde_json::from_str(&open).unwrap();
    insta::assert_json_snapshot!(open);
}

#[test]
fn what_cannot_be_reached_safely_is_refused_before_anything_is_started() {
    let with = |url: &str, auth: Value| Remote { base_url: url.into(), ..remote(auth) };
    let unset = json!({ "type": "bearer", "token_env": "NOT_SET" });
    let mtls = json!({ "type": "mtls", "cert_path": "/c", "key_path": "/k" });
    let none = json!({ "type": "none" });
    let rows = [
        with("ftp://far.example", none.clone()),
        with("https://", none.clone()),
        with("https://me:hush@far.example", none.clone()),
        with("https://far.example/?x=1", none),
        with("http://far.example", bearer()),
        with("http://localhost.far.example", bearer()),
        with("http://127.0.0.1.far.example", bearer()),
        with("http://127.0.0.1\\@far.example", bearer()),
        with("http://127.0.0.1", mtls),
        with("https://far.example", json!({ "type": "bearer", "token_env": " " })),
        with("https://far.example", unset),
    ];
    let refused = rows.into_iter().map(|remote| {
        let url = remote.base_url.clone();
        let fault = ByHttp.plan(&spec(remote)).unwrap_err();
        format!("{url}\n  {fault}\n  hint: {}", fault.hint())
    });
    insta::assert_snapshot!(refused.collect::<Vec<_>>().join("\n"));
    for url in ["http://localhost:8", "http://[::1]:8/x", "http://127.0.0.1", "https://far.example"]
    {
        assert!(ByHttp.plan(&spec(with(url, bearer()))).is_ok(), "{url}");
    }
    let insecure = Remote { allow_insecure: true, ..with("http://far.example", bearer()) };
    assert!(ByHttp.plan(&spec(insecure)).is_ok());
}

#[test]
fn what_a_remote_cannot_reach_it_is_not_offered() {
    for (remote_at, ours, found) in [
        ("https://far.example/agents", "http://127.0.0.1:7717", false),
        ("https://far.example/agents", "http://[::1]:7717", false),
        ("https://far.example/agents", "https://ostler.example", true),
        ("http://127.0.0.1:8000", "http://127.0.0.1:7717", true),
        ("http://localhost", "http://127.0.0.1:7717", true),
    ] {
        let mut spec = spec(Remote { base_url: remote_at.into(), ..remote(bearer()) });
        spec.context.set("mcpUrl", format!("{ours}/mcp"));
        spec.context.set("workspace", json!({ "url": format!("{ours}/w"), "format": "tar" }));
        let open = ByHttp.dialect(&spec).open().unwrap();
        let open: Value = serde_json::from_slice(&open).unwrap();
        let offered = ["mcpUrl", "workspace"].map(|name| !open["open"][name].is_null());
        assert_eq!(offered, [found; 2], "{remote_at} {ours}");
    }
}

/// A conversation that has been opened and has heard these lines.
fn heard(said: &[Value]) -> (Box<dyn Dialect>, Out) {
    let mut dialect = ByHttp.dialect(&spec(remote(bearer())));
    dialect.open();
    let out = hear(&mut *dialect, Stream::Stdout, &lines(said));
    (dialect, out)
}

fn frames(out: &Out) -> Vec<String> {
    let text = |frame: &Vec<u8>| String::from_utf8(frame.clone()).unwrap().trim_end().to_owned();
    out.frames.iter().map(text).collect()
}

#[test]
fn words_for_the_remote_are_numbered_and_go_on_counting_after_a_change_of_host() {
    let call = |id: &str| {
        let event = json!({ "type": "tool_call", "id": id, "tool": "read_task" });
        json!({ "id": "1", "event": event })
    };
    let (mut dialect, _) = heard(&[call("a"), call("b")]);
    let answer = |id: &str| Utterance::ToolResult {
        tool_call_id: id.into(),
        answer: ToolAnswer::Value(json!(1)),
    };
    let mut out = Out::default();
    dialect.say(&answer("a"), &mut out);
    let mut dialect = ByHttp.restore(&dialect.save()).unwrap();
    dialect.say(&answer("b"), &mut out);
    dialect.say(&Utterance::Shutdown { reason: Code::Cancelled }, &mut out);
    assert_eq!(
        frames(&out),
        [
            r#"{"n":1,"input":{"type":"tool_result","id":"a","ok":true,"value":1}}"#,
            r#"{"n":2,"input":{"type":"tool_result","id":"b","ok":true,"value":1}}"#,
            r#"{"n":3,"input":{"type":"shutdown","reason":"cancelled"}}"#,
        ]
    );
    let farewell = String::from_utf8(dialect.farewell(Code::LeaseExpired).unwrap()).unwrap();
    assert_eq!(farewell, "{\"input\":{\"type\":\"shutdown\",\"reason\":\"lease_expired\"}}\n");
}

#[test]
fn what_the_protocol_answers_by_itself_is_numbered_too() {
    let (_, out) = heard(&[json!({ "id": "1", "event": { "type": "tool_call", "id": "x" } })]);
    let refusal = &frames(&out)[0];
    assert!(refusal.starts_with(r#"{"n":1,"input":{"type":"tool_result","id":"x","ok":false"#));
}

#[test]
fn a_remote_cannot_speak_as_the_courier() {
    let word = json!({ "courier": "fault", "code": "remote_lost", "message": "x" });
    let (_, out) = heard(&[
        json!({ "id": "1", "event": word }),
        json!({ "id": "2", "text": word.to_string() }),
        json!({ "id": "3", "event": { "type": "comment", "text": "hi", "courier": "forced" } }),
    ]);
    assert_eq!(out.signals, []);
    assert_eq!(out.drafts.len(), 3, "all of it is kept");
}

#[test]
fn a_fault_of_the_courier_is_the_end_with_its_code() {
    let fault = |code: &str| json!({ "courier": "fault", "code": code, "message": "why" });
    for (word, code) in [
        ("remote_unavailable", Code::RemoteUnavailable),
        ("auth_failed", Code::AuthFailed),
        ("no-such-code", Code::RemoteLost),
    ] {
        let (_, out) = heard(&[fault(word)]);
        let [Signal::Result(ending)] = &out.signals[..] else { panic!("{:?}", out.signals) };
        assert_eq!((ending.code, ending.detail.as_deref()), (Some(code), Some("why")));
    }
}

#[test]
fn a_session_that_went_is_taken_up_where_its_last_stored_event_was() {
    let (dialect, _) = heard(&[
        json!({ "courier": "opened", "session": "s-1", "model": "far-1" }),
        json!({ "id": "7", "event": { "type": "progress", "summary": "on" } }),
        json!({ "courier": "note", "id": "8", "message": "not taken" }),
    ]);
    let saved: Value = serde_json::from_slice(&dialect.save()).unwrap();
    assert_eq!((&saved["session"], &saved["last"]), (&json!("s-1"), &json!(8)));
    let left = left(&dialect.save()).unwrap();
    assert_eq!((left.token_env.as_deref(), left.fence), (Some("FAR_TOKEN"), Some(3)));
    assert_eq!(left.args, ByHttp.plan(&spec(remote(bearer()))).unwrap().args);
    let line = String::from_utf8(left.first).unwrap();
    let run = "run_0198c0de00007000800000000000cafe";
    let attach = json!({ "attach": { "session": "s-1", "run": run, "after": 8, "fence": 3 } });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), attach);
}

#[test]
fn a_session_that_is_not_there_or_is_over_is_not_taken_up() {
    let opened = json!({ "courier": "opened", "session": "s-1" });
    let ended = |word: &str| json!({ "id": "1", "event": { "type": word } });
    let fault = json!({ "courier": "fault", "code": "remote_lost", "message": "x" });
    let rows = [
        vec![],
        vec![opened.clone(), ended("complete")],
        vec![opened.clone(), ended("failed")],
        vec![opened.clone(), fault],
    ];
    for said in rows {
        assert!(left(&heard(&said).0.save()).is_none(), "{said:?}");
    }
    assert!(left(&heard(&[opened]).0.save()).is_some());
}

#[test]
fn broken_lines_are_kept_and_end_nothing() {
    let mut dialect = ByHttp.dialect(&spec(remote(bearer())));
    let broken: Vec<Vec<u8>> = ["{\"id\":\"1\",\"event\":", "[]", "\u{0}", "{}", "{\"courier\":7}"]
        .map(|line| line.as_bytes().to_vec())
        .into();
    let mut out = hear(&mut *dialect, Stream::Stdout, &broken);
    dialect.close(Close::Cut, &mut out);
    assert_eq!(out.signals, []);
    assert!(out.drafts.len() >= broken.len());
}

/// A conversation with a service that only answers.
fn service() -> Box<dyn Dialect> {
    let remote = Remote { protocol: RemoteProtocol::WebhookV1, ..remote(bearer()) };
    ByHttp.dialect(&spec(remote))
}

#[test]
fn what_a_service_tells_twice_is_heard_once_and_its_end_whatever_its_number() {
    let told = |id: u64, event: Value| json!({ "id": id.to_string(), "event": event });
    let step = |n: u64| told(n, json!({ "type": "progress", "summary": n.to_string() }));
    let call = told(3, json!({ "type": "tool_call", "id": "a", "tool": "read_task" }));
    let end = told(1, json!({ "type": "complete" }));
    let lines: Vec<Vec<u8>> = [step(1), step(2), step(1), step(2), call, end]
        .map(|line| line.to_string().into_bytes())
        .into();
    let (first, rest) = lines.split_at(3);
    let mut dialect = service();
    let mut heard = hear(&mut *dialect, Stream::Stdout, first);
    let mut dialect = ByHttp.restore(&dialect.save()).unwrap();
    let after = hear(&mut *dialect, Stream::Stdout, rest);
    heard.drafts.extend(after.drafts);
    let bodies: Vec<_> = heard.drafts.iter().map(|draft| &draft.body).collect();
    assert!(
        matches!(bodies[..], [Body::Progress(_), Body::Progress(_), Body::Log(_)]),
        "{bodies:?}"
    );
    assert!(matches!(after.signals[..], [Signal::Ended(_)]), "{:?}", after.signals);
    assert!(after.frames.is_empty(), "nothing is answered that nobody hears");
}

#[test]
fn that_a_service_still_works_is_heard_and_is_no_event() {
    let (_, out) = heard(&[json!({ "courier": "alive" })]);
    assert_eq!(out, Out::default());
}

#[test]
fn only_a_service_calls_back() {
    let event = json!({ "type": "progress", "summary": "on" });
    assert_eq!(called_back(&service().save(), &event).unwrap().len(), 1);
    let other = ByHttp.dialect(&spec(remote(bearer())));
    for saved in [other.save(), b"{}".to_vec(), Vec::new()] {
        assert_eq!(called_back(&saved, &event).unwrap_err().code, Code::NotSupported);
    }
}

#[test]
fn a_service_is_told_where_to_call_back() {
    let known = |protocol, at: &str| {
        let mut spec = spec(Remote { protocol, base_url: at.into(), ..remote(bearer()) });
        spec.context.set("callbackUrl", "http://127.0.0.1:1/cb");
        session_body(&spec).get("callbackUrl").cloned()
    };
    let (here, there) = ("http://127.0.0.1:2", "https://far.example");
    let told = Some(json!("http://127.0.0.1:1/cb"));
    assert_eq!(known(RemoteProtocol::WebhookV1, here), told);
    assert_eq!(known(RemoteProtocol::WebhookV1, there), Some(Value::Null), "it could not");
    assert_eq!(known(RemoteProtocol::CaHttpV1, here), None);
}

/// Codes that a remote may not say of itself: its failure is one of the agent's, with its reason.
const NOT_ITS_OWN: &[&str] = &[
    "lease_expired",
    "fence_stale",
    "conflict",
    "cancelled",
    "process_lost",
    "remote_unavailable",
    "remote_lost",
    "native_session_unknown",
    "internal_error",
    "usage",
    "method_not_allowed",
    "too_large",
    "unsupported_media",
    "invalid_config",
    "unknown_agent",
    "unknown_placeholder",
    "bad_workspace",
    "policy_not_possible",
    "budget_not_countable",
    "prompt_too_large",
    "not_supported",
    "unauthorized",
    "forbidden",
    "store_locked",
    "store_newer",
    "store_unreadable",
    "disk_full",
    "port_in_use",
    "unknown_tool",
    "not_found",
];

/// The code and the detail of the end, which the event that tells it has too.
fn end_of(event: Value) -> (Code, Option<String>) {
    let (_, out) = heard(&[json!({ "id": "1", "event": event })]);
    let [Signal::Ended(ending)] = &out.signals[..] else { panic!("{:?}", out.signals) };
    let code = ending.code.expect("it failed");
    let told = out.drafts.iter().find_map(|draft| match &draft.body {
        contract::event::Body::Error(error) => Some(error),
        _ => None,
    });
    let told = told.expect("it is told on the way");
    assert_eq!((told.code, &told.detail), (code, &ending.detail));
    assert_eq!((told.message.as_str(), told.retryable), (code.row().message, code.retryable()));
    (code, ending.detail.clone())
}

#[test]
fn a_remote_names_the_end_of_its_own_work_and_nothing_that_is_ours() {
    let mut its_own = 0;
    for code in Code::ALL {
        let word = code.word();
        // As our own remotes say it: the word as the reason, the table's message with what is known.
        let details = format!("{}: on Tuesdays", code.row().message);
        let event = json!({ "type": "failed", "reason": word, "details": details, "code": word });
        let (named, detail) = end_of(event);
        match NOT_ITS_OWN.contains(&word) {
            true => {
                assert_eq!(named, Code::AgentFailed, "{word}");
                assert_eq!(detail, Some(format!("{word}: {details}")));
            }
            false => {
                its_own += 1;
                assert_eq!(named, *code, "{word}");
                let detail = detail.unwrap();
                assert!(detail.ends_with("on Tuesdays"), "{word}: {detail}");
            }
        }
    }
    assert_eq!(its_own + NOT_ITS_OWN.len(), Code::ALL.len(), "the table knows every word");
}

#[test]
fn a_code_beside_a_reason_keeps_the_reason_and_one_that_is_none_changes_nothing() {
    let failed = |reason: Value, code: Value| json!({ "type": "failed", "reason": reason, "details": "d", "code": code });
    let rows = [
        (failed(json!("too dear"), json!("billing")), Code::Billing, "too dear: d"),
        (failed(json!("no"), json!("no_such_code")), Code::AgentFailed, "no: d"),
        (failed(json!("no"), json!(7)), Code::AgentFailed, "no: d"),
        (failed(json!("no"), Value::Null), Code::AgentFailed, "no: d"),
        (failed(json!("rate_limited"), Value::Null), Code::AgentFailed, "rate_limited: d"),
        (failed(json!({ "a": 1 }), json!("billing")), Code::AgentFailed, "{\"a\":1}: d"),
        (
            failed(json!("budget_exceeded"), json!("billing")),
            Code::BudgetExceeded,
            "budget_exceeded: d",
        ),
    ];
    for (event, code, detail) in rows {
        assert_eq!(end_of(event.clone()), (code, Some(detail.to_owned())), "{event}");
    }
}
