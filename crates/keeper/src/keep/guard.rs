//! The process that stays outside the namespace while the keeper works inside.
//!
//! It does nothing but pass on signals and wait. Its death is the keeper's (the parent-death
//! signal), the keeper's death is the family's (the namespace), and from the keeper's first act on it
//! holds the lock that says "alive" until the kernel has ended the last of them. The lock comes to it
//! by a line of its own, for a keeper is there before anyone knows what it will hold.

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::raw;

/// The kernel keeps 15 bytes of a process's name.
const NAME_BYTES_MAX: usize = 15;

/// Until the keeper has ended, and with it its whole family.
pub fn guard(keeper: Pid, signals: &OwnedFd, line: OwnedFd) -> io::Result<()> {
    let mut line = Some(line);
    let mut lock = None;
    loop {
        let mut heard = vec![PollFd::new(signals, PollFlags::IN)];
        heard.extend(line.iter().map(|line| PollFd::new(line, PollFlags::IN)));
        match poll(&mut heard, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let told = heard.get(1).is_some_and(|line| !line.revents().is_empty());
        if let Some(line) = line.take_if(|_| told) {
            lock = take_over(line.as_fd());
        }
        for signal in raw::read_signals(signals) {
            // Not our child's end: pass it on. The keeper has not been reaped, so the pid is its.
            if signal != Signal::CHILD {
                // A keeper that has ended is reaped below.
                let _ = kill_process(keeper, signal);
            }
        }
        let ended = match waitpid(Some(keeper), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => continue,
            Ok(Some((_, status))) if status.exit_status() == Some(0) => Ok(()),
            Ok(Some((_, status))) => Err(io::Error::other(format!("the keeper ended: {status:?}"))),
            Err(error) => Err(error.into()),
        };
        // Not before.
        drop(lock);
        return ended;
    }
}

/// The keeper's side: gives the guard the lock, and its name. What was sent is the guard's even if
/// the keeper is gone before it was taken.
pub fn hand_over(line: BorrowedFd<'_>, lock: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    let locks = [lock];
    beside.push(SendAncillaryMessage::ScmRights(&locks));
    sendmsg(line, &[IoSlice::new(name.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The guard's side. Nothing comes when the keeper leaves without having had a plan.
fn take_over(line: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let mut name = [0; NAME_BYTES_MAX];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let said = recvmsg(line, &mut [IoSliceMut::new(&mut name)], &mut beside, flags).ok()?;
    if let Ok(name) = CString::new(&name[..said.bytes]) {
        // The name is only for those who list processes.
        let _ = rustix::thread::set_name(&name);
    }
    beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut locks) => locks.next(),
        _ => None,
    })
}
