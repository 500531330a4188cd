//! Budgets with the real CLIs, in an endless loop of tool calls: each run is stopped within one model
//! answer of its limit, and its figures are those that the model says it reported. A budget that the
//! runtime cannot be held to is refused before a request is made. Each run has a timeout, so that a
//! budget that does not hold is a failure and not a hang.

use crate::ostler::{assert_gap_free, result};
use crate::scenarios::assert_tokens;
use crate::stage::Stage;
use serde_json::Value;

const LOOP: &str = "tool_loop";
const TIMEOUT: &str = "60s";

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
    let answers: Vec<Value> = requests
        .iter()
        .filter(|one| one["usage"].is_object() && one["aux"] != true)
        .cloned()
        .collect();
    let most: f64 = limit.value.parse().expect("a number");
    let used = (limit.count)(end, &answers);
    // What one answer more would be at most: the largest share of any answer, and one answer.
    let one_more = match limit.flag {
        "--budget-turns" => 1.0,
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
    if stage.tells_tokens() {
        assert_tokens_but_last(&stage, end, &whole);
    }
    stage.assert_nothing_left();
    stage.held_budget(limit.flag, limit.value, used, said.code, &events);
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

/// The runtime cannot be held to this budget: nothing is started, and no request is made.
pub fn refused(cli: &str, flag: &str, value: &str) {
    let stage = Stage::new(cli, LOOP);
    let said = stage.run(&[flag, value], "Go on and on.");
    assert_eq!(said.code, 3, "{said:?}");
    let named = ["policy_not_possible", flag, "--budget-best-effort"];
    assert!(named.iter().all(|word| said.stderr.contains(word)), "{}", said.stderr);
    assert_eq!(stage.model.requests(), Vec::<Value>::new());
    stage.refused_budget(flag, value);
}
