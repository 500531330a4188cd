//! The arguments of `ostler task`.

use super::values::{Amount, ContextObject, amount, minutes, object, review, tokens, usd};
use clap::{Args, Subcommand};
use contract::NanoUsd;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Add a task to the queue
    Add(Box<TaskAdd>),
    /// List tasks, newest first
    #[command(alias = "ls")]
    List(TaskList),
    /// Show a task with its runs and comments
    Show(OneTask),
    /// Cancel a task; a running one is stopped
    Cancel(OneTask),
    /// Try a waiting task now
    Retry(OneTask),
    /// Reopen a failed task
    Reopen(OneTask),
    /// Comment on a task; @agent wakes that agent
    Comment(TaskComment),
    /// Approve the result of a task that waits for review
    Approve(OneTask),
    /// Reject the result; the reason is the agent's next prompt
    Reject(TaskReject),
    /// Change the budget of a task and its subtasks
    Budget(TaskBudget),
}

#[derive(Debug, Args)]
pub struct TaskAdd {
    /// Title: what to do, in one line; several words are joined
    #[arg(value_name = "TITLE", required_unless_present = "title_flag")]
    pub title: Vec<String>,
    /// The same as TITLE
    #[arg(long = "title", value_name = "TITLE", id = "title_flag", conflicts_with = "title")]
    pub title_flag: Option<String>,
    /// Agent: a runtime such as `claude`, or a name from ostler.json [default: any suitable agent]
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Full description, if the title is not enough; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// Working directory [default: the agent's, or the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Who reviews the result: none or person [default: person]
    #[arg(long, value_name = "WHO", value_parser = review)]
    pub review: Option<contract::state::Review>,
    /// Task that must be done first; repeatable
    #[arg(long, value_name = "TASK")]
    pub after: Vec<String>,
    /// Parent task
    #[arg(long, value_name = "TASK")]
    pub parent: Option<String>,
    /// Priority; a higher number goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    pub priority: i32,
    /// Label; repeatable
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<String>,
    /// Earliest start: a time such as 2026-11-16T09:00:00Z, or a delay such as 90s, 10m or 2h
    #[arg(long, value_name = "TIME")]
    pub not_before: Option<String>,
    /// A JSON object for the runs of the task: `{{context.NAME}}` in the configuration of their agent,
    /// and part of the task that the agent reads
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub context: Option<ContextObject>,
    /// Idempotency key: adding a task with the same key again does not create another one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Budget of the task and its subtasks in dollars
    #[arg(long, value_name = "N", value_parser = usd, allow_negative_numbers = true)]
    pub budget_usd: Option<NanoUsd>,
    /// Budget of the task and its subtasks in tokens
    #[arg(long, value_name = "N", value_parser = tokens, allow_negative_numbers = true)]
    pub budget_tokens: Option<u64>,
    /// Budget of the task and its subtasks in minutes of work
    #[arg(
        long = "budget-minutes",
        value_name = "N",
        value_parser = minutes,
        allow_negative_numbers = true
    )]
    pub budget_ms: Option<u64>,
    /// Run also when the agent does not tell in time what a budget limits
    #[arg(long)]
    pub budget_best_effort: bool,
}

/// The states of a task.
const TASK_STATES: [&str; 7] =
    ["queued", "waiting", "running", "review", "done", "failed", "cancelled"];

#[derive(Debug, Args)]
pub struct TaskList {
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Only tasks in this state
    #[arg(long, value_name = "STATE", value_parser = TASK_STATES)]
    pub state: Option<String>,
    /// Only tasks with this label
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// Also list the tasks of runs that `ostler run` started
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct OneTask {
    /// Task ID or any unique prefix or suffix, its key, or one of its runs
    pub task: String,
}

#[derive(Debug, Args)]
pub struct TaskComment {
    /// Task ID or any unique prefix or suffix, its key, or one of its runs
    pub task: String,
    /// The comment; several words are joined
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Agent to notify; repeatable
    #[arg(long, value_name = "AGENT")]
    pub mention: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TaskReject {
    /// Task ID or any unique prefix or suffix, its key, or one of its runs
    pub task: String,
    /// Reason; the agent reads it. Several words are joined
    #[arg(required = true)]
    pub reason: Vec<String>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("unit").required(true).multiple(true))]
pub struct TaskBudget {
    /// Task ID or any unique prefix or suffix, its key, or one of its runs
    pub task: String,
    /// Dollars, or unlimited
    #[arg(long, value_name = "N", group = "unit", value_parser = amount)]
    pub usd: Option<Amount>,
    /// Tokens, or unlimited
    #[arg(long, value_name = "N", group = "unit", value_parser = amount)]
    pub tokens: Option<Amount>,
    /// Minutes of work, or unlimited
    #[arg(long, value_name = "N", group = "unit", value_parser = amount)]
    pub minutes: Option<Amount>,
}

impl Default for TaskList {
    fn default() -> Self {
        Self { limit: 20, state: None, label: None, all: false }
    }
}
