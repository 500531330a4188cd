//! The page of budgets: what became of each budget with each real CLI in an endless loop of tool calls.
//! A row is a small file that a test wrote when all it asserts had held.

use serde::Deserialize;
use std::fmt::Write as _;
use testkit::agents::Pin;

pub const PAGE: &str = "docs/agents/budgets.md";

/// What one test saw of one budget of one CLI.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    cli: String,
    budget: String,
    limit: String,
    /// What was used when the run had ended; absent where nobody told, or nothing was started.
    #[serde(default)]
    used: Option<f64>,
    /// Answers of the model by its own log; absent where nothing was started.
    #[serde(default)]
    answers: Option<u64>,
    #[serde(default)]
    outcome: Option<String>,
    #[serde(default)]
    code: Option<String>,
    exit: i32,
    #[serde(default)]
    duration_ms: Option<u64>,
}

/// The page of these rows.
pub fn page(pins: &[Pin], rows: &[Row], today: &str) -> String {
    let mut page = String::from("# Budgets and the real agents\n\n");
    let _ = writeln!(
        page,
        "Written by `cargo xtask agents --budgets --write` on {today}. Each CLI runs in an endless loop \
         of tool calls against a scripted model on loopback, which reports the tokens of each answer \
         and keeps a log. A row is here when its test has held:\n\n\
         - `budget_exceeded`: the run was stopped within one model answer of the limit and the one in \
         flight, which the scripted model gives in 30 ms. Its tokens equal the model's log, with or \
         without the answer that the stop cut off, where the runtime tells them with each answer.\n\
         - `budget_not_countable` without answers: the runtime tells too late or never what the budget \
         limits, so the run was refused before any request.\n\
         - `budget_not_countable` with answers: it is not known beforehand whether the agent tells it. \
         The run was stopped when its second round of tool calls began without a report.\n\
         - `succeeded`: the agent was done before its sub-agent used the budget up. The sub-agent was \
         stopped within two answers, and its output is estimated from its length.\n"
    );
    page.push_str(
        "| agent | budget | limit | used | model answers | result | exit | s |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let none = || "–".to_owned();
        let used = row.used.map_or_else(none, figure);
        let answers = row.answers.map_or_else(none, |answers| answers.to_string());
        let seconds =
            row.duration_ms.map_or_else(none, |ms| format!("{}.{}", ms / 1000, ms % 1000 / 100));
        let result = row.code.as_ref().or(row.outcome.as_ref()).map_or("–", String::as_str);
        let Row { cli, budget, limit, exit, .. } = row;
        let _ = writeln!(
            page,
            "| {cli} | `{budget}` | {limit} | {used} | {answers} | `{result}` | {exit} | {seconds} |"
        );
    }
    page.push_str("\n| agent | version | package |\n|---|---|---|\n");
    for pin in pins.iter().filter(|pin| pin.budgets) {
        let _ = writeln!(page, "| {} | {} | `{}` |", pin.id, pin.version, pin.package);
    }
    page.push_str(
        "\nWhat every other runtime tells, and when, is in [costs.md](../costs.md#what-can-be-counted).\n",
    );
    page
}

/// A count without decimals, or dollars.
fn figure(used: f64) -> String {
    if used.fract() == 0.0 { format!("{used}") } else { format!("{used:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::agents::PINS;

    #[test]
    fn a_page_says_what_was_used_of_each_limit() {
        let rows = [
            r#"{"cli":"claude","budget":"--budget-usd","limit":"0.08","used":0.0811,
                "answers":8,"outcome":"failed","code":"budget_exceeded","exit":7,"duration_ms":1234}"#,
            r#"{"cli":"gemini","budget":"--budget-usd","limit":"1","code":"budget_not_countable",
                "exit":3,"used":null,"answers":null,"outcome":null,"duration_ms":null}"#,
            r#"{"cli":"claude, a sub-agent","budget":"--budget-tokens","limit":"9","used":10,
                "answers":2,"outcome":"succeeded","code":null,"exit":0,"duration_ms":900}"#,
        ];
        let rows = rows.map(|row| serde_json::from_str(row).expect("a row"));
        let page = page(PINS, &rows, "2026-01-01");
        for row in [
            "| claude | `--budget-usd` | 0.08 | 0.0811 | 8 | `budget_exceeded` | 7 | 1.2 |",
            "| gemini | `--budget-usd` | 1 | – | – | `budget_not_countable` | 3 | – |",
            "| claude, a sub-agent | `--budget-tokens` | 9 | 10 | 2 | `succeeded` | 0 | 0.9 |",
            "| 2.1.325 | `@anthropic-ai/claude-code` |",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }
}
