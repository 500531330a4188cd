//! Server-sent events, read: bytes in, however they were cut, records out. No IO and no clock. By the
//! published rules: any line end, several `data` lines in one event, comments, fields in any order;
//! but for the id, which counts for its own event alone, because events are numbered here.
//! What is kept of an unfinished event is bounded: what never ends is refused at a limit.

use std::collections::VecDeque;

/// What a stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An event. Its lines of data are joined by blanks: it is one line of JSON from here on.
    Event { id: Option<String>, data: Vec<u8> },
    /// A comment, or an event without data: whoever sends it is there.
    Still,
}

/// One event, or one line, that is longer than any may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The byte order mark that may begin a stream.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts records out of a stream of bytes.
#[derive(Debug)]
pub struct Reader {
    bytes_max: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The last byte ended a line as `\r` does; a `\n` behind it belongs to it.
    after_return: bool,
    /// Nothing but the mark may come before the first line.
    begun: bool,
    id: Option<String>,
    data: Option<Vec<u8>>,
    ready: VecDeque<Record>,
}

impl Reader {
    /// A reader of events of at most so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            after_return: false,
            begun: false,
            id: None,
            data: None,
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes. After a refusal nothing more can be read.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        if !bytes.is_empty() && std::mem::take(&mut self.after_return) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.lengthen(&bytes[..end])?;
            self.end_line();
            let rest = &bytes[end + 1..];
            let whole = bytes[end] == b'\n';
            self.after_return = !whole && rest.is_empty();
            bytes = if whole { rest } else { rest.strip_prefix(b"\n").unwrap_or(rest) };
        }
        self.lengthen(bytes)
    }

    /// The next whole record.
    pub fn next_record(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// What is held of a record that has not ended.
    pub fn held_bytes(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    fn lengthen(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.held_bytes() + bytes.len() > self.bytes_max {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(MARK) {
            line.drain(..MARK.len());
        }
        if line.is_empty() {
            let id = self.id.take();
            self.ready.push_back(match self.data.take() {
                Some(data) => Record::Event { id, data },
                None => Record::Still,
            });
            return;
        }
        let colon = memchr::memchr(b':', &line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"" => self.ready.push_back(Record::Still),
            b"id" => self.id = std::str::from_utf8(value).ok().map(str::to_owned),
            b"data" => match &mut self.data {
                None => {
                    let from = line.len() - value.len();
                    line.drain(..from);
                    self.data = Some(line);
                }
                Some(data) => {
                    data.push(b' ');
                    data.extend_from_slice(value);
                }
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(parts: &[&[u8]]) -> Vec<Record> {
        let mut reader = Reader::new(1024);
        let mut heard = Vec::new();
        for part in parts {
            reader.push(part).unwrap();
            heard.extend(std::iter::from_fn(|| reader.next_record()));
        }
        heard
    }

    fn event(id: &str, data: &str) -> Record {
        let id = (!id.is_empty()).then(|| id.to_owned());
        Record::Event { id, data: data.as_bytes().to_vec() }
    }

    #[test]
    fn every_way_to_write_an_event_is_read() {
        let rows: [(&str, Vec<Record>); 10] = [
            ("id: 1\ndata: a\n\n", vec![event("1", "a")]),
            ("data:a\r\nid:1\r\n\r\n", vec![event("1", "a")]),
            ("id: 1\rdata: a\r\r", vec![event("1", "a")]),
            ("event: x\nretry: 5\nid: 1\ndata: {\ndata: }\n\n", vec![event("1", "{ }")]),
            ("\u{feff}id: 1\ndata: a\n\n", vec![event("1", "a")]),
            (": still here\n\n", vec![Record::Still, Record::Still]),
            ("data: a\n\ndata: b\n\n", vec![event("", "a"), event("", "b")]),
            ("id: 1\n\ndata: b\n\n", vec![Record::Still, event("", "b")]),
            ("data\n\n", vec![event("", "")]),
            ("id: 1\ndata: a\n", vec![]),
        ];
        for (wire, records) in rows {
            assert_eq!(read(&[wire.as_bytes()]), records, "{wire:?}");
        }
    }

    #[test]
    fn what_never_ends_is_refused_at_the_limit() {
        let rows: [&[u8]; 4] =
            [&[b'x'; 1025], b"data: ", b"data:\n", b": a comment that never ends"];
        for piece in rows {
            let mut reader = Reader::new(1024);
            let refused = (0..2048).any(|_| reader.push(piece).is_err());
            assert!(refused, "{:?}", String::from_utf8_lossy(piece));
            assert!(reader.held_bytes() <= 1024);
        }
    }

    proptest! {
        #[test]
        fn bytes_cut_anywhere_give_the_same_records(
            wire in "(id: [0-9]{1,2}|data: [a-c]{0,3}|: x|data|\u{feff}|x){0,3}(\n|\r|\r\n){1,2}",
            again in 1usize..8,
            cut in 1usize..9,
        ) {
            let wire = wire.repeat(again);
            let parts: Vec<&[u8]> = wire.as_bytes().chunks(cut).collect();
            prop_assert_eq!(read(&parts), read(&[wire.as_bytes()]));
        }
    }
}
