//! Bytes to lines: however the bytes are cut, the lines are those between the newlines; and a
//! successor that knows the mark alone goes on with the next one.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;

#[allow(dead_code, unused_imports, reason = "the product uses all of it")]
#[path = "../../../../crates/host/src/frame.rs"]
mod host_frame;

pub(super) use host_frame::{Line, Lines};

pub const TARGET: Target = Target {
    name: "frame",
    everyday: None,
    seeds: || {
        let mut seeds = super::recordings();
        seeds.extend([b"\r\n\r\r\n\n".to_vec(), b"one\ntwo".to_vec(), Vec::new()]);
        seeds
    },
    words: &[b"\n", b"\r", b"\r\n", b"\n\r"],
    make,
};

/// The header of a record in the spool.
const HEADER_BYTES: u64 = 24;

type Heard = Vec<(u64, Vec<u8>)>;

fn make() -> Try {
    Box::new(|input, chance| {
        let wanted = between_newlines(input);
        let cuts = chance.cuts(input.len());
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect();
        let mut lines = Lines::default();
        let mut heard = Heard::new();
        push(&mut lines, &chunks, &mut heard);
        lines.close(|line| take(&mut heard, &line));
        holds(heard == wanted, || format!("other lines: cut at {cuts:?}"))?;
        succeeded(&chunks, &wanted, chance)
    })
}

/// Stops before any chunk; the next one hears every record again.
fn succeeded(chunks: &[&[u8]], wanted: &Heard, chance: &mut Chance) -> Result<(), String> {
    let stop = chance.below(chunks.len() + 1);
    let mut heard = Heard::new();
    let mut before = Lines::default();
    push(&mut before, &chunks[..stop], &mut heard);
    let mut after = Lines::from_mark(before.mark());
    push(&mut after, chunks, &mut heard);
    after.close(|line| take(&mut heard, &line));
    holds(heard == *wanted, || format!("a successor hears other lines: it began at {stop}"))
}

fn push(lines: &mut Lines, chunks: &[&[u8]], heard: &mut Heard) {
    let mut offset = 0;
    for chunk in chunks {
        let next = offset + HEADER_BYTES + chunk.len() as u64;
        lines.push(offset, next, chunk, |line| take(heard, &line));
        offset = next;
    }
}

fn take(heard: &mut Heard, line: &Line<'_>) {
    heard.push((line.number, line.bytes.to_vec()));
}

/// The lines as anyone would cut them who has all bytes at once.
fn between_newlines(input: &[u8]) -> Heard {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    (1..).zip(lines.iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())).collect()
}
