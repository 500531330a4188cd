//! The arguments for authors of agents: `conformance`, `record`; and of the internal `courier`.

use super::values::{limit, usd};
use clap::{Args, Subcommand};
use contract::NanoUsd;
use contract::plan::Limit;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Conformance {
    /// Test a command that speaks JSON lines, scene by scene
    Process(Judged),
    /// Test a command that speaks ACP, scene by scene
    Acp(JudgedAcp),
    /// Test a server that speaks ca-http-v1
    Http(JudgedHttp),
    /// Test an agent of the configuration by real runs, whatever its lane
    Agent(JudgedAgent),
}

#[derive(Debug, Args)]
pub struct JudgedAgent {
    /// First prompt [default: asks for a code word of the system prompt]
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Dollars that one run may spend, as far as the agent reports them
    #[arg(long, value_name = "USD", value_parser = usd, default_value = "0.50")]
    pub budget_usd: NanoUsd,
    /// Time that one run may take: 90s, 5m
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "5m")]
    pub timeout: Limit,
    /// An agent, an adapter or a runtime
    #[arg(value_name = "NAME")]
    pub agent: String,
}

#[derive(Debug, Args)]
pub struct JudgedAcp {
    /// Prompt of every scene [default: a word, a count, or a file]
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Environment variable to pass to the command; repeatable
    #[arg(long = "env", value_name = "NAME")]
    pub env: Vec<String>,
    #[command(flatten)]
    pub judged: Judged,
}

#[derive(Debug, Args)]
pub struct JudgedHttp {
    /// Prompt of every session
    #[arg(long, value_name = "TEXT", default_value = "say hello")]
    pub prompt: String,
    /// Environment variable that holds the server's token
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// Time without output after which the server fails the test
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "30s")]
    pub patience: Limit,
    /// Address of the server, without /v1
    #[arg(value_name = "URL")]
    pub url: String,
}

#[derive(Debug, Args)]
pub struct Judged {
    /// Time without output after which the command is stopped
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "60s")]
    pub patience: Limit,
    /// The command and its arguments; it works in a temporary directory
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Record {
    /// Directory for the recording [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Name of the scenario, used for the file names
    #[arg(long, value_name = "NAME", default_value = "recording")]
    pub name: String,
    /// Stop the command after this time: 90s, 10m, 2h or unlimited
    #[arg(long, value_name = "DURATION", value_parser = limit, default_value = "10m")]
    pub timeout: Limit,
    /// The program and its arguments; standard input is passed on
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
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
