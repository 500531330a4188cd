//! Quotas of accounts and budgets that runs share, end to end: refused before anything starts, by the
//! fault that says until when; kept over a change of host; opened again by a person.

use crate::ostler::{Ostler, assert_gap_free, result};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// While there is a file `full`, its provider has nothing left; one that is to wait does so while there
/// is a file `hold`.
const AGENT: &str = r#"#!/bin/sh
words=$(cat)
echo '{"ev":"hi"}'
while [ "$words" = wait ] && [ -e hold ]; do sleep 0.05; done
if [ -e full ]; then
  echo '{"ev":"oops","words":"You have hit your usage limit. Try again in 2 hours 5 minutes."}'
  echo '{"ev":"bye","well":false}'
else
  echo '{"ev":"talk","bit":"done"}'
  echo '{"ev":"bye","well":true}'
fi
"#;

const ALL: &str = "--permission=allow-all";

/// An instance whose adapters `one` and `two` are such an agent; both spend the same account.
fn quotas() -> Ostler {
    let ostler = Ostler::new();
    let start = ostler.instance.root().join("limited");
    std::fs::write(&start, AGENT).unwrap();
    std::fs::set_permissions(&start, std::fs::Permissions::from_mode(0o755)).unwrap();
    let adapter = |account: &str| {
        json!({
            "type": "cli", "binary": start, "account": account,
            "mapping": {
                "prompt": "stdin",
                "policies": { "allow-all": ["all"] },
                "rules": [
                    { "when": { "ev": "hi" }, "ignore": true },
                    { "when": { "ev": "talk" }, "text": { "at": "bit", "delta": true } },
                    { "when": { "ev": "oops" }, "error": { "message": "words" } },
                    { "when": { "ev": "bye", "well": true }, "end": { "success": true } },
                    { "when": { "ev": "bye", "well": false }, "end": { "success": false } },
                ],
            },
        })
    };
    let adapters = json!({ "one": adapter("work"), "other": adapter("own") });
    let agents = json!({ "worker": { "adapter": "one" }, "second": { "adapter": "one" } });
    let budgets = json!([{ "window": "day", "usd": 5.0 }]);
    let config = json!({ "adapters": adapters, "agents": agents, "budgets": budgets });
    ostler.instance.write_config(&config.to_string());
    ostler
}

fn file(ostler: &Ostler, name: &str, there: bool) {
    let path = ostler.instance.work().join(name);
    match there {
        true => std::fs::write(path, "").unwrap(),
        false => std::fs::remove_file(path).unwrap(),
    }
}

fn listed(ostler: &Ostler) -> Vec<Value> {
    let said = ostler.says(&["quotas", "--json"]);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[test]
fn nothing_starts_with_an_account_that_is_used_up_until_a_person_says_so() {
    let ostler = quotas();
    file(&ostler, "full", true);
    let first = ostler.says(&["run", "worker", "x", "--json", ALL]);
    assert_eq!(first.code, 6, "{first:?}");
    let events = first.events();
    let ended = result(&events);
    assert_eq!(ended["code"], "provider_quota");
    assert!(ended["message"].as_str().unwrap().contains("it resets at 2"), "{ended}");
    let left = ostler.says(&["costs"]).stdout;
    assert!(left.contains("$5.00"), "what was set aside for nothing is given back: {left}");

    // Another agent with the same account, and another host.
    file(&ostler, "full", false);
    let refused = ostler.says(&["run", "second", "x", ALL]);
    assert_eq!(refused.code, 6, "{refused:?}");
    let scope = listed(&ostler)[0]["scope"].as_str().unwrap().to_owned();
    assert!(scope.ends_with("/work"), "{scope}");
    for words in ["resets at ", " (in ", &format!("ostler quotas clear {scope}")] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    assert!(!refused.stderr.contains("000Z"), "the time is that of a clock here: {refused:?}");
    let runs: Value = serde_json::from_str(&ostler.says(&["runs", "--json"]).stdout).unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 1, "nothing of it is left: {runs}");
    assert_eq!(ostler.says(&["run", "other", "x", ALL]).code, 0, "another account is another's");

    let quota = &listed(&ostler)[0];
    assert_eq!((&quota["state"], &quota["live"]), (&json!("blocked"), &json!(0)), "{quota}");
    assert!(quota["why"].as_str().unwrap().contains("usage limit"), "{quota}");
    let shown = ostler.says(&["quotas"]);
    assert!(shown.stdout.contains("wait"), "{shown:?}");

    let cleared = ostler.says(&["quotas", "clear", &scope]);
    assert_eq!(cleared.code, 0, "{cleared:?}");
    assert_eq!(listed(&ostler)[0]["state"], "open");
    assert_eq!(ostler.says(&["run", "second", "x", ALL]).code, 0);
    assert_eq!(ostler.says(&["quotas", "clear", "nobody"]).code, 16);
}

#[test]
fn a_live_run_of_a_used_up_account_is_told_and_left_to_its_end() {
    let ostler = quotas();
    file(&ostler, "hold", true);
    let mut live = ostler.starts(&["run", "worker", "wait", "--json", ALL]);
    live.event("that it runs", |event| event["phase"] == "running");
    file(&ostler, "full", true);
    assert_eq!(ostler.says(&["run", "second", "now", ALL]).code, 6);
    let told = live.event("what happened", |event| {
        event["kind"] == "log" && event["text"].as_str().unwrap_or_default().contains("used up")
    });
    assert_eq!(told["stream"], "ostler", "{told}");
    assert_eq!(listed(&ostler)[0]["live"], 1);
    file(&ostler, "full", false);
    file(&ostler, "hold", false);
    let ended = live.finish();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ostler.says(&["run", "second", "again", ALL]).code, 6, "its end changes nothing");
}

#[test]
fn a_budget_of_a_day_is_shared_by_all_runs_and_refuses_the_next_before_it_starts() {
    let ostler = Ostler::new();
    let budgets = json!([{ "window": "day", "usd": 0.55 }]);
    ostler.instance.write_config(&json!({ "budgets": budgets }).to_string());
    // It asks what is left after each step, so no step can begin before we heard of the last.
    let agent = ostler.fake("--step-asks --steps 4");
    let run = |code: u8| {
        let said = ostler.says(&["run", "--process", &agent, "x", "--json"]);
        assert_eq!(said.code, i32::from(code), "{said:#?}");
        said
    };
    let first = run(0).events();
    assert_gap_free(&first);
    let told = first.iter().find(|event| event["kind"] == "budget").unwrap();
    assert_eq!((&told["scope"], &told["level"]), (&json!("global day"), &json!("ok")), "{told}");
    assert_eq!(told["remaining"]["nanousd"], 550_000_000);
    let second = run(7).events();
    assert_eq!(result(&second)["evidence"]["stopped_by"], "budget $0.15", "{second:#?}");
    let third = run(7);
    assert!(third.events().is_empty(), "nothing was started: {third:?}");
    assert!(third.stderr.contains("global day"), "{third:?}");
    let costs = ostler.says(&["costs"]);
    assert!(costs.stdout.contains("used up") && costs.stdout.contains("global"), "{costs:?}");
}

#[test]
fn runs_side_by_side_spend_no_more_than_their_budget_and_what_is_in_flight() {
    const AT_ONCE: usize = 6;
    const STEP_USD: f64 = 0.1;
    let ostler = Ostler::new();
    let budgets = json!([{ "window": "day", "usd": 2.0 }]);
    ostler.instance.write_config(&json!({ "budgets": budgets }).to_string());
    let agent = ostler.fake("--step-asks --steps 50");
    let run = || ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let runs: Vec<_> = (0..AT_ONCE).map(|_| run()).collect();
    let said: Vec<_> = runs.into_iter().map(crate::ostler::Running::finish).collect();
    assert!(said.iter().all(|said| said.code == 7), "{said:?}");
    let started = said.iter().filter(|said| !said.events().is_empty()).count();
    let costs = ostler.says(&["costs", "--json"]);
    let costs: Value = serde_json::from_str(&costs.stdout).unwrap();
    let spent = costs[0]["effective_nanousd"].as_i64().unwrap() as f64 / 1e9;
    eprintln!("{AT_ONCE} at once on $2.00: {started} started, ${spent:.2} spent");
    assert!(spent >= 2.0 && spent <= 2.0 + started as f64 * STEP_USD + 1e-9, "{spent}");
}

/// A server reads the budgets of its file anew, and those who waited for one go on.
#[test]
fn a_budget_that_is_raised_lets_tasks_go_on_without_a_restart() {
    let ostler = Ostler::new();
    let configured = |usd: f64| {
        let fake = ostler.fake("--step-asks --steps 4");
        let mut words = fake.split_whitespace();
        let binary = words.next().unwrap();
        let args: Vec<&str> = words.collect();
        let adapter = json!({ "type": "process", "binary": binary, "args": args });
        json!({
            "adapters": { "worker": adapter },
            "agents": { "a": { "adapter": "worker", "cwd": ostler.instance.work() } },
            "budgets": [{ "window": "day", "usd": usd }],
        })
        .to_string()
    };
    ostler.instance.write_config(&configured(0.3));
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let add = |title: &str| {
        let args = ["task", "add", "--title", title, "--agent", "a", "--review", "none", "--json"];
        let added: Value = serde_json::from_str(&ostler.says(&args).stdout).unwrap();
        added["id"].as_str().unwrap().to_owned()
    };
    let until_is = |task: &str, state: &str| {
        testkit::until(&format!("{task} to be {state}"), crate::ostler::BOUND_MS, || {
            let shown = ostler.says(&["task", "show", task, "--json"]);
            let sheet: Value = serde_json::from_str(&shown.stdout).ok()?;
            (sheet["state"] == state).then_some(sheet)
        })
    };
    let first = add("spends it all");
    assert_eq!(until_is(&first, "failed")["code"], "budget_exceeded");
    let second = add("finds nothing");
    let sheet = until_is(&second, "waiting");
    assert_eq!(sheet["waiting_for"], "budget", "{sheet}");
    // One that cannot be read changes nothing.
    ostler.instance.write_config("{ budgets: ");
    ostler.instance.write_config(&configured(5.0));
    until_is(&second, "done");
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
}
