//! The shapes in which the fake agent's children try to outlive their run.
//!
//! A descendant is this same program under the flag `DESCENDANT`. It tells its parent over standard
//! error that it has taken its shape, so that a test never looks too early, then sleeps, and ends
//! by itself after `LIFE_MS_MAX`. How many there may be is capped.

use crate::agent::LIFE_MS_MAX;
use rustix::process::setsid;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The flag, followed by `setsid` or `stay`, then perhaps `fork`.
pub const DESCENDANT: &str = "--as-descendant";
/// How many processes one fake agent may start.
pub const CHILDREN_MAX: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A child in a session of its own.
    SetsidChild,
    /// A grandchild in a session of its own; the process between is gone.
    DoubleFork,
    /// A grandchild in our session that keeps our standard output; the process between is gone.
    HoldStdout,
}

/// Starts descendants of this shape, and returns when they have taken it.
pub fn start(shape: Shape) {
    let (words, stdout): (&[&str], _) = match shape {
        Shape::SetsidChild => (&["setsid"], Stdio::null()),
        Shape::DoubleFork => (&["setsid", "fork"], Stdio::null()),
        Shape::HoldStdout => (&["stay", "fork"], Stdio::inherit()),
    };
    let mut child = spawn(words, stdout);
    wait_ready(&mut child);
    if words.contains(&"fork") {
        // The process between exits by itself; without this it would stay as a zombie.
        let _ = child.wait();
    }
}

/// Starts children one after the other, without waiting for any.
pub fn start_often(children: u32) {
    for _ in 0..children.min(CHILDREN_MAX) {
        drop(spawn(&["setsid"], Stdio::null()));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Standard output leads nowhere from now on, so the reader of the pipe sees its end.
pub fn close_stdout() {
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
}

/// The life of a descendant.
pub fn live(words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    if has("fork") {
        let shape = if has("setsid") { "setsid" } else { "stay" };
        wait_ready(&mut spawn(&[shape], Stdio::inherit()));
        tell_ready();
        return ExitCode::SUCCESS;
    }
    if has("setsid") {
        // It fails only for the leader of a group, and then the shape is there already.
        let _ = setsid();
    }
    tell_ready();
    std::thread::sleep(Duration::from_millis(LIFE_MS_MAX));
    ExitCode::SUCCESS
}

fn spawn(words: &[&str], stdout: Stdio) -> Child {
    let own = std::env::current_exe().expect("a program knows its own path");
    Command::new(own)
        .arg(DESCENDANT)
        .args(words)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program can be started again")
}

fn tell_ready() {
    let _ = std::io::stderr().write_all(b".");
}

/// Waits for the byte that says so, or for the end of a descendant that failed.
fn wait_ready(child: &mut Child) {
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read(&mut [0]);
    }
}
