//! What the store's reads give back. Texts were sealed on their way in and are passed on as they
//! are; an event is its canonical bytes.

use contract::event::{Outcome, RunReport, Totals};
use contract::state::{AgentState, Review, WaitingFor};
use contract::view::{Figures, RunView};
use contract::{AgentId, Code, NanoUsd, RunId, RunState, TaskId, TaskState, Timestamp, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One run as it is kept; `RunView` is what of it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub id: RunId,
    pub task: TaskId,
    pub fence: u64,
    pub state: RunState,
    pub holder: String,
    pub lease_expires_at: Timestamp,
    pub head_seq: u64,
    pub agent: String,
    pub adapter: String,
    pub runtime: String,
    pub cwd: String,
    pub model: Option<String>,
    pub prompt_preview: String,
    pub pid: Option<u32>,
    pub started_at: Timestamp,
    pub totals: Option<Totals>,
    /// Absent in runs of older versions, and while nothing was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<RunReport>,
    /// The agent's own name for its conversation, once a turn of it went well.
    pub native_session: Option<String>,
    /// Who does it in place of the one it was given to, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Everything from here on is there when the run is settled.
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    pub code: Option<Code>,
    pub message: Option<String>,
}

impl From<RunRow> for RunView {
    fn from(row: RunRow) -> Self {
        let Figures { usage, cost_usd, billed_usd } =
            Figures::of(row.totals.as_ref(), row.report.as_ref());
        let report = row.report.unwrap_or_default();
        Self {
            run_id: row.id,
            task_id: row.task,
            id: row.id,
            task: row.task,
            state: row.state,
            head_seq: row.head_seq,
            agent: row.agent,
            adapter: row.adapter,
            runtime: row.runtime,
            cwd: row.cwd,
            model: report.model.or_else(|| row.model.clone()),
            requested_model: row.model,
            provider: report.provider,
            prompt_preview: row.prompt_preview,
            started_at: row.started_at,
            totals: row.totals,
            usage,
            cost_usd,
            billed_usd,
            billing: report.billing,
            native_session: row.native_session,
            fallback: row.fallback,
            ended_at: row.ended_at,
            outcome: row.outcome,
            code: row.code,
            message: row.message,
        }
    }
}

/// An agent's own conversation, as the newest run that had it left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub run: RunId,
    /// `None` when the agent said that it does not know the conversation any more.
    pub native_session: Option<String>,
    pub adapter: String,
    pub runtime: String,
    pub model: Option<String>,
    pub ended_at: Option<Timestamp>,
    /// How many of the newest runs that took it up failed, one after the other.
    pub failures: u64,
    /// How many runs it had, and when the first of them began.
    pub runs: u64,
    pub begun_at: Timestamp,
    /// What they spent.
    pub spent: Vec<ConversationSpent>,
}

/// What a conversation has cost with one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSpent {
    pub provider: String,
    pub model: String,
    pub tokens: Tokens,
    /// `None` when some of it has no price.
    pub nanousd: Option<NanoUsd>,
}

/// A page of runs, newest first, by key: `before` is the last id of the page before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunsPage {
    pub before: Option<RunId>,
    pub limit: usize,
    pub unsettled_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    pub id: TaskId,
    pub key: Option<String>,
    pub agent: String,
    pub title: String,
    pub body: String,
    pub prompt: String,
    pub system_prompt: Option<String>,
    pub state: TaskState,
    pub waiting_for: Option<WaitingFor>,
    pub review: Review,
    pub fence: u64,
    pub generation: u32,
    pub priority: i32,
    /// Whose it is that it waits for, or waited: an adapter and its slots, a task and its budget.
    pub pool: Option<String>,
    /// The id under which its run was asked for, when it had to wait.
    pub run: Option<RunId>,
    pub created_at: Timestamp,
    /// Whether the queue starts it; otherwise whoever asked for its run did.
    pub by_queue: bool,
    pub cwd: Option<String>,
    pub labels: Vec<String>,
    pub parent: Option<TaskId>,
    /// How many tasks are above it.
    pub depth: u32,
    /// What its runs may spend, as JSON.
    pub budget: Option<String>,
    pub not_before: Option<Timestamp>,
    /// When it is looked at again, while it waits and that is known.
    pub until: Option<Timestamp>,
    /// How often it was tried again in this generation.
    pub tries: u32,
    /// What its last run, or the last try to start one, ended with.
    pub code: Option<Code>,
    /// For people: why it stands where it stands.
    pub note: Option<String>,
    /// What its next run is asked, when that is not what the task says.
    pub next_prompt: Option<String>,
    /// The run whose conversation the next one takes up.
    pub resumes: Option<RunId>,
    pub wake: Option<String>,
    /// Someone cancelled it while it ran.
    pub recalled: bool,
    /// What a client hands to its runs, as a JSON object.
    pub context: Option<String>,
}

/// An agent that was hired, or whose standing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    pub id: AgentId,
    pub name: String,
    pub state: AgentState,
    /// The keys of `agents.<name>`, as JSON; `None` where the configuration has them.
    pub spec: Option<String>,
    /// Rises with every change.
    pub version: u64,
    pub hired_by: String,
    pub hired_at: Timestamp,
    pub changed_at: Timestamp,
}

/// Where a task stands that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How many are in front of it.
    pub ahead: u64,
    /// How many runs of the adapter are not settled.
    pub taken: u64,
}

/// A page of tasks by key: `after` is the last id of the page before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TasksPage {
    pub after: Option<TaskId>,
    pub limit: usize,
    pub state: Option<TaskState>,
    pub label: Option<String>,
    /// Only tasks that were handed over to the queue; a run that was started directly has one too.
    pub handed_over: bool,
    pub order: Order,
}

/// By the time they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    Oldest,
    Newest,
}

/// By what costs are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Day,
    Agent,
    Adapter,
    Model,
}

/// Which part of the books is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostsQuery {
    /// Everything in one row when empty.
    pub by: Vec<By>,
    /// From the whole day (in UTC) of this moment on.
    pub since: Option<Timestamp>,
    /// Only those of this run.
    pub run: Option<RunId>,
    /// Only what comes behind this row.
    pub after: Option<CostKey>,
    pub limit: usize,
}

/// Which row of the books: what is asked by is there, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostKey {
    /// Any moment of it.
    pub day: Option<Timestamp>,
    pub agent: Option<String>,
    pub adapter: Option<String>,
    pub model: Option<String>,
}

/// What was spent; the names are there when they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cost")]
pub struct CostRow {
    /// `2026-11-15`, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// `provider/model`, as far as they were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub runs: u64,
    pub tokens: Tokens,
    /// Null as soon as any part is unpriced.
    pub effective_nanousd: Option<NanoUsd>,
    /// The part that has a price.
    pub priced_nanousd: Option<NanoUsd>,
    /// Whether tokens are among these that have no price.
    pub unpriced: bool,
    /// The part of `priced_nanousd` that is not billed: of runs whose account is a subscription or
    /// free, at list price.
    #[serde(default)]
    pub included_nanousd: NanoUsd,
    /// What is billed; null as soon as any part that is billed is unpriced.
    #[serde(default)]
    pub billed_nanousd: Option<NanoUsd>,
}

/// The canonical bytes of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: u64,
    pub bytes: Arc<[u8]>,
}

/// Everything the next owner of a run needs to go on where the last Batch stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    pub machine: Vec<u8>,
    pub dialect: Vec<u8>,
    pub host: Vec<u8>,
    pub spool_offset: u64,
    pub head_seq: u64,
    pub fence: u64,
    /// Asked for by a Batch and not yet known to be done.
    pub effects: Vec<StoredEffect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEffect {
    pub n: u64,
    pub bytes: Vec<u8>,
}

/// What a follower gets: the next events, and whether they are the last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub events: Vec<StoredEvent>,
    /// The run is settled and nothing comes after these events.
    pub settled: bool,
}
