//! What is known of a run before its first event: its agent, where it works, the quota it spends and
//! how long it may be silent at first. The header and the status line name the agent from the start,
//! because some agents tell their model only after seconds.

use super::clean::one_line;
use super::measure::{fit_middle, width};
use super::table::tail;
use contract::RunId;
use contract::event::Session;

/// The fewest columns in which a directory can be recognised.
const PLACE_COLUMNS_MIN: usize = 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunIntro {
    pub agent: String,
    /// The directory as people write it, or `worktree of` it; absent where only the agent knows.
    pub place: Option<String>,
    /// The quota that the run spends, as `ostler quotas` names it.
    pub quota_scope: Option<String>,
    /// The end of a program that prints nothing; absent where none applies.
    pub silent_limit: Option<SilentLimit>,
}

/// When a program that has printed nothing is stopped, and the setting that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilentLimit {
    pub ms: u64,
    pub setting: &'static str,
}

impl RunIntro {
    /// The line that names the run, without its sign. Only the directory is shortened.
    pub(super) fn header(&self, run: RunId, session: Option<&Session>, columns: usize) -> String {
        let id = run.to_string();
        let agent = Some(one_line(&self.agent)).filter(|agent| !agent.is_empty());
        let model = session.and_then(|session| session.model.as_deref()).map(one_line);
        // The demo agent is its own model.
        let model = model.filter(|model| agent.as_ref() != Some(model));
        let resumed = session.is_some_and(|session| session.resumed);
        let parts = [Some(format!("run {}", tail(&id))), agent, model];
        let mut parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.extend(resumed.then(|| "resumed".to_owned()));
        let told = session.and_then(|session| session.cwd.as_deref());
        let place = self.place.as_deref().or(told).map(one_line);
        let head = parts.join(" · ");
        let room = columns.saturating_sub(width(&head) + " · ".len());
        parts.extend(place.map(|place| fit_middle(&place, room.max(PLACE_COLUMNS_MIN))));
        parts.join(" · ")
    }
}
