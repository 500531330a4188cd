//! The arguments of the commands that serve: `serve`, `remote` and `token`.

use super::values::{days, limit, policy, scope};
use crate::operator_log::LogFlags;
use clap::{Args, Subcommand};
use contract::plan::Limit;
use contract::{Policy, Scope};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on [default: the configuration's, or 127.0.0.1:7717]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    #[command(flatten)]
    pub log: LogFlags,
    /// Print a single-use link that signs a browser in
    // Hidden until there is a page for a browser to show.
    #[arg(long, hide = true)]
    pub sign_in: bool,
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Create a token; it is printed once
    Add {
        /// Name of the token
        #[arg(long, value_name = "NAME")]
        name: String,
        /// viewer reads, operator starts and answers, admin does everything
        #[arg(long, value_name = "SCOPE", value_parser = scope)]
        scope: Scope,
        /// Lifetime: 12h, 7d or unlimited
        #[arg(long, value_name = "DURATION", value_parser = days, default_value = "unlimited")]
        expires: Limit,
    },
    /// List the valid tokens
    List,
    /// Revoke a token
    Revoke {
        /// Name of the token, or a unique suffix of its ID
        token: String,
    },
    /// Print a single-use link that signs a browser in
    // Hidden until there is a page for a browser to show.
    #[command(hide = true)]
    Link {
        /// What the browser may do: viewer, operator or admin
        #[arg(long, value_name = "SCOPE", value_parser = scope, default_value = "admin")]
        scope: Scope,
    },
}

#[derive(Debug, Args)]
pub struct Remote {
    /// Agent to serve: a runtime such as `claude`, or a name from ostler.json
    #[arg(long, value_name = "AGENT")]
    pub agent: String,
    /// Address to listen on [default: 127.0.0.1:7718]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Environment variable that holds the token which callers must send
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// Accept callers with a certificate of this authority
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    pub client_ca: Option<PathBuf>,
    /// Name that a caller's certificate must have [default: any that the authority issued]
    #[arg(long, value_name = "NAME", requires = "client_ca")]
    pub client_name: Option<String>,
    /// TLS certificate and its chain
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Accept every caller that can connect
    #[arg(long, conflicts_with_all = ["token_env", "client_ca"])]
    pub no_auth: bool,
    /// Listen beyond loopback without encryption, on a trusted network
    #[arg(long)]
    pub allow_insecure: bool,
    /// Address that callers use, if it differs from the one to listen on
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Maximum number of sessions at once [default: 4]
    #[arg(long, value_name = "N")]
    pub max_sessions: Option<usize>,
    /// Close a session without any traffic after this time [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    pub silence: Option<Limit>,
    /// Working directory of the agent [default: a new directory for each session]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What the agent may do without asking: deny, ask, allow-reads or allow-all [default:
    /// allow-all in a new directory]
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub permission: Option<Policy>,
    #[command(flatten)]
    pub log: LogFlags,
}
