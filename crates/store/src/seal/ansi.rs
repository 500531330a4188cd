//! Values with colours between their characters. From a place where a known value may begin, the
//! terminal's control sequences (also as JSON writes them) are passed over, so that
//! `s<red>e<blue>cret` is found; what is replaced is the value with every sequence inside it.
//! Whether a value begins at a place follows from what comes after that place alone, so a text in
//! pieces comes to the same as the whole: what is undecided at the end of a piece is a `Begun`.
//! Texts without an escape character are passed on as they are. Sequences: `ansi/sequence.rs`.

mod sequence;

use super::known::Known;
use contract::limits::PAINT_BYTES_MAX;
use sequence::{Sequence, sequence};
use serde::{Deserialize, Serialize};

pub(super) use sequence::{ESCAPE, ESCAPED};

/// Whether a text goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing comes any more: what is begun is not a value.
    Over,
    /// More may come.
    Open,
}

/// A known value that was begun: how much of which pattern, and the sequences in it. Holds no byte
/// of the value, but for what stands in a string that a terminal would not show.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Begun {
    pub pattern: u32,
    /// How much of the pattern is there.
    pub bytes: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// Sequences between two characters of a value, or behind the last that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gap {
    /// How much of the pattern stands before them.
    pub at: u32,
    pub text: String,
}

impl Begun {
    /// The text that was begun; `None` when it is of other patterns.
    pub fn text(&self, known: &Known) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        self.each(known, |part| match part {
            Part::Value { bytes, .. } | Part::Sequences(bytes) => text.extend_from_slice(bytes),
        })?;
        Some(text)
    }

    /// Hands out the pieces of the value and the sequences between them, in order.
    pub fn each(&self, known: &Known, mut take: impl FnMut(Part<'_>)) -> Option<()> {
        let whole = known.pattern(self.pattern as usize)?.get(..self.bytes as usize)?;
        let mut from = 0;
        for gap in &self.gaps {
            let to = gap.at as usize;
            take(Part::Value { from, bytes: whole.get(from..to)? });
            take(Part::Sequences(gap.text.as_bytes()));
            from = to;
        }
        take(Part::Value { from, bytes: &whole[from..] });
        Some(())
    }
}

/// A piece of what was begun.
pub(super) enum Part<'a> {
    /// Bytes of the pattern from a place in it.
    Value {
        from: usize,
        bytes: &'a [u8],
    },
    Sequences(&'a [u8]),
}

/// Looks through the colours of one text, piece by piece. The pieces hold no value as it is: those
/// were replaced before.
pub(super) struct Brush<'a> {
    known: &'a Known,
    pub out: Vec<u8>,
    held: Vec<u8>,
    begun: Option<Begun>,
}

impl<'a> Brush<'a> {
    /// Goes on behind a text that is held back.
    pub fn new(known: &'a Known, held: Vec<u8>, room: usize) -> Self {
        Self { known, out: Vec::with_capacity(room), held, begun: None }
    }

    /// Takes the next piece. What follows it, as far as it is known, is `next`: a value that is
    /// begun here and cannot go on with it is of no interest.
    pub fn piece(&mut self, piece: &[u8], next: &[u8], end: End) {
        // Whoever handed us the piece would have held back a value that begins at its end and may
        // go on; only a sequence that is held back itself can hide that.
        let hidden = end == End::Open && next.iter().any(|byte| sequence::may_lead(*byte));
        if self.held.is_empty() && !hidden {
            match sequence::first_lead(piece, end) {
                None => self.out.extend_from_slice(piece),
                Some(lead) => {
                    // A value that a sequence runs through begins no further before it.
                    let from = lead.saturating_sub(self.known.bytes_max());
                    self.look(piece, from, end);
                }
            }
            return;
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(piece);
        self.look(&whole, 0, end);
    }

    /// A known value as it is, or what else nothing runs through.
    pub fn mark(&mut self, mark: &str) {
        self.out.extend_from_slice(mark.as_bytes());
    }

    /// What is held back, and what came of the rest.
    pub fn done(self) -> (Vec<u8>, Option<Begun>) {
        (self.out, self.begun.filter(|_| !self.held.is_empty()))
    }

    fn look(&mut self, text: &[u8], from: usize, end: End) {
        let (mut done, mut at) = (0, from);
        while at < text.len() {
            match walk(self.known, text, at, end) {
                Walked::Nothing => at += 1,
                Walked::Value { pattern, to } => {
                    self.out.extend_from_slice(&text[done..at]);
                    self.out.extend_from_slice(self.known.mark(pattern).as_bytes());
                    (done, at) = (to, to);
                }
                Walked::Begun(begun) => {
                    self.out.extend_from_slice(&text[done..at]);
                    self.held = text[at..].to_vec();
                    self.begun = Some(begun);
                    return;
                }
            }
        }
        self.out.extend_from_slice(&text[done..]);
    }
}

/// Whether there is any sequence.
pub(super) fn may_paint(text: &[u8]) -> bool {
    sequence::first_lead(text, End::Over).is_some()
}

/// What begins at a place.
enum Walked {
    Nothing,
    Value { pattern: usize, to: usize },
    Begun(Begun),
}

/// The longest value that begins at `start`, every sequence in it passed over.
fn walk(known: &Known, text: &[u8], start: usize, end: End) -> Walked {
    let mut like = known.beginning_with(text[start]);
    let (mut depth, mut at) = (1, start + 1);
    let mut painted = 0;
    // Where the last sequence ended.
    let mut bare = start;
    let mut found = Walked::Nothing;
    let mut gaps: Vec<Gap> = Vec::new();
    while !like.is_empty() {
        if known.length(like.start) == depth {
            found = Walked::Value { pattern: like.start, to: at };
            like.start += 1;
            continue;
        }
        // One more than may be passed over is enough to see that it is too much.
        let left = PAINT_BYTES_MAX - painted;
        let rest = &text[at..text.len().min(at + left + 1)];
        let before = text[bare..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        let skipped = match (sequence(rest, before), end) {
            _ if rest.is_empty() && end == End::Open => {
                let (pattern, bytes) = (like.start as u32, depth as u32);
                return Walked::Begun(Begun { pattern, bytes, gaps });
            }
            (Sequence::None, _) => {
                let Some(next) = rest.first() else { return found };
                like = known.going_on_with(like, depth, *next);
                (depth, at) = (depth + 1, at + 1);
                continue;
            }
            (Sequence::Cut | Sequence::Unclosed(_), End::Open) if rest.len() <= left => rest.len(),
            (Sequence::Whole(length) | Sequence::Unclosed(length), _) if length <= left => length,
            (Sequence::Whole(_) | Sequence::Unclosed(_) | Sequence::Cut, _) => return found,
        };
        painted += skipped;
        note(&mut gaps, depth, &rest[..skipped]);
        at += skipped;
        bare = at;
    }
    found
}

fn note(gaps: &mut Vec<Gap>, depth: usize, skipped: &[u8]) {
    let text = String::from_utf8_lossy(skipped);
    match gaps.last_mut().filter(|gap| gap.at as usize == depth) {
        Some(gap) => gap.text += &text,
        None => gaps.push(Gap { at: depth as u32, text: text.into_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known::new([("K".to_owned(), "hunter2-hunter2".to_owned())])
    }

    fn through(text: &str) -> String {
        let known = known();
        let mut brush = Brush::new(&known, Vec::new(), text.len());
        brush.piece(text.as_bytes(), &[], End::Over);
        String::from_utf8(brush.done().0).unwrap()
    }

    fn painted(before: &str, after: &str) -> String {
        "hunter2-hunter2".chars().map(|c| format!("{before}{c}{after}")).collect()
    }

    #[test]
    fn a_value_with_sequences_of_any_kind_in_it_is_found() {
        let long = format!("\u{1b}]8;id=1;https://example.com/{}\u{7}", "x".repeat(900));
        for (before, after) in [
            ("\u{1b}[1;31m", "\u{1b}[0m"),
            ("", "\u{1b}(B\u{1b}[m"),
            ("\u{1b}]0;title\u{7}", ""),
            ("", "\u{1b}]8;;https://example.com/é\u{1b}\\"),
            ("", &*long),
            ("", "\u{1b}P1$r0m\u{1b}\\\u{1b}7"),
            ("", r"\u001b[31m"),
            ("", r"\\\\u001B[38;2;1;2;3m"),
            ("", r"\u001b]0;t\u0007\u001b(B"),
            // No string of which there is an end.
            ("", "\u{1b}]"),
        ] {
            let text = format!("a {} b", painted(before, after));
            assert_eq!(through(&text), format!("a {before}[redacted:K]{after} b"), "{text}");
        }
    }

    #[test]
    fn a_backslash_of_a_value_is_told_from_those_of_a_sequence_behind_it() {
        let known = Known::new([("K".to_owned(), "one\\two\\".to_owned())]);
        let mut text: String = "one\\two\\".chars().map(|c| format!("{c}\u{1b}[1m")).collect();
        for layer in 0..4 {
            let mut brush = Brush::new(&known, Vec::new(), 0);
            brush.piece(text.as_bytes(), &[], End::Over);
            let out = String::from_utf8(brush.done().0).unwrap();
            assert!(out.starts_with("[redacted:K]"), "layer {layer}: {out}");
            let quoted = serde_json::Value::from(text).to_string();
            text = quoted[1..quoted.len() - 1].to_owned();
        }
    }

    #[test]
    fn what_no_value_runs_through_is_left_as_it_is() {
        for text in [
            "\u{1b}[31mred\u{1b}[0m",
            "hunter2\u{1b}[31mred",
            "hunter2-\u{1b}",
            "hunter2-\u{1b}[",
            "hunter2-\u{1b}[31",
            "hunter2-\u{1b}]0;never closed",
            r"hunter2-\\\u00",
            "",
        ] {
            assert_eq!(through(text), text);
        }
    }

    #[test]
    fn a_value_is_looked_for_through_so_many_bytes_of_sequences_and_no_more() {
        let value = |bytes: usize| {
            let digits = bytes - "\u{1b}[m".len();
            format!("hunter2-\u{1b}[{}mhunter2", "1".repeat(digits))
        };
        assert_eq!(through(&value(PAINT_BYTES_MAX)), "[redacted:K]");
        let beyond = value(PAINT_BYTES_MAX + 1);
        assert_eq!(through(&beyond), beyond);
    }

    #[test]
    fn what_is_begun_names_its_pattern_and_can_be_had_again() {
        let known = known();
        let text = "so h\u{1b}[1mun\u{1b}]0;t";
        let mut brush = Brush::new(&known, Vec::new(), 0);
        brush.piece(text.as_bytes(), &[], End::Open);
        let (out, begun) = brush.done();
        let begun = begun.expect("a value is begun");
        assert_eq!(out, b"so ");
        assert_eq!(begun.bytes, 3);
        assert_eq!(begun.text(&known).as_deref(), Some(&text.as_bytes()[3..]));
        assert!(!serde_json::to_string(&begun).unwrap().contains("un"));
        assert_eq!(begun.text(&Known::default()), None);
    }
}
