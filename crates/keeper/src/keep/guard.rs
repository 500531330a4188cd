//! The process that stays outside the namespace while the keeper works inside.
//!
//! It does nothing but pass on signals and wait. Its death is the keeper's (the parent-death
//! signal), the keeper's death is the family's (the namespace), and it holds the lock that says
//! "alive" until the kernel has ended the last of them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::raw;

/// Until the keeper has ended, and with it its whole family.
pub fn guard(keeper: Pid, signals: &OwnedFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(signals, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for signal in raw::read_signals(signals) {
            // Not our child's end: pass it on. The keeper has not been reaped, so the pid is its.
            if signal != Signal::CHILD {
                let _ = kill_process(keeper, signal);
            }
        }
        match waitpid(Some(keeper), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => {}
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return Ok(()),
            Ok(Some((_, status))) => {
                return Err(io::Error::other(format!("the keeper ended: {status:?}")));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
