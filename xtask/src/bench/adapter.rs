//! The product's way up, without its store: a real keeper spools the agent, and this process reads
//! the spool, splits lines, lets the dialect hear them, joins deltas and seals each event with fifty
//! known secrets, until it could be stored. Keeper and reader are counted together.

use super::agent::{self, LINE_BYTES, Note, Writes};
use super::lines::Lines;
use super::usage::{self, Cost};
use super::{Programs, said};
use contract::event::{Envelope, Origin};
use contract::limits::BATCH_EVENTS_MAX;
use contract::{RunId, Timestamp};
use keeper::plan::{LeaseClock, Level, Plan, StdinMode};
use keeper::record::Kind;
use keeper::spool::Reader;
use keeper::{door, packet};
use runtimes::join::Joiner;
use runtimes::{Dialect, Frame, Out, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use store::seal::{Seal, SealedEvent};
use testkit::Instance;

const SECRETS: usize = 50;

/// Names and values that no line of the bench holds.
pub fn secrets() -> BTreeMap<String, String> {
    (0..SECRETS as u64)
        .map(|n| {
            let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (format!("BENCH_KEY_{n}"), format!("v{mixed:016x}{:016x}", mixed.rotate_left(29)))
        })
        .collect()
}

pub fn run(programs: &Programs, writes: Writes, events: u64) -> Result<Cost, String> {
    let instance = Instance::new();
    let note = instance.root().join("note");
    let spool = instance.root().join("spool");
    let plan = plan(programs, &instance, agent::args(writes, events, &note), &spool);
    let mut upward = Upward::new();

    let door::Spawned { control, mut child } =
        door::spawn(&programs.ostler, plan.level, None).map_err(said("starting a keeper"))?;
    door::prepare_spool(&spool).map_err(said("making a spool"))?;
    let own_ns = usage::own_cpu_ns();
    door::launch(&control, &plan).map_err(said("sending the plan"))?;
    let mut reader = Reader::open(&spool, 0).map_err(said("opening the spool"))?;
    let mut buffer = packet::buffer();
    let mut gone = false;
    loop {
        match reader.next().map_err(said("reading the spool"))? {
            Some(record) if record.kind == Kind::Begin => one_process(&child)?,
            Some(record) if record.kind == Kind::Out => upward.take(record.payload),
            Some(record) if record.kind == Kind::Exit => break,
            Some(_) => {}
            None if gone => return Err("the keeper left no testimony".to_owned()),
            None => gone = !await_poke(&control, &mut buffer)?,
        }
    }
    upward.flush();
    let (own_ns, ended_ns) = (usage::own_cpu_ns() - own_ns, usage::now_ns());
    drop(control);
    let keeper_ns = usage::reap_cpu_ns(&mut child)?;
    let bytes_min = events as usize * LINE_BYTES;
    if upward.sealed != events || upward.sealed_bytes < bytes_min {
        return Err(format!("{} of {events} events were sealed", upward.sealed));
    }
    let wall_ns = ended_ns - Note::read(&note)?.began_ns;
    Ok(Cost::per(events, own_ns + keeper_ns, keeper_ns, wall_ns))
}

/// Only a direct child's books can be read, so a keeper behind a guard would be counted as nothing.
fn one_process(child: &std::process::Child) -> Result<(), String> {
    match usage::children_named(child.id(), "keep").is_empty() {
        true => Ok(()),
        false => Err("the keeper has a guard, whose CPU time is not the keeper's".to_owned()),
    }
}

/// Waits until the keeper says something, and takes all it says. False when it is gone.
fn await_poke(control: &OwnedFd, buffer: &mut [u8]) -> Result<bool, String> {
    poll(&mut [PollFd::new(control, PollFlags::IN)], None).map_err(said("waiting for a keeper"))?;
    loop {
        match packet::receive(control, buffer) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(false),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(format!("hearing a keeper: {error}")),
        }
    }
}

/// From bytes of the spool to events that could be stored.
struct Upward {
    lines: Lines,
    line: u64,
    dialect: Box<dyn Dialect>,
    joiner: Joiner,
    seal: Seal,
    run: RunId,
    out: Out,
    drafts: Vec<contract::Draft>,
    /// What a Batch would hold.
    batch: Vec<SealedEvent>,
    sealed: u64,
    sealed_bytes: usize,
}

impl Upward {
    fn new() -> Self {
        Self {
            lines: Lines::default(),
            line: 0,
            dialect: runtimes::jsonlines::fresh(),
            joiner: Joiner::default(),
            seal: Seal::new(secrets()),
            run: run_id(),
            out: Out::default(),
            drafts: Vec::new(),
            batch: Vec::new(),
            sealed: 0,
            sealed_bytes: 0,
        }
    }

    fn take(&mut self, payload: &[u8]) {
        let now = now();
        let (line, dialect, out) = (&mut self.line, &mut self.dialect, &mut self.out);
        self.lines.push(payload, |bytes| {
            *line += 1;
            let frame = Frame { stream: Stream::Stdout, line: *line, bytes, cut: false };
            dialect.hear(&frame, out);
        });
        for draft in self.out.drafts.drain(..) {
            self.joiner.push(draft, now, &mut self.drafts);
        }
        self.seal_all(now);
    }

    fn flush(&mut self) {
        self.joiner.flush(&mut self.drafts);
        self.seal_all(now());
    }

    fn seal_all(&mut self, ts: Timestamp) {
        for draft in self.drafts.drain(..) {
            self.sealed += 1;
            let envelope = Envelope {
                run_id: self.run,
                seq: self.sealed,
                ts,
                attempt: 1,
                fence: 1,
                origin: Origin::Agent,
            };
            let event = self.seal.event(&envelope, &draft.body, draft.raw);
            self.sealed_bytes += event.bytes.bytes().len();
            if self.batch.len() == BATCH_EVENTS_MAX {
                self.batch.clear();
            }
            self.batch.push(event);
        }
    }
}

pub fn run_id() -> RunId {
    "run_00000000000000000000000000000007".parse().expect("the id is written as ids are")
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn plan(programs: &Programs, instance: &Instance, args: Vec<String>, spool: &Path) -> Plan {
    Plan {
        version: keeper::wire::VERSION,
        run_id: run_id().to_string(),
        attempt: 1,
        fence: 1,
        hello_secret: "0".repeat(32),
        spool_dir: spool.to_owned(),
        program: programs.xtask.display().to_string(),
        args,
        cwd: instance.work(),
        env: instance.env(),
        secrets: Vec::new(),
        luggage: None,
        stdin: StdinMode::Null,
        first_frame: None,
        deadline_ms: u64::MAX,
        clock: LeaseClock::Monotonic,
        farewell: None,
        farewell_ms: 1_000,
        term_ms: 1_000,
        lease_farewell_ms: 0,
        lease_term_ms: 0,
        lease_overrun_ms: 0,
        drain_ms: keeper::limits::DRAIN_MS,
        output_bytes_max: u64::MAX,
        segment_bytes: keeper::limits::SEGMENT_BYTES,
        mark: ("OSTLER_RUN_ID".to_owned(), run_id().to_string()),
        // One process, whose books hold all it does: above this level our child is only the guard
        // of the keeper, which waits and costs nothing for an event.
        level: Level::Basic,
    }
}
