//! The way of the agent's bytes: from its pipes to the spool, up to the plan's limit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::Watch;
use crate::limits::{LAST_READS_MAX, LAST_WORDS_BYTES};
use crate::record::{Kind, Note};

impl Watch {
    /// Moves what is in a pipe to the spool, at most one record. False if there was nothing to
    /// move, or no room to move it to.
    pub(super) fn pump(&mut self, kind: Kind) -> bool {
        if self.spool.is_blocked() {
            return false;
        }
        let pipe = if kind == Kind::Out { &mut self.out } else { &mut self.err };
        let Some(fd) = pipe.as_ref().map(AsFd::as_fd) else { return false };
        let left = self.output_bytes_max.saturating_add(LAST_WORDS_BYTES) - self.output_bytes;
        let read = match left {
            0 => discard(fd, &mut self.packet),
            _ => self.spool.append_from(fd, kind, left.try_into().unwrap_or(usize::MAX)),
        };
        match read {
            Ok(0) => *pipe = None,
            Ok(count) => {
                self.pace.read(Instant::now(), count);
                match left {
                    0 => self.discarded_bytes += count as u64,
                    _ => self.count_output(count as u64),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // A pipe that cannot be read has nothing more to give; the agent's end is seen by its pid.
            Err(_) => *pipe = None,
        }
        true
    }

    fn count_output(&mut self, bytes: u64) {
        let was_within = self.output_bytes <= self.output_bytes_max;
        self.output_bytes += bytes;
        if was_within && self.output_bytes > self.output_bytes_max {
            self.spool.note(&Note::OutputLimit { bytes: self.output_bytes });
            self.stop("output_limit", self.graces);
        }
    }

    /// Reads both pipes to their end. False if the disk filled up meanwhile. A pipe that someone
    /// outside the family holds open ends where it is empty, or where the bound is.
    pub(super) fn read_the_rest(&mut self) -> bool {
        for kind in [Kind::Out, Kind::Err] {
            for _ in 0..LAST_READS_MAX {
                if !self.pump(kind) {
                    break;
                }
            }
        }
        !self.spool.is_blocked()
    }
}

fn discard(pipe: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(pipe, buffer)?)
}
