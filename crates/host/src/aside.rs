//! A launch that belongs to no run: a probe of doctor, a judged agent, a recording. It stands under
//! a keeper like every agent, so whatever it starts is swept with it and it never outlives its time;
//! but it has no store, no lease to renew and no events. Whoever holds it looks, speaks and leaves;
//! dropping it ends the program.

use crate::blocking::{self, Bulkhead};
use crate::chance;
use crate::cleanup;
use contract::{Code, Fault, limits};
use keeper::door::{self, Spawned};
use keeper::limits::FRAME_BYTES_MAX;
use keeper::packet;
use keeper::plan::{LeaseClock, Level, Plan, StdinMode};
use keeper::record::{Begin, Kind, Testimony};
use keeper::spool::Reader;
use keeper::wire::{Assembler, Order, Report};
use runtimes::Stream;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

/// The variable by which leftovers are found.
const MARK: &str = "OSTLER_RUN_ID";

/// How often, and after which pause each time, a busy keeper is told to end its program.
const STOP_TRIES: u32 = 200;
const STOP_AGAIN: Duration = Duration::from_millis(10);

/// What to launch. Its environment is whole: nothing is inherited.
pub struct Launch {
    pub program: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    pub stdin: StdinMode,
    /// Written to its stdin before anything else.
    pub first_frame: Option<Vec<u8>>,
    /// A directory that is not there yet.
    pub spool: PathBuf,
    /// The keeper ends it when this is over, whatever becomes of us.
    pub wall_ms: u64,
    /// How long it may take to obey SIGTERM.
    pub term_ms: u64,
    pub output_bytes_max: u64,
    pub level: Level,
}

/// A program that was launched.
pub struct Aside {
    voice: Voice,
    reader: Reader,
    child: Child,
    begin: Option<Begin>,
    testimony: Option<Testimony>,
}

/// What it said since the last look, in order.
#[derive(Debug, Default)]
pub struct Seen {
    pub chunks: Vec<(Stream, Vec<u8>)>,
    /// Nothing more will come.
    pub over: bool,
}

impl Aside {
    /// Starts it under a keeper, which is `own_program` itself.
    pub fn start(own_program: &Path, launch: Launch) -> Result<Self, Fault> {
        let failed = |error: io::Error| {
            let message = format!("handing {} to its keeper: {error}", launch.program);
            Fault::new(Code::SpawnFailed, message)
        };
        let secret = chance::token().map_err(failed)?;
        let mut env = launch.env;
        let mark = env.iter().find(|(name, _)| name == MARK).cloned();
        let mark = mark.unwrap_or_else(|| {
            let mark = (MARK.to_owned(), chance::run_id().to_string());
            env.push(mark.clone());
            mark
        });
        let plan = Plan {
            level: launch.level,
            version: keeper::wire::VERSION,
            run_id: mark.1.clone(),
            attempt: 1,
            fence: 1,
            hello_secret: secret,
            spool_dir: launch.spool,
            program: launch.program.clone(),
            args: launch.args,
            cwd: launch.cwd,
            env,
            secrets: Vec::new(),
            luggage: None,
            stdin: launch.stdin,
            first_frame: launch.first_frame,
            deadline_ms: LeaseClock::Monotonic.now_ms() + launch.wall_ms,
            clock: LeaseClock::Monotonic,
            farewell: None,
            farewell_ms: 0,
            term_ms: launch.term_ms,
            lease_farewell_ms: 0,
            lease_term_ms: 0,
            lease_overrun_ms: 0,
            drain_ms: limits::DRAIN_MS,
            output_bytes_max: launch.output_bytes_max,
            segment_bytes: limits::SPOOL_SEGMENT_BYTES,
            mark,
        };
        let Spawned { control, child } =
            door::spawn(own_program, plan.level, None).map_err(failed)?;
        door::prepare_spool(&plan.spool_dir)
            .and_then(|()| door::launch(&control, &plan))
            .map_err(failed)?;
        let reader =
            Reader::open(&plan.spool_dir, 0).map_err(|error| failed(io::Error::other(error)))?;
        let voice = Voice::new(control, launch.term_ms);
        Ok(Self { voice, reader, child, begin: None, testimony: None })
    }

    /// Reads what there is, without waiting.
    pub fn look(&mut self) -> io::Result<Seen> {
        // Asked before the spool is read: what a keeper wrote before it left is then read too.
        self.voice.listen();
        let gone = self.voice.gone;
        let mut seen = Seen::default();
        while let Some(record) = self.reader.next().map_err(io::Error::other)? {
            match record.kind {
                Kind::Out => seen.chunks.push((Stream::Stdout, record.payload.to_vec())),
                Kind::Err => seen.chunks.push((Stream::Stderr, record.payload.to_vec())),
                Kind::Exit => self.testimony = serde_json::from_slice(record.payload).ok(),
                Kind::Begin => self.begin = serde_json::from_slice(record.payload).ok(),
                Kind::Said | Kind::Dropped | Kind::StdinBroken | Kind::Note => {}
            }
        }
        seen.over = gone || self.testimony.is_some();
        Ok(seen)
    }

    /// Writes to its stdin, after what was said before. What is longer than a keeper takes at once
    /// goes in pieces.
    pub fn say(&mut self, bytes: Vec<u8>) {
        let pieces = bytes.chunks(FRAME_BYTES_MAX).map(|piece| Words::Say(piece.to_vec()));
        self.voice.waiting.extend(pieces);
        self.voice.speak();
    }

    /// Closes its stdin behind everything that was said.
    pub fn close_stdin(&mut self) {
        self.voice.waiting.push_back(Words::Close);
        self.voice.speak();
    }

    /// Ends it: SIGTERM, its grace, SIGKILL, sweep.
    pub fn stop(&mut self) {
        self.voice.stop();
    }

    /// How its family is held, once it has begun.
    pub fn begin(&self) -> Option<&Begin> {
        self.begin.as_ref()
    }

    /// How it ended, once it has.
    pub fn testimony(&self) -> Option<&Testimony> {
        self.testimony.as_ref()
    }

    /// Lets go of it, and waits until its keeper has left. One that still runs is ended.
    pub async fn leave(self) {
        let Self { mut voice, mut child, .. } = self;
        voice.stop();
        // A keeper that is busy takes the order a moment later; one that does not take it at all
        // ends with its time.
        for _ in 0..STOP_TRIES {
            if voice.flush() {
                break;
            }
            tokio::time::sleep(STOP_AGAIN).await;
        }
        drop(voice);
        // Only a panic is left to be dropped here, and `supervise` has logged it.
        let _ =
            blocking::spawn(Bulkhead::Wait, "wait for process", move || cleanup::wait(&mut child))
                .await;
    }
}

/// What waits to be said.
enum Words {
    Say(Vec<u8>),
    Close,
}

/// The way to its stdin, one frame at a time.
struct Voice {
    control: OwnedFd,
    assembler: Assembler,
    buffer: Box<[u8]>,
    waiting: VecDeque<Words>,
    /// Packets that the keeper had no room for yet.
    outbox: VecDeque<Vec<u8>>,
    next: u32,
    /// The frame the keeper has.
    said: Option<u32>,
    term_ms: u64,
    gone: bool,
}

impl Drop for Voice {
    /// A program that nobody looks at any more does not live on.
    fn drop(&mut self) {
        if !self.gone {
            self.stop();
        }
    }
}

impl Voice {
    fn new(control: OwnedFd, term_ms: u64) -> Self {
        Self {
            control,
            assembler: Assembler::default(),
            buffer: packet::buffer(),
            waiting: VecDeque::new(),
            outbox: VecDeque::new(),
            next: 0,
            said: None,
            term_ms,
            gone: false,
        }
    }

    fn stop(&mut self) {
        let reason = Code::Cancelled.word().to_owned();
        self.send(&Order::Stop { reason, farewell_ms: 0, term_ms: self.term_ms });
    }

    fn speak(&mut self) {
        if self.said.is_some() || self.gone {
            return;
        }
        let Some(words) = self.waiting.pop_front() else { return };
        self.next += 1;
        let n = self.next;
        self.said = Some(n);
        match words {
            Words::Say(bytes) => self.send(&Order::Say { n, bytes }),
            Words::Close => self.send(&Order::CloseStdin { n }),
        }
    }

    fn send(&mut self, order: &Order) {
        self.outbox.extend(order.packets());
        self.flush();
    }

    /// Sends what there is room for; true when nothing is left to be sent. A socket that takes
    /// nothing any more is that of a keeper that is gone.
    fn flush(&mut self) -> bool {
        while let Some(packet) = self.outbox.front() {
            match packet::send(&self.control, packet) {
                Ok(()) => drop(self.outbox.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // A broken connection means that the keeper is gone; its exit code is in the spool.
                Err(_) => {
                    self.gone = true;
                    self.outbox.clear();
                }
            }
        }
        true
    }

    fn listen(&mut self) {
        self.flush();
        loop {
            let received = match packet::receive(&self.control, &mut self.buffer) {
                Ok(Some(packet)) => self.assembler.push(packet),
                Ok(None) => break self.gone = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The same: the spool says how it ended.
                Err(_) => break self.gone = true,
            };
            let report = received.and_then(|message| message.map(Report::from_message).transpose());
            match report {
                Ok(Some(
                    Report::SaidAck { n } | Report::Dropped { n } | Report::Refused { n, .. },
                )) if self.said == Some(n) => self.said = None,
                Ok(Some(Report::Exit)) => break self.gone = true,
                Ok(_) => {}
                // A report of another version: the keeper is treated as gone, and ended with `leave`.
                Err(_) => break self.gone = true,
            }
        }
        self.speak();
    }
}
