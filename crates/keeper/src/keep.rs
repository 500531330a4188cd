//! The keeper process from its first line to its last.
//!
//! Here is the order in which things come to be; `watch.rs` is the loop they then live in. A
//! keeper without a plan has touched nothing but itself and leaves when its socket closes, so a
//! server may start one before it has committed that it will, or long before it needs one. One with a
//! plan makes everything ready and waits for the word to launch; should its socket close instead, it
//! takes its spool away and leaves. So a server may send the plan while it commits.

mod agent;
pub(crate) mod cgroup;
mod contain;
mod control;
pub(crate) mod family;
mod guard;
mod ladder;
mod lease;
mod pace;
mod raw;
mod score;
mod voice;
mod watch;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use failpoint::Point;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::process::{
    DumpableBehavior, Signal, getpid, set_child_subreaper, set_dumpable_behavior, setsid, umask,
};

use crate::door::{LOCK_NAME, open_dir};
use crate::packet;
use crate::plan::{Level, Plan};
use crate::record::{Begin, Kind};
use crate::spool::Spool;
use crate::wire::{Assembler, Order, Refusal, Report, VERSION, VERSION_OLDEST};
use agent::{Agent, Born, NotStarted};
use contain::{Held, Ready, Side};
use control::Control;
pub use raw::return_memory;
use score::Score;
use watch::{Seen, Watch};

/// What a keeper without a plan is called.
const SPARE_NAME: &CStr = c"spare keeper";

/// The keeper itself, with its control socket at descriptor 0. Call it in the first lines of main,
/// before any thread, allocator warm-up or configuration, when the first argument is `keep`.
pub fn keep() -> ExitCode {
    match attempt() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let line = format!("keeper: {error}\n");
            // The log may be gone; there is nobody else to tell.
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn attempt() -> io::Result<()> {
    raw::hide_descriptors();
    let control = take_stdin()?;
    // Fails only for a process that leads its group already, which is as good.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    // The server's directory may be unmounted or removed while the agent lives.
    rustix::process::chdir("/")?;
    let mask = umask(Mode::RWXG | Mode::RWXO);

    // Opened before the ways part: from here on no signal is lost, on either side.
    let signals = raw::signal_fd()?;
    // The name is only for those who list processes.
    let _ = rustix::thread::set_name(SPARE_NAME);
    let readied = contain::ready(level_asked_for()?);
    let score = Score::open();
    // The plan holds the agent's keys. Not earlier, for the kernel lets no such process map its user;
    // the agent's own exec ends it again.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let readied = match readied {
        Ready::Keeper(readied) => readied,
        Ready::Guard { keeper, line } => {
            // The owner must see it when the keeper lets go of it.
            drop(control);
            return guard::guard(keeper, &signals, line);
        }
    };

    let mut packet = packet::buffer();
    let mut orders =
        Orders { control: &control, signals: &signals, assembler: Assembler::default() };
    if orders.is_waiting() {
        rehearse();
    }
    let Some(plan) = orders.plan(&mut packet)? else { return Ok(()) };
    // The part of the id that tells runs apart is its end; the kernel keeps 15 bytes of a name.
    let tail = plan.run_id.get(plan.run_id.len().saturating_sub(10)..).unwrap_or_default();
    let called = format!("keep {tail}");
    if let Ok(name) = CString::new(called.as_str()) {
        // The name is only for those who list processes.
        let _ = rustix::thread::set_name(&name);
    }
    failpoint::hit(Point::PlanTaken);
    let dir = open_dir(&plan.spool_dir).inspect_err(|_| refuse(&control, Refusal::Spool))?;
    let lock = take_lock(&dir).inspect_err(|_| refuse(&control, Refusal::Spool))?;
    readied.share(&lock, &called)?;

    failpoint::hit(Point::KeeperLocked);
    let agent = agent::ready(&plan);
    let made = Made::meanwhile(&orders, &dir, &plan)?;
    if !orders.launch(&mut packet)? {
        // Nobody was started and nothing was said: whoever looks for this run finds it as it was before.
        return std::fs::remove_dir_all(&plan.spool_dir);
    }

    let name = format!("{}.{}", plan.run_id, plan.attempt);
    let (held, agent) = match readied.settle(plan.level, &name, &dir) {
        Side::Keeper(held) => {
            // The word can come late: whoever gave it may have stood still, and the run be another's.
            let agent = match plan.clock.now_ms() >= plan.deadline_ms {
                true => {
                    let words = "its lease was over before it started".to_owned();
                    Err(NotStarted { words, errno: None })
                }
                false => agent.and_then(|agent| {
                    let stepped_back = raw::step_back();
                    let born = Born { mask, stepped_back, score: score.as_ref() };
                    agent.launch(&plan, born, held.entrance())
                }),
            };
            (held, agent)
        }
        Side::Refused { held, why } => {
            let level = plan.level;
            let words = format!("isolation {}: {why}", level.word());
            (held, Err(NotStarted { words, errno: None }))
        }
    };
    let outcome = hold(plan, held, agent, signals, control, (dir, made), packet);
    if outcome.is_err() {
        family::sweep_to_the_end();
    }
    drop(lock);
    outcome
}

/// Files that the agent's keeping needs. On some disks each takes as long as the agent's own start, so
/// those are made before it that nobody waits for.
struct Made {
    listener: Option<OwnedFd>,
    spool: Option<Spool>,
}

impl Made {
    /// Makes one after the other for as long as there is no word to launch.
    fn meanwhile(orders: &Orders<'_>, dir: &OwnedFd, plan: &Plan) -> io::Result<Self> {
        let listener = orders.is_waiting().then(|| control::listen(dir)).transpose()?;
        let spool = orders.is_waiting().then(|| spool(dir, plan)).transpose()?;
        Ok(Self { listener, spool })
    }
}

fn spool(dir: &OwnedFd, plan: &Plan) -> io::Result<Spool> {
    Spool::create(dir.try_clone()?, plan.segment_bytes)
}

/// Makes what is left of what the agent's keeping needs while the agent execs, and keeps it. Should
/// something fail here, the agent has run for a fraction of a millisecond and is killed again.
fn hold(
    plan: Box<Plan>,
    mut held: Held,
    agent: Result<Agent, NotStarted>,
    signals: OwnedFd,
    control: OwnedFd,
    (dir, made): (OwnedFd, Made),
    packet: Box<[u8]>,
) -> io::Result<()> {
    failpoint::hit(Point::AgentLaunched);
    let listener = made.listener.map_or_else(|| control::listen(&dir), Ok)?;
    let mut spool = made.spool.map_or_else(|| spool(&dir, &plan), Ok)?;
    let control = Control::new(control, listener, dir);
    let seen = Seen {
        keeper_pid: held.keeper_pid.as_raw_pid(),
        agent_pid: agent.as_ref().ok().and_then(|agent| held.agent_pid(agent.pid)),
        isolation: held.isolation,
        isolation_note: held.note.take(),
    };
    let begin = begin(&plan, &agent, &seen, held.keeper_start_ticks);
    spool.append(Kind::Begin, 0, 0, &serde_json::to_vec(&begin).expect("begin is plain data"));
    let watch = Watch::new(plan, agent, (seen, held.group), signals, control, spool, packet)?;
    raw::return_memory();
    watch.run()
}

/// Moves the control socket from descriptor 0 to one that the agent will not inherit.
fn take_stdin() -> io::Result<OwnedFd> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(control)
}

/// The level that the server's agents are held on, which is the last of the arguments.
fn level_asked_for() -> io::Result<Level> {
    let word = std::env::args().next_back().unwrap_or_default();
    Level::from_word(&word)
        .ok_or_else(|| io::Error::other(format!("{word:?} is not an isolation level")))
}

/// The orders that come before there is an agent.
struct Orders<'a> {
    control: &'a OwnedFd,
    signals: &'a OwnedFd,
    assembler: Assembler,
}

impl Orders<'_> {
    /// Whether none has come.
    fn is_waiting(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(self.control, PollFlags::IN)], Some(&at_once)), Ok(0))
    }

    fn plan(&mut self, buffer: &mut [u8]) -> io::Result<Option<Box<Plan>>> {
        match self.next(buffer)? {
            None => Ok(None),
            Some(Order::Plan(plan)) if (VERSION_OLDEST..=VERSION).contains(&plan.version) => {
                Ok(Some(plan))
            }
            Some(Order::Plan(_)) => {
                refuse(self.control, Refusal::Version);
                Err(io::Error::other("the version of the plan is not supported"))
            }
            Some(_) => Err(malformed(self.control, crate::wire::Malformed)),
        }
    }

    /// Whether the agent is to be started.
    fn launch(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        match self.next(buffer)? {
            None => Ok(false),
            Some(Order::Launch) => Ok(true),
            Some(_) => Err(malformed(self.control, crate::wire::Malformed)),
        }
    }

    /// `None` when the server closed the socket instead, and so never launched, or when someone wants
    /// this process to end: what is asked of it now must not be heard by the run that comes.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<Order>> {
        let (control, signals) = (self.control, self.signals);
        loop {
            let mut heard =
                [PollFd::new(control, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
            match poll(&mut heard, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if raw::read_signals(signals).iter().any(|signal| *signal != Signal::CHILD) {
                return Ok(None);
            }
            let packet = match packet::receive(control, buffer) {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let order = match self.assembler.push(packet) {
                Ok(Some(message)) => Order::from_message(message),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            return order.map(Some).map_err(|error| malformed(control, error));
        }
    }
}

/// A plan that means nothing, with something of everything.
const SAMPLE: &str = r#"{"version":1,"run_id":"r","attempt":1,"fence":1,"hello_secret":"s",
    "spool_dir":"/","program":"p","args":["a"],"cwd":"/","env":[["PATH","/bin:/usr/bin"],["A","\u0062"]],
    "secrets":[["A","b"]],"luggage":"l","stdin":"open","first_frame":"f\n","deadline_ms":1,
    "clock":"monotonic","farewell":[255],"farewell_ms":1,"term_ms":1,"drain_ms":1,"output_bytes_max":1,
    "segment_bytes":1,"mark":["M","m"],"level":"auto"}"#;

/// Reads a plan for nothing while there is none: the kernel brings in code when it is first used, and
/// the plan that comes is not to wait for that.
fn rehearse() {
    if let Ok(plan) = serde_json::from_str::<Plan>(std::hint::black_box(SAMPLE)) {
        // Only the code is wanted, not what it makes of the sample.
        let _ = std::hint::black_box(agent::image(&plan));
    }
}

fn malformed(control: &OwnedFd, error: crate::wire::Malformed) -> io::Error {
    refuse(control, Refusal::Malformed);
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn refuse(control: &OwnedFd, why: Refusal) {
    for packet in (Report::Refused { n: 0, why }).packets() {
        // A host that has gone needs no refusal.
        let _ = packet::send(control, &packet);
    }
}

/// Takes the lock that says "alive", before the agent starts: a second keeper with the same plan
/// goes no further than this. A server that looks whether we live holds it for an instant, hence
/// the retries.
fn take_lock(dir: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = openat(dir, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR)?;
    for _ in 0..20 {
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(lock);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "another keeper holds this spool"))
}

fn begin(
    plan: &Plan,
    agent: &Result<Agent, NotStarted>,
    seen: &Seen,
    keeper_start_ticks: Option<u64>,
) -> Begin {
    let agent_pid = agent.as_ref().ok().map(|agent| agent.pid);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Begin {
        version: VERSION,
        run_id: plan.run_id.clone(),
        attempt: plan.attempt,
        fence: plan.fence,
        keeper_pid: seen.keeper_pid,
        keeper_start_ticks,
        agent_pid: seen.agent_pid,
        agent_start_ticks: agent_pid.and_then(family::start_ticks),
        boot_id: crate::mark::boot_id(),
        wall_ms: wall.as_millis() as u64,
        isolation: seen.isolation,
        isolation_note: seen.isolation_note.clone(),
        mark: plan.mark.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rehearsed_is_a_plan() {
        let plan: Plan = serde_json::from_str(SAMPLE).unwrap();
        assert!(agent::image(&plan).is_ok());
        let json = serde_json::to_value(&plan).unwrap();
        let whole = serde_json::to_value(crate::plan::tests::plan()).unwrap();
        assert_eq!(
            json.as_object().unwrap().keys().collect::<Vec<_>>(),
            whole.as_object().unwrap().keys().collect::<Vec<_>>(),
            "something of everything"
        );
    }
}
