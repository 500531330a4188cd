//! What is done with every CLI, and what must come of it. Each function is one scenario and takes
//! the CLI by name; what differs between them is in their rows, never here.

use crate::clis::{Calls, OUR_TOOL, Prompt, Quota, Resumes, Thinking, Tokens};
use crate::ostler::{Said, assert_gap_free, result, signal};
use crate::stage::{QUOTA, Stage};
use crate::tokens;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// Words that no CLI has of its own.
const WORD: &str = "heron-47-at-the-weir";

/// A prompt that no command line has room for.
const LONG_BYTES: usize = 200 * 1024;
/// One that an argument has room for, together with what is said around it.
const ARGUMENT_BYTES: usize = 90 * 1024;

/// How a program that handles SIGTERM leaves after it.
const SIGTERM_EXIT: i32 = 143;

/// The events of a run that succeeded, after what holds for every success was looked at.
fn succeeded(stage: &Stage, said: &Said) -> Vec<Value> {
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    assert_eq!((said.code, &end["outcome"]), (0, &"succeeded".into()), "{end}\n{}", said.stderr);
    assert_tokens(stage, end, &stage.model.requests());
    stage.assert_nothing_left();
    events
}

/// What was spent is what the model says of these requests, or nothing is said of it.
pub fn assert_tokens(stage: &Stage, end: &Value, requests: &[Value]) {
    let expected = match stage.cli.tokens {
        Tokens::Told => tokens::reported(stage.cli, requests),
        Tokens::Undivided => tokens::undivided(tokens::reported(stage.cli, requests)),
        Tokens::Untold => tokens::reported(stage.cli, &[]),
    };
    assert_eq!(tokens::told(end), expected, "tokens of {end}");
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// Deltas and blocks of one kind, as one text.
fn text_of(events: &[Value], kind: &str) -> String {
    of_kind(events, kind).iter().filter_map(|event| event["text"].as_str()).collect()
}

pub fn hello(cli: &str) {
    let stage = Stage::new(cli, "hello");
    let line = "a line of a long prompt that says nothing of any use\n";
    let long =
        |bytes: usize| format!("begin-{WORD}\n{}end-{WORD}\n", line.repeat(bytes / line.len() + 1));
    let bytes = match stage.cli.prompt {
        Prompt::AnyLength => LONG_BYTES,
        Prompt::Argument => {
            let said = stage.run(&[], &long(LONG_BYTES));
            assert_eq!(said.code, 3, "{said:?}");
            assert!(said.stderr.contains("prompt_too_large"), "{said:?}");
            ARGUMENT_BYTES
        }
    };
    let said = stage.run(&[], &long(bytes));
    let events = succeeded(&stage, &said);
    assert_eq!(result(&events)["text"], "Hello from the fake model.");
    let requests = stage.model.requests();
    let whole = requests.iter().map(|request| stage.model.body(request)).any(|body| {
        let (begin, end) = (body.find("begin-heron"), body.find("end-heron"));
        begin.zip(end).is_some_and(|(begin, end)| end - begin >= bytes)
    });
    assert!(whole, "the model has seen the whole prompt: {requests:#?}");
    let word = stage.cli.tools.unwrap_or(OUR_TOOL);
    let offered = requests.iter().any(|request| stage.model.body(request).contains(word));
    assert_eq!(offered, stage.cli.tools.is_some(), "our tools are offered: {requests:#?}");
    let name = format!("hello, with a prompt of {} KB", bytes / 1024);
    stage.held(&name, said.code, &events);
}

/// A diff in a pipe beside a prompt reaches the model.
pub fn piped(cli: &str) {
    let stage = Stage::new(cli, "hello");
    // What the stage puts on standard input is the diff; the prompt is an argument.
    let diff = format!("diff --git a/x b/x\n+{WORD}\n");
    let said = stage.run(&["review this change"], &diff);
    let events = succeeded(&stage, &said);
    let requests = stage.model.requests();
    let has =
        |words: &str| requests.iter().any(|request| stage.model.body(request).contains(words));
    assert!(has("review this change") && has(WORD), "{requests:#?}");
    stage.held("a diff piped beside a prompt", said.code, &events);
}

pub fn write(cli: &str) {
    let stage = Stage::new(cli, "write");
    let said = stage.run(&[], "Write the file.");
    let events = succeeded(&stage, &said);
    let written = fs::read_to_string(stage.ostler.instance.work().join("written.txt"));
    assert_eq!(written.unwrap_or_default().trim_end(), "line one\nline two", "{events:#?}");
    match stage.cli.calls {
        Calls::Told => assert_paired(&events, 1),
        Calls::Untold => assert_paired(&events, 0),
    }
    stage.held("write a file", said.code, &events);
}

pub fn two_tools(cli: &str) {
    let stage = Stage::new(cli, "multi_tool");
    let said = stage.run(&[], "Run both commands.");
    let events = succeeded(&stage, &said);
    for (name, text) in [("one.txt", "one\n"), ("two.txt", "two\n")] {
        let path = stage.ostler.instance.work().join(name);
        assert_eq!(fs::read_to_string(path).unwrap_or_default(), text, "{name}");
    }
    assert_paired(&events, 2);
    assert!(text_of(&events, "assistant_text").contains("Both commands ran."));
    stage.held("two tools in one answer", said.code, &events);
}

/// Every use of a tool has one result, after it.
fn assert_paired(events: &[Value], count: usize) {
    let uses = of_kind(events, "tool_use");
    assert_eq!(uses.len(), count, "{events:#?}");
    for used in uses {
        let results: Vec<_> = of_kind(events, "tool_result")
            .into_iter()
            .filter(|result| result["tool_call_id"] == used["tool_call_id"])
            .collect();
        assert_eq!(results.len(), 1, "{used}");
        assert_eq!(results[0]["status"], "ok", "{}", results[0]);
        assert!(results[0]["seq"].as_u64() > used["seq"].as_u64());
    }
}

pub fn thinking(cli: &str) {
    let stage = Stage::new(cli, "thinking");
    let said = stage.run(&[], "Think, then answer.");
    let events = succeeded(&stage, &said);
    assert_eq!(text_of(&events, "assistant_text"), "After thinking: the answer is 42.");
    let thought = text_of(&events, "thinking");
    match stage.cli.thinking {
        Thinking::Shown => assert!(thought.contains("First I consider"), "{events:#?}"),
        Thinking::Counted => {
            let end = result(&events);
            assert_eq!(thought, "");
            assert!(end["totals"]["tokens"]["reasoning"].as_u64() > Some(0), "{end}");
        }
    }
    stage.held("think", said.code, &events);
}

pub fn goes_on(cli: &str) {
    let stage = Stage::new(cli, "hello");
    let first = succeeded(&stage, &stage.run(&[], &format!("Remember the word {WORD}.")));
    let before = stage.model.requests();
    let said = stage.run(&["--continue"], "Which word was it?");
    if stage.cli.resumes == Resumes::Never {
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.stderr.contains("not_supported"), "{said:?}");
        return stage.held("goes on with nothing: it has no conversations", 0, &first);
    }
    let events = said.events();
    let end = result(&events);
    assert_eq!((said.code, &end["outcome"]), (0, &"succeeded".into()), "{end}\n{}", said.stderr);
    let after = stage.model.requests().split_off(before.len());
    // Only what the second run spent.
    assert_tokens(&stage, end, &after);
    // Some name their conversation only at its end; what they took up they tell all the same.
    let resumed =
        |events: &[Value]| of_kind(events, "session").iter().any(|event| event["resumed"] == true);
    let taken_up = (resumed(&first), resumed(&events));
    assert_eq!(taken_up, (false, stage.cli.resumes == Resumes::ItsOwn), "{events:#?}");
    let remembered = after.iter().any(|request| {
        let body = stage.model.body(request);
        body.contains(WORD) && body.contains("Which word was it?")
    });
    assert!(remembered, "the model was told both: {after:#?}");
    stage.assert_nothing_left();
    let name = match stage.cli.resumes {
        Resumes::ItsOwn | Resumes::Never => "go on with a conversation",
        Resumes::Afresh => "go on with a conversation, begun afresh",
    };
    stage.held(name, said.code, &events);
}

pub fn quota(cli: &str) {
    let stage = Stage::new(cli, QUOTA);
    let said = stage.run(&[], "Say hello.");
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    let (exit, outcome, code) = match stage.cli.quota {
        Quota::WithReset | Quota::Named => (6, "failed", "provider_quota"),
        Quota::Silent => (8, "timed_out", "timeout_first_output"),
        Quota::Billing => (5, "failed", "billing"),
    };
    let seen = (said.code, &end["outcome"], &end["code"]);
    assert_eq!(seen, (exit, &outcome.into(), &code.into()), "{events:#?}");
    let told = of_kind(&events, "quota").into_iter().any(|event| {
        let windows = event["windows"].as_array();
        let spent = windows.and_then(|all| all.iter().find(|window| window["exhausted"] == true));
        !event["resets_at"].is_null() || spent.is_some_and(|window| !window["resets_at"].is_null())
    });
    assert_eq!(told, stage.cli.quota == Quota::WithReset, "whether the reset is told: {events:#?}");
    stage.assert_nothing_left();
    stage.held("a used-up quota", said.code, &events);
    if code == "provider_quota" {
        let next = stage.run(&[], "Say hello again.");
        assert_eq!(next.code, 6, "{next:?}");
        assert!(next.events().is_empty(), "the next run of that account does not start: {next:?}");
    }
}

/// A subscription whose window is used up until a time that is told.
pub fn plan_limit(cli: &str) {
    let stage = Stage::new(cli, "plan_limit");
    let said = stage.run(&[], "Say hello.");
    let events = said.events();
    let end = result(&events);
    assert_eq!((said.code, &end["code"]), (6, &"provider_quota".into()), "{events:#?}");
    let resets =
        of_kind(&events, "quota").into_iter().find_map(|event| event["resets_at"].as_str());
    let resets = resets.unwrap_or_else(|| panic!("no reset is told: {events:#?}"));
    let message = end["message"].as_str().unwrap_or_default();
    assert!(message.ends_with(&format!("it resets at {resets}")), "{message}");
    stage.assert_nothing_left();
    stage.held("a used-up plan, with its reset", said.code, &events);
}

/// Starts a tool that takes half a minute, and gives the run's id and the agent's pid once it runs.
fn in_a_tool(stage: &Stage) -> (crate::ostler::Running, String, i32) {
    let mut run = stage.start("Wait for a while.");
    let begun = run.event("the agent to run", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().expect("an id").to_owned();
    let pid = begun["pid"].as_i64().expect("a pid");
    let mark = stage.ostler.instance.mark();
    testkit::until("the tool's own process", crate::ostler::BOUND_MS, || {
        let all = testkit::find_marked(&mark);
        all.iter().any(|process| process.command.contains("tail -f /dev/null")).then_some(())
    });
    (run, id, i32::try_from(pid).expect("a pid"))
}

pub fn stopped(cli: &str) {
    let stage = Stage::new(cli, "tool_sleep");
    let (run, id, _) = in_a_tool(&stage);
    let stop = stage.ostler.says(&["stop", &id]);
    assert_eq!(stop.code, 0, "{stop:?}");
    let events = ended(&stage, &run.finish(), 130, "cancelled", "cancelled");
    let end = result(&events);
    if stage.cli.obeys {
        let by_itself = end["signal"].is_null() && end["exit_code"] != SIGTERM_EXIT;
        assert!(by_itself, "it was told to stop, and needed a signal: {end}");
    }
    assert_ne!(end["evidence"]["forced"], true, "{end}");
    stage.held("stopped in a tool", 130, &events);
}

pub fn killed(cli: &str) {
    let stage = Stage::new(cli, "tool_sleep");
    let (run, _, pid) = in_a_tool(&stage);
    signal(pid, Signal::KILL);
    let events = ended(&stage, &run.finish(), 10, "failed", "process_killed");
    stage.held("killed in a tool", 10, &events);
}

fn ended(stage: &Stage, said: &Said, exit: i32, outcome: &str, code: &str) -> Vec<Value> {
    stage.assert_nothing_left();
    let events = said.events();
    let end = result(&events);
    assert_eq!(
        (said.code, &end["outcome"], &end["code"]),
        (exit, &outcome.into(), &code.into()),
        "{end}\n{}",
        said.stderr
    );
    assert!(!stage.ostler.instance.work().join("slept.txt").exists(), "the tool did not end");
    events
}
