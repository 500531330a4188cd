//! What the examples do not show by themselves: the plans, the tokens against the agent's own
//! figures, pieces of text that are not doubled, and that no line, however broken, does harm.

use super::CursorAgent;
use crate::Stream;
use crate::trial::{self, ROWS, Style, booked, fresh, hear, heard, played, recordings};
use contract::event::Body;
use contract::{Code, Signal};
use serde_json::{Value, json};

const ID: &str = "cursor-agent";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(trial::plans(&CursorAgent, &ROWS, Style::Plain));
}

#[test]
fn the_ledger_equals_the_figures_of_the_agent() {
    let mut compared = 0;
    for example in recordings(ID) {
        let sum = booked(&played(&CursorAgent, &example));
        let told = trial::values(&example).find_map(|line| line.get("usage").cloned());
        let figure = |name: &str| told.as_ref().and_then(|told| told[name].as_u64()).unwrap_or(0);
        let fresh = figure("inputTokens") + figure("cacheWriteTokens");
        assert_eq!(sum.uncached, fresh, "{}", example.name);
        assert_eq!(sum.cached, figure("cacheReadTokens"), "{}", example.name);
        assert_eq!(sum.output, figure("outputTokens"), "{}", example.name);
        compared += usize::from(sum.total() > 0);
    }
    assert_eq!(compared, 3, "examples with usage");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&CursorAgent), 5);
}

#[test]
fn pieces_that_are_said_once_more_whole_are_not_doubled() {
    let said = |text: &str, marks: Value| {
        let mut line = json!({"type": "assistant", "message": {"content": [{"text": text}]}});
        line.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        line
    };
    let lines = [
        said("ha", json!({"timestamp_ms": 1})),
        said("ha", json!({"timestamp_ms": 2})),
        said("haha", json!({"timestamp_ms": 3, "model_call_id": "m"})),
        said("and whole", json!({})),
        said("pi", json!({"timestamp_ms": 4})),
        said("pi", json!({})),
    ];
    let out = heard(&CursorAgent, &lines);
    let texts: Vec<_> = out
        .drafts
        .iter()
        .map(|draft| match &draft.body {
            Body::AssistantText(text) => (text.text.as_str(), text.block.as_deref(), text.delta),
            other => panic!("{other:?}"),
        })
        .collect();
    let [one, two, three] = ["block-1", "block-2", "block-3"].map(Some);
    let expected =
        [("ha", one, true), ("ha", one, true), ("and whole", two, false), ("pi", three, true)];
    assert_eq!(texts, expected);
}

#[test]
fn only_a_result_that_says_success_after_something_was_said_is_one() {
    let rows = [
        (json!({"subtype": "success", "is_error": false, "result": "done"}), None),
        (
            json!({"subtype": "success", "is_error": false, "result": ""}),
            Some(Code::EndedWithoutResult),
        ),
        (json!({"subtype": "success", "is_error": true, "result": "x"}), Some(Code::AgentFailed)),
        (json!({"subtype": "success", "result": "x"}), Some(Code::AgentFailed)),
        (
            json!({"subtype": "error", "is_error": true, "result": "You hit your usage limit"}),
            Some(Code::ProviderQuota),
        ),
        (json!({}), Some(Code::AgentFailed)),
    ];
    for (mut line, expected) in rows {
        line["type"] = json!("result");
        let out = heard(&CursorAgent, std::slice::from_ref(&line));
        assert_eq!(trial::results(&out), [expected], "{line}");
    }
}

#[test]
fn words_in_place_of_lines_are_understood_on_either_stream() {
    let rows = [
        ("Cannot use this model: x. Available models: auto", Some(Code::ModelNotFound)),
        (
            "ActionRequiredError: Named models unavailable Free plans can only use Auto.",
            Some(Code::ModelNotFound),
        ),
        (
            "Error: Authentication required. Please run 'agent login' first",
            Some(Code::AuthRequired),
        ),
        ("You've hit your usage limit", Some(Code::ProviderQuota)),
        ("cleaning up", None),
    ];
    for (line, expected) in rows {
        let out = hear(&mut *fresh(&CursorAgent), Stream::Stdout, &[line.as_bytes().to_vec()]);
        let code = out.signals.iter().find_map(|signal| match signal {
            Signal::ModelError { code } => Some(*code),
            _ => None,
        });
        assert_eq!(code, expected, "{line}");
        trial::assert_exits_mean(&CursorAgent, &[(Some(1), line, expected), (Some(0), line, None)]);
    }
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&CursorAgent);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&CursorAgent, |line, results| {
        line.contains("success") || trial::never_a_success(line, results)
    });
}
