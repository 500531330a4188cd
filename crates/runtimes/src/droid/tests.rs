//! What the recordings do not show by themselves: the plans, the tokens against the vendor's own
//! figures and against what the model server reported, what was never recorded but is known, and that
//! no line, however broken, does harm.

use super::Droid;
use crate::trial::{
    self, ROWS, Row, Style, Sum, booked, hear, heard, recordings, results, spec_with, texts,
};
use crate::{Runtime, Stream};
use contract::speech::Close;
use contract::{Code, Signal};
use serde_json::json;

const ID: &str = "droid";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let own: [Row; 4] = [
        ("a model", |spec| spec.model = Some("custom:mine".to_owned())),
        ("a conversation", |spec| spec.session = Some("fc144036".to_owned())),
        ("a system prompt", |spec| spec.system_prompt = Some("Be brief.".to_owned())),
        ("another binary, with more arguments", |spec| {
            spec.adapter.binary = Some("/opt/droid".to_owned());
            spec.adapter.extra_args = vec!["--reasoning-effort".to_owned(), "high".to_owned()];
        }),
    ];
    let rows = [&ROWS[..4], &own].concat();
    insta::assert_snapshot!(trial::plans(&Droid, &rows, Style::Plain));
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let all = recordings(ID);
    let mut compared = 0;
    for recording in &all {
        let mut vendor = Sum::default();
        for line in trial::values(recording) {
            let count = |name: &str| line["usage"][name].as_u64().unwrap_or(0);
            vendor.uncached += count("input_tokens") + count("cache_creation_input_tokens");
            vendor.cached += count("cache_read_input_tokens");
            vendor.output += count("output_tokens");
        }
        assert_eq!(booked(&trial::played(&Droid, recording)), vendor, "{}", recording.name);
        // Of answers without a word it asks for again, it counts every second.
        if vendor == Sum::default() || recording.name == "empty" {
            continue;
        }
        let served = Sum { reasoning: 0, ..trial::served(recording, &all) };
        assert_eq!(vendor, served, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 12, "recordings with a completion");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&Droid), 7);
}

#[test]
fn a_thought_that_is_printed_twice_is_told_once_and_another_time_again() {
    let thought = |text: &str| json!({"type": "reasoning", "id": "1", "text": text});
    let lines =
        [thought("a"), thought("a"), thought("b"), thought("b"), thought("b"), thought("b")];
    let out = heard(&Droid, &lines);
    assert_eq!(texts(&out), [("thinking", "a"), ("thinking", "b"), ("thinking", "b")]);
}

#[test]
fn an_error_is_the_end_unless_the_agent_goes_on() {
    let error = json!({"type": "error", "source": "agent_loop", "message": "503 no"});
    let said = json!({"type": "message", "role": "assistant", "text": "Hello."});
    let done = json!({"type": "completion", "finalText": "Hello."});
    let rows = [
        (vec![error.clone()], Some(Code::Overloaded)),
        (vec![error.clone(), done.clone()], Some(Code::Overloaded)),
        (vec![error, said, done], None),
    ];
    for (lines, expected) in rows {
        let out = trial::heard_to_the_end(&Droid, &lines, Close::Ended);
        assert_eq!(results(&out), [expected], "{lines:?}");
    }
}

#[test]
fn what_comes_after_a_completion_is_kept_and_changes_nothing() {
    let said = json!({"type": "message", "role": "assistant", "text": "Hello."});
    let done = json!({"type": "completion", "finalText": "Hello.", "usage": {"input_tokens": 1}});
    let error = json!({"type": "error", "source": "cli", "message": "Exec failed"});
    let lines = [said.clone(), done.clone(), said, done, error];
    let out = heard(&Droid, &lines);
    assert_eq!(results(&out), [None]);
    assert_eq!(texts(&out), [("assistant_text", "Hello.")]);
    assert_eq!(booked(&out).uncached, 1);
    assert_eq!(trial::logs(&out).len(), 3);
}

#[test]
fn an_answer_that_is_cut_again_and_again_never_is_an_end() {
    let cut = json!({"type": "message", "role": "assistant", "text": "This answer was cut by the"});
    let out = heard(&Droid, &vec![cut; 50]);
    assert_eq!(results(&out), []);
    assert_eq!(texts(&out).len(), 50);
}

#[test]
fn one_that_was_to_go_on_and_left_without_a_word_did_not_know_the_conversation() {
    let rows: [(Option<&str>, &[u8], Close, usize); 4] = [
        (Some("x"), b"", Close::Ended, 1),
        (None, b"", Close::Ended, 0),
        (Some("x"), b"something else is wrong", Close::Ended, 0),
        (Some("x"), b"", Close::Cut, 0),
    ];
    for (session, said, how, expected) in rows {
        let spec = spec_with(ID, |spec| spec.session = session.map(str::to_owned));
        let mut dialect = Droid.dialect(&spec);
        let mut out = hear(&mut *dialect, Stream::Stderr, &[said.to_vec()]);
        dialect.close(how, &mut out);
        let unknown = out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown);
        assert_eq!(unknown.count(), expected, "{session:?} {how:?}");
    }
    let words = "Session not found: x";
    trial::assert_unknown_session_is_found(&Droid, words, &[Stream::Stdout, Stream::Stderr]);
}

#[test]
fn a_change_is_told_when_it_was_made() {
    let call = |id: &str, path: &str| {
        let parameters = json!({"file_path": path, "old_str": "x", "new_str": "y"});
        json!({"type": "tool_call", "id": id, "toolName": "Edit", "parameters": parameters})
    };
    let result =
        |id: &str, is_error: bool| json!({"type": "tool_result", "id": id, "isError": is_error});
    let lines =
        [call("1", "a"), call("2", "b"), result("2", true), result("1", false), result("1", false)];
    let out = heard(&Droid, &lines);
    assert_eq!(trial::diffs(&out), [("a", Some("y"))]);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Droid);
}

#[test]
fn a_broken_line_does_no_harm() {
    trial::assert_broken_lines_do_no_harm(&Droid, trial::never_a_success);
}
