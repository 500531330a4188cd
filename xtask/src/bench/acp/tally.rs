//! What came out of a run: which of the numbered updates, each once and in order. An update is known
//! by its number, wherever in a line the text stands; only lines of the kind that carries text are
//! looked at, so that an answer which repeats a text counts nothing twice.

use super::super::lines::Lines;

/// What one run took and brought.
#[derive(Debug)]
pub struct Timed {
    pub wall_ms: f64,
    pub tally: Tally,
}

/// The updates that came out.
#[derive(Debug)]
pub struct Tally {
    seen: Vec<bool>,
    doubled: usize,
    disordered: usize,
    next: usize,
    /// What a line that carries text holds.
    needle: &'static str,
    lines: Lines,
}

impl Tally {
    pub fn new(updates: u32, needle: &'static str) -> Self {
        let (seen, lines) = (vec![false; updates as usize], Lines::default());
        Self { seen, doubled: 0, disordered: 0, next: 0, needle, lines }
    }

    /// Takes bytes of the output, cut anywhere; gives how many updates have come out.
    pub fn push(&mut self, chunk: &[u8]) -> usize {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(chunk, |line| self.line(line));
        self.lines = lines;
        self.next
    }

    fn line(&mut self, line: &[u8]) {
        if memchr::memmem::find(line, self.needle.as_bytes()).is_none() {
            return;
        }
        for at in memchr::memchr_iter(b'#', line) {
            let Some(number) = number(&line[at + 1..]) else { continue };
            let Some(seen) = self.seen.get_mut(number) else { continue };
            self.doubled += usize::from(*seen);
            self.disordered += usize::from(number < self.next);
            *seen = true;
            self.next = self.next.max(number + 1);
        }
    }

    pub fn is_whole(&self) -> bool {
        self.next == self.seen.len()
    }

    /// How many are missing, doubled or out of order.
    pub fn wrong(&self) -> usize {
        let lost = self.seen.iter().filter(|seen| !**seen).count();
        lost + self.doubled.max(self.disordered)
    }
}

/// Eight digits and a semicolon.
fn number(text: &[u8]) -> Option<usize> {
    let digits = text.get(..8).filter(|_| text.get(8) == Some(&b';'))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::agent;
    use super::*;

    const COUNT: u32 = 1_000;

    fn said() -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        agent::say(&mut out, COUNT).unwrap();
        out.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    fn wrong(lines: &[Vec<u8>]) -> usize {
        let mut tally = Tally::new(COUNT, "agent_message_chunk");
        for chunk in lines.concat().chunks(777) {
            tally.push(chunk);
        }
        tally.wrong()
    }

    #[test]
    fn what_is_said_is_counted_whole_however_it_is_cut() {
        let lines = said();
        assert_eq!((lines.len(), wrong(&lines)), (1_000, 0));
        let value: serde_json::Value = serde_json::from_slice(&lines[7]).unwrap();
        assert_eq!(value["params"]["update"]["messageId"], "m7");
    }

    #[test]
    fn one_that_is_lost_doubled_or_late_is_counted() {
        let mut lost = said();
        lost.remove(500);
        assert_eq!(wrong(&lost), 1);
        let mut last = said();
        last.pop();
        assert_eq!(wrong(&last), 1);
        let mut doubled = said();
        doubled.insert(3, doubled[2].clone());
        assert_eq!(wrong(&doubled), 1);
        let mut late = said();
        late.swap(10, 11);
        assert_eq!(wrong(&late), 1);
    }

    #[test]
    fn a_line_that_only_repeats_a_text_counts_nothing() {
        let mut lines = said();
        lines.push(b"{\"kind\":\"result\",\"text\":\"#00000007; \"}\n".to_vec());
        assert_eq!(wrong(&lines), 0);
    }
}
