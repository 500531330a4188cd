//! Questions: a relayed tool that writes waits for a person, who may sit elsewhere.

use crate::ostler::{BOUND_MS, Ostler, result};
use serde_json::Value;
use testkit::until;

/// Starts the demo's `ask` under a policy and waits for its question.
fn asked(ostler: &Ostler) -> (crate::ostler::Running, Value) {
    let mut run = ostler.starts(&["run", "demo", "ask", "--json", "--permission", "ask"]);
    let question = run.event("the question", |event| event["kind"] == "permission");
    (run, question)
}

fn decision(events: &[Value]) -> &Value {
    events
        .iter()
        .find(|event| event["kind"] == "permission" && event["decision"].is_string())
        .expect("a decision")
}

#[test]
fn a_question_is_answered_from_another_process() {
    for (choice, written) in [("allow", true), ("deny", false)] {
        let ostler = Ostler::new();
        let (run, question) = asked(&ostler);
        let open: Vec<Value> = until("the question to be listed", BOUND_MS, || {
            let listed = ostler.says(&["approvals", "--json"]).stdout;
            serde_json::from_str(&listed).ok().filter(|open: &Vec<Value>| !open.is_empty())
        });
        assert_eq!(
            (open[0]["ask_id"].clone(), &open[0]["title"]),
            (
                question["ask_id"].clone(),
                &"may it use write_file on note-from-the-demo.txt?".into()
            )
        );
        let ask = question["ask_id"].as_str().unwrap();
        let answered = ostler.says(&["answer", &ask[ask.len() - 8..], choice]);
        assert_eq!(answered.code, 0, "{answered:?}");

        let events = run.finish().events();
        let decided = decision(&events);
        assert_eq!(
            (&decided["decision"], &decided["decided_by"], &decided["origin"]),
            (&choice.into(), &"person".into(), &"operator".into())
        );
        assert_eq!(events.last().unwrap()["outcome"], "succeeded");
        let note = ostler.instance.work().join("note-from-the-demo.txt");
        assert_eq!(note.exists(), written, "{choice}");

        let again = ostler.says(&["answer", ask, choice]);
        assert_eq!(again.code, 16, "{again:?}");
    }
}

#[test]
fn a_policy_that_allows_or_denies_asks_nobody() {
    for (policy, written) in [("allow-all", true), ("allow-reads", false), ("deny", false)] {
        let ostler = Ostler::new();
        let events = ostler.events(&["run", "demo", "ask", "--json", "--permission", policy]);
        assert!(events.iter().all(|event| event["kind"] != "permission"), "{policy}");
        assert_eq!(result(&events)["outcome"], "succeeded");
        assert_eq!(
            ostler.instance.work().join("note-from-the-demo.txt").exists(),
            written,
            "{policy}"
        );
        let denied =
            events.iter().any(|event| event["kind"] == "tool_result" && event["denied"] == true);
        assert_eq!(denied, !written, "{policy}");
    }
}

#[test]
fn a_question_that_nobody_answers_is_denied() {
    let ostler = Ostler::new();
    ostler.instance.write_config(
        r#"{ "adapters": { "shy": { "type": "cli", "runtime": "demo", "askTimeoutSec": 1, "permission": "ask" } } }"#,
    );
    let events = ostler.events(&["run", "shy", "ask", "--json"]);
    let decided = decision(&events);
    assert_eq!((&decided["decision"], &decided["decided_by"]), (&"deny".into(), &"timeout".into()));
    assert_eq!(result(&events)["outcome"], "succeeded");
    assert!(!ostler.instance.work().join("note-from-the-demo.txt").exists());
}

#[test]
fn a_message_that_comes_before_the_agents_first_word_waits_for_it() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--sleep-ms 1500 --converse");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let begun = run.event("the run to begin", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    for message in ["early", "end"] {
        assert_eq!(ostler.says(&["say", &id, message]).code, 0);
    }
    let events = run.finish().events();
    let of_agent = events.iter().filter(|event| event["origin"] == "agent");
    let heard = of_agent.filter(|event| event["text"] == "heard: early").count();
    assert_eq!(heard, 1, "{events:#?}");
    assert_eq!(events.last().unwrap()["outcome"], "succeeded");
}

#[test]
fn a_message_reaches_an_agent_that_takes_it_and_is_refused_by_one_that_does_not() {
    let ostler = Ostler::new();
    let mut run = ostler.starts(&["run", "--process", &ostler.fake("--converse"), "x", "--json"]);
    let begun = run.event("the run to begin", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    assert_eq!(ostler.says(&["say", &id, "how is the weather?"]).code, 0);
    run.event("the echo", |event| {
        event["origin"] == "agent"
            && event["text"].as_str().is_some_and(|text| text.contains("how is the weather?"))
    });
    assert_eq!(ostler.says(&["say", &id, "end"]).code, 0);
    let events = run.finish().events();
    assert_eq!(events.last().unwrap()["outcome"], "succeeded");

    let mut deaf = ostler.starts(&[
        "run",
        "--process",
        &ostler.fake("--burst 1 --wait-shutdown"),
        "x",
        "--json",
    ]);
    let heard = deaf.event("the agent to speak", |event| event["origin"] == "agent");
    let id = heard["run_id"].as_str().unwrap().to_owned();
    for args in [&["say", &id, "hello?"][..], &["interrupt", &id]] {
        let said = ostler.says(args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.complaint().starts_with("error: not_supported: "), "{said:?}");
    }
    assert_eq!(ostler.says(&["stop", &id]).code, 0);
    assert_eq!(deaf.finish().code, 130);
}
