//! Children that are no program of their own: copies made by clone(2) that sleep until they are ended
//! or `LIFE_MS_MAX` is over, and the closing of descriptors, which the standard library does not offer.

#![expect(unsafe_code, reason = "clone(2) has no safe door, and some escapes need it")]

use crate::agent::LIFE_MS_MAX;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::IntoRawFd as _;

/// What the child has of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A copy of its memory.
    Fork,
    /// The memory itself; the thread that started it waits for its end.
    Vfork,
    /// Its parent.
    Sibling,
    /// A copy of its memory; its end tells nobody.
    Mute,
}

/// The kind that a word of `escape.rs` asks for.
pub fn kind(word: &str) -> Option<Kind> {
    word.split('+').find_map(|manner| match manner {
        "fork" => Some(Kind::Fork),
        "vfork" => Some(Kind::Vfork),
        "sibling" => Some(Kind::Sibling),
        "mute" => Some(Kind::Mute),
        _ => None,
    })
}

const STACK_BYTES: usize = 64 * 1024;

/// Starts one, and returns when it lives.
pub fn start(kind: Kind) -> io::Result<()> {
    let (ready, told) = io::pipe()?;
    let told = told.into_raw_fd();
    let flags = match kind {
        Kind::Fork => libc::SIGCHLD,
        Kind::Vfork => libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
        Kind::Sibling => libc::CLONE_PARENT | libc::SIGCHLD,
        Kind::Mute => 0,
    };
    if kind == Kind::Vfork {
        // Its thread is not heard of again before the child ends.
        std::thread::spawn(move || clone(flags, told));
        return wait_ready(ready);
    }
    clone(flags, told)?;
    wait_ready(ready)
}

fn wait_ready(mut ready: PipeReader) -> io::Result<()> {
    ready.read_exact(&mut [0])
}

fn clone(flags: libc::c_int, told: libc::c_int) -> io::Result<()> {
    // Neither is ever freed: the child may need them for as long as this process lives.
    let stack: &'static mut [u128] = Vec::leak(vec![0; STACK_BYTES / size_of::<u128>()]);
    let told: &'static mut libc::c_int = Box::leak(Box::new(told));
    // SAFETY: the stack is the child's alone, aligned, and handed over by its upper end; the
    // callback makes system calls only, so that no lock of a thread that it has not got is needed.
    let pid = unsafe {
        libc::clone(rest, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut *told).cast())
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The life of such a child: it says that it lives, and sleeps until the alarm that ends it.
extern "C" fn rest(told: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `told` points to a descriptor that is never freed; the rest are plain system calls.
    unsafe {
        libc::write(*told.cast::<libc::c_int>(), c".".as_ptr().cast(), 1);
        libc::alarm((LIFE_MS_MAX / 1000) as libc::c_uint);
        loop {
            libc::pause();
        }
    }
}

/// Closes every descriptor of this process, the standard ones too.
pub fn close_all() {
    let highest = i32::try_from(highest_open().unwrap_or(1024)).unwrap_or(i32::MAX);
    for descriptor in 0..=highest {
        // SAFETY: whoever calls this uses none of them again.
        unsafe { libc::close(descriptor) };
    }
}

/// The highest descriptor that is open.
fn highest_open() -> Option<u32> {
    let listed = std::fs::read_dir("/proc/self/fd").ok()?;
    let listed: Vec<u32> =
        listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    listed.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_kind_is_found_among_the_manners_of_a_word() {
        assert_eq!(kind("deaf+vfork"), Some(Kind::Vfork));
        assert_eq!(kind("setsid"), None);
    }

    #[test]
    fn the_highest_descriptor_is_one_that_is_open() {
        let (read, _write) = io::pipe().unwrap();
        assert!(highest_open().unwrap() >= u32::try_from(read.as_raw_fd()).unwrap());
    }
}
