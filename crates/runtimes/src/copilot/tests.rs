//! What the recordings do not show by themselves: the plans, that no tokens are told by anybody, and
//! that no line, however broken, does harm.

use super::Copilot;
use crate::trial::{self, Style, heard, played, recordings, results};
use crate::{Runtime, Stream};
use contract::event::{Body, ToolStatus};
use contract::speech::Close;
use contract::{Code, Signal};
use serde_json::{Value, json};

const ID: &str = "copilot";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let rows = trial::rows_with(&[("isolated, with more arguments", |spec| {
        spec.adapter.project_context = Some(contract::plan::ProjectContext::Isolate);
        spec.adapter.extra_args = vec!["--verbose".to_owned()];
    })]);
    insta::assert_snapshot!(trial::plans(&Copilot, &rows, Style::Spelled));
}

#[test]
fn the_card_says_what_the_recordings_show_that_no_tokens_are_told() {
    let mut served = 0;
    for recording in recordings(ID) {
        let out = played(&Copilot, &recording);
        let spent = out.signals.iter().any(|signal| matches!(signal, Signal::Spent(_)));
        assert!(!spent, "{}", recording.name);
        let used = |request: &Value| request["usage"]["input"].as_u64().unwrap_or(0);
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
    for (requests, expected) in [(0.0, vec![]), (0.33, vec!["premium requests of this run: 0.33"])]
    {
        let usage = json!({"premiumRequests": requests});
        let out = heard(&Copilot, &[json!({"type": "result", "exitCode": 0, "usage": usage})]);
        assert_eq!(trial::logs(&out), expected);
    }
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&Copilot), 11);
}

#[test]
fn only_a_result_with_exit_0_after_an_answer_and_no_abort_is_a_success() {
    let said = json!({"type": "assistant.message", "data": {"content": "Done."}});
    let stopped = json!({"type": "abort", "data": {"reason": "user_abort"}});
    let error = json!({"type": "session.error", "data": {"errorType": "quota", "message": "x"}});
    let result = |exit: i64| json!({"type": "result", "exitCode": exit});
    let bare = json!({"type": "result"});
    let rows = [
        (vec![said.clone(), result(0)], None),
        (vec![error.clone(), said.clone(), result(0)], None),
        (vec![said.clone(), error, result(0)], Some(Code::ProviderQuota)),
        (vec![said.clone(), stopped, result(0)], Some(Code::Cancelled)),
        (vec![said.clone(), result(1)], Some(Code::AgentFailed)),
        (vec![said, bare], Some(Code::AgentFailed)),
        (vec![result(0)], Some(Code::EndedWithoutResult)),
    ];
    for (lines, expected) in rows {
        assert_eq!(results(&heard(&Copilot, &lines)), [expected], "{lines:?}");
    }
}

#[test]
fn an_error_that_nothing_came_after_is_what_it_came_to() {
    let error = json!({"type": "session.error", "data": {"errorType": "quota"}});
    let said = json!({"type": "assistant.message", "data": {"content": "Done."}});
    for (lines, expected) in [(vec![error.clone()], 1), (vec![error, said], 0)] {
        let out = trial::heard_to_the_end(&Copilot, &lines, Close::Cut);
        let code = Code::ProviderQuota;
        let told = out.signals.iter().filter(|signal| **signal == Signal::ModelError { code });
        assert_eq!(told.count(), expected);
    }
}

#[test]
fn what_a_sub_agent_says_belongs_to_its_call_and_not_to_the_answer() {
    let start = |id: &str, parent: Option<&str>| {
        json!({"type": "tool.execution_start", "data": {
            "toolCallId": id, "toolName": "task", "parentToolCallId": parent}})
    };
    let say = |text: &str, parent: Option<&str>| {
        json!({"type": "assistant.message", "data": {
            "content": text, "messageId": text, "parentToolCallId": parent}})
    };
    let lines = [
        start("1", None),
        start("2", Some("1")),
        say("inside", Some("1")),
        say("outside", None),
        json!({"type": "result", "exitCode": 0}),
    ];
    let out = heard(&Copilot, &lines);
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
    let out = played(&Copilot, &trial::recording(ID, "tool_fail"));
    let statuses = trial::told(&out, |body| match body {
        Body::ToolResult(result) => Some(result.status),
        _ => None,
    });
    assert_eq!(statuses, [ToolStatus::Error]);
}

#[test]
fn a_limit_is_told_and_lifted_by_the_next_answer() {
    let out = played(&Copilot, &trial::recording(ID, "rate_limit_once"));
    assert_eq!(trial::limits(&out), [("rate_limited", None), ("lifted", None)]);
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let words = "Error: No session or task matched 'x'";
    trial::assert_unknown_session_is_found(&Copilot, words, &[Stream::Stdout, Stream::Stderr]);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Copilot);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    // One line alone holds no answer and the word that it ended.
    trial::assert_broken_lines_do_no_harm(&Copilot, trial::never_a_success);
}
