//! The agent's family: everything that descends from it, however it tried to get away.
//!
//! The keeper is a subreaper, so a process whose parents are gone becomes its child: no double
//! fork and no new session leads out. That makes killing exact: only direct children are killed,
//! whose pids cannot be used again before we have reaped them, and the end is not an empty list,
//! which is no snapshot, but the kernel's word that no child is left.

use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, getpid, kill_process, kill_process_group, wait,
};

use crate::limits::{SWEEP_FREEZE_ROUND, SWEEP_PAUSE_MS};

/// What `wait` had to say.
pub enum Reaped {
    Child(Pid, WaitStatus),
    /// Children live, and none has ended.
    NoneYet,
    /// No child is left.
    NoChild,
}

/// Reaps one child that has ended, if there is one.
pub fn reap() -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => return Reaped::Child(pid, status),
            Ok(None) => return Reaped::NoneYet,
            Err(Errno::INTR) => {}
            // ECHILD, the only other error of this call.
            Err(_) => return Reaped::NoChild,
        }
    }
}

/// Sends SIGTERM to everyone once: many programs take a second one for impatience. Only while the
/// agent is not yet reaped, for its group carries its pid.
pub fn terminate(agent: Pid) {
    let strays: Vec<_> =
        descendants().into_iter().filter(|pid| getpgid(Some(*pid)) != Ok(agent)).collect();
    // A group that has ended needs no signal.
    let _ = kill_process_group(agent, Signal::TERM);
    for pid in strays {
        // A process that has ended meanwhile needs no signal.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Kills the agent and its group. The rest of the family is left to the sweep.
pub fn kill(agent: Pid) {
    // A group that has ended needs no signal.
    let _ = kill_process_group(agent, Signal::KILL);
    // It may have left its own group, or have ended.
    let _ = kill_process(agent, Signal::KILL);
}

/// One round of the sweep: kills all direct children. Their children become ours and have their
/// turn in the next round. A family that forks faster than that is stopped first, as a whole.
pub fn sweep(round: u32) {
    if round >= SWEEP_FREEZE_ROUND {
        freeze();
    }
    for child in children_of(getpid()) {
        // A child that has ended meanwhile needs no signal.
        let _ = kill_process(child, Signal::KILL);
    }
}

/// Sweeps until nobody is left, for a keeper that cannot begin its work.
pub fn sweep_to_the_end() {
    let mut round = 0;
    loop {
        match reap() {
            Reaped::Child(..) => {}
            Reaped::NoChild => return,
            Reaped::NoneYet => {
                round += 1;
                sweep(round);
                std::thread::sleep(std::time::Duration::from_millis(SWEEP_PAUSE_MS));
            }
        }
    }
}

/// When a process started, in clock ticks after boot.
pub fn start_ticks(pid: Pid) -> Option<u64> {
    stat_field(pid, 19)
}

/// Whether a process has ended and was not waited for.
pub fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Stops the whole family. A stopped process cannot fork, so looking again finds fewer new ones
/// each time; the bound is for a family that others keep alive.
fn freeze() {
    const LOOKS_MAX: u32 = 64;
    let mut stopped = Vec::new();
    for _ in 0..LOOKS_MAX {
        let fresh: Vec<_> =
            descendants().into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if fresh.is_empty() {
            return;
        }
        for pid in fresh {
            // A process that has ended meanwhile cannot fork either.
            let _ = kill_process(pid, Signal::STOP);
            stopped.push(pid);
        }
    }
}

fn descendants() -> Vec<Pid> {
    let mut found = children_of(getpid());
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for child in children_of(pid) {
            if !found.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// Children by the list the kernel keeps for each thread, or by a look at every process on kernels
/// built without it.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    let mut children = Vec::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid())) else {
        return children;
    };
    for task in tasks.flatten() {
        match fs::read_to_string(task.path().join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(parse_pid)),
            // The process has just gone, unless no process has the list.
            Err(_) if kernel_lists_children() => {}
            Err(_) => return children_by_scan(parent),
        }
    }
    children
}

fn kernel_lists_children() -> bool {
    let own = getpid().as_raw_pid();
    fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
}

fn children_by_scan(parent: Pid) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| parse_pid(entry.file_name().to_str()?));
    pids.filter(|pid| stat_field(*pid, 1) == Some(parent.as_raw_pid() as u64)).collect()
}

/// A numeric field of `/proc/pid/stat`, counted from the state, which follows the name. The name
/// may hold anything, so the search for its end goes from the back.
fn stat_field(pid: Pid, index: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
}

fn parse_pid(word: &str) -> Option<Pid> {
    word.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn both_ways_to_look_find_a_child() {
        let mut child = Command::new("sleep").arg("20").stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let listed = children_of(getpid()).contains(&pid);
        let scanned = children_by_scan(getpid()).contains(&pid);
        let started = start_ticks(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed && scanned);
        assert!(started >= start_ticks(getpid()), "a child is no older than its parent");
    }
}
