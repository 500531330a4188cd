//! Events on the wire: how one is written, and the one reader that cuts records out of bytes, however
//! those were cut. What others write is read by the published rules for event streams (any line end,
//! several `data` lines, comments, fields in any order), but for the id, which counts for its own event
//! alone, because events are numbered here. Nothing is copied of an event that came in one piece.
//! What a peer sends without ever ending it is refused at a limit. No IO and no clock.

use crate::limits::FRAME_BYTES_MAX;
use std::borrow::Cow;

/// What a stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'b> {
    /// An event. Its lines of data are joined by blanks: it is one line of JSON from here on.
    Event { id: Option<u64>, data: Cow<'b, [u8]> },
    /// A comment, or an event without data: whoever sends it is there.
    Still,
}

/// What is sent when there is nothing to say.
pub const STILL_HERE: &[u8] = b": still here\n\n";

/// Writes one event, whose bytes hold no line end.
pub fn write(seq: u64, bytes: &[u8], mut put: impl FnMut(&[u8])) {
    put(format!("id: {seq}\ndata: ").as_bytes());
    put(bytes);
    put(b"\n\n");
}

/// An event, or a line, that is longer than any may be.
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
    id: Option<u64>,
    /// The data of an event that has not ended yet.
    data: Option<Vec<u8>>,
}

impl Default for Reader {
    /// A reader of our own events.
    fn default() -> Self {
        Self::new(FRAME_BYTES_MAX)
    }
}

impl Reader {
    /// A reader of events of at most so many bytes.
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            after_return: false,
            begun: false,
            id: None,
            data: None,
        }
    }

    /// Takes the next whole record off the front of these bytes. `None` when they are used up, and
    /// what of them is no whole record is kept. After a refusal nothing more can be read.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<Record<'b>>, TooLong> {
        let mut data = self.data.take().map(Cow::Owned);
        while let Some(line) = self.next_line(bytes, data.as_deref().map_or(0, <[u8]>::len))? {
            if line.is_empty() {
                let id = self.id.take();
                return Ok(Some(data.map_or(Record::Still, |data| Record::Event { id, data })));
            }
            let colon = memchr::memchr(b':', &line).unwrap_or(line.len());
            let value = line.get(colon + 1..).unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &line[..colon] {
                b"" => {
                    self.data = data.map(Cow::into_owned);
                    return Ok(Some(Record::Still));
                }
                b"id" => self.id = number(value),
                b"data" => match &mut data {
                    None => {
                        let from = line.len() - value.len();
                        data = Some(without_head(line, from));
                    }
                    Some(data) => {
                        let data = data.to_mut();
                        data.push(b' ');
                        data.extend_from_slice(value);
                    }
                },
                _ => {}
            }
        }
        self.data = data.map(Cow::into_owned);
        Ok(None)
    }

    /// What is held of a record that has not ended.
    pub fn held_bytes(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    /// Takes the next whole line off the front of these bytes, beside so much data of its event.
    fn next_line<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        data_bytes: usize,
    ) -> Result<Option<Cow<'b, [u8]>>, TooLong> {
        if !bytes.is_empty() && std::mem::take(&mut self.after_return) {
            *bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        let end = memchr::memchr2(b'\n', b'\r', bytes);
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if data_bytes + self.line.len() + line.len() > self.bytes_max {
            return Err(TooLong);
        }
        let Some((ended_by, rest)) = rest.split_first() else {
            self.line.extend_from_slice(line);
            *bytes = &[];
            return Ok(None);
        };
        *bytes = rest;
        if *ended_by == b'\r' {
            self.after_return = rest.is_empty();
            *bytes = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        let line = match self.line.is_empty() {
            true => Cow::Borrowed(line),
            false => {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                Cow::Owned(whole)
            }
        };
        let first = !std::mem::replace(&mut self.begun, true);
        Ok(Some(if first && line.starts_with(MARK) {
            without_head(line, MARK.len())
        } else {
            line
        }))
    }
}

/// What stands behind so many bytes, copied no more than it was.
fn without_head(line: Cow<'_, [u8]>, head_bytes: usize) -> Cow<'_, [u8]> {
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(&line[head_bytes..]),
        Cow::Owned(mut line) => {
            line.drain(..head_bytes);
            Cow::Owned(line)
        }
    }
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok().and_then(|id| id.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(parts: &[&[u8]]) -> Vec<Record<'static>> {
        let mut reader = Reader::new(1024);
        let mut heard = Vec::new();
        for mut part in parts.iter().copied() {
            while let Some(record) = reader.next(&mut part).unwrap() {
                heard.push(match record {
                    Record::Event { id, data } => {
                        Record::Event { id, data: Cow::Owned(data.into_owned()) }
                    }
                    Record::Still => Record::Still,
                });
            }
            assert_eq!(part, b"", "all of it was taken");
        }
        heard
    }

    fn event(id: Option<u64>, data: &str) -> Record<'static> {
        Record::Event { id, data: Cow::Owned(data.as_bytes().to_vec()) }
    }

    #[test]
    fn every_way_to_write_an_event_is_read() {
        let rows: [(&str, Vec<Record<'_>>); 13] = [
            ("id: 1\ndata: a\n\n", vec![event(Some(1), "a")]),
            ("data:a\r\nid:1\r\n\r\n", vec![event(Some(1), "a")]),
            ("id: 1\rdata: a\r\r", vec![event(Some(1), "a")]),
            ("event: x\nretry: 5\nid: 1\ndata: {\ndata: }\n\n", vec![event(Some(1), "{ }")]),
            ("\u{feff}id: 1\ndata: a\n\n", vec![event(Some(1), "a")]),
            (": still here\n\n", vec![Record::Still, Record::Still]),
            ("data: a\n: still here\ndata: b\n\n", vec![Record::Still, event(None, "a b")]),
            ("data: a\n\ndata: b\n\n", vec![event(None, "a"), event(None, "b")]),
            ("id: 1\n\ndata: b\n\n", vec![Record::Still, event(None, "b")]),
            ("id: one\ndata: x\n\n", vec![event(None, "x")]),
            ("id: 1\nid: one\ndata: x\n\n", vec![event(None, "x")]),
            ("data\n\n", vec![event(None, "")]),
            ("id: 1\ndata: a\n", vec![]),
        ];
        for (wire, records) in rows {
            assert_eq!(read(&[wire.as_bytes()]), records, "{wire:?}");
        }
    }

    #[test]
    fn what_was_written_is_read_however_the_bytes_are_cut() {
        let mut wire = STILL_HERE.to_vec();
        write(1, b"{\"a\":1}", |bytes| wire.extend_from_slice(bytes));
        write(2, b"{}", |bytes| wire.extend_from_slice(bytes));
        wire.extend_from_slice(b"id:3\r\ndata:one\r\ndata: two\r\n\r\nid: 4\rdata: x\r\r");
        let events = [event(Some(1), "{\"a\":1}"), event(Some(2), "{}")];
        let more = [event(Some(3), "one two"), event(Some(4), "x")];
        let wanted = [vec![Record::Still; 2], events.to_vec(), more.to_vec()].concat();
        for cut in 0..=wire.len() {
            assert_eq!(read(&[&wire[..cut], &wire[cut..]]), wanted, "cut at {cut}");
        }
        let single: Vec<&[u8]> = wire.chunks(1).collect();
        assert_eq!(read(&single), wanted);
    }

    #[test]
    fn nothing_between_the_two_bytes_of_a_line_end_changes_nothing() {
        let parts: [&[u8]; 4] = [b"id: 1\r", b"", b"\ndata: x\r\n", b"\r\n"];
        assert_eq!(read(&parts), [event(Some(1), "x")]);
    }

    #[test]
    fn an_event_in_one_piece_is_not_copied() {
        let mut wire = b"id: 1\ndata: {}\n\nid: 2\ndata: {}".as_slice();
        let mut reader = Reader::default();
        let read = reader.next(&mut wire).unwrap();
        assert!(matches!(read, Some(Record::Event { data: Cow::Borrowed(b"{}"), .. })), "{read:?}");
        assert_eq!(reader.next(&mut wire), Ok(None));
        assert_eq!(reader.held_bytes(), b"data: {}".len());
    }

    #[test]
    fn what_never_ends_is_refused_at_the_limit() {
        let rows: [&[u8]; 4] =
            [&[b'x'; 1025], b"data: ", b"data:\n", b": a comment that never ends"];
        for piece in rows {
            let mut reader = Reader::new(1024);
            let refused = (0..2048).any(|_| reader.next(&mut &*piece).is_err());
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
