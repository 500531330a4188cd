//! The append-only file of everything heard and said, in segments.
//!
//! An offset counts bytes from the beginning of the attempt, over all segments. A segment is named
//! by the offset of its first byte, and records never span two of them, so the name of the next
//! segment is known before it exists. [`Spool`] is the keeper's side, [`Reader`] the server's.
//! Nothing is synced: a write outlives the process, and a power cut ends the agent too. A server
//! must therefore be ready for a spool that is shorter than the offset it has committed.

mod read;
mod write;

use std::fs;
use std::io;
use std::path::Path;

pub use read::Reader;
pub use write::Spool;

use crate::record;

/// Why a spool cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The bytes at `offset` are no record and will not become one.
    #[error("spool is corrupt at offset {offset}")]
    Corrupt { offset: u64, source: record::Fault },
    /// The spool ends before the offset asked for, as it may after a power cut.
    #[error("spool ends at {end}, before offset {offset}")]
    Shorter { offset: u64, end: u64 },
    /// The segment that held the offset was dropped.
    #[error("spool begins at {first}, after offset {offset}")]
    Dropped { offset: u64, first: u64 },
    #[error("spool cannot be read")]
    Io(#[from] io::Error),
}

/// Deletes the segments that end at or before `offset`, and says how many bytes that freed. The
/// last segment stays, for the keeper writes to it.
pub fn drop_before(dir: &Path, offset: u64) -> io::Result<u64> {
    let firsts = segments(dir)?;
    let mut freed_bytes = 0;
    for pair in firsts.windows(2) {
        if pair[1] > offset {
            break;
        }
        fs::remove_file(dir.join(segment_name(pair[0])))?;
        freed_bytes += pair[1] - pair[0];
    }
    Ok(freed_bytes)
}

fn segment_name(first: u64) -> String {
    format!("{first:016x}.seg")
}

/// First offsets of the segments in `dir`, ascending.
fn segments(dir: &Path) -> io::Result<Vec<u64>> {
    let mut firsts = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let first = name.to_str().and_then(|name| name.strip_suffix(".seg"));
        firsts.extend(first.and_then(|first| u64::from_str_radix(first, 16).ok()));
    }
    firsts.sort_unstable();
    Ok(firsts)
}
