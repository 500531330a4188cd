//! A command-line agent that prints JSON lines, described in data: how it is started, and what its
//! lines mean. People write this in `ostler.json` (`adapters.<name>.mapping`), a client hands it to
//! the host with the run, and it is kept with the run's conversation, so its names are stable.
//! Shapes only: what paths, rules and placeholders mean, and whether they are right, is known to
//! `runtimes::mapped`. The page for people is `docs/protocols/mapped.md`.

use crate::Code;
use crate::card::Policy;
use crate::event::StopReason;
use crate::money::Basis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole mapping.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Mapping {
    /// What the agent is called; the adapter's name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The arguments of every run; `{{placeholders}}` and `${NAME}` are filled in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Arguments that follow when there is something to say by them.
    #[serde(skip_serializing_if = "With::is_empty")]
    pub with: With,
    /// How the prompt reaches the agent.
    pub prompt: PromptBy,
    /// The arguments that hold the agent to each policy; a policy that is absent is not possible.
    pub policies: Policies,
    /// Who makes its models, when that is always the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What its tools do, by their names.
    #[serde(skip_serializing_if = "Tools::is_empty")]
    pub tools: Tools,
    /// How its errors are told apart.
    #[serde(skip_serializing_if = "Errors::is_empty")]
    pub errors: Errors,
    /// What is said when a code is `provider_quota`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Window>,
    /// What its lines mean: every rule that fits a line is applied, in this order.
    pub rules: Vec<Rule>,
    /// What its exit means.
    #[serde(skip_serializing_if = "Exit::is_empty")]
    pub exit: Exit,
}

/// Arguments for what a run may have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingWith")]
pub struct With {
    /// When a model is named: `["--model", "{{model}}"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<String>,
    /// When a conversation is taken up again: `["--resume", "{{session}}"]`. Without it none can be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub session: Vec<String>,
    /// When there is a system prompt, as `{{systemPrompt}}` or in the file `{{systemPromptFile}}`.
    /// Without it the system prompt goes before the prompt, between marks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_prompt: Vec<String>,
    /// When `projectContext` is `isolate`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolate: Vec<String>,
}

impl With {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the prompt reaches the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PromptBy {
    /// On standard input, which is closed behind it.
    #[default]
    Stdin,
    /// In the arguments, as `{{prompt}}`; standard input is empty.
    Argument,
    /// In a file of the run, which the arguments name as `{{promptFile}}`; standard input is empty.
    File,
}

/// The arguments of each policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(rename = "MappingPolicies")]
pub struct Policies {
    /// Nothing may be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    /// Only what reads may be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_reads: Option<Vec<String>>,
    /// Dangerous: everything may be done unasked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_all: Option<Vec<String>>,
}

impl Policies {
    /// The arguments of one policy. Nobody can be asked through lines that only come.
    pub fn of(&self, policy: Policy) -> Option<&Vec<String>> {
        match policy {
            Policy::Deny => self.deny.as_ref(),
            Policy::Ask => None,
            Policy::AllowReads => self.allow_reads.as_ref(),
            Policy::AllowAll => self.allow_all.as_ref(),
        }
    }
}

/// What tools do. Paths here begin in the input of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingTools")]
pub struct Tools {
    /// What a call is titled with: the first of these that is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub title: Vec<String>,
    /// The file a call is about: the first of these that is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub location: Vec<String>,
    /// The kind of each tool: `read`, `search`, `edit`, `execute`, `fetch`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, String>,
    /// What each tool changes when it succeeds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<String, Change>,
    /// The tools that write down a plan.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plans: BTreeMap<String, Steps>,
}

impl Tools {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A file that a tool changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MappingChange")]
pub struct Change {
    /// The path of the file.
    pub path: String,
    /// A list of changes; `old` and `new` begin in each of them, or in the input when it is not
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// The text that was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The text that is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// The steps of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MappingSteps")]
pub struct Steps {
    /// The list of steps.
    pub each: String,
    /// What a step is, in the step.
    pub text: String,
    /// How it stands, in the step; `pending` when it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// How errors are told apart, before the words and statuses that all providers share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingErrors")]
pub struct Errors {
    /// The first of these whose words are in a message gives its code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Words>,
    /// Marks in a message after which its HTTP status stands; an empty one is the beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status_after: Vec<String>,
}

impl Errors {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Words, in any case, and the code they mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MappingWords")]
pub struct Words {
    pub says: String,
    pub code: Code,
}

/// A window of the provider's quota that is told of only when nothing is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MappingWindow")]
pub struct Window {
    pub window: String,
}

/// What some lines mean. A rule with nothing but `when` and `ignore` knows a line that says nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingRule")]
pub struct Rule {
    /// Which stream the line is read on.
    #[serde(skip_serializing_if = "On::is_stdout")]
    pub on: On,
    /// By path: what must be there. All of it must hold.
    pub when: BTreeMap<String, Test>,
    /// A list, or an object: the rule is applied to each of its members, and its paths begin there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// With `each`: the same as `when`, asked of a member.
    #[serde(rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub member: BTreeMap<String, Test>,

    /// The line is known and says nothing new.
    #[serde(skip_serializing_if = "is_false")]
    pub ignore: bool,
    /// The line is kept as a `log` of this level; an empty word is a log without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The agent names its own conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// The conversation that was to be taken up again is not known.
    #[serde(skip_serializing_if = "is_false")]
    pub session_unknown: bool,
    /// The turn begins. Where no rule says so, it begins with the first line that a rule fits.
    #[serde(skip_serializing_if = "is_false")]
    pub turn: bool,
    /// What the model says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// What the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Text>,
    /// A tool is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use: Option<ToolUse>,
    /// A call has something to show already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_update: Option<ToolUpdate>,
    /// A call gave its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<ToolResult>,
    /// Tokens or dollars were spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Something went wrong; it is not the end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Trouble>,
    /// The provider holds the agent back, and the agent waits by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The provider holds it back no longer; any text, thought or call says so too.
    #[serde(skip_serializing_if = "is_false")]
    pub lifted: bool,
    /// What the end will mean if nothing is said of it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The end. What is not said here is taken from the last verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Verdict>,
    /// No later rule is looked at for this line.
    #[serde(skip_serializing_if = "is_false")]
    pub last: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A stream. Lines of stderr, and lines of stdout that are no JSON object, are one text: `$`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MappingStream")]
pub enum On {
    #[default]
    Stdout,
    Stderr,
}

impl On {
    fn is_stdout(&self) -> bool {
        *self == Self::Stdout
    }
}

/// What must be at a path: this very value, or what the words say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "MappingTest")]
pub enum Test {
    Text(String),
    Truth(bool),
    Number(serde_json::Number),
    Words(Conditions),
}

/// Conditions, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingConditions")]
pub struct Conditions {
    /// Something other than null is there, or nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// It is one of these texts.
    #[serde(rename = "in", skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// It is none of these texts; nothing is none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_in: Vec<String>,
    /// It is a text that begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<String>,
    /// It is a text that holds this, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has: Option<String>,
}

/// One path, or several of which the first that finds something counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "MappingPick")]
pub enum Pick {
    One(String),
    First(Vec<String>),
}

impl Pick {
    pub fn paths(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::First(paths) => paths,
        }
    }
}

/// One path to a number, or several that are added up; one that begins with `-` is taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "MappingSum")]
pub enum Sum {
    One(String),
    All(Vec<String>),
}

impl Sum {
    pub fn terms(&self) -> &[String] {
        match self {
            Self::One(term) => std::slice::from_ref(term),
            Self::All(terms) => terms,
        }
    }
}

/// Where the agent names its own conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingSession")]
pub struct Session {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Pick>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Pick>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Pick>,
}

/// Where a text of the model is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MappingText")]
pub struct Text {
    /// The text; of a list, all texts joined.
    pub at: Pick,
    /// It is a piece of a text that goes on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delta: bool,
    /// It repeats the pieces before it, and is told only when there were none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeats: bool,
    /// Pieces with another value here are pieces of another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
}

/// Where a call is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MappingToolUse")]
pub struct ToolUse {
    pub id: Pick,
    pub name: Pick,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Pick>,
    /// The call of the sub-agent that made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Pick>,
}

/// Where something of an open call is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MappingToolUpdate")]
pub struct ToolUpdate {
    pub id: Pick,
    pub content: Pick,
}

/// Where a result is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MappingToolResult")]
pub struct ToolResult {
    pub id: Pick,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Pick>,
    /// By path: what must hold for it to have gone well.
    #[serde(default)]
    pub ok: BTreeMap<String, Test>,
    /// By path: what holds when it was never done because that was not allowed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub denied: BTreeMap<String, Test>,
}

/// Where tokens and dollars are. The buckets must be disjoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingUsage")]
pub struct Usage {
    /// What the numbers are: spent since the last ones, by this run, or by the whole conversation.
    pub basis: Basis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Pick>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Pick>,
    /// Read, and not from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Sum>,
    /// Written, thoughts included unless `reasoningApart`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Sum>,
    /// `output` does not hold `reasoning`, which is added to it.
    #[serde(skip_serializing_if = "is_false")]
    pub reasoning_apart: bool,
    /// The agent's own dollars; 0 is a model without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<Pick>,
}

/// Where an error is, and what it means.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingTrouble")]
pub struct Trouble {
    /// Its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Pick>,
    /// Its HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Pick>,
    /// Its code, when that is always the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Words that count here before all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Words>,
    /// The code when nothing tells it; `upstream_error` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Code>,
    /// No success can follow it.
    #[serde(rename = "final", skip_serializing_if = "is_false")]
    pub fatal: bool,
}

/// How the provider holds the agent back. Without words or a code of its own it is the error of the
/// same rule, else the limit before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingLimit")]
pub struct Limit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Pick>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// How long the agent waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<Pick>,
    /// The same in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_sec: Option<Pick>,
    /// The mark in the line after which the wait in milliseconds stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms_after: Option<String>,
    /// Waiting does not help.
    #[serde(skip_serializing_if = "is_false")]
    pub terminal: bool,
}

/// What an end means.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingVerdict")]
pub struct Verdict {
    /// Whether it went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Why it did not; the code of the last error when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Why the turn ended; told from the code when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// The answer, when it is not the last text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Pick>,
}

/// What an exit means.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MappingExit")]
pub struct Exit {
    /// What a success is.
    #[serde(skip_serializing_if = "Success::is_end")]
    pub success: Success,
    /// What exits mean that are not 0, by their number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub codes: BTreeMap<String, Code>,
    /// Words at the end of stderr, after an exit that is not 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Words>,
}

impl Exit {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a success is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MappingSuccess")]
pub enum Success {
    /// An `end` that says so; an exit of 0 alone is none.
    #[default]
    End,
    /// An exit of 0 after a text or a call too, for agents that tell no end.
    Zero,
}

impl Success {
    fn is_end(&self) -> bool {
        *self == Self::End
    }
}

impl Mapping {
    /// Every text that placeholders are filled into, with its key.
    pub fn templates(&self) -> impl Iterator<Item = (String, &String)> {
        let lists = [
            ("args", Some(&self.args)),
            ("with.model", Some(&self.with.model)),
            ("with.session", Some(&self.with.session)),
            ("with.systemPrompt", Some(&self.with.system_prompt)),
            ("with.isolate", Some(&self.with.isolate)),
            ("policies.deny", self.policies.deny.as_ref()),
            ("policies.allow-reads", self.policies.allow_reads.as_ref()),
            ("policies.allow-all", self.policies.allow_all.as_ref()),
        ];
        lists.into_iter().flat_map(|(key, list)| {
            let texts = list.into_iter().flatten().enumerate();
            texts.map(move |(index, text)| (format!("{key}[{index}]"), text))
        })
    }
}
