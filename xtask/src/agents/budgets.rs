//! The page of budgets: what became of each budget with each real CLI in an endless loop of tool calls.
//! A row is a small file that a test wrote when all it asserts had held.

use serde::Deserialize;
use std::fmt::Write as _;

pub const PAGE: &str = "docs/agents/budgets.md";
/// The CLIs whose budgets are tested.
pub const CLIS: &[&str] = &["claude", "codex", "gemini", "opencode", "pi", "copilot"];

/// What one test saw of one budget of one CLI.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    cli: String,
    budget: String,
    limit: String,
    /// What was used when the run had ended; absent when it was refused.
    #[serde(default)]
    used: Option<f64>,
    code: String,
    exit: i32,
    #[serde(default)]
    duration_ms: Option<u64>,
}

/// The page of these rows, and of the cards for all other runtimes.
pub fn page(rows: &[Row], today: &str) -> String {
    let mut page = String::from("# Budgets and the real agents\n\n");
    let _ = writeln!(
        page,
        "Written by `cargo xtask agents --all --write` on {today}. Each CLI runs in an endless loop of \
         tool calls against a scripted model. A row is here when its test has held: the run was stopped \
         within one model answer of the limit and its tokens equal the model's own log, or it was \
         refused before any request was made.\n"
    );
    page.push_str(
        "| agent | budget | limit | used | result | exit | s |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let used = row.used.map_or_else(|| "–".to_owned(), figure);
        let seconds = row
            .duration_ms
            .map_or_else(|| "–".to_owned(), |ms| format!("{}.{}", ms / 1000, ms % 1000 / 100));
        let Row { cli, budget, limit, code, exit, .. } = row;
        let _ = writeln!(
            page,
            "| {cli} | `{budget}` | {limit} | {used} | `{code}` | {exit} | {seconds} |"
        );
    }
    page.push_str("\nWhat every other runtime tells, and when, is in [costs.md](../costs.md).\n");
    page
}

/// A count without decimals, or dollars.
fn figure(used: f64) -> String {
    if used.fract() == 0.0 { format!("{used}") } else { format!("{used:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_was_used_of_each_limit() {
        let rows = [
            r#"{"cli":"claude","budget":"--budget-usd","limit":"0.08","used":0.0811,
                "code":"budget_exceeded","exit":7,"duration_ms":1234}"#,
            r#"{"cli":"gemini","budget":"--budget-usd","limit":"1","code":"policy_not_possible",
                "exit":3}"#,
        ];
        let rows = rows.map(|row| serde_json::from_str(row).expect("a row"));
        let page = page(&rows, "2026-01-01");
        let claude = "| claude | `--budget-usd` | 0.08 | 0.0811 | `budget_exceeded` | 7 | 1.2 |";
        assert!(page.contains(claude), "{page}");
        assert!(
            page.contains("| gemini | `--budget-usd` | 1 | – | `policy_not_possible` | 3 | – |")
        );
    }
}
