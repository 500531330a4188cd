//! Calls that are taken away: those that make something durable, and those by which words pass the
//! seal. A file is still opened and a seal still asked, so what turns red is about what the call
//! does. Outside of its own folder the seal is replaced by one that knows no secrets, for nothing
//! else can make what a store takes; inside it each look at the bytes is left out.

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
            found.push(Mutation::new(source, Kind::Seal, from..end, format!("{UNKNOWING}{rest}")));
        }
    }
    for at in source.places("Seal::new(") {
        let Some(end) = source.closing(at + "Seal::new".len()) else { continue };
        found.push(Mutation::new(source, Kind::Seal, at..end, "Seal::new(Vec::new())"));
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
