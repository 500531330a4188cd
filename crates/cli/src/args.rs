//! The command line: commands, arguments and their descriptions. What each command does is in
//! `commands/`; how the help is laid out (groups, examples, exit codes) is in `help.rs`. Every
//! argument has a description, and a test says so.

mod agents;
mod build;
pub mod help;
mod run;
mod runs;
mod serve;
mod task;
mod values;

pub use agents::{AgentKeys, AgentName, Agents, Costs, Prices, Quotas, QuotasWhat};
pub use build::{Conformance, Courier, Judged, JudgedAcp, JudgedAgent, JudgedHttp, Record};
pub use run::Run;
pub use runs::{
    Answer, Apply, LiveRun, OneRun, Replay, RunToDelete, Runs, RunsVerb, Say, Show, Stop,
    WorktreeRun, WorktreeToDiscard, WorktreesVerb,
};
pub use serve::{Remote, Serve, Token};
pub use task::{OneTask, Task, TaskAdd, TaskBudget, TaskList};
pub use values::{Amount, Since, limit};

use clap::{ArgAction, Args, Parser, Subcommand};
use std::path::PathBuf;

/// Run coding agents of any vendor, and limit what they may do and spend.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    version = crate::version::TEXT,
    max_term_width = 100,
    disable_help_subcommand = true,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Data directory [default: ~/.local/share/ostler]
    #[arg(long, value_name = "DIR", global = true, env = "OSTLER_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Configuration file; never read from the current directory [default:
    /// ~/.config/ostler/ostler.json] [env: OSTLER_CONFIG]
    // The variable is read by `config::locate`, to which an empty one is unset.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Print JSON; errors are one JSON object on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print the version, with --json as JSON
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one agent on one prompt and watch it
    Run(Box<Run>),
    /// List runs, newest first
    #[command(aliases = ["ps", "ls", "list"])]
    Runs(Runs),
    /// Show what runs, what waits and what needs attention
    Status,
    /// Show a run's transcript
    #[command(aliases = ["logs", "log"])]
    Show(Show),
    /// Watch a live run; Ctrl-C leaves it running
    #[command(alias = "attach")]
    Watch(LiveRun),
    /// Play a run's transcript back with its own timing
    Replay(Replay),
    /// Print a run and its events as JSON lines
    Export(OneRun),
    /// Show what a run changed in its worktree
    Diff(WorktreeRun),
    /// Merge a run's changes into your checkout and remove its worktree
    Apply(Apply),
    /// List, discard or prune the worktrees of runs
    Worktrees {
        #[command(subcommand)]
        verb: Option<WorktreesVerb>,
    },
    /// Stop a live run
    #[command(aliases = ["kill", "cancel"])]
    Stop(Stop),
    /// Send a message to a live run
    Say(Say),
    /// Interrupt the current turn of a live run
    Interrupt(LiveRun),
    /// List the requests that wait for your approval
    #[command(alias = "approval")]
    Approvals,
    /// Answer a request for approval
    Answer(Answer),
    /// Add tasks to the queue, follow and review them
    #[command(alias = "tasks")]
    Task {
        #[command(subcommand)]
        command: Option<Task>,
    },
    /// List agents, or hire, change, pause and retire them
    #[command(alias = "agent")]
    Agents {
        #[command(subcommand)]
        command: Option<Box<Agents>>,
    },
    /// Show what was spent
    #[command(alias = "cost")]
    Costs(Costs),
    /// Show provider quotas, or clear a block
    #[command(alias = "quota")]
    Quotas(Quotas),
    /// Show model prices, or import newer ones
    Prices {
        #[command(subcommand)]
        command: Option<Prices>,
    },
    /// Start queued tasks and offer the HTTP API, until stopped
    Serve(Serve),
    /// Offer Ostler to your own assistant, as an MCP server
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Serve one agent to callers on other machines (ca-http-v1)
    Remote(Box<Remote>),
    /// Manage API tokens
    Token {
        #[command(subcommand)]
        command: Option<Token>,
    },
    /// Back up the data directory (safe while Ostler runs)
    Backup {
        /// New directory for the copy; open it later with --data
        dir: PathBuf,
    },
    /// Test whether an agent speaks a protocol
    #[command(subcommand)]
    Conformance(Conformance),
    /// Record what a command prints, without secrets, for a runtime
    Record(Record),
    /// List what `ostler run` accepts: agents, adapters, runtimes
    Runtimes(Runtimes),
    /// Check the installed agents: program, version, login, permissions
    Doctor(Doctor),
    /// Write a first ostler.json
    Init,
    /// Show where the configuration is; check, edit or print it
    Config {
        #[command(subcommand)]
        command: Option<Configuration>,
    },
    /// Print a shell completion script
    Completions {
        /// Shell: bash, zsh, fish, elvish or powershell
        #[arg(hide_possible_values = true)]
        shell: clap_complete::Shell,
    },
    /// Print help for a command, or the exit codes
    Help {
        /// A command such as `run` or `task add`, or `exit-codes`
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Print the version
    #[command(hide = true)]
    Version,
    /// Offer a run's tools as an MCP server on standard input and output
    #[command(name = "mcp-proxy", hide = true)]
    McpProxy,
    /// Drive runs whose command has gone, until none is left
    #[command(name = crate::background::COMMAND, hide = true)]
    BackgroundHost,
    /// Hold one session of a remote, for its keeper
    #[command(hide = true)]
    Courier(Courier),
}

impl Command {
    /// Servers have a log by default; other commands do not.
    pub fn serves(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Remote(_) | Self::BackgroundHost)
    }
}

#[derive(Debug, Args)]
pub struct Runtimes {
    /// Runtime to show in full: its models, permissions and every key of its adapter
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Ask its program which models there are
    #[arg(long, requires = "name")]
    pub models: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Agent, adapter or runtime to check in detail [default: all, in brief]
    #[arg(value_name = "AGENT")]
    pub agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Configuration {
    /// Print the path of the configuration file
    Path,
    /// Open the configuration file in $VISUAL or $EDITOR; writes a first one if there is none
    Edit,
    /// Check the configuration file
    Check,
    /// Print the configuration that is in force, without secrets
    Show,
    /// Print the JSON Schema of the configuration
    Schema,
}

#[cfg(test)]
mod tests;

/// Logins at MCP servers of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum McpCommand {
    /// Log in at an MCP server of the configuration: prints an address to open in a browser
    Login {
        /// The server, as `mcpServers` names it
        server: String,
        /// Ask for this scope beside those that were granted before; may be given more than once
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
    },
    /// Forget the login at an MCP server
    Logout {
        /// The server, as `mcpServers` names it
        server: String,
    },
}
