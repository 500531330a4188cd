//! The loop: waits for whatever comes first, acts on it, and knows when it is over.
//!
//! An attempt goes through its phases in one direction: the agent lives; its pipes are drained;
//! its family is swept; the testimony is written. Nothing in here waits anywhere but in `poll`: a
//! full disk, a deaf agent or a slow server must not stop the lease's clock. `orders.rs` holds what
//! the owner may ask for, `output.rs` the way of the agent's bytes.

mod orders;
mod output;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use failpoint::Point;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus};

use super::agent::{Agent, NotStarted};
use super::cgroup::Group;
use super::control::Control;
use super::family::{self, Reaped};
use super::ladder::{Graces, Ladder};
use super::lease::{Due, Lease, StopTimes};
use super::pace::Pace;
use super::raw;
use super::voice::Voice;
use crate::limits::{ROOM_RETRY_MS, SWEEP_PAUSE_MS};
use crate::plan::Plan;
use crate::record::{Isolation, Kind, LEASE, Note, Rung, Testimony};
use crate::spool::Spool;
use crate::wire::Report;

/// Everything a keeper holds while its agent lives.
pub struct Watch {
    agent: Option<Pid>,
    /// How the keeper and its agent look from outside.
    seen: Seen,
    /// Where the family has a control group.
    group: Option<Group>,
    /// The agent's pipes, until their end.
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    pace: Pace,
    voice: Voice,
    ladder: Ladder,
    lease: Lease,
    control: Control,
    signals: OwnedFd,
    spool: Spool,
    phase: Phase,
    /// Grows as things happen; written last.
    testimony: Testimony,
    /// Offset up to which the owner was poked.
    poked: u64,
    output_bytes: u64,
    discarded_bytes: u64,
    /// Next try at a full disk.
    retry_at: Instant,
    /// Room for an order, or for output that is thrown away.
    packet: Box<[u8]>,

    // What is still needed of the plan.
    hello_secret: String,
    secrets: Vec<(String, String)>,
    luggage: Option<String>,
    farewell: Option<Vec<u8>>,
    graces: Graces,
    drain: Duration,
    output_bytes_max: u64,
}

/// What a server is told of the processes: pids as it sees them itself.
pub struct Seen {
    pub keeper_pid: i32,
    pub agent_pid: Option<i32>,
    pub isolation: Isolation,
    pub isolation_note: Option<String>,
}

/// How far the attempt has come.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Alive,
    /// The agent is gone and others may hold its pipes, until then.
    Drain(Instant),
    /// The family is being killed; the round, and when the next one is due.
    Sweep(u32, Instant),
    /// Nobody is left to write; what is in the pipes is read to its end.
    Last,
    /// The testimony is appended, though a full disk may hold it up.
    Over,
}

/// Something to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Signals,
    Lease,
    Listener,
    Owner,
    Newcomers,
    Stdin,
    Out,
    Err,
}

impl Watch {
    pub fn new(
        plan: Box<Plan>,
        agent: Result<Agent, NotStarted>,
        (seen, group): (Seen, Option<Group>),
        signals: OwnedFd,
        control: Control,
        spool: Spool,
        packet: Box<[u8]>,
    ) -> io::Result<Self> {
        let mut testimony = Testimony::default();
        let (agent, stdin, out, err) = match agent {
            Ok(agent) => (Some(agent.pid), agent.stdin, Some(agent.stdout), Some(agent.stderr)),
            Err(NotStarted { words, errno }) => {
                testimony.spawn_error = Some(words);
                testimony.spawn_errno = errno;
                (None, None, None, None)
            }
        };
        let now = Instant::now();
        let lease_stop = StopTimes {
            graces: Graces { farewell_ms: plan.lease_farewell_ms, term_ms: plan.lease_term_ms },
            overrun_ms: plan.lease_overrun_ms,
        };
        let mut watch = Self {
            phase: if agent.is_some() { Phase::Alive } else { Phase::Sweep(0, now) },
            agent,
            seen,
            group,
            out,
            err,
            pace: Pace::new(now),
            voice: Voice::new(stdin, plan.stdin, plan.first_frame),
            ladder: Ladder::default(),
            lease: Lease::start(plan.clock, plan.fence, plan.deadline_ms, lease_stop)?,
            control,
            signals,
            spool,
            testimony,
            poked: 0,
            output_bytes: 0,
            discarded_bytes: 0,
            retry_at: now,
            packet,
            hello_secret: plan.hello_secret,
            secrets: plan.secrets,
            luggage: plan.luggage,
            farewell: plan.farewell,
            graces: Graces { farewell_ms: plan.farewell_ms, term_ms: plan.term_ms },
            drain: Duration::from_millis(plan.drain_ms),
            output_bytes_max: plan.output_bytes_max,
        };
        if watch.agent.is_none() {
            if watch.lease.is_over() {
                watch.ladder.ask(now, LEASE, Graces::NONE);
            }
            watch.speak(Voice::end);
        }
        watch.control.report(&Report::Hello(Box::new(watch.hello_reply(Vec::new(), None))));
        Ok(watch)
    }

    /// Until nobody is left and all is written.
    pub fn run(mut self) -> io::Result<()> {
        let left = loop {
            if let Some(left) = self.advance(Instant::now()) {
                break left;
            }
            if self.spool.len() > self.poked {
                self.poked = self.spool.len();
                self.control.poke();
            }
            for source in self.wait()? {
                self.serve(source);
            }
        };
        if let Some(group) = &self.group {
            group.remove();
        }
        self.control.close();
        self.control.report(&Report::Exit);
        left
    }

    fn serve(&mut self, source: Source) {
        match source {
            Source::Signals => self.hear_signals(),
            Source::Lease => self.heed_lease(),
            Source::Listener => self.control.accept(),
            Source::Owner => self.hear_owner(),
            Source::Newcomers => self.hear_newcomers(),
            Source::Stdin => self.speak(Voice::write_on),
            Source::Out => {
                self.pump(Kind::Out);
            }
            Source::Err => {
                self.pump(Kind::Err);
            }
        }
    }

    /// Waits for the next thing to happen. Signals come after output, so that what an agent said
    /// before its end is heard before it, and let no output rest.
    fn wait(&self) -> io::Result<Vec<Source>> {
        let rest = self.pace.rests_until(Instant::now());
        let mut sources = Vec::with_capacity(12);
        let mut fds = Vec::with_capacity(12);
        let mut add = |source, fd, flags| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        // A full disk holds the agent: its pipes are left alone, and nothing else is.
        if !self.spool.is_blocked() && rest.is_none() {
            for (source, pipe) in [(Source::Out, &self.out), (Source::Err, &self.err)] {
                if let Some(pipe) = pipe {
                    add(source, pipe.as_fd(), PollFlags::IN);
                }
            }
        }
        // Whom we have killed has not stopped reading of its own accord.
        if self.ladder.rung() != Some(Rung::Kill)
            && let Some(stdin) = self.voice.wants_room(&self.spool)
        {
            add(Source::Stdin, stdin, PollFlags::OUT);
        }
        if let Some(owner) = &self.control.owner {
            let out = if owner.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            add(Source::Owner, owner.as_fd(), PollFlags::IN | out);
        }
        for newcomer in &self.control.newcomers {
            add(Source::Newcomers, newcomer.as_fd(), PollFlags::IN);
        }
        add(Source::Listener, self.control.listener(), PollFlags::IN);
        add(Source::Lease, self.lease.as_fd(), PollFlags::IN);
        add(Source::Signals, self.signals.as_fd(), PollFlags::IN);

        match poll(&mut fds, self.timeout(rest).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut happened: Vec<Source> = sources
            .iter()
            .zip(ready)
            .filter_map(|(source, ready)| ready.then_some(*source))
            .collect();
        happened.dedup();
        if rest.is_some() && happened.contains(&Source::Signals) {
            happened.splice(0..0, [Source::Out, Source::Err]);
        }
        Ok(happened)
    }

    /// Time to the next step that nobody will wake us for.
    fn timeout(&self, rest: Option<Instant>) -> Option<Timespec> {
        let step = match self.phase {
            Phase::Alive => self.ladder.until(),
            Phase::Drain(until) => Some(until),
            Phase::Sweep(_, next) => Some(next),
            Phase::Last | Phase::Over => None,
        };
        let retry = self.spool.is_blocked().then_some(self.retry_at);
        let next = [step, retry, rest].into_iter().flatten().min()?;
        let left = next.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() })
    }

    /// Takes every step whose time has come. Some when there is nothing left to do: whether the
    /// testimony could be written.
    fn advance(&mut self, now: Instant) -> Option<io::Result<()>> {
        if self.spool.is_blocked() && now >= self.retry_at {
            self.spool.retry();
            self.retry_at = now + Duration::from_millis(ROOM_RETRY_MS);
        }
        loop {
            match self.phase {
                Phase::Alive => {
                    let can_say_farewell = self.farewell.is_some() && self.voice.is_open();
                    let rung = self.ladder.due(now, can_say_farewell)?;
                    self.climb(rung);
                }
                Phase::Drain(until) => {
                    let drained = self.out.is_none() && self.err.is_none();
                    if !drained && now < until {
                        return None;
                    }
                    self.phase = Phase::Sweep(0, now);
                }
                Phase::Sweep(round, next) => {
                    if self.reap_all() {
                        self.phase = Phase::Last;
                        continue;
                    }
                    if now < next {
                        return None;
                    }
                    if let Some(group) = &self.group {
                        group.kill();
                    }
                    family::sweep(round + 1);
                    let pause = Duration::from_millis(SWEEP_PAUSE_MS);
                    self.phase = Phase::Sweep(round + 1, now + pause);
                    if !self.reap_all() {
                        return None;
                    }
                }
                Phase::Last => {
                    if self.spool.is_blocked() {
                        return self.give_up();
                    }
                    if self.read_the_rest() {
                        failpoint::hit(Point::TestimonyBefore);
                        self.testify();
                        failpoint::hit(Point::TestimonyAfter);
                        self.phase = Phase::Over;
                    }
                }
                Phase::Over => {
                    return if self.spool.is_blocked() { self.give_up() } else { Some(Ok(())) };
                }
            }
        }
    }

    /// Nobody is left and the disk is full: waits for room as long as the lease lasts.
    fn give_up(&self) -> Option<io::Result<()>> {
        let full = io::ErrorKind::StorageFull;
        self.lease.is_over().then(|| Err(io::Error::new(full, "no room for the testimony")))
    }

    /// Performs a rung of the stop ladder.
    fn climb(&mut self, rung: Rung) {
        self.spool.note(&Note::Rung { rung });
        match (rung, self.agent) {
            (Rung::Farewell, _) => {
                let farewell = self.farewell.clone().unwrap_or_default();
                self.speak(|voice, spool| voice.say_farewell(farewell, spool));
                self.speak(Voice::write_on);
            }
            (Rung::Term, Some(agent)) => family::terminate(agent),
            (Rung::Kill, Some(agent)) => {
                self.testimony.forced = true;
                family::kill(agent);
            }
            (Rung::Term | Rung::Kill, None) => {}
        }
    }

    /// Asks the ladder for a stop, or for a shorter one. Without effect once the agent is gone.
    fn stop(&mut self, reason: &str, graces: Graces) {
        if !matches!(self.phase, Phase::Alive) {
            return;
        }
        let Graces { farewell_ms, term_ms } = graces;
        let reason = reason.to_owned();
        self.ladder.ask(Instant::now(), &reason, graces);
        self.spool.note(&Note::StopAsked { reason, farewell_ms, term_ms });
        self.speak(Voice::stop);
    }

    /// Stops the agent in time before the end of its lease, and ends everything at it.
    fn heed_lease(&mut self) {
        match self.lease.due() {
            None => {}
            Some(Due::Stop(graces)) => self.stop(LEASE, graces),
            Some(Due::Kill) => {
                self.stop(LEASE, Graces::NONE);
                // The agent has left, and its descendants may not outlive the lease either.
                if let Phase::Drain(_) = self.phase {
                    self.phase = Phase::Sweep(0, Instant::now());
                }
            }
        }
    }

    /// Lets the voice act, and passes on what it has to report.
    fn speak(&mut self, act: impl FnOnce(&mut Voice, &mut Spool) -> Option<Report>) {
        if let Some(report) = act(&mut self.voice, &mut self.spool) {
            self.control.report(&report);
        }
        if self.voice.is_broken() {
            self.ladder.farewell_failed(Instant::now());
        }
    }

    fn hear_signals(&mut self) {
        for signal in raw::read_signals(&self.signals) {
            if signal == Signal::CHILD {
                self.reap_all();
            } else if self.ladder.asked_by().is_none() {
                self.stop("signal", self.graces);
            } else {
                self.stop("signal", Graces::NONE);
            }
        }
    }

    /// Reaps everyone who has ended. True when no child is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match family::reap() {
                Reaped::Child(pid, status) if Some(pid) == self.agent => self.agent_ended(status),
                Reaped::Child(_, status) => {
                    let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                    let sweeping = matches!(self.phase, Phase::Sweep(1.., _));
                    self.testimony.swept += u32::from(killed && sweeping);
                }
                Reaped::NoneYet => return false,
                Reaped::NoChild => return true,
            }
        }
    }

    fn agent_ended(&mut self, status: WaitStatus) {
        self.agent = None;
        self.testimony.exit_code = status.exit_status();
        self.testimony.signal = status.terminating_signal();
        self.speak(Voice::end);
        let now = Instant::now();
        // Whoever was killed has had its time to speak.
        self.phase = match self.ladder.rung() {
            Some(Rung::Kill) => Phase::Sweep(0, now),
            _ => Phase::Drain(now + self.drain),
        };
    }

    fn testify(&mut self) {
        if self.discarded_bytes > 0 {
            self.spool.note(&Note::Discarded { bytes: self.discarded_bytes });
        }
        self.testimony.asked_by = self.ladder.asked_by().map(str::to_owned);
        self.testimony.rungs =
            self.ladder.rungs().iter().map(|rung| rung.word().to_owned()).collect();
        self.testimony.stdin_broken = self.voice.is_broken();
        let payload = serde_json::to_vec(&self.testimony).expect("a testimony is plain data");
        self.spool.append(Kind::Exit, 0, 0, &payload);
    }
}
