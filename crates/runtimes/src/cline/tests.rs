//! What the recordings do not show by themselves: the plans, the tokens against the vendor's own
//! figures and against what the model server reported, and that no line, however broken, does harm.

use super::Cline;
use crate::trial::{self, hear, line, played, spec};
use crate::{Out, Runtime, Spec, Stream};
use contract::event::Body;
use contract::limits::PROMPT_ARGV_BYTES_MAX;
use contract::money::Basis;
use contract::{Code, Signal};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::recorded::Recording;

/// Read once: the property looks at them for every case.
static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| trial::recordings("cline"));

fn heard(lines: &[Vec<u8>]) -> Out {
    hear(&mut *Cline.dialect(&spec("cline")), Stream::Stdout, lines)
}

fn event(event: Value) -> Vec<u8> {
    line(json!({"type": "agent_event", "event": event}))
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let more: [trial::Row; 3] = [
        ("a prompt like a flag", |spec| spec.prompt = "--help me".to_owned()),
        ("a prompt like a command", |spec| spec.prompt = "doctor".to_owned()),
        ("a prompt with a NUL", |spec| spec.prompt = "a\0b".to_owned()),
    ];
    insta::assert_snapshot!(trial::plans(&Cline, &more));
}

#[test]
fn a_prompt_that_has_no_room_is_a_fault_before_anything_is_started() {
    let marks = "[SYSTEM INSTRUCTIONS]\n\n[END SYSTEM INSTRUCTIONS]\n\n".len();
    let rows = [
        (PROMPT_ARGV_BYTES_MAX, None, false),
        (PROMPT_ARGV_BYTES_MAX + 1, None, true),
        (PROMPT_ARGV_BYTES_MAX - marks, Some(0), false),
        (PROMPT_ARGV_BYTES_MAX - marks, Some(1), true),
    ];
    for (bytes, system, refused) in rows {
        let prompt = format!("- {}", "x".repeat(bytes - 2));
        let system_prompt = system.map(|bytes| "s".repeat(bytes));
        let plan = Cline.plan(&Spec { prompt, system_prompt, ..spec("cline") });
        let fault = plan.err();
        assert_eq!(fault.is_some(), refused, "{bytes} {system:?}");
        if let Some(fault) = fault {
            assert_eq!(fault.code, Code::PromptTooLarge);
            assert!(fault.message.contains("98304"), "{}", fault.message);
            assert!(fault.hint.is_some_and(|hint| hint.contains("file")));
        }
    }
}

/// Sums of the buckets: uncached input, cached input and output.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
struct Sum {
    uncached: u64,
    cached: u64,
    output: u64,
}

fn sum(out: &Out, basis: Basis) -> Sum {
    let mut sum = Sum::default();
    for signal in &out.signals {
        if let Signal::Spent(usage) = signal
            && usage.basis == basis
        {
            let tokens = usage.tokens.unwrap();
            assert_eq!((usage.reported_nanousd, usage.effective_nanousd), (None, None));
            sum.uncached += tokens.input_uncached + tokens.cache_write;
            sum.cached += tokens.cache_read;
            sum.output += tokens.output;
        }
    }
    sum
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor() {
    let mut compared = 0;
    for recording in &*RECORDINGS {
        let result = recording.stdout.iter().find_map(|line| {
            let line: Value = serde_json::from_slice(line).ok()?;
            (line["type"] == "run_result").then_some(line)
        });
        let Some(result) = result else { continue };
        let count = |name: &str| result["aggregateUsage"][name].as_u64().unwrap();
        let vendor = Sum {
            uncached: count("inputTokens") - count("cacheReadTokens"),
            cached: count("cacheReadTokens"),
            output: count("outputTokens"),
        };
        let out = played(&Cline, recording);
        // Told answer by answer, and once more as a whole that adds nothing to it.
        assert_eq!(sum(&out, Basis::Increment), vendor, "{}", recording.name);
        assert_eq!(sum(&out, Basis::RunTotal), vendor, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 10, "recordings with a result");
}

#[test]
fn the_ledger_equals_what_the_model_server_reported() {
    let mut compared = 0;
    for recording in &*RECORDINGS {
        let booked = sum(&played(&Cline, recording), Basis::Increment);
        // An answer that could not be read is counted by the server alone.
        if booked == Sum::default() {
            continue;
        }
        let mut served = Sum::default();
        for request in &recording.requests {
            let usage = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
            served.uncached += usage("input") + usage("cache_create");
            served.cached += usage("cache_read");
            served.output += usage("output");
        }
        assert_eq!(booked, served, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 7, "recordings with tokens, the one that was killed among them");
}

#[test]
fn dollars_are_shown_for_the_run_and_never_for_a_model_without_a_price() {
    let told = |usd: f64| {
        let usage = json!({"inputTokens": 10, "outputTokens": 1, "totalCost": usd});
        let out = heard(&[
            event(json!({"type": "usage", "inputTokens": 10, "outputTokens": 1, "totalCost": usd})),
            line(
                json!({"type": "run_result", "finishReason": "completed", "aggregateUsage": usage}),
            ),
        ]);
        let spent = out.signals.into_iter().filter_map(|signal| match signal {
            Signal::Spent(usage) => Some((usage.reported_nanousd.map(|usd| usd.0), usage.basis)),
            _ => None,
        });
        spent.collect::<Vec<_>>()
    };
    assert_eq!(told(0.0), [(None, Basis::Increment), (None, Basis::RunTotal)]);
    assert_eq!(told(0.25), [(None, Basis::Increment), (Some(250_000_000), Basis::RunTotal)]);
}

#[test]
fn a_text_is_told_once_however_often_it_is_repeated() {
    let slow = RECORDINGS.iter().find(|one| one.name == "slow").unwrap();
    let result: Value = serde_json::from_slice(slow.stdout.last().unwrap()).unwrap();
    let texts: String = played(&Cline, slow)
        .drafts
        .into_iter()
        .filter_map(|draft| match draft.body {
            Body::AssistantText(text) => Some(text.text),
            _ => None,
        })
        .collect();
    assert_eq!(texts, result["text"].as_str().unwrap());
    // And an end without pieces is told whole, in a block of its own.
    let end =
        |text: &str| event(json!({"type": "content_end", "contentType": "text", "text": text}));
    let piece = event(
        json!({"type": "content_start", "contentType": "text", "text": "a", "accumulated": "a"}),
    );
    let out = heard(&[piece, end("a"), end("b")]);
    let texts: Vec<_> = out
        .drafts
        .iter()
        .filter_map(|draft| match &draft.body {
            Body::AssistantText(text) => {
                Some((text.text.as_str(), text.block.as_deref(), text.delta))
            }
            _ => None,
        })
        .collect();
    assert_eq!(texts, [("a", Some("text-0"), true), ("b", Some("text-1"), false)]);
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let calls: usize =
        RECORDINGS.iter().map(|recording| trial::calls(&played(&Cline, recording))).sum();
    assert_eq!(calls, 5);
}

#[test]
fn a_change_is_told_when_it_was_made() {
    let start = |id: &str, path: &str| {
        let input = json!({"path": path, "old_text": "x", "new_text": "y"});
        event(json!({"type": "content_start", "contentType": "tool", "toolName": "editor",
            "toolCallId": id, "input": input}))
    };
    let end = |id: &str, success: bool| {
        event(json!({"type": "content_end", "contentType": "tool", "toolCallId": id,
            "output": {"success": success}}))
    };
    let out = heard(&[start("1", "a"), start("2", "b"), end("2", false), end("1", true)]);
    let diffs: Vec<_> = out
        .drafts
        .iter()
        .filter_map(|draft| match &draft.body {
            Body::Diff(diff) => Some((diff.path.as_str(), diff.new_text.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(diffs, [("a", Some("y"))]);
}

#[test]
fn only_a_run_that_completed_something_is_a_success() {
    let result = |reason: Value, text: &str| {
        vec![line(json!({"type": "run_result", "finishReason": reason, "text": text}))]
    };
    let rows = [
        (result(json!("completed"), "Done."), None),
        (result(json!("completed"), ""), Some("ended_without_result")),
        (result(json!("aborted"), "Done."), Some("cancelled")),
        (result(json!("max_iterations"), "Done."), Some("max_turns")),
        (result(json!("error"), "Done."), Some("upstream_error")),
        (result(json!("halted"), "Done."), Some("agent_failed")),
        (result(Value::Null, "Done."), Some("agent_failed")),
    ];
    for (lines, expected) in rows {
        assert_eq!(trial::ended(&heard(&lines)), Some(expected), "{lines:?}");
    }
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_is_deaf_and_its_state_has_a_version(&Cline);
}

proptest! {
    #[test]
    fn a_broken_line_does_no_harm_and_is_no_success(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        junk in proptest::collection::vec(any::<u8>(), 0..8),
        aside in any::<bool>(),
    ) {
        let broken = trial::broken(&RECORDINGS, pick, at, junk);
        let stated = String::from_utf8_lossy(&broken).contains("completed");
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let mut dialect = Cline.dialect(&spec("cline"));
        let out = hear(&mut *dialect, stream, &[broken]);
        prop_assert!(Cline.restore(&dialect.save()).is_ok());
        prop_assert!(stated || !matches!(trial::ended(&out), Some(None)));
    }
}
