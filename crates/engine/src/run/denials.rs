//! The count of requests that were denied in a run. A denial is often told twice, by the decision
//! and by the result of the call, so calls are counted once by their ids.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Ids that are remembered; beyond them every denial is counted as a new one.
const CALLS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Denials {
    count: u32,
    calls: BTreeSet<String>,
}

impl Denials {
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn add(&mut self, tool_call_id: Option<&str>) {
        if tool_call_id.is_some_and(|id| self.calls.contains(id)) {
            return;
        }
        self.count = self.count.saturating_add(1);
        if let Some(id) = tool_call_id.filter(|_| self.calls.len() < CALLS_MAX) {
            self.calls.insert(id.to_owned());
        }
    }
}
