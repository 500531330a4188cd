//! What holds for whatever is listened to: what is remembered is bounded, and an end that nobody
//! told is ours to tell. The agents themselves are asked in `trial`.

use super::calls::ID_BYTES_MAX;
use super::*;
use crate::{Out, Stream};
use contract::event::{Origin, StopReason};
use contract::limits::{TEXT_BYTES_MAX, TOOL_CALLS_OPEN_MAX};
use contract::{Signal, event::Diff};

#[test]
fn what_is_remembered_of_calls_and_answers_is_bounded() {
    let mut calls = Calls::default();
    let taken = (0..=TOOL_CALLS_OPEN_MAX).filter(|n| calls.open(&n.to_string(), Vec::new()));
    assert_eq!(taken.count(), TOOL_CALLS_OPEN_MAX);
    assert!(calls.close("0").is_some() && calls.close("0").is_none());
    assert!(!calls.open("", Vec::new()) && !calls.open("1", Vec::new()));
    assert!(!calls.open(&"x".repeat(ID_BYTES_MAX + 1), Vec::new()));
    let mut answer = Answer::default();
    assert_eq!((answer.said(), answer.words()), (None, None));
    answer.push(&"é".repeat(TEXT_BYTES_MAX));
    answer.push("more");
    assert!(answer.said().unwrap().len() <= TEXT_BYTES_MAX);
    answer.set(" \n");
    assert_eq!((answer.said().as_deref(), answer.words()), (Some(" \n"), None));
}

#[test]
fn changes_that_are_too_long_together_are_remembered_by_the_file_alone() {
    let half = "x".repeat(TEXT_BYTES_MAX / 2);
    let long = |n| vec![change("1", "a", None, Some(&half)); n];
    assert_eq!(kept(long(1)), long(1));
    assert_eq!(kept(long(2)), [change("1", "a", None, None)]);
    assert_eq!(kept(Vec::new()), Vec::<Diff>::new());
}

#[test]
fn an_end_that_only_an_error_told_is_told_by_us_and_not_when_the_output_was_cut() {
    for (how, expected) in [(Close::Ended, 2), (Close::Cut, 0)] {
        let mut out = Out::default();
        let mut ear = Ear::at_close(&mut out);
        let mut turns = Turns::default();
        turns.begin(&mut ear);
        let denied = Trouble { code: Code::PermissionDenied, detail: "no".to_owned() };
        turns.close(Some(denied), how, &mut ear);
        let ours = out.drafts.iter().filter(|draft| draft.origin == Origin::Ostler).count();
        let ended = Signal::TurnEnded { stop: StopReason::Error };
        let told = out.signals.iter().filter(|signal| **signal == ended).count();
        assert_eq!(ours + told, expected, "{how:?}");
    }
}

#[test]
fn a_line_is_read_only_where_it_is_whole_and_on_standard_output() {
    let rows = [
        (Stream::Stdout, "{}", true, "line"),
        (Stream::Stdout, "{}\r", true, "line"),
        (Stream::Stdout, "{}", false, "stray"),
        (Stream::Stdout, "{", true, "stray"),
        (Stream::Stdout, " \t\r", true, "blank"),
        (Stream::Stderr, "{}", true, "aside"),
    ];
    for (stream, text, whole, expected) in rows {
        let mut out = Out::default();
        let frame = Frame { stream, line: 1, bytes: text.as_bytes(), cut: !whole };
        let ear = Ear::of(&frame, text, whole, &mut out);
        let read = match ear.read::<serde_json::Map<String, serde_json::Value>>() {
            Read::Blank => "blank",
            Read::Line(_) => "line",
            Read::Stray => "stray",
            Read::Aside => "aside",
        };
        assert_eq!(read, expected, "{stream:?} {text:?}");
    }
}
