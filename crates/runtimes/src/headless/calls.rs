//! The calls without their results. They are bounded in number and by their ids, because they are
//! stored with every batch; what a call will have changed is remembered with it, as short as
//! `tools::kept` makes it. Who opens and closes them is the `Ear`.

use contract::event::{Diff, ToolStatus};
use contract::limits::TOOL_CALLS_OPEN_MAX;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call's id longer than this cannot be kept and is not taken.
pub(super) const ID_BYTES_MAX: usize = 256;

/// What came of a call.
pub(crate) struct Came {
    pub status: ToolStatus,
    pub denied: bool,
    pub output: Value,
    pub duration_ms: Option<u64>,
    /// What it says it changed, beside what was known when it began.
    pub changes: Vec<Diff>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Calls(Vec<Open>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Open {
    id: String,
    /// What becomes true when it succeeds.
    changes: Vec<Diff>,
}

/// Whether a call with this id can be remembered.
pub(crate) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_BYTES_MAX
}

impl Calls {
    pub fn is_open(&self, id: &str) -> bool {
        self.0.iter().any(|call| call.id == id)
    }

    /// Remembers a call; false for one that is open already, one too many, or one without a name
    /// that could be kept.
    pub(super) fn open(&mut self, id: &str, changes: Vec<Diff>) -> bool {
        let new = is_id(id) && !self.is_open(id) && self.0.len() < TOOL_CALLS_OPEN_MAX;
        if new {
            self.0.push(Open { id: id.to_owned(), changes });
        }
        new
    }

    pub(super) fn close(&mut self, id: &str) -> Option<(String, Vec<Diff>)> {
        let index = self.0.iter().position(|call| call.id == id)?;
        let Open { id, changes } = self.0.remove(index);
        Some((id, changes))
    }

    /// Every call that is still open, which from now on is none.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0).into_iter().map(|call| call.id).collect()
    }
}
