//! A file system that hangs under a workspace: the requests for it end with a fault that names it, and
//! the host, its other runs and their leases go on.

use crate::door::{Answer, Door};
use crate::ostler::{BOUND_MS, Ostler, keepers, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use testkit::{HungMount, until};

/// The most that a request to a host that works may take on a busy machine. It is less than the time
/// after which a directory counts as hung, because a blocked host would answer only after that.
const PROMPT_MS: u128 = 8_000;
/// The lease of the runs: if renewals had to wait for the hung directory, it would run out.
const LEASE_SECONDS: u64 = 6;

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn asked(door: &Door, agent: &str, cwd: &Path) -> Answer {
    let body = json!({ "agent": agent, "prompt": "x", "cwd": cwd });
    door.owner("POST", "/api/v1/runs", &body.to_string())
}

fn started(door: &Door, agent: &str, cwd: &Path) -> String {
    let answer = asked(door, agent, cwd);
    assert!(answer.status < 300, "{answer:?}");
    parsed(&answer)["run_id"].as_str().unwrap().to_owned()
}

fn run(door: &Door, id: &str) -> Value {
    parsed(&door.owner("GET", &format!("/api/v1/runs/{id}"), ""))
}

fn served() -> Door {
    let ostler = Ostler::new();
    let agent = testkit::fake_agent().display().to_string();
    let adapter = |args: Value| json!({ "type": "process", "binary": agent, "args": args });
    let config = json!({
        "server": { "leaseSec": LEASE_SECONDS },
        "adapters": {
            "quick": adapter(json!(["--burst", "1"])),
            "patient": adapter(json!(["--burst", "1", "--sleep-ms", "600000"])),
        },
    });
    ostler.instance.write_config(&config.to_string());
    Door::of(ostler)
}

/// A directory whose file system hangs. Without the right to mount the test cannot run, and says so.
fn hang(door: &Door) -> Option<(std::path::PathBuf, HungMount)> {
    let point = door.ostler.instance.root().join("hung");
    std::fs::create_dir(&point).unwrap();
    match HungMount::over(&point) {
        Ok(mount) => Some((point, mount)),
        Err(error) => {
            eprintln!("SKIPPED: a hung file system cannot be mounted here ({error}); run as root");
            None
        }
    }
}

#[test]
fn a_hung_workspace_holds_up_no_other_run() {
    let mut door = served();
    let Some((point, mount)) = hang(&door) else { return };
    let work = door.ostler.instance.work();
    let patient = started(&door, "patient", &work);
    until("the agent to run", BOUND_MS, || {
        let events = door.ostler.events(&["show", &patient, "--json"]);
        events.iter().any(|event| event["phase"] == "running").then_some(())
    });
    // More at once than there are threads that drive runs, at the mount and below it, and a task.
    let places = [point.clone(), point.join("a"), point.join("a/b")];
    let asked_for: Vec<_> = places.iter().cycle().take(12).cloned().collect();
    let added = door.ostler.says(&[
        "task",
        "add",
        "x",
        "--agent",
        "quick",
        "--cwd",
        &point.display().to_string(),
        "--json",
    ]);
    assert_eq!(added.code, 0, "{added:?}");
    let task: Value = serde_json::from_str(&added.stdout).unwrap();
    std::thread::scope(|scope| {
        let began = Instant::now();
        let hung: Vec<_> = asked_for
            .iter()
            .map(|cwd| scope.spawn(|| (cwd.clone(), asked(&door, "quick", cwd))))
            .collect();
        // Meanwhile: the API answers, and runs start and end.
        for _ in 0..3 {
            let asked = Instant::now();
            let other = started(&door, "quick", &work);
            assert!(asked.elapsed().as_millis() < PROMPT_MS, "{:?}", asked.elapsed());
            until("the other run to end", BOUND_MS, || {
                (run(&door, &other)["outcome"] == "succeeded").then_some(())
            });
        }
        for hung in hung {
            let (cwd, answer) = hung.join().unwrap();
            let fault = parsed(&answer);
            assert_eq!((answer.status, &fault["code"]), (422, &json!("bad_workspace")), "{fault}");
            let said = answer.body.as_str();
            assert!(said.contains(&cwd.display().to_string()) && said.contains("hang"), "{said}");
        }
        assert!(began.elapsed().as_secs() < 60, "the requests ended after {:?}", began.elapsed());
    });
    // Longer than a lease: it was renewed meanwhile, and the agent lives.
    let events = until("a renewal", BOUND_MS, || {
        let events = door.ostler.events(&["show", &patient, "--json"]);
        events.iter().any(|event| event["action"] == "renewed").then_some(events)
    });
    assert!(events.iter().all(|event| event["action"] != "lost"), "{events:#?}");
    assert!(run(&door, &patient)["outcome"].is_null() && !keepers(&patient).is_empty());
    // The task waits, and says for what.
    let shown = until("the task to say what it waits for", BOUND_MS, || {
        let shown = door.ostler.says(&["task", "show", task["id"].as_str()?, "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).ok()?;
        shown.to_string().contains("hung").then_some(shown)
    });
    assert_eq!(shown["waiting_for"], "workspace", "{shown}");
    // Once the file system answers, here with an error, it counts as hung no more.
    drop(mount);
    until("the directory to be usable", BOUND_MS, || {
        (asked(&door, "quick", &point).status < 300).then_some(())
    });
    signal(door.serve.child.id() as i32, Signal::TERM);
    assert_eq!(door.serve.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_stops_while_a_workspace_hangs() {
    let mut door = served();
    let Some((point, _mount)) = hang(&door) else { return };
    let answer = asked(&door, "quick", &point);
    assert_eq!(answer.status, 422, "{answer:?}");
    signal(door.serve.child.id() as i32, Signal::TERM);
    let serve = &mut door.serve.child;
    let ended = until("the server to stop", BOUND_MS, || serve.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}
