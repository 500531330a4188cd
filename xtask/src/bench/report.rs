//! What was measured, row by row: printed as it comes, and kept for the table at the end and for the
//! generated part of `docs/benchmarks.md`. Whether a row meets its gate is said here and nowhere
//! else. A row whose floor moved too much is void: it keeps its figures and has no verdict.

use super::figures::{Bound, Pairs, Short};
use super::{promises, said, usage};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/benchmarks.md";

/// What a figure is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Goal,
    Gate,
    Missed,
    /// The machine was measured and not the product.
    Void,
    /// Nothing was promised.
    Unbound,
}

impl Verdict {
    pub fn of(bound: Bound, figure: f64) -> Self {
        match (bound.meets_gate(figure), bound.meets_goal(figure)) {
            (None, _) => Self::Unbound,
            (Some(_), Some(true)) => Self::Goal,
            (Some(true), _) => Self::Gate,
            (Some(false), _) => Self::Missed,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Goal => "goal met",
            Self::Gate => "gate met",
            Self::Missed => "**not met**",
            Self::Void => "void",
            Self::Unbound => "",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    bench: &'static str,
    pub what: String,
    pub floor: String,
    ours: String,
    figure: String,
    /// Whether it is the ratio that the bound is of, and not ours itself.
    by_ratio: bool,
    bound: Bound,
    pub verdict: Verdict,
}

impl Row {
    /// The figure that the bound is of.
    pub fn judged(&self) -> &str {
        if self.by_ratio { &self.figure } else { &self.ours }
    }

    /// What it must reach.
    pub fn asked(&self) -> String {
        self.bound.gate_and_goal().0
    }
}

/// All rows of one call.
#[derive(Debug, Default)]
pub struct Report {
    bench: &'static str,
    rows: Vec<Row>,
}

impl Report {
    /// The rows that follow come from this bench.
    pub fn begin(&mut self, bench: &'static str, how: &str) {
        self.bench = bench;
        println!("\n{bench}: {how} (load average {})", usage::load());
    }

    /// A bound on the ratio of ours to the floor.
    pub fn ratio(&mut self, what: &str, unit: &str, pairs: &Pairs, bound: Bound) {
        self.paired(what, unit, pairs, bound, true);
    }

    /// A bound on ours itself; the floor stands beside it and says whether the machine was calm.
    pub fn absolute(&mut self, what: &str, unit: &str, pairs: &Pairs, bound: Bound) {
        self.paired(what, unit, pairs, bound, false);
    }

    fn paired(&mut self, what: &str, unit: &str, pairs: &Pairs, bound: Bound, by_ratio: bool) {
        let figure = if by_ratio { pairs.ratio() } else { pairs.ours() };
        let (low, high) = pairs.ratio_spread();
        let verdict = match pairs.is_void() {
            true => Verdict::Void,
            false => Verdict::of(bound, figure),
        };
        self.push(Row {
            bench: self.bench,
            what: what.to_owned(),
            floor: format!("{} {unit} (spread {:.2}×)", Short(pairs.floor()), pairs.floor_spread()),
            ours: format!("{} {unit}", Short(pairs.ours())),
            figure: format!("{:.2}× ({low:.2}–{high:.2})", pairs.ratio()),
            by_ratio,
            bound,
            verdict,
        });
    }

    /// A figure that has no floor.
    pub fn figure(&mut self, what: &str, unit: &str, figure: f64, bound: Bound) {
        self.push(Row {
            bench: self.bench,
            what: what.to_owned(),
            floor: String::new(),
            ours: format!("{} {unit}", Short(figure)).trim_end().to_owned(),
            figure: String::new(),
            by_ratio: false,
            bound,
            verdict: Verdict::of(bound, figure),
        });
    }

    fn push(&mut self, row: Row) {
        let bound = row.bound.words();
        let parts = [row.floor.as_str(), &row.ours, &row.figure, &bound, row.verdict.words()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        println!("  {:<44} {}", row.what, parts.join("  "));
        self.rows.push(row);
    }

    /// Whether any floor moved too much.
    pub fn is_void(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Void)
    }

    pub fn append(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The whole as a table of Markdown.
    pub fn table(&self) -> String {
        let mut table =
            "| what | floor | ours | ratio (spread) | gate | goal | verdict | command |\n\
                         |---|---|---|---|---|---|---|---|\n"
                .to_owned();
        for row in &self.rows {
            let (gate, goal) = row.bound.gate_and_goal();
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {gate} | {goal} | {} | `bench {}` |",
                row.what,
                row.floor,
                row.ours,
                row.figure,
                row.verdict.words(),
                row.bench
            );
        }
        table
    }

    /// Puts the table into the page.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        let promises = promises::table(root, &self.rows)?;
        let shortfalls = promises::shortfalls(&self.rows);
        let made = format!(
            "### Promises\n\n{promises}\n### What has not reached its gate\n\n{shortfalls}\n\
             ### Every row\n\n{}",
            self.table()
        );
        keep(root, "all", &made)
    }
}

/// Puts what a bench made into the page, between the marks of that bench; what people wrote around
/// them stays.
pub fn keep(root: &Path, bench: &str, made: &str) -> Result<(), String> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(said(format!("reading {PAGE}")))?;
    let marks = marks(bench);
    let page = put_between(&page, &marks, &format!("{}\n\n{made}", provenance(root)));
    let [begin, end] = &marks;
    let page =
        page.ok_or_else(|| format!("{PAGE} has no lines '{begin}' and '{end}' to write between"))?;
    std::fs::write(&path, page).map_err(said(format!("writing {PAGE}")))?;
    println!("{PAGE} is written");
    Ok(())
}

fn marks(bench: &str) -> [String; 2] {
    ["begin", "end"]
        .map(|word| format!("<!-- written by `cargo xtask bench {bench} --write`: {word} -->"))
}

fn put_between(page: &str, [begin, end]: &[String; 2], made: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", made.trim_end()))
}

/// Where and when the figures were taken.
fn provenance(root: &Path) -> String {
    let commit = said_by(root, "git", &["describe", "--always", "--dirty", "--abbrev=10"]);
    let toolchain = said_by(root, "rustc", &["--version"]);
    let kernel = said_by(root, "uname", &["-srm"]);
    let day = super::adapter::now().to_string();
    let day = day.split('T').next().unwrap_or_default();
    format!(
        "Commit {commit}, {day}. {} cores, {kernel}; {toolchain}, the dist profile of this \
         repository. Load average at the end: {}.",
        usage::cores(),
        usage::load()
    )
}

fn said_by(root: &Path, program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(rows: &[(f64, f64)]) -> Pairs {
        let mut pairs = Pairs::default();
        rows.iter().for_each(|(floor, ours)| pairs.push(*floor, *ours));
        pairs
    }

    #[test]
    fn a_row_is_judged_by_its_bound_and_void_when_its_floor_moved() {
        let bound = Bound::AtMost { gate: 3.0, goal: 1.5 };
        let mut report = Report::default();
        for (calm, ours) in [(true, 1.0), (true, 2.0), (true, 4.0), (false, 1.0)] {
            let other = if calm { 1.0 } else { 2.5 };
            report.ratio("x", "ns", &pairs(&[(1.0, ours), (other, ours * other)]), bound);
        }
        report.absolute("x", "ms", &pairs(&[(1.0, 3.5)]), bound);
        report.ratio("x", "ns", &pairs(&[(1.0, 9.0)]), Bound::None);
        let verdicts: Vec<_> = report.rows.iter().map(|row| row.verdict).collect();
        use Verdict::*;
        assert_eq!(verdicts, [Goal, Gate, Missed, Void, Missed, Unbound]);
        assert!(report.is_void() && !Report::default().is_void());
        assert_eq!(report.table().lines().count(), 2 + verdicts.len());
    }

    #[test]
    fn only_what_stands_between_the_marks_is_written_anew() {
        let marks = marks("all");
        let [begin, end] = &marks;
        let page = format!("by hand\n{begin}\nold\n{end}\nby hand too\n");
        let written = put_between(&page, &marks, "new\n").unwrap();
        assert_eq!(written, format!("by hand\n{begin}\n\nnew\n\n{end}\nby hand too\n"));
        assert_eq!(put_between(&written, &marks, "new").unwrap(), written);
        assert_eq!(put_between(&written, &super::marks("agents"), "new"), None);
    }

    #[test]
    fn the_page_has_a_place_for_everything_that_is_written() {
        let page = include_str!("../../../docs/benchmarks.md");
        for mark in ["all", "agents", "acp"].map(marks).as_flattened() {
            assert_eq!(page.matches(mark.as_str()).count(), 1, "{mark}");
        }
    }
}
