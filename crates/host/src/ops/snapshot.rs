//! The workspace of a run for an agent that does not share our disk: one tar file, for the token of
//! the run and for nobody else. What comes back comes by `apply_patch` and `write_file`.

use super::relay::{Bearer, gone};
use crate::Host;
use crate::blocking;
use crate::git::Git;
use crate::snapshot::{Reader, Snapshot};
use crate::workspace::Workspace;
use contract::{Code, Fault, RunId};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a snapshot is to be had. How long it is and what it is called is told with it: nobody reads
/// a whole directory for a remote that may never ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub url: String,
    /// `tar`.
    pub format: String,
}

/// A snapshot on its way to whoever asked.
pub struct Taken {
    pub bytes: u64,
    pub digest: String,
    pub reader: Reader,
    /// The directory that it is read from.
    pub dir: PathBuf,
}

/// The path at which a run finds its workspace.
pub fn path(run: RunId) -> String {
    format!("/api/v1/runs/{run}/workspace")
}

/// The workspace of a live run, as it is now.
pub async fn take(host: &Host, bearer: Bearer) -> Result<Taken, Fault> {
    let workspace = {
        let live = host.inner.live();
        let live = live.get(&bearer.run).filter(|live| live.fence == bearer.fence);
        Arc::clone(&live.ok_or_else(gone)?.workspace)
    };
    let dir = workspace.path().to_owned();
    let (snapshot, digest) = taken(workspace, host.inner.trees.git().clone()).await?;
    Ok(Taken { bytes: snapshot.bytes, digest, reader: snapshot.reader(), dir })
}

/// What a remote is told of the workspace before its session begins.
pub(crate) fn describe(host: &Host, run: RunId) -> Descriptor {
    Descriptor { url: format!("{}{}", host.inner.address(), path(run)), format: "tar".to_owned() }
}

async fn taken(workspace: Arc<Workspace>, git: Git) -> Result<(Snapshot, String), Fault> {
    let failed = |error: &dyn std::fmt::Display| {
        Fault::new(Code::InternalError, format!("reading the workspace: {error}"))
    };
    let dir = workspace.path().to_owned();
    let look = move || {
        let snapshot = Snapshot::of(workspace, &git)?;
        let digest = snapshot.digest().map_err(|error| failed(&error))?;
        Ok((snapshot, digest))
    };
    blocking::work_in(&dir, "read the working directory", look).await?
}
