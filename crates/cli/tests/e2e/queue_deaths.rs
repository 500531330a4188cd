//! Tasks and a server that is killed again and again. Every task is done once, whatever the moment
//! was: by the agents' own log no task was begun twice or left out, no event of any run is lost, and
//! no process is left. The gate has 200 tasks, `QUEUE=all` a thousand.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use testkit::{find_marked, until};

const AGENTS: usize = 10;
/// Between two deaths.
const LIFE: Duration = Duration::from_millis(2_000);

/// An agent that notes when it begins and ends.
const AGENT: &str = r#"
printf 'begin %s\n' "$OSTLER_TASK_ID" >> "$1"
sleep 1
printf 'end %s\n' "$OSTLER_TASK_ID" >> "$1"
echo '{"type":"complete","output":{"text":"done"}}'
"#;

fn serve(ostler: &Ostler) -> (Running, String) {
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = serve.line();
    let address = line.trim().strip_prefix("listening on http://").expect("a server begins");
    (serve, address.to_owned())
}

/// Kills the server and starts the next one.
fn replace(door: &mut Door) {
    signal(door.serve.child.id() as i32, Signal::KILL);
    door.serve.child.wait().unwrap();
    (door.serve, door.address) = serve(&door.ostler);
}

fn ask(door: &Door, method: &str, path: &str, body: &str) -> Value {
    let answer = door.owner(method, path, body);
    assert!(matches!(answer.status, 200 | 201), "{method} {path}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

#[test]
fn every_task_is_done_once_by_a_server_that_is_killed_again_and_again() {
    let whole = std::env::var("QUEUE").is_ok_and(|all| all == "all");
    let tasks = if whole { 1_000 } else { 200 };
    let ostler = Ostler::new();
    let root = ostler.instance.root().to_owned();
    let (script, log) = (root.join("agent.sh"), root.join("log"));
    std::fs::write(&script, AGENT).unwrap();
    std::fs::write(&log, "").unwrap();
    let adapter = json!({ "type": "process", "binary": "sh", "args": [script, log] });
    let work = ostler.instance.work();
    // Each in a directory of its own: those who share one wait for each other.
    let agents: BTreeMap<String, Value> = (0..AGENTS)
        .map(|n| {
            let name = format!("w{n}");
            let cwd = work.join(&name);
            std::fs::create_dir(&cwd).unwrap();
            (name, json!({ "adapter": "worker", "cwd": cwd }))
        })
        .collect();
    let config = json!({ "adapters": { "worker": adapter }, "agents": agents });
    ostler.instance.write_config(&config.to_string());

    let (server, address) = serve(&ostler);
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    let mut door = Door { ostler, serve: server, address, token: token.trim().to_owned() };
    let added: Vec<String> = (0..tasks)
        .map(|n| {
            let agent = format!("w{}", n % AGENTS);
            let task = json!({ "agent": agent, "title": format!("task {n}"), "review": "none" });
            let added = ask(&door, "POST", "/api/v1/tasks", &task.to_string());
            added["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let ended = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| line.starts_with("end ")).count()
    };
    let (began, mut deaths) = (Instant::now(), 0);
    while ended() < tasks {
        assert!(began.elapsed().as_millis() < u128::from(16 * BOUND_MS), "{} ended", ended());
        std::thread::sleep(LIFE);
        replace(&mut door);
        deaths += 1;
    }
    until("every task to be done", 2 * BOUND_MS, || {
        let done = added.iter().filter(|task| {
            ask(&door, "GET", &format!("/api/v1/tasks/{task}"), "")["state"] == "done"
        });
        (done.count() == tasks).then_some(())
    });
    eprintln!(
        "{tasks} tasks of {AGENTS} agents, {deaths} deaths of the server, {} ms",
        began.elapsed().as_millis()
    );
    assert!(deaths >= 2, "the server died {deaths} times");

    // By their own word, each was begun once and ended once.
    let text = std::fs::read_to_string(&log).unwrap();
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        *words.entry(line).or_default() += 1;
    }
    let twice: Vec<_> = words.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(words.len(), 2 * tasks);

    let mut losses = 0;
    for task in &added {
        let sheet = ask(&door, "GET", &format!("/api/v1/tasks/{task}"), "");
        let runs = sheet["runs"].as_array().unwrap();
        // A server that dies in the middle of a launch leaves a run whose agent never began.
        let lost = &runs[1..];
        assert!(lost.iter().all(|run| run["code"] == "process_lost"), "{sheet:#}");
        losses += lost.len();
        for (n, run) in runs.iter().enumerate() {
            let path = format!("/api/v1/runs/{}/events", run["id"].as_str().unwrap());
            let events = door.owner("GET", &path, "").body;
            let events: Vec<Value> =
                events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_gap_free(&events);
            let outcome = if n == 0 { "succeeded" } else { "lost" };
            assert_eq!(result(&events)["outcome"], outcome);
        }
    }
    eprintln!("{losses} runs were lost before their agent began");
    signal(door.serve.child.id() as i32, Signal::TERM);
    door.serve.child.wait().unwrap();
    let violations = store::check(&door.ostler.instance.data()).unwrap();
    assert_eq!(violations, Vec::<String>::new());
    let mark = door.ostler.instance.mark();
    until("nobody to be left", BOUND_MS, || find_marked(&mark).is_empty().then_some(()));
}
