//! Limits of the store's own, in one place; what the contract promises is in `contract::limits`.

/// How long whoever reaped a run has to close it before it can be reaped again.
pub const REAPED_LEASE_MS: i64 = 60_000;
/// Events that one transaction removes of a deleted run, whole spans of them.
pub const REMOVED_EVENTS_MAX: usize = 2_000;
/// Blobs that are removed while nobody else may name one.
pub const REMOVED_BLOBS_MAX: usize = 64;
/// A full inbox still takes this many wishes to stop: a flood must not make a run unstoppable.
pub const INBOX_STOP_RESERVE: usize = 8;
/// Tasks that are queued again in one transaction, so that it stays short.
pub const AGAIN_ROWS_MAX: u32 = 64;
/// How much of a blob that is there is held to compare it with what is to be written.
pub const BLOB_PIECE_BYTES: usize = 64 * 1024;
/// How much of a file a backup holds at a time.
pub const COPIED_PIECE_BYTES: usize = 64 * 1024;
