//! Agents that speak ACP, by their command alone: real ones by what they once said, and one of ours
//! for messages, interrupts, the relay, and ends that no recording shows.

use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, kinds, result, signal};
use rustix::process::Signal;
use serde_json::Value;
use testkit::{find_marked, until};

/// The command line of an agent that says again what a real one said.
fn recorded(ostler: &Ostler, name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtimes/src/acp/recordings");
    ostler.fake(&format!("--again {folder}/{name}"))
}

fn text(events: &[Value]) -> String {
    let texts = events.iter().filter(|event| event["kind"] == "assistant_text");
    texts.filter_map(|event| event["text"].as_str()).collect()
}

/// What a recording comes to.
struct Told {
    name: &'static str,
    flags: &'static [&'static str],
    exit: i32,
    code: Option<&'static str>,
    /// A piece of its last text.
    text: &'static str,
}

const fn well(name: &'static str, flags: &'static [&'static str], text: &'static str) -> Told {
    Told { name, flags, exit: 0, code: None, text }
}

const fn badly(name: &'static str, exit: i32, code: &'static str, text: &'static str) -> Told {
    Told { name, flags: &["--permission", "deny"], exit, code: Some(code), text }
}

const ALLOW: &[&str] = &["--permission", "allow-all"];

const TOLD: &[Told] = &[
    well("gemini-tool", ALLOW, "Tool rounds so far: 1."),
    well("claude-agent-acp-write", ALLOW, "Wrote written.txt."),
    well("opencode-hello", ALLOW, "Hello from the fake model."),
    well("hermes-tool", ALLOW, "Tool rounds so far: 1."),
    well("droid-tool", &["--permission", "allow-all", "--model", "custom:fake"], "so far: 1."),
    badly("copilot-tool.reject", 12, "permission_denied", "I will create the file now."),
    // Under another policy its mode would be set first, which was not recorded.
    Told {
        flags: ALLOW,
        ..badly("codex-acp-rate_limit", 6, "rate_limited", "429 Too Many Requests")
    },
    badly("cline-hello", 5, "auth_required", ""),
];

#[test]
fn real_agents_are_driven_by_their_command_alone() {
    for Told { name, flags, exit, code, text: piece } in TOLD {
        let ostler = Ostler::new();
        let agent = recorded(&ostler, name);
        let args = [&["run", "--acp", &agent, "do it", "--json"], *flags].concat();
        let said = ostler.says(&args);
        let events = said.events();
        assert_eq!(
            (said.code, result(&events)["code"].as_str()),
            (*exit, *code),
            "{name}: {said:?}"
        );
        assert_gap_free(&events);
        let text = text(&events);
        assert!(text.contains(piece), "{name}: {text}");
        assert!(kinds(&events).contains(&"turn") || *code == Some("auth_required"), "{name}");
    }
}

/// Starts an agent that asks, under `ask`, and waits for its question.
fn asked(ostler: &Ostler) -> (Running, Vec<Value>) {
    let agent = recorded(ostler, "gemini-tool");
    let mut run =
        ostler.starts(&["run", "--acp", &agent, "do it", "--json", "--permission", "ask"]);
    let mut seen = vec![run.event("the run to begin", |_| true)];
    while seen.last().is_some_and(|event| event["kind"] != "permission") {
        seen.push(run.event("the question", |_| true));
    }
    (run, seen)
}

#[test]
fn a_question_is_answered_by_a_person_with_the_narrowest_option() {
    let ostler = Ostler::new();
    let (run, mut events) = asked(&ostler);
    let ask = events.last().unwrap()["ask_id"].as_str().unwrap().to_owned();
    assert_eq!(ostler.says(&["answer", &ask, "allow"]).code, 0);
    events.extend(run.finish().events());
    let decided = events.iter().find(|event| event["decision"].is_string()).expect("a decision");
    assert_eq!(
        (&decided["option"], &decided["decided_by"]),
        (&"proceed_once".into(), &"person".into())
    );
    assert_eq!(result(&events)["outcome"], "succeeded");
}

#[test]
fn a_host_that_takes_over_between_a_question_and_its_answer_goes_on() {
    let ostler = Ostler::new();
    let (run, mut seen) = asked(&ostler);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let id = seen[0]["run_id"].as_str().unwrap().to_owned();
    let ask = seen.last().unwrap()["ask_id"].as_str().unwrap().to_owned();
    until("the run to be adopted", BOUND_MS, || {
        let events = ostler.events(&["show", &id, "--json"]);
        events.iter().any(|event| event["phase"] == "adopted").then_some(())
    });
    assert_eq!(ostler.says(&["answer", &ask, "allow"]).code, 0);
    let ran = run.finish();
    seen.extend(ran.events());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_gap_free(&seen);
    let asked = seen.iter().filter(|event| event["kind"] == "permission").count();
    assert_eq!(asked, 2, "the question and its decision, once each");
    assert_eq!(result(&seen)["text"], "Done: the file was created. Tool rounds so far: 1.");
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}

/// An agent says `waiting` and then waits. A last letter with which a known secret begins is held
/// back until the block ends, and which letters those are is chance.
pub fn is_waiting(event: &Value) -> bool {
    let said = event["text"].as_str().filter(|_| event["kind"] == "assistant_text");
    said.is_some_and(|text| text.starts_with("wait"))
}

#[test]
fn a_turn_is_interrupted_and_the_next_message_is_another() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--acp");
    let mut run = ostler.starts(&["run", "--acp", &agent, "wait", "--json"]);
    let mut events = vec![run.event("the run to begin", |_| true)];
    let id = events[0]["run_id"].as_str().unwrap().to_owned();
    events.push(run.event("it to wait", is_waiting));
    assert_eq!(ostler.says(&["interrupt", &id]).code, 0);
    events.push(run.event("the turn to end", |event| event["phase"] == "ended"));
    assert_eq!(events[2]["stop_reason"], "cancelled");
    assert_eq!(ostler.says(&["say", &id, "something else"]).code, 0);
    let said = run.finish();
    let rest = said.events();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(result(&rest)["text"], "you said something else");
}

#[test]
fn the_tools_of_the_relay_are_reached_as_the_session_offers_them() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--acp");
    let events = ostler.events(&["run", "--acp", &agent, "tools", "--json"]);
    let text = result(&events)["text"].as_str().unwrap_or_default();
    assert!(text.split(' ').any(|tool| tool == "read_task"), "{text}");
}

#[test]
fn an_agent_that_stays_after_its_prompt_succeeded_and_one_that_dies_in_it_did_not() {
    let ostler = Ostler::new();
    let (agent, args) = (testkit::fake_agent().display().to_string(), "--acp");
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "mine": {{ "type": "acp", "binary": "{agent}", "args": ["{args}"],
            "lingerSec": 0.2, "graceSec": 0.2, "id": "mine-1", "name": "My agent" }} }} }}"#
    ));
    let stays = ostler.says(&["run", "mine", "linger", "--json"]);
    let events = stays.events();
    assert_eq!((stays.code, &result(&events)["text"]), (0, &"staying".into()), "{stays:?}");
    until("it to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
    for (prompt, code, exit) in
        [("die", "process_crashed", 10), ("silent", "ended_without_result", 10)]
    {
        let said = ostler.says(&["run", "mine", prompt, "--json"]);
        let events = said.events();
        assert_eq!((said.code, &result(&events)["code"]), (exit, &code.into()), "{prompt}");
    }
    let programs = ostler.instance.root().join("bin");
    std::os::unix::fs::symlink(testkit::fake_agent(), programs.join("kiro-cli")).expect("a link");
    let listed = ostler.says(&["runtimes"]).stdout;
    let row = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(row("kiro-acp").contains("installed") && row("goose-acp").contains("not found"));
    assert!(listed.contains("Use NAME-acp"), "{listed}");
    assert!(listed.contains("mine") && listed.contains("My agent"), "{listed}");
}

#[test]
fn doctor_greets_an_agent_that_is_only_configured() {
    let ostler = Ostler::new();
    let agent = testkit::fake_agent().display().to_string();
    for (args, fits) in [("--acp", true), ("--burst", false)] {
        ostler.instance.write_config(&format!(
            r#"{{ "adapters": {{ "mine": {{ "type": "acp", "binary": "{agent}", "args": ["{args}"] }} }} }}"#
        ));
        let said = ostler.says(&["doctor", "mine", "--json"]);
        let report: Value = serde_json::from_str(&said.stdout).expect("JSON");
        let checks = report["diagnoses"][0]["checks"].as_array().expect("checks").clone();
        let greeted = checks.iter().any(|check| check["code"] == "handshake_answered");
        assert_eq!(greeted, fits, "{checks:#?}");
    }
}

/// Puts a program of this name on the path, which does as the script says.
fn program(ostler: &Ostler, name: &str, script: &str) -> String {
    let bin = ostler.instance.root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join(name);
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    format!("{}:/usr/bin:/bin", bin.display())
}

/// A program that says on each lane what the real one said there.
fn on_both_lanes(ostler: &Ostler, acp: &str) -> String {
    let native = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtimes/src/gemini/recordings/hello");
    let native = ostler.fake(&format!("--again {native}"));
    let acp = recorded(ostler, acp);
    let script = format!("case \"$*\" in --acp*) exec {acp};; *) exec {native};; esac");
    program(ostler, "gemini", &script)
}

/// Runs it, and gives its exit, its events and the lane it took.
fn laned(ostler: &Ostler, path: &str, args: &[&str]) -> (i32, Vec<Value>, Value) {
    let mut command = ostler.command(&[&["run", "gemini", "hi", "--json"], args].concat());
    let said = Running::of(command.env("PATH", path)).finish();
    let events = said.events();
    let id = events.first().map(|event| event["run_id"].as_str().unwrap_or_default().to_owned());
    let plan = id.map(|id| ostler.says(&["show", &id, "--plan", "--json"]).stdout);
    let plan: Value = serde_json::from_str(&plan.unwrap_or_default()).unwrap_or_default();
    (said.code, events, plan["lane"].clone())
}

#[test]
fn a_runtime_takes_the_lane_that_keeps_the_policy() {
    let ostler = Ostler::new();
    let path = on_both_lanes(&ostler, "gemini-hello");
    let rows = [
        ("auto", "deny", 0, "acp"),
        ("auto", "allow-reads", 0, "native"),
        ("auto", "allow-all", 0, "native"),
        ("acp", "allow-all", 0, "acp"),
        ("native", "allow-all", 0, "native"),
    ];
    for (lane, policy, exit, taken) in rows {
        ostler.instance.write_config(&format!(
            r#"{{ "adapters": {{ "gemini": {{ "type": "cli", "lane": "{lane}" }} }} }}"#
        ));
        let (code, events, seen) = laned(&ostler, &path, &["--permission", policy]);
        assert_eq!((code, &seen), (exit, &taken.into()), "{lane} {policy}: {events:#?}");
        assert_eq!(result(&events)["text"], "Hello from the fake model.", "{lane} {policy}");
    }
    ostler.instance.write_config(
        r#"{ "adapters": { "gemini": { "type": "cli", "lane": "native", "permission": "ask" } } }"#,
    );
    let mut command = ostler.command(&["run", "gemini", "hi"]);
    let refused = Running::of(command.env("PATH", &path)).finish();
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("lane: acp"), "{}", refused.stderr);
}

#[test]
fn doctor_says_which_policies_need_the_other_lane() {
    let ostler = Ostler::new();
    let path = on_both_lanes(&ostler, "gemini-hello");
    let doctor = |config: &str| {
        ostler.instance.write_config(config);
        let mut command = ostler.command(&["doctor", "gemini", "--json"]);
        Running::of(command.env("PATH", &path)).finish().stdout
    };
    let usual = doctor("{}");
    assert!(usual.contains("deny (lane acp), ask (lane acp), allow-reads, allow-all"), "{usual}");
    assert!(!usual.contains("handshake_"), "{usual}");
    // What it would be run by is what is greeted.
    for key in [r#""lane": "acp""#, r#""permission": "ask""#] {
        let config = format!(r#"{{ "adapters": {{ "gemini": {{ "type": "cli", {key} }} }} }}"#);
        let asking = doctor(&config);
        assert!(asking.contains("handshake_answered"), "{key}: {asking}");
    }
}

#[test]
fn a_conversation_of_one_lane_is_handed_over_to_the_other() {
    let ostler = Ostler::new();
    let path = on_both_lanes(&ostler, "gemini-hello");
    let (_, _, first) = laned(&ostler, &path, &["--permission", "deny"]);
    let (code, events, second) =
        laned(&ostler, &path, &["--continue", "--permission", "allow-all"]);
    assert_eq!((code, &first, &second), (0, &"acp".into(), &"native".into()), "{events:#?}");
    let told =
        |event: &Value| event["text"].as_str().is_some_and(|text| text.contains("hand-over"));
    assert!(events.iter().any(told), "{events:#?}");
}

#[test]
fn a_run_on_the_second_lane_is_taken_over_in_the_middle_of_a_question() {
    let ostler = Ostler::new();
    let path = on_both_lanes(&ostler, "gemini-tool");
    let mut command = ostler.command(&["run", "gemini", "hi", "--json", "--permission", "ask"]);
    let mut run = Running::of(command.env("PATH", &path));
    let asked = run.event("the question", |event| event["kind"] == "permission");
    signal(run.child.id() as i32, Signal::KILL);
    run.child.wait().unwrap();
    let word = |name: &str| asked[name].as_str().unwrap().to_owned();
    let mut watch = ostler.starts(&["watch", &word("run_id"), "--json"]);
    watch.event("it to be adopted", |event| event["phase"] == "adopted");
    assert_eq!(ostler.says(&["answer", &word("ask_id"), "allow"]).code, 0);
    assert_eq!(watch.finish().code, 0);
    let events = ostler.events(&["show", &word("run_id"), "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
}

#[test]
fn an_agent_that_is_known_by_name_needs_no_configuration() {
    let ostler = Ostler::new();
    // A program of that name, which says what the real one said.
    let script = format!("exec {}", recorded(&ostler, "kilo-hello"));
    let path = program(&ostler, "kilo", &script);
    let mut command =
        ostler.command(&["run", "kilo-acp", "hi", "--json", "--permission", "allow-all"]);
    let said = Running::of(command.env("PATH", path)).finish();
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(result(&said.events())["text"], "Hello from the fake model.");
    let missing = ostler.says(&["run", "kiro-acp", "hi", "--permission", "deny"]);
    assert_eq!(missing.code, 4, "{missing:?}");
    assert!(ostler.says(&["runtimes"]).stdout.contains("kiro-acp"));
}
