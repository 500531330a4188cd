//! One live run, upward: records of the spool become lines, and the dialect hears them in order.
//! Knows no runtime by name and keeps no bytes but the unfinished lines, up to a bound, and the end of
//! stderr; a line beyond that bound is read back from the spool once it is whole. If
//! the agent dies first, the keeper testifies; if we die first, a successor goes on from `Marks`.

use crate::frame::{self, Line, Lines, Mark, SpooledLine};
use crate::trace::Tracer;
use contract::limits::STDERR_TAIL_BYTES;
use keeper::record::{Kind, LEASE, Note, Testimony};
use keeper::spool::{Reader, SpoolError};
use runtimes::{Dialect, Frame, Out, Stream};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
    dir: PathBuf,
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
            dir: dir.to_owned(),
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
        let mut listener = Listener { dir: &self.dir, dialect, tracer, out, failed: None };
        let heard = match record.kind {
            Kind::Out => {
                let hear = |line: Line<'_>| listener.hear(Stream::Stdout, &line);
                self.stdout.push(offset, next, record.payload, hear);
                Heard::Output
            }
            Kind::Err => {
                self.stderr_tail.push(record.payload);
                let hear = |line: Line<'_>| listener.hear(Stream::Stderr, &line);
                self.stderr.push(offset, next, record.payload, hear);
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
        if let Some(error) = listener.failed {
            return Err(error);
        }
        self.stdout.pass(next);
        self.stderr.pass(next);
        Ok(Some(heard))
    }

    /// No more will come: unfinished lines are heard as they are.
    pub fn close(&mut self, dialect: &mut dyn Dialect, tracer: &mut Tracer, out: &mut Out) {
        let mut listener = Listener { dir: &self.dir, dialect, tracer, out, failed: None };
        self.stdout.close(|line| listener.hear(Stream::Stdout, &line));
        self.stderr.close(|line| listener.hear(Stream::Stderr, &line));
        if let Some(error) = listener.failed {
            tracing::warn!(%error, "the last line of the run cannot be read back from its spool");
        }
    }
}

fn tells_lease_end(note: &[u8]) -> bool {
    // A note of a later version that is not known here tells nothing else.
    matches!(serde_json::from_slice(note), Ok(Note::StopAsked { reason, .. }) if reason == LEASE)
}

/// Lets the dialect hear lines. One that was too long to be held is read back first.
struct Listener<'a> {
    dir: &'a Path,
    dialect: &'a mut dyn Dialect,
    tracer: &'a mut Tracer,
    out: &'a mut Out,
    /// Why a line could not be read back; nothing is heard after it.
    failed: Option<SpoolError>,
}

impl Listener<'_> {
    fn hear(&mut self, stream: Stream, line: &Line<'_>) {
        if self.failed.is_some() {
            return;
        }
        let Some(spooled) = line.spooled else { return self.tell(stream, line) };
        match read_back(self.dir, stream, spooled) {
            Ok(bytes) => self.tell(stream, &frame::bounded(line.number, &bytes)),
            Err(error) => self.failed = Some(error),
        }
    }

    fn tell(&mut self, stream: Stream, line: &Line<'_>) {
        let frame = Frame { stream, line: line.number, bytes: line.bytes, cut: line.cut };
        self.tracer.hear(self.dialect, &frame, self.out);
    }
}

/// Reads a whole line from the spool, which holds it at least until the line was heard.
fn read_back(dir: &Path, stream: Stream, line: SpooledLine) -> Result<Vec<u8>, SpoolError> {
    let kind = match stream {
        Stream::Stdout => Kind::Out,
        Stream::Stderr => Kind::Err,
    };
    let mut reader = Reader::open(dir, line.from.record)?;
    let skip = usize::try_from(line.from.skip).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(line.length);
    while bytes.len() < line.length {
        let offset = reader.offset();
        let Some(record) = reader.next()? else {
            return Err(SpoolError::Shorter { offset: offset + 1, end: offset });
        };
        let is_first = offset == line.from.record;
        if record.kind == kind {
            let from = if is_first { skip.min(record.payload.len()) } else { 0 };
            let wanted = (line.length - bytes.len()).min(record.payload.len() - from);
            bytes.extend_from_slice(&record.payload[from..from + wanted]);
        }
    }
    Ok(bytes)
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
    use contract::limits::LINE_BYTES_HELD_MAX;

    /// A spool in which a line of three times what is held stands between shorter ones of both streams.
    #[test]
    fn a_line_too_long_to_hold_is_read_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let fd = std::os::fd::OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let mut spool = keeper::spool::Spool::create(fd, 256 * 1024).unwrap();
        let long: Vec<u8> = (0..3 * LINE_BYTES_HELD_MAX).map(|n| b'a' + (n % 23) as u8).collect();
        let text = [b"first\n", &long[..], b"\r\nlast\n"].concat();
        for chunk in text.chunks(50_000) {
            spool.append(Kind::Out, 0, 0, chunk);
            spool.append(Kind::Err, 0, 0, b"between\n");
        }
        let mut reader = Reader::open(dir.path(), 0).unwrap();
        let (mut lines, mut heard) = (Lines::default(), Vec::new());
        loop {
            let offset = reader.offset();
            let Some(record) = reader.next().unwrap() else { break };
            let next = offset + record.spool_bytes() as u64;
            if record.kind == Kind::Out {
                lines.push(offset, next, record.payload, |line| {
                    heard.push(match line.spooled {
                        None => line.bytes.to_vec(),
                        Some(spooled) => {
                            assert!(line.bytes.len() < long.len() / 3, "only the head is held");
                            let whole = read_back(dir.path(), Stream::Stdout, spooled).unwrap();
                            frame::bounded(line.number, &whole).bytes.to_vec()
                        }
                    });
                });
            }
            lines.pass(next);
        }
        assert_eq!(heard.len(), 3);
        assert!(heard[1] == long && heard[0] == b"first" && heard[2] == b"last");
    }

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
