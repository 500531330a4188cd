//! The queue's own statements: what a task is given with its place, who waits for whom, what is
//! looked at again, and who comes next. As in `verbs.rs`, whatever changes something names the state
//! and the fence it expects. Nothing here reads more rows than it gives, however many there are.

use super::writer::{Did, Wake};
use super::{blob_id, count, int, reads};
use crate::batch::NewTask;
use crate::error::Error;
use crate::feed::Hint;
use crate::limits::AGAIN_ROWS_MAX;
use crate::queue::*;
use contract::state::WaitingFor;
use contract::{CommandId, RunId, TaskId, TaskState, Timestamp};
use failpoint::Point;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use uuid::Uuid;

/// The word of a reason to wait.
pub(super) fn reason(why: WaitingFor) -> String {
    let value = serde_json::to_value(why).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Puts a new task of the queue in, with everything that belongs to it.
pub(super) fn put(
    connection: &Connection,
    task: &NewTask,
    errand: &Errand,
) -> Result<Did<TaskId>, Error> {
    let id = blob_id(task.id.uuid());
    let depth = depth_below(connection, task.id, errand.parent)?;
    let open = open_dependencies(connection, task.id, &errand.after)?;
    let later = errand.not_before.filter(|at| *at > task.created_at);
    let why = match (open, later) {
        (true, _) => Some(WaitingFor::Dependency),
        (false, Some(_)) => Some(WaitingFor::NotBefore),
        (false, None) => None,
    };
    connection
        .prepare_cached(
            "INSERT INTO tasks (id, key, agent, title, body, prompt, system_prompt, review, created_at,
                 priority, state, waiting_for, by_queue, cwd, labels, parent, depth, budget, not_before,
                 until, wake, context)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, iif(?11 IS NULL, 'queued', 'waiting'), ?11,
                 1, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        )?
        .execute(params![
            id,
            task.key,
            task.agent,
            task.title.text(),
            task.body.text(),
            task.prompt.text(),
            task.system_prompt.as_ref().map(|prompt| prompt.text()),
            task.review.word(),
            task.created_at.ms(),
            task.priority,
            why.map(reason),
            errand.cwd,
            serde_json::to_string(&errand.labels).unwrap_or_default(),
            errand.parent.map(|parent| blob_id(parent.task.uuid())),
            depth,
            errand.budget,
            errand.not_before.map(Timestamp::ms),
            later.filter(|_| !open).map(Timestamp::ms),
            errand.wake,
            errand.context.as_ref().map(|context| context.text()),
        ])?;
    for after in &errand.after {
        connection
            .prepare_cached(
                "INSERT INTO dependencies (task, after) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute(params![id, blob_id(after.uuid())])?;
        note_dependents(connection, *after)?;
    }
    for label in &errand.labels {
        connection
            .prepare_cached(
                "INSERT INTO labels (label, task) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute(params![label, id])?;
    }
    failpoint::hit(Point::TaskPut);
    Ok(Did {
        value: task.id,
        wakes: vec![Wake::Events(Hint::Task { task: task.id, begun: false })],
    })
}

/// How deep a task is below its parent, which must be there and may have only so many.
fn depth_below(
    connection: &Connection,
    task: TaskId,
    parent: Option<Parent>,
) -> Result<u32, Error> {
    let Some(Parent { task: parent, children_max, depth_max }) = parent else { return Ok(0) };
    let (depth, children): (u32, u32) = connection
        .prepare_cached(
            "SELECT depth + 1, (SELECT count(*) FROM tasks c WHERE c.parent = ?1 AND c.parent IS NOT NULL)
             FROM tasks WHERE id = ?1",
        )?
        .query_row([blob_id(parent.uuid())], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| Error::not_found(parent))?;
    let refusal = |what: &str, max: u32| {
        Error::conflict(format!("{task} cannot be put below {parent}: {what} {max}"))
    };
    match (children < children_max, depth <= depth_max) {
        (true, true) => Ok(depth),
        (false, _) => Err(refusal("the tasks below one are at most", children_max)),
        (true, false) => Err(refusal("tasks below each other go at most as deep as", depth_max)),
    }
}

/// Whether one of these is not done. Each must be there, and none can be the task itself.
fn open_dependencies(
    connection: &Connection,
    task: TaskId,
    after: &[TaskId],
) -> Result<bool, Error> {
    let mut open = false;
    for other in after {
        if *other == task {
            return Err(Error::conflict(format!("{task} cannot come after itself")));
        }
        let state: String = connection
            .prepare_cached("SELECT state FROM tasks WHERE id = ?1")?
            .query_row([blob_id(other.uuid())], |row| row.get(0))
            .optional()?
            .ok_or_else(|| Error::not_found(*other))?;
        open |= state != TaskState::Done.word();
    }
    Ok(open)
}

/// Lets those go on that waited for a task that has come to a state, and tells them of one that will
/// not be done by itself.
pub(super) fn tell_dependents(
    connection: &Connection,
    task: TaskId,
    state: TaskState,
) -> Result<Vec<Wake>, Error> {
    match state {
        TaskState::Done => release_dependents(connection, task),
        TaskState::Failed | TaskState::Cancelled | TaskState::Queued => {
            note_dependents(connection, task)?;
            Ok(Vec::new())
        }
        TaskState::Waiting | TaskState::Running | TaskState::Review | TaskState::Unknown => {
            Ok(Vec::new())
        }
    }
}

/// Those for which this was the last to be done. One that has a time of its own waits for that.
fn release_dependents(connection: &Connection, task: TaskId) -> Result<Vec<Wake>, Error> {
    let mut statement = connection.prepare_cached(
        "UPDATE tasks SET state = iif(not_before IS NULL, 'queued', 'waiting'),
             waiting_for = iif(not_before IS NULL, NULL, 'not_before'), until = not_before, note = NULL
         WHERE id IN (SELECT task FROM dependencies WHERE after = ?1)
             AND state = 'waiting' AND waiting_for = 'dependency'
             AND NOT EXISTS (SELECT 1 FROM dependencies d JOIN tasks o ON o.id = d.after
                 WHERE d.task = tasks.id AND o.state <> 'done')
         RETURNING id",
    )?;
    let released = statement.query_map([blob_id(task.uuid())], task_id)?;
    let released = released.collect::<Result<Vec<_>, _>>()?;
    if !released.is_empty() {
        failpoint::hit(Point::TasksReleased);
    }
    let wake = |task| Wake::Events(Hint::Task { task, begun: false });
    Ok(released.into_iter().map(wake).collect())
}

/// Says to those that wait for it whether this task waits for a person.
fn note_dependents(connection: &Connection, task: TaskId) -> Result<(), Error> {
    connection
        .prepare_cached(
            "UPDATE tasks SET note = (SELECT ?2 || ' is ' || o.state
                 FROM dependencies d JOIN tasks o ON o.id = d.after
                 WHERE d.task = tasks.id AND d.after = ?1 AND o.state IN ('failed', 'cancelled'))
             WHERE id IN (SELECT task FROM dependencies WHERE after = ?1)
                 AND state = 'waiting' AND waiting_for = 'dependency'",
        )?
        .execute(params![blob_id(task.uuid()), task.to_string()])?;
    Ok(())
}

/// Someone wants a task no more that runs: it is not tried again, whatever its run ends with.
pub(super) fn recall(connection: &Connection, task: TaskId, fence: u64) -> Result<Did<()>, Error> {
    let recalled = connection
        .prepare_cached(
            "UPDATE tasks SET recalled = 1 WHERE id = ?1 AND fence = ?2 AND state = 'running'",
        )?
        .execute(params![blob_id(task.uuid()), int(fence)])?;
    match recalled {
        1 => Ok(Did { value: (), wakes: vec![Wake::Events(Hint::Task { task, begun: false })] }),
        _ => Err(Error::conflict(format!("{task} does not run any more as it was seen"))),
    }
}

/// Changes what a task may spend, for whoever saw what it might until now.
pub(super) fn change_budget(connection: &Connection, step: &BudgetStep) -> Result<Did<()>, Error> {
    let BudgetStep { task, from, to } = step;
    let changed = connection
        .prepare_cached("UPDATE tasks SET budget = ?3 WHERE id = ?1 AND budget IS ?2")?
        .execute(params![blob_id(task.uuid()), from, to])?;
    match changed {
        1 => Ok(Did {
            value: (),
            wakes: vec![Wake::Events(Hint::Task { task: *task, begun: false })],
        }),
        _ => Err(Error::conflict(format!("the budget of {task} is not what it was"))),
    }
}

/// Queues those again that may be looked at, a slice of them; how many there were.
pub(super) fn again(connection: &Connection, which: Again) -> Result<Did<u64>, Error> {
    let (found, value): (&str, Box<dyn ToSql>) = match which {
        Again::Due(now) => (DUE, Box::new(now.ms())),
        Again::Whenever(why) => (WHENEVER, Box::new(reason(why))),
    };
    let mut statement = connection.prepare_cached(&format!(
        "UPDATE tasks SET state = 'queued', waiting_for = NULL, until = NULL, note = NULL
         WHERE num IN ({found} LIMIT {AGAIN_ROWS_MAX}) AND state = 'waiting' RETURNING id"
    ))?;
    let tasks = statement.query_map([value], task_id)?.collect::<Result<Vec<_>, _>>()?;
    if !tasks.is_empty() {
        failpoint::hit(Point::TasksDue);
    }
    let wakes =
        tasks.iter().map(|task| Wake::Events(Hint::Task { task: *task, begun: false })).collect();
    Ok(Did { value: tasks.len() as u64, wakes })
}

/// Those whose time has come. The index is named because the planner, which knows nothing of how many
/// rows wait, takes that of the states and sorts them all.
pub(super) const DUE: &str = "SELECT num FROM tasks INDEXED BY tasks_due
    WHERE state = 'waiting' AND run IS NULL AND until IS NOT NULL AND until <= ?1 ORDER BY until";
/// The first of the next crowd that waits for something and does not know until when. A directory
/// that is not said is the empty one, and so is whose matter it is.
pub(super) const HELD: &str = "SELECT num FROM tasks INDEXED BY tasks_held
    WHERE state = 'waiting' AND run IS NULL AND waiting_for = ?1 AND until IS NULL
        AND (agent, ifnull(cwd, ''), ifnull(pool, '')) > (?2, ?3, ?4)
    ORDER BY agent, ifnull(cwd, ''), ifnull(pool, ''), priority DESC, num LIMIT 1";
/// Those that wait for something, whatever time they were told.
pub(super) const WHENEVER: &str = "SELECT num FROM tasks INDEXED BY tasks_by_state
    WHERE state = 'waiting' AND run IS NULL AND waiting_for = ?1 ORDER BY id";
/// The earliest time.
pub(super) const NEXT_DUE: &str = "SELECT until FROM tasks INDEXED BY tasks_due
    WHERE state = 'waiting' AND until IS NOT NULL ORDER BY until LIMIT 1";

pub(super) fn comment(connection: &Connection, comment: &NewComment) -> Result<Did<()>, Error> {
    let NewComment { id, task, at, author, text, mentions } = comment;
    let there: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM tasks WHERE id = ?1)")?
        .query_row([blob_id(task.uuid())], |row| row.get(0))?;
    if !there {
        return Err(Error::not_found(*task));
    }
    connection
        .prepare_cached(
            "INSERT INTO comments (id, task, at, author, text, mentions)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            blob_id(id.uuid()),
            blob_id(task.uuid()),
            at.ms(),
            author,
            text.text(),
            serde_json::to_string(mentions).unwrap_or_default(),
        ])?;
    Ok(Did { value: (), wakes: vec![Wake::Events(Hint::Task { task: *task, begun: false })] })
}

/// The newest comments of a task, in order.
pub(super) fn comments(
    connection: &Connection,
    task: TaskId,
    limit: usize,
) -> Result<Vec<CommentRow>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, author, text, mentions FROM comments WHERE task = ?1
         ORDER BY num DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(params![blob_id(task.uuid()), limit as i64], |row| {
        let mentions: String = row.get(4)?;
        Ok(CommentRow {
            id: CommandId::new(row.get(0).map(Uuid::from_bytes)?),
            at: Timestamp(row.get(1)?),
            author: row.get(2)?,
            text: row.get(3)?,
            mentions: serde_json::from_str(&mentions).unwrap_or_default(),
        })
    })?;
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    rows.reverse();
    Ok(rows)
}

/// The first task of every agent that could be started. Agents are stepped over one by one, so this
/// costs by the number of agents that have something to do and not by the number of tasks.
pub(super) fn heads(connection: &Connection) -> Result<Vec<Head>, Error> {
    const READY: &str = "run IS NULL AND (state = 'queued' OR waiting_for = 'pool')";
    let columns =
        reads::TASK.strip_prefix("SELECT ").and_then(|sql| sql.strip_suffix(" FROM tasks"));
    let sql = format!(
        "WITH RECURSIVE agents (name) AS (
             SELECT (SELECT min(agent) FROM tasks WHERE {READY})
             UNION ALL
             SELECT (SELECT min(agent) FROM tasks WHERE {READY} AND agent > agents.name)
             FROM agents WHERE agents.name IS NOT NULL)
         SELECT {}, num, (SELECT count(*) FROM runs r WHERE r.agent = tasks.agent AND r.state <> 'settled')
         FROM agents JOIN tasks ON num = (SELECT num FROM tasks t WHERE {READY} AND t.agent = agents.name
             ORDER BY priority DESC, num LIMIT 1)",
        columns.unwrap_or_default()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], head_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The first of each crowd of a page. Crowds are stepped over one by one, so this costs by their
/// number and not by the number of tasks.
pub(super) fn crowds(connection: &Connection, page: &CrowdsPage) -> Result<Vec<Head>, Error> {
    let columns = reads::TASK.strip_suffix(" FROM tasks").unwrap_or_default();
    let sql = format!(
        "{columns}, num, (SELECT count(*) FROM runs r WHERE r.agent = tasks.agent AND r.state <> 'settled')
         FROM tasks WHERE num = ({HELD})"
    );
    let why = reason(page.why);
    let place = |crowd: &Crowd| (crowd.agent.clone(), crowd.cwd.clone(), crowd.of.clone());
    let mut after = page.after.as_ref().map(place);
    let mut found = Vec::new();
    while found.len() < page.limit {
        // The first there is may be of no agent and in no directory.
        let sql = if after.is_some() { sql.clone() } else { sql.replace("> (?2", ">= (?2") };
        let (agent, cwd, of) = after.unwrap_or_default();
        let mut first = connection.prepare_cached(&sql)?;
        let place = params![why, agent, cwd.unwrap_or_default(), of.unwrap_or_default()];
        let Some(head) = first.query_row(place, head_row).optional()? else { break };
        after = Some((head.task.agent.clone(), head.task.cwd.clone(), head.task.pool.clone()));
        found.push(head);
    }
    Ok(found)
}

fn head_row(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        task: reads::task_row(row)?,
        num: count(row.get(reads::TASK_COLUMNS)?),
        busy: count(row.get(reads::TASK_COLUMNS + 1)?),
    })
}

/// When the next task that waits may be looked at, as far as that is known.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, Error> {
    let due: Option<i64> =
        connection.prepare_cached(NEXT_DUE)?.query_row([], |row| row.get(0)).optional()?;
    Ok(due.map(Timestamp))
}

/// What must be done before a task.
pub(super) fn dependencies(connection: &Connection, task: TaskId) -> Result<Vec<TaskId>, Error> {
    let mut statement = connection
        .prepare_cached("SELECT after FROM dependencies WHERE task = ?1 ORDER BY after")?;
    let rows = statement.query_map([blob_id(task.uuid())], task_id)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn children(connection: &Connection, task: TaskId) -> Result<Children, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT budget FROM tasks WHERE parent = ?1 AND parent IS NOT NULL ORDER BY num",
    )?;
    let budgets = statement
        .query_map([blob_id(task.uuid())], |row| row.get::<_, Option<String>>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Children { count: budgets.len() as u64, budgets: budgets.into_iter().flatten().collect() })
}

/// The runs of a task, the newest first.
pub(super) fn runs_of(
    connection: &Connection,
    task: TaskId,
    limit: usize,
) -> Result<Vec<RunId>, Error> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM runs WHERE task = ?1 ORDER BY id DESC LIMIT ?2")?;
    let rows = statement.query_map(params![blob_id(task.uuid()), limit as i64], |row| {
        row.get(0).map(Uuid::from_bytes).map(RunId::new)
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn task_id(row: &Row<'_>) -> rusqlite::Result<TaskId> {
    row.get(0).map(Uuid::from_bytes).map(TaskId::new)
}
