//! The rule about dropped errors: in the code of the product, `let _ = …`, a match arm for `Err(_)` or
//! `Err(_name)`, a call whose value is given to `drop`, and a statement that ends in `.ok();` need a comment with the reason, on the same line or directly above.
//! Statements of the same kind on consecutive lines may share one. It relies on the layout of rustfmt.

use super::rust::{Kind, pieces};
use super::{File, Finding};

pub fn check(file: &File, findings: &mut Vec<Finding>) {
    let is_product = file.is_rust()
        && !file.is_test()
        && file.path.starts_with("crates/")
        && file.path.contains("/src/")
        && !file.path.starts_with("crates/failpoint/");
    if !is_product {
        return;
    }
    let lines = read_lines(&file.text);
    // The line and form of the last drop that has its reason.
    let mut explained = None;
    for at in 0..lines.len() {
        let Some(form) = dropped(&lines, at) else { continue };
        let begin = form.begin(&lines, at);
        let shares = begin > 0 && explained == Some((begin - 1, form));
        if shares
            || [begin, at].iter().any(|line| lines[*line].is_commented)
            || is_comment_above(&lines, begin)
        {
            explained = Some((at, form));
            continue;
        }
        let shown = form.shown();
        findings.push(Finding {
            path: file.path.clone(),
            line: at + 1,
            rule: "dropped-error",
            what: format!("{shown}: log the error, return it, or write the reason above this line"),
        });
    }
}

/// A line of code without the insides of its literals, and without its comment. A line of a test has
/// no code here.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub code: String,
    pub is_commented: bool,
}

pub(super) fn read_lines(text: &str) -> Vec<Line> {
    let mut lines = vec![Line::default(); text.lines().count()];
    for piece in pieces(text) {
        let at = piece.line - 1;
        match piece.kind {
            Kind::Code => lines[at].code.push_str(&piece.text),
            Kind::Literal => lines[at].code.push_str("\"\""),
            Kind::Comment => {
                let count = piece.text.lines().count();
                lines.iter_mut().skip(at).take(count).for_each(|line| line.is_commented = true);
            }
        }
    }
    without_tests(&mut lines);
    lines
}

/// Empties the items behind `#[cfg(test)]`: one line that ends in `;`, or all up to the closing brace.
fn without_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let code = lines[at].code.clone();
        let (indent, code) = code.split_at(code.len() - code.trim_start().len());
        at += 1;
        if !code.starts_with("#[cfg(test)]") {
            continue;
        }
        let is_attribute = |line: &Line| line.code.trim_start().starts_with("#[");
        at += lines[at..].iter().take_while(|line| is_attribute(line)).count();
        let is_one_line = lines.get(at).is_some_and(|line| line.code.trim_end().ends_with(';'));
        let ends = [format!("{indent}}}"), format!("{indent}}};")];
        let is_end =
            |line: &Line| is_one_line || ends.iter().any(|end| line.code.trim_end() == end);
        while at < lines.len() {
            let line = std::mem::take(&mut lines[at]);
            at += 1;
            if is_end(&line) {
                break;
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Let,
    Arm,
    Ok,
    Drop,
}

impl Form {
    fn shown(self) -> &'static str {
        match self {
            Self::Let => "`let _ =` drops an error",
            Self::Arm => "`Err(_)` drops an error",
            Self::Ok => "`.ok();` drops an error",
            Self::Drop => "`drop(…)` of a call may drop an error",
        }
    }

    /// The first line of the statement or pattern that holds line `at`.
    fn begin(self, lines: &[Line], at: usize) -> usize {
        match self {
            Self::Let | Self::Drop => at,
            Self::Arm => {
                let is_continued = |line: &usize| lines[*line].code.trim_start().starts_with('|');
                (0..=at).rev().find(|line| !is_continued(line)).unwrap_or(at)
            }
            Self::Ok => statement_begin(lines, at),
        }
    }
}

/// The form in which line `at` drops an error.
fn dropped(lines: &[Line], at: usize) -> Option<Form> {
    let code = lines[at].code.trim();
    if let Some((_, rest)) = code.split_once("let _ =").or_else(|| code.split_once("let _: ")) {
        // A String takes everything that is written into it.
        let is_text = [" write!(", " writeln!("].iter().any(|call| rest.starts_with(call));
        return (!is_text).then_some(Form::Let);
    }
    if let Some(rest) = unused_error(code) {
        let next = lines.get(at + 1).map_or("", |line| line.code.trim());
        let rest = if rest.is_empty() { next } else { rest.trim() };
        // A name says what the error is; where nothing is done it is no reason.
        let is_named = !code.contains("Err(_)");
        let is_empty = [" {}", " {},", " ()", " (),", " continue,", " return,"]
            .iter()
            .any(|body| rest.strip_prefix("=>") == Some(body));
        let is_pattern = ["=>", "|", "if "].iter().any(|sign| rest.starts_with(sign));
        return (is_pattern && (is_empty || !is_named)).then_some(Form::Arm);
    }
    if let Some(given) =
        code.strip_prefix("drop(").or(code.split_once("=> drop(").map(|(_, rest)| rest))
    {
        // What is taken out of an option or a lock, and what a closure makes, is no result.
        let is_value = [".take()", ".lock()", ".remove(", ".pop", "?)", ".recv()"]
            .iter()
            .any(|call| given.contains(call));
        return (given.contains('(') && !is_value).then_some(Form::Drop);
    }
    if code.ends_with(".ok();") {
        let begin = statement_begin(lines, at);
        let statement: String = lines[begin..=at].iter().map(|line| line.code.as_str()).collect();
        let statement = statement.trim_start();
        let is_used = ["let ", "return ", "break "].iter().any(|word| statement.starts_with(word))
            || statement.contains(" = ");
        return (!is_used).then_some(Form::Ok);
    }
    None
}

/// The code after a pattern for an error that is not used: `Err(_)` or `Err(_name)`.
fn unused_error(code: &str) -> Option<&str> {
    let (_, rest) = code.split_once("Err(_")?;
    let rest = rest.trim_start_matches(|sign: char| sign.is_alphanumeric() || sign == '_');
    rest.strip_prefix(')')
}

/// The first line of the statement that ends on line `at`: the nearest one that begins like a
/// statement and stands no deeper than the end.
fn statement_begin(lines: &[Line], at: usize) -> usize {
    let depth = |line: &Line| line.code.len() - line.code.trim_start().len();
    let mut begin = at;
    while begin > 0 {
        let code = lines[begin].code.trim();
        let before = lines[begin - 1].code.trim();
        let is_inside = depth(&lines[begin]) > depth(&lines[at]);
        let is_first = before.is_empty() || before.ends_with([';', '{', '}']);
        if !is_inside && is_first && !code.starts_with(['.', '}', ')', ']', '|', '?']) {
            break;
        }
        begin -= 1;
    }
    begin
}

/// Whether the line above is a comment; attributes may stand between.
pub(super) fn is_comment_above(lines: &[Line], begin: usize) -> bool {
    let is_attribute = |line: &&Line| line.code.trim_start().starts_with("#[");
    let above = lines[..begin].iter().rev().find(|line| !is_attribute(line));
    above.is_some_and(|line| line.is_commented && line.code.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::found;

    fn found_in(body: &str) -> Vec<String> {
        found("crates/host/src/a.rs", &format!("//! What lives here.\nfn a() {{\n{body}\n}}\n"))
    }

    #[test]
    fn each_form_needs_a_reason() {
        for body in [
            "    let _ = remove(path);",
            "    let _: Result<(), Error> = remove(path);",
            "    match a {\n        Err(_) => {}\n    }",
            "    match a {\n        Ok(None) | Err(_) => {}\n    }",
            "    match a {\n        Err(_) if late => {}\n    }",
            "    match a {\n        Ok(_)\n        | Err(_) => {}\n    }",
            "    match a {\n        Err(_late) => {}\n    }",
            "    match a {\n        Some(_) => drop(remove(path)),\n    }",
            "    drop(remove(path));",
            "    remove(path).ok();",
            "    remove(\n        path,\n    )\n    .ok();",
        ] {
            assert_eq!(found_in(body).len(), 1, "{body}");
        }
    }

    #[test]
    fn a_comment_on_the_line_or_directly_above_is_a_reason() {
        for body in [
            "    // Gone.\n    let _ = remove(path);",
            "    let _ = remove(path); // Gone.",
            "    // Gone.\n    #[expect(lint)]\n    let _ = remove(path);",
            "    match a {\n        // Gone.\n        Ok(_)\n        | Err(_) => {}\n    }",
            "    // Gone.\n    remove(\n        path,\n    )\n    .ok();",
        ] {
            assert_eq!(found_in(body), [""; 0], "{body}");
        }
        assert_eq!(found_in("    // Gone.\n\n    let _ = remove(path);").len(), 1);
        assert_eq!(found_in("    b(); // Gone.\n    let _ = remove(path);").len(), 1);
    }

    #[test]
    fn consecutive_lines_of_one_form_share_a_reason() {
        assert_eq!(found_in("    // Gone.\n    let _ = b();\n    let _ = c();"), [""; 0]);
        assert_eq!(found_in("    // Gone.\n    let _ = b();\n    c().ok();").len(), 1);
        assert_eq!(found_in("    // Gone.\n    let _ = b();\n    c();\n    let _ = d();").len(), 1);
    }

    #[test]
    fn used_values_and_texts_are_let_pass() {
        for body in [
            "    let _ = write!(text, \"a\");",
            "    let _ = writeln!(text);",
            "    let value = parse(text).ok();",
            "    self.value = parse(text).ok();",
            "    let value = parse(\n        text,\n    )\n    .ok();",
            "    let Err(_) = a else { return };",
            "    drop(guard);",
            "    drop(self.child.take());",
            "    b(\"let _ = a; Err(_) => {}\"); // let _ = c;",
        ] {
            assert_eq!(found_in(body), [""; 0], "{body}");
        }
    }

    #[test]
    fn tests_drop_what_they_like() {
        let text = "//! What lives here.\n#[cfg(test)]\nmod tests {\n    let _ = a();\n}\n";
        assert_eq!(found("crates/host/src/a.rs", text), [""; 0]);
        let text =
            "//! What lives here.\n#[cfg(test)]\nmod plain;\n\nfn a() {\n    let _ = b();\n}\n";
        assert_eq!(found("crates/host/src/a.rs", text), ["6 dropped-error"]);
        for path in ["crates/host/src/tests.rs", "crates/testkit/src/a.rs", "xtask/src/a.rs"] {
            let text = "//! What lives here.\nfn a() {\n    let _ = b();\n}\n";
            assert_eq!(found(path, text), [""; 0], "{path}");
        }
    }
}
