//! Bytes to lines, bounded. A chunk may end anywhere: what is left waits for the next one, and the
//! lines that come out are the same however the bytes were cut. A line longer than the limit is
//! handed on once, as its head with `cut` set, and the rest of it is passed over.
//!
//! Of an unfinished line that is longer than `LINE_BYTES_HELD_MAX` only the head stays in memory.
//! When such a line is whole, the caller reads it back from the spool (`intake.rs`).
//!
//! Also keeps, for each stream, where in the spool its unfinished line began, so that a successor
//! can go on from there without our memory.

use contract::limits::{LINE_BYTES_HELD_MAX, LINE_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Where the first byte that is not yet part of a heard line stands: the record it came in, how far
/// into that record's payload, and how many lines came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    pub record: u64,
    pub skip: u64,
    pub line: u64,
    /// Set while the rest of an over-long line is passed over: its head was heard.
    #[serde(default)]
    pub overlong: bool,
}

/// One stream being cut into lines.
#[derive(Debug, Default)]
pub struct Lines {
    mark: Mark,
    /// The unfinished line, or its head when `spooled`.
    held: Vec<u8>,
    /// Length of the unfinished line.
    length: usize,
    /// Set while the unfinished line is too long to be held.
    spooled: bool,
}

/// One line, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub number: u64,
    /// The whole line, or its head when `cut` or `spooled` says so.
    pub bytes: &'a [u8],
    pub cut: bool,
    /// Where the whole line is, when it was too long to be held.
    pub spooled: Option<SpooledLine>,
}

/// A line in the spool: its first byte, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpooledLine {
    pub from: Mark,
    pub length: usize,
}

impl Lines {
    /// Goes on where a predecessor stopped.
    pub fn from_mark(mark: Mark) -> Self {
        Self { mark, ..Self::default() }
    }

    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Takes a record's payload and hands on every line it completes. `record` is the record's own
    /// offset and `next` the offset behind it. What a predecessor already heard is passed over.
    pub fn push(&mut self, record: u64, next: u64, payload: &[u8], mut hear: impl FnMut(Line<'_>)) {
        let skip = match record.cmp(&self.mark.record) {
            std::cmp::Ordering::Less => return,
            std::cmp::Ordering::Equal => usize::try_from(self.mark.skip).unwrap_or(usize::MAX),
            std::cmp::Ordering::Greater => 0,
        };
        // Bytes of the marked record that are already held must not be taken twice: `held` is only
        // ever filled from records behind it, or from its own tail on the first visit.
        let mut from = skip.min(payload.len());
        while let Some(length) = memchr::memchr(b'\n', &payload[from..]) {
            let end = from + length;
            self.finish(&payload[from..end], &mut hear);
            from = end + 1;
            let line = self.mark.line + 1;
            self.mark = Mark { record, skip: from as u64, line, overlong: false };
        }
        self.hold(&payload[from..], &mut hear);
        self.pass(next);
    }

    /// A record went by that holds no unfinished line of this stream.
    pub fn pass(&mut self, next: u64) {
        if self.held.is_empty() && self.mark.record < next {
            self.mark = Mark { record: next, skip: 0, ..self.mark };
        }
    }

    /// The last line, when the output ended without a newline.
    pub fn close(&mut self, mut hear: impl FnMut(Line<'_>)) {
        if !self.held.is_empty() {
            self.finish(&[], &mut hear);
            self.mark.line += 1;
        }
        self.forget();
    }

    fn finish(&mut self, tail: &[u8], hear: &mut impl FnMut(Line<'_>)) {
        if self.mark.overlong {
            return;
        }
        let number = self.mark.line + 1;
        if self.held.is_empty() {
            hear(bounded(number, tail));
            return;
        }
        let length = self.length + tail.len();
        if self.spooled && length <= LINE_BYTES_MAX {
            let spooled = Some(SpooledLine { from: self.mark, length });
            hear(Line { number, bytes: &self.held, cut: false, spooled });
        } else if self.spooled {
            hear(head(number, &self.held));
        } else {
            self.held.extend_from_slice(tail);
            hear(bounded(number, &self.held));
        }
        self.held.clear();
        // One huge line must not hold its memory for the rest of the run.
        self.held.shrink_to(contract::limits::TEXT_BYTES_MAX);
        (self.length, self.spooled) = (0, false);
    }

    fn hold(&mut self, tail: &[u8], hear: &mut impl FnMut(Line<'_>)) {
        if self.mark.overlong {
            return;
        }
        self.length += tail.len();
        if !self.spooled {
            self.held.extend_from_slice(tail);
            self.spooled = self.held.len() > LINE_BYTES_HELD_MAX;
            if self.spooled {
                self.held.truncate(OVERLONG_HEAD_BYTES);
                self.held.shrink_to_fit();
            }
        }
        if self.length > LINE_BYTES_MAX {
            hear(head(self.mark.line + 1, &self.held));
            self.forget();
            self.mark.overlong = true;
        }
    }

    /// Lets go of the unfinished line.
    fn forget(&mut self) {
        (self.held, self.length, self.spooled) = (Vec::new(), 0, false);
    }
}

/// What is handed on of a line that is longer than allowed.
const OVERLONG_HEAD_BYTES: usize = contract::limits::TEXT_BYTES_MAX;

/// A line that is longer than allowed.
fn head(number: u64, bytes: &[u8]) -> Line<'_> {
    let bytes = &bytes[..bytes.len().min(OVERLONG_HEAD_BYTES)];
    Line { number, bytes, cut: true, spooled: None }
}

/// A whole line, bounded.
pub fn bounded(number: u64, bytes: &[u8]) -> Line<'_> {
    if bytes.len() > LINE_BYTES_MAX {
        return head(number, bytes);
    }
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    Line { number, bytes, cut: false, spooled: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds chunks as records of a pretend spool: 24 bytes of header before each payload.
    fn feed(lines: &mut Lines, chunks: &[&[u8]], heard: &mut Vec<String>) -> Vec<(u64, u64)> {
        let mut offset = 0;
        let mut records = Vec::new();
        for chunk in chunks {
            let next = offset + 24 + chunk.len() as u64;
            records.push((offset, next));
            lines.push(offset, next, chunk, |line| {
                heard.push(format!("{}:{}", line.number, String::from_utf8_lossy(line.bytes)));
            });
            offset = next;
        }
        records
    }

    #[test]
    fn a_line_cut_in_half_is_heard_once() {
        let mut heard = Vec::new();
        let mut lines = Lines::default();
        feed(&mut lines, &[b"on", b"e\ntw", b"o\r\n", b"\nlast"], &mut heard);
        lines.close(|line| {
            heard.push(format!("{}:{}", line.number, String::from_utf8_lossy(line.bytes)))
        });
        assert_eq!(heard, ["1:one", "2:two", "3:", "4:last"]);
    }

    #[test]
    fn a_line_longer_than_the_limit_is_heard_once_as_its_head() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 16 * 1024 * 1024];
        let mut heard = Vec::new();
        for record in 0..5 {
            lines.push(record, record + 1, &chunk, |line| {
                heard.push((line.number, line.bytes.len(), line.cut))
            });
        }
        lines.push(9, 10, b"tail\nnext\n", |line| {
            heard.push((line.number, line.bytes.len(), line.cut))
        });
        assert_eq!(heard, [(1, OVERLONG_HEAD_BYTES, true), (2, 4, false)]);
    }

    #[test]
    fn an_unfinished_line_holds_no_more_than_its_head() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 64 * 1024];
        let records = 4 * LINE_BYTES_HELD_MAX / chunk.len();
        let mut heard = Vec::new();
        for record in 0..records as u64 {
            lines.push(record, record + 1, &chunk, |line| heard.push(line.number));
            let held = lines.held.capacity();
            assert!(held <= 2 * LINE_BYTES_HELD_MAX, "{held} bytes held at record {record}");
        }
        assert!(lines.held.capacity() <= OVERLONG_HEAD_BYTES && heard.is_empty());
        let mut whole = None;
        lines.push(9_999, 10_000, b"end\nnext\n", |line| match line.number {
            1 => whole = line.spooled,
            _ => assert_eq!((line.number, line.bytes, line.spooled), (2, &b"next"[..], None)),
        });
        let length = records * chunk.len() + 3;
        assert_eq!(whole, Some(SpooledLine { from: Mark::default(), length }));
    }

    #[test]
    fn a_successor_in_the_middle_of_an_overlong_line_hears_no_head_twice_and_no_tail_as_a_line() {
        let chunk = vec![b'x'; 16 * 1024 * 1024];
        let mut heard = Vec::new();
        let mut before = Lines::default();
        for record in 0..6 {
            before.push(record, record + 1, &chunk, |line| heard.push((line.number, line.cut)));
        }
        let mark = before.mark();
        assert_eq!(mark.record, 6, "what was passed over is needed by nobody");
        let mut after = Lines::from_mark(mark);
        for record in mark.record..8 {
            after.push(record, record + 1, &chunk, |line| heard.push((line.number, line.cut)));
        }
        after.push(8, 9, b"tail\nnext\n", |line| heard.push((line.number, line.cut)));
        assert_eq!(heard, [(1, true), (2, false)]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines_and_any_successor_goes_on(
            text in "[ab\n\r]{0,60}",
            cuts in prop::collection::vec(0usize..60, 0..8),
            stop in 0usize..8,
        ) {
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();

            let mut whole = Vec::new();
            let mut one = Lines::default();
            feed(&mut one, &[text.as_bytes()], &mut whole);

            let mut split = Vec::new();
            let mut lines = Lines::default();
            let records = feed(&mut lines, &chunks, &mut split);
            prop_assert_eq!(&whole, &split);

            // A successor hears every record again from the start, knowing only the mark.
            let stop = stop.min(chunks.len());
            let mut first = Vec::new();
            let mut before = Lines::default();
            feed(&mut before, &chunks[..stop], &mut first);
            let mut after = Lines::from_mark(before.mark());
            for (chunk, (offset, next)) in chunks.iter().zip(&records) {
                after.push(*offset, *next, chunk, |line| {
                    first.push(format!("{}:{}", line.number, String::from_utf8_lossy(line.bytes)));
                });
            }
            prop_assert_eq!(&whole, &first);
        }
    }
}
