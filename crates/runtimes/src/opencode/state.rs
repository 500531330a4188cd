//! What is remembered between two lines, as data with a version. It is stored with every batch, so
//! everything in it is bounded. State that another version wrote is refused, because guessing would
//! repeat or lose results.

use crate::saved;
use crate::told::Turns;
use contract::Fault;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The version of the saved form.
const VERSION: u32 = 1;

/// How many parts are remembered to know one that is printed again.
const PARTS_MAX: usize = 32;
/// A part's id longer than this is not remembered.
const PART_ID_BYTES_MAX: usize = 128;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// The conversation that was to be taken up again.
    pub resumes: Option<String>,
    /// The model that was asked for, as `provider/model`: the lines never name one.
    pub model: Option<String>,
    pub introduced: bool,
    pub turns: Turns,
    /// The step that is going on used a tool, so another step follows whatever its reason says.
    pub step_worked: bool,
    /// A tool was used in this turn.
    pub worked: bool,
    /// What the step that is going on said.
    pub text: Option<String>,
    /// A call of this step was not permitted. Where no other step follows, that was the end.
    pub denied: Option<String>,
    parts: VecDeque<String>,
}

impl State {
    pub(super) fn new(resumes: Option<String>, model: Option<String>) -> Self {
        Self {
            version: VERSION,
            resumes,
            model,
            introduced: false,
            turns: Turns::default(),
            step_worked: false,
            worked: false,
            text: None,
            denied: None,
            parts: VecDeque::new(),
        }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }

    /// A part is printed whenever it is stored, which may be twice; true for the first time.
    pub(super) fn is_new(&mut self, part: Option<&str>) -> bool {
        let Some(part) = part.filter(|part| part.len() <= PART_ID_BYTES_MAX) else {
            return true;
        };
        if self.parts.iter().any(|known| known == part) {
            return false;
        }
        if self.parts.len() == PARTS_MAX {
            self.parts.pop_front();
        }
        self.parts.push_back(part.to_owned());
        true
    }
}
