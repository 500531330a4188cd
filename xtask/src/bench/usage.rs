//! What processes cost, by the kernel's own books in `/proc` and its clocks.

use super::said;
use rustix::process::{WaitId, WaitIdOptions};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::process::Child;

/// The kernel's unit in `/proc/PID/stat` is a hundredth of a second on every Linux.
const TICK_NS: u64 = 10_000_000;

/// What a piece of work cost, spread over its events.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub cpu_ns: f64,
    /// The keeper's share of `cpu_ns`, where it was counted apart.
    pub keeper_ns: f64,
    pub wall_ns: f64,
}

impl Cost {
    pub fn per(events: u64, cpu_ns: u64, keeper_ns: u64, wall_ns: u64) -> Self {
        let share = |ns: u64| ns as f64 / events as f64;
        Self { cpu_ns: share(cpu_ns), keeper_ns: share(keeper_ns), wall_ns: share(wall_ns) }
    }
}

/// The monotonic clock, which all processes of a machine share.
pub fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// CPU time of this process, all its threads.
pub fn own_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// CPU time of a single-threaded child, without its own children, to the nanosecond: read while it
/// is dead and not yet waited for, when the books are closed and still there.
pub fn reap_cpu_ns(child: &mut Child) -> Result<u64, String> {
    let doing = "waiting for a keeper";
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or("a keeper without a pid")?;
    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .map_err(said(doing))?;
    let path = format!("/proc/{}/schedstat", child.id());
    let text = fs::read_to_string(&path).map_err(said(format!("reading {path}")))?;
    child.wait().map_err(said(doing))?;
    let ran = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    ran.ok_or_else(|| format!("{path} has no run time: '{}'", text.trim()))
}

/// CPU time of a process, all its threads, and of every child it has waited for with theirs.
pub fn family_cpu_ns(pid: u32) -> Result<u64, String> {
    let ticks: u64 = stat(pid)?.iter().skip(11).take(4).filter_map(|f| f.parse::<u64>().ok()).sum();
    Ok(ticks * TICK_NS)
}

/// The living children of a process whose name begins so.
pub fn children_named(parent: u32, name: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.starts_with(name)
                && stat(*pid).is_ok_and(|stat| stat.get(1) == Some(&parent.to_string()))
        })
        .collect()
}

/// The fields of `/proc/PID/stat` behind the name, which may hold anything: the state first.
fn stat(pid: u32) -> Result<Vec<String>, String> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(said(format!("reading {path}")))?;
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    Ok(behind.split_whitespace().map(str::to_owned).collect())
}

/// Memory of a process in kB.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub resident_kb: f64,
    pub private_dirty_kb: f64,
    /// Dirty pages, each divided by the number of processes that share it.
    pub own_dirty_kb: f64,
    /// All pages, likewise.
    pub proportional_kb: f64,
}

impl Memory {
    pub fn of(pid: u32) -> Result<Self, String> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(said(format!("reading {path}")))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            kb.ok_or_else(|| format!("{path} has no {name}"))
        };
        let private_dirty_kb = field("Private_Dirty:")?;
        // Kernels before 6.0 do not say it.
        let own_dirty_kb = field("Pss_Dirty:").unwrap_or(private_dirty_kb);
        let (resident_kb, proportional_kb) = (field("Rss:")?, field("Pss:")?);
        Ok(Self { resident_kb, private_dirty_kb, own_dirty_kb, proportional_kb })
    }
}

pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_books_of_a_child_hold_what_it_used() {
        let mut busy = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
            .spawn()
            .unwrap();
        let mut idle = Command::new("true").spawn().unwrap();
        let (busy_ns, idle_ns) = (reap_cpu_ns(&mut busy).unwrap(), reap_cpu_ns(&mut idle).unwrap());
        assert!(busy_ns > 2 * idle_ns && idle_ns > 0, "{busy_ns} against {idle_ns}");
    }

    #[test]
    fn own_memory_and_family_can_be_read() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.resident_kb >= memory.private_dirty_kb && memory.private_dirty_kb > 0.0);
        assert!(family_cpu_ns(std::process::id()).is_ok());
        let mut child = Command::new("sleep").arg("5").spawn().unwrap();
        let found = testkit::until("the child by its name", 5_000, || {
            children_named(std::process::id(), "sleep").pop()
        });
        assert_eq!(found, child.id());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
