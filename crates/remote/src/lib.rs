//! Agents on other machines, by HTTP. `courier` is our side: a small process of its own that holds
//! one session of a remote and speaks lines with its keeper. `serve` is the side of a remote: what a
//! session is asked for and told, and how the events of a run become lines of ca-http-v1; whoever has
//! a socket and a store is elsewhere. `wire` has the bodies of the protocol, and knows nothing of
//! sockets.

pub mod courier;
pub mod serve;
pub mod wire;
