//! What the tests of every room share: an isolated instance of the product, the `fake-agent` with
//! a flag for every bad manner, a scan for processes left behind, and waiting with a bound.
//!
//! Development only: no crate of the product depends on this one outside its tests. Helpers here
//! panic with a sentence that says what was waited for, because their only callers are tests.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read the clock and the environment for themselves"
)]

pub mod agent;
pub mod agents;
pub mod hung_mount;
pub mod instance;
pub mod leftovers;
pub mod model;
pub mod program;
pub mod promises;
pub mod recorded;
pub mod remote;
pub mod until;

pub use hung_mount::HungMount;
pub use instance::Instance;
pub use leftovers::{Leftover, end_marked, find_called, find_marked, keepers};
pub use model::Model;
pub use program::{fake_agent, python};
pub use until::until;
