//! Tasks as they are looked at: which there are, what they wait for, and whose turn comes when. What
//! is to be done about them is asked for in `run.rs` and `line.rs`.

use super::run::{self, stored};
use crate::Host;
use contract::state::WaitingFor;
use contract::{Code, Fault, RunId, TaskId, TaskState, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{TaskRow, TasksPage};

/// One task as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    pub id: TaskId,
    /// The id its run will have, or has, when it had to wait for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub agent: String,
    pub title: String,
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// The adapter for whose slot it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its place in that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    pub priority: i32,
    pub created_at: Timestamp,
}

impl TaskView {
    fn of(row: TaskRow, ahead: Option<u64>) -> Self {
        let waits = row.waiting_for == Some(WaitingFor::Pool);
        Self {
            id: row.id,
            run_id: row.run,
            agent: row.agent,
            title: row.title,
            state: row.state,
            waiting_for: row.waiting_for,
            pool: row.pool.filter(|_| waits),
            place: ahead.map(|ahead| ahead + 1),
            priority: row.priority,
            created_at: row.created_at,
        }
    }
}

/// Tasks, oldest first.
pub async fn list(host: &Host, page: TasksPage) -> Result<Vec<TaskView>, Fault> {
    let rows = host.store().tasks(page).await.map_err(stored)?;
    let lines = host.store().lines(limits::PAGE_ROWS_MAX).await.map_err(stored)?;
    let ahead =
        |task: TaskId| lines.iter().find(|(row, _)| row.id == task).map(|(_, ahead)| *ahead);
    Ok(rows
        .into_iter()
        .map(|row| {
            let ahead = ahead(row.id);
            TaskView::of(row, ahead)
        })
        .collect())
}

/// One task, by its own id or by what a person says of a run of it.
pub async fn get(host: &Host, given: &str) -> Result<TaskView, Fault> {
    let row = match given.parse::<TaskId>() {
        Ok(task) => host.store().task(task).await,
        Err(_) => host.store().task_of(run::find(host, given).await?).await,
    };
    let row = row.map_err(stored)?.ok_or_else(|| {
        let given: String = given.chars().take(80).collect();
        Fault::new(Code::NotFound, format!("there is no task '{given}'"))
    })?;
    let standing = host.store().standing(row.id).await.map_err(stored)?;
    Ok(TaskView::of(row, standing.map(|standing| standing.ahead)))
}
