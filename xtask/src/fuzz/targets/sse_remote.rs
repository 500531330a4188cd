//! The event stream of a remote: the same records however the bytes are cut, no more held than the
//! limit allows, every line of data in its event and nothing else in it. A remote is a stranger, so
//! this reader is tried with its own limit, close enough to be reached.

use super::{Target, holds};
use crate::fuzz::search::Try;
use reader::{Reader, Record};

// The crate it lives in brings an HTTP client with it.
#[path = "../../../../crates/remote/src/sse.rs"]
#[allow(dead_code, reason = "compiled in from its own crate")]
mod reader;

/// Small, so that inputs come to it.
const BYTES_MAX: usize = 4 * 1024;

pub const TARGET: Target = Target {
    name: "sse-remote",
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
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    (1..).zip(lines).flat_map(|(id, line): (u32, _)| event(id, line)).collect()
}

fn event(id: u32, line: &[u8]) -> Vec<u8> {
    [format!("id: {id}\ndata: ").as_bytes(), line, b"\n\n"].concat()
}

/// What was read, and whether it was too long.
type Told = (Vec<Record>, bool);

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
        let written: Vec<Record> = (1..)
            .zip(input.split(|byte| matches!(byte, b'\n' | b'\r')))
            .map(|(id, line): (u32, _)| Record::Event {
                id: Some(id.to_string()),
                data: line.to_vec(),
            })
            .collect();
        let (back, cut) = read(&[&wire(input)])?;
        holds(cut || back == written, || "what was written is not what is read".to_owned())
    })
}

fn read(parts: &[&[u8]]) -> Result<Told, String> {
    let mut reader = Reader::new(BYTES_MAX);
    let mut records = Vec::new();
    for part in parts {
        let refused = reader.push(part).is_err();
        records.extend(std::iter::from_fn(|| reader.next_record()));
        holds(reader.held_bytes() <= BYTES_MAX, || "more is held than allowed".to_owned())?;
        if refused {
            return Ok((records, true));
        }
    }
    Ok((records, false))
}
