//! Git as a person runs it, for tests that have a repository: with a name of its own and without the
//! configuration of whoever runs the tests.

use std::path::Path;
use std::process::Command;

pub fn git(dir: &Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=p", "-c", "user.email=p@example.invalid", "-C"])
        .arg(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}
