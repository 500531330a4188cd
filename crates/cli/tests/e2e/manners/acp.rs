//! Manners of those who speak ACP: noise around their messages, replies that nobody waits for, and
//! turns that end in no way there is. None but the last kind ends a run, and what was said is in the
//! trace.

use super::page;
use super::stage::{Seen, Stage, assert_ends};
use super::{Agent, Ends, Row, SUCCESS, nothing_else, of_kind};
use std::collections::BTreeSet;
use testkit::agent::acp::odd;

const FAILED: Ends = Ends(9, "failed", Some("agent_failed"));
const PROTOCOL: Ends = Ends(15, "failed", Some("protocol_error"));
const SILENCE: Ends = Ends(8, "timed_out", Some("timeout_silence"));
const SHORT: &str = r#"{"silenceSec":1,"graceSec":1}"#;

const ROWS: &[Row] = &[
    // Before the greeting, before the session, and in the turn.
    noise("plain words"),
    noise("blank"),
    noise("a package manager's banner"),
    noise("invalid UTF-8"),
    noise("lone surrogate"),
    noise("byte order mark"),
    noise("NUL bytes"),
    noise("two objects"),
    noise("broken JSON"),
    noise("deep nesting"),
    noise("ANSI colours"),
    noise("carriage return inside"),
    noise("an array"),
    noise("a batch"),
    noise("a number above all"),
    noise("duplicate keys"),
    noise("a method of another protocol"),
    // In the turn alone.
    odd("a reply with a wrong id", SUCCESS, answered),
    odd("a reply with an odd id", SUCCESS, answered),
    odd("a reply with no id", SUCCESS, answered),
    odd("a reply to the greeting, again", SUCCESS, answered),
    odd("the prompt is answered twice", SUCCESS, |seen| assert_eq!(text(seen), "once")),
    odd("the prompt is answered under its id as a text", SUCCESS, |seen| {
        assert_eq!(text(seen), "as a text");
    }),
    odd("a request under the id of ours", SUCCESS, answered),
    odd("a request that is not served", SUCCESS, answered),
    odd("a notification of another protocol", SUCCESS, answered),
    odd("an array in the place of a message", SUCCESS, answered),
    odd("two messages on one line", SUCCESS, answered),
    odd("a batch of messages", SUCCESS, answered),
    odd("a text of ten million bytes", SUCCESS, |seen| {
        assert!(
            of_kind(&seen.events, "assistant_text").iter().any(|text| !text["text_blob"].is_null())
        );
    }),
    odd("a deep input", SUCCESS, answered),
    odd("a lone surrogate in a text", SUCCESS, answered),
    odd("invalid UTF-8 in a text", SUCCESS, |seen| {
        assert_eq!(text(seen), "\u{fffd}\u{fffd}you said p");
    }),
    odd("raw ESC in a text", SUCCESS, answered),
    odd("an update of another session", SUCCESS, answered),
    odd("an update of no kind", SUCCESS, answered),
    odd("an error in place of the answer", FAILED, nothing_else),
    odd("an error that is a text", FAILED, nothing_else),
    odd("an answer without a result", PROTOCOL, nothing_else),
    odd(
        "leaves in the middle of a turn",
        Ends(10, "failed", Some("ended_without_result")),
        nothing_else,
    ),
    odd(
        "is killed in the middle of a turn",
        Ends(10, "failed", Some("process_killed")),
        nothing_else,
    ),
    odd("never answers", SILENCE, nothing_else).with(SHORT),
    odd("never greets", Ends(8, "timed_out", Some("timeout_first_output")), nothing_else)
        .with(r#"{"firstOutputSec":1,"graceSec":1}"#),
];

const fn odd(name: &'static str, ends: Ends, check: fn(&Seen)) -> Row {
    Row { agent: Agent::Acp(name), ..Row::fake(name, &[], ends, check) }
}

const fn noise(name: &'static str) -> Row {
    odd(name, SUCCESS, answered)
}

fn text(seen: &Seen) -> &str {
    seen.result()["text"].as_str().unwrap_or_default()
}

/// What was odd is no part of the answer.
fn answered(seen: &Seen) {
    assert_eq!(text(seen), "you said p", "{}: {:?}", seen.name, seen.events);
}

#[test]
fn what_is_odd_over_acp_ends_no_run_but_one_whose_turn_has_no_end() {
    let stage = Stage::of(ROWS);
    let seen = stage.play(ROWS);
    assert_ends(ROWS, &seen);
    page::assert_shown("acp", &page::table(ROWS, &seen));
    stage.close();
}

#[test]
fn everything_odd_that_can_be_said_over_acp_has_a_row() {
    let rows: BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(rows.len(), ROWS.len(), "each row has a name of its own");
    assert!(odd::NAMES.iter().all(|name| rows.contains(name)));
}
