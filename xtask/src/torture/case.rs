//! One case: a data directory, its crowd of clients, and the kills of its schedule, each in the
//! life of the server that the one before it made necessary. When the kills are done a healthy
//! server comes, and the judge.

use super::clients::{self, Role, Shared};
use super::errands;
use super::house::{House, signal};
use super::judge::{self, Peace};
use super::launch::Unlaunched;
use super::log::Log;
use super::remains::{self, Promised};
use super::said;
use super::schedule::{Case, Kill, Kind, Place, place};
use super::wire::Door;
use crate::fuzz::Chance;
use failpoint::Point;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a life waits for its point to be passed: seconds only where everything is slow.
const PATIENCE: Duration = Duration::from_millis(6_000);
/// The latest instant of a kill at an instant.
const INSTANT_MS: usize = 600;
/// Agents that are at work before something can be left behind.
const RUNS_AT_WORK: usize = 3;
/// Longer than any kill and restart on a busy machine takes.
const LEASE_SECS: u64 = 120;
/// In one ordinary case of so many leases last so long: when one is renewed at the latest there is
/// still more left than a restart takes, and should nobody take a run up again it is over for too long
/// before the judge's patience is. A server that could not adopt a run waits for the length of a lease
/// by its own clock, which must be less than what the judge allows.
const BRIEF_EVERY: usize = 4;
const LEASE_SECS_BRIEF: u64 = 20;
/// What clients were told; in the folder of the house.
pub const SHOWN: &str = "acknowledged.jsonl";
/// The shortest lease there is, for a host that sleeps for longer.
const LEASE_SECS_SHORT: u64 = 2;
const SLEEP: Duration = Duration::from_millis(2_300);
const PAUSE: Duration = Duration::from_millis(2);

pub struct Programs {
    pub ostler: PathBuf,
    pub fake_agent: PathBuf,
}

impl Programs {
    /// Copies of what was built, on the file system of the houses, so that each house can link to
    /// them. None may copy them once cases run: a file is busy for as long as anyone writes to it,
    /// and a child that is just being started beside it holds it open.
    pub fn beside(built: &Path, near: &Path) -> Result<Self, String> {
        let [ostler, fake_agent] = ["ostler", "fake-agent"].map(|name| near.join(name));
        for path in [&ostler, &fake_agent] {
            let from = built.join(path.file_name().unwrap_or_default());
            std::fs::copy(from, path).map_err(said("placing the armed binary"))?;
        }
        Ok(Self { ostler, fake_agent })
    }
}

/// One process that was killed.
#[derive(Debug, Clone, Copy)]
pub struct Death {
    /// Where; `None` at an instant, also when its point was not passed in time.
    pub point: Option<Point>,
    /// Whether someone waited for an answer, or for the end of a run or a task that was acknowledged.
    pub owed: bool,
    /// Whether a request that changes something was open, and never got its answer.
    pub unanswered: bool,
}

/// How long the parts of a case took.
#[derive(Debug, Default, Clone, Copy)]
pub struct Spent {
    /// Lives, to their violent ends.
    pub killing: Duration,
    /// Looks at the store between them, which are part of that.
    pub looking: Duration,
    /// From the last kill until every run has ended and was seen to.
    pub ending: Duration,
    pub judging: Duration,
}

pub struct Outcome {
    pub deaths: Vec<Death>,
    pub spent: Spent,
    pub unlaunched: Unlaunched,
    /// Blobs that no run named when the last server had left.
    pub unnamed: usize,
    pub broken: Vec<String>,
    /// What was left of a case that went wrong.
    pub kept: Option<PathBuf>,
}

pub fn shared(house: &House, programs: &Programs) -> Result<Arc<Shared>, String> {
    let log = Log::at(&house.instance.root().join(SHOWN))
        .map_err(said("making the log of acknowledgements"))?;
    let (door, work) = (Door::of(&house.instance.data()), house.instance.work());
    Ok(Arc::new(Shared::new(door, log, &programs.fake_agent, work)))
}

pub fn run(
    case: &Case,
    seed: u64,
    programs: &Programs,
    peace: &Peace,
    keep: &Path,
) -> Result<Outcome, String> {
    let chance = Chance::of(seed, "case", case.number as u64);
    let lease_secs = match case.kind {
        Kind::Ordinary if case.number.is_multiple_of(BRIEF_EVERY) => LEASE_SECS_BRIEF,
        Kind::Ordinary | Kind::Handover => LEASE_SECS,
        Kind::Sleeper => LEASE_SECS_SHORT,
    };
    let house = House::new(programs, lease_secs)?;
    let shared = shared(&house, programs)?;
    let (deaths, broken, spent) = Default::default();
    let mut torture = Torture { house, shared, chance, deaths, broken, spent };
    let begun = Instant::now();
    let crowd_seed = torture.chance.number();
    let crowd = clients::crowd(&torture.shared, crowd_seed);
    for kill in &case.kills {
        match case.kind {
            Kind::Ordinary => torture.life(*kill)?,
            Kind::Handover => torture.handover(*kill, programs)?,
            Kind::Sleeper => torture.sleeper(*kill)?,
        }
    }
    torture.spent.killing = begun.elapsed();
    if torture.house.ended().is_some() || torture.house.pid().is_none() {
        torture.house.serve(None)?;
    }
    torture.shared.ending.store(true, Ordering::SeqCst);
    let settles = judge::settles(&torture.shared, &mut torture.broken);
    // Who still waits for an end is let go; that it did not come is the judge's to say.
    let until = Instant::now() + if settles { judge::LIVENESS_MAX } else { Duration::ZERO };
    while !crowd.is_finished() && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
    let unseen = torture.shared.log.live();
    torture.shared.over.store(true, Ordering::SeqCst);
    let _ = crowd.join();
    if settles && !unseen.is_empty() {
        torture.broken.push(format!("whoever watches a run sees its end: {unseen:?}"));
    }
    torture.spent.ending = begun.elapsed() - torture.spent.killing;
    let mut judged = judge::judge(&mut torture.house, &torture.shared, peace);
    torture.spent.judging = begun.elapsed() - torture.spent.killing - torture.spent.ending;
    torture.broken.append(&mut judged.broken);
    let kept = match torture.broken.is_empty() {
        true => None,
        false => copied(torture.house.instance.root(), keep),
    };
    let Torture { deaths, broken, spent, .. } = torture;
    let judge::Verdict { unlaunched, unnamed, .. } = judged;
    Ok(Outcome { deaths, spent, unlaunched, unnamed, broken, kept })
}

/// What was cut off so far.
#[derive(Debug, Clone, Copy)]
struct Cuts {
    /// Requests and streams.
    all: usize,
    /// Requests that change something.
    requests: usize,
}

struct Torture {
    house: House,
    shared: Arc<Shared>,
    chance: Chance,
    deaths: Vec<Death>,
    broken: Vec<String>,
    spent: Spent,
}

impl Torture {
    fn cuts(&self) -> Cuts {
        let all = self.shared.cut.load(Ordering::SeqCst);
        Cuts { all, requests: self.shared.door.unanswered() }
    }

    /// Notes that someone died, with what was open by then.
    fn died(&mut self, point: Option<Point>, owed: bool, before: Cuts) {
        let now = self.cuts();
        let unanswered = now.requests > before.requests;
        let owed = owed || unanswered || now.all > before.all;
        self.deaths.push(Death { point, owed, unanswered });
    }

    /// Streams that are open, and tasks that are.
    fn watching(&self) -> usize {
        let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        load(&self.shared.watching) + load(&self.shared.errands)
    }

    /// The server is dead afterwards, whoever killed it, and what it left was looked at.
    fn kill(&mut self) {
        self.house.kill();
        self.shared.log.killed(errands::now_ms());
        let begun = Instant::now();
        let promised = match self.shared.log.has_promised() {
            true => Promised::Something,
            false => Promised::Nothing,
        };
        self.broken.extend(remains::broken(&self.house.instance.data(), promised));
        self.spent.looking += begun.elapsed();
    }

    /// One life of a server, from its start to its violent end.
    fn life(&mut self, kill: Kill) -> Result<(), String> {
        match kill {
            Kill::Whenever => self.instant(),
            Kill::At { point, hit } => {
                match place(point).0 {
                    Place::Later => self.leave_something(point)?,
                    Place::Bereft => {
                        self.leave_something(point)?;
                        self.kill_a_keeper();
                    }
                    Place::Bare
                    | Place::First
                    | Place::Any
                    | Place::Keeper
                    | Place::Handover
                    | Place::Sleeper => {}
                }
                let before = self.cuts();
                self.house.serve(Some((point, hit)))?;
                let dead = self.await_death();
                self.settle_death(point, dead, before);
                Ok(())
            }
        }
    }

    /// A life before the one that counts, so that there is something to take over: it ends when
    /// agents are at work, or where it leaves just what the point needs.
    fn leave_something(&mut self, point: Point) -> Result<(), String> {
        let before = self.cuts();
        let order = (point == Point::TraceCut).then_some((Point::TraceWritten, 6));
        self.house.serve(order)?;
        let until = Instant::now() + 2 * PATIENCE;
        while Instant::now() < until && self.house.fired().is_none() {
            let state = self.shared.log.state();
            let at_work =
                state.runs.values().filter(|told| !told.ended && told.agent_pid.is_some()).count();
            if order.is_none() && at_work >= RUNS_AT_WORK {
                break;
            }
            drop(state);
            std::thread::sleep(PAUSE);
        }
        let watching = self.watching();
        self.house.disarm();
        self.kill();
        self.died(None, watching > 0, before);
        Ok(())
    }

    /// A kill at an instant; now and then of a keeper or an agent too.
    fn instant(&mut self) -> Result<(), String> {
        let before = self.cuts();
        self.house.serve(None)?;
        std::thread::sleep(Duration::from_millis(self.chance.below(INSTANT_MS) as u64));
        let watching = self.watching();
        if self.chance.one_in(4) {
            self.kill_a_keeper();
        } else if self.chance.one_in(4) {
            self.kill_an_agent();
        }
        if let Some(status) = self.house.ended() {
            self.broken.push(format!("a server stays until it is killed: it ended with {status}"));
        }
        self.kill();
        std::thread::sleep(PAUSE);
        self.died(None, watching > 0, before);
        Ok(())
    }

    /// Waits until someone has died at the point of this life; false when nobody did in time.
    fn await_death(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.house.fired().is_some() {
                return true;
            }
            if Instant::now() > until {
                return !self.house.disarm();
            }
            if let Some(status) = self.house.ended()
                && self.house.fired().is_none()
            {
                self.broken.push(format!("a server stays until it is killed: it ended {status}"));
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The end of a life: whoever died, the server is dead after it.
    fn settle_death(&mut self, point: Point, dead: bool, before: Cuts) {
        let watching = self.watching();
        let live = !self.shared.log.live().is_empty();
        let victim = self.house.fired().unwrap_or_default();
        if let Some(tail) = victim.strip_prefix("keep ") {
            self.shared.log.victim(tail);
            // The server may see it and act, for a moment or for longer.
            std::thread::sleep(Duration::from_millis(self.chance.below(120) as u64));
        }
        if dead && place(point).0 != Place::Keeper {
            // It has announced its death and dies in the next instant.
            let until = Instant::now() + PATIENCE;
            while self.house.ended().is_none() && Instant::now() < until {
                std::thread::sleep(PAUSE);
            }
            if self.house.ended().is_none() {
                self.broken.push(format!("{} kills", point.name()));
            }
        }
        self.kill();
        // Those who were cut off notice within a moment.
        std::thread::sleep(2 * PAUSE);
        self.died(dead.then_some(point), live || watching > 0, before);
    }

    /// A command hosts, a server comes, and the command dies while it makes room.
    fn handover(&mut self, kill: Kill, programs: &Programs) -> Result<(), String> {
        let Kill::At { point, hit } = kill else { return self.instant() };
        let cuts = self.cuts();
        let agent = std::iter::once(programs.fake_agent.display().to_string());
        let agent = agent.chain(Role::Typed.script()).collect::<Vec<_>>().join(" ");
        let prompt = format!("{} from a command line", Role::Typed.word());
        let args = ["run", "--process", &agent, &prompt, "--json"];
        self.house.start(&args, Some((point, hit)))?;
        let until = Instant::now() + PATIENCE;
        while !self.house.instance.data().join("address").exists() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        std::thread::sleep(Duration::from_millis(self.chance.below(250) as u64));
        let fired = self.house.instance.root().join("fired-1");
        let before = self.house.hand_over()?;
        let until = Instant::now() + PATIENCE;
        while !fired.exists() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        let dead = std::fs::File::create_new(&fired).is_err();
        if let Some(mut before) = before {
            let _ = before.kill();
            let _ = before.wait();
        }
        self.shared.log.killed(errands::now_ms());
        let watching = self.watching();
        self.died(dead.then_some(point), watching > 0, cuts);
        Ok(())
    }

    /// A server sleeps for longer than its leases, and dies while it takes its runs over again.
    fn sleeper(&mut self, kill: Kill) -> Result<(), String> {
        let Kill::At { point, hit } = kill else { return self.instant() };
        // Leases run out here: every run is harmed.
        self.shared.log.victim("");
        let before = self.cuts();
        self.house.serve(Some((point, hit)))?;
        let until = Instant::now() + PATIENCE;
        while self.shared.log.live().len() < 2 && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        self.house.signal(Signal::STOP);
        std::thread::sleep(SLEEP);
        self.house.signal(Signal::CONT);
        let dead = self.await_death();
        self.settle_death(point, dead, before);
        Ok(())
    }

    /// Kills the keeper of a run that lives, if one does.
    fn kill_a_keeper(&mut self) {
        let live = self.shared.log.live();
        let Some(run) = self.chance.pick(&live) else { return };
        let keepers = testkit::keepers(run);
        if !keepers.is_empty() {
            self.shared.log.victim(run);
        }
        keepers.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }

    fn kill_an_agent(&mut self) {
        let live = self.shared.log.live();
        let Some(run) = self.chance.pick(&live) else { return };
        let pid = self.shared.log.state().runs.get(run).and_then(|told| told.agent_pid);
        let mark = self.house.instance.mark();
        let marked = testkit::find_marked(&mark);
        // The pid is that of an agent of this house, or nobody's.
        let pid =
            pid.filter(|pid| marked.iter().any(|left| i64::from(left.pid) == i64::from(*pid)));
        if let Some(pid) = pid {
            self.shared.log.victim(run);
            signal(pid, Signal::KILL);
        }
    }
}

/// Keeps what a violation left, to be looked at.
fn copied(root: &Path, to: &Path) -> Option<PathBuf> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).ok()?;
    let copied = std::process::Command::new("cp")
        .args(["-r", "--"])
        .args(["data", "run", SHOWN].map(|name| root.join(name)))
        .arg(to)
        .stderr(std::process::Stdio::null())
        .status();
    copied.is_ok().then(|| to.to_owned())
}
