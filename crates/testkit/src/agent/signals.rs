//! Signal dispositions, which the standard library does not offer. Each unsafe call passes constants
//! or a handler that does nothing but store to an atomic.

#![expect(unsafe_code, reason = "signal(2) has no safe door, and bad manners need it")]

use std::sync::atomic::{AtomicBool, Ordering};

static TERM: AtomicBool = AtomicBool::new(false);

/// Ignores SIGTERM, SIGINT and SIGHUP; children inherit this.
pub fn ignore_all() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for each of these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// From now on SIGTERM is only noted.
pub fn note_term() {
    let handler: extern "C" fn(libc::c_int) = noted;
    // SAFETY: the handler is async-signal-safe: it stores to an atomic and returns.
    unsafe { libc::signal(libc::SIGTERM, handler as libc::sighandler_t) };
}

pub fn term_noted() -> bool {
    TERM.load(Ordering::Relaxed)
}

/// Stops this process until someone sends SIGCONT.
pub fn stop_self() {
    // It cannot fail: a process may always signal itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

/// Ends this process as nobody can refuse.
pub fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

extern "C" fn noted(_: libc::c_int) {
    TERM.store(true, Ordering::Relaxed);
}
