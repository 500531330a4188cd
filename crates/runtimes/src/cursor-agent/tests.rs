//! What the examples do not show by themselves: the plans, the tokens against the agent's own
//! figures, pieces of text that are not doubled, and that no line, however broken, does harm.

use super::CursorAgent;
use crate::played::{PLANS, booked, broken, calls_closed, hear, plans, play, recordings, spec};
use crate::{ExitEvidence, Runtime, Stream};
use contract::event::Body;
use contract::{Code, Signal};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::recorded::Recording;

/// Read once: the property looks at them for every case.
static EXAMPLES: LazyLock<Vec<Recording>> = LazyLock::new(|| recordings("cursor-agent"));

fn lines(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.to_string().into_bytes()).collect()
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(plans(&CursorAgent, PLANS));
}

#[test]
fn the_ledger_equals_the_figures_of_the_agent() {
    let mut compared = 0;
    for example in EXAMPLES.iter() {
        let tokens = booked(&play(&CursorAgent, &spec(&CursorAgent), example));
        let told = example.stdout.iter().find_map(|line| {
            let value: Value = serde_json::from_slice(line).ok()?;
            value.get("usage").cloned()
        });
        let figure = |name: &str| told.as_ref().and_then(|told| told[name].as_u64()).unwrap_or(0);
        assert_eq!(tokens.input_uncached, figure("inputTokens"), "{}", example.name);
        assert_eq!(tokens.cache_read, figure("cacheReadTokens"), "{}", example.name);
        assert_eq!(tokens.cache_write, figure("cacheWriteTokens"), "{}", example.name);
        assert_eq!(tokens.output, figure("outputTokens"), "{}", example.name);
        compared += usize::from(tokens.total() > 0);
    }
    assert_eq!(compared, 3, "examples with usage");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(calls_closed(&CursorAgent, &EXAMPLES), 5);
}

#[test]
fn pieces_that_are_said_once_more_whole_are_not_doubled() {
    let said = |text: &str, marks: Value| {
        let mut line = json!({"type": "assistant", "message": {"content": [{"text": text}]}});
        line.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        line
    };
    let heard = [
        said("ha", json!({"timestamp_ms": 1})),
        said("ha", json!({"timestamp_ms": 2})),
        said("haha", json!({"timestamp_ms": 3, "model_call_id": "m"})),
        said("and whole", json!({})),
        said("pi", json!({"timestamp_ms": 4})),
        said("pi", json!({})),
    ];
    let out = hear(&mut *CursorAgent.dialect(&spec(&CursorAgent)), Stream::Stdout, &lines(&heard));
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
        let mut dialect = CursorAgent.dialect(&spec(&CursorAgent));
        let out = hear(&mut *dialect, Stream::Stdout, &lines(std::slice::from_ref(&line)));
        let ended = out.signals.iter().find_map(|signal| match signal {
            Signal::Result(ending) => Some(ending.code),
            _ => None,
        });
        assert_eq!(ended, Some(expected), "{line}");
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
        let mut dialect = CursorAgent.dialect(&spec(&CursorAgent));
        let out = hear(&mut *dialect, Stream::Stdout, &[line.as_bytes().to_vec()]);
        let code = out.signals.iter().find_map(|signal| match signal {
            Signal::ModelError { code } => Some(*code),
            _ => None,
        });
        assert_eq!(code, expected, "{line}");
        let at_exit = |exit_code| {
            CursorAgent.classify(&ExitEvidence { exit_code, signal: None, stderr_tail: line })
        };
        assert_eq!(at_exit(Some(1)), expected, "{line}");
        assert_eq!(at_exit(Some(0)), None, "{line}");
    }
}

proptest! {
    #[test]
    fn a_broken_line_does_no_harm_and_is_no_success(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        junk in proptest::collection::vec(any::<u8>(), 0..8),
        aside in any::<bool>(),
    ) {
        let all: Vec<_> = EXAMPLES.iter().flat_map(|one| one.stdout.iter().chain(&one.stderr)).collect();
        let line = pick.get(&all);
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let (line, endings) = broken(&CursorAgent, line, at.index(line.len() + 1), junk, stream);
        let stated = String::from_utf8_lossy(&line).contains("success");
        prop_assert!(endings.iter().all(|code| code.is_some() || stated));
    }
}
