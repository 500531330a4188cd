//! The log of what happened to the files of one store, in order, with the answers in between.
//! Files and folders are numbered like inodes: a name that is deleted and made again is another
//! file, and what lies in a folder goes with it when the folder gets another name.

use super::faults::{Faults, Site, Trouble, Verdict, Whose};
use crate::disk::Deed;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One step. Paths are relative to the recording's root.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Write {
        file: u32,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: u32,
        size: usize,
    },
    Sync {
        file: u32,
    },
    /// A name in a folder now means this file or folder.
    Name {
        folder: u32,
        path: PathBuf,
        node: Node,
    },
    Unname {
        folder: u32,
        path: PathBuf,
    },
    SyncFolder {
        folder: u32,
        path: PathBuf,
    },
    /// A sync failed: what was written before may be marked clean and gone, and no later sync will
    /// bring it to the disk.
    Unsynced {
        file: u32,
    },
    UnsyncedFolder {
        folder: u32,
    },
    /// The next answer was given.
    Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(u32),
    Folder(u32),
}

/// The number of the folder that is there from the beginning.
pub(super) const ROOT: u32 = 0;

#[derive(Default)]
struct Written {
    ops: Vec<Op>,
    names: BTreeMap<PathBuf, Node>,
    /// How many numbers were given, besides that of the root.
    nodes: u32,
    answers: usize,
}

impl Written {
    fn number(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes
    }

    fn folder(&self, path: &Path) -> u32 {
        match self.names.get(path) {
            _ if path.as_os_str().is_empty() => ROOT,
            Some(Node::Folder(folder)) => *folder,
            other => panic!("{} is {other:?} and no folder", path.display()),
        }
    }

    fn name(&mut self, path: PathBuf, node: Node) {
        let folder = self.folder(path.parent().unwrap());
        self.names.insert(path.clone(), node);
        self.ops.push(Op::Name { folder, path, node });
    }

    fn unname(&mut self, path: PathBuf) {
        if self.names.remove(&path).is_some() {
            let folder = self.folder(path.parent().unwrap());
            self.ops.push(Op::Unname { folder, path });
        }
    }
}

/// What happens below one folder.
pub(super) struct Recording {
    root: PathBuf,
    written: Mutex<Written>,
    faults: Mutex<Faults>,
}

static RECORDINGS: Mutex<Vec<Arc<Recording>>> = Mutex::new(Vec::new());

/// The recording that a file belongs to.
pub(super) fn recording_of(path: &Path) -> Option<Arc<Recording>> {
    let recordings = RECORDINGS.lock().unwrap_or_else(PoisonError::into_inner);
    recordings.iter().find(|recording| path.starts_with(&recording.root)).cloned()
}

fn path_of<'a>(deed: &Deed<'a>) -> &'a Path {
    match deed {
        Deed::Open(path) | Deed::MakeFolder(path) | Deed::Sync(path) => path,
        Deed::SyncFolder(path) | Deed::Remove(path) => path,
        Deed::Write { path, .. } | Deed::Cut { path, .. } => path,
        Deed::Rename { from, .. } => from,
    }
}

/// Whether the store may do this to its own files.
pub(crate) fn asked(deed: Deed<'_>) -> io::Result<()> {
    let Some(recording) = recording_of(path_of(&deed)) else { return Ok(()) };
    let (trouble, heard) = match recording.ask(Site::of(&deed), Whose::Ours) {
        Verdict::Do => return Ok(()),
        Verdict::Fail(trouble) => (trouble, Err(trouble.error())),
        Verdict::FailUnheard(trouble) => (trouble, Ok(())),
    };
    match deed {
        Deed::Sync(path) => {
            let (file, _) = recording.opened(path);
            recording.unsynced(file);
        }
        // A folder that could not be opened was not synced, and nothing of it is lost.
        Deed::SyncFolder(_) if trouble == Trouble::TooManyFiles => {}
        Deed::SyncFolder(path) => recording.unsynced_folder(path),
        Deed::Write { path, offset, bytes } if trouble == Trouble::Short => {
            let half = &bytes[..bytes.len() / 2];
            File::options().write(true).open(path)?.write_all_at(half, offset)?;
            seen(Deed::Write { path, offset, bytes: half });
        }
        _ => {}
    }
    heard
}

/// What the store's own files tell.
pub(crate) fn seen(deed: Deed<'_>) {
    let Some(recording) = recording_of(path_of(&deed)) else { return };
    match deed {
        Deed::Open(_) => {}
        Deed::MakeFolder(path) => recording.made_folder(path),
        Deed::Write { path, offset, bytes } => {
            let (file, _) = recording.opened(path);
            recording.write(file, offset as usize, bytes);
        }
        Deed::Cut { path, size } => {
            let (file, _) = recording.opened(path);
            recording.truncate(file, size as usize);
        }
        Deed::Sync(path) => {
            let (file, _) = recording.opened(path);
            recording.sync(file);
        }
        Deed::SyncFolder(path) => recording.sync_folder(path),
        Deed::Rename { from, to } if recording.faults().take_unrenamed() => {
            // It failed, and whoever asked does not know.
            let _ = fs::rename(to, from);
        }
        Deed::Rename { from, to } => recording.renamed(from, to),
        Deed::Remove(path) => recording.removed(path),
    }
}

impl Recording {
    pub fn start(root: &Path) -> Arc<Self> {
        let recording = Arc::new(Self {
            root: root.to_owned(),
            written: Mutex::default(),
            faults: Mutex::default(),
        });
        RECORDINGS.lock().unwrap_or_else(PoisonError::into_inner).push(recording.clone());
        recording
    }

    /// Everything so far, of which nothing is told any more.
    pub fn stop(self: Arc<Self>) -> (Vec<Op>, BTreeMap<u32, PathBuf>) {
        let mut recordings = RECORDINGS.lock().unwrap_or_else(PoisonError::into_inner);
        recordings.retain(|other| !Arc::ptr_eq(other, &self));
        let ops = std::mem::take(&mut self.written().ops);
        let named = |op: &Op| match op {
            Op::Name { path, node: Node::File(file), .. } => Some((*file, path.clone())),
            _ => None,
        };
        let last_names = ops.iter().filter_map(named).collect();
        (ops, last_names)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ask(&self, site: Site, whose: Whose) -> Verdict {
        self.faults().ask(site, whose)
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap().to_owned()
    }

    /// The file of this name, and whether it is new.
    pub fn opened(&self, path: &Path) -> (u32, bool) {
        let path = self.below(path);
        let mut written = self.written();
        if let Some(Node::File(file)) = written.names.get(&path) {
            return (*file, false);
        }
        let file = written.number();
        written.name(path, Node::File(file));
        (file, true)
    }

    fn made_folder(&self, path: &Path) {
        let path = self.below(path);
        let mut written = self.written();
        let folder = written.number();
        written.name(path, Node::Folder(folder));
    }

    fn renamed(&self, from: &Path, to: &Path) {
        let (from, to) = (self.below(from), self.below(to));
        let mut written = self.written();
        let node = written.names[&from];
        let inside =
            written.names.extract_if(.., |path, _| path.starts_with(&from) && *path != from);
        let inside: Vec<_> = inside.collect();
        written.name(to.clone(), node);
        written.unname(from.clone());
        for (path, node) in inside {
            written.names.insert(to.join(path.strip_prefix(&from).unwrap()), node);
        }
    }

    pub fn removed(&self, path: &Path) {
        let path = self.below(path);
        self.written().unname(path);
    }

    pub fn write(&self, file: u32, offset: usize, bytes: &[u8]) {
        self.written().ops.push(Op::Write { file, offset, bytes: bytes.to_vec() });
    }

    pub fn truncate(&self, file: u32, size: usize) {
        self.written().ops.push(Op::Truncate { file, size });
    }

    pub fn sync(&self, file: u32) {
        self.written().ops.push(Op::Sync { file });
    }

    pub fn unsynced(&self, file: u32) {
        self.written().ops.push(Op::Unsynced { file });
    }

    fn unsynced_folder(&self, path: &Path) {
        let path = self.below(path);
        let mut written = self.written();
        let folder = written.folder(&path);
        written.ops.push(Op::UnsyncedFolder { folder });
    }

    pub fn sync_folder(&self, path: &Path) {
        let path = self.below(path);
        let mut written = self.written();
        let folder = written.folder(&path);
        written.ops.push(Op::SyncFolder { folder, path });
    }

    /// How many steps there were.
    pub fn steps(&self) -> usize {
        self.written().ops.len()
    }

    /// The step by which something got this name first.
    pub fn named(&self, path: &str) -> usize {
        let is = |op: &Op| matches!(op, Op::Name { path: named, .. } if *named == Path::new(path));
        self.written().ops.iter().position(is).unwrap()
    }

    /// Notes that an answer was given, by its number, counted from 0.
    pub fn answered(&self) -> usize {
        let mut written = self.written();
        let answer = written.answers;
        written.answers += 1;
        written.ops.push(Op::Answer);
        answer
    }
}
