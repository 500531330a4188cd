//! What runs share, by scope: quotas of accounts and sums of budgets, as the verbs take them and the
//! reads give them back. What a breaker means is a rule of the engine's; here it is a text with a
//! version, changed only by who has seen the last one.

use crate::batch::Reserve;
use crate::row::{AgentRow, RunRow, TaskRow};
use crate::seal::Sealed;
use contract::{NanoUsd, RunId, TaskId, Timestamp};

/// One quota as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaRow {
    pub scope: String,
    /// 0 when nobody has changed its breaker yet.
    pub version: u64,
    /// The breaker as JSON; `None` is closed.
    pub breaker: Option<String>,
    /// In whose words it was opened last, when, and by which run.
    pub why: Option<String>,
    pub opened_at: Option<Timestamp>,
    pub opened_by: Option<RunId>,
    /// The windows as they were last told, as JSON.
    pub windows: Option<String>,
    pub told_at: Option<Timestamp>,
}

/// A change of a breaker, for who saw it at a version.
#[derive(Debug, Clone)]
pub struct QuotaStep {
    pub scope: String,
    pub seen: u64,
    /// As JSON; `None` is closed.
    pub breaker: Option<String>,
    /// Who opened it, where this opens it.
    pub opened: Option<Opened>,
}

/// The answer that opened a breaker.
#[derive(Debug, Clone)]
pub struct Opened {
    pub at: Timestamp,
    /// The run that was answered; `None` if the provider was asked beside all runs.
    pub by: Option<RunId>,
    pub why: Sealed,
}

/// What a run starts within. All of it holds in the transaction that begins the run, or nothing is
/// begun.
#[derive(Debug, Clone, Default)]
pub struct Within {
    /// The quota that the run spends.
    pub quota_scope: Option<String>,
    pub quota: Option<QuotaStep>,
    /// What is set aside for it.
    pub reserves: Vec<Reserve>,
}

/// What a scope has spent since a moment, together with what its live runs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeSum {
    pub nanousd: NanoUsd,
    pub tokens: u64,
    pub turns: u64,
    pub ms: u64,
    /// How many of these runs are not settled.
    pub live: u64,
}

/// What a start asks about before anything of it exists.
#[derive(Debug, Clone)]
pub struct StartLook {
    pub agent: String,
    pub quota_scope: String,
    /// The task, where there is one already.
    pub task: Option<TaskId>,
}

/// The answers to it, all of one moment: whoever asks one by one waits for each.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub agent: Option<AgentRow>,
    pub quota: Option<QuotaRow>,
    /// The task and those above it, as `Store::lineage` gives them.
    pub lineage: Vec<TaskRow>,
    /// The newest runs that are not settled, a page of them.
    pub live: Vec<RunRow>,
}
