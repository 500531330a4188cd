//! Where a run works: in the directory that was named, in the workspace of the run whose conversation
//! it takes up, or in one that is made for it (`trees.rs`). What is made for a run that then does not
//! come to be is removed again. The policy of a workspace that is ours is decided in `start.rs`.

use super::resume;
use super::run::{RunRequest, Where};
use crate::blocking;
use crate::trace::warning;
use crate::trees::{Entering, Kind, Trees, Wanted};
use crate::workspace::Workspace;
use crate::{Host, git};
use contract::{Draft, Fault, RunId};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a run is to work, before anything is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Site {
    /// A directory of the person's.
    Here(PathBuf),
    /// A workspace of ours that an earlier run left.
    Again(PathBuf),
    /// One that is to be made.
    New { kind: Kind, source: PathBuf, keep: bool },
}

/// What a workspace is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Start,
    /// Only to see whether it could be: nothing is made.
    Line,
}

/// Where a run works.
pub(super) struct Placed {
    pub workspace: Arc<Workspace>,
    /// What was made just now.
    pub fresh: Option<Fresh>,
    pub warnings: Vec<Draft>,
}

/// A workspace that is removed again, unless its run came to be.
pub(super) struct Fresh {
    trees: Arc<Trees>,
    /// Absent for one that an earlier run left.
    run: Option<RunId>,
    /// Keeps one that an earlier run left from being removed until the new run is durable.
    _entering: Option<Entering>,
}

impl Fresh {
    /// The run did not come to be, and may be asked for again at once.
    pub async fn discard(mut self) {
        if let Some(run) = self.run.take() {
            let (trees, place) = (Arc::clone(&self.trees), self.trees.place(run));
            // A removal that fails is logged by `Trees`, a panic or a file system that hangs by `blocking`.
            let _ = blocking::work_in(&place, "remove worktree", move || trees.remove(run)).await;
        }
    }

    /// The run is durable: its workspace stays.
    pub fn keep(mut self) {
        self.run = None;
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // Not later and beside us: whoever asks again under this id would lose what it then made.
        if let Some(run) = self.run.take() {
            blocking::in_place("remove worktree", || self.trees.remove(run));
        }
    }
}

impl Site {
    /// Decides where a run works. A directory that cannot be used is refused here.
    pub async fn of(host: &Host, request: &RunRequest) -> Result<Self, Fault> {
        if let Some(left) = resume::workspace_left(host, request).await? {
            return Ok(Self::Again(left));
        }
        // Who takes over from another goes on in the workspace that the other had.
        if let Some(left) = &request.goes_on_in {
            return Ok(Self::Again(left.clone()));
        }
        let source = open(&request.cwd).await?.path().to_owned();
        let keep = request.keep;
        Ok(match request.workspace.unwrap_or(Where::Here) {
            Where::Here => Self::Here(source),
            Where::Worktree => Self::New { kind: Kind::Worktree, source, keep: true },
            Where::Temporary => Self::New { kind: Kind::Temporary, source, keep },
        })
    }

    /// Whether it is ours, so that an agent may do there what it likes.
    pub fn is_owned(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Again(_) | Self::New { .. } => true,
        }
    }

    /// The directory that was named, where the run works in another.
    pub fn source(&self) -> Option<&Path> {
        match self {
            Self::Here(_) | Self::Again(_) => None,
            Self::New { source, .. } => Some(source),
        }
    }

    /// Whether a worktree could be had here instead.
    pub async fn could_be_worktree(&self) -> bool {
        let Self::Here(dir) = self else { return false };
        let looked_at = dir.clone();
        let found = blocking::probe(dir, "find repository", move || git::top(&looked_at).is_some());
        // Only a hint depends on it, and `blocking` has logged a file system that hangs.
        found.await.unwrap_or(false)
    }

    /// The workspace itself.
    pub async fn make(self, host: &Host, run: RunId, purpose: Purpose) -> Result<Placed, Fault> {
        let house = &host.inner;
        let open = async |dir: &Path| {
            open(dir).await.map(|found| Arc::new(found.without(&house.data.private())))
        };
        let (kind, source, keep) = match self {
            Self::Here(dir) => {
                return Ok(Placed {
                    workspace: open(&dir).await?,
                    fresh: None,
                    warnings: Vec::new(),
                });
            }
            Self::Again(dir) => {
                let (dir, fresh) = enter(&house.trees, dir, purpose).await?;
                return Ok(Placed { workspace: open(&dir).await?, fresh, warnings: Vec::new() });
            }
            Self::New { kind, source, keep } => (kind, source, keep),
        };
        let stand_in = open(&source).await?;
        let (trees, looked_at) = (Arc::clone(&house.trees), source.clone());
        let make = move || match (purpose, kind) {
            (Purpose::Start, _) => {
                trees.make(Wanted { run, source: &source, kind, keep }).map(Some)
            }
            (Purpose::Line, Kind::Worktree) => trees.check(&source).map(|()| None),
            (Purpose::Line, Kind::Temporary) => Ok(None),
        };
        let made = blocking::work_in(&looked_at, "make worktree", make).await??;
        let Some(made) = made else {
            return Ok(Placed { workspace: stand_in, fresh: None, warnings: Vec::new() });
        };
        // Should it not open, it goes again.
        let guard = || Fresh { trees: Arc::clone(&house.trees), run: Some(run), _entering: None };
        let fresh = made.fresh.then(guard);
        Ok(Placed {
            workspace: open(&made.cwd).await?,
            fresh,
            warnings: made.notes.into_iter().map(warning).collect(),
        })
    }
}

/// Enters the workspace that an earlier run left. A worktree that was removed because nothing had been
/// changed in it is made again, at the same path: agents find their conversations by it.
async fn enter(
    trees: &Arc<Trees>,
    dir: PathBuf,
    purpose: Purpose,
) -> Result<(PathBuf, Option<Fresh>), Fault> {
    let Some(tree) = trees.of(&dir) else { return Ok((dir, None)) };
    if purpose == Purpose::Line {
        let stand_in = if tree.is_there() { dir } else { tree.record.source };
        return Ok((stand_in, None));
    }
    let trees = Arc::clone(trees);
    let source = tree.record.source.clone();
    let enter = move || {
        let entering = trees.enter(tree.id);
        trees.remake(&tree)?;
        let dir = if dir.is_dir() { dir } else { tree.cwd() };
        Ok((dir, Some(Fresh { trees, run: None, _entering: Some(entering) })))
    };
    blocking::work_in(&source, "enter worktree", enter).await?
}

/// Opens a directory of the user.
async fn open(dir: &Path) -> Result<Workspace, Fault> {
    let opened = dir.to_owned();
    blocking::probe(dir, "open the working directory", move || Workspace::open(&opened)).await?
}
/// Takes away a workspace that was made for a run that does not start.
pub(super) async fn discard(fresh: Option<Fresh>) {
    if let Some(fresh) = fresh {
        fresh.discard().await;
    }
}
