//! Conditions in the statements of the store: every one that compares a fence, a state, a head, a
//! lease, an owner, a time, a version or what counts as gone is made to hold always, or never where it
//! is one of two that suffice. Its parameter stays in the statement: a wrong number of them would be
//! noticed for a wrong reason.

use super::site::{Form, Kind, Mutation};
use super::source::{Source, is_name};
use std::ops::Range;

const FOLDER: &str = "crates/store/src/sqlite/";
/// Columns by which a statement makes sure that it may.
const COLUMNS: &[&str] = &[
    "fence",
    "state",
    "head_seq",
    "lease_expires_at",
    "taken",
    "settled_at",
    "run",
    "expires_at",
    "waiting_for",
    "until",
    "not_before",
    "version",
    "ended_at",
    "deleted_at",
    "purged",
];
/// How a statement begins, or a condition that statements share.
const BEGINNINGS: &[&str] = &["SELECT ", "UPDATE ", "INSERT ", "DELETE ", "AND ", "run IS "];
const OPERATORS: &[&str] = &["<>", "<=", ">=", "=", "<", ">"];
const CLAUSES: &[&str] = &["SELECT", "SET", "WHERE", "FROM", "ON", "VALUES", "ORDER"];

pub fn find(source: &Source, found: &mut Vec<Mutation>) {
    if !source.path.starts_with(FOLDER) {
        return;
    }
    for literal in &source.literals {
        for Condition { at, becomes } in conditions(&literal.text) {
            let whole =
                format!("{}{becomes}{}", &literal.text[..at.start], &literal.text[at.end..]);
            let at = literal.at + at.start..literal.at + at.end;
            // The literal with its quotes is an expression, unless `format!` must have it as it is.
            let quoted = literal.at - 1..literal.at + literal.text.len() + 1;
            let form = match literal.text.contains("{}") {
                true => Form::Alone,
                false => Form::Expression(quoted, format!("\"{whole}\"")),
            };
            found.push(Mutation::new(source, Kind::Fence, at, becomes).formed(form));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Condition {
    at: Range<usize>,
    becomes: String,
}

fn conditions(sql: &str) -> Vec<Condition> {
    if !BEGINNINGS.iter().any(|word| sql.trim_start().starts_with(word)) {
        return Vec::new();
    }
    let mut found: Vec<Condition> = Vec::new();
    for column in COLUMNS {
        found.extend(sql.match_indices(column).filter_map(|(at, _)| condition(sql, column, at)));
    }
    found.sort_by_key(|condition| condition.at.start);
    found
}

fn condition(sql: &str, column: &str, at: usize) -> Option<Condition> {
    let bytes = sql.as_bytes();
    let inside = at > 0 && is_name(bytes[at - 1]);
    if inside || matches!(clause(&sql[..at]), Some("SET" | "ON" | "FROM" | "VALUES" | "ORDER")) {
        return None;
    }
    // With the name of its table before it.
    let start =
        at - bytes[..at].iter().rev().take_while(|byte| is_name(**byte) || **byte == b'.').count();
    let before = sql[..start].trim_end();
    // A row's own number comes first and finds it; only a second condition is one of ownership.
    if column == "run" && !before.ends_with("AND") {
        return None;
    }
    let after = &sql[at + column.len()..];
    let (length, value) = compared(after)?;
    let end = at + column.len() + length;
    let either = before.ends_with(" OR") || sql[end..].trim_start().starts_with("OR ");
    let becomes = match (value, either) {
        (value, false) if value.starts_with('?') => format!("{value} IS {value}"),
        (value, true) if value.starts_with('?') => format!("{value} IS NOT {value}"),
        // A place that `format!` fills.
        ("'{}'", _) => "'{0}' = '{0}'".to_owned(),
        (_, false) => "1".to_owned(),
        (_, true) => "0".to_owned(),
    };
    Some(Condition { at: start..end, becomes })
}

/// How long the comparison is that follows a column, and what it is compared with.
fn compared(after: &str) -> Option<(usize, &str)> {
    let rest = after.trim_start();
    let skipped = after.len() - rest.len();
    for null in ["IS NULL", "IS NOT NULL"] {
        if rest.starts_with(null) {
            return Some((skipped + null.len(), "NULL"));
        }
    }
    let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator))?;
    let value = rest[operator.len()..].trim_start();
    let skipped = after.len() - value.len();
    let length = value.find(|char: char| char.is_whitespace() || matches!(char, ')' | ',' | ';'));
    let length = length.unwrap_or(value.len());
    (length > 0).then(|| (skipped + length, &value[..length]))
}

/// The last word before a place that begins a clause.
fn clause(before: &str) -> Option<&'static str> {
    let words = before.split(|char: char| !char.is_ascii_alphabetic()).rev();
    words.filter_map(|word| CLAUSES.iter().find(|clause| **clause == word)).next().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutated(sql: &str) -> Vec<String> {
        let change = |found: &Condition| {
            format!("{}{}{}", &sql[..found.at.start], found.becomes, &sql[found.at.end..])
        };
        conditions(sql).iter().map(change).collect()
    }

    #[test]
    fn each_condition_is_dropped_and_no_assignment_is() {
        assert_eq!(
            mutated(
                "UPDATE t SET state = 'x', fence = ?3 WHERE id = ?1 AND state <> 'y' AND fence = ?2"
            ),
            [
                "UPDATE t SET state = 'x', fence = ?3 WHERE id = ?1 AND 1 AND fence = ?2",
                "UPDATE t SET state = 'x', fence = ?3 WHERE id = ?1 AND state <> 'y' AND ?2 IS ?2",
            ]
        );
    }

    #[test]
    fn a_column_may_have_its_table_and_stand_in_what_is_selected() {
        assert_eq!(
            mutated(
                "SELECT r.head_seq, r.fence = t.fence FROM runs r JOIN tasks t ON t.id = r.task WHERE r.id = ?1"
            ),
            ["SELECT r.head_seq, 1 FROM runs r JOIN tasks t ON t.id = r.task WHERE r.id = ?1"]
        );
    }

    #[test]
    fn of_two_that_suffice_one_is_made_to_fail() {
        assert_eq!(
            mutated("SELECT n FROM r WHERE (settled_at IS NULL OR settled_at >= ?3) AND run <> ?2"),
            [
                "SELECT n FROM r WHERE (0 OR settled_at >= ?3) AND run <> ?2",
                "SELECT n FROM r WHERE (settled_at IS NULL OR ?3 IS NOT ?3) AND run <> ?2",
                "SELECT n FROM r WHERE (settled_at IS NULL OR settled_at >= ?3) AND ?2 IS ?2",
            ]
        );
    }

    #[test]
    fn what_is_no_statement_is_left_alone() {
        assert!(mutated("the state = of things").is_empty());
        assert_eq!(mutated("AND state = '{}'"), ["AND '{0}' = '{0}'"]);
    }
}
