//! Bringing the work of a run back from its worktree into the checkout that it came from, and
//! removing the worktree. While any run works there it is refused. How it is done is
//! `trees/give_back.rs`.

use super::diff::tree_of;
use super::locks;
use super::run::{find, get};
use super::who::Who;
use crate::blocking;
use crate::trees::{How, Words};
use crate::{Host, clock};
use contract::{Code, Fault, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use crate::trees::{GivenBack, How as ApplyHow};

/// What is asked for.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    #[serde(default)]
    pub how: How,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    pub run_id: RunId,
    #[serde(flatten)]
    pub given: GivenBack,
}

/// Brings the work of a run back.
pub async fn apply(
    host: &Host,
    given: &str,
    request: ApplyRequest,
    by: &Who,
) -> Result<Applied, Fault> {
    let run = find(host, given).await?;
    let row = get(host, run).await?;
    let tree = tree_of(host, &row)?;
    if let Some(live) = locks::others(host, &tree.record.work, None).await?.first() {
        return Err(Fault::new(Code::Conflict, format!("{} is still working there", live.id))
            .with_hint("wait for its end, or stop it with `ostler stop`"));
    }
    let subject = row.prompt_preview.lines().next().unwrap_or_default().trim().to_owned();
    let subject = if subject.is_empty() { run.to_string() } else { subject };
    let (trees, words) = (Arc::clone(&host.inner.trees), Words { subject, at: clock::now().wall });
    // Who asked may hang up: what was begun is done.
    let source = tree.record.source.clone();
    let give = move || trees.give_back(&tree, request.how, &words);
    let given = blocking::work_in(&source, "apply changes", give).await??;
    let about = serde_json::json!({ "run_id": run });
    host.inner.audit.did(clock::now().wall, by, "applied", about);
    Ok(Applied { run_id: run, given })
}
