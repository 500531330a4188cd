//! Finding what a dead keeper left behind.
//!
//! A keeper that was killed cannot sweep. Its agent dies by the parent-death signal, but the
//! agent's own children may live on; they still carry the attempt's mark in their environment,
//! unless they cleared it.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// Living processes whose environment at their start held `name=value`, as far as we may look.
pub fn bearers(name: &str, value: &str) -> io::Result<Vec<i32>> {
    let mark = format!("{name}={value}");
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(environ) = fs::read(entry.path().join("environ")) else { continue };
        if environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Kills the bearers of a mark, round by round until none is found or `rounds_max` is reached.
/// Only for a keeper known to be dead: a living one sweeps by itself, and surely.
pub fn sweep(name: &str, value: &str, rounds_max: u32) -> io::Result<u32> {
    let mut killed = 0;
    for _ in 0..rounds_max {
        let pids = bearers(name, value)?;
        if pids.is_empty() {
            break;
        }
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            killed += u32::from(kill_process(pid, Signal::KILL).is_ok());
        }
        std::thread::sleep(std::time::Duration::from_millis(crate::limits::SWEEP_PAUSE_MS));
    }
    Ok(killed)
}
