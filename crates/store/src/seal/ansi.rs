//! Values with colours between their characters. A terminal's control sequences are passed over
//! when a known value is looked for, so that `s<red>e<blue>cret` is found; what is replaced is the
//! value with every sequence inside it. Texts without the escape character never come here.

use super::known::Known;

pub(super) const ESCAPE: u8 = 0x1b;

/// How JSON writes the escape character.
pub(super) const ESCAPED: &str = r"\u001b";

/// The text with every known value replaced that sequences run through; `None` when there is none.
pub(super) fn replace(known: &Known, text: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(ESCAPE, text)?;
    let (plain, places) = without_sequences(text);
    let mut out = Vec::with_capacity(text.len());
    let (mut done, mut looked) = (0, 0);
    while let Some(hit) = known.first(&plain, looked) {
        let (from, to) = (places[hit.start], places[hit.end - 1] + 1);
        out.extend_from_slice(&text[done..from]);
        out.extend_from_slice(known.mark(hit.pattern).as_bytes());
        (done, looked) = (to, hit.end);
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&text[done..]);
    Some(out)
}

/// The text without its control sequences, and where each byte of it stood.
fn without_sequences(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut plain = Vec::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] == ESCAPE {
            at = sequence_end(text, at);
            continue;
        }
        plain.push(text[at]);
        places.push(at);
        at += 1;
    }
    (plain, places)
}

/// Where the sequence that begins at `at` ends: `ESC [ … letter`, or two characters.
fn sequence_end(text: &[u8], at: usize) -> usize {
    match text.get(at + 1) {
        Some(b'[') => {
            let body = &text[at + 2..];
            let length = body.iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
            let closed = body.get(length).is_some_and(|byte| matches!(byte, 0x40..=0x7e));
            at + 2 + length + usize::from(closed)
        }
        Some(byte) if byte.is_ascii() => at + 2,
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> Option<String> {
        let known = Known::new([("K".to_owned(), "hunter2-hunter2".to_owned())]);
        replace(&known, text.as_bytes()).map(|out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_value_with_colours_in_it_is_found() {
        let painted: String =
            "hunter2-hunter2".chars().map(|c| format!("\u{1b}[1;31m{c}\u{1b}[0m")).collect();
        assert_eq!(
            replaced(&format!("a {painted} b")).as_deref(),
            Some("a \u{1b}[1;31m[redacted:K]\u{1b}[0m b")
        );
    }

    #[test]
    fn colours_alone_change_nothing() {
        for text in [
            "\u{1b}[31mred\u{1b}[0m",
            "no colour: hunter2-hunter2",
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}[31",
        ] {
            assert_eq!(replaced(text), None, "{text:?}");
        }
    }
}
