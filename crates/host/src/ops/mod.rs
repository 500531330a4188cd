//! The complete list of what the product can do, one file per noun. REST, MCP, the CLI and relayed
//! tools are skins over these functions. Rules that can be stated without IO belong to `engine`.

mod again;
pub mod agents;
pub mod ask;
pub mod callback;
pub mod catalog;
pub mod gate;
pub mod line;
pub mod money;
pub mod permission;
pub mod relay;
pub mod remove;
pub mod resume;
pub mod run;
pub mod session;
pub mod snapshot;
pub(crate) mod start;
pub mod task;
pub mod tool;
