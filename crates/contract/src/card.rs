//! What a runtime is and can do, as data. What it cannot do is absent from its card.

use crate::config::words::AdapterType;
use crate::money::Billing;
use crate::plan::Lane;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A runtime's card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    pub id: String,
    pub label: String,
    #[serde(default)]
    pub versions_recorded: Vec<String>,
    pub evidence: CardEvidence,
    #[serde(default)]
    pub requires: Vec<Requirement>,
    pub lanes: Vec<Lane>,
    /// Models that it is known to take; `models_source` says from where, and whether there are others.
    #[serde(default)]
    pub models: Vec<Model>,
    /// Where the models, the default and the context window are known from, and why one is absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub models_source: String,
    /// The model that it takes when none is named; absent when it has none of its own, or when that is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Tokens that the default model holds, or the model that `models_source` names; absent when that
    /// depends on the model or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// How the program tells its models by itself; absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_list: Option<ModelList>,
    pub reports: Reports,
    pub can: Can,
    /// Names of the environment that this runtime needs beyond the common allowlist.
    #[serde(default)]
    pub env: Vec<String>,
    /// More names, for a way of reaching its models that a variable switches on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_modes: Vec<EnvMode>,
    /// Files of the user's own in which the runtime looks for names of variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_files: Vec<EnvFile>,
    pub retries: Retries,
    /// What counts as evidence that the agent meant to end.
    pub closing: String,
    /// For each policy and lane: the flags it becomes, or why it is not possible.
    pub policies: Vec<PolicyRow>,
    /// How skills are put where it finds them; absent when it has no way of its own, and then they
    /// are named in the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Skills>,
    /// How to find out whether a user is logged in; absent if no login is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
    /// A greeting that costs nothing and shows that the program really talks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Handshake>,
    /// Reasons for it, one per line, the most important first.
    pub use_when: String,
    /// Reasons against it, one per line, the most important first.
    pub dont_use_when: String,
    /// The keys that its adapter takes in `ostler.json`: its own, and in `GET /api/v1/runtimes/{id}` and
    /// `ostler runtimes NAME` the common ones too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_schema: BTreeMap<String, serde_json::Value>,
}

impl Card {
    /// Whether it can only be used through an adapter of the configuration, which names its program or
    /// its address.
    pub fn needs_adapter(&self) -> bool {
        self.requires.is_empty()
            && self.config_schema.contains_key(match self.kind() {
                AdapterType::Http => "baseUrl",
                AdapterType::Process | AdapterType::Cli | AdapterType::Acp => "binary",
            })
    }

    /// The `type` of an adapter that uses it.
    pub fn kind(&self) -> AdapterType {
        match self.lanes.first() {
            // The demo speaks by lines too, and its program is this one.
            Some(Lane::Process) if self.config_schema.contains_key("binary") => {
                AdapterType::Process
            }
            Some(Lane::Http) => AdapterType::Http,
            Some(Lane::Acp) => AdapterType::Acp,
            Some(Lane::Native | Lane::Process) | None => AdapterType::Cli,
        }
    }

    /// The most important reason for it.
    pub fn use_when_short(&self) -> &str {
        self.use_when.lines().next().unwrap_or_default()
    }

    /// The most important reason against it.
    pub fn dont_use_when_short(&self) -> &str {
        self.dont_use_when.lines().next().unwrap_or_default()
    }

    /// The names that the runtime needs: its own, and those of each mode that is switched on.
    pub fn env_names<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> Vec<&str> {
        let modes = self.env_modes.iter().filter(|mode| mode.is_on(&value));
        self.env.iter().chain(modes.flat_map(|mode| &mode.env)).map(String::as_str).collect()
    }

    /// How the account is paid for, as far as that is known before the start: by the kind of login that
    /// the runtime's own setting names, by a variable of a key or a cloud, else by what the login is.
    pub fn billing<'v>(
        &self,
        value: impl Fn(&str) -> Option<&'v str>,
        login_kind: Option<&str>,
    ) -> Option<Billing> {
        let login = self.login.as_ref()?;
        let kinds = login.billing_file.as_ref().map(|file| &file.kinds);
        if let Some(billing) = login_kind.and_then(|kind| kinds?.get(kind)) {
            return Some(*billing);
        }
        let is_set = |name: &String| value(name).is_some_and(|value| !value.trim().is_empty());
        if login.billed.iter().any(is_set) || self.env_modes.iter().any(|mode| mode.is_on(&value)) {
            return Some(Billing::Metered);
        }
        login.billing
    }

    /// Whether a policy can be kept on a lane.
    pub fn keeps(&self, lane: Lane, policy: Policy) -> bool {
        let mut rows = self.policies.iter();
        rows.any(|row| row.lane == lane && row.policy == policy && row.flags.is_some())
    }

    /// The first lane on which a policy can be kept.
    pub fn lane_for(&self, policy: Policy) -> Option<Lane> {
        self.lanes.iter().copied().find(|lane| self.keeps(*lane, policy))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CardEvidence {
    Recorded,
    Documented,
}

/// Variables that a runtime needs only in one mode, such as those of a cloud that serves its models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvMode {
    /// The name of the mode, for people.
    pub label: String,
    /// The variable that switches it on; empty, `0` and `false` are off.
    pub switch: String,
    /// The names it needs; one that ends in `*` stands for every name that begins so.
    pub env: Vec<String>,
}

impl EnvMode {
    pub fn new(label: &str, switch: &str, env: &[&str]) -> Self {
        let env = env.iter().map(|name| (*name).to_owned()).collect();
        Self { label: label.to_owned(), switch: switch.to_owned(), env }
    }

    /// Whether the mode is switched on.
    pub fn is_on<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        let switch = value(&self.switch).map(str::trim).unwrap_or_default();
        !switch.is_empty() && switch != "0" && !switch.eq_ignore_ascii_case("false")
    }
}

/// A configuration file of the runtime that names variables, such as the one with a provider's key.
/// Never a file of the workspace: a repository must not choose which secrets an agent gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvFile {
    /// The file: `~` is the home directory, and `${NAME:-~/else}` a path that the variable moves.
    pub path: String,
    pub form: EnvForm,
    /// The keys whose values are names of variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

impl EnvFile {
    pub fn toml(path: &str, keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Self { path: path.to_owned(), form: EnvForm::TomlKeys, keys }
    }

    pub fn braces(path: &str) -> Self {
        Self { path: path.to_owned(), form: EnvForm::Braces, keys: Vec::new() }
    }
}

/// How a configuration file names a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvForm {
    /// As the value of one of the keys, in TOML.
    TomlKeys,
    /// As `{env:NAME}`, anywhere.
    Braces,
}

/// A program that must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    pub binary: String,
    pub version_args: Vec<String>,
    pub install_hint: String,
}

/// Signs of a login that can be seen without reading a secret: a variable that is set, a file that
/// is there. They can be out of date, so their absence is a warning and never an error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Login {
    /// Any of these variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Any of these files: `~` is the home directory, and `${NAME:-~/else}` a directory that the
    /// variable moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Those variables that are billed by use, whatever subscription there is too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub billed: Vec<String>,
    /// How a login is paid for, where none of `billed` is set and the runtime itself does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
    /// The setting of the runtime that says which kind of login it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing_file: Option<BillingFile>,
    /// How to log in.
    pub hint: String,
}

/// A setting that names the kind of login, and how each kind is paid for. Never a file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BillingFile {
    /// A JSON file: `~` is the home directory.
    pub path: String,
    /// JSON pointers to the setting, of which the first one that is found counts.
    pub pointers: Vec<String>,
    pub kinds: BTreeMap<String, Billing>,
}

impl Login {
    /// A login that any of these variables or files is a sign of.
    pub fn seen_by(env: &[&str], files: &[&str], hint: &str) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { env: owned(env), files: owned(files), hint: hint.to_owned(), ..Self::default() }
    }

    /// The same, with the variables that are billed by use.
    pub fn billed_by(mut self, names: &[&str]) -> Self {
        self.billed = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// The same, with how a login without such a variable is paid for.
    pub fn paid_by(mut self, billing: Billing) -> Self {
        self.billing = Some(billing);
        self
    }
}

/// A line that is said to the program and the place of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handshake {
    pub args: Vec<String>,
    pub say: String,
    /// A JSON pointer that only the answer has.
    pub answer: String,
    /// A request with the id 1 that is sent after the answer and opens a session, for runtimes whose
    /// sessions tell which policies they can keep. `{{cwd}}` is replaced by a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// How a runtime comes to see the skills of a run. None of these writes into the working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Skills {
    /// A directory of the attempt's own is named by a flag, and the skills lie in `subdir` of it.
    AddDir {
        flag: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        subdir: String,
        /// Whether it looks there also when it is kept from its project's context.
        isolated: Seen,
    },
    /// A directory of the attempt's own is named by this setting, which the plan itself writes.
    Setting { key: String },
    /// Links in a directory that the person and other runs use too: `~` is the home directory, and
    /// `${NAME:-~/else}` a directory that the variable moves.
    HomeLinks { dir: String },
    /// Name, description and path of each are written into the prompt; the flag, where there is one,
    /// lets the agent read their directory.
    Prompt {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flag: Option<String>,
    },
}

/// Whether an agent finds by itself what was put there for it; where it does not, it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    ByItself,
    InThePrompt,
}

/// How a program tells which models it can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum ModelList {
    /// These arguments make it print one model per line.
    Command { args: Vec<String>, column: ModelColumn },
    /// The answer to its ACP `session/new` names them.
    Session,
    /// The answer to this request names them; it is said after the greeting of its card and the
    /// notification `initialized`.
    Request { say: String },
}

/// Where on a line a model stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelColumn {
    /// The line is the id.
    Line,
    /// A table with a head: the provider and the model in the first two columns.
    ProviderModel,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    pub id: String,
    pub label: String,
}

/// What the runtime tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reports {
    pub tokens: bool,
    /// When it tells what it spent: a budget of dollars or tokens is held by this.
    #[serde(default)]
    pub usage: Told,
    /// When it tells that its model answered: a budget of turns is held by this.
    #[serde(default)]
    pub answers: Told,
    pub dollars: Dollars,
    pub quota: bool,
    pub activity: bool,
}

/// When a runtime tells a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// With each answer of the model.
    PerAnswer,
    /// When its only turn ends, which is too late for a budget.
    AtTurnEnd,
    /// The protocol has a place for it, and each agent uses that or does not.
    ByAgent,
    #[default]
    Never,
}

/// Whether the runtime's own dollars are taken as the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dollars {
    None,
    Shown,
    Trusted,
}

/// What can be done with the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Can {
    pub resume: bool,
    pub interrupt: bool,
    pub message: bool,
    pub permissions: bool,
    pub compaction: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    pub mcp: Mcp,
    pub api: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SystemPrompt {
    Flag,
    File,
    Prepend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mcp {
    Http,
    Stdio,
    None,
}

/// How the runtime behaves when its provider limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retries {
    Bounded,
    Unbounded,
    Silent,
}

/// What an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    Deny,
    Ask,
    AllowReads,
    AllowAll,
}

impl Policy {
    /// As it is written in configuration and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::AllowReads => "allow-reads",
            Self::AllowAll => "allow-all",
        }
    }
}

/// One cell of the policy matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRow {
    pub policy: Policy,
    pub lane: Lane,
    /// The flags the policy becomes; absent when it is not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
