//! The keeper's side of the spool: one write per record, and never a wait.
//!
//! Bytes are read from a pipe to the place in the buffer where they are written from, behind room
//! for the header. When the disk is full the unwritten rest of a record stays in that buffer, and
//! records made meanwhile wait in a short backlog; the keeper sees `is_blocked` and leaves the
//! agent's pipes alone, which holds the agent and nothing else.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use failpoint::Point;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::segment_name;
use crate::limits::{BACKLOG_RECORDS_MAX, BUFFER_BYTES, RECORD_PAYLOAD_BYTES_MAX};
use crate::record::{HEADER_BYTES, Kind, MORE, Note, encode, seal_header};

/// Appends records to the last segment.
pub struct Spool {
    dir: OwnedFd,
    segment: OwnedFd,
    segment_first: u64,
    segment_bytes_max: u64,
    /// Offset behind the last byte written.
    len: u64,
    /// Room for one record; the keeper of a silent agent touches a page of it.
    buffer: Box<[u8]>,
    /// What of `buffer` still has to be written; empty unless the disk is full.
    unwritten: Range<usize>,
    /// Whole records that wait behind `buffer`.
    backlog: VecDeque<Vec<u8>>,
    blocked_since: Option<Instant>,
    notes_lost: u32,
}

impl Spool {
    /// Begins the spool in an empty directory.
    pub fn create(dir: OwnedFd, segment_bytes_max: u64) -> io::Result<Self> {
        let segment = create_segment(&dir, 0)?;
        Ok(Self {
            dir,
            segment,
            segment_first: 0,
            segment_bytes_max,
            len: 0,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            unwritten: 0..0,
            backlog: VecDeque::new(),
            blocked_since: None,
            notes_lost: 0,
        })
    }

    /// Offset behind the last byte written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the disk is full. Nothing may be read from the agent until it is not.
    pub fn is_blocked(&self) -> bool {
        self.blocked_since.is_some()
    }

    /// Reads once from `source` and appends what came as one record of at most `bytes_max`.
    /// `Ok(0)` is the end of the source; errors are the source's own.
    pub fn append_from(
        &mut self,
        source: impl AsFd,
        kind: Kind,
        bytes_max: usize,
    ) -> io::Result<usize> {
        assert!(!self.is_blocked(), "the buffer is in use");
        let bytes_max = bytes_max.min(RECORD_PAYLOAD_BYTES_MAX);
        let room = &mut self.buffer[HEADER_BYTES..HEADER_BYTES + bytes_max];
        let count = rustix::io::read(source, room)?;
        if count > 0 {
            seal_header(&mut self.buffer[..HEADER_BYTES + count], kind, 0, 0);
            self.unwritten = 0..HEADER_BYTES + count;
            failpoint::hit(Point::RecordBefore);
            self.write_on();
            failpoint::hit(Point::RecordAfter);
        }
        Ok(count)
    }

    /// Appends a payload of any length, as several records if need be. While the disk is full it
    /// waits in the backlog.
    pub fn append(&mut self, kind: Kind, flags: u8, number: u32, payload: &[u8]) {
        let mut parts = payload.chunks(RECORD_PAYLOAD_BYTES_MAX).peekable();
        let mut part = parts.next().unwrap_or_default();
        loop {
            let more = if parts.peek().is_some() { MORE } else { 0 };
            self.append_one(kind, flags | more, number, part);
            match parts.next() {
                Some(next) => part = next,
                None => return,
            }
        }
    }

    /// Appends a note. It is lost, and counted, if too much waits for room already.
    pub fn note(&mut self, note: &Note) {
        if self.backlog.len() >= BACKLOG_RECORDS_MAX {
            self.notes_lost += 1;
            return;
        }
        let payload = serde_json::to_vec(note).expect("a note is plain data");
        self.append(Kind::Note, 0, 0, &payload);
    }

    /// Tries again to write what waits; notes it when room has returned.
    pub fn retry(&mut self) {
        let Some(since) = self.blocked_since else { return };
        self.blocked_since = None;
        self.write_on();
        while self.blocked_since.is_none() {
            let Some(record) = self.backlog.pop_front() else { break };
            self.buffer[..record.len()].copy_from_slice(&record);
            self.unwritten = 0..record.len();
            self.write_on();
        }
        if self.blocked_since.is_some() {
            self.blocked_since = Some(since);
            return;
        }
        let notes_lost = std::mem::take(&mut self.notes_lost);
        self.note(&Note::RoomReturned { held_ms: since.elapsed().as_millis() as u64, notes_lost });
    }

    fn append_one(&mut self, kind: Kind, flags: u8, number: u32, payload: &[u8]) {
        if self.is_blocked() {
            self.backlog.push_back(encode(kind, flags, number, payload));
            return;
        }
        let end = HEADER_BYTES + payload.len();
        self.buffer[HEADER_BYTES..end].copy_from_slice(payload);
        seal_header(&mut self.buffer[..end], kind, flags, number);
        self.unwritten = 0..end;
        self.write_on();
    }

    /// Writes the rest of the buffer. Any failure counts as a full disk: whatever it is, the only
    /// thing to do is to hold the agent and try again, and the lease still ends it.
    fn write_on(&mut self) {
        while !self.unwritten.is_empty() {
            let written = self.turn_segment().and_then(|()| {
                rustix::io::write(&self.segment, &self.buffer[self.unwritten.clone()])
            });
            match written {
                Ok(count) if count > 0 => {
                    self.unwritten.start += count;
                    self.len += count as u64;
                }
                Err(Errno::INTR) => {}
                // The disk is full, or counts as full: tried again while the agent is held.
                Ok(_) | Err(_) => {
                    self.blocked_since = Some(Instant::now());
                    return;
                }
            }
        }
    }

    /// Goes on in a new segment if the record about to begin would not fit.
    fn turn_segment(&mut self) -> Result<(), Errno> {
        let used = self.len - self.segment_first;
        let begins = self.unwritten.start == 0;
        if begins && used > 0 && used + self.unwritten.len() as u64 > self.segment_bytes_max {
            self.segment = create_segment(&self.dir, self.len)?;
            self.segment_first = self.len;
            failpoint::hit(Point::SegmentTurned);
        }
        Ok(())
    }
}

fn create_segment(dir: &OwnedFd, first: u64) -> Result<OwnedFd, Errno> {
    openat(
        dir,
        segment_name(first),
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )
}
