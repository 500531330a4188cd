//! What a conversation remembers between two lines, as data with a version. It is stored with every
//! batch, so everything in it is bounded: the prompt is dropped once it was said, calls and questions
//! are counted, texts are cut and ids that are too long are not kept. The token of the relay is
//! needed until the session is opened and not kept after it; a host that takes over before that
//! reads it redacted, sees so, and offers no relay rather than one that refuses.

use super::mode::{ModeReset, OfferedModes};
use super::wire::Opened;
use crate::saved;
use contract::event::{ContextFill, Diff, ToolUse};
use contract::plan::TurnEnd;
use contract::{Fault, NanoUsd, Policy, Tokens, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The version of the saved form.
const VERSION: u32 = 1;
/// An id or a name longer than this is not kept.
pub(super) const NAME_BYTES_MAX: usize = 256;
/// Wishes for a model that are tried, one after the other.
const MODELS_MAX: usize = 16;
/// The word that means whatever model the agent takes by itself.
const DEFAULT_MODEL: &str = "default";

/// What the conversation is opened with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub cwd: Option<String>,
    /// The models to ask for, the wanted one first.
    pub models: Vec<String>,
    /// The session that is to be taken up again.
    pub resume: Option<String>,
    /// Dropped when it was offered.
    pub relay: Option<Relay>,
    /// What it may do, for the mode it is to have.
    #[serde(default = "allow_all")]
    pub policy: Policy,
    /// What says that a turn is over.
    #[serde(default = "by_reply")]
    pub turn_end: TurnEnd,
}

/// What ended turns before there was a choice.
fn by_reply() -> TurnEnd {
    TurnEnd::Reply
}

/// What a state without a policy was kept under: no mode was set then.
fn allow_all() -> Policy {
    Policy::AllowAll
}

/// Where our own tools are, and how the agent reaches them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Relay {
    pub url: String,
    pub token: String,
    pub own_program: String,
    /// The sum of the token's bytes and their places: what was redacted does not come to it.
    check: u64,
}

impl Relay {
    pub(super) fn new(url: String, token: String, own_program: String) -> Self {
        let check = sum(&token);
        Self { url, token, own_program, check }
    }

    /// Whether the token is still what it was.
    pub(super) fn is_whole(&self) -> bool {
        sum(&self.token) == self.check
    }

    /// The server as `session/new` takes it.
    pub(super) fn server(&self, http: bool) -> Value {
        let pair = |name: &str, value: &str| json!({ "name": name, "value": value });
        match http {
            true => json!({
                "type": "http",
                "name": OWN_SERVER,
                "url": self.url,
                "headers": [pair("Authorization", &format!("Bearer {}", self.token))],
            }),
            false => json!({
                "name": OWN_SERVER,
                "command": self.own_program,
                "args": ["mcp-proxy"],
                "env": [pair("MCP_SERVER_URL", &self.url), pair("OSTLER_LEASE_TOKEN", &self.token)],
            }),
        }
    }
}

/// What our own MCP server is called.
const OWN_SERVER: &str = "ostler";

fn sum(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
    text.bytes().fold(text.len() as u64, step)
}

/// A request of ours that waits for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ours {
    Initialize,
    New,
    /// Takes a session up again: its history may be told first.
    Load,
    /// Asks for nothing: when an agent that tells the history late replies, it has been told.
    Echo,
    /// A mode, or an option beside it.
    Setting,
    Model,
    Prompt,
}

/// One way to ask for one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelWish {
    pub model: String,
    /// The option it is chosen by; without one it is `session/set_model`.
    pub option: Option<String>,
}

/// Something that is set before the first turn, because of the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Setting {
    /// The option it is set by; without one it is `session/set_mode`.
    pub option: Option<String>,
    pub value: String,
    /// As it stands now the policy is not kept.
    pub loose: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    pub wanted: Wanted,
    /// What the next turn begins with; dropped when it was said.
    pub prompt: Option<String>,
    next_id: u64,
    /// The request that waits for its reply; beside it there are only those of `resets`.
    pub waiting: Option<(u64, Ours)>,
    /// The agent's own name for itself.
    pub agent: Option<String>,
    pub session: Option<String>,
    pub model: Option<String>,
    /// What is still to be set before the first turn.
    #[serde(default)]
    pub settings: VecDeque<Setting>,
    /// Wishes for a model that were not yet tried.
    pub wishes: VecDeque<ModelWish>,
    pub turns: u32,
    /// The turn before was ended by its reply, and its update may still come.
    #[serde(default)]
    pub update_owed: bool,
    /// We asked for the end of this turn, so a message may follow and the run goes on.
    pub interrupting: bool,
    /// The number of the text or thought that goes on, for agents that do not name them.
    pub block: u32,
    /// What was heard last: a text's or a thought's block.
    pub speaking: Option<String>,
    /// The last text, which is the answer.
    pub answer: String,
    /// Something was said or done in this turn.
    pub acted: bool,
    /// The last thing that happened in this turn is that a call was denied.
    pub refused: bool,
    /// The agent told beside the protocol that its model failed in this turn.
    pub failing: bool,
    /// The last text of this turn, when it reads like an error of the model's provider.
    pub confession: Option<String>,
    pub limited: bool,
    /// What is left of the prompt of this turn for an agent that says it back.
    #[serde(default)]
    echo: String,
    pub context: Option<(u64, u64)>,
    /// The dollars of the session as last told.
    pub cost: Option<NanoUsd>,
    /// What updates told of this turn, which its reply may hold as well.
    #[serde(default)]
    pub told_in_turn: Tokens,
    /// The part of it that is of the model's present answer: told again, it is not spent again.
    #[serde(default)]
    pub told_in_answer: Tokens,
    pub open: Vec<OpenCall>,
    asked: Vec<Asked>,
    /// The agent runs commands in a read-only sandbox of its own.
    #[serde(default, alias = "changes_nothing")]
    pub sandboxed: bool,
    /// Kinds of calls that were allowed for always; an empty one is every kind.
    #[serde(default)]
    pub always_allowed: Vec<String>,
    /// Kinds of questions that were allowed and name no call; each is good for one call.
    #[serde(default)]
    pub allowed_apart: Vec<String>,
    /// The agent acted against the policy, and the run is ending for it.
    #[serde(default)]
    pub policy_broken: bool,
    /// Tools of Ostler's own that were called by the relay, as `policy` spells them.
    #[serde(default)]
    pub relayed: Vec<String>,
    /// The modes of the session, and what they mean.
    #[serde(default)]
    pub modes: OfferedModes,
    /// Modes and options that the agent changed by itself, and that were set back.
    #[serde(default)]
    pub resets: Vec<ModeReset>,
}

/// A call without a result yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenCall {
    pub id: String,
    /// A call whose input is not known yet is told when it is.
    pub untold: Option<Box<ToolUse>>,
    pub title: Option<String>,
    pub status: Option<String>,
    /// What was last told of its input and content, as sums.
    pub input: u64,
    pub content: u64,
    /// The changes of files it is about.
    pub diffs: Vec<Diff>,
    /// What a terminal printed for it so far.
    pub printed: String,
    pub exit_code: Option<i64>,
    /// It was asked about and not allowed.
    pub denied: bool,
    /// It was asked about and allowed. States that were saved before this was kept have none.
    #[serde(default)]
    pub allowed: bool,
    /// The agent reported it; a question alone is no report.
    #[serde(default)]
    pub reported: bool,
    /// Its latest title, for the error of a broken policy.
    #[serde(default)]
    pub called: Option<String>,
    /// What it does, as the agent says.
    #[serde(default)]
    pub kind: Option<String>,
    /// It is a command that only reads.
    #[serde(default)]
    pub only_reads: bool,
    /// The name or title by which it may be a tool of Ostler's own, which the relay judges.
    #[serde(default)]
    pub own_tool: Option<String>,
}

/// A question without an answer yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub request: String,
    /// The id that the answer goes back by.
    pub id: Value,
    pub tool_call_id: Option<String>,
    /// The options that allow it.
    pub allowing: Vec<String>,
    /// Those of them that allow its kind for always.
    #[serde(default)]
    pub always: Vec<String>,
    /// What is asked for, as the agent says.
    #[serde(default)]
    pub kind: Option<String>,
}

impl State {
    pub(super) fn new(wanted: Wanted, prompt: String) -> Self {
        Self {
            version: VERSION,
            wanted,
            prompt: Some(prompt),
            next_id: 0,
            waiting: None,
            agent: None,
            session: None,
            model: None,
            settings: VecDeque::new(),
            wishes: VecDeque::new(),
            turns: 0,
            update_owed: false,
            interrupting: false,
            block: 0,
            speaking: None,
            answer: String::new(),
            acted: false,
            refused: false,
            failing: false,
            confession: None,
            limited: false,
            echo: String::new(),
            context: None,
            cost: None,
            told_in_turn: Tokens::default(),
            told_in_answer: Tokens::default(),
            open: Vec::new(),
            asked: Vec::new(),
            sandboxed: false,
            always_allowed: Vec::new(),
            allowed_apart: Vec::new(),
            policy_broken: false,
            relayed: Vec::new(),
            modes: OfferedModes::default(),
            resets: Vec::new(),
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// A request of ours as a whole line.
    pub(super) fn request(&mut self, ours: Ours, method: &str, params: &Value) -> Vec<u8> {
        let (id, line) = self.request_beside(method, params);
        self.waiting = Some((id, ours));
        line
    }

    pub(super) fn in_turn(&self) -> bool {
        matches!(self.waiting, Some((_, Ours::Prompt)))
    }

    /// Whether what is told now is the history of a session that is taken up again.
    pub(super) fn in_history(&self) -> bool {
        matches!(self.waiting, Some((_, Ours::Load | Ours::Echo)))
    }

    /// Whether the session is not yet as it is to be for the first prompt.
    pub(super) fn is_opening(&self) -> bool {
        let opening = [Ours::Initialize, Ours::New, Ours::Load, Ours::Echo, Ours::Setting];
        matches!(self.waiting, Some((_, ours)) if opening.contains(&ours))
    }

    /// Whether a request of ours has this id and waits for its reply.
    pub(super) fn awaits(&self, id: &Value) -> bool {
        number(id).is_some_and(|id| self.waiting.is_some_and(|(waiting, _)| waiting == id))
    }

    /// Takes the request that this id answers.
    pub(super) fn answered_by(&mut self, id: Option<&Value>) -> Option<Ours> {
        let id = number(id?)?;
        let (_, ours) = self.waiting.take_if(|(waiting, _)| *waiting == id)?;
        Some(ours)
    }

    /// Keeps a message until a turn can be started with it.
    pub(super) fn hold(&mut self, text: &str) {
        self.prompt = Some(match self.prompt.take() {
            Some(held) => format!("{held}\n\n{text}"),
            None => text.to_owned(),
        });
    }

    /// A request that is sent beside the one that waits.
    pub(super) fn request_beside(&mut self, method: &str, params: &Value) -> (u64, Vec<u8>) {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        (id, frame(&line))
    }

    /// The end of the turn that is under way, with what answers its open questions; `None` when
    /// there is none.
    pub(super) fn cancel(&self) -> Option<Vec<u8>> {
        let session = self.session.as_ref().filter(|_| self.in_turn())?;
        let params = json!({ "sessionId": session });
        let message = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
        Some(frame(&message))
    }

    /// The ways to ask for the models that are wanted, by what the session offers.
    pub(super) fn plan_model(&mut self, opened: &Opened) {
        let option = opened.config_options.iter().find(|option| option.is_model());
        let option = option.and_then(|option| option.id.clone());
        // Where neither is offered the older way is tried all the same.
        let older = opened.models.is_some() || option.is_none();
        let models = self.wanted.models.iter().take(MODELS_MAX);
        for model in models.take_while(|model| *model != DEFAULT_MODEL) {
            let wish = |option| ModelWish { model: model.clone(), option };
            self.wishes.extend(option.clone().map(|option| wish(Some(option))));
            self.wishes.extend(older.then(|| wish(None)));
        }
    }

    /// Remembers a call; `None` when it cannot be kept or too many are open.
    pub(super) fn open(&mut self, id: &str) -> Option<&mut OpenCall> {
        if id.len() > NAME_BYTES_MAX || self.open.len() >= limits::TOOL_CALLS_OPEN_MAX {
            return None;
        }
        self.open.push(OpenCall { id: id.to_owned(), ..OpenCall::default() });
        self.open.last_mut()
    }

    pub(super) fn call(&mut self, id: &str) -> Option<&mut OpenCall> {
        self.open.iter_mut().find(|call| call.id == id)
    }

    pub(super) fn close(&mut self, id: &str) -> Option<OpenCall> {
        let place = self.open.iter().position(|call| call.id == id)?;
        Some(self.open.remove(place))
    }

    /// Remembers a question; false when too many are open or it cannot be kept.
    pub(super) fn ask(&mut self, asked: Asked) -> bool {
        let names = [&asked.request].into_iter().chain(&asked.allowing);
        let short = names.chain(&asked.tool_call_id).all(|name| name.len() <= NAME_BYTES_MAX);
        let room = self.asked.len() < limits::TOOL_CALLS_OPEN_MAX && short;
        let new = !self.asked.iter().any(|known| known.request == asked.request);
        if room && new {
            self.asked.push(asked);
        }
        room && new
    }

    /// Takes the question that this answers.
    pub(super) fn answered(&mut self, request: &str) -> Option<Asked> {
        let place = self.asked.iter().position(|asked| asked.request == request)?;
        Some(self.asked.remove(place))
    }

    /// The questions that nobody will answer any more.
    pub(super) fn unanswered(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    pub(super) fn questions(&self) -> &[Asked] {
        &self.asked
    }

    /// The block that a piece of text belongs to.
    pub(super) fn block(&mut self, thinking: bool, message: Option<String>) -> String {
        let kind = if thinking { "thought" } else { "message" };
        let named = short(message).map(|id| format!("{kind} {id}"));
        let same = self.speaking.as_ref().filter(|block| match &named {
            Some(named) => *block == named,
            None => block.starts_with(kind),
        });
        if let Some(same) = same {
            return same.clone();
        }
        self.block = self.block.saturating_add(1);
        let block = named.unwrap_or_else(|| format!("{kind} {}", self.block));
        self.speaking = Some(block.clone());
        if !thinking {
            self.answer.clear();
        }
        block
    }

    /// Remembers a prompt, or its beginning, to know it when the agent says it back.
    pub(super) fn expect_echo(&mut self, prompt: &str) {
        self.echo.clear();
        append(&mut self.echo, prompt.trim(), limits::TEXT_BYTES_MAX);
    }

    /// Whether a text of the user's side is the prompt of this turn, or the next part of it.
    pub(super) fn is_echo(&mut self, text: &str) -> bool {
        let part = text.trim();
        if self.echo.is_empty() || part.is_empty() {
            return false;
        }
        if let Some(rest) = self.echo.strip_prefix(part) {
            self.echo = rest.trim_start().to_owned();
            return true;
        }
        // Of a longer prompt only the beginning is remembered.
        let is_whole = part.starts_with(&self.echo);
        if is_whole {
            self.echo.clear();
        }
        is_whole && part.len() >= limits::TEXT_BYTES_MAX
    }

    pub(super) fn keep_answer(&mut self, text: &str) {
        append(&mut self.answer, text, limits::TEXT_BYTES_MAX);
    }

    pub(super) fn context(&mut self, used: u64, size: u64) -> Option<ContextFill> {
        let new = self.context != Some((used, size));
        self.context = Some((used, size));
        new.then_some(ContextFill { used, size })
    }
}

/// Adds as much of a text as there is room for.
pub(super) fn append(to: &mut String, text: &str, bytes_max: usize) {
    let room = bytes_max.saturating_sub(to.len());
    to.push_str(&text[..text.floor_char_boundary(room)]);
}

/// An id or a name of the agent's, if it is short enough to be kept.
pub(super) fn short(id: Option<String>) -> Option<String> {
    id.filter(|id| id.len() <= NAME_BYTES_MAX)
}

/// The number of a request of ours. Some agents give it back as a text.
pub(super) fn number(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

/// A sum that tells two values apart.
pub(super) fn digest(value: &Value) -> u64 {
    sum(&value.to_string()).max(1)
}

/// A message as a whole line with its newline.
pub(super) fn frame(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
