//! What is written down for later: who answered, decided, hired, deleted and cleared what, tokens that
//! were given and taken away, and who came with no token that is good here, when, from where, and for which
//! route. Never a token, and no
//! word of a stranger: addresses, routes and ids are ours. One line of
//! JSON each, in a private file of the data directory that is set aside when it is full, so that it
//! never takes more than two files' room. A line that cannot be written is lost, which is logged.

use crate::blocking::{self, Bulkhead};
use crate::ops::who::Who;
use contract::limits::AUDIT_BYTES_MAX;
use contract::{Fault, Timestamp};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &str = "audit.jsonl";
/// The one before it.
const EARLIER: &str = "audit.1.jsonl";

/// A request that was refused for its token.
#[derive(Debug, Clone, Serialize)]
pub struct RefusedToken {
    pub from: IpAddr,
    pub method: String,
    /// As the table of routes has it; `None` for an address that is none.
    pub route: Option<String>,
    /// How often this address was refused before, within a minute.
    pub before: u32,
}

#[derive(Serialize)]
struct Deed {
    ts: Timestamp,
    what: &'static str,
    #[serde(flatten)]
    about: serde_json::Value,
}

#[derive(Serialize)]
struct Line<'a> {
    ts: Timestamp,
    what: &'static str,
    code: &'static str,
    #[serde(flatten)]
    refused: &'a RefusedToken,
}

/// The file, one writer at a time.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    dir: PathBuf,
    writing: Arc<Mutex<()>>,
}

impl Audit {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), writing: Arc::default() }
    }

    /// Writes one line, off the path of whoever asked.
    pub fn refused(&self, ts: Timestamp, fault: &Fault, refused: RefusedToken) {
        let (audit, code) = (self.clone(), fault.code.word());
        blocking::spawn(Bulkhead::Data, "write audit log", move || {
            audit.add_or_log(
                &Line { ts, what: "token_refused", code, refused: &refused },
                "token_refused",
            );
        });
    }

    /// Writes down what was done with an agent: `hired`, `edited`, `paused`, `resumed`, `retired`.
    pub fn agent(&self, ts: Timestamp, by: &Who, what: &'static str, name: &str) {
        self.did(ts, by, what, serde_json::json!({ "agent": name }));
    }

    /// Writes down who answered what, before it is carried out.
    pub fn answered(&self, ts: Timestamp, by: &Who, about: serde_json::Value) {
        self.did(ts, by, "answered", about);
    }

    /// Writes down that a run was deleted.
    pub fn deleted(&self, ts: Timestamp, by: &Who, run: contract::RunId) {
        self.did(ts, by, "deleted", serde_json::json!({ "run_id": run }));
    }

    /// Writes down who did what and to what, off the path of whoever asked.
    pub fn did(&self, ts: Timestamp, by: &Who, what: &'static str, about: serde_json::Value) {
        let (audit, about) = (self.clone(), by.told(about));
        blocking::spawn(Bulkhead::Data, "write audit log", move || {
            audit.add_or_log(&Deed { ts, what, about }, what);
        });
    }

    /// Writes a line. The action that it is about goes on without it, because the disk may be full.
    fn add_or_log(&self, line: &impl Serialize, what: &'static str) {
        let line = serde_json::to_vec(line).map_err(io::Error::from);
        if let Err(error) = line.and_then(|line| self.add(line)) {
            tracing::error!(what, %error, "a line of the audit log cannot be written");
        }
    }

    fn add(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = self.open()?;
        if file.metadata()?.len() + line.len() as u64 > AUDIT_BYTES_MAX {
            fs::rename(self.dir.join(NAME), self.dir.join(EARLIER))?;
            file = self.open()?;
        }
        file.write_all(&line)
    }

    fn open(&self) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(flags);
        options.open(self.dir.join(NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_takes_more_room_than_two_full_files_and_keeps_the_latest() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path());
        let line = vec![b'x'; 64 << 10];
        let lines = 3 * AUDIT_BYTES_MAX as usize / line.len();
        for _ in 0..lines {
            audit.add(line.clone()).unwrap();
        }
        audit.add(b"last".to_vec()).unwrap();
        let bytes = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
        assert!(bytes(NAME) <= AUDIT_BYTES_MAX && bytes(EARLIER) <= AUDIT_BYTES_MAX);
        assert!(fs::read(dir.path().join(NAME)).unwrap().ends_with(b"last\n"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn it_is_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(NAME)).unwrap();
        assert!(Audit::new(dir.path()).add(b"line".to_vec()).is_err());
        assert_eq!(fs::read(&elsewhere).unwrap(), b"");
    }
}
