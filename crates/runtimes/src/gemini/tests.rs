//! What the recordings do not show by themselves: the plans, the tokens against the vendor's own
//! figures and against what the model server reported, and that no line, however broken, does harm.

use super::Gemini;
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
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "src", "gemini", "recordings"].iter().collect();
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
            name: "gemini".to_owned(),
            runtime: "gemini".to_owned(),
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
    hear(&mut *Gemini.dialect(&spec()), Stream::Stdout, &recording.stdout)
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
        ("a model", with(|spec| spec.model = Some("flash".to_owned()))),
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
            "another binary, no tools of ours",
            with(|spec| {
                spec.adapter.binary = Some("/opt/gemini".to_owned());
                spec.adapter.mcp = false;
            }),
        ),
    ];
    let mut shown = String::new();
    for (name, spec) in rows {
        shown.push_str(&format!("{name}\n"));
        match Gemini.plan(&spec) {
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
                let said = Gemini.dialect(&spec).open().unwrap();
                shown.push_str(&format!("  < {:?}\n", String::from_utf8(said).unwrap()));
            }
            Err(fault) => shown.push_str(&format!("  {}: {}\n", fault.code, fault.message)),
        }
    }
    insta::assert_snapshot!(shown);
}

/// Sums of the buckets: uncached input, cached input, output, and the reasoning within it.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
struct Sum {
    uncached: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
}

fn booked(out: &Out) -> Sum {
    let mut sum = Sum::default();
    for signal in &out.signals {
        if let Signal::Spent(usage) = signal {
            let tokens = usage.tokens.unwrap();
            assert_eq!(usage.effective_nanousd, None, "it tells no dollars");
            sum.uncached += tokens.input_uncached;
            sum.cached += tokens.cache_read;
            sum.output += tokens.output;
            sum.reasoning += tokens.reasoning.unwrap_or(0);
        }
    }
    sum
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor() {
    let mut compared = 0;
    for recording in recordings() {
        let result = recording.stdout.iter().rev().find_map(|line| {
            let value: Value = serde_json::from_slice(line).ok()?;
            (value["type"] == "result").then_some(value)
        });
        let (sum, Some(result)) = (booked(&played(recording)), result) else {
            continue;
        };
        let stats = |name: &str| result["stats"][name].as_u64().unwrap();
        let thoughts = stats("total_tokens") - stats("input_tokens") - stats("output_tokens");
        let vendor = Sum {
            uncached: stats("input"),
            cached: stats("cached"),
            output: stats("output_tokens") + thoughts,
            reasoning: thoughts,
        };
        assert_eq!(sum, vendor, "{}", recording.name);
        assert_eq!(sum.uncached + sum.cached + sum.output, stats("total_tokens"));
        compared += 1;
    }
    assert_eq!(compared, 26, "recordings with a result");
}

/// Recordings whose sums differ from the server's because the agent does not count an answer that it
/// could not read to the end.
const UNCOUNTED: [&str; 2] = ["malformed", "truncate"];

#[test]
fn the_ledger_equals_what_the_model_server_reported() {
    let mut compared = 0;
    for recording in recordings() {
        let sum = booked(&played(recording));
        if sum == Sum::default() || UNCOUNTED.contains(&recording.name.as_str()) {
            continue;
        }
        // The requests of a resumed run follow those of the run before.
        let before = match recording.name.strip_suffix(".resume") {
            Some(first) => {
                recordings().iter().find(|one| one.name == first).unwrap().requests.len()
            }
            None => 0,
        };
        let mut served = Sum::default();
        for request in &recording.requests[before..] {
            let usage = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
            served.uncached += usage("input") + usage("cache_create");
            served.cached += usage("cache_read");
            served.output += usage("output") + usage("reasoning");
            served.reasoning += usage("reasoning");
        }
        assert_eq!(sum, served, "{}", recording.name);
        compared += 1;
    }
    assert!(compared >= 18, "only {compared} recordings were compared");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let mut calls = 0;
    for recording in recordings() {
        let mut dialect = Gemini.dialect(&spec());
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
    assert!(calls > 8, "{calls} calls");
}

fn heard(line: Value) -> Vec<u8> {
    line.to_string().into_bytes()
}

#[test]
fn a_change_is_told_when_it_was_made_and_a_plan_when_it_was_written() {
    let call = |name: &str, id: &str, parameters: Value| {
        heard(
            json!({"type": "tool_use", "tool_name": name, "tool_id": id, "parameters": parameters}),
        )
    };
    let result = |id: &str, status: &str| {
        heard(json!({"type": "tool_result", "tool_id": id, "status": status}))
    };
    let replace = json!({"file_path": "a.txt", "old_string": "x", "new_string": "y"});
    let todos = json!({"todos": [{"description": "look", "status": "in_progress"}, {"no": 1}]});
    let lines = [
        call("replace", "1", replace.clone()),
        call("replace", "2", replace),
        call("write_todos", "3", todos),
        result("2", "error"),
        result("1", "success"),
        result("1", "success"),
    ];
    let out = hear(&mut *Gemini.dialect(&spec()), Stream::Stdout, &lines);
    let diffs: Vec<_> = out
        .drafts
        .iter()
        .filter_map(|draft| match &draft.body {
            Body::Diff(diff) => Some((
                diff.tool_call_id.as_deref(),
                diff.old_text.as_deref(),
                diff.new_text.as_deref(),
            )),
            _ => None,
        })
        .collect();
    assert_eq!(diffs, [(Some("1"), Some("x"), Some("y"))]);
    let plans: Vec<_> = out
        .drafts
        .iter()
        .filter_map(|draft| match &draft.body {
            Body::Plan(plan) => Some(plan.entries.len()),
            _ => None,
        })
        .collect();
    assert_eq!(plans, [1]);
}

#[test]
fn only_a_result_that_says_success_is_one() {
    let rows = [
        (json!({"type": "result", "status": "success"}), None),
        (json!({"type": "result", "status": "error"}), Some("upstream_error")),
        (json!({"type": "result", "status": "halted"}), Some("upstream_error")),
        (json!({"type": "result", "status": true}), Some("upstream_error")),
        (json!({"type": "result"}), Some("upstream_error")),
        (
            json!({"type": "result", "status": "error", "error": {"message": "x"}}),
            Some("agent_failed"),
        ),
        (
            json!({"type": "result", "status": "error", "error": {"type": "FatalTurnLimitedError"}}),
            Some("max_turns"),
        ),
    ];
    for (line, expected) in rows {
        let out = hear(&mut *Gemini.dialect(&spec()), Stream::Stdout, &[heard(line.clone())]);
        let ended = out.signals.iter().find_map(|signal| match signal {
            Signal::Result(ending) => Some(ending.code.map(contract::Code::word)),
            _ => None,
        });
        assert_eq!(ended, Some(expected), "{line}");
    }
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let line = b"Error resuming session: Invalid session identifier \"x\".".to_vec();
    for (session, expected) in [(Some("x".to_owned()), 1), (None, 0)] {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let spec = Spec { session: session.clone(), ..spec() };
            let out = hear(&mut *Gemini.dialect(&spec), stream, std::slice::from_ref(&line));
            let unknown = out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown);
            assert_eq!(unknown.count(), expected, "{session:?} {stream:?}");
            assert_eq!(out.drafts.len(), 1);
        }
    }
}

#[test]
fn a_limit_is_told_with_its_wait_and_lifted_by_the_next_answer() {
    let all = recordings();
    let recording = all.iter().find(|one| one.name == "rate_limit_once").unwrap();
    let mut dialect = Gemini.dialect(&spec());
    let aside = hear(&mut *dialect, Stream::Stderr, &recording.stderr);
    let waits: Vec<_> = aside
        .signals
        .iter()
        .map(|signal| match signal {
            Signal::Limited(limited) => (limited.code.word(), limited.terminal, limited.wait_ms),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waits, [("rate_limited", false, None), ("rate_limited", false, Some(5697))]);
    let answer = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
    let lifted = answer.signals.iter().filter(|signal| **signal == Signal::LimitLifted).count();
    assert_eq!(lifted, 1);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    let mut dialect = Gemini.dialect(&spec());
    let mut out = Out::default();
    dialect.say(&Utterance::Message { text: "more".to_owned() }, &mut out);
    dialect.say(&Utterance::Interrupt, &mut out);
    assert_eq!((out.drafts.len(), out.frames.len()), (2, 0));
    let saved = String::from_utf8(dialect.save()).unwrap();
    assert!(Gemini.restore(saved.as_bytes()).is_ok());
    let newer = saved.replace("\"version\":1", "\"version\":2");
    assert!(Gemini.restore(newer.as_bytes()).is_err());
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
        let mut dialect = Gemini.dialect(&spec());
        let out = hear(&mut *dialect, stream, &[line.clone()]);
        prop_assert!(Gemini.restore(&dialect.save()).is_ok());
        let stated = String::from_utf8_lossy(&line).contains("success");
        for signal in &out.signals {
            if let Signal::Result(ending) = signal {
                prop_assert!(ending.code.is_some() || stated);
            }
        }
    }
}
