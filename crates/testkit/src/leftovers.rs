//! Which processes were left behind: a scan of `/proc/*/environ` for a mark.
//!
//! The mark is any text that only one test's processes carry in their environment; the path of an
//! `Instance` is one, because every agent is given its HOME. A zombie has no environment any more
//! and is not found: it runs no code. Processes of other users are skipped, not guessed at. Who has
//! cleared its environment can still be found by what it is called.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// A living process that carries the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub pid: u32,
    /// Its argument vector, joined by spaces: for the message of a failing test.
    pub command: String,
}

/// Every living process whose environment at its start holds `mark`, this one excepted.
pub fn find_marked(mark: &str) -> Vec<Leftover> {
    assert!(mark.len() >= 8, "'{mark}' is too short a mark: it would find strangers");
    find(|pid| carries(pid, mark.as_bytes()))
}

/// Every living process whose command line begins with `name`, this one excepted.
pub fn find_called(name: &str) -> Vec<Leftover> {
    assert!(name.len() >= 8, "'{name}' is too short a name: it would find strangers");
    find(|pid| command(pid).starts_with(name))
}

fn find(fits: impl Fn(u32) -> bool) -> Vec<Leftover> {
    let own = std::process::id();
    let mut found: Vec<Leftover> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && fits(*pid))
        .map(|pid| Leftover { pid, command: command(pid) })
        .collect();
    found.sort_by_key(|leftover| leftover.pid);
    found
}

/// Ends what a failing test left behind, again and again until a scan finds nothing: a process may
/// fork between the scan and the signal. Those with a witness below the mark are called by it.
pub fn end_marked(mark: &str) {
    for _ in 0..100 {
        let found = [find_marked(mark), find_called(mark)].concat();
        if found.is_empty() {
            return;
        }
        for leftover in found {
            end(leftover.pid);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The processes that are this run's keeper: one, or two where it has a guard.
pub fn keepers(run: &str) -> Vec<i32> {
    let name = format!("keep {}", &run[run.len() - 10..]);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let named: Vec<i32> = pids
        .filter(|pid| {
            let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}"));
            // A zombie has a name but no arguments any more.
            read("comm").is_ok_and(|comm| comm.trim_end() == name)
                && read("cmdline").is_ok_and(|argv| !argv.is_empty())
        })
        .collect();
    // A guard hears a moment later what it is called, but it is the parent of the other.
    let guards: Vec<i32> = named.iter().filter_map(|pid| guard_of(*pid)).collect();
    let mut pids: Vec<i32> = named.into_iter().chain(guards).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn guard_of(keeper: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{keeper}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    command(u32::try_from(parent).ok()?).starts_with("ostler-keeper ").then_some(parent)
}

fn end(pid: u32) {
    // A process that is gone already is what was wanted.
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn carries(pid: u32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.windows(mark.len()).any(|window| window == mark))
}

fn command(pid: u32) -> String {
    let argv = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&argv).trim_end_matches('\0').replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::until;
    use std::process::{Command, Stdio};

    #[test]
    fn a_marked_process_is_found_while_it_lives_and_ended() {
        let mark = format!("leftover-of-{}", std::process::id());
        let mut child = Command::new("sleep")
            .arg("60")
            .env("MARK", &mark)
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep starts");
        let found = until("the marked process", 5_000, || find_marked(&mark).pop());
        assert_eq!((found.pid, found.command.as_str()), (child.id(), "sleep 60"));
        end_marked(&mark);
        child.wait().expect("the child is ours to wait for");
        assert_eq!(find_marked(&mark), []);
    }
}
