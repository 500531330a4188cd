//! What the store's verbs are given. A Batch is where the way up and the way down meet: committed
//! all or nothing under the fence. Everything that may hold words of an agent or a person is
//! `Sealed`.

use crate::queue::{Errand, Follow};
use crate::seal::{Sealed, SealedEvent};
use contract::event::{Outcome, Totals};
use contract::state::{AgentState, Review, WaitingFor};
use contract::{
    AgentId, Billing, Code, CommandId, NanoUsd, RunId, RunState, TaskId, TaskState, Timestamp,
    Tokens,
};

/// A task to be queued.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub id: TaskId,
    /// Whoever enqueues with the same key again gets the task that is already there.
    pub key: Option<String>,
    /// Who is to do it, as it was named.
    /// Who is to do it; empty when whoever claims it is.
    pub agent: String,
    pub title: Sealed,
    pub body: Sealed,
    pub prompt: Sealed,
    pub system_prompt: Option<Sealed>,
    pub review: Review,
    /// What is higher goes first; within one, who came first.
    pub priority: i32,
    /// Where it stands from the start, when it has to wait for a slot.
    pub line: Option<InLine>,
    /// What it has beside, when the queue starts it.
    pub errand: Option<Errand>,
    pub created_at: Timestamp,
}

/// A place in the line for a slot of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InLine {
    pub pool: String,
    /// The id that its run will have: whoever enqueues with the same again gets the same task.
    pub run: RunId,
}

/// Who wants to work on a task, and what its run will be.
#[derive(Debug, Clone)]
pub struct Claim {
    pub task: TaskId,
    pub run: RunId,
    pub holder: String,
    pub now: Timestamp,
    pub lease_ms: u64,
    /// The redacted launch plan, as JSON.
    pub plan: Sealed,
    /// How many runs of its adapter there may be at once. A task that waits for a slot can only be
    /// claimed with it, and only by whoever is first in line.
    pub places: Option<u32>,
    pub head: RunHead,
}

/// What a listing shows of a run from its first moment.
#[derive(Debug, Clone)]
pub struct RunHead {
    pub agent: String,
    pub adapter: String,
    pub runtime: String,
    pub cwd: String,
    pub model: Option<String>,
    /// The agent's own conversation that this run takes up.
    pub resumes: Option<Sealed>,
    /// Who does it in place of the one it was given to, and why.
    pub fallback: Option<Sealed>,
    pub prompt_preview: Sealed,
}

/// The claim was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    pub fence: u64,
}

/// Sealed events, the states that belong to them, and what was taken and done: one transaction.
#[derive(Debug, Clone)]
pub struct Batch {
    pub run: RunId,
    pub fence: u64,
    /// The number of the first event: one more than the run's head, also when there is no event.
    pub first_seq: u64,
    pub events: Vec<SealedEvent>,
    pub machine: Sealed,
    pub dialect: Sealed,
    pub host: Sealed,
    pub spool_offset: u64,
    pub taken: Vec<CommandId>,
    pub effects_todo: Vec<Effect>,
    pub effects_done: Vec<u64>,
    pub run_state: RunState,
    pub pid: Option<u32>,
    pub totals: Option<Totals>,
    /// The tokens, the model and the billing so far, where they changed.
    pub report: Option<ReportSoFar>,
    /// What the events of this Batch spent, to be added to the books.
    pub ledger: Vec<LedgerRow>,
    /// The agent's own name for its conversation, which is worth keeping from now on.
    pub session: Option<Sealed>,
    /// The agent does not know the conversation that this run takes up: every run of the same agent
    /// that names it forgets the name.
    pub session_stale: bool,
    pub settle: Option<Settle>,
}

/// What a run reported so far. Names of models are words of the agent.
#[derive(Debug, Clone)]
pub struct ReportSoFar {
    /// A `RunReport`, as JSON.
    pub json: Sealed,
    pub billing: Option<Billing>,
}

/// What one usage adds to the books of its run.
#[derive(Debug, Clone)]
pub struct LedgerRow {
    pub at: Timestamp,
    /// Empty when nobody said, like the model.
    pub provider: Sealed,
    pub model: Sealed,
    pub tokens: Tokens,
    /// `None` when there is no price.
    pub nanousd: Option<NanoUsd>,
    /// Tokens are added that have no price.
    pub unpriced: bool,
    /// What was booked without a price before and is part of this priced total.
    pub covers: Covers,
    /// A later total replaces it.
    pub approximate: bool,
    /// The approximate rows of the run that this total replaces.
    pub replaces: Covers,
}

/// How far a total reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    Nothing,
    Model,
    Run,
}

/// Something the host has to do once this Batch is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub n: u64,
    pub bytes: Sealed,
}

/// The end of a run, with what becomes of its task.
#[derive(Debug, Clone)]
pub struct Settle {
    pub outcome: Outcome,
    pub code: Option<Code>,
    pub ended_at: Timestamp,
    pub task_state: TaskState,
    /// Why it waits, when it goes to `Waiting`.
    pub waiting_for: Option<WaitingFor>,
    pub follow: Follow,
    pub message: Sealed,
    /// Turns that were begun, for the budgets that count them.
    pub turns: u64,
    /// It is known that nothing was spent: dollars that were set aside are given back.
    pub unspent: bool,
    /// What was spent is not billed: no budget of dollars counts it.
    pub is_included: bool,
}

impl Settle {
    /// The dollars that budgets count, if they are known: an unpriced run keeps what was set aside for
    /// it, because unknown is not free.
    pub(crate) fn billed(&self, totals: &Totals) -> Option<NanoUsd> {
        match self.is_included {
            true => Some(NanoUsd(0)),
            false => totals.effective_nanousd.or(self.unspent.then_some(NanoUsd(0))),
        }
    }

    /// Where the task goes: one that was recalled meanwhile is not tried again.
    pub(crate) fn becomes(&self, recalled: bool) -> TaskState {
        use TaskState::*;
        match (recalled, self.task_state) {
            (true, Queued | Waiting | Failed | Cancelled) => Cancelled,
            (true, state @ (Running | Review | Done | Unknown)) | (false, state) => state,
        }
    }
}

/// The Batch is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub head_seq: u64,
}

/// Where there was room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Ordinary,
    /// The disk is full, and the reserve has been given up.
    Reserve,
}

/// A wish for a run's inbox, as sealed JSON of `contract::Wish`.
#[derive(Debug, Clone)]
pub struct NewCommand {
    pub id: CommandId,
    pub run: RunId,
    pub asked_at: Timestamp,
    pub wish: Sealed,
}

/// A run whose lease ran out. It is fenced off from its old holder; whoever reaped it holds it now
/// with `fence` and closes it with a settling Batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    pub run: RunId,
    pub task: TaskId,
    pub old_fence: u64,
    pub fence: u64,
    pub head_seq: u64,
}

/// The lease of a run as someone saw it who did not hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub run: RunId,
    pub fence: u64,
    pub expires_at: Timestamp,
}

/// A step of a task that no run makes: cancelled while queued, waiting, reviewed, reopened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMove {
    pub task: TaskId,
    pub fence: u64,
    pub from: TaskState,
    pub to: TaskState,
    /// Why it waits, when it moves to `Waiting`.
    pub waiting_for: Option<WaitingFor>,
    /// The adapter for whose slot it waits, or the task whose own matter it is.
    pub pool: Option<String>,
    pub follow: Follow,
}

impl TaskMove {
    /// Why no task could do this, if so. While no run holds a task, `done` and `cancelled` never
    /// change, and only a claim makes it run.
    pub(crate) fn folly(&self) -> Option<&'static str> {
        use TaskState::*;
        let may = match self.from {
            Queued => matches!(self.to, Waiting | Cancelled | Failed),
            Waiting => matches!(self.to, Queued | Waiting | Cancelled | Failed),
            Review => matches!(self.to, Done | Queued | Cancelled | Failed),
            Failed => self.to == Queued,
            Running | Done | Cancelled | Unknown => false,
        };
        let may = may && self.to != Unknown;
        let for_slot = self.to == Waiting && self.waiting_for == Some(WaitingFor::Pool);
        match may {
            false => Some("no task may"),
            true if for_slot && self.pool.is_none() => Some("nobody says for whose slot it waits"),
            true => None,
        }
    }
}

/// A sum set aside for a run before it spends. The store compares it with what is set aside and
/// spent in the scope since `since`; the limits come from the caller's rule.
#[derive(Debug, Clone)]
pub struct Reserve {
    pub scope: String,
    pub run: RunId,
    pub fence: u64,
    pub nanousd: NanoUsd,
    pub tokens: u64,
    pub turns: u64,
    pub ms: u64,
    pub since: Timestamp,
    pub nanousd_max: Option<NanoUsd>,
    pub tokens_max: Option<u64>,
    pub turns_max: Option<u64>,
    pub ms_max: Option<u64>,
}

/// An agent to be hired, or the standing of one that the configuration has.
#[derive(Debug, Clone)]
pub struct NewAgent {
    pub id: AgentId,
    pub name: String,
    pub state: AgentState,
    /// The keys of `agents.<name>`, as JSON; `None` where the configuration has them.
    pub spec: Option<Sealed>,
    /// Who hired it.
    pub by: String,
    pub at: Timestamp,
}

/// A change of an agent that still is as the caller saw it.
#[derive(Debug, Clone)]
pub struct AgentChange {
    pub name: String,
    /// The version the caller saw.
    pub version: u64,
    pub state: AgentState,
    pub spec: Option<Sealed>,
    pub at: Timestamp,
}
