//! What the recordings do not show by themselves: the plans, that no tokens are told by anybody, and
//! that no line, however broken, does harm.

use super::Copilot;
use crate::trial::{self, hear, line, played, spec};
use crate::{Out, Runtime, Stream};
use contract::Signal;
use contract::event::{Body, ToolStatus};
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;
use testkit::recorded::Recording;

/// Read once: the property looks at them for every case.
static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| trial::recordings("copilot"));

fn heard(lines: &[Vec<u8>]) -> Out {
    hear(&mut *Copilot.dialect(&spec("copilot")), Stream::Stdout, lines)
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(trial::plans(&Copilot, &[]));
}

#[test]
fn the_card_says_what_the_recordings_show_that_no_tokens_are_told() {
    let mut served = 0;
    for recording in &*RECORDINGS {
        let out = played(&Copilot, recording);
        let spent = out.signals.iter().any(|signal| matches!(signal, Signal::Spent(_)));
        assert!(!spent, "{}", recording.name);
        let used = |request: &serde_json::Value| request["usage"]["input"].as_u64().unwrap_or(0);
        served += recording.requests.iter().map(used).sum::<u64>();
        let told = recording.stdout.iter().map(|line| String::from_utf8_lossy(line));
        let tokens = told.filter(|line| line.to_lowercase().contains("inputtokens")).count();
        assert_eq!(tokens, 0, "{} tells tokens after all", recording.name);
    }
    assert!(served > 0, "the model server reported none either");
    assert!(!Copilot.card().reports.tokens);
}

#[test]
fn premium_requests_are_told_where_there_were_any() {
    let result = |requests: f64| {
        line(json!({"type": "result", "exitCode": 0, "usage": {"premiumRequests": requests}}))
    };
    for (requests, expected) in [(0.0, vec![]), (0.33, vec!["premium requests of this run: 0.33"])]
    {
        let out = heard(&[result(requests)]);
        let logs: Vec<_> = out
            .drafts
            .iter()
            .filter_map(|draft| match &draft.body {
                Body::Log(log) => Some(log.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(logs, expected);
    }
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let calls: usize =
        RECORDINGS.iter().map(|recording| trial::calls(&played(&Copilot, recording))).sum();
    assert_eq!(calls, 11);
}

#[test]
fn only_a_result_with_exit_0_after_an_answer_and_no_abort_is_a_success() {
    let said = line(json!({"type": "assistant.message", "data": {"content": "Done."}}));
    let stopped = line(json!({"type": "abort", "data": {"reason": "user_abort"}}));
    let error =
        line(json!({"type": "session.error", "data": {"errorType": "quota", "message": "x"}}));
    let result = |exit: i64| line(json!({"type": "result", "exitCode": exit}));
    let bare = line(json!({"type": "result"}));
    let rows = [
        (vec![said.clone(), result(0)], None),
        (vec![error.clone(), said.clone(), result(0)], None),
        (vec![said.clone(), error, result(0)], Some("provider_quota")),
        (vec![said.clone(), stopped, result(0)], Some("cancelled")),
        (vec![said.clone(), result(1)], Some("agent_failed")),
        (vec![said, bare], Some("agent_failed")),
        (vec![result(0)], Some("ended_without_result")),
    ];
    for (lines, expected) in rows {
        assert_eq!(trial::ended(&heard(&lines)), Some(expected), "{lines:?}");
    }
}

#[test]
fn an_error_that_nothing_came_after_is_what_it_came_to() {
    let error = line(json!({"type": "session.error", "data": {"errorType": "quota"}}));
    let said = line(json!({"type": "assistant.message", "data": {"content": "Done."}}));
    for (lines, expected) in [(vec![error.clone()], 1), (vec![error, said], 0)] {
        let mut dialect = Copilot.dialect(&spec("copilot"));
        let mut out = hear(&mut *dialect, Stream::Stdout, &lines);
        dialect.close(contract::speech::Close::Cut, &mut out);
        let code = contract::Code::ProviderQuota;
        let told = out.signals.iter().filter(|signal| **signal == Signal::ModelError { code });
        assert_eq!(told.count(), expected);
    }
}

#[test]
fn what_a_sub_agent_says_belongs_to_its_call_and_not_to_the_answer() {
    let start = |id: &str, parent: Option<&str>| {
        line(json!({"type": "tool.execution_start", "data": {
            "toolCallId": id, "toolName": "task", "parentToolCallId": parent}}))
    };
    let say = |text: &str, parent: Option<&str>| {
        line(json!({"type": "assistant.message", "data": {
            "content": text, "messageId": text, "parentToolCallId": parent}}))
    };
    let lines = [
        start("1", None),
        start("2", Some("1")),
        say("inside", Some("1")),
        say("outside", None),
        line(json!({"type": "result", "exitCode": 0})),
    ];
    let out = heard(&lines);
    let (mut texts, mut parents, mut updates) = (Vec::new(), Vec::new(), 0);
    for draft in &out.drafts {
        match &draft.body {
            Body::AssistantText(text) => texts.push(text.text.as_str()),
            Body::ToolUse(call) => parents.push(call.parent.as_deref()),
            Body::ToolUpdate(_) => updates += 1,
            _ => {}
        }
    }
    assert_eq!((texts, parents, updates), (vec!["outside"], vec![None, Some("1")], 1));
}

#[test]
fn a_command_that_failed_is_an_error_although_its_call_counts_as_a_success() {
    let recording = RECORDINGS.iter().find(|one| one.name == "tool_fail").unwrap();
    let results =
        played(&Copilot, recording).drafts.into_iter().filter_map(|draft| match draft.body {
            Body::ToolResult(result) => Some(result.status),
            _ => None,
        });
    assert_eq!(results.collect::<Vec<_>>(), [ToolStatus::Error]);
}

#[test]
fn a_limit_is_told_and_lifted_by_the_next_answer() {
    let recording = RECORDINGS.iter().find(|one| one.name == "rate_limit_once").unwrap();
    let told = played(&Copilot, recording).signals.into_iter().filter_map(|signal| match signal {
        Signal::Limited(limited) => Some(limited.code.word()),
        Signal::LimitLifted => Some("lifted"),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), ["rate_limited", "lifted"]);
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let words = "Error: No session or task matched 'x'";
    assert_eq!(trial::unknown(&Copilot, Some("x"), words), 1);
    assert_eq!(trial::unknown(&Copilot, None, words), 0);
    assert_eq!(trial::unknown(&Copilot, Some("x"), "Error: something else"), 0);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_is_deaf_and_its_state_has_a_version(&Copilot);
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
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let mut dialect = Copilot.dialect(&spec("copilot"));
        let out = hear(&mut *dialect, stream, &[broken]);
        prop_assert!(Copilot.restore(&dialect.save()).is_ok());
        // One line alone holds no answer and the word that it ended.
        prop_assert!(!matches!(trial::ended(&out), Some(None)));
    }
}
