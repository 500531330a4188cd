//! Real keepers with real agents, which are small shell scripts.
//!
//! Every wait has a bound, nothing leaves the machine, and no script forks without an end.

#![allow(clippy::disallowed_methods, reason = "waits are bounded by the clock")]

mod containing;
mod full_disk;
mod hearing;
mod owning;
mod saying;
mod scene;
mod starting;
mod stopping;
