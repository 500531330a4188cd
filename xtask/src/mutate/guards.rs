//! Checks that are left out, in the files whose business is to check: an `if` that refuses, a
//! condition on an arm of a match, a statement that only may fail, a bound that is set, a header
//! that protects. Which files those are, and which of these ways apply there, is a table.

use super::site::{Form, Kind, Mutation};
use super::source::Source;
use std::ops::Range;

struct Guarded {
    /// The beginning of a path; the first that fits counts.
    path: &'static str,
    kind: Kind,
    ways: &'static [Way],
    /// Calls in a chain that set a bound.
    bounds: &'static [&'static str],
}

/// What is a check there, besides an `if` that refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A statement that only may fail. Not where such statements act: making a directory is no check.
    Statements,
    /// A condition on an arm, and a header in a table.
    Arms,
}

const NONE: &[Way] = &[];
const STATEMENTS: &[Way] = &[Way::Statements];
const ARMS: &[Way] = &[Way::Arms];
const BOTH: &[Way] = &[Way::Statements, Way::Arms];

const fn guarded(path: &'static str, kind: Kind, ways: &'static [Way]) -> Guarded {
    Guarded { path, kind, ways, bounds: &[] }
}

impl Guarded {
    const fn bounded(self, bounds: &'static [&'static str]) -> Self {
        Self { bounds, ..self }
    }
}

const GUARDED: &[Guarded] = &[
    guarded("crates/server/src/auth.rs", Kind::Auth, BOTH),
    guarded("crates/server/src/names.rs", Kind::Auth, BOTH),
    guarded("crates/server/src/listen.rs", Kind::Auth, STATEMENTS).bounded(&[
        "header_read_timeout",
        "max_headers",
        "max_header_size",
    ]),
    guarded("crates/server/src/lib.rs", Kind::Auth, STATEMENTS).bounded(&["layer"]),
    guarded("crates/server/src/mcp.rs", Kind::Auth, STATEMENTS),
    guarded("crates/server/src/sse.rs", Kind::Auth, STATEMENTS),
    guarded("crates/server/src/rest/", Kind::Auth, STATEMENTS),
    guarded("crates/server/src/remote/guard.rs", Kind::Auth, BOTH),
    guarded("crates/server/src/remote/mod.rs", Kind::Auth, NONE).bounded(&["layer"]),
    guarded("crates/remote/src/courier/address.rs", Kind::Auth, BOTH),
    guarded("crates/host/src/upstream/http.rs", Kind::Auth, STATEMENTS),
    guarded("crates/host/src/upstream/machines.rs", Kind::Auth, STATEMENTS),
    guarded("crates/host/src/ops/relay.rs", Kind::Auth, STATEMENTS).bounded(&["filter"]),
    guarded("crates/host/src/ops/token.rs", Kind::Auth, STATEMENTS),
    guarded("crates/host/src/ops/tool.rs", Kind::Path, STATEMENTS),
    guarded("crates/host/src/workspace", Kind::Path, STATEMENTS),
    guarded("crates/host/src/data.rs", Kind::Path, STATEMENTS),
    guarded("crates/host/src/environment.rs", Kind::Path, STATEMENTS),
    guarded("crates/host/src/git.rs", Kind::Path, NONE),
    guarded("crates/host/src/git/call.rs", Kind::Path, NONE).bounded(&["filter"]),
    guarded("crates/host/src/git/", Kind::Path, ARMS),
    guarded("crates/host/src/trees/give_back.rs", Kind::Path, STATEMENTS),
    guarded("crates/host/src/trees", Kind::Path, NONE),
    guarded("crates/host/src/skills.rs", Kind::Path, STATEMENTS),
    guarded("crates/host/src/skills/read.rs", Kind::Path, NONE),
];

pub fn find(source: &Source, found: &mut Vec<Mutation>) {
    let mut guarded = GUARDED.iter().filter(|guarded| source.path.starts_with(guarded.path));
    let Some(Guarded { kind, ways, bounds, .. }) = guarded.next() else { return };
    let made = |at: Range<usize>, becomes: &str| Mutation::new(source, *kind, at, becomes);
    found.extend(refusals(source).into_iter().map(|at| made(at, "false")));
    if ways.contains(&Way::Statements) {
        found.extend(fallible(source).into_iter().map(|at| {
            let statement = source.text[at.clone()].trim_end_matches("?;");
            made(at, &format!("let _ = {statement};")).formed(Form::Statement)
        }));
    }
    if ways.contains(&Way::Arms) {
        found.extend(conditions(source).into_iter().map(|at| made(at, "true")));
        found.extend(headers(source).into_iter().map(|at| made(at, "").formed(Form::Alone)));
    }
    for bound in *bounds {
        let call = format!(".{bound}(");
        for at in source.places(&call) {
            if let Some(end) = source.closing(at + call.len() - 1) {
                found.push(made(at..end, "").formed(Form::Alone));
            }
        }
    }
}

/// The condition of every `if` whose block begins with a refusal.
fn refusals(source: &Source) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in source.names("if ") {
        let from = at + "if ".len();
        let Some(open) = source.code[from..source.end].find(" {\n").map(|open| from + open) else {
            continue;
        };
        let condition = &source.code[from..open];
        let refuses = source.code[open + 2..].trim_start().starts_with("return Err(");
        if refuses && !condition.contains("let ") && !condition.contains(';') {
            found.push(from..open);
        }
    }
    found
}

/// Every statement whose only worth is that it may fail: `check(x)?;`.
fn fallible(source: &Source) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in source.places(")?;") {
        let line = source.code[..at].rfind('\n').map_or(0, |line| line + 1);
        let from = line + (source.code[line..].len() - source.code[line..].trim_start().len());
        let begins = source.code[..line].trim_end().ends_with([';', '{', '}']);
        let word = source.code[from..].split([' ', '(']).next().unwrap_or_default();
        let named = word.starts_with(|char: char| char.is_alphabetic());
        if begins
            && named
            && from < at
            && !matches!(word, "let" | "return" | "if" | "for" | "match")
        {
            found.push(from..at + ")?;".len());
        }
    }
    found
}

/// Each part of the condition of an arm.
fn conditions(source: &Source) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in source.places(" if ") {
        let from = at + " if ".len();
        let line = source.code[from..].find('\n').map_or(source.code.len(), |end| from + end);
        let Some(end) = source.code[from..line].find(" =>").map(|end| from + end) else { continue };
        let mut part = from;
        for and in source.code[from..end].match_indices(" && ").map(|(and, _)| from + and) {
            found.push(part..and);
            part = and + " && ".len();
        }
        found.push(part..end);
    }
    found
}

/// The lines of a table of headers: a name and its value.
fn headers(source: &Source) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in source.text[..source.end].split_inclusive('\n') {
        let text = line.trim();
        if text.starts_with("(\"") && text.ends_with("\"),") {
            let from = at + line.find('(').unwrap_or(0);
            found.push(from..from + text.len());
        }
        at += line.len();
    }
    found
}
