//! The dialect by conversations that were not recorded: one row per kind of update, what is said
//! when, models that are refused, questions and their answers, and that no line can break it.
//! What real agents said is played for all runtimes at once elsewhere; here a few of their lines
//! are the rows.

mod calls;
mod conduct;
mod interrupts;
mod modes;
mod turn_end;

use super::*;
use crate::{Frame, Out, Stream};
use contract::event::{Body, StopReason, ToolStatus};
use contract::plan::{Adapter, StdinMode};
use contract::speech::{Close, Ending, Question};
use contract::{NanoUsd, Signal, Utterance};
use proptest::prelude::*;
use serde_json::Value;
use std::path::PathBuf;

pub(super) fn spec() -> Spec {
    let mut context = template::Context::new();
    context
        .set("mcpUrl", "http://127.0.0.1:9/mcp")
        .set("workspacePath", "/w/1")
        .set("leaseToken", "token-1");
    let (name, runtime) = ("a".to_owned(), "acp".to_owned());
    let (binary, args) = (Some("agent".to_owned()), vec!["acp".to_owned()]);
    Spec {
        adapter: Adapter { name, runtime, binary, args, mcp: true, ..Adapter::default() },
        context,
        model: None,
        prompt: "mend it".into(),
        system_prompt: None,
        policy: Policy::AllowAll,
        lane: Lane::Acp,
        session: None,
        budget: Default::default(),
        counts_spending: false,
        files: "/files".into(),
        as_root: false,
        own_program: "/bin/ostler".into(),
        caller_env: Default::default(),
    }
}

fn hear(dialect: &mut dyn Dialect, line: &str) -> Out {
    let mut out = heard(dialect, Stream::Stdout, line);
    // Nearly every line shows progress; one test is about which.
    out.signals.retain(|signal| *signal != Signal::Progress);
    out
}

fn heard(dialect: &mut dyn Dialect, stream: Stream, line: &str) -> Out {
    let mut out = Out::default();
    let (bytes, cut) = (line.as_bytes(), false);
    dialect.hear(&Frame { stream, line: 1, bytes, cut }, &mut out);
    out
}

fn told(dialect: &mut dyn Dialect, line: &Value) -> Out {
    hear(dialect, &line.to_string())
}

fn say(dialect: &mut dyn Dialect, utterance: &Utterance) -> Out {
    let mut out = Out::default();
    dialect.say(utterance, &mut out);
    out
}

fn frames(out: &Out) -> Vec<Value> {
    out.frames.iter().map(|frame| serde_json::from_slice(frame).unwrap()).collect()
}

fn bodies(out: &Out) -> Vec<Value> {
    out.drafts.iter().map(|draft| serde_json::to_value(&draft.body).unwrap()).collect()
}

fn ending(out: &Out) -> Option<&Ending> {
    out.signals.iter().find_map(|signal| match signal {
        Signal::Result(ending) => Some(ending),
        _ => None,
    })
}

fn question(out: &Out) -> &Question {
    let asked = out.signals.iter().find_map(|signal| match signal {
        Signal::Asked(question) => Some(question),
        _ => None,
    });
    asked.expect("a question")
}

fn reply(id: u64, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn refusal(id: u64, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn update(update: Value) -> Value {
    let params = json!({ "sessionId": "s", "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}

fn chunk(text: &str) -> Value {
    let content = json!({ "type": "text", "text": text });
    update(json!({ "sessionUpdate": "agent_message_chunk", "content": content }))
}

/// The answer to a greeting.
fn greeting(capabilities: Value) -> Value {
    let info = json!({ "name": "an agent", "version": "1" });
    reply(0, json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info }))
}

fn greeted(spec: &Spec, capabilities: Value) -> (Box<dyn Dialect>, Out) {
    let mut dialect = Acp.dialect(spec);
    assert!(dialect.open().is_some());
    let out = told(&mut *dialect, &greeting(capabilities));
    (dialect, out)
}

/// A dialect in its first turn, whose prompt is request 2.
fn in_turn() -> Box<dyn Dialect> {
    let (mut dialect, _) = greeted(&spec(), json!({}));
    told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
    dialect
}

fn permission(id: Value, options: &[(&str, &str)]) -> Value {
    let option = |(id, kind): &(&str, &str)| json!({ "optionId": id, "kind": kind, "name": id });
    let options: Vec<_> = options.iter().map(option).collect();
    let call =
        json!({ "toolCallId": "c", "title": "run ls", "kind": "execute", "rawInput": { "x": 1 } });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params })
}

#[test]
fn a_plan_is_the_configured_command_with_an_open_input() {
    let mut spec = spec();
    spec.adapter.args = vec!["--dir".into(), "{{workspacePath}}".into()];
    let plan = Acp.plan(&spec).unwrap();
    assert_eq!(
        (plan.program.as_str(), plan.lane, plan.stdin),
        ("agent", Lane::Acp, StdinMode::Jsonrpc)
    );
    assert_eq!(plan.args, ["--dir", "/w/1"]);
    spec.adapter.binary = None;
    assert_eq!(Acp.plan(&spec).unwrap_err().code, Code::InvalidConfig);
}

#[test]
fn the_greeting_leads_to_a_session_and_the_session_to_a_turn() {
    let spec = Spec { system_prompt: Some("be brief".into()), ..spec() };
    let mut dialect = Acp.dialect(&spec);
    let hello: Value = serde_json::from_slice(&dialect.open().unwrap()).unwrap();
    assert_eq!(
        (&hello["method"], &hello["params"]["protocolVersion"]),
        (&json!("initialize"), &json!(1))
    );
    let none =
        json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
    assert_eq!(hello["params"]["clientCapabilities"], none);
    let new = frames(&told(&mut *dialect, &greeting(json!({}))));
    assert_eq!(
        (&new[0]["method"], &new[0]["params"]["cwd"]),
        (&json!("session/new"), &json!("/w/1"))
    );
    let out = told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
    let prompt = &frames(&out)[0];
    assert_eq!(
        (&prompt["method"], &prompt["params"]["sessionId"]),
        (&json!("session/prompt"), &json!("s"))
    );
    let text = "[SYSTEM INSTRUCTIONS]\nbe brief\n[END SYSTEM INSTRUCTIONS]\n\nmend it";
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": text }]));
    assert!(out.signals.contains(&Signal::Session { id: "s".into() }));
    assert!(out.signals.contains(&Signal::TurnStarted));
}

#[test]
fn another_version_of_the_protocol_is_refused_by_name() {
    let rows = [
        (json!(2), Code::NotSupported, "version 2 of ACP"),
        (json!(0), Code::NotSupported, "version 0 of ACP"),
        (Value::Null, Code::ProtocolError, "without a version"),
    ];
    for (version, code, words) in rows {
        let mut dialect = Acp.dialect(&spec());
        dialect.open();
        let out = told(&mut *dialect, &reply(0, json!({ "protocolVersion": version })));
        let ending = ending(&out).unwrap();
        assert_eq!(ending.code, Some(code));
        assert!(ending.detail.as_ref().unwrap().contains(words), "{ending:?}");
        assert!(out.frames.is_empty(), "nothing more is said to it");
    }
}

#[test]
fn the_relay_is_offered_as_the_agent_takes_it() {
    let http = json!({ "mcpCapabilities": { "http": true } });
    let (_, out) = greeted(&spec(), http.clone());
    let header = json!([{ "name": "Authorization", "value": "Bearer token-1" }]);
    let by_address = json!([{ "type": "http", "name": "ostler", "url": "http://127.0.0.1:9/mcp", "headers": header }]);
    assert_eq!(frames(&out)[0]["params"]["mcpServers"], by_address);
    let (_, out) = greeted(&spec(), json!({}));
    let env = json!([
        { "name": "MCP_SERVER_URL", "value": "http://127.0.0.1:9/mcp" },
        { "name": "OSTLER_LEASE_TOKEN", "value": "token-1" },
    ]);
    let by_program =
        json!([{ "name": "ostler", "command": "/bin/ostler", "args": ["mcp-proxy"], "env": env }]);
    assert_eq!(frames(&out)[0]["params"]["mcpServers"], by_program);
    let mut off = spec();
    off.adapter.mcp = false;
    let (_, out) = greeted(&off, http);
    assert_eq!(frames(&out)[0]["params"]["mcpServers"], json!([]));
}

#[test]
fn a_token_is_not_kept_after_the_session_and_a_redacted_one_is_not_offered() {
    let mut dialect = Acp.dialect(&spec());
    dialect.open();
    let saved = String::from_utf8(dialect.save()).unwrap();
    assert!(saved.contains("token-1"));
    let mut moved = Acp.restore(saved.replace("token-1", "[redacted]").as_bytes()).unwrap();
    let out = told(&mut *moved, &greeting(json!({})));
    assert_eq!(frames(&out)[0]["params"]["mcpServers"], json!([]));
    assert!(bodies(&out).iter().any(|body| body["level"] == "warning"));
    told(&mut *dialect, &greeting(json!({})));
    assert!(!String::from_utf8(dialect.save()).unwrap().contains("token-1"));
}

#[test]
fn a_session_is_taken_up_again_by_what_the_agent_offers() {
    let spec = Spec { session: Some("old".into()), ..spec() };
    let rows = [
        (json!({ "loadSession": true }), Some("session/load")),
        (json!({ "sessionCapabilities": { "resume": {} } }), Some("session/resume")),
        (json!({}), None),
    ];
    for (capabilities, method) in rows {
        let (mut dialect, out) = greeted(&spec, capabilities);
        let Some(method) = method else {
            assert!(out.signals.contains(&Signal::SessionUnknown));
            assert_eq!(ending(&out).unwrap().code, Some(Code::NativeSessionUnknown));
            continue;
        };
        let asked = &frames(&out)[0];
        assert_eq!(
            (&asked["method"], &asked["params"]["sessionId"]),
            (&json!(method), &json!("old"))
        );
        let out = told(&mut *dialect, &reply(1, Value::Null));
        let session = bodies(&out).into_iter().find(|body| body["kind"] == "session").unwrap();
        assert_eq!(
            (&session["native_session"], &session["resumed"]),
            (&json!("old"), &json!(true))
        );
    }
}

#[test]
fn a_session_that_cannot_be_loaded_is_unknown_unless_the_login_is_missing() {
    let spec = Spec { session: Some("old".into()), ..spec() };
    let rows = [(-32_603, Code::NativeSessionUnknown), (-32_000, Code::AuthRequired)];
    for (number, code) in rows {
        let (mut dialect, _) = greeted(&spec, json!({ "loadSession": true }));
        let out = told(&mut *dialect, &refusal(1, number, "no"));
        assert_eq!(ending(&out).unwrap().code, Some(code));
        let unknown = out.signals.contains(&Signal::SessionUnknown);
        assert_eq!(unknown, code == Code::NativeSessionUnknown);
    }
}

#[test]
fn history_is_not_news() {
    let spec = Spec { session: Some("s".into()), ..spec() };
    let (mut dialect, _) = greeted(&spec, json!({ "loadSession": true }));
    let before = [
        chunk("old answer"),
        update(
            json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "old" } }),
        ),
        update(json!({ "sessionUpdate": "tool_call", "toolCallId": "o", "rawInput": { "x": 1 } })),
        update(json!({ "sessionUpdate": "plan", "entries": [] })),
        update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2,
            "cost": { "amount": 1.0, "currency": "USD" } })),
    ];
    for line in before {
        let out = told(&mut *dialect, &line);
        assert_eq!(bodies(&out), Vec::<Value>::new(), "{line}");
    }
    told(&mut *dialect, &reply(1, json!({})));
    // Of dollars that are told for the whole session, only those of this run count.
    let line = update(json!({ "sessionUpdate": "usage_update", "cost": { "amount": 1.5 } }));
    let out = told(&mut *dialect, &line);
    assert_eq!(bodies(&out)[0]["reported_nanousd"], json!(NanoUsd(500_000_000)));
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    assert_eq!(ending(&out).unwrap().code, Some(Code::EndedWithoutResult), "nothing new was said");
}

#[test]
fn history_that_is_told_after_the_session_is_open_is_not_news_either() {
    let spec = Spec { session: Some("s".into()), ..spec() };
    for (name, late) in [("gemini-cli", true), ("an agent", false)] {
        let mut dialect = Acp.dialect(&spec);
        dialect.open();
        let mut greeting = greeting(json!({ "loadSession": true }));
        greeting["result"]["agentInfo"]["name"] = json!(name);
        told(&mut *dialect, &greeting);
        let out = told(&mut *dialect, &reply(1, json!({})));
        let asked = &frames(&out)[0]["method"];
        if !late {
            assert_eq!(asked, "session/prompt", "{name} keeps the order of the protocol");
            continue;
        }
        assert_eq!(asked, "_ostler/echo");
        assert_eq!(bodies(&told(&mut *dialect, &chunk("old answer"))), Vec::<Value>::new());
        let out = told(&mut *dialect, &refusal(2, -32_601, "no such method"));
        assert_eq!(frames(&out)[0]["method"], "session/prompt");
        assert_eq!(bodies(&told(&mut *dialect, &chunk("new answer")))[0]["text"], "new answer");
    }
}

/// An option by which the model is chosen.
fn model_option() -> Value {
    json!([{ "id": "model", "category": "model", "type": "select", "currentValue": "m-0" }])
}

#[test]
fn a_model_is_asked_for_by_the_option_first_and_refusals_are_survived() {
    let mut spec = Spec { model: Some("m-1".into()), ..spec() };
    spec.adapter.fallback_models = vec!["m-2".into(), "default".into(), "m-3".into()];
    let (mut dialect, _) = greeted(&spec, json!({}));
    let session = json!({ "sessionId": "s", "models": {}, "configOptions": model_option() });
    let mut out = told(&mut *dialect, &reply(1, session));
    let ways = [
        (
            "session/set_config_option",
            json!({ "sessionId": "s", "configId": "model", "value": "m-1" }),
            -32_603,
        ),
        ("session/set_model", json!({ "sessionId": "s", "modelId": "m-1" }), -32_602),
        (
            "session/set_config_option",
            json!({ "sessionId": "s", "configId": "model", "value": "m-2" }),
            -32_601,
        ),
        ("session/set_model", json!({ "sessionId": "s", "modelId": "m-2" }), -32_002),
    ];
    for (id, (method, params, code)) in (2..).zip(ways) {
        let asked = frames(&out).pop().unwrap();
        assert_eq!((&asked["method"], &asked["params"]), (&json!(method), &params));
        out = told(&mut *dialect, &refusal(id, code, "no such model"));
        assert!(ending(&out).is_none());
    }
    assert_eq!(frames(&out)[0]["method"], "session/prompt", "it goes on with its own choice");
    let error = bodies(&out).into_iter().find(|body| body["kind"] == "error").unwrap();
    assert_eq!(error["code"], "model_not_found");
    let session = bodies(&out).into_iter().find(|body| body["kind"] == "session").unwrap();
    assert_eq!(session["model"], "m-0");
}

#[test]
fn a_model_that_is_taken_ends_the_asking() {
    let spec = Spec { model: Some("m-1".into()), ..spec() };
    let (mut dialect, _) = greeted(&spec, json!({}));
    let out = told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
    assert_eq!(frames(&out)[0]["method"], "session/set_model", "the older way is tried unoffered");
    let out = told(&mut *dialect, &reply(2, json!({})));
    let session = bodies(&out).into_iter().find(|body| body["kind"] == "session").unwrap();
    assert_eq!(session["model"], "m-1");
    assert_eq!(frames(&out)[0]["method"], "session/prompt");
}

#[test]
fn a_model_that_is_refused_for_want_of_a_login_ends_the_run() {
    let spec = Spec { model: Some("m-1".into()), ..spec() };
    let (mut dialect, _) = greeted(&spec, json!({}));
    told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
    let out = told(&mut *dialect, &refusal(2, -32_000, "Authentication required"));
    assert_eq!(ending(&out).unwrap().code, Some(Code::AuthRequired));
}

/// Every kind of update that is known, and what it becomes.
fn rows() -> Vec<(Value, Vec<Value>)> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let note = |text: &str| vec![json!({ "kind": "log", "stream": "ostler", "text": text })];
    vec![
        (
            json!({ "sessionUpdate": "agent_message_chunk", "content": text("hi"), "messageId": "m" }),
            vec![
                json!({ "kind": "assistant_text", "text": "hi", "block": "message m", "delta": true }),
            ],
        ),
        (
            json!({ "sessionUpdate": "agent_thought_chunk", "content": text("hm") }),
            vec![json!({ "kind": "thinking", "text": "hm", "block": "thought 1", "delta": true })],
        ),
        (
            json!({ "sessionUpdate": "user_message_chunk", "content": text("do") }),
            vec![json!({ "kind": "user_text", "text": "do" })],
        ),
        (
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "data": "…" } }),
            vec![
                json!({ "kind": "assistant_text", "text": "[image]", "block": "message 1", "delta": true }),
            ],
        ),
        (
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "read", "title": "Read a",
                "rawInput": { "path": "a" }, "locations": [{ "path": "a", "line": 3 }] }),
            vec![
                json!({ "kind": "tool_use", "tool_call_id": "c", "name": "read", "title": "Read a",
                "input": { "path": "a" }, "via": "native", "tool_kind": "read",
                "locations": [{ "path": "a", "line": 3 }] }),
            ],
        ),
        (
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "new", "status": "completed",
                "title": "ls", "kind": "execute", "rawOutput": { "exit": 0 } }),
            vec![
                json!({ "kind": "tool_use", "tool_call_id": "new", "name": "execute", "title": "ls",
                    "input": null, "via": "native", "tool_kind": "execute" }),
                json!({ "kind": "tool_result", "tool_call_id": "new", "status": "ok",
                    "output": { "exit": 0 } }),
            ],
        ),
        (
            json!({ "sessionUpdate": "agent_message_chunk",
                "content": { "type": "resource_link", "uri": "file:///a", "name": "a" } }),
            vec![json!({ "kind": "assistant_text", "text": "[resource_link file:///a]",
                    "block": "message 1", "delta": true })],
        ),
        (
            json!({ "sessionUpdate": "user_message_chunk",
                "content": { "type": "resource", "resource": { "uri": "file:///b", "text": "…" } } }),
            vec![json!({ "kind": "user_text", "text": "[resource file:///b]" })],
        ),
        (
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "d", "status": "completed",
                "kind": "edit", "content": [
                    { "type": "diff", "path": "a", "oldText": null, "newText": "y" },
                    { "type": "content", "content": text("done") },
                    { "type": "terminal", "terminalId": "t" },
                ] }),
            vec![
                json!({ "kind": "tool_use", "tool_call_id": "d", "name": "edit", "input": null,
                    "via": "native", "tool_kind": "edit" }),
                json!({ "kind": "tool_result", "tool_call_id": "d", "status": "ok",
                    "output": "done" }),
                json!({ "kind": "diff", "path": "a", "new_text": "y", "tool_call_id": "d" }),
            ],
        ),
        (
            json!({ "sessionUpdate": "tool_call", "toolCallId": "f", "status": "failed",
                "name": "Bash", "rawOutput": "exit 1" }),
            vec![
                json!({ "kind": "tool_use", "tool_call_id": "f", "name": "Bash", "input": null,
                    "via": "native" }),
                json!({ "kind": "tool_result", "tool_call_id": "f", "status": "error",
                    "output": "exit 1" }),
            ],
        ),
        (
            json!({ "sessionUpdate": "plan",
                "entries": [{ "content": "look", "status": "completed", "priority": "high" }] }),
            vec![json!({ "kind": "plan",
                "entries": [{ "text": "look", "status": "completed", "priority": "high" }] })],
        ),
        (
            json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }),
            note("its mode is now 'code'"),
        ),
        (
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": [{}, {}] }),
            note("it offers 2 commands of its own"),
        ),
        (
            json!({ "sessionUpdate": "config_option_update", "configOptions": model_option() }),
            note("its options are now model = m-0"),
        ),
        (
            json!({ "sessionUpdate": "notice", "severity": "warning", "title": "Old model",
                "description": "it is gone in May" }),
            vec![json!({ "kind": "log", "stream": "ostler", "level": "warning",
                "text": "Old model: it is gone in May" })],
        ),
        (
            json!({ "sessionUpdate": "compaction_update", "compactionId": "c",
                "status": "in_progress" }),
            note("it makes its conversation shorter: in_progress"),
        ),
        (
            json!({ "sessionUpdate": "session_info_update", "title": "Mending" }),
            note("its session is called 'Mending'"),
        ),
        (
            json!({ "sessionUpdate": "usage_update", "used": 5, "size": 10,
                "cost": { "amount": 0.25, "currency": "USD" } }),
            vec![
                json!({ "kind": "usage", "basis": "increment", "context": { "used": 5, "size": 10 },
                "reported_nanousd": 250_000_000, "effective_nanousd": null,
                "cost_source": "unpriced" }),
            ],
        ),
    ]
}

#[test]
fn every_kind_of_update_becomes_its_event() {
    for (heard, expected) in rows() {
        let mut dialect = in_turn();
        assert_eq!(bodies(&told(&mut *dialect, &update(heard.clone()))), expected, "{heard}");
    }
}

#[test]
fn usage_beside_an_update_is_counted_once() {
    let mut dialect = in_turn();
    let usage = |output: u64| {
        json!({ "inputTokens": 10, "outputTokens": output, "cachedReadTokens": 4,
            "totalTokens": 14 + output })
    };
    let said = |output: u64| {
        update(json!({ "sessionUpdate": "agent_message_chunk", "_meta": { "usage": usage(output) },
            "content": { "type": "text", "text": "x" } }))
    };
    let call = update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t" }));
    let lines = [said(1), said(1), said(3), call.clone(), said(3)];
    let outs: Vec<Out> = lines.iter().map(|line| told(&mut *dialect, line)).collect();
    let spent = |out: &Out| -> u64 {
        let tokens = out.signals.iter().filter_map(|signal| match signal {
            Signal::Spent(usage) => usage.tokens,
            _ => None,
        });
        tokens.map(|tokens| tokens.total()).sum()
    };
    assert_eq!(outs.iter().map(spent).collect::<Vec<_>>(), [15, 0, 2, 0, 17]);
    let answers = outs.iter().flat_map(|out| &out.signals);
    assert_eq!(answers.filter(|signal| **signal == Signal::ModelAnswer).count(), 2);
    // The reply tells the whole turn: only what is new in it is added.
    let whole = json!({ "inputTokens": 20, "outputTokens": 7, "cachedReadTokens": 8,
        "totalTokens": 35 });
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn", "usage": whole })));
    assert_eq!(spent(&out), 1);
}

#[test]
fn an_update_that_is_not_known_is_kept() {
    let lines = [
        update(json!({ "sessionUpdate": "from_the_future", "x": 1 })),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": 7 })),
        update(json!({ "sessionUpdate": "tool_call", "title": "without an id" })),
        json!({ "method": "session/update", "params": { "sessionId": "another", "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "x" } } } }),
        json!({ "method": "_auth/status_update", "params": {} }),
        json!({ "id": 77, "result": {} }),
        json!({ "jsonrpc": "2.0" }),
        json!([1]),
        // A reader of structures takes a list for their fields: this would be the end of the turn.
        json!([null, 2, null, { "stopReason": "end_turn" }]),
    ];
    for line in lines {
        let out = told(&mut *in_turn(), &line);
        let kept = json!([{ "kind": "log", "stream": "stdout", "text": line.to_string(),
            "level": "unrecognised" }]);
        assert_eq!(json!(bodies(&out)), kept);
        assert!(out.frames.is_empty() && out.signals.is_empty(), "{line}");
    }
}

#[test]
fn an_error_of_any_shape_answers_its_request() {
    for (error, code, said) in [
        (json!("it broke"), Code::AgentFailed, "it broke"),
        (json!({ "code": "E1", "message": "broke" }), Code::AgentFailed, "E1"),
        (json!([-32_601]), Code::AgentFailed, "-32601"),
        (json!({ "code": -32_601, "message": "no such method" }), Code::ProtocolError, "no such"),
    ] {
        let out = told(&mut *in_turn(), &json!({ "jsonrpc": "2.0", "id": 2, "error": error }));
        let ending = ending(&out).unwrap_or_else(|| panic!("{error} ends the turn: {out:?}"));
        assert_eq!(ending.code, Some(code), "{error}");
        assert!(bodies(&out).iter().any(|body| body.to_string().contains(said)), "{out:?}");
    }
}

#[test]
fn a_request_that_is_not_served_is_refused_by_name() {
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "x/y"] {
        let line = json!({ "id": "r-1", "method": method, "params": { "path": "/etc/passwd" } });
        let out = told(&mut *in_turn(), &line);
        let answer = &frames(&out)[0];
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("r-1"), &json!(-32_601)));
    }
}

#[test]
fn an_answer_of_several_hundred_kilobytes_is_ordinary() {
    let mut dialect = in_turn();
    let text = "wört ".repeat(100_000);
    let out = told(&mut *dialect, &chunk(&text));
    assert_eq!(bodies(&out)[0]["text"].as_str().unwrap().len(), text.len());
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    let ending = ending(&out).unwrap();
    assert_eq!(ending.code, None);
    assert!(ending.text.as_ref().unwrap().len() <= contract::limits::TEXT_BYTES_MAX);
    assert!(dialect.save().len() < 2 * contract::limits::TEXT_BYTES_MAX, "the state stays bounded");
}

#[test]
fn every_stop_reason_has_its_outcome() {
    let rows = [
        (json!({ "stopReason": "end_turn" }), StopReason::EndTurn, None),
        (json!({ "stopReason": "max_tokens" }), StopReason::MaxTokens, Some(Code::AnswerCut)),
        (json!({ "stopReason": "max_turn_requests" }), StopReason::MaxTurns, Some(Code::MaxTurns)),
        (json!({ "stopReason": "refusal" }), StopReason::Refusal, Some(Code::ModelRefusal)),
        (json!({ "stopReason": "cancelled" }), StopReason::Cancelled, Some(Code::Cancelled)),
        (json!({ "stopReason": "bored" }), StopReason::Error, Some(Code::ProtocolError)),
        (json!({}), StopReason::Error, Some(Code::ProtocolError)),
        (Value::Null, StopReason::Error, Some(Code::ProtocolError)),
    ];
    for (result, stop, code) in rows {
        let mut dialect = in_turn();
        told(&mut *dialect, &chunk("done"));
        let out = told(&mut *dialect, &reply(2, result.clone()));
        assert!(out.signals.contains(&Signal::TurnEnded { stop }), "{result}");
        let ending = ending(&out).unwrap();
        assert_eq!((ending.code, ending.text.as_deref()), (code, Some("done")), "{result}");
    }
}

#[test]
fn an_end_without_a_word_and_without_a_call_is_no_success() {
    let end = reply(2, json!({ "stopReason": "end_turn" }));
    let out = told(&mut *in_turn(), &end);
    assert_eq!(ending(&out).unwrap().code, Some(Code::EndedWithoutResult));
    let mut dialect = in_turn();
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "status": "completed" });
    told(&mut *dialect, &update(call));
    assert_eq!(ending(&told(&mut *dialect, &end)).unwrap().code, None, "a call is work");
}

#[test]
fn a_loaded_session_that_the_first_prompt_shows_unknown_is_begun_afresh() {
    let rows = [
        (-32_602, "Invalid params: session sess-77 was not found", Code::NativeSessionUnknown),
        (-32_602, "Invalid params", Code::ProtocolError),
        (-32_603, "Internal error in sess-77", Code::AgentFailed),
    ];
    for (number, message, code) in rows {
        let spec = Spec { session: Some("sess-77".into()), ..spec() };
        let (mut dialect, _) = greeted(&spec, json!({ "loadSession": true }));
        told(&mut *dialect, &reply(1, json!({})));
        let out = told(&mut *dialect, &refusal(2, number, message));
        assert_eq!(ending(&out).unwrap().code, Some(code), "{message}");
        let unknown = out.signals.contains(&Signal::SessionUnknown);
        assert_eq!(unknown, code == Code::NativeSessionUnknown, "{message}");
    }
}

#[test]
fn an_unknown_notification_that_tells_of_a_limit_counts_as_one() {
    let long = "x".repeat(3000);
    let rows = [
        (json!({ "category": "rate_limited", "detail": "HTTP 429" }), true),
        (json!({ "reason": "Too many requests" }), true),
        (json!({ "category": "network" }), false),
        (json!({ "text": format!("HTTP 429 {long}") }), false),
    ];
    for (params, limits) in rows {
        let mut dialect = in_turn();
        let line = json!({ "jsonrpc": "2.0", "method": "_session/retrying", "params": params });
        let out = told(&mut *dialect, &line);
        let limited = |signal: &Signal| matches!(signal, Signal::Limited(told) if told.code == Code::RateLimited);
        assert_eq!(out.signals.iter().any(limited), limits, "{line}");
        assert_eq!(bodies(&out)[0]["level"], "unrecognised");
        let text = json!({ "type": "text", "text": "again" });
        let out = told(
            &mut *dialect,
            &update(json!({ "sessionUpdate": "agent_message_chunk", "content": text })),
        );
        assert_eq!(out.signals.contains(&Signal::LimitLifted), limits, "{line}");
    }
}

#[test]
fn only_what_the_protocol_knows_is_progress() {
    let chunk = json!({ "type": "text", "text": "x" });
    let rows = [
        (update(json!({ "sessionUpdate": "agent_message_chunk", "content": chunk })), true),
        (update(json!({ "sessionUpdate": "a_kind_of_tomorrow" })), true),
        (json!({ "jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {} }), true),
        (json!({ "jsonrpc": "2.0", "method": "_session/alive", "params": {} }), false),
        (json!({ "jsonrpc": "2.0", "method": "_session/retrying", "params": "HTTP 429" }), false),
        (update(json!({ "sessionUpdate": "retrying", "reason": "HTTP 429" })), false),
        (json!({ "progress": 3 }), false),
        (json!({ "jsonrpc": "2.0", "id": 77, "result": {} }), false),
    ];
    for (line, progress) in rows {
        let out = heard(&mut *in_turn(), Stream::Stdout, &line.to_string());
        assert_eq!(out.signals.contains(&Signal::Progress), progress, "{line}");
    }
    assert_eq!(heard(&mut *in_turn(), Stream::Stdout, "not JSON").signals, []);
    assert_eq!(heard(&mut *in_turn(), Stream::Stderr, "thinking hard").signals, []);
}

#[test]
fn retries_in_a_log_count_as_a_limit() {
    let opencode = "timestamp=2026-11-19T22:43:08.612Z level=ERROR run=9ee9a506 \
        message=\"stream error\" providerID=scripted modelID=fake-model session.id=ses_x small=false \
        agent=build mode=primary error.error=\"AI_APICallError: You exceeded your current quota, please \
        check your plan and billing details.\"";
    let hermes = "2026-11-19 22:49:37 [WARNING] agent.conversation_loop: Retrying API call in 600s \
        (attempt 1/3) thread=acp-agent_0:1 provider=custom base_url=http://127.0.0.1:1/v1 \
        model=fake-model policy=default error=Error code: 429 - {'error': {'message': 'You exceeded your \
        current quota', 'code': 'insufficient_quota'}}";
    let rows = [
        (opencode, Some((Code::ProviderQuota, true, None))),
        (hermes, Some((Code::ProviderQuota, false, Some(600_000)))),
        ("WARN 429: rate limit reached, attempt 2 of 10", Some((Code::RateLimited, false, None))),
        ("the docs of the API tell of its rate limit", None),
        ("retrying: the connection was reset", None),
    ];
    for (line, expected) in rows {
        let mut dialect = in_turn();
        let out = heard(&mut *dialect, Stream::Stderr, line);
        let limited = out.signals.iter().find_map(|signal| match signal {
            Signal::Limited(told) => Some((told.code, told.terminal, told.wait_ms)),
            _ => None,
        });
        assert_eq!(limited, expected, "{line}");
        assert_eq!(bodies(&out)[0]["kind"], "log", "{line}");
    }
}

#[test]
fn the_prompt_said_back_is_no_event() {
    let piece = |text: &str| {
        let content = json!({ "type": "text", "text": text });
        update(json!({ "sessionUpdate": "user_message_chunk", "content": content }))
    };
    let shown = |texts: &[&str]| -> usize {
        let mut dialect = in_turn();
        texts.iter().map(|text| told(&mut *dialect, &piece(text)).drafts.len()).sum()
    };
    assert_eq!(shown(&["mend it"]), 0);
    assert_eq!(shown(&["mend ", "it\n"]), 0);
    assert_eq!(shown(&["mend it", "mend it"]), 1, "it is said back once");
    assert_eq!(shown(&["break it"]), 1);
}

#[test]
fn a_prompt_that_is_refused_ends_with_the_code_of_its_error() {
    let rows = [
        (-32_000, "Authentication required", Code::AuthRequired),
        (429, "slow down", Code::RateLimited),
        (-32_603, "Internal error: You have hit your usage limit", Code::ProviderQuota),
        (-32_602, "Invalid params", Code::ProtocolError),
        (-32_603, "Internal error", Code::AgentFailed),
    ];
    for (number, message, code) in rows {
        let out = told(&mut *in_turn(), &refusal(2, number, message));
        assert!(out.signals.contains(&Signal::TurnEnded { stop: StopReason::Error }));
        assert_eq!(ending(&out).unwrap().code, Some(code), "{message}");
        assert_eq!(bodies(&out).iter().filter(|body| body["kind"] == "error").count(), 1);
    }
}

#[test]
fn what_comes_after_the_end_changes_nothing() {
    let mut dialect = in_turn();
    told(&mut *dialect, &chunk("done"));
    told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    for line in [refusal(2, -32_603, "late"), refusal(9, -32_603, "clean-up")] {
        assert!(told(&mut *dialect, &line).signals.is_empty(), "{line}");
    }
}

#[test]
fn a_question_carries_its_options_by_kind_and_the_answer_goes_back_by_id() {
    for id in [json!(0), json!("a-1"), Value::Null] {
        let mut dialect = in_turn();
        let options = [
            ("x1", "allow_always"),
            ("x2", "allow_once"),
            ("x3", "allow_once"),
            ("x4", "reject_once"),
        ];
        let out = told(&mut *dialect, &permission(id.clone(), &options));
        if id.is_null() {
            assert!(out.signals.is_empty(), "a notification asks nothing");
            continue;
        }
        let asked = question(&out);
        assert_eq!((asked.title.as_str(), asked.reads), ("run ls", false));
        assert_eq!(asked.tool_call_id.as_deref(), Some("c"));
        let kinds: Vec<_> = asked.options.iter().map(|option| option.kind.as_str()).collect();
        assert_eq!(kinds, ["allow_always", "allow_once", "allow_once", "reject_once"]);
        let (request, option) = (asked.request.clone(), Some("x2".to_owned()));
        // Left and taken up between the question and its answer.
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        let decide = Utterance::Decide { request, option, reason: None };
        let answer = json!({ "outcome": { "outcome": "selected", "optionId": "x2" } });
        let expected = json!({ "jsonrpc": "2.0", "id": id, "result": answer });
        assert_eq!(frames(&say(&mut *dialect, &decide)), [expected]);
        let again = say(&mut *dialect, &decide);
        assert!(again.frames.is_empty() && !again.drafts.is_empty(), "it is answered once");
    }
}

#[test]
fn an_agent_that_takes_a_no_for_the_end_has_not_succeeded() {
    for (goes_on, code) in [(false, Some(Code::PermissionDenied)), (true, None)] {
        let mut dialect = in_turn();
        told(&mut *dialect, &chunk("I will look."));
        let out = told(&mut *dialect, &permission(json!(5), &[("n", "reject_once")]));
        let request = question(&out).request.clone();
        say(&mut *dialect, &Utterance::Decide { request, option: Some("n".into()), reason: None });
        let failed =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed" });
        let out = told(&mut *dialect, &update(failed));
        assert_eq!(bodies(&out)[0]["denied"], true);
        if goes_on {
            told(&mut *dialect, &chunk("Then not."));
        }
        let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
        assert_eq!(ending(&out).unwrap().code, code);
    }
}

#[test]
fn a_turn_that_the_agent_cancels_because_of_a_no_was_denied_and_not_cancelled_by_anybody() {
    let mut dialect = in_turn();
    let out = told(&mut *dialect, &permission(json!(5), &[("cancel", "reject_once")]));
    let request = question(&out).request.clone();
    say(&mut *dialect, &Utterance::Decide { request, option: Some("cancel".into()), reason: None });
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "cancelled" })));
    assert!(out.signals.contains(&Signal::TurnEnded { stop: StopReason::Cancelled }));
    assert_eq!(ending(&out).unwrap().code, Some(Code::PermissionDenied));
}

/// Every line that a real agent said, of all of them.
fn recorded_lines() -> Vec<String> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src/acp/recordings"].iter().collect();
    let names =
        ["gemini-tool", "claude-agent-acp-write", "codex-acp-rate_limit", "droid-tool.load"];
    let read = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.ndjson"))).unwrap();
    let lines = names.map(read).concat();
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["dir"] == "in").map(|entry| entry["msg"].to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_line_breaks_it_and_no_request_is_answered_twice(
        picks in prop::collection::vec((0usize..10_000, 0usize..2_000, any::<bool>()), 1..60),
        noise in ".{0,40}",
    ) {
        let lines = recorded_lines();
        let mut dialect = in_turn();
        let (mut asked, mut answered) = (0, 0);
        for (pick, cut, whole) in picks {
            let line = &lines[pick % lines.len()];
            let line = if whole { line.as_str() } else { &line[..line.floor_char_boundary(cut)] };
            let heard: Value = serde_json::from_str(line).unwrap_or_default();
            asked += usize::from(heard.get("method").is_some() && heard.get("id").is_some());
            let out = hear(&mut *dialect, line);
            answered += frames(&out).iter().filter(|frame| frame.get("method").is_none()).count();
            prop_assert!(answered <= asked, "{answered} answers to {asked} requests");
            dialect = Acp.restore(&dialect.save()).unwrap();
            hear(&mut *dialect, &noise);
        }
        let mut out = Out::default();
        dialect.close(Close::Cut, &mut out);
        prop_assert!(dialect.save().len() < 1 << 20);
    }
}
