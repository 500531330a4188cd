//! Rows as the API shows them to everybody: what is kept for the host alone, such as leases, fences and
//! processes, is left out.

use crate::event::{Outcome, Totals};
use crate::{Code, RunId, RunState, TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run: one agent's work on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Run")]
pub struct RunView {
    pub run_id: RunId,
    pub task_id: TaskId,
    /// The older name of `run_id`, for one release.
    pub id: RunId,
    /// The older name of `task_id`, for one release.
    pub task: TaskId,
    pub state: RunState,
    /// The number of its newest event, as the hints of the feed have it.
    pub head_seq: u64,
    pub agent: String,
    pub adapter: String,
    pub runtime: String,
    pub cwd: String,
    pub model: Option<String>,
    pub prompt_preview: String,
    pub started_at: Timestamp,
    pub totals: Option<Totals>,
    /// The agent's own name for its conversation, once a turn of it went well.
    pub native_session: Option<String>,
    /// The agent that does it in place of the one it was given to, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Everything from here on is there when the run is settled.
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    pub code: Option<Code>,
    pub message: Option<String>,
}
