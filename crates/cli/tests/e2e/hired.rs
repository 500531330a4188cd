//! Agents that were hired: looked up after the configuration and before the registry, told who they
//! are, and held back while they are paused or retired.

use crate::ostler::{BOUND_MS, Ostler, Running, Said, result};
use serde_json::Value;
use testkit::until;

fn json(said: &Said) -> Value {
    assert_eq!(said.code, 0, "{said:#?}");
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:#?}"))
}

fn hire(ostler: &Ostler, name: &str, more: &[&str]) -> Value {
    let args = [&["agents", "hire", name, "--adapter", "demo", "--json"], more].concat();
    json(&ostler.says(&args))
}

/// What the agent was asked, as it was told itself.
fn asked(events: &[Value]) -> String {
    let told =
        |event: &&Value| event["kind"] == "tool_result" && !event["output"]["prompt"].is_null();
    let sheet = events.iter().find(told).unwrap_or_else(|| panic!("no task was read: {events:#?}"));
    sheet["output"]["prompt"].as_str().unwrap().to_owned()
}

#[test]
fn a_hired_agent_runs_by_its_name() {
    let ostler = Ostler::new();
    let hired = hire(&ostler, "rev", &["--model", "m-1", "--budget", "month=80"]);
    assert_eq!(
        (&hired["state"], &hired["source"], &hired["warnings"], &hired["hired_by"]),
        (&"active".into(), &"hired".into(), &Value::from(Vec::<Value>::new()), &"owner".into())
    );
    let events = ostler.events(&["run", "rev", "hello", "--json"]);
    assert_eq!(result(&events)["outcome"], "succeeded");
    assert_eq!(asked(&events), "hello", "what is sent is what the transcript shows");
    assert_eq!(events[0]["text"], "hello");

    let listed = json(&ostler.says(&["agents", "--json"]));
    let row = &listed.as_array().unwrap()[0];
    assert_eq!(
        (&row["name"], &row["adapter"], &row["model"], &row["running"]),
        (&"rev".into(), &"demo".into(), &"m-1".into(), &0.into())
    );
    assert!(row["month_nanousd"].as_i64().unwrap() > 0, "{row}");
    let runs = json(&ostler.says(&["runs", "--json"]));
    assert_eq!((&runs[0]["agent"], &runs[0]["adapter"]), (&"rev".into(), &"demo".into()));
    let table = ostler.says(&["agents"]).stdout;
    assert!(table.contains("THIS MONTH") && table.contains("rev"), "{table}");
}

#[test]
fn who_is_paused_or_retired_begins_nothing_and_the_name_is_not_given_again() {
    let ostler = Ostler::new();
    hire(&ostler, "rev", &[]);
    for (verb, word) in [("pause", "is paused"), ("retire", "is retired")] {
        assert_eq!(ostler.says(&["agents", verb, "rev"]).code, 0);
        // Said again it is so already.
        assert_eq!(ostler.says(&["agents", verb, "rev"]).code, 0);
        let refused = ostler.says(&["run", "rev", "hello"]);
        assert_eq!(refused.code, 13, "{refused:?}");
        assert!(refused.stderr.contains(word), "{refused:?}");
        if verb == "pause" {
            assert_eq!(ostler.says(&["agents", "resume", "rev"]).code, 0);
            assert_eq!(ostler.says(&["run", "rev", "hello", "--quiet"]).code, 0);
        }
    }
    for again in [
        &["agents", "resume", "rev"][..],
        &["agents", "edit", "rev", "--model", "m"],
        &["agents", "hire", "rev", "--adapter", "demo"],
    ] {
        assert_eq!(ostler.says(again).code, 13, "{again:?}");
    }
    // Its runs stay, and it is shown when everyone is.
    assert_eq!(json(&ostler.says(&["runs", "--json"])).as_array().unwrap().len(), 1);
    assert_eq!(json(&ostler.says(&["agents", "--json"])), Value::from(Vec::<Value>::new()));
    let all = json(&ostler.says(&["agents", "list", "--all", "--json"]));
    assert_eq!(all[0]["state"], "retired");
}

#[test]
fn a_name_is_looked_up_in_the_configuration_then_among_the_hired_then_in_the_registry() {
    let ostler = Ostler::new();
    ostler.instance.write_config(
        r#"{ "adapters": { "mine": { "type": "cli", "runtime": "demo" } },
             "agents": { "desk": { "adapter": "demo" } } }"#,
    );
    // A runtime's own name, taken by someone who was hired.
    hire(&ostler, "pi", &[]);
    let events = ostler.events(&["run", "pi", "hello", "--json"]);
    assert_eq!(asked(&events), "hello", "{events:#?}");
    // A configured adapter comes first, and whoever hires is told.
    let shadowed = hire(&ostler, "mine", &[]);
    assert!(shadowed["warnings"][0].as_str().unwrap().contains("has precedence"), "{shadowed}");
    assert_eq!(asked(&ostler.events(&["run", "mine", "hello", "--json"])), "hello");
    // The configuration's own agents are listed, can be paused, and not retired here.
    assert_eq!(ostler.says(&["agents", "pause", "desk"]).code, 0);
    assert_eq!(ostler.says(&["run", "desk", "hello"]).code, 13);
    assert_eq!(ostler.says(&["agents", "retire", "desk"]).code, 13);
    let desk = json(&ostler.says(&["agents", "show", "desk", "--json"]));
    assert_eq!((&desk["source"], &desk["state"]), (&"configured".into(), &"paused".into()));
    assert_eq!(ostler.says(&["agents", "show", "nobody"]).code, 16);
}

#[test]
fn warnings_keep_nobody_from_saving_and_mistakes_do() {
    let ostler = Ostler::new();
    let saved = hire(&ostler, "rev", &["--cwd", "/nowhere/at/all", "--tool", "fly"]);
    assert_eq!(saved["warnings"].as_array().unwrap().len(), 2, "{saved}");
    assert_eq!(saved["spec"]["cwd"], "/nowhere/at/all");
    let wrong = ostler.says(&["agents", "hire", "two", "--adapter", "demo", "--set", "modle=m"]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.stderr.contains("modle") && wrong.stderr.contains("model"), "{wrong:?}");
    assert_eq!(ostler.says(&["agents", "hire", "a b", "--adapter", "demo"]).code, 2);

    let edited =
        ostler.says(&["agents", "edit", "rev", "--model", "m", "--unset", "cwd", "--json"]);
    let edited = json(&edited);
    assert_eq!((&edited["version"], &edited["spec"]["model"]), (&2.into(), &"m".into()));
    assert_eq!(edited["spec"]["cwd"], Value::Null);
}

/// A server in the background, which is gone when the test is.
struct Served(Running);

impl Served {
    fn new(ostler: &Ostler) -> Self {
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(serve.line().starts_with("listening on "));
        Self(serve)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that is gone already needs no end.
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
    }
}

fn add(ostler: &Ostler, agent: &str) -> String {
    let args = ["task", "add", "--title", "hello", "--agent", agent, "--review", "none", "--json"];
    json(&ostler.says(&args))["id"].as_str().unwrap().to_owned()
}

fn until_is(ostler: &Ostler, task: &str, state: &str) -> Value {
    until(&format!("{task} to be {state}"), BOUND_MS, || {
        let sheet = json(&ostler.says(&["task", "show", task, "--json"]));
        (sheet["state"] == state).then_some(sheet)
    })
}

#[test]
fn work_is_handed_to_whoever_was_hired_and_waits_while_they_are_paused() {
    let ostler = Ostler::new();
    let _served = Served::new(&ostler);
    hire(&ostler, "rev", &[]);
    let first = add(&ostler, "rev");
    until_is(&ostler, &first, "done");

    assert_eq!(ostler.says(&["agents", "pause", "rev"]).code, 0);
    let second = add(&ostler, "rev");
    let waits = until_is(&ostler, &second, "waiting");
    assert_eq!(waits["waiting_for"], "agent", "{waits}");
    // Nothing else moves: the word itself is what wakes it.
    assert_eq!(ostler.says(&["agents", "resume", "rev"]).code, 0);
    until_is(&ostler, &second, "done");

    // Who will not come back is given nothing more.
    assert_eq!(ostler.says(&["agents", "retire", "rev"]).code, 0);
    let refused = ostler.says(&["task", "add", "--title", "hello", "--agent", "rev"]);
    assert_eq!((refused.code, refused.stderr.contains("is retired")), (13, true), "{refused:?}");
}

#[test]
fn whoever_works_on_a_task_is_told_who_it_is_unless_its_own_template_says_otherwise() {
    let ostler = Ostler::new();
    let work = ostler.instance.work();
    let config = serde_json::json!({ "agents": {
        "desk": { "adapter": "demo", "cwd": work },
        "curt": { "adapter": "demo", "cwd": work, "promptTemplate": "do {{prompt}}" },
    } });
    ostler.instance.write_config(&config.to_string());
    hire(&ostler, "rev", &["--cwd", work.to_str().unwrap()]);
    let _served = Served::new(&ostler);
    for (agent, as_task, directly) in [
        ("desk", "hello".to_owned(), "hello".to_owned()),
        ("curt", "do hello".to_owned(), "do hello".to_owned()),
        ("rev", "hello".to_owned(), "hello".to_owned()),
    ] {
        let task = add(&ostler, agent);
        until_is(&ostler, &task, "done");
        assert_eq!(asked(&ostler.events(&["show", &task, "--json"])), as_task, "{agent}");
        let events = ostler.events(&["run", agent, "hello", "--json"]);
        assert_eq!(asked(&events), directly, "{agent}");
    }
}

#[test]
fn the_budget_of_a_hired_agent_is_shared_by_its_runs_and_can_be_raised() {
    let ostler = Ostler::new();
    hire(&ostler, "rev", &["--budget", "month=0.001"]);
    // The first spends all of it: what was in flight is let through.
    let _ = ostler.says(&["run", "rev", "hello", "--quiet"]);
    let refused = ostler.says(&["run", "rev", "hello"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    let costs = ostler.says(&["costs"]).stdout;
    assert!(costs.contains("agent:rev") && costs.contains("used up"), "{costs}");
    // Another agent spends nothing of it.
    hire(&ostler, "two", &[]);
    assert_eq!(ostler.says(&["run", "two", "hello", "--quiet"]).code, 0);

    assert_eq!(ostler.says(&["agents", "edit", "rev", "--budget", "month=5"]).code, 0);
    assert_eq!(ostler.says(&["run", "rev", "hello", "--quiet"]).code, 0);
}

#[test]
fn two_tasks_in_one_directory_take_turns_whoever_does_them() {
    let ostler = Ostler::new();
    let _served = Served::new(&ostler);
    let work = ostler.instance.work().display().to_string();
    for name in ["one", "two"] {
        hire(&ostler, name, &["--cwd", &work]);
    }
    let slow = ["task", "add", "--agent", "one", "--title", "slow", "--key", "slow"];
    assert_eq!(ostler.says(&slow).code, 0);
    until_is(&ostler, "slow", "running");
    let second = add(&ostler, "two");
    let waits = until_is(&ostler, &second, "waiting");
    assert_eq!(waits["waiting_for"], "workspace", "{waits}");
    assert_eq!(ostler.says(&["task", "cancel", "slow"]).code, 0);
    until_is(&ostler, &second, "done");
}
