//! A judge of agents that speak the process protocol. `orchestrator` plays the other side, one scene
//! after the other, and says what to do next; whoever has hands does it and writes down what was
//! heard; `verdict` reads those recordings and gives one verdict per point, with the line that
//! offends. Nothing here waits or starts anything: time and lines are given.

mod fields;
mod orchestrator;
mod points;
mod verdict;

#[cfg(test)]
mod tests;

pub use orchestrator::{Act, NOTE, NOTE_TEXT, Orchestrator};
pub use points::{POINTS, Point};
pub use verdict::{Finding, Verdict, judge};

use serde::Serialize;

/// One launch of the agent, and how it is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scene {
    /// Every call is answered at once, and nothing else is said.
    Plain,
    /// The same, with lines between that no agent knows.
    Strangers,
    /// Answers come late, in another order, and one that nobody asked for.
    Late,
    /// Every call is refused.
    Refused,
    /// Messages and an interrupt, as far as its hello accepts them.
    Spoken,
    /// It is told to leave as soon as it says something.
    Shutdown,
    /// Its stdin ends as soon as it says something.
    Eof,
}

impl Scene {
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Strangers,
        Self::Late,
        Self::Refused,
        Self::Spoken,
        Self::Shutdown,
        Self::Eof,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Strangers => "strangers",
            Self::Late => "late",
            Self::Refused => "refused",
            Self::Spoken => "spoken",
            Self::Shutdown => "shutdown",
            Self::Eof => "eof",
        }
    }
}

impl Scene {
    /// Whether there is anything to learn from this scene after those that were played.
    pub fn is_worth_playing(self, played: &[Recording]) -> bool {
        let left = |played: &Recording| !played.done.stopped && played.done.told_after.is_none();
        let ended = played.iter().all(left);
        let started = played.iter().all(|played| played.exit.spawn_error.is_none());
        started
            && match self {
                Self::Plain | Self::Shutdown | Self::Eof => true,
                // What does not end when it is left alone will not do better when it is not.
                Self::Strangers | Self::Late | Self::Refused => ended,
                Self::Spoken => played.iter().any(|played| played.done.accepts),
            }
    }
}

/// One line of the agent's stdout, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub at_ms: u64,
    pub bytes: Vec<u8>,
    /// False for a last line without a newline.
    pub ended: bool,
}

/// What happened in one scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub scene: Scene,
    pub lines: Vec<Heard>,
    /// What was done to the agent, as the orchestrator remembers it.
    pub done: Done,
    pub exit: Exit,
}

/// What the orchestrator did in a scene.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Calls that were answered.
    pub answered: usize,
    /// Lines heard before it was told to leave, or before its stdin ended while it still worked.
    pub told_after: Option<usize>,
    /// It did not go by itself and was killed.
    pub stopped: bool,
    /// Lines that no agent knows were said.
    pub strangers: bool,
    /// A message or an interrupt was said.
    pub spoken: bool,
    /// A hello accepted a message or an interrupt.
    pub accepts: bool,
}

/// How the process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Why it could not be started.
    pub spawn_error: Option<String>,
}

/// A foreign line as it can be shown: short, and without control characters.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_CHARS_MAX: usize = 160;
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .flat_map(|char| match char.is_control() || is_invisible(char) {
            true => char.escape_unicode().collect::<Vec<_>>(),
            false => vec![char],
        })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters that reorder or hide what a person reads.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
