//! After the faults: everything must come to its end, and then hold. The questions about one run
//! are `testkit::promises`, those about the store its own `check`; here they are put to a whole
//! house, with what the clients were told.

use super::clients::{Role, SECRET, Shared};
use super::house::House;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use testkit::promises::{self, Found};

/// How long everything may take to end once nothing is killed any more.
pub const LIVENESS_MAX: Duration = Duration::from_secs(90);
/// How long processes may take to be gone after the last of a house was asked to leave.
const GONE_MAX: Duration = Duration::from_secs(10);
/// Descriptors that a server may have more than one that was left in peace.
const DESCRIPTORS_SLACK: usize = 8;
const PAUSE: Duration = Duration::from_millis(5);
/// Between two questions to a server, which costs it more than a look costs us.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// What runs look like when nobody is killed.
#[derive(Debug, Default, Clone)]
pub struct Peace {
    pub deeds: BTreeMap<Role, Vec<Value>>,
    pub totals: BTreeMap<Role, Value>,
    pub descriptors: usize,
}

/// One run as the store has it.
struct Seen {
    id: String,
    role: Role,
    events: Vec<Value>,
    found: Found,
}

/// Waits until no run is live and none will be; false when that never comes.
pub fn settles(shared: &Shared) -> bool {
    until(LIVENESS_MAX, SETTLE_PAUSE, || {
        let all_begun = shared.all_begun.load(Ordering::SeqCst);
        let live = shared.door.json("/api/v1/runs?live=true&limit=500");
        all_begun && live.is_some_and(|live| live["items"].as_array().is_some_and(Vec::is_empty))
    })
}

fn until(most: Duration, pause: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + most;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(pause);
    }
}

/// Everything that does not hold of a house whose faults have stopped. The server lives, and is
/// asked to leave on the way.
pub fn judge(house: &mut House, shared: &Shared, peace: &Peace) -> Vec<String> {
    let mut broken = Vec::new();
    if !settles(shared) {
        broken.push("every run ends once the faults stop: some are live".to_owned());
        return broken;
    }
    match runs(shared) {
        Some(runs) => {
            for run in &runs {
                let said = judge_run(run, shared, peace);
                broken.extend(said.into_iter().map(|said| format!("{}: {said}", run.id)));
            }
            let state = shared.log.state();
            for promised in state.runs.keys() {
                if !runs.iter().any(|run| run.id == *promised) {
                    broken.push(format!("a run that was acknowledged is there: {promised}"));
                }
            }
        }
        None => broken.push("a healthy server shows its runs".to_owned()),
    }
    if !until(GONE_MAX, PAUSE, || house.spools().is_empty()) {
        broken.push(format!("spools go with their runs: {:?}", house.spools()));
    }
    let allowed = peace.descriptors + DESCRIPTORS_SLACK;
    if !until(GONE_MAX, PAUSE, || house.descriptors() <= allowed) {
        let now = house.descriptors();
        broken.push(format!("descriptors come back: {now} are open, {allowed} allowed"));
    }
    broken.extend(house.leave().err());
    if !until(GONE_MAX, PAUSE, || house.processes().is_empty()) {
        broken.push(format!("nothing is left running: {:?}", house.processes()));
    }
    match store::check(&house.instance.data()) {
        Ok(said) => broken.extend(said.into_iter().map(|said| format!("the store: {said}"))),
        Err(error) => broken.push(format!("the store can be read: {error}")),
    }
    find_secret(&house.instance.data(), &mut broken);
    broken
}

fn runs(shared: &Shared) -> Option<Vec<Seen>> {
    let rows = shared.door.json("/api/v1/runs?limit=500")?;
    let mut runs = Vec::new();
    for row in rows["items"].as_array()? {
        let id = row["id"].as_str()?.to_owned();
        let text = |path: &str| {
            let (status, body) =
                shared.door.ask("GET", &format!("/api/v1/runs/{id}/{path}"), "").ok()?;
            (status == 200).then(|| body.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let prompt = row["prompt_preview"].as_str().unwrap_or_default();
        let role = Role::ALL.into_iter().find(|role| prompt.starts_with(role.word()))?;
        let found = Found { events: text("events")?, trace: text("trace").unwrap_or_default() };
        let events =
            found.events.iter().map(|event| serde_json::from_str(event).unwrap_or_default());
        runs.push(Seen { id, role, events: events.collect(), found });
    }
    Some(runs)
}

fn judge_run(run: &Seen, shared: &Shared, peace: &Peace) -> Vec<String> {
    let told = shared.log.state().runs.get(&run.id).cloned().unwrap_or_default();
    let mut broken = promises::broken(&run.found, &told.shown);
    let result = run.events.last().cloned().unwrap_or_default();
    let deeds = promises::deeds(&run.events);
    let harmed = shared.log.is_victim(&run.id);
    // Its host died between making it and handing it to its keeper: it has ended, as lost.
    let unlaunched = result["outcome"] == "lost"
        && result["code"] == "process_lost"
        && !run
            .events
            .iter()
            .any(|event| event["origin"] == "agent" || event["phase"] == "running");
    let whole = !harmed && !unlaunched;
    let expected = match run.role {
        Role::Waits => "cancelled",
        Role::Talks | Role::Listens | Role::Typed => "succeeded",
    };
    if whole && result["outcome"] != expected {
        broken.push(format!("a run nobody harmed ends as ever: {result}"));
    }
    match run.role {
        Role::Talks | Role::Typed => {
            let peaceful = peace.deeds.get(&run.role).map(Vec::as_slice).unwrap_or_default();
            let astray = match whole || result["outcome"] == expected {
                true => promises::differs(&deeds, peaceful),
                false => promises::goes_astray(&deeds, peaceful),
            };
            broken.extend(astray.map(|how| format!("the agent's lines are there once: {how}")));
            if whole && peace.totals.get(&run.role) != Some(&result["totals"]) {
                broken.push(format!("a run costs what it costs: {}", result["totals"]));
            }
        }
        Role::Listens => {
            let heard =
                deeds.iter().filter_map(|deed| deed["text"].as_str()?.strip_prefix("heard: "));
            let heard: Vec<String> = heard.map(str::to_owned).collect();
            broken.extend(promises::misheard(&heard, &told.said, &told.taken, whole));
        }
        Role::Waits => {
            if let Some(how) = promises::goes_astray(&deeds, &peace.deeds[&Role::Waits]) {
                broken.push(format!("the agent's lines are there once: {how}"));
            }
        }
    }
    broken
}

/// A value that must not be kept is looked for in every file that is.
fn find_secret(dir: &Path, broken: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find_secret(&entry.path(), broken),
            Ok(_) => {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                if memchr::memmem::find(&bytes, SECRET.as_bytes()).is_some() {
                    broken.push(format!("no secret is kept: one is in {}", entry.path().display()));
                }
            }
            Err(_) => {}
        }
    }
}

/// The same house without a kill, to know what to expect.
pub fn peace(house: &mut House, shared: &std::sync::Arc<Shared>) -> Result<Peace, String> {
    let mut chance = crate::fuzz::Chance::of(0, "peace", 0);
    if !until(LIVENESS_MAX, SETTLE_PAUSE, || shared.door.json("/api/v1/host").is_some()) {
        return Err("a healthy server does not answer".to_owned());
    }
    let mut clients = Vec::new();
    for role in Role::ALL {
        let started =
            shared.start(role).map_err(|silence| format!("a healthy server: {silence:?}"))?;
        let run = started.ok_or("a healthy server starts no runs")?;
        clients.extend(super::clients::attend(shared, &run, role, &mut chance));
    }
    shared.all_begun.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| drop(client.join()));
    let mut peace = Peace::default();
    for run in runs(shared).ok_or("a healthy server shows no runs")? {
        let result = run.events.last().cloned().unwrap_or_default();
        peace.totals.insert(run.role, result["totals"].clone());
        peace.deeds.insert(run.role, promises::deeds(&run.events));
    }
    peace.descriptors = house.descriptors();
    let broken = judge(house, shared, &peace);
    match broken.is_empty() {
        true => Ok(peace),
        false => Err(format!("without any kill this does not hold:\n{}", broken.join("\n"))),
    }
}
