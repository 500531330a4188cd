//! Rules about the text of single files: heads, white space, length, tests that cannot run, words
//! that must not stay, and paths of somebody's machine.

use super::rust::{Kind, pieces};
use super::{File, Finding};

/// A longer file is split by concept.
const LINES_MAX: usize = 900;

/// Where paths begin that exist on one machine only. A sample path in a test or a page begins with
/// `/srv/` instead.
const MACHINE_PATHS: [&str; 3] = ["/root/", "/home/", "/Users/"];

pub fn check(file: &File, findings: &mut Vec<Finding>) {
    let mut find = |line: usize, rule: &'static str, what: String| {
        findings.push(Finding { path: file.path.clone(), line, rule, what });
    };
    // What others wrote is kept as it is.
    let own = !is_foreign(&file.path);
    let count = file.text.lines().count();
    for (at, line) in file.text.lines().enumerate() {
        if own && line.ends_with([' ', '\t']) {
            find(at + 1, "white-space", "take away the space at the end of the line".into());
        }
        if file.is_rust() && line.contains('\t') {
            find(
                at + 1,
                "white-space",
                "write spaces, or \\t in a string, instead of a tab".into(),
            );
        }
        if let Some(path) = machine_path(line).filter(|_| own) {
            let what = format!("'{path}…' is a path of one machine; a sample begins with /srv/");
            find(at + 1, "machine-path", what);
        }
    }
    if !file.is_rust() {
        return;
    }
    if !has_head(&file.text) {
        let what =
            "begin with `//!` and say what lives here, what it promises and what it may not do";
        find(1, "head", what.into());
    }
    if count > LINES_MAX {
        let what = format!("{count} lines are more than {LINES_MAX}: split it by concept");
        find(LINES_MAX, "length", what);
    }
    for piece in pieces(&file.text).iter().filter(|piece| piece.kind == Kind::Code) {
        if piece.text.contains("#[ignore") {
            let what = "a test runs or is not there; a known fault asserts today's wrong result";
            find(piece.line, "ignored-test", what.into());
        }
        for word in ["todo!", "unimplemented!"] {
            if piece.text.contains(&format!("{word}(")) {
                find(piece.line, "unfinished", format!("finish what {word}() stands for"));
            }
        }
    }
}

/// A head is a first line of inner documentation that holds a sentence.
fn has_head(text: &str) -> bool {
    let head = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!"));
    let head_lines =
        text.lines().take_while(|line| line.starts_with("//!") || line.trim().is_empty());
    let words: String = head_lines.map(|line| line.trim_start_matches("//!")).collect();
    head.is_some_and(|line| line.starts_with("//!")) && words.contains('.') && words.len() >= 12
}

/// Recordings and fixtures are evidence, and a licence is as it is.
fn is_foreign(path: &str) -> bool {
    path.contains("/recordings/")
        || path.contains("/fixtures/")
        || path.contains("/golden/")
        || path.starts_with("LICENSE")
        || path.ends_with(".snap")
        || path.ends_with("Cargo.lock")
}

fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_PATHS.into_iter().find(|path| {
        line.match_indices(path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + path.len()..].chars().next();
            // `crates/home/` is a path of the tree, and `/home/` alone is none of a machine.
            !before.is_some_and(|char| char.is_alphanumeric() || "._-}>*/".contains(char))
                && after.is_some_and(|char| char.is_alphanumeric())
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::found;

    const HEAD: &str = "//! What lives here, in a sentence.\n";

    #[test]
    fn a_file_without_a_head_is_found() {
        assert_eq!(found("crates/a/src/b.rs", "fn a() {}\n"), ["1 head"]);
        assert_eq!(found("crates/a/src/b.rs", "//! placeholder\n"), ["1 head"]);
        assert_eq!(found("crates/a/src/b.rs", HEAD), [""; 0]);
    }

    #[test]
    fn white_space_that_nobody_sees_is_found() {
        assert_eq!(found("docs/a.md", "one \ntwo\n"), ["1 white-space"]);
        assert_eq!(
            found("crates/a/src/b.rs", &format!("{HEAD}\tfn a() {{}}\n")),
            ["2 white-space"]
        );
        assert_eq!(found("crates/a/tests/fixtures/a.txt", "kept as it is \n"), [""; 0]);
    }

    #[test]
    fn tests_that_do_not_run_and_work_left_undone_are_found() {
        let text = format!("{HEAD}#[ignore]\nfn a() {{ todo!() }}\n// a comment may say todo!()\n");
        assert_eq!(found("crates/a/src/b.rs", &text), ["2 ignored-test", "3 unfinished"]);
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        let text = format!("{HEAD}{}", "fn a() {}\n".repeat(900));
        assert_eq!(found("crates/a/src/b.rs", &text), ["900 length"]);
    }

    #[test]
    fn a_path_of_somebodys_machine_is_found() {
        for line in ["see /home/ann/x", "`/root/a`", "\"/home/b\"", "(/Users/c)"] {
            assert_eq!(found("docs/a.md", line), ["1 machine-path"], "{line}");
        }
        for line in ["crates/home/a", "/srv/project/a", "$HOME/home/", "https://x.org/home/a"] {
            assert_eq!(found("docs/a.md", line), [""; 0], "{line}");
        }
    }
}
