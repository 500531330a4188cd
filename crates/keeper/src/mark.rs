//! Ending what a dead keeper left behind.
//!
//! A keeper that was killed cannot sweep. Its agent dies by the parent-death signal, but below the
//! level *strict* the agent's own children may live on. Those in a control group are killed with
//! it; the others still carry the attempt's mark in their environment, unless they cleared it.
//! Nobody is signalled by a mere number: the process is held by a descriptor first, looked at again
//! through it, and only then ended, so a pid that was used again means nothing.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, waitpid,
};

use crate::keep::{cgroup, family};
use crate::record::{Begin, Kind};
use crate::spool::Reader;

/// How often all processes were looked at, by this process.
static SCANS: AtomicU64 = AtomicU64::new(0);

/// How often this process has looked at the environments of all processes. Each look costs time in
/// proportion to the number of processes.
pub fn scans() -> u64 {
    SCANS.load(Ordering::Relaxed)
}

/// Variables by which processes are known, as `name=value`.
#[derive(Clone, Debug, Default)]
pub struct Marks(HashSet<Vec<u8>>);

impl Marks {
    pub fn add(&mut self, name: &str, value: &str) {
        self.0.insert(format!("{name}={value}").into_bytes());
    }

    fn one(name: &str, value: &str) -> Self {
        let mut marks = Self::default();
        marks.add(name, value);
        marks
    }

    /// The mark that a process bears, as far as we may look.
    fn of(&self, pid: i32) -> Option<&[u8]> {
        let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
        environ
            .split(|byte| *byte == 0)
            .find_map(|variable| self.0.get(variable))
            .map(Vec::as_slice)
    }

    /// Living processes whose environment at their start held one of the marks, and which.
    fn bearers(&self) -> io::Result<Vec<(i32, &[u8])>> {
        SCANS.fetch_add(1, Ordering::Relaxed);
        let mut bearers = Vec::new();
        for entry in fs::read_dir("/proc")? {
            // A process that ends while we look is none.
            let Ok(entry) = entry else { continue };
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            bearers.extend(self.of(pid).map(|mark| (pid, mark)));
        }
        Ok(bearers)
    }
}

/// Living processes whose environment at their start held `name=value`, as far as we may look.
pub fn bearers(name: &str, value: &str) -> io::Result<Vec<i32>> {
    let marks = Marks::one(name, value);
    Ok(marks.bearers()?.into_iter().map(|(pid, _)| pid).collect())
}

fn bears(pid: i32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == mark))
}

/// Kills the bearers of a mark, as [`sweep_all`] does.
pub fn sweep(name: &str, value: &str, rounds_max: u32) -> io::Result<u32> {
    sweep_all(&Marks::one(name, value), rounds_max)
}

/// Kills the bearers of any of the marks, round by round until none is found or `rounds_max` is reached,
/// and reaps those that are our children. All processes are looked at once in each round, however many
/// marks there are. Only for keepers known to be dead: a living one sweeps by itself, and surely. This
/// process is never among those ended.
pub fn sweep_all(marks: &Marks, rounds_max: u32) -> io::Result<u32> {
    let mut ended = Vec::new();
    // A process that is just becoming another program shows no environment for an instant, so
    // only the second look in a row that finds nobody counts.
    let mut empty_looks = 0;
    for _ in 0..rounds_max {
        let bearers = marks.bearers()?.into_iter();
        let bearers = bearers.filter_map(|(pid, mark)| Some((Pid::from_raw(pid)?, mark)));
        let bearers: Vec<_> = bearers.filter(|(pid, _)| *pid != getpid()).collect();
        for (pid, mark) in &bearers {
            if end(*pid, mark) && !ended.contains(pid) {
                ended.push(*pid);
            }
        }
        empty_looks = if bearers.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(crate::limits::SWEEP_PAUSE_MS));
    }
    for pid in &ended {
        // Orphans come to whoever declared itself their reaper; for anyone else this is no child.
        let _ = waitpid(Some(*pid), WaitOptions::NOHANG);
    }
    Ok(ended.len() as u32)
}

/// Ends one process if it bears the mark. The descriptor names the process that has the pid now; a
/// mark seen after it was opened is either that process's own or that of a later holder of the pid,
/// in which case the signal goes to nobody.
fn end(pid: Pid, mark: &[u8]) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    bears(pid.as_raw_pid(), mark) && pidfd_send_signal(process, Signal::KILL).is_ok()
}

/// Everything a dead keeper of the attempt in `spool` can have left: its control group, then the
/// bearers of its mark.
pub fn end_leftovers(spool: &Path, mark: (&str, &str), rounds_max: u32) -> io::Result<u32> {
    end_group(spool);
    sweep(mark.0, mark.1, rounds_max)
}

/// Ends the control group that a dead keeper of the attempt in `spool` left, if it had one.
pub fn end_group(spool: &Path) {
    cgroup::end_noted(spool);
}

/// Kills the keeper of the attempt in `spool`, for one that hangs although its lease is over. It is
/// the one that began this spool, by its start time and the machine's boot, or nobody.
pub fn end_keeper(spool: &Path) -> bool {
    let Some(begin) = begin_of(spool) else { return false };
    let Some(pid) = Pid::from_raw(begin.keeper_pid) else { return false };
    let Ok(keeper) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let same = begin.boot_id == boot_id()
        && begin.keeper_start_ticks.is_some()
        && begin.keeper_start_ticks == family::start_ticks(pid);
    same && pidfd_send_signal(keeper, Signal::KILL).is_ok()
}

/// Kills a keeper that hangs. Only for one whose connection is open: that is why the pid is still its
/// own. In a PID namespace it is the pid of the keeper's guard, which ends the keeper with it.
pub fn end_hung(keeper_pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(keeper_pid) else { return false };
    let Ok(keeper) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    pidfd_send_signal(keeper, Signal::KILL).is_ok()
}

/// The first record, unless its segment was dropped already.
fn begin_of(spool: &Path) -> Option<Begin> {
    let mut reader = Reader::open(spool, 0).ok()?;
    let record = reader.next().ok()??;
    serde_json::from_slice(record.payload).ok().filter(|_| record.kind == Kind::Begin)
}

/// Tells one boot of the machine from another.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_bears_another_mark_is_left_alone_even_when_pointed_at() {
        let mut child = Command::new("sleep")
            .arg("60")
            .env("KEEPER_MARK", "theirs")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        while !bears(pid.as_raw_pid(), b"KEEPER_MARK=theirs") {
            assert!(child.try_wait().unwrap().is_none());
        }
        assert!(!end(pid, b"KEEPER_MARK=ours"));
        assert!(child.try_wait().unwrap().is_none());
        assert!(end(pid, b"KEEPER_MARK=theirs"));
        child.wait().unwrap();
        assert!(!end(pid, b"KEEPER_MARK=theirs"), "it is gone");
    }
}
