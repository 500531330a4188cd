//! The agent of the pipeline bench: says a given number of events of 300 bytes, in writes of one
//! line or of 64 KiB, then that it is done, and leaves a note of when it began and what it cost
//! itself. The same program stands at the end of the floor's pipe and of ours.

use super::{said, usage};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::Path;

pub const LINE_BYTES: usize = 300;
const WRITE_BYTES: usize = 64 * 1024;
const HEAD: &str = r#"{"type":"event","event":{"kind":"assistant_text","text":""#;
const TAIL: &str = "\",\"delta\":false}}\n";
pub const DONE: &[u8] = b"{\"type\":\"complete\",\"output\":{\"done\":true}}\n";

/// How much the agent hands to the pipe at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// One line, as agents do that flush.
    Lines,
    /// As many whole lines as fit into 64 KiB.
    Blocks,
}

impl Writes {
    pub const ALL: [Self; 2] = [Self::Lines, Self::Blocks];

    pub fn word(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Blocks => "blocks",
        }
    }

    pub fn lines_at_once(self) -> usize {
        match self {
            Self::Lines => 1,
            Self::Blocks => WRITE_BYTES / LINE_BYTES,
        }
    }
}

/// What the agent says of itself, in a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note {
    pub began_ns: u64,
    pub cpu_ns: u64,
}

impl Note {
    pub fn read(path: &Path) -> Result<Self, String> {
        let doing = format!("reading the agent's note {}", path.display());
        let bytes = std::fs::read(path).map_err(said(&doing))?;
        serde_json::from_slice(&bytes).map_err(said(doing))
    }
}

/// The arguments that start this agent.
pub fn args(writes: Writes, lines: u64, note: &Path) -> Vec<String> {
    let note = note.display().to_string();
    vec!["bench-agent".to_owned(), writes.word().to_owned(), lines.to_string(), note]
}

pub fn run(words: &[&str]) -> Result<(), String> {
    let usage = "bench-agent takes lines|blocks, a count and a file";
    let [writes, count, note] = words else { return Err(usage.to_owned()) };
    let writes = Writes::ALL.into_iter().find(|known| known.word() == *writes).ok_or(usage)?;
    let count: u64 = count.parse().map_err(said(usage))?;
    let mut out =
        std::fs::File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(said(usage))?);
    let began_ns = usage::now_ns();
    say(&mut out, writes, count).map_err(said("saying events"))?;
    let written = serde_json::to_vec(&Note { began_ns, cpu_ns: usage::own_cpu_ns() });
    std::fs::write(note, written.unwrap_or_default()).map_err(said(format!("writing {note}")))?;
    out.write_all(DONE).map_err(said("saying that it is done"))
}

/// Only the number differs from line to line, so the agent costs as little as an agent can.
pub fn say(out: &mut impl std::io::Write, writes: Writes, count: u64) -> std::io::Result<()> {
    let at_once = writes.lines_at_once();
    let mut block = template().repeat(at_once);
    let mut next = 1;
    while next <= count {
        let lines = at_once.min((count - next + 1) as usize);
        for line in block.chunks_exact_mut(LINE_BYTES).take(lines) {
            let mut rest = next;
            for digit in line[HEAD.len()..HEAD.len() + 8].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            next += 1;
        }
        out.write_all(&block[..lines * LINE_BYTES])?;
    }
    Ok(())
}

/// One line, with zeros where its number goes.
pub fn template() -> Vec<u8> {
    let padding = LINE_BYTES - HEAD.len() - "00000000 ".len() - TAIL.len();
    format!("{HEAD}00000000 {}{TAIL}", ".".repeat(padding)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_say_the_same_numbered_lines() {
        let said = |writes| {
            let mut out = Vec::new();
            say(&mut out, writes, 500).unwrap();
            out
        };
        let lines = said(Writes::Lines);
        assert_eq!(lines, said(Writes::Blocks));
        assert_eq!(lines.len(), 500 * LINE_BYTES);
        for (line, n) in lines.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            let value: serde_json::Value = serde_json::from_slice(line).unwrap();
            let text = value["event"]["text"].as_str().unwrap();
            assert!(text.starts_with(&format!("{n:08} ")), "{text}");
        }
    }
}
