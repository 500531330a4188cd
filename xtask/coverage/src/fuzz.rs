//! The targets of `cargo xtask fuzz`, their seeds and what chance does to them: the very files.
//! Nothing of its own lives here.

#[path = "../../src/fuzz/lines.rs"]
mod lines;
#[path = "../../src/fuzz/mutate.rs"]
pub mod mutate;
#[allow(dead_code, reason = "the loop itself is libFuzzer's here")]
#[path = "../../src/fuzz/search.rs"]
pub mod search;
#[path = "../../src/fuzz/targets/mod.rs"]
pub mod targets;
