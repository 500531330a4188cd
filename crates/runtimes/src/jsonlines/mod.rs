//! The process protocol: newline-delimited JSON both ways. From the agent come `progress`,
//! `tool_call`, `comment`, `complete` and `failed`, and, if it likes to show and take more, `hello`
//! and `event`; to it go `tool_result`, `budget_update` and `shutdown`, and, after a hello that
//! accepts them, `message` and `interrupt`. A hello that accepts `resume` lets a later run resume the
//! conversation that a `session` event names.
//! `wire` mirrors the lines, `cost` reads money, `state` is what is saved, `dialect` puts them
//! together; `judge` says whether an agent speaks it well. Nothing outside this folder may know what a
//! line looks like.

mod cost;
mod dialect;
pub mod judge;
mod state;
mod wire;

#[cfg(test)]
mod tests;

use crate::Dialect;
use contract::Fault;

/// A conversation in which nothing has been said yet.
pub fn fresh() -> Box<dyn Dialect> {
    opened(false)
}

/// The same; `resumes` says that the agent is given an earlier one to resume.
pub fn opened(resumes: bool) -> Box<dyn Dialect> {
    Box::new(dialect::JsonLines::new(state::State::opened(resumes)))
}

/// A conversation that goes on from its saved state.
pub fn restore(saved: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
    let state = state::State::load(saved)?;
    Ok(Box::new(dialect::JsonLines::new(state)))
}
