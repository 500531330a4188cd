//! Every operation is under the API: a public function of `crates/host/src/ops` that is given the host
//! must be called by a skin in `crates/server/src`, or stand in a short table with the reason why it is
//! none. Names are enough to find a new operation that nobody can ask for; who may ask is the table of
//! routes.

use super::rust::{Kind, pieces};
use super::{File, Finding};

const RULE: &str = "operation";
const OPS: &str = "crates/host/src/ops/";
const SKINS: &str = "crates/server/src/";

/// What is given the host and is no operation: module and function, and why.
const INSIDE: &[(&str, &str, &str)] = &[
    ("agents", "hold", "a gate that the queue asks"),
    ("limits", "hold", "a gate that the queue asks"),
    ("locks", "hold", "a gate that the queue asks"),
    ("fallback", "of", "what the runs of a task leave to the next one"),
    ("fallback", "handed_over", "what the queue tells the next one of a chain"),
    ("remove", "sweep", "the server's own housekeeping, by the configuration"),
    ("session", "open", "what `ostler remote` stands on; its skin is ca-http-v1"),
    ("again", "start", "it is called as run::start"),
    ("task", "get", "what every decision about a task answers with"),
    ("books", "open", "the figures of agents::list"),
    ("books", "view", "the figures of agents::list"),
    ("place", "of", "where a run works: a part of run::start"),
    ("place", "make", "where a run works: a part of run::start"),
];

pub fn check(files: &[File], findings: &mut Vec<Finding>) {
    let code = |file: &File| -> String {
        let (mut code, mut line) = (String::new(), 1);
        for piece in pieces(&file.text).iter().filter(|piece| piece.kind == Kind::Code) {
            // What is no code leaves its lines, so that a finding names the right one.
            code.push_str(&"\n".repeat(piece.line.saturating_sub(line)));
            code.push_str(&piece.text);
            line = line.max(piece.line) + piece.text.matches('\n').count();
        }
        code
    };
    let ours = |file: &&File| file.is_rust() && !file.is_test();
    let skins: String =
        files.iter().filter(ours).filter(|file| file.path.starts_with(SKINS)).map(code).collect();
    // Findings about a few files alone would be about all that stands elsewhere.
    if skins.is_empty() {
        return;
    }
    for file in files.iter().filter(ours).filter(|file| file.path.starts_with(OPS)) {
        let Some(module) = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"))
        else {
            continue;
        };
        for (line, name) in operations(&code(file)) {
            let inside = INSIDE.iter().any(|(of, known, _)| *of == module && *known == name);
            if inside || is_called(&skins, module, &name) {
                continue;
            }
            let what = format!(
                "{module}::{name} is an operation that no route calls: give it one in \
                 crates/server/src/rest, or say in xtask/src/tidy/ops.rs why it is none"
            );
            findings.push(Finding { path: file.path.clone(), line, rule: RULE, what });
        }
    }
}

/// The public functions that are given the host, and where they begin.
fn operations(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for word in ["pub async fn ", "pub fn "] {
        for (at, _) in code.match_indices(word) {
            let rest = &code[at + word.len()..];
            let Some((name, arguments)) = rest.split_once('(') else { continue };
            let arguments = arguments.trim_start().trim_start_matches("&self,").trim_start();
            if arguments.starts_with("host: &Host") {
                let name = name.split('<').next().unwrap_or(name).to_owned();
                found.push((code[..at].matches('\n').count() + 1, name));
            }
        }
    }
    found
}

/// Whether a skin calls it, by its module's name.
fn is_called(skins: &str, module: &str, name: &str) -> bool {
    let wanted = format!("{module}::{name}(");
    skins.match_indices(&wanted).any(|(at, _)| {
        let before = skins[..at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || char == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(op: &str, skin: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files =
            [file("crates/host/src/ops/run.rs", op), file("crates/server/src/rest/runs.rs", skin)];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.iter().map(|finding| format!("{} {}", finding.line, finding.rule)).collect()
    }

    #[test]
    fn an_operation_that_no_route_calls_is_found() {
        let op = "//! Head.\n\npub async fn pause(host: &Host, run: RunId) {}\n";
        assert_eq!(found(op, "fn x() { run::stop(h) }"), ["3 operation"]);
        assert_eq!(found(op, "fn x() { rerun::pause(h) }"), ["3 operation"]);
        assert_eq!(found(op, "// run::pause(\nfn x() {}"), ["3 operation"]);
        assert!(found(op, "fn x() { run::pause(h) }").is_empty());
        let wrapped = "//! Head.\npub async fn pause(\n    host: &Host,\n) {}\n";
        assert_eq!(found(wrapped, "fn x() {}"), ["2 operation"]);
        for none in ["pub(crate) async fn a(host: &Host) {}", "pub fn b(asks: Vec<Ask>) {}"] {
            assert!(found(none, "fn x() {}").is_empty(), "{none}");
        }
    }

    #[test]
    fn every_line_of_the_table_has_a_reason() {
        for (module, name, why) in INSIDE {
            assert!(!module.is_empty() && !name.is_empty() && why.len() > 10, "{module}::{name}");
        }
    }
}
