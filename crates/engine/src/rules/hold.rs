//! Why a task is not started now. A rule that says no says for what the task waits and, as far as it
//! is known, until when; the dispatcher writes that into the task and looks again then. No rule
//! here acts, and none knows of another.

use contract::Timestamp;
use contract::state::WaitingFor;

/// What keeps a task from being started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub why: WaitingFor,
    /// When to look again; `None` when something else has to happen first.
    pub until: Option<Timestamp>,
    /// For people: which limit, which account, which path.
    pub note: String,
}
