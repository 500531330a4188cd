//! Budgets of one run, held while it runs: each unit, what the agent is told, what is spent beyond.

use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, result};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use testkit::{find_marked, until};

fn run(ostler: &Ostler, flags: &str, budget: &[&str]) -> Vec<Value> {
    let agent = ostler.fake(flags);
    let mut args = vec!["run", "--process", &agent, "x", "--json"];
    args.extend(budget);
    let said = ostler.says(&args);
    assert_eq!(said.code, 7, "{said:#?}");
    let events = said.events();
    assert_gap_free(&events);
    events
}

/// Levels of the budget that were announced, in order.
fn levels(events: &[Value]) -> Vec<&str> {
    let budgets = events.iter().filter(|event| event["kind"] == "budget");
    budgets.filter_map(|event| event["level"].as_str()).collect()
}

#[test]
fn fifty_five_cents_are_used_up_after_five_to_six_steps_of_ten() {
    let ostler = Ostler::new();
    // It asks what is left after each step, so no step can begin before we heard of the last.
    let events = run(&ostler, "--step-asks --steps 50", &["--budget-usd", "0.55"]);
    let spent = result(&events)["totals"]["effective_nanousd"].as_i64().unwrap();
    let steps = events.iter().filter(|event| event["kind"] == "usage").count();
    assert!((5..=6).contains(&steps), "{steps} steps for {spent}");
    let result = result(&events);
    assert_eq!(
        (&result["outcome"], &result["code"], &result["evidence"]["stopped_by"]),
        (&"failed".into(), &"budget_exceeded".into(), &"budget $0.55".into())
    );
    assert_eq!(levels(&events), ["soft", "hard"]);
    assert!(find_marked(&ostler.instance.mark()).is_empty());
}

#[test]
fn one_that_neither_hears_nor_heeds_and_goes_on_spending_has_no_grace() {
    let ostler = Ostler::new();
    // The whole ladder would leave it time for two hundred steps more.
    let deaf = "--never-read-stdin --ignore-term --step-ms 100 --steps 400";
    let events = run(&ostler, deaf, &["--budget-usd", "0.55"]);
    let steps = events.iter().filter(|event| event["kind"] == "usage").count();
    assert!((9..100).contains(&steps), "{steps} steps");
    let result = result(&events);
    assert_eq!(result["code"], "budget_exceeded", "{result}");
    assert_eq!(result["evidence"]["forced"], true, "{result}");
    assert!(find_marked(&ostler.instance.mark()).is_empty());
}

#[test]
fn tokens_and_turns_are_held_too() {
    let ostler = Ostler::new();
    let tokens = r#"--step-asks --step-cost '{"outputTokens":100}' --steps 50"#;
    let events = run(&ostler, tokens, &["--budget-tokens", "250"]);
    assert_eq!(result(&events)["evidence"]["stopped_by"], "budget 250 tokens");
    assert_eq!(events.iter().filter(|event| event["kind"] == "usage").count(), 3);

    let turns = "--turns 50";
    let events = run(&ostler, turns, &["--budget-turns", "2"]);
    assert_eq!(result(&events)["evidence"]["stopped_by"], "budget 2 turns");
    assert_eq!(levels(&events), ["soft", "hard"]);
}

#[test]
fn the_agent_is_told_when_little_is_left() {
    let ostler = Ostler::new();
    let flags = "--step-asks --steps 4 --wait-budget --no-complete --exit 3";
    let agent = ostler.fake(flags);
    let said = ostler.says(&["run", "--process", &agent, "x", "--json", "--budget-usd", "0.50"]);
    let events = said.events();
    assert_eq!(levels(&events), ["soft"], "{said:#?}");
    let told = events.iter().find(|event| event["summary"] == "told");
    let told = told.unwrap_or_else(|| panic!("it heard nothing: {said:#?}"));
    assert_eq!(told["beliefs"][0]["remaining"], json!({ "usd": 0.1 }), "{told}");
}

#[test]
fn an_agent_that_reports_nothing_is_stopped_by_time_and_by_bytes() {
    let ostler = Ostler::new();
    let flags = "--wait-shutdown";
    let events = run(&ostler, flags, &["--budget-minutes", "0.02", "--budget-usd", "5"]);
    assert_eq!(result(&events)["evidence"]["stopped_by"], "budget 1.2 s");
    assert_eq!(levels(&events).last(), Some(&"hard"));

    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{
            "chatty": {{ "type": "process", "binary": "{0}", "maxOutputBytes": 100000,
                         "graceSec": 1, "args": ["--burst", "20000"] }},
            "slow": {{ "type": "process", "binary": "{0}", "args": ["--wait-shutdown"] }} }},
          "budgets": [{{ "window": "run", "minutes": 0.02 }}] }}"#,
        testkit::fake_agent().display()
    ));
    let said = ostler.says(&["run", "chatty", "x", "--json", "--budget-minutes", "5"]);
    let events = said.events();
    assert_eq!(
        (said.code, &result(&events)["code"]),
        (10, &"output_limit".into()),
        "{}",
        result(&events)
    );
    let said = ostler.says(&["run", "slow", "x", "--json"]);
    assert_eq!(result(&said.events())["code"], "budget_exceeded", "by the configuration");
}

#[test]
fn an_answer_without_a_price_ends_a_dollar_budget() {
    let ostler = Ostler::new();
    let agent = ostler.fake(
        r#"--step-cost '{"model":"never-heard-of","outputTokens":7}' --step-ms 500 --steps 3"#,
    );
    let run = |more: &[&str]| {
        let args = ["run", "--process", &agent, "x", "--json", "--budget-usd", "0.5"];
        ostler.says(&[&args[..], more].concat())
    };
    let said = run(&[]);
    assert_eq!(said.code, 3, "{said:#?}");
    let end = crate::ostler::result(&said.events()).clone();
    assert_eq!(end["code"], "budget_not_countable", "{end}");
    let message = end["message"].as_str().unwrap_or_default();
    assert!(message.contains("the model never-heard-of has no price"), "{message}");
    let events = said.events();
    let error = events.iter().find(|event| event["code"] == end["code"]).expect("an error");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains(r#""prices": {"never-heard-of""#), "{hint}");
    let said = run(&["--budget-best-effort"]);
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.stdout.contains("the model never-heard-of has no price"), "{said:#?}");
}

#[test]
fn unknown_agent_is_warned_about_before_its_first_turn() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--steps 1");
    // For people, not only in the events.
    let said = ostler.says(&["run", "--process", &agent, "x", "--budget-tokens", "100000"]);
    let told = said.stdout.find("! it is not known whether this agent reports usage");
    let output = format!("{}{}", said.stdout, said.stderr);
    assert!(told.is_some(), "{output}");
}

/// A host whose API is asked to start many runs.
struct Crowd {
    ostler: Ostler,
    serve: crate::ostler::Running,
    address: String,
    token: String,
}

impl Crowd {
    fn open(flags: &[&str]) -> Self {
        Self::with(flags, json!({}))
    }

    /// The same, with more in the configuration.
    fn with(flags: &[&str], mut config: Value) -> Self {
        let ostler = Ostler::new();
        config["adapters"] = json!({ "spender": {
            "type": "process", "binary": testkit::fake_agent(), "args": flags,
        } });
        ostler.instance.write_config(&config.to_string());
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        let line = serve.line();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
        Self { ostler, serve, address, token: token.trim().to_owned() }
    }

    fn start(&self, nanousd: i64) {
        self.ask(json!({ "agent": "spender", "budget": { "nanousd": nanousd } }));
    }

    /// Starts a run and gives its id.
    fn ask(&self, mut body: Value) -> String {
        body["prompt"] = json!("spend");
        body["cwd"] = json!(self.ostler.instance.work());
        let body = body.to_string();
        let request = format!(
            "POST /api/v1/runs HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        let started: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        started["run_id"].as_str().unwrap().to_owned()
    }

    /// Starts so many at once and gives what each spent beyond its budget when all have ended.
    fn overshoots(&self, count: usize, nanousd: i64) -> Vec<i64> {
        for _ in 0..count {
            self.start(nanousd);
        }
        let limit = count.to_string();
        let rows = until("all runs to end", 4 * BOUND_MS, || {
            let said = self.ostler.says(&["runs", "--json", "--limit", &limit]);
            let rows: Vec<Value> = serde_json::from_str(&said.stdout).expect("a list of runs");
            rows.iter().all(|row| !row["outcome"].is_null()).then_some(rows)
        });
        assert_eq!(rows.len(), count);
        rows.iter()
            .map(|row| {
                assert_eq!(row["code"], "budget_exceeded", "{row}");
                row["totals"]["effective_nanousd"].as_i64().unwrap() - nanousd
            })
            .collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.serve.child.kill();
        let _ = self.serve.child.wait();
    }
}

#[test]
fn a_run_asked_for_by_name_has_the_budgets_of_its_host() {
    let config = json!({
        "agents": { "thrifty": { "adapter": "spender", "budgets": [{ "window": "run", "usd": 0.25 }] } },
        "budgets": [{ "window": "run", "usd": 0.55 }],
    });
    let crowd = Crowd::with(&["--step-asks", "--steps", "50"], config);
    let rows = [
        (json!({ "agent": "spender" }), "budget $0.55"),
        (json!({ "agent": "thrifty" }), "budget $0.25"),
        (json!({ "agent": "thrifty", "budget": { "nanousd": 350_000_000 } }), "budget $0.35"),
    ];
    for (body, stopped_by) in rows {
        let id = crowd.ask(body.clone());
        let watched = crowd.ostler.says(&["watch", &id, "--json"]);
        let events = watched.events();
        assert_eq!(result(&events)["evidence"]["stopped_by"], stopped_by, "{body}");
    }
}

#[test]
fn a_run_asked_for_twice_under_one_id_is_one_run() {
    let crowd = Crowd::open(&["--burst", "3"]);
    let id = "run_01a1e165b07f7291bd6f634d2d5f8ec7";
    let body = || json!({ "agent": "spender", "run_id": id });
    assert_eq!((crowd.ask(body()).as_str(), crowd.ask(body()).as_str()), (id, id));
    assert_eq!(crowd.ostler.says(&["watch", id]).code, 0);
    assert_eq!(crowd.ask(body()), id, "also when it has ended");
    let rows = crowd.ostler.says(&["runs", "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&rows).unwrap().len(), 1, "{rows}");
}

/// One agent asks after each step and so has one step in flight at most; the other does a step
/// every 200 ms, told or not, and shows how long it takes until a stop arrives.
#[test]
fn what_is_spent_beyond_a_budget_is_what_was_in_flight() {
    const STEP: i64 = 100_000_000;
    const BUDGET: i64 = 550_000_000;
    let asking = Crowd::open(&["--step-asks", "--steps", "200"]);
    let hasty = Crowd::open(&["--step-ms", "200", "--steps", "200"]);
    for count in [1, 10, 100] {
        let mut figures = Vec::new();
        for (name, crowd) in [("asks", &asking), ("hasty", &hasty)] {
            let over = crowd.overshoots(count, BUDGET);
            let (worst, sum) = (over.iter().max().unwrap(), over.iter().sum::<i64>());
            figures.push(format!(
                "{name}: worst ${:.2}, mean ${:.3}",
                *worst as f64 / 1e9,
                sum as f64 / 1e9 / count as f64
            ));
            assert!(over.iter().all(|over| *over >= 0), "nobody is stopped early: {over:?}");
            if name == "asks" {
                assert!(*worst <= STEP, "{count} runs: {over:?}");
            }
        }
        eprintln!("overshoot of $0.55 in steps of $0.10, {count} at once: {}", figures.join("; "));
    }
}
