//! What the recordings do not show by themselves: the plans, the tokens against the vendor's own
//! figures and against what the model server reported, and that no line, however broken, does harm.

use super::Pi;
use crate::{Dialect, Frame, Out, Runtime, Spec, Stream};
use contract::event::Body;
use contract::plan::{EnvSource, Lane, ProjectContext};
use contract::speech::Close;
use contract::{Policy, Signal, Utterance};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::LazyLock;
use testkit::recorded::Recording;

/// Read once: the property looks at them for every case.
static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", "pi", "recordings"].iter().collect();
    Recording::all(&folder)
});

fn recordings() -> &'static [Recording] {
    &RECORDINGS
}

/// The spec of the harness belongs to another build of this crate, so it is made here.
fn spec() -> Spec {
    let mut context = crate::template::Context::new();
    context.set("mcpUrl", "http://127.0.0.1:7717/mcp");
    Spec {
        adapter: contract::plan::Adapter {
            name: "pi".to_owned(),
            runtime: "pi".to_owned(),
            mcp: true,
            ..Default::default()
        },
        context,
        model: None,
        prompt: "Please do the small task now.".to_owned(),
        system_prompt: None,
        policy: Policy::AllowAll,
        lane: Lane::Native,
        session: None,
        files: "/run/files".to_owned(),
        as_root: false,
        own_program: "/usr/bin/ostler".to_owned(),
        caller_env: Default::default(),
    }
}

fn hear(dialect: &mut dyn Dialect, stream: Stream, lines: &[Vec<u8>]) -> Out {
    let mut out = Out::default();
    for (index, bytes) in lines.iter().enumerate() {
        let frame = Frame { stream, line: index as u64 + 1, bytes, cut: false };
        dialect.hear(&frame, &mut out);
    }
    out
}

fn played(recording: &Recording) -> Out {
    hear(&mut *Pi.dialect(&spec()), Stream::Stdout, &recording.stdout)
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let with = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        spec
    };
    let rows: [(&str, Spec); 9] = [
        ("allow-all", spec()),
        ("allow-reads", with(|spec| spec.policy = Policy::AllowReads)),
        ("ask", with(|spec| spec.policy = Policy::Ask)),
        ("deny", with(|spec| spec.policy = Policy::Deny)),
        ("a model", with(|spec| spec.model = Some("openai/gpt-5".to_owned()))),
        ("a conversation", with(|spec| spec.session = Some("c79e6605".to_owned()))),
        ("a system prompt", with(|spec| spec.system_prompt = Some("Be brief.".to_owned()))),
        (
            "isolated, with more arguments",
            with(|spec| {
                spec.adapter.project_context = Some(ProjectContext::Isolate);
                spec.adapter.extra_args = vec!["--debug".to_owned()];
            }),
        ),
        (
            "another binary",
            with(|spec| {
                spec.adapter.binary = Some("/opt/pi".to_owned());
                spec.adapter.mcp = false;
            }),
        ),
    ];
    let mut shown = String::new();
    for (name, spec) in rows {
        shown.push_str(&format!("{name}\n"));
        match Pi.plan(&spec) {
            Ok(plan) => {
                shown.push_str(&format!("  {} {:?} {:?}\n", plan.program, plan.args, plan.stdin));
                for entry in plan.env {
                    if let EnvSource::Runtime { value } = entry.source {
                        shown.push_str(&format!("  {}={value}\n", entry.name));
                    }
                }
                for file in plan.files {
                    shown.push_str(&format!("  {}: {}\n", file.name, file.text));
                }
                let said = Pi.dialect(&spec).open().unwrap();
                shown.push_str(&format!("  < {:?}\n", String::from_utf8(said).unwrap()));
            }
            Err(fault) => shown.push_str(&format!("  {}: {}\n", fault.code, fault.message)),
        }
    }
    insta::assert_snapshot!(shown);
}

/// Tokens by bucket, and nano-dollars.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
struct Sum {
    uncached: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
    nanousd: i64,
}

fn booked(out: &Out) -> Sum {
    let mut sum = Sum::default();
    for signal in &out.signals {
        if let Signal::Spent(usage) = signal {
            let tokens = usage.tokens.unwrap();
            sum.uncached += tokens.input_uncached + tokens.cache_write;
            sum.cached += tokens.cache_read;
            sum.output += tokens.output;
            sum.reasoning += tokens.reasoning.unwrap_or(0);
            sum.nanousd += usage.effective_nanousd.unwrap().0;
        }
    }
    sum
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor() {
    let mut compared = 0;
    for recording in recordings() {
        // The ends of turns repeat what each message cost; the dialect does not listen to them.
        let mut vendor = Sum::default();
        let mut turns = 0;
        for line in &recording.stdout {
            let line: Value = serde_json::from_slice(line).unwrap_or_default();
            if line["type"] != "turn_end" {
                continue;
            }
            turns += 1;
            let usage = &line["message"]["usage"];
            let count = |name: &str| usage[name].as_u64().unwrap_or(0);
            vendor.uncached += count("input") + count("cacheWrite");
            vendor.cached += count("cacheRead");
            vendor.output += count("output");
            vendor.reasoning += count("reasoning");
            vendor.nanousd += (usage["cost"]["total"].as_f64().unwrap() * 1e9).round() as i64;
        }
        // A run that was ended in the middle of a turn has no end of it.
        if turns == 0 {
            continue;
        }
        assert_eq!(booked(&played(recording)), vendor, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 28, "recordings with a turn that ended");
}

#[test]
fn the_ledger_equals_what_the_model_server_reported() {
    let mut compared = 0;
    for recording in recordings() {
        let sum = booked(&played(recording));
        if sum == Sum::default() {
            continue;
        }
        // The requests of a resumed run follow those of the run before.
        let before = match recording.name.strip_suffix(".resume") {
            Some(first) => {
                recordings().iter().find(|one| one.name == first).unwrap().requests.len()
            }
            None => 0,
        };
        let mut served = Sum { nanousd: sum.nanousd, ..Sum::default() };
        for request in &recording.requests[before..] {
            let usage = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
            served.uncached += usage("input") + usage("cache_create");
            served.cached += usage("cache_read");
            served.output += usage("output");
            served.reasoning += usage("reasoning");
        }
        assert_eq!(sum, served, "{}", recording.name);
        compared += 1;
    }
    assert!(compared >= 17, "only {compared} recordings were compared");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let mut calls = 0;
    for recording in recordings() {
        let mut dialect = Pi.dialect(&spec());
        let mut out = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
        dialect.close(Close::Ended, &mut out);
        let mut open = Vec::new();
        for signal in out.signals {
            match signal {
                Signal::ToolOpened { tool_call_id } => open.push(tool_call_id),
                Signal::ToolClosed { tool_call_id } => {
                    let index = open.iter().position(|id| *id == tool_call_id);
                    open.remove(index.expect("a call that was opened"));
                    calls += 1;
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "{}: {open:?}", recording.name);
    }
    assert_eq!(calls, 8);
}

fn heard(line: Value) -> Vec<u8> {
    line.to_string().into_bytes()
}

#[test]
fn a_change_is_told_when_it_was_made() {
    let start = |id: &str, path: &str| {
        let edits = json!([{"oldText": "x", "newText": "y"}, {"oldText": "v", "newText": "w"}]);
        let args = json!({"path": path, "edits": edits});
        heard(
            json!({"type": "tool_execution_start", "toolName": "edit", "toolCallId": id, "args": args}),
        )
    };
    let end = |id: &str, is_error: bool| {
        heard(json!({"type": "tool_execution_end", "toolCallId": id, "isError": is_error}))
    };
    let lines =
        [start("1", "a"), start("2", "b"), end("2", true), end("1", false), end("1", false)];
    let out = hear(&mut *Pi.dialect(&spec()), Stream::Stdout, &lines);
    let diffs: Vec<_> = out
        .drafts
        .iter()
        .filter_map(|draft| match &draft.body {
            Body::Diff(diff) => Some((diff.path.as_str(), diff.new_text.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(diffs, [("a", Some("y")), ("a", Some("w"))]);
}

#[test]
fn a_text_that_was_not_streamed_is_told_once_and_whole() {
    let content = json!([{"type": "text", "text": "Hello."}]);
    let message = json!({"role": "assistant", "content": content, "stopReason": "stop"});
    let lines = [heard(json!({"type": "message_end", "message": message}))];
    let out = hear(&mut *Pi.dialect(&spec()), Stream::Stdout, &lines);
    let texts: Vec<_> = out
        .drafts
        .iter()
        .filter_map(|draft| match &draft.body {
            Body::AssistantText(text) => Some((text.text.as_str(), text.delta)),
            _ => None,
        })
        .collect();
    assert_eq!(texts, [("Hello.", false)]);
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let line = b"No session found matching 'x'".to_vec();
    for (session, expected) in [(Some("x".to_owned()), 1), (None, 0)] {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let spec = Spec { session: session.clone(), ..spec() };
            let out = hear(&mut *Pi.dialect(&spec), stream, std::slice::from_ref(&line));
            let unknown = out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown);
            assert_eq!(unknown.count(), expected, "{session:?} {stream:?}");
            assert_eq!(out.drafts.len(), 1);
        }
    }
}

#[test]
fn a_limit_is_told_with_its_wait_and_lifted_by_the_next_answer() {
    let recording = recordings().iter().find(|one| one.name == "rate_limit_once").unwrap();
    let told = played(recording).signals.into_iter().filter_map(|signal| match signal {
        Signal::Limited(limited) => Some((limited.code.word(), limited.wait_ms)),
        Signal::LimitLifted => Some(("lifted", None)),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [("rate_limited", Some(2000)), ("lifted", None)]);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    let mut dialect = Pi.dialect(&spec());
    let mut out = Out::default();
    dialect.say(&Utterance::Message { text: "more".to_owned() }, &mut out);
    dialect.say(&Utterance::Interrupt, &mut out);
    assert_eq!((out.drafts.len(), out.frames.len()), (2, 0));
    let saved = String::from_utf8(dialect.save()).unwrap();
    assert!(Pi.restore(saved.as_bytes()).is_ok());
    let newer = saved.replace("\"version\":1", "\"version\":2");
    assert!(Pi.restore(newer.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn a_broken_line_does_no_harm_and_is_no_success(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        junk in proptest::collection::vec(any::<u8>(), 0..8),
        aside in any::<bool>(),
    ) {
        let all = recordings();
        let lines: Vec<_> = all.iter().flat_map(|one| one.stdout.iter().chain(&one.stderr)).collect();
        let mut line = pick.get(&lines).to_vec();
        let start = at.index(line.len() + 1);
        let end = (start + junk.len()).min(line.len());
        line.splice(start..end, junk);
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let mut dialect = Pi.dialect(&spec());
        let out = hear(&mut *dialect, stream, &[line]);
        prop_assert!(Pi.restore(&dialect.save()).is_ok());
        // One line alone holds no message that stopped and the word that it settled.
        for signal in &out.signals {
            if let Signal::Result(ending) = signal {
                prop_assert!(ending.code.is_some());
            }
        }
    }
}
