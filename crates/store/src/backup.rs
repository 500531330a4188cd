//! A backup is a data directory of its own, made while others read and write: the database as it was
//! at one moment, every blob it names, and what is kept of raw output. It is whole or it is not
//! there: it grows under another name and gets its own last, when all of it is durable. Runs that
//! were live at that moment are closed in it as lost, so that whoever opens it never takes them for
//! its own.
//!
//! Reads only what it copies. While it is made nothing is deleted: both ask for the same lock.

use crate::blocking::blocking;
use crate::error::Error;
use crate::limits::COPIED_PIECE_BYTES;
use crate::seal::Seal;
use crate::{BLOBS, Batch, DATABASE, RunRow, RunsPage, Seen, Settle, Store, TRACES, disk, sqlite};
use contract::event::{
    Body, EndEvidence, Envelope, Evidence, Lease, LeaseAction, Origin, Outcome, RunResult,
};
use contract::limits::PAGE_ROWS_MAX;
use contract::{Code, RunState, TaskState, Timestamp};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file whose lock backups share and deletion has alone.
const LOCK: &str = "backup.lock";
const CLOSED: &str = "it was live when this backup was made";

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    pub runs: u64,
    pub blobs: u64,
    pub traces: u64,
    pub bytes: u64,
}

/// Held while a backup is made, or while something is deleted.
#[derive(Debug)]
pub struct Upkeep(#[expect(dead_code, reason = "closing it lets go")] File);

impl Upkeep {
    /// None while a backup is being made.
    pub fn to_delete(dir: &Path) -> Result<Option<Self>, Error> {
        lock(dir, FlockOperation::NonBlockingLockExclusive)
    }

    fn to_copy(dir: &Path) -> Result<Self, Error> {
        let held = lock(dir, FlockOperation::LockShared)?;
        held.ok_or_else(|| Error::conflict("something is being deleted; ask again"))
    }
}

fn lock(dir: &Path, how: FlockOperation) -> Result<Option<Upkeep>, Error> {
    let doing = || format!("locking {}", dir.join(LOCK).display());
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(LOCK));
    let file = file.map_err(|cause| Error::io(doing(), cause))?;
    match rustix::fs::flock(&file, how) {
        Ok(()) => Ok(Some(Upkeep(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(cause) => Err(Error::io(doing(), cause.into())),
    }
}

/// Copies the store of a directory to a new one, which is durable when this returns.
pub async fn backup(dir: &Path, to: &Path, now: Timestamp) -> Result<Backup, Error> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(Error::conflict(format!("{} already exists", to.display())));
    }
    let growing = growing(to)?;
    let (from, copy) = (dir.to_owned(), growing.clone());
    let copied = blocking("copying", move || copy_all(&from, &copy)).await.flatten();
    let finished = match copied {
        Ok(made) => close_live(&growing, now).await.map(|()| made),
        Err(error) => Err(error),
    };
    let named = finished.and_then(|made| {
        disk::rename(&growing, to)
            .and_then(|()| disk::sync_folder_above(to))
            .map(|()| made)
            .map_err(|cause| Error::io(format!("naming {}", to.display()), cause))
    });
    named.inspect_err(|_| {
        // A part must not be taken for the whole.
        if let Err(error) = fs::remove_dir_all(&growing)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            let path = growing.display();
            tracing::warn!(%path, %error, "an unfinished backup cannot be removed");
        }
    })
}

/// The name under which it grows, beside the one it will have.
fn growing(to: &Path) -> Result<PathBuf, Error> {
    let name = to.file_name().ok_or_else(|| {
        Error::conflict(format!("{} is not the name of a directory to be made", to.display()))
    })?;
    let mut growing = name.to_owned();
    growing.push(format!(".{}.part", std::process::id()));
    Ok(to.with_file_name(growing))
}

fn copy_all(dir: &Path, to: &Path) -> Result<Backup, Error> {
    let _upkeep = Upkeep::to_copy(dir)?;
    let failed = |cause| Error::io(format!("writing {}", to.display()), cause);
    disk::make_folder(to).map_err(failed)?;
    let connection = sqlite::open_reader(&dir.join(DATABASE))?;
    let database = to.join(DATABASE);
    // It is made with its mode before anything is in it.
    let file = disk::write_new(&database, b"").map_err(failed)?;
    connection
        .execute("VACUUM INTO ?1", [database.display().to_string()])
        .map_err(|cause| Error::sqlite("copying the database", cause))?;
    drop(connection);
    disk::sync(&file, &database).map_err(failed)?;
    let mut made = Backup { runs: 0, blobs: 0, traces: 0, bytes: 0 };
    made.bytes += fs::metadata(&database).map_err(failed)?.len();
    // Later than the database: everything it names is there, and a trace has all that it counts.
    let copy = sqlite::open_reader(&database)?;
    made.runs = copy
        .query_row("SELECT count(*) FROM runs WHERE deleted_at IS NULL", [], |row| {
            row.get::<_, i64>(0)
        })?
        .unsigned_abs();
    let mut folders = BTreeSet::new();
    let mut named = copy.prepare("SELECT DISTINCT hash FROM blob_names")?;
    let mut rows = named.query([])?;
    while let Some(row) = rows.next()? {
        let hash: String = row.get(0)?;
        let shelf = Path::new(BLOBS).join(hash.get(..2).unwrap_or_default());
        if let Some(bytes) = copy_file(dir, to, &shelf, &hash).map_err(failed)? {
            made.blobs += 1;
            made.bytes += bytes;
            folders.extend([to.join(BLOBS), to.join(shelf)]);
        }
    }
    for entry in fs::read_dir(dir.join(TRACES)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(bytes) = copy_file(dir, to, Path::new(TRACES), &name).map_err(failed)? {
            made.traces += 1;
            made.bytes += bytes;
            folders.insert(to.join(TRACES));
        }
    }
    // Once for all that is in them. Whoever opens the copy first syncs the folder of all of these.
    folders.iter().try_for_each(|folder| disk::sync_folder(folder)).map_err(failed)?;
    Ok(made)
}

/// None when it is gone meanwhile.
fn copy_file(dir: &Path, to: &Path, folder: &Path, name: &str) -> io::Result<Option<u64>> {
    let mut source = match File::open(dir.join(folder).join(name)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    disk::make_folder(&to.join(folder))?;
    let path = to.join(folder).join(name);
    let copy = disk::write_new(&path, b"")?;
    let (mut piece, mut bytes) = (vec![0; COPIED_PIECE_BYTES], 0);
    loop {
        let read = source.read(&mut piece)?;
        if read == 0 {
            break;
        }
        disk::write_at(&copy, &path, bytes, &piece[..read])?;
        bytes += read as u64;
    }
    disk::sync(&copy, &path)?;
    Ok(Some(bytes))
}

/// Ends every run of the copy that had not ended: their agents belong to the original.
async fn close_live(dir: &Path, now: Timestamp) -> Result<(), Error> {
    let store = Store::open(dir)?;
    loop {
        let page = RunsPage { before: None, limit: PAGE_ROWS_MAX, unsettled_only: true };
        let live = store.runs(page).await?;
        if live.is_empty() {
            break;
        }
        for row in live {
            let seen = Seen { run: row.id, fence: row.fence, expires_at: row.lease_expires_at };
            let reaped = store.reap_seen(now, vec![seen]).await?;
            let fence = reaped.first().map_or(row.fence, |reaped| reaped.fence);
            store.commit(closing(&row, fence, now)).await?;
        }
    }
    store.close().await;
    Ok(())
}

fn closing(row: &RunRow, fence: u64, now: Timestamp) -> Batch {
    let seal = Seal::default();
    let result = RunResult {
        outcome: Outcome::Lost,
        code: Some(Code::ProcessLost),
        message: Some(CLOSED.to_owned()),
        text: None,
        output: None,
        exit_code: None,
        signal: None,
        duration_ms: now.since(row.started_at),
        totals: row.totals.unwrap_or_default(),
        report: Box::new(row.report.clone().unwrap_or_default()),
        denials: 0,
        evidence: Evidence {
            end: EndEvidence::None,
            salvaged: None,
            stopped_by: None,
            forced: None,
            note: Some(CLOSED.to_owned()),
            workspace: None,
            workspace_note: None,
        },
    };
    let released = Body::Lease(Lease { action: LeaseAction::Released, expires_at: None });
    let stamp =
        |seq| Envelope { run_id: row.id, seq, ts: now, attempt: 1, fence, origin: Origin::Ostler };
    let first_seq = row.head_seq + 1;
    let events = vec![
        seal.event(&stamp(first_seq), &released, None),
        seal.event(&stamp(first_seq + 1), &Body::Result(result), None),
    ];
    Batch {
        run: row.id,
        fence,
        first_seq,
        events,
        machine: seal.given("null"),
        dialect: seal.given("null"),
        host: seal.given("null"),
        spool_offset: 0,
        taken: Vec::new(),
        effects_todo: Vec::new(),
        effects_done: Vec::new(),
        run_state: RunState::Settled,
        pid: None,
        totals: row.totals,
        // As it is in the row.
        report: None,
        ledger: Vec::new(),
        session: None,
        session_stale: false,
        settle: Some(Settle {
            outcome: Outcome::Lost,
            code: Some(Code::ProcessLost),
            ended_at: now,
            task_state: TaskState::Failed,
            waiting_for: None,
            follow: Default::default(),
            message: seal.given(CLOSED),
            turns: 0,
            unspent: false,
            is_included: row
                .report
                .as_ref()
                .and_then(|report| report.billing)
                .is_some_and(contract::Billing::is_included),
        }),
    }
}
