//! What the recordings do not show by themselves: the plans, that no tokens are invented, what
//! counts as an end, and that no line, however broken, does harm.

use super::OpenHands;
use super::trouble;
use crate::trial::{self, ROWS, Style, fresh, hear, played, recordings, spec_with};
use crate::{Runtime, Stream};
use contract::event::Body;
use contract::{Code, Signal};

const ID: &str = "openhands";

const NAMED: &str = "Conversation ID: 20316b47b33a48eaafca81c77e7106eb";
const ANSWER: &str = r#"{"source": "agent", "kind": "MessageEvent",
    "llm_message": {"content": [{"text": "Done."}]}}"#;
const TROUBLE: &str =
    r#"{"kind": "ConversationErrorEvent", "code": "RateLimitError", "detail": "x"}"#;

fn ended(lines: &[&str]) -> Vec<Option<Code>> {
    let lines: Vec<_> = lines.iter().map(|line| line.replace('\n', " ").into_bytes()).collect();
    trial::results(&hear(&mut *fresh(&OpenHands), Stream::Stdout, &lines))
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(trial::plans(&OpenHands, &ROWS, Style::Quoted));
}

#[test]
fn a_prompt_without_room_on_the_command_line_is_a_file() {
    let spec = spec_with(ID, |spec| spec.prompt = "long ".repeat(40_000));
    let plan = OpenHands.plan(&spec).unwrap();
    assert_eq!(plan.args.last().map(String::as_str), Some("/run/files/prompt.md"));
    assert_eq!(plan.files.first().map(|file| file.text.len()), Some(200_000));
    assert!(plan.args.iter().all(|arg| arg.len() < 1000));
}

#[test]
fn no_tokens_are_told_and_none_are_invented() {
    for recording in recordings(ID) {
        let out = played(&OpenHands, &recording);
        let spent = out.signals.iter().any(|signal| matches!(signal, Signal::Spent(_)));
        assert!(!spent, "{}", recording.name);
        assert!(!out.drafts.iter().any(|draft| matches!(draft.body, Body::Usage(_))));
    }
    assert!(!OpenHands.card().reports.tokens);
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let calls = trial::assert_calls_are_paired(&OpenHands);
    assert!(calls >= 4, "{calls} calls");
}

#[test]
fn a_command_that_printed_nothing_gives_an_empty_text_and_not_its_whole_record() {
    let outputs = |name: &str| -> Vec<serde_json::Value> {
        let all = recordings(ID);
        let recording = all.iter().find(|recording| recording.name == name).expect("a recording");
        let drafts = played(&OpenHands, recording).drafts.into_iter();
        let output = |body: Body| match body {
            Body::ToolResult(result) => Some(result.output),
            _ => None,
        };
        drafts.filter_map(|draft| output(draft.body)).collect()
    };
    assert_eq!(outputs("multi_tool"), ["", ""]);
    assert_eq!(outputs("tool"), ["fake-model-was-here"]);
}

#[test]
fn only_an_answer_the_word_of_the_end_and_the_id_together_are_a_success() {
    let working = "Agent is working";
    let finished = "Agent finished";
    let rows: [(&[&str], Vec<Option<Code>>); 8] = [
        (&[working, ANSWER, finished, NAMED], vec![None]),
        (&[working, ANSWER, finished], vec![]),
        (&[working, ANSWER, NAMED], vec![Some(Code::AgentFailed)]),
        (&[working, finished, NAMED], vec![Some(Code::EndedWithoutResult)]),
        (&[working, ANSWER, TROUBLE, finished, NAMED], vec![Some(Code::RateLimited)]),
        (&[ANSWER, finished, NAMED], vec![Some(Code::AgentFailed)]),
        (&[working, ANSWER, finished, NAMED, NAMED], vec![None]),
        (&[working, ANSWER, finished, "Conversation ID: none"], vec![]),
    ];
    for (lines, expected) in rows {
        assert_eq!(ended(lines), expected, "{lines:?}");
    }
}

#[test]
fn an_error_has_its_code_by_words_and_by_class() {
    let rows = [
        ("AuthenticationError", "Incorrect API key provided", Code::AuthFailed),
        ("LLMRateLimitError", "x", Code::RateLimited),
        ("LLMRateLimitError", "You have hit your usage limit", Code::ProviderQuota),
        ("MaxIterationsReached", "rate limit", Code::MaxTurns),
        ("InternalServerError", "Overloaded", Code::Overloaded),
        ("ValueError", "x", Code::AgentFailed),
    ];
    for (class, detail, expected) in rows {
        assert_eq!(trouble::of(class, detail), expected, "{class} {detail}");
    }
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&OpenHands);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&OpenHands, trial::never_a_success);
}
