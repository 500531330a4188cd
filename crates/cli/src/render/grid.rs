//! A table in an agent's text, laid out in columns: as wide as its cells where there is room, else its
//! widest columns are broken into lines. One with too many columns for the terminal becomes a list.

use super::flow::{Flow, Step};
use super::inline::{Look, Span, spans};
use super::measure::width;

/// A column is not made narrower than this, because words would fall apart.
const COLUMN_MIN: usize = 8;
const GAP: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Centre,
    Right,
}

type Cell = Vec<Span>;
type Line = Vec<Span>;

/// A table as it can be shown.
pub enum Layout {
    /// Lines that fit.
    Grid(Vec<Line>),
    /// Lines that still have to be broken.
    List(Vec<Line>),
}

/// The layout of a table, if these rows are one: a head, a rule, and rows.
pub fn layout(rows: &[String], columns: usize, keeps_signs: bool) -> Option<Layout> {
    let aligns = alignment(rows.get(1)?)?;
    let look = |i: usize| if i == 0 { Look::Strong } else { Look::Text };
    let is_shown = rows.iter().enumerate().filter(|(i, _)| *i != 1);
    let mut table: Vec<Vec<Cell>> = is_shown
        .map(|(i, row)| cells(row).iter().map(|it| cell(it, look(i), keeps_signs)).collect())
        .collect();
    let count = table.iter().map(Vec::len).max()?;
    table.iter_mut().for_each(|row| row.resize(count, Cell::new()));
    match widths(&table, columns) {
        Some(widths) => Some(Layout::Grid(grid(&table, &widths, &aligns))),
        None => Some(Layout::List(list(&table))),
    }
}

fn cell(text: &str, look: Look, keeps_signs: bool) -> Cell {
    if keeps_signs { vec![Span { look, text: text.to_owned() }] } else { spans(text, look) }
}

/// The cells of a row. A bar inside code or behind a backslash is text.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let (mut cells, mut cell, mut in_code) = (Vec::new(), String::new(), false);
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            '|' if !in_code => cells.push(std::mem::take(&mut cell)),
            c => {
                in_code ^= c == '`';
                cell.push(c);
            }
        }
    }
    if !cell.trim().is_empty() {
        cells.push(cell);
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The alignment that the rule under a head gives, if the row is one.
fn alignment(row: &str) -> Option<Vec<Align>> {
    let align = |cell: &String| {
        let dashes = cell.trim_matches(':');
        let is_rule = !dashes.is_empty() && dashes.chars().all(|c| c == '-');
        is_rule.then(|| match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => Align::Centre,
            (false, true) => Align::Right,
            (_, false) => Align::Left,
        })
    };
    let cells = cells(row);
    let aligns: Option<Vec<Align>> = cells.iter().map(align).collect();
    aligns.filter(|aligns| !aligns.is_empty())
}

fn cell_width(cell: &Cell) -> usize {
    cell.iter().map(|span| width(&span.text)).sum()
}

/// The width of each column, if they all fit.
fn widths(table: &[Vec<Cell>], columns: usize) -> Option<Vec<usize>> {
    let count = table.first()?.len();
    let natural = |at: usize| table.iter().map(|row| cell_width(&row[at])).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..count).map(|at| natural(at).clamp(1, columns)).collect();
    let room = columns.checked_sub(GAP * (count - 1))?;
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter_mut().max_by_key(|width| **width)?;
        if *widest <= COLUMN_MIN {
            return None;
        }
        *widest -= 1;
    }
    Some(widths)
}

fn grid(table: &[Vec<Cell>], widths: &[usize], aligns: &[Align]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (i, row) in table.iter().enumerate() {
        let broken: Vec<Vec<Line>> =
            row.iter().zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0);
        for n in 0..height {
            let mut line = Line::new();
            for (at, (cell, width)) in broken.iter().zip(widths).enumerate() {
                let align = aligns.get(at).copied().unwrap_or(Align::Left);
                let part = cell.get(n).cloned().unwrap_or_default();
                let missing = width.saturating_sub(cell_width(&part));
                let before = match align {
                    Align::Left => 0,
                    Align::Centre => missing / 2,
                    Align::Right => missing,
                };
                blanks(before, &mut line);
                line.extend(part);
                blanks(missing - before + GAP, &mut line);
            }
            lines.push(trimmed(line));
        }
        if i == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            lines.push(vec![Span { look: Look::Quiet, text: rules.join(&" ".repeat(GAP)) }]);
        }
    }
    lines
}

fn blanks(count: usize, line: &mut Line) {
    line.push(Span { look: Look::Text, text: " ".repeat(count) });
}

/// The line without blanks at its end.
fn trimmed(mut line: Line) -> Line {
    while let Some(last) = line.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        line.pop();
    }
    line
}

fn wrapped(cell: &Cell, columns: usize) -> Vec<Line> {
    let (mut flow, mut steps) = (Flow::new(columns), Vec::new());
    cell.iter().for_each(|span| flow.push_span(span, &mut steps));
    flow.finish(&mut steps);
    let mut lines = vec![Line::new()];
    for step in steps {
        match step {
            Step::Text(span) => lines.last_mut().into_iter().for_each(|it| it.push(span.clone())),
            Step::Break => lines.push(Line::new()),
        }
    }
    lines
}

/// One line for each cell, under the name of its column.
fn list(table: &[Vec<Cell>]) -> Vec<Line> {
    let Some((head, rows)) = table.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(Line::new());
        }
        for (name, cell) in head.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            let colon = Span { look: Look::Text, text: ": ".to_owned() };
            lines.push(name.iter().chain([&colon]).chain(cell).cloned().collect());
        }
    }
    lines
}
