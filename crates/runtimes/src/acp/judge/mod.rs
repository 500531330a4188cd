//! A judge of agents that speak ACP. `script` has the scenes as lists of steps, `client` plays them
//! from the other side and says what to do next; whoever has hands does it and writes down what was
//! heard; `verdict` and `lines` read those recordings and give one verdict per point of `points`,
//! with the line that offends. Nothing here waits or starts anything: time and lines are given. It
//! is stricter than the dialect, which forgives for the sake of the run.

mod client;
mod fields;
mod lines;
mod message;
mod points;
mod script;
mod verdict;

#[cfg(test)]
mod tests;

pub use crate::verdict::{Act, Exit, Finding, Heard, Point, Verdict};
pub use client::{Client, Setting};
pub use points::POINTS;
pub use script::{Ask, FILE, Scene, Step, Then};
pub use verdict::{dead_end, judge};

/// How long one that did not leave in time before is given again: nothing more is learned by waiting.
pub const HURRIED_MS: u64 = 500;

/// What happened in one scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub scene: Scene,
    pub lines: Vec<Heard>,
    /// What was said, in order, and what became of each.
    pub exchanges: Vec<Exchange>,
    pub done: Done,
    pub exit: Exit,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub step: Step,
    /// The id of the request; none for what wants no reply.
    pub id: Option<u64>,
    /// The session it was said in.
    pub session: Option<String>,
    /// How many lines were heard before it was said.
    pub after: usize,
    /// The place of its reply among the lines.
    pub reply: Option<usize>,
    pub cancel: Option<Cancel>,
}

/// A turn that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancel {
    pub at_ms: u64,
    /// How many lines were heard before.
    pub after: usize,
    /// A question was open.
    pub asked: bool,
}

/// What was done to the agent in a scene.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Lines heard before its stdin was closed.
    pub closed_after: Option<usize>,
    /// A turn was open when its stdin was closed.
    pub mid_turn: bool,
    /// Questions that were allowed, denied, and withdrawn.
    pub allowed: usize,
    pub denied: usize,
    pub withdrawn: usize,
    /// It did not leave by itself and was sent SIGTERM.
    pub told: bool,
    /// It had not left by itself before, so it was given less time.
    pub hurried: bool,
    /// It did not leave then either and was killed.
    pub killed: bool,
    /// The file that it was asked to make is there.
    pub wrote: bool,
}
