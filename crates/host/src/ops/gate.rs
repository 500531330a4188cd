//! What is asked before a task is started: each gate says nothing, or for what the task has to wait.

use contract::TaskId;
use std::path::PathBuf;

/// A task that could be started now, and what it would be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub task: TaskId,
    pub agent: String,
    pub adapter: String,
    pub runtime: String,
    pub provider: Option<String>,
    pub account: Option<String>,
    pub cwd: PathBuf,
}
