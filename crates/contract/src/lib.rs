//! The words of the house: ids, events, commands, states, outcomes, faults, limits, cards, and the
//! few words two siblings share. Data and serde only: no IO, no clock, no async, no chance.
//!
//! A type enters this crate only if it is stored, crosses a wire, or is spoken between two sibling
//! crates. Everything here is described by one JSON Schema (`schema`), snapshot-tested; changes are
//! additive. `docs/contract.md` is made from this crate by `cargo xtask docs`.

pub mod access;
pub mod amount;
mod canon;
pub mod card;
pub mod command;
pub mod config;
mod depth;
pub mod diagnosis;
pub mod event;
pub mod fault;
pub mod id;
pub mod known;
pub mod limits;
pub mod mapping;
pub mod misread;
pub mod money;
pub mod permission;
pub mod plan;
pub mod reach;
pub mod reset;
pub mod schema;
pub mod speech;
pub mod sse;
pub mod state;
pub mod time;
pub mod transcript;
pub mod view;

pub use access::{Page, Problem, Scope};
pub use card::{Card, Policy};
pub use command::{Command, Wish};
pub use event::{Body, Event, Outcome};
pub use fault::{Code, Fault, Surface};
pub use id::{AgentId, AskId, CommandId, RunId, TaskId, TokenId};
pub use known::Known;
pub use money::{Billing, NanoUsd, Tokens};
pub use plan::LaunchPlan;
pub use reset::Reset;
pub use speech::{Draft, Signal, Utterance};
pub use state::{RunState, TaskState};
pub use time::Timestamp;
