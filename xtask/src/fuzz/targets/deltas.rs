//! A text in pieces through the seal: however it is cut, and stored between two pieces, what is
//! released comes to what one piece would have come to; no known value is in it, nor would one be
//! seen on a terminal, which does not show colours; and what is held back stays within its limit.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;
use contract::limits::PAINT_BYTES_MAX;
use store::{Carry, Seal};

/// Values that begin alike, that begin with what sequences are made of, and a key of several lines.
const KNOWN: [(&str, &str); 8] = [
    ("PLAIN", "hunter2-hunter2"),
    ("ODD", "a\"b\\c\nd/e"),
    ("WIDE", "pässwörd-✓"),
    ("SHORT", "abcabd"),
    ("LONG", "abcabdabcabc"),
    ("MARK", "]abcdef"),
    ("WRITTEN", "-\\\"xyz"),
    (
        "KEY",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----",
    ),
];

pub const TARGET: Target = Target {
    name: "deltas",
    everyday: Some(10_000),
    seeds: || {
        let mut seeds = super::recordings();
        for (name, value) in KNOWN {
            seeds.push(format!("{name}={value} said").into_bytes());
            let painted: String = value.chars().map(|c| format!("{c}\u{1b}[1;31m")).collect();
            seeds.push(serde_json::Value::from(painted.as_str()).to_string().into_bytes());
            seeds.push(painted.into_bytes());
        }
        seeds.push(b"hunter2-\x1b]8;;http://example.com/\x1b\\hunter2\x1b]8;;\x07".to_vec());
        // One value inside another that would be whole if a mark were read as a line end.
        seeds.push(b"a\"b\\caHVudGVyMi1odW50ZXIyd/e".to_vec());
        seeds.push(
            b"aHVudGVyMi1odW50ZXIy hunter2%2Dhunter2 68756e746572322d68756e74657232".to_vec(),
        );
        seeds
    },
    words: &[
        b"hunter2-hunter2",
        b"hunter2-",
        b"hunt",
        b"er2",
        b"abcabd",
        b"abcabdabcab",
        b"abc",
        b"-\\",
        b"]abc",
        b"a\"b\\c\nd/e",
        br#"a\"b\\c\nd/e"#,
        br#"a\\\"b\\\\c\\nd/e"#,
        b"MIIEvQIBADANBg",
        b"\\n",
        "pässwörd-✓".as_bytes(),
        br"p\u00e4ssw\u00f6rd-\u2713",
        b"p%C3%A4ssw%C3%B6rd-%E2%9C%93",
        b"aHVudGVyMi1odW50ZXIy",
        b"h1bnRlcjItaHVudGVyM",
        b"68756e74",
        b"\x1b",
        b"\x1b[",
        b"\x1b[31m",
        b"\x1b[0m",
        b"\x1b(B",
        b"\x1b]0;t",
        b"\x07",
        b"\x1b\\",
        b"\x1b]8;;x\x1b\\",
        br"\u001b[31m",
        br"\\u001B[0m",
        br"\u001b",
        br"\u00",
        b"\\",
        br"\u0007",
    ],
    make,
};

fn make() -> Try {
    let seal = Seal::new(KNOWN.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Box::new(move |input, chance| {
        let text = String::from_utf8_lossy(input);
        let whole = seal.given(&text).text();
        let cuts = chance.cuts(text.len());
        let joined = through(&seal, &text, &cuts, chance)?;
        holds(joined == whole, || {
            format!("pieces come to something else: {joined:?} not {whole:?}")
        })?;
        if text.len() < 256 {
            let each: Vec<usize> = (0..=text.len()).collect();
            let joined = through(&seal, &text, &each, chance)?;
            holds(joined == whole, || format!("byte by byte: {joined:?} not {whole:?}"))?;
        }
        // A mark ends with what one of the values begins with; what stands for it is in none.
        let shown = KNOWN
            .iter()
            .fold(joined, |text, (name, _)| text.replace(&format!("[redacted:{name}]"), "\0"));
        let bare = without_colours(&shown);
        match KNOWN.iter().find(|(_, value)| shown.contains(value) || bare.contains(value)) {
            Some((name, _)) => Err(format!("{name} comes through: {shown:?}")),
            None => Ok(()),
        }
    })
}

fn through(seal: &Seal, text: &str, cuts: &[usize], chance: &mut Chance) -> Result<String, String> {
    let mut carry = Carry::default();
    let mut joined = String::new();
    for cut in cuts.windows(2) {
        let ends = [text.floor_char_boundary(cut[0]), text.floor_char_boundary(cut[1])];
        joined += &seal.delta(&mut carry, "s", &text[ends[0]..ends[1]]);
        if chance.one_in(4) {
            let stored =
                serde_json::to_vec(&carry).map_err(|error| format!("no carry: {error}"))?;
            // An escape character is six in JSON.
            let most = 6 * PAINT_BYTES_MAX + 1024;
            holds(stored.len() <= most, || format!("too much is held: {} bytes", stored.len()))?;
            carry = serde_json::from_slice(&stored).map_err(|error| format!("carry: {error}"))?;
        }
    }
    joined += &seal.flush(&mut carry, "s").unwrap_or_default();
    holds(carry.is_empty(), || format!("something stays held: {carry:?}"))?;
    Ok(joined)
}

/// As a terminal shows it that knows colours alone; not the seal's own way of looking.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match rest.strip_prefix('m') {
            Some(shown) => bare += shown,
            None => bare += &format!("\u{1b}[{part}"),
        }
    }
    bare
}
