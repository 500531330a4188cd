//! What finds those of a family who hide. An agent with a witness holds the lock of a file, and so does
//! everyone who has the descriptor from it; everyone it starts is called by the path of that file, and
//! writes there that it lived. So one that has no mark in its environment is found by the lock, one
//! that closed its descriptors by its mark, and one that did both by its name.

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::IntoRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How the file is called, before the name of its run.
const PREFIX: &str = ".witness-";
/// What names the run to its agent.
const RUN: &str = "OSTLER_RUN_ID";

static OWN: OnceLock<String> = OnceLock::new();

/// The witness of a run whose agent works in this directory.
pub fn of_run(work: &Path, run: &str) -> PathBuf {
    work.join(format!("{PREFIX}{run}"))
}

/// What this agent is called: its run, or its pid where there is none. Every agent in a PID namespace
/// of its own may have the same pid.
pub fn run() -> String {
    std::env::var(RUN).unwrap_or_else(|_| std::process::id().to_string())
}

/// Takes the lock and lets everyone inherit it.
pub fn take() -> io::Result<()> {
    let path = of_run(&std::env::current_dir()?, &run());
    let file = File::options().append(true).create(true).open(&path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    fcntl_setfd(&file, FdFlags::empty())?;
    // It is let go of by the end of the last who has it.
    let _ = file.into_raw_fd();
    let _ = OWN.set(path.display().to_string());
    Ok(())
}

/// The path that descendants are called by, where there is a witness.
pub fn path() -> Option<String> {
    let called = || std::env::args().next().filter(|name| name.contains(PREFIX));
    OWN.get().cloned().or_else(called)
}

/// Writes that one of this kind lives.
pub fn note(word: &str) {
    if let Some(path) = path()
        && let Ok(mut file) = File::options().append(true).open(path)
    {
        let _ = file.write_all(format!("{word}\n").as_bytes());
    }
}

/// Whether nobody holds the lock any more.
pub fn is_free(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Who lived, by their words.
pub fn noted(path: &Path) -> io::Result<Vec<String>> {
    Ok(std::fs::read_to_string(path)?.lines().map(str::to_owned).collect())
}
