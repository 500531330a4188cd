//! How an attempt will be launched, as data: doctor prints it, a snapshot compares it, and its
//! sealed form is stored before the spawn. Made by `runtimes`, completed and carried out by `host`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The way an adapter is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    Native,
    Acp,
    Process,
    Http,
}

/// What to start and how to talk to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchPlan {
    pub lane: Lane,
    /// A name to be found on PATH, or a path.
    pub program: String,
    pub args: Vec<String>,
    /// What the adapter adds to the environment of the agent.
    pub env: Vec<EnvEntry>,
    pub stdin: StdinMode,
    pub framing: Framing,
    /// Names of environment variables whose values the seal must know.
    pub secrets: Vec<String>,
    /// Written for this attempt only, readable only by its owner, and removed after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PlanFile>,
    /// Skills, and where the agent finds each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// How long this agent is known to live on after its end, where that is longer than usual; what
    /// the configuration says comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
}

/// A file that an agent is given beside its workspace: a long prompt, a list of MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanFile {
    /// A bare name in the attempt's own directory of files.
    pub name: String,
    pub text: String,
}

/// A skill that an attempt is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    pub skill: String,
    /// The directory in which the skill's own directory is put.
    pub into: String,
    pub held: Held,
}

/// How long a mounted skill stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// A copy for this attempt alone, gone with its other files.
    Attempt,
    /// A link in a directory of the person's, which stays while any run uses it.
    Shared,
}

/// A skill that is wanted, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    pub name: String,
    /// Its invocation is written into the prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

/// One variable and where its value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvEntry {
    pub name: String,
    pub source: EnvSource,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum EnvSource {
    /// Taken over from the caller's environment when it is set there: the common allowlist.
    Allowlist,
    /// The same, asked for by the runtime's card.
    Card,
    /// The same, asked for by `envPassthrough`.
    Passthrough,
    /// The same, asked for by `--env`; its value may be that of the command line.
    Flag,
    /// Set by the runtime's own plan.
    Runtime { value: String },
    /// A value of the configuration, its placeholders and `${NAME}` already resolved.
    Config { value: String },
}

/// What the agent's standard input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    Events,
    Prompt,
    Jsonrpc,
    StreamJson,
    None,
}

/// How bytes become frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    Lines,
    Sse,
}

/// A configured runtime: everything a plan is made from that does not change from run to run.
/// `cli` reads it from `ostler.json`; a client hands it to the host with the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The name it is configured under.
    pub name: String,
    /// The registry id of the runtime that plans and hears it: `process` for any command that
    /// speaks JSON lines.
    pub runtime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub env_passthrough: Vec<String>,
    /// Names of variables that `--env` gives to this run alone. Their values are in the environment
    /// of the request, so that none of them is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_flags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models to ask for when the agent does not take the wanted one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// By what an agent that speaks ACP says that a turn is over; absent is its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_end: Option<TurnEnd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model: Option<String>,
    /// How the use of its account is paid for; absent is what is found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<crate::Billing>,
    #[serde(default)]
    pub env_compat: Vec<String>,
    #[serde(default)]
    pub clocks: Clocks,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes_max: Option<u64>,
    /// How many runs of it there may be at once; the next ones wait for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<crate::Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Arguments after those of the runtime's own plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_context: Option<ProjectContext>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneChoice>,
    /// The agent described in data, for a program without a runtime of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<crate::mapping::Mapping>,
    /// How the provider's quota is learned; absent is `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaSource>,
    /// After how much a conversation is begun afresh; absent is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// Whether the sealed raw output is kept with the run.
    #[serde(default = "yes")]
    pub trace: bool,
    /// Whether the relay is offered to the agent.
    #[serde(default = "yes")]
    pub mcp: bool,
    /// MCP servers whose tools are offered beside our own, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The skills that the agent is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// The directory in which the person keeps skills, besides those that are shipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills_dir: Option<String>,
    /// Where the agent is, when it is not a program of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
}

/// What stands between the name of an MCP server and that of its tool, as agents see them.
pub const MCP_TOOL_SEPARATOR: &str = "__";

/// An agent that is reached by HTTP: where it is, what it speaks and how Ostler shows who it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    pub base_url: String,
    #[serde(default)]
    pub protocol: RemoteProtocol,
    #[serde(default)]
    pub auth: RemoteAuth,
    /// The authority that vouches for the remote, where that is not one of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_path: Option<String>,
    /// A token may cross the network in the clear.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_insecure: bool,
}

/// What a remote speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum RemoteProtocol {
    #[default]
    #[serde(rename = "ca-http-v1")]
    CaHttpV1,
    #[serde(rename = "hermes-runs-v1")]
    HermesRunsV1,
    #[serde(rename = "webhook-v1")]
    WebhookV1,
}

impl RemoteProtocol {
    pub const ALL: [Self; 3] = [Self::CaHttpV1, Self::HermesRunsV1, Self::WebhookV1];

    pub const fn word(self) -> &'static str {
        match self {
            Self::CaHttpV1 => "ca-http-v1",
            Self::HermesRunsV1 => "hermes-runs-v1",
            Self::WebhookV1 => "webhook-v1",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.word() == word)
    }
}

/// The variable in which a courier gets the token of a file.
pub const FILE_TOKEN_ENV: &str = "OSTLER_REMOTE_TOKEN";

/// How Ostler shows a remote who it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RemoteAuth {
    #[default]
    None,
    /// A token, by the name of the variable that holds it. With a file, the variable is filled from it when
    /// a session begins.
    Bearer {
        token_env: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_file: Option<String>,
    },
    /// A certificate of its own, with its key.
    Mtls { cert_path: String, key_path: String },
}

impl RemoteAuth {
    /// The variable that holds a secret, if one does.
    pub fn token_env(&self) -> Option<&str> {
        match self {
            Self::Bearer { token_env, .. } => Some(token_env),
            Self::None | Self::Mtls { .. } => None,
        }
    }

    /// The file that a token is read from when a session begins.
    pub fn token_file(&self) -> Option<&str> {
        match self {
            Self::Bearer { token_file, .. } => token_file.as_deref(),
            Self::None | Self::Mtls { .. } => None,
        }
    }
}

/// Whether an agent reads what the project and its owner keep for it: instructions, settings, hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectContext {
    Load,
    Isolate,
}

/// What says that a turn over ACP is over: the reply to its prompt alone, as the protocol has it, or
/// an update of the kind `turn_end` as well, for agents that never reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    Reply,
    Update,
}

/// Which lane drives a runtime that has several; `auto` takes the one that can keep the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaneChoice {
    Auto,
    Native,
    Acp,
}

/// How the quota of an account is learned: from what the agent tells, or by asking its provider with
/// the agent's own login as well; `off` keeps neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuotaSource {
    Auto,
    Oauth,
    Off,
}

/// After how much a conversation of the agent's own is not gone on with any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rotation {
    Off,
    /// Whichever comes first; what is absent or zero is the default.
    #[schemars(with = "RotationAfter")]
    After {
        runs: Option<u32>,
        hours: Option<u32>,
    },
}

/// When a conversation is begun anew.
// A type of its own, so that schemas name it: generators of clients make up names, even one twice.
#[derive(JsonSchema)]
pub struct RotationAfter {
    pub runs: Option<u32>,
    pub hours: Option<u32>,
}

/// An MCP server: a command, or an address. `${NAME}` stands for the caller's variables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

/// How long things may take. A time that is absent has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Clocks {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_output: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<u64>,
}

impl Clocks {
    /// `self` where it says something, `under` elsewhere: flag beats agent beats adapter.
    pub fn over(self, under: Self) -> Self {
        Self {
            wall: self.wall.or(under.wall),
            silence: self.silence.or(under.silence),
            first_output: self.first_output.or(under.first_output),
            term_ms: self.term_ms.or(under.term_ms),
            linger_ms: self.linger_ms.or(under.linger_ms),
            ask_ms: self.ask_ms.or(under.ask_ms),
            patience_ms: self.patience_ms.or(under.patience_ms),
        }
    }
}

/// A time limit, or the word that says there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Ms(u64),
    Unlimited,
}

impl Limit {
    /// Reads `500ms`, `90s`, `10m`, `2h` or `unlimited`. A number without a unit is seconds.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "unlimited" {
            return Some(Self::Unlimited);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "ms" => 1.0,
            "s" | "" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        let number = number.parse::<f64>().ok().filter(|number| *number > 0.0 && *number < 1e9)?;
        Some(Self::Ms((number * unit_ms) as u64))
    }

    /// The limit in milliseconds; `None` when there is none.
    pub const fn ms(self) -> Option<u64> {
        match self {
            Self::Ms(ms) => Some(ms),
            Self::Unlimited => None,
        }
    }
}
