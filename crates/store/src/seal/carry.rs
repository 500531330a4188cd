//! A secret split over deltas. Of each text stream only the longest end that could begin a known
//! value is held back; everything before it is released at once. A `Carry` can be stored: it says
//! which pattern was begun and how far, and holds no byte of any secret.
//! State that ends in the middle of a value is held in the same way: `hold` and `unheld`.
//! Splits across streams or kinds of events are out of scope.

use super::Seal;
use super::known::Known;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is held back, per text stream. Lives as long as its run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Carry {
    /// Which set of patterns the numbers below are about.
    shape: (u32, u32),
    held: BTreeMap<String, Held>,
}

/// The first `bytes` of the pattern with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    pattern: u32,
    bytes: u32,
}

impl Carry {
    /// The streams that have something held back.
    pub fn streams(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes what was held back of a stream. A carry of another set of secrets cannot be read
    /// back, so its text is replaced as a whole.
    fn take(&mut self, known: &Known, stream: &str) -> Vec<u8> {
        let Some(held) = self.held.remove(stream) else { return Vec::new() };
        let pattern = known.pattern(held.pattern as usize).filter(|_| self.shape == known.shape());
        match pattern.and_then(|pattern| pattern.get(..held.bytes as usize)) {
            Some(begun) => begun.to_vec(),
            None => b"[redacted]".to_vec(),
        }
    }
}

impl Seal {
    /// The part of a delta that may be released now, with what was held back before it.
    /// Over any split of a text, the released parts joined are the redaction of the whole.
    pub fn delta(&self, carry: &mut Carry, stream: &str, text: &str) -> String {
        let known = &self.known;
        let mut whole = carry.take(known, stream);
        whole.extend_from_slice(text.as_bytes());
        carry.shape = known.shape();
        let mut out = Vec::with_capacity(whole.len());
        let mut done = 0;
        let open = loop {
            let hit = known.first(&whole, done);
            let open = first_open(known, &whole, done);
            match (hit, open) {
                // A value that starts before anything undecided is itself decided.
                (Some(hit), open) if open.is_none_or(|(start, _)| hit.start < start) => {
                    out.extend_from_slice(&whole[done..hit.start]);
                    out.extend_from_slice(known.mark(hit.pattern).as_bytes());
                    done = hit.end;
                }
                (_, open) => break open,
            }
        };
        match open {
            Some((start, pattern)) => {
                out.extend_from_slice(&whole[done..start]);
                let bytes = (whole.len() - start) as u32;
                carry.held.insert(stream.to_owned(), Held { pattern: pattern as u32, bytes });
            }
            None => out.extend_from_slice(&whole[done..]),
        }
        into_text(out)
    }

    /// What was held back of a stream, when its block has ended. `None` when nothing was.
    pub fn flush(&self, carry: &mut Carry, stream: &str) -> Option<String> {
        let held = carry.take(&self.known, stream);
        (!held.is_empty()).then(|| into_text(self.known.replace(&held).unwrap_or(held)))
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
        let (start, pattern) = first_open(&self.known, text, 0)?;
        let bytes = text.len() - start;
        (bytes >= HELD_BYTES_MIN).then(|| {
            let tag = self.known.tag(pattern, bytes);
            [&text[..start], format!("{HELD}{pattern}:{bytes}:{tag}]").as_bytes()].concat()
        })
    }

    /// Our own state as it was before it passed `json`, as far as the same values are known. What
    /// merely looks held, because an agent wrote it, is left as it is.
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
        let (pattern, bytes, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let (pattern, bytes): (usize, usize) = (pattern.parse().ok()?, bytes.parse().ok()?);
        let text = self.known.pattern(pattern)?.get(..bytes)?;
        (tag == self.known.tag(pattern, bytes)).then(|| String::from_utf8_lossy(text).into_owned())
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
            assert!(!stored.contains("abc"), "{stored}");
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
    fn a_carry_of_other_secrets_gives_away_nothing() {
        let mut carry = Carry::default();
        seal().delta(&mut carry, "1", "abca");
        let other = Seal::new([("X".to_owned(), "something else".to_owned())]);
        assert_eq!(other.delta(&mut carry, "1", " end"), "[redacted] end");
    }

    #[test]
    fn state_that_ends_inside_a_value_is_held_and_given_back() {
        let seal = seal();
        for text in ["say abcab", "bdabcé\"", "abcabdabcab", "nothing", "abc", "[held:0:5:0000]"] {
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
        let other = Seal::new([("X".to_owned(), "something else".to_owned())]);
        assert_eq!(other.unheld(stored.bytes()), stored.bytes(), "a stranger learns nothing");
    }

    proptest! {
        #[test]
        fn any_split_releases_the_redaction_of_the_whole(
            text in "[abcdé\"%x]{0,40}",
            cuts in proptest::collection::vec(0usize..40, 0..6),
        ) {
            let seal = seal();
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(chars.len())).collect();
            cuts.extend([0, chars.len()]);
            cuts.sort_unstable();
            let parts: Vec<String> =
                cuts.windows(2).map(|cut| chars[cut[0]..cut[1]].iter().collect()).collect();
            let whole = seal.known.replace(text.as_bytes()).unwrap_or(text.into_bytes());
            prop_assert_eq!(through(&seal, &parts), String::from_utf8(whole).unwrap());
        }
    }
}
