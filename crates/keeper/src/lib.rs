//! The keeper: a small process that holds one attempt of one agent.
//!
//! It holds the agent's pipes and writes every byte to a spool, says frames to it exactly once,
//! counts down its lease, and takes its whole family down with it. Servers come and go meanwhile.
//! Single-threaded, one poll loop, no async: it is paid for once per running agent.
//!
//! The keeper's own side is [`keep()`]. A server starts keepers and dials them through [`door`],
//! speaks [`wire`] over [`packet`], and reads [`spool`]. Only `keep/raw.rs` holds unsafe code.

#![expect(clippy::disallowed_methods, reason = "keepers start agents and count down their leases")]

pub mod door;
mod keep;
pub mod limits;
pub mod mark;
pub mod packet;
pub mod plan;
pub mod record;
pub mod spool;
pub mod strays;
pub mod wire;

pub use keep::{keep, return_memory};
