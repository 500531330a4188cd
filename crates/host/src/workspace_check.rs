//! Compares the workspace of a run under `deny` or `allow-reads` with its beginning: what the agent
//! was not allowed to change must be as it was. A manifest of sizes, times, inodes and modes is taken
//! before the launch and again when the process is gone; contents are not read. It cannot see who
//! changed a file, and says so. `listing.rs` decides which paths are compared, `manifest.rs` how. The
//! manifest of the beginning is left beside the spool, so that a host that takes over the run can
//! compare too. The limits and the reasons are in
//! `docs/decisions/0028-the-workspace-is-compared-with-a-kept-beginning.md`.

mod listing;
mod manifest;

use crate::Host;
use crate::blocking;
use crate::data::write_private_unsynced;
use crate::drive::Drive;
use crate::git::Git;
use crate::ops::locks;
use crate::trace::warning;
use crate::workspace::Workspace;
use contract::plan::Lane;
use contract::{Draft, Policy};
use engine::WorkspaceCheck;
use manifest::{Difference, Manifest};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

/// Files that are named in the error.
const NAMED_MAX: usize = 10;
/// The file beside the spool that holds what is known of the beginning.
const NAME: &str = "beginning";
/// A larger manifest is not left beside the spool.
const BYTES_MAX: usize = 32 << 20;
const PROOF_BYTES: usize = blake3::OUT_LEN;

/// Whether a run's workspace must not change. On the process and http lanes the policy governs the
/// relayed tools only, so what such an agent does by itself is not held against it.
pub(crate) fn applies(policy: Policy, lane: Lane) -> bool {
    match (policy, lane) {
        (Policy::Deny | Policy::AllowReads, Lane::Native | Lane::Acp) => true,
        (Policy::Ask | Policy::AllowAll, _) | (_, Lane::Process | Lane::Http) => false,
    }
}

/// The same of a run whose lane is one of these.
pub(crate) fn may_apply(policy: Policy, lanes: &[Lane]) -> bool {
    lanes.iter().any(|lane| applies(policy, *lane))
}

/// Says that a workspace is not compared, and why.
pub(crate) fn not_compared(why: &str) -> Draft {
    warning(format!("the workspace is not compared with its beginning: {why}"))
}

/// How the workspace of a run is compared when its process has ended.
#[derive(Debug, Clone)]
pub(crate) enum Comparison {
    /// The policy allows changes, or does not govern them.
    NotNeeded,
    /// It should be compared and cannot be; this is the reason.
    NotPossible(String),
    With(Arc<Beginning>),
}

/// The workspace of a run at its beginning.
#[derive(Debug)]
pub(crate) struct Beginning {
    workspace: Arc<Workspace>,
    git: Git,
    policy: Policy,
    /// Another run worked in the same directory when this one began.
    shared: bool,
    /// The manifest, written as it is left beside the spool.
    manifest: Vec<u8>,
}

impl Beginning {
    /// Looks at a workspace. Blocking. Fails when it cannot be compared, with the reason.
    pub fn take(workspace: Arc<Workspace>, git: Git, policy: Policy) -> Result<Self, String> {
        let manifest = listing::manifest(&workspace, &git)?.encode();
        Ok(Self { workspace, git, policy, shared: false, manifest })
    }

    /// The same, with what is known of other runs in the directory.
    pub fn beside(self, others: bool) -> Self {
        Self { shared: others, ..self }
    }

    /// What is different now, for a person; `None` when nothing is. Blocking.
    pub fn changed(&self) -> Result<Option<String>, String> {
        let before = Manifest::decode(&self.manifest).ok_or(UNREADABLE)?;
        let now = match listing::manifest(&self.workspace, &self.git) {
            Ok(now) => now,
            // Otherwise an agent could hide its changes by a line in the configuration of git.
            Err(why) => {
                return Ok(Some(format!(
                    "the workspace could be compared at the beginning of this run under {} and \
                     cannot be compared now: {why}",
                    self.policy.word()
                )));
            }
        };
        let different = manifest::differences(&before, &now);
        if different.is_empty() {
            return Ok(None);
        }
        let named: Vec<_> = different.iter().take(NAMED_MAX).map(Difference::to_string).collect();
        let more = match different.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (count, word) = (different.len(), manifest::word_for(&different));
        // Some agents keep files of their own in a directory of the workspace.
        let in_repository = crate::git::top(self.workspace.path()).is_some();
        let state = match in_repository && different.iter().any(Difference::is_of_an_agent) {
            true => "; an agent's own files are not compared where git ignores them",
            false => "",
        };
        Ok(Some(format!(
            "{count} {word} changed in the workspace during a run under {}: {}{more} (Ostler cannot \
             see whether the agent or another program did it{state})",
            self.policy.word(),
            named.join(", ")
        )))
    }
}

const UNREADABLE: &str = "another host took over the run, and what the workspace was at its \
                          beginning cannot be read";

impl Comparison {
    /// Leaves the beginning beside a spool, for a host that takes over the run. The proof shows that
    /// host that the file is whole and was not changed meanwhile.
    pub fn leave(&self, spool: &Path, secret: &str) -> io::Result<()> {
        let (sort, body) = match self {
            Self::NotNeeded => (SORT_NOT_NEEDED, &[][..]),
            Self::NotPossible(why) => (SORT_NOT_POSSIBLE, why.as_bytes()),
            Self::With(beginning) => {
                let sort = if beginning.shared { SORT_SHARED } else { SORT_ALONE };
                (sort, &beginning.manifest[..])
            }
        };
        if body.len() > BYTES_MAX {
            return Err(io::Error::other("the manifest is too large to be kept"));
        }
        let mut file = proof(secret, sort, body).as_bytes().to_vec();
        file.push(sort);
        file.extend_from_slice(body);
        // As little synced as the spool: both serve only for as long as the machine runs.
        write_private_unsynced(&spool.join(NAME), &file)
    }

    /// What was left beside a spool. Blocking.
    pub fn find(
        spool: &Path,
        secret: &str,
        workspace: Arc<Workspace>,
        git: Git,
        policy: Policy,
    ) -> Self {
        let Some((sort, body)) = find(spool, secret) else {
            return Self::NotPossible(UNREADABLE.to_owned());
        };
        match sort {
            SORT_NOT_NEEDED => Self::NotNeeded,
            SORT_NOT_POSSIBLE => Self::NotPossible(String::from_utf8_lossy(&body).into_owned()),
            sort => {
                let shared = sort == SORT_SHARED;
                Self::With(Arc::new(Beginning { workspace, git, policy, shared, manifest: body }))
            }
        }
    }
}

const SORT_NOT_NEEDED: u8 = b'-';
const SORT_NOT_POSSIBLE: u8 = b'!';
const SORT_ALONE: u8 = b'1';
const SORT_SHARED: u8 = b'2';

fn find(spool: &Path, secret: &str) -> Option<(u8, Vec<u8>)> {
    let mut file = Vec::new();
    let bytes_max = (PROOF_BYTES + 1 + BYTES_MAX) as u64;
    File::open(spool.join(NAME)).ok()?.take(bytes_max).read_to_end(&mut file).ok()?;
    let (shown, rest) = file.split_first_chunk::<PROOF_BYTES>()?;
    let (sort, body) = rest.split_first()?;
    // Comparing two blake3 hashes takes the same time whatever they are.
    (proof(secret, *sort, body) == *shown).then(|| (*sort, body.to_vec()))
}

fn proof(secret: &str, sort: u8, body: &[u8]) -> blake3::Hash {
    let key = blake3::derive_key("ostler 2026-11 workspace beginning", secret.as_bytes());
    blake3::Hasher::new_keyed(&key).update(&[sort]).update(body).finalize()
}

impl Drive {
    /// Compares the workspace with its beginning; `None` where the policy does not ask for it. Where
    /// another run works in the same directory a change is only told, because it may be the other
    /// run's.
    pub(crate) async fn compare_workspace(&mut self) -> Option<WorkspaceCheck> {
        let beginning = match &self.comparison {
            Comparison::NotNeeded => return None,
            Comparison::NotPossible(why) => return Some(WorkspaceCheck::NotCompared(why.clone())),
            Comparison::With(beginning) => Arc::clone(beginning),
        };
        let shared = beginning.shared;
        let dir = self.bench.workspace.path();
        let changed =
            blocking::work_in(dir, "compare workspace", move || beginning.changed()).await;
        let changed = match changed.map_err(|fault| fault.message).flatten() {
            Ok(Some(changed)) => changed,
            Ok(None) => return Some(WorkspaceCheck::Unchanged),
            Err(why) => return Some(WorkspaceCheck::NotCompared(why)),
        };
        let host = Host { inner: Arc::clone(&self.house) };
        let cwd = self.bench.workspace.path();
        let others = locks::others(&host, cwd, Some(self.run)).await;
        let others = others.unwrap_or_else(|fault| {
            // The change counts against this run then, because the policy forbids it.
            let (code, error) = (fault.code.word(), &fault.message);
            tracing::warn!(code, error, "other runs in the same workspace cannot be listed");
            Vec::new()
        });
        Some(match shared || !others.is_empty() {
            true => WorkspaceCheck::ChangedBesideOtherRun(changed),
            false => WorkspaceCheck::Changed(changed),
        })
    }
}

#[cfg(test)]
mod tests;
