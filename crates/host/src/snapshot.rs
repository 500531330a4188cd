//! A workspace as one tar file, for an agent that does not share our disk. In a repository these are
//! the files that are tracked, or neither tracked nor ignored (`git.rs`); elsewhere all of them. What
//! git keeps for itself and what Ostler keeps for itself are never among them, links are links and
//! never followed, and there is a limit on how many and how much.
//!
//! It is made as it is read and kept nowhere. The same files give the same bytes and so the same
//! digest; one that changes while it is read keeps its length in the tar, and the digest tells.

mod tar;

use crate::git::{self, Git};
use crate::workspace::{Found, Workspace};
use contract::{Code, Fault, limits};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;
use tar::Kind;

/// How much of a file is read at once.
const PIECE_BYTES: usize = 256 * 1024;

/// What is in a snapshot, before any of it is read.
#[derive(Debug, Clone)]
pub struct Snapshot {
    workspace: Arc<Workspace>,
    items: Vec<(String, Found)>,
    /// The length of the tar file.
    pub bytes: u64,
}

impl Snapshot {
    /// Looks at a workspace. Blocking.
    pub fn of(workspace: Arc<Workspace>, git: &Git) -> Result<Self, Fault> {
        let mut items = Vec::new();
        let mut bytes = tar::END.len() as u64;
        let mut add = |path: String| -> Result<(), Fault> {
            // What is neither a file nor a link, is ours or has gone meanwhile is left out.
            let Some(found) = workspace.look(&path) else { return Ok(()) };
            bytes = bytes.saturating_add(tar::header(&path, kind(&found)).len() as u64);
            if let Found::File { bytes: content, .. } = found {
                bytes = bytes.saturating_add(content + tar::padding(content) as u64);
            }
            items.push((path, found));
            within(items.len(), bytes)
        };
        match own_files(&workspace, git)? {
            Some(files) => files.into_iter().try_for_each(&mut add)?,
            None => workspace.walk(limits::SNAPSHOT_DEPTH_MAX, &mut add)?,
        }
        items.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { workspace, items, bytes })
    }

    /// The name of its content. Blocking: all of it is read.
    pub fn digest(&self) -> io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        let mut reader = self.clone().reader();
        while let Some(piece) = reader.piece()? {
            hasher.update(&piece);
        }
        Ok(format!("blake3:{}", hasher.finalize().to_hex()))
    }

    pub fn reader(self) -> Reader {
        let left = self.items.into();
        Reader { workspace: self.workspace, left, open: None, ended: false }
    }
}

/// What git says belongs to the workspace. None where there is no repository, or where the whole
/// directory is ignored: then it is a place of its own.
fn own_files(workspace: &Workspace, git: &Git) -> Result<Option<Vec<String>>, Fault> {
    if git::top(workspace.path()).is_none() {
        return Ok(None);
    }
    match git.files(workspace.path()) {
        Ok(files) => Ok(Some(files).filter(|files| !files.is_empty())),
        // All files would be too many: what is ignored is often what nobody may see.
        Err(error) => {
            let message = format!("{}: {error}", workspace.path().display());
            Err(Fault::new(Code::BadWorkspace, message)
                .with_hint("have git on PATH, and a repository that it can read"))
        }
    }
}

fn within(files: usize, bytes: u64) -> Result<(), Fault> {
    let (files_max, bytes_max) = (limits::SNAPSHOT_FILES_MAX, limits::SNAPSHOT_BYTES_MAX);
    if files <= files_max && bytes <= bytes_max {
        return Ok(());
    }
    let message = format!("the workspace has more than {files_max} files or {bytes_max} bytes");
    Err(Fault::new(Code::TooLarge, message)
        .with_hint("ignore what is not needed, or read files one by one with read_file"))
}

fn kind(found: &Found) -> Kind<'_> {
    match found {
        Found::File { bytes, executable } => Kind::File { bytes: *bytes, executable: *executable },
        Found::Link { target } => Kind::Link { target },
    }
}

/// A tar file on its way, piece by piece.
pub struct Reader {
    workspace: Arc<Workspace>,
    left: VecDeque<(String, Found)>,
    open: Option<Open>,
    ended: bool,
}

/// A file of which some is still to come.
struct Open {
    /// None when it could not be opened any more, or has ended before its time.
    file: Option<File>,
    left: u64,
    padding: usize,
}

impl Reader {
    /// The next bytes; `None` at the end. Blocking.
    pub fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(open) = &mut self.open {
            let piece = open.piece();
            if open.left == 0 {
                self.open = None;
            }
            return Ok(Some(piece));
        }
        let Some((path, found)) = self.left.pop_front() else {
            let last = (!self.ended).then(|| tar::END.to_vec());
            self.ended = true;
            return Ok(last);
        };
        if let Found::File { bytes, .. } = found
            && bytes > 0
        {
            let file = self.workspace.regular(&path).ok();
            self.open = Some(Open { file, left: bytes, padding: tar::padding(bytes) });
        }
        Ok(Some(tar::header(&path, kind(&found))))
    }
}

impl Open {
    /// Its next bytes, as many as were promised: what is missing is made of nothing.
    fn piece(&mut self) -> Vec<u8> {
        let wanted = usize::try_from(self.left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut piece = Vec::with_capacity(wanted + tar::BLOCK);
        if let Some(file) = &mut self.file
            && file.take(wanted as u64).read_to_end(&mut piece).is_err()
        {
            self.file = None;
        }
        piece.resize(wanted, 0);
        self.left -= wanted as u64;
        if self.left == 0 {
            piece.resize(piece.len() + self.padding, 0);
        }
        piece
    }
}

#[cfg(test)]
mod tests;
