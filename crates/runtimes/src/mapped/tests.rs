//! What the examples do not show by themselves: every kind of rule on lines of a made-up agent, the
//! ways to start it, what is wrong with a mapping, and that no line, however broken, does harm.

use super::{Mapped, mistakes};
use crate::template::Context;
use crate::{Dialect, ExitEvidence, Frame, Out, Runtime, Spec, Stream, trial};
use contract::event::{Body, ToolStatus};
use contract::limits::{
    MAPPING_BYTES_MAX, MAPPING_RULES_MAX, PROMPT_ARGV_BYTES_MAX, TEXT_BYTES_MAX,
    TOOL_CALLS_OPEN_MAX,
};
use contract::mapping::Mapping;
use contract::plan::{Adapter, ProjectContext, StdinMode};
use contract::speech::Close;
use contract::{Code, Policy, Signal, Utterance};
use proptest::prelude::*;
use serde_json::{Value, json};

fn mapping(value: Value) -> Mapping {
    serde_json::from_value(value).unwrap()
}

/// A made-up agent, in the form of messages with parts.
fn parts() -> Value {
    json!({
        "args": ["--json"],
        "with": { "session": ["--resume", "{{session}}"] },
        "policies": { "allow-all": ["--yes"] },
        "errors": { "words": [{ "says": "Purse is empty", "code": "billing" }] },
        "rules": [
            { "when": { "kind": "start" }, "session": { "id": "sid", "model": "model" } },
            {
                "when": { "kind": "message" }, "each": "parts[]", "where": { "type": "text" },
                "text": { "at": "text" }
            },
            {
                "when": { "kind": "message" }, "each": "parts[]", "where": { "type": "call" },
                "toolUse": { "id": "id", "name": "name", "input": "input", "parent": "$.parent" }
            },
            {
                "when": { "kind": "results" }, "each": "by_id",
                "toolResult": { "id": "@key", "output": "out", "ok": { "bad": { "exists": false } } }
            },
            {
                "when": { "kind": "spent" },
                "usage": { "basis": "increment", "input": ["in", "-cached"], "cacheRead": "cached" }
            },
            { "when": { "kind": "trouble" }, "error": { "message": "words", "status": "http" } },
            { "when": { "kind": "slow" }, "limit": { "message": "words", "waitSec": "sec" } },
            { "when": { "kind": "lost" }, "sessionUnknown": true },
            { "on": "stderr", "when": { "$": { "starts": "oh: " } }, "error": { "message": "$" } },
            { "when": { "kind": "end", "ok": true }, "end": { "success": true, "text": "answer" } },
            { "when": { "kind": "end" }, "end": { "success": false } },
            { "when": { "kind": "piece" }, "text": { "at": "t", "delta": true, "block": "b" } },
        ],
        "exit": {
            "codes": { "7": "auth_required" }, "words": [{ "says": "log in", "code": "auth_failed" }]
        },
    })
}

fn adapter(mapping: Mapping) -> Adapter {
    Adapter {
        name: "toy".to_owned(),
        binary: Some("toy".to_owned()),
        mapping: Some(mapping),
        ..Adapter::default()
    }
}

fn spec(adapter: Adapter) -> Spec {
    let context = Context::new();
    Spec { adapter, context, prompt: "do it".to_owned(), ..trial::spec("toy") }
}

fn toy(value: Value) -> (Mapped, Spec) {
    let spec = spec(adapter(mapping(value)));
    let mapped = Mapped::new(&spec.adapter, spec.adapter.mapping.as_ref().unwrap()).unwrap();
    (mapped, spec)
}

fn hear(dialect: &mut dyn Dialect, stream: Stream, lines: &[String]) -> Out {
    let mut out = Out::default();
    for (index, line) in lines.iter().enumerate() {
        let bytes = line.as_bytes();
        dialect.hear(&Frame { stream, line: index as u64 + 1, bytes, cut: false }, &mut out);
    }
    out
}

fn heard(lines: &[Value]) -> Out {
    let (mapped, spec) = toy(parts());
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    hear(&mut *mapped.dialect(&spec), Stream::Stdout, &lines)
}

fn result(out: &Out) -> Option<(Option<Code>, Option<String>)> {
    out.signals.iter().find_map(|signal| match signal {
        Signal::Result(ending) => Some((ending.code, ending.text.clone())),
        _ => None,
    })
}

fn call(id: &str) -> Value {
    json!({ "kind": "message", "parent": "boss", "parts": [
        { "type": "call", "id": id, "name": "look", "input": { "at": "x" } },
    ] })
}

#[test]
fn the_members_of_a_line_become_events_of_their_own() {
    let out = heard(&[
        json!({ "kind": "start", "sid": 17, "model": "m" }),
        json!({ "kind": "message", "parent": "boss", "parts": [
            { "type": "text", "text": "Let me see." },
            { "type": "call", "id": "a", "name": "look", "input": { "at": "x" } },
            { "type": "call", "id": "b", "name": "look" },
            { "type": "odd" },
        ] }),
        json!({ "kind": "results", "by_id": { "a": { "out": "1" }, "b": { "out": 2, "bad": 1 } } }),
        json!({ "kind": "spent", "in": 50, "cached": 20 }),
        json!({ "kind": "end", "ok": true, "answer": "seen" }),
    ]);
    let kinds: Vec<_> = out.drafts.iter().map(|draft| draft.body.kind()).collect();
    assert_eq!(
        kinds,
        [
            "session",
            "turn",
            "assistant_text",
            "tool_use",
            "tool_use",
            "tool_result",
            "tool_result",
            "usage",
            "turn"
        ]
    );
    let results = out.drafts.iter().filter_map(|draft| match &draft.body {
        Body::ToolResult(result) => Some((result.tool_call_id.as_str(), result.status)),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [("a", ToolStatus::Ok), ("b", ToolStatus::Error)]);
    let parents = out.drafts.iter().filter(|draft| match &draft.body {
        Body::ToolUse(call) => call.parent.as_deref() == Some("boss"),
        _ => false,
    });
    assert_eq!(parents.count(), 2);
    assert!(out.drafts.iter().any(|draft| match &draft.body {
        Body::Usage(usage) =>
            usage.tokens.is_some_and(|t| (t.input_uncached, t.cache_read) == (30, 20)),
        _ => false,
    }));
    assert_eq!(result(&out), Some((None, Some("seen".to_owned()))));
}

#[test]
fn an_end_means_what_was_told_before_it() {
    let failed = json!({ "kind": "end" });
    let rows = [
        (vec![json!({ "kind": "end", "ok": true })], Some(Code::EndedWithoutResult)),
        (vec![call("a"), json!({ "kind": "end", "ok": true })], None),
        (vec![failed.clone()], Some(Code::AgentFailed)),
        (vec![json!({ "kind": "trouble", "http": 503 }), failed.clone()], Some(Code::Overloaded)),
        (
            vec![json!({ "kind": "trouble", "words": "the purse is EMPTY", "http": 503 }), failed],
            Some(Code::Billing),
        ),
    ];
    for (lines, expected) in rows {
        let out = heard(&lines);
        assert_eq!(result(&out).map(|(code, _)| code), Some(expected), "{lines:?}");
        let after = heard(&[lines, vec![call("late")]].concat());
        assert_eq!(after.signals, out.signals, "nothing counts after the end");
    }
}

#[test]
fn a_limit_is_told_with_its_wait_and_lifted_by_the_next_word() {
    let out = heard(&[
        json!({ "kind": "slow", "words": "too many requests", "sec": 1.5 }),
        json!({ "kind": "message", "parts": [{ "type": "text", "text": "Back." }] }),
    ]);
    let told = out.signals.iter().filter_map(|signal| match signal {
        Signal::Limited(limited) => Some((limited.code.word(), limited.wait_ms)),
        Signal::LimitLifted => Some(("lifted", None)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [("rate_limited", Some(1500)), ("lifted", None)]);
}

#[test]
fn a_conversation_is_unknown_only_when_one_was_asked_for() {
    for (session, unknown, kinds) in [(None, 0, "log"), (Some("s".to_owned()), 1, "error")] {
        let (mapped, spec) = toy(parts());
        let spec = Spec { session, ..spec };
        let lines = [json!({ "kind": "lost" }).to_string()];
        let out = hear(&mut *mapped.dialect(&spec), Stream::Stdout, &lines);
        let found = out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown);
        assert_eq!(found.count(), unknown);
        let begins = out.signals.contains(&Signal::TurnStarted);
        assert!(unknown == 0 || !begins, "the run would not begin afresh: {:?}", out.signals);
        assert_eq!(out.drafts[0].body.kind(), kinds);
    }
}

#[test]
fn an_exit_is_told_by_words_before_its_number() {
    let (mapped, _) = toy(parts());
    let rows = [
        (Some(0), "oh: rate limit", None),
        (Some(7), "", Some(Code::AuthRequired)),
        (Some(7), "oh: something\nplease LOG IN", Some(Code::AuthFailed)),
        (Some(7), "oh: rate limit\noh: overloaded", Some(Code::Overloaded)),
        (Some(1), "oh: something", Some(Code::UpstreamError)),
        (Some(1), "a tool said: rate limit", None),
        (None, "oh: rate limit", None),
    ];
    for (exit_code, stderr_tail, expected) in rows {
        let evidence = ExitEvidence { exit_code, signal: None, stderr_tail };
        assert_eq!(mapped.classify(&evidence), expected, "{exit_code:?} {stderr_tail}");
    }
}

#[test]
fn the_prompt_goes_where_the_mapping_says() {
    let start = |by: &str, args: Value, prompt: &str| {
        let mut value = parts();
        value["prompt"] = by.into();
        value["args"] = args;
        let (mapped, spec) = toy(value);
        let system_prompt = Some("Be brief.".to_owned());
        let spec = Spec { prompt: prompt.to_owned(), system_prompt, ..spec };
        let said = mapped.dialect(&spec).open();
        mapped.plan(&spec).map(|plan| (plan, said.map(|said| String::from_utf8(said).unwrap())))
    };
    let whole = "[SYSTEM INSTRUCTIONS]\nBe brief.\n[END SYSTEM INSTRUCTIONS]\n\ndo it";
    let (plan, said) = start("stdin", json!(["-x"]), "do it").unwrap();
    assert_eq!((plan.args, plan.stdin), (vec!["-x".into(), "--yes".into()], StdinMode::Prompt));
    assert_eq!(said.as_deref(), Some(whole));
    let (plan, said) = start("argument", json!(["-p", "{{prompt}}"]), "do it").unwrap();
    assert_eq!((plan.args[1].as_str(), plan.stdin, said), (whole, StdinMode::None, None));
    let (plan, said) = start("file", json!(["@{{promptFile}}"]), "do it").unwrap();
    assert_eq!((plan.args[0].as_str(), said), ("@/run/files/prompt.md", None));
    assert_eq!((plan.files[0].name.as_str(), plan.files[0].text.as_str()), ("prompt.md", whole));
    let long = "x".repeat(PROMPT_ARGV_BYTES_MAX);
    let fault = start("argument", json!(["{{prompt}}"]), &long).unwrap_err();
    assert_eq!(fault.code, Code::PromptTooLarge);
    assert!(start("stdin", json!([]), &long).is_ok());
}

#[test]
fn what_a_mapping_cannot_do_is_a_fault_before_the_start() {
    let (mapped, spec) = toy(parts());
    let with = |change: fn(&mut Spec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        mapped.plan(&spec).unwrap_err()
    };
    assert_eq!(with(|spec| spec.policy = Policy::Ask).code, Code::PolicyNotPossible);
    assert_eq!(with(|spec| spec.policy = Policy::Deny).code, Code::PolicyNotPossible);
    let isolated = with(|spec| spec.adapter.project_context = Some(ProjectContext::Isolate));
    assert_eq!(isolated.code, Code::InvalidConfig);
    let nowhere = with(|spec| spec.adapter.binary = None);
    assert!(nowhere.message.contains("adapters.toy.binary"), "{nowhere}");
}

#[test]
fn every_mistake_names_its_key_and_what_to_do() {
    let with = |pointer: &str, value: Value| {
        let mut mapping = parts();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = mapping.pointer_mut(parent).unwrap();
        match parent {
            Value::Object(fields) => drop(fields.insert(name.to_owned(), value)),
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            _ => panic!("{pointer}"),
        }
        mapping
    };
    let many: Vec<_> = (0..=MAPPING_RULES_MAX).map(|_| parts()["rules"][9].clone()).collect();
    let rows = [
        with("/policies", json!({})),
        with("/args", json!(["{{promt}}", "{{session}}", "{{prompt}}"])),
        with("/prompt", json!("file")),
        with("/rules/0", json!({ "when": { "a..b": 1 }, "turn": true })),
        with("/rules/0", json!({ "turn": true })),
        with("/rules/0", json!({ "when": { "a": 1 } })),
        with("/rules/0", json!({ "when": { "a": {} }, "ignore": true, "turn": true })),
        with("/rules/0", json!({ "when": { "a": 1 }, "where": { "b": 1 }, "ignore": true })),
        with("/rules/0", json!({ "on": "stderr", "when": { "$": "a" }, "turn": true })),
        with("/rules/1/text", json!({ "at": "text", "delta": true, "repeats": true })),
        with("/rules/4/usage", json!({ "basis": "increment" })),
        with("/rules/5/error/words", json!([{ "says": "", "code": "billing" }])),
        with("/rules/5/verdict", json!({})),
        with("/rules/9/end/code", json!("billing")),
        with("/rules", json!([{ "when": { "a": 1 }, "turn": true }])),
        with("/rules", Value::Array(many)),
        with("/exit/codes", json!({ "0": "billing", "x": "billing" })),
        with("/exit/codes", json!({ "3": "lease_expired" })),
        with("/rules/5/error/otherwise", json!("store_locked")),
        with("/label", json!("x".repeat(MAPPING_BYTES_MAX))),
    ];
    let mut shown = Vec::new();
    for row in rows {
        let found = mistakes(&mapping(row));
        assert!(!found.is_empty());
        for mistake in found {
            shown.push(format!("{}: {}\n    {}", mistake.key, mistake.message, mistake.hint));
        }
    }
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(mistakes(&mapping(parts())), []);
    // An unknown key is no mapping at all.
    assert!(serde_json::from_value::<Mapping>(with("/rules/0/txt", json!("x"))).is_err());
}

#[test]
fn what_is_remembered_is_bounded_however_much_is_said() {
    let (mapped, spec) = toy(parts());
    let mut dialect = mapped.dialect(&spec);
    let mut lines = Vec::new();
    let long = "x".repeat(2 * TEXT_BYTES_MAX);
    for index in 0..2 * TOOL_CALLS_OPEN_MAX {
        lines.push(call(&format!("call-{index}")).to_string());
        let text = json!({ "kind": "message", "parts": [{ "type": "text", "text": long }] });
        lines.push(text.to_string());
    }
    lines.push(json!({ "kind": "trouble", "words": long }).to_string());
    lines.push(call(&long).to_string());
    let empty = dialect.save().len();
    let mut out = hear(&mut *dialect, Stream::Stdout, &lines);
    assert!(dialect.save().len() < empty + 2 * TEXT_BYTES_MAX, "{}", dialect.save().len());
    let opened = out.signals.iter().filter(|signal| matches!(signal, Signal::ToolOpened { .. }));
    assert_eq!(opened.count(), TOOL_CALLS_OPEN_MAX);
    dialect.close(Close::Ended, &mut out);
    let closed = out.signals.iter().filter(|signal| matches!(signal, Signal::ToolClosed { .. }));
    assert_eq!(closed.count(), TOOL_CALLS_OPEN_MAX);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    let (mapped, spec) = toy(parts());
    let mut dialect = mapped.dialect(&spec);
    let mut out = Out::default();
    dialect.say(&Utterance::Message { text: "more".to_owned() }, &mut out);
    dialect.say(&Utterance::Interrupt, &mut out);
    assert_eq!((out.drafts.len(), out.frames.len()), (2, 0));
    let saved = String::from_utf8(dialect.save()).unwrap();
    assert!(
        Mapped::of_saved(saved.as_bytes()).is_ok_and(|adopted| adopted.card().id == "mapped:toy")
    );
    let newer = saved.replacen("\"version\":1", "\"version\":2", 1);
    assert!(mapped.restore(newer.as_bytes()).is_err());
    assert!(Mapped::of_saved(newer.as_bytes()).is_err());
}

/// Lines of the made-up agent, some of them broken.
fn line() -> impl Strategy<Value = String> {
    let id = || prop::sample::select(vec!["a", "b", "c"]);
    let value = prop_oneof![
        Just(json!({ "kind": "start", "sid": "s" })),
        id().prop_map(call),
        "\\PC{0,12}".prop_map(
            |text| json!({ "kind": "message", "parts": [{ "type": "text", "text": text }] })
        ),
        id().prop_map(|id| json!({ "kind": "results", "by_id": { id: { "out": [1] } } })),
        any::<u64>().prop_map(|n| json!({ "kind": "spent", "in": n, "cached": 7 })),
        any::<i64>().prop_map(|n| json!({ "kind": "trouble", "words": "overloaded", "http": n })),
        any::<f64>().prop_map(|n| json!({ "kind": "slow", "words": "rate limit", "sec": n })),
        (0..2).prop_map(|block| json!({ "kind": "piece", "t": "x", "b": block })),
        Just(json!({ "kind": "lost" })),
        Just(json!({ "kind": ["end"], "parts": { "x": null } })),
    ];
    let broken = (value.clone().prop_map(|value| value.to_string()), any::<prop::sample::Index>())
        .prop_map(|(line, at)| {
            let end = line.floor_char_boundary(at.index(line.len() + 1));
            line[..end].to_owned()
        });
    prop_oneof![4 => value.prop_map(|value| value.to_string()), 1 => broken, 1 => "\\PC{0,20}"]
}

proptest! {
    #[test]
    fn lines_without_an_end_are_no_success_and_can_be_left_anywhere(
        lines in proptest::collection::vec((line(), any::<bool>()), 0..24),
        leave in proptest::collection::vec(any::<bool>(), 24),
    ) {
        let (mapped, spec) = toy(parts());
        let (mut whole, mut moved) = (mapped.dialect(&spec), mapped.dialect(&spec));
        for (index, (line, aside)) in lines.iter().enumerate() {
            let stream = if *aside { Stream::Stderr } else { Stream::Stdout };
            if leave[index] {
                moved = Mapped::of_saved(&moved.save()).unwrap().restore(&moved.save()).unwrap();
            }
            let line = std::slice::from_ref(line);
            let expected = hear(&mut *whole, stream, line);
            prop_assert_eq!(&expected, &hear(&mut *moved, stream, line));
            prop_assert_eq!(result(&expected), None);
        }
        prop_assert_eq!(whole.save(), moved.save());
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64), cut: bool) {
        let (mapped, spec) = toy(parts());
        let mut dialect = mapped.dialect(&spec);
        let mut out = Out::default();
        for stream in [Stream::Stdout, Stream::Stderr] {
            dialect.hear(&Frame { stream, line: 1, bytes: &bytes, cut }, &mut out);
        }
        prop_assert!(out.signals.is_empty());
        prop_assert!(mapped.restore(&dialect.save()).is_ok());
    }
}
