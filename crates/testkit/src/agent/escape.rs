//! The shapes in which the fake agent's children try to outlive their run.
//!
//! A shape is one word for each generation, the nearest first: `gone/setsid+deaf` is a grandchild in a
//! session of its own that ignores signals, whose parent is gone. `MANNERS` has what a word is made
//! of. A descendant is this same program under the flag `DESCENDANT`: it takes the first word for
//! itself, starts the rest below it, tells its parent over standard error that all have taken their
//! shape, so that a test never looks too early, then sleeps, and ends by itself after `LIFE_MS_MAX`.
//! How many there may be is capped; families that grow by themselves are in `swarm.rs`, children that
//! are no program of their own in `clones.rs`, and what finds those who hide in `witness.rs`.

use crate::agent::clones;
use crate::agent::{LIFE_MS_MAX, signals, swarm, witness};
use rustix::process::{DumpableBehavior, getppid, set_child_subreaper, set_dumpable_behavior};
use rustix::process::{setpgid, setsid};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The flag, followed by the generations.
pub const DESCENDANT: &str = "--as-descendant";
/// How many processes one fake agent may start one by one.
pub const CHILDREN_MAX: u32 = 64;
/// How long a slow one takes to leave.
const SLOW: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(2);
/// A name that reads like the state and the parent of a dead process in `/proc/pid/stat`.
const ODD_NAME: &std::ffi::CStr = c"x) Z 1 1";

/// What a generation can be told, and what it means. Several are joined by `+`.
pub const MANNERS: [(&str, &str); 21] = [
    ("stay", "nothing of its own"),
    ("gone", "exits as soon as those below it live"),
    ("setsid", "is in a session of its own"),
    ("group", "is in a process group of its own"),
    ("voice", "keeps standard output"),
    ("deaf", "ignores SIGTERM, SIGINT and SIGHUP"),
    ("slow", "takes its time after SIGTERM"),
    ("breeds", "starts another when it is told to end, and stays"),
    ("stopped", "is stopped by SIGSTOP"),
    ("later", "waits until its parent is gone, then takes a session and starts those below it"),
    ("bare", "closes every descriptor"),
    ("unmarked", "has no environment"),
    ("elsewhere", "works in another directory"),
    ("renamed", "has a name that reads like a dead process"),
    ("undumpable", "may not be looked into"),
    ("reaper", "takes the orphans below it for its own"),
    ("thread", "is the child of a thread that lives on"),
    ("fork", "is a copy of its parent, and runs no program"),
    ("vfork", "runs in the memory of its parent, whose thread waits for it"),
    ("sibling", "is a copy of its parent, and the child of its parent's parent"),
    ("mute", "is a copy of its parent, whose end is told to nobody"),
];

/// The generations, each a word of manners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape(Vec<String>);

impl Shape {
    /// Reads `word/word`; what is no manner is refused by name.
    pub fn read(text: &str) -> Result<Self, String> {
        let words: Vec<String> = text.split('/').map(str::to_owned).collect();
        for manner in words.iter().flat_map(|word| word.split('+')) {
            if MANNERS.iter().all(|(known, _)| *known != manner) {
                return Err(format!("'{manner}' is no manner of a child"));
            }
        }
        // These run no code of ours, so they can start nobody.
        let above = words.iter().rev().skip(1);
        match above.filter_map(|word| clones::kind(word)).next() {
            Some(kind) => Err(format!("nobody can be below a {kind:?} that runs no program")),
            None => Ok(Self(words)),
        }
    }

    /// How many processes it is, those that are soon gone included.
    pub fn count(&self) -> u32 {
        self.0.len().try_into().unwrap_or(u32::MAX)
    }

    /// How many of them surely live, or lived, when it has been started.
    pub fn sure(&self) -> usize {
        let late = self.0.iter().position(|word| has(word, "later"));
        late.map_or(self.0.len(), |late| late + 1)
    }
}

fn has(word: &str, manner: &str) -> bool {
    word.split('+').any(|own| own == manner)
}

/// Starts descendants of this shape, and returns when they have taken it.
pub fn start(shape: &Shape) {
    let words: Vec<&str> = shape.0.iter().map(String::as_str).collect();
    begin(&words).expect("this program can be started again");
}

/// Starts children one after the other, without waiting for any.
pub fn start_often(children: u32) {
    for _ in 0..children.min(CHILDREN_MAX) {
        drop(spawn(&["setsid"], Stdio::null()).expect("this program can be started again"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Standard output leads nowhere from now on, so the reader of the pipe sees its end.
pub fn close_stdout() {
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
}

/// Nobody reads what is said to us from now on, so whoever writes is told.
pub fn close_stdin() {
    if let Ok(nothing) = std::fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&nothing);
    }
}

/// The life of a descendant.
pub fn live(words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((own, below)) = words.split_first() else { return ExitCode::FAILURE };
    if *own == swarm::WORD {
        return swarm::live(below);
    }
    let parent = getppid();
    take_shape(own);
    if has(own, "later") {
        witness::note(own);
        tell_ready();
        while getppid() == parent {
            std::thread::sleep(LOOK);
        }
        let _ = setsid();
        let _ = begin(below);
    } else {
        let _ = begin(below);
        witness::note(own);
        tell_ready();
    }
    if has(own, "gone") {
        return ExitCode::SUCCESS;
    }
    if has(own, "bare") {
        clones::close_all();
    }
    if has(own, "stopped") {
        signals::stop_self();
    }
    if has(own, "slow") || has(own, "breeds") {
        wait_for_term();
        if has(own, "slow") {
            std::thread::sleep(SLOW);
            return ExitCode::SUCCESS;
        }
        let _ = begin(&["setsid+deaf"]);
    }
    sleep_for_life();
    ExitCode::SUCCESS
}

/// What fails here fails for one who has that shape already.
fn take_shape(own: &str) {
    for manner in own.split('+') {
        match manner {
            "setsid" => drop(setsid()),
            "group" => drop(setpgid(None, None)),
            "deaf" => signals::ignore_all(),
            "slow" | "breeds" => signals::note_term(),
            "elsewhere" => drop(std::env::set_current_dir("/")),
            "renamed" => drop(rustix::thread::set_name(ODD_NAME)),
            "undumpable" => drop(set_dumpable_behavior(DumpableBehavior::NotDumpable)),
            "reaper" => drop(set_child_subreaper(Some(rustix::process::getpid()))),
            _ => {}
        }
    }
}

fn wait_for_term() {
    let looks = u128::from(LIFE_MS_MAX) / LOOK.as_millis();
    for _ in 0..looks {
        if signals::term_noted() {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

pub(super) fn sleep_for_life() {
    std::thread::sleep(Duration::from_millis(LIFE_MS_MAX));
}

/// Starts the first of these with the others below it, and returns when all have taken their shape.
fn begin(words: &[&str]) -> io::Result<()> {
    let Some(first) = words.first() else { return Ok(()) };
    if let Some(kind) = clones::kind(first) {
        clones::start(kind)?;
        witness::note(first);
        return Ok(());
    }
    if !has(first, "thread") {
        return begin_here(words);
    }
    let (told, tell) = mpsc::channel();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    std::thread::spawn(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _ = told.send(begin_here(&words));
        sleep_for_life();
    });
    tell.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

fn begin_here(words: &[&str]) -> io::Result<()> {
    let first = words.first().copied().unwrap_or_default();
    let stdout = if has(first, "voice") { Stdio::inherit() } else { Stdio::null() };
    let mut child = spawn(words, stdout)?;
    wait_ready(&mut child);
    if has(first, "gone") {
        // It exits by itself; without this it would stay as a zombie.
        child.wait()?;
    }
    Ok(())
}

/// This program again, as a descendant.
pub(super) fn spawn(words: &[&str], stdout: Stdio) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(DESCENDANT).args(words).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    if let Some(path) = witness::path() {
        command.arg0(path);
    }
    if words.first().is_some_and(|word| has(word, "unmarked")) {
        command.env_clear();
    }
    command.spawn()
}

pub(super) fn tell_ready() {
    let _ = io::stderr().write_all(b".");
}

/// Waits for the byte that says so, or for the end of a descendant that failed.
pub(super) fn wait_ready(child: &mut Child) {
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read(&mut [0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::clones::Kind;

    #[test]
    fn a_shape_is_read_word_by_word_and_what_cannot_be_is_refused() {
        let shape = Shape::read("gone/later+deaf/setsid").unwrap();
        assert_eq!((shape.count(), shape.sure()), (3, 2), "the last may come too late");
        assert_eq!(Shape::read("gone/setsid").unwrap().sure(), 2);
        for (text, why) in [
            ("gone/flown", "'flown' is no manner of a child"),
            ("", "'' is no manner of a child"),
            ("fork/setsid", "nobody can be below a Fork that runs no program"),
        ] {
            assert_eq!(Shape::read(text), Err(why.to_owned()));
        }
    }

    #[test]
    fn each_manner_has_one_name() {
        let names: std::collections::BTreeSet<_> = MANNERS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), MANNERS.len());
        for kind in [Kind::Fork, Kind::Vfork, Kind::Sibling, Kind::Mute] {
            assert!(MANNERS.iter().any(|(name, _)| clones::kind(name) == Some(kind)));
        }
    }
}
