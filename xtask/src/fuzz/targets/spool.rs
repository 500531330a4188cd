//! The spool: a reader of damaged segments yields the records that decoding the bytes one by one
//! yields, stops where that stops and says why, and goes on from any of its offsets. Half of the inputs
//! get sums that are right: no chance and no coverage would come behind a sum otherwise.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;
use keeper::record::{self, HEADER_BYTES, Kind, Record, encode};
use keeper::spool::{Reader, SpoolError};
use std::path::Path;

pub const TARGET: Target = Target {
    name: "spool",
    everyday: None,
    seeds: || {
        let out = |payload: &[u8]| encode(Kind::Out, 0, 0, payload);
        let end = encode(Kind::Exit, 0, 0, br#"{"exit":{"code":0}}"#);
        let mut seeds = vec![
            [encode(Kind::Begin, 0, 0, b"{}"), out(b"one\n"), end].concat(),
            [out(b""), out(&[b'x'; 3_000]), encode(Kind::Said, record::MORE, 7, b"{}\n")].concat(),
            Vec::new(),
        ];
        seeds.extend(super::recordings().iter().map(|lines| out(lines)));
        seeds
    },
    words: &[
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x01\x00",
        b"\x01\x00\x01\x00",
        // An empty record of a known kind; its sum is wrong.
        b"\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ],
    make,
};

/// A record, and the offset behind it.
type Told = Vec<(u8, u8, u32, Vec<u8>, u64)>;

fn make() -> Try {
    // In memory where there is such a place: it is the reader that is tried, not the disk.
    let memory = Path::new("/dev/shm");
    let dir = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    Box::new(move |input, chance| {
        let dir = dir.as_ref().map_err(|error| format!("no directory: {error}"))?;
        let summed = chance.one_in(2).then(|| summed(input));
        let input = summed.as_deref().unwrap_or(input);
        let (wanted, fault) = one_by_one(input);
        let parts = segments(input, &wanted, chance);
        let written = write(dir.path(), &parts).map_err(|error| format!("not written: {error}"))?;
        let mut told = Told::new();
        let mut reader = open(dir.path(), 0)?;
        let mut ended = read(&mut reader, &mut told, chance.below(wanted.len() + 1))?;
        if ended.is_none() {
            let mut successor = open(dir.path(), reader.offset())?;
            ended = read(&mut successor, &mut told, usize::MAX)?;
        }
        for path in written {
            std::fs::remove_file(path).map_err(|error| format!("not removed: {error}"))?;
        }
        holds(told == wanted, || format!("other records: {} of {}", told.len(), wanted.len()))?;
        holds(ended == Some(fault), || format!("another end: {ended:?}, not {fault:?}"))
    })
}

/// The same bytes with the sum of every record that is complete.
fn summed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let mut rest = bytes.as_mut_slice();
    while let Some((&mut [a, b, c, d, ..], _)) = rest.split_first_chunk_mut::<HEADER_BYTES>() {
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some((record, after)) = rest.split_at_mut_checked(HEADER_BYTES + length) else { break };
        let sum = crc32c::crc32c(&record[8..]);
        record[4..8].copy_from_slice(&sum.to_le_bytes());
        rest = after;
    }
    bytes
}

fn open(dir: &Path, offset: u64) -> Result<Reader, String> {
    Reader::open(dir, offset).map_err(|error| format!("cannot be opened: {error}"))
}

/// Reads at most so many records; says how it ended, when it did.
fn read(
    reader: &mut Reader,
    told: &mut Told,
    most: usize,
) -> Result<Option<Option<record::Fault>>, String> {
    for _ in 0..most {
        match reader.next() {
            Ok(Some(record)) => {
                let row = row(&record);
                told.push((row.0, row.1, row.2, row.3, reader.offset()));
            }
            Ok(None) => return Ok(Some(None)),
            Err(SpoolError::Corrupt { source, .. }) => return Ok(Some(Some(source))),
            Err(other) => return Err(format!("another error: {other}")),
        }
    }
    Ok(None)
}

fn row(record: &Record<'_>) -> (u8, u8, u32, Vec<u8>) {
    (record.kind as u8, record.flags, record.number, record.payload.to_vec())
}

fn one_by_one(input: &[u8]) -> (Told, Option<record::Fault>) {
    let mut told = Told::new();
    let mut at = 0;
    loop {
        match record::decode(&input[at..]) {
            Ok(Some(record)) => {
                at += record.spool_bytes();
                let row = row(&record);
                told.push((row.0, row.1, row.2, row.3, at as u64));
            }
            Ok(None) => return (told, None),
            Err(fault) => return (told, Some(fault)),
        }
    }
}

/// The bytes in up to two segments: records never span two of them.
fn segments<'a>(input: &'a [u8], told: &Told, chance: &mut Chance) -> Vec<(u64, &'a [u8])> {
    let cut = chance.pick(told).map_or(0, |(.., end)| *end);
    let (first, second) = input.split_at(cut as usize);
    if first.is_empty() { vec![(0, second)] } else { vec![(0, first), (cut, second)] }
}

fn write(dir: &Path, parts: &[(u64, &[u8])]) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut written = Vec::new();
    for (first, bytes) in parts {
        let path = dir.join(format!("{first:016x}.seg"));
        std::fs::write(&path, bytes)?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_record_with_its_sum_is_read_up_to_a_kind_that_nobody_knows() {
        let mut bytes = [encode(Kind::Out, 0, 0, b"one"), encode(Kind::Out, 0, 0, b"two")].concat();
        bytes[HEADER_BYTES] = b'O';
        bytes[HEADER_BYTES + 3 + 8] = 77;
        assert_eq!(one_by_one(&bytes), (Vec::new(), Some(record::Fault::Checksum)));
        let (told, fault) = one_by_one(&summed(&bytes));
        assert_eq!(
            (told.len(), told[0].3.as_slice(), fault),
            (1, &b"One"[..], Some(record::Fault::Kind(77)))
        );
        assert_eq!(summed(&bytes[..30]).len(), 30);
    }
}
