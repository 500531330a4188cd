//! The run that a command is about: the one that was named, `last`, or the obvious one if none was
//! named. Whether a run is obvious is a pure decision over a list of runs (`only_live`, `newest_in`);
//! if none is, the error lists the candidates.

use crate::client::Client;
use crate::hosting::Place;
use crate::render::{self, one_line};
use contract::view::RunView;
use contract::{Code, Fault, limits};
use std::path::{Path, PathBuf};

/// The word for the newest run.
pub const LAST: &str = "last";
/// How many candidates an error lists.
const CANDIDATES_MAX: usize = 5;

/// Which run is meant if none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// The only live run.
    Live,
    /// The newest run of the current directory.
    Here,
    /// The newest run in a worktree that was made from the current directory.
    Worktree,
}

/// The run that a command deletes from: `last` could mean another run than the person believes.
pub fn to_delete(given: &str) -> Result<&str, Fault> {
    match given {
        LAST => Err(Fault::new(Code::Usage, "`last` is not accepted by a command that deletes")
            .with_hint("give the ID of the run; `ostler runs` lists them")),
        run => Ok(run),
    }
}

/// The id of the newest run if `last` is asked for, else of the one that is meant.
pub async fn find(
    place: &Place,
    client: &Client,
    last: bool,
    unnamed: Unnamed,
) -> Result<String, Fault> {
    if last {
        let newest = client.runs(1, false).await?;
        return newest.first().map(|run| run.id.to_string()).ok_or_else(none_yet);
    }
    let mut rows = client.runs(limits::PAGE_ROWS_MAX, unnamed == Unnamed::Live).await?;
    let source = |cwd: &Path| host::trees::source_of(place.data.path(), cwd);
    let here = &place.surroundings.cwd;
    let found = match unnamed {
        Unnamed::Live => only_live(&rows),
        Unnamed::Here => newest_in(&rows, here, source),
        Unnamed::Worktree => {
            let is_empty = rows.is_empty();
            rows.retain(|run| source(Path::new(&run.cwd)).is_some());
            match rows.is_empty() && !is_empty {
                true => return Err(no_worktree()),
                false => newest_in(&rows, here, source),
            }
        }
    };
    found.map(|run| run.id.to_string())
}

fn only_live(rows: &[RunView]) -> Result<&RunView, Fault> {
    match rows {
        [run] => Ok(run),
        [] => Err(Fault::new(Code::NotFound, "no run is live")
            .with_hint("name a run; `ostler runs` lists them")),
        several => {
            let message = format!("{} runs are live", several.len());
            Err(Fault { code: Code::Usage, ..which(&message, several) })
        }
    }
}

/// The newest run that works in `here`, or in a worktree that was made from it.
fn newest_in<'a>(
    rows: &'a [RunView],
    here: &Path,
    source: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<&'a RunView, Fault> {
    let is_here = |run: &&RunView| is_in(run, here, &source);
    match rows.iter().find(is_here) {
        Some(run) => Ok(run),
        None if rows.is_empty() => Err(none_yet()),
        None => Err(which(&format!("no run was started in {}", here.display()), rows)),
    }
}

/// Whether a run works in this directory, or in a worktree that was made from it.
pub fn is_in(run: &RunView, here: &Path, source: impl Fn(&Path) -> Option<PathBuf>) -> bool {
    let cwd = Path::new(&run.cwd);
    cwd == here || source(cwd).is_some_and(|source| source == here)
}

fn no_worktree() -> Fault {
    Fault::new(Code::NotFound, "no run has a worktree")
        .with_hint("start one with `ostler run AGENT --worktree`")
}

fn none_yet() -> Fault {
    Fault::new(Code::NotFound, "no runs yet").with_hint("start one: ostler run demo \"hello\"")
}

/// Several runs could be meant: the error lists the newest of them.
fn which(message: &str, rows: &[RunView]) -> Fault {
    let lines: Vec<String> = rows.iter().take(CANDIDATES_MAX).map(candidate).collect();
    Fault::new(Code::NotFound, message)
        .with_detail(lines.join("\n"))
        .with_hint("name one of them, or `last` for the newest")
}

/// A run in a line: the id to type, its agent, its prompt.
pub fn candidate(run: &RunView) -> String {
    let id = run.id.to_string();
    let title: String = one_line(&run.prompt_preview).chars().take(60).collect();
    format!("{}  {}  {title}", render::tail(&id), one_line(&run.agent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(n: u8, cwd: &str, prompt: &str) -> RunView {
        let run = format!("run_000000000000000000000000000000{n:02}");
        let task = format!("task_000000000000000000000000000000{n:02}");
        serde_json::from_value(json!({
            "run_id": run, "id": run, "task_id": task, "task": task, "state": "settled",
            "head_seq": 1, "agent": "demo", "adapter": "demo", "runtime": "demo",
            "cwd": cwd, "prompt_preview": prompt, "started_at": "2026-11-16T15:10:00.000Z",
        }))
        .unwrap()
    }

    #[test]
    fn the_newest_run_of_a_directory_is_meant() {
        let rows = [row(3, "/b", "x"), row(2, "/data/trees/1/work", "y"), row(1, "/a", "z")];
        let source = |cwd: &Path| cwd.starts_with("/data/trees/1").then(|| PathBuf::from("/a"));
        let id =
            |here: &str| newest_in(&rows, Path::new(here), source).map(|run| run.id.to_string());
        assert!(id("/a").unwrap().ends_with("02"), "the worktree was made from /a");
        assert!(id("/b").unwrap().ends_with("03"));
        let fault = id("/c").unwrap_err();
        assert_eq!(fault.message, "no run was started in /c");
        assert_eq!(fault.detail.unwrap().lines().next(), Some("00000003  demo  x"));
        assert_eq!(newest_in(&[], Path::new("/a"), source).unwrap_err().message, "no runs yet");
    }

    #[test]
    fn one_live_run_is_meant_and_of_two_neither() {
        let rows = [row(1, "/a", "one"), row(2, "/a", "two")];
        assert_eq!(only_live(&rows[..1]).unwrap().id, rows[0].id);
        assert_eq!(only_live(&[]).unwrap_err().message, "no run is live");
        let fault = only_live(&rows).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), (Code::Usage, "2 runs are live"));
        assert_eq!(fault.detail.as_deref(), Some("00000001  demo  one\n00000002  demo  two"));
    }
}
