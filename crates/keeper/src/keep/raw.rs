//! The calls of this crate that the compiler cannot check: hiding descriptors, blocking signals and
//! opening them as a descriptor, going behind others for the processor, entering namespaces, asking who a
//! peer is, making the agent's process
//! and what it does until its exec, and giving memory back. Nothing else belongs here.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getppid, set_parent_process_death_signal, umask};

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

/// The signals that have come, from a descriptor of [`signal_fd`].
pub fn read_signals(signals: &OwnedFd) -> Vec<Signal> {
    // Each is a fixed structure of 128 bytes that begins with the signal's number.
    let mut infos = [0u8; 8 * 128];
    let Ok(count) = rustix::io::read(signals, &mut infos[..]) else { return Vec::new() };
    let numbers = infos[..count].chunks_exact(128).map(|info| {
        let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
        i32::try_from(number).unwrap_or(0)
    });
    numbers.filter_map(Signal::from_named_raw).collect()
}

/// Lets whoever computes go first: being woken, which a keeper is by every line, is no reason to take
/// the processor from the agent that wrote it. Gives false where the server's own policy is another one
/// than usual: then that is what counts, for the keeper and for the agent.
pub fn step_back() -> bool {
    // SAFETY: asks for a number of this process.
    let usual = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
    usual && set_policy(libc::SCHED_BATCH)
}

fn set_policy(policy: libc::c_int) -> bool {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one structure, which is there.
    unsafe { libc::sched_setscheduler(0, policy, &param) == 0 }
}

/// Which of the two a process is after [`clone_into`].
pub enum Cloned {
    Parent(Pid),
    Child,
}

/// Forks, with the child in new namespaces and the caller in its old ones.
pub fn clone_into(namespaces: libc::c_int) -> io::Result<Cloned> {
    // SAFETY: all-zero is a valid value of this structure of integers.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without a stack and without sharing memory this is a fork, of a process with one
    // thread: no lock is held by anybody else, and the child goes on with a copy of everything.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &args, std::mem::size_of::<libc::clone_args>()) };
    match pid {
        0 => Ok(Cloned::Child),
        pid => match i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(Pid::from_raw) {
            Some(pid) => Ok(Cloned::Parent(pid)),
            None => Err(io::Error::last_os_error()),
        },
    }
}

/// Keeps what is mounted here from being seen outside; what is mounted outside is still seen here.
pub fn part_mounts() -> io::Result<()> {
    mount(None, c"/", None, libc::MS_REC | libc::MS_SLAVE)
}

/// Shows the processes of this namespace where the others were shown.
pub fn mount_proc() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(c"proc"), c"/proc", Some(c"proc"), flags)
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let word = |word: Option<&CStr>| word.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every pointer is null where that is allowed, or a terminated string that outlives
    // the call.
    let done =
        unsafe { libc::mount(word(source), target.as_ptr(), word(kind), flags, std::ptr::null()) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The user at the other end of a socket. Not by the safe wrapper: it takes the peer's pid for
/// non-zero, and a peer outside our PID namespace has none.
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of what it is given.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut length,
        )
    };
    match done {
        0 => Ok(peer.uid),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A child to be, with everything that it needs: between its making and its exec it calls the kernel
/// and nothing else.
pub struct Unborn<'a> {
    pub image: Image,
    pub cwd: CString,
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    pub keeper: Pid,
    pub mask: Mode,
    /// Whether the keeper has stepped back, which the agent must not inherit.
    pub stepped_back: bool,
    /// Where the family has a control group: the child enters it before any code of the agent.
    pub group: Option<BorrowedFd<'a>>,
}

/// What the child needs of a stack.
const STACK_BYTES: usize = 64 << 10;

/// What the keeper lends to its child until the exec.
struct Lent<'a> {
    unborn: &'a Unborn<'a>,
    nothing: libc::sigset_t,
    /// Why it could not become the program; zero as long as nothing is known.
    errno: AtomicI32,
}

impl Unborn<'_> {
    /// Makes the child, and comes back when it has become its program or could not. It borrows this
    /// process's memory meanwhile instead of having a copy made that the exec would throw
    /// away.
    pub fn start(&self) -> io::Result<Pid> {
        let lent = Lent { unborn: self, nothing: signal_set(&[]), errno: AtomicI32::new(0) };
        // Zeroed by the kernel, page by page as they are used.
        let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
        let top = stack.as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: this process has one thread, and the kernel holds it until the child has left this
        // memory by its exec or its end. So nothing that the child uses, its stack among it, is touched
        // by anybody else or goes before it; and it shares neither descriptors nor handlers of signals.
        let pid =
            unsafe { libc::clone(be_born, top.cast(), flags, (&raw const lent).cast_mut().cast()) };
        drop(stack);
        let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Err(io::Error::last_os_error());
        };
        match lent.errno.load(Ordering::Relaxed) {
            0 => Ok(pid),
            errno => {
                // The error of the exec is what counts; the child has ended with it.
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Ties the child's life to the keeper's, and gives it what is its own: descriptors, a directory, a
    /// group, an empty signal mask (under the keeper's own SIGTERM would never reach it) and the umask
    /// it would have had. The last step is the exec.
    fn become_program(&self, nothing: &libc::sigset_t) -> io::Result<Infallible> {
        rustix::stdio::dup2_stdin(self.stdin)?;
        rustix::stdio::dup2_stdout(self.stdout)?;
        rustix::stdio::dup2_stderr(self.stderr)?;
        rustix::process::chdir(self.cwd.as_c_str())?;
        rustix::process::setpgid(None, None)?;
        // SAFETY: the default is no function of ours. The runtime of a Rust program ignores this signal.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        if let Some(group) = self.group {
            rustix::io::write(group, b"0")?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The keeper may have died before the line above; then no signal will ever come.
        if getppid() != Some(self.keeper) {
            return Err(Errno::SRCH.into());
        }
        umask(self.mask);
        if self.stepped_back {
            set_policy(libc::SCHED_OTHER);
        }
        set_signal_mask(nothing)?;
        Err(self.image.execute())
    }
}

/// The child's whole life before its exec.
extern "C" fn be_born(lent: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` gives a pointer to its own `Lent`, and waits.
    let lent = unsafe { &*lent.cast::<Lent<'_>>() };
    let Err(error) = lent.unborn.become_program(&lent.nothing);
    lent.errno.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Relaxed);
    1
}

/// A program to become: where it may be, its arguments and its environment, ready for the kernel.
/// Not left to the C library, whose search hands a file that is no program to a shell, which then
/// does whatever it takes the file to say.
pub struct Image {
    places: Vec<CString>,
    args: Strings,
    env: Strings,
}

/// Strings with the list of pointers that the kernel wants of them, closed by a null.
struct Strings {
    _held: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

// SAFETY: the pointers lead into heap memory that moves with the value and that nobody changes.
unsafe impl Send for Strings {}
// SAFETY: as above.
unsafe impl Sync for Strings {}

impl Strings {
    fn new(held: Vec<CString>) -> Self {
        let ends = std::iter::once(std::ptr::null());
        let pointers = held.iter().map(|text| text.as_ptr()).chain(ends).collect();
        Self { _held: held, pointers }
    }
}

impl Image {
    pub fn new(places: Vec<CString>, args: Vec<CString>, env: Vec<CString>) -> Self {
        Self { places, args: Strings::new(args), env: Strings::new(env) }
    }

    /// Becomes the first of the places that is a program; comes back with the reason if none is.
    fn execute(&self) -> io::Error {
        let mut reason = Errno::NOENT;
        for place in &self.places {
            let (args, env) = (self.args.pointers.as_ptr(), self.env.pointers.as_ptr());
            // SAFETY: both lists end with a null, and everything they lead to lives with `self`.
            unsafe { libc::execve(place.as_ptr(), args, env) };
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // It may still be somewhere else.
                Some(libc::EACCES) => reason = Errno::ACCESS,
                _ => return error,
            }
        }
        reason.into()
    }
}

/// Gives the kernel back the pages that the allocator holds and nobody uses: a keeper's, once its
/// plan is carried out; a host's, once a table is decoded or runs have ended. It looks through the
/// whole heap, so it is for moments that are rare.
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
