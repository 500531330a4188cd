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
    /// The conversation that was to be taken up again.
    pub resumes: Option<String>,
    pub introduced: bool,
    pub turn_open: bool,
    pub ended: bool,
    /// The message whose pieces were heard last, so that its whole repeats them.
    pub streamed: Option<String>,
    /// The same of the thoughts.
    pub thought: Option<String>,
    /// A tool was used at all.
    pub worked: bool,
    /// Somebody stopped it, after which an exit of 0 is no success.
    pub aborted: bool,
    /// The last text of the model's own.
    pub text: Option<String>,
    /// Why the model's last call failed.
    pub failed: Option<Code>,
    /// What the agent itself calls the end of the matter.
    pub error: Option<Trouble>,
    /// What the provider holds the agent back with.
    pub limited: bool,
    pub calls: Calls,
    /// The call whose output so far was shown last, and how much of it.
    pub shown: Option<(String, usize)>,
}

/// An error that the agent told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Trouble {
    pub code: Code,
    pub words: String,
}

impl State {
    pub(super) fn new(resumes: Option<String>) -> Self {
        Self {
            version: VERSION,
            resumes,
            introduced: false,
            turn_open: false,
            ended: false,
            streamed: None,
            thought: None,
            worked: false,
            aborted: false,
            text: None,
            failed: None,
            error: None,
            limited: false,
            calls: Calls::default(),
            shown: None,
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }
}
