//! The workspace of a run for an agent that does not share our disk: one tar file, for the token of
//! the run and for nobody else. What comes back comes by `apply_patch` and `write_file`.

use super::relay::{Bearer, gone};
use crate::Host;
use crate::snapshot::{Reader, Snapshot};
use crate::workspace::Workspace;
use contract::{Code, Fault, RunId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a snapshot is to be had, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub url: String,
    pub bytes: u64,
    /// `tar`.
    pub format: String,
    /// `blake3:` and the digest of its bytes, as they were when this was said.
    pub digest: String,
}

/// A snapshot on its way to whoever asked.
pub struct Taken {
    pub bytes: u64,
    pub digest: String,
    pub reader: Reader,
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
    let (snapshot, digest) = taken(workspace, host.inner.environment.clone()).await?;
    Ok(Taken { bytes: snapshot.bytes, digest, reader: snapshot.reader() })
}

/// What a remote is told of the workspace before its session begins.
pub(crate) async fn describe(
    host: &Host,
    run: RunId,
    workspace: Arc<Workspace>,
) -> Result<Descriptor, Fault> {
    let (snapshot, digest) = taken(workspace, host.inner.environment.clone()).await?;
    let url = format!("{}{}", host.inner.address(), path(run));
    Ok(Descriptor { url, bytes: snapshot.bytes, format: "tar".to_owned(), digest })
}

async fn taken(
    workspace: Arc<Workspace>,
    environment: BTreeMap<String, String>,
) -> Result<(Snapshot, String), Fault> {
    let failed = |error: &dyn std::fmt::Display| {
        Fault::new(Code::InternalError, format!("reading the workspace: {error}"))
    };
    let look = move || {
        let snapshot = Snapshot::of(workspace, &environment)?;
        let digest = snapshot.digest().map_err(|error| failed(&error))?;
        Ok((snapshot, digest))
    };
    tokio::task::spawn_blocking(look).await.map_err(|error| failed(&error))?
}
