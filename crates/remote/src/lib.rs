//! HTTP remotes: the protocol ca-http-v1, which agents on other machines speak.
//!
//! `serve/` is the side of the remote: what a session is asked for, what it is told, and how the
//! events of a run become lines of the protocol. Everything in it is a function of what it is given:
//! whoever has a socket and a store is elsewhere.

pub mod serve;
