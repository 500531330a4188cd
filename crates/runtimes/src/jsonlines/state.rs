//! What a conversation remembers between two lines, as data with a version. It is stored with every
//! Batch, so everything in it is bounded: calls by number and by the length of their ids, the last
//! text by size. State that another version wrote is refused, because guessing would repeat or lose
//! answers.

use crate::saved;
use contract::{Fault, limits};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use std::collections::VecDeque;

/// The version of the saved form.
const VERSION: u32 = 1;

/// Answered calls whose ids are still known, so that a repeated one is not called again.
const ANSWERED_MAX: usize = 256;

/// A call's id longer than this cannot be kept and is not taken.
pub(super) const CALL_ID_BYTES_MAX: usize = 256;
/// A conversation with a longer name cannot be resumed.
pub(super) const SESSION_ID_BYTES_MAX: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// What the agent's last hello accepts.
    pub accepts_message: bool,
    pub accepts_interrupt: bool,
    #[serde(default)]
    pub accepts_resume: bool,
    /// The agent's own name for its conversation.
    #[serde(default)]
    pub session: Option<String>,
    /// The agent was given an earlier conversation to resume.
    #[serde(default)]
    pub resumes: bool,
    /// The number of the last turn.
    pub turns: u32,
    /// A complete or failed line was heard.
    pub ended: bool,
    /// Lines of stdout that were not blank, and how many of them were not understood.
    pub lines: u64,
    pub unrecognised: u64,
    /// Relayed calls that wait for their answer, at most `limits::TOOL_CALLS_OPEN_MAX`.
    open: Vec<Call>,
    /// The last answered calls, oldest first.
    answered: VecDeque<String>,
    pub last_text: LastText,
}

/// A relayed call. An id that came as a number goes back as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<Number>,
}

/// The model's last text, which is the answer when the agent ends without giving one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct LastText {
    text: String,
    block: Option<String>,
    /// A delta without a block goes on with this text; anything else the agent states ends it.
    open: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: VERSION,
            accepts_message: false,
            accepts_interrupt: false,
            accepts_resume: false,
            session: None,
            resumes: false,
            turns: 0,
            ended: false,
            lines: 0,
            unrecognised: 0,
            open: Vec::new(),
            answered: VecDeque::new(),
            last_text: LastText::default(),
        }
    }
}

impl State {
    pub(super) fn opened(resumes: bool) -> Self {
        Self { resumes, ..Self::default() }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// Whether a relayed call of this id is open or was answered not long ago.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.open.iter().any(|call| call.id == id) || self.answered.iter().any(|known| known == id)
    }

    /// Remembers a call to be answered; false when too many are open.
    pub(super) fn open(&mut self, call: Call) -> bool {
        let room = self.open.len() < limits::TOOL_CALLS_OPEN_MAX;
        if room {
            self.open.push(call);
        }
        room
    }

    /// Takes the open call of this id, which from now on counts as answered.
    pub(super) fn answer(&mut self, id: &str) -> Option<Call> {
        let index = self.open.iter().position(|call| call.id == id)?;
        let call = self.open.remove(index);
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(call.id.clone());
        Some(call)
    }
}

impl LastText {
    /// Goes on with the same block, or begins anew.
    pub(super) fn hear(&mut self, text: &str, block: Option<&str>, delta: bool) {
        let goes_on = delta
            && match (block, self.block.as_deref()) {
                (Some(block), Some(last)) => block == last,
                (None, None) => self.open,
                (Some(_), None) | (None, Some(_)) => false,
            };
        if !goes_on {
            self.text.clear();
            self.block = block.filter(|block| block.len() <= CALL_ID_BYTES_MAX).map(str::to_owned);
        }
        let room = limits::TEXT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        self.open = delta;
    }

    /// Something else was stated, so a delta without a block begins a new text.
    pub(super) fn interrupt(&mut self) {
        self.open = false;
    }

    pub(super) fn get(&self) -> Option<String> {
        (!self.text.is_empty()).then(|| self.text.clone())
    }
}
