//! An agent by configuration alone: the made-up agent of `docs/protocols/mapped.md` with the very
//! configuration that stands there. What the page says is what happens.

use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, kinds, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::until;

const PAGE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/mapped.md"));
const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/chatter.py");

/// An instance with the configuration of the page, in which the agent is started by its path.
fn chatter(change: impl Fn(String) -> String) -> Ostler {
    let ostler = Ostler::new();
    let (_, rest) = PAGE.split_once("```jsonc\n").expect("the page has a configuration");
    let (config, _) = rest.split_once("```").expect("which ends");
    let start = ostler.instance.root().join("chatter");
    std::fs::write(&start, format!("#!/bin/sh\nexec python3 {AGENT} \"$@\"\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&start, mode).unwrap();
    let config = config.replace("chatter.py", &start.display().to_string());
    ostler.instance.write_config(&change(config));
    ostler
}

fn as_it_is() -> Ostler {
    chatter(|config| config)
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

const ALL: &str = "--permission=allow-all";

#[test]
fn the_agent_of_the_page_runs_by_the_configuration_of_the_page() {
    let ostler = as_it_is();
    let checked = ostler.says(&["config", "check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let said = ostler.says(&["run", "chatter", "hello", "--json", ALL]);
    let events = said.events();
    assert_gap_free(&events);
    let agents = events.iter().filter(|event| event["origin"] == "agent").cloned();
    assert_eq!(
        kinds(&agents.collect::<Vec<_>>()),
        [
            "session",
            "turn",
            "thinking",
            "assistant_text",
            "tool_use",
            "tool_result",
            "diff",
            "usage",
            "turn"
        ],
    );
    let ended = result(&events);
    assert_eq!(
        (&ended["outcome"], &ended["text"], &ended["evidence"]["end"]),
        (&json!("succeeded"), &json!("You said: hello"), &json!("structured"))
    );
    let tokens = &ended["totals"]["tokens"];
    assert_eq!(
        (&tokens["input_uncached"], &tokens["cache_read"], &tokens["output"]),
        (&json!(100), &json!(20), &json!(30))
    );
    assert_eq!(ended["totals"]["effective_nanousd"], 1_200_000);
    let call = of_kind(&events, "tool_use")[0];
    assert_eq!((&call["tool_kind"], &call["title"]), (&json!("edit"), &json!("note.txt")));
    assert_eq!(of_kind(&events, "diff")[0]["new_text"], "hello");
    assert!(ostler.instance.work().join("note.txt").exists(), "it worked where it was told to");
}

#[test]
fn its_conversation_is_taken_up_again_with_another_model() {
    let ostler = as_it_is();
    assert_eq!(ostler.says(&["run", "chatter", "hello", ALL]).code, 0);
    let again = ["run", "chatter", "more", "--continue", "--model", "acme-2", "--json", ALL];
    let events = ostler.events(&again);
    let session = of_kind(&events, "session")[0];
    assert_eq!(
        (&session["native_session"], &session["resumed"], &session["model"]),
        (&json!("c-17"), &json!(true), &json!("acme-2"))
    );
}

#[test]
fn every_way_it_can_end_has_its_code() {
    let ostler = as_it_is();
    let rows = [
        ("fail", 6, "rate_limited"),
        ("locked", 5, "auth_required"),
        ("vanish", 10, "ended_without_result"),
    ];
    for (prompt, exit, code) in rows {
        let said = ostler.says(&["run", "chatter", prompt, "--json", ALL]);
        let events = said.events();
        assert_eq!((said.code, &result(&events)["code"]), (exit, &json!(code)), "{prompt}");
    }
    // A policy that the mapping has no arguments for is refused before anything is started.
    for policy in ["ask", "deny"] {
        let said = ostler.says(&["run", "chatter", "hello", "--permission", policy]);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.stderr.contains("policy_not_possible"), "{said:?}");
    }
    let looks = ostler.events(&["run", "chatter", "hello", "--json", "--permission=allow-reads"]);
    assert_eq!(of_kind(&looks, "tool_use").len(), 0);
}

#[test]
fn an_agent_that_tells_no_end_succeeds_by_its_exit_when_the_mapping_says_so() {
    let ostler =
        chatter(|config| config.replace("\"exit\": {", "\"exit\": { \"success\": \"zero\","));
    let said = ostler.says(&["run", "chatter", "vanish", "--json", ALL]);
    let events = said.events();
    let ended = result(&events);
    assert_eq!(
        (said.code, &ended["outcome"], &ended["text"], &ended["evidence"]["end"]),
        (0, &json!("succeeded"), &json!("You said: vanish"), &json!("exit"))
    );
    assert_eq!(of_kind(&events, "turn").len(), 2, "its turn began and ended");
    let locked = ostler.says(&["run", "chatter", "locked", ALL]);
    assert_eq!(locked.code, 5, "{locked:?}");
}

#[test]
fn another_host_reads_on_by_the_rules_of_the_first() {
    let ostler = as_it_is();
    let args = ["run", "chatter", "wait for me", "--json", ALL];
    let mut host = Running::of(&mut ostler.command(&args));
    let said = host.event("the first words", |event| event["kind"] == "assistant_text");
    let run = said["run_id"].as_str().unwrap().to_owned();
    signal(host.child.id() as i32, Signal::KILL);
    host.child.wait().unwrap();
    // The rules are with the run: the file does not matter any more.
    ostler.instance.write_config("{}");
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    std::fs::write(ostler.instance.work().join("go-on"), "").unwrap();
    let events = until("the run to end", BOUND_MS, || {
        let events = ostler.events(&["show", &run, "--json"]);
        events.last().is_some_and(|event| event["kind"] == "result").then_some(events)
    });
    let ended = result(&events);
    assert_eq!(
        (&ended["outcome"], &ended["text"]),
        (&json!("succeeded"), &json!("You said: wait for me")),
        "{ended}"
    );
    assert_gap_free(&events);
    signal(serve.child.id() as i32, Signal::TERM);
    serve.child.wait().unwrap();
}

#[test]
fn a_mapping_with_mistakes_is_refused_with_the_key_and_what_to_do() {
    let rows = [
        ("\"call.no\", \"name\"", "\"call[no\", \"name\"", "mapping.rules[4].toolUse.id"),
        ("\"end\": { \"success\": true }", "\"ignore\": true, \"turn\": true", "mapping.rules[8]"),
        ("\"--lines\"", "\"--lines={{lines}}\"", "mapping.args[0]"),
        ("\"77\"", "\"777\"", "mapping.exit.codes"),
        ("\"ok\": {", "\"okay\": {", "mapping.rules[5].toolResult.okay"),
    ];
    for (right, wrong, key) in rows {
        let ostler = chatter(|config| config.replacen(right, wrong, 1));
        let said = ostler.says(&["run", "chatter", "hello", ALL]);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.stderr.contains(&format!("adapters.chatter.{key}:")), "{key}: {said:?}");
    }
}
