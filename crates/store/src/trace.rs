//! The sealed copy of an agent's raw output: `traces/<run>.ndjson`, one JSON object for each line
//! heard, in the order of hearing. It takes `Sealed` text only. Its one writer is the run's driver,
//! which writes lines before it commits the events that name them, and keeps the length with the
//! Batch, so that a successor cuts off what was written and not committed and goes on from there.
//! See `docs/decisions/0006-the-trace-is-a-file.md`.

use crate::disk;
use crate::error::Error;
use crate::seal::Sealed;
use contract::RunId;
use contract::event::Stream;
use contract::limits::TRACE_LINE_BYTES_MAX;
use failpoint::Point;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// How far a trace was written; kept with every Batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceMark {
    pub bytes: u64,
    pub bytes_max: u64,
    /// The limit was reached, and the last line says so.
    pub full: bool,
}

/// The writing end of one run's trace.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    /// Made with the first line.
    file: Option<File>,
    mark: TraceMark,
    /// Lines that are not in the file yet.
    waiting: Vec<u8>,
}

/// One line, as it is written.
#[derive(Serialize)]
struct Line<'a> {
    stream: Stream,
    line: u64,
    text: &'a str,
    /// How long the line was, when only its beginning is kept; 0 when nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<u64>,
}

/// Room that is kept free for the line that says that the trace is full.
const LAST_WORDS_BYTES: u64 = 256;

pub(crate) fn path(folder: &Path, run: RunId) -> PathBuf {
    folder.join(format!("{run}.ndjson"))
}

impl Trace {
    /// A new trace of at most `bytes_max`.
    pub(crate) fn new(path: PathBuf, bytes_max: u64) -> Self {
        let mark = TraceMark { bytes: 0, bytes_max, full: false };
        Self { path, file: None, mark, waiting: Vec::new() }
    }

    /// Goes on where the last Batch left it. What was written after that Batch will be heard again
    /// and is cut off; what a power cut took is named in its place.
    pub(crate) fn resume(path: PathBuf, mark: TraceMark) -> Result<Self, Error> {
        let mut trace = Self { path, file: None, mark, waiting: Vec::new() };
        let there = match std::fs::metadata(&trace.path) {
            Ok(found) => found.len(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => 0,
            Err(cause) => return Err(trace.failed("opening", cause)),
        };
        if there > mark.bytes {
            let path = trace.path.clone();
            let cut = disk::cut(trace.file()?, &path, mark.bytes);
            cut.map_err(|cause| trace.failed("cutting", cause))?;
            failpoint::hit(Point::TraceCut);
        } else if there < mark.bytes {
            let lost = mark.bytes - there;
            trace.mark.bytes = there;
            // The first byte after a torn line begins a new one.
            trace.waiting.push(b'\n');
            trace.note(&format!("the next {lost} bytes of this trace were lost with the machine"));
        }
        Ok(trace)
    }

    /// How far the file is written.
    pub fn mark(&self) -> TraceMark {
        self.mark
    }

    /// Takes a line. False when it is not kept, because the trace is full.
    pub fn hear(&mut self, stream: Stream, line: u64, text: &Sealed, cut: bool) -> bool {
        if self.mark.full {
            return false;
        }
        let whole = String::from_utf8_lossy(text.bytes());
        let shown = &whole[..whole.floor_char_boundary(TRACE_LINE_BYTES_MAX)];
        let cut = match (cut, shown.len() < whole.len()) {
            (true, _) => Some(0),
            (false, true) => Some(whole.len() as u64),
            (false, false) => None,
        };
        let before = self.waiting.len();
        self.push(&Line { stream, line, text: shown, cut });
        let bytes = self.mark.bytes + self.waiting.len() as u64;
        if bytes + LAST_WORDS_BYTES > self.mark.bytes_max {
            self.waiting.truncate(before);
            self.mark.full = true;
            self.note(&format!(
                "the trace ends here: of a run's output at most {} bytes are kept",
                self.mark.bytes_max
            ));
            return false;
        }
        true
    }

    fn note(&mut self, text: &str) {
        self.push(&Line { stream: Stream::Ostler, line: 0, text, cut: None });
    }

    fn push(&mut self, line: &Line<'_>) {
        // Writing to a Vec cannot fail, and every field is text or a number.
        let _ = serde_json::to_writer(&mut self.waiting, line);
        self.waiting.push(b'\n');
    }

    /// Writes what was heard. After a failure the file holds whole lines up to its mark or more.
    pub fn write(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let at = self.mark.bytes;
        let waiting = std::mem::take(&mut self.waiting);
        let path = self.path.clone();
        let written = disk::write_at(self.file()?, &path, at, &waiting);
        if let Err(cause) = written {
            if let Err(error) = disk::cut(self.file()?, &path, at) {
                let path = path.display();
                tracing::warn!(%path, %error, "a trace may end in a part of a line");
            }
            return Err(self.failed("writing", cause));
        }
        failpoint::hit(Point::TraceWritten);
        self.mark.bytes += waiting.len() as u64;
        self.waiting = waiting;
        self.waiting.clear();
        // One huge line must not hold its memory for the rest of the run.
        self.waiting.shrink_to(TRACE_LINE_BYTES_MAX);
        Ok(())
    }

    /// Durable when it returns, with its name.
    pub fn sync(&self) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let folder = self.path.parent().unwrap_or(&self.path);
        disk::sync(file, &self.path)
            .and_then(|()| disk::sync_folder(folder))
            .and_then(|()| disk::sync_folder_above(folder))
            .map_err(|cause| self.failed("syncing", cause))
    }

    fn file(&mut self) -> Result<&File, Error> {
        if self.file.is_none() {
            let opened = disk::make_folder(self.path.parent().unwrap_or(&self.path))
                .and_then(|()| disk::open_to_write(&self.path));
            self.file = Some(opened.map_err(|cause| self.failed("opening", cause))?);
        }
        self.file.as_ref().ok_or_else(|| Error::conflict("a trace without its file"))
    }

    fn failed(&self, doing: &str, cause: io::Error) -> Error {
        Error::io(format!("{doing} {}", self.path.display()), cause)
    }
}

/// The reading end of a trace: whole lines, a piece at a time.
#[derive(Debug)]
pub struct TraceReader {
    file: File,
    held: Vec<u8>,
}

/// How much is read at once.
const PIECE_BYTES: u64 = 64 * 1024;

impl TraceReader {
    /// `None` when there is no such trace.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self { file, held: Vec::new() })),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::io(format!("opening {}", path.display()), cause)),
        }
    }

    /// The next lines; `None` at the end. A line that is being written is not given yet.
    pub fn lines(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let read = (&mut self.file).take(PIECE_BYTES).read_to_end(&mut self.held);
            if read.map_err(|cause| Error::io("reading a trace".to_owned(), cause))? == 0 {
                return Ok(None);
            }
            if let Some(last) = memchr::memrchr(b'\n', &self.held) {
                let rest = self.held.split_off(last + 1);
                return Ok(Some(std::mem::replace(&mut self.held, rest)));
            }
        }
    }

    /// Everything there is, to a file or a pipe.
    pub fn copy(&mut self, to: &mut impl io::Write) -> Result<(), Error> {
        while let Some(lines) = self.lines()? {
            to.write_all(&lines).map_err(|cause| Error::io("copying a trace".to_owned(), cause))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Seal;
    use std::os::unix::fs::PermissionsExt as _;

    fn sealed(text: &str) -> Sealed {
        Seal::default().line(text.as_bytes())
    }

    fn heard(trace: &mut Trace, lines: std::ops::Range<u64>) {
        for line in lines {
            assert!(trace.hear(Stream::Stdout, line, &sealed(&format!("line {line}")), false));
        }
        trace.write().unwrap();
    }

    fn read(path: &Path) -> Vec<String> {
        let mut bytes = Vec::new();
        TraceReader::open(path).unwrap().unwrap().copy(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_kept_in_order_by_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("traces/one.ndjson");
        let mut trace = Trace::new(path.clone(), 10_000);
        assert!(trace.hear(Stream::Stdout, 1, &sealed("a \"b\""), false));
        assert!(trace.hear(Stream::Stderr, 1, &sealed(""), true));
        trace.write().unwrap();
        trace.sync().unwrap();
        insta::assert_snapshot!(read(&path).join("\n"), @r##"
        {"stream":"stdout","line":1,"text":"a \"b\""}
        {"stream":"stderr","line":1,"text":"","cut":0}
        "##);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(trace.mark().bytes, std::fs::metadata(&path).unwrap().len());
    }

    #[test]
    fn a_successor_goes_on_without_gap_or_double() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.ndjson");
        let mut trace = Trace::new(path.clone(), 10_000);
        heard(&mut trace, 1..3);
        let committed = trace.mark();
        heard(&mut trace, 3..6);
        drop(trace);
        let mut next = Trace::resume(path.clone(), committed).unwrap();
        heard(&mut next, 3..5);
        let lines = read(&path);
        assert_eq!(lines.len(), 4);
        for (line, n) in lines.iter().zip(1..) {
            assert!(line.contains(&format!("\"line\":{n},")), "{line}");
        }
    }

    #[test]
    fn what_a_power_cut_took_is_named_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.ndjson");
        let mut trace = Trace::new(path.clone(), 10_000);
        heard(&mut trace, 1..4);
        let committed = trace.mark();
        File::options().write(true).open(&path).unwrap().set_len(committed.bytes - 50).unwrap();
        let mut next = Trace::resume(path.clone(), committed).unwrap();
        heard(&mut next, 4..5);
        let lines = read(&path);
        assert!(
            lines.iter().any(|line| line.contains("the next 50 bytes of this trace were lost"))
        );
        assert!(lines.last().unwrap().contains("\"line\":4,"), "{lines:?}");
    }

    #[test]
    fn a_long_line_is_cut_and_says_how_long_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.ndjson");
        let mut trace = Trace::new(path.clone(), 10 * TRACE_LINE_BYTES_MAX as u64);
        let long = format!("x{}", "é".repeat(TRACE_LINE_BYTES_MAX));
        assert!(trace.hear(Stream::Stdout, 1, &sealed(&long), false));
        trace.write().unwrap();
        let line: serde_json::Value = serde_json::from_str(&read(&path)[0]).unwrap();
        assert_eq!(line["cut"], long.len() as u64);
        assert_eq!(line["text"].as_str().unwrap().len(), TRACE_LINE_BYTES_MAX - 1);
    }

    #[test]
    fn a_full_trace_says_so_once_and_keeps_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.ndjson");
        let mut trace = Trace::new(path.clone(), 1_000);
        let kept = (1..100).filter(|n| trace.hear(Stream::Stdout, *n, &sealed(""), false)).count();
        trace.write().unwrap();
        let lines = read(&path);
        assert_eq!(lines.len(), kept + 1);
        assert!(lines[kept].contains("the trace ends here"), "{}", lines[kept]);
        assert!(trace.mark().full && trace.mark().bytes <= 1_000);
    }

    #[test]
    fn a_line_that_is_being_written_is_not_given_yet() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.ndjson");
        std::fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
        assert_eq!(read(&path), ["{\"a\":1}"]);
    }
}
