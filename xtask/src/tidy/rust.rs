//! Tells Rust code from string literals and comments, line by line. It knows strings, raw strings,
//! byte strings, characters, lifetimes and nested comments; it does not parse. The first line of a
//! file's test module is found by its attribute: by the habit of this tree tests stand last.

/// A piece of a Rust file. A piece never spans two lines except in a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Where its text begins in the file, in bytes.
    pub at: usize,
    pub kind: Kind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Code,
    /// The inside of a string literal, escapes as they are written.
    Literal,
    Comment,
}

/// Splits a file into its pieces.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut scan = Scan { rest: text, at: 0, line: 1, pieces: Vec::new(), code: String::new() };
    while !scan.rest.is_empty() {
        scan.next();
    }
    scan.end_code();
    scan.pieces
}

/// The line on which the tests of this file begin; none when it has no tests of its own.
pub fn tests_begin(text: &str) -> Option<usize> {
    let at = text.lines().position(|line| line.trim_start().starts_with("#[cfg(test)]"))?;
    Some(at + 1)
}

struct Scan<'a> {
    rest: &'a str,
    /// Where the rest begins in the file.
    at: usize,
    line: usize,
    pieces: Vec<Piece>,
    code: String,
}

impl Scan<'_> {
    fn next(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.piece(Kind::Comment, 0, end, 0);
        } else if self.rest.starts_with("/*") {
            let end = comment_end(self.rest);
            self.piece(Kind::Comment, 0, end, 0);
        } else if let Some((open, end, close)) = literal(self.rest, self.after_name()) {
            self.piece(Kind::Literal, open, end, close);
        } else {
            let Some(char) = self.rest.chars().next() else { return };
            let length = character(self.rest).unwrap_or(char.len_utf8());
            self.code.push_str(&self.rest[..length]);
            self.go_on(length);
            if char == '\n' {
                self.end_code();
                self.line += 1;
            }
        }
    }

    /// Whether the code so far ends in a letter, so that an `r` or `b` is no prefix of a string.
    fn after_name(&self) -> bool {
        self.code.ends_with(|char: char| char.is_alphanumeric() || char == '_')
    }

    /// Takes `open` bytes, then text up to `end`, then `close` bytes.
    fn piece(&mut self, kind: Kind, open: usize, end: usize, close: usize) {
        self.end_code();
        let text = self.rest[open..end].to_owned();
        let lines = self.rest[..end].matches('\n').count();
        self.pieces.push(Piece { line: self.line, at: self.at + open, kind, text });
        self.line += lines;
        self.go_on((end + close).min(self.rest.len()));
    }

    fn go_on(&mut self, length: usize) {
        self.rest = &self.rest[length..];
        self.at += length;
    }

    fn end_code(&mut self) {
        let text = std::mem::take(&mut self.code);
        if !text.trim().is_empty() {
            let at = self.at - text.len();
            self.pieces.push(Piece { line: self.line, at, kind: Kind::Code, text });
        }
    }
}

fn comment_end(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// A string literal at the beginning of `rest`: where its text begins and ends, and how long its
/// closing is.
fn literal(rest: &str, after_name: bool) -> Option<(usize, usize, usize)> {
    let prefix = rest.find(|char: char| !matches!(char, 'b' | 'c' | 'r')).filter(|at| *at <= 2)?;
    if prefix > 0 && after_name {
        return None;
    }
    let after = &rest[prefix..];
    let hashes = after.find(|char| char != '#')?;
    let raw = rest[..prefix].contains('r');
    if !after[hashes..].starts_with('"') || (hashes > 0 && !raw) {
        return None;
    }
    let open = prefix + hashes + 1;
    if raw {
        let closing = format!("\"{}", "#".repeat(hashes));
        let end = rest[open..].find(&closing).map_or(rest.len(), |at| open + at);
        return Some((open, end, closing.len()));
    }
    let mut escaped = false;
    for (at, char) in rest[open..].char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((open, open + at, 1)),
            _ => {}
        }
    }
    Some((open, rest.len(), 0))
}

/// The length of a character literal at the beginning of `rest`; none for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let end = if let Some(escape) = inside.strip_prefix('\\') {
        // The character after the backslash may itself be a quote.
        let first = escape.chars().next()?.len_utf8();
        1 + first + escape[first..].find('\'')?
    } else {
        inside.chars().next()?.len_utf8()
    };
    inside[end..].starts_with('\'').then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_kind(kind: Kind, text: &str) -> Vec<(usize, String)> {
        pieces(text)
            .into_iter()
            .filter(|piece| piece.kind == kind)
            .map(|piece| (piece.line, piece.text))
            .collect()
    }

    #[test]
    fn strings_of_every_sort_are_found_with_their_lines() {
        let text =
            "let a = \"one \\\" two\";\nlet b = r#\"raw \" inside\"#;\nlet c = b\"bytes\";\n";
        assert_eq!(
            of_kind(Kind::Literal, text),
            [(1, "one \\\" two".into()), (2, "raw \" inside".into()), (3, "bytes".into())]
        );
    }

    #[test]
    fn quotes_in_comments_and_characters_open_no_string() {
        let text = "// don't \"open\nlet q = '\"'; let e = '\\''; fn f<'a>(x: &'a str) {}\nlet s = \"s\";\n";
        assert_eq!(of_kind(Kind::Literal, text), [(3, "s".into())]);
        assert_eq!(of_kind(Kind::Comment, text), [(1, "// don't \"open".into())]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_nested_comments() {
        let text = "/* a /* b\n */ c */\nlet s = \"x\ny\";\nlet t = \"t\";\n";
        assert_eq!(of_kind(Kind::Literal, text), [(3, "x\ny".into()), (5, "t".into())]);
    }

    #[test]
    fn a_piece_stands_where_it_says() {
        let text = "let a = r#\"raw\"#; // so\nlet b = \"é\"; fn f() {}\n/* c */ x";
        for piece in pieces(text) {
            assert_eq!(&text[piece.at..piece.at + piece.text.len()], piece.text);
        }
    }

    #[test]
    fn a_name_that_ends_in_r_is_no_raw_string() {
        assert_eq!(of_kind(Kind::Literal, "for\"a\"; r\"b\\\"; super\"c\";").len(), 3);
    }
}
