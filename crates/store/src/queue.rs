//! What the queue's verbs are given and what its reads give back. A task of the queue is started by
//! whoever dispatches and not by whoever asked for it, so everything its runs need is in its row.
//! The verbs are in `sqlite/queue.rs`; which task comes next, and what follows a run's end, are rules
//! of the engine that the host asks.

use crate::row::TaskRow;
use crate::seal::Sealed;
use contract::state::WaitingFor;
use contract::{Code, CommandId, RunId, TaskId, Timestamp};

/// What a task of the queue has beside what is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errand {
    /// Where it is to be done, when it is not where its agent works anyway.
    pub cwd: Option<String>,
    pub labels: Vec<String>,
    pub parent: Option<Parent>,
    /// What its runs may spend, as JSON.
    pub budget: Option<String>,
    pub not_before: Option<Timestamp>,
    /// What must be done before it.
    pub after: Vec<TaskId>,
    /// Why it is there, in the words of the agent's environment, when that is nothing ordinary.
    pub wake: Option<String>,
    /// What a client hands to its runs: a JSON object.
    pub context: Option<Sealed>,
}

/// The task that another belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    pub task: TaskId,
    /// How many it may have; one more is refused.
    pub children_max: u32,
    /// How deep tasks may be below each other; one deeper is refused.
    pub depth_max: u32,
}

/// What is written into a task with its next state. What is absent stays as it was, but for what
/// belongs to a state alone: `until` and `note`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Follow {
    /// When to look at it again.
    pub until: Option<Timestamp>,
    /// For people: why it stands where it stands.
    pub note: Option<Sealed>,
    pub code: Option<Code>,
    /// How often it was tried again in this generation.
    pub tries: Option<u32>,
    /// What its next run is asked, when that is not what the task says.
    pub prompt: Option<Sealed>,
    /// The run whose conversation the next one takes up.
    pub resumes: Option<RunId>,
    pub wake: Option<String>,
}

/// A change of what a task and those below it may spend, as JSON, for whoever saw what they might.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetStep {
    pub task: TaskId,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// What someone says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    /// The same id again is the same comment.
    pub id: CommandId,
    pub task: TaskId,
    pub at: Timestamp,
    pub author: String,
    pub text: Sealed,
    pub mentions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentRow {
    pub id: CommandId,
    pub at: Timestamp,
    pub author: String,
    pub text: String,
    pub mentions: Vec<String>,
}

/// The first task of an agent that could be started, and how busy its agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub task: TaskRow,
    /// The order of arrival.
    pub num: u64,
    /// Runs of the agent that are not settled.
    pub busy: u64,
}

/// Which tasks that wait may be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Those whose time has come.
    Due(Timestamp),
    /// Those that wait for this, whatever time they were told: what they wait for has changed.
    Whenever(WaitingFor),
}

/// Tasks of one agent in one directory that wait for the same, without a time: what holds the first
/// of them holds all. What is the matter of one task and of those below it makes a crowd of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowd {
    pub why: WaitingFor,
    pub agent: String,
    /// Where it is to be done, when that is not where its agent works anyway.
    pub cwd: Option<String>,
    /// The task whose matter it is, as `pool` of its row says.
    pub of: Option<String>,
}

/// A page of crowds, by agent, directory and whose matter it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdsPage {
    pub why: WaitingFor,
    /// The last one of the page before.
    pub after: Option<Crowd>,
    pub limit: usize,
}

/// Sums over the tasks below one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Children {
    pub count: u64,
    /// What each of them may spend, as JSON, where it is said.
    pub budgets: Vec<String>,
}
