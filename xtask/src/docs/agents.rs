//! `docs/agents/outcomes.md`: what every recording of every runtime comes to, played through its
//! dialect and the machine, and how the scenarios that several of them have compare.

use contract::Outcome;
use contract::event::RunResult;
use runtimes::registry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use testkit::recorded::{Recording, spec};

/// A scenario that fewer runtimes have is in their own tables only.
const COMPARED_MIN: usize = 3;

/// What a recording came to.
struct Row {
    scenario: String,
    result: RunResult,
    /// The reason that somebody wrote before the snapshot.
    why: String,
}

pub fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/runtimes/src");
    let mut rows: Vec<(String, String, Vec<Row>)> = Vec::new();
    for runtime in registry::all() {
        let card = runtime.card();
        let folder = root.join(&card.id).join("recordings");
        let (true, Some(lane)) = (folder.exists(), card.lanes.first()) else { continue };
        let spec = spec(*runtime, *lane);
        let row = |recording: Recording| {
            let why = recording.why.split_once(": ").map_or("", |(_, why)| why).to_owned();
            Row { result: recording.play(*runtime, &spec).result, scenario: recording.name, why }
        };
        rows.push((card.id, card.label, Recording::all(&folder).into_iter().map(row).collect()));
    }
    let mut text = String::from(HEAD);
    compared(&rows, &mut text);
    for (id, label, rows) in &rows {
        let _ = writeln!(text, "\n## {label}\n\n`{id}`, {} recordings.\n", rows.len());
        text.push_str("| scenario | outcome | code | tokens in, cached, out | dollars | why |\n");
        text.push_str("|---|---|---|---|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "{}", line(row));
        }
    }
    text
}

const HEAD: &str = "<!-- Made by `cargo xtask docs` from the recordings in `crates/runtimes/src/*/recordings`. -->

# What agents came to

Each line is a recording of a real agent (or, where its notes say so, an example from its documentation), played through its dialect and the machine that decides how a run ends.
*Tokens* and *dollars* are what the run is charged with: input that was not cached, input from the cache and written to it, output. A dash is unknown, never zero; dollars are the agent's own and no table of prices was asked.
The reason in the last column was written by a person before there was any code.

## Scenarios side by side

";

fn compared(rows: &[(String, String, Vec<Row>)], text: &mut String) {
    let mut by_scenario: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for (id, _, rows) in rows {
        for row in rows {
            by_scenario.entry(&row.scenario).or_default().insert(id, came_to(&row.result));
        }
    }
    by_scenario.retain(|_, by_runtime| by_runtime.len() >= COMPARED_MIN);
    let ids: BTreeSet<&str> = by_scenario.values().flat_map(|by| by.keys().copied()).collect();
    let heads: Vec<&str> = ids.iter().copied().collect();
    let _ = writeln!(text, "| scenario | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(ids.len()));
    for (scenario, by_runtime) in &by_scenario {
        let cells = heads.iter().map(|id| by_runtime.get(id).map_or("", String::as_str));
        let cells: Vec<&str> = cells.collect();
        let _ = writeln!(text, "| {scenario} | {} |", cells.join(" | "));
    }
}

fn came_to(result: &RunResult) -> String {
    match result.code {
        Some(code) => code.word().to_owned(),
        None if result.outcome == Outcome::Succeeded => "✓".to_owned(),
        None => result.outcome.word().to_owned(),
    }
}

fn line(row: &Row) -> String {
    let result = &row.result;
    let tokens = &result.totals.tokens;
    let spent = match tokens.total() {
        0 => "–".to_owned(),
        _ => format!(
            "{} {} {}",
            tokens.input_uncached,
            tokens.cache_read + tokens.cache_write,
            tokens.output
        ),
    };
    let dollars = match result.totals.effective_nanousd {
        Some(amount) => format!("{:.9}", amount.0 as f64 / 1e9).trim_end_matches('0').to_owned(),
        None => "–".to_owned(),
    };
    let code = result.code.map_or("", |code| code.word());
    format!(
        "| {} | {} | {code} | {spent} | {dollars} | {} |",
        row.scenario,
        result.outcome.word(),
        row.why.replace('|', "\\|")
    )
}
