//! Budgets with the real CLIs, in an endless loop of tool calls: each run is stopped within one model
//! answer of its limit, and its figures are those that the model says it reported. A budget that the
//! runtime cannot be held to is refused before a request is made. Each run has a timeout, so that a
//! budget that does not hold is a failure and not a hang.

use crate::ostler::{assert_gap_free, result};
use crate::scenarios::assert_tokens;
use crate::stage::Stage;
use contract::card::Told;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The scenario of a model that never ends.
pub const LOOP: &str = "tool_loop";
pub const TIMEOUT: &str = "60s";
/// The scenario of a model that hands its work to a sub-agent, which never ends, and is done itself.
const DELEGATE: &str = "delegate";
/// The scenario of a model that is done after a few calls, and how often it must succeed.
const FINISHES: &str = "edit_chain";
const FINISHES_TIMES: usize = 4;
/// Enough tokens for the agent to be done before its sub-agent has used them up.
const DELEGATE_TOKENS: u32 = 150_000;
/// After the success one report may come late, and one answer may be in flight.
const DELEGATE_BEYOND: usize = 2;

/// One budget: its flag, its limit, and how it is counted.
pub struct Limit {
    flag: &'static str,
    value: &'static str,
    count: fn(&Value, &[Value]) -> f64,
}

const USD: Limit = Limit {
    flag: "--budget-usd",
    value: "0.08",
    count: |end, _| end["totals"]["effective_nanousd"].as_f64().unwrap_or_default() / 1e9,
};
const TOKENS: Limit = Limit {
    flag: "--budget-tokens",
    value: "60000",
    count: |end, _| {
        let tokens = &end["totals"]["tokens"];
        let names = ["input_uncached", "cache_read", "cache_write", "output"];
        names.iter().filter_map(|name| tokens[name].as_f64()).sum()
    },
};
const TURNS: Limit =
    Limit { flag: "--budget-turns", value: "3", count: |_, answers| answers.len() as f64 };

pub fn usd(cli: &str) {
    held(cli, &USD);
}

pub fn tokens(cli: &str) {
    held(cli, &TOKENS);
}

pub fn turns(cli: &str) {
    held(cli, &TURNS);
}

/// The budget stops the run within one answer of the limit.
fn held(cli: &str, limit: &Limit) {
    let stage = Stage::new(cli, LOOP);
    let said = stage.run(&[limit.flag, limit.value, "--timeout", TIMEOUT], "Go on and on.");
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    let requests = stage.model.requests();
    let seen = (said.code, &end["outcome"], &end["code"]);
    let expected = (7, &"failed".into(), &"budget_exceeded".into());
    assert_eq!(seen, expected, "{end}\n{}", said.stderr);
    let answers = answers(&requests);
    let most: f64 = limit.value.parse().expect("a number");
    let used = (limit.count)(end, &answers);
    // One answer, and the one in flight when the stop comes: the model answers in 180 ms, so now
    // and then Codex has it whole before it is interrupted.
    let one_more = match limit.flag {
        "--budget-turns" => 2.0,
        _ => used / answers.len().max(1) as f64 * 2.0,
    };
    assert!(used >= most, "{used} of {most}: it was stopped too early, {end}");
    assert!(used <= most + one_more, "{used} of {most}: more than one answer beyond, {end}");
    // An answer that was in flight when the run was stopped may be told by neither or by one.
    let whole: Vec<Value> = requests
        .iter()
        .filter(|one| one["client_gone"] != true && one["in_flight"] != true)
        .cloned()
        .collect();
    // One that tells its tokens at the end of a turn has told none when it is stopped in it.
    let card = runtimes::registry::find(cli).expect("a runtime").card();
    if stage.tells_tokens() && card.reports.usage == Told::PerAnswer {
        assert_tokens_but_last(&stage, end, &whole);
    }
    stage.assert_nothing_left();
    let budget = (limit.flag, limit.value);
    keep(cli, budget, (Some(used), Some(answers.len())), said.code, end);
}

/// The answers of the model, without those of side calls.
pub fn answers(requests: &[Value]) -> Vec<Value> {
    let is_answer = |one: &&Value| one["usage"].is_object() && one["aux"] != true;
    requests.iter().filter(is_answer).cloned().collect()
}

/// Writes down what became of a budget, where whoever runs the suite wants to know.
pub fn keep(
    name: &str,
    (flag, limit): (&str, &str),
    (used, answers): (Option<f64>, Option<usize>),
    exit: i32,
    end: &Value,
) {
    let Some(dir) = std::env::var_os("OSTLER_AGENTS_ROWS") else { return };
    let dir = Path::new(&dir).join("budgets");
    fs::create_dir_all(&dir).expect("a folder of rows");
    let row = json!({
        "cli": name, "budget": flag, "limit": limit,
        "used": used, "answers": answers,
        "outcome": end["outcome"], "code": end["code"], "exit": exit,
        "duration_ms": end["duration_ms"],
    });
    fs::write(dir.join(format!("{name} {flag}.json")), row.to_string()).expect("a row");
}

/// A sub-agent that goes on in the background when the agent is done. The work that was finished stays
/// a success, and the budget ends the sub-agent.
pub fn sub_agent(cli: &str) {
    let stage = Stage::new(cli, DELEGATE);
    let limit = DELEGATE_TOKENS.to_string();
    let said = stage.run(&[TOKENS.flag, &limit, "--timeout", TIMEOUT], "Hand it on.");
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    let seen = (said.code, &end["outcome"], &end["evidence"]["stopped_by"]);
    let by = format!("budget {}", contract::amount::counted(DELEGATE_TOKENS.into(), "token"));
    assert_eq!(seen, (0, &"succeeded".into(), &by.into()), "{end}\n{}", said.stderr);
    let requests = stage.model.requests();
    let answers = answers(&requests);
    let used = (TOKENS.count)(end, &answers);
    let most = f64::from(DELEGATE_TOKENS);
    let sum = |one: &Value| {
        let names = ["input", "cache_read", "cache_create", "output"];
        names.iter().filter_map(|name| one["usage"][name].as_f64()).sum::<f64>()
    };
    let largest = answers.iter().map(sum).fold(0.0, f64::max);
    assert!(used >= most, "{used} of {most}: it was stopped too early, {end}");
    let beyond = largest * DELEGATE_BEYOND as f64;
    assert!(used <= most + beyond, "{used} of {most}: too far beyond, {end}");
    stage.assert_nothing_left();
    let name = format!("{cli}, a sub-agent in the background");
    keep(&name, (TOKENS.flag, &limit), (Some(used), Some(answers.len())), said.code, end);
}

/// An agent whose last answer uses the budget up has done its work: that is a success. An earlier run
/// says how much the work needs.
pub fn finished_at_the_limit(cli: &str) {
    let stage = Stage::new(cli, FINISHES);
    let run = |limits: &[&str]| {
        let said = stage.run(&[limits, &["--timeout", TIMEOUT]].concat(), "Do the small task.");
        let events = said.events();
        assert_gap_free(&events);
        let end = result(&events).clone();
        (said.code, (TOKENS.count)(&end, &[]), end)
    };
    let (code, needed, end) = run(&[]);
    assert_eq!(code, 0, "{end}");
    // Less than the last answer, so that only its report reaches the limit.
    let limit = (needed as u64 - 200).to_string();
    for _ in 0..FINISHES_TIMES {
        let (code, used, end) = run(&[TOKENS.flag, &limit]);
        assert_eq!((code, &end["outcome"]), (0, &"succeeded".into()), "{end}");
        assert!(used > needed - 200.0, "{used} of {limit}: the budget is used up, {end}");
    }
    stage.assert_nothing_left();
}

/// The figures are those of the model's log, with or without the answer that was cut off.
fn assert_tokens_but_last(stage: &Stage, end: &Value, whole: &[Value]) {
    let all = crate::tokens::reported(stage.cli, whole);
    let but_last = crate::tokens::reported(stage.cli, &whole[..whole.len().saturating_sub(1)]);
    let told = crate::tokens::told(end);
    if told != but_last {
        assert_eq!(told, all, "tokens of {end}");
        assert_tokens(stage, end, whole);
    }
}

/// A runtime that tells nothing of its sub-agents while they work offers none under a budget.
pub fn no_sub_agents(cli: &str, tool: &str) {
    for (limits, expected) in [(&["--budget-turns", "9"][..], false), (&[], true)] {
        let stage = Stage::new(cli, "hello");
        let said = stage.run(limits, "Say hello.");
        assert_eq!(said.code, 0, "{said:?}");
        let requests = stage.model.requests();
        let offers =
            |one: &Value| one["tools"].as_array().is_some_and(|all| all.contains(&json!(tool)));
        assert_eq!(requests.iter().any(offers), expected, "{limits:?}: {requests:#?}");
    }
}

/// The runtime cannot be held to this budget: nothing is started, and no request is made.
pub fn refused(cli: &str, flag: &str, value: &str) {
    let stage = Stage::new(cli, LOOP);
    let said = stage.run(&[flag, value], "Go on and on.");
    assert_eq!(said.code, 3, "{said:?}");
    let named = ["budget_not_countable", "cannot be held to a budget of", "--budget-best-effort"];
    assert!(named.iter().all(|word| said.stderr.contains(word)), "{}", said.stderr);
    assert_eq!(stage.model.requests(), Vec::<Value>::new());
    keep(cli, (flag, value), (None, None), said.code, &json!({ "code": "budget_not_countable" }));
}
