//! Foreign texts, as long as they may be kept: the answer of an agent, which is the last text that
//! it said, and what is remembered of its other words.

use contract::limits::{PREVIEW_BYTES, TEXT_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// The last text of the agent, as much of it as is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Answer(String);

impl Answer {
    pub fn push(&mut self, piece: &str) {
        let room = TEXT_BYTES_MAX.saturating_sub(self.0.len());
        self.0.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    pub fn set(&mut self, text: &str) {
        self.0.clear();
        self.push(text);
    }

    /// The answer as it was said, if anything was.
    pub fn said(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.clone())
    }

    /// The answer without its last blanks, if there is one to speak of.
    pub fn words(&self) -> Option<String> {
        let text = self.0.trim_end();
        (!text.trim_start().is_empty()).then(|| text.to_owned())
    }
}

/// A foreign text as long as a detail may be.
pub(crate) fn preview(text: &str) -> String {
    bounded(text, PREVIEW_BYTES)
}

/// A foreign text, not longer than this.
pub(crate) fn bounded(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
