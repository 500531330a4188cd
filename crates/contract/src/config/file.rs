//! The shape of `ostler.json`, as it is written: one struct per object, camelCase, every key with
//! the sentence that `ostler config schema` prints. The schema made from these structs is also what
//! a file is checked against (`crates/cli/src/config/read.rs`), so a key exists here or nowhere.
//! Nothing is resolved here: see `crates/cli/src/config/resolve.rs`.

use super::words::*;
use crate::Policy;
use crate::mapping::Mapping;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    /// Where an editor finds the schema of this file; Ostler does not read it.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Configured runtimes, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub adapters: BTreeMap<String, Adapter>,
    /// Workers that use an adapter, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, Agent>,
    /// The agent, adapter or runtime that `ostler run "prompt"` uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// Names of variables that every agent gets from your environment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_passthrough: Vec<String>,
    /// MCP servers whose tools are offered to every agent, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// What may be spent, by window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// How often a failed task is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Prices by `provider/model`, in dollars per million tokens.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
    /// Whom to tell when a run ends or a question waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// How `ostler serve` listens and what it keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// The name under which runs and spending are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
}

/// A configured runtime. Which keys it takes depends on its `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = keys_by_type)]
pub struct Adapter {
    /// How the agent is driven.
    #[serde(rename = "type")]
    pub kind: AdapterType,

    /// The program: a name to be found on PATH, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// Its arguments; `{{placeholders}}` and `${NAME}` are filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// What the agent speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,

    /// The runtime's id in the registry; the adapter's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Arguments added to those the runtime needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    /// Whether the agent reads the project's own instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_context: Option<ProjectContext>,
    /// The lane; `auto` takes the one that can keep the permission policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneChoice>,
    /// A CLI that prints JSON lines, described in data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,

    /// Arguments that make the program print its version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version_args: Vec<String>,
    /// Models to try when the wanted one is not known; `default` is the agent's own choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<FallbackModel>,
    /// The id it is shown under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name it is shown under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// By what it says that a turn is over: its reply, or an update as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_end: Option<TurnEnd>,
    /// How its stream is framed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_format: Option<String>,

    /// Where the remote listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// How Ostler shows who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Runs at once on this remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_sessions: Option<u32>,
    /// Allow a bearer token over plain HTTP to another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_insecure: Option<bool>,

    /// Variables set for the agent; values may hold `${NAME}` and `{{placeholders}}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of variables that the agent gets from your environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_passthrough: Vec<String>,
    /// The model to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The `provider/model` whose price is used when the agent's own model is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model: Option<String>,
    /// How the account is paid for; without it, what the runtime or its login tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
    /// Wall time of a run; 0 is the default of two hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<Patience>,
    /// From SIGTERM to SIGKILL; 0 is the default of 15 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_sec: Option<Seconds>,
    /// Silence that ends a run; 0 is the default of ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_sec: Option<Patience>,
    /// Time to the first byte; 0 is the default of five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_output_sec: Option<Patience>,
    /// Output of a run; 0 is the default of 512 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Runs of this adapter at once; 0 is no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// What the agent may do without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Policy>,
    /// The label of the quota it spends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Skills mounted for the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// Whether the relay's tools are offered over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<AutoOff>,
    /// Whether the sealed raw output is kept with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<OnOff>,
    /// Other products whose variable names are set too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_compat: Vec<EnvCompat>,
    /// How the provider's quota is learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How long a permission question waits; 0 is the default of ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_timeout_sec: Option<Seconds>,
    /// How long a rate limit may last; 0 is the default of five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_sec: Option<Seconds>,
    /// How long the process may stay after its result; 0 is the default of five seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_sec: Option<Seconds>,
    /// After how much a native session is begun afresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
}

/// A worker that uses an adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// The name of an adapter, or of a runtime in the registry.
    pub adapter: String,
    /// The model to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the agent is asked; `{{prompt}}` is what the person said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<String>,
    /// What it is told before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The directory it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The repository its workspace is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// What it may do without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Policy>,
    /// What it may spend, by window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// Who takes over when its quota is used up, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    /// The relayed tools it is offered; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Skills mounted for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// The label of the quota it spends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Names of variables that it gets from your environment, besides those of its adapter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_passthrough: Vec<String>,
}

/// Another agent, or another adapter with perhaps another model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fallback {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// An MCP server: a command, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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
    /// The login at a server with an address (`ostler mcp login`). Absent, everything is discovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpLogin>,
}

/// How `ostler mcp login` logs in at an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpLogin {
    /// A client that was registered by hand, where the authorization server registers none by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// `${NAME}` stands for a variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// An https address at which a document describes this client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// Asked for in place of what the server suggests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The loopback port of the redirect address, where a registered client has a fixed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
}

/// What may be spent in a window. A unit that is absent has no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    pub window: Window,
    #[schemars(range(min = 0.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[schemars(range(min = 0.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<f64>,
    /// The share of the provider's own quota.
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_percent: Option<f64>,
    /// Start also where the runtime does not tell in time what this limits; for the window `run`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Times a task is tried again by itself.
    pub max: u32,
}

/// Dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    #[schemars(range(min = 0.0))]
    pub input: f64,
    #[schemars(range(min = 0.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[schemars(range(min = 0.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    #[schemars(range(min = 0.0))]
    pub output: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// A program and its arguments; it is given the event as JSON on its standard input.
    pub command: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Server {
    /// The address to listen on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Listen beyond loopback without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_insecure: Option<bool>,
    /// How long a lease is good for; 0 is the default of five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_sec: Option<Seconds>,
    /// Whether what agents show of their work is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    /// The address others reach this server at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The path of the certificate.
    pub cert: String,
    /// The path of its private key.
    pub key: String,
}

/// The operator log of `serve`, `remote` and the background host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// off, error, warn, info, debug or trace, or by component such as info,store=debug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<LogFormat>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    #[schemars(range(min = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigabytes: Option<f64>,
}

/// How Ostler shows a remote who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Auth {
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// The variable that holds the bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// The file that holds the bearer token, instead of a variable: it is read by each session, so that a
    /// new token counts without a restart. Only its owner may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    pub source: QuotaSource,
}

/// A skill by its name, or with its invocation written into the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Skill {
    Named(String),
    Marked(MarkedSkill),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkedSkill {
    pub name: String,
    #[serde(default)]
    pub always: bool,
}

/// A model by its id, or with the label it is shown under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FallbackModel {
    Id(String),
    Labelled(LabelledModel),
}

impl FallbackModel {
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Labelled(model) => &model.id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelledModel {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// When a native session is begun afresh, or the word `off`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Rotation {
    Off(Off),
    After(RotateAfter),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateAfter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<u32>,
}

impl AdapterType {
    pub const ALL: [Self; 4] = [Self::Process, Self::Cli, Self::Acp, Self::Http];

    /// The keys that only this type takes, besides `type` and the common ones.
    pub const fn own_keys(self) -> &'static [&'static str] {
        match self {
            Self::Process => &["binary", "args", "protocol"],
            Self::Cli => &["runtime", "binary", "extraArgs", "projectContext", "lane", "mapping"],
            Self::Acp => &[
                "binary",
                "args",
                "versionArgs",
                "fallbackModels",
                "id",
                "name",
                "turnEnd",
                "streamFormat",
            ],
            Self::Http => {
                &["baseUrl", "auth", "protocol", "maxConcurrentSessions", "allowInsecure"]
            }
        }
    }

    /// The keys without which this type cannot be driven.
    pub const fn required_keys(self) -> &'static [&'static str] {
        match self {
            Self::Process | Self::Acp => &["binary"],
            Self::Cli => &[],
            Self::Http => &["baseUrl"],
        }
    }

    /// Whether some type takes `key` and this one does not.
    pub fn refuses(self, key: &str) -> bool {
        !self.own_keys().contains(&key) && Self::ALL.iter().any(|t| t.own_keys().contains(&key))
    }
}

/// Says in the schema what `refuses` and `required_keys` say in code.
fn keys_by_type(schema: &mut Schema) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let names: Vec<String> = properties.keys().cloned().collect();
    let rules: Vec<Value> = AdapterType::ALL
        .iter()
        .map(|kind| {
            let taken: Vec<_> = names.iter().filter(|name| !kind.refuses(name)).collect();
            serde_json::json!({
                "if": { "properties": { "type": { "const": kind.word() } } },
                "then": { "propertyNames": { "enum": taken }, "required": kind.required_keys() },
            })
        })
        .collect();
    schema.insert("allOf".to_owned(), Value::Array(rules));
}
