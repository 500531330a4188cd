//! Events: immutable facts about a run, numbered without gaps.
//!
//! An event is a flat JSON object: the envelope, then the fields of its kind. Its canonical bytes
//! are made once, by `write_envelope` and the serialized body, and passed on untouched to every
//! reader; `Event` is how those bytes are read back. No kind uses a name of the envelope (a test
//! holds this).

use crate::fault::Code;
use crate::id::{AskId, RunId};
use crate::known::UNKNOWN;
use crate::money::{Basis, Billing, CostSource, Extra, NanoUsd, Tokens};
pub use crate::permission::PermissionRequest;
use crate::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the envelope.
pub const VERSION: u32 = 1;

/// One event, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The version of the envelope: 1.
    pub v: u32,
    /// The run it is a fact about.
    pub run_id: RunId,
    /// From 1, gap-free per run. `run_id` and `seq` together are the event's id.
    pub seq: u64,
    /// When it was taken in.
    pub ts: Timestamp,
    /// Which launch within the run; 1 nearly always.
    pub attempt: u32,
    /// The number of the lease it was written under.
    pub fence: u64,
    /// Who stated it.
    pub origin: Origin,
    #[serde(flatten)]
    pub body: Body,
    /// Where in the sealed trace this came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
    /// True when a field was cut to a preview; the whole is in the blob that `<field>_blob` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// What an event has before its kind's own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    pub run_id: RunId,
    pub seq: u64,
    pub ts: Timestamp,
    pub attempt: u32,
    pub fence: u64,
    pub origin: Origin,
}

impl Envelope {
    /// Writes `{"v":1,…,"origin":"agent",`: the caller appends the body's object without its `{`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { run_id, seq, ts, attempt, fence, origin } = self;
        // Piece by piece and without the formatter: every event pays for this.
        out.extend_from_slice(HEAD.as_bytes());
        run_id.write(out);
        out.extend_from_slice(br#"","seq":"#);
        number(*seq, out);
        out.extend_from_slice(br#","ts":""#);
        ts.write(out);
        out.extend_from_slice(br#"","attempt":"#);
        number(u64::from(*attempt), out);
        out.extend_from_slice(br#","fence":"#);
        number(*fence, out);
        out.extend_from_slice(br#","origin":""#);
        out.extend_from_slice(origin.word().as_bytes());
        out.extend_from_slice(br#"","#);
    }
}

const HEAD: &str = r#"{"v":1,"run_id":""#;

fn number(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[from..]);
}

/// The names of the envelope, which no kind may use.
pub const ENVELOPE_NAMES: [&str; 10] =
    ["v", "run_id", "seq", "ts", "attempt", "fence", "origin", "kind", "raw", "truncated"];

/// Who stated the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Agent,
    Ostler,
    Operator,
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

impl Origin {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Ostler => "ostler",
            Self::Operator => "operator",
            Self::Unknown => UNKNOWN,
        }
    }
}

/// A line of the sealed trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raw {
    pub stream: Stream,
    pub line: u64,
}

impl Raw {
    /// Appends it as serde would write it; nearly every event has one.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.stream {
            Stream::Stdout => br#"{"stream":"stdout","line":"#,
            Stream::Stderr => br#"{"stream":"stderr","line":"#,
            Stream::Ostler => br#"{"stream":"ostler","line":"#,
            Stream::Unknown => br#"{"stream":"unknown","line":"#,
        });
        number(self.line, out);
        out.push(b'}');
    }
}

/// Which stream a log line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    Ostler,
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

/// The kinds of events and their fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(transform = tagged)]
pub enum Body {
    Session(Session),
    Turn(Turn),
    AssistantText(Text),
    Thinking(Text),
    UserText(UserText),
    ToolUse(ToolUse),
    ToolUpdate(ToolUpdate),
    ToolResult(ToolResult),
    Plan(Plan),
    Diff(Diff),
    Permission(Permission),
    Progress(Progress),
    Comment(Comment),
    Usage(Usage),
    Quota(Quota),
    Budget(Budget),
    Lease(Lease),
    Lifecycle(Lifecycle),
    Log(Log),
    Error(Error),
    Result(RunResult),
    /// An event of a newer version: its kind, or a word in its fields, is not known here. All of its
    /// fields are kept as they are, with `kind` among them.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Map<String, Value>),
}

impl Body {
    pub const KINDS: [&str; 21] = [
        "session",
        "turn",
        "assistant_text",
        "thinking",
        "user_text",
        "tool_use",
        "tool_update",
        "tool_result",
        "plan",
        "diff",
        "permission",
        "progress",
        "comment",
        "usage",
        "quota",
        "budget",
        "lease",
        "lifecycle",
        "log",
        "error",
        "result",
    ];

    /// The kind, or `unknown` where this version cannot read the event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Turn(_) => "turn",
            Self::AssistantText(_) => "assistant_text",
            Self::Thinking(_) => "thinking",
            Self::UserText(_) => "user_text",
            Self::ToolUse(_) => "tool_use",
            Self::ToolUpdate(_) => "tool_update",
            Self::ToolResult(_) => "tool_result",
            Self::Plan(_) => "plan",
            Self::Diff(_) => "diff",
            Self::Permission(_) => "permission",
            Self::Progress(_) => "progress",
            Self::Comment(_) => "comment",
            Self::Usage(_) => "usage",
            Self::Quota(_) => "quota",
            Self::Budget(_) => "budget",
            Self::Lease(_) => "lease",
            Self::Lifecycle(_) => "lifecycle",
            Self::Log(_) => "log",
            Self::Error(_) => "error",
            Self::Result(_) => "result",
            Self::Unknown(_) => UNKNOWN,
        }
    }
}

/// Says that an event is of exactly one kind: the variant without a tag is no part of the schema.
fn tagged(schema: &mut schemars::Schema) {
    if let Some(kinds) = schema.remove("anyOf") {
        schema.insert("oneOf".to_owned(), kinds);
    }
}

/// How an event of a newer version is shown: its kind, and its fields as JSON.
pub fn unknown_text(fields: &Map<String, Value>) -> String {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or(UNKNOWN);
    let others: Map<_, _> = fields
        .iter()
        .filter(|(name, _)| *name != "kind")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    format!("event `{kind}` of a newer version: {}", Value::Object(others))
}

/// The agent's own conversation, as it introduced it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many tools it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_session: Option<String>,
    #[serde(default)]
    pub resumed: bool,
}

/// A turn began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    pub phase: TurnPhase,
    pub n: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnPhase {
    Started,
    Ended,
}

/// Why the agent ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurns,
    Refusal,
    Cancelled,
    Error,
}

/// Text of the model: a whole, or a delta of the block it names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    #[serde(default)]
    pub delta: bool,
}

/// Text given to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserText {
    pub text: String,
}

/// A tool was called: by the agent itself (`native`, only observed) or through us (`relayed`,
/// answered exactly once).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUse {
    pub tool_call_id: String,
    pub name: String,
    #[serde(default)]
    pub input: Value,
    #[serde(default)]
    pub via: Via,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// The call of the sub-agent that made this one, or the agent's own report of a relayed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    #[default]
    Native,
    Relayed,
}

/// A place in a file that a tool call is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A call is under way: what is known of it by now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUpdate {
    pub tool_call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<UpdateStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpdateStatus {
    Pending,
    InProgress,
}

/// What a call gave. Every relayed call has exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    pub tool_call_id: String,
    pub status: ToolStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<bool>,
    #[serde(default)]
    pub output: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Ok,
    Error,
}

/// What the agent means to do; each replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    pub entries: Vec<PlanEntry>,
}

/// One step of a plan, in the agent's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanEntry {
    pub text: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

/// A file changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A permission question, or (with `decision`) the same question decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    pub ask_id: AskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    pub title: String,
    /// What the agent wants to do, in full as far as it fits; only on the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<PermissionRequest>>,
    pub options: Vec<PermissionOption>,
    /// What the answer `always` allows for the rest of the run; absent when it is no answer here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
    /// The rule that made this a question, or that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// When the question is denied if no answer came; absent when the policy decides at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<DecidedBy>,
    /// The person who decided: `owner`, or `token` and its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why the person denied it; the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One way to answer, named by the agent in `id` and by its meaning in `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionOption {
    pub id: String,
    pub kind: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Deny,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    Policy,
    Person,
    Timeout,
}

/// A report of how the work stands.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    pub summary: String,
    #[serde(default)]
    pub beliefs: Vec<Value>,
    #[serde(default)]
    pub attempted: Vec<Value>,
}

/// A word to people, kept with the task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Comment {
    pub text: String,
    #[serde(default)]
    pub mentions: Vec<String>,
}

/// What was spent, by `basis`. An `effective_nanousd` of null means unpriced, never free.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextFill>,
    #[serde(default)]
    pub basis: Basis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_nanousd: Option<NanoUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed_nanousd: Option<NanoUsd>,
    #[serde(default)]
    pub effective_nanousd: Option<NanoUsd>,
    #[serde(default)]
    pub cost_source: CostSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximate: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extras: Vec<Extra>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// How it is paid for; absent where that is not known, and then it counts as billed by use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
}

/// How full the model's window is: not spending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextFill {
    pub used: u64,
    pub size: u64,
}

/// What the provider says is left of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quota {
    pub provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default)]
    pub windows: Vec<QuotaWindow>,
    #[serde(default)]
    pub rate_limited: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
}

/// One of the windows in which a provider counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaWindow {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    #[serde(default)]
    pub exhausted: bool,
}

/// How much of a budget is left: `soft` warns, `hard` stops the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    pub scope: String,
    pub level: BudgetLevel,
    pub remaining: Remaining,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLevel {
    Ok,
    Soft,
    Hard,
}

/// What is left of each unit that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Remaining {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanousd: Option<NanoUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// Who owns the task: until when, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    pub action: LeaseAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseAction {
    Acquired,
    Renewed,
    Lost,
    Released,
}

/// What became of the agent's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lifecycle {
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Waiting,
    Starting,
    Running,
    Stopping,
    AttemptEnded,
    Adopted,
}

/// A line that is no event of its own: what a dialect did not know is kept here, never dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    pub stream: Stream,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// An error seen on the way; not the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Error {
    pub code: Code,
    pub message: String,
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
    TimedOut,
    Lost,
    // A word of a newer version.
    #[serde(other)]
    Unknown,
}

/// Exactly one per run, always its last event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub duration_ms: u64,
    pub totals: Totals,
    #[serde(flatten)]
    pub report: Box<RunReport>,
    /// Requests of the agent that were denied: by the policy, a person, a timeout, or the agent's own
    /// rules as far as it tells. Absent means none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denials: u32,
    pub evidence: Evidence,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What the whole run spent; `effective_nanousd` is null as soon as any part of it is unpriced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    pub tokens: Tokens,
    #[serde(default)]
    pub effective_nanousd: Option<NanoUsd>,
}

/// The tokens that an agent reported for a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunUsage {
    pub tokens: Tokens,
    /// As it was last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
}

/// The tokens, the model and the billing of a whole run, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// Null when the agent reported no tokens.
    #[serde(default)]
    pub usage: Option<RunUsage>,
    /// The model that was used: of several the one with the highest spend, else with the most
    /// tokens, else the first one reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider of that model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
}

/// What the outcome rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    pub end: EndEvidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<bool>,
    /// Who stopped it and after what: `silence 600 s`, `budget $0.50`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether the workspace was compared with its beginning; absent where the permission policy does
    /// not forbid to change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceEvidence>,
    /// Why it was not compared, or what changed beside another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_note: Option<String>,
}

/// What is known of changes in the workspace of a run that was not allowed to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceEvidence {
    /// A change that was found ends the run as `policy_broken`.
    Compared,
    /// There may be changes.
    NotCompared,
    /// There are changes; another run works in the same directory and may have made them.
    ChangedBesideOtherRun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndEvidence {
    Explicit,
    Structured,
    Exit,
    Signal,
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_trace_is_written_as_serde_writes_it() {
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Ostler] {
            for line in [0, 7, u64::MAX] {
                let (raw, mut bytes) = (Raw { stream, line }, Vec::new());
                raw.write(&mut bytes);
                assert_eq!(bytes, serde_json::to_vec(&raw).unwrap());
            }
        }
    }

    #[test]
    fn an_envelope_written_piece_by_piece_reads_back_as_it_was() {
        for (seq, fence) in [(1, 1), (10, 9), (u64::MAX, 0), (123_456_789, u64::MAX)] {
            let run_id = RunId::new(uuid::Uuid::from_u128(0x0190_0000_0000_7000 << 64 | 7));
            let (ts, origin) = (Timestamp(1_794_787_200_123), Origin::Operator);
            let mut bytes = Vec::new();
            Envelope { run_id, seq, ts, attempt: 3, fence, origin }.write(&mut bytes);
            bytes.extend_from_slice(br#""kind":"user_text","text":"hi"}"#);
            let event: Event = serde_json::from_slice(&bytes).unwrap();
            let body = Body::UserText(UserText { text: "hi".to_owned() });
            let written = Event {
                v: VERSION,
                run_id,
                seq,
                ts,
                attempt: 3,
                fence,
                origin,
                body,
                raw: None,
                truncated: None,
            };
            assert_eq!(event, written);
            assert_eq!(bytes, serde_json::to_vec(&written).unwrap());
        }
    }

    #[test]
    fn an_event_of_a_newer_version_keeps_its_fields() {
        let head = r#"{"v":1,"run_id":"run_01900000000070000000000000000007","seq":3,
            "ts":"2026-11-16T00:00:00.000Z","attempt":1,"fence":2,"origin":"satellite","#;
        for (fields, kind) in [
            (r#""kind":"hologram","frames":[1,{"deep":true}],"colour":"red"}"#, "unknown"),
            (r#""kind":"turn","phase":"paused","n":4,"more":null}"#, "unknown"),
            (r#""kind":"user_text","text":"hi","raw":{"stream":"tape","line":7}}"#, "user_text"),
        ] {
            let text = format!("{head}{fields}");
            let event: Event = serde_json::from_str(&text).unwrap();
            assert_eq!((event.body.kind(), event.origin), (kind, Origin::Unknown));
            let (Value::Object(mut kept), Value::Object(mut sent)) =
                (serde_json::to_value(&event).unwrap(), serde_json::from_str(&text).unwrap())
            else {
                panic!("an event is an object")
            };
            for named_otherwise in ["origin", "raw"] {
                kept.remove(named_otherwise);
                sent.remove(named_otherwise);
            }
            assert_eq!(kept, sent);
        }
    }
}
