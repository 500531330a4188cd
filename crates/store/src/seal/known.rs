//! Known secret values and every spelling they are looked for in: plain, JSON-escaped, URL-encoded,
//! hexadecimal, quoted for shells and HTML, and base64 at each of its three alignments. One automaton
//! finds them all, leftmost and longest; most texts never reach it (`grams.rs`), so it is made when
//! the first one does: most runs end without. The patterns are sorted, so that `carry.rs` can name
//! one by its place. Knows nothing of events.

use super::ansi;
use super::grams::{Grams, gram4};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use contract::limits::SECRET_BYTES_MIN;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A line of a multi-line value and a string in a value of JSON are looked for by themselves from
/// this length on; shorter ones are likely to be ordinary words.
const SECRET_PART_BYTES_MIN: usize = 8;

/// How far apart the places are that are looked at first, where the values are long enough.
const STRIDE_MAX: usize = 8;

/// What is left of a base64 text when the characters that depend on neighbours are cut off must
/// still be long enough not to occur by chance.
const BASE64_BYTES_MIN: usize = 6;

/// JSON in a string of JSON in a string of JSON: agents pass each other's answers on, and every
/// layer escapes the escapes of the one inside. Costs nothing for values without such characters.
pub(super) const JSON_LAYERS: usize = 4;

/// The values of one run.
#[derive(Default)]
pub(super) struct Known {
    automaton: OnceLock<AhoCorasick>,
    /// The first pieces of every pattern.
    pieces: Grams,
    stride: usize,
    /// Sorted, without doubles.
    patterns: Vec<Vec<u8>>,
    /// The first pattern that does not begin with a smaller byte than this, for every byte.
    firsts: Vec<u32>,
    /// What stands in the place of each pattern.
    marks: Vec<Arc<str>>,
    /// The longest pattern.
    bytes_max: usize,
}

/// One occurrence of a known value.
pub(super) struct Hit {
    pub start: usize,
    pub end: usize,
    pub pattern: usize,
}

impl Known {
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut spellings: BTreeMap<Vec<u8>, Arc<str>> = BTreeMap::new();
        for (name, value) in secrets {
            let mark: Arc<str> = format!("[redacted:{}]", plain_name(&name)).into();
            for value in parts(&value) {
                for spelling in spell(&value) {
                    if spelling.len() >= SECRET_BYTES_MIN {
                        spellings.entry(spelling).or_insert_with(|| mark.clone());
                    }
                }
            }
        }
        let (patterns, marks): (Vec<_>, Vec<_>) = spellings.into_iter().unzip();
        let bytes_max = patterns.iter().map(Vec::len).max().unwrap_or(0);
        let bytes_min = patterns.iter().map(Vec::len).min().unwrap_or(SECRET_BYTES_MIN);
        // A pattern must cover a whole piece at one of the places that are looked at.
        let stride = (bytes_min - 3).min(STRIDE_MAX);
        let starts = |pattern: &Vec<u8>| -> Vec<u32> {
            (0..stride).filter_map(|start| gram4(pattern, start)).collect()
        };
        let pieces = Grams::new(patterns.iter().flat_map(starts).collect());
        let before = |byte: u32| patterns.partition_point(|known| u32::from(known[0]) < byte);
        let firsts = (0..=256).map(|byte| before(byte) as u32).collect();
        Self { automaton: OnceLock::new(), pieces, stride, patterns, firsts, marks, bytes_max }
    }

    /// The smallest kind: it is asked rarely, and every live run may have one.
    fn automaton(&self) -> &AhoCorasick {
        self.automaton.get_or_init(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .prefilter(false)
                .build(&self.patterns)
                .expect("an automaton refuses only more patterns than memory could hold")
        })
    }

    /// Whether any known value may occur from `from` on. Right whenever it says no.
    fn may_occur(&self, text: &[u8], from: usize) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let text = text.get(from..).unwrap_or_default();
        if self.stride != STRIDE_MAX {
            let places = (0..text.len()).step_by(self.stride);
            return places.map_while(|at| gram4(text, at)).any(|piece| self.pieces.has(piece));
        }
        // Nearly always; a known length of the step saves a check of bounds at every place.
        let (steps, rest) = text.as_chunks::<STRIDE_MAX>();
        let piece = |[a, b, c, d, ..]: &[u8; STRIDE_MAX]| u32::from_le_bytes([*a, *b, *c, *d]);
        steps.iter().any(|step| self.pieces.has(piece(step)))
            || gram4(rest, 0).is_some_and(|piece| self.pieces.has(piece))
    }

    /// Whether any known value occurs.
    pub fn occurs(&self, text: &[u8]) -> bool {
        self.may_occur(text, 0) && self.automaton().is_match(text)
    }

    /// The first known value from `from` on.
    pub fn first(&self, text: &[u8], from: usize) -> Option<Hit> {
        if !self.may_occur(text, from) {
            return None;
        }
        let found = self.automaton().find(aho_corasick::Input::new(text).range(from..))?;
        Some(Hit { start: found.start(), end: found.end(), pattern: found.pattern().as_usize() })
    }

    /// Whether there are values, and sequences that may run through one.
    pub fn may_be_painted(&self, text: &[u8]) -> bool {
        !self.patterns.is_empty() && ansi::may_paint(text)
    }

    /// The text with every known value replaced by its mark; `None` when there is none.
    #[cfg(test)]
    pub fn replace(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut hit = self.first(text, 0)?;
        let mut out = Vec::with_capacity(text.len());
        let mut done = 0;
        loop {
            out.extend_from_slice(&text[done..hit.start]);
            out.extend_from_slice(self.mark(hit.pattern).as_bytes());
            done = hit.end;
            match self.first(text, done) {
                Some(next) => hit = next,
                None => break,
            }
        }
        out.extend_from_slice(&text[done..]);
        Some(out)
    }

    pub fn mark(&self, pattern: usize) -> &str {
        &self.marks[pattern]
    }

    pub fn pattern(&self, pattern: usize) -> Option<&[u8]> {
        self.patterns.get(pattern).map(Vec::as_slice)
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The patterns that begin with this byte, by their places.
    pub fn beginning_with(&self, byte: u8) -> Range<usize> {
        let place = |byte: usize| self.firsts.get(byte).map_or(0, |first| *first as usize);
        place(usize::from(byte))..place(usize::from(byte) + 1)
    }

    /// Those of patterns that are the same up to `depth`, and longer, which go on with this byte.
    pub fn going_on_with(&self, like: Range<usize>, depth: usize, byte: u8) -> Range<usize> {
        let patterns = &self.patterns[like.clone()];
        let from = patterns.partition_point(|pattern| pattern[depth] < byte);
        let count = patterns[from..].partition_point(|pattern| pattern[depth] == byte);
        like.start + from..like.start + from + count
    }

    pub fn length(&self, pattern: usize) -> usize {
        self.patterns[pattern].len()
    }

    /// A pattern that `text` begins but does not finish.
    pub fn begun_by(&self, text: &[u8]) -> Option<usize> {
        // Most texts begin like nothing, and of the others only their like is asked.
        let like = self.beginning_with(*text.first()?);
        let patterns = &self.patterns[like.clone()];
        // Sorted order puts every pattern that `text` begins directly behind `text` itself.
        let place = patterns.partition_point(|pattern| pattern.as_slice() <= text);
        patterns.get(place).filter(|pattern| pattern.starts_with(text)).map(|_| like.start + place)
    }

    /// What only someone who knows all values can say of a part of one.
    pub fn tag(&self, pattern: usize, from: usize, to: usize) -> String {
        let mut hasher = blake3::Hasher::new();
        for pattern in &self.patterns {
            hasher.update(&(pattern.len() as u64).to_le_bytes()).update(pattern);
        }
        for number in [pattern, from, to] {
            hasher.update(&(number as u64).to_le_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }

    /// Tells two sets of patterns apart without saying anything of their content.
    pub fn shape(&self) -> (u32, u32) {
        let bytes: usize = self.patterns.iter().map(Vec::len).sum();
        (self.patterns.len() as u32, bytes as u32)
    }
}

/// Names go into marks, and marks into JSON of any depth of quoting: nothing in them needs escapes.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    name.chars().take(64).map(plain).collect()
}

/// The value, the value without the white space around it, its lines, and the strings in it when it
/// is JSON: a file of credentials is leaked by its parts more often than as a whole.
fn parts(value: &str) -> Vec<String> {
    let trimmed = value.trim();
    let mut parts = vec![value.to_owned(), trimmed.to_owned()];
    if trimmed.contains('\n') {
        let lines = trimmed.lines().map(str::trim).filter(|line| {
            // The rulers of a PEM file are the same in every key.
            line.len() >= SECRET_PART_BYTES_MIN && !line.starts_with("-----")
        });
        parts.extend(lines.map(str::to_owned));
        // The same lines as they come from a machine with other line ends, or on one line.
        for line_end in ["\r\n", " ", ""] {
            parts.push(trimmed.lines().map(str::trim).collect::<Vec<_>>().join(line_end));
        }
    }
    if trimmed.starts_with(['{', '[', '"'])
        && let Ok(json) = serde_json::from_str(trimmed)
    {
        leaves(&json, &mut parts);
    }
    parts.retain(|part| part.len() >= SECRET_BYTES_MIN);
    parts.sort_unstable();
    parts.dedup();
    parts
}

fn leaves(json: &serde_json::Value, parts: &mut Vec<String>) {
    match json {
        serde_json::Value::String(text) if text.len() >= SECRET_PART_BYTES_MIN => {
            parts.push(text.clone());
            // A key inside such a file has lines of its own.
            if text.contains('\n') {
                parts.extend(
                    text.lines()
                        .map(str::trim)
                        .filter(|line| {
                            line.len() >= SECRET_PART_BYTES_MIN && !line.starts_with("-----")
                        })
                        .map(str::to_owned),
                );
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| leaves(item, parts)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| leaves(item, parts)),
        serde_json::Value::String(_)
        | serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_) => {}
    }
}

/// Every spelling of one value, each also as it looks inside JSON strings.
fn spell(value: &str) -> Vec<Vec<u8>> {
    let mut spellings = vec![value.to_owned()];
    spellings.extend(escapes(value));
    spellings.extend(url_encodings(value));
    spellings.extend(hexadecimal(value.as_bytes()));
    spellings.extend(quotings(value));
    spellings.extend(base64s(value.as_bytes()));
    // Ordinary values look the same in most spellings.
    spellings.sort_unstable();
    spellings.dedup();
    let mut layer = spellings.clone();
    for _ in 0..JSON_LAYERS {
        layer.retain(|spelling| spelling.bytes().any(is_escaped));
        layer = layer.iter().map(|spelling| json_escaped(spelling)).collect();
        spellings.extend_from_slice(&layer);
    }
    spellings.into_iter().map(String::into_bytes).collect()
}

/// The escapes of JSON writers differ: some leave text beyond ASCII, some do not, some escape `/`.
fn escapes(value: &str) -> Vec<String> {
    let usual = json_escaped(value);
    let mut ascii = String::new();
    for c in usual.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    let slashed = ascii.replace('/', "\\/");
    vec![usual, ascii, slashed]
}

fn hexadecimal(value: &[u8]) -> [String; 2] {
    let lower = value.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    [lower.to_ascii_uppercase(), lower]
}

/// As shells quote a value in single quotes, and as HTML and XML write it.
fn quotings(value: &str) -> Vec<String> {
    let mut quotings = vec![value.replace('\'', r"'\''"), value.replace('\'', "\\'")];
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for (double, single) in [
        ("&quot;", "'"),
        ("&quot;", "&#39;"),
        ("&quot;", "&#x27;"),
        ("&#34;", "&#39;"),
        ("\"", "'"),
    ] {
        quotings.push(html.replace('"', double).replace('\'', single));
    }
    quotings
}

/// Whether JSON writes this byte otherwise than as itself.
fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Percent encodings, by how much each kind of writer leaves alone, with digits in both cases.
fn url_encodings(value: &str) -> Vec<String> {
    let mut encodings = Vec::new();
    for left_alone in ["-._~", "-._~!'()*", "-._*", "-._~/"] {
        let mut upper = String::new();
        let mut lower = String::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || left_alone.as_bytes().contains(&byte) {
                upper.push(byte as char);
                lower.push(byte as char);
            } else {
                let _ = write!(upper, "%{byte:02X}");
                let _ = write!(lower, "%{byte:02x}");
            }
        }
        encodings.push(upper.replace("%20", "+"));
        encodings.push(upper);
        encodings.push(lower);
    }
    encodings
}

/// The middle of the base64 of any text that contains `value`, at each alignment: the characters
/// that also depend on the bytes before and after it are cut off.
fn base64s(value: &[u8]) -> Vec<String> {
    let mut middles = Vec::new();
    for (before, skip) in [(0, 0), (1, 2), (2, 3)] {
        let mut padded = vec![0; before];
        padded.extend_from_slice(value);
        let whole = padded.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let middle = &engine.encode(&padded)[skip..whole];
            if middle.len() >= BASE64_BYTES_MIN {
                middles.push(middle.to_owned());
            }
        }
    }
    middles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[&str]) -> Known {
        Known::new(values.iter().map(|value| ("K".to_owned(), (*value).to_owned())))
    }

    fn replaced(known: &Known, text: &str) -> String {
        let bytes = known.replace(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_value_is_found_in_every_spelling() {
        let value = "pa\"ss/wö rd+1";
        let known = known(&[value]);
        for spelling in [
            value.to_owned(),
            "pa\\\"ss/wö rd+1".to_owned(),
            "pa\\\"ss\\/w\\u00f6 rd+1".to_owned(),
            "pa%22ss%2Fw%C3%B6%20rd%2B1".to_owned(),
            "pa%22ss%2fw%c3%b6%20rd%2b1".to_owned(),
            "pa%22ss%2Fw%C3%B6+rd%2B1".to_owned(),
            "pa%22ss/w%C3%B6%20rd%2B1".to_owned(),
            "70612273732f77c3b62072642b31".to_owned(),
            "70612273732F77C3B62072642B31".to_owned(),
            "pa&quot;ss/wö rd+1".to_owned(),
        ] {
            assert_eq!(replaced(&known, &format!("<{spelling}>")), "<[redacted:K]>", "{spelling}");
        }
    }

    #[test]
    fn a_value_is_found_under_layers_of_json() {
        let known = known(&["pa\"ss\\word\n1"]);
        let mut text = "pa\"ss\\word\n1".to_owned();
        for layer in 0..JSON_LAYERS {
            text = json_escaped(&text);
            assert_eq!(replaced(&known, &text), "[redacted:K]", "layer {layer}");
        }
    }

    #[test]
    fn a_value_is_found_in_base64_at_every_alignment() {
        let known = known(&["hunter2-hunter2"]);
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "z", "zz"] {
                for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                    let text = engine.encode(format!("{before}hunter2-hunter2{after}"));
                    assert!(replaced(&known, &text).contains("[redacted:K]"), "{text}");
                }
            }
        }
    }

    #[test]
    fn the_longest_value_wins() {
        let known = Known::new([
            ("SHORT".to_owned(), "abcdef".to_owned()),
            ("LONG".to_owned(), "abcdefgh".to_owned()),
        ]);
        assert_eq!(replaced(&known, "abcdefghi abcdefg"), "[redacted:LONG]i [redacted:SHORT]g");
    }

    #[test]
    fn each_line_of_a_long_value_is_known_but_rulers_and_short_lines_are_not() {
        let known = known(&["-----BEGIN KEY-----\nMIIEpAIBAAKC\nshort\n-----END KEY-----\n"]);
        assert_eq!(replaced(&known, "MIIEpAIBAAKC"), "[redacted:K]");
        assert_eq!(replaced(&known, "-----BEGIN KEY-----"), "-----BEGIN KEY-----");
        assert_eq!(replaced(&known, "short"), "short");
    }

    #[test]
    fn the_strings_of_a_json_value_are_known_each_by_itself() {
        let value = r#"{"user": "bot", "private": {"id": "id-12345678", "keys": ["line-one-of-it\nline-two-of-it"]}}"#;
        let known = known(&[value]);
        for leaf in ["id-12345678", "line-one-of-it\nline-two-of-it", "line-two-of-it", value] {
            assert_eq!(replaced(&known, &format!("<{leaf}>")), "<[redacted:K]>", "{leaf}");
        }
        assert_eq!(replaced(&known, "bot user private"), "bot user private");
    }

    #[test]
    fn a_value_of_several_lines_is_known_with_other_line_ends_too() {
        let known = known(&["first-line-1\n  second-line-2\n"]);
        for text in ["first-line-1\r\nsecond-line-2", "first-line-1 second-line-2"] {
            assert_eq!(replaced(&known, text), "[redacted:K]", "{text:?}");
        }
    }

    #[test]
    fn a_value_in_shell_quotes_is_known() {
        assert_eq!(replaced(&known(&["it's-mine"]), r"echo 'it'\''s-mine'"), "echo '[redacted:K]'");
    }

    proptest::proptest! {
        /// The look at every n-th place finds whatever the automaton would.
        #[test]
        fn nothing_is_overlooked_wherever_it_stands(
            before in "[ab]{0,40}",
            values in proptest::collection::vec("[abc]{6,20}", 1..5),
            after in "[ab]{0,40}",
        ) {
            let known = Known::new(values.iter().map(|value| ("K".to_owned(), value.clone())));
            for value in &values {
                let text = format!("{before}{value}{after}");
                proptest::prop_assert!(known.occurs(text.as_bytes()));
                proptest::prop_assert!(known.first(text.as_bytes(), 0).is_some());
                proptest::prop_assert!(!replaced(&known, &text).contains(value.as_str()));
            }
            let text = format!("{before}{after}");
            proptest::prop_assert_eq!(
                known.occurs(text.as_bytes()),
                known.automaton().is_match(&text)
            );
        }
    }

    #[test]
    fn what_json_does_not_escape_has_no_spelling_of_its_own_in_it() {
        for byte in 0..=127u8 {
            let text = char::from(byte).to_string();
            assert_eq!(is_escaped(byte), json_escaped(&text) != text, "{byte}");
        }
    }

    #[test]
    fn no_automaton_is_made_before_something_looks_like_a_value() {
        let known = known(&["hunter2-hunter2"]);
        assert!(!known.occurs(b"an ordinary line of an agent at work"));
        assert!(known.automaton.get().is_none());
        assert!(known.occurs(b"the word is hunter2-hunter2"));
        assert!(known.automaton.get().is_some());
    }

    #[test]
    fn values_too_short_to_tell_from_words_are_not_looked_for() {
        assert!(!known(&["abcde", ""]).occurs(b"abcde"));
    }
}
