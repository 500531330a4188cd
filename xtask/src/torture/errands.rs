//! Those who hand tasks over to the queue while its server is being killed: tasks that are done, that
//! are tried again at once, that come after others or after a moment, that someone looks at, and that
//! are cancelled where they wait or run; some of their runs are deleted when they are over. What was
//! acknowledged is in the log before anyone goes on.

use super::clients::{self, Role, SECRET, SECRET_NAME, Shared};
use super::log::ToldTask;
use super::wire::Silence;
use crate::fuzz::Chance;
use contract::{TaskId, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::promises::task::Told;
use uuid::Uuid;

/// Tasks that are open at once.
const TASKS_OPEN: usize = 8;
/// Tasks that one case may have.
const TASKS_MAX: usize = 96;
/// Between two looks at a task.
const LOOK: Duration = Duration::from_millis(40);
/// A body that is too long to stay in an event, and which tasks have one: it is part of every look.
const BODY_BYTES: usize = 70_000;
const LONG_EVERY: usize = 3;
/// The moment before which a task must not begin, from now.
const SOON_MS: i64 = 120;
const NOT_TODAY_MS: i64 = 86_400_000;

pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The configuration of a house: who works in its queue, and where.
pub fn config(agent: &Path, work: &Path, lease_secs: u64) -> Value {
    use runtimes::Runtime as _;
    let process = runtimes::process::Process.card().id;
    let (mut adapters, mut agents) = (BTreeMap::new(), BTreeMap::new());
    for role in Role::ALL.into_iter().filter(|role| !role.agents().is_empty()) {
        adapters.insert(
            role.word(),
            json!({ "type": process, "binary": agent, "args": role.script(), "env": { SECRET_NAME: SECRET } }),
        );
        for name in role.agents() {
            // Two who share a directory take turns.
            agents.insert(*name, json!({ "adapter": role.word(), "cwd": work.join(role.word()) }));
        }
    }
    json!({ "server": { "leaseSec": lease_secs }, "adapters": adapters, "agents": agents })
}

/// Whether another task may be handed over now.
pub fn wanted(shared: &Shared, handed: &[String]) -> bool {
    shared.errands.load(Ordering::SeqCst) < TASKS_OPEN && handed.len() < TASKS_MAX
}

/// Hands one over, and asks again under the same id for as long as nobody answers. Gives whoever
/// looks after it.
pub fn hand_over(
    shared: &Arc<Shared>,
    handed: &mut Vec<String>,
    chance: &mut Chance,
) -> Result<Option<JoinHandle<()>>, Silence> {
    let role = match chance.below(6) {
        0 => Role::Crashes,
        1 | 2 => Role::Lingers,
        _ => Role::Works,
    };
    let after: Vec<String> = match chance.one_in(2) {
        true => chance.pick(handed).cloned().into_iter().collect(),
        false => Vec::new(),
    };
    let later = match (role, chance.below(4)) {
        // It is cancelled long before.
        (Role::Lingers, 0) => Some(NOT_TODAY_MS),
        (Role::Works | Role::Crashes, 0) => Some(SOON_MS),
        _ => None,
    };
    let told = Told { reviewed: role == Role::Works && chance.one_in(3), ..Told::default() };
    let agent = chance.pick(role.agents()).copied().unwrap_or_default();
    let cancels = match role {
        Role::Lingers => Cancels::After(Duration::from_millis(chance.below(700) as u64)),
        _ => Cancels::Never,
    };
    let deletes = chance.one_in(2);
    put(shared, handed, &Errand { role, agent, after, later, told, cancels, deletes })
}

/// When a task is cancelled, if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancels {
    Never,
    /// As soon as it has a run.
    Running,
    /// Wherever it stands by then.
    After(Duration),
}

impl Cancels {
    fn is_due(self, begun: Instant, runs: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Running => runs,
            Self::After(a_while) => begun.elapsed() >= a_while,
        }
    }
}

/// What is to be handed over.
pub struct Errand {
    pub role: Role,
    pub agent: &'static str,
    pub after: Vec<String>,
    pub later: Option<i64>,
    pub told: Told,
    pub cancels: Cancels,
    /// Whether its runs are deleted when it is over.
    pub deletes: bool,
}

pub fn put(
    shared: &Arc<Shared>,
    handed: &mut Vec<String>,
    errand: &Errand,
) -> Result<Option<JoinHandle<()>>, Silence> {
    let Errand { role, agent, after, later, told, cancels, deletes } = errand;
    let (serial, id) = (shared.serial(), TaskId::new(Uuid::now_v7()).to_string());
    let long = serial.is_multiple_of(LONG_EVERY).then(|| "to do ".repeat(BODY_BYTES / 6));
    // Nobody else says this, so what it is kept in goes with it.
    let body = format!("{} {serial} {id}\n{}", role.word(), long.unwrap_or_default());
    let mut wanted = json!({
        "id": id, "title": format!("{} {serial}", role.word()), "body": body, "agent": agent,
        "after": after, "review": if told.reviewed { "person" } else { "none" },
    });
    if let Some(later) = later {
        wanted["not_before"] = json!(Timestamp(now_ms() + later));
    }
    let status = loop {
        match shared.door.ask("POST", "/api/v1/tasks", &wanted.to_string()) {
            Ok((status, _)) => break status,
            Err(silence) if shared.is_over() => return Err(silence),
            Err(silence) => shared.note(&silence),
        }
    };
    if status != 201 {
        std::thread::sleep(LOOK);
        return Ok(None);
    }
    shared.log.task(&id, ToldTask { told: told.clone(), after: after.clone() });
    shared.errands.fetch_add(1, Ordering::SeqCst);
    handed.push(id.clone());
    let (shared, cancels, deletes) = (Arc::clone(shared), *cancels, *deletes);
    Ok(Some(std::thread::spawn(move || {
        look_after(&shared, &id, cancels, deletes);
        shared.errands.fetch_sub(1, Ordering::SeqCst);
    })))
}

/// Sees a task through: its runs are watched, its result is approved, or it is cancelled.
fn look_after(shared: &Arc<Shared>, task: &str, mut cancels: Cancels, deletes: bool) {
    let begun = Instant::now();
    let (mut known, mut watchers) = (BTreeSet::new(), Vec::new());
    let path = format!("/api/v1/tasks/{task}");
    while !shared.is_over() {
        std::thread::sleep(LOOK);
        let asked = now_ms();
        let Some(sheet) = shared.door.json(&path) else { continue };
        for run in sheet["runs"].as_array().into_iter().flatten() {
            let Some(run) = run["id"].as_str().map(str::to_owned) else { continue };
            if known.insert(run.clone()) {
                shared.log.started(&run, asked);
                let (shared, mut chance) = (Arc::clone(shared), Chance::of(0, "watcher", 0));
                watchers
                    .push(std::thread::spawn(move || clients::watch(&shared, &run, &mut chance)));
            }
        }
        match sheet["state"].as_str().unwrap_or_default() {
            "done" | "failed" | "cancelled" => break,
            "review" => {
                decide(shared, task, "approve");
            }
            _ if cancels.is_due(begun, !known.is_empty()) => {
                let taken = decide(shared, task, "cancel");
                cancels = if taken { Cancels::Never } else { cancels };
            }
            "waiting" if waits_in_vain(shared, &sheet) => break,
            _ => {}
        }
    }
    watchers.into_iter().for_each(|watcher| drop(watcher.join()));
    if deletes {
        known.iter().for_each(|run| {
            clients::delete(
                shared,
                run,
                &mut Chance::of(begun.elapsed().as_millis() as u64, "deleter", 0),
            )
        });
    }
}

/// Decides something of a task. Gives whether that was acknowledged.
fn decide(shared: &Shared, task: &str, verb: &str) -> bool {
    shared.log.decides(task, verb, now_ms());
    match shared.door.ask("POST", &format!("/api/v1/tasks/{task}/{verb}"), "{}") {
        Ok((200, answer)) => {
            let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
            let stands = answer["state"].as_str().unwrap_or_default();
            shared.log.decided(task, verb, stands, now_ms());
            true
        }
        // It has moved: the next look says where.
        Ok((_, _)) => false,
        Err(silence) => {
            shared.note(&silence);
            false
        }
    }
}

/// Whether what a task comes after will not be done any more, now that nobody hands anything over.
fn waits_in_vain(shared: &Shared, sheet: &Value) -> bool {
    let rests = |task: &Value| {
        let path = format!("/api/v1/tasks/{}", task.as_str().unwrap_or_default());
        let Some(other) = shared.door.json(&path) else { return false };
        match other["state"].as_str() {
            Some("failed" | "cancelled") => true,
            Some("waiting") => waits_in_vain(shared, &other),
            _ => false,
        }
    };
    sheet["waiting_for"] == "dependency"
        && sheet["after"].as_array().into_iter().flatten().any(rests)
}

/// Whether a task has come to rest, as far as its server can bring it there.
pub fn rests(task: &Value) -> bool {
    match (task["state"].as_str(), task["waiting_for"].as_str()) {
        (Some("queued" | "running") | None, _) => false,
        // Those that it waits for are asked themselves.
        (Some("waiting"), Some("dependency")) => true,
        (Some("waiting"), Some("not_before")) => {
            let until = serde_json::from_value(task["until"].clone()).map(Timestamp::ms);
            until.is_ok_and(|until| until > now_ms() + NOT_TODAY_MS / 2)
        }
        (Some("waiting"), _) => false,
        (Some(_), _) => true,
    }
}
