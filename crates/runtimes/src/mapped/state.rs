//! What is remembered between two lines of a run. It is stored with every batch, so everything in it
//! is bounded: open calls by number, texts by size. The mapping itself is saved beside it by
//! `dialect`.

use crate::headless::{Answer, Calls, bounded};
use contract::Code;
use contract::event::StopReason;
use contract::limits::MAPPING_ID_BYTES_MAX;
use serde::{Deserialize, Serialize};

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
    answer: Answer,
    /// The last error that was told.
    pub trouble: Option<Told>,
    pub verdict: Option<Ends>,
    /// What the provider holds the agent back with.
    pub limited: Option<Code>,
    pub quota_told: bool,
    pub calls: Calls,
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
                self.answer.set("");
            }
            self.answer.push(text);
        }
        format!("text-{}", self.block)
    }

    /// Something else was said, so that the next piece begins another text.
    pub(super) fn end_text(&mut self) {
        self.open = None;
    }

    /// The last message as it was repeated whole; it may have said nothing.
    pub(super) fn set_answer(&mut self, text: Option<&str>) {
        self.answer.set(text.unwrap_or_default());
    }

    /// The last text whole, which is the answer.
    pub(super) fn answer(&self) -> Option<String> {
        self.answer.said()
    }
}
