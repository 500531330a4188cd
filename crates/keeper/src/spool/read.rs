//! The server's side of the spool: records in order from an offset, with no call per record.
//!
//! A reader that has caught up holds an offset and a descriptor but no buffer, so that a thousand
//! quiet runs cost nothing. It asks for little at first and for more the further it lags.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;

use super::{SpoolError, segment_name, segments};
use crate::limits::{READ_BYTES_MAX, READ_BYTES_MIN, RECORD_PAYLOAD_BYTES_MAX};
use crate::record::{self, HEADER_BYTES, Record};

/// Yields the records of one spool.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    /// The segment that holds `offset`, or will; absent until the keeper has begun.
    segment: Option<Segment>,
    /// Behind the last record yielded.
    offset: u64,
    /// Bytes of the spool from `offset - taken`.
    buffer: Vec<u8>,
    /// How much of `buffer` was yielded.
    taken: usize,
    ask_bytes: usize,
}

#[derive(Debug)]
struct Segment {
    file: File,
    first: u64,
}

impl Reader {
    /// Stands at `offset`, which must be 0 or the [`offset`](Self::offset) of an earlier reader.
    pub fn open(dir: &Path, offset: u64) -> Result<Self, SpoolError> {
        let firsts = segments(dir)?;
        let segment = match firsts.iter().rfind(|first| **first <= offset) {
            Some(&first) => {
                let file = File::open(dir.join(segment_name(first)))?;
                let end = first + file.metadata()?.size();
                if end < offset {
                    return Err(SpoolError::Shorter { offset, end });
                }
                Some(Segment { file, first })
            }
            None => match firsts.first() {
                Some(&first) => return Err(SpoolError::Dropped { offset, first }),
                None if offset > 0 => return Err(SpoolError::Shorter { offset, end: 0 }),
                None => None,
            },
        };
        Ok(Self {
            dir: dir.to_owned(),
            segment,
            offset,
            buffer: Vec::new(),
            taken: 0,
            ask_bytes: READ_BYTES_MIN,
        })
    }

    /// Offset behind the last record yielded; where a later reader goes on.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record. `None` means that none is complete: more may come while the keeper lives;
    /// once it does not, the spool ends here, torn if its last record is no `Exit`.
    #[allow(clippy::should_implement_trait)] // It lends from the reader, which Iterator cannot.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, SpoolError> {
        // Looks at the length first and decodes once: a record lent inside a loop that refills the
        // buffer would not pass the borrow checker.
        while !self.holds_record() {
            if !self.fill()? {
                self.buffer = Vec::new();
                self.taken = 0;
                self.ask_bytes = READ_BYTES_MIN;
                return Ok(None);
            }
        }
        let record = record::decode(&self.buffer[self.taken..])
            .map_err(|source| SpoolError::Corrupt { offset: self.offset, source })?;
        if let Some(record) = &record {
            self.taken += record.spool_bytes();
            self.offset += record.spool_bytes() as u64;
        }
        Ok(record)
    }

    /// Whether the buffer holds a whole record, or a length that can be none.
    fn holds_record(&self) -> bool {
        let rest = &self.buffer[self.taken..];
        rest.len() >= HEADER_BYTES && {
            let length = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            length > RECORD_PAYLOAD_BYTES_MAX || rest.len() - HEADER_BYTES >= length
        }
    }

    /// Reads on, into the next segment if this one is at its end. False when nothing came.
    fn fill(&mut self) -> Result<bool, SpoolError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let at = self.offset + self.buffer.len() as u64;
        loop {
            if let Some(segment) = &self.segment {
                self.buffer.reserve_exact(self.ask_bytes);
                let from = at - segment.first;
                let asked = self.buffer.capacity() - self.buffer.len();
                let count =
                    rustix::io::pread(&segment.file, spare_capacity(&mut self.buffer), from)
                        .map_err(io::Error::from)?;
                if count == asked {
                    self.ask_bytes = (self.ask_bytes * 2).min(READ_BYTES_MAX);
                }
                if count > 0 {
                    return Ok(true);
                }
                if segment.first == at {
                    return Ok(false);
                }
            }
            // A segment named by the offset we stand at proves that the one before is finished.
            match File::open(self.dir.join(segment_name(at))) {
                Ok(file) => self.segment = Some(Segment { file, first: at }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Missing files in a missing directory are not a spool that has yet to grow.
                    fs::metadata(&self.dir)?;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use proptest::prelude::*;

    use super::*;
    use crate::record::{Kind, encode};
    use crate::spool::{Spool, drop_before};

    fn spool(dir: &Path, segment_bytes: u64) -> Spool {
        Spool::create(OwnedFd::from(File::open(dir).unwrap()), segment_bytes).unwrap()
    }

    fn payloads(reader: &mut Reader) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            payloads.push(record.payload.to_vec());
        }
        payloads
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn reading_on_from_any_record_equals_reading_through(
            records in proptest::collection::vec(0..3_000usize, 1..40),
            segment_bytes in 100..20_000u64,
            stop: prop::sample::Index,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut spool = spool(dir.path(), segment_bytes);
            let expected: Vec<_> =
                records.iter().enumerate().map(|(i, bytes)| vec![i as u8; *bytes]).collect();
            for payload in &expected {
                spool.append(Kind::Out, 0, 0, payload);
            }
            let mut first = Reader::open(dir.path(), 0).unwrap();
            let mut heard = Vec::new();
            for _ in 0..stop.index(expected.len()) {
                heard.push(first.next().unwrap().unwrap().payload.to_vec());
            }
            let mut second = Reader::open(dir.path(), first.offset()).unwrap();
            heard.extend(payloads(&mut second));
            prop_assert_eq!(heard, expected);
            prop_assert_eq!(second.offset(), spool.len());
        }
    }

    #[test]
    fn a_spool_cut_at_any_byte_waits_and_then_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let whole = [encode(Kind::Out, 0, 0, b"one"), encode(Kind::Err, 0, 0, b"two")].concat();
        let path = dir.path().join(segment_name(0));
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut reader = Reader::open(dir.path(), 0).unwrap();
            let mut heard = payloads(&mut reader);
            assert_eq!(heard.len(), usize::from(cut >= 27), "cut at {cut}");
            fs::write(&path, &whole).unwrap();
            heard.extend(payloads(&mut reader));
            assert_eq!(heard, [b"one", b"two"], "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_is_corrupt_at_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut whole = [encode(Kind::Out, 0, 0, b"one"), encode(Kind::Err, 0, 0, b"two")].concat();
        *whole.last_mut().unwrap() ^= 1;
        fs::write(dir.path().join(segment_name(0)), &whole).unwrap();
        let mut reader = Reader::open(dir.path(), 0).unwrap();
        assert!(reader.next().unwrap().is_some());
        assert!(matches!(reader.next(), Err(SpoolError::Corrupt { offset: 27, .. })));
    }

    #[test]
    fn segments_before_an_offset_are_dropped_and_the_rest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), 110);
        for number in 0..20u8 {
            spool.append(Kind::Out, 0, 0, &[number; 30]);
        }
        let mut reader = Reader::open(dir.path(), 0).unwrap();
        for _ in 0..9 {
            reader.next().unwrap();
        }
        let offset = reader.offset();
        assert_eq!(drop_before(dir.path(), offset).unwrap(), 8 * 54);
        assert_eq!(payloads(&mut reader).len(), 11, "an open reader goes on");
        assert_eq!(payloads(&mut Reader::open(dir.path(), offset).unwrap()).len(), 11);
        let early = Reader::open(dir.path(), 0);
        assert!(matches!(early, Err(SpoolError::Dropped { first: 432, .. })), "{early:?}");
        drop_before(dir.path(), u64::MAX).unwrap();
        assert_eq!(segments(dir.path()).unwrap(), [18 * 54], "the last segment stays");
    }

    #[test]
    fn a_spool_shorter_than_the_offset_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let none = Reader::open(dir.path(), 5);
        assert!(matches!(none, Err(SpoolError::Shorter { offset: 5, end: 0 })), "{none:?}");
        spool(dir.path(), 100).append(Kind::Out, 0, 0, b"one");
        let short = Reader::open(dir.path(), 28);
        assert!(matches!(short, Err(SpoolError::Shorter { offset: 28, end: 27 })), "{short:?}");
        assert!(Reader::open(dir.path(), 27).is_ok());
    }

    #[test]
    fn a_reader_opened_before_the_keeper_begins_hears_it_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = Reader::open(dir.path(), 0).unwrap();
        assert!(reader.next().unwrap().is_none());
        spool(dir.path(), 100).append(Kind::Out, 0, 0, b"one");
        assert_eq!(payloads(&mut reader), [b"one"]);
    }
}
