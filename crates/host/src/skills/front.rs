//! The head of a SKILL.md: lines between two `---`, of which `name` and `description` are read. As
//! much of YAML is understood as these two are written in: plain words, quotes, and blocks of several
//! lines. Every other key is left to the agents. Pure.

use super::SkillFile;
use contract::limits;
use runtimes::skills::SKILL_FILE;
use std::path::Path;

const FENCE: &str = "---";

/// Whether a name can be a skill's: small letters, digits, and single hyphens between them.
pub fn check_name(name: &str) -> Result<(), String> {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    match name.len() <= limits::SKILL_NAME_BYTES_MAX && name.split('-').all(part) {
        true => Ok(()),
        false => Err(format!(
            "a name has small letters, digits and single hyphens, and at most {} of them",
            limits::SKILL_NAME_BYTES_MAX
        )),
    }
}

/// The description in a skill's SKILL.md, whose head must name it as its directory does.
pub fn description(name: &str, files: &[SkillFile]) -> Result<String, String> {
    let file = files.iter().find(|file| file.path == Path::new(SKILL_FILE));
    let file = file.ok_or_else(|| format!("it has no {SKILL_FILE}"))?;
    if file.bytes.len() > limits::SKILL_TEXT_BYTES_MAX {
        return Err(format!(
            "its {SKILL_FILE} has {} bytes; at most {} are allowed",
            file.bytes.len(),
            limits::SKILL_TEXT_BYTES_MAX
        ));
    }
    let text = std::str::from_utf8(&file.bytes)
        .map_err(|_| format!("its {SKILL_FILE} is not UTF-8 text"))?;
    let head = head(text)?;
    match value(&head, "name") {
        None => return Err(format!("its {SKILL_FILE} has no name in its head")),
        Some(given) if given != name => {
            let given: String = given.chars().take(limits::SKILL_NAME_BYTES_MAX).collect();
            return Err(format!("its {SKILL_FILE} calls it '{}'", given.escape_debug()));
        }
        Some(_) => {}
    }
    let description = value(&head, "description").unwrap_or_default();
    if description.is_empty() {
        return Err(format!(
            "its {SKILL_FILE} has no description in its head, by which an agent would know when \
             to read it"
        ));
    }
    if description.len() > limits::SKILL_DESCRIPTION_BYTES_MAX {
        return Err(format!(
            "its description has {} bytes; at most {} are allowed",
            description.len(),
            limits::SKILL_DESCRIPTION_BYTES_MAX
        ));
    }
    Ok(description)
}

fn head(text: &str) -> Result<Vec<&str>, String> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim_end);
    if lines.next() != Some(FENCE) {
        return Err(format!("its {SKILL_FILE} does not begin with a line {FENCE}"));
    }
    let mut head = Vec::new();
    for line in lines {
        if line == FENCE {
            return Ok(head);
        }
        head.push(line);
    }
    Err(format!("the head of its {SKILL_FILE} has no end: a second line {FENCE} is missing"))
}

/// The value of a key on the outermost level, its lines joined to one.
fn value(head: &[&str], key: &str) -> Option<String> {
    let of_key = |line: &str| line.strip_prefix(key)?.strip_prefix(':').map(str::to_owned);
    let at = head.iter().position(|line| of_key(line).is_some())?;
    let first = of_key(head[at])?;
    let first = first.trim();
    let inside = head[at + 1..]
        .iter()
        .take_while(|line| line.is_empty() || line.starts_with([' ', '\t']))
        .map(|line| line.trim());
    let is_block = first.starts_with(['>', '|']);
    let words: Vec<&str> = (!is_block).then_some(first).into_iter().chain(inside).collect();
    let joined = words.join(" ");
    Some(match is_block {
        true => spaced(&joined),
        false => unquoted(&spaced(&joined)),
    })
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A scalar without its quotes, or up to its comment.
fn unquoted(text: &str) -> String {
    if let Some(inside) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        // JSON's escapes are YAML's most common ones.
        return serde_json::from_str(text).unwrap_or_else(|_| inside.to_owned());
    }
    if let Some(inside) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inside.replace("''", "'");
    }
    text.split(" #").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Result<String, String> {
        let bytes = text.as_bytes().to_vec();
        description("x-1", &[SkillFile { path: SKILL_FILE.into(), bytes, executable: false }])
    }

    #[test]
    fn a_description_is_read_however_it_is_written() {
        let rows = [
            ("description: Use when a thing breaks.", "Use when a thing breaks."),
            ("description: Use it: always  # not this", "Use it: always"),
            ("description: \"Say \\\"hi\\\"\"", "Say \"hi\""),
            ("description: 'it''s so'", "it's so"),
            ("description: >-\n  Use when\n  folded.", "Use when folded."),
            ("description: |\n  one\n\n  two", "one two"),
            ("description: plain that\n  goes on", "plain that goes on"),
            ("metadata:\n  description: inner\ndescription: outer", "outer"),
        ];
        for (lines, expected) in rows {
            let text = format!("---\nname: x-1\n{lines}\nlicense: MIT\n---\nbody");
            assert_eq!(described(&text).as_deref(), Ok(expected), "{lines}");
            let dos = text.replace('\n', "\r\n");
            assert_eq!(described(&dos).as_deref(), Ok(expected), "{lines} with CRLF");
        }
    }

    #[test]
    fn a_head_that_says_too_little_or_too_much_is_refused_and_says_why() {
        let long = "d".repeat(limits::SKILL_DESCRIPTION_BYTES_MAX + 1);
        let huge = "b".repeat(limits::SKILL_TEXT_BYTES_MAX);
        let rows = [
            ("no head".to_owned(), "begin with a line ---"),
            ("---\nname: x-1\ndescription: d\n".to_owned(), "second line --- is missing"),
            ("---\ndescription: d\n---\n".to_owned(), "has no name"),
            ("---\nname: y\ndescription: d\n---\n".to_owned(), "calls it 'y'"),
            ("---\nname: x-1\n---\n".to_owned(), "has no description"),
            ("---\nname: x-1\ndescription: \"\"\n---\n".to_owned(), "has no description"),
            (format!("---\nname: x-1\ndescription: {long}\n---\n"), "1025 bytes; at most 1024"),
            (format!("---\nname: x-1\ndescription: d\n---\n{huge}"), "at most 262144"),
        ];
        for (text, expected) in rows {
            let why = described(&text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        for good in ["x", "using-ostler", "a-1-b"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "a".repeat(limits::SKILL_NAME_BYTES_MAX + 1);
        for bad in ["", "..", "a/b", "A", "a--b", "-a", "a-", "a b", "é", "a\0", &long] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
