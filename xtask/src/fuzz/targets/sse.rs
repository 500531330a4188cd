//! Server-sent events, by the one reader that there is: the same records however the bytes are cut and
//! wherever they come from, no more held than the limit allows, every event one line, and what our own
//! writer wrote comes back as it was, with comments between. A remote is a stranger, so the limit is
//! close enough to be reached.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;
use contract::sse::{Reader, Record, STILL_HERE, write};
use std::borrow::Cow;

/// Small, so that inputs come to it.
const BYTES_MAX: usize = 4 * 1024;

pub const TARGET: Target = Target {
    name: "sse",
    everyday: None,
    seeds: || {
        let mut seeds: Vec<Vec<u8>> = super::recordings().iter().map(|seed| wire(seed)).collect();
        seeds.push(
            b"\xef\xbb\xbfid:1\r\ndata:one\r\ndata: two\r\n\r\n: c\rid: 2\rdata\r\r".to_vec(),
        );
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
        b"id: -1\n",
        b"data: {}\n",
        b"data:",
        b"data",
        b": ",
        b"event: y\n",
        b"retry: 10\n",
        b"\xef\xbb\xbf",
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

/// What was read, and whether it was too long.
type Told = (Vec<Record<'static>>, bool);

fn make() -> Try {
    Box::new(|input, chance| {
        let whole = read(&[input])?;
        let cuts = chance.cuts(input.len());
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect();
        holds(read(&parts)? == whole, || format!("other records: cut at {cuts:?}"))?;
        if input.len() < 512 {
            let bytes: Vec<&[u8]> = input.chunks(1).collect();
            holds(read(&bytes)? == whole, || "other records: byte by byte".to_owned())?;
        }
        let odd = whole.0.iter().any(|record| {
            matches!(record, Record::Event { data, .. } if data.contains(&b'\n') || data.contains(&b'\r'))
        });
        holds(!odd, || "an event is more than one line".to_owned())?;
        comes_back(input, chance)
    })
}

/// What was written is read again, whatever is between, up to one that is too long.
fn comes_back(input: &[u8], chance: &mut Chance) -> Result<(), String> {
    let mut wire = Vec::new();
    let mut written = Vec::new();
    for line in input.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let seq = chance.number() >> chance.below(64);
        if chance.one_in(3) {
            wire.extend_from_slice(STILL_HERE);
            written.extend([Record::Still, Record::Still]);
        }
        write(seq, line, |bytes| wire.extend_from_slice(bytes));
        written.push(Record::Event { id: Some(seq), data: Cow::Owned(line.to_vec()) });
    }
    let cuts = chance.cuts(wire.len());
    let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect();
    let (back, cut) = read(&parts)?;
    let same = if cut { written.starts_with(&back) } else { back == written };
    holds(same, || format!("what was written is not what is read: {cuts:?}"))
}

fn read(parts: &[&[u8]]) -> Result<Told, String> {
    let mut reader = Reader::new(BYTES_MAX);
    let mut records = Vec::new();
    for mut part in parts.iter().copied() {
        loop {
            match reader.next(&mut part) {
                Ok(Some(Record::Event { id, data })) => {
                    records.push(Record::Event { id, data: Cow::Owned(data.into_owned()) });
                }
                Ok(Some(Record::Still)) => records.push(Record::Still),
                Ok(None) => break,
                Err(_) => return Ok((records, true)),
            }
        }
        holds(part.is_empty(), || "something was not taken".to_owned())?;
        holds(reader.held_bytes() <= BYTES_MAX, || "more is held than allowed".to_owned())?;
    }
    Ok((records, false))
}
