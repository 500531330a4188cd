//! What is remembered between two lines, with the mapping itself, as data with a version: whoever
//! takes the run over has the mapping from here, not from a file that may have changed. It is stored
//! with every batch, so everything in it is bounded: the mapping by its check, open calls by number,
//! texts by size.

use crate::saved;
use contract::event::{Diff, StopReason};
use contract::limits::{MAPPING_ID_BYTES_MAX, TEXT_BYTES_MAX, TOOL_CALLS_OPEN_MAX};
use contract::mapping::Mapping;
use contract::{Code, Fault};
use serde::{Deserialize, Serialize};

/// The version of the saved form.
const VERSION: u32 = 1;

/// Everything that is saved.
#[derive(Serialize, Deserialize)]
struct Saved<M, S> {
    version: u32,
    /// The adapter's name.
    name: String,
    mapping: M,
    state: S,
}

pub(super) fn save(name: &str, mapping: &Mapping, state: &State) -> Vec<u8> {
    saved::save(&Saved { version: VERSION, name: name.to_owned(), mapping, state })
}

pub(super) fn load(bytes: &[u8]) -> Result<(String, Mapping, State), Fault> {
    let Saved { name, mapping, state, .. } = saved::load(bytes, VERSION)?;
    Ok((name, mapping, state))
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// The conversation that was to be taken up again.
    pub resumes: Option<String>,
    /// The conversation that was told of.
    pub session: Option<String>,
    pub turn_open: bool,
    pub ended: bool,
    /// A tool was used at all.
    pub worked: bool,
    /// A piece of text was heard that a whole one may repeat.
    pub streamed: bool,
    /// The number of the last text or thought.
    block: u32,
    /// The text or thought that the next piece may belong to.
    open: Option<OpenText>,
    /// The last text whole.
    answer: String,
    /// The last error that was told.
    pub trouble: Option<Told>,
    pub verdict: Option<Ends>,
    /// What the provider holds the agent back with.
    pub limited: Option<Code>,
    pub quota_told: bool,
    calls: Vec<Open>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenText {
    kind: Kind,
    key: Option<String>,
}

/// What the model does: it speaks, or it thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Text,
    Thinking,
}

/// An error that was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub code: Code,
    pub detail: Option<String>,
}

/// What an end means; `None` is success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ends {
    pub code: Option<Code>,
    pub stop: Option<StopReason>,
    pub detail: Option<String>,
    /// The answer, when it is not the last text.
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
        Self { resumes, ..Self::default() }
    }

    /// Takes a piece, or a whole, and gives the block it belongs to.
    pub(super) fn hear(
        &mut self,
        kind: Kind,
        key: Option<&str>,
        text: &str,
        delta: bool,
    ) -> String {
        let key = key.map(|key| bounded(key, MAPPING_ID_BYTES_MAX));
        let here = Some(OpenText { kind, key });
        let goes_on = delta && self.open == here;
        if !goes_on {
            self.block = self.block.saturating_add(1);
        }
        self.open = here.filter(|_| delta);
        if kind == Kind::Text {
            if !goes_on {
                self.answer.clear();
            }
            let room = TEXT_BYTES_MAX.saturating_sub(self.answer.len());
            self.answer.push_str(&text[..text.floor_char_boundary(room)]);
        }
        format!("text-{}", self.block)
    }

    /// Something else was said, so that the next piece begins another text.
    pub(super) fn end_text(&mut self) {
        self.open = None;
    }

    /// The last message as it was repeated whole; it may have said nothing.
    pub(super) fn set_answer(&mut self, text: Option<&str>) {
        self.answer = bounded(text.unwrap_or_default(), TEXT_BYTES_MAX);
    }

    /// The last text whole, which is the answer.
    pub(super) fn answer(&self) -> Option<&str> {
        (!self.answer.is_empty()).then_some(self.answer.as_str())
    }

    /// Remembers a call; false for one that is open already, or one too many.
    pub(super) fn open_call(&mut self, call: Open) -> bool {
        let new = !self.is_open(&call.id) && self.calls.len() < TOOL_CALLS_OPEN_MAX;
        if new {
            self.calls.push(call);
        }
        new
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.id == id)
    }

    pub(super) fn close_call(&mut self, id: &str) -> Option<Open> {
        let index = self.calls.iter().position(|call| call.id == id)?;
        Some(self.calls.remove(index))
    }

    /// Every call that is still open, which from now on is none.
    pub(super) fn close_all(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.calls)
    }
}

/// A foreign text, not longer than this.
pub(super) fn bounded(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
