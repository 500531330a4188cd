//! A runtime is known in its own folder and in the registry, and nowhere else in code: what others
//! need of it they ask its card, its plan or its dialect. Products are looked for as words, in literals
//! and in names; ids that are English words too are looked for as whole literals alone. Comments and
//! tests may name whom they like. Where code has to, that is a row of `NAMED`, with its reason.

use super::rust::{Kind, pieces, tests_begin};
use super::{File, Finding};

/// Names of products: found wherever they stand as a word, in any case.
const PRODUCTS: &[&str] = &[
    "aider",
    "claude",
    "cline",
    "codex",
    "copilot",
    "cursor-agent",
    "droid",
    "gemini",
    "hermes",
    "kilo",
    "openclaw",
    "opencode",
    "openhands",
];

/// Ids that are words of the language, or of its alphabets, as well.
const WORDS: &[&str] = &["demo", "pi", "process"];

/// Folders with notes that are ways of talking and no products.
const LANES: &[&str] = &["acp"];

/// Id, beginning of a path, and why the id may stand there.
const NAMED: &[(&str, &str, &str)] = &[
    ("process", "crates/cli/src/", "`type: \"process\"` is a word of the configuration"),
    (
        "process",
        "crates/contract/src/config/",
        "`type: \"process\"` is a word of the configuration",
    ),
    ("process", "crates/runtimes/src/", "any command that speaks JSON lines, not a product"),
    ("demo", "crates/cli/src/", "the demo agent lives in the binary"),
    (
        "claude",
        "crates/cli/src/args/help.rs",
        "an example of a command names an agent that people have",
    ),
    (
        "codex",
        "crates/cli/src/args/help.rs",
        "an example of a command names an agent that people have",
    ),
    (
        "gemini",
        "crates/cli/src/args/help.rs",
        "an example of a command names an agent that people have",
    ),
    ("hermes", "crates/remote/src/courier/", "hermes-runs-v1 is a protocol, whoever speaks it"),
    ("claude", "crates/runtimes/src/droid/", "names of models that it offers begin so"),
    ("gemini", "crates/runtimes/src/droid/", "names of models that it offers begin so"),
    ("opencode", "crates/runtimes/src/kilo/", "Kilo is made from it, and heard by its dialect"),
    (
        "cursor-agent",
        "crates/runtimes/src/acp/cards.rs",
        "its program, as long as its second lane is documented alone",
    ),
];

/// Words that hold a name and mean no runtime.
const OTHER_MEANINGS: &[(&str, &str)] =
    &[("hermes-runs-v1", "a protocol over HTTP that services of any name speak")];

pub fn check(file: &File, findings: &mut Vec<Finding>) {
    if !file.is_rust() || file.is_test() || is_home(&file.path) {
        return;
    }
    let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
    for piece in pieces(&file.text) {
        let named = match piece.kind {
            Kind::Comment => continue,
            _ if piece.line >= tests => continue,
            Kind::Literal => in_literal(&piece.text),
            Kind::Code => in_code(&piece.text),
        };
        for id in named.into_iter().filter(|id| !may_name(&file.path, id)) {
            let what = format!(
                "\"{id}\" is known in its folder and the registry alone: ask the card instead"
            );
            let path = file.path.clone();
            findings.push(Finding { path, line: piece.line, rule: "runtime-id", what });
        }
    }
}

/// Every folder of a runtime is looked for by this rule.
pub fn check_folders(files: &[File], findings: &mut Vec<Finding>) {
    for file in files {
        let Some(id) = file.path.strip_prefix("crates/runtimes/src/") else { continue };
        let Some(id) = id.strip_suffix("/NOTES.md") else { continue };
        if ![PRODUCTS, WORDS, LANES].iter().any(|known| known.contains(&id)) {
            let what = format!("put \"{id}\" into a table of xtask/src/tidy/names.rs");
            findings.push(Finding { path: file.path.clone(), line: 1, rule: "runtime-id", what });
        }
    }
}

/// Where every runtime may be named.
fn is_home(path: &str) -> bool {
    ["crates/runtimes/src/registry.rs", "crates/runtimes/src/lib.rs"].contains(&path)
}

fn may_name(path: &str, id: &str) -> bool {
    path.starts_with(&format!("crates/runtimes/src/{id}/"))
        || NAMED.iter().any(|(named, below, _)| *named == id && path.starts_with(below))
}

fn in_literal(text: &str) -> Vec<&'static str> {
    let mut text = text.to_lowercase();
    let whole = WORDS.iter().copied().find(|id| *id == text);
    for (other, _) in OTHER_MEANINGS {
        text = text.replace(other, "");
    }
    let products = PRODUCTS.iter().copied().filter(|id| holds_word(&text, id));
    whole.into_iter().chain(products).collect()
}

/// Whether the id stands in a text with neither a letter nor a digit at either side.
fn holds_word(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + id.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

/// The ids that are names in this code: of a module, a type or a variable.
fn in_code(text: &str) -> Vec<&'static str> {
    let names: Vec<String> = text
        .split(|char: char| !char.is_alphanumeric() && char != '_')
        .map(|name| name.to_lowercase().replace('_', ""))
        .collect();
    let is_named = |id: &str| names.iter().any(|name| *name == id.replace('-', ""));
    PRODUCTS.iter().copied().filter(|id| is_named(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::found;

    const HEAD: &str = "//! What lives here, in a sentence.\n";

    #[test]
    fn a_runtime_is_named_in_its_folder_the_registry_and_tests_alone() {
        let text = format!("{HEAD}const A: &str = \"codex\"; // \"claude\"\n");
        for path in [
            "crates/host/src/a.rs",
            "crates/runtimes/src/gemini/mod.rs",
            "crates/runtimes/src/acp/lane.rs",
            "xtask/src/bench/a.rs",
        ] {
            assert_eq!(found(path, &text), ["2 runtime-id"], "{path}");
        }
        for path in [
            "crates/runtimes/src/codex/mod.rs",
            "crates/runtimes/src/registry.rs",
            "crates/host/tests/a.rs",
        ] {
            assert_eq!(found(path, &text), [""; 0], "{path}");
        }
        let text = format!("{HEAD}#[cfg(test)]\nmod tests {{ const A: &str = \"codex\"; }}\n");
        assert_eq!(found("crates/host/src/a.rs", &text), [""; 0]);
    }

    #[test]
    fn a_product_is_found_in_a_sentence_a_variable_and_a_path() {
        let rows = [
            ("const A: &str = \"CLAUDE_CODE_ENTRYPOINT\";", 1),
            ("const A: &str = \"what Copilot says\";", 1),
            ("use runtimes::cursor_agent::CursorAgent;", 1),
            ("fn a() { crate::kilo::asking() }", 1),
            ("const A: &str = \"hermes-runs-v1\";", 0),
            ("const A: &str = \"droids decline\";", 0),
            ("let cursor = 1; let process = cursor; // codex", 0),
            ("const A: &str = \"a cursor of the process\";", 0),
            ("const A: &str = \"pi\";", 1),
        ];
        for (line, expected) in rows {
            let found = found("crates/host/src/a.rs", &format!("{HEAD}{line}\n"));
            assert_eq!(found.len(), expected, "{line}: {found:?}");
        }
    }

    #[test]
    fn a_new_folder_of_a_runtime_has_to_be_looked_for() {
        assert_eq!(found("crates/runtimes/src/novel/NOTES.md", "Notes.\n"), ["1 runtime-id"]);
        assert_eq!(found("crates/runtimes/src/pi/NOTES.md", "Notes.\n"), [""; 0]);
    }

    #[test]
    fn every_exception_names_an_id_that_is_looked_for_and_a_reason() {
        for (id, path, why) in NAMED {
            assert!(PRODUCTS.contains(id) || WORDS.contains(id), "{id}");
            assert!(path.starts_with("crates/") && why.len() > 10, "{id} {path}");
        }
        assert!(OTHER_MEANINGS.iter().all(|(_, why)| why.len() > 10));
    }
}
