//! What a conversation with the agent remembers between two lines, as data with a version. It is
//! stored with every batch, so everything in it is bounded: the prompt is dropped once it was said,
//! calls and questions are counted, and ids that are too long are not kept. State of another version
//! is refused, because guessing would ask twice or never.

use crate::saved;
use contract::event::{PermissionRequest, Quota};
use contract::{Fault, Policy, Timestamp, Tokens, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The version of the saved form.
const VERSION: u32 = 1;
/// An id longer than this is not kept.
const ID_BYTES_MAX: usize = 256;
/// Texts that were heard in pieces and whose ids are still known, so that the whole is not repeated.
const STREAMED_MAX: usize = 64;

/// What the conversation is opened with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub policy: Policy,
    pub model: Option<String>,
    pub cwd: Option<String>,
    pub system_prompt: Option<String>,
    /// The thread that is to be taken up again.
    pub resume: Option<String>,
}

impl Wanted {
    /// The parameters of `thread/start` or `thread/resume`.
    pub(super) fn params(&self) -> Value {
        let [approval, sandbox] = settings(self.policy);
        let mut params = json!({ "approvalPolicy": approval, "sandbox": sandbox });
        let optional = [
            ("threadId", &self.resume),
            ("model", &self.model),
            ("cwd", &self.cwd),
            ("developerInstructions", &self.system_prompt),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                params[name] = json!(value);
            }
        }
        params
    }
}

/// The approval policy and the sandbox that keep a policy.
pub(super) const fn settings(policy: Policy) -> [&'static str; 2] {
    match policy {
        Policy::Deny | Policy::AllowReads => ["untrusted", "read-only"],
        Policy::Ask => ["untrusted", "workspace-write"],
        Policy::AllowAll => ["never", "danger-full-access"],
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    pub wanted: Wanted,
    /// What the next turn begins with; dropped when it was said.
    pub prompt: Option<String>,
    /// The id of our next request.
    next_id: u64,
    /// The request that starts a turn, until it is answered.
    pub starting: Option<u64>,
    pub thread: Option<String>,
    /// The turn that is under way.
    pub turn: Option<String>,
    pub turns: u32,
    /// A turn has begun and not ended.
    pub in_turn: bool,
    /// We asked for the end of this turn, so a message may follow and the run goes on.
    pub interrupting: bool,
    pub model: Option<String>,
    pub limited: bool,
    /// What limits it is a quota that is used up.
    #[serde(default)]
    pub used_up: bool,
    /// When the fullest of the account's windows begins anew.
    pub resets_at: Option<Timestamp>,
    /// What was last told of the account.
    pub quota: Option<Quota>,
    /// Tokens of the thread as last told; `None` before the first time.
    pub counted: Option<Tokens>,
    /// Calls without a result yet.
    open: Vec<String>,
    /// Questions without an answer yet, with the id they go back by.
    asked: Vec<Asked>,
    streamed: VecDeque<String>,
    /// The last whole text, which is the answer.
    pub answer: Option<String>,
    /// Something was said or done in this turn.
    #[serde(default)]
    pub acted: bool,
    /// The changes of the last call that changes files: a question about it names only the call.
    #[serde(default)]
    pub proposed: Option<Proposed>,
}

/// The changes to files that a call proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Proposed {
    pub tool_call_id: String,
    pub request: PermissionRequest,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub request: String,
    pub id: Value,
}

impl State {
    pub(super) fn new(wanted: Wanted, prompt: String) -> Self {
        Self {
            version: VERSION,
            wanted,
            prompt: Some(prompt),
            next_id: 0,
            starting: None,
            thread: None,
            turn: None,
            turns: 0,
            in_turn: false,
            interrupting: false,
            model: None,
            limited: false,
            used_up: false,
            resets_at: None,
            quota: None,
            counted: None,
            open: Vec::new(),
            asked: Vec::new(),
            streamed: VecDeque::new(),
            answer: None,
            acted: false,
            proposed: None,
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// A request of ours as a whole line.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Vec<u8> {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        frame(&json!({ "id": id, "method": method, "params": params }))
    }

    /// Keeps a message until a turn can be started with it; false when too much waits already.
    pub(super) fn hold(&mut self, text: &str) -> bool {
        match &mut self.prompt {
            Some(held) if held.len() + text.len() > limits::PROMPT_BYTES_MAX => return false,
            Some(held) => held.extend(["\n\n", text]),
            None => self.prompt = Some(text.to_owned()),
        }
        true
    }

    /// A turn with this as its input.
    pub(super) fn start_turn(&mut self, text: &str) -> Vec<u8> {
        self.starting = Some(self.next_id);
        let params = json!({ "threadId": self.thread, "input": input(text) });
        self.request("turn/start", &params)
    }

    /// More input for the turn that is under way.
    pub(super) fn steer(&mut self, text: &str) -> Vec<u8> {
        let params = json!({
            "threadId": self.thread, "expectedTurnId": self.turn, "input": input(text),
        });
        self.request("turn/steer", &params)
    }

    /// The end of the turn that is under way; `None` when there is none.
    pub(super) fn interrupt(&self) -> Option<Vec<u8>> {
        let (thread, turn) = (self.thread.as_ref()?, self.turn.as_ref()?);
        let params = json!({ "threadId": thread, "turnId": turn });
        Some(frame(&json!({ "id": self.next_id, "method": "turn/interrupt", "params": params })))
    }

    /// Remembers a call; false when it is known already, cannot be kept, or too many are open.
    pub(super) fn open(&mut self, id: &str) -> bool {
        let new = id.len() <= ID_BYTES_MAX
            && self.open.len() < limits::TOOL_CALLS_OPEN_MAX
            && !self.open.iter().any(|open| open == id);
        if new {
            self.open.push(id.to_owned());
        }
        new
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.iter().any(|open| open == id)
    }

    pub(super) fn close(&mut self, id: &str) {
        self.open.retain(|open| open != id);
    }

    /// The calls that nobody will answer any more.
    pub(super) fn drain(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open)
    }

    /// Remembers a question; false when too many are open or it cannot be kept.
    pub(super) fn ask(&mut self, request: &str, id: &Value) -> bool {
        let room = self.asked.len() < limits::TOOL_CALLS_OPEN_MAX && request.len() <= ID_BYTES_MAX;
        if room {
            self.asked.push(Asked { request: request.to_owned(), id: id.clone() });
        }
        room
    }

    /// Takes the question that this answers.
    pub(super) fn answered(&mut self, request: &str) -> Option<Asked> {
        let place = self.asked.iter().position(|asked| asked.request == request)?;
        Some(self.asked.remove(place))
    }

    /// A piece of this text was heard.
    pub(super) fn stream(&mut self, id: &str) {
        if id.len() <= ID_BYTES_MAX && !self.streamed.iter().any(|known| known == id) {
            if self.streamed.len() == STREAMED_MAX {
                self.streamed.pop_front();
            }
            self.streamed.push_back(id.to_owned());
        }
    }

    pub(super) fn was_streamed(&self, id: &str) -> bool {
        self.streamed.iter().any(|known| known == id)
    }

    pub(super) fn keep_answer(&mut self, text: &str) {
        let end = text.floor_char_boundary(limits::TEXT_BYTES_MAX);
        self.answer = Some(text[..end].to_owned());
    }
}

/// An id or a name of the agent's, if it is short enough to be kept.
pub(super) fn short(id: Option<String>) -> Option<String> {
    id.filter(|id| id.len() <= ID_BYTES_MAX)
}

fn input(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// A message as a whole line with its newline.
pub(super) fn frame(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
