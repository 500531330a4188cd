//! Pure functions over rows, one file per question. The store and the host ask; nothing here knows
//! who does, and nothing here does IO, asks the time or takes a chance: those are arguments.

pub mod breaker;
pub mod budget;
pub mod claimable;
pub mod countable;
pub mod errand;
pub mod fallback;
pub mod fits;
pub mod handover;
pub mod hold;
pub mod keeper_ping;
pub mod lease;
pub mod overdue;
pub mod paths;
pub mod price;
pub mod reset;
pub mod resume;
pub mod retry;
pub mod subtask;
