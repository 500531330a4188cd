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

pub use crate::verdict::{Act, Exit, Finding, Heard, Point, Verdict};
pub use orchestrator::{NOTE, NOTE_TEXT, Orchestrator};
pub use points::POINTS;
pub use verdict::{dead_end, judge};

/// One launch of the agent, and how it is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// A conversation to resume that no agent knows, if its hello accepts to be resumed.
    Resumed,
    /// It is told to leave as soon as it says something.
    Shutdown,
    /// Its stdin ends as soon as it says something.
    Eof,
}

impl Scene {
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Strangers,
        Self::Late,
        Self::Refused,
        Self::Spoken,
        Self::Resumed,
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
            Self::Resumed => "resumed",
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
                Self::Resumed => played.iter().any(|played| played.done.accepts_resume),
            }
    }
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
    /// A hello accepted to be resumed.
    pub accepts_resume: bool,
    /// It read a task that names a conversation to resume.
    pub resumed: bool,
}
