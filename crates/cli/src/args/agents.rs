//! The arguments of the commands about agents and money: `agents`, `costs`, `quotas`, `prices`.

use super::values::policy;
use clap::{Args, Subcommand};
use contract::Policy;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Costs {
    /// Group by any of day, agent, adapter and model, separated by commas
    #[arg(long, value_name = "NAMES", default_value = "day")]
    pub by: String,
    /// First day: 2026-11-01, or 7d for the last seven days (UTC)
    #[arg(long, value_name = "DAY")]
    pub since: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Quotas {
    /// Ask the providers now, for adapters with `quota.source: oauth`
    #[arg(long)]
    pub fresh: bool,
    #[command(subcommand)]
    pub what: Option<QuotasWhat>,
}

#[derive(Debug, Subcommand)]
pub enum QuotasWhat {
    /// Clear a block, so that runs start again before the provider's reset
    Clear {
        /// The scope, as `ostler quotas` shows it
        scope: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum Prices {
    /// List the prices in force, in dollars per million tokens
    List {
        /// Only models with this text in their name
        #[arg(long, value_name = "PART")]
        model: Option<String>,
    },
    /// Import LiteLLM's model_prices_and_context_window.json or the api.json of models.dev
    Import {
        /// The file to import
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum Agents {
    /// List agents
    List {
        /// Include retired agents
        #[arg(long)]
        all: bool,
    },
    /// Show one agent with its whole configuration
    Show(AgentName),
    /// Hire an agent onto an adapter
    Hire {
        /// Name of the new agent
        name: String,
        #[command(flatten)]
        keys: AgentKeys,
    },
    /// Change a hired agent; keys that are not given keep their values
    Edit {
        /// Name of the agent
        name: String,
        #[command(flatten)]
        keys: AgentKeys,
    },
    /// Pause an agent: nothing new is started, its live runs continue
    Pause(AgentName),
    /// Resume a paused agent
    Resume(AgentName),
    /// Retire an agent permanently; keeps its history
    Retire(AgentName),
}

#[derive(Debug, Args)]
pub struct AgentName {
    /// Name of the agent
    pub name: String,
}

/// The keys of `agents.<name>` in ostler.json.
#[derive(Debug, Default, Args)]
pub struct AgentKeys {
    /// Adapter from ostler.json, or a runtime such as `claude`
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    /// Model to use [default: the adapter's]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Template of its prompts; {{prompt}} is replaced by the task
    #[arg(long, value_name = "TEXT")]
    pub prompt_template: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Working directory
    #[arg(long, value_name = "DIR", conflicts_with = "repository")]
    pub cwd: Option<PathBuf>,
    /// Repository that its worktrees are made from
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
    /// Workspace of its runs: here, worktree or temporary
    #[arg(
        long,
        value_name = "KIND",
        value_parser = ["here", "worktree", "temporary"],
        hide_possible_values = true
    )]
    pub workspace: Option<String>,
    /// What it may do without asking: deny, ask, allow-reads or allow-all
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub permission: Option<Policy>,
    /// Budget of a window (run, day, month, lifetime): month=80 is dollars; also
    /// day=200000tokens, run=40turns, day=90minutes, month=80% of the quota; repeatable
    #[arg(long = "budget", value_name = "WINDOW=AMOUNT")]
    pub budgets: Vec<String>,
    /// Agent that takes over when this one cannot: a name, or ADAPTER=MODEL; repeatable
    #[arg(long, value_name = "NAME")]
    pub fallback: Vec<String>,
    /// Maximum number of its runs at once
    #[arg(long, value_name = "N")]
    pub concurrency: Option<u32>,
    /// Label of the account whose quota it uses
    #[arg(long, value_name = "LABEL")]
    pub account: Option<String>,
    /// Skill of the agent; repeatable
    #[arg(long = "skill", value_name = "NAME")]
    pub skills: Vec<String>,
    /// Relayed tool to offer, instead of all of them; repeatable
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// Any key of an agent in ostler.json, with its value as JSON; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Remove a key; repeatable
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// File with an object of keys; flags override it
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
}
