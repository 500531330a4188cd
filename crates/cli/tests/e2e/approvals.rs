//! What agents put to people: an approval whose answer comes back to them, a colleague who is hired
//! only by a person's yes, and a task that is handed over.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, Running, result};
use serde_json::{Value, json};
use testkit::until;

/// An agent that calls one tool under a policy that would allow everything, and its question.
fn asked(ostler: &Ostler, tool: &str, args: &str) -> (Running, Value) {
    let agent = ostler.fake(&format!("--tool {tool} '{args}'"));
    let args = ["run", "--process", &agent, "x", "--json", "--permission", "allow-all"];
    let mut run = ostler.starts(&args);
    let question = run.event("the question", |event| event["kind"] == "permission");
    (run, question)
}

pub(crate) fn answer(ostler: &Ostler, question: &Value, choice: &str) {
    let ask = question["ask_id"].as_str().unwrap();
    until("the question to be listed", BOUND_MS, || {
        ostler.says(&["approvals", "--json"]).stdout.contains(ask).then_some(())
    });
    let said = ostler.says(&["answer", ask, choice]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// What the tool answered.
fn answered(events: &[Value]) -> &Value {
    let found = events.iter().find(|event| event["kind"] == "tool_result");
    found.unwrap_or_else(|| panic!("no answer: {events:#?}"))
}

#[test]
fn notice_says_the_shorter_of_two_limits() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--tool request_approval '{\"text\":\"ship it now?\"}'");
    let said = ostler.says(&["run", "--process", &agent, "x", "--timeout", "4s"]);
    let notice = said.stderr.lines().find(|line| line.contains("an approval is requested"));
    let notice = notice.unwrap_or_else(|| panic!("no notice: {said:?}"));
    assert!(notice.contains("waits for 3.") || notice.contains("waits for 2."), "{notice}");
}

#[test]
fn an_approval_is_asked_whatever_the_policy_and_its_answer_comes_back() {
    let args = r#"{"text":"ship it now?","options":["ship","wait a day"]}"#;
    for (choice, decision, option) in [
        ("wait a day", "allow", "wait a day"),
        ("allow", "allow", "ship"),
        ("deny", "deny", "deny"),
    ] {
        let ostler = Ostler::new();
        let (run, question) = asked(&ostler, "request_approval", args);
        assert_eq!(question["title"], "ship it now?");
        answer(&ostler, &question, choice);
        let events = run.finish().events();
        let output = &answered(&events)["output"];
        assert_eq!(
            (&output["decision"], &output["option"], &output["decided_by"]),
            (&decision.into(), &option.into(), &"person".into()),
            "{events:#?}"
        );
        assert_eq!(result(&events)["outcome"], "succeeded");
        let audit = std::fs::read_to_string(ostler.instance.data().join("audit.jsonl")).unwrap();
        let line = audit.lines().find(|line| line.contains(r#""what":"answered""#)).unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["by"], &line["ask_id"], &line["option"]),
            (&"owner".into(), &question["ask_id"], &choice.into())
        );
    }
}

#[test]
fn an_approval_that_nobody_gives_is_a_no_and_one_without_words_is_refused() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "shy": {{ "type": "process", "binary": "{}", "askTimeoutSec": 1,
              "args": ["--tool", "request_approval", "{{\"text\":\"may I?\"}}",
                       "--tool", "request_approval", "{{}}"] }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let events = ostler.events(&["run", "shy", "x", "--json"]);
    let answers: Vec<&Value> =
        events.iter().filter(|event| event["kind"] == "tool_result").collect();
    assert_eq!(
        (&answers[0]["output"]["decision"], &answers[0]["output"]["decided_by"]),
        (&"deny".into(), &"timeout".into())
    );
    assert_eq!(answers[1]["output"]["code"], "usage", "{events:#?}");
    let questions = events.iter().filter(|event| event["kind"] == "permission");
    assert_eq!(questions.filter(|event| event["decision"].is_null()).count(), 1);
}

#[test]
fn a_colleague_is_hired_by_a_persons_yes_and_by_nothing_else() {
    let args = r#"{"name":"helper","adapter":"demo","reason":"two are quicker"}"#;
    for (choice, there) in [("allow", true), ("deny", false)] {
        let ostler = Ostler::new();
        let (run, question) = asked(&ostler, "propose_agent", args);
        assert_eq!(question["title"], "hire 'helper' on demo? two are quicker");
        assert_eq!(ostler.says(&["agents", "show", "helper"]).code, 16);
        let listed = until("the question to be listed", BOUND_MS, || {
            let listed = ostler.says(&["approvals", "--json"]).stdout;
            serde_json::from_str::<Vec<Value>>(&listed).ok().filter(|open| !open.is_empty())
        });
        assert_eq!(listed[0]["kind"], "hire");
        assert_eq!(listed[0]["approval_id"], listed[0]["ask_id"], "the older name is still read");
        answer(&ostler, &question, choice);
        let events = run.finish().events();
        let output = &answered(&events)["output"];
        match there {
            true => assert_eq!(output["hired"], "helper", "{events:#?}"),
            false => assert_eq!(output["code"], "permission_denied", "{events:#?}"),
        }
        let shown = ostler.says(&["agents", "show", "helper", "--json"]);
        assert_eq!(shown.code, if there { 0 } else { 16 });
        if there {
            let agent: Value = serde_json::from_str(&shown.stdout).unwrap();
            let by = agent["hired_by"].as_str().unwrap();
            assert!(by.starts_with("owner, as run_"), "{by}");
            assert_eq!(ostler.says(&["run", "helper", "hello", "--quiet"]).code, 0);
        }
    }
}

#[test]
fn a_task_is_handed_over_with_what_the_agent_needs() {
    let ostler = Ostler::new();
    let call = r#"--tool handoff '{"question":"which database?","summary":"half done"}'"#;
    let events = ostler.events(&["run", "--process", &ostler.fake(call), "x", "--json"]);
    let end = result(&events);
    assert_eq!(
        (&end["outcome"], &end["text"]),
        (&"succeeded".into(), &"which database?\n\nhalf done".into())
    );
    assert_eq!(end["output"]["handoff"]["question"], "which database?");
}

#[test]
fn a_task_that_was_handed_over_waits_for_words_and_goes_on_with_them() {
    let ostler = Ostler::new();
    let config = json!({ "adapters": { "unsure": {
        "type": "process",
        "binary": testkit::fake_agent(),
        "args": ["--tool", "handoff", r#"{"question":"which database?"}"#],
    } } });
    ostler.instance.write_config(&config.to_string());
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let add = ["task", "add", "--agent", "unsure", "--title", "make it", "--key", "it"];
    assert_eq!(ostler.says(&add).code, 0);
    let waits = |runs: usize| {
        until("the task to wait for an answer", BOUND_MS, || {
            let shown = ostler.says(&["task", "show", "it", "--json"]).stdout;
            let sheet: Value = serde_json::from_str(&shown).unwrap();
            let there = sheet["runs"].as_array().is_some_and(|there| there.len() == runs);
            (there && sheet["waiting_for"] == "answer").then_some(sheet)
        })
    };
    waits(1);
    // The page says what was asked, and how it is answered.
    let page = ostler.says(&["task", "show", "it"]).stdout;
    assert!(page.contains("which database?") && page.contains("ostler task comment "), "{page}");
    assert_eq!(ostler.says(&["task", "comment", "it", "the one we have"]).code, 0);
    let sheet = waits(2);
    let asked = sheet["next_prompt"].as_str().unwrap_or_default();
    assert_eq!(asked, "the one we have", "{sheet}");
    let events = ostler.events(&["show", "it", "--json"]);
    // The agent cannot resume its conversation, so it is told what is known of it.
    let text = events[0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("You are continuing work"), "{events:#?}");
    assert!(text.ends_with("make it\n\nthe one we have"), "{events:#?}");
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
}

#[test]
fn a_question_is_listed_and_answered_over_http() {
    let door = Door::open();
    let mut run = door.ostler.starts(&["run", "demo", "ask", "--json", "--permission", "ask"]);
    let question = run.event("the question", |event| event["kind"] == "permission");
    let ask = question["ask_id"].as_str().unwrap();
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
    ];
    until("the question to be listed", BOUND_MS, || {
        let listed = door.request("GET", "/api/v1/asks", &headers[..2], "");
        listed.body.contains(ask).then_some(())
    });
    let path = format!("/api/v1/asks/{ask}/answer");
    let odd = door.request("POST", &path, &headers, r#"{"option":"perhaps"}"#);
    assert_eq!(odd.status, 400, "{}", odd.body);
    let given = door.request("POST", &path, &headers, r#"{"option":"allow"}"#);
    assert_eq!(given.status, 202, "{}", given.body);
    assert_eq!(result(&run.finish().events())["outcome"], "succeeded");
    assert!(door.ostler.instance.work().join("note-from-the-demo.txt").exists());
}

#[test]
fn a_secret_in_a_question_is_shown_to_nobody() {
    let ostler = Ostler::new();
    let config = json!({ "adapters": { "loud": {
        "type": "process",
        "binary": testkit::fake_agent(),
        "env": { "SHIP_TOKEN": "sh1p-t0ken-that-nobody-sees" },
        "args": ["--tool", "request_approval",
            r#"{"text":"use sh1p-t0ken-that-nobody-sees?","options":["sh1p-t0ken-that-nobody-sees"]}"#],
    } } });
    ostler.instance.write_config(&config.to_string());
    let mut run = ostler.starts(&["run", "loud", "x", "--json"]);
    run.event("the question", |event| event["kind"] == "permission");
    for how in [&["approvals"][..], &["approvals", "--json"]] {
        let said = until("the question to be listed", BOUND_MS, || {
            Some(ostler.says(how)).filter(|said| said.stdout.contains("use "))
        });
        assert!(!said.stdout.contains("sh1p-t0ken"), "{said:?}");
    }
    let asks = ostler.says(&["approvals", "--json"]).stdout;
    let asks: Vec<Value> = serde_json::from_str(&asks).unwrap();
    let ask = asks[0]["ask_id"].as_str().unwrap();
    assert_eq!(ostler.says(&["answer", ask, "deny"]).code, 0);
    assert_eq!(result(&run.finish().events())["outcome"], "succeeded");
}

#[test]
fn a_secret_in_what_a_task_waits_for_or_failed_of_is_kept_nowhere() {
    for args in [
        ["--tool", "handoff", r#"{"question":"is it ruby-4f9a77-otter-lake?"}"#].as_slice(),
        &["--failed", "is it not ruby-4f9a77-otter-lake?"],
    ] {
        let ostler = Ostler::new();
        let config = json!({ "adapters": { "loud": {
            "type": "process",
            "binary": testkit::fake_agent(),
            "env": { "SHIP_TOKEN": "ruby-4f9a77-otter-lake" },
            "args": args,
        } } });
        ostler.instance.write_config(&config.to_string());
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(serve.line().starts_with("listening on "));
        let added = ["task", "add", "--agent", "loud", "--title", "it", "--key", "it"];
        assert_eq!(ostler.says(&added).code, 0);
        let shown = until("the task to say what it is about", BOUND_MS, || {
            let shown = ostler.says(&["task", "show", "it"]).stdout;
            Some(shown).filter(|shown| shown.contains("is it "))
        });
        assert!(!shown.contains("4f9a77"), "{shown}");
        until("the raw output to go", BOUND_MS, || ostler.spools().is_empty().then_some(()));
        serve.child.kill().unwrap();
        serve.child.wait().unwrap();
        kept_nowhere(&ostler, "4f9a77");
    }
}

/// That no file has these words but the configuration; the raw output of runs that have ended is gone.
fn kept_nowhere(ostler: &Ostler, words: &str) {
    until("the raw output to go", BOUND_MS, || ostler.spools().is_empty().then_some(()));
    for file in ostler.files().iter().filter(|file| !file.ends_with("ostler.json")) {
        let bytes = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(words), "{}", file.display());
    }
}

#[test]
fn a_secret_in_what_an_agent_hands_on_is_kept_nowhere() {
    let handed = r#"{"title":"part ruby-4f9a77-otter-lake","body":"use ruby-4f9a77-otter-lake"}"#;
    let hired = r#"{"name":"helper","adapter":"demo","system_prompt":"say ruby-4f9a77-otter-lake",
        "reason":"ruby-4f9a77-otter-lake"}"#;
    for (tool, args) in [("create_subtask", handed), ("propose_agent", hired)] {
        let ostler = Ostler::new();
        let config = json!({ "adapters": { "loud": {
            "type": "process",
            "binary": testkit::fake_agent(),
            "env": { "SHIP_TOKEN": "ruby-4f9a77-otter-lake" },
            "args": ["--tool", tool, args],
        } } });
        ostler.instance.write_config(&config.to_string());
        let mut run = ostler.starts(&["run", "loud", "x", "--json", "--permission", "allow-all"]);
        if tool == "propose_agent" {
            let question = run.event("the question", |event| event["kind"] == "permission");
            answer(&ostler, &question, "allow");
        }
        let events = run.finish().events();
        assert_eq!(answered(&events)["status"], "ok", "{events:#?}");
        let shown = match tool {
            "propose_agent" => ostler.says(&["agents", "show", "helper", "--json"]).stdout,
            _ => ostler.says(&["task", "list", "--json"]).stdout,
        };
        assert!(shown.contains("[redacted:SHIP_TOKEN]"), "{shown}");
        kept_nowhere(&ostler, "4f9a77");
    }
}

#[test]
fn a_key_in_what_a_person_hands_over_is_kept_nowhere() {
    // In two pieces, so that no one who looks for keys finds one here.
    let key = format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
    let ostler = Ostler::new();
    let say = |words: &str| format!("{words} {key}");
    let (title, body, label) = (say("title"), say("body"), say("label"));
    let added = ["task", "add", "--agent", "demo", "--cwd", ".", "--key", "it", "--title", &title];
    let added = ostler.says(&[&added[..], &["--body", &body, "--label", &label]].concat());
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(ostler.says(&["task", "comment", "it", &say("comment")]).code, 0);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    until("the task to be looked at", BOUND_MS, || {
        ostler.says(&["task", "show", "it"]).stdout.contains("review").then_some(())
    });
    assert_eq!(ostler.says(&["task", "reject", "it", &say("reason")]).code, 0);
    until("the reason to be worked by", BOUND_MS, || {
        let runs = ostler.says(&["runs", "--json"]).stdout;
        let runs: Vec<Value> = serde_json::from_str(&runs).ok()?;
        (runs.len() == 2 && runs.iter().all(|run| run["state"] == "settled")).then_some(())
    });
    let shown = ostler.says(&["task", "show", "it"]).stdout;
    assert!(shown.contains("title [redacted"), "{shown}");
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
    kept_nowhere(&ostler, &key);
}

#[test]
fn an_agent_can_look_up_when_to_use_each_runtime_and_when_not() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--tool list_runtimes {}");
    let events = ostler.events(&["run", "--process", &agent, "x", "--json"]);
    let found = answered(&events);
    // A model reads it whole, so it is no blob.
    assert!(found["output"].is_object(), "{found}");
    assert!(found["output"]["acp"].as_array().is_some_and(|acp| acp.len() >= 10), "{found}");
    assert!(found["output"]["adapters"].is_array() && found["output"]["agents"].is_array());
    let runtimes = found["output"]["runtimes"].as_array().unwrap().clone();
    assert!(runtimes.len() >= 14, "{}", runtimes.len());
    for runtime in &runtimes {
        for line in ["use_when", "dont_use_when"] {
            assert!(runtime[line].as_str().is_some_and(|text| text.len() > 10), "{runtime}");
        }
    }
    let listed: Value = serde_json::from_str(&ostler.says(&["runtimes", "--json"]).stdout).unwrap();
    assert_eq!(listed["runtimes"].as_array().unwrap().len(), runtimes.len());
}
