//! How many runs and tasks there are that have not ended. The statements are in `sqlite/counts.rs`.

use crate::{Error, Store};
use contract::Timestamp;

/// What has not ended, by state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    pub runs: Vec<(String, usize)>,
    pub tasks: Vec<TaskCount>,
}

/// The tasks in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    pub state: String,
    pub count: usize,
    /// When the oldest of them was made.
    pub oldest: Timestamp,
}

impl Store {
    /// Counts runs and tasks that have not ended.
    pub async fn counts(&self) -> Result<Counts, Error> {
        self.shared.sqlite.counts().await
    }
}
