//! Pure functions over rows, one file per question. The store and the host ask; nothing here knows
//! who does, and nothing here does IO, asks the time or takes a chance: those are arguments.

pub mod claimable;
pub mod handover;
pub mod hold;
pub mod lease;
pub mod overdue;
pub mod price;
pub mod reserve;
pub mod resume;
pub mod retry;
