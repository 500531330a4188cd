//! The verbs, each inside one savepoint of the writer. Every statement that changes something
//! names the state and the fence it expects, and is refused when it changes nothing: a check in
//! one statement and a write in another would be no check. `commit` is in `commit.rs`.

use super::writer::{Did, Wake};
use super::{blob_id, count, int, queue, scope};
use crate::batch::*;
use crate::error::Error;
use crate::feed::Hint;
use crate::limits::{INBOX_STOP_RESERVE, REAPED_LEASE_MS};
use crate::seal::Sealed;
use contract::limits::INBOX_MAX;
use contract::{RunId, TaskId, TaskState, Timestamp};
use failpoint::Point;
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

pub(super) fn enqueue(connection: &Connection, task: &NewTask) -> Result<Did<TaskId>, Error> {
    let run = task.line.as_ref().map(|line| blob_id(line.run.uuid()));
    let there: Option<[u8; 16]> = connection
        .prepare_cached("SELECT id FROM tasks WHERE id = ?1 OR key = ?2 OR run = ?3")?
        .query_row(params![blob_id(task.id.uuid()), task.key, run], |row| row.get(0))
        .optional()?;
    if let Some(there) = there {
        return Ok(Did::quietly(TaskId::new(Uuid::from_bytes(there))));
    }
    if let Some(errand) = &task.errand {
        return queue::put(connection, task, errand);
    }
    connection
        .prepare_cached(
            "INSERT INTO tasks (id, key, agent, title, body, prompt, system_prompt, review, created_at,
                                priority, pool, run, state, waiting_for)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                     iif(?11 IS NULL, 'queued', 'waiting'), iif(?11 IS NULL, NULL, 'pool'))",
        )?
        .execute(params![
            blob_id(task.id.uuid()),
            task.key,
            task.agent,
            task.title.text(),
            task.body.text(),
            task.prompt.text(),
            task.system_prompt.as_ref().map(|prompt| prompt.text()),
            task.review.word(),
            task.created_at.ms(),
            task.priority,
            task.line.as_ref().map(|line| &line.pool),
            run,
        ])?;
    let hint = Hint::Task { task: task.id, begun: false };
    Ok(Did { value: task.id, wakes: vec![Wake::Events(hint)] })
}

pub(super) fn claim(connection: &Connection, claim: &Claim) -> Result<Did<Claimed>, Error> {
    if let Some(fence) = claimed_before(connection, claim)? {
        return Ok(Did::quietly(Claimed { fence }));
    }
    let task = blob_id(claim.task.uuid());
    let old: i64 = connection
        .prepare_cached("SELECT fence FROM tasks WHERE id = ?1")?
        .query_row([task], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Error::not_found(claim.task))?;
    let fence = old + 1;
    take(connection, claim, old)?;
    let head = &claim.head;
    connection
        .prepare_cached(
            "INSERT INTO runs (id, task, fence, state, holder, lease_expires_at, agent, adapter,
                               runtime, cwd, model, prompt_preview, started_at, resumes, fallback)
             VALUES (?1, ?2, ?3, 'planned', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            blob_id(claim.run.uuid()),
            task,
            fence,
            claim.holder,
            claim.now.plus_ms(int(claim.lease_ms)).ms(),
            head.agent,
            head.adapter,
            head.runtime,
            head.cwd,
            head.model,
            head.prompt_preview.text(),
            claim.now.ms(),
            head.resumes.as_ref().map(crate::seal::Sealed::text),
            head.fallback.as_ref().map(crate::seal::Sealed::text),
        ])?;
    let num = connection.last_insert_rowid();
    connection
        .prepare_cached("INSERT INTO plans (run, plan) VALUES (?1, ?2)")?
        .execute(params![num, claim.plan.bytes()])?;
    let hint = Hint::Run { run: claim.run, head_seq: 0, settled: false };
    let begun = Hint::Task { task: claim.task, begun: true };
    let wakes = vec![Wake::Events(hint), Wake::Events(begun)];
    Ok(Did { value: Claimed { fence: count(fence) }, wakes })
}

/// Makes the task run under the next fence. One that may only run in a slot must find one free, and
/// nobody in line who comes before it.
pub(super) fn take(connection: &Connection, claim: &Claim, old: i64) -> Result<(), Error> {
    let (task, pool) = (blob_id(claim.task.uuid()), &claim.head.adapter);
    let taken = match claim.places {
        None => connection
            .prepare_cached(
                "UPDATE tasks SET state = 'running', waiting_for = NULL, note = NULL, fence = ?3,
                     agent = iif(agent = '', ?4, agent)
                 WHERE id = ?1 AND state = 'queued' AND fence = ?2",
            )?
            .execute(params![task, old, old + 1, claim.head.agent])?,
        Some(places) => connection
            .prepare_cached(
                "UPDATE tasks AS t SET state = 'running', waiting_for = NULL, note = NULL, fence = ?3,
                     agent = iif(agent = '', ?6, agent)
                 WHERE id = ?1 AND fence = ?2
                     AND (state = 'queued' OR (state = 'waiting' AND waiting_for = 'pool' AND pool = ?4))
                     AND (SELECT count(*) FROM runs WHERE adapter = ?4 AND state <> 'settled') < ?5
                     AND NOT EXISTS (SELECT 1 FROM tasks w
                         WHERE w.pool = ?4 AND w.state = 'waiting' AND w.waiting_for = 'pool'
                             AND (w.priority > t.priority OR (w.priority = t.priority AND w.num < t.num)))",
            )?
            .execute(params![task, old, old + 1, pool, places, claim.head.agent])?,
    };
    match taken {
        1 => Ok(()),
        _ => Err(untaken(connection, claim)?),
    }
}

/// Why a task was not claimed.
fn untaken(connection: &Connection, claim: &Claim) -> Result<Error, Error> {
    let (state, in_line): (String, bool) = connection
        .prepare_cached(
            "SELECT state, state = 'queued' OR (waiting_for IS 'pool' AND pool IS ?2)
             FROM tasks WHERE id = ?1",
        )?
        .query_row(params![blob_id(claim.task.uuid()), claim.head.adapter], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok(match claim.places {
        Some(_) if in_line => Error::PoolFull { pool: claim.head.adapter.clone() },
        _ => Error::conflict(format!("{} is {state} and cannot be claimed", claim.task)),
    })
}

/// The same claim again, because its answer got lost: granted as long as it still stands.
fn claimed_before(connection: &Connection, claim: &Claim) -> Result<Option<u64>, Error> {
    let before: Option<([u8; 16], String, i64, bool)> = connection
        .prepare_cached(
            "SELECT r.task, r.holder, r.fence, r.state <> 'settled' AND r.fence = t.fence
             FROM runs r JOIN tasks t ON t.id = r.task WHERE r.id = ?1",
        )?
        .query_row([blob_id(claim.run.uuid())], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    match before {
        None => Ok(None),
        Some((task, holder, fence, true))
            if task == blob_id(claim.task.uuid()) && holder == claim.holder =>
        {
            Ok(Some(count(fence)))
        }
        Some(_) => Err(Error::conflict(format!("{} was claimed before", claim.run))),
    }
}

/// A run's row, when it is held with this fence.
pub(super) struct Held {
    pub num: i64,
    pub task: [u8; 16],
    pub head_seq: u64,
    pub state: String,
}

/// Refuses whoever does not hold the run, or no longer, or not yet.
pub(super) fn held(connection: &Connection, run: RunId, fence: u64) -> Result<Held, Error> {
    let (held, mine) = connection
        .prepare_cached(
            "SELECT r.num, r.task, r.head_seq, r.state,
                    r.fence = ?2 AND t.fence = ?2 AND r.state <> 'settled'
             FROM runs r JOIN tasks t ON t.id = r.task WHERE r.id = ?1",
        )?
        .query_row(params![blob_id(run.uuid()), int(fence)], |row| {
            let head_seq = count(row.get(2)?);
            let held = Held { num: row.get(0)?, task: row.get(1)?, head_seq, state: row.get(3)? };
            Ok((held, row.get::<_, bool>(4)?))
        })
        .optional()?
        .ok_or_else(|| Error::not_found(run))?;
    if mine { Ok(held) } else { Err(Error::FenceStale { run, fence }) }
}

/// Writes a number that means nothing here, as it was: what counts is whether it becomes durable.
pub(super) fn probe(connection: &Connection) -> Result<Did<()>, Error> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version)?;
    Ok(Did::quietly(()))
}

pub(super) fn renew(
    connection: &Connection,
    run: RunId,
    fence: u64,
    expires_at: Timestamp,
) -> Result<Did<()>, Error> {
    let held = held(connection, run, fence)?;
    let renewed = connection
        .prepare_cached(
            "UPDATE runs SET lease_expires_at = ?3
             WHERE num = ?1 AND fence = ?2 AND state <> 'settled'",
        )?
        .execute(params![held.num, int(fence), expires_at.ms()])?;
    if renewed != 1 {
        return Err(Error::FenceStale { run, fence });
    }
    Ok(Did::quietly(()))
}

pub(super) fn command(connection: &Connection, command: &NewCommand) -> Result<Did<()>, Error> {
    let (num, state): (i64, String) = connection
        .prepare_cached("SELECT num, state FROM runs WHERE id = ?1")?
        .query_row([blob_id(command.run.uuid())], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| Error::not_found(command.run))?;
    let id = blob_id(command.id.uuid());
    let before: Option<i64> = connection
        .prepare_cached("SELECT run FROM commands WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    match before {
        Some(run) if run == num => return Ok(Did::quietly(())),
        Some(_) => return Err(Error::conflict(format!("{} was given to another run", command.id))),
        None => {}
    }
    if state == "settled" {
        return Err(Error::conflict(format!("{} is settled", command.run)));
    }
    let waiting: i64 = connection
        .prepare_cached("SELECT count(*) FROM commands WHERE run = ?1 AND taken = 0")?
        .query_row([num], |row| row.get(0))?;
    let stops = command.wish.bytes().starts_with(br#"{"wish":"stop""#);
    let room = INBOX_MAX + if stops { INBOX_STOP_RESERVE } else { 0 };
    if count(waiting) >= room as u64 {
        return Err(Error::TooMany { run: command.run });
    }
    let added = connection
        .prepare_cached(
            "INSERT INTO commands (id, run, asked_at, wish)
             SELECT ?1, num, ?3, ?4 FROM runs WHERE num = ?2 AND state <> 'settled'",
        )?
        .execute(params![id, num, command.asked_at.ms(), command.wish.bytes()])?;
    if added != 1 {
        return Err(Error::conflict(format!("{} is settled", command.run)));
    }
    failpoint::hit(Point::WishPut);
    Ok(Did { value: (), wakes: vec![Wake::Inbox(command.run)] })
}

/// Fences off every run whose lease ran out: task and run get the next fence, so a late Batch of
/// the old holder is refused from here on, and the caller is the one who may close the run.
/// Runs in `but` are left alone, and so are those in a state of a newer version.
pub(super) fn reap(
    connection: &Connection,
    now: Timestamp,
    but: &[RunId],
) -> Result<Did<Vec<Reaped>>, Error> {
    let mut expired = connection.prepare_cached(
        "SELECT num, id, task, fence, head_seq, lease_expires_at FROM runs
         WHERE state IN ('planned', 'live', 'stopping') AND state <> 'settled'
             AND lease_expires_at <= ?1 ORDER BY id",
    )?;
    let expired = expired
        .query_map([now.ms()], |row| {
            let old = count(row.get(3)?);
            let reaped = Reaped {
                run: RunId::new(Uuid::from_bytes(row.get(1)?)),
                task: TaskId::new(Uuid::from_bytes(row.get(2)?)),
                old_fence: old,
                fence: old + 1,
                head_seq: count(row.get(4)?),
            };
            Ok((row.get::<_, i64>(0)?, reaped, Timestamp(row.get(5)?)))
        })?
        .filter(|row| !row.as_ref().is_ok_and(|(_, reaped, _)| but.contains(&reaped.run)))
        .collect::<Result<Vec<_>, _>>()?;
    for (num, reaped, expires_at) in &expired {
        if !fence_off(connection, *num, reaped, *expires_at, now)? {
            return Err(Error::conflict(format!("{} and its task disagree", reaped.run)));
        }
    }
    Ok(Did::quietly(expired.into_iter().map(|(_, reaped, _)| reaped).collect()))
}

/// The same for runs whose lease stands as the caller saw it; the others are left out.
pub(super) fn reap_seen(
    connection: &Connection,
    now: Timestamp,
    seen: &[Seen],
) -> Result<Did<Vec<Reaped>>, Error> {
    let mut unchanged = connection.prepare_cached(
        "SELECT num, task, head_seq FROM runs
         WHERE id = ?1 AND fence = ?2 AND lease_expires_at = ?3
             AND state IN ('planned', 'live', 'stopping')",
    )?;
    let mut taken = Vec::new();
    for Seen { run, fence, expires_at } in seen {
        let found = unchanged
            .query_row(params![blob_id(run.uuid()), int(*fence), expires_at.ms()], |row| {
                let reaped = Reaped {
                    run: *run,
                    task: TaskId::new(Uuid::from_bytes(row.get(1)?)),
                    old_fence: *fence,
                    fence: fence + 1,
                    head_seq: count(row.get(2)?),
                };
                Ok((row.get::<_, i64>(0)?, reaped))
            })
            .optional()?;
        if let Some((num, reaped)) = found
            && fence_off(connection, num, &reaped, *expires_at, now)?
        {
            taken.push(reaped);
        }
    }
    Ok(Did::quietly(taken))
}

/// Gives task and run the next fence, if the lease still ends when it was seen to; false when it
/// does not.
pub(super) fn fence_off(
    connection: &Connection,
    num: i64,
    reaped: &Reaped,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<bool, Error> {
    let task = connection
        .prepare_cached(
            "UPDATE tasks SET fence = ?3 WHERE id = ?1 AND fence = ?2 AND state = 'running'",
        )?
        .execute(params![blob_id(reaped.task.uuid()), int(reaped.old_fence), int(reaped.fence)])?;
    let run = connection
        .prepare_cached(
            "UPDATE runs SET fence = ?3, holder = 'reaper', lease_expires_at = ?4
             WHERE num = ?1 AND fence = ?2 AND state <> 'settled' AND lease_expires_at = ?5",
        )?
        .execute(params![
            num,
            int(reaped.old_fence),
            int(reaped.fence),
            now.plus_ms(REAPED_LEASE_MS).ms(),
            expires_at.ms()
        ])?;
    match (task, run) {
        (1, 1) => {
            failpoint::hit(Point::FenceRaised);
            Ok(true)
        }
        (0, 0) => Ok(false),
        _ => Err(Error::conflict(format!("{} and its task disagree", reaped.run))),
    }
}

pub(super) fn reserve(connection: &Connection, reserve: &Reserve) -> Result<Did<()>, Error> {
    let held = held(connection, reserve.run, reserve.fence)?;
    let limits = [
        reserve.nanousd_max.map(|max| max.0),
        reserve.tokens_max.map(int),
        reserve.turns_max.map(int),
        reserve.ms_max.map(int),
    ];
    if limits.iter().any(Option::is_some) && is_over(connection, reserve, held.num, limits)? {
        return Err(Error::BudgetExceeded { scope: reserve.scope.clone() });
    }
    connection
        .prepare_cached(
            "INSERT INTO reservations (scope, run, nanousd, tokens, turns, ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (scope, run) DO UPDATE SET nanousd = excluded.nanousd,
                 tokens = excluded.tokens, turns = excluded.turns, ms = excluded.ms
             WHERE settled_at IS NULL",
        )?
        .execute(params![
            reserve.scope,
            held.num,
            reserve.nanousd.0,
            int(reserve.tokens),
            int(reserve.turns),
            int(reserve.ms),
        ])?;
    Ok(Did::quietly(()))
}

/// Whether a scope would hold more than its limits with what a run wants to set aside.
fn is_over(
    connection: &Connection,
    reserve: &Reserve,
    num: i64,
    limits: [Option<i64>; 4],
) -> Result<bool, Error> {
    // What the run has set aside until now is replaced, so it does not count.
    let own: [i64; 4] = connection
        .prepare_cached(
            "SELECT nanousd, tokens, turns, ms FROM reservations
             WHERE scope = ?1 AND run = ?2 AND settled_at IS NULL",
        )?
        .query_row(params![reserve.scope, num], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        })
        .optional()?
        .unwrap_or_default();
    let spent = scope::sum(connection, &reserve.scope, reserve.since)?;
    let sums = [spent.nanousd.0, int(spent.tokens), int(spent.turns), int(spent.ms)];
    let wanted = [reserve.nanousd.0, int(reserve.tokens), int(reserve.turns), int(reserve.ms)];
    let over = |n: usize| {
        let sum = sums[n].saturating_sub(own[n]).saturating_add(wanted[n]);
        limits[n].is_some_and(|max| sum > max)
    };
    Ok((0..limits.len()).any(over))
}

pub(super) fn move_task(connection: &Connection, step: &TaskMove) -> Result<Did<()>, Error> {
    let TaskMove { task, fence, from, to, waiting_for, ref pool, ref follow } = *step;
    let refusal = |why: &str| {
        Error::conflict(format!("{task} cannot go from {} to {}: {why}", from.word(), to.word()))
    };
    if let Some(why) = step.folly() {
        return Err(refusal(why));
    }
    let why = waiting_for.filter(|_| to == TaskState::Waiting).map(queue::reason);
    let reopened = i64::from(from == TaskState::Failed);
    let moved = connection
        .prepare_cached(
            "UPDATE tasks SET state = ?4, waiting_for = ?5, generation = generation + ?6,
                              pool = coalesce(?7, pool), until = ?8, note = ?9,
                              code = coalesce(?10, code), tries = coalesce(?11, tries),
                              next_prompt = coalesce(?12, next_prompt),
                              resumes = coalesce(?13, resumes), wake = coalesce(?14, wake)
             WHERE id = ?1 AND fence = ?2 AND state = ?3",
        )?
        .execute(params![
            blob_id(task.uuid()),
            int(fence),
            from.word(),
            to.word(),
            why,
            reopened,
            pool,
            follow.until.filter(|_| to == TaskState::Waiting).map(Timestamp::ms),
            follow.note.as_ref().map(Sealed::text),
            follow.code.map(|code| code.word()),
            follow.tries,
            follow.prompt.as_ref().map(Sealed::text),
            follow.resumes.map(|run| blob_id(run.uuid())),
            follow.wake,
        ])?;
    if moved != 1 {
        return Err(refusal("it is not there any more"));
    }
    let mut wakes = vec![Wake::Events(Hint::Task { task, begun: false })];
    wakes.extend(queue::tell_dependents(connection, task, to)?);
    Ok(Did { value: (), wakes })
}

/// Where a settled run's task may go. It was running, and one run of it has ended.
pub(super) fn may_settle_as(state: TaskState) -> bool {
    match state {
        TaskState::Running | TaskState::Unknown => false,
        TaskState::Queued
        | TaskState::Waiting
        | TaskState::Review
        | TaskState::Done
        | TaskState::Failed
        | TaskState::Cancelled => true,
    }
}
