//! What `ostler init` writes: a file that loads, has one agent that works at once, and explains
//! the rest in comments whose examples load too (a test takes them out of their comments).

/// The text of a first `ostler.json`.
pub const TEMPLATE: &str = include_str!("init.jsonc");
