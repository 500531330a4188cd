//! The plan of a disk that fails: at which call, with what, once or from there on. And what a store
//! would do that does not listen, so that the suite can show that it would be found.

use crate::disk::Deed;
use rusqlite::ffi;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;

/// What the disk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    Io,
    Full,
    ReadOnly,
    TooManyFiles,
    /// Half of it is written before the disk is full.
    Short,
}

impl Trouble {
    pub const ALL: [Self; 5] =
        [Self::Io, Self::Full, Self::ReadOnly, Self::TooManyFiles, Self::Short];

    pub fn error(self) -> io::Error {
        let errno = match self {
            Self::Io => Errno::IO,
            Self::Full | Self::Short => Errno::NOSPC,
            Self::ReadOnly => Errno::ROFS,
            Self::TooManyFiles => Errno::MFILE,
        };
        errno.into()
    }

    /// What SQLite's own VFS makes of it.
    pub fn code(self, site: Site) -> c_int {
        match (site, self) {
            (Site::Sync, _) => ffi::SQLITE_IOERR_FSYNC,
            (Site::Open, _) => ffi::SQLITE_CANTOPEN,
            (_, Self::Full | Self::Short) => ffi::SQLITE_FULL,
            (Site::Cut, _) => ffi::SQLITE_IOERR_TRUNCATE,
            (Site::Remove, _) => ffi::SQLITE_IOERR_DELETE,
            (_, _) => ffi::SQLITE_IOERR_WRITE,
        }
    }
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Site {
    Open,
    Make,
    Write,
    Cut,
    Sync,
    SyncFolder,
    Rename,
    Remove,
}

impl Site {
    pub fn of(deed: &Deed<'_>) -> Self {
        match deed {
            Deed::Open(_) => Self::Open,
            Deed::MakeFolder(_) => Self::Make,
            Deed::Write { .. } => Self::Write,
            Deed::Cut { .. } => Self::Cut,
            Deed::Sync(_) => Self::Sync,
            Deed::SyncFolder(_) => Self::SyncFolder,
            Deed::Rename { .. } => Self::Rename,
            Deed::Remove(_) => Self::Remove,
        }
    }
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    Sqlite,
    Ours,
}

/// Which call fails, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub site: Site,
    pub whose: Whose,
    /// The how manieth of its kind, from 0: several threads ask, and all calls together come in
    /// another order each time.
    pub nth: usize,
    pub trouble: Trouble,
    pub for_ever: bool,
}

/// An error that the store would not hear, if it were written so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deaf {
    Rename,
    Sync,
    SyncFolder,
    SqliteSync,
    SqliteWrite,
}

impl Deaf {
    fn to(site: Site, whose: Whose) -> Option<Self> {
        match (site, whose) {
            (Site::Rename, Whose::Ours) => Some(Self::Rename),
            (Site::Sync, Whose::Ours) => Some(Self::Sync),
            (Site::SyncFolder, Whose::Ours) => Some(Self::SyncFolder),
            (Site::Sync, Whose::Sqlite) => Some(Self::SqliteSync),
            (Site::Write, Whose::Sqlite) => Some(Self::SqliteWrite),
            (_, _) => None,
        }
    }
}

/// What the disk is asked, and what it is to answer.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub plan: Option<Plan>,
    pub deaf: Option<Deaf>,
    /// How many calls of each kind there were.
    pub calls: BTreeMap<(Site, Whose), usize>,
    /// How many of them failed.
    pub failed: usize,
    /// How many renames were said to be done and were not.
    unrenamed: usize,
}

/// What is to become of one call.
pub(super) enum Verdict {
    Do,
    Fail(Trouble),
    /// It fails, and nobody hears of it.
    FailUnheard(Trouble),
}

impl Faults {
    pub fn ask(&mut self, site: Site, whose: Whose) -> Verdict {
        let calls = self.calls.entry((site, whose)).or_default();
        let nth = *calls;
        *calls += 1;
        let Some(plan) = self.plan else { return Verdict::Do };
        let is_it = (plan.site, plan.whose, plan.nth) == (site, whose, nth);
        let goes_on = plan.for_ever && self.failed > 0;
        if !is_it && !goes_on {
            return Verdict::Do;
        }
        self.failed += 1;
        match self.deaf {
            Some(deaf) if Deaf::to(site, whose) == Some(deaf) => {
                self.unrenamed += usize::from(deaf == Deaf::Rename);
                Verdict::FailUnheard(plan.trouble)
            }
            _ => Verdict::Fail(plan.trouble),
        }
    }

    /// Whether the rename that was just done is one that was to fail unheard.
    pub fn take_unrenamed(&mut self) -> bool {
        let one = self.unrenamed > 0;
        self.unrenamed -= usize::from(one);
        one
    }
}
