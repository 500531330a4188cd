//! The rule about blocking calls: in the crates that serve, a call that asks the file system or starts a
//! program does not stand in the body of an `async fn` or `async` block itself, but in a closure that is
//! given to `host::blocking`. A call that may stay has a comment with the reason, on the same line or
//! directly above. A function without `async` is not looked into. It relies on the layout of rustfmt.

use super::errors::{Line, is_comment_above, read_lines};
use super::{File, Finding};

const ROOMS: [&str; 2] = ["crates/host/src/", "crates/server/src/"];

const CALLS: [&str; 15] = [
    "std::fs::",
    " fs::",
    "(fs::",
    "rustix::fs::",
    ".canonicalize()",
    ".symlink_metadata()",
    ".is_dir()",
    ".is_file()",
    ".exists()",
    ".can_be_entered()",
    "Workspace::open(",
    "Workspace::again(",
    "git::top(",
    "Command::new(",
    "cleanup::",
];

pub fn check(file: &File, findings: &mut Vec<Finding>) {
    let is_served =
        file.is_rust() && !file.is_test() && ROOMS.iter().any(|room| file.path.starts_with(room));
    if !is_served {
        return;
    }
    let lines = read_lines(&file.text);
    for at in 0..lines.len() {
        let Some(call) = CALLS.iter().find(|call| lines[at].code.contains(**call)) else {
            continue;
        };
        let is_import = lines[at].code.trim_start().starts_with("use ");
        let explained = lines[at].is_commented || is_comment_above(&lines, at);
        if is_import || explained || !runs_on_a_worker(&lines, at, call) {
            continue;
        }
        findings.push(Finding {
            path: file.path.clone(),
            line: at + 1,
            rule: "blocking-call",
            what: format!(
                "`{}` blocks in async code: give it to `host::blocking`, or write the reason above",
                call.trim()
            ),
        });
    }
}

/// Whether the innermost function, closure or async block around a call is async.
fn runs_on_a_worker(lines: &[Line], at: usize, call: &str) -> bool {
    let code = &lines[at].code;
    let before = code.find(call).map_or("", |place| &code[..place]);
    if is_closure(before) {
        return false;
    }
    let mut depth = indent(code);
    for line in lines[..at].iter().rev() {
        let code = &line.code;
        // Only lines that stand less deep are around the call.
        if code.trim().is_empty() || indent(code) >= depth {
            continue;
        }
        depth = indent(code);
        if is_closure(code) {
            return false;
        }
        if code.contains("async fn ") || code.contains("async move {") || code.contains("async {") {
            return true;
        }
        if code.contains("fn ") && !code.contains("async ") || code.trim_start().starts_with(") ") {
            // The head of a function that takes several lines begins above.
            match code.trim_start().starts_with(") ") {
                true => depth += 1,
                false => return false,
            }
        }
    }
    false
}

fn is_closure(code: &str) -> bool {
    let pipes = code.contains("move |") || code.contains("|| ") || code.contains("| ");
    pipes && code.contains('|') && !code.contains("async |") && !code.contains("async move |")
}

fn indent(code: &str) -> usize {
    code.len() - code.trim_start().len()
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::found;

    fn found_in(body: &str) -> Vec<String> {
        found("crates/host/src/a.rs", &format!("//! What lives here.\n{body}\n"))
    }

    #[test]
    fn a_blocking_call_in_async_code_is_found() {
        for body in [
            "async fn a() {\n    std::fs::read(path)\n}",
            "pub async fn a(\n    path: &Path,\n) -> bool {\n    path.is_dir()\n}",
            "fn a() {\n    spawn(\"b\", async move {\n        if c {\n            fs::read(path)\n        }\n    })\n}",
        ] {
            assert_eq!(found_in(body).len(), 1, "{body}");
        }
    }

    #[test]
    fn closures_functions_and_reasons_are_let_pass() {
        for body in [
            "fn a() {\n    std::fs::read(path)\n}",
            "async fn a() {\n    probe(dir, \"b\", move || path.is_dir()).await\n}",
            "async fn a() {\n    let work = move || {\n        std::fs::read(path)\n    };\n}",
            "async fn a() {\n    // In memory.\n    std::fs::read(path)\n}",
        ] {
            assert_eq!(found_in(body), [""; 0], "{body}");
        }
    }
}
