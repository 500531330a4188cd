//! What can go wrong at the store's door, by what a caller can do about it. Messages hold no
//! secrets: they name ids, scopes and what was being done, never content.

use contract::{Code, RunId};
use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC, SQLITE_IOERR_SHMSIZE};
use rustix::io::Errno;
use std::sync::Arc;

/// The cause below, kept for the log.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("{what} is not in the store")]
    NotFound { what: String },
    /// The present state does not allow it; read again before trying again.
    #[error("{what}")]
    Conflict { what: String },
    /// The caller does not own the run, or no longer: it must stop writing.
    #[error("{run} is not held with fence {fence}")]
    FenceStale { run: RunId, fence: u64 },
    /// It is not its turn: all slots are taken, or others came first.
    #[error("there is no slot of {pool} for it now")]
    PoolFull { pool: String },
    #[error("the inbox of {run} is full")]
    TooMany { run: RunId },
    #[error("the budget of {scope} does not cover the reservation")]
    BudgetExceeded { scope: String },
    #[error("the store has schema {found}, and this version knows schemas up to {known}")]
    Newer { found: u32, known: u32 },
    #[error("another process holds the store while {doing}")]
    Locked { doing: String },
    #[error("the disk is full while {doing}")]
    DiskFull { doing: String },
    #[error("the store failed while {doing}: {cause}")]
    Unreadable { doing: String, cause: Cause },
    /// One file alone: everything else can be read, and the store goes on.
    #[error("blob {blob} is damaged: its bytes are not those it is named by")]
    Damaged { blob: String },
    /// Nobody knows what is on the disk. The store has stopped for good; a new process may open it.
    #[error("the system could not say that the disk has it, while {doing}; the store has stopped")]
    Unsynced { doing: String },
    /// It may or may not have happened: read again to find out.
    #[error("the store did not say whether it was done")]
    Unacknowledged,
    #[error("the store is closed")]
    Closed,
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Conflict { .. } | Self::TooMany { .. } | Self::PoolFull { .. } => Code::Conflict,
            Self::FenceStale { .. } => Code::FenceStale,
            Self::BudgetExceeded { .. } => Code::BudgetExceeded,
            Self::Newer { .. } => Code::StoreNewer,
            Self::Locked { .. } => Code::StoreLocked,
            Self::DiskFull { .. } => Code::DiskFull,
            Self::Unreadable { .. }
            | Self::Damaged { .. }
            | Self::Unsynced { .. }
            | Self::Unacknowledged
            | Self::Closed => Code::StoreUnreadable,
        }
    }

    pub(crate) fn not_found(what: impl ToString) -> Self {
        Self::NotFound { what: what.to_string() }
    }

    pub(crate) fn conflict(what: impl Into<String>) -> Self {
        Self::Conflict { what: what.into() }
    }

    pub(crate) fn unreadable(
        doing: impl Into<String>,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Unreadable { doing: doing.into(), cause: Arc::new(cause) }
    }

    pub(crate) fn io(doing: impl Into<String>, cause: std::io::Error) -> Self {
        match cause.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { doing: doing.into() }
            }
            _ => Self::unreadable(doing, cause),
        }
    }

    /// The outcome of syncing a file. A full disk may say so only here; what was written then is
    /// given up as a whole and written anew elsewhere.
    pub(crate) fn sync(doing: impl Into<String>, cause: std::io::Error) -> Self {
        match Self::io(doing, cause) {
            Self::Unreadable { doing, .. } => Self::Unsynced { doing },
            other => other,
        }
    }

    /// The outcome of syncing a folder. Names cannot be given up and written elsewhere, so a full disk
    /// is no better here than a broken one: asked again, it would be believed. Only a folder that could
    /// not be opened was never asked.
    pub(crate) fn sync_folder(doing: impl Into<String>, cause: std::io::Error) -> Self {
        match Errno::from_io_error(&cause) {
            Some(Errno::MFILE | Errno::NFILE) => Self::io(doing, cause),
            _ => Self::Unsynced { doing: doing.into() },
        }
    }

    pub(crate) fn sqlite(doing: impl Into<String>, cause: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        if [SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC].contains(&extended_code(&cause)) {
            return Self::Unsynced { doing: doing.into() };
        }
        match cause.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { doing: doing.into() },
            // The index of the log could not be made longer, for want of room as a rule.
            Some(ErrorCode::SystemIoFailure) if extended_code(&cause) == SQLITE_IOERR_SHMSIZE => {
                Self::DiskFull { doing: doing.into() }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Locked { doing: doing.into() }
            }
            _ => Self::unreadable(doing, cause),
        }
    }
}

fn extended_code(cause: &rusqlite::Error) -> i32 {
    cause.sqlite_error().map_or(0, |error| error.extended_code)
}

/// A database error without a better word for what was being done.
impl From<rusqlite::Error> for Error {
    fn from(cause: rusqlite::Error) -> Self {
        Self::sqlite("reading and writing the database", cause)
    }
}
