//! The fake agent as a real process: what only a process can show. Its steps and words are tested
//! beside their code.

#![allow(clippy::disallowed_methods, reason = "this test starts processes")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use testkit::agent::witness;
use testkit::{Instance, find_called, find_marked, until};

const BOUND_MS: u64 = 20_000;

fn agent(instance: &Instance, flags: &[&str]) -> Command {
    let mut command = instance.command(env!("CARGO_BIN_EXE_fake-agent"));
    command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(instance: &Instance, flags: &[&str]) -> Child {
    agent(instance, flags).spawn().expect("fake-agent starts")
}

/// Reads until the opening line, after which the manners are in place.
fn first_line(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert!(line.contains("starting"), "{line}");
    stdout
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("not zero");
    kill_process(pid, signal).expect("it lives");
}

#[test]
fn it_exits_before_a_byte_with_the_code_asked_for() {
    let instance = Instance::new();
    let output = agent(&instance, &["--exit-before-byte", "--exit", "7"]).output().expect("runs");
    assert_eq!((output.stdout.len(), output.status.code()), (0, Some(7)));
}

#[test]
fn the_last_line_can_lack_its_newline() {
    let instance = Instance::new();
    let output = agent(&instance, &["--no-final-newline"]).output().expect("runs");
    assert!(output.stdout.ends_with(b"\"type\":\"complete\"}"), "{:?}", output.stdout);
}

#[test]
fn a_burst_arrives_whole() {
    let instance = Instance::new();
    let output = agent(&instance, &["--burst", "20000"]).output().expect("runs");
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.len() == 299).count();
    assert_eq!(lines, 20_000);
}

#[test]
fn it_outlives_sigterm_when_it_ignores_it() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--ignore-term", "--sleep-ms", "300", "--exit", "5"]);
    first_line(&mut child);
    send(&child, Signal::TERM);
    assert_eq!(child.wait().expect("ends").code(), Some(5));
}

#[test]
fn it_dies_of_sigterm_when_it_has_no_manners_about_it() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--wait-shutdown"]);
    first_line(&mut child);
    send(&child, Signal::TERM);
    assert_eq!(child.wait().expect("ends").signal(), Some(15));
}

#[test]
fn slow_manners_say_a_hundred_lines_after_sigterm() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--slow-term", "--wait-shutdown"]);
    let mut stdout = first_line(&mut child);
    send(&child, Signal::TERM);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    assert_eq!(rest.lines().filter(|line| line.contains("parting")).count(), 100);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

#[test]
fn children_that_escape_outlive_it_and_are_found_by_their_mark() {
    for shape in ["--setsid-child", "--double-fork", "--hold-stdout"] {
        let instance = Instance::new();
        let mut child = agent(&instance, &[shape]).stdout(Stdio::null()).spawn().expect("starts");
        assert!(child.wait().expect("ends").success());
        let left = find_marked(&instance.mark());
        assert_eq!(left.len(), 1, "{shape}: {left:?}");
        assert!(left[0].command.contains("--as-descendant"), "{shape}: {left:?}");
    }
}

/// What a descendant is found by: its mark, the lock it has inherited, and its name.
#[test]
fn whoever_hides_in_one_way_is_found_in_another() {
    for (shape, marked, locked, called) in [
        ("gone/setsid", 1, true, 1),
        ("unmarked", 0, true, 1),
        ("bare", 1, false, 1),
        ("unmarked+bare+elsewhere", 0, false, 1),
        ("stopped+renamed", 1, true, 1),
        // Whose environment may be read by the first user alone.
        ("undumpable+thread", usize::from(rustix::process::geteuid().is_root()), true, 1),
        ("reaper/gone/setsid", 2, true, 2),
        ("later/setsid", 2, true, 2),
        ("fork", 1, true, 0),
        ("vfork", 1, true, 0),
        ("mute", 1, true, 0),
        ("sibling", 1, true, 0),
    ] {
        let instance = Instance::new();
        let mut command = agent(&instance, &["--witness", "--escape", shape]);
        let mut child = command.env("OSTLER_RUN_ID", "run_of_nobody").spawn().expect("starts");
        assert!(child.wait().expect("ends").success(), "{shape}");
        let path = witness::of_run(&instance.work(), "run_of_nobody");
        let name = path.display().to_string();
        let seen = || {
            let found = (find_marked(&instance.mark()).len(), find_called(&name).len());
            (found.0, !witness::is_free(&path).expect("there is a witness"), found.1)
        };
        until(&format!("{shape} to be found"), BOUND_MS, || {
            (seen() == (marked, locked, called)).then_some(())
        });
        testkit::end_marked(&instance.mark());
        until("nobody to be found", BOUND_MS, || (seen() == (0, false, 0)).then_some(()));
    }
}

#[test]
fn a_grandchild_that_holds_stdout_keeps_the_pipe_open() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--hold-stdout"]);
    let mut stdout = first_line(&mut child);
    assert!(child.wait().expect("ends").success());
    let reader = std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()).is_ok());
    assert_eq!(find_marked(&instance.mark()).len(), 1);
    assert!(!reader.is_finished(), "the pipe ended although a grandchild holds it");
    testkit::end_marked(&instance.mark());
    until("the end of the pipe", BOUND_MS, || reader.is_finished().then_some(()));
}

#[test]
fn children_forked_often_are_as_many_as_asked_for() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--fork-often", "10", "--wait-shutdown"]);
    until("ten children", BOUND_MS, || (find_marked(&instance.mark()).len() == 11).then_some(()));
    send(&child, Signal::KILL);
    child.wait().expect("ends");
}

#[test]
fn stdout_can_be_closed_while_it_lives_on() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--close-stdout", "--wait-shutdown"]);
    let mut stdout = first_line(&mut child);
    stdout.read_to_end(&mut Vec::new()).expect("the end of the pipe");
    assert!(child.try_wait().expect("is ours").is_none(), "it ended with its pipe");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"{\"type\":\"shutdown\",\"reason\":\"cancelled\"}\n").expect("is read");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

#[test]
fn it_stops_itself_and_goes_on_when_continued() {
    let instance = Instance::new();
    let mut child = start(&instance, &["--stop-self"]);
    let stat = format!("/proc/{}/stat", child.id());
    until("a stopped process", BOUND_MS, || {
        std::fs::read_to_string(&stat).ok().filter(|stat| stat.contains(") T "))
    });
    send(&child, Signal::CONT);
    assert!(child.wait().expect("ends").success());
}

#[test]
fn a_variable_of_the_environment_is_shown_or_missing() {
    let instance = Instance::new();
    let flags = ["--echo-env", "HOME", "--echo-env", "NOT_SET_ANYWHERE"];
    let output = agent(&instance, &flags).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains(&format!("\"beliefs\":[\"{}/home\"]", instance.mark())), "{text}");
    assert!(text.contains("\"beliefs\":[null]"), "{text}");
}
