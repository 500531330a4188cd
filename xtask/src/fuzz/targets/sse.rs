//! Server-sent events: the reader hears the same frames however the bytes are cut and wherever they
//! come from, and what our own writer wrote comes back as it was, with comments between.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;
use contract::sse::{Frame, Reader, STILL_HERE, write};

pub const TARGET: Target = Target {
    name: "sse",
    everyday: None,
    seeds: || {
        let mut seeds: Vec<Vec<u8>> = super::recordings().iter().map(|seed| wire(seed)).collect();
        seeds.push(b"id:1\r\ndata:one\r\ndata: two\r\n\r\n: comment\rid: 2\rdata\r\r".to_vec());
        seeds
    },
    words: &[
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\r",
        b"id: 7\n",
        b"id:",
        b"data: x\n",
        b"data:",
        b"data",
        b": ",
        b"event: y\n",
        b"retry: 10\n",
    ],
    make,
};

fn wire(text: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    for (seq, line) in (1..).zip(text.split(|byte| matches!(byte, b'\n' | b'\r'))) {
        write(seq, line, |bytes| wire.extend_from_slice(bytes));
    }
    wire
}

fn make() -> Try {
    Box::new(|input, chance| {
        let whole = read(&[input])?;
        let cuts = chance.cuts(input.len());
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect();
        holds(read(&parts)? == whole, || format!("other frames: cut at {cuts:?}"))?;
        if input.len() < 512 {
            let bytes: Vec<&[u8]> = input.chunks(1).collect();
            holds(read(&bytes)? == whole, || "other frames: byte by byte".to_owned())?;
        }
        comes_back(input, chance)
    })
}

/// What was written is read again, whatever is between.
fn comes_back(input: &[u8], chance: &mut Chance) -> Result<(), String> {
    let mut wire = Vec::new();
    let mut written = Vec::new();
    for line in input.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let seq = chance.number() >> chance.below(64);
        if chance.one_in(3) {
            wire.extend_from_slice(STILL_HERE);
        }
        write(seq, line, |bytes| wire.extend_from_slice(bytes));
        written.push(Frame { seq, bytes: line.to_vec() });
    }
    let cuts = chance.cuts(wire.len());
    let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect();
    holds(read(&parts)? == written, || format!("what was written is not what is read: {cuts:?}"))
}

fn read(parts: &[&[u8]]) -> Result<Vec<Frame>, String> {
    let mut reader = Reader::default();
    let mut frames = Vec::new();
    for part in parts {
        reader.push(part).map_err(|_| "an input of ours is too long".to_owned())?;
        frames.extend(std::iter::from_fn(|| reader.next_frame()));
    }
    Ok(frames)
}
