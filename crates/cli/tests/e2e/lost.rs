//! Runs that nobody can go on with end all the same: as lost, once, and with nothing of their agent
//! left. One was kept by an older Ostler, whose state is not guessed at: every runtime whose state has
//! had another version is tried, with a program in its place that begins and never ends. Of the other
//! the driver itself fails, because the store refuses what it asks for. And one is durable, and cannot be
//! launched.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, result, signal};
use runtimes::registry;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::recorded::spec;
use testkit::{find_marked, until};

/// Gives every kept conversation the version before its own, and says how many there were.
const AGE: &str = r#"
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
aged = 0
for run, kept in db.execute("SELECT run, dialect FROM states").fetchall():
    state = json.loads(kept)
    state["version"] -= 1
    state = json.dumps(state)
    db.execute("UPDATE states SET dialect = ? WHERE run = ?",
               (state.encode() if isinstance(kept, bytes) else state, run))
    aged += 1
db.commit()
print(aged)
"#;

/// Takes the numbers of what every run will ask for next, so that its driver cannot go on.
const TAKE: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30)
taken = 0
for (run,) in db.execute("SELECT run FROM states").fetchall():
    for n in range(1, 60):
        db.execute("INSERT INTO effects (run, n, bytes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                   (run, n, b"{}"))
    taken += 1
db.commit()
print(taken)
"#;

/// Changes the store of an instance, which has one run.
fn change(ostler: &Ostler, script: &str) {
    let mut python = Command::new(testkit::python().expect("there is a python3"));
    let store = ostler.instance.data().join("ostler.db");
    let changed = python.args(["-c", script]).arg(store).output().expect("python runs");
    assert_eq!(String::from_utf8_lossy(&changed.stdout).trim(), "1", "{changed:?}");
}

/// The events of a run that ended as lost, with nothing left of it.
fn lost(ostler: &Ostler, run: &str) -> Value {
    let ended = until("the run to end", BOUND_MS, || {
        let events = ostler.events(&["show", run, "--json"]);
        events.iter().any(|event| event["kind"] == "result").then_some(events)
    });
    assert_gap_free(&ended);
    let end = result(&ended);
    let came = (&end["outcome"], &end["code"]);
    assert_eq!(came, (&"lost".into(), &"process_lost".into()), "{end}");
    end.clone()
}

/// The runtimes whose state has had another version, each with what it was recorded to say.
fn subjects() -> Vec<(String, PathBuf)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runtimes/src");
    let all = registry::all().iter().filter_map(|runtime| {
        let card = runtime.card();
        let state = runtime.dialect(&spec(*runtime, *card.lanes.first()?)).save();
        let state: Value = serde_json::from_slice(&state).ok()?;
        let hello = root.join(&card.id).join("recordings/hello.ndjson");
        (state["version"].as_u64()? > 1 && hello.exists()).then_some((card.id, hello))
    });
    all.collect()
}

/// A program that says the first half of a recording and then works on for ever.
fn unending(ostler: &Ostler, id: &str, recording: &Path) -> PathBuf {
    let said = std::fs::read_to_string(recording).expect("a recording");
    let half = said.lines().count() / 2;
    let path = ostler.instance.root().join(format!("{id}-unending"));
    let text =
        format!("#!/bin/sh\nhead -n {half} '{}'\nexec tail -f /dev/null\n", recording.display());
    std::fs::write(&path, text).expect("a program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

#[test]
fn a_run_whose_conversation_an_older_version_kept_is_lost_and_says_so() {
    let subjects = subjects();
    assert!(subjects.len() >= 4, "{} runtimes", subjects.len());
    for (id, recording) in subjects {
        let ostler = Ostler::new();
        let binary = unending(&ostler, &id, &recording);
        let adapter = json!({ "type": "cli", "runtime": id, "lane": "native", "binary": binary });
        let config = json!({ "adapters": { "older": adapter } });
        ostler.instance.write_config(&config.to_string());
        let args = ["run", "older", "hello", "--permission", "allow-all", "--json"];
        let mut host = ostler.starts(&args);
        let begun = host.event("the turn to begin", |event| {
            event["kind"] == "turn" && event["phase"] == "started"
        });
        let run = begun["run_id"].as_str().expect("an id").to_owned();
        signal(host.child.id() as i32, Signal::KILL);
        host.child.wait().expect("it is gone");
        change(&ostler, AGE);
        let mut next = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(next.line().starts_with("listening"), "the next host serves");
        let end = lost(&ostler, &run);
        let said = end["message"].as_str().unwrap_or_default();
        assert!(said.contains("stored state cannot be read"), "{id}: {end}");
        signal(next.child.id() as i32, Signal::TERM);
        next.child.wait().expect("it leaves");
        until("everything of it to be gone", BOUND_MS, || {
            find_marked(&ostler.instance.mark()).is_empty().then_some(())
        });
    }
}

#[test]
fn a_run_whose_driver_fails_is_lost_and_leaves_nothing() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--sleep-ms 600000");
    let mut host = ostler.starts(&["run", "--process", &agent, "hello", "--json"]);
    let begun = host.event("the agent to run", |event| event["phase"] == "running");
    let run = begun["run_id"].as_str().expect("an id").to_owned();
    change(&ostler, TAKE);
    // The stop is the next thing that the driver asks for.
    let _ = ostler.says(&["stop", &run]);
    lost(&ostler, &run);
    let said = host.finish();
    assert_eq!(said.code, 10, "{}", said.stderr);
    until("everything of it to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn a_run_that_cannot_be_handed_to_its_keeper_is_lost_at_once() {
    let door = Door::open();
    // Whoever tidies up a temporary directory may take the place of the spools away.
    std::fs::remove_dir_all(door.ostler.instance.runtime().join("ostler")).unwrap();
    let body = json!({ "agent": "demo", "prompt": "hello", "cwd": door.ostler.instance.work() });
    let ask = |method: &str, path: &str, body: &str| -> Value {
        serde_json::from_str(&door.owner(method, path, body).body).unwrap()
    };
    let started = ask("POST", "/api/v1/runs", &body.to_string());
    let run = format!("/api/v1/runs/{}", started["run_id"].as_str().unwrap());
    let row = until("the end of the run", BOUND_MS, || {
        let row = ask("GET", &run, "");
        (row["state"] == "settled").then_some(row)
    });
    assert_eq!((&row["outcome"], &row["code"]), (&"lost".into(), &"process_lost".into()), "{row}");
    let message = row["message"].as_str().unwrap();
    assert!(message.contains("could not be sent to its keeper"), "{message}");
}
