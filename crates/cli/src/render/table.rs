//! `ostler runs` as a table: newest first as given, one line per run, the prompt taking what room
//! is left. Ids are shown by their last eight digits: the first digits of an id are its time, and
//! runs started together share them.

use super::clean::one_line;
use super::figures;
use super::measure::{fit, pad, pad_left, width};
use super::tone::{Colour, Tone};
use super::totals::mark;
use contract::{Billing, NanoUsd, Outcome, RunId, Timestamp};
use std::path::Path;

/// One run, as the table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub id: RunId,
    pub started_at: Timestamp,
    pub agent: String,
    /// `None` while it is live or waits.
    pub outcome: Option<Outcome>,
    /// Its place in line while it waits for a slot.
    pub place: Option<u64>,
    pub duration_ms: u64,
    /// `None` when the agent reported none.
    pub tokens: Option<u64>,
    pub billing: Option<Billing>,
    pub effective_nanousd: Option<NanoUsd>,
    pub prompt: String,
    /// The directory that it was started in.
    pub dir: String,
}

/// The last eight digits of an id: enough to tell a person's runs apart, and to type.
pub fn tail(id: &str) -> &str {
    &id[id.len().saturating_sub(8)..]
}

/// A path with the user's home directory written as `~`.
pub fn home_relative(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(inside) if inside.as_os_str().is_empty() => "~".to_owned(),
        Some(inside) => format!("~/{}", inside.display()),
        None => path.display().to_string(),
    }
}

const HEADS: [&str; COLUMNS] =
    ["RUN", "WHEN", "AGENT", "OUTCOME", "TIME", "TOKENS", "COST", "DIRECTORY", "PROMPT"];
const COLUMNS: usize = 9;
const GAP: &str = "  ";
/// Columns whose texts stand at the right: time, tokens, cost.
const RIGHT: [usize; 3] = [4, 5, 6];
const DIRECTORY: usize = 7;
const PROMPT: usize = 8;
const AGENT_COLUMNS_MAX: usize = 16;
const DIRECTORY_COLUMNS_MAX: usize = 32;
/// Where the directory stands in the table: narrower terminals need the room for the prompt.
const DIRECTORY_FROM_COLUMNS: usize = 120;

/// The whole table, without a newline at its end.
pub fn runs_table(rows: &[RunRow], now: Timestamp, columns: usize, colour: Colour) -> String {
    if rows.is_empty() {
        return "no runs yet: ostler run demo \"hello\"".to_owned();
    }
    let with_directory = columns >= DIRECTORY_FROM_COLUMNS;
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| kept(&cells(row, now), with_directory)).collect();
    let heads = kept(&HEADS.map(str::to_owned), with_directory);
    let mut widths: Vec<usize> = heads.iter().map(|head| width(head)).collect();
    for row in &cells {
        for (known, cell) in widths.iter_mut().zip(row) {
            *known = (*known).max(width(cell));
        }
    }
    let last = widths.len() - 1;
    let before: usize = widths[..last].iter().map(|width| width + GAP.len()).sum();
    widths[last] = columns.saturating_sub(before).max(HEADS[PROMPT].len());
    let head = line(&heads, &widths);
    let mut lines = vec![colour.paint(Tone::Gray, &fit(&head, columns))];
    for (row, cells) in rows.iter().zip(&cells) {
        lines.push(painted(row, cells, &widths, columns, colour));
    }
    lines.join("\n")
}

/// The cells of the columns that are shown.
fn kept(cells: &[String; COLUMNS], with_directory: bool) -> Vec<String> {
    let shown = cells.iter().enumerate().filter(|(i, _)| with_directory || *i != DIRECTORY);
    shown.map(|(_, cell)| cell.clone()).collect()
}

fn cells(row: &RunRow, now: Timestamp) -> [String; COLUMNS] {
    let outcome = match row.outcome {
        Some(outcome) => format!("{} {}", mark(outcome).0, outcome.word().replace('_', " ")),
        None => match row.place {
            Some(place) => format!("… waits, {}", figures::ordinal(place)),
            None => "● live".to_owned(),
        },
    };
    let none = || "–".to_owned();
    let paid = figures::paid(row.effective_nanousd, row.tokens.unwrap_or(0), row.billing);
    [
        tail(&row.id.to_string()).to_owned(),
        figures::ago(row.started_at, now),
        fit(&one_line(&row.agent), AGENT_COLUMNS_MAX),
        outcome,
        figures::duration(row.duration_ms),
        row.tokens.map_or_else(none, figures::count),
        paid.unwrap_or_else(none),
        fit_end(&one_line(&row.dir), DIRECTORY_COLUMNS_MAX),
        one_line(&row.prompt),
    ]
}

/// The end of a path that fits: its last directory tells more than its first.
fn fit_end(path: &str, columns: usize) -> String {
    if width(path) <= columns {
        return path.to_owned();
    }
    let mut end = path;
    while width(end) + 1 > columns {
        end = end.chars().next().map_or("", |first| &end[first.len_utf8()..]);
    }
    format!("…{end}")
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(i, (cell, width))| match RIGHT.contains(&i) {
            true => pad_left(cell, *width),
            false => pad(cell, *width),
        })
        .collect();
    padded.join(GAP).trim_end().to_owned()
}

/// A line with its outcome in the tone of the outcome.
fn painted(
    row: &RunRow,
    cells: &[String],
    widths: &[usize],
    columns: usize,
    colour: Colour,
) -> String {
    let plain = fit(&line(cells, widths), columns);
    let tone = row.outcome.map_or(Tone::System, |outcome| mark(outcome).1);
    let outcome = cells[3].as_str();
    match plain.split_once(outcome) {
        Some((before, after)) => format!("{before}{}{after}", colour.paint(tone, outcome)),
        None => plain,
    }
}
