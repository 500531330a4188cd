//! The page of policies: what became of strangers' ACP agents that may not change anything. A row is a
//! small file that a test wrote when all it asserts had held.

use serde::Deserialize;
use std::fmt::Write as _;

pub const PAGE: &str = "docs/agents/policies.md";

/// The agents that the tests of policies need.
pub const CLIS: [&str; 3] = ["code-puppy", "deepagents-acp", "pydantic-acp"];

/// What one test saw of one agent under one policy.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    cli: String,
    setting: String,
    policy: String,
    act: String,
    asked: bool,
    changed: bool,
    #[serde(default)]
    code: Option<String>,
    exit: i32,
}

/// The page of these rows.
pub fn page(rows: &[Row], today: &str) -> String {
    let mut page = String::from("# Policies and strangers' ACP agents\n\n");
    let _ = writeln!(
        page,
        "Written by `cargo xtask agents --policies --write` on {today}. Each agent is installed from PyPI and \
         is no runtime of Ostler's: it is configured with `\"type\": \"acp\"`, once as it comes and once \
         told to ask. A scripted model has it write a file or run a command, and every question is \
         denied. A row is here when its test has held: nothing was changed, or the run ended as \
         `policy_broken`. Ostler sees the call of an agent that does not ask after it was carried out, \
         so a file may have changed by then.\n"
    );
    page.push_str(
        "| agent | setting | policy | act | asked and denied | file changed | code | exit |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let word = |yes: bool| if yes { "yes" } else { "no" };
    for row in rows {
        let code = row.code.as_deref().map_or(String::new(), |code| format!("`{code}`"));
        let (asked, changed) = (word(row.asked), word(row.changed));
        let Row { cli, setting, policy, act, exit, .. } = row;
        let _ = writeln!(
            page,
            "| {cli} | {setting} | `{policy}` | {act} | {asked} | {changed} | {code} | {exit} |"
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_who_asked_and_what_changed() {
        let row = r#"{"cli":"code-puppy","setting":"as it comes","policy":"deny","act":"write a file",
            "asked":false,"changed":true,"code":"policy_broken","exit":12}"#;
        let page = page(&[serde_json::from_str(row).expect("a row")], "2026-01-01");
        let told = "| code-puppy | as it comes | `deny` | write a file | no | yes | `policy_broken` | 12 |";
        assert!(page.contains(told), "{page}");
    }
}
