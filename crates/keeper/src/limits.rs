//! Every bound of this crate, by name.
//!
//! Reaching one is a record, a refusal or back-pressure; it is never silence. Graces, drain time
//! and the output limit of a run are not here: they come with its plan.

/// Length at which the spool goes on in a new segment, unless the plan says otherwise.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Longest payload of one spool record. It equals a pipe's usual capacity, so one read of a full
/// pipe becomes one record.
pub const RECORD_PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Longest payload of one control message; what is longer travels in several.
pub const MESSAGE_PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Size of a buffer for one record or one message, and more than either needs. Allocators map a
/// block of this size afresh from the kernel, and pages that are never touched are never paid for.
pub const BUFFER_BYTES: usize = 256 << 10;

/// Longest frame a server may hand over in one `Say`. One such frame is held at a time.
pub const FRAME_BYTES_MAX: usize = 256 << 10;

/// Longest order a running keeper joins from parts; a peer that sends more is disconnected.
pub const ORDER_BYTES_MAX: usize = 1 << 20;

/// Longest message after its parts are joined. Only a plan comes near it: it may carry a prompt
/// as its first frame.
pub const JOINED_BYTES_MAX: usize = 64 << 20;

/// What is read of a program that is there and is said not to be, to see which interpreter it names; the
/// kernel reads no more either.
pub const SHEBANG_BYTES_MAX: u64 = 256;

/// The last part of a lease, in percent, in which an agent is stopped whose lease nobody has renewed. The
/// graces of that stop are shortened to fit in.
pub const LEASE_STOP_PERCENT: u64 = 20;

/// Time for which output is still heard after the agent's own end, while its descendants hold
/// the pipes; the usual value of a plan's `drain_ms`.
pub const DRAIN_MS: u64 = 200;

/// Output still spooled after the plan's limit was reached, so that an agent which is being
/// stopped may have its last words; the rest is read and thrown away.
pub const LAST_WORDS_BYTES: u64 = 1 << 20;

/// Reads of each pipe after the sweep. A pipe holds 64 KiB, or a megabyte if the agent asked for
/// it; only a writer outside the family could need more.
pub const LAST_READS_MAX: usize = 256;

/// How long the pipes are left alone while line comes upon line, so that many are read at once. A
/// pipe takes longer to fill, and nobody sees the difference.
pub const READ_REST_US: u64 = 200;

/// What needs no rest: a read that brought this much.
pub const READ_FULL_BYTES: usize = 16 << 10;

/// Pause before a full disk is tried again.
pub const ROOM_RETRY_MS: u64 = 100;

/// Records that wait in memory while the disk is full. Notes beyond it are counted, not kept.
pub const BACKLOG_RECORDS_MAX: usize = 64;

/// Connections that have not said hello. A further one displaces the oldest.
pub const NEWCOMERS_MAX: usize = 8;

/// Messages that wait for a server which does not read. One more and it is disconnected; it
/// learns what it missed from the next hello.
pub const UNSENT_MESSAGES_MAX: usize = 64;

/// Orders taken from one connection before the other descriptors get their turn.
pub const ORDERS_PER_TURN_MAX: usize = 32;

/// How long a server waits for the answer to its hello.
pub const HELLO_TIMEOUT_MS: u64 = 2_000;

/// Pause between two rounds of a sweep in which nothing died yet.
pub const SWEEP_PAUSE_MS: u64 = 2;

/// The first round of a sweep that stops the whole family before it kills, which a family that
/// forks faster than it dies makes necessary.
pub const SWEEP_FREEZE_ROUND: u32 = 3;

/// What a reader asks for first, and the most it asks for at once when it lags.
pub const READ_BYTES_MIN: usize = 16 << 10;
/// See [`READ_BYTES_MIN`].
pub const READ_BYTES_MAX: usize = 256 << 10;

/// Processes and threads of one family, where its control group can bound them: more than any
/// build needs, and far fewer than a machine has.
pub const FAMILY_PIDS_MAX: u32 = 16_384;

/// Pause between two looks for strangers that ended as our children: time enough for whoever owns a
/// child to wait for it.
pub const STRAYS_LOOK_MS: u64 = 1_000;

/// Pause after a launch before the next spare keeper is started. An agent's own first instructions
/// take less.
pub const SPARE_PAUSE_MS: u64 = 10;

/// What the kernel is told of an agent for the case that memory runs out, of a thousand: enough to go
/// before whoever holds it, and before most of what else there is.
pub const AGENT_OOM_SCORE_ADJ: i32 = 300;
