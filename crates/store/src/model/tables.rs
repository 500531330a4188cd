//! The rows of the model and what each verb does to them, in the order in which the SQLite backend
//! checks. Nothing is changed before the last check has passed.

use super::queue::follow;
use crate::batch::*;
use crate::error::Error;
use crate::limits::{INBOX_STOP_RESERVE, REAPED_LEASE_MS};
use crate::queue::NewComment;
use crate::row::*;
use contract::limits::{INBOX_MAX, PAGE_EVENTS_MAX};
use contract::state::WaitingFor;
use contract::{Command, CommandId, RunId, RunState, TaskId, TaskState, Timestamp, Wish};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One promise that the model does not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// A Batch is taken under any fence.
    CommitUnfenced,
    /// The end of a run is taken under any fence.
    SettleUnfenced,
    /// A lease is renewed under any fence.
    RenewUnfenced,
    /// Reaping leaves the fence where it is.
    ReapUnfenced,
    /// Reaping takes runs whose lease was renewed after it was seen.
    ReapUnseen,
    /// A Batch may begin anywhere.
    HeadUnchecked,
    /// A run that has ended can be written to.
    EndUnchecked,
    /// A task is claimed wherever it stands.
    ClaimUnchecked,
    /// A task is moved under any fence.
    MoveUnfenced,
    /// A task is moved wherever it stands.
    MoveUnchecked,
    /// A task is claimed when all slots are taken.
    SlotsUncounted,
    /// A task is claimed before those that came first.
    LineIgnored,
    /// A task goes on as soon as one of those before it is done.
    DependencyUncounted,
    /// A task that was cancelled while it ran is tried again.
    RecallIgnored,
    /// A task that waits is looked at before its time.
    DueUnchecked,
    /// A task that is done is queued with those whose time has come.
    DoneAgain,
    /// A Batch of several events is taken, and the first of them is not there.
    EventLost,
    /// A wish that was taken stays in the inbox.
    WishKept,
    /// A task that waits for its time waits for ever.
    DueForgotten,
    /// Who came first is first, whatever the priority.
    PriorityIgnored,
    /// A sum is set aside under any fence.
    ReserveUnfenced,
    /// A sum is set aside whatever others have set aside.
    ReserveUncounted,
    /// What was set aside for a run and not spent stays so when it has ended.
    ReservationKept,
}

#[derive(Default)]
pub(super) struct Tables {
    flaw: Option<Flaw>,
    pub(super) tasks: BTreeMap<TaskId, TaskRow>,
    pub(super) arrivals: Vec<TaskId>,
    pub(super) after: BTreeMap<TaskId, Vec<TaskId>>,
    pub(super) comments: Vec<NewComment>,
    runs: BTreeMap<RunId, Run>,
    commands: BTreeMap<CommandId, RunId>,
    reservations: Vec<Reservation>,
}

struct Run {
    row: RunRow,
    events: Vec<StoredEvent>,
    state: Option<State>,
    effects: BTreeMap<u64, Vec<u8>>,
    inbox: Vec<Wished>,
}

struct State {
    machine: Vec<u8>,
    dialect: Vec<u8>,
    host: Vec<u8>,
    spool_offset: u64,
}

struct Wished {
    command: Command,
    taken: bool,
}

struct Reservation {
    scope: String,
    run: RunId,
    nanousd: i64,
    tokens: u64,
    turns: u64,
    ms: u64,
    settled_at: Option<Timestamp>,
}

impl Tables {
    pub fn flawed(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    pub(super) fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub fn enqueue(&mut self, task: &NewTask) -> Result<TaskId, Error> {
        let run = task.line.as_ref().map(|line| line.run);
        let same = |row: &&TaskRow| {
            (task.key.is_some() && row.key == task.key) || (run.is_some() && row.run == run)
        };
        if let Some(row) = self.tasks.get(&task.id).or(self.tasks.values().find(same)) {
            return Ok(row.id);
        }
        let mut row = TaskRow {
            id: task.id,
            key: task.key.clone(),
            agent: task.agent.clone(),
            title: task.title.text(),
            body: task.body.text(),
            prompt: task.prompt.text(),
            system_prompt: task.system_prompt.as_ref().map(|prompt| prompt.text()),
            state: if run.is_some() { TaskState::Waiting } else { TaskState::Queued },
            waiting_for: run.map(|_| WaitingFor::Pool),
            review: task.review,
            fence: 0,
            generation: 1,
            priority: task.priority,
            pool: task.line.as_ref().map(|line| line.pool.clone()),
            run,
            created_at: task.created_at,
            by_queue: false,
            cwd: None,
            labels: Vec::new(),
            parent: None,
            depth: 0,
            budget: None,
            not_before: None,
            until: None,
            tries: 0,
            code: None,
            note: None,
            next_prompt: None,
            resumes: None,
            wake: None,
            recalled: false,
            context: None,
        };
        if let Some(errand) = &task.errand {
            self.place(&mut row, errand)?;
        }
        self.arrivals.push(task.id);
        self.tasks.insert(task.id, row);
        for after in self.after.get(&task.id).cloned().unwrap_or_default() {
            self.note_dependents(after);
        }
        Ok(task.id)
    }

    pub fn claim(&mut self, claim: &Claim) -> Result<Claimed, Error> {
        if let Some(run) = self.runs.get(&claim.run) {
            let row = &run.row;
            let stands = row.state != RunState::Settled
                && self.tasks.get(&row.task).is_some_and(|task| task.fence == row.fence);
            let same = row.task == claim.task && row.holder == claim.holder;
            return match stands && same {
                true => Ok(Claimed { fence: row.fence }),
                false => Err(Error::conflict(format!("{} was claimed before", claim.run))),
            };
        }
        let task = self.tasks.get(&claim.task).ok_or_else(|| Error::not_found(claim.task))?;
        let pool = &claim.head.adapter;
        let in_line = claim.places.is_some() && waits(task, Some(pool));
        let anywhere = self.lacks(Flaw::ClaimUnchecked);
        if task.state != TaskState::Queued && !in_line && !anywhere {
            let word = task.state.word();
            return Err(Error::conflict(format!("{} is {word} and cannot be claimed", claim.task)));
        }
        if let Some(places) = claim.places {
            let Standing { ahead, taken } = self.stands(task, pool);
            let counts = !self.lacks(Flaw::SlotsUncounted);
            let waits = !self.lacks(Flaw::LineIgnored);
            if (counts && taken >= u64::from(places)) || (waits && ahead > 0) {
                return Err(Error::PoolFull { pool: pool.clone() });
            }
        }
        let task = self.tasks.get_mut(&claim.task).ok_or_else(|| Error::not_found(claim.task))?;
        task.state = TaskState::Running;
        task.waiting_for = None;
        task.note = None;
        task.fence += 1;
        if task.agent.is_empty() {
            task.agent.clone_from(&claim.head.agent);
        }
        let fence = task.fence;
        let row = claimed_row(claim, fence);
        let run = Run {
            row,
            events: Vec::new(),
            state: None,
            effects: BTreeMap::new(),
            inbox: Vec::new(),
        };
        self.runs.insert(claim.run, run);
        Ok(Claimed { fence })
    }

    /// Refuses whoever does not hold the run, or no longer, or not yet.
    fn held(&mut self, id: RunId, fence: u64, unfenced: bool) -> Result<&mut Run, Error> {
        let endless = self.lacks(Flaw::EndUnchecked);
        let run = self.runs.get_mut(&id).ok_or_else(|| Error::not_found(id))?;
        let task = self.tasks.get(&run.row.task).map_or(0, |task| task.fence);
        let mine = unfenced || (run.row.fence == fence && task == fence);
        let open = endless || run.row.state != RunState::Settled;
        match mine && open {
            true => Ok(run),
            false => Err(Error::FenceStale { run: id, fence }),
        }
    }

    pub fn renew(&mut self, id: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        let unfenced = self.lacks(Flaw::RenewUnfenced);
        self.held(id, fence, unfenced)?.row.lease_expires_at = expires_at;
        Ok(())
    }

    pub fn commit(&mut self, batch: &Batch) -> Result<Committed, Error> {
        let unfenced = match &batch.settle {
            Some(_) => self.lacks(Flaw::SettleUnfenced),
            None => self.lacks(Flaw::CommitUnfenced),
        };
        let anywhere = self.lacks(Flaw::HeadUnchecked);
        let (loses, keeps) = (self.lacks(Flaw::EventLost), self.lacks(Flaw::WishKept));
        let run = self.held(batch.run, batch.fence, unfenced)?;
        check(run, batch, anywhere)?;
        check_deeds(run, batch)?;
        apply(run, batch);
        if loses && batch.events.len() > 1 {
            run.events.retain(|event| event.seq != batch.first_seq);
        }
        if keeps {
            run.inbox.iter_mut().for_each(|wished| wished.taken = false);
        }
        let (head_seq, task) = (run.row.head_seq, run.row.task);
        if let Some(end) = &batch.settle {
            self.end_task(task, end);
            self.close_reservations(batch, end);
        }
        Ok(Committed { head_seq })
    }

    fn close_reservations(&mut self, batch: &Batch, end: &Settle) {
        let keeps = self.lacks(Flaw::ReservationKept);
        let totals = batch.totals.unwrap_or_default();
        let started_at = self.runs.get(&batch.run).map(|run| run.row.started_at);
        let open = |held: &&mut Reservation| held.run == batch.run && held.settled_at.is_none();
        for held in self.reservations.iter_mut().filter(open) {
            let paid = end.billed(&totals).map(|nano| nano.0);
            held.nanousd = paid.unwrap_or(held.nanousd);
            held.tokens = totals.tokens.total().max(if keeps { held.tokens } else { 0 });
            held.turns = end.turns;
            held.ms = started_at.map_or(0, |started_at| end.ended_at.since(started_at));
            held.settled_at = Some(end.ended_at);
        }
    }

    pub fn command(&mut self, command: &NewCommand) -> Result<(), Error> {
        if self.commands.contains_key(&command.id) {
            return Ok(());
        }
        let run = self.runs.get_mut(&command.run).ok_or_else(|| Error::not_found(command.run))?;
        let settled = || Error::conflict(format!("{} is settled", command.run));
        if run.row.state == RunState::Settled {
            return Err(settled());
        }
        let wish: Wish = serde_json::from_slice(command.wish.bytes())
            .map_err(|cause| Error::unreadable("reading a wish", cause))?;
        let stops = matches!(wish, Wish::Stop { .. });
        let room = INBOX_MAX + if stops { INBOX_STOP_RESERVE } else { 0 };
        if run.inbox.iter().filter(|wished| !wished.taken).count() >= room {
            return Err(Error::TooMany { run: command.run });
        }
        let (id, run_id, asked_at) = (command.id, command.run, command.asked_at);
        let command = Command { id, run_id, asked_at, wish };
        run.inbox.push(Wished { command, taken: false });
        self.commands.insert(id, run_id);
        Ok(())
    }

    pub fn reap(&mut self, now: Timestamp, but: &[RunId]) -> Vec<Reaped> {
        let over = |row: &RunRow| row.lease_expires_at <= now && !but.contains(&row.id);
        self.fence_off(now, over)
    }

    pub fn reap_seen(&mut self, now: Timestamp, seen: &[Seen]) -> Vec<Reaped> {
        let unseen = self.lacks(Flaw::ReapUnseen);
        let unchanged = |row: &RunRow| {
            let (run, fence, expires_at) = (row.id, row.fence, row.lease_expires_at);
            match unseen {
                true => seen.iter().any(|seen| seen.run == run),
                false => seen.contains(&Seen { run, fence, expires_at }),
            }
        };
        self.fence_off(now, unchanged)
    }

    fn fence_off(&mut self, now: Timestamp, over: impl Fn(&RunRow) -> bool) -> Vec<Reaped> {
        let keeps = self.lacks(Flaw::ReapUnfenced);
        let mut reaped = Vec::new();
        for run in self.runs.values_mut() {
            let row = &mut run.row;
            if row.state == RunState::Settled || !over(row) {
                continue;
            }
            let old_fence = row.fence;
            let fence = if keeps { old_fence } else { old_fence + 1 };
            row.fence = fence;
            row.holder = "reaper".to_owned();
            row.lease_expires_at = now.plus_ms(REAPED_LEASE_MS);
            if let Some(task) = self.tasks.get_mut(&row.task) {
                task.fence = fence;
            }
            let (run, task, head_seq) = (row.id, row.task, row.head_seq);
            reaped.push(Reaped { run, task, old_fence, fence, head_seq });
        }
        reaped
    }

    pub fn reserve(&mut self, reserve: Reserve) -> Result<(), Error> {
        self.held(reserve.run, reserve.fence, self.lacks(Flaw::ReserveUnfenced))?;
        let uncounted = self.lacks(Flaw::ReserveUncounted);
        let counts = |held: &&Reservation| {
            !uncounted
                && held.scope == reserve.scope
                && held.run != reserve.run
                && held.settled_at.is_none_or(|at| at >= reserve.since)
        };
        let others = || self.reservations.iter().filter(counts);
        let nanousd: i64 = others().map(|held| held.nanousd).sum();
        let tokens: u64 = others().map(|held| held.tokens).sum();
        let turns: u64 = others().map(|held| held.turns).sum();
        let ms: u64 = others().map(|held| held.ms).sum();
        if reserve.nanousd_max.is_some_and(|max| nanousd + reserve.nanousd.0 > max.0)
            || reserve.tokens_max.is_some_and(|max| tokens + reserve.tokens > max)
            || reserve.turns_max.is_some_and(|max| turns + reserve.turns > max)
            || reserve.ms_max.is_some_and(|max| ms + reserve.ms > max)
        {
            return Err(Error::BudgetExceeded { scope: reserve.scope });
        }
        let Reserve { scope, run, nanousd, tokens, turns, ms, .. } = reserve;
        self.reservations.retain(|held| !(held.scope == scope && held.run == run));
        let nanousd = nanousd.0;
        let settled_at = None;
        self.reservations.push(Reservation { scope, run, nanousd, tokens, turns, ms, settled_at });
        Ok(())
    }

    pub fn move_task(&mut self, step: &TaskMove) -> Result<(), Error> {
        let (from, to) = (step.from.word(), step.to.word());
        let refusal = |why: &str| {
            Error::conflict(format!("{} cannot go from {from} to {to}: {why}", step.task))
        };
        if let Some(why) = step.folly() {
            return Err(refusal(why));
        }
        let (unfenced, anywhere) =
            (self.lacks(Flaw::MoveUnfenced), self.lacks(Flaw::MoveUnchecked));
        let there = |task: &&mut TaskRow| {
            (anywhere || task.state == step.from) && (unfenced || task.fence == step.fence)
        };
        let Some(task) = self.tasks.get_mut(&step.task).filter(there) else {
            return Err(refusal("it is not there any more"));
        };
        task.state = step.to;
        task.waiting_for = step.waiting_for.filter(|_| step.to == TaskState::Waiting);
        task.generation += u32::from(step.from == TaskState::Failed);
        task.pool = step.pool.clone().or(task.pool.take());
        follow(task, &step.follow);
        task.until = task.until.filter(|_| step.to == TaskState::Waiting);
        task.code = step.follow.code.or(task.code);
        self.tell_dependents(step.task);
        Ok(())
    }

    pub fn standing(&self, id: TaskId) -> Option<Standing> {
        let task = self.tasks.get(&id).filter(|task| waits(task, None))?;
        Some(self.stands(task, task.pool.as_deref().unwrap_or_default()))
    }

    /// Who is before this task in a line, and how many slots are taken.
    fn stands(&self, task: &TaskRow, pool: &str) -> Standing {
        let place = |id: TaskId| self.arrivals.iter().position(|arrived| *arrived == id);
        let before = |other: &&TaskRow| {
            waits(other, Some(pool))
                && (other.priority > task.priority
                    || (other.priority == task.priority && place(other.id) < place(task.id)))
        };
        let taken = |run: &&Run| run.row.adapter == pool && run.row.state != RunState::Settled;
        Standing {
            ahead: self.tasks.values().filter(before).count() as u64,
            taken: self.runs.values().filter(taken).count() as u64,
        }
    }

    pub(super) fn busy(&self, agent: &str) -> u64 {
        let open = |run: &&Run| run.row.agent == agent && run.row.state != RunState::Settled;
        self.runs.values().filter(open).count() as u64
    }

    pub fn run(&self, id: RunId) -> Option<RunRow> {
        self.runs.get(&id).map(|run| run.row.clone())
    }

    pub fn runs(&self, page: RunsPage) -> Vec<RunRow> {
        self.runs
            .values()
            .rev()
            .map(|run| &run.row)
            .filter(|row| page.before.is_none_or(|before| row.id < before))
            .filter(|row| !page.unsettled_only || row.state != RunState::Settled)
            .take(page.limit)
            .cloned()
            .collect()
    }

    pub fn task(&self, id: TaskId) -> Option<TaskRow> {
        self.tasks.get(&id).cloned()
    }

    pub fn inbox(&self, run: RunId) -> Vec<Command> {
        let Some(run) = self.runs.get(&run) else { return Vec::new() };
        let waiting = run.inbox.iter().filter(|wished| !wished.taken);
        waiting.map(|wished| wished.command.clone()).collect()
    }

    pub fn resume_point(&self, id: RunId) -> Option<ResumePoint> {
        let run = self.runs.get(&id)?;
        let state = run.state.as_ref()?;
        let effects = run.effects.iter();
        Some(ResumePoint {
            machine: state.machine.clone(),
            dialect: state.dialect.clone(),
            host: state.host.clone(),
            spool_offset: state.spool_offset,
            head_seq: run.row.head_seq,
            fence: run.row.fence,
            effects: effects
                .map(|(n, bytes)| StoredEffect { n: *n, bytes: bytes.clone() })
                .collect(),
        })
    }

    pub fn page(&self, id: RunId, after_seq: u64, limit: usize) -> Result<Page, Error> {
        let run = self.runs.get(&id).ok_or_else(|| Error::not_found(id))?;
        let after = run.events.iter().filter(|event| event.seq > after_seq);
        let events: Vec<_> = after.take(limit.clamp(1, PAGE_EVENTS_MAX)).cloned().collect();
        let read_seq = events.last().map_or(after_seq, |event| event.seq);
        let settled = run.row.state == RunState::Settled && read_seq >= run.row.head_seq;
        Ok(Page { events, settled })
    }
}

/// Whether a task waits for a slot, of this adapter or of any.
fn waits(task: &TaskRow, pool: Option<&str>) -> bool {
    task.state == TaskState::Waiting
        && task.waiting_for == Some(WaitingFor::Pool)
        && pool.is_none_or(|pool| task.pool.as_deref() == Some(pool))
}

fn claimed_row(claim: &Claim, fence: u64) -> RunRow {
    let head = &claim.head;
    let lease_ms = i64::try_from(claim.lease_ms).unwrap_or(i64::MAX);
    RunRow {
        id: claim.run,
        task: claim.task,
        fence,
        state: RunState::Planned,
        holder: claim.holder.clone(),
        lease_expires_at: claim.now.plus_ms(lease_ms),
        head_seq: 0,
        agent: head.agent.clone(),
        adapter: head.adapter.clone(),
        runtime: head.runtime.clone(),
        cwd: head.cwd.clone(),
        model: head.model.clone(),
        prompt_preview: head.prompt_preview.text(),
        pid: None,
        started_at: claim.now,
        totals: None,
        report: None,
        native_session: None,
        fallback: head.fallback.as_ref().map(crate::seal::Sealed::text),
        ended_at: None,
        outcome: None,
        code: None,
        message: None,
    }
}

/// What can be said of a Batch before anything is written.
fn check(run: &Run, batch: &Batch, anywhere: bool) -> Result<(), Error> {
    let (id, head_seq) = (batch.run, run.row.head_seq);
    let in_place = (batch.first_seq..).zip(&batch.events).all(|(seq, event)| event.seq == seq);
    if !anywhere && (batch.first_seq != head_seq + 1 || !in_place) {
        let first_seq = batch.first_seq;
        return Err(Error::conflict(format!(
            "the batch of {id} starts with event {first_seq} and the head is {head_seq}"
        )));
    }
    let results = batch.events.iter().filter(|event| event.result).count();
    let fits = match &batch.settle {
        None => results == 0 && batch.run_state != RunState::Settled,
        Some(end) => {
            results == 1
                && batch.events.last().is_some_and(|event| event.result)
                && end.task_state != TaskState::Running
        }
    };
    let moves = run.row.state == batch.run_state || run.row.state.may_become(batch.run_state);
    if !fits || !moves {
        let (from, to) = (run.row.state.word(), batch.run_state.word());
        return Err(Error::conflict(format!("the batch of {id} takes it from {from} to {to}")));
    }
    Ok(())
}

/// Whether its wishes wait and its effects are new.
fn check_deeds(run: &Run, batch: &Batch) -> Result<(), Error> {
    for id in &batch.taken {
        let waits = |wished: &Wished| wished.command.id == *id && !wished.taken;
        if !run.inbox.iter().any(waits) {
            return Err(Error::conflict(format!("{id} is not waiting for {}", batch.run)));
        }
    }
    let there = |effect: &&Effect| {
        run.effects.contains_key(&effect.n) && !batch.effects_done.contains(&effect.n)
    };
    match batch.effects_todo.iter().find(there) {
        Some(effect) => {
            Err(Error::conflict(format!("effect {} of {} is asked for twice", effect.n, batch.run)))
        }
        None => Ok(()),
    }
}

fn apply(run: &mut Run, batch: &Batch) {
    for event in &batch.events {
        run.events.push(StoredEvent { seq: event.seq, bytes: Arc::from(event.bytes.bytes()) });
    }
    let row = &mut run.row;
    row.head_seq = row.head_seq.max(batch.first_seq - 1 + batch.events.len() as u64);
    row.state = batch.run_state;
    row.pid = batch.pid.or(row.pid);
    row.totals = batch.totals.or(row.totals);
    let report =
        batch.report.as_ref().and_then(|report| serde_json::from_str(&report.json.text()).ok());
    row.report = report.or(row.report.take());
    row.native_session =
        batch.session.as_ref().map(crate::seal::Sealed::text).or(row.native_session.take());
    for wished in &mut run.inbox {
        wished.taken |= batch.taken.contains(&wished.command.id);
    }
    for n in &batch.effects_done {
        run.effects.remove(n);
    }
    for effect in &batch.effects_todo {
        run.effects.insert(effect.n, effect.bytes.bytes().to_vec());
    }
    let Some(end) = &batch.settle else {
        run.state = Some(State {
            machine: batch.machine.bytes().to_vec(),
            dialect: batch.dialect.bytes().to_vec(),
            host: batch.host.bytes().to_vec(),
            spool_offset: batch.spool_offset,
        });
        return;
    };
    row.state = RunState::Settled;
    row.outcome = Some(end.outcome);
    row.code = end.code;
    row.message = Some(end.message.text());
    row.ended_at = Some(end.ended_at);
    row.lease_expires_at = end.ended_at;
    run.state = None;
    run.effects.clear();
}
