//! What the fake agent says. Every line is flushed when it is said, except in a burst, which is as
//! fast as the pipe takes it. A pipe without a reader ends nothing: the rest is simply not said.

use serde_json::{Value, json};
use std::io::{BufWriter, Write};

const BUFFER_BYTES: usize = 64 * 1024;

pub struct Voice<W: Write> {
    out: BufWriter<W>,
    silent: bool,
    /// Every byte is a write of its own.
    byte_by_byte: bool,
}

impl<W: Write> Voice<W> {
    pub fn new(out: W, silent: bool) -> Self {
        Self { out: BufWriter::with_capacity(BUFFER_BYTES, out), silent, byte_by_byte: false }
    }

    pub fn byte_by_byte(&mut self) {
        self.byte_by_byte = true;
    }

    /// One event, as a line.
    pub fn say(&mut self, event: &Value) {
        self.closing(event, true);
    }

    /// One event, perhaps without the newline that should end it.
    pub fn closing(&mut self, event: &Value, newline: bool) {
        self.raw(event.to_string().as_bytes());
        if newline {
            self.raw(b"\n");
        }
        self.flush();
    }

    pub fn progress(&mut self, summary: &str) {
        self.say(&json!({ "type": "progress", "summary": summary }));
    }

    pub fn text(&mut self, text: &str) {
        self.event(json!({ "kind": "assistant_text", "text": text, "delta": false }));
    }

    /// An event of the contract, as the protocol's additions wrap it.
    pub fn event(&mut self, event: Value) {
        self.say(&json!({ "type": "event", "event": event }));
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.byte_by_byte && !self.silent {
            for byte in bytes {
                let _ = self.out.write_all(std::slice::from_ref(byte));
                self.flush();
            }
        } else if !self.silent {
            // A closed pipe is one of the situations under test.
            let _ = self.out.write_all(bytes);
        }
    }

    pub fn flush(&mut self) {
        let _ = self.out.flush();
    }

    /// Lines of one character each.
    pub fn tiny(&mut self, lines: u64) {
        for _ in 0..lines {
            if self.silent || self.out.write_all(b".\n").is_err() {
                return;
            }
        }
        self.flush();
    }

    /// So many bytes without a newline.
    pub fn endless(&mut self, bytes: u64) {
        let chunk = [b'x'; BUFFER_BYTES];
        let mut left = bytes;
        while left > 0 && !self.silent {
            let now = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if self.out.write_all(&chunk[..now]).is_err() {
                return;
            }
            left -= now as u64;
        }
        self.flush();
    }

    /// Decoration before the first event, in lines of eighty.
    pub fn banner(&mut self, bytes: usize) {
        let line = format!("{}\n", "*".repeat(79));
        self.raw(line.repeat(bytes.div_ceil(line.len())).as_bytes());
        self.flush();
    }

    /// `lines` events, numbered from 1, each `line_bytes` long with its newline.
    pub fn burst(&mut self, lines: u64, line_bytes: usize, deltas: bool) {
        let tail =
            if deltas { r#","block":"burst","delta":true}}"# } else { r#","delta":false}}"# };
        let head = r#"{"type":"event","event":{"kind":"assistant_text","text":""#;
        let fixed = head.len() + "00000000 ".len() + "\"".len() + tail.len() + "\n".len();
        let padding = ".".repeat(line_bytes.saturating_sub(fixed));
        if self.silent {
            return;
        }
        for n in 1..=lines {
            if writeln!(self.out, "{head}{n:08} {padding}\"{tail}").is_err() {
                return;
            }
        }
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_numbered_and_each_line_has_the_length_asked_for() {
        for (line_bytes, deltas) in [(300, false), (4096, true)] {
            let mut out = Vec::new();
            Voice::new(&mut out, false).burst(3, line_bytes, deltas);
            let lines: Vec<_> = out.split_inclusive(|byte| *byte == b'\n').collect();
            assert_eq!(lines.len(), 3);
            for (n, line) in lines.iter().enumerate() {
                assert_eq!(line.len(), line_bytes);
                let value: Value = serde_json::from_slice(line).expect("JSON");
                let text = value["event"]["text"].as_str().expect("text");
                assert!(text.starts_with(&format!("{:08} ", n + 1)), "{text}");
                assert_eq!(value["event"]["delta"], deltas);
            }
        }
    }
}
