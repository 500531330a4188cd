//! The calls of this crate that the compiler cannot check: hiding descriptors, blocking signals and
//! opening them as a descriptor, acting between fork and exec, and giving memory back. Nothing else belongs here.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, umask};

/// The signals a keeper hears: a child's end, and requests to stop.
const HEARD: [libc::c_int; 5] =
    [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Hides from the agent whatever descriptors the server itself was started with. Ours and the
/// server's own are close-on-exec one by one; these are nobody's.
pub fn hide_descriptors() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: sets a flag on descriptors and closes none. Kernels before 5.11 refuse the call,
    // which leaves things as they were. Not every C library has a function for it.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    };
}

/// Blocks the signals a keeper hears and opens them as a descriptor, non-blocking. A file size
/// limit is blocked too but not heard: its write fails, and counts as a full disk.
pub fn signal_fd() -> io::Result<OwnedFd> {
    let set = signal_set(&HEARD);
    let mut mask = HEARD.to_vec();
    mask.push(libc::SIGXFSZ);
    set_signal_mask(&signal_set(&mask))?;
    // SAFETY: the set is initialized; the call returns a new descriptor, which is ours, or -1.
    unsafe {
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Ties the child's life to the keeper's, and gives it an empty signal mask (the standard library
/// lets it inherit ours, under which SIGTERM would never reach it) and the umask it would have had.
pub fn bind_to_keeper(command: &mut Command, keeper: Pid, mask: Mode) {
    let nothing = signal_set(&[]);
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The keeper may have died before the line above; then no signal will ever come.
        if getppid() != Some(keeper) {
            return Err(Errno::SRCH.into());
        }
        umask(mask);
        set_signal_mask(&nothing)
    };
    // SAFETY: between fork and exec of a single-threaded process. Four system calls; nothing
    // allocates or takes a lock.
    unsafe { command.pre_exec(bind) };
}

/// Gives back the pages that the plan needed while it was read and carried out.
pub fn return_memory() {
    // SAFETY: touches only memory that is free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initializes the set, and every signal number given is valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

fn set_signal_mask(set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialized. The process has one thread, whose mask is the process's.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
