//! After the faults: everything must come to its end, and then hold. The questions about one run
//! are `testkit::promises`, those about the store its own `check`; here they are put to a whole
//! house, with what the clients were told.

use super::case::SHOWN;
use super::clients::{Role, SECRET, SECRET_NAME, Shared};
use super::errands::{self, Cancels, Errand};
use super::house::House;
use super::launch::{self, Unlaunched};
use super::log::{Deleted, State};
use contract::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::agent::leak::presentations;
use testkit::promises::{self, Found, task};

/// How long everything may take to end once nothing is killed any more.
pub const LIVENESS_MAX: Duration = Duration::from_secs(90);
/// How long processes may take to be gone after the last of a house was asked to leave.
const GONE_MAX: Duration = Duration::from_secs(10);
/// Descriptors that a server may have more than one that was left in peace.
const DESCRIPTORS_SLACK: usize = 8;
/// Threads that it may have more: those that do what blocks stay for a while.
const THREADS_SLACK: u64 = 24;
/// How much more memory it may use than one that was left in peace, whatever it did before.
const MEMORY_RATIO: u64 = 4;
/// How long a lease may have been over while a healthy server is there.
const LEASE_OVER_MAX_MS: i64 = 30_000;
/// How long a server may take to sweep what its dead predecessors wrote and never named: a pause for
/// each of the 256 shelves that blobs are on, and as much again.
const SWEEP_MAX: Duration = Duration::from_secs(10);
/// Between two looks at the whole store.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(5);
/// Between two questions to a server, which costs it more than a look costs us.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// What runs look like when nobody is killed.
#[derive(Debug, Default, Clone)]
pub struct Peace {
    pub deeds: BTreeMap<Role, Vec<Value>>,
    pub totals: BTreeMap<Role, Value>,
    pub descriptors: usize,
    pub threads: u64,
    pub memory: u64,
}

/// What came of a case.
#[derive(Debug, Default)]
pub struct Verdict {
    pub broken: Vec<String>,
    pub unlaunched: Unlaunched,
    /// Blobs that no run named when the last server had left.
    pub unnamed: usize,
}

/// One run as the store has it, or as it was shown before it was deleted.
#[derive(Clone)]
struct Seen {
    id: String,
    role: Role,
    row: Value,
    events: Vec<Value>,
    found: Found,
}

impl Seen {
    fn of(id: &str, row: &Value, found: Found) -> Option<Self> {
        let word = |name: &str| row[name].as_str().unwrap_or_default();
        let role = Role::of(word("agent"), word("prompt_preview"))?;
        let events =
            found.events.iter().map(|event| serde_json::from_str(event).unwrap_or_default());
        Some(Self { id: id.to_owned(), role, row: row.clone(), events: events.collect(), found })
    }
}

/// Waits until no run is live, every task has come to rest and none will come; false when that is
/// never so, and what was seen on the way that must not be.
pub fn settles(shared: &Shared, broken: &mut Vec<String>) -> bool {
    let begun = errands::now_ms();
    let mut overdue_said = false;
    until(LIVENESS_MAX, SETTLE_PAUSE, || {
        let all_begun = shared.all_begun.load(Ordering::SeqCst);
        let live = items(shared, "/api/v1/runs?live=true&limit=500");
        // A lease that is over is taken up by whoever hosts.
        let said = live.iter().flatten().find_map(|run| overdue(run, begun, errands::now_ms()));
        if let Some(said) = said.filter(|_| !overdue_said) {
            overdue_said = true;
            broken.push(said);
        }
        let tasks = items(shared, "/api/v1/tasks?limit=500");
        let rest = tasks.is_some_and(|tasks| tasks.iter().all(errands::rests));
        all_begun && rest && live.is_some_and(|live| live.is_empty())
    })
}

/// What is said of a live run whose lease is over for long, at this moment, by a server that is there
/// since it began.
fn overdue(run: &Value, begun: i64, now: i64) -> Option<String> {
    let until: Timestamp = serde_json::from_value(run["lease_expires_at"].clone()).ok()?;
    let over = now - until.ms().max(begun);
    (over > LEASE_OVER_MAX_MS)
        .then(|| format!("no lease is over for long: {over} ms of {}", run["id"]))
}

fn items(shared: &Shared, path: &str) -> Option<Vec<Value>> {
    shared.door.json(path)?["items"].as_array().cloned()
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
pub fn judge(house: &mut House, shared: &Shared, peace: &Peace) -> Verdict {
    let mut verdict = Verdict::default();
    let broken = &mut verdict.broken;
    if !settles(shared, broken) {
        broken.push("every run ends once the faults stop: some are live".to_owned());
        broken.extend(open(shared));
        return verdict;
    }
    match runs(shared) {
        Some(runs) => verdict.unlaunched = judge_all(&runs, house, shared, peace, broken),
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
    let allowed = peace.threads + THREADS_SLACK;
    if !until(GONE_MAX, PAUSE, || house.weight().0 <= allowed) {
        let now = house.weight().0;
        broken.push(format!("threads come back: {now} are there, {allowed} allowed"));
    }
    let (memory, allowed) = (house.weight().1, peace.memory * MEMORY_RATIO);
    if memory > allowed {
        broken.push(format!("memory comes back: {memory} bytes, {allowed} allowed"));
    }
    if !until(GONE_MAX, PAUSE, || house.agents().is_empty()) {
        broken.push(format!("agents go with their runs: {:?}", house.agents()));
    }
    if !until(GONE_MAX, PAUSE, || house.zombies().is_empty()) {
        broken.push(format!("whoever ended is waited for: {:?}", house.zombies()));
    }
    broken.extend(house.leave().err());
    verdict.unnamed = unnamed(house);
    if verdict.unnamed > 0 {
        broken.extend(swept(house).err());
    }
    if !until(GONE_MAX, PAUSE, || house.processes().is_empty()) {
        broken.push(format!("nothing is left running: {:?}", house.processes()));
    }
    match store::check_swept(&house.instance.data()) {
        Ok(said) => broken.extend(said.into_iter().map(|said| format!("the store: {said}"))),
        Err(error) => broken.push(format!("the store can be read: {error}")),
    }
    find_secrets(house, broken);
    verdict
}

/// How many blobs no run names.
fn unnamed(house: &House) -> usize {
    let data = house.instance.data();
    let counts = [store::check_swept(&data), store::check(&data)]
        .map(|said| said.map_or(0, |said| said.len()));
    counts[0].saturating_sub(counts[1])
}

/// One more server, which sweeps at its start and tells nobody when it is done: it is given the time
/// for it, and what is there then is for the check of a store that was swept to say. The one before
/// swept too, but a start that was refused later may have left what it had written.
fn swept(house: &mut House) -> Result<(), String> {
    house.serve(None)?;
    until(SWEEP_MAX, SWEEP_PAUSE, || unnamed(house) == 0);
    house.leave()
}

/// What has not come to its end.
fn open(shared: &Shared) -> Vec<String> {
    let tasks = items(shared, "/api/v1/tasks?limit=500").into_iter().flatten();
    let open = tasks.filter(|task| !errands::rests(task));
    open.map(|task| format!("  not at rest: {task}")).collect()
}

/// Runs, tasks and what was deleted, with what everyone was told.
fn judge_all(
    runs: &[Seen],
    house: &House,
    shared: &Shared,
    peace: &Peace,
    broken: &mut Vec<String>,
) -> Unlaunched {
    // Those who are asked below look at it too.
    let state = shared.log.state().clone();
    let all: Vec<Seen> = runs.iter().cloned().chain(gone(runs, &state)).collect();
    for run in &all {
        let said = judge_run(run, shared, peace);
        let gone = if state.deleted.contains_key(&run.id) { ", to be deleted" } else { "" };
        broken.extend(said.into_iter().map(|said| format!("{}{gone}: {said}", run.id)));
    }
    for promised in state.runs.keys().filter(|run| !state.deleted.contains_key(*run)) {
        if !runs.iter().any(|run| run.id == *promised) {
            broken.push(format!("a run that was acknowledged is there: {promised}"));
        }
    }
    judge_tasks(&all, &state, shared, broken);
    judge_deleted(runs, &state, (house, shared), broken);
    judge_books(&all, shared, broken);
    judge_launches(&all, shared, broken)
}

/// Runs that are not there any more, as they were before someone asked to delete them.
fn gone(runs: &[Seen], state: &State) -> Vec<Seen> {
    let gone = state.deleted.iter().filter(|(id, _)| !runs.iter().any(|run| run.id == **id));
    gone.filter_map(|(id, gone)| Seen::of(id, &gone.row, gone.found.clone())).collect()
}

fn judge_tasks(runs: &[Seen], state: &State, shared: &Shared, broken: &mut Vec<String>) {
    let mut found: BTreeMap<&str, task::Found> = BTreeMap::new();
    for id in state.tasks.keys() {
        let Some(sheet) = shared.door.json(&format!("/api/v1/tasks/{id}")) else {
            broken.push(format!("a task that was acknowledged is there: {id}"));
            continue;
        };
        let own = runs.iter().filter(|run| run.row["task"] == id.as_str());
        let mut attempts: Vec<_> =
            own.map(|run| task::Attempt::of(&run.row, &run.events)).collect();
        attempts.sort_by_key(|attempt| attempt.fences);
        found.insert(id, task::Found { sheet, runs: attempts });
    }
    for (id, told) in &state.tasks {
        let Some(own) = found.get(id.as_str()) else { continue };
        let before = told
            .after
            .iter()
            .filter_map(|other| Some((found.get(other.as_str())?, &state.tasks.get(other)?.told)));
        let before: Vec<_> = before.collect();
        let mut said = task::broken(own, &told.told, &before, errands::now_ms());
        said.extend(unlike_peace(own, runs, shared));
        broken.extend(said.into_iter().map(|said| format!("task {id}: {said}")));
    }
}

/// A task none of whose runs was harmed goes as ever.
fn unlike_peace(own: &task::Found, runs: &[Seen], shared: &Shared) -> Option<String> {
    let all: Vec<_> =
        own.runs.iter().filter_map(|run| runs.iter().find(|r| r.id == run.id)).collect();
    let whole = all.len() == own.runs.len() && all.iter().all(|run| is_whole(run, shared));
    let role = all.first()?.role;
    let expected = match role {
        Role::Works => ("done", 1),
        Role::Crashes => ("failed", 2),
        _ => return None,
    };
    let is = (own.sheet["state"].as_str().unwrap_or_default(), all.len());
    (whole && is != expected)
        .then(|| format!("a task nobody harmed ends as ever: {is:?}, and not {expected:?}"))
}

/// What was deleted is gone for good, with all that only it had.
fn judge_deleted(
    runs: &[Seen],
    state: &State,
    (house, shared): (&House, &Shared),
    broken: &mut Vec<String>,
) {
    let named: BTreeSet<String> = runs
        .iter()
        .flat_map(|run| run.found.events.iter().flat_map(|event| promises::blobs(event)))
        .collect();
    let data = house.instance.data();
    for (run, Deleted { found, acknowledged, .. }) in &state.deleted {
        let listed = runs.iter().any(|there| there.id == *run);
        match (listed, acknowledged) {
            (true, true) => broken.push(format!("what was deleted is not listed: {run}")),
            // Its host died before it was hidden, and nobody was told that it is.
            (true, false) => continue,
            (false, _) => {}
        }
        for path in ["", "/events", "/trace"] {
            let path = format!("/api/v1/runs/{run}{path}");
            let status = shared.door.ask("GET", &path, "").map(|(status, _)| status);
            if !matches!(status, Ok(404)) {
                broken.push(format!("what was deleted is not shown: {path} gives {status:?}"));
            }
        }
        let blobs: BTreeSet<String> =
            found.events.iter().flat_map(|event| promises::blobs(event)).collect();
        let blobs =
            blobs.difference(&named).map(|hash| data.join("blobs").join(&hash[..2]).join(hash));
        let files: Vec<_> =
            blobs.chain([data.join("traces").join(format!("{run}.ndjson"))]).collect();
        let left = || files.iter().filter(|file| file.exists()).collect::<Vec<_>>();
        if !until(GONE_MAX, PAUSE, || left().is_empty()) {
            broken.push(format!("what was deleted leaves no file: {:?}", left()));
        }
    }
}

/// What was spent is in the books, also by runs that were deleted.
fn judge_books(runs: &[Seen], shared: &Shared, broken: &mut Vec<String>) {
    let mut spent: BTreeMap<String, u64> = BTreeMap::new();
    for row in runs.iter().map(|run| &run.row) {
        let tokens = tokens(&row["totals"]["tokens"]);
        if tokens > 0 {
            *spent.entry(row["agent"].as_str().unwrap_or_default().to_owned()).or_default() +=
                tokens;
        }
    }
    let booked = items(shared, "/api/v1/costs?by=agent&limit=500").unwrap_or_default();
    let booked: BTreeMap<String, u64> = booked
        .iter()
        .map(|row| (row["agent"].as_str().unwrap_or_default().to_owned(), tokens(&row["tokens"])))
        .filter(|(_, tokens)| *tokens > 0)
        .collect();
    if booked != spent {
        broken
            .push(format!("what was spent is in the books: {spent:?} were, booked are {booked:?}"));
    }
}

fn tokens(of: &Value) -> u64 {
    let kinds = ["input_uncached", "cache_read", "cache_write", "output"];
    kinds.iter().filter_map(|kind| of[*kind].as_u64()).sum()
}

fn runs(shared: &Shared) -> Option<Vec<Seen>> {
    let rows = shared.door.json("/api/v1/runs?limit=500")?;
    let mut runs = Vec::new();
    for row in rows["items"].as_array()? {
        let id = row["id"].as_str()?;
        let text = |path: &str| shared.door.lines(&format!("/api/v1/runs/{id}/{path}"));
        let found = Found { events: text("events")?, trace: text("trace").unwrap_or_default() };
        runs.push(Seen::of(id, row, found)?);
    }
    Some(runs)
}

/// Whether nobody harmed a run, nor its host before it had an agent.
fn is_whole(run: &Seen, shared: &Shared) -> bool {
    // Whether that is excused is asked by itself.
    !launch::is_unlaunched(&run.events) && !shared.log.is_victim(&run.id)
}

/// Runs that nobody harmed and that never had an agent: how many, and which of them should have.
fn judge_launches(runs: &[Seen], shared: &Shared, broken: &mut Vec<String>) -> Unlaunched {
    let state = shared.log.state().clone();
    let mut count = Unlaunched::default();
    let victim = |run: &&Seen| !shared.log.is_victim(&run.id);
    for run in runs.iter().filter(|run| launch::is_unlaunched(&run.events)).filter(victim) {
        let of_queue = run.row["task"].as_str().is_some_and(|task| state.tasks.contains_key(task));
        let told = state.runs.get(&run.id).map(|told| match of_queue {
            true => launch::Told::Listed(told.asked),
            false => launch::Told::Started { asked: told.asked, answered: told.answered },
        });
        let said = launch::judge(&run.events, told, &state.kills, &mut count);
        broken.extend(said.map(|said| format!("{}: {said}", run.id)));
    }
    count
}

fn judge_run(run: &Seen, shared: &Shared, peace: &Peace) -> Vec<String> {
    let told = shared.log.state().runs.get(&run.id).cloned().unwrap_or_default();
    let mut broken = promises::broken(&run.found, &told.shown);
    let result = run.events.last().cloned().unwrap_or_default();
    let mut deeds = promises::deeds(&run.events);
    let whole = is_whole(run, shared);
    if !whole {
        // Its host slept past its lease, and the agent obeyed the end of that.
        deeds.retain(|deed| deed["summary"] != "leaving: lease_expired");
    }
    let expected = match run.role {
        Role::Waits | Role::Lingers => "cancelled",
        Role::Crashes => "failed",
        Role::Talks | Role::Listens | Role::Typed | Role::Works => "succeeded",
    };
    if whole && result["outcome"] != expected {
        broken.push(format!("a run nobody harmed ends as ever: {result}"));
    }
    match run.role {
        Role::Talks | Role::Typed | Role::Works | Role::Crashes => {
            let peaceful = peace.deeds.get(&run.role).map(Vec::as_slice).unwrap_or_default();
            // Whose end is bad anyway may have been brought to it before.
            let to_its_end = run.role != Role::Crashes && result["outcome"] == expected;
            let astray = match whole || to_its_end {
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
        Role::Waits | Role::Lingers => {
            if let Some(how) = promises::goes_astray(&deeds, &peace.deeds[&run.role]) {
                broken.push(format!("the agent's lines are there once: {how}"));
            }
        }
    }
    broken
}

/// A value that must not be kept is looked for in every file that is, in what hosts complained of
/// and in what was shown to anyone, as it is and in its usual disguises.
fn find_secrets(house: &House, broken: &mut Vec<String>) {
    let mut forms: Vec<String> =
        presentations(SECRET_NAME, SECRET).into_iter().map(|(_, form)| form).collect();
    // What was shown is an event, as a text of the log.
    let escaped = |text: &str| Value::from(text).to_string().trim_matches('"').to_owned();
    forms.extend([SECRET.to_owned(), escaped(&escaped(SECRET))]);
    // One form is one line of the pattern, and few letters are found everywhere.
    forms.retain(|form| !form.contains('\n') && form.len() >= SECRET.len());
    let patterns = house.instance.root().join("forms");
    let shown = house.instance.root().join(SHOWN);
    let found = std::fs::write(&patterns, forms.join("\n")).and_then(|()| {
        // It reads many megabytes for many forms, which this program's own build does slowly.
        std::process::Command::new("grep")
            .args(["-rlaF", "-f"])
            .arg(&patterns)
            .arg("--")
            .args(house.complaints().iter().chain([&house.instance.data(), &shown]))
            .output()
    });
    match found.map(|found| (found.status.code(), found.stdout)) {
        Ok((Some(0), files)) => {
            let files = String::from_utf8_lossy(&files).into_owned();
            broken.push(format!("no secret is kept or shown: one is in {}", files.trim()));
        }
        Ok((Some(1), _)) => {}
        other => broken.push(format!("secrets can be looked for: {other:?}")),
    }
}

/// The same house without a kill, to know what to expect.
pub fn peace(house: &mut House, shared: &std::sync::Arc<Shared>) -> Result<Peace, String> {
    let mut chance = crate::fuzz::Chance::of(0, "peace", 0);
    if !until(LIVENESS_MAX, SETTLE_PAUSE, || shared.door.json("/api/v1/host").is_some()) {
        return Err("a healthy server does not answer".to_owned());
    }
    let mut clients = Vec::new();
    let mut handed = Vec::new();
    for role in [Role::Works, Role::Crashes, Role::Lingers] {
        let agent = role.agents()[0];
        let cancels = match role {
            Role::Lingers => Cancels::Running,
            _ => Cancels::Never,
        };
        let (after, later, told) = (Vec::new(), None, task::Told::default());
        let errand = Errand { role, agent, after, later, told, cancels, deletes: false };
        let put = errands::put(shared, &mut handed, &errand);
        let put = put.map_err(|silence| format!("a healthy server: {silence:?}"))?;
        clients.push(put.ok_or("a healthy server takes no tasks")?);
    }
    for role in Role::OWN {
        let started =
            shared.start(role).map_err(|silence| format!("a healthy server: {silence:?}"))?;
        let run = started.ok_or("a healthy server starts no runs")?;
        clients.extend(super::clients::attend(shared, &run, role, &mut chance));
    }
    shared.all_begun.store(true, Ordering::SeqCst);
    // Whoever does not come to an end even so is let go, and the judge says why.
    until(LIVENESS_MAX, SETTLE_PAUSE, || clients.iter().all(JoinHandle::is_finished));
    shared.over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| drop(client.join()));
    let mut peace = Peace::default();
    for run in runs(shared).ok_or("a healthy server shows no runs")? {
        let result = run.events.last().cloned().unwrap_or_default();
        peace.totals.insert(run.role, result["totals"].clone());
        peace.deeds.insert(run.role, promises::deeds(&run.events));
    }
    peace.descriptors = house.descriptors();
    (peace.threads, peace.memory) = house.weight();
    let broken = judge(house, shared, &peace).broken;
    match broken.is_empty() {
        true => Ok(peace),
        false => Err(format!("without any kill this does not hold:\n{}", broken.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Log;
    use super::super::wire::Door;
    use super::*;
    use serde_json::json;

    const RUN: &str = "r1";

    /// What is said of a run that talked and was deleted, whose events were these when its host was
    /// asked before, and all of which were shown but those that were never there.
    fn said(harm: fn(&mut Vec<Value>)) -> String {
        let deed = |seq: u64| json!({ "seq": seq, "fence": 1, "origin": "agent", "kind": "log", "text": seq });
        let end = json!({ "seq": 3, "fence": 1, "kind": "result", "outcome": "succeeded" });
        let shown = vec![deed(1), deed(2), end];
        let mut peace = Peace::default();
        peace.deeds.insert(Role::Talks, promises::deeds(&shown));
        peace.totals.insert(Role::Talks, Value::Null);
        let mut events = shown.clone();
        harm(&mut events);

        let dir = tempfile::tempdir().unwrap();
        let log = Log::at(&dir.path().join(SHOWN)).unwrap();
        let shared = Shared::new(Door::of(dir.path()), log, dir.path(), dir.path().to_owned());
        shared.log.started(RUN, 0);
        let numbered = (1..).zip(shown.iter().map(Value::to_string));
        shared.log.shown(RUN, numbered.collect());
        let events = events.iter().map(Value::to_string).collect();
        let row = json!({ "id": RUN, "agent": "torture", "prompt_preview": "talks 1" });
        shared.log.deletes(RUN, row, Found { events, trace: Vec::new() });
        shared.log.deleted(RUN);
        let state = shared.log.state().clone();
        let gone = gone(&[], &state);
        assert_eq!(gone.len(), 1);
        judge_run(&gone[0], &shared, &peace).join("; ")
    }

    #[test]
    fn a_run_that_was_deleted_is_judged_as_it_was_before() {
        assert_eq!(said(|_| {}), "");
        let lost = said(|events| drop(events.remove(1)));
        for words in ["events are numbered without gaps", "what was shown is stored", "1 deeds"] {
            assert!(lost.contains(words), "{words}: {lost}");
        }
        let twice = said(|events| events.insert(1, events[0].clone()));
        assert!(twice.contains("the agent's lines are there once"), "{twice}");
        let harmed = said(|events| events[2]["outcome"] = "failed".into());
        assert!(harmed.contains("a run nobody harmed ends as ever"), "{harmed}");
    }

    #[test]
    fn a_lease_that_is_over_for_long_while_a_server_is_there_is_said() {
        let (until, late) = (100_000, 100_001 + LEASE_OVER_MAX_MS);
        let run = json!({ "id": RUN, "lease_expires_at": Timestamp(until) });
        let said = overdue(&run, 0, late).unwrap();
        assert!(said.starts_with("no lease is over for long: 30001 ms"), "{said}");
        assert_eq!(overdue(&run, 0, late - 1), None);
        // It was over before there was anyone.
        assert_eq!(overdue(&run, until + 1, late), None);
    }

    #[test]
    fn a_run_that_is_still_there_is_judged_as_it_is() {
        let mut state = State::default();
        let row = json!({ "id": RUN, "agent": "torture", "prompt_preview": "talks 1" });
        let deleted = Deleted { row: row.clone(), ..Deleted::default() };
        state.deleted.insert(RUN.to_owned(), deleted);
        let there = Seen::of(RUN, &row, Found::default()).unwrap();
        assert_eq!((gone(&[], &state).len(), gone(&[there], &state).len()), (1, 0));
    }
}
