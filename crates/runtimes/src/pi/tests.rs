//! What the recordings do not show by themselves: the plans, the tokens and dollars against the
//! vendor's own figures and against what the model server reported, and that no line, however broken,
//! does harm.

use super::Pi;
use crate::Stream;
use crate::trial::{self, ROWS, Row, Style, Sum, booked, heard, played, recordings};
use contract::event::Body;
use serde_json::json;

const ID: &str = "pi";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let model: Row = ("a model", |spec| spec.model = Some("openai/gpt-5".to_owned()));
    let binary: Row = ("another binary", |spec| {
        spec.adapter.binary = Some("/opt/pi".to_owned());
        spec.adapter.mcp = false;
    });
    let rows = [&ROWS[..4], &[model], &ROWS[5..8], &[binary]].concat();
    insta::assert_snapshot!(trial::plans(&Pi, &rows, Style::Plain));
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let all = recordings(ID);
    let (mut by_vendor, mut by_server) = (0, 0);
    for recording in &all {
        let sum = booked(&played(&Pi, recording));
        // The ends of turns repeat what each message cost; the dialect does not listen to them.
        let mut vendor = Sum::default();
        let turns =
            trial::values(recording).filter(|line| line["type"] == "turn_end").map(|line| {
                let usage = &line["message"]["usage"];
                let count = |name: &str| usage[name].as_u64().unwrap_or(0);
                vendor.uncached += count("input") + count("cacheWrite");
                vendor.cached += count("cacheRead");
                vendor.output += count("output");
                vendor.reasoning += count("reasoning");
                vendor.nanousd += (usage["cost"]["total"].as_f64().unwrap() * 1e9).round() as i64;
            });
        // A run that was ended in the middle of a turn has no end of it.
        if turns.count() > 0 {
            assert_eq!(sum, vendor, "{}", recording.name);
            by_vendor += 1;
        }
        if sum != Sum::default() {
            let served = Sum { nanousd: sum.nanousd, ..trial::served(recording, &all) };
            assert_eq!(sum, served, "{}", recording.name);
            by_server += 1;
        }
    }
    assert_eq!(by_vendor, 28, "recordings with a turn that ended");
    assert!(by_server >= 17, "only {by_server} recordings were compared with the server");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&Pi), 8);
}

#[test]
fn a_change_is_told_when_it_was_made() {
    let start = |id: &str, path: &str| {
        let edits = json!([{"oldText": "x", "newText": "y"}, {"oldText": "v", "newText": "w"}]);
        let args = json!({"path": path, "edits": edits});
        json!({"type": "tool_execution_start", "toolName": "edit", "toolCallId": id, "args": args})
    };
    let end = |id: &str, is_error: bool| json!({"type": "tool_execution_end", "toolCallId": id, "isError": is_error});
    let lines =
        [start("1", "a"), start("2", "b"), end("2", true), end("1", false), end("1", false)];
    let out = heard(&Pi, &lines);
    assert_eq!(trial::diffs(&out), [("a", Some("y")), ("a", Some("w"))]);
}

#[test]
fn a_text_that_was_not_streamed_is_told_once_and_whole() {
    let content = json!([{"type": "text", "text": "Hello."}]);
    let message = json!({"role": "assistant", "content": content, "stopReason": "stop"});
    let out = heard(&Pi, &[json!({"type": "message_end", "message": message})]);
    let texts = trial::told(&out, |body| match body {
        Body::AssistantText(text) => Some((text.text.as_str(), text.delta)),
        _ => None,
    });
    assert_eq!(texts, [("Hello.", false)]);
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let words = "No session found matching 'x'";
    trial::assert_unknown_session_is_found(&Pi, words, &[Stream::Stdout, Stream::Stderr]);
}

#[test]
fn a_limit_is_told_with_its_wait_and_lifted_by_the_next_answer() {
    let out = played(&Pi, &trial::recording(ID, "rate_limit_once"));
    assert_eq!(trial::limits(&out), [("rate_limited", Some(2000)), ("lifted", None)]);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Pi);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    // One line alone holds no message that stopped and the word that it settled.
    trial::assert_broken_lines_do_no_harm(&Pi, trial::never_a_success);
}
