//! Writes the table of requirements as a page.

use super::table::{Evidence, Row, State, TEXT, read};
use std::fmt::Write as _;
use std::path::Path;

/// How the line begins that says when all tests of the table ran; only a run changes it.
const LAST_RUN: &str = "Last run of all of them: ";

/// The page, with the line of the last run from the page that stands there.
pub fn page(root: &Path) -> String {
    let stands = std::fs::read_to_string(root.join(super::PAGE)).unwrap_or_default();
    let last = stands.lines().find_map(|line| line.strip_prefix(LAST_RUN));
    with_last_run(last.unwrap_or("not yet."))
}

/// The page, with this line of the last run.
pub fn with_last_run(last: &str) -> String {
    let rows = match read(TEXT) {
        Ok(rows) => rows,
        Err(error) => return error,
    };
    let mut page = String::from(
        "# Requirements\n\n\
         Five source documents asked for what Ostler does; these are their 255 requirements. Each names \
         the tests that show it. `cargo xtask requirements S0-1` runs those of one row, \
         `cargo xtask requirements --all` those of every row. The page is written from \
         `xtask/src/requirements/table.txt` by `cargo xtask docs`; a test that is renamed or removed \
         fails the gate.\n\n\
         *by decision*: met in another way, for the reason in the record that is named. *dashboard*: \
         only a page is missing. *sandbox*: waits for the sandbox. *not applicable*: concerns the layout \
         of another program.\n\n",
    );
    let _ = writeln!(page, "{LAST_RUN}{last}\n\n{}", totals(&rows));
    let mut rows = rows.iter();
    for line in TEXT.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            let _ = write!(
                page,
                "\n## {heading}\n\n| id | state | requirement | shown by |\n|---|---|---|---|\n"
            );
        } else if let Some(row) = rows.next() {
            page.push_str(&line_of(row));
        }
    }
    page
}

/// The number of requirements in each state.
pub fn totals(rows: &[Row]) -> String {
    let mut totals = format!("{} requirements", rows.len());
    for state in State::ALL {
        let count = rows.iter().filter(|row| row.state == state).count();
        let _ = write!(totals, ", {count} {}", state.as_str());
    }
    totals + "."
}

fn line_of(row: &Row) -> String {
    let evidence: Vec<String> = row.evidence.iter().map(shown).collect();
    let note = row.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
    format!(
        "| {} | {} | {} | {}{note} |\n",
        row.id,
        row.state.as_str(),
        row.statement,
        evidence.join(", ")
    )
}

fn shown(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Test { suite, name } => format!("{suite} `{name}`"),
        Evidence::File(path) => format!("[{path}](../../{path})"),
        Evidence::Decision(number) => format!("decision {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_on_the_page() {
        let page = with_last_run("today.");
        assert_eq!(page.lines().filter(|line| line.starts_with("| S")).count(), 255);
        assert!(page.contains("Last run of all of them: today."));
    }
}
