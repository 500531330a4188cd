//! What a conversation remembers between two lines, as data with a version. It is stored with every
//! Batch, so everything in it is bounded: calls and questions by number, their ids and inputs by
//! size. State that another version wrote is refused.

use super::spending::Spending;
use crate::saved;
use contract::{Fault, NanoUsd, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the saved form.
const VERSION: u32 = 1;

/// A longer id is not kept.
pub(super) const ID_BYTES_MAX: usize = 256;

/// The input of a question is kept up to this size, to be handed back with a yes.
const QUESTION_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// The agent was started to take up a conversation.
    pub resumes: bool,
    /// It was said that the conversation is not known.
    pub unknown_told: bool,
    /// What it accepts was signalled.
    pub accepts_told: bool,
    pub session: Option<String>,
    /// The directory that it works in, as it said.
    #[serde(default)]
    pub cwd: Option<String>,
    pub model: Option<String>,
    /// The number of the last turn, and whether it is going on.
    pub turns: u32,
    pub in_turn: bool,
    /// Something was said or done in this turn.
    pub acted: bool,
    /// The error that ends this turn was told.
    pub error_told: bool,
    /// The agent waits for its provider.
    pub held: bool,
    /// When the provider's quota resets, as it was last told.
    pub resets_at: Option<Timestamp>,
    /// Native calls that have no result yet.
    open: Vec<String>,
    questions: Vec<Question>,
    /// The block that is coming in deltas.
    pub streamed: Option<Streamed>,
    /// Control requests made so far.
    pub requests: u64,
    /// Whether the last text is kept: a result that names the agent's own limit has none.
    #[serde(default)]
    pub keeps_text: bool,
    /// The last text of the model, if it is kept.
    #[serde(default)]
    pub last_text: Option<String>,
    /// What was spent since the agent last told its figures.
    #[serde(default)]
    pub spending: Spending,
    /// The dollars of the whole conversation as a `result` last told them.
    #[serde(default)]
    pub dollars_told: Option<NanoUsd>,
}

/// A question of the agent that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Question {
    pub request: String,
    /// Absent when it is too large to be kept.
    pub input: Option<Map<String, Value>>,
}

/// How much of a block was heard in deltas. Its line repeats it whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Streamed {
    pub message: String,
    pub index: u64,
    pub text_bytes: usize,
    pub thinking_bytes: usize,
}

impl Streamed {
    pub(super) fn block(&self) -> String {
        format!("{}/{}", self.message, self.index)
    }
}

impl State {
    pub(super) fn new(resumes: bool) -> Self {
        Self {
            version: VERSION,
            resumes,
            unknown_told: false,
            accepts_told: false,
            session: None,
            cwd: None,
            model: None,
            turns: 0,
            in_turn: false,
            acted: false,
            error_told: false,
            held: false,
            resets_at: None,
            open: Vec::new(),
            questions: Vec::new(),
            streamed: None,
            requests: 0,
            keeps_text: false,
            last_text: None,
            spending: Spending::default(),
            dollars_told: None,
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// Remembers a call; false when it is open already, or cannot be remembered.
    pub(super) fn open(&mut self, id: &str) -> bool {
        let room = self.open.len() < limits::TOOL_CALLS_OPEN_MAX && id.len() <= ID_BYTES_MAX;
        let takes = room && !id.is_empty() && !self.open.iter().any(|open| open == id);
        if takes {
            self.open.push(id.to_owned());
        }
        takes
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.iter().any(|open| open == id)
    }

    pub(super) fn close(&mut self, id: &str) -> bool {
        let place = self.open.iter().position(|open| open == id);
        place.map(|place| self.open.remove(place)).is_some()
    }

    pub(super) fn close_all(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open)
    }

    /// Remembers a question; false when too many wait.
    pub(super) fn ask(&mut self, request: &str, input: Map<String, Value>) -> bool {
        let room = self.questions.len() < limits::TOOL_CALLS_OPEN_MAX;
        if !room || request.is_empty() || request.len() > ID_BYTES_MAX {
            return false;
        }
        let bytes = serde_json::to_vec(&input).map_or(usize::MAX, |bytes| bytes.len());
        let input = (bytes <= QUESTION_BYTES_MAX).then_some(input);
        self.questions.push(Question { request: request.to_owned(), input });
        true
    }

    pub(super) fn answer(&mut self, request: &str) -> Option<Question> {
        let place = self.questions.iter().position(|question| question.request == request)?;
        Some(self.questions.remove(place))
    }

    pub(super) fn drop_questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.questions)
    }
}
