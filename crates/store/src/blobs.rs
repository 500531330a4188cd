//! Long fields, named by the BLAKE3 hash of their bytes: `blobs/ab/<hash>`. A blob is durable
//! before the commit that names it, and never changes. A half-written one has a temporary name and
//! is swept at the next start; one that was written and never named is swept by `removal.rs`. Reads
//! check the name before it becomes a path, and what was read against the name: a blob whose bytes
//! the disk changed is never given out. Whoever writes the same bytes again mends it.

use crate::disk::{self, make_folder, sync_folder};
use crate::error::Error;
use crate::limits::BLOB_PIECE_BYTES;
use crate::seal::SealedBlob;
use failpoint::Point;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// The folder of blobs of one store.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    folder: PathBuf,
    /// Shelves whose names are known to be durable. To be there is not enough: whoever made it may
    /// not have synced it yet, or may have died before.
    shelves: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Blobs {
    /// Makes the folder and sweeps what a crash left half written.
    pub fn open(folder: PathBuf) -> Result<Self, Error> {
        make_folder(&folder)
            .and_then(|()| sweep(&folder))
            .map_err(|cause| Error::io(format!("opening {}", folder.display()), cause))?;
        Ok(Self::at(folder))
    }

    /// The same, for reading only.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, shelves: Arc::default() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a blob of this name is, if the name can be one.
    pub fn path(&self, hash: &str) -> Option<PathBuf> {
        let plausible =
            hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        plausible.then(|| self.folder.join(&hash[..2]).join(hash))
    }

    /// The shelves that are there.
    pub fn all_shelves(&self) -> io::Result<Vec<String>> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let mut shelves = names_in(&self.folder)?;
        shelves.retain(|name| name.len() == 2 && name.bytes().all(hex));
        Ok(shelves)
    }

    /// The names of the blobs on a shelf.
    pub fn on_shelf(&self, shelf: &str) -> io::Result<Vec<String>> {
        let mut names = names_in(&self.folder.join(shelf))?;
        names.retain(|name| name.starts_with(shelf) && self.path(name).is_some());
        Ok(names)
    }

    /// `None` when it is gone; `Damaged` when its bytes are not those of its name.
    pub fn read(&self, hash: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = self.path(hash) else { return Ok(None) };
        match fs::read(&path) {
            Ok(bytes) if blake3::hash(&bytes).to_hex().as_str() == hash => Ok(Some(bytes)),
            Ok(_) => Err(Error::Damaged { blob: hash.to_owned() }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::io(format!("reading blob {hash}"), cause)),
        }
    }

    /// An event with its cut fields made whole. A blob that is gone or damaged leaves its preview, its
    /// name and `truncated`: one bad file must not make the rest of a run unreadable.
    pub fn whole(&self, event: &[u8]) -> Result<Value, Error> {
        let mut event: Value = serde_json::from_slice(event)
            .map_err(|cause| Error::unreadable("reading an event", cause))?;
        let Some(fields) = event.as_object_mut() else { return Ok(event) };
        let cut = |name: &String| name.strip_suffix("_blob").map(str::to_owned);
        let mut missing = false;
        for name in fields.keys().filter_map(cut).collect::<Vec<_>>() {
            let reference = &fields[&format!("{name}_blob")];
            let (hash, form) = (reference["hash"].as_str(), reference["as"].as_str());
            let bytes = match self.read(hash.unwrap_or_default()) {
                Ok(Some(bytes)) => bytes,
                Ok(None) | Err(Error::Damaged { .. }) => {
                    missing = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let whole = match form {
                Some("json") => serde_json::from_slice(&bytes)
                    .map_err(|cause| Error::unreadable("reading a blob", cause))?,
                _ => String::from_utf8_lossy(&bytes).into_owned().into(),
            };
            fields.remove(&format!("{name}_blob"));
            fields.insert(name, whole);
        }
        if !missing {
            fields.remove("truncated");
        }
        Ok(event)
    }

    /// Durable when it returns. A blob that is there already is read, and written again by name only
    /// if it is what it should be.
    pub fn write(&self, blob: &SealedBlob) -> Result<(), Error> {
        let doing = || format!("writing blob {}", blob.hash);
        let path = self
            .path(&blob.hash)
            .ok_or_else(|| Error::conflict(format!("'{}' is not the hash of a blob", blob.hash)))?;
        self.write_to(&path, blob.bytes.bytes(), &doing)
    }

    fn write_to(&self, path: &Path, bytes: &[u8], doing: &dyn Fn() -> String) -> Result<(), Error> {
        let failed = |cause| Error::io(doing(), cause);
        let unsynced = |cause| Error::sync(doing(), cause);
        let unnamed = |cause| Error::sync_folder(doing(), cause);
        let shelf = path.parent().unwrap_or(&self.folder);
        if !self.shelves().contains(shelf) {
            make_folder(shelf).map_err(failed)?;
            sync_folder(&self.folder).map_err(unnamed)?;
            self.shelves().insert(shelf.to_owned());
        }
        if !holds(path, bytes) {
            let n = TEMPORARY.fetch_add(1, Ordering::Relaxed);
            let temporary = self.folder.join(format!("new-{}-{n}", std::process::id()));
            let file = disk::write_new(&temporary, bytes).map_err(failed)?;
            failpoint::hit(Point::BlobWritten);
            let written = disk::sync(&file, &temporary)
                .map_err(unsynced)
                .inspect(|()| failpoint::hit(Point::BlobSynced))
                .and_then(|()| disk::rename(&temporary, path).map_err(failed));
            failpoint::hit(Point::BlobRenamed);
            if let Err(error) = written {
                disk::remove_part(&temporary);
                return Err(error);
            }
        }
        // Also when it was there: whoever renamed it may have died before this.
        sync_folder(shelf).map_err(unnamed)?;
        failpoint::hit(Point::BlobDurable);
        Ok(())
    }

    fn shelves(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file has exactly these bytes. One that cannot be read does not.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let same = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            return Ok(false);
        }
        let mut piece = vec![0; BLOB_PIECE_BYTES.min(bytes.len())];
        for expected in bytes.chunks(BLOB_PIECE_BYTES) {
            file.read_exact(&mut piece[..expected.len()])?;
            if piece[..expected.len()] != *expected {
                return Ok(false);
            }
        }
        Ok(true)
    };
    same().unwrap_or(false)
}

/// What lies in a folder, which may be gone.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"new-") {
            disk::remove(&entry.path())?;
        }
    }
    Ok(())
}
