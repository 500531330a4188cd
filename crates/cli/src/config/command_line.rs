//! Splits `--process CMD` into words the way a shell would: blanks, single and double quotes,
//! backslash. Nothing is expanded: no variables, no globs, no `~`, and no shell is ever started.
//! Shell operators are therefore refused by name instead of being handed to the program as words.

use contract::{Code, Fault};

/// The words of a command line.
pub fn split(line: &str) -> Result<Vec<String>, Fault> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => quoted(&mut rest, word.get_or_insert_default(), Quote::Single, line)?,
            '"' => quoted(&mut rest, word.get_or_insert_default(), Quote::Double, line)?,
            '\\' => match rest.next() {
                // A backslash before the end of a line joins the two lines.
                Some('\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(broken(line, "it ends in a backslash")),
            },
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '`' => {
                return Err(broken(line, &format!("it has the shell operator '{c}'"))
                    .with_hint("quote it, or name a shell: --process \"sh -c '…'\""));
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() {
        return Err(broken(line, "it has no words"));
    }
    Ok(words)
}

#[derive(Clone, Copy, PartialEq)]
enum Quote {
    Single,
    Double,
}

/// Reads up to the closing quote.
fn quoted(
    rest: &mut impl Iterator<Item = char>,
    word: &mut String,
    quote: Quote,
    line: &str,
) -> Result<(), Fault> {
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Quote::Single, '\'') | (Quote::Double, '"') => return Ok(()),
            (Quote::Double, '\\') => match rest.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some('\n') => {}
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            (Quote::Single | Quote::Double, c) => word.push(c),
        }
    }
    Err(broken(line, "a quote is not closed"))
}

fn broken(line: &str, why: &str) -> Fault {
    let shown: String = line.chars().take(80).collect();
    Fault::new(Code::Usage, format!("the command '{shown}' cannot be split into words: {why}"))
        .with_hint("quote it as in a shell: --process \"./agent --name 'two words'\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for (line, words) in [
            ("./agent", &["./agent"][..]),
            ("  a   b\tc\n", &["a", "b", "c"]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            (r"a b\ c", &["a", "b c"]),
            (r#"a "x \"y\" \n \\""#, &["a", r#"x "y" \n \"#]),
            ("a ''", &["a", ""]),
            ("a --x='1 2'3", &["a", "--x=1 23"]),
            ("a $HOME '*' {{workspacePath}}", &["a", "$HOME", "*", "{{workspacePath}}"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    fn what_a_shell_would_do_more_is_refused_by_name() {
        for (line, why) in [
            ("a | b", "the shell operator '|'"),
            ("a > file", "the shell operator '>'"),
            ("a 'b", "a quote is not closed"),
            ("a \\", "ends in a backslash"),
            ("   ", "no words"),
        ] {
            let fault = split(line).unwrap_err();
            assert_eq!(fault.code, Code::Usage);
            assert!(fault.message.contains(why), "{}", fault.message);
        }
    }
}
