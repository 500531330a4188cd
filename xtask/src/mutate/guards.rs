//! Checks that are left out, in the files whose business is to check: an `if` that refuses, a
//! condition on an arm of a match, a statement that only may fail, a bound that is set, a header
//! that protects. Which files those are, and which of these ways apply there, is a table. Two are
//! looked for in whole crates: that a fence is compared, and that what may come once comes once.

use super::site::{Form, Kind, Mutation};
use super::source::{Source, is_name};
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
    guarded("crates/server/src/remote/listen.rs", Kind::Auth, NONE),
    guarded("crates/server/src/remote/mod.rs", Kind::Auth, NONE).bounded(&["layer"]),
    guarded("crates/remote/src/courier/address.rs", Kind::Auth, BOTH),
    guarded("crates/host/src/upstream/http.rs", Kind::Auth, BOTH),
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

/// Crates in which a fence is compared outside of the store.
const FENCED: &[&str] = &["crates/host/", "crates/remote/", "crates/server/"];

pub fn find(source: &Source, found: &mut Vec<Mutation>) {
    if FENCED.iter().any(|fenced| source.path.starts_with(fenced)) {
        found.extend(fences(source));
    }
    if source.path.starts_with("crates/server/") {
        found.extend(seconds(source));
    }
    let mut guarded = GUARDED.iter().filter(|guarded| source.path.starts_with(guarded.path));
    let Some(Guarded { kind, ways, bounds, .. }) = guarded.next() else { return };
    let made = |at: Range<usize>, becomes: &str| Mutation::new(source, *kind, at, becomes);
    found.extend(refusals(source).into_iter().map(|(at, becomes)| made(at, becomes)));
    if ways.contains(&Way::Statements) {
        found.extend(fallible(source).into_iter().map(|at| {
            let statement = source.text[at.clone()].trim_end_matches("?;");
            made(at, &format!("let _ = {statement};")).formed(Form::Statement)
        }));
    }
    if ways.contains(&Way::Arms) {
        found.extend(conditions(source).into_iter().map(|(at, becomes)| made(at, becomes)));
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

/// The condition of every `if` whose block refuses, and what stands for one that does not hold.
fn refusals(source: &Source) -> Vec<(Range<usize>, &'static str)> {
    let mut found = Vec::new();
    for at in source.names("if ") {
        let from = at + "if ".len();
        let Some(open) = source.code[from..source.end].find(" {\n").map(|open| from + open) else {
            continue;
        };
        let condition = &source.code[from..open];
        // The condition of an arm is none of these, and ends before its block.
        let odd = condition.contains(';') || condition.contains("=>");
        if odd || !refuses(source, open + 1) {
            continue;
        }
        if !condition.contains("let ") {
            found.push((from..open, "false"));
        } else if let Some(looked) = looked_for(condition) {
            let becomes = if condition[looked..].starts_with('&') { "&None" } else { "None" };
            found.push((from + looked..open, becomes));
        }
    }
    found
}

/// Whether the block that opens here returns an error itself, and not only in a block inside.
fn refuses(source: &Source, open: usize) -> bool {
    let Some(end) = source.closing(open) else { return false };
    let block = &source.code[open..end];
    block.match_indices("return Err(").any(|(at, _)| {
        let before = &block[..at];
        before.matches('{').count() == before.matches('}').count() + 1
    })
}

/// Where what is looked into begins, in `let Some(x) = look()`.
fn looked_for(condition: &str) -> Option<usize> {
    let alone = condition.starts_with("let Some(")
        && condition.matches("let ").count() == 1
        && !condition.contains("&&");
    alone.then(|| condition.find(" = ").map(|at| at + " = ".len())).flatten()
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

/// The condition of each arm: that of one that refuses does not hold, and each part of another's does.
fn conditions(source: &Source) -> Vec<(Range<usize>, &'static str)> {
    let mut found = Vec::new();
    for at in source.places(" if ") {
        let from = at + " if ".len();
        let line = source.code[from..].find('\n').map_or(source.code.len(), |end| from + end);
        let Some(end) = source.code[from..line].find(" =>").map(|end| from + end) else { continue };
        if arm_refuses(source, end + " =>".len()) {
            found.push((from..end, "false"));
            continue;
        }
        let mut part = from;
        for and in source.code[from..end].match_indices(" && ").map(|(and, _)| from + and) {
            found.push((part..and, "true"));
            part = and + " && ".len();
        }
        found.push((part..end, "true"));
    }
    found
}

/// Whether the body of an arm is an error, or a block that ends with one.
fn arm_refuses(source: &Source, behind: usize) -> bool {
    let begins = source.code.len() - source.code[behind..].trim_start().len();
    let body = &source.code[begins..];
    let is_error = |text: &str| text.starts_with("Err(") || text.starts_with("return Err(");
    match source.closing(begins).filter(|_| body.starts_with('{')) {
        Some(end) => source.code[begins + 1..end].lines().any(|line| is_error(line.trim_start())),
        None => is_error(body),
    }
}

/// Every comparison of a fence: to a mutation two are always the same.
fn fences(source: &Source) -> Vec<Mutation> {
    let signs = [" == ", " != ", " <= ", " >= ", " < ", " > "];
    let of = |sign: &'static str| {
        source.places(sign).filter_map(move |at| {
            let start = source.receiver(at);
            let left = &source.code[start..at];
            let right = at + sign.len();
            let part = |byte: &u8| is_name(*byte) || *byte == b'.';
            let end = right
                + source.code.as_bytes()[right..].iter().take_while(|byte| part(byte)).count();
            let named = left == "fence" || left.ends_with(".fence");
            let becomes = if sign.contains('=') && sign != " != " { "true" } else { "false" };
            (named && end > right).then(|| Mutation::new(source, Kind::Fence, start..end, becomes))
        })
    };
    signs.into_iter().flat_map(of).collect()
}

/// Every look at whether there is a second of what may come once, such as a header.
fn seconds(source: &Source) -> Vec<Mutation> {
    let second = |at: usize| {
        let start = source.receiver(at);
        let name = &source.code[start..at];
        let end = start + format!("{name}.next(), {name}.next())").len();
        let twice = source.code[start..].starts_with(&format!("{name}.next(), {name}.next())"));
        let whole = twice && source.code[..start].ends_with('(') && !name.is_empty();
        let becomes = format!("({name}.next(), None)");
        whole.then(|| Mutation::new(source, Kind::Auth, start - 1..end, becomes))
    };
    source.places(".next(), ").filter_map(second).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each place that is found, and what stands there instead.
    fn mutated(path: &str, text: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        find(&Source::new(path, text), &mut found);
        found.into_iter().map(|mutation| (mutation.was, mutation.becomes)).collect()
    }

    fn pair(was: &str, becomes: &str) -> (String, String) {
        (was.to_owned(), becomes.to_owned())
    }

    #[test]
    fn a_refusal_is_found_behind_its_message_and_not_in_a_block_inside() {
        let text = "fn f() {
    if a && b {
        let message = m();
        return Err(message);
    }
    if c {
        if d {
            return Err(e);
        }
    }
    if let Some(x) = y.filter(|y| z) {
        return Err(x);
    }
    if let Some(x) = &y.z {
        return Err(x);
    }
    match g {
        G(x) if x.ok() => x,
        _ => {
            return Err(e);
        }
    }
}
";
        assert_eq!(
            mutated("crates/host/src/git.rs", text),
            [
                pair("a && b", "false"),
                pair("d", "false"),
                pair("y.filter(|y| z)", "None"),
                pair("&y.z", "&None"),
            ]
        );
    }

    #[test]
    fn an_arm_that_refuses_does_not_hold_and_another_always_does() {
        let text = "fn f() {
    match a {
        A if b && c => Err(d),
        A if e => {
            Err(d)
        }
        A if f => return Err(d),
        A if g && h => Ok(d),
    }
}
";
        assert_eq!(
            mutated("crates/server/src/names.rs", text),
            [
                pair("b && c", "false"),
                pair("e", "false"),
                pair("f", "false"),
                pair("g", "true"),
                pair("h", "true"),
            ]
        );
    }

    #[test]
    fn fences_are_the_same_and_there_is_no_second() {
        let text = "fn f() {
    live.filter(|live| live.fence == bearer.fence);
    left.is_some_and(|fence| fence != self.fence) || fence < kept.fence || defence < 1;
    match (given.next(), given.next()) {}
    match (given.next(), other.next()) {}
}
";
        assert_eq!(
            mutated("crates/server/src/a.rs", text),
            [
                pair("live.fence == bearer.fence", "true"),
                pair("fence != self.fence", "false"),
                pair("fence < kept.fence", "false"),
                pair("(given.next(), given.next())", "(given.next(), None)"),
            ]
        );
        assert!(mutated("crates/engine/src/a.rs", text).is_empty());
    }
}
