//! The arguments of `ostler run`.

use super::values::{ContextObject, limit, minutes, object, policy, tokens, turns, usd};
use clap::Args;
use contract::plan::Limit;
use contract::{NanoUsd, Policy};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Run {
    /// Agent: a runtime such as `claude` or `demo`, or a name from ostler.json [default:
    /// defaultAgent, or the only installed runtime]
    #[arg(value_name = "AGENT")]
    pub agent: Option<String>,
    /// The prompt; several words are joined. Piped input is appended to it, or is the prompt if
    /// there is none
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Model to use [default: the agent's own]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// What the agent may do without asking: deny, ask, allow-reads or allow-all (explained below)
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub permission: Option<Policy>,
    /// Pass a variable to the agent: NAME takes yours, NAME=VALUE sets it; repeatable
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Continue the conversation of this agent's newest run in this directory
    #[arg(long = "continue", conflicts_with = "resume")]
    pub go_on: bool,
    /// Continue the conversation of this run
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,

    /// With --continue or --resume: continue the conversation although it was held in another
    /// directory; without this, a new one starts there with a summary of the old one
    #[arg(long)]
    pub force_cwd: bool,
    /// A JSON object for the agent: `{{context.NAME}}` in its configuration, and part of its task
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub context: Option<ContextObject>,

    /// Return as soon as the run has started; it continues in the background (see `ostler watch`)
    #[arg(short, long, conflicts_with_all = ["trace", "debug"])]
    pub detach: bool,

    /// Working directory [default: the current directory]
    #[arg(long, value_name = "DIR", help_heading = "Workspace")]
    pub cwd: Option<PathBuf>,
    /// Work in a new git worktree; `ostler diff` shows the changes, `ostler apply` merges them
    #[arg(long, help_heading = "Workspace")]
    pub worktree: bool,
    /// Work in a new empty directory, removed when the run has ended
    #[arg(long, conflicts_with = "worktree", help_heading = "Workspace")]
    pub temporary: bool,
    /// With --temporary: keep the directory
    #[arg(long, requires = "temporary", help_heading = "Workspace")]
    pub keep: bool,

    /// Stop the run after this time: 90s, 10m, 2h or unlimited; a number alone is seconds
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    pub timeout: Option<Limit>,
    /// Stop the run when it has spent this many dollars
    #[arg(long, value_name = "N", value_parser = usd, allow_negative_numbers = true, help_heading = "Limits")]
    pub budget_usd: Option<NanoUsd>,
    /// Stop the run when it has used this many tokens
    #[arg(long, value_name = "N", value_parser = tokens, allow_negative_numbers = true, help_heading = "Limits")]
    pub budget_tokens: Option<u64>,
    /// Stop the run after this many turns (model answers, if the agent reports them)
    #[arg(long, value_name = "N", value_parser = turns, allow_negative_numbers = true, help_heading = "Limits")]
    pub budget_turns: Option<u32>,
    /// Stop the run after this many minutes of work
    #[arg(
        long = "budget-minutes",
        value_name = "N",
        value_parser = minutes,
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pub budget_ms: Option<u64>,
    /// Run even if the agent reports too late, or never, what a budget limits
    #[arg(long, help_heading = "Limits")]
    pub budget_best_effort: bool,

    /// Print the final answer only
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
    /// Exit with 12 if a request of the agent was denied, even if the run succeeded
    #[arg(long, help_heading = "Output")]
    pub fail_on_denied: bool,
    /// Also show the agent's stderr, lines that were not understood, and bookkeeping
    #[arg(long, help_heading = "Output")]
    pub debug: bool,
    /// Write the agent's raw output, without secrets, to this file when the run has ended
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Option<PathBuf>,

    /// Run this command, which speaks JSON lines, instead of a named agent
    #[arg(long, value_name = "CMD", help_heading = "Agents without configuration")]
    pub process: Option<String>,
    /// Run this command, which speaks ACP, instead of a named agent
    #[arg(
        long,
        value_name = "CMD",
        conflicts_with = "process",
        help_heading = "Agents without configuration"
    )]
    pub acp: Option<String>,
    /// Run the agent at this address, which speaks ca-http-v1
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["process", "acp"],
        help_heading = "Agents without configuration"
    )]
    pub http: Option<String>,
    /// With --http: environment variable that holds the bearer token
    #[arg(
        long,
        value_name = "NAME",
        requires = "http",
        help_heading = "Agents without configuration"
    )]
    pub token_env: Option<String>,
}

impl Run {
    /// The flag that names an agent by itself, so that no AGENT is given.
    pub fn unnamed_by(&self) -> Option<&'static str> {
        match self {
            Self { process: Some(_), .. } => Some("--process"),
            Self { acp: Some(_), .. } => Some("--acp"),
            Self { http: Some(_), .. } => Some("--http"),
            _ => None,
        }
    }
}
