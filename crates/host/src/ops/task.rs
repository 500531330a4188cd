//! Tasks as they are looked at: which there are, what they wait for, whose turn comes when, and what
//! was said of one. Handing a task over is `task/add.rs`, what a person decides about it is
//! `task/decide.rs`, and what it may spend `task/budget.rs`. Runs that people ask for directly are tasks too; those are moved by their run.

pub mod add;
pub mod budget;
pub mod decide;

use super::run::{self, stored};
use crate::Host;
use contract::event::{Body, Event, Origin, Progress};
use contract::state::{Review, WaitingFor};
use contract::view::RunView;
use contract::{Code, CommandId, Fault, RunId, TaskId, TaskState, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::{RunRow, TaskRow, TasksPage};

/// Runs of a task that are shown with it: the newest.
const RUNS_MAX: usize = 20;

/// One task as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    pub id: TaskId,
    /// The id its run will have, or has, when it had to wait for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Who does it; absent while it may be any that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub title: String,
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// When it is looked at again, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// For people: why it stands where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What its last run, or the last try to start one, ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The adapter for whose slot it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its place in that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    pub priority: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    pub review: Review,
    pub generation: u32,
    /// How often it was tried again in this generation.
    pub tries: u32,
    /// Whether it was cancelled while it ran, and its run is being stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recalled: bool,
    pub created_at: Timestamp,
}

/// One task with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskSheet {
    #[serde(flatten)]
    pub task: TaskView,
    pub body: String,
    /// What its runs are handed: `{{context.name}}` in the configuration of their agent.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What its next run is asked, when that is not what the task says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_prompt: Option<String>,
    /// What it and the tasks below it may spend in all, and what is left of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<super::limits::BudgetView>,
    /// What must be done before it.
    pub after: Vec<TaskId>,
    pub comments: Vec<Said>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_progress: Option<Progress>,
    /// What its newest run answered, when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The newest run whose work lies in a worktree and was not brought back yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_of: Option<RunId>,
    /// Its runs, the newest first.
    pub runs: Vec<RunView>,
}

/// What someone said of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskComment")]
pub struct Said {
    /// The id of a person's comment; what an agent said is an event of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommandId>,
    pub at: Timestamp,
    /// `owner`, `token` and its name, or the run in which it was said.
    pub author: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
}

impl TaskView {
    pub(super) fn of(row: TaskRow, ahead: Option<u64>) -> Self {
        let waits = row.waiting_for == Some(WaitingFor::Pool);
        Self {
            id: row.id,
            run_id: row.run,
            agent: Some(row.agent).filter(|agent| !agent.is_empty()),
            title: row.title,
            state: row.state,
            waiting_for: row.waiting_for,
            until: row.until,
            note: row.note,
            code: row.code,
            pool: row.pool.filter(|_| waits),
            place: ahead.map(|ahead| ahead + 1),
            priority: row.priority,
            labels: row.labels,
            parent: row.parent,
            review: row.review,
            generation: row.generation,
            tries: row.tries,
            recalled: row.recalled && row.state == TaskState::Running,
            created_at: row.created_at,
        }
    }
}

/// A page of tasks.
pub async fn list(host: &Host, page: TasksPage) -> Result<Vec<TaskView>, Fault> {
    let rows = host.store().tasks(page).await.map_err(stored)?;
    // Where they stand is asked only when someone on the page stands in line.
    let in_line = rows.iter().any(|row| row.waiting_for == Some(WaitingFor::Pool));
    let lines = match in_line {
        true => host.store().lines(limits::PAGE_ROWS_MAX).await.map_err(stored)?,
        false => Vec::new(),
    };
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

/// The task of a run.
pub async fn of_run(host: &Host, run: RunId) -> Result<TaskId, Fault> {
    Ok(super::run::get(host, run).await?.task)
}

/// One task, by its own id, a beginning or an end of it, or by what a person says of a run of it.
pub async fn get(host: &Host, given: &str) -> Result<TaskView, Fault> {
    let row = find(host, given).await?;
    let standing = host.store().standing(row.id).await.map_err(stored)?;
    Ok(TaskView::of(row, standing.map(|standing| standing.ahead)))
}

/// The same, with all that belongs to it.
pub async fn show(host: &Host, given: &str) -> Result<TaskSheet, Fault> {
    let row = find(host, given).await?;
    let store = host.store();
    let task = row.id;
    let mut comments: Vec<Said> = Vec::new();
    for said in store.comments_of(task).await.map_err(stored)? {
        let id = Some(said.id);
        let (at, author, text, mentions) = (said.at, said.author, said.text, said.mentions);
        comments.push(Said { id, at, author, text, mentions });
    }
    for event in store.comments(task).await.map_err(stored)? {
        // What people say while a run is at work is an event of it too.
        if let Ok(Event { ts, run_id, origin: Origin::Agent, body: Body::Comment(said), .. }) =
            serde_json::from_slice(&event.bytes)
        {
            let (id, at, author) = (None, ts, run_id.to_string());
            comments.push(Said { id, at, author, text: said.text, mentions: said.mentions });
        }
    }
    comments.sort_by_key(|said| said.at);
    let progress = store.last_progress(task).await.map_err(stored)?;
    let last_progress =
        progress.and_then(|event| match serde_json::from_slice::<Event>(&event.bytes).ok()?.body {
            Body::Progress(progress) => Some(progress),
            _ => None,
        });
    let mut runs = Vec::new();
    for run in store.runs_of(task, RUNS_MAX).await.map_err(stored)? {
        runs.extend(store.run(run).await.map_err(stored)?);
    }
    let answer = match runs.first() {
        Some(run) => answer(host, run).await?,
        None => None,
    };
    let kept = |run: &&RunRow| {
        let tree = super::diff::tree_of(host, run);
        tree.is_ok_and(|tree| tree.is_there() && tree.record.worktree.is_some())
    };
    let worktree_of = runs.iter().find(kept).map(|run| run.id);
    let standing = store.standing(task).await.map_err(stored)?;
    Ok(TaskSheet {
        answer,
        worktree_of,
        context: super::errand::context_of(&row),
        body: row.body.clone(),
        cwd: row.cwd.clone(),
        next_prompt: row.next_prompt.clone(),
        budget: budget::standing(host, &row).await?,
        after: store.dependencies(task).await.map_err(stored)?,
        comments,
        last_progress,
        runs: runs.into_iter().map(RunView::from).collect(),
        task: TaskView::of(row, standing.map(|standing| standing.ahead)),
    })
}

/// The last event of a run that has ended is its result, and says what it answered.
async fn answer(host: &Host, run: &RunRow) -> Result<Option<String>, Fault> {
    if run.ended_at.is_none() {
        return Ok(None);
    }
    let last = host.store().events(run.id, run.head_seq.saturating_sub(1), 1).await;
    let last = last.map_err(stored)?.into_iter().next_back();
    let event = last.and_then(|last| serde_json::from_slice::<Event>(&last.bytes).ok());
    Ok(event.and_then(|event| match event.body {
        Body::Result(result) => result.text,
        _ => None,
    }))
}

/// The task that a person means.
pub(super) async fn find(host: &Host, given: &str) -> Result<TaskRow, Fault> {
    let store = host.store();
    let row = match given.parse::<TaskId>() {
        Ok(task) => store.task(task).await.map_err(stored)?,
        // No id of a task: it may be a run, or a part of an id.
        Err(_) => match run::find(host, given).await {
            Ok(run) => store.task_of(run).await.map_err(stored)?,
            Err(fault) if fault.code != Code::NotFound => return Err(fault),
            // No such run.
            Err(_) => match store.find_tasks(given, run::CANDIDATES_MAX).await.map_err(stored)?[..]
            {
                [task] => store.task(task).await.map_err(stored)?,
                [] => None,
                ref several => {
                    let mut lines = Vec::new();
                    for task in several {
                        let row = store.task(*task).await.map_err(stored)?;
                        lines.push(run::candidate(&task.to_string(), row.map(|row| row.title)));
                    }
                    return Err(run::ambiguous("task", given, &lines));
                }
            },
        },
    };
    row.ok_or_else(|| {
        let given: String = given.chars().take(80).collect();
        Fault::new(Code::NotFound, format!("there is no task '{given}'"))
            .with_hint("`ostler task list` lists them")
    })
}
