//! What is fuzzed, and what must hold of each for any bytes. A target that reads lines or text is
//! also told the same thing another way (cut elsewhere, saved and loaded between two lines, read
//! record by record), and both ways must come to the same.
//!
//! Some readers live in crates that this tool does not depend on, because they would bring an HTTP
//! stack with them: their source files, which are pure, are compiled in here.

mod config;
mod deltas;
pub mod dialects;
mod frame;
mod jsonlines;
mod mapped;
pub mod planted;
mod resolve;
mod seal;
mod spool;
mod sse;
mod template;

use super::search::{Reader, Target};
use std::path::{Path, PathBuf};

pub const ALL: &[Target] = &[
    frame::TARGET,
    jsonlines::TARGET,
    mapped::TARGET,
    seal::TARGET,
    deltas::TARGET,
    config::TARGET,
    resolve::TARGET,
    template::TARGET,
    sse::TARGET,
    spool::TARGET,
];

/// Those of the list, then the dialect of every registered runtime, then the planted fault.
pub fn all() -> Vec<Box<dyn Reader>> {
    let boxed = |target: &'static Target| Box::new(target) as Box<dyn Reader>;
    let listed = ALL.iter().map(boxed).chain(dialects::all());
    listed.chain([boxed(&planted::TARGET)]).collect()
}

/// Of a long recording its beginning is enough: inputs are not longer.
const RECORDING_BYTES_MAX: usize = 16 * 1024;

/// What agents said in the recordings of every runtime, in the order of their names.
fn recordings() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    recordings_in(&crate::root().join("crates/runtimes/src"), false, &mut found);
    found.sort();
    let read = found.iter().filter_map(|path| std::fs::read(path).ok());
    read.map(|bytes| bytes[..bytes.len().min(RECORDING_BYTES_MAX)].to_vec()).collect()
}

fn recordings_in(dir: &Path, inside: bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            recordings_in(&path, inside || path.ends_with("recordings"), found);
        } else if inside && path.extension().is_none_or(|extension| extension != "why") {
            found.push(path);
        }
    }
}

/// The answer of a target: what does not hold, when it does not.
fn holds(what: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if what { Ok(()) } else { Err(why()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_recordings_of_the_runtimes_are_found() {
        assert!(super::recordings().len() >= 9);
    }
}
