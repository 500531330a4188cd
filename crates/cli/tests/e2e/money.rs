//! What things cost and what was spent: prices from three tables, and books that add up.

use crate::ostler::{Ostler, Said, kinds, result};
use serde_json::Value;

/// Dollars for a million tokens, of a model that the built-in table knows: 2 in, 10 out.
const KNOWN: &str = r#"{"model":"claude-sonnet-5","inputTokens":1000,"outputTokens":100}"#;
const UNKNOWN: &str = r#"{"model":"never-heard-of","inputTokens":1000,"outputTokens":100}"#;

fn fixture(name: &str) -> String {
    format!("{}/../host/src/prices/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn run(ostler: &Ostler, flags: &str) -> Vec<Value> {
    let said = ostler.says(&["run", "--process", &ostler.fake(flags), "x", "--json"]);
    assert_eq!(said.code, 0, "{said:#?}");
    said.events()
}

fn usage(events: &[Value]) -> &Value {
    let mut found = events.iter().filter(|event| event["kind"] == "usage");
    found.next().expect("a usage")
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:#?}"))
}

#[test]
fn the_built_in_table_prices_what_it_knows_and_nothing_else() {
    let ostler = Ostler::new();
    let events = run(&ostler, &format!("--cost '{KNOWN}'"));
    let spent = usage(&events);
    assert_eq!(
        (&spent["cost_source"], spent["effective_nanousd"].as_i64()),
        (&"built_in".into(), Some(3_000_000)),
        "{spent}"
    );
    assert!(spent["price_version"].as_str().unwrap().starts_with("genai-prices "), "{spent}");
    assert_eq!(result(&events)["totals"]["effective_nanousd"], 3_000_000);

    let events = run(&ostler, &format!("--cost '{UNKNOWN}'"));
    let spent = usage(&events);
    assert_eq!(
        (&spent["cost_source"], &spent["effective_nanousd"]),
        (&"unpriced".into(), &Value::Null)
    );
    let shown = ostler.says(&["runs"]);
    let newest = shown.stdout.lines().nth(1).expect("a run");
    assert!(newest.contains("unpriced") && !newest.contains('$'), "{shown:#?}");
}

#[test]
fn the_cost_model_stands_in_and_says_that_it_does() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "mine": {{ "type": "process", "binary": "{}",
              "costModel": "anthropic/claude-sonnet-5", "args": ["--cost", {}] }} }} }}"#,
        testkit::fake_agent().display(),
        Value::from(UNKNOWN)
    ));
    let events = ostler.events(&["run", "mine", "x", "--json"]);
    let spent = usage(&events);
    assert_eq!(
        (&spent["effective_nanousd"], &spent["approximate"], &spent["cost_source"]),
        (&3_000_000.into(), &true.into(), &"built_in".into()),
        "{spent}"
    );
}

#[test]
fn imported_prices_stand_between_the_persons_own_and_the_built_in() {
    let ostler = Ostler::new();
    ostler.instance.write_config(r#"{ "prices": { "acme/mine": { "input": 1, "output": 1 } } }"#);
    let large = r#"{"provider":"acme","model":"large-1","inputTokens":1000,"outputTokens":100}"#;
    let before = run(&ostler, &format!("--cost '{large}'"));
    assert_eq!(usage(&before)["cost_source"], "unpriced");

    for file in ["litellm.json", "models_dev.json"] {
        let said = ostler.says(&["prices", "import", &fixture(file)]);
        assert_eq!(said.code, 0, "{said:#?}");
        assert!(said.stdout.starts_with("3 prices from "), "{said:#?}");
        let events = run(&ostler, &format!("--cost '{large}'"));
        let spent = usage(&events);
        assert_eq!(
            (&spent["effective_nanousd"], &spent["cost_source"]),
            (&4_500_000.into(), &"user_table".into()),
            "{file}: {spent}"
        );
    }
    let said = ostler.says(&["prices", "list", "--model", "acme"]);
    assert!(
        said.stdout.contains("acme/large-1") && said.stdout.contains("models.dev "),
        "{said:#?}"
    );
    assert!(said.stdout.contains("your configuration"), "{said:#?}");

    let bad = ostler.instance.work().join("bad.json");
    std::fs::write(&bad, r#"{"acme":{"models":{"x":{"cost":{"input":1,"output":"dear"}}}}}"#)
        .unwrap();
    let said = ostler.says(&["prices", "import", "bad.json"]);
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(said.complaint().contains("acme.models.x.cost.output"), "{said:#?}");
    let kept = json(&ostler.says(&["prices", "list", "--model", "acme/large-1", "--json"]));
    assert_eq!(kept[0]["input"], 3_000_000_000_i64, "the prices are as before");
}

#[test]
fn a_known_model_is_listed_with_its_built_in_price() {
    let ostler = Ostler::new();
    let listed = json(&ostler.says(&["prices", "list", "--model", "claude-sonnet-5", "--json"]));
    let row =
        listed.as_array().unwrap().iter().find(|row| row["model"] == "anthropic/claude-sonnet-5");
    let row = row.unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((&row["output"], &row["source"]), (&10_000_000_000_i64.into(), &"built_in".into()));
    let none = ostler.says(&["prices", "list", "--model", "no-such-model-anywhere"]);
    assert_eq!(none.code, 16, "{none:#?}");
}

#[test]
fn the_books_add_up_to_the_results_of_the_runs() {
    let ostler = Ostler::new();
    let total = r#"{"model":"a","usd":0.30,"outputTokens":70,"cumulative":true}"#;
    let stories = [
        r#"--step-cost '{"model":"a","usd":0.1,"outputTokens":10}' --steps 3"#.to_owned(),
        // Increments, then totals that are not counted twice.
        format!(
            "--step-cost '{}' --steps 2 --step-cost '{total}' --steps 2",
            r#"{"model":"a","usd":0.1,"outputTokens":10}"#
        ),
        format!("--step-cost '{KNOWN}' --steps 2 --cost '{UNKNOWN}'"),
        "--cost '{\"usd\":0}'".to_owned(),
    ];
    let (mut tokens, mut paid) = (0, 0);
    for story in &stories {
        let events = run(&ostler, story);
        let totals = &result(&events)["totals"];
        assert!(kinds(&events).contains(&"usage"));
        tokens += ["input_uncached", "cache_read", "cache_write", "output"]
            .map(|bucket| totals["tokens"][bucket].as_u64().unwrap())
            .iter()
            .sum::<u64>();
        paid += totals["effective_nanousd"].as_i64().unwrap_or(0);
    }
    // Of the third story only one part has no price; the books know the other.
    paid += 6_000_000;

    let all = json(&ostler.says(&["costs", "--by", "", "--json"]));
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    let sum = |row: &Value| {
        row["tokens"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(_, count)| count.as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!((sum(&all[0]), &all[0]["runs"]), (tokens, &4.into()), "{all}");
    assert_eq!(
        (&all[0]["priced_nanousd"], &all[0]["effective_nanousd"], &all[0]["unpriced"]),
        (&paid.into(), &Value::Null, &true.into())
    );
    assert_eq!(store::check(&ostler.instance.data()).unwrap(), [] as [String; 0]);

    let by_model = json(&ostler.says(&["costs", "--by", "model", "--since", "2d", "--json"]));
    let names: Vec<_> =
        by_model.as_array().unwrap().iter().map(|row| row["model"].as_str().unwrap()).collect();
    assert_eq!(names, ["", "a", "claude-sonnet-5", "never-heard-of"]);
    assert_eq!(by_model[1]["effective_nanousd"], 600_000_000, "{by_model}");
    assert_eq!(by_model[3]["effective_nanousd"], Value::Null);

    let shown = ostler.says(&["costs", "--by", "day,agent,model"]);
    assert_eq!(shown.code, 0, "{shown:#?}");
    let line = |name: &str| {
        shown
            .stdout
            .lines()
            .find(|line| line.contains(name))
            .unwrap_or_else(|| panic!("{shown:#?}"))
    };
    assert!(line("never-heard-of").ends_with("unpriced"), "{shown:#?}");
    assert!(line("total").contains("$0.61 + unpriced"), "{shown:#?}");
    assert!(line("fake-agent").contains("fake-agent"));
    for (args, hint) in [(["--by", "colour"], "colour"), (["--since", "soon"], "soon")] {
        let said = ostler.says(&["costs", args[0], args[1]]);
        assert!(said.code == 2 && said.complaint().contains(hint), "{said:#?}");
    }
}

#[test]
fn a_run_that_changes_hosts_is_priced_and_booked_as_if_it_had_not() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "mine": {{ "type": "process", "binary": "{}",
              "costModel": "anthropic/claude-sonnet-5",
              "args": ["--step-cost", {}, "--steps", "2", "--sleep-ms", "3000", "--steps", "2"] }} }} }}"#,
        testkit::fake_agent().display(),
        Value::from(UNKNOWN)
    ));
    let mut host = ostler.starts(&["run", "mine", "x", "--json"]);
    let first = host.event("the first usage", |event| event["kind"] == "usage");
    let id = first["run_id"].as_str().unwrap().to_owned();
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    let said = ostler.says(&["watch", &id, "--json"]);
    let events = said.events();
    let ended = result(&events);
    assert_eq!(
        (&ended["outcome"], &ended["totals"]["effective_nanousd"]),
        (&"succeeded".into(), &12_000_000.into()),
        "{said:#?}"
    );
    let spent: Vec<_> = events.iter().filter(|event| event["kind"] == "usage").collect();
    assert_eq!(spent.len(), 4);
    assert!(spent.iter().all(|usage| usage["approximate"] == true), "{spent:#?}");
    let books = json(&ostler.says(&["costs", "--json"]));
    assert_eq!(books[0]["effective_nanousd"], 12_000_000, "{books}");
    assert_eq!(store::check(&ostler.instance.data()).unwrap(), [] as [String; 0]);
}

fn listed(ostler: &Ostler) -> Vec<Value> {
    json(&ostler.says(&["runs", "--json"])).as_array().expect("a list").clone()
}

#[test]
fn a_run_tells_its_tokens_model_and_cost_as_one_object() {
    let ostler = Ostler::new();
    let tier = r#"{"provider":"acme","model":"a","usd":0.5,"inputTokens":7,"outputTokens":2}"#;
    let dear = r#"{"provider":"acme","model":"b","usd":1.5,"inputTokens":1,"outputTokens":1}"#;
    let events =
        run(&ostler, &format!("--step-cost '{tier}' --steps 1 --step-cost '{dear}' --steps 1"));
    let told = result(&events);
    assert_eq!(told["usage"]["tokens"]["input_uncached"], 8, "{told}");
    assert_eq!((&told["model"], &told["provider"]), (&"b".into(), &"acme".into()), "{told}");
    let row = &listed(&ostler)[0];
    assert_eq!(row["usage"]["total_tokens"], 11, "{row}");
    assert_eq!((&row["cost_usd"], &row["billed_usd"]), (&2.0.into(), &2.0.into()), "{row}");
    assert_eq!((&row["model"], &row["requested_model"]), (&"b".into(), &Value::Null), "{row}");
    assert_eq!((&row["provider"], &row["billing"]), (&"acme".into(), &Value::Null), "{row}");

    let events = run(&ostler, "");
    let told = result(&events);
    assert_eq!(told.get("usage"), Some(&Value::Null), "nothing was reported: {told}");
    assert!(told["totals"]["tokens"]["output"] == 0, "the older field stays: {told}");
    let row = &listed(&ostler)[0];
    assert_eq!((&row["usage"], &row["cost_usd"]), (&Value::Null, &Value::Null), "{row}");
    let newest = ostler.says(&["runs"]);
    let newest = newest.stdout.lines().nth(1).expect("a run").to_owned();
    assert_eq!(newest.matches('–').count(), 2, "neither tokens nor a cost: {newest}");

    let events = run(&ostler, r#"--cost '{"usd":0.25}'"#);
    assert_eq!(result(&events).get("usage"), Some(&Value::Null), "dollars are no tokens");
    let row = &listed(&ostler)[0];
    assert_eq!((&row["usage"], &row["cost_usd"]), (&Value::Null, &0.25.into()), "{row}");
}

#[test]
fn included_spending_is_shown_apart_and_counts_for_no_budget() {
    let ostler = Ostler::new();
    let adapter = |name: &str, billing: &str| {
        format!(
            r#""{name}": {{ "type": "process", "binary": "{}", {billing} "args": ["--cost", {}] }}"#,
            testkit::fake_agent().display(),
            Value::from(KNOWN)
        )
    };
    ostler.instance.write_config(&format!(
        r#"{{ "budgets": [{{ "window": "day", "usd": 0.001 }}], "adapters": {{ {}, {}, {} }} }}"#,
        adapter("plan", r#""billing": "subscription","#),
        adapter("gift", r#""billing": "free","#),
        adapter("paid", r#""billing": "metered","#),
    ));
    for (agent, word) in [("plan", "subscription"), ("plan", "subscription"), ("gift", "free")] {
        let events = ostler.events(&["run", agent, "x", "--json"]);
        let told = result(&events);
        assert_eq!(
            (&told["outcome"], &told["billing"]),
            (&"succeeded".into(), &word.into()),
            "{told}"
        );
        assert_eq!(usage(&events)["billing"], word);
        let row = &listed(&ostler)[0];
        assert_eq!((&row["cost_usd"], &row["billed_usd"]), (&0.003.into(), &0.0.into()), "{row}");
        let said = events.iter().filter_map(|event| event["text"].as_str());
        let said = said.filter(|text| text.contains("do not count this run")).count();
        assert_eq!(said, 1, "the run says that the dollars do not count it: {events:#?}");
    }
    let shown = ostler.says(&["runs"]);
    assert!(shown.stdout.contains("included ($0.003)"), "{shown:#?}");
    assert!(shown.stdout.contains("free ($0.003)"), "{shown:#?}");
    let shown = ostler.says(&["show"]);
    assert!(shown.stdout.contains("free ($0.003)"), "{shown:#?}");

    // The same spending is stopped where it is billed, and is then in the books as that.
    let said = ostler.says(&["run", "paid", "x", "--json"]);
    assert_eq!(result(&said.events())["totals"]["effective_nanousd"], 3_000_000, "{said:#?}");
    let said = ostler.says(&["run", "paid", "x", "--json"]);
    assert_eq!(said.code, 7, "the budget of the day is used up: {said:#?}");
    assert_eq!(
        ostler.events(&["run", "plan", "x", "--json"]).last().unwrap()["outcome"],
        "succeeded"
    );

    let rows = json(&ostler.says(&["costs", "--json"]));
    let row = &rows[0];
    assert_eq!(row["effective_nanousd"], 15_000_000, "{rows}");
    assert_eq!(
        (&row["included_nanousd"], &row["billed_nanousd"]),
        (&12_000_000.into(), &3_000_000.into())
    );
    let table = ostler.says(&["costs"]).stdout;
    assert!(
        table.contains("INCLUDED") && table.contains("$0.012 included (list price)"),
        "{table}"
    );
}

#[test]
fn the_own_budget_of_a_run_holds_at_list_price() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "plan": {{ "type": "process", "binary": "{}", "billing": "subscription",
              "args": ["--step-asks", "--step-cost", {}, "--steps", "50"] }} }} }}"#,
        testkit::fake_agent().display(),
        Value::from(KNOWN)
    ));
    let said = ostler.says(&["run", "plan", "x", "--json", "--budget-usd", "0.006"]);
    assert_eq!(said.code, 7, "{said:#?}");
    assert_eq!(result(&said.events())["code"], "budget_exceeded");
}

#[test]
fn a_family_is_priced_as_its_plain_member() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "gemini-cli": {{ "type": "process", "binary": "{}",
              "costModel": "google/gemini-2.0", "args": ["--cost", {}] }} }} }}"#,
        testkit::fake_agent().display(),
        Value::from(UNKNOWN)
    ));
    let events = ostler.events(&["run", "gemini-cli", "x", "--json"]);
    let spent = usage(&events);
    // gemini-2.0-flash: 0.10 and 0.40 dollars for a million tokens.
    assert_eq!(
        (&spent["effective_nanousd"], &spent["approximate"], &spent["cost_source"]),
        (&140_000.into(), &true.into(), &"built_in".into()),
        "{spent}"
    );
    let checked = ostler.says(&["config", "check"]);
    assert_eq!(checked.code, 0, "{checked:#?}");
    assert!(!checked.stdout.contains("costModel"), "{checked:#?}");
}

/// A stand-in for Claude Code that prints a recording, with this source of its key.
fn claude(ostler: &Ostler, key_source: &str) -> std::path::PathBuf {
    let recording =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../runtimes/src/claude/recordings/hello.ndjson");
    let path = ostler.instance.root().join(format!("claude-{key_source}"));
    let script = format!(
        "#!/bin/sh\nsed 's/\"apiKeySource\":\"ANTHROPIC_API_KEY\"/\"apiKeySource\":\"{key_source}\"/' {recording}\n"
    );
    std::fs::write(&path, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path
}

#[test]
fn a_login_that_the_runtime_tells_is_included() {
    let ostler = Ostler::new();
    let adapter = |key_source: &str| {
        let binary = claude(&ostler, key_source).display().to_string();
        serde_json::json!({ "type": "cli", "runtime": "claude", "binary": binary })
    };
    let config = serde_json::json!({
        "budgets": [{ "window": "day", "usd": 0.01 }],
        "adapters": { "plan": adapter("none"), "key": adapter("apiKeyHelper") },
    });
    ostler.instance.write_config(&config.to_string());
    for _ in 0..2 {
        let events = ostler.events(&["run", "plan", "x", "--json", "--permission=allow-all"]);
        let told = result(&events);
        assert_eq!(
            (&told["outcome"], &told["billing"], &told["model"]),
            (&"succeeded".into(), &"subscription".into(), &"claude-opus-5-5".into()),
            "{told}"
        );
        assert_eq!(told["totals"]["effective_nanousd"], 59_418_000, "the list price is known");
        assert_eq!(usage(&events)["billing"], "subscription");
    }
    let budgets = ostler.says(&["costs"]).stdout;
    assert!(budgets.contains("$0.00"), "nothing of the day's budget is used: {budgets}");

    let events = ostler.says(&["run", "key", "x", "--json", "--permission=allow-all"]).events();
    assert_eq!(result(&events)["billing"], "metered");
    let refused = ostler.says(&["run", "key", "x", "--json", "--permission=allow-all"]);
    assert_eq!(refused.code, 7, "the same use is billed by a key: {refused:#?}");
}
