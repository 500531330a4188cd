//! The complete list of what the product can do, one file per noun. REST, MCP, the CLI and relayed
//! tools are skins over these functions. Rules that can be stated without IO belong to `engine`.

pub(crate) mod again;
pub mod agents;
pub mod apply;
pub mod ask;
pub mod budgets;
pub mod callback;
pub mod catalog;
pub mod diff;
pub mod doctor;
pub(crate) mod errand;
pub mod fallback;
pub(crate) mod fit;
pub mod gate;
pub mod limits;
pub mod line;
pub mod locks;
pub(crate) mod mention;
pub mod money;
pub mod permission;
mod place;
pub mod quota;
pub mod relay;
pub mod remove;
pub mod resume;
pub mod run;
pub mod runtimes;
pub mod session;
pub mod snapshot;
pub(crate) mod start;
mod subtask;
pub mod task;
pub mod token;
pub mod tool;
pub mod who;
pub mod worktrees;
