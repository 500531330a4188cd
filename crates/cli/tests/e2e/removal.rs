//! Runs that are deleted, by name or by age and size, and copies of everything made meanwhile: what
//! goes is gone, what stays is whole, and the books stay true.

use crate::door::Door;
use crate::git::git;
use crate::ostler::{BOUND_MS, Ostler, result, signal};
use crate::trees::repository;
use contract::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use testkit::until;

/// A run with a price and a text that is too long to stay inline; the same in every run.
const DEAR: &str = r#"--line-bytes 200000 --burst 1 --cost '{"model":"claude-sonnet-5","inputTokens":1000,"outputTokens":100}'"#;

fn run(ostler: &Ostler) -> String {
    let events = ostler.events(&["run", "--process", &ostler.fake(DEAR), "secret plan", "--json"]);
    assert_eq!(result(&events)["outcome"], "succeeded", "{events:#?}");
    events[0]["run_id"].as_str().unwrap().to_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

fn costs(ostler: &Ostler) -> Value {
    let said = ostler.says(&["costs", "--by", "agent,model", "--json"]);
    serde_json::from_str(&said.stdout).unwrap()
}

fn listed(ostler: &Ostler) -> Vec<Value> {
    serde_json::from_str(&ostler.says(&["runs", "--json"]).stdout).unwrap()
}

#[test]
fn a_deleted_run_is_gone_with_what_only_it_had_and_its_costs_stay() {
    let ostler = Ostler::new();
    let (one, two) = (run(&ostler), run(&ostler));
    let data = ostler.instance.data();
    let (blobs, traces) = (data.join("blobs"), data.join("traces"));
    let spent = costs(&ostler);
    let kept = files(&blobs);
    assert!(!kept.is_empty() && files(&traces).len() == 2);

    assert_eq!(ostler.says(&["runs", "delete", &one]).code, 0);
    let shown = ostler.says(&["show", &one]);
    assert_eq!(shown.code, 16, "{shown:?}");
    assert_eq!(ostler.says(&["runs", "delete", &one]).code, 16);
    assert_eq!(listed(&ostler).len(), 1);
    // The other names the same blobs, and can still be read whole.
    assert_eq!(files(&blobs), kept);
    assert_eq!(ostler.says(&["show", &two, "--full", "--json"]).code, 0);
    assert_eq!(files(&traces).len(), 1);

    assert_eq!(ostler.says(&["runs", "delete", &two]).code, 0);
    assert_eq!((files(&blobs), files(&traces)), (Vec::new(), Vec::new()));
    assert_eq!(costs(&ostler), spent);
    assert_eq!(store::check(&data).unwrap(), [] as [String; 0]);
}

/// Leaves a run as a host does that is killed when it has just said that it is deleted.
fn hide(data: &Path, run: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = store::Store::open(data).unwrap();
        store.delete_run(run.parse().unwrap(), Timestamp(1)).await.unwrap();
        store.close().await;
    });
}

#[test]
fn what_a_host_did_not_live_to_remove_is_removed_by_the_next_server_and_never_shown() {
    let ostler = Ostler::new();
    repository(&ostler);
    let (data, work) = (ostler.instance.data(), ostler.instance.work());
    // It left work behind, in a workspace and on a branch of its own.
    let agent = ostler.instance.root().join("agent.sh");
    let says = r#"echo '{"type":"complete","text":"done"}'"#;
    std::fs::write(&agent, format!("#!/bin/sh\nseq 99999; echo more >> a.txt\n{says}\n")).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.display().to_string();
    let events = ostler.events(&["run", "--worktree", "--process", &agent, "x", "--json"]);
    let run = events[0]["run_id"].as_str().unwrap();
    hide(&data, run);
    let folders = ["blobs", "traces", "trees"].map(|name| data.join(name));
    let branches = || git(&work, &["branch", "--format=%(refname:short)"]);
    let left = || folders.iter().flat_map(|folder| files(folder)).collect::<Vec<_>>();
    assert!(folders[1..].iter().all(|folder| !files(folder).is_empty()));
    assert_ne!(branches(), "main\n");

    // No retention is set.
    let mut door = Door::of(ostler);
    for path in ["", "/events", "/trace"] {
        let shown = door.owner("GET", &format!("/api/v1/runs/{run}{path}"), "");
        assert_eq!(shown.status, 404, "{path}: {shown:?}");
    }
    until("what is left of it to be gone", BOUND_MS, || left().is_empty().then_some(()));
    assert_eq!(branches(), "main\n");
    assert_eq!(git(&work, &["worktree", "list"]).lines().count(), 1);
    signal(door.serve.child.id() as i32, Signal::TERM);
    assert!(door.serve.child.wait().unwrap().success());
    assert_eq!(store::check(&data).unwrap(), [] as [String; 0]);
}

#[test]
fn a_run_that_has_not_ended_is_not_deleted() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 1 --wait-shutdown");
    let mut live = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let begun = live.event("the agent to run", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    let refused = ostler.says(&["runs", "delete", &id]);
    assert_eq!(refused.code, 13, "{refused:?}");
    assert!(refused.stderr.contains("has not ended"), "{refused:?}");
    assert_eq!(ostler.says(&["stop", &id]).code, 0);
    assert_eq!(live.finish().code, 130);
    assert_eq!(ostler.says(&["runs", "delete", &id]).code, 0);
}

#[test]
fn a_server_takes_away_what_is_too_much_and_nothing_that_lives() {
    let ostler = Ostler::new();
    let ended = [run(&ostler), run(&ostler)];
    let spent = costs(&ostler);
    let agent = ostler.fake("--burst 1 --wait-shutdown");
    let mut live = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let begun = live.event("the agent to run", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    ostler
        .instance
        .write_config(r#"{ "server": { "retention": { "days": 90, "gigabytes": 0.000001 } } }"#);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    serve.line();
    until("what is too much to be gone", BOUND_MS, || {
        let left = listed(&ostler);
        left.iter()
            .all(|row| !ended.contains(&row["id"].as_str().unwrap().to_owned()))
            .then_some(())
    });
    let left = listed(&ostler);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["id"], id.as_str());
    assert_eq!(costs(&ostler), spent);
    assert_eq!(ostler.says(&["stop", &id]).code, 0);
    live.finish();
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    assert_eq!(store::check(&ostler.instance.data()).unwrap(), [] as [String; 0]);
}

#[test]
fn a_backup_made_while_others_write_is_whole_private_and_takes_nobody_over() {
    let ostler = Ostler::new();
    let ended = run(&ostler);
    let agent = ostler.fake("--burst 500 --line-bytes 2000 --burst 500 --wait-shutdown");
    let mut live = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    live.event("the agent to speak", |event| event["origin"] == "agent");
    let backups: Vec<PathBuf> =
        (0..3).map(|n| ostler.instance.root().join(format!("backup-{n}"))).collect();
    for backup in &backups {
        let said = ostler.says(&["backup", backup.to_str().unwrap(), "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let made: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(made["runs"], 2, "{made}");
        assert_eq!(store::check(backup).unwrap(), [] as [String; 0]);
        for file in files(backup) {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", file.display());
        }
        let again = ostler.says(&["backup", backup.to_str().unwrap()]);
        assert_eq!(again.code, 13, "{again:?}");
    }
    // Opened, it has both runs; the one that was live is closed there and goes on here.
    let copy = backups[1].to_str().unwrap();
    let rows = ostler.says(&["--data", copy, "runs", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&rows.stdout).unwrap();
    let outcomes: Vec<_> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["lost", "succeeded"], "{rows:?}");
    assert_eq!(ostler.says(&["--data", copy, "show", &ended, "--full", "--json"]).code, 0);
    let id = rows[0]["id"].as_str().unwrap();
    let here = listed(&ostler);
    assert_eq!((&here[0]["id"], &here[0]["outcome"]), (&id.into(), &Value::Null));
    assert_eq!(ostler.says(&["stop", id]).code, 0);
    live.finish();
    assert_eq!(store::check(&ostler.instance.data()).unwrap(), [] as [String; 0]);
}

#[test]
fn a_server_sweeps_what_a_dead_host_wrote_and_never_named() {
    let ostler = Ostler::new();
    run(&ostler);
    let data = ostler.instance.data();
    let named = files(&data.join("blobs"));
    let (hash, shelf) = ("ab".repeat(32), data.join("blobs/ab"));
    std::fs::create_dir_all(&shelf).unwrap();
    std::fs::write(shelf.join(hash), "a text that nobody came to name").unwrap();
    assert_eq!(store::check_swept(&data).unwrap().len(), 1);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    serve.line();
    until("what nobody names to be gone", BOUND_MS, || {
        (files(&data.join("blobs")) == named).then_some(())
    });
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    assert_eq!(store::check_swept(&data).unwrap(), [] as [String; 0]);
}

#[test]
fn retention_keeps_runs_with_unapplied_work() {
    let ostler = Ostler::new();
    repository(&ostler);
    let agent = ostler.instance.root().join("agent.sh");
    let says = r#"echo '{"type":"complete","text":"done"}'"#;
    std::fs::write(&agent, format!("#!/bin/sh\necho more >> a.txt\n{says}\n")).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.display().to_string();
    let events = ostler.events(&["run", "--worktree", "--process", &agent, "x", "--json"]);
    let with_work = events[0]["run_id"].as_str().unwrap().to_owned();
    let others = [run(&ostler), run(&ostler)];
    ostler.instance.write_config(r#"{ "server": { "retention": { "gigabytes": 0.000001 } } }"#);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    serve.line();
    until("the other runs to be deleted", BOUND_MS, || {
        let left = listed(&ostler);
        let is_left = |run: &String| left.iter().any(|row| row["id"] == run.as_str());
        others.iter().all(|run| !is_left(run)).then_some(())
    });
    let left = listed(&ostler);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["id"], with_work.as_str());
    let diff = ostler.says(&["diff", &with_work]);
    assert!(diff.stdout.contains("+more"), "{diff:?}");
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}
