//! A secret split over deltas. Of each text stream only the longest end that could begin a known
//! value is held back, as it is or with colours in it; everything before it is released at once.
//! A `Carry` can be stored: it says which pattern was begun and how far, and holds no byte of any
//! secret. A whole text takes the same way as pieces do, so both come to the same.
//! State that ends in the middle of a value is held in the same way: `hold` and `unheld`; state for a
//! successor holds whole values so, too: `keep`.
//! Splits across streams or kinds of events are out of scope.

use super::Seal;
use super::ansi::{Begun, Brush, End, Part};
use super::known::Known;
use super::rules;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is held back, per text stream. Lives as long as its run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Carry {
    /// Which set of patterns the numbers below are about.
    shape: (u32, u32),
    held: BTreeMap<String, Held>,
}

/// The end of one text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Held {
    /// A value with sequences in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    painted: Option<Begun>,
    /// Behind it, a value as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plain: Option<Begun>,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.painted.is_none() && self.plain.is_none()
    }

    fn bytes(&self) -> usize {
        let bytes = |begun: &Option<Begun>| begun.as_ref().map_or(0, |begun| begun.bytes as usize);
        bytes(&self.painted) + bytes(&self.plain)
    }

    fn texts(&self, known: &Known) -> Option<(Vec<u8>, Vec<u8>)> {
        let text = |begun: &Option<Begun>| {
            begun.as_ref().map_or_else(|| Some(Vec::new()), |begun| begun.text(known))
        };
        Some((text(&self.painted)?, text(&self.plain)?))
    }
}

impl Carry {
    /// The streams that have something held back.
    pub fn streams(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How much of a known value is held back of a stream.
    pub fn bytes(&self, stream: &str) -> usize {
        self.held.get(stream).map_or(0, Held::bytes)
    }

    /// Takes what was held back of a stream, painted and plain. A carry of another set of secrets
    /// cannot be read back, so its text is replaced as a whole.
    fn take(&mut self, known: &Known, stream: &str) -> (Vec<u8>, Vec<u8>) {
        let Some(held) = self.held.remove(stream) else { return Default::default() };
        let texts = (self.shape == known.shape()).then(|| held.texts(known)).flatten();
        texts.unwrap_or_else(|| (Vec::new(), b"[redacted]".to_vec()))
    }
}

/// What stands in the place of a known value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Redacted,
    /// Its place among the values, for whoever knows them.
    Held,
}

/// A part of a known value as its place.
fn place_of(known: &Known, pattern: usize, from: usize, to: usize) -> String {
    format!("{HELD}{pattern}:{from}:{to}:{}]", known.tag(pattern, from, to))
}

/// Replaces the known values of a text behind what is held back of it: first those that stand as
/// they are, then those that sequences run through.
fn pass(known: &Known, painted: Vec<u8>, text: &[u8], end: End, mark: Mark) -> (Vec<u8>, Held) {
    let mut brush = Brush::new(known, painted, text.len());
    let mut done = 0;
    let open = loop {
        let hit = known.first(text, done);
        let open = match end {
            End::Over => None,
            End::Open => first_open(known, text, done),
        };
        match (hit, open) {
            // A value that starts before anything undecided is itself decided.
            (Some(hit), open) if open.is_none_or(|(start, _)| hit.start < start) => {
                brush.piece(&text[done..hit.start], &[], End::Over);
                match mark {
                    Mark::Redacted => brush.mark(known.mark(hit.pattern)),
                    Mark::Held => brush.mark(&place_of(known, hit.pattern, 0, hit.end - hit.start)),
                }
                done = hit.end;
            }
            (_, open) => break open,
        }
    };
    let start = open.map_or(text.len(), |(start, _)| start);
    brush.piece(&text[done..start], &text[start..], end);
    let plain = open.map(|(start, pattern)| Begun {
        pattern: pattern as u32,
        bytes: (text.len() - start) as u32,
        gaps: Vec::new(),
    });
    let (out, painted) = brush.done();
    (out, Held { painted, plain })
}

impl Seal {
    /// The part of a delta that may be released now, with what was held back before it.
    /// Over any split of a text, the released parts joined are the redaction of the whole.
    pub fn delta(&self, carry: &mut Carry, stream: &str, text: &str) -> String {
        let known = &self.known;
        let (painted, mut whole) = carry.take(known, stream);
        whole.extend_from_slice(text.as_bytes());
        carry.shape = known.shape();
        let (out, held) = pass(known, painted, &whole, End::Open, Mark::Redacted);
        if !held.is_empty() {
            carry.held.insert(stream.to_owned(), held);
        }
        into_text(out)
    }

    /// What was held back of a stream, when its block has ended. `None` when nothing was.
    pub fn flush(&self, carry: &mut Carry, stream: &str) -> Option<String> {
        let (painted, plain) = carry.take(&self.known, stream);
        let held = !painted.is_empty() || !plain.is_empty();
        held.then(|| into_text(pass(&self.known, painted, &plain, End::Over, Mark::Redacted).0))
    }

    /// The text with every known value replaced, as it is or with colours in it; `None` when there
    /// is none.
    pub(super) fn redact_known(&self, text: &[u8]) -> Option<Vec<u8>> {
        if self.known.first(text, 0).is_none() && !self.known.may_be_painted(text) {
            return None;
        }
        let (out, _) = pass(&self.known, Vec::new(), text, End::Over, Mark::Redacted);
        (out != text).then_some(out)
    }
}

/// The end of a text in our own state that begins a known value is held from this length on;
/// shorter ones tell nothing.
const HELD_BYTES_MIN: usize = 4;
const HELD: &str = "[held:";

impl Seal {
    /// The text with an end that begins a known value written as the place it was cut at; `None`
    /// when there is no such end.
    pub(super) fn hold(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (mut out, held) = pass(&self.known, Vec::new(), text, End::Open, Mark::Redacted);
        let begun = [held.painted, held.plain];
        let bytes: u32 = begun.iter().flatten().map(|begun| begun.bytes).sum();
        if (bytes as usize) < HELD_BYTES_MIN {
            return None;
        }
        for begun in begun.iter().flatten() {
            let pattern = begun.pattern as usize;
            begun.each(&self.known, |part| match part {
                Part::Sequences(text) => out.extend_from_slice(text),
                Part::Value { bytes: [], .. } => {}
                Part::Value { from, bytes } => {
                    let to = from + bytes.len();
                    out.extend_from_slice(place_of(&self.known, pattern, from, to).as_bytes());
                }
            })?;
        }
        Some(out)
    }

    /// The text for a successor: known values as their places, vendors' keys replaced, and an end
    /// that begins a known value held; `None` when there is nothing of these.
    pub(super) fn keep(&self, text: &[u8]) -> Option<Vec<u8>> {
        let known = self.known.first(text, 0).is_some() || self.known.may_be_painted(text);
        let kept = known.then(|| pass(&self.known, Vec::new(), text, End::Over, Mark::Held).0);
        let clean = rules::redact_by(kept.as_deref().unwrap_or(text), rules::Which::Forms);
        let clean = clean.or(kept.filter(|kept| kept != text));
        self.hold(clean.as_deref().unwrap_or(text)).or(clean)
    }

    /// Our own state as it was before it passed `json` or `state`, as far as the same values are
    /// known. What merely looks held, because an agent wrote it, is left as it is.
    pub fn unheld(&self, json: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(json.len());
        let mut rest = json;
        while let Some(start) = memchr::memmem::find(rest, HELD.as_bytes()) {
            let (before, held) = rest.split_at(start);
            out.extend_from_slice(before);
            let end = memchr::memchr(b']', held).map_or(held.len(), |end| end + 1);
            match self.held(&held[..end]) {
                Some(text) => {
                    let quoted = serde_json::Value::from(text).to_string();
                    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
                    rest = &held[end..];
                }
                None => {
                    out.extend_from_slice(HELD.as_bytes());
                    rest = &held[HELD.len()..];
                }
            }
        }
        out.extend_from_slice(rest);
        out
    }

    fn held(&self, written: &[u8]) -> Option<String> {
        let inside = std::str::from_utf8(written).ok()?.strip_prefix(HELD)?.strip_suffix(']')?;
        let mut parts = inside.split(':');
        let mut number = || parts.next()?.parse::<usize>().ok();
        let (pattern, from, to) = (number()?, number()?, number()?);
        let text = self.known.pattern(pattern)?.get(from..to)?;
        (parts.next()? == self.known.tag(pattern, from, to))
            .then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// The earliest place from which the text, up to its end, begins a pattern without finishing it.
fn first_open(known: &Known, text: &[u8], from: usize) -> Option<(usize, usize)> {
    let earliest = from.max((text.len() + 1).saturating_sub(known.bytes_max()));
    (earliest..text.len())
        .find_map(|start| known.begun_by(&text[start..]).map(|pattern| (start, pattern)))
}

/// Patterns are whole characters, and so are deltas: what is cut between them is text again.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal() -> Seal {
        Seal::new([
            ("A".to_owned(), "abcabd".to_owned()),
            ("B".to_owned(), "abcabdabcabc".to_owned()),
            ("C".to_owned(), "bdabcé\"ab".to_owned()),
        ])
    }

    fn through(seal: &Seal, parts: &[String]) -> String {
        let mut carry = Carry::default();
        let mut out = String::new();
        for part in parts {
            out += &seal.delta(&mut carry, "1", part);
            // A carry that was stored and read back goes on as if nothing had happened.
            let stored = serde_json::to_string(&carry).unwrap();
            // Whoever writes a sequence as an escape may write it in capitals.
            let strings = stored.to_ascii_lowercase().contains("\\u001b]");
            assert!(strings || !stored.contains("abc"), "{stored}");
            carry = serde_json::from_str(&stored).unwrap();
        }
        out += &seal.flush(&mut carry, "1").unwrap_or_default();
        assert!(carry.is_empty());
        out
    }

    #[test]
    fn only_what_could_begin_a_value_is_held_back() {
        let seal = seal();
        let mut carry = Carry::default();
        assert_eq!(seal.delta(&mut carry, "1", "hello abc"), "hello ");
        assert_eq!(seal.delta(&mut carry, "2", "abx"), "abx");
        assert_eq!(seal.delta(&mut carry, "1", "abx"), "abcabx");
        assert_eq!(seal.delta(&mut carry, "1", "abcabd"), "");
        assert_eq!(seal.flush(&mut carry, "1").as_deref(), Some("[redacted:A]"));
        assert_eq!(seal.flush(&mut carry, "1"), None);
    }

    #[test]
    fn a_value_in_colours_that_is_cut_anywhere_is_found() {
        let seal = seal();
        let text = "see a\u{1b}[31mbc\u{1b}]8;;http://x\u{1b}\\abd\\u001b[0mabcabc there";
        for one in 0..text.len() {
            for other in one..text.len() {
                let out = through(&seal, &parted(text, vec![one, other]));
                assert_eq!(out, "see [redacted:B] there", "cut at {one} and {other}");
            }
        }
    }

    #[test]
    fn a_sequence_that_itself_may_begin_a_value_hides_none_before_it() {
        let seal = odd_seal();
        let text = r"xabc\u001b[31mabd";
        for cut in 0..text.len() {
            assert_eq!(through(&seal, &parted(text, vec![cut])), "x[redacted:V]", "cut at {cut}");
        }
    }

    #[test]
    fn an_escape_with_a_capital_letter_is_text_in_pieces_and_as_a_whole() {
        let text = r"a\U001b[31m\u001b[31mbcabd";
        assert_eq!(through(&seal(), &parted(text, vec![14])), text);
        assert_eq!(seal().given(text).text(), text);
    }

    #[test]
    fn colours_hold_nothing_back_that_begins_no_value() {
        let seal = seal();
        let mut carry = Carry::default();
        for text in ["\u{1b}[31mred", "x\u{1b}[", "31m", "C:\\", "x\u{1b}]0;", "\n"] {
            assert_eq!(seal.delta(&mut carry, "1", text), text);
        }
        assert_eq!(seal.delta(&mut carry, "1", "xa\u{1b}[3"), "x");
        assert_eq!(seal.delta(&mut carry, "1", "1mq"), "a\u{1b}[31mq");
        assert!(carry.is_empty());
    }

    #[test]
    fn a_carry_of_other_secrets_gives_away_nothing() {
        let mut carry = Carry::default();
        seal().delta(&mut carry, "1", "abca");
        let other = Seal::new([("X".to_owned(), "something else".to_owned())]);
        assert_eq!(other.delta(&mut carry, "1", " end"), "[redacted] end");
    }

    #[test]
    fn state_that_ends_inside_a_value_is_held_and_given_back() {
        let seal = seal();
        for text in [
            "a\u{1b}[1mbcab\u{1b}[",
            "say abcab",
            "bdabcé\"",
            "abcabdabcab",
            "nothing",
            "abc",
            "[held:0:5:0000]",
        ] {
            let state = serde_json::json!({ "last_text": text, "n": 1 });
            let stored = seal.json(&state);
            assert!(
                !stored.text().contains("abca") && !stored.text().contains("bdab"),
                "{stored:?}"
            );
            let back: serde_json::Value =
                serde_json::from_slice(&seal.unheld(stored.bytes())).unwrap();
            let whole = text.replace("abcabd", "[redacted:A]");
            assert!(back == state || back["last_text"].as_str().unwrap().starts_with(&whole[..5]));
        }
        let stored = seal.json(&serde_json::json!(["say abcab"]));
        assert_eq!(seal.unheld(stored.bytes()), br#"["say abcab"]"#);
        let painted = serde_json::json!(["say ab\u{1b}[1mcab"]);
        let kept = seal.json(&painted);
        assert!(!kept.text().contains("ab"), "{kept:?}");
        assert_eq!(seal.unheld(kept.bytes()), painted.to_string().as_bytes());
        let other = Seal::new([("X".to_owned(), "something else".to_owned())]);
        assert_eq!(other.unheld(stored.bytes()), stored.bytes(), "a stranger learns nothing");
    }

    #[test]
    fn a_successor_that_knows_the_values_finds_them_again_and_nobody_else_does() {
        let seal = seal();
        for text in [
            "Bearer abcabd",
            "abcabdabcabc and abcabd, then abcab",
            "{\"value\":\"bdabc\u{e9}\\\"ab\"}",
            "nothing of the kind",
            "[held:0:0:6:0000000000000000] abcabd",
        ] {
            let state = serde_json::json!({ "words": text, "n": [1, text] });
            let stored = seal.state(&state);
            for value in ["abcab", "bdabc"] {
                assert!(!stored.text().contains(value), "{stored:?}");
            }
            let back: serde_json::Value =
                serde_json::from_slice(&seal.unheld(stored.bytes())).unwrap();
            assert_eq!(back, state);
            let other = Seal::new([("X".to_owned(), "something else".to_owned())]);
            assert_eq!(other.unheld(stored.bytes()), stored.bytes(), "a stranger learns nothing");
        }
    }

    #[test]
    fn a_vendors_key_that_nobody_named_is_not_given_back() {
        let key = format!("sk-ant-api03-{}", "Ab1_".repeat(20));
        let stored = seal().state(&serde_json::json!([format!("{key} abcabd")]));
        assert!(!stored.text().contains(&key), "{stored:?}");
        let back = seal().unheld(stored.bytes());
        assert_eq!(String::from_utf8(back).unwrap(), r#"["[redacted] abcabd"]"#);
    }

    /// Values that begin with what sequences are made of, and one that holds a sequence.
    fn odd_seal() -> Seal {
        Seal::new(
            [
                "abcabd",
                "abcabdabcabc",
                "\\u001babc",
                "-\\\"xyz",
                "1mabca",
                "]abcdef",
                "ab\u{1b}[31mcd",
            ]
            .map(|value| ("V".to_owned(), value.to_owned())),
        )
    }

    const UNITS: &str = "a|b|c|d|abc|abd|-|x|\\[|\\]|m|1m|u|u0|u001b|\\\\|\\\\u|\\\\u00|\\\\U001b\\[1m|\\\\u001[bB]|\u{1b}|\u{1b}\\[|\u{1b}\\[31m|\u{1b}\\]0;t|\u{7}|\u{1b}\\\\|\\\\u001b\\[0m|é|\"|\n";

    const SEQUENCES: &str = "|\u{1b}\\[31m|\u{1b}\\[0m\u{1b}\\(B|\u{1b}\\]8;;http://x\u{7}|\\\\u001b\\[0m|\\\\\\\\u001B\\[38;5;1m";

    fn parted(text: &str, cuts: Vec<usize>) -> Vec<String> {
        let mut cuts: Vec<usize> =
            cuts.into_iter().map(|cut| text.floor_char_boundary(cut.min(text.len()))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| text[cut[0]..cut[1]].to_owned()).collect()
    }

    /// By chance the property below met this, and took it for a piece of a value that is kept.
    #[test]
    fn a_sequence_that_is_written_in_capitals_is_held_like_any_other() {
        let seal = odd_seal();
        let text = "\\u\\u001B]abc-";
        let whole = seal.redact_known(text.as_bytes()).unwrap_or(text.into());
        let parts = parted(text, (0..text.len()).collect());
        assert_eq!(through(&seal, &parts), String::from_utf8(whole).unwrap());
    }

    proptest! {
        #[test]
        fn any_split_releases_the_redaction_of_the_whole(
            text in "[abcdé\"%x]{0,40}",
            cuts in proptest::collection::vec(0usize..40, 0..6),
        ) {
            let seal = seal();
            let parts = parted(&text, cuts);
            let whole = seal.known.replace(text.as_bytes()).unwrap_or(text.into_bytes());
            prop_assert_eq!(through(&seal, &parts), String::from_utf8(whole).unwrap());
        }

        /// The same with sequences, whole and cut, plain and written, wherever they may stand.
        #[test]
        fn any_split_of_a_painted_text_releases_the_redaction_of_the_whole(
            units in proptest::collection::vec(UNITS, 0..24),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let seal = odd_seal();
            let text = units.concat();
            let whole = seal.redact_known(text.as_bytes()).unwrap_or(text.clone().into_bytes());
            let whole = String::from_utf8(whole).unwrap();
            prop_assert_eq!(through(&seal, &parted(&text, cuts)), whole.clone());
            prop_assert_eq!(through(&seal, &parted(&text, (0..text.len()).collect())), whole);
        }

        /// Whole sequences between the characters hide no value, however the text is cut.
        #[test]
        fn no_value_comes_through_in_colours(
            before in "[abcdx ]{0,8}",
            value in 0usize..3,
            between in proptest::collection::vec(SEQUENCES, 12..13),
            after in "[abcdx ]{0,8}",
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let seal = seal();
            let value = ["abcabd", "abcabdabcabc", "bdabcé\"ab"][value];
            let painted: String =
                value.chars().zip(&between).map(|(letter, paint)| format!("{letter}{paint}")).collect();
            let text = format!("{before}{painted}{after}");
            let out = through(&seal, &parted(&text, cuts));
            let bare = between.iter().fold(out, |out, paint| match paint.as_str() {
                "" => out,
                paint => out.replace(paint, ""),
            });
            prop_assert!(!bare.contains(value), "{:?} came through {:?}", bare, text);
        }
    }
}
