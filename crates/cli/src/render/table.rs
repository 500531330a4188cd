//! `ostler runs` as a table: newest first as given, one line per run, the prompt taking what room
//! is left. Ids are shown by their last eight digits: the first digits of an id are its time, and
//! runs started together share them.

use super::clean::one_line;
use super::figures;
use super::measure::{fit, pad, pad_left, width};
use super::tone::{Colour, Tone};
use super::totals::mark;
use contract::{NanoUsd, Outcome, RunId, Timestamp};

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
    pub tokens: u64,
    pub effective_nanousd: Option<NanoUsd>,
    pub prompt: String,
}

/// The last eight digits of an id: enough to tell a person's runs apart, and to type.
pub fn tail(id: &str) -> &str {
    &id[id.len().saturating_sub(8)..]
}

const HEADS: [&str; 8] = ["RUN", "WHEN", "AGENT", "OUTCOME", "TIME", "TOKENS", "COST", "PROMPT"];
const GAP: &str = "  ";
/// Columns whose texts stand at the right: time, tokens, cost.
const RIGHT: [usize; 3] = [4, 5, 6];
const PROMPT: usize = 7;
const AGENT_COLUMNS_MAX: usize = 16;

/// The whole table, without a newline at its end.
pub fn runs_table(rows: &[RunRow], now: Timestamp, columns: usize, colour: Colour) -> String {
    if rows.is_empty() {
        return "no runs yet: ostler run demo \"hello\"".to_owned();
    }
    let cells: Vec<[String; 8]> = rows.iter().map(|row| cells(row, now)).collect();
    let mut widths = HEADS.map(width);
    for row in &cells {
        for (known, cell) in widths.iter_mut().zip(row) {
            *known = (*known).max(width(cell));
        }
    }
    let before: usize = widths[..PROMPT].iter().map(|width| width + GAP.len()).sum();
    widths[PROMPT] = columns.saturating_sub(before).max(HEADS[PROMPT].len());
    let head = line(&HEADS.map(str::to_owned), &widths);
    let mut lines = vec![colour.paint(Tone::Gray, &fit(&head, columns))];
    for (row, cells) in rows.iter().zip(&cells) {
        lines.push(painted(row, cells, &widths, columns, colour));
    }
    lines.join("\n")
}

fn cells(row: &RunRow, now: Timestamp) -> [String; 8] {
    let outcome = match row.outcome {
        Some(outcome) => format!("{} {}", mark(outcome).0, outcome.word().replace('_', " ")),
        None => match row.place {
            Some(place) => format!("… waits, {}", figures::ordinal(place)),
            None => "● live".to_owned(),
        },
    };
    let spent = |text: String| if row.tokens > 0 { text } else { "–".to_owned() };
    [
        tail(&row.id.to_string()).to_owned(),
        figures::ago(row.started_at, now),
        fit(&one_line(&row.agent), AGENT_COLUMNS_MAX),
        outcome,
        figures::duration(row.duration_ms),
        spent(figures::count(row.tokens)),
        figures::cost(row.effective_nanousd, row.tokens).unwrap_or_else(|| "–".to_owned()),
        one_line(&row.prompt),
    ]
}

fn line(cells: &[String; 8], widths: &[usize; 8]) -> String {
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
    cells: &[String; 8],
    widths: &[usize; 8],
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
