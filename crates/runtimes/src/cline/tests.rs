//! What the recordings do not show by themselves: the plans, the tokens against the vendor's own
//! figures and against what the model server reported, and that no line, however broken, does harm.

use super::Cline;
use crate::trial::{self, Style, Sum, heard, played, recordings, spec};
use crate::{Out, Runtime, Spec};
use contract::event::Body;
use contract::limits::PROMPT_ARGV_BYTES_MAX;
use contract::money::Basis;
use contract::{Code, Signal};
use serde_json::{Value, json};

const ID: &str = "cline";

fn event(event: Value) -> Value {
    json!({"type": "agent_event", "event": event})
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let rows = trial::rows_with(&[
        ("isolated, with more arguments", |spec| {
            spec.adapter.project_context = Some(contract::plan::ProjectContext::Isolate);
            spec.adapter.extra_args = vec!["--verbose".to_owned()];
        }),
        ("a prompt like a flag", |spec| spec.prompt = "--help me".to_owned()),
        ("a prompt like a command", |spec| spec.prompt = "doctor".to_owned()),
        ("a prompt with a NUL", |spec| spec.prompt = "a\0b".to_owned()),
    ]);
    insta::assert_snapshot!(trial::plans(&Cline, &rows, Style::Spelled));
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
        let plan = Cline.plan(&Spec { prompt, system_prompt, ..spec(ID) });
        let fault = plan.err();
        assert_eq!(fault.is_some(), refused, "{bytes} {system:?}");
        if let Some(fault) = fault {
            assert_eq!(fault.code, Code::PromptTooLarge);
            assert!(fault.message.contains("98304"), "{}", fault.message);
            assert!(fault.hint.is_some_and(|hint| hint.contains("file")));
        }
    }
}

/// What was booked on this basis: answer by answer, or once more as a whole that adds nothing to it.
fn booked(out: &Out, basis: Basis) -> Sum {
    let is_other = |signal: &Signal| matches!(signal, Signal::Spent(usage) if usage.basis != basis);
    let signals = out.signals.iter().filter(|signal| !is_other(signal)).cloned().collect();
    trial::booked(&Out { signals, ..Out::default() })
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let all = recordings(ID);
    let (mut by_vendor, mut by_server) = (0, 0);
    for recording in &all {
        let out = played(&Cline, recording);
        let sum = booked(&out, Basis::Increment);
        if let Some(result) = trial::values(recording).find(|line| line["type"] == "run_result") {
            let count = |name: &str| result["aggregateUsage"][name].as_u64().unwrap();
            let vendor = Sum {
                uncached: count("inputTokens") - count("cacheReadTokens"),
                cached: count("cacheReadTokens"),
                output: count("outputTokens"),
                ..Sum::default()
            };
            assert_eq!(sum, vendor, "{}", recording.name);
            assert_eq!(booked(&out, Basis::RunTotal), vendor, "{}", recording.name);
            by_vendor += 1;
        }
        // An answer that could not be read is counted by the server alone.
        if sum != Sum::default() {
            let served = Sum { reasoning: 0, ..trial::served(recording, &all) };
            assert_eq!(sum, served, "{}", recording.name);
            by_server += 1;
        }
    }
    assert_eq!(by_vendor, 10, "recordings with a result");
    assert_eq!(by_server, 7, "recordings with tokens, the one that was killed among them");
}

#[test]
fn dollars_are_shown_for_the_run_and_never_for_a_model_without_a_price() {
    let told = |usd: f64| {
        let usage = json!({"inputTokens": 10, "outputTokens": 1, "totalCost": usd});
        let lines = [
            event(json!({"type": "usage", "inputTokens": 10, "outputTokens": 1, "totalCost": usd})),
            json!({"type": "run_result", "finishReason": "completed", "aggregateUsage": usage}),
        ];
        let out = heard(&Cline, &lines);
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
    let slow = trial::recording(ID, "slow");
    let result = trial::values(&slow).last().unwrap();
    let out = played(&Cline, &slow);
    let said = trial::texts(&out).into_iter().filter(|(kind, _)| *kind == "assistant_text");
    assert_eq!(said.map(|(_, text)| text).collect::<String>(), result["text"].as_str().unwrap());
    // And an end without pieces is told whole, in a block of its own.
    let end =
        |text: &str| event(json!({"type": "content_end", "contentType": "text", "text": text}));
    let piece = event(
        json!({"type": "content_start", "contentType": "text", "text": "a", "accumulated": "a"}),
    );
    let out = heard(&Cline, &[piece, end("a"), end("b")]);
    let texts = trial::told(&out, |body| match body {
        Body::AssistantText(text) => Some((text.text.as_str(), text.block.as_deref(), text.delta)),
        _ => None,
    });
    assert_eq!(texts, [("a", Some("text-0"), true), ("b", Some("text-1"), false)]);
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&Cline), 5);
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
    let lines = [start("1", "a"), start("2", "b"), end("2", false), end("1", true)];
    let out = heard(&Cline, &lines);
    assert_eq!(trial::diffs(&out), [("a", Some("y"))]);
}

#[test]
fn only_a_run_that_completed_something_is_a_success() {
    let result = |reason: Value, text: &str| {
        [json!({"type": "run_result", "finishReason": reason, "text": text})]
    };
    let rows = [
        (result(json!("completed"), "Done."), None),
        (result(json!("completed"), ""), Some(Code::EndedWithoutResult)),
        (result(json!("aborted"), "Done."), Some(Code::Cancelled)),
        (result(json!("max_iterations"), "Done."), Some(Code::MaxTurns)),
        (result(json!("error"), "Done."), Some(Code::UpstreamError)),
        (result(json!("halted"), "Done."), Some(Code::AgentFailed)),
        (result(Value::Null, "Done."), Some(Code::AgentFailed)),
    ];
    for (lines, expected) in rows {
        assert_eq!(trial::results(&heard(&Cline, &lines)), [expected], "{lines:?}");
    }
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Cline);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&Cline, |line, results| {
        line.contains("completed") || trial::never_a_success(line, results)
    });
}
