//! What is Kilo's own: its plans, its figures, and the one line that OpenCode does not print.

use super::Kilo;
use crate::Stream;
use crate::trial::{self, ROWS, Row, Style, Sum, booked, recordings};
use contract::Code;
use contract::speech::Close;
use serde_json::json;

const ID: &str = "kilo";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let all: Row = ("everything at once", |spec| {
        spec.model = Some("acme/big".to_owned());
        spec.session = Some("ses_1".to_owned());
        spec.system_prompt = Some("Be brief.".to_owned());
        spec.adapter.project_context = Some(contract::plan::ProjectContext::Isolate);
    });
    let rows = [&ROWS[..4], &[all]].concat();
    insta::assert_snapshot!(trial::plans(&Kilo, &rows, Style::Plain));
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let vendor = [("hello", 38_520_000), ("tool", 38_907_000 + 258_000)];
    let all = recordings(ID);
    for (recording, (name, nanousd)) in all.iter().zip(vendor) {
        assert_eq!(recording.name, name);
        let served = Sum { nanousd, ..trial::served(recording, &all) };
        assert_eq!(booked(&trial::played(&Kilo, recording)), served, "{name}");
    }
    assert_eq!(all.len(), vendor.len());
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&Kilo), 1);
}

#[test]
fn an_error_in_plain_words_is_the_end_too() {
    let line = json!({"type": "error", "error": "run ended with an auto-rejected permission"});
    let out = trial::heard_to_the_end(&Kilo, &[line], Close::Ended);
    assert_eq!(trial::results(&out), [Some(Code::PermissionDenied)]);
}

#[test]
fn what_is_said_and_kept_is_as_in_the_rest_of_the_family() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Kilo);
    let words = "Error: Session not found";
    trial::assert_unknown_session_is_found(&Kilo, words, &[Stream::Stdout, Stream::Stderr]);
    trial::assert_broken_lines_do_no_harm(&Kilo, trial::never_a_success);
}
