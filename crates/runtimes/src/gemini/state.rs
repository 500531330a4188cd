//! What is remembered between two lines, as data with a version. It is stored with every batch, so
//! everything in it is bounded: open calls by number, texts by size. State that another version
//! wrote is refused, because guessing would repeat or lose results.

use crate::saved;
use contract::event::Diff;
use contract::{Code, Fault, limits};
use serde::{Deserialize, Serialize};

/// The version of the saved form.
const VERSION: u32 = 1;

/// A call's id longer than this cannot be kept and is not taken.
pub(super) const CALL_ID_BYTES_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// The conversation that was to be taken up again.
    pub resumes: Option<String>,
    /// The first line was heard and the last was not.
    pub turn_open: bool,
    pub ended: bool,
    /// The number of the text that is being said; a tool between two pieces begins another.
    pub block: u32,
    text: String,
    text_open: bool,
    calls: Vec<Open>,
    /// What the provider holds the agent back with, by the last word of stderr.
    pub limited: Option<Code>,
    pub quota_told: bool,
    /// What the last `error` line said, for a result that does not repeat it.
    pub complaint: Option<String>,
}

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Open {
    pub id: String,
    /// What becomes true when it succeeds.
    pub change: Option<Diff>,
}

impl State {
    pub(super) fn new(resumes: Option<String>) -> Self {
        Self {
            version: VERSION,
            resumes,
            turn_open: false,
            ended: false,
            block: 0,
            text: String::new(),
            text_open: false,
            calls: Vec::new(),
            limited: None,
            quota_told: false,
            complaint: None,
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// Takes a piece of the model's text and gives the block it belongs to.
    pub(super) fn hear_text(&mut self, piece: &str, delta: bool) -> String {
        if !(delta && self.text_open) {
            self.block = self.block.saturating_add(1);
            self.text.clear();
        }
        let room = limits::TEXT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        self.text_open = delta;
        format!("text-{}", self.block)
    }

    /// Something else was said, so that the next piece begins another text.
    pub(super) fn end_text(&mut self) {
        self.text_open = false;
    }

    /// The last text whole, which is the answer.
    pub(super) fn answer(&self) -> Option<String> {
        (!self.text.is_empty()).then(|| self.text.clone())
    }

    /// Remembers a call; false for one that is open already, or one too many.
    pub(super) fn open(&mut self, call: Open) -> bool {
        let new = self.calls.iter().all(|open| open.id != call.id)
            && self.calls.len() < limits::TOOL_CALLS_OPEN_MAX;
        if new {
            self.calls.push(call);
        }
        new
    }

    pub(super) fn close(&mut self, id: &str) -> Option<Open> {
        let index = self.calls.iter().position(|call| call.id == id)?;
        Some(self.calls.remove(index))
    }

    /// Every call that is still open, which from now on is none.
    pub(super) fn close_all(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.calls)
    }
}
