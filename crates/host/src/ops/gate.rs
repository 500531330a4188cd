//! What the gates of a start are asked about: one task that could be started now, and everything of
//! its agent that a limit may be counted by. A gate looks and says what is in the way; it starts
//! nothing and writes nothing.

use contract::TaskId;
use std::path::PathBuf;

/// A task that could be started now, if no gate is closed.
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
