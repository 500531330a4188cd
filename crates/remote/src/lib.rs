//! Agents on other machines, by HTTP. `courier` is our side: a small process of its own that holds
//! one session of a remote and speaks lines with its keeper. `wire` has the bodies of ca-http-v1 and
//! `sse` reads its stream of events; both know nothing of sockets.

pub mod courier;
pub mod sse;
pub mod wire;
