//! Manners of speech: odd bytes on standard output and standard error. None of them ends a run, and
//! what was said is in the trace, line by line, whatever the events make of it.

use super::page;
use super::stage::{Seen, Stage, assert_ends};
use super::{Ends, Row, SUCCESS, nothing_else, of_kind};
use contract::limits::TRACE_LINE_BYTES_MAX;
use serde_json::Value;
use std::collections::BTreeSet;
use testkit::agent::garbage;

/// One odd thing by its name, and a text that one of its events must hold.
macro_rules! odd {
    ($name:literal, $kind:literal, $holds:literal) => {
        Row::fake($name, &["--odd", $name], SUCCESS, |seen| {
            assert_nothing_lost(seen);
            assert_holds(seen, $kind, $holds);
        })
    };
    ($name:literal, $kind:literal, $holds:literal, $check:expr) => {
        Row::fake($name, &["--odd", $name], SUCCESS, |seen| {
            assert_nothing_lost(seen);
            assert_holds(seen, $kind, $holds);
            $check(seen);
        })
    };
}

const ROWS: &[Row] = &[
    odd!("plain words", "log", "npm notice: a new version is available"),
    odd!("blank", "", ""),
    odd!("invalid UTF-8", "log", "\u{fffd}\u{fffd} \u{fffd}("),
    odd!("overlong UTF-8", "log", "\u{fffd}"),
    odd!("cut characters", "log", "\u{fffd}"),
    odd!("lone surrogate", "log", r"\ud800"),
    odd!("surrogates the wrong way round", "log", r"\udc00\ud800"),
    odd!("byte order mark", "progress", "bom"),
    odd!("NUL bytes", "log", "\0"),
    odd!("escaped NUL", "progress", "a\0b"),
    odd!("two objects", "log", "\"one\""),
    odd!("broken JSON", "log", "\"complete\""),
    odd!("deep nesting", "log", "[[["),
    odd!("deep inside an event", "log", "[[["),
    odd!("carriage return at the end", "progress", "crlf"),
    odd!("carriage return inside", "log", "loading 10 %\rloading 100 %"),
    odd!("ANSI colours", "log", "\u{1b}[31mred"),
    odd!("terminal title and clipboard", "log", "\u{1b}]52;"),
    odd!("ANSI inside JSON", "progress", "\u{1b}[2J\u{1b}[31mred"),
    odd!("raw ESC inside JSON", "log", "\u{1b}[31mred"),
    odd!("line separators", "comment", "\u{2028}\u{2029}"),
    odd!("bidi override", "comment", "\u{202e}gnp.exe"),
    odd!("no type", "log", "who am I"),
    odd!("unknown type", "log", "la la"),
    odd!("type of another type", "log", "42"),
    odd!("unknown kind", "log", "\"outcome\""),
    odd!("an array", "log", "\"complete\""),
    odd!("a batch", "log", "jsonrpc"),
    odd!("a method of another protocol", "log", "initialize"),
    odd!("a number", "log", "1e400"),
    odd!("a number above all", "log", "1e400"),
    odd!("two to the sixty-fourth", "progress", "big"),
    odd!("minus zero", "progress", "zero"),
    odd!("not a number", "log", "NaN"),
    odd!("duplicate keys", "progress", "twice"),
    odd!("a hundred thousand keys", "progress", "keys"),
    odd!("wrong fields", "log", "\"not\""),
    odd!("a call without an id", "log", "read_task"),
    odd!("a call with an odd id", "log", "read_task"),
    odd!("an answer nobody asked for", "tool_result", "nobody"),
    odd!("absurd money", "progress", "m", no_money),
    odd!("absurd tokens", "progress", "t", no_money),
    odd!("negative usage", "log", "-5", no_money),
    odd!("huge usage", "", "", no_money),
    odd!("huge money", "progress", "rich", no_dollars),
    odd!("an envelope of its own", "log", "forged", an_envelope_of_ours),
    odd!("times long gone and far away", "quota", "p"),
    odd!("a time that is none", "log", "25:61"),
    odd!("one object over several lines", "log", "pretty"),
    odd!("lines ended by CRLF", "comment", "two"),
    odd!("a closing line between carriage returns", "progress", "spinner"),
    odd!("a package manager's banner", "log", "10.2.3 -> 11.0.0"),
    odd!("a tool of its own, twice under one id", "tool_result", "own"),
    odd!("empty lines", "", ""),
    Row::fake(
        "everything byte by byte",
        &["--byte-by-byte", "--odd", "bidi override", "--odd", "lines ended by CRLF"],
        SUCCESS,
        |seen| assert_holds(seen, "comment", "\u{202e}gnp.exe"),
    ),
    Row::fake("a character cut in two", &["--split-char"], SUCCESS, |seen| {
        assert_holds(seen, "progress", "split: \u{20ac}\u{1f40e}");
    }),
    Row::fake("standard error in between", &["--interleave", "500"], SUCCESS, both_streams),
    Row::fake("a line of ten million bytes", &["--line-bytes", "10000000"], SUCCESS, one_long_text),
    Row::fake("twenty thousand tiny lines", &["--tiny", "20000"], SUCCESS, |seen| {
        assert_eq!(seen.lines("stdout").iter().filter(|line| **line == ".").count(), 20_000);
    }),
    Row::fake(
        "a line without an end",
        &["--endless", "3000000", "--no-complete"],
        Ends(10, "failed", Some("ended_without_result")),
        |seen| {
            assert_eq!(of_kind(&seen.events, "log").len(), 1);
        },
    ),
    Row::fake("everything odd at once", &["--garbage"], SUCCESS, nothing_else),
    Row::fake("everything odd on standard error", &["--garbage-aside"], SUCCESS, only_words),
];

/// What the fake agent was told to say stands in the trace, between its first and its last line.
fn assert_nothing_lost(seen: &Seen) {
    let said = lines(&garbage::odd(seen.name).expect("an odd thing by its name"));
    let kept = seen.lines("stdout");
    assert_eq!(kept[1..kept.len() - 1], said, "{}", seen.name);
}

/// What the trace keeps of such bytes.
fn lines(bytes: &[u8]) -> Vec<String> {
    let said = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    said.split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
        .map(|line| line[..line.floor_char_boundary(TRACE_LINE_BYTES_MAX)].to_owned())
        .collect()
}

/// On standard error even the end of a run is but a line of a log.
fn only_words(seen: &Seen) {
    assert_eq!(seen.lines("stderr"), lines(&garbage::aside()));
    let aside = seen.events.iter().filter(|event| event["raw"]["stream"] == "stderr");
    let kinds: BTreeSet<_> = aside.filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["log"]));
}

/// An event of this kind holds the text; no kind means that there is no event of the line.
fn assert_holds(seen: &Seen, kind: &str, text: &str) {
    let own: Vec<_> = seen
        .events
        .iter()
        .filter(|event| event["origin"] == "agent" && event["raw"]["line"] != 1)
        .collect();
    if kind.is_empty() {
        assert!(own.iter().all(|event| event["kind"] == "usage"), "{}: {own:?}", seen.name);
        return;
    }
    let holds = own.iter().any(|event| {
        event["kind"] == kind
            && event.as_object().is_some_and(|fields| {
                fields.values().filter_map(|value| value.as_str()).any(|value| value.contains(text))
            })
    });
    assert!(holds, "{}: no {kind} holds {text:?} among {own:?}", seen.name);
}

/// A number that cannot be money or tokens becomes neither.
fn no_money(seen: &Seen) {
    no_dollars(seen);
    let tokens = &seen.result()["totals"]["tokens"];
    let buckets = ["input_uncached", "cache_read", "cache_write", "output"];
    assert!(buckets.iter().all(|bucket| tokens[*bucket] == 0), "{}: {tokens}", seen.name);
}

fn no_dollars(seen: &Seen) {
    let totals = &seen.result()["totals"];
    assert_eq!(totals["effective_nanousd"], Value::Null, "{}: {totals}", seen.name);
}

/// Who says what, when and in which run is not the agent's to state.
fn an_envelope_of_ours(seen: &Seen) {
    let forged = of_kind(&seen.events, "log")[0];
    let result = seen.result();
    for name in ["v", "run_id", "fence"] {
        assert_eq!(forged[name], result[name], "{forged}");
    }
    assert!(!forged["ts"].as_str().unwrap_or_default().starts_with("1970"), "{forged}");
}

fn both_streams(seen: &Seen) {
    let kept: Vec<_> = seen.lines("stderr").into_iter().map(str::to_owned).collect();
    let wanted: Vec<_> = (1..=500).map(|n| format!("err {n}")).collect();
    assert_eq!(kept, wanted);
    let out = of_kind(&seen.events, "progress");
    let out: Vec<_> = out.iter().filter_map(|event| event["summary"].as_str()).skip(1).collect();
    let wanted: Vec<_> = (1..=500).map(|n| format!("out {n}")).collect();
    assert_eq!(out, wanted);
}

/// The whole text is kept apart for its size.
fn one_long_text(seen: &Seen) {
    let texts = of_kind(&seen.events, "assistant_text");
    assert_eq!(texts.len(), 1);
    assert!(!texts[0]["text_blob"].is_null(), "{}", texts[0]);
}

#[test]
fn odd_bytes_end_no_run_and_nothing_that_was_said_is_lost() {
    let stage = Stage::of(ROWS);
    let seen = stage.play(ROWS);
    assert_ends(ROWS, &seen);
    page::assert_shown("bytes", &page::table(ROWS, &seen));
    stage.close();
}

#[test]
fn everything_odd_that_the_fake_agent_can_say_has_a_row() {
    let rows: BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(rows.len(), ROWS.len(), "each row has a name of its own");
    let all = garbage::lines().into_iter().chain(garbage::streams());
    let missing: Vec<_> = all.map(|(name, _)| name).filter(|name| !rows.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
