//! The side of a remote that serves sessions by ca-http-v1, without hands: `wire` mirrors the bodies
//! of the protocol, `tell` turns the events of a run into lines for the caller, `heed` turns what the
//! caller sends into wishes of that run. A line is a function of its event alone, so that a caller who
//! comes back is told the same lines under the same numbers by whoever serves then.

pub mod heed;
pub mod tell;
pub mod wire;
