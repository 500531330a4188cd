//! Manners of processes: what an agent does with signals, children, pipes and its own start.

use super::page;
use super::stage::{Seen, Stage, assert_ends};
use super::{Agent, Ends, Row, SUCCESS, nothing_else, of_kind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const WALL: Ends = Ends(8, "timed_out", Some("timeout_wall"));
const SILENCE: Ends = Ends(8, "timed_out", Some("timeout_silence"));
const NOT_STARTED: Ends = Ends(4, "failed", Some("spawn_failed"));

const ROWS: &[Row] = &[
    Row::fake(
        "ignores SIGTERM, SIGINT and SIGHUP",
        &["--ignore-term", "--silent", "--never-read-stdin"],
        WALL,
        forced,
    )
    .with(r#"{"timeoutSec":1,"graceSec":1}"#),
    Row::fake(
        "says a hundred lines after SIGTERM",
        &["--slow-term", "--never-read-stdin", "--wait-shutdown"],
        WALL,
        a_hundred_last_words,
    )
    .with(r#"{"timeoutSec":1,"graceSec":30}"#),
    Row::fake("a child in a session of its own", &["--setsid-child"], SUCCESS, nothing_else),
    Row::fake("an orphaned grandchild", &["--orphan"], SUCCESS, nothing_else),
    Row::fake("an orphan in a session of its own", &["--double-fork"], SUCCESS, nothing_else),
    Row::fake("a child in a group of its own", &["--new-group"], SUCCESS, nothing_else),
    Row::fake("three below each other, out of reach", &["--deep"], SUCCESS, nothing_else),
    Row::fake(
        "all of these, deaf to signals, and killed itself",
        &["--ignore-term", "--deep", "--double-fork", "--orphan", "--setsid-child", "--kill-self"],
        Ends(10, "failed", Some("process_killed")),
        nothing_else,
    ),
    Row::fake("forks every millisecond", &["--fork-often", "50"], SUCCESS, nothing_else),
    Row::fake("forks on while it is killed", &["--fork-on", "400"], SUCCESS, nothing_else),
    Row::fake("a fork bomb", &["--fork-bomb", "200"], SUCCESS, nothing_else),
    Row::fake("a grandchild holds its output", &["--hold-stdout"], SUCCESS, nothing_else),
    Row::fake(
        "a grandchild holds its output, and it said nothing",
        &["--hold-stdout", "--no-complete"],
        Ends(10, "failed", Some("ended_without_result")),
        nothing_else,
    ),
    Row::fake(
        "closes its output and lives on",
        &["--close-stdout", "--wait-shutdown"],
        SILENCE,
        nothing_else,
    )
    .with(r#"{"silenceSec":1,"graceSec":1}"#),
    Row::fake(
        "closes its output and ends",
        &["--close-stdout"],
        Ends(10, "failed", Some("ended_without_result")),
        nothing_else,
    ),
    Row::fake(
        "never reads, with a prompt of ten million bytes",
        &["--never-read-stdin", "--deaf-call", "--wait-shutdown"],
        Ends(2, "refused", Some("too_large")),
        nothing_else,
    )
    .prompt(10_000_000),
    Row::fake(
        "never reads, with the longest prompt that is taken",
        &["--never-read-stdin", "--deaf-call", "--wait-shutdown"],
        SILENCE,
        answered_once,
    )
    .with(r#"{"silenceSec":1,"graceSec":1}"#)
    .prompt(4 << 20),
    Row::fake(
        "talks 128 KiB before it reads 128 KiB",
        &["--chatty-call", "131072"],
        SUCCESS,
        heard_its_prompt,
    )
    .prompt(131_072),
    Row::fake(
        "calls twice under one id, and again after the answer",
        &["--call-again"],
        SUCCESS,
        |seen| {
            let heard = of_kind(&seen.events, "progress");
            assert!(heard.iter().any(|event| event["summary"] == "answered 1 times"), "{heard:?}");
        },
    ),
    Row::fake("closes its input", &["--close-stdin"], SUCCESS, nothing_else),
    Row::fake("no newline at the end", &["--no-final-newline"], SUCCESS, nothing_else),
    Row::fake(
        "exits before a byte",
        &["--exit-before-byte"],
        Ends(10, "failed", Some("ended_without_result")),
        nothing_else,
    ),
    Row::fake(
        "exits before a byte, unhappily",
        &["--exit-before-byte", "--exit", "7"],
        Ends(10, "failed", Some("process_crashed")),
        nothing_else,
    ),
    Row::fake("says that it is done, and exits with 3", &["--exit", "3"], SUCCESS, nothing_else),
    Row::fake(
        "is killed by the system",
        &["--kill-self"],
        Ends(10, "failed", Some("process_killed")),
        nothing_else,
    ),
    Row::fake("stops itself", &["--stop-self"], SILENCE, forced)
        .with(r#"{"silenceSec":1,"graceSec":1}"#),
    Row::fake(
        "says nothing at all",
        &["--silent"],
        Ends(8, "timed_out", Some("timeout_first_output")),
        nothing_else,
    )
    .with(r#"{"firstOutputSec":1,"graceSec":1}"#),
    Row::fake("lives on after its last word", &["--linger"], SUCCESS, nothing_else)
        .with(r#"{"lingerSec":1,"graceSec":1}"#),
    made("is not there (ENOENT)", absent, Ends(4, "failed", Some("not_installed"))),
    made("may not be executed (EACCES)", forbidden, NOT_STARTED),
    made("is no program (ENOEXEC)", no_program, NOT_STARTED),
    made("is a script whose interpreter is not there", orphaned, NOT_STARTED),
    made("has too long an argument (E2BIG)", too_long, NOT_STARTED),
];

const fn made(name: &'static str, make: fn(&Path) -> (String, Vec<String>), ends: Ends) -> Row {
    let agent = Agent::Made(make);
    Row { name, agent, keys: "{}", prompt_bytes: 1, ends, check: never_began }
}

fn absent(work: &Path) -> (String, Vec<String>) {
    (work.join("absent").display().to_string(), Vec::new())
}

fn file(path: &Path, bytes: &[u8], mode: u32) -> (String, Vec<String>) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    (path.display().to_string(), Vec::new())
}

fn forbidden(work: &Path) -> (String, Vec<String>) {
    file(&work.join("forbidden"), b"#!/bin/sh\n", 0o644)
}

fn orphaned(work: &Path) -> (String, Vec<String>) {
    file(&work.join("orphaned"), b"#!/gone/python3\nprint()\n", 0o755)
}

fn no_program(work: &Path) -> (String, Vec<String>) {
    file(&work.join("no-program"), b"touch was-run\n", 0o755)
}

fn too_long(_: &Path) -> (String, Vec<String>) {
    // One argument may have 128 KiB on Linux.
    (testkit::fake_agent().display().to_string(), vec!["x".repeat(200_000)])
}

fn forced(seen: &Seen) {
    assert_eq!(seen.result()["evidence"]["forced"], true, "{}", seen.result());
}

fn a_hundred_last_words(seen: &Seen) {
    let parting = of_kind(&seen.events, "progress")
        .iter()
        .filter(|event| event["summary"].as_str().is_some_and(|text| text.starts_with("parting ")))
        .count();
    assert_eq!(parting, 100, "{}", seen.result());
    assert_ne!(seen.result()["evidence"]["forced"], true, "{}", seen.result());
}

fn answered_once(seen: &Seen) {
    let answers = seen.events.iter().filter(|event| event["kind"] == "tool_result").count();
    assert_eq!(answers, 1, "{:?}", seen.events);
}

fn heard_its_prompt(seen: &Seen) {
    let heard = of_kind(&seen.events, "progress");
    assert!(heard.iter().any(|event| event["summary"] == "heard 131072 bytes"), "{heard:?}");
    let banner = seen.lines("stdout").iter().filter(|line| line.starts_with("***")).count();
    assert_eq!(banner, 131_072_usize.div_ceil(80), "no line of the banner is lost");
}

/// One clear error: the message names the program and what the system said.
fn never_began(seen: &Seen) {
    let result = seen.result();
    let message = result["message"].as_str().unwrap_or_default();
    assert!(message.contains("program "), "{result}");
    assert!(!seen.events.iter().any(|event| event["phase"] == "running"), "{:?}", seen.events);
    assert!(seen.trace.is_empty());
}

#[test]
fn every_bad_manner_of_a_process_ends_its_run_as_the_table_says_and_leaves_nothing() {
    let stage = Stage::of(ROWS);
    let seen = stage.play(ROWS);
    assert_ends(ROWS, &seen);
    assert!(
        !stage.ostler.instance.work().join("was-run").exists(),
        "a shell ran what is no program"
    );
    page::assert_shown("processes", &page::table(ROWS, &seen));
    stage.close();
}
