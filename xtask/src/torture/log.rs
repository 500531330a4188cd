//! What the clients were told, each acknowledgement synced to a file of its own before the client
//! goes on: what is in it was promised. The same is kept in memory for the judge.

use super::errands::now_ms;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testkit::promises::{Found, Shown, task};

/// One client's view of one run.
#[derive(Debug, Default, Clone)]
pub struct Told {
    /// When the question was put whose answer told of it.
    pub asked: i64,
    /// When the answer to that was there.
    pub answered: i64,
    pub shown: Shown,
    /// Its result was shown.
    pub ended: bool,
    /// Where its agent was seen to run.
    pub agent_pid: Option<i32>,
    /// What was said to it, in order, taken or not.
    pub said: Vec<String>,
    pub taken: BTreeSet<String>,
    pub stop_taken: bool,
}

/// One client's view of one task.
#[derive(Debug, Default, Clone)]
pub struct ToldTask {
    pub told: task::Told,
    /// What it comes after.
    pub after: Vec<String>,
}

/// A run that someone wants deleted, as it was before.
#[derive(Debug, Default, Clone)]
pub struct Deleted {
    pub row: Value,
    pub found: Found,
    /// It was acknowledged.
    pub acknowledged: bool,
}

#[derive(Debug, Default, Clone)]
pub struct State {
    /// Runs whose start was acknowledged, by id.
    pub runs: BTreeMap<String, Told>,
    /// Tasks that were acknowledged, by id.
    pub tasks: BTreeMap<String, ToldTask>,
    pub deleted: BTreeMap<String, Deleted>,
    /// Runs whose keeper or agent was killed, by id or by the end of it.
    pub victims: BTreeSet<String>,
    /// When hosts were seen to have been killed.
    pub kills: Vec<i64>,
}

/// The log of one case.
pub struct Log {
    file: Mutex<File>,
    state: Mutex<State>,
}

impl Log {
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Mutex::new(File::create(path)?), state: Mutex::default() })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, lines: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Without its log a case proves nothing.
        file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()).expect("the log is kept");
    }

    /// A run is there, as the answer says to a question that was put at that moment.
    pub fn started(&self, run: &str, asked: i64) {
        self.write(&format!("{}\n", json!({ "started": run, "asked": asked })));
        let mut state = self.state();
        let told = state.runs.entry(run.to_owned()).or_default();
        (told.asked, told.answered) = (asked, now_ms());
    }

    pub fn shown(&self, run: &str, events: Vec<(u64, String)>) {
        let lines: Vec<String> = events
            .iter()
            .map(|(seq, bytes)| format!("{}\n", json!({ "run": run, "seq": seq, "bytes": bytes })))
            .collect();
        self.write(&lines.concat());
        let mut state = self.state();
        let told = state.runs.entry(run.to_owned()).or_default();
        for (_, bytes) in &events {
            let event: Value = serde_json::from_str(bytes).unwrap_or_default();
            told.ended |= event["kind"] == "result";
            if event["phase"] == "running" {
                told.agent_pid = event["pid"].as_i64().and_then(|pid| pid.try_into().ok());
            }
        }
        told.shown.extend(events);
    }

    pub fn says(&self, run: &str, message: &str) {
        self.state().runs.entry(run.to_owned()).or_default().said.push(message.to_owned());
    }

    pub fn taken(&self, run: &str, message: &str) {
        self.write(&format!("{}\n", json!({ "run": run, "taken": message })));
        self.state().runs.entry(run.to_owned()).or_default().taken.insert(message.to_owned());
    }

    pub fn stop_taken(&self, run: &str) {
        self.write(&format!("{}\n", json!({ "run": run, "stop": "taken" })));
        self.state().runs.entry(run.to_owned()).or_default().stop_taken = true;
    }

    pub fn task(&self, task: &str, told: ToldTask) {
        self.write(&format!("{}\n", json!({ "task": task, "after": told.after })));
        self.state().tasks.insert(task.to_owned(), told);
    }

    /// Someone is about to decide something of a task.
    pub fn decides(&self, task: &str, verb: &str, now: i64) {
        let mut state = self.state();
        let told = &mut state.tasks.entry(task.to_owned()).or_default().told;
        match verb {
            "approve" => told.approving = told.approving.or(Some(now)),
            _ => told.cancelling = true,
        }
    }

    /// That was acknowledged: the task stands there.
    pub fn decided(&self, task: &str, verb: &str, stands: &str, now: i64) {
        self.write(&format!("{}\n", json!({ "task": task, verb: stands, "at": now })));
        let mut state = self.state();
        let told = &mut state.tasks.entry(task.to_owned()).or_default().told;
        match verb {
            "approve" => told.approved = true,
            _ => told.cancelled = Some((now, stands.to_owned())),
        }
    }

    /// Someone is about to delete a run.
    pub fn deletes(&self, run: &str, row: Value, found: Found) {
        let deleted = Deleted { row, found, acknowledged: false };
        self.state().deleted.insert(run.to_owned(), deleted);
    }

    pub fn deleted(&self, run: &str) {
        self.write(&format!("{}\n", json!({ "deleted": run })));
        self.state().deleted.entry(run.to_owned()).or_default().acknowledged = true;
    }

    pub fn victim(&self, run: &str) {
        self.state().victims.insert(run.to_owned());
    }

    pub fn killed(&self, now: i64) {
        self.state().kills.push(now);
    }

    /// Whether anyone was told that something is there.
    pub fn has_promised(&self) -> bool {
        let state = self.state();
        !state.runs.is_empty() || !state.tasks.is_empty()
    }

    /// Runs that were acknowledged and not seen to end.
    pub fn live(&self) -> Vec<String> {
        let state = self.state();
        state.runs.iter().filter(|(_, told)| !told.ended).map(|(run, _)| run.clone()).collect()
    }

    pub fn is_victim(&self, run: &str) -> bool {
        self.state().victims.iter().any(|victim| run.ends_with(victim.as_str()))
    }
}
