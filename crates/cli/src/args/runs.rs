//! The arguments of the commands about runs: list them, look at one, steer a live one.

use super::values::{Since, since};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum RunsVerb {
    /// Delete a run that has ended, with its transcript and its worktree; its costs are kept
    Delete(RunToDelete),
}

#[derive(Debug, Args)]
pub struct RunToDelete {
    /// Run ID, or any unique prefix or suffix
    pub run: String,
    /// Also delete work in its worktree that was not applied
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Subcommand)]
pub enum WorktreesVerb {
    /// List the worktrees that are kept, newest first (the default)
    List,
    /// Remove the worktree of a run, with its branch and everything in it
    Discard(WorktreeToDiscard),
    /// Remove the worktrees that have no unapplied changes or commits
    Prune,
}

#[derive(Debug, Args)]
pub struct WorktreeToDiscard {
    /// Run ID, or any unique prefix or suffix
    pub run: String,
    /// Discard work that was not applied
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Runs {
    #[command(subcommand)]
    pub verb: Option<RunsVerb>,
    /// Maximum number of runs
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    pub limit: usize,
    /// Only runs that have not ended
    #[arg(long)]
    pub live: bool,
    /// Only runs in this directory, or in worktrees made from it
    #[arg(long)]
    pub here: bool,
    /// Only runs of this agent
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only runs that ended without success
    #[arg(long, conflicts_with = "live")]
    pub failed: bool,
    /// Only runs since a date (2026-11-01), a time (2026-11-01T09:00:00Z) or an age (2h, 7d)
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Since>,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            verb: None,
            limit: 20,
            live: false,
            here: false,
            agent: None,
            failed: false,
            since: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct OneRun {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the newest run in this directory]
    pub run: Option<String>,
}

#[derive(Debug, Args)]
pub struct WorktreeRun {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the newest run with a worktree made
    /// from this directory]
    pub run: Option<String>,
}

#[derive(Debug, Args)]
pub struct LiveRun {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the only live run]
    pub run: Option<String>,
}

#[derive(Debug, Args)]
pub struct Apply {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the newest run with a worktree made
    /// from this directory]
    pub run: Option<String>,
    /// Merge the run's branch into the one that is checked out (the default)
    #[arg(long)]
    pub merge: bool,
    /// Leave the changes uncommitted in the checkout
    #[arg(long, conflicts_with = "merge")]
    pub patch: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the newest run in this directory]
    pub run: Option<String>,
    /// Show long texts in full
    #[arg(long)]
    pub full: bool,
    /// Show how the agent was launched, instead of the transcript
    #[arg(long)]
    pub plan: bool,
    /// Show the raw output, without secrets, as JSON lines
    #[arg(long, conflicts_with_all = ["plan", "full"])]
    pub raw: bool,
    /// Also show the agent's stderr, lines that were not understood, and bookkeeping
    #[arg(long)]
    pub debug: bool,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the newest run in this directory]
    pub run: Option<String>,
    /// Speed factor; 0 plays without pauses
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
}

#[derive(Debug, Args)]
pub struct Stop {
    /// Run ID, or any unique prefix or suffix, or `last` [default: the only live run]
    pub run: Option<String>,
    /// Kill immediately, skip the grace period
    #[arg(long)]
    pub now: bool,
}

#[derive(Debug, Args)]
pub struct Say {
    /// The message, after the run it is for: its ID, any unique prefix or suffix, or `last`
    /// [default: the only live run]
    #[arg(value_names = ["RUN", "MESSAGE"], num_args = 1..=2, required = true)]
    pub words: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Answer {
    /// Approval ID as `ostler approvals` shows it, or any unique suffix
    #[arg(value_name = "ID")]
    pub ask: String,
    /// allow, always (for the rest of the run), deny, or another choice that `ostler approvals` lists
    pub choice: String,
    /// Reason for a denial; the agent reads it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}
