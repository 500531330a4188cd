//! Every named limit has a user: product code outside the file that names it, and outside tests. A
//! limit without a user is a promise of the documents that nothing holds.

use super::rust::{Kind, pieces};
use super::{File, Finding};
use std::collections::BTreeSet;

const RULE: &str = "unused-limit";
/// The file in which a crate names its limits.
const FILE: &str = "src/limits.rs";

pub fn check(files: &[File], findings: &mut Vec<Finding>) {
    let named: Vec<(&File, usize, String)> =
        files.iter().filter(|file| is_list(file)).flat_map(limits_of).collect();
    if named.is_empty() {
        return;
    }
    let used: BTreeSet<String> =
        files.iter().filter(|file| is_product(file)).flat_map(words_of).collect();
    for (file, line, name) in named {
        if !used.contains(&name) {
            let what = format!("{name} has no user in product code: hold the limit, or remove it");
            findings.push(Finding { path: file.path.clone(), line, rule: RULE, what });
        }
    }
}

fn is_list(file: &File) -> bool {
    file.path.starts_with("crates/") && file.path.ends_with(FILE)
}

fn is_product(file: &File) -> bool {
    file.path.starts_with("crates/") && file.is_rust() && !file.is_test() && !is_list(file)
}

/// The limits that a file names, with their lines: rows of the macro, or constants.
fn limits_of(file: &File) -> Vec<(&File, usize, String)> {
    let lines = file.text.lines().enumerate();
    let rows = lines.filter_map(|(at, line)| {
        let is_row = line.starts_with("    ") && !line.starts_with("     ");
        let text = line.trim_start();
        let row = text.strip_prefix("pub const ").or(is_row.then_some(text))?;
        let (name, rest) = row.split_once(": ")?;
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        (is_name && !name.is_empty() && rest.contains(" = "))
            .then(|| (file, at + 1, name.to_owned()))
    });
    // The list of all of them is no limit.
    rows.filter(|(_, _, name)| name != "ALL").collect()
}

/// The words of a file's code up to its tests, which come last.
fn words_of(file: &File) -> BTreeSet<String> {
    let product = file.text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut words = BTreeSet::new();
    for piece in pieces(product).iter().filter(|piece| piece.kind == Kind::Code) {
        let other = |char: char| !(char.is_ascii_alphanumeric() || char == '_');
        words.extend(piece.text.split(other).filter(|word| !word.is_empty()).map(str::to_owned));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(uses: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let list = "limits! {\n    /// One.\n    LINE_BYTES_MAX: usize = 64 * MIB;\n}\n\
            pub const ROUNDS_MAX: u32 = 3;\npub const ALL: &[u8] = &[];\nconst MIB: usize = 1;\n";
        let files = [
            file("crates/contract/src/limits.rs", list),
            file("crates/host/src/a.rs", uses),
            file("crates/host/tests/b.rs", "LINE_BYTES_MAX ROUNDS_MAX"),
        ];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.into_iter().map(|finding| format!("{} {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn every_limit_needs_a_user_in_product_code() {
        assert_eq!(found("if n > LINE_BYTES_MAX + limits::ROUNDS_MAX {}"), [] as [&str; 0]);
        let unused = |line: u8, name: &str| {
            format!("{line} {name} has no user in product code: hold the limit, or remove it")
        };
        let both = [unused(3, "LINE_BYTES_MAX"), unused(5, "ROUNDS_MAX")];
        assert_eq!(found(""), both);
        let words = "// LINE_BYTES_MAX\nlet x = \"ROUNDS_MAX\";\nLINE_BYTES_MAX_AND_MORE\n";
        assert_eq!(found(words), both);
        let tested = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    ROUNDS_MAX LINE_BYTES_MAX\n}\n";
        assert_eq!(found(tested), both);
    }
}
