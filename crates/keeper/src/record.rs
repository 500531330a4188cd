//! One record of the spool: a header of 24 bytes, little-endian, then the payload.
//!
//! ```text
//!  0  u32  length of the payload
//!  4  u32  CRC32C of everything behind this field
//!  8  u8   kind
//!  9  u8   flags
//! 10  u16  reserved, zero
//! 12  u32  number
//! 16  u64  boot time in nanoseconds
//! ```
//!
//! Where one record ends and the next begins means nothing to the agent's output: a line may span
//! records. Nothing here reads or writes files; see [`crate::spool`].

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::limits::RECORD_PAYLOAD_BYTES_MAX;

/// Length of the header.
pub const HEADER_BYTES: usize = 24;

/// More of the same frame follows in the next record of the same kind.
pub const MORE: u8 = 1;
/// Stdin was closed behind this frame.
pub const CLOSED: u8 = 2;
/// The frame was the farewell of a stop.
pub const FAREWELL: u8 = 4;

/// The reason of a stop that the keeper begins because nobody has renewed the lease.
pub const LEASE: &str = "lease";

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First of every spool; payload [`Begin`].
    Begin = 1,
    /// Bytes of the agent's stdout.
    Out = 2,
    /// Bytes of the agent's stderr.
    Err = 3,
    /// Frame `number` went into the agent's stdin to its last byte.
    Said = 4,
    /// Frame `number` will never be said; part of it may have gone in.
    Dropped = 5,
    /// The agent no longer reads its stdin.
    StdinBroken = 6,
    /// Something the keeper did or met; payload [`Note`].
    Note = 7,
    /// Last of every spool, and there only once; payload [`Testimony`].
    Exit = 8,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Begin,
            2 => Self::Out,
            3 => Self::Err,
            4 => Self::Said,
            5 => Self::Dropped,
            6 => Self::StdinBroken,
            7 => Self::Note,
            8 => Self::Exit,
            _ => return None,
        })
    }
}

/// A record as it lies in a reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: Kind,
    /// [`MORE`], [`CLOSED`], [`FAREWELL`].
    pub flags: u8,
    /// The frame's number in `Said` and `Dropped`, else zero.
    pub number: u32,
    /// Boot time at which the record was made.
    pub at_ns: u64,
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Its length in the spool, header and all.
    pub fn spool_bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

/// Why bytes are not a record. Too few bytes are no fault: [`decode`] says `None` to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("checksum does not match")]
    Checksum,
    #[error("length {0} is beyond the limit")]
    Length(u32),
    #[error("kind {0} is unknown")]
    Kind(u8),
}

/// Fills in the header of a record whose payload already stands behind it.
///
/// # Panics
/// If `record` is shorter than a header or its payload is over the limit.
pub fn seal_header(record: &mut [u8], kind: Kind, flags: u8, number: u32) {
    let payload_bytes = record.len() - HEADER_BYTES;
    assert!(payload_bytes <= RECORD_PAYLOAD_BYTES_MAX);
    let now = clock_gettime(ClockId::Boottime);
    let at_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;

    record[8] = kind as u8;
    record[9] = flags;
    record[10..12].fill(0);
    record[12..16].copy_from_slice(&number.to_le_bytes());
    record[16..24].copy_from_slice(&at_ns.to_le_bytes());
    let crc = crc32c::crc32c(&record[8..]);
    record[0..4].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    record[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// The whole record in a buffer of its own.
pub fn encode(kind: Kind, flags: u8, number: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = vec![0; HEADER_BYTES + payload.len()];
    record[HEADER_BYTES..].copy_from_slice(payload);
    seal_header(&mut record, kind, flags, number);
    record
}

/// The record at the start of `bytes`; `None` if it is not complete.
pub fn decode(bytes: &[u8]) -> Result<Option<Record<'_>>, Fault> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    if length as usize > RECORD_PAYLOAD_BYTES_MAX {
        return Err(Fault::Length(length));
    }
    let Some(payload) = rest.get(..length as usize) else {
        return Ok(None);
    };
    let crc = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if crc32c::crc32c(&bytes[8..HEADER_BYTES + payload.len()]) != crc {
        return Err(Fault::Checksum);
    }
    let kind = Kind::from_byte(header[8]).ok_or(Fault::Kind(header[8]))?;
    let number = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    let [.., a, b, c, d, e, f, g, h] = *header;
    let at_ns = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    Ok(Some(Record { kind, flags: header[9], number, at_ns, payload }))
}

/// How strongly the agent's family is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Parent-death signal, subreaper, mark. When the keeper itself is killed, what the agent
    /// started lives on until the next server finds it by its mark.
    #[default]
    Basic,
    /// The family is in a control group of its own, which is killed as a whole and bounds how many
    /// it may be. When the keeper itself is killed, it lives on until the next server kills it.
    Cgroup,
    /// The keeper is the first process of a PID namespace: the kernel ends the family with it.
    Strict,
}

impl Isolation {
    pub fn word(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Cgroup => "cgroup",
            Self::Strict => "strict",
        }
    }
}

/// Payload of [`Kind::Begin`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    pub version: u32,
    pub run_id: String,
    pub attempt: u32,
    pub fence: u64,
    /// The process that the server started. Pids are those of the server's own view.
    pub keeper_pid: i32,
    /// Clock ticks after boot. With the boot id it tells a pid from a later holder of it.
    pub keeper_start_ticks: Option<u64>,
    /// Absent when the program could not be started.
    pub agent_pid: Option<i32>,
    pub agent_start_ticks: Option<u64>,
    pub boot_id: String,
    /// Unix time of this record, which turns every `at_ns` into wall time.
    pub wall_ms: u64,
    pub isolation: Isolation,
    /// Why it is not stronger, when nobody asked for this level by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_note: Option<String>,
    pub mark: (String, String),
}

/// A step of the stop ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    Farewell,
    Term,
    Kill,
}

impl Rung {
    pub fn word(self) -> &'static str {
        match self {
            Self::Farewell => "farewell",
            Self::Term => "term",
            Self::Kill => "kill",
        }
    }
}

/// Payload of [`Kind::Note`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A hello was accepted.
    Owner { fence: u64 },
    /// The lease has a new end.
    Renewed { fence: u64, deadline_ms: u64 },
    /// A stop began or was shortened. Its reason is [`LEASE`] at the end of a lease, after which no
    /// renewal counts.
    StopAsked { reason: String, farewell_ms: u64, term_ms: u64 },
    /// The ladder took a step.
    Rung { rung: Rung },
    /// The agent was held because the disk was full.
    RoomReturned { held_ms: u64, notes_lost: u32 },
    /// The output limit of the plan was reached.
    OutputLimit { bytes: u64 },
    /// Output beyond the limit and its last words.
    Discarded { bytes: u64 },
}

/// Payload of [`Kind::Exit`]: how the attempt ended, and what was done for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Testimony {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why the program could not be started, in words.
    pub spawn_error: Option<String>,
    pub spawn_errno: Option<i32>,
    /// The reason given with a stop; or `lease`, `output_limit`, `signal`. Absent when the agent
    /// ended by itself.
    pub asked_by: Option<String>,
    /// `farewell`, `term`, `kill`, as they were used.
    pub rungs: Vec<String>,
    /// Descendants that were still there after the agent, and were killed.
    pub swept: u32,
    /// The agent itself had to be killed.
    pub forced: bool,
    pub stdin_broken: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = Kind> {
        (1..=8u8).prop_map(|byte| Kind::from_byte(byte).unwrap())
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            kind in kinds(),
            flags: u8,
            number: u32,
            payload in proptest::collection::vec(any::<u8>(), 0..2_000),
        ) {
            let bytes = encode(kind, flags, number, &payload);
            let record = decode(&bytes).unwrap().unwrap();
            prop_assert_eq!((record.kind, record.flags), (kind, flags));
            prop_assert_eq!((record.number, record.payload), (number, &payload[..]));
            prop_assert_eq!(record.spool_bytes(), bytes.len());
        }

        #[test]
        fn a_cut_at_any_place_means_wait(
            payload in proptest::collection::vec(any::<u8>(), 0..500),
            cut: prop::sample::Index,
        ) {
            let bytes = encode(Kind::Out, 0, 0, &payload);
            prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())]), Ok(None));
        }

        #[test]
        fn a_flipped_bit_is_never_a_record(
            payload in proptest::collection::vec(any::<u8>(), 0..500),
            bit: prop::sample::Index,
        ) {
            let mut bytes = encode(Kind::Out, 0, 0, &payload);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // A length that grew looks like a record still being written; nothing else may.
            match decode(&bytes) {
                Ok(None) => prop_assert!(bit < 32),
                Ok(Some(_)) => prop_assert!(false, "bit {} went unnoticed", bit),
                Err(_) => {}
            }
        }
    }

    #[test]
    fn zeros_left_by_a_power_cut_are_no_record() {
        assert_eq!(decode(&[0; 64]), Err(Fault::Checksum));
    }
}
