//! What a person may type. Words and shapes only: what each command does is in `commands/`.

use clap::{Args, Parser, Subcommand};
use contract::plan::Limit;
use contract::{Policy, Scope};
use std::path::PathBuf;

/// Runs any coding agent under one contract.
#[derive(Debug, Parser)]
#[command(name = "ostler", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The data directory [default: the XDG data directory's ostler]
    #[arg(long, value_name = "DIR", global = true, env = "OSTLER_DATA")]
    pub data: Option<PathBuf>,
    /// The configuration [default: the XDG config directory's ostler/ostler.json]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one agent on one prompt and watch it
    Run(Box<Run>),
    /// List runs, newest first
    Runs(Runs),
    /// Show a run's transcript again
    Show(Show),
    /// Watch a live run; Ctrl-C only leaves
    Watch(OneRun),
    /// Play a run's transcript back with its own timing
    Replay(Replay),
    /// Print a run and all its events as JSON lines; `show --raw` has its raw output
    Export(OneRun),
    /// Show what a run changed in its worktree
    Diff(OneRun),
    /// Bring the work of a run back from its worktree, and remove that
    Apply(Apply),
    /// Stop a live run
    Stop(Stop),
    /// Say something to a live run
    Say(Say),
    /// End the present turn of a live run
    Interrupt(OneRun),
    /// List who works here, or hire, change, pause and retire them
    Agents {
        #[command(subcommand)]
        command: Option<Box<Agents>>,
    },
    /// List the questions that wait for an answer
    Approvals,
    /// Answer a question of a live run
    Answer(Answer),
    /// Show what was spent, and by whom
    Costs(Costs),
    /// Show the quotas of accounts and whether runs start, or let them start again
    Quotas(Quotas),
    /// Look at the prices, or import newer ones
    #[command(subcommand)]
    Prices(Prices),
    /// Hand work over to the queue, see where it stands, decide about it
    #[command(subcommand)]
    Task(Task),
    /// Give others tokens of the API, or sign a browser in
    #[command(subcommand)]
    Token(Token),
    /// Copy everything that is kept into a new directory, while others work
    Backup {
        /// A directory that is not there yet; it can be opened with --data
        dir: PathBuf,
    },
    /// Host this data directory and its API until stopped
    Serve(Serve),
    /// Offer runs, tasks and questions to your own assistant, as an MCP server on standard input and output
    Mcp,
    /// Serve an agent to callers elsewhere by ca-http-v1, until stopped
    Remote(Box<Remote>),
    /// Judge whether a program speaks a protocol
    #[command(subcommand)]
    Conformance(Conformance),
    /// Run a command and keep what it prints, without secrets, as a recording for a new runtime
    Record(Record),
    /// List the agents, adapters and runtimes that can be run
    Runtimes,
    /// Look for what keeps an agent from running: its program, version, login and permissions
    Doctor(Doctor),
    /// Write a first ostler.json
    Init,
    /// Look at the configuration
    #[command(subcommand)]
    Config(Configuration),
    /// Print what makes a shell complete the words of ostler
    Completions {
        /// Such as bash, zsh or fish
        shell: clap_complete::Shell,
    },
    /// Offer a run's tools as an MCP server on standard input and output
    #[command(name = "mcp-proxy", hide = true)]
    McpProxy,
    /// Hold one session of a remote, for its keeper
    #[command(hide = true)]
    Courier(Courier),
}

#[derive(Debug, Args)]
pub struct Run {
    /// The agent: a name from ostler.json, or a runtime such as `demo`
    #[arg(value_name = "AGENT", required_unless_present_any = ["process", "acp", "http"])]
    pub agent: Option<String>,
    /// What it is to do [default: read from standard input]
    pub prompt: Option<String>,
    /// Where it works [default: here]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Work in a git worktree of its own; `ostler diff` shows its work, `ostler apply` brings it back
    #[arg(long)]
    pub worktree: bool,
    /// Work in an empty directory of its own, which is removed when the run has ended
    #[arg(long, conflicts_with = "worktree")]
    pub temporary: bool,
    /// With --temporary: keep the directory
    #[arg(long, requires = "temporary")]
    pub keep: bool,
    #[arg(long)]
    pub model: Option<String>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Print the final answer only
    #[arg(long)]
    pub quiet: bool,
    /// Show lines that were not recognised
    #[arg(long)]
    pub debug: bool,
    /// Stop it after this long: 90s, 10m, 2h, unlimited
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    pub timeout: Option<Limit>,
    /// Stop it when it has spent this much
    #[arg(long, value_name = "DOLLARS")]
    pub budget_usd: Option<f64>,
    #[arg(long, value_name = "N")]
    pub budget_tokens: Option<u64>,
    #[arg(long, value_name = "N")]
    pub budget_turns: Option<u32>,
    #[arg(long, value_name = "N")]
    pub budget_minutes: Option<f64>,
    /// What it may do without asking; `allow-all` is dangerous outside a directory of its own
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub permission: Option<Policy>,
    /// Write its raw output, without secrets, to this file when it has ended
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Go on with the conversation of this agent's newest run in this directory
    #[arg(long = "continue", conflicts_with = "resume")]
    pub go_on: bool,
    /// Go on with the conversation of this run
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Run this command, which speaks JSON lines, instead of a configured agent
    #[arg(long, value_name = "CMD")]
    pub process: Option<String>,
    /// Run this command, which speaks ACP, instead of a configured agent
    #[arg(long, value_name = "CMD", conflicts_with = "process")]
    pub acp: Option<String>,
    /// Run the agent that listens at this address, which speaks ca-http-v1
    #[arg(long, value_name = "URL", conflicts_with_all = ["process", "acp"])]
    pub http: Option<String>,
    /// With --http: the variable that holds its bearer token
    #[arg(long, value_name = "NAME", requires = "http")]
    pub token_env: Option<String>,
}

#[derive(Debug, Args)]
pub struct Courier {
    #[arg(long)]
    pub protocol: String,
    #[arg(long)]
    pub token_env: Option<String>,
    #[arg(long, requires = "key")]
    pub cert: Option<String>,
    #[arg(long, requires = "cert")]
    pub key: Option<String>,
    #[arg(long)]
    pub ca: Option<String>,
    #[arg(long)]
    pub allow_insecure: bool,
    /// Only ask whether the remote is there
    #[arg(long)]
    pub greet: bool,
    #[arg(last = true, required = true)]
    pub base_url: String,
}

#[derive(Debug, Args)]
pub struct Record {
    /// Where the recording is put [default: here]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What its files are called: the scenario
    #[arg(long, value_name = "NAME", default_value = "recording")]
    pub name: String,
    /// Stop it after this long: 90s, 10m, 2h, unlimited
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "10m")]
    pub timeout: Limit,
    /// The program and its arguments; standard input is handed on
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Only this agent, adapter or runtime, with everything that was looked at [default: all]
    #[arg(value_name = "AGENT")]
    pub agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum RunsVerb {
    /// Delete a run that has ended, with everything that only it has; its costs stay
    Delete(OneRun),
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Runs {
    #[command(subcommand)]
    pub verb: Option<RunsVerb>,
    /// How many
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    /// Only those that have not ended
    #[arg(long)]
    pub live: bool,
}

#[derive(Debug, Args)]
pub struct OneRun {
    /// The run: its id, or a beginning or an end of it that fits no other
    pub run: String,
}

#[derive(Debug, Args)]
pub struct Apply {
    pub run: String,
    /// Merge its branch into the one that is checked out, as it does unless told otherwise
    #[arg(long)]
    pub merge: bool,
    /// Leave its changes uncommitted in the checkout
    #[arg(long, conflicts_with = "merge")]
    pub patch: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    pub run: String,
    /// Put what was kept apart for its size back in place
    #[arg(long)]
    pub full: bool,
    /// Show how it was launched instead
    #[arg(long)]
    pub plan: bool,
    /// Show its raw output, without secrets, as JSON lines
    #[arg(long, conflicts_with_all = ["plan", "full"])]
    pub raw: bool,
    /// Show lines that were not recognised
    #[arg(long)]
    pub debug: bool,
}

#[derive(Debug, Args)]
pub struct Replay {
    pub run: String,
    /// How many times faster than it was; 0 is without any pause
    #[arg(long, default_value_t = 1.0)]
    pub speed: f64,
}

#[derive(Debug, Args)]
pub struct Stop {
    pub run: String,
    /// At once, without the graces
    #[arg(long)]
    pub now: bool,
}

#[derive(Debug, Args)]
pub struct Say {
    pub run: String,
    pub text: String,
}

#[derive(Debug, Args)]
pub struct Answer {
    /// The question: its id, or an end of it that fits no other
    pub ask: String,
    /// allow or deny
    pub choice: String,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen [default: the configuration's, or 127.0.0.1:7717]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Print a link that signs a browser in, once
    #[arg(long)]
    pub sign_in: bool,
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Give a token; it is shown this once
    Add {
        /// What it is for, in a word
        #[arg(long)]
        name: String,
        /// viewer looks, operator starts and answers, admin does everything
        #[arg(long, value_parser = scope)]
        scope: Scope,
        /// How long it is good for: 12h, 7d, unlimited
        #[arg(long, value_name = "DURATION", value_parser = days, default_value = "unlimited")]
        expires: Limit,
    },
    /// List the tokens that are good
    List,
    /// Take a token away: its name, or an end of its id
    Revoke { token: String },
    /// Print a link that signs a browser in at the server, once
    Link {
        /// What the browser may do
        #[arg(long, value_parser = scope, default_value = "admin")]
        scope: Scope,
    },
}

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Put a task into the queue
    Add(Box<TaskAdd>),
    /// List tasks, newest first
    List(TaskList),
    /// Show a task with its runs and comments
    Show(OneTask),
    /// Cancel a task; one that runs is stopped
    Cancel(OneTask),
    /// Try a task that waits now
    Retry(OneTask),
    /// Open a failed task again
    Reopen(OneTask),
    /// Say something of a task; @agent wakes that agent
    Comment(TaskComment),
    /// Take the result of a task that waits for a look
    Approve(OneTask),
    /// Send it back; the reason is what its agent is asked next
    Reject(TaskReject),
    /// Change what a task and those below it may spend in all
    Budget(TaskBudget),
}

#[derive(Debug, Args)]
pub struct TaskAdd {
    /// What is to be done, in a line
    #[arg(long)]
    pub title: String,
    /// Who is to do it: a name from ostler.json, or a runtime such as `demo` [default: any agent that
    /// fits]
    #[arg(long)]
    pub agent: Option<String>,
    /// What is to be done, when the title does not say it all; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// Where it is to be done [default: where its agent works, else here]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Who looks at the result: none or person [default: person]
    #[arg(long, value_parser = review)]
    pub review: Option<contract::state::Review>,
    /// A task that must be done before it; may be given again
    #[arg(long, value_name = "TASK")]
    pub after: Vec<String>,
    /// The task it belongs to
    #[arg(long, value_name = "TASK")]
    pub parent: Option<String>,
    /// What is higher goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    pub priority: i32,
    /// May be given again
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<String>,
    /// Not before this time, 2026-11-16T09:00:00Z, or this long from now: 90s, 10m, 2h
    #[arg(long, value_name = "TIME")]
    pub not_before: Option<String>,
    /// A name of your own, by which it can be named later: added again under it, it is the same task
    #[arg(long)]
    pub key: Option<String>,
    /// What it and the tasks below it may spend in all, in dollars
    #[arg(long, value_name = "N")]
    pub budget_usd: Option<f64>,
    /// In tokens
    #[arg(long, value_name = "N")]
    pub budget_tokens: Option<u64>,
    /// In minutes of work
    #[arg(long, value_name = "N")]
    pub budget_minutes: Option<f64>,
}

/// Where a task can stand.
const TASK_STATES: [&str; 7] =
    ["queued", "waiting", "running", "review", "done", "failed", "cancelled"];

#[derive(Debug, Args)]
pub struct TaskList {
    /// How many
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    /// Only those that stand so
    #[arg(long, value_parser = TASK_STATES)]
    pub state: Option<String>,
    #[arg(long)]
    pub label: Option<String>,
}

#[derive(Debug, Args)]
pub struct OneTask {
    /// The task: its id or an end of it that fits no other, its key, or one of its runs
    pub task: String,
}

#[derive(Debug, Args)]
pub struct TaskComment {
    pub task: String,
    pub text: String,
    /// An agent that is to hear of it; may be given again
    #[arg(long, value_name = "AGENT")]
    pub mention: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TaskReject {
    pub task: String,
    pub reason: String,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("unit").required(true).multiple(true))]
pub struct TaskBudget {
    /// The task: its id or an end of it that fits no other, its key, or one of its runs
    pub task: String,
    /// In dollars, or unlimited
    #[arg(long, value_name = "N", group = "unit", value_parser = amount)]
    pub usd: Option<Amount>,
    /// In tokens, or unlimited
    #[arg(long, value_name = "N", group = "unit", value_parser = amount)]
    pub tokens: Option<Amount>,
    /// In minutes of work, or unlimited
    #[arg(long, value_name = "N", group = "unit", value_parser = amount)]
    pub minutes: Option<Amount>,
}

/// How much of something may be spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Unlimited,
    Of(f64),
}

#[derive(Debug, Args)]
pub struct Remote {
    /// The agent that is served: a name from ostler.json, or a runtime such as `demo`
    #[arg(long, value_name = "AGENT")]
    pub agent: String,
    /// Where to listen [default: 127.0.0.1:7718]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The variable of this environment that holds the token which callers show
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// Take callers whose certificate this authority issued
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    pub client_ca: Option<PathBuf>,
    /// The name that a caller's certificate must be for [default: any that the authority issued]
    #[arg(long, value_name = "NAME", requires = "client_ca")]
    pub client_name: Option<String>,
    /// The certificate to listen with, and its chain
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Let whoever can connect open sessions
    #[arg(long, conflicts_with_all = ["token_env", "client_ca"])]
    pub no_auth: bool,
    /// Listen beyond loopback without encryption, on a network that is trusted
    #[arg(long)]
    pub allow_insecure: bool,
    /// The address that callers write, where it is not the one that is listened on
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// How many sessions may run at once [default: 4]
    #[arg(long, value_name = "N")]
    pub max_sessions: Option<usize>,
    /// Close a session that nobody reads and nobody sends anything to for this long [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    pub silence: Option<Limit>,
    /// Where the agent works [default: a directory of its own for each session]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What it may do here without asking [default: everything in a directory of its own]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub permission: Option<Policy>,
}

#[derive(Debug, Args)]
pub struct Costs {
    /// Told apart by any of day, agent, adapter, model, with commas between
    #[arg(long, value_name = "NAMES", default_value = "day")]
    pub by: String,
    /// From this day on: 2026-11-01, or 7d for the last seven; days are those of UTC
    #[arg(long, value_name = "DAY")]
    pub since: Option<String>,
}

#[derive(Debug, Args)]
pub struct Quotas {
    #[command(subcommand)]
    pub what: Option<QuotasWhat>,
}

#[derive(Debug, Subcommand)]
pub enum QuotasWhat {
    /// Let runs start again in a scope, whatever its provider said
    Clear { scope: String },
}

#[derive(Debug, Subcommand)]
pub enum Agents {
    /// List who works here
    List {
        /// The retired ones too
        #[arg(long)]
        all: bool,
    },
    /// Show one of them with everything it was given
    Show(AgentName),
    /// Hire an agent onto an adapter
    Hire {
        name: String,
        #[command(flatten)]
        keys: AgentKeys,
    },
    /// Change a hired agent; what is not named stays
    Edit {
        name: String,
        #[command(flatten)]
        keys: AgentKeys,
    },
    /// Let it begin nothing new; what runs goes on
    Pause(AgentName),
    /// Let it work again
    Resume(AgentName),
    /// Let it go for good; its runs stay, and so does its name
    Retire(AgentName),
}

#[derive(Debug, Args)]
pub struct AgentName {
    pub name: String,
}

/// The keys of `agents.<name>` in ostler.json.
#[derive(Debug, Default, Args)]
pub struct AgentKeys {
    /// The adapter it works by, or a runtime such as `demo`
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    #[arg(long)]
    pub model: Option<String>,
    /// What it is asked; {{prompt}} is what a person says
    #[arg(long, value_name = "TEXT")]
    pub prompt_template: Option<String>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Where it works
    #[arg(long, value_name = "DIR", conflicts_with = "repository")]
    pub cwd: Option<PathBuf>,
    /// The repository that its workspaces are made from
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
    /// Whether it works there itself, or in a directory of its own
    #[arg(long, value_name = "WORD", value_parser = ["here", "worktree", "temporary"])]
    pub workspace: Option<String>,
    /// What it may do without asking
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub permission: Option<Policy>,
    /// Dollars in a window (run, day, month, lifetime), such as month=80; or day=200000tokens,
    /// run=40turns, day=90minutes, month=80% of the quota; may be said again
    #[arg(long = "budget", value_name = "WINDOW=MUCH")]
    pub budgets: Vec<String>,
    /// Who goes on with its tasks when it cannot: a name, or ADAPTER=MODEL; may be said again
    #[arg(long, value_name = "NAME")]
    pub fallback: Vec<String>,
    /// Its runs at once
    #[arg(long, value_name = "N")]
    pub concurrency: Option<u32>,
    /// The label of the quota it spends
    #[arg(long, value_name = "LABEL")]
    pub account: Option<String>,
    /// A skill it is given; may be said again
    #[arg(long = "skill", value_name = "NAME")]
    pub skills: Vec<String>,
    /// A relayed tool it is offered, instead of all; may be said again
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// Any key of an agent in ostler.json, with its value as JSON
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Take a key away
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// A file with such an object; flags count more
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Prices {
    /// List the prices that count, in dollars per million tokens
    List {
        /// Only models with this in their name
        #[arg(long, value_name = "PART")]
        model: Option<String>,
    },
    /// Import LiteLLM's model_prices_and_context_window.json or the api.json of models.dev
    Import { file: PathBuf },
}

#[derive(Debug, Subcommand)]
pub enum Conformance {
    /// Play every scene of the process protocol with a command that speaks JSON lines
    Process(Judged),
    /// Talk with a command that speaks ACP, scene by scene
    Acp(JudgedAcp),
    /// Open sessions of a server that speaks ca-http-v1, and see what comes of them
    Http(JudgedHttp),
}

#[derive(Debug, Args)]
pub struct JudgedAcp {
    /// What it is asked in every scene [default: a word, a count, or a file]
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Hand a variable of this environment on to it
    #[arg(long = "env", value_name = "NAME")]
    pub env: Vec<String>,
    #[command(flatten)]
    pub judged: Judged,
}

#[derive(Debug, Args)]
pub struct JudgedHttp {
    /// What it is asked in every session
    #[arg(long, value_name = "TEXT", default_value = "say hello")]
    pub prompt: String,
    /// The variable of this environment that holds the server's token
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// How long it may be quiet before that counts against it
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "30s")]
    pub patience: Limit,
    /// Where it listens, without /v1
    #[arg(last = true, required = true, value_name = "URL")]
    pub url: String,
}

#[derive(Debug, Args)]
pub struct Judged {
    /// How long it may be quiet before it is told to leave
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "60s")]
    pub patience: Limit,
    /// The command and its arguments; it works in a temporary directory
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum Configuration {
    /// Check the configuration and say what is wrong with it
    Check,
    /// Print its JSON Schema
    Schema,
    /// Print what is in force, without secrets
    Show,
}

/// `90s`, `10m`, `2h`, `500ms`, or `unlimited`.
pub fn limit(text: &str) -> Result<Limit, String> {
    if text == "unlimited" {
        return Ok(Limit::Unlimited);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1.0,
        "s" | "" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return Err("give a number and a unit: 500ms, 90s, 10m, 2h; or unlimited".to_owned()),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e9 => Ok(Limit::Ms((number * unit_ms) as u64)),
        _ => Err("give a number above 0 and a unit: 500ms, 90s, 10m, 2h; or unlimited".to_owned()),
    }
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.parse::<f64>() {
        _ if text == "unlimited" => Ok(Amount::Unlimited),
        Ok(amount) if amount > 0.0 && amount < 1e12 => Ok(Amount::Of(amount)),
        _ => Err("give a number above 0, or unlimited".to_owned()),
    }
}

fn review(text: &str) -> Result<contract::state::Review, String> {
    serde_json::from_value(text.into()).map_err(|_| "one of none, person".to_owned())
}

/// The same, and days.
fn days(text: &str) -> Result<Limit, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days.filter(|days| *days > 0) {
        Some(days) => Ok(Limit::Ms(u64::from(days) * 24 * 3_600_000)),
        None => {
            limit(text).map_err(|_| "give a number and a unit: 12h, 7d; or unlimited".to_owned())
        }
    }
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::from_word(text).ok_or_else(|| "one of viewer, operator, admin".to_owned())
}

fn policy(text: &str) -> Result<Policy, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "one of deny, ask, allow-reads, allow-all".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        let rows =
            [("500ms", 500), ("90s", 90_000), ("90", 90_000), ("1.5m", 90_000), ("2h", 7_200_000)];
        for (text, ms) in rows {
            assert_eq!(limit(text), Ok(Limit::Ms(ms)), "{text}");
        }
        assert_eq!(limit("unlimited"), Ok(Limit::Unlimited));
        for nonsense in ["", "0", "-1s", "5 d", "h", "1e9h"] {
            assert!(limit(nonsense).is_err(), "{nonsense}");
        }
    }
}
