//! One live run, upward: records of the spool become lines, and the dialect hears them in order.
//! Knows no runtime by name and keeps no bytes but the unfinished lines and the end of stderr. If
//! the agent dies first, the keeper testifies; if we die first, a successor goes on from `Marks`.

use crate::frame::{Line, Lines, Mark};
use crate::trace::Tracer;
use contract::limits::STDERR_TAIL_BYTES;
use keeper::record::{Kind, LEASE, Note, Testimony};
use keeper::spool::{Reader, SpoolError};
use runtimes::{Dialect, Frame, Out, Stream};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How far a run's spool was heard, line by line; stored in every Batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Marks {
    pub stdout: Mark,
    pub stderr: Mark,
}

impl Marks {
    /// Where a successor must begin to read: no unfinished line began before it.
    pub fn offset(&self) -> u64 {
        self.stdout.record.min(self.stderr.record)
    }
}

/// The reading end of one attempt's spool.
pub struct Intake {
    reader: Reader,
    stdout: Lines,
    stderr: Lines,
    stderr_tail: Tail,
    testimony: Option<Testimony>,
}

/// What the next record was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Output,
    /// The keeper's own bookkeeping.
    Note,
    /// The keeper stops the agent because nobody has renewed its lease in time.
    LeaseEnds,
    /// The last record of all; the testimony is there.
    Exit,
}

impl Intake {
    pub fn open(dir: &Path, marks: Marks) -> Result<Self, SpoolError> {
        Ok(Self {
            reader: Reader::open(dir, marks.offset())?,
            stdout: Lines::from_mark(marks.stdout),
            stderr: Lines::from_mark(marks.stderr),
            stderr_tail: Tail::default(),
            testimony: None,
        })
    }

    pub fn marks(&self) -> Marks {
        Marks { stdout: self.stdout.mark(), stderr: self.stderr.mark() }
    }

    pub fn testimony(&self) -> Option<&Testimony> {
        self.testimony.as_ref()
    }

    pub fn stderr_tail(&self) -> String {
        String::from_utf8_lossy(self.stderr_tail.whole_lines()).into_owned()
    }

    /// Lets the dialect hear the next record. `None` when no record is complete yet.
    pub fn next(
        &mut self,
        dialect: &mut dyn Dialect,
        tracer: &mut Tracer,
        out: &mut Out,
    ) -> Result<Option<Heard>, SpoolError> {
        let offset = self.reader.offset();
        let Some(record) = self.reader.next()? else { return Ok(None) };
        let next = offset + record.spool_bytes() as u64;
        let heard = match record.kind {
            Kind::Out => {
                self.stdout.push(offset, next, record.payload, |line| {
                    tracer.hear(dialect, &frame(Stream::Stdout, &line), out);
                });
                Heard::Output
            }
            Kind::Err => {
                self.stderr_tail.push(record.payload);
                self.stderr.push(offset, next, record.payload, |line| {
                    tracer.hear(dialect, &frame(Stream::Stderr, &line), out);
                });
                Heard::Output
            }
            Kind::Exit => {
                self.testimony = serde_json::from_slice(record.payload).ok();
                Heard::Exit
            }
            Kind::Note if tells_lease_end(record.payload) => Heard::LeaseEnds,
            Kind::Begin | Kind::Said | Kind::Dropped | Kind::StdinBroken | Kind::Note => {
                Heard::Note
            }
        };
        self.stdout.pass(next);
        self.stderr.pass(next);
        Ok(Some(heard))
    }

    /// No more will come: unfinished lines are heard as they are.
    pub fn close(&mut self, dialect: &mut dyn Dialect, tracer: &mut Tracer, out: &mut Out) {
        self.stdout.close(|line| tracer.hear(dialect, &frame(Stream::Stdout, &line), out));
        self.stderr.close(|line| tracer.hear(dialect, &frame(Stream::Stderr, &line), out));
    }
}

fn tells_lease_end(note: &[u8]) -> bool {
    // A note of a later version that is not known here tells nothing else.
    matches!(serde_json::from_slice(note), Ok(Note::StopAsked { reason, .. }) if reason == LEASE)
}

fn frame<'a>(stream: Stream, line: &Line<'a>) -> Frame<'a> {
    Frame { stream, line: line.number, bytes: line.bytes, cut: line.cut }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    /// Something before these bytes was let go.
    cut: bool,
}

impl Tail {
    fn push(&mut self, chunk: &[u8]) {
        self.cut |= self.bytes.len() + chunk.len() > STDERR_TAIL_BYTES;
        let chunk = &chunk[chunk.len().saturating_sub(STDERR_TAIL_BYTES)..];
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(STDERR_TAIL_BYTES);
        self.bytes.drain(..excess);
        self.bytes.extend_from_slice(chunk);
    }

    /// From the first line that is there as a whole: the half of a secret is not known as one.
    fn whole_lines(&self) -> &[u8] {
        match (self.cut, memchr::memchr(b'\n', &self.bytes)) {
            (false, _) => &self.bytes,
            (true, Some(end)) => &self.bytes[end + 1..],
            (true, None) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_end_and_no_more() {
        let mut tail = Tail::default();
        tail.push(&[b'a'; STDERR_TAIL_BYTES]);
        tail.push(b"end");
        assert_eq!(tail.whole_lines(), b"", "half a line is no line");
        assert_eq!(
            (tail.bytes.len(), &tail.bytes[tail.bytes.len() - 4..]),
            (STDERR_TAIL_BYTES, &b"aend"[..])
        );
        tail.push(&[b'b'; 3 * STDERR_TAIL_BYTES]);
        assert!(
            tail.bytes.len() == STDERR_TAIL_BYTES && tail.bytes.iter().all(|byte| *byte == b'b')
        );
        tail.push(b"\nlast\nwords");
        assert_eq!(tail.whole_lines(), b"last\nwords");
    }
}
