//! Events on the wire between server and client: how a frame is written, and the reader that cuts
//! frames out of bytes, however those were cut. Frames of other writers are read by the published
//! rules for event streams (any line end, several `data` lines, comments), but for the id of an
//! earlier frame, which does not count for a later one: an event without a number is none.
//! What a peer sends without ever ending it is refused at a limit.

use crate::limits::FRAME_BYTES_MAX;
use std::collections::VecDeque;

/// One event as it comes: its number and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub seq: u64,
    pub bytes: Vec<u8>,
}

/// What is sent when there is nothing to say.
pub const STILL_HERE: &[u8] = b": still here\n\n";

/// Writes one event, whose bytes hold no line end.
pub fn write(seq: u64, bytes: &[u8], mut put: impl FnMut(&[u8])) {
    put(format!("id: {seq}\ndata: ").as_bytes());
    put(bytes);
    put(b"\n\n");
}

/// A frame that is longer than any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Cuts frames out of a stream of bytes.
#[derive(Debug, Default)]
pub struct Reader {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The last byte ended a line as `\r` does; a `\n` behind it belongs to it.
    after_return: bool,
    seq: Option<u64>,
    data: Option<Vec<u8>>,
    ready: VecDeque<Frame>,
}

impl Reader {
    /// Takes the next bytes. After a refusal nothing more can be read.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        if !bytes.is_empty() && std::mem::take(&mut self.after_return) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.lengthen(&bytes[..end])?;
            self.end_line();
            let rest = &bytes[end + 1..];
            let whole = bytes[end] == b'\n';
            self.after_return = !whole && rest.is_empty();
            bytes = if whole { rest } else { rest.strip_prefix(b"\n").unwrap_or(rest) };
        }
        self.lengthen(bytes)
    }

    /// The next whole frame.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    fn lengthen(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let before = self.data.as_ref().map_or(0, Vec::len);
        if before + self.line.len() + bytes.len() > FRAME_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            if let (Some(seq), Some(bytes)) = (self.seq.take(), self.data.take()) {
                self.ready.push_back(Frame { seq, bytes });
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"id" => self.seq = std::str::from_utf8(value).ok().and_then(|id| id.parse().ok()),
            b"data" => match &mut self.data {
                None => self.data = Some(value.to_vec()),
                Some(data) => {
                    data.push(b'\n');
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

    fn read(parts: &[&[u8]]) -> Vec<(u64, String)> {
        let mut reader = Reader::default();
        let mut heard = Vec::new();
        for part in parts {
            reader.push(part).unwrap();
            while let Some(frame) = reader.next_frame() {
                heard.push((frame.seq, String::from_utf8(frame.bytes).unwrap()));
            }
        }
        heard
    }

    #[test]
    fn frames_are_the_same_however_the_bytes_are_cut() {
        let mut wire = STILL_HERE.to_vec();
        write(1, b"{\"a\":1}", |bytes| wire.extend_from_slice(bytes));
        write(2, b"{}", |bytes| wire.extend_from_slice(bytes));
        wire.extend_from_slice(b"id:3\r\ndata:one\r\ndata: two\r\n\r\nid: 4\rdata: x\r\r");
        let wanted = [(1, "{\"a\":1}"), (2, "{}"), (3, "one\ntwo"), (4, "x")];
        let wanted = wanted.map(|(seq, text)| (seq, text.to_owned()));
        for cut in 0..=wire.len() {
            assert_eq!(read(&[&wire[..cut], &wire[cut..]]), wanted, "cut at {cut}");
        }
        let single: Vec<&[u8]> = wire.chunks(1).collect();
        assert_eq!(read(&single), wanted);
    }

    #[test]
    fn nothing_between_the_two_bytes_of_a_line_end_changes_nothing() {
        let parts: [&[u8]; 4] = [b"id: 1\r", b"", b"\ndata: x\r\n", b"\r\n"];
        assert_eq!(read(&parts), [(1, "x".to_owned())]);
    }

    #[test]
    fn what_has_no_number_or_no_data_is_no_event() {
        let wire =
            b"data: x\n\nid: 1\n\nid: one\ndata: x\n\nevent: y\nid: 2\ndata\n\nid: 3\ndata: cut";
        assert_eq!(read(&[wire]), [(2, String::new())]);
    }

    #[test]
    fn a_frame_without_an_end_is_refused_at_the_limit() {
        let line = b"x".repeat(1 << 20);
        let data = [b"data: ".as_slice(), &line, b"\n"].concat();
        for part in [line, data] {
            let mut reader = Reader::default();
            let refused = (0..=FRAME_BYTES_MAX / part.len()).any(|_| reader.push(&part).is_err());
            assert!(refused, "it goes on for ever");
            let held = reader.line.len() + reader.data.map_or(0, |data| data.len());
            assert!(held <= FRAME_BYTES_MAX);
        }
    }
}
