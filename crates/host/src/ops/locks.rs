//! Who works where. A task waits while another run works in the same directory, in one above it or in
//! one below it; a run that a person asks for goes on all the same, and is told. Workspaces that are
//! ours belong to one run and those that take up its conversation, and meet nothing else. The rule is
//! `engine::rules::paths`.

use super::agents;
use super::gate::Candidate;
use super::run::{Where, stored};
use crate::Host;
use crate::blocking;
use crate::trace::warning;
use crate::trees::Trees;
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
    let named = candidate.cwd.clone();
    let found = blocking::probe(&candidate.cwd, "find the directory", move || named.canonicalize());
    // One that cannot be found is refused when the task is started; `blocking` has logged one that hangs.
    let found = found.await.ok().and_then(Result::ok);
    let cwd = found.unwrap_or_else(|| candidate.cwd.clone());
    let met = others(host, &cwd, None).await?;
    Ok(met.first().map(|row| Hold {
        why: WaitingFor::Workspace,
        until: None,
        note: format!("{} works in {}", row.id, row.cwd),
        of: None,
    }))
}

/// The live runs that a run in this directory meets.
pub(crate) async fn others(
    host: &Host,
    cwd: &Path,
    but: Option<RunId>,
) -> Result<Vec<RunRow>, Fault> {
    let first = page(host, None).await?;
    met_after(host, first, cwd, but).await
}

async fn page(host: &Host, before: Option<RunId>) -> Result<Vec<RunRow>, Fault> {
    let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
    host.store().runs(page).await.map_err(stored)
}

/// The same when the first page of them is known.
async fn met_after(
    host: &Host,
    mut rows: Vec<RunRow>,
    cwd: &Path,
    but: Option<RunId>,
) -> Result<Vec<RunRow>, Fault> {
    let trees = &host.inner.trees;
    let meets = |row: &RunRow| Some(row.id) != but && meet(trees, cwd, Path::new(&row.cwd));
    let mut met = Vec::new();
    loop {
        let more = rows.last().map(|row| row.id).filter(|_| rows.len() >= limits::PAGE_ROWS_MAX);
        met.extend(rows.into_iter().filter(meets));
        if more.is_none() {
            return Ok(met);
        }
        rows = page(host, more).await?;
    }
}

/// Whether work in these two directories would meet. A workspace of ours lies below the data directory,
/// and whoever works in a directory above that does not work in it.
fn meet(trees: &Trees, one: &Path, other: &Path) -> bool {
    let tree = |dir| trees.of(dir).map(|tree| tree.id);
    paths::meet(one, other) && tree(one) == tree(other)
}

/// Runs that a warning names.
const NAMED_MAX: usize = 3;
/// Digits of an id that people type.
const ID_DIGITS: usize = 8;

/// What a run is told that a person asks for where others work; `live` is the first page of those.
pub(super) async fn warned(
    host: &Host,
    live: Vec<RunRow>,
    cwd: &Path,
    run: RunId,
) -> Result<Vec<Draft>, Fault> {
    let met = met_after(host, live, cwd, Some(run)).await?;
    Ok(shared_directory(&met).map(warning).into_iter().collect())
}

/// The warning about other runs in a directory; absent if there are none.
fn shared_directory(met: &[RunRow]) -> Option<String> {
    let named = met.iter().take(NAMED_MAX).map(|row| {
        let id = row.id.to_string();
        format!("{} {}", row.agent, &id[id.len().saturating_sub(ID_DIGITS)..])
    });
    let mut named: Vec<String> = named.collect();
    named.extend((met.len() > NAMED_MAX).then(|| "…".to_owned()));
    let (subject, verb) = match met.len() {
        0 => return None,
        1 => ("1 other run".to_owned(), "works"),
        several => (format!("{several} other runs"), "work"),
    };
    let named = named.join(", ");
    Some(format!(
        "{subject} {verb} in this directory ({named}): the runs may overwrite each other's changes; \
         use --worktree"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::{Kind, Wanted};

    #[test]
    fn a_workspace_of_ours_is_met_by_those_in_it_and_by_nobody_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let trees = Trees::new(&root.join("data"), &Default::default());
        let make = |n: u8| {
            let run = RunId::new(uuid::Uuid::from_bytes([n; 16]));
            let wanted = Wanted { run, source: &root, kind: Kind::Temporary, keep: true };
            trees.make(wanted).unwrap().cwd
        };
        let (one, two) = (make(1), make(2));
        for (a, b, expected) in [
            (&root, &root.join("x"), true),
            (&root.join("x"), &root.join("y"), false),
            (&one, &one.join("deep"), true),
            (&one, &two, false),
            (&root, &one, false),
            (&two, &root.join("data"), false),
        ] {
            assert_eq!(meet(&trees, a, b), expected, "{} {}", a.display(), b.display());
            assert_eq!(meet(&trees, b, a), expected, "{} {}", b.display(), a.display());
        }
    }
}
