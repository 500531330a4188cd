//! The introduction of a run before its first event, made from its request or its row.

use crate::hosting::Place;
use crate::render::{RunIntro, SilentLimit, home_relative};
use contract::limits;
use contract::plan::Limit;
use contract::view::RunView;
use engine::rules::breaker;
use host::ops::run::{RunRequest, Where};
use std::path::Path;

/// The runtime of programs that speak JSON lines: nothing is known of their manners.
const PROCESS: &str = "process";
/// The runtime of agents on other machines, where the directory is not one of this machine.
const REMOTE: &str = "remote";

/// The intro of a run that is about to be started here.
pub(super) fn of_request(request: &RunRequest, place: &Place) -> RunIntro {
    let adapter = request.adapter.as_ref();
    // As the host stores it, without `..` and links.
    let dir = std::fs::canonicalize(&request.cwd).unwrap_or_else(|_| request.cwd.clone());
    let dir = shown(&dir, place);
    RunIntro {
        agent: request.agent.clone(),
        place: match request.workspace {
            _ if adapter.is_some_and(|adapter| adapter.remote.is_some()) => None,
            Some(Where::Worktree) => Some(format!("worktree of {dir}")),
            Some(Where::Temporary) => Some("temporary directory".to_owned()),
            Some(Where::Here) | None => Some(dir),
        },
        quota_scope: adapter.map(|adapter| {
            let account = adapter.account.as_deref();
            breaker::scope(None, &adapter.runtime, &adapter.name, account)
        }),
        silent_limit: adapter.filter(|adapter| adapter.runtime == PROCESS).and_then(|adapter| {
            let ms = |limit: Option<Limit>, usual| limit.map_or(Some(usual), Limit::ms);
            let first = ms(adapter.clocks.first_output, limits::FIRST_OUTPUT_MS);
            let wall = ms(adapter.clocks.wall, limits::WALL_MS);
            let first = first.map(|ms| SilentLimit { ms, setting: "firstOutputSec" });
            let wall = wall.map(|ms| SilentLimit { ms, setting: "--timeout" });
            first.into_iter().chain(wall).min_by_key(|limit| limit.ms)
        }),
    }
}

/// The intro of a run that was started before. Its account is not in its row.
pub(super) fn of_row(row: &RunView, place: &Place) -> RunIntro {
    let cwd = Path::new(&row.cwd);
    let dir = match host::trees::workspace_of(place.data.path(), cwd) {
        Some(workspace) if workspace.is_worktree => {
            format!("worktree of {}", shown(&workspace.source, place))
        }
        Some(_) => "temporary directory".to_owned(),
        None => shown(cwd, place),
    };
    RunIntro {
        agent: row.agent.clone(),
        place: (row.runtime != REMOTE).then_some(dir),
        ..RunIntro::default()
    }
}

fn shown(dir: &Path, place: &Place) -> String {
    home_relative(dir, place.surroundings.vars.get("HOME").map(Path::new))
}
