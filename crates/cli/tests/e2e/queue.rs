//! Whose turn comes: that those who wait for something keep nobody from starting who could, that they
//! are looked at again when what they wait for is there, and that a task without an agent is taken by
//! one that fits. The agents are those of `tasks.rs`.

use crate::ostler::BOUND_MS;
use crate::tasks::Yard;
use serde_json::json;
use std::path::PathBuf;
use testkit::until;

/// More than are queued again in one transaction.
const CROWD: usize = 66;

/// Puts a task of this agent into this directory.
fn put(yard: &Yard, agent: &str, title: &str, dir: &std::path::Path) -> String {
    let dir = dir.to_str().unwrap();
    let args = ["add", "--title", title, "--agent", agent, "--review", "none", "--cwd", dir];
    yard.json(&args)["id"].as_str().unwrap().to_owned()
}

fn dir(yard: &Yard, name: &str) -> PathBuf {
    let dir = yard.ostler.instance.root().join(name);
    std::fs::create_dir(&dir).unwrap();
    dir
}

#[test]
fn a_crowd_that_waits_keeps_nobody_behind_it_from_starting() {
    let mut yard =
        Yard::of(&[("a", json!({ "concurrency": 2 })), ("b", json!({})), ("c", json!({}))]);
    let (taken, other) = (dir(&yard, "taken"), dir(&yard, "other"));
    let holds = put(&yard, "b", "stay", &taken);
    let leaves = put(&yard, "c", "stay", &other);
    yard.serve();
    yard.until_is(&holds, "running");
    yard.until_is(&leaves, "running");
    let crowd: Vec<_> = (0..CROWD).map(|n| put(&yard, "a", &format!("ok {n}"), &taken)).collect();
    let behind = put(&yard, "a", "ok behind", &other);
    for task in [&crowd[0], &crowd[CROWD - 1], &behind] {
        let sheet = yard.until_is(task, "waiting");
        assert_eq!(sheet["waiting_for"], "workspace", "{sheet}");
    }
    std::fs::write(other.join("go"), "").unwrap();
    yard.until_is(&behind, "done");
    // None of those before it could have started, and none did.
    assert_eq!(yard.json(&["show", &crowd[0]])["state"], "waiting");
    std::fs::write(taken.join("go"), "").unwrap();
    yard.until_is(&crowd[0], "done");
    yard.until_is(&crowd[1], "done");
}

#[test]
fn tasks_of_a_paused_agent_start_when_it_is_resumed() {
    let mut yard = Yard::of(&[("a", json!({ "concurrency": 2 }))]);
    assert_eq!(yard.ostler.says(&["agents", "pause", "a"]).code, 0);
    yard.serve();
    let work = yard.ostler.instance.work();
    let tasks: Vec<_> = (0..3).map(|n| put(&yard, "a", &format!("ok {n}"), &work)).collect();
    for task in &tasks {
        let sheet = yard.until_is(task, "waiting");
        assert_eq!(sheet["note"], "'a' is paused", "{sheet}");
    }
    assert_eq!(yard.ostler.says(&["agents", "resume", "a"]).code, 0);
    // Sooner than the dispatcher looks by itself.
    for task in &tasks {
        yard.until_is(task, "done");
    }
    let log = until("three runs", BOUND_MS, || Some(yard.log()).filter(|log| log.len() == 3));
    assert_eq!(
        log.iter().map(|(_, _, asked)| asked.as_str()).collect::<Vec<_>>(),
        ["ok 0", "ok 1", "ok 2"]
    );
}

/// Puts a task that names nobody.
fn put_for_any(yard: &Yard, title: &str) -> String {
    let work = yard.ostler.instance.work();
    let args = ["add", "--title", title, "--review", "none", "--cwd", work.to_str().unwrap()];
    let added = yard.json(&args);
    assert_eq!(added.get("agent"), None, "{added}");
    added["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_that_names_nobody_is_taken_by_the_agent_that_fits() {
    // By its name `a` would come first, and its program is not there.
    let mut yard = Yard::of(&[("a", json!({ "adapter": "gone" })), ("b", json!({}))]);
    let task = put_for_any(&yard, "ok any");
    let shown = yard.ostler.says(&["task", "show", &task]).stdout;
    assert!(shown.contains(" any\n"), "{shown}");
    yard.serve();
    let sheet = yard.until_is(&task, "done");
    assert_eq!(
        (&sheet["agent"], &sheet["runs"][0]["agent"]),
        (&json!("b"), &json!("b")),
        "{sheet}"
    );
    assert_eq!(sheet["runs"].as_array().unwrap().len(), 1, "nobody else tried");
}

#[test]
fn a_task_that_nobody_fits_says_why_and_is_taken_when_someone_does() {
    let mut yard = Yard::of(&[("a", json!({ "adapter": "gone" })), ("b", json!({}))]);
    assert_eq!(yard.ostler.says(&["agents", "pause", "b"]).code, 0);
    yard.serve();
    let task = put_for_any(&yard, "ok any");
    let sheet = yard.until_is(&task, "waiting");
    assert_eq!(sheet["waiting_for"], "agent");
    let note = sheet["note"].as_str().unwrap();
    assert!(note.starts_with("no agent fits; a: ") && note.contains("gone"), "{note}");
    assert_eq!(yard.ostler.says(&["agents", "resume", "b"]).code, 0);
    assert_eq!(yard.until_is(&task, "done")["agent"], "b");
}

#[test]
fn tasks_that_name_nobody_go_to_whoever_has_the_fewest_runs() {
    let mut yard = Yard::of(&[
        ("a", json!({ "workspace": "temporary" })),
        ("b", json!({ "workspace": "temporary" })),
    ]);
    yard.serve();
    let [first, second] = [(); 2].map(|()| put_for_any(&yard, "hold"));
    let third = put_for_any(&yard, "ok third");
    let (one, two) = (yard.until_is(&first, "running"), yard.until_is(&second, "running"));
    assert_eq!((&one["agent"], &two["agent"]), (&json!("a"), &json!("b")));
    assert_eq!(yard.json(&["show", &third])["state"], "queued", "all hands are full");
    std::fs::write(yard.log.with_extension("go"), "").unwrap();
    yard.until_is(&third, "done");
}

#[test]
fn a_task_is_handed_to_an_agent_that_was_hired() {
    let mut yard = Yard::of(&[]);
    yard.serve();
    let hired = yard.ostler.says(&["agents", "hire", "rev", "--adapter", "worker"]);
    assert_eq!(hired.code, 0, "{}", hired.stderr);
    let args = ["add", "--title", "ok hired", "--agent", "rev", "--review", "none"];
    let task = yard.json(&args)["id"].as_str().unwrap().to_owned();
    assert_eq!(yard.until_is(&task, "done")["runs"][0]["agent"], "rev");
    let any = put_for_any(&yard, "ok any");
    assert_eq!(yard.until_is(&any, "done")["agent"], "rev");
}
