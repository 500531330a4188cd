//! What is Kilo's own: its plans, its figures, and the one line that OpenCode does not print.

use super::Kilo;
use crate::rehearsal::{self, Sum, booked, hear, recordings, served, spec, spec_with};
use crate::{Runtime, Stream};
use contract::speech::Close;
use contract::{Code, Policy, Signal};

const ID: &str = "kilo";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let rows = vec![
        ("allow-all", spec(ID)),
        ("allow-reads", spec_with(ID, |spec| spec.policy = Policy::AllowReads)),
        ("ask", spec_with(ID, |spec| spec.policy = Policy::Ask)),
        ("deny", spec_with(ID, |spec| spec.policy = Policy::Deny)),
        (
            "everything at once",
            spec_with(ID, |spec| {
                spec.model = Some("acme/big".to_owned());
                spec.session = Some("ses_1".to_owned());
                spec.system_prompt = Some("Be brief.".to_owned());
                spec.adapter.project_context = Some(contract::plan::ProjectContext::Isolate);
            }),
        ),
    ];
    insta::assert_snapshot!(rehearsal::shown(&Kilo, rows));
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let vendor = [("hello", 38_520_000), ("tool", 38_907_000 + 258_000)];
    let all = recordings(ID);
    for (recording, (name, nanousd)) in all.iter().zip(vendor) {
        assert_eq!(recording.name, name);
        let out = hear(&mut *Kilo.dialect(&spec(ID)), Stream::Stdout, &recording.stdout);
        assert_eq!(booked(&out), Sum { nanousd, ..served(recording, &all) }, "{name}");
    }
    assert_eq!(all.len(), vendor.len());
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(rehearsal::assert_calls_are_paired(&Kilo), 1);
}

#[test]
fn an_error_in_plain_words_is_the_end_too() {
    let line = br#"{"type":"error","error":"run ended with an auto-rejected permission"}"#.to_vec();
    let mut dialect = Kilo.dialect(&spec(ID));
    let mut out = hear(&mut *dialect, Stream::Stdout, &[line]);
    dialect.close(Close::Ended, &mut out);
    let denied = out.signals.iter().any(|signal| {
        matches!(signal, Signal::Result(ending) if ending.code == Some(Code::PermissionDenied))
    });
    assert!(denied, "{:?}", out.signals);
}

#[test]
fn what_is_said_and_kept_is_as_in_the_rest_of_the_family() {
    rehearsal::assert_it_takes_nothing_and_knows_its_state(&Kilo);
    rehearsal::assert_unknown_session_is_found(&Kilo, "Error: Session not found");
    rehearsal::assert_broken_lines_do_no_harm(&Kilo);
}
