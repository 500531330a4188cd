//! Those who use the product while it is being killed: they start runs, watch them, speak to them,
//! stop them and delete them, and write down what they were told. One that gets no answer asks again
//! for something new: whether the old wish was granted, the judge sees. Those who hand tasks over are
//! in `errands.rs`.

use super::errands;
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
use testkit::promises::Found;
use uuid::Uuid;

/// Runs that are kept going at once.
const RUNS_LIVE: usize = 4;
/// Runs that one case may have.
const RUNS_MAX: usize = 96;
/// Messages that an agent that listens is told before it may end.
const MESSAGES: usize = 5;
/// Before someone asks again. A case has a dozen of them, and nobody answers while a server starts.
const PAUSE: Duration = Duration::from_millis(12);
/// Not known to the agent's world otherwise; it must not be found in what is kept. Each of the usual
/// ways to write a value writes this one differently.
pub const SECRET: &str = "torture/canary+5f1c\"9a7b2e";
/// Where agents find it.
pub const SECRET_NAME: &str = "TORTURE_SECRET";

/// What an agent is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Talks,
    Listens,
    Waits,
    /// Started from a command line that hosts.
    Typed,
    /// Does a task of the queue, and says its secret in every disguise at the end.
    Works,
    /// Ends in the middle of a task, whenever it is tried.
    Crashes,
    /// Waits to be stopped, by whoever cancels its task.
    Lingers,
}

impl Role {
    pub const ALL: [Role; 7] = [
        Role::Talks,
        Role::Listens,
        Role::Waits,
        Role::Typed,
        Role::Works,
        Role::Crashes,
        Role::Lingers,
    ];
    /// Those who are asked for by themselves, and not by a task.
    pub const OWN: [Role; 4] = [Role::Talks, Role::Listens, Role::Waits, Role::Typed];

    pub fn word(self) -> &'static str {
        match self {
            Role::Talks => "talks",
            Role::Listens => "listens",
            Role::Waits => "waits",
            Role::Typed => "typed",
            Role::Works => "works",
            Role::Crashes => "crashes",
            Role::Lingers => "lingers",
        }
    }

    /// The agents of the queue that have it. Two that work share a directory, and take turns.
    pub fn agents(self) -> &'static [&'static str] {
        match self {
            Role::Talks | Role::Listens | Role::Waits | Role::Typed => &[],
            Role::Works => &["works", "toils"],
            Role::Crashes => &["crashes"],
            Role::Lingers => &["lingers"],
        }
    }

    /// Of a run, by who does it or by what it was asked.
    pub fn of(agent: &str, prompt: &str) -> Option<Self> {
        let own = |role: &&Role| prompt.starts_with(role.word());
        let by_agent = Role::ALL.iter().find(|role| role.agents().contains(&agent));
        by_agent.or_else(|| Role::OWN.iter().find(own)).copied()
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
            Role::Works => {
                "--burst 6 --sleep-ms 40 --steps 1 --line-bytes 300 --burst 3 --sleep-ms 40 \
                 --leak-end TORTURE_SECRET"
            }
            Role::Crashes => "--burst 4 --sleep-ms 30 --steps 1 --no-complete --exit 3",
            Role::Lingers => "--burst 3 --wait-shutdown",
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
    /// Tasks that were handed over and have not come to rest before someone's eyes.
    pub errands: AtomicUsize,
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
            errands: AtomicUsize::new(0),
            serial: AtomicUsize::new(0),
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub fn note(&self, silence: &Silence) {
        if matches!(silence, Silence::Cut) {
            self.cut.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::sleep(PAUSE);
    }

    /// A number that nobody else of this case has.
    pub fn serial(&self) -> usize {
        self.serial.fetch_add(1, Ordering::SeqCst)
    }

    /// Asks for one run, and asks again under the same id for as long as nobody answers, as every
    /// command does: a run that is there and that nobody was told of would be attended by nobody.
    pub fn start(&self, role: Role) -> Result<Option<String>, Silence> {
        let serial = self.serial();
        let body = json!({
            "agent": "torture", "prompt": format!("{} {serial}", role.word()), "cwd": self.work,
            "adapter": adapter(&self.agent, role), "run_id": RunId::new(Uuid::now_v7()),
        });
        let (asked, (status, answer)) = loop {
            let now = errands::now_ms();
            match self.door.ask("POST", "/api/v1/runs", &body.to_string()) {
                Ok(answered) => break (now, answered),
                Err(silence) if self.is_over() => return Err(silence),
                Err(silence) => self.note(&silence),
            }
        };
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let run = answer["run_id"].as_str().filter(|_| status == 201);
        if let Some(run) = run {
            self.log.started(run, asked);
        }
        Ok(run.map(str::to_owned))
    }

    /// How many of these have not been seen to end.
    fn live(&self, runs: &[String]) -> usize {
        let state = self.log.state();
        runs.iter().filter(|run| state.runs.get(*run).is_none_or(|told| !told.ended)).count()
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
        env: [(SECRET_NAME.to_owned(), SECRET.to_owned())].into(),
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
        let (mut others, mut own) = (Vec::new(), Vec::new());
        let mut handed = Vec::new();
        while !shared.ending.load(Ordering::SeqCst) && !shared.is_over() {
            if chance.one_in(2) && errands::wanted(&shared, &handed) {
                match errands::hand_over(&shared, &mut handed, &mut chance) {
                    Ok(errand) => others.extend(errand),
                    Err(silence) => shared.note(&silence),
                }
                continue;
            }
            if shared.live(&own) >= RUNS_LIVE || own.len() >= RUNS_MAX {
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
                    others.extend(attend(&shared, &run, role, &mut chance));
                    if role == Role::Talks && chance.one_in(2) {
                        others.push(client(&shared, &run, delete, &mut chance));
                    }
                    own.push(run);
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

/// What one client does with one run.
type Act = fn(&Shared, &str, &mut Chance);

fn client(shared: &Arc<Shared>, run: &str, act: Act, chance: &mut Chance) -> JoinHandle<()> {
    let (shared, run) = (Arc::clone(shared), run.to_owned());
    let mut chance = Chance::of(chance.number(), "client", 0);
    std::thread::spawn(move || act(&shared, &run, &mut chance))
}

/// Everyone who has to do with one run.
pub fn attend(
    shared: &Arc<Shared>,
    run: &str,
    role: Role,
    chance: &mut Chance,
) -> Vec<JoinHandle<()>> {
    let spawn = |act: Act, chance: &mut Chance| client(shared, run, act, chance);
    let mut all = vec![spawn(watch, chance)];
    match role {
        Role::Listens => all.push(spawn(speak, chance)),
        Role::Waits => all.push(spawn(stop, chance)),
        Role::Talks | Role::Typed | Role::Works | Role::Crashes | Role::Lingers => {}
    }
    all
}

/// Deletes a run that has ended, once its end was seen. Who gets no answer may leave it at that.
pub fn delete(shared: &Shared, run: &str, chance: &mut Chance) {
    while shared.live(&[run.to_owned()]) > 0 && !shared.is_over() {
        std::thread::sleep(PAUSE);
    }
    let path = format!("/api/v1/runs/{run}");
    let mut noted = false;
    while !shared.is_over() {
        if !noted {
            // One that is not seen whole is not deleted: the judge sees it in the end.
            let Some((row, found)) = found(&shared.door, &path) else {
                shared.note(&Silence::Nobody);
                continue;
            };
            shared.log.deletes(run, row, found);
            noted = true;
        }
        match shared.door.ask("DELETE", &path, "") {
            // Not there any more: it was deleted by whoever did not live to say so.
            Ok((200 | 404, _)) => return shared.log.deleted(run),
            Ok(_) => std::thread::sleep(PAUSE),
            Err(silence) => {
                shared.note(&silence);
                if chance.one_in(2) {
                    return;
                }
            }
        }
    }
}

/// A run that has ended, as its host shows it. `None` unless one host lived through all of it: an
/// answer in lines has no length, so one that is cut off looks whole.
fn found(door: &Door, path: &str) -> Option<(Value, Found)> {
    let host = || Some(door.json("/api/v1/host")?["pid"].clone());
    let before = host()?;
    let row = door.json(path)?;
    let events = door.lines(&format!("{path}/events"))?;
    let trace = match door.ask("GET", &format!("{path}/trace"), "").ok()? {
        (200, lines) => lines.lines().map(str::to_owned).collect(),
        (404, _) => Vec::new(),
        (_, _) => return None,
    };
    (host()? == before).then_some((row, Found { events, trace }))
}

/// Follows a run to its end, from host to host.
pub fn watch(shared: &Shared, run: &str, _: &mut Chance) {
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
