//! How strongly the agent's family is held, and how the keeper gets there.
//!
//! *strict*: the keeper goes on as the first process of a PID namespace with a `/proc` of its own,
//! and the kernel ends everything in it together with its first process. The process that the server started
//! stays outside as a guard (`guard.rs`). *cgroup*: the family is in a control group (`cgroup.rs`).
//! *basic* needs nothing. Without a wish the strongest is taken that changes nothing else for the
//! agent; a namespace of users would (no program can become another user in it), so that way to
//! *strict* is for those who ask for it by name. A namespace is the same whoever comes to live in
//! it, so it is made before the plan is there; a group has the name of a run and comes after.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getgid, getpid, getuid, pidfd_open,
    set_parent_process_death_signal, setsid, waitpid,
};

use super::cgroup::Group;
use super::family;
use super::guard;
use super::raw::{self, Cloned};
use crate::plan::Level;
use crate::record::Isolation;

/// The keeper's standing: how it holds, and how it and the agent are seen from outside.
pub struct Held {
    pub isolation: Isolation,
    /// Why nothing stronger was taken.
    pub note: Option<String>,
    pub group: Option<Group>,
    pub keeper_pid: Pid,
    pub keeper_start_ticks: Option<u64>,
    /// The processes of the server's own namespace, while the agent's pid is being asked for.
    outside: Option<OwnedFd>,
}

/// Who this process is from here on.
pub enum Side {
    /// It holds the agent.
    Keeper(Held),
    /// A level was asked for by name and cannot be had.
    Refused { held: Held, why: String },
}

/// Who this process is before it has a plan.
pub enum Ready {
    /// It waits for the plan.
    Keeper(Readied),
    /// It watches over the one that waits, which is this child, and hears of it by this line.
    Guard { keeper: Pid, line: OwnedFd },
}

/// A keeper that has done what can be done without a plan.
pub struct Readied {
    level: Level,
    keeper_pid: Pid,
    keeper_start_ticks: Option<u64>,
    /// The namespace it is in, or why it is in none; empty when none was wanted.
    namespace: Result<Namespace, String>,
}

/// What the first process of a namespace has of the world outside.
struct Namespace {
    /// The processes as they are seen from outside.
    outside: OwnedFd,
    /// The line to the guard.
    line: OwnedFd,
}

/// A namespace of users, or the privilege to do without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Privileged,
    UserNamespace,
}

/// Goes as far towards a level as is possible without a plan.
pub fn ready(level: Level) -> Ready {
    let keeper_pid = getpid();
    let keeper_start_ticks = family::start_ticks(keeper_pid);
    let ways: &[Way] = match level {
        Level::Basic | Level::Cgroup => &[],
        Level::Auto => &[Way::Privileged],
        Level::Strict => &[Way::Privileged, Way::UserNamespace],
    };
    let mut namespace = Err(String::new());
    for way in ways {
        match enter_namespace(*way) {
            Ok(Entered::Outside { keeper, line }) => return Ready::Guard { keeper, line },
            Ok(Entered::Inside(inside)) => {
                namespace = Ok(inside);
                break;
            }
            Err(words) => namespace = Err(format!("strict: {words}")),
        }
    }
    Ready::Keeper(Readied { level, keeper_pid, keeper_start_ticks, namespace })
}

impl Readied {
    /// Lets the guard share the lock that says "alive", which it must hold until the kernel has ended
    /// the last of the family, and tells it what it is called from now on.
    pub fn share(&self, lock: &OwnedFd, name: &str) -> io::Result<()> {
        match &self.namespace {
            Ok(namespace) => guard::hand_over(namespace.line.as_fd(), lock.as_fd(), name),
            // Without a namespace there is no guard to share with; `settle` reports why.
            Err(_) => Ok(()),
        }
    }

    /// Goes to the level that the plan asks for, which is the one that it was readied for. `name` is
    /// for the control group, `dir` for its note.
    pub fn settle(self, level: Level, name: &str, dir: &OwnedFd) -> Side {
        let Self { level: readied, keeper_pid, keeper_start_ticks, namespace } = self;
        let held = |isolation, note, group, outside| Held {
            isolation,
            note,
            group,
            keeper_pid,
            keeper_start_ticks,
            outside,
        };
        let basic = |note| held(Isolation::Basic, note, None, None);
        if level != readied {
            let why = format!("its keeper was readied for {}", readied.word());
            return Side::Refused { held: basic(None), why };
        }
        let mut why = match namespace {
            Ok(Namespace { outside, .. }) => {
                return Side::Keeper(held(Isolation::Strict, None, None, Some(outside)));
            }
            Err(why) => why,
        };
        if matches!(level, Level::Auto | Level::Cgroup) {
            match Group::of_family(name, dir) {
                Ok(group) => {
                    let note = (level == Level::Auto).then_some(why);
                    return Side::Keeper(held(Isolation::Cgroup, note, Some(group), None));
                }
                Err(error) if why.is_empty() => why = format!("cgroup: {error}"),
                Err(error) => why = format!("{why}; cgroup: {error}"),
            }
        }
        match level {
            Level::Basic => Side::Keeper(basic(None)),
            Level::Auto => Side::Keeper(basic(Some(why))),
            Level::Cgroup | Level::Strict => Side::Refused { held: basic(None), why },
        }
    }
}

enum Entered {
    /// The namespace stands, and its first process is this child.
    Outside { keeper: Pid, line: OwnedFd },
    /// This is its first process.
    Inside(Namespace),
}

/// What the first process says when it has settled.
const SETTLED: &[u8] = b"+";
/// How much it may say of why it has not.
const WORDS_BYTES_MAX: usize = 400;

/// Makes the namespace. The child says whether it could settle there before anything depends on
/// it, so the caller can still go another way.
fn enter_namespace(way: Way) -> Result<Entered, String> {
    let at = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let outside = rustix::fs::open("/proc", flags, Mode::empty())
        .map_err(|error| at("opening /proc")(error.into()))?;
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| at("making a pair of sockets")(error.into()))?;
    let mut namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    if way == Way::UserNamespace {
        namespaces |= libc::CLONE_NEWUSER;
    }
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    match raw::clone_into(namespaces).map_err(at("making a PID namespace"))? {
        Cloned::Parent(child) => {
            drop(theirs);
            // Words that are not the one say why not; nothing, that it died.
            let mut words = [0; WORDS_BYTES_MAX];
            let said = recv(&ours, &mut words[..], RecvFlags::empty()).map_or(0, |(said, _)| said);
            if words.get(..said) == Some(SETTLED) {
                return Ok(Entered::Outside { keeper: child, line: ours });
            }
            // A child that cannot be waited for is reaped already.
            let _ = waitpid(Some(child), WaitOptions::empty());
            Err(String::from_utf8_lossy(&words[..said.min(words.len())]).into_owned())
        }
        Cloned::Child => {
            drop(ours);
            let settled = settle_inside(way, uid, gid);
            let word = settled.as_ref().map_or_else(|why| why.as_bytes(), |()| SETTLED);
            // A guard that is gone already could not end us any more.
            if send(&theirs, word, SendFlags::NOSIGNAL).is_err() || settled.is_err() {
                std::process::exit(1);
            }
            Ok(Entered::Inside(Namespace { outside, line: theirs }))
        }
    }
}

fn settle_inside(way: Way, uid: u32, gid: u32) -> Result<(), String> {
    let at = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    if way == Way::UserNamespace {
        // The same ids inside as outside, so that files stay the agent's own.
        for (file, text) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/gid_map", format!("{gid} {gid} 1")),
            ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ] {
            fs::write(Path::new(file), text).map_err(at("mapping the user"))?;
        }
    }
    raw::part_mounts().map_err(at("parting the mounts"))?;
    raw::mount_proc().map_err(at("mounting /proc"))?;
    // A child of the guard cannot lead a session yet.
    let _ = setsid();
    // Last, for a change of credentials would clear it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| at("tying it to its guard")(error.into()))
}

impl Held {
    /// The agent's pid as the server sees it.
    pub fn agent_pid(&mut self, agent: Pid) -> Option<i32> {
        match self.outside.take() {
            None => Some(agent.as_raw_pid()),
            Some(outside) => seen_from(&outside, agent),
        }
    }

    /// The open end of the group that the agent enters before its first instruction.
    pub fn entrance(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().map(Group::entrance)
    }
}

/// A pid as the processes behind `proc` know it: a descriptor of a process tells its pid in the
/// namespace of the `/proc` that it is looked at through.
fn seen_from(proc: &OwnedFd, pid: Pid) -> Option<i32> {
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let path = format!("self/fdinfo/{}", process.as_raw_fd());
    let info = openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = String::new();
    fs::File::from(info).read_to_string(&mut text).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0)
}
