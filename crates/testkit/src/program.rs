//! Where the programs are that tests start: the `fake-agent`, and the Python interpreter.
//!
//! Cargo builds a dependency's library but not its programs, so a test of another crate cannot
//! count on `fake-agent` being there: it is built on first use when it is missing or stale.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{env, fs};

/// The path of `fake-agent`, beside the test program that asks.
pub fn fake_agent() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(locate).clone()
}

/// The interpreter itself, not a version manager's shim; `None` when there is none.
pub fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let output = Command::new("python3")
                .args(["-c", "import sys; print(sys.executable)"])
                .stdin(Stdio::null())
                .output()
                .ok()?;
            let path = String::from_utf8(output.stdout).ok()?;
            (output.status.success() && !path.trim().is_empty()).then(|| path.trim().into())
        })
        .clone()
}

fn locate() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let profile = profile_dir(&test).expect("a test lies in cargo's target directory");
    let program = profile.join("fake-agent");
    if stale(&program) {
        build(profile);
    }
    assert!(program.exists(), "fake-agent was built, but is not at {}", program.display());
    program
}

/// `target/debug` for `target/debug/deps/some_test-0123`.
fn profile_dir(test: &Path) -> Option<&Path> {
    let dir = test.parent()?;
    if dir.ends_with("deps") { dir.parent() } else { Some(dir) }
}

fn stale(program: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let Some(built) = modified(program) else { return true };
    newest(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))).is_some_and(|at| at > built)
}

fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    entries
        .filter_map(|entry| {
            let data = entry.metadata().ok()?;
            if data.is_dir() { newest(&entry.path()) } else { data.modified().ok() }
        })
        .max()
}

fn build(profile: &Path) {
    let target = profile.parent().expect("a profile's directory lies in the target directory");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", "testkit", "--bin", "fake-agent"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    // The directory of a profile has its name, except that of `dev`.
    if let Some(name) = profile.file_name().filter(|name| *name != "debug") {
        command.arg("--profile").arg(name);
    }
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "fake-agent could not be built: {status}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_found_from_a_test_and_from_a_program() {
        let dir = Path::new("target/debug");
        assert_eq!(profile_dir(Path::new("target/debug/deps/some_test-0123")), Some(dir));
        assert_eq!(profile_dir(Path::new("target/debug/ostler")), Some(dir));
    }

    #[test]
    fn a_program_that_is_not_there_is_stale() {
        assert!(stale(Path::new("/nonexistent/fake-agent")));
    }
}
