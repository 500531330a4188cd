//! One live run, driven: inputs → the run machine → a Batch → commit → effects.
//!
//! The one task that owns the run's machine, dialect and keeper. Whatever happens (a record in the
//! spool, a wish in the inbox, a tool's answer, time) becomes an input; what the machine makes of it
//! is committed all or nothing; only then is anything done. One Batch is in flight at a time: what
//! the agent says meanwhile waits in its spool, which is the back-pressure. `perform.rs` does the
//! effects, `batch.rs` makes the Batch, `adopt.rs` begins here with another's state.

use crate::abroad::Abroad;
use crate::batch::{Deeds, Made, Pending, Words};
use crate::blocking::{self, Bulkhead};
use crate::cleanup;
use crate::clock;
use crate::intake::{Heard, Intake};
use crate::keeping::{Keeping, SEGMENT_BYTES};
use crate::lost_secrets::{unkept_note, unseal};
use crate::metrics::metrics;
use crate::missing;
use crate::ops::ask::{AskKind, OpenAsk};
use crate::ops::relay::{Asked, Called, Callers};
use crate::ops::tool::{self, Bench};
use crate::ops::{mention, worktrees};
use crate::perform::Mouth;
use crate::share::{self, Share};
use crate::skills::Mounts;
use crate::trace::Tracer;
use crate::trouble::STORE_RETRY;
use crate::workspace_check::Comparison;
use crate::{Host, Inner, Shown};
use contract::event::{
    Body, Lease, LeaseAction, PermissionOption, PermissionRequest, RunReport, Session, ToolUse, Via,
};
use contract::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX, FAREWELL_MS, TERM_MS};
use contract::plan::{PlanFile, QuotaSource};
use contract::speech::Close;
use contract::{Code, Command, Draft, RunId, Signal, Timestamp, Wish};
use engine::rules::lease::{self, Held};
use engine::rules::resume::{self, Refused, Sent};
use engine::{Effect, Input, Machine, Now, Step, Testimony};
use failpoint::Point;
use keeper::wire::Report;
use runtimes::join::Joiner;
use runtimes::{Dialect, ExitEvidence, Out, registry};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;
use store::{Hint, Room, Seal, Waiter};
use tokio::sync::{mpsc, watch};

/// How long the word of a launch may be behind what the agent said; it is there already, nearly
/// always.
const LAUNCH_WORD: Duration = Duration::from_millis(500);
/// Answers of tools that wait for the driver.
const ANSWERS_MAX: usize = contract::limits::TOOL_CALLS_OPEN_MAX;

/// Everything one live run has.
pub struct Drive {
    pub(crate) house: Arc<Inner>,
    pub(crate) run: RunId,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) runtime: registry::Chosen,
    pub(crate) machine: Machine,
    pub(crate) dialect: Box<dyn Dialect>,
    pub(crate) joiner: Joiner,
    pub(crate) words: Words,
    pub(crate) pending: Pending,
    pub(crate) mouth: Mouth,
    pub(crate) bench: Bench,
    pub(crate) standing: tool::Standing,
    /// What the end of this run means for its task, when that is one of the queue's.
    pub(crate) errand: Option<crate::ops::errand::Errand>,
    pub(crate) cost_model: Option<String>,
    pub(crate) quota: Option<QuotaSource>,
    /// The tokens, the model and the billing as the last Batch had them.
    pub(crate) reported: RunReport,
    /// What it shares with other runs: the quota of its account, and budgets.
    pub(crate) share: Share,
    /// Where the agent was told to find the host that started it.
    pub(crate) told: Option<String>,
    pub(crate) spool: PathBuf,
    /// Segments before this offset are gone.
    pub(crate) spool_dropped: u64,
    /// How it is started once more, should it not know the conversation it was to take up.
    pub(crate) again: Option<Box<Again>>,
    /// The plan, on its way to the keeper.
    pub(crate) plan: Handing,
    /// What is written for the agent beside its spool, until it is.
    pub(crate) files: Vec<PlanFile>,
    /// The skills it is given, until it is.
    pub(crate) mounts: Mounts,
    /// Absent before the launch and after the keeper left.
    pub(crate) keeping: Option<Keeping>,
    /// The keeper as our child; adopted keepers are someone else's.
    pub(crate) child: Option<Child>,
    pub(crate) intake: Option<Intake>,
    pub(crate) tracer: Tracer,
    pub(crate) inbox: Waiter,
    pub(crate) answers: mpsc::Receiver<Answered>,
    pub(crate) answering: mpsc::Sender<Answered>,
    /// Calls of tools that come by MCP.
    pub(crate) callers: Callers,
    /// Calls of tools that the caller carries out.
    pub(crate) abroad: Abroad,
    pub(crate) leaving: watch::Receiver<bool>,
    /// On the monotonic clock, like the keeper's own: when it is over nothing is ours to write.
    pub(crate) lease: lease::Lease,
    /// Held while a dead keeper's run is settled, so that no late one starts its agent after all.
    pub(crate) shut: Option<OwnedFd>,
    pub(crate) pid: Option<u32>,
    pub(crate) ending: Ending,
    /// Set when the run's secrets are not known: how many events were not kept because of it.
    pub(crate) blind: Option<u64>,
    /// The workspace before the launch, where the policy forbids to change it.
    pub(crate) comparison: Comparison,
}

/// A second attempt, made ready with the first: a host that adopts the run has none.
pub struct Again {
    pub plan: keeper::plan::Plan,
    pub dialect: Box<dyn Dialect>,
    pub files: Vec<PlanFile>,
    pub mounts: Mounts,
    /// The prompt of a new conversation, with what is known of the earlier one; `None` where the
    /// conversation stays the same.
    pub fresh_prompt: Option<String>,
}

/// What the keeper has been given, before its agent is launched.
#[derive(Debug, Default)]
pub(crate) enum Handing {
    /// Nothing yet: this is what it is to have.
    To(Box<keeper::plan::Plan>),
    /// It has its plan, or could not be given it.
    Done(std::io::Result<()>),
    /// The launch is over, or another's.
    #[default]
    Nothing,
}

/// How far the end of the process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The keeper holds the agent.
    Running,
    /// The keeper is gone; its spool is being read to the end.
    KeeperGone,
    /// The keeper is gone without a word, and the agent goes on elsewhere (`elsewhere.rs`).
    Elsewhere,
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
    Asked(Asked),
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
    /// The lease ran out before it was renewed. The keeper has ended the agent or is about to; what
    /// it said is in its spool and is settled by whoever holds the run next.
    Expired,
    /// This host stops; the next one takes over within the lease.
    HandedOver,
    /// The keeper lives and let go of this host.
    CutOff,
}

/// What a driver leaves when it is done.
pub enum Left {
    Done,
    /// A run whose lease ran out, with what the next holder must keep out of it, if that is known.
    Expired(Option<Seal>),
    /// The same of a run whose keeper lives and let go of this host.
    CutOff(Option<Seal>),
}

pub(crate) fn answers() -> (mpsc::Sender<Answered>, mpsc::Receiver<Answered>) {
    mpsc::channel(ANSWERS_MAX)
}

impl Drive {
    /// Drives the run to its end, after doing what its first Batch led to. When the lease ran out
    /// on the way, gives what the next holder must keep out of the rest.
    pub async fn run(mut self, deeds: Option<Deeds>) -> Left {
        let mut left = deeds.map_or(Ok(()), |deeds| self.follow_up(deeds));
        loop {
            match left {
                Ok(()) => left = self.turn().await,
                Err(Leave::Expired) => {
                    return Left::Expired(self.blind.is_none().then_some(self.words.seal));
                }
                Err(Leave::CutOff) => {
                    return Left::CutOff(self.blind.is_none().then_some(self.words.seal));
                }
                Err(leave) => {
                    self.leave(leave).await;
                    return Left::Done;
                }
            }
        }
    }

    /// Commits what is pending, hears a Batch full of what there is, and then sees who else wants
    /// something: an agent that never pauses must not keep a stop or a renewal from being heard.
    async fn turn(&mut self) -> Result<(), Leave> {
        self.settle_what_is_pending().await?;
        self.tend_share().await;
        if self.ending == Ending::Elsewhere {
            self.take_up_elsewhere(clock::now()).await;
        }
        let knew = self.is_introduced();
        let more = self.hear().await;
        if !knew && self.is_introduced() {
            // Wishes that waited for it.
            self.read_inbox(clock::now()).await;
        }
        match more {
            true => self.settle_what_is_pending().await?,
            false => self.settle_what_is_due().await?,
        }
        self.prepare_lease_farewell();
        match self.wait(more).await {
            Some(wake) => self.take(wake).await,
            None => Ok(()),
        }
    }

    /// Gives the keeper its plan before the run is durable; what came of it is known at the launch.
    pub fn hand_over_plan(&mut self) {
        if let Handing::To(plan) = std::mem::take(&mut self.plan) {
            self.plan = Handing::Done(self.hand_over(plan));
        }
    }

    /// A run that never became durable.
    pub fn abandon(mut self) {
        let Some(mut child) = self.child.take() else { return };
        drop(self.keeping.take());
        let spool = matches!(self.plan, Handing::Done(Ok(()))).then_some(self.spool);
        blocking::spawn(Bulkhead::Wait, "abandon keeper", move || {
            cleanup::wait(&mut child);
            // The keeper has removed it, unless it died.
            if let Some(spool) = spool {
                cleanup::remove_dir(&spool);
            }
        });
        self.house.keepers.refill();
    }

    /// Commits what must not wait.
    pub(crate) async fn settle_what_is_pending(&mut self) -> Result<(), Leave> {
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
    async fn hear(&mut self) -> bool {
        let Some(mut intake) = self.intake.take() else { return false };
        let now = clock::now();
        let mut bytes = 0;
        let mut told = false;
        // One for all records: an agent that writes line by line makes a record of every line.
        let mut out = Out::default();
        let more = loop {
            if self.pending.drafts.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX {
                break true;
            }
            let before = intake.marks().offset();
            match intake.next(&mut *self.dialect, &mut self.tracer, &mut out) {
                Ok(Some(heard)) => {
                    if self.pid.is_none() {
                        self.hear_of_launch(now).await;
                    }
                    if heard == Heard::Output && !told {
                        told = true;
                        self.step(now, Input::Heard);
                    }
                    bytes += usize::try_from(intake.marks().offset().saturating_sub(before))
                        .unwrap_or(usize::MAX);
                    self.await_prices(&out).await;
                    self.spread(now, &mut out);
                    match heard {
                        // What the agent says from here on it says after it was told to leave. A run
                        // whose launch is not known hears of the lease by its last record.
                        Heard::LeaseEnds if self.pid.is_some() => {
                            self.step(now, Input::LeaseLost);
                        }
                        Heard::Exit => self.ending = Ending::KeeperGone,
                        Heard::Output | Heard::Note | Heard::LeaseEnds => {}
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
        self.write_trace();
        if !more && self.ending == Ending::KeeperGone {
            self.end(now).await;
        }
        more || !self.pending.is_empty()
    }

    /// A keeper tells of the launch before the agent says a word, but by another way: an agent that
    /// is quick may be heard, or even be gone, before that word was read.
    async fn hear_of_launch(&mut self, now: Now) {
        while self.pid.is_none() && self.keeping.is_some() {
            let report = next_report(&mut self.keeping);
            match tokio::time::timeout(LAUNCH_WORD, report).await {
                Ok(Some(report)) => self.report(now, report),
                // The keeper is gone or takes too long: the run goes on, and its pid is not known yet.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// The keeper is gone and its spool is read: the machine hears how it ended.
    async fn end(&mut self, now: Now) {
        self.ending = Ending::Told;
        let Some(mut intake) = self.intake.take() else { return };
        let mut out = Out::default();
        intake.close(&mut *self.dialect, &mut self.tracer, &mut out);
        let how = match intake.testimony() {
            Some(_) => Close::Ended,
            None => Close::Cut,
        };
        self.dialect.close(how, &mut out);
        self.await_prices(&out).await;
        self.spread(now, &mut out);
        self.joiner.flush(&mut self.pending.drafts);
        // Before the machine ends the run: nothing may follow its result.
        self.write_trace();
        if let Some(unkept @ 1..) = self.blind {
            self.pending.drafts.push(unkept_note(unkept));
        }
        let workspace = match intake.testimony() {
            Some(testimony) if testimony.spawn_error.is_none() => self.compare_workspace().await,
            Some(_) | None => None,
        };
        let input = match intake.testimony() {
            None if self.goes_on_elsewhere() => {
                self.ending = Ending::Elsewhere;
                self.intake = Some(intake);
                return;
            }
            None => Input::Lost { why: "its keeper ended without a final report".to_owned() },
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
                let not_found =
                    testimony.spawn_errno == Some(rustix::io::Errno::NOENT.raw_os_error());
                let error = testimony.spawn_error.as_deref().filter(|_| not_found);
                let missing = error.and_then(|error| missing::told(&self.runtime.card(), error));
                self.pending.drafts.extend(missing);
                Input::Ended(Testimony {
                    exit_code: testimony.exit_code,
                    signal: testimony.signal,
                    spawn_error: testimony.spawn_error.clone(),
                    not_found,
                    asked_by: testimony.asked_by.clone(),
                    forced: testimony.forced,
                    stderr_tail,
                    classified,
                    last_error: self.share.last_error.clone(),
                    workspace,
                })
            }
        };
        self.intake = Some(intake);
        self.step(now, input);
    }

    pub(crate) fn lose(&mut self, now: Now, why: String) {
        tracing::warn!(why, "the run is lost");
        self.ending = Ending::Told;
        self.step(now, Input::Lost { why });
    }

    /// What a dialect or a tool produced: drafts in order, then signals to the machine, then frames.
    /// Nothing is left in `out` but its room.
    pub(crate) fn spread(&mut self, now: Now, out: &mut Out) {
        if let Some(unkept) = &mut self.blind {
            *unkept += unseal(out);
        }
        // Usage that came with it is marked by it.
        for signal in &out.signals {
            if let Signal::Billing { .. } = signal {
                self.step(now, Input::Signal(signal.clone()));
            }
        }
        for hello in self.abroad.hellos(&out.signals) {
            self.draft(now, hello);
        }
        share::add_told_resets(out, now.wall);
        for draft in out.drafts.drain(..) {
            self.draft(now, draft);
        }
        for mut signal in out.signals.drain(..) {
            if let Signal::Spent(usage) = &mut signal {
                self.price(now, usage);
            }
            self.step(now, Input::Signal(signal));
        }
        // What a dialect answers by itself is said after the Batch, and must survive us like any
        // other word.
        if !out.frames.is_empty() {
            self.intend_words(Effect::Reply, std::mem::take(&mut out.frames).concat());
        }
    }

    fn draft(&mut self, now: Now, mut draft: Draft) {
        if let Body::Usage(usage) = &mut draft.body {
            self.price(now, usage);
        }
        if let Body::Session(Session { model: Some(model), .. }) = &draft.body {
            let signal = Signal::Model { model: model.clone() };
            self.step(now, Input::Signal(signal));
        }
        if matches!(draft.body, Body::Quota(_)) && self.quota == Some(QuotaSource::Off) {
            return;
        }
        self.share.note(&draft);
        self.standing.note(&draft.body);
        self.joiner.push(draft, joined_at(now), &mut self.pending.drafts);
    }

    /// Prices may still be loading; what the agent says meanwhile waits in its spool.
    pub(crate) async fn await_prices(&mut self, out: &Out) {
        for draft in &out.drafts {
            if let Body::Usage(usage) = &draft.body {
                self.house.prices.ready_for(usage, self.cost_model.as_deref()).await;
            }
        }
    }

    fn price(&self, now: Now, usage: &mut contract::event::Usage) {
        self.house.prices.price(usage, self.cost_model.as_deref(), now.wall);
        usage.billing = self.machine.terms().billing;
    }

    pub(crate) fn step(&mut self, now: Now, input: Input) {
        let mut steps = Vec::new();
        let introduces_itself = matches!(input, Input::Signal(Signal::Accepts { .. }));
        self.machine.step(now, input, &mut steps);
        if introduces_itself {
            self.show();
        }
        for step in steps {
            match step {
                Step::Append(draft) => {
                    self.standing.note(&draft.body);
                    self.joiner.push(draft, joined_at(now), &mut self.pending.drafts);
                }
                Step::Book(booked) => self.pending.booked.push(booked),
                Step::KeepSession(id) => self.pending.session = Some(id),
                Step::Do(effect) => self.intend(now, effect),
            }
        }
        self.standing.remaining = self.machine.remaining(now);
        // Without shared budgets the run's limits are its own.
        let limits = self.machine.terms().budget;
        self.standing.own = self.share.fund.as_ref().map_or_else(|| limits.into(), |fund| fund.own);
    }

    /// The next thing that happens. With `more` to hear nothing is waited for: `None` when nothing
    /// has happened yet.
    async fn wait(&mut self, more: bool) -> Option<Wake> {
        let now = clock::now();
        let joined_ms = self.joiner.deadline().map(|at| at.ms().unsigned_abs());
        let answer_ms = self.keeping.as_ref().and_then(Keeping::answer_deadline_ms);
        let renew_ms = Some(self.lease.renew_at_ms());
        let due_ms = [self.machine.deadline_ms(), joined_ms, renew_ms, answer_ms];
        let due_ms = due_ms.into_iter().flatten().min().unwrap_or(u64::MAX);
        let wait = Duration::from_millis(due_ms.saturating_sub(now.mono_ms));
        // Reports come last: most only say that there is more in the spool, and there always is.
        tokio::select! {
            biased;
            Some(answered) = self.answers.recv() => Some(Wake::Answered(answered)),
            asked = self.callers.next() => Some(Wake::Asked(asked)),
            () = self.inbox.changed() => Some(Wake::Inbox),
            Ok(()) = self.leaving.changed() => Some(Wake::Leaving),
            () = tokio::time::sleep(wait) => Some(Wake::Time),
            report = next_report(&mut self.keeping) => Some(match report {
                Some(report) => Wake::Report(report),
                None => Wake::KeeperGone,
            }),
            () = std::future::ready(()), if more => None,
        }
    }

    async fn take(&mut self, wake: Wake) -> Result<(), Leave> {
        let now = clock::now();
        match wake {
            Wake::Report(report) => self.report(now, report),
            Wake::KeeperGone => self.notice_keeper_gone().await?,
            Wake::Inbox => self.read_inbox(now).await,
            Wake::Answered(answered) => {
                self.pending.done.push(answered.effect);
                let tool::Outcome { answer, drafts, signals } = answered.outcome;
                self.spread(now, &mut Out { drafts, signals, frames: Vec::new() });
                let (tool_call_id, duration_ms) = (answered.tool_call_id, answered.duration_ms);
                self.step(now, Input::Answered { tool_call_id, answer, duration_ms });
            }
            Wake::Asked(Asked::Call(called)) => self.take_call(now, called),
            Wake::Asked(Asked::Left { tool_call_id }) => {
                self.step(now, Input::CallerLeft { tool_call_id });
            }
            Wake::Asked(Asked::Note(draft)) => self.draft(now, *draft),
            Wake::Asked(Asked::CalledBack(called)) => self.take_called_back(now, called).await?,
            Wake::Time => {
                if self.lease.is_due(now.mono_ms) {
                    self.renew(now).await?;
                }
                self.end_hung_keeper().await?;
                // Nobody is late who spoke, or left, while we were busy with what it said before.
                self.hear().await;
                self.step(clock::now(), Input::Tick);
            }
            Wake::Leaving => {
                // When the lease ran out the next host finds that too.
                if self.renew(now).await.is_ok() {
                    self.settle_what_is_pending().await?;
                }
                return Err(Leave::HandedOver);
            }
        }
        Ok(())
    }

    /// A call that came by MCP is one that the agent made: an event, then an obligation.
    fn take_call(&mut self, now: Now, called: Called) {
        let Called { tool, args, answer, progress } = called;
        let parent = self.dialect.note_relayed(&tool);
        let tool_call_id = crate::chance::call_id();
        self.callers.wait(tool_call_id.clone(), answer, progress);
        let called = Body::ToolUse(ToolUse {
            tool_call_id: tool_call_id.clone(),
            name: tool.clone(),
            input: args.clone(),
            via: Via::Relayed,
            title: None,
            tool_kind: None,
            locations: Vec::new(),
            // The agent's own report of this call, so that a reader counts it once.
            parent,
        });
        let call = contract::speech::ToolCall { tool_call_id, tool, args };
        self.spread(
            now,
            &mut Out {
                drafts: vec![Draft::agent(called)],
                signals: vec![Signal::ToolCalled(call)],
                frames: Vec::new(),
            },
        );
    }

    /// Whether the agent has said anything: by then it has said what it takes, if it ever does.
    fn is_introduced(&self) -> bool {
        self.intake.as_ref().is_some_and(|intake| intake.marks().stdout.line > 0)
    }

    async fn read_inbox(&mut self, now: Now) {
        // A store in trouble is asked again at the next wake-up: the wish stays in the inbox.
        let Ok(commands) = self.house.store.inbox(self.run).await else { return };
        let known = self.is_introduced() || self.ending != Ending::Running;
        for command in commands {
            let waits = match command.wish {
                Wish::Say { .. } | Wish::Interrupt => !known,
                Wish::Stop { .. }
                | Wish::Answer { .. }
                | Wish::ToolResult { .. }
                | Wish::Budget { .. }
                | Wish::Unknown => false,
            };
            if waits {
                continue;
            }
            self.pending.taken.push(command.id);
            match command {
                Command { wish: Wish::ToolResult { tool_call_id, answer }, .. } => {
                    self.take_result(now, tool_call_id, answer);
                }
                command => self.step(now, Input::Command(command)),
            }
        }
    }

    /// Renews the lease in the store, then tells the keeper: never the other way round. A lease
    /// that ran out is not renewed: the keeper has acted on it.
    async fn renew(&mut self, now: Now) -> Result<(), Leave> {
        if self.lease.is_over(now.mono_ms) {
            return Err(Leave::Expired);
        }
        let length_ms = i64::try_from(self.lease.length_ms()).unwrap_or(i64::MAX);
        let expires_at = now.wall.plus_ms(length_ms);
        let renewed = self.house.store.renew(self.run, self.fence, expires_at).await;
        let answer = match self.house.heed(renewed) {
            Ok(()) => lease::Answer::Renewed,
            Err(error) if error.code() == Code::FenceStale => lease::Answer::Stale,
            Err(error) => {
                tracing::warn!(%error, "the lease cannot be renewed; trying again");
                lease::Answer::Unknown
            }
        };
        match self.lease.answered(now.mono_ms, clock::now().mono_ms, answer) {
            Held::Until(deadline_ms) => {
                failpoint::hit(Point::RenewalStored);
                self.extend_lease(deadline_ms);
                let lease = Lease { action: LeaseAction::Renewed, expires_at: Some(expires_at) };
                self.pending.drafts.push(Draft::ostler(Body::Lease(lease)));
            }
            Held::Lost => self.step(now, Input::LeaseLost),
            Held::Expired => return Err(Leave::Expired),
            Held::AsBefore => {}
        }
        Ok(())
    }

    /// Commits what is pending and does what it asks for.
    async fn commit(&mut self) -> Result<(), Leave> {
        let Made { batch, deeds } = self.make_batch(clock::now());
        let mut is_last = batch.settle.is_some();
        let mut told = false;
        let mut again = false;
        failpoint::hit(if is_last { Point::SettleBefore } else { Point::BatchMade });
        if self.machine.is_settled() {
            // Whoever sees the end of the run finds its token ended too.
            self.house.end_token(self.run);
        }
        loop {
            if self.lease.is_over(clock::now().mono_ms) {
                return Err(Leave::Expired);
            }
            self.trip_quota(&batch).await;
            let timer = metrics().commit_seconds.start_timer();
            let committed = match is_last {
                true => self.house.store.commit_from_reserve(batch.clone()).await,
                false => self.house.store.commit(batch.clone()).await.map(|_| Room::Ordinary),
            };
            timer.observe_duration();
            match self.house.heed_room(committed) {
                Ok(()) => break,
                Err(error) if error.code() == Code::FenceStale => return Err(Leave::Fenced),
                Err(store::Error::Closed | store::Error::Unsynced { .. }) => {
                    return Err(Leave::HandedOver);
                }
                // The acknowledgement of an earlier try was lost: what counts is what is stored.
                Err(error) if error.code() == Code::Conflict => {
                    let (fence, first_seq, last_seq) =
                        (self.fence, batch.first_seq, deeds.last_seq);
                    let row = self.house.store.run(self.run).await.ok().flatten();
                    let stored = row.map(|row| (row.fence, row.head_seq));
                    match resume::after_conflict(Sent { fence, first_seq, last_seq }, stored, again)
                    {
                        Refused::IsThere => break,
                        // A run may not wait for ever, so its driver fails, and whoever watches over
                        // it ends the run as lost.
                        Refused::Wrong => {
                            panic!("the store refused a Batch of {}: {error}", self.run)
                        }
                        Refused::Fenced => return Err(Leave::Fenced),
                    }
                }
                // The agent does not notice: it writes to its spool.
                Err(error) => {
                    if !again {
                        metrics().commit_failures.inc();
                        tracing::warn!(%error, "the events of the run cannot be stored; trying again");
                    }
                    again = true;
                    tokio::time::sleep(STORE_RETRY).await;
                    is_last = is_last || self.is_over();
                    told = told || self.stop_as_wished().await;
                    let now = clock::now();
                    if self.lease.is_due(now.mono_ms) {
                        // There may be room for a lease where there is none for a Batch.
                        self.renew(now).await?;
                    }
                }
            }
        }
        failpoint::hit(Point::BatchCommitted);
        metrics().events.inc_by((deeds.last_seq + 1).saturating_sub(batch.first_seq));
        self.drop_heard_segments(batch.spool_offset);
        self.follow_up(deeds)
    }

    /// A stop is obeyed while nothing can be committed. The wish is durable, and is taken in its
    /// turn; stopping again then can only shorten the graces.
    async fn stop_as_wished(&mut self) -> bool {
        let Ok(wishes) = self.house.store.inbox(self.run).await else { return false };
        for command in wishes {
            let (reason, farewell_ms, term_ms) = match command.wish {
                Wish::Stop { reason, at_once: true } => (reason, 0, 0),
                Wish::Stop { reason, at_once: false } => (reason, FAREWELL_MS, TERM_MS),
                Wish::Say { .. }
                | Wish::Interrupt
                | Wish::Answer { .. }
                | Wish::ToolResult { .. }
                | Wish::Budget { .. }
                | Wish::Unknown => continue,
            };
            self.stop(reason, farewell_ms, term_ms);
            return true;
        }
        false
    }

    /// Whether the agent is gone, so that nothing more will come than what is in its spool.
    fn is_over(&self) -> bool {
        self.ending != Ending::Running
            || (self.intake.is_some() && !keeper::door::is_alive(&self.spool))
    }

    /// Does what a durable Batch asks for.
    fn follow_up(&mut self, deeds: Deeds) -> Result<(), Leave> {
        self.words.next_seq = deeds.last_seq + 1;
        for record in deeds.records {
            record.log();
        }
        mention::heed(&self.house, self.bench.task.id, deeds.comments);
        // As it was committed: an effect that fails may settle it here, and nothing of that is durable yet.
        let settled = self.machine.is_settled();
        // The answer may have come late: then whoever is next does what is to be done.
        if !settled && self.lease.is_over(clock::now().mono_ms) {
            return Err(Leave::Expired);
        }
        for effect in deeds.effects {
            self.perform(clock::now(), effect);
        }
        failpoint::hit(Point::EffectsDone);
        self.show();
        match settled {
            true => Err(Leave::Settled),
            false => Ok(()),
        }
    }

    /// Shows others what they may know of this run. Questions are shown once they are committed.
    fn show(&self) {
        let shown = self.shown();
        self.house.notice_asks(&shown.asks);
        if let Some(live) = self.house.live().get_mut(&self.run).map(|live| &mut live.shown) {
            let heard = live.heard || shown.heard;
            let same = live.asks.iter().map(|ask| ask.ask_id);
            let news = !same.eq(shown.asks.iter().map(|ask| ask.ask_id));
            *live = Shown { heard, ..shown };
            if news {
                // Only now does who is told find them: the hint of their event came before.
                self.house.store.hint(Hint::Asks { run: self.run });
            }
        }
    }

    /// What others may know of this run.
    pub(crate) fn shown(&self) -> Shown {
        let now = clock::now();
        let asks = self.machine.asks().iter().map(|ask| OpenAsk {
            ask_id: ask.ask_id,
            run_id: self.run,
            tool_call_id: ask.tool_call_id().map(str::to_owned),
            kind: AskKind::of(&ask.about),
            // The agent's own words, on their way to whoever looks.
            title: self.words.seal.text(&ask.title()),
            request: ask.request().and_then(|request| self.sealed_request(&request)),
            always: ask.always(),
            options: ask.options().into_iter().map(|option| self.sealed(option)).collect(),
            until: now.wall.plus_ms(
                i64::try_from(ask.deadline_ms.saturating_sub(now.mono_ms)).unwrap_or(i64::MAX),
            ),
        });
        Shown {
            asks: asks.collect(),
            heard: self.is_introduced(),
            takes_messages: self.machine.takes_messages(),
            takes_interrupts: self.machine.takes_interrupts(),
        }
    }

    /// The content of a question without secrets; `None` when sealing left no such shape.
    fn sealed_request(&self, request: &PermissionRequest) -> Option<PermissionRequest> {
        serde_json::from_slice(self.words.seal.view(request).bytes()).ok()
    }

    fn sealed(&self, option: PermissionOption) -> PermissionOption {
        let PermissionOption { id, kind, name } = option;
        let seal = &self.words.seal;
        PermissionOption { id: seal.text(&id), kind, name: seal.text(&name) }
    }

    /// What is heard and committed is needed by nobody: a long run does not fill the disk.
    fn drop_heard_segments(&mut self, offset: u64) {
        if offset >= self.spool_dropped + SEGMENT_BYTES {
            self.spool_dropped = offset;
            // A segment that cannot be removed now is removed with the directory.
            let _ = keeper::spool::drop_before(&self.spool, offset);
            failpoint::hit(Point::SegmentsDropped);
        }
    }

    async fn leave(mut self, leave: Leave) {
        // Whoever waits for an answer hears now that none will come.
        self.callers = Callers::default();
        match leave {
            Leave::Settled => {
                failpoint::hit(Point::Settled);
                self.house.notice_end(self.run);
                let dir = self.spool.clone();
                let (tracer, house, run) = (self.tracer, self.house, self.run);
                let workspace = Arc::clone(&self.bench.workspace);
                let tidied = Arc::clone(&house);
                let (child, shut) = (self.child.take(), self.shut.take());
                drop(self.keeping.take());
                let bulkhead = Bulkhead::Directory(workspace.path());
                // Only a panic is left to be dropped here, and `supervise` has logged it.
                let _ = blocking::spawn(bulkhead, "remove spool", move || {
                    if let Some(mut child) = child {
                        cleanup::wait(&mut child);
                    }
                    tracer.sync();
                    house.links.release(run);
                    cleanup::remove_dir(&dir);
                    failpoint::hit(Point::SpoolRemoved);
                    drop(shut);
                })
                .await;
                worktrees::tidy(&Host { inner: tidied }, workspace.path()).await;
            }
            // The keeper ends its agent by itself when nobody renews its lease; we only let go.
            Leave::Fenced | Leave::Expired | Leave::HandedOver | Leave::CutOff => {}
        }
    }
}

/// A keeper that gets no plan leaves when its socket closes, and is waited for.
pub(crate) fn let_go<Control>(control: Control, mut child: Child) {
    drop(control);
    blocking::spawn(Bulkhead::Wait, "wait for keeper", move || cleanup::wait(&mut child));
}

pub(crate) async fn next_report(keeping: &mut Option<Keeping>) -> Option<Report> {
    match keeping {
        // A broken connection is a gone keeper: the spool tells the rest.
        Some(keeping) => keeping.next().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// The joiner counts on the monotonic clock, written as a timestamp.
fn joined_at(now: Now) -> Timestamp {
    Timestamp(i64::try_from(now.mono_ms).unwrap_or(i64::MAX))
}
