//! `commit`: one Batch, all or nothing, under the fence. Events are numbered without gaps because
//! a Batch is refused unless it starts right after the run's head; a run ends once because a
//! result is taken only with a settlement, and nothing after it.

use super::ledger;
use super::removal;
use super::verbs::{Held, held, may_settle_as};
use super::writer::{Did, Wake};
use super::{blob_id, int, queue, scope};
use crate::batch::{Batch, Committed, Settle};
use crate::error::Error;
use crate::feed::Hint;
use crate::seal::Sealed;
use contract::{Billing, RunState, TaskId, TaskState, Timestamp};
use rusqlite::{Connection, params};
use uuid::Uuid;

pub(super) fn commit(connection: &Connection, batch: &Batch) -> Result<Did<Committed>, Error> {
    let held = held(connection, batch.run, batch.fence)?;
    check(batch, &held)?;
    let head_seq = held.head_seq + batch.events.len() as u64;
    append(connection, batch, &held)?;
    advance(connection, batch, &held, head_seq)?;
    take(connection, batch, &held)?;
    ledger::book(connection, batch, &held)?;
    let mut wakes =
        vec![Wake::Events(Hint::Run { run: batch.run, head_seq, settled: batch.settle.is_some() })];
    match &batch.settle {
        None => save(connection, batch, &held)?,
        Some(end) => {
            let state = settle(connection, batch, &held, end)?;
            let task = TaskId::new(Uuid::from_bytes(held.task));
            wakes.push(Wake::Events(Hint::Task { task, begun: false }));
            wakes.extend(queue::tell_dependents(connection, task, state)?);
            wakes.push(Wake::Inbox(batch.run));
        }
    }
    Ok(Did { value: Committed { head_seq }, wakes })
}

/// What can be said of a Batch before anything is written.
fn check(batch: &Batch, held: &Held) -> Result<(), Error> {
    let run = batch.run;
    if batch.first_seq != held.head_seq + 1 {
        return Err(Error::conflict(format!(
            "the batch of {run} starts with event {} and the head is {}",
            batch.first_seq, held.head_seq
        )));
    }
    for (seq, event) in (batch.first_seq..).zip(&batch.events) {
        if event.seq != seq {
            return Err(Error::conflict(format!(
                "event {} of {run} stands in the place of {seq}",
                event.seq
            )));
        }
    }
    let results = batch.events.iter().filter(|event| event.result).count();
    let ends_with_result = batch.events.last().is_some_and(|event| event.result);
    let (settles, fits) = match &batch.settle {
        None => (false, results == 0),
        Some(settle) => {
            (true, results == 1 && ends_with_result && may_settle_as(settle.task_state))
        }
    };
    if !fits {
        return Err(Error::conflict(format!(
            "the batch of {run} does not settle it with one result at its end"
        )));
    }
    let state = RunState::from_word(&held.state);
    let moves =
        state.is_some_and(|state| state == batch.run_state || state.may_become(batch.run_state));
    if !moves || (batch.run_state == RunState::Settled && !settles) {
        return Err(Error::conflict(format!(
            "{run} is {} and cannot become {}",
            held.state,
            batch.run_state.word()
        )));
    }
    Ok(())
}

fn append(connection: &Connection, batch: &Batch, held: &Held) -> Result<(), Error> {
    let mut first_id = None;
    let mut insert =
        connection.prepare_cached("INSERT INTO events (run, seq, bytes) VALUES (?1, ?2, ?3)")?;
    for event in &batch.events {
        insert.execute(params![held.num, int(event.seq), event.bytes.bytes()])?;
        // One writer, no gaps: the next rows get the next ids.
        let id = connection.last_insert_rowid();
        first_id.get_or_insert(id);
        removal::name_blobs(connection, held.num, &event.blobs)?;
        if let Some(kind) = event.of_task {
            connection
                .prepare_cached("INSERT INTO task_events (run, kind, event) VALUES (?1, ?2, ?3)")?
                .execute(params![held.num, kind.word(), id])?;
        }
    }
    if let Some(first_id) = first_id {
        connection
            .prepare_cached(
                "INSERT INTO spans (run, first_seq, first_id, count) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                held.num,
                int(batch.first_seq),
                first_id,
                batch.events.len() as i64
            ])?;
    }
    Ok(())
}

pub(super) fn advance(
    connection: &Connection,
    batch: &Batch,
    held: &Held,
    head_seq: u64,
) -> Result<(), Error> {
    let totals = batch.totals.map(|totals| serde_json::to_string(&totals).unwrap_or_default());
    // A settling Batch leaves the state to `settle`, which sets the outcome with it.
    let state = match batch.settle {
        Some(_) => held.state.as_str(),
        None => batch.run_state.word(),
    };
    let advanced = connection
        .prepare_cached(
            "UPDATE runs SET head_seq = ?4, state = ?5, pid = coalesce(?6, pid),
                             totals = coalesce(?7, totals), report = coalesce(?8, report),
                             billing = coalesce(?9, billing),
                             native_session = coalesce(?10, native_session)
             WHERE num = ?1 AND fence = ?2 AND head_seq = ?3 AND state <> 'settled'",
        )?
        .execute(params![
            held.num,
            int(batch.fence),
            int(held.head_seq),
            int(head_seq),
            state,
            batch.pid,
            totals,
            batch.report.as_ref().map(|report| report.json.text()),
            batch.report.as_ref().and_then(|report| report.billing).map(Billing::word),
            batch.session.as_ref().map(crate::seal::Sealed::text),
        ])?;
    one(advanced, batch)?;
    if batch.session_stale {
        forget_session(connection, held.num)?;
    }
    Ok(())
}

/// Takes the name of the conversation that a run took up away from every run that has it.
fn forget_session(connection: &Connection, run: i64) -> Result<(), Error> {
    connection
        .prepare_cached(
            "UPDATE runs SET native_session = NULL, session_stale = 1
             WHERE native_session = (SELECT resumes FROM runs WHERE num = ?1)
                 AND agent = (SELECT agent FROM runs WHERE num = ?1)",
        )?
        .execute([run])?;
    Ok(())
}

fn take(connection: &Connection, batch: &Batch, held: &Held) -> Result<(), Error> {
    for command in &batch.taken {
        let taken = connection
            .prepare_cached(
                "UPDATE commands SET taken = 1 WHERE id = ?1 AND run = ?2 AND taken = 0",
            )?
            .execute(params![blob_id(command.uuid()), held.num])?;
        if taken != 1 {
            return Err(Error::conflict(format!("{command} is not waiting for {}", batch.run)));
        }
    }
    for n in &batch.effects_done {
        connection
            .prepare_cached("DELETE FROM effects WHERE run = ?1 AND n = ?2")?
            .execute(params![held.num, int(*n)])?;
    }
    for effect in &batch.effects_todo {
        let asked = connection
            .prepare_cached(
                "INSERT INTO effects (run, n, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?
            .execute(params![held.num, int(effect.n), effect.bytes.bytes()])?;
        // A Batch without events that comes again, because its answer got lost.
        if asked != 1 {
            let (n, run) = (effect.n, batch.run);
            return Err(Error::conflict(format!("effect {n} of {run} is asked for twice")));
        }
    }
    Ok(())
}

fn save(connection: &Connection, batch: &Batch, held: &Held) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO states (run, machine, dialect, host, spool_offset)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (run) DO UPDATE SET machine = excluded.machine, dialect = excluded.dialect,
                 host = excluded.host, spool_offset = excluded.spool_offset",
        )?
        .execute(params![
            held.num,
            batch.machine.bytes(),
            batch.dialect.bytes(),
            batch.host.bytes(),
            int(batch.spool_offset),
        ])?;
    Ok(())
}

/// The end: outcome, task, lease, reservations and leftovers, in the same transaction.
pub(super) fn settle(
    connection: &Connection,
    batch: &Batch,
    held: &Held,
    end: &Settle,
) -> Result<TaskState, Error> {
    let settled = connection
        .prepare_cached(
            "UPDATE runs SET state = 'settled', outcome = ?3, code = ?4, message = ?5, ended_at = ?6,
                             lease_expires_at = ?6
             WHERE num = ?1 AND fence = ?2 AND state <> 'settled'",
        )?
        .execute(params![
            held.num,
            int(batch.fence),
            end.outcome.word(),
            end.code.map(|code| code.word()),
            end.message.text(),
            end.ended_at.ms(),
        ])?;
    one(settled, batch)?;
    let state = end_task(connection, batch, held, end)?;
    let totals = batch.totals.unwrap_or_default();
    let paid = end.billed(&totals);
    let spent = scope::Spent {
        nanousd: paid,
        tokens: totals.tokens.total(),
        turns: end.turns,
        ended_at: end.ended_at,
    };
    scope::close_reservations(connection, held.num, &spent)?;
    connection.prepare_cached("DELETE FROM states WHERE run = ?1")?.execute([held.num])?;
    connection.prepare_cached("DELETE FROM effects WHERE run = ?1")?.execute([held.num])?;
    Ok(state)
}

/// Where the end of its run takes a task. One that nobody wants any more is not tried again.
fn end_task(
    connection: &Connection,
    batch: &Batch,
    held: &Held,
    end: &Settle,
) -> Result<TaskState, Error> {
    let recalled: bool = connection
        .prepare_cached("SELECT recalled FROM tasks WHERE id = ?1")?
        .query_row([held.task], |row| row.get(0))?;
    let state = end.becomes(recalled);
    let why = end.waiting_for.filter(|_| state == TaskState::Waiting).map(queue::reason);
    let follow = &end.follow;
    let ended = connection
        .prepare_cached(
            "UPDATE tasks SET state = ?3, waiting_for = ?4, until = ?5, note = ?6,
                              code = ?7, tries = coalesce(?8, tries),
                              next_prompt = coalesce(?9, next_prompt),
                              resumes = coalesce(?10, resumes), wake = coalesce(?11, wake)
             WHERE id = ?1 AND fence = ?2 AND state = 'running'",
        )?
        .execute(params![
            held.task,
            int(batch.fence),
            state.word(),
            why,
            follow.until.filter(|_| state == TaskState::Waiting).map(Timestamp::ms),
            follow.note.as_ref().map(Sealed::text),
            end.code.map(|code| code.word()),
            follow.tries,
            follow.prompt.as_ref().map(Sealed::text),
            follow.resumes.map(|run| blob_id(run.uuid())),
            follow.wake,
        ])?;
    one(ended, batch)?;
    Ok(state)
}

/// A write by compare-and-set that hit nothing: someone else owns the run.
fn one(changed: usize, batch: &Batch) -> Result<(), Error> {
    match changed {
        1 => Ok(()),
        _ => Err(Error::FenceStale { run: batch.run, fence: batch.fence }),
    }
}
