//! What is fuzzed, and what must hold of each for any bytes. A target that reads lines or text is
//! also told the same thing another way (cut elsewhere, saved and loaded between two lines, read
//! record by record), and both ways must come to the same.
//!
//! Two readers live in crates that this tool does not depend on, because they would bring an HTTP
//! stack with them: their source files, which are pure, are compiled in here.

mod config;
mod frame;
mod jsonlines;
mod seal;
mod spool;
mod template;

use super::search::Target;

pub const ALL: &[Target] = &[
    frame::TARGET,
    jsonlines::TARGET,
    seal::TARGET,
    config::TARGET,
    template::TARGET,
    spool::TARGET,
];

/// What agents said in the recordings of the process protocol.
fn recordings() -> Vec<Vec<u8>> {
    macro_rules! recordings {
        ($($name:literal),+) => {
            vec![$(include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../crates/runtimes/src/jsonlines/recordings/",
                $name,
                ".jsonl"
            ))
            .to_vec()),+]
        };
    }
    recordings!(
        "costs", "cut", "failed", "garbage", "happy", "minimum", "printed", "tools", "unicode"
    )
}

/// The answer of a target: what does not hold, when it does not.
fn holds(what: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if what { Ok(()) } else { Err(why()) }
}
