//! Rules about pages: a path that a page names exists, and decisions are numbered without gaps.

use super::{File, Finding};

/// Where paths of the tree begin. What begins otherwise is a path of somewhere else.
const BEGINNINGS: [&str; 7] = ["crates/", "docs/", "scripts/", "xtask/", "web/", ".ci/", ".cargo/"];

pub fn check(file: &File, exists: &dyn Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".md") || file.path.contains("/fixtures/") {
        return;
    }
    let mut fenced = false;
    for (at, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for path in quoted_paths(line).filter(|path| !exists(path)) {
            let what = format!("`{path}` does not exist: mend the page, or make it");
            findings.push(Finding {
                path: file.path.clone(),
                line: at + 1,
                rule: "named-path",
                what,
            });
        }
    }
}

/// The paths of the tree that a line names in backticks. Patterns such as `crates/<name>/` are
/// none.
fn quoted_paths(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, span)| span);
    spans
        .filter(|span| BEGINNINGS.iter().any(|beginning| span.starts_with(beginning)))
        .filter(|span| !span.contains(['<', '*', '{', '…', ' ']) && !span.contains("NNNN"))
        .map(|span| span.split([':', '#']).next().unwrap_or(span).trim_end_matches('/'))
}

/// `docs/decisions/0007-store-before-show.md`: numbers from 1, each once.
pub fn check_decisions(files: &[File], findings: &mut Vec<Finding>) {
    let mut expected = 1;
    for file in files {
        let Some(name) = file.path.strip_prefix("docs/decisions/") else { continue };
        let number = name.split('-').next().filter(|digits| digits.len() == 4);
        match number.and_then(|digits| digits.parse::<u32>().ok()) {
            Some(number) if number == expected => expected += 1,
            Some(_) | None => {
                let what =
                    format!("expected {expected:04}-….md: decisions are numbered without gaps");
                findings.push(Finding {
                    path: file.path.clone(),
                    line: 1,
                    rule: "decisions",
                    what,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::found;

    #[test]
    fn a_path_that_a_page_names_and_nobody_made_is_found() {
        let text = "see `crates/engine/src/run.rs:12` and\n`crates/engine/src/walk.rs`\n";
        assert_eq!(found("CONTRIBUTING.md", text), ["2 named-path"]);
    }

    #[test]
    fn patterns_commands_and_foreign_paths_are_let_pass() {
        let text = "`crates/runtimes/src/<name>/`, `scripts/test --stage x`, `ostler/ostler.json`\n\
                    ```\ncrates/`gone/a.rs`\n```\n";
        assert_eq!(found("docs/a.md", text), [""; 0]);
    }

    #[test]
    fn a_gap_between_decisions_is_found() {
        let file =
            |name: &str| File { path: format!("docs/decisions/{name}"), text: String::new() };
        let mut findings = Vec::new();
        check_decisions(&[file("0001-a.md"), file("0002-b.md"), file("0004-d.md")], &mut findings);
        let found: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(found, ["docs/decisions/0004-d.md"]);
        findings.clear();
        check_decisions(&[file("first.md")], &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
