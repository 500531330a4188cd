//! One live run, driven: inputs → the run machine → a Batch → commit → effects.
//!
//! The one task that owns the run's machine, dialect and keeper. Whatever happens (a record in the
//! spool, a wish in the inbox, a tool's answer, time) becomes an input; what the machine makes of it
//! is committed all or nothing; only then is anything done. One Batch is in flight at a time: what
//! the agent says meanwhile waits in its spool, which is the back-pressure. `perform.rs` does the
//! effects, `batch.rs` makes the Batch, `adopt.rs` begins here with another's state.

use crate::Inner;
use crate::batch::{Deeds, Made, Pending, Words};
use crate::clock;
use crate::intake::{Heard, Intake};
use crate::keeping::Keeping;
use crate::ops::tool::{self, Bench};
use crate::perform::Mouth;
use crate::trace::{Tracer, warning};
use contract::event::{Body, Lease, LeaseAction};
use contract::limits::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, LEASE_RENEW_PERCENT, LEASE_RETRY_MS, SPOOL_SEGMENT_BYTES,
};
use contract::speech::Close;
use contract::{Code, Draft, RunId, Signal, Timestamp};
use engine::{Input, Machine, Now, Step, Testimony};
use keeper::wire::Report;
use runtimes::join::Joiner;
use runtimes::{Dialect, ExitEvidence, Out, Runtime};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;
use store::Waiter;
use tokio::sync::{mpsc, watch};

/// How long to wait before a store that is in trouble is asked again.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// Answers of tools that wait for the driver.
const ANSWERS_MAX: usize = contract::limits::TOOL_CALLS_OPEN_MAX;

/// Everything one live run has.
pub struct Drive {
    pub(crate) house: Arc<Inner>,
    pub(crate) run: RunId,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) lease_ms: u64,
    pub(crate) runtime: &'static dyn Runtime,
    pub(crate) machine: Machine,
    pub(crate) dialect: Box<dyn Dialect>,
    pub(crate) joiner: Joiner,
    pub(crate) words: Words,
    pub(crate) pending: Pending,
    pub(crate) mouth: Mouth,
    pub(crate) bench: Bench,
    pub(crate) standing: tool::Standing,
    pub(crate) cost_model: Option<String>,
    pub(crate) spool: PathBuf,
    /// Segments before this offset are gone.
    pub(crate) spool_dropped: u64,
    /// The plan, until it is sent.
    pub(crate) plan: Option<Box<keeper::plan::Plan>>,
    /// Absent before the launch and after the keeper left.
    pub(crate) keeping: Option<Keeping>,
    /// The keeper as our child; adopted keepers are someone else's.
    pub(crate) child: Option<Child>,
    pub(crate) intake: Option<Intake>,
    pub(crate) tracer: Tracer,
    pub(crate) inbox: Waiter,
    pub(crate) answers: mpsc::Receiver<Answered>,
    pub(crate) answering: mpsc::Sender<Answered>,
    pub(crate) leaving: watch::Receiver<()>,
    pub(crate) renew_at_ms: u64,
    pub(crate) pid: Option<u32>,
    pub(crate) ending: Ending,
    /// Set when the run's secrets are not known: how many events were not kept because of it.
    pub(crate) blind: Option<u64>,
}

/// How far the end of the process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The keeper holds the agent.
    Running,
    /// The keeper is gone; its spool is being read to the end.
    KeeperGone,
    /// The machine was told.
    Told,
}

/// A relayed call that was carried out.
#[derive(Debug)]
pub struct Answered {
    pub effect: u64,
    pub tool_call_id: String,
    pub outcome: tool::Outcome,
    pub duration_ms: u64,
}

/// What ended a wait.
enum Wake {
    Report(Report),
    KeeperGone,
    Inbox,
    Answered(Answered),
    Time,
    /// The host is about to stop; the run is not.
    Leaving,
}

/// Why a run is no longer ours to drive.
#[derive(Debug)]
pub(crate) enum Leave {
    Settled,
    /// Another holder has a higher fence, or the keeper obeys someone else.
    Fenced,
    /// This host stops; the next one takes over within the lease.
    HandedOver,
}

pub(crate) fn answers() -> (mpsc::Sender<Answered>, mpsc::Receiver<Answered>) {
    mpsc::channel(ANSWERS_MAX)
}

impl Drive {
    /// Drives the run to its end, after doing what its first Batch led to.
    pub async fn run(mut self, deeds: Option<Deeds>) {
        let mut leave = deeds.map_or(Ok(()), |deeds| self.follow_up(deeds));
        while leave.is_ok() {
            leave = self.turn().await;
        }
        if let Err(leave) = leave {
            self.leave(leave).await;
        }
    }

    /// Commits what is pending, hears what there is, and waits only when both are done.
    async fn turn(&mut self) -> Result<(), Leave> {
        self.settle_what_is_pending().await?;
        if self.hear() {
            return Ok(());
        }
        self.settle_what_is_due().await?;
        let wake = self.wait().await;
        self.take(wake).await
    }

    /// A run that never became durable: its keeper leaves by itself, and is waited for.
    pub fn abandon(mut self) {
        self.keeping = None;
        let child = self.child.take();
        tokio::task::spawn_blocking(move || child.map(|mut child| child.wait()));
    }

    /// Commits what must not wait.
    async fn settle_what_is_pending(&mut self) -> Result<(), Leave> {
        match self.pending.is_empty() {
            true => Ok(()),
            false => self.commit().await,
        }
    }

    /// Commits joined text whose time has come.
    async fn settle_what_is_due(&mut self) -> Result<(), Leave> {
        let now = clock::now();
        self.joiner.tick(joined_at(now), &mut self.pending.drafts);
        self.settle_what_is_pending().await
    }

    /// Hears records until a Batch is full or the spool is read. True when there is something new
    /// to commit or more to hear.
    fn hear(&mut self) -> bool {
        let Some(mut intake) = self.intake.take() else { return false };
        let now = clock::now();
        let mut bytes = 0;
        let mut told = false;
        let more = loop {
            if self.pending.drafts.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX {
                break true;
            }
            let before = intake.marks().offset();
            let mut out = Out::default();
            match intake.next(&mut *self.dialect, &mut self.tracer, &mut out) {
                Ok(Some(heard)) => {
                    if heard == Heard::Output && !told {
                        told = true;
                        self.step(now, Input::Heard);
                    }
                    bytes += usize::try_from(intake.marks().offset().saturating_sub(before))
                        .unwrap_or(usize::MAX);
                    self.spread(now, out);
                    if heard == Heard::Exit {
                        self.ending = Ending::KeeperGone;
                    }
                }
                Ok(None) => break false,
                Err(error) => {
                    self.lose(now, format!("its spool cannot be read: {error}"));
                    break false;
                }
            }
        };
        self.intake = Some(intake);
        if !more && self.ending == Ending::KeeperGone {
            self.end(now);
        }
        self.write_trace();
        more || !self.pending.is_empty()
    }

    /// The keeper is gone and its spool is read: the machine hears how it ended.
    fn end(&mut self, now: Now) {
        self.ending = Ending::Told;
        let Some(mut intake) = self.intake.take() else { return };
        let mut out = Out::default();
        intake.close(&mut *self.dialect, &mut self.tracer, &mut out);
        let how = match intake.testimony() {
            Some(_) => Close::Ended,
            None => Close::Cut,
        };
        self.dialect.close(how, &mut out);
        self.spread(now, out);
        self.joiner.flush(&mut self.pending.drafts);
        if let Some(unkept @ 1..) = self.blind {
            self.pending.drafts.push(unkept_note(unkept));
        }
        let input = match intake.testimony() {
            None => Input::Lost { why: "its keeper ended without a testimony".to_owned() },
            Some(testimony) => {
                let stderr_tail = match self.blind {
                    None => intake.stderr_tail(),
                    Some(_) => String::new(),
                };
                let evidence = ExitEvidence {
                    exit_code: testimony.exit_code,
                    signal: testimony.signal,
                    stderr_tail: &stderr_tail,
                };
                let classified = self.runtime.classify(&evidence);
                Input::Ended(Testimony {
                    exit_code: testimony.exit_code,
                    signal: testimony.signal,
                    spawn_error: testimony.spawn_error.clone(),
                    not_found: testimony.spawn_errno
                        == Some(rustix::io::Errno::NOENT.raw_os_error()),
                    asked_by: testimony.asked_by.clone(),
                    forced: testimony.forced,
                    stderr_tail,
                    classified,
                })
            }
        };
        self.intake = Some(intake);
        self.step(now, input);
    }

    fn lose(&mut self, now: Now, why: String) {
        self.ending = Ending::Told;
        self.step(now, Input::Lost { why });
    }

    /// What a dialect or a tool produced: drafts in order, then signals to the machine, then frames.
    pub(crate) fn spread(&mut self, now: Now, mut out: Out) {
        if let Some(unkept) = &mut self.blind {
            *unkept += unseal(&mut out);
        }
        for draft in out.drafts {
            self.draft(now, draft);
        }
        for mut signal in out.signals {
            if let Signal::Spent(usage) = &mut signal {
                self.price(usage);
            }
            self.step(now, Input::Signal(signal));
        }
        // What a dialect answers by itself is no effect of the machine; it is said after the Batch.
        let replies = self.mouth.frames(out.frames);
        self.pending.replies.extend(replies);
    }

    fn draft(&mut self, now: Now, mut draft: Draft) {
        if let Body::Usage(usage) = &mut draft.body {
            self.price(usage);
        }
        self.standing.note(&draft.body);
        self.joiner.push(draft, joined_at(now), &mut self.pending.drafts);
    }

    fn price(&self, usage: &mut contract::event::Usage) {
        engine::rules::price::price(usage, &self.house.prices, self.cost_model.as_deref());
    }

    pub(crate) fn step(&mut self, now: Now, input: Input) {
        let mut steps = Vec::new();
        self.machine.step(now, input, &mut steps);
        for step in steps {
            match step {
                Step::Append(draft) => {
                    self.standing.note(&draft.body);
                    self.joiner.push(draft, joined_at(now), &mut self.pending.drafts);
                }
                Step::Do(effect) => self.intend(now, effect),
            }
        }
        self.standing.remaining = self.machine.remaining(now);
    }

    async fn wait(&mut self) -> Wake {
        let now = clock::now();
        let due_ms = [
            self.machine.deadline_ms(),
            self.joiner.deadline().map(|at| at.ms().unsigned_abs()),
            Some(self.renew_at_ms),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(u64::MAX);
        let wait = Duration::from_millis(due_ms.saturating_sub(now.mono_ms));
        tokio::select! {
            biased;
            report = next_report(&mut self.keeping) => match report {
                Some(report) => Wake::Report(report),
                None => Wake::KeeperGone,
            },
            Some(answered) = self.answers.recv() => Wake::Answered(answered),
            () = self.inbox.changed() => Wake::Inbox,
            Ok(()) = self.leaving.changed() => Wake::Leaving,
            () = tokio::time::sleep(wait) => Wake::Time,
        }
    }

    async fn take(&mut self, wake: Wake) -> Result<(), Leave> {
        let now = clock::now();
        match wake {
            Wake::Report(report) => self.report(now, report),
            Wake::KeeperGone => {
                self.keeping = None;
                if self.ending == Ending::Running {
                    self.ending = Ending::KeeperGone;
                }
            }
            Wake::Inbox => self.read_inbox(now).await,
            Wake::Answered(answered) => {
                self.pending.done.push(answered.effect);
                let tool::Outcome { answer, drafts, signals } = answered.outcome;
                self.spread(now, Out { drafts, signals, frames: Vec::new() });
                let (tool_call_id, duration_ms) = (answered.tool_call_id, answered.duration_ms);
                self.step(now, Input::Answered { tool_call_id, answer, duration_ms });
            }
            Wake::Time => {
                if now.mono_ms >= self.renew_at_ms {
                    self.renew(now).await;
                }
                self.step(now, Input::Tick);
            }
            Wake::Leaving => {
                self.renew(now).await;
                self.settle_what_is_pending().await?;
                return Err(Leave::HandedOver);
            }
        }
        Ok(())
    }

    async fn read_inbox(&mut self, now: Now) {
        // A store in trouble is asked again at the next wake-up: the wish stays in the inbox.
        let Ok(commands) = self.house.store.inbox(self.run).await else { return };
        for command in commands {
            self.pending.taken.push(command.id);
            self.step(now, Input::Command(command));
        }
    }

    /// Renews the lease in the store, then tells the keeper: never the other way round.
    async fn renew(&mut self, now: Now) {
        let expires_at = now.wall.plus_ms(i64::try_from(self.lease_ms).unwrap_or(i64::MAX));
        match self.house.store.renew(self.run, self.fence, expires_at).await {
            Ok(()) => {
                self.renew_at_ms = now.mono_ms + self.lease_ms * LEASE_RENEW_PERCENT / 100;
                self.extend_lease(now.mono_ms + self.lease_ms);
                let lease = Lease { action: LeaseAction::Renewed, expires_at: Some(expires_at) };
                self.pending.drafts.push(Draft::ostler(Body::Lease(lease)));
            }
            Err(error) if error.code() == Code::FenceStale => {
                self.renew_at_ms = u64::MAX;
                self.step(now, Input::LeaseLost);
            }
            Err(_) => self.renew_at_ms = now.mono_ms + LEASE_RETRY_MS,
        }
    }

    /// Commits what is pending and does what it asks for.
    async fn commit(&mut self) -> Result<(), Leave> {
        let Made { batch, deeds } = self.make_batch(clock::now());
        loop {
            match self.house.store.commit(batch.clone()).await {
                Ok(_) => break,
                Err(error) if error.code() == Code::FenceStale => return Err(Leave::Fenced),
                Err(store::Error::Closed) => return Err(Leave::HandedOver),
                // The acknowledgement of an earlier try was lost: what counts is what is stored.
                Err(error) if error.code() == Code::Conflict => {
                    match self.house.store.run(self.run).await {
                        Ok(Some(row)) if row.head_seq >= deeds.last_seq => break,
                        _ => return Err(Leave::Fenced),
                    }
                }
                // The agent does not notice: it writes to its spool.
                Err(_) => tokio::time::sleep(STORE_RETRY).await,
            }
        }
        self.drop_heard_segments(batch.spool_offset);
        self.follow_up(deeds)
    }

    /// Does what a durable Batch asks for.
    fn follow_up(&mut self, deeds: Deeds) -> Result<(), Leave> {
        self.words.next_seq = deeds.last_seq + 1;
        for effect in deeds.effects {
            self.perform(clock::now(), effect);
        }
        self.reply(deeds.replies);
        match self.machine.is_settled() {
            true => Err(Leave::Settled),
            false => Ok(()),
        }
    }

    /// What is heard and committed is needed by nobody: a long run does not fill the disk.
    fn drop_heard_segments(&mut self, offset: u64) {
        if offset >= self.spool_dropped + SPOOL_SEGMENT_BYTES {
            self.spool_dropped = offset;
            // A segment that cannot be removed now is removed with the directory.
            let _ = keeper::spool::drop_before(&self.spool, offset);
        }
    }

    async fn leave(mut self, leave: Leave) {
        match leave {
            Leave::Settled => {
                let dir = self.spool.clone();
                let tracer = self.tracer;
                let child = self.child.take();
                drop(self.keeping.take());
                // Both take a moment and neither matters to anyone who waits for the result.
                let _ = tokio::task::spawn_blocking(move || {
                    if let Some(mut child) = child {
                        let _ = child.wait();
                    }
                    tracer.sync();
                    let _ = std::fs::remove_dir_all(dir);
                })
                .await;
            }
            // The keeper ends its agent by itself when nobody renews its lease; we only let go.
            Leave::Fenced | Leave::HandedOver => {}
        }
    }
}

async fn next_report(keeping: &mut Option<Keeping>) -> Option<Report> {
    match keeping {
        // A broken connection is a gone keeper: the spool tells the rest.
        Some(keeping) => keeping.next().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

fn unkept_note(unkept: u64) -> Draft {
    let text = format!(
        "{unkept} events were not kept: what must be kept out of them is not known any more"
    );
    warning(text)
}

/// Takes every word of the agent out of what was heard: its secrets went with its keeper, so nothing
/// can be kept that might hold one. Figures and the fact of an end stay. Gives how many were taken.
fn unseal(out: &mut Out) -> u64 {
    let before = out.drafts.len();
    out.drafts.retain(|draft| matches!(draft.body, Body::Usage(_) | Body::Turn(_)));
    for signal in &mut out.signals {
        if let Signal::Ended(ending) | Signal::Result(ending) = signal {
            (ending.text, ending.output, ending.detail) = (None, None, None);
        }
    }
    (before - out.drafts.len()) as u64
}

/// The joiner counts on the monotonic clock, written as a timestamp.
fn joined_at(now: Now) -> Timestamp {
    Timestamp(i64::try_from(now.mono_ms).unwrap_or(i64::MAX))
}
