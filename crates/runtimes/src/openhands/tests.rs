//! What the recordings do not show by themselves: the plans, that no tokens are invented, what
//! counts as an end, and that no line, however broken, does harm.

use super::OpenHands;
use super::trouble;
use crate::played::{PLANS, booked, broken, calls_closed, hear, plans, play, recordings, spec};
use crate::{Runtime, Spec, Stream};
use contract::event::Body;
use contract::{Code, Signal, Tokens};
use proptest::prelude::*;
use std::sync::LazyLock;
use testkit::recorded::Recording;

/// Read once: the property looks at them for every case.
static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| recordings("openhands"));

const ID: &str = "Conversation ID: 20316b47b33a48eaafca81c77e7106eb";
const ANSWER: &str = r#"{"source": "agent", "kind": "MessageEvent",
    "llm_message": {"content": [{"text": "Done."}]}}"#;
const TROUBLE: &str =
    r#"{"kind": "ConversationErrorEvent", "code": "RateLimitError", "detail": "x"}"#;

fn ended(spec: &Spec, lines: &[&str]) -> Vec<Option<Code>> {
    let lines: Vec<_> = lines.iter().map(|line| line.replace('\n', " ").into_bytes()).collect();
    let out = hear(&mut *OpenHands.dialect(spec), Stream::Stdout, &lines);
    let endings = out.signals.iter().filter_map(|signal| match signal {
        Signal::Result(ending) => Some(ending.code),
        _ => None,
    });
    endings.collect()
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(plans(&OpenHands, PLANS));
}

#[test]
fn a_prompt_without_room_on_the_command_line_is_a_file() {
    let mut spec = spec(&OpenHands);
    spec.prompt = "long ".repeat(40_000);
    let plan = OpenHands.plan(&spec).unwrap();
    assert_eq!(plan.args.last().map(String::as_str), Some("/run/files/prompt.md"));
    assert_eq!(plan.files.first().map(|file| file.text.len()), Some(200_000));
    assert!(plan.args.iter().all(|arg| arg.len() < 1000));
}

#[test]
fn no_tokens_are_told_and_none_are_invented() {
    for recording in RECORDINGS.iter() {
        let out = play(&OpenHands, &spec(&OpenHands), recording);
        assert_eq!(booked(&out), Tokens::default(), "{}", recording.name);
        assert!(!out.drafts.iter().any(|draft| matches!(draft.body, Body::Usage(_))));
    }
    assert!(!OpenHands.card().reports.tokens);
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let calls = calls_closed(&OpenHands, &RECORDINGS);
    assert!(calls >= 4, "{calls} calls");
}

#[test]
fn only_an_answer_the_word_of_the_end_and_the_id_together_are_a_success() {
    let working = "Agent is working";
    let finished = "Agent finished";
    let rows: [(&[&str], Vec<Option<Code>>); 8] = [
        (&[working, ANSWER, finished, ID], vec![None]),
        (&[working, ANSWER, finished], vec![]),
        (&[working, ANSWER, ID], vec![Some(Code::AgentFailed)]),
        (&[working, finished, ID], vec![Some(Code::EndedWithoutResult)]),
        (&[working, ANSWER, TROUBLE, finished, ID], vec![Some(Code::RateLimited)]),
        (&[ANSWER, finished, ID], vec![Some(Code::AgentFailed)]),
        (&[working, ANSWER, finished, ID, ID], vec![None]),
        (&[working, ANSWER, finished, "Conversation ID: none"], vec![]),
    ];
    for (lines, expected) in rows {
        assert_eq!(ended(&spec(&OpenHands), lines), expected, "{lines:?}");
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

proptest! {
    #[test]
    fn a_broken_line_does_no_harm_and_is_no_success(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        junk in proptest::collection::vec(any::<u8>(), 0..8),
        aside in any::<bool>(),
    ) {
        let lines = RECORDINGS.iter().flat_map(|one| one.stdout.iter().chain(&one.stderr));
        let all: Vec<_> = lines.collect();
        let line = pick.get(&all);
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let (_, endings) = broken(&OpenHands, line, at.index(line.len() + 1), junk, stream);
        prop_assert!(endings.iter().all(Option::is_some));
    }
}
