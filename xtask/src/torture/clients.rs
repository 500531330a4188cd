//! Those who use the product while it is being killed: they start runs, watch them, speak to them
//! and stop them, and write down what they were told. One that gets no answer asks again for
//! something new: whether the old wish was granted, the judge sees.

use super::log::Log;
use super::wire::{Door, Silence};
use crate::fuzz::Chance;
use contract::RunId;
use contract::plan::Adapter;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Runs that are kept going at once.
const RUNS_LIVE: usize = 4;
/// Runs that one case may have.
const RUNS_MAX: usize = 24;
/// Messages that an agent that listens is told before it may end.
const MESSAGES: usize = 5;
/// Before someone asks again. A case has a dozen of them, and nobody answers while a server starts.
const PAUSE: Duration = Duration::from_millis(12);
/// Not known to the agent's world otherwise; it must not be found in what is kept.
pub const SECRET: &str = "torture-canary-5f1c9a7b2e";

/// What an agent is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Talks,
    Listens,
    Waits,
    /// Started from a command line that hosts.
    Typed,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Talks, Role::Listens, Role::Waits, Role::Typed];

    pub fn word(self) -> &'static str {
        match self {
            Role::Talks => "talks",
            Role::Listens => "listens",
            Role::Waits => "waits",
            Role::Typed => "typed",
        }
    }

    /// What the fake agent is told to do. Numbered lines, texts that become blobs, deltas, calls
    /// that are answered, a secret, and what it cost.
    pub fn script(self) -> Vec<String> {
        let text = match self {
            Role::Talks => {
                "--burst 12 --sleep-ms 40 --tool report_progress {\"summary\":\"on\"} \
                 --echo-env TORTURE_SECRET --sleep-ms 40 --steps 2 --line-bytes 70000 --burst 3 \
                 --sleep-ms 50 --line-bytes 300 --burst 9 --sleep-ms 50 --tool list_files {} \
                 --sleep-ms 60 --deltas --burst 20 --sleep-ms 60 --burst 5"
            }
            Role::Listens => "--converse",
            Role::Waits => "--burst 5 --wait-shutdown",
            Role::Typed => {
                "--burst 20 --sleep-ms 300 --tool list_files {} --sleep-ms 300 --burst 9"
            }
        };
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// What all clients of one case share.
pub struct Shared {
    pub door: Door,
    pub log: Log,
    pub agent: PathBuf,
    pub work: PathBuf,
    /// No new run is started any more.
    pub ending: AtomicBool,
    /// Everyone has heard that: the last run that was asked for is there, or will not be.
    pub all_begun: AtomicBool,
    /// The case is over, however it went.
    pub over: AtomicBool,
    /// Requests and streams that were cut off before their answer or end.
    pub cut: AtomicUsize,
    /// Streams that are open now.
    pub watching: AtomicUsize,
    serial: AtomicUsize,
}

impl Shared {
    pub fn new(door: Door, log: Log, agent: &Path, work: PathBuf) -> Self {
        Self {
            door,
            log,
            agent: agent.to_owned(),
            work,
            ending: AtomicBool::new(false),
            all_begun: AtomicBool::new(false),
            over: AtomicBool::new(false),
            cut: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            serial: AtomicUsize::new(0),
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn note(&self, silence: &Silence) {
        if matches!(silence, Silence::Cut) {
            self.cut.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::sleep(PAUSE);
    }

    /// Asks for one run, and asks again under the same id for as long as nobody answers, as every
    /// command does: a run that is there and that nobody was told of would be attended by nobody.
    pub fn start(&self, role: Role) -> Result<Option<String>, Silence> {
        let serial = self.serial.fetch_add(1, Ordering::SeqCst);
        let body = json!({
            "agent": "torture", "prompt": format!("{} {serial}", role.word()), "cwd": self.work,
            "adapter": adapter(&self.agent, role), "run_id": RunId::new(Uuid::now_v7()),
        });
        let (status, answer) = loop {
            match self.door.ask("POST", "/api/v1/runs", &body.to_string()) {
                Ok(answered) => break answered,
                Err(silence) if self.is_over() => return Err(silence),
                Err(silence) => self.note(&silence),
            }
        };
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let run = answer["run_id"].as_str().filter(|_| status == 201);
        if let Some(run) = run {
            self.log.started(run);
        }
        Ok(run.map(str::to_owned))
    }

    fn wish(&self, run: &str, wish: &Value) -> Result<u16, Silence> {
        let path = format!("/api/v1/runs/{run}/commands");
        Ok(self.door.ask("POST", &path, &wish.to_string())?.0)
    }
}

fn adapter(agent: &Path, role: Role) -> Adapter {
    use runtimes::Runtime as _;
    Adapter {
        name: "torture".to_owned(),
        runtime: runtimes::process::Process.card().id,
        binary: Some(agent.display().to_string()),
        args: role.script(),
        env: [("TORTURE_SECRET".to_owned(), SECRET.to_owned())].into(),
        trace: true,
        mcp: true,
        ..Adapter::default()
    }
}

/// Keeps runs going, each with those who watch it and speak to it. Ends when the case is ending and
/// everyone has seen their run's end, or when it is over.
pub fn crowd(shared: &Arc<Shared>, seed: u64) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut chance = Chance::of(seed, "crowd", 0);
        let mut others = Vec::new();
        let mut begun = 0;
        while !shared.ending.load(Ordering::SeqCst) && !shared.is_over() {
            if shared.log.live().len() >= RUNS_LIVE || begun >= RUNS_MAX {
                std::thread::sleep(PAUSE);
                continue;
            }
            let role = match chance.below(5) {
                0 => Role::Listens,
                1 => Role::Waits,
                _ => Role::Talks,
            };
            match shared.start(role) {
                Ok(Some(run)) => {
                    begun += 1;
                    others.extend(attend(&shared, &run, role, &mut chance));
                }
                Ok(None) => std::thread::sleep(PAUSE),
                Err(silence) => shared.note(&silence),
            }
        }
        shared.all_begun.store(true, Ordering::SeqCst);
        for other in others {
            let _ = other.join();
        }
    })
}

/// Everyone who has to do with one run.
pub fn attend(
    shared: &Arc<Shared>,
    run: &str,
    role: Role,
    chance: &mut Chance,
) -> Vec<JoinHandle<()>> {
    let spawn = |act: fn(&Shared, &str, &mut Chance), chance: &mut Chance| {
        let (shared, run) = (Arc::clone(shared), run.to_owned());
        let mut chance = Chance::of(chance.number(), "client", 0);
        std::thread::spawn(move || act(&shared, &run, &mut chance))
    };
    let mut all = vec![spawn(watch, chance)];
    match role {
        Role::Listens => all.push(spawn(speak, chance)),
        Role::Waits => all.push(spawn(stop, chance)),
        Role::Talks | Role::Typed => {}
    }
    all
}

/// Follows a run to its end, from host to host.
fn watch(shared: &Shared, run: &str, _: &mut Chance) {
    let ended = || shared.log.state().runs.get(run).is_some_and(|told| told.ended);
    let mut after = 0;
    while !ended() && !shared.is_over() {
        shared.watching.fetch_add(1, Ordering::SeqCst);
        let followed = shared.door.follow(
            run,
            after,
            || shared.is_over(),
            |events| {
                after = events.last().map_or(after, |(seq, _)| *seq);
                shared.log.shown(run, events);
            },
        );
        shared.watching.fetch_sub(1, Ordering::SeqCst);
        match followed {
            Ok(()) if ended() => return,
            // A stream that ends before its run was cut off.
            Ok(()) => shared.note(&Silence::Cut),
            Err(silence) => shared.note(&silence),
        }
    }
}

/// Says numbered messages, then that it may end.
fn speak(shared: &Shared, run: &str, chance: &mut Chance) {
    let (mut n, mut taken) = (0, 0);
    while !shared.is_over() {
        let last = taken >= MESSAGES;
        let text = if last { "end".to_owned() } else { format!("m{n}") };
        n += 1;
        if !last {
            shared.log.says(run, &text);
        }
        match shared.wish(run, &json!({ "wish": "say", "text": text })) {
            Ok(202) if last => return,
            Ok(202) => {
                taken += 1;
                shared.log.taken(run, &text);
                std::thread::sleep(Duration::from_millis(chance.below(60) as u64));
            }
            // It has ended, or it never had an agent.
            Ok(409) => return,
            Ok(_) => std::thread::sleep(PAUSE),
            Err(silence) => shared.note(&silence),
        }
    }
}

/// Stops a run after a while.
fn stop(shared: &Shared, run: &str, chance: &mut Chance) {
    let until = Instant::now() + Duration::from_millis(50 + chance.below(600) as u64);
    while Instant::now() < until && !shared.is_over() {
        std::thread::sleep(PAUSE);
    }
    while !shared.is_over() {
        match shared.wish(run, &json!({ "wish": "stop", "reason": "cancelled", "at_once": false }))
        {
            Ok(202) => return shared.log.stop_taken(run),
            Ok(409) => return,
            Ok(_) => std::thread::sleep(PAUSE),
            Err(silence) => shared.note(&silence),
        }
    }
}
