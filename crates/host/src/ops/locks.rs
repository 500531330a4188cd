//! Who works where. A task waits while another run works in the same directory, in one above it or in
//! one below it; a run that a person asks for goes on all the same, and is told. Workspaces that are
//! ours belong to one run and those that take up its conversation, and meet nothing else. The rule is
//! `engine::rules::paths`.

use super::agents;
use super::gate::Candidate;
use super::run::{Where, stored};
use crate::Host;
use crate::trace::warning;
use contract::state::WaitingFor;
use contract::{Draft, Fault, RunId, limits};
use engine::rules::hold::Hold;
use engine::rules::paths;
use std::path::Path;
use store::{RunRow, RunsPage};

/// What keeps a task from being started in its directory.
pub async fn hold(host: &Host, candidate: &Candidate) -> Result<Option<Hold>, Fault> {
    // One that gets a workspace of its own meets nobody. An agent that is not known is refused when
    // it is started, with more words than there is room for here.
    let named = agents::named(host, &candidate.agent).await;
    let place = named.ok().and_then(|named| named.workspace).unwrap_or(Where::Here);
    match place {
        Where::Here => {}
        Where::Worktree | Where::Temporary => return Ok(None),
    }
    let cwd = candidate.cwd.canonicalize().unwrap_or_else(|_| candidate.cwd.clone());
    let met = others(host, &cwd, None).await?;
    Ok(met.first().map(|row| Hold {
        why: WaitingFor::Workspace,
        until: None,
        note: format!("{} works in {}", row.id, row.cwd),
    }))
}

/// The live runs that a run in this directory meets.
pub(super) async fn others(
    host: &Host,
    cwd: &Path,
    but: Option<RunId>,
) -> Result<Vec<RunRow>, Fault> {
    let trees = &host.inner.trees;
    let own = trees.of(cwd).map(|tree| tree.id);
    let meets = |row: &RunRow| {
        let there = Path::new(&row.cwd);
        let theirs = trees.of(there).map(|tree| tree.id);
        own == theirs && paths::meet(cwd, there) && Some(row.id) != but
    };
    let (mut before, mut met) = (None, Vec::new());
    loop {
        let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
        let rows = host.store().runs(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { return Ok(met) };
        before = Some(last.id);
        met.extend(rows.into_iter().filter(meets));
    }
}

/// What a run is told that a person asks for where others work.
pub(super) async fn warned(host: &Host, cwd: &Path, run: RunId) -> Result<Vec<Draft>, Fault> {
    let met = others(host, cwd, Some(run)).await?;
    let Some(first) = met.first() else { return Ok(Vec::new()) };
    let more = match met.len() - 1 {
        0 => String::new(),
        1 => " and one more".to_owned(),
        more => format!(" and {more} more"),
    };
    Ok(vec![warning(format!(
        "{} ({}) works in {} at the same time{more}: they may undo each other's work; --worktree \
         keeps them apart",
        first.id, first.agent, first.cwd
    ))])
}
