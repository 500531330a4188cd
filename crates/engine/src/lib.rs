//! The run machine and the rules: what a run does next, and who may do what when.
//!
//! `run` holds one machine per live run: facts and wishes go in, events to append and effects to
//! perform come out. `rules` holds small functions over rows, given to the store's verbs.
//! Nothing here does IO, asks the time, takes a chance or reads what an agent wrote: a dialect
//! turns text into signals first. The scripts under `tests/scripts` are the specification.

pub mod rules;
pub mod run;

pub use run::{
    About, Ask, Booked, Covers, Effect, Greeting, Input, Ledger, Machine, MustCount, Now,
    RunBudget, SessionSpent, Step, Terms, Testimony, WorkspaceCheck,
};
