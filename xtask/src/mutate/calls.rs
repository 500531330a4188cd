//! Calls that are taken away: those that make something durable, and those by which words pass the
//! seal. A file is still opened and a seal still asked, so what turns red is about what the call
//! does. Outside of its own folder the seal is replaced by one that knows no secrets, for nothing
//! else can make what a store takes; one that knew none to begin with goes by the forms of keys, and
//! what came in stands in its stead. Inside its folder each look at the bytes is left out.

use super::site::{Form, Kind, Mutation};
use super::source::Source;

const DONE: &str = "Ok::<(), std::io::Error>(())";
/// Functions that sync, and what stands for one that did nothing.
const SYNCS: &[(&str, &str)] = &[
    ("disk::sync(", DONE),
    ("sync_folder(", DONE),
    ("sync_folder_above(", DONE),
    ("fsync(", "Ok::<(), rustix::io::Errno>(())"),
    ("fdatasync(", "Ok::<(), rustix::io::Errno>(())"),
];
/// The same as methods of a file.
const SYNCED: &[&str] = &[".sync_all()", ".sync_data()"];

pub fn syncs(source: &Source, found: &mut Vec<Mutation>) {
    let mut push = |at, becomes: &str| found.push(Mutation::new(source, Kind::Sync, at, becomes));
    for (call, becomes) in SYNCS {
        for at in source.names(call) {
            let Some(end) = source.closing(at + call.len() - 1) else { continue };
            // An error may be called after what did not succeed.
            let from = source.receiver(at);
            let is_error = source.code[from..at].ends_with("Error::");
            if !source.code[..at].ends_with("fn ") && !is_error {
                push(from..end, becomes);
            }
        }
    }
    // Whoever holds a trace says when it is to be durable.
    for at in source.places(".sync()") {
        push(source.receiver(at)..at + ".sync()".len(), "()");
    }
    for literal in source.literals.iter().filter(|literal| literal.text == "FULL") {
        if source.text[..literal.at].ends_with("\"synchronous\", \"") {
            push(literal.at - 1..literal.at + literal.text.len() + 1, "\"NORMAL\"");
        }
    }
    for call in SYNCED {
        for at in source.places(call) {
            let at = at..at + call.len();
            let mutation = Mutation::new(source, Kind::Sync, at, ".metadata().map(drop)");
            found.push(mutation.formed(Form::Alone));
        }
    }
}

/// The crates whose words pass the seal.
const SPEAKERS: &[&str] = &["crates/host/", "crates/server/", "crates/cli/"];
/// What a seal can do.
const DOORS: &[&str] = &[
    "given",
    "handed",
    "json",
    "state",
    "view",
    "event",
    "line",
    "line_without",
    "head",
    "asset",
    "delta",
    "flush",
    "text",
    "clone",
];
const UNKNOWING: &str = "store::Seal::default()";
const MADE: &str = "Seal::default()";

pub fn seals(source: &Source, found: &mut Vec<Mutation>) {
    if source.path.starts_with("crates/store/src/seal") {
        return looks(source, found);
    }
    if !SPEAKERS.iter().any(|speaker| source.path.starts_with(speaker)) {
        return;
    }
    for door in DOORS {
        let call = format!("seal.{door}(");
        for at in source.names(&call) {
            let from = source.receiver(at);
            let Some(end) = source.closing(at + call.len() - 1) else { continue };
            let rest = &source.text[at + "seal".len()..end];
            let open = at + call.len() - 1;
            let function = source.code[..at].rfind("fn ").unwrap_or(0);
            let unknowing = source.code[function..at].contains("let seal = Seal::default();");
            let arguments = source.arguments(open..end);
            let words = arguments.first().filter(|_| unknowing);
            let becomes = words.and_then(|words| unsealed(door, words));
            let becomes = becomes.unwrap_or_else(|| format!("{UNKNOWING}{rest}"));
            found.push(Mutation::new(source, Kind::Seal, from..end, becomes));
        }
    }
    for at in source.names(MADE) {
        let behind = at + MADE.len();
        let dot = behind + (source.code[behind..].len() - source.code[behind..].trim_start().len());
        let Some(open) = source.code[dot..].find('(').map(|open| dot + open) else { continue };
        let (Some(door), Some(end)) =
            (source.code[dot..open].strip_prefix('.'), source.closing(open))
        else {
            continue;
        };
        let arguments = source.arguments(open..end);
        if let Some(becomes) = arguments.first().and_then(|words| unsealed(door, words)) {
            let from = source.receiver(at);
            found.push(Mutation::new(source, Kind::Seal, from..end, becomes));
        }
    }
    for at in source.places("Seal::new(") {
        let Some(end) = source.closing(at + "Seal::new".len()) else { continue };
        found.push(Mutation::new(source, Kind::Seal, at..end, "Seal::new(Vec::new())"));
    }
}

/// What a door of a seal that knows no values would have given, had it left everything as it came.
/// Nothing for `given`, which goes by values alone and leaves everything already, nor for what needs
/// more than words.
fn unsealed(door: &str, words: &str) -> Option<String> {
    match door {
        "json" | "state" | "view" => {
            Some(format!("{UNKNOWING}.given(&serde_json::to_string({words}).unwrap_or_default())"))
        }
        "line" | "line_without" | "head" => {
            Some(format!("{UNKNOWING}.given(&String::from_utf8_lossy({words}))"))
        }
        "handed" => Some(format!("{UNKNOWING}.given({words})")),
        "text" => Some(format!("({words}).to_owned()")),
        _ => None,
    }
}

/// What stands for a look at the bytes that finds nothing.
enum Blind {
    Nothing,
    No,
    /// The argument of this number, as it came.
    Unchanged(usize),
}

const LOOKS: &[(&str, Blind)] = &[
    ("redact(", Blind::Nothing),
    ("redact_by(", Blind::Nothing),
    ("redact_known(", Blind::Nothing),
    ("redact_forms(", Blind::Nothing),
    ("keep(", Blind::Nothing),
    ("bound::bound(", Blind::Nothing),
    ("may_hold_secrets(", Blind::No),
    ("may_apply(", Blind::No),
    ("occurs(", Blind::No),
    ("walk::rewrite(", Blind::Unchanged(1)),
    ("clean_json(", Blind::Unchanged(0)),
];

fn looks(source: &Source, found: &mut Vec<Mutation>) {
    for (call, blind) in LOOKS {
        for at in source.names(call) {
            let open = at + call.len() - 1;
            let Some(end) = source.closing(open) else { continue };
            if source.code[..at].ends_with("fn ") {
                continue;
            }
            let becomes = match blind {
                Blind::Nothing => "None".to_owned(),
                Blind::No => "false".to_owned(),
                Blind::Unchanged(number) => {
                    let arguments = source.arguments(open..end);
                    let Some(argument) = arguments.get(*number) else { continue };
                    format!("({argument}).to_vec()")
                }
            };
            found.push(Mutation::new(source, Kind::Seal, source.receiver(at)..end, becomes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_that_knows_no_values_is_replaced_by_what_came_in() {
        let text = "fn f() {
    let a = Seal::default().json(&read.spec);
    let b = store::Seal::default()
        .line(said.as_bytes());
    let c = Seal::default().given(text);
}
fn g(seal: &Seal) { seal.json(&x) }
fn h() { let seal = Seal::default(); seal.json(&x); seal.given(y) }
";
        let mut found = Vec::new();
        seals(&Source::new("crates/host/src/a.rs", text), &mut found);
        found.sort_by_key(|mutation| mutation.at.start);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|mutation| (mutation.was.as_str(), mutation.becomes.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "Seal::default().json(&read.spec)",
                    "store::Seal::default().given(&serde_json::to_string(&read.spec).unwrap_or_default())"
                ),
                (
                    "store::Seal::default()\n        .line(said.as_bytes())",
                    "store::Seal::default().given(&String::from_utf8_lossy(said.as_bytes()))"
                ),
                ("seal.json(&x)", "store::Seal::default().json(&x)"),
                (
                    "seal.json(&x)",
                    "store::Seal::default().given(&serde_json::to_string(&x).unwrap_or_default())"
                ),
                ("seal.given(y)", "store::Seal::default().given(y)"),
            ]
        );
    }
}
