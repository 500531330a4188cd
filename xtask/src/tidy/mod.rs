//! Rules of the tree that the compiler does not know, each with a test that shows it firing.
//!
//! A rule looks at one file, or at the tree as a whole, and reports findings: where, which rule,
//! and what to do about it. `rust.rs` tells code from strings and comments, so that no rule is
//! fooled by a word in a sentence. What a rule lets pass is in `PARDONS`, one line with its reason.

mod blocking;
mod errors;
mod failpoints;
mod limits;
mod names;
mod ops;
mod prose;
mod rooms;
pub(crate) mod rust;
pub(crate) mod supply;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;

/// A file of the tree: its path from the root, with `/`, and its text.
#[derive(Debug, Clone)]
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is there for tests alone.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || self.path.ends_with("/tests.rs")
            || self.path.starts_with("crates/testkit/")
    }
}

/// One breach of one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.what)
    }
}

/// Rule, beginning of a path, and why the rule does not hold there.
const PARDONS: &[(&str, &str, &str)] = &[
    ("machine-path", "xtask/src/tidy/", "the rule and its tests name what they look for"),
    ("sql", "xtask/src/", "measures SQLite's own limit, and tests this rule"),
    ("runtime-id", "xtask/src/tidy/", "the rule and its tests name what they look for"),
    ("ignored-test", "xtask/src/tidy/", "the rule and its tests name what they look for"),
];

/// Checks the tree and prints what was found.
pub fn run(root: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    read_tree(root, "", &mut files)?;
    let mut findings = check(&files, &|path| root.join(path).exists());
    findings.extend(supply::licences(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to mend", files.len());
        Ok(())
    } else {
        Err(format!("tidy: {} to mend", findings.len()))
    }
}

/// All rules over these files; `exists` says whether a path is in the tree.
pub fn check(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        errors::check(file, &mut findings);
        blocking::check(file, &mut findings);
        text::check(file, &mut findings);
        rooms::check(file, &mut findings);
        names::check(file, &mut findings);
        supply::check(file, &mut findings);
        prose::check(file, exists, &mut findings);
    }
    prose::check_decisions(files, &mut findings);
    failpoints::check(files, &mut findings);
    limits::check(files, &mut findings);
    names::check_folders(files, &mut findings);
    ops::check(files, &mut findings);
    findings.retain(|finding| {
        !PARDONS
            .iter()
            .any(|(rule, path, _)| finding.rule == *rule && finding.path.starts_with(path))
    });
    findings.sort();
    findings
}

/// What is not ours to read: built, fetched or kept by a tool.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "dist", "proptest-regressions"];

fn read_tree(root: &Path, below: &str, files: &mut Vec<File>) -> Result<(), String> {
    let dir = root.join(below);
    let entries = fs::read_dir(&dir).map_err(|error| format!("read {}: {error}", dir.display()))?;
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !SKIPPED.contains(&name.as_str()) {
                read_tree(root, &path, files)?;
            }
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            // What is no text has no lines to complain about.
            if !path.ends_with(".snap.new") {
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The findings in one file, as `line rule`.
    pub fn found(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&[file], &|path| path == "crates/engine/src/run.rs")
            .into_iter()
            .map(|finding| format!("{} {}", finding.line, finding.rule))
            .collect()
    }

    #[test]
    fn a_finding_names_file_line_rule_and_remedy() {
        let file = File { path: "crates/a/src/b.rs".into(), text: "fn a() {}\n".into() };
        assert_eq!(
            check(&[file], &|_| true)[0].to_string(),
            "crates/a/src/b.rs:1: head: begin with `//!` and say what lives here, what it \
             promises and what it may not do"
        );
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        assert!(found("crates/engine/src/a.rs", "//! What lives here.\n\nfn a() {}\n").is_empty());
    }

    #[test]
    fn every_pardon_names_a_rule_that_exists_and_a_reason() {
        let rules = ["machine-path", "sql", "runtime-id", "ignored-test"];
        for (rule, path, why) in PARDONS {
            assert!(rules.contains(rule) && !path.is_empty() && !why.is_empty(), "{rule}");
        }
    }
}
