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
    pub turn_open: bool,
    pub settled: bool,
    /// The number of the model's message that is being said; its blocks are named by it.
    pub message: u32,
    /// A piece of text of this message was heard, so that its end repeats it.
    pub streamed: bool,
    /// A tool was used at all.
    pub worked: bool,
    /// How the model's last message ended.
    pub last: Option<Last>,
    /// What the provider holds the agent back with.
    pub limited: Option<Code>,
    calls: Vec<Open>,
}

/// The end of one of the model's messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Last {
    pub stop: Option<String>,
    /// What the provider called it.
    pub raw_stop: Option<String>,
    pub error: Option<String>,
    pub text: Option<String>,
}

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Open {
    pub id: String,
    /// What becomes true when it succeeds.
    pub changes: Vec<Diff>,
}

impl State {
    pub(super) fn new(resumes: Option<String>) -> Self {
        Self {
            version: VERSION,
            resumes,
            turn_open: false,
            settled: false,
            message: 1,
            streamed: false,
            worked: false,
            last: None,
            limited: None,
            calls: Vec::new(),
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// Remembers a call; false for one that is open already, or one too many.
    pub(super) fn open(&mut self, call: Open) -> bool {
        let new = !self.is_open(&call.id) && self.calls.len() < limits::TOOL_CALLS_OPEN_MAX;
        if new {
            self.calls.push(call);
        }
        new
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.id == id)
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
