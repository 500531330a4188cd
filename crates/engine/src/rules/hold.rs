//! Why a task is not started now. A rule that says no says for what the task waits and, as far as it
//! is known, until when; the dispatcher writes that into the task and looks again then. No rule
//! here acts, and none knows of another.

use contract::state::WaitingFor;
use contract::{TaskId, Timestamp};

/// What keeps a task from being started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub why: WaitingFor,
    /// When to look again; `None` when something else has to happen first.
    pub until: Option<Timestamp>,
    /// For people: which limit, which account, which path.
    pub note: String,
    /// The task whose own matter it is (its budget, the ways it has gone already), when others of the
    /// same agent in the same directory need not be held by it.
    pub of: Option<TaskId>,
}
