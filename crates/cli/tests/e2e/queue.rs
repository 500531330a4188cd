//! Whose turn comes: that those who wait for something keep nobody from starting who could, that they
//! are looked at again when what they wait for is there, and that a task without an agent is taken by
//! one that fits. The agents are those of `tasks.rs`.

use crate::ostler::BOUND_MS;
use crate::tasks::Yard;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use testkit::until;

/// More than are queued again in one transaction.
const CROWD: usize = 66;

/// Puts a task of this agent into this directory.
fn put(yard: &Yard, agent: &str, title: &str, dir: &Path) -> String {
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
    // Of two for one directory the later may be looked at in the moment it is free.
    let mut asked: Vec<_> = log.iter().map(|(_, _, asked)| asked.as_str()).collect();
    asked.sort();
    assert_eq!(asked, ["ok 0", "ok 1", "ok 2"]);
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

#[test]
fn comments_that_mention_an_agent_before_it_has_begun_wake_it_once() {
    let mut yard = Yard::of(&[("a", json!({})), ("b", json!({}))]);
    assert_eq!(yard.ostler.says(&["agents", "pause", "b"]).code, 0);
    yard.serve();
    let (aside, work) = (dir(&yard, "aside"), yard.ostler.instance.work());
    let task = put(&yard, "a", "stay", &aside);
    yard.until_is(&task, "running");
    for text in ["ok @b, one", "ok @b, two", "ok @b, three"] {
        yard.json(&["comment", &task, text]);
    }
    assert_eq!(yard.ostler.says(&["agents", "resume", "b"]).code, 0);
    // It works where the task is, when nobody else does any more.
    std::fs::write(aside.join("go"), "").unwrap();
    until("the mentioned agent", BOUND_MS, || {
        yard.log().iter().any(|(why, _, _)| why == "comment").then_some(())
    });
    // It comes after whatever else `b` was woken for.
    let last = put(&yard, "b", "ok last", &work);
    yard.until_is(&last, "done");
    let woken: Vec<_> = yard.log().into_iter().filter(|(why, _, _)| why == "comment").collect();
    assert_eq!(woken.len(), 1, "{woken:?}");
    assert!(woken[0].2.contains("one"), "{woken:?}");
    let said = yard.json(&["show", &woken[0].1]);
    let said: Vec<_> =
        said["comments"].as_array().unwrap().iter().map(|said| &said["text"]).collect();
    assert_eq!(said, ["ok @b, two", "ok @b, three"], "what came later is added to it");
}

#[test]
fn the_reason_of_a_rejection_is_the_next_prompt_of_the_same_conversation() {
    let mut yard = Yard::of(&[]);
    let root = yard.ostler.instance.root().to_owned();
    let recording =
        format!("{}/../runtimes/src/gemini/recordings/hello", env!("CARGO_MANIFEST_DIR"));
    let (script, shown) = (root.join("agent"), root.display());
    let fake = testkit::fake_agent();
    let text = format!(
        "#!/bin/sh\necho \"$*\" >> {shown}/argv; cat > {shown}/prompt; exec < /dev/null\n\
         exec {} --again {recording}\n",
        fake.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let adapter = json!({
        "type": "cli", "runtime": "gemini", "binary": script, "permission": "allow-all",
    });
    let agent = json!({ "adapter": "mine", "cwd": yard.ostler.instance.work() });
    let config = json!({ "adapters": { "mine": adapter }, "agents": { "a": agent } });
    yard.ostler.instance.write_config(&config.to_string());
    yard.serve();
    let task = yard.json(&["add", "--title", "say hello", "--agent", "a"])["id"].clone();
    let task = task.as_str().unwrap();
    yard.until_is(task, "review");
    yard.json(&["reject", task, "say it in one word"]);
    until("the second run", BOUND_MS, || {
        let sheet = yard.until_is(task, "review");
        (sheet["runs"].as_array().unwrap().len() == 2).then_some(())
    });
    let argv = std::fs::read_to_string(root.join("argv")).unwrap();
    let takes_up: Vec<bool> = argv.lines().map(|line| line.contains("--resume ")).collect();
    assert_eq!(takes_up, [false, true], "{argv}");
    let prompt = std::fs::read_to_string(root.join("prompt")).unwrap();
    assert!(prompt.contains("say it in one word") && !prompt.contains("say hello"), "{prompt}");
}

#[test]
fn rejected_task_of_a_changed_runtime_is_handed_over() {
    let mut yard = Yard::of(&[]);
    let root = yard.ostler.instance.root().to_owned();
    let fake = testkit::fake_agent().display().to_string();
    let adapter = |runtime: &str| {
        let crate_dir = env!("CARGO_MANIFEST_DIR");
        let recording = format!("{crate_dir}/../runtimes/src/{runtime}/recordings/hello");
        let script = root.join(runtime);
        let notes = root.join(format!("{runtime}-asked"));
        let text = format!(
            "#!/bin/sh\n{{ echo \"$*\"; cat; }} >> {}; exec < /dev/null\nexec {fake} --again {recording}\n",
            notes.display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        json!({ "type": "cli", "runtime": runtime, "binary": script, "permission": "allow-all" })
    };
    let config = json!({ "adapters": { "first": adapter("gemini"), "second": adapter("pi") } });
    yard.ostler.instance.write_config(&config.to_string());
    let work = yard.ostler.instance.work();
    let hire = ["agents", "hire", "scout", "--adapter", "first", "--cwd", work.to_str().unwrap()];
    assert_eq!(yard.ostler.says(&hire).code, 0);
    yard.serve();
    let task = yard.json(&["add", "--title", "say hello", "--agent", "scout"])["id"].clone();
    let task = task.as_str().unwrap();
    yard.until_is(task, "review");
    let edited = yard.ostler.says(&["agents", "edit", "scout", "--adapter", "second"]);
    assert_eq!(edited.code, 0, "{edited:?}");
    yard.json(&["reject", task, "say it in one word"]);
    let behind = put(&yard, "scout", "say hello again", &work);
    until("the second run", BOUND_MS, || {
        let sheet = yard.until_is(task, "review");
        (sheet["runs"].as_array().unwrap().len() == 2).then_some(())
    });
    yard.until_is(&behind, "done");
    let asked = std::fs::read_to_string(root.join("pi-asked")).unwrap();
    for words in ["continuing work", "Hello from the fake model.", "say it in one word"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
}

#[test]
fn who_handed_over_and_was_answered_is_told_so_in_its_environment() {
    let mut yard = Yard::of(&[("a", json!({}))]);
    yard.serve();
    let work = yard.ostler.instance.work();
    let task = put(&yard, "a", "ask me", &work);
    assert_eq!(yard.until_is(&task, "waiting")["waiting_for"], "answer");
    yard.json(&["comment", &task, "the left one"]);
    yard.until_is(&task, "done");
    let log: Vec<_> = yard.log().into_iter().map(|(why, _, asked)| (why, asked)).collect();
    assert_eq!(log[0], ("task".to_owned(), "ask me".to_owned()));
    assert_eq!((log.len(), log[1].0.as_str()), (2, "answered"));
    let asked = &log[1].1;
    assert!(asked.contains("which one?") && asked.ends_with("ask me  the left one"), "{asked}");
}

/// An agent that runs out of turns when it is woken for the first time.
const TIRED: &str = r#"#!/bin/sh
printf '%s|%s|%s\n' "$OSTLER_WAKE_REASON" "$*" "$(cat)" >> "$LOG"
echo '{"ev":"hi","id":"s-1"}'
echo '{"ev":"talk","bit":"began"}'
[ "$OSTLER_WAKE_REASON" = continued ] && echo '{"ev":"bye"}' || echo '{"ev":"tired"}'
"#;

#[test]
fn who_ran_out_of_turns_goes_on_in_its_conversation_and_is_told_so_in_its_environment() {
    let mut yard = Yard::of(&[]);
    let script = yard.ostler.instance.root().join("tired");
    std::fs::write(&script, TIRED).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let adapter = json!({
        "type": "cli", "binary": script, "permission": "allow-all", "env": { "LOG": yard.log },
        "mapping": {
            "args": [], "prompt": "stdin", "policies": { "allow-all": [] },
            "with": { "session": ["--resume", "{{session}}"] },
            "rules": [
                { "when": { "ev": "hi" }, "session": { "id": "id" } },
                { "when": { "ev": "talk" }, "text": { "at": "bit" } },
                { "when": { "ev": "tired" }, "end": { "success": false, "code": "max_turns" } },
                { "when": { "ev": "bye" }, "end": { "success": true } },
            ],
        },
    });
    let work = yard.ostler.instance.work();
    let agent = json!({ "adapter": "tired", "cwd": work, "promptTemplate": "{{prompt}}" });
    let config = json!({ "adapters": { "tired": adapter }, "agents": { "a": agent } });
    yard.ostler.instance.write_config(&config.to_string());
    yard.serve();
    let task = put(&yard, "a", "dig", &work);
    let sheet = yard.until_is(&task, "done");
    let codes: Vec<_> = sheet["runs"].as_array().unwrap().iter().map(|run| &run["code"]).collect();
    assert_eq!(codes, [&json!(null), &json!("max_turns")], "the newest first: {sheet}");
    let expected = [
        ("task", "", "dig"),
        ("continued", "--resume s-1", "Continue the task where you stopped."),
    ];
    let expected =
        expected.map(|(why, args, asked)| (why.to_owned(), args.to_owned(), asked.to_owned()));
    assert_eq!(yard.log(), expected);
}
