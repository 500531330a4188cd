//! A file of the product as the generators look at it: its text, the same text with strings and
//! comments blanked out (so that every offset is the same in both), and its strings. Tests that
//! stand in the file are not part of it. Nothing here knows what is mutated.

use crate::tidy::rust::{Kind, Piece, pieces};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Crates whose code is the product.
const PRODUCT: &[&str] =
    &["cli", "contract", "engine", "host", "keeper", "remote", "server", "store"];

pub struct Source {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
    /// As long as `text`; spaces where a string or a comment stands.
    pub code: String,
    pub literals: Vec<Piece>,
    /// Where the tests of the file begin, or its end.
    pub end: usize,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let end = tests_at(text).unwrap_or(text.len());
        let mut code = text.as_bytes().to_vec();
        let mut literals = Vec::new();
        for piece in pieces(text) {
            if piece.kind != Kind::Code {
                let at = piece.at..piece.at + piece.text.len();
                code[at].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            }
            if piece.kind == Kind::Literal && piece.at < end {
                literals.push(piece);
            }
        }
        let code = String::from_utf8_lossy(&code).into_owned();
        Self { path: path.to_owned(), text: text.to_owned(), code, literals, end }
    }

    /// Where a text stands in the code, not in strings, comments or tests.
    pub fn places<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code[..self.end].match_indices(wanted).map(|(at, _)| at)
    }

    /// The same, where no longer name holds it.
    pub fn names<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
        let code = self.code.as_bytes();
        self.places(wanted).filter(move |at| *at == 0 || !is_name(code[at - 1]))
    }

    /// The end of a bracket that opens at this place, behind its closing.
    pub fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for (at, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// What stands between commas inside the brackets of this range, brackets included in it.
    pub fn arguments(&self, call: Range<usize>) -> Vec<&str> {
        let (mut depth, mut from, mut found) = (0, call.start + 1, Vec::new());
        for at in call.start + 1..call.end - 1 {
            match self.code.as_bytes()[at] {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => {
                    found.push(self.text[from..at].trim());
                    from = at + 1;
                }
                _ => {}
            }
        }
        found.push(self.text[from..call.end - 1].trim());
        found.retain(|argument| !argument.is_empty());
        found
    }

    /// Where the path of fields and names begins that ends here: `self.words.` of `self.words.seal`.
    pub fn receiver(&self, end: usize) -> usize {
        let code = &self.code.as_bytes()[..end];
        let part = |byte: &u8| is_name(*byte) || matches!(byte, b'.' | b':');
        end - code.iter().rev().take_while(|byte| part(byte)).count()
    }

    /// The function this place is in.
    pub fn function(&self, at: usize) -> &str {
        let Some(found) = self.code[..at].rfind("fn ") else { return "" };
        let name = &self.code[found + 3..];
        &name[..name.bytes().position(|byte| !is_name(byte)).unwrap_or(name.len())]
    }

    pub fn line(&self, at: usize) -> usize {
        1 + self.text[..at].matches('\n').count()
    }

    /// Modules that this file declares for tests alone, as paths without an ending.
    pub fn test_modules(&self) -> Vec<String> {
        let own = self.path.trim_end_matches(".rs");
        let below = match own.rsplit_once('/') {
            Some((dir, "mod" | "lib" | "main")) => dir,
            _ => own,
        };
        let declared = self.code.split("#[cfg(test)]").skip(1).filter_map(|after| {
            let (name, _) = after.trim_start().strip_prefix("mod ")?.split_once(';')?;
            name.bytes().all(is_name).then(|| format!("{below}/{name}"))
        });
        declared.collect()
    }

    /// The path without what all paths have: `store/sqlite/verbs`.
    pub fn short(&self) -> String {
        let short = self.path.replacen("crates/", "", 1).replacen("src/", "", 1);
        short.trim_end_matches(".rs").to_owned()
    }
}

/// Where a module of tests begins that stands in this file.
fn tests_at(text: &str) -> Option<usize> {
    text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|at| {
        let after = text[at + "#[cfg(test)]".len()..].trim_start();
        let line = after.lines().next().unwrap_or_default();
        (after.starts_with("mod ") || after.starts_with("pub mod ")) && line.ends_with('{')
    })
}

pub fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Every file of the product's own code, sorted.
pub fn product(root: &Path) -> Result<Vec<Source>, String> {
    let mut found = Vec::new();
    for name in PRODUCT {
        read(root, &format!("crates/{name}/src"), &mut found)?;
    }
    let tests: Vec<String> = found.iter().flat_map(Source::test_modules).collect();
    found.retain(|source| !tests.iter().any(|tests| is_of(&source.path, tests)));
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Whether a file is this module, or below it.
fn is_of(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn read(root: &Path, below: &str, found: &mut Vec<Source>) -> Result<(), String> {
    let dir = root.join(below);
    let entries = fs::read_dir(&dir).map_err(|error| format!("read {}: {error}", dir.display()))?;
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{below}/{name}");
        if entry.path().is_dir() {
            if name != "tests" && name != "conformance" {
                read(root, &path, found)?;
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(entry.path());
            found.push(Source::new(&path, &text.map_err(|error| format!("read {path}: {error}"))?));
        }
    }
    Ok(())
}
