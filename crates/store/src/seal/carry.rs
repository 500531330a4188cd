//! A secret split over deltas. Of each text stream only the longest end that could begin a known
//! value is held back; everything before it is released at once. A `Carry` can be stored: it says
//! which pattern was begun and how far, and holds no byte of any secret.
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
