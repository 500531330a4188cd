//! The server's door to its keepers: start one, dial a living one, tell a living from a dead one.
//!
//! Blocking calls of microseconds, and no async. After them the server holds the control socket,
//! speaks [`crate::wire`] over [`crate::packet`], and reads the spool with [`crate::spool::Reader`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::limits::HELLO_TIMEOUT_MS;
use crate::packet;
use crate::plan::{Level, Plan};
use crate::wire::{Assembler, HelloReply, Order, Refusal, Report, VERSION};

/// Name of the listening socket in the spool directory.
pub(crate) const SOCKET_NAME: &str = "sock";
/// Name of the file whose lock the keeper holds for life.
pub(crate) const LOCK_NAME: &str = "lock";

/// A keeper that waits for its plan. Dropping `control` before the launch was ordered makes it leave.
#[derive(Debug)]
pub struct Spawned {
    /// SEQPACKET, non-blocking, close-on-exec.
    pub control: OwnedFd,
    /// The keeper; whoever holds this must wait for it in the end.
    pub child: Child,
}

/// Starts a keeper from `exe`, the product's own binary, for a plan that asks for this level. Nothing
/// runs between fork and exec, so the standard library takes the quick way (`posix_spawn`), whatever
/// the server's size.
pub fn spawn(exe: &Path, level: Level, keeper_log: Option<File>) -> io::Result<Spawned> {
    let (control, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::io::ioctl_fionbio(&control, true)?;
    let child = Command::new(exe)
        .arg0("ostler-keeper")
        .args(["keep", level.word()])
        .env_clear()
        .envs(failpoint::passed_on())
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(keeper_log.map_or_else(Stdio::null, Stdio::from))
        .spawn()?;
    Ok(Spawned { control, child })
}

/// Makes the spool directory of an attempt. Fails with `AlreadyExists` if the attempt was launched
/// before, by whomever: this is what keeps a launch from happening twice.
pub fn prepare_spool(dir: &Path) -> io::Result<()> {
    rustix::fs::mkdir(dir, Mode::RWXU)?;
    Ok(())
}

/// Sends its plan to a keeper just spawned and has it launch the agent at once. The keeper answers with
/// a hello, or refuses.
pub fn launch(control: impl AsFd, plan: &Plan) -> io::Result<()> {
    send_all(control.as_fd(), &Order::Plan(Box::new(plan.clone())))?;
    send_all(control.as_fd(), &Order::Launch)
}

/// Connects to the keeper of `dir` and takes it over. The socket is as in [`Spawned`].
///
/// `PermissionDenied` means that the keeper lives and refused; `ConnectionRefused` or `NotFound`
/// that there is none.
pub fn dial(dir: &Path, secret: &str, fence: u64) -> io::Result<(OwnedFd, HelloReply)> {
    let control = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let dir = open_dir(dir)?;
    let address = socket_address(dir.as_fd())?;
    let deadline = Instant::now() + Duration::from_millis(HELLO_TIMEOUT_MS);
    // A full queue answers "again" at once, and no descriptor tells when it has room.
    while let Err(error) = rustix::net::connect(&control, &address) {
        if error != Errno::AGAIN || Instant::now() > deadline {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let hello = Order::Hello { secret: secret.to_owned(), fence, version: VERSION };
    send_all(control.as_fd(), &hello)?;
    let reply = await_hello(control.as_fd())?;
    Ok((control, reply))
}

/// Whether a keeper holds the lock of `dir`. True from just before the agent starts until after
/// the testimony is written; a keeper that still waits for its plan holds nothing.
pub fn is_alive(dir: &Path) -> bool {
    let Ok(lock) = File::open(dir.join(LOCK_NAME)) else { return false };
    // A shared lock: two servers that look at once do not take each other for a keeper.
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

/// Whether a keeper has begun to make `dir` its own. False between [`prepare_spool`] and the moment
/// in which the keeper has read its plan, and for ever when the plan never reached it.
pub fn is_taken_up(dir: &Path) -> bool {
    dir.join(LOCK_NAME).exists()
}

/// Makes sure that no keeper lives in `dir` and none will: takes the lock that a keeper must have
/// before it starts its agent, for as long as the answer is held. `None` when a keeper has it.
pub fn lock_out(dir: &Path) -> io::Result<Option<OwnedFd>> {
    let dir = open_dir(dir)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = rustix::fs::openat(&dir, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes this process inherit the descendants of a keeper that was killed, instead of init. Call
/// it once, early. Strangers then become children of this process: `strays.rs` waits for them.
pub fn become_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

pub(crate) fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

/// The socket's address by way of the directory's descriptor: an address holds 107 bytes, which a
/// data directory and two ids easily pass.
pub(crate) fn socket_address(dir: BorrowedFd<'_>) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd()))?)
}

fn await_hello(control: BorrowedFd<'_>) -> io::Result<HelloReply> {
    let deadline = Instant::now() + Duration::from_millis(HELLO_TIMEOUT_MS);
    let mut buffer = packet::buffer();
    let mut assembler = Assembler::default();
    loop {
        let packet = match packet::receive(control, &mut buffer) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_until(control, PollFlags::IN, deadline)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        let report = assembler.push(packet).and_then(|m| m.map(Report::from_message).transpose());
        match report.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            Some(Report::Hello(reply)) => return Ok(*reply),
            Some(Report::Refused { why, .. }) => return Err(refused(why)),
            // The keeper was about to leave when we came.
            Some(Report::Exit) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(
                Report::Poke
                | Report::SaidAck { .. }
                | Report::Dropped { .. }
                | Report::Pong { .. },
            )
            | None => {}
        }
    }
}

fn refused(why: Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn send_all(control: BorrowedFd<'_>, order: &Order) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_millis(HELLO_TIMEOUT_MS);
    for packet in order.packets() {
        loop {
            match packet::send(control, &packet) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_until(control, PollFlags::OUT, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn wait_until(fd: BorrowedFd<'_>, flags: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&left)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
