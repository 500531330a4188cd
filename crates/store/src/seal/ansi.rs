//! Values with colours between their characters. A terminal's control sequences, also as JSON
//! writes them, are passed over
//! when a known value is looked for, so that `s<red>e<blue>cret` is found; what is replaced is the
//! value with every sequence inside it. Texts without the escape character never come here.

use super::known::Known;

pub(super) const ESCAPE: u8 = 0x1b;

/// What is left of an escape character that was escaped, under any number of backslashes.
const WRITTEN: &[u8] = b"u001b[";

/// How JSON writes the escape character.
pub(super) const ESCAPED: &str = r"\u001b";

/// The text with every known value replaced that sequences run through; `None` when there is none.
pub(super) fn replace(known: &Known, text: &[u8]) -> Option<Vec<u8>> {
    if memchr::memchr(ESCAPE, text).is_none() && memchr::memmem::find(text, WRITTEN).is_none() {
        return None;
    }
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
        if let Some(end) = sequence_end(text, at) {
            at = end;
            continue;
        }
        plain.push(text[at]);
        places.push(at);
        at += 1;
    }
    (plain, places)
}

/// Where the sequence that begins at `at` ends: `ESC [ … letter`, or two characters.
fn sequence_end(text: &[u8], at: usize) -> Option<usize> {
    let slashes = text[at..].iter().take_while(|byte| **byte == b'\\').count();
    if slashes > 0 && text[at + slashes..].starts_with(WRITTEN) {
        return Some(colour_end(text, at + slashes + WRITTEN.len()));
    }
    match (text[at], text.get(at + 1)) {
        (ESCAPE, Some(b'[')) => Some(colour_end(text, at + 2)),
        (ESCAPE, Some(byte)) if byte.is_ascii() => Some(at + 2),
        (ESCAPE, _) => Some(at + 1),
        _ => None,
    }
}

fn colour_end(text: &[u8], from: usize) -> usize {
    let length = text[from..].iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
    let closed = text.get(from + length).is_some_and(|byte| matches!(byte, 0x40..=0x7e));
    from + length + usize::from(closed)
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
        let written = painted.replace('\u{1b}', "\\\\u001b");
        assert!(replaced(&written).is_some_and(|text| text.contains("[redacted:K]")));
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
