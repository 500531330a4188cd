//! What is remembered between two lines, as data with a version. It is stored with every batch, so
//! everything in it is bounded: open calls by number, texts by size. State that another version
//! wrote is refused, because guessing would repeat or lose results.

use crate::headless::Calls;
use crate::saved;
use contract::{Code, Fault};
use serde::{Deserialize, Serialize};

/// The version of the saved form.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// A conversation was to be taken up again.
    pub resumes: bool,
    /// The model that was asked for; the one that answers is named only at the end.
    pub model: Option<String>,
    pub turn_open: bool,
    pub ended: bool,
    /// The text and the thought that are being said, by number, and whether a piece of each was
    /// heard, so that its end repeats it.
    pub text: Said,
    pub thought: Said,
    /// A tool was used at all.
    pub worked: bool,
    /// What the agent told of its last error.
    pub failed: Option<Code>,
    pub calls: Calls,
}

/// Where one of the two kinds of texts stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    pub number: u32,
    pub streamed: bool,
}

impl State {
    pub(super) fn new(resumes: bool, model: Option<String>) -> Self {
        Self {
            version: VERSION,
            resumes,
            model,
            turn_open: false,
            ended: false,
            text: Said::default(),
            thought: Said::default(),
            worked: false,
            failed: None,
            calls: Calls::default(),
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }
}
