//! Conditions in the statements of the store: every comparison is made to hold always, or never where
//! it is one of two that suffice. Its parameters stay in the statement: a wrong number of them would be
//! noticed for a wrong reason. What only finds a row by its key, joins two tables or assigns is no
//! condition; the few others that are left alone are a table with reasons.

use super::site::{Form, Kind, Mutation};
use super::source::{Source, is_name};
use std::ops::Range;

const FOLDER: &str = "crates/store/src/sqlite/";
/// How a statement begins, or a condition that statements share; and words that only those have.
const BEGINNINGS: &[&str] = &["SELECT ", "UPDATE ", "INSERT ", "DELETE ", "AND ", "run IS "];
const WORDS: &[&str] = &["WHERE ", " AND "];
/// Longer ones before those that they begin with.
const OPERATORS: &[&str] = &["<>", "<=", ">=", "=", "<", ">"];
const WORD_OPERATORS: &[&str] =
    &["IS NOT NULL", "IS NULL", "IS NOT", "IS", "IN", "BETWEEN", "LIKE"];
const CLAUSES: &[&str] = &["SELECT", "SET", "WHERE", "FROM", "ON", "VALUES", "ORDER"];
/// A row's own number or name comes first and finds it; only a second condition says whether it may
/// be touched.
const KEYS: &[&str] = &["id", "num", "run", "name", "n"];
/// What is left alone, and why.
const EXCUSED: &[(&str, &str)] = &[
    ("agents.name IS NOT NULL", "the end of a recursion: without it the statement has none"),
    ("agent > agents.name", "the step of that recursion: it would stay where it is for ever"),
];

pub fn find(source: &Source, found: &mut Vec<Mutation>) {
    if !source.path.starts_with(FOLDER) {
        return;
    }
    for literal in &source.literals {
        for Condition { at, becomes } in conditions(&literal.text) {
            let whole =
                format!("{}{becomes}{}", &literal.text[..at.start], &literal.text[at.end..]);
            let form = form(source, literal.at..literal.at + literal.text.len(), &whole);
            let at = literal.at + at.start..literal.at + at.end;
            found.push(Mutation::new(source, Kind::Fence, at, becomes).formed(form));
        }
    }
}

/// How a text that becomes another stands in the code. With its quotes it is an expression; `format!`
/// must have it as it is, and is one itself; a constant cannot ask which of them is there.
fn form(source: &Source, text: Range<usize>, becomes: &str) -> Form {
    let quoted = text.start - 1..text.end + 1;
    let before = source.code[..quoted.start].trim_end();
    if before.ends_with("&str =") {
        return Form::Alone;
    }
    let Some(call) = before.strip_suffix("format!(") else {
        return Form::Expression(quoted, format!("\"{becomes}\""));
    };
    match source.closing(before.len() - 1) {
        Some(end) => {
            let rest = &source.text[quoted.end..end];
            Form::Expression(call.len()..end, format!("format!(\"{becomes}\"{rest}"))
        }
        None => Form::Alone,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Condition {
    at: Range<usize>,
    becomes: String,
}

fn conditions(sql: &str) -> Vec<Condition> {
    let begins = BEGINNINGS.iter().any(|word| sql.trim_start().starts_with(word));
    if !begins && !WORDS.iter().any(|word| sql.contains(word)) {
        return Vec::new();
    }
    let sql = Statement::new(sql);
    let mut found = Vec::new();
    let mut at = 0;
    while at < sql.code.len() {
        let operator = sql.operator(at);
        if let Some(operator) = operator {
            found.extend(sql.condition(at, operator));
        }
        at += operator.map_or(1, str::len);
    }
    found
}

/// A statement, and the same with its texts blanked out, so that what is in them is not read.
struct Statement<'a> {
    text: &'a str,
    code: Vec<u8>,
}

impl<'a> Statement<'a> {
    fn new(text: &'a str) -> Self {
        let mut inside = false;
        let blank = |byte: u8| {
            let quote = byte == b'\'';
            inside ^= quote;
            // Quotes stay, so that a text has an end.
            if (inside && !quote) || !byte.is_ascii() { b'_' } else { byte }
        };
        Self { text, code: text.bytes().map(blank).collect() }
    }

    /// The operator that begins here.
    fn operator(&self, at: usize) -> Option<&'static str> {
        let rest = &self.code[at..];
        let signs = OPERATORS.iter().find(|operator| rest.starts_with(operator.as_bytes()));
        let apart = |at: usize| self.code.get(at).is_none_or(|byte| !is_name(*byte));
        let word = || {
            let mut words = WORD_OPERATORS.iter();
            words.find(|word| {
                rest.starts_with(word.as_bytes())
                    && at > 0
                    && apart(at - 1)
                    && apart(at + word.len())
            })
        };
        signs.or_else(word).copied()
    }

    /// What is compared by the operator at this place, when that is a condition.
    fn condition(&self, at: usize, operator: &'static str) -> Option<Condition> {
        let start = self.left(at)?;
        let end = self.right(at + operator.len(), operator)?;
        let clause = self.clause(start);
        if matches!(clause, Some("SET" | "ON" | "FROM" | "VALUES" | "ORDER")) {
            return None;
        }
        let (before, was) = (self.text[..start].trim_end(), &self.text[start..end]);
        let either = before.ends_with(" OR") || self.text[end..].trim_start().starts_with("OR ");
        let column = self.text[start..at].trim_end();
        let name = column.rsplit('.').next().unwrap_or(column);
        let finds = before.ends_with("WHERE") && operator == "=" && !either && KEYS.contains(&name);
        // What equals something is there: it is said once more for the planner, which goes by it.
        let again = operator == "IS NOT NULL" && self.text.contains(&format!("{column} = ?"));
        let excused = EXCUSED.iter().any(|(excused, _)| *excused == was);
        if finds || again || excused {
            return None;
        }
        Some(Condition { at: start..end, becomes: instead(was, either)? })
    }

    /// Where what stands before an operator begins: a column, a call or what is in brackets.
    fn left(&self, operator: usize) -> Option<usize> {
        let end = self.text[..operator].trim_end().len();
        let mut start = end;
        if self.code[..end].ends_with(b")") {
            start = self.opening(end - 1)?;
        }
        let part = |byte: &u8| is_name(*byte) || *byte == b'.';
        start -= self.code[..start].iter().rev().take_while(|byte| part(byte)).count();
        let named = self.code[start].is_ascii_alphabetic() || self.code[start] == b'(';
        // `x NOT IN (…)` would be one word too few, and a parameter that is compared with nothing of a
        // row only stands there to be counted.
        (start < end && named && &self.text[start..end] != "NOT").then_some(start)
    }

    /// Where what stands behind an operator ends.
    fn right(&self, from: usize, operator: &str) -> Option<usize> {
        if operator.ends_with("NULL") {
            return Some(from);
        }
        let mut end = self.value(from)?;
        loop {
            let rest = self.text[end..].trim_start();
            let joined = ["||", "+ ", "- "].iter().find(|joint| rest.starts_with(**joint));
            let between = operator == "BETWEEN" && rest.starts_with("AND ");
            let skipped = match (joined, between) {
                (Some(joint), _) => joint.len(),
                (None, true) if !self.text[from..end].contains(" AND ") => "AND ".len(),
                _ => return Some(end),
            };
            end = self.value(self.text.len() - rest.len() + skipped)?;
        }
    }

    /// Where one value ends: a name, a number, a parameter, a text, a call, or what is in brackets.
    fn value(&self, from: usize) -> Option<usize> {
        let start = self.text.len() - self.text[from..].trim_start().len();
        let code = &self.code[start..];
        let ends =
            |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b',' | b';');
        let end = start + code.iter().position(ends).unwrap_or(code.len());
        match self.code.get(end) {
            Some(b'(') => self.closing(end),
            _ => (end > start).then_some(end),
        }
    }

    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for at in open..self.code.len() {
            depth += bracket(self.code[at]);
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0;
        for at in (0..=close).rev() {
            depth += bracket(self.code[at]);
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    /// The last word before a place that begins a clause, not counting what is closed by then.
    fn clause(&self, before: usize) -> Option<&'static str> {
        let mut at = before;
        while at > 0 {
            at -= 1;
            if self.code[at] == b')' {
                at = self.opening(at)?;
                continue;
            }
            let apart = |at: usize| self.code.get(at).is_none_or(|byte| !is_name(*byte));
            let word = CLAUSES.iter().find(|clause| {
                self.code[at..before].starts_with(clause.as_bytes())
                    && apart(at + clause.len())
                    && (at == 0 || apart(at - 1))
            });
            if let Some(word) = word {
                return Some(word);
            }
        }
        None
    }
}

fn bracket(byte: u8) -> i32 {
    match byte {
        b'(' => 1,
        b')' => -1,
        _ => 0,
    }
}

/// What stands for a condition that always holds, or for one of two that never does.
fn instead(was: &str, either: bool) -> Option<String> {
    // A place that `format!` fills.
    if was.contains("'{}'") {
        return Some("'{0}' = '{0}'".to_owned());
    }
    // What a name stands for may have parameters, and cannot be looked into.
    if was.contains('{') {
        return None;
    }
    let digits = |after: &str| after.bytes().take_while(u8::is_ascii_digit).count();
    let mut parameters: Vec<&str> =
        was.match_indices('?').map(|(at, _)| &was[at..at + 1 + digits(&was[at + 1..])]).collect();
    parameters.sort_unstable();
    parameters.dedup();
    let is = if either { "IS NOT" } else { "IS" };
    let kept: Vec<String> =
        parameters.iter().map(|parameter| format!("{parameter} {is} {parameter}")).collect();
    Some(match (kept.as_slice(), either) {
        ([], false) => "1".to_owned(),
        ([], true) => "0".to_owned(),
        ([one], _) => one.clone(),
        (more, _) => format!("({})", more.join(" AND ")),
    })
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
    fn lists_texts_ranges_and_whole_questions_are_conditions_and_keep_their_parameters() {
        assert_eq!(
            mutated("UPDATE t SET b = ?3 WHERE id = ?1 AND budget IS ?2 AND s IN ('a', 'b')"),
            [
                "UPDATE t SET b = ?3 WHERE id = ?1 AND ?2 IS ?2 AND s IN ('a', 'b')",
                "UPDATE t SET b = ?3 WHERE id = ?1 AND budget IS ?2 AND 1",
            ]
        );
        assert_eq!(
            mutated("{ALL} AND (SELECT count(*) FROM r WHERE a = ?4) < ?5 AND w IS 'pool'"),
            [
                "{ALL} AND (SELECT count(*) FROM r WHERE ?4 IS ?4) < ?5 AND w IS 'pool'",
                "{ALL} AND (?4 IS ?4 AND ?5 IS ?5) AND w IS 'pool'",
                "{ALL} AND (SELECT count(*) FROM r WHERE a = ?4) < ?5 AND 1",
            ]
        );
        assert_eq!(
            mutated("SELECT a FROM t WHERE day BETWEEN ?1 AND ?2 OR f(a, -?4) = ?3 || 'x'"),
            [
                "SELECT a FROM t WHERE (?1 IS NOT ?1 AND ?2 IS NOT ?2) OR f(a, -?4) = ?3 || 'x'",
                "SELECT a FROM t WHERE day BETWEEN ?1 AND ?2 OR (?3 IS NOT ?3 AND ?4 IS NOT ?4)",
            ]
        );
    }

    #[test]
    fn a_row_is_found_by_its_key_unless_another_condition_would_do() {
        assert!(mutated("SELECT a FROM t WHERE id = ?1").is_empty());
        assert!(mutated("SELECT a FROM t WHERE t.num = (SELECT n FROM o WHERE n = ?1)").is_empty());
        assert_eq!(
            mutated("SELECT a FROM t WHERE id = ?1 OR key = ?2"),
            [
                "SELECT a FROM t WHERE ?1 IS NOT ?1 OR key = ?2",
                "SELECT a FROM t WHERE id = ?1 OR ?2 IS NOT ?2",
            ]
        );
        assert_eq!(mutated("{ALL} WHERE id > ?1"), ["{ALL} WHERE ?1 IS ?1"]);
        assert_eq!(mutated("run IS NULL AND x"), ["1 AND x"]);
    }

    #[test]
    fn what_cannot_be_left_out_alone_stays() {
        // What a name holds may have parameters.
        assert!(mutated("UPDATE t SET a = 1 WHERE num IN ({found} LIMIT 3)").is_empty());
        // Said again for the planner; and for the count of parameters.
        assert_eq!(
            mutated("SELECT a FROM t WHERE p = ?1 AND p IS NOT NULL AND ?3 IS NULL"),
            ["SELECT a FROM t WHERE ?1 IS ?1 AND p IS NOT NULL AND ?3 IS NULL"]
        );
        // Assignments behind a question.
        assert!(mutated("UPDATE t SET a = (SELECT b FROM o WHERE n = ?1), c = ?2").is_empty());
    }

    #[test]
    fn a_text_of_format_is_replaced_with_its_call_and_a_constant_is_built_alone() {
        let text = r#"const A: &str = "SELECT a FROM t WHERE b = 1";
            fn f() { g(&format!("{A} AND c = {}", 2)); h("SELECT a FROM t WHERE d = 3"); }"#;
        let mut found = Vec::new();
        find(&Source::new("crates/store/src/sqlite/a.rs", text), &mut found);
        let forms: Vec<Option<(&str, &str)>> = found
            .iter()
            .map(|mutation| match &mutation.form {
                Form::Expression(at, becomes) => Some((&text[at.clone()], becomes.as_str())),
                Form::Statement | Form::Alone => None,
            })
            .collect();
        assert_eq!(
            forms,
            [None, Some((r#""SELECT a FROM t WHERE d = 3""#, r#""SELECT a FROM t WHERE 1""#)),]
        );
        let text = r#"fn f() { g(&format!("{A} AND c = '{}'", 2)) }"#;
        let mut found = Vec::new();
        find(&Source::new("crates/store/src/sqlite/a.rs", text), &mut found);
        let Form::Expression(at, becomes) = &found[0].form else { panic!("it is built alone") };
        assert_eq!(&text[at.clone()], r#"format!("{A} AND c = '{}'", 2)"#);
        assert_eq!(becomes, r#"format!("{A} AND '{0}' = '{0}'", 2)"#);
    }

    #[test]
    fn what_is_no_statement_is_left_alone() {
        assert!(mutated("the state = of things").is_empty());
        assert_eq!(mutated("AND state = '{}'"), ["AND '{0}' = '{0}'"]);
    }
}
