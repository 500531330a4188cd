//! Chunks to lines by `memchr`, with what is left of a chunk carried over: the same code on the
//! floor's side and on ours, so that it drops out of the ratio.

/// The unfinished line.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
}

impl Lines {
    /// Hands on every line that `chunk` completes, without its newline.
    pub fn push(&mut self, chunk: &[u8], mut hear: impl FnMut(&[u8])) {
        let mut from = 0;
        while let Some(length) = memchr::memchr(b'\n', &chunk[from..]) {
            let line = &chunk[from..from + length];
            if self.held.is_empty() {
                hear(line);
            } else {
                self.held.extend_from_slice(line);
                hear(&self.held);
                self.held.clear();
            }
            from += length + 1;
        }
        self.held.extend_from_slice(&chunk[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_were_cut() {
        let mut heard = Vec::new();
        let mut lines = Lines::default();
        for chunk in [&b"on"[..], b"e\ntwo\n\nthr", b"ee\n"] {
            lines.push(chunk, |line| heard.push(String::from_utf8_lossy(line).into_owned()));
        }
        assert_eq!(heard, ["one", "two", "", "three"]);
    }
}
