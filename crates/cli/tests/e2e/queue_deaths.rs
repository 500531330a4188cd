//! Tasks and a server that is killed again and again. Every task is done once, whatever the moment
//! was: by the agents' own log no task was begun twice or left out, no event of any run is lost, and
//! no process is left. `QUEUE=all` is the whole of it, 200 tasks; the gate has fewer.

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
sleep 0.4
printf 'end %s\n' "$OSTLER_TASK_ID" >> "$1"
echo '{"type":"complete","output":{"text":"done"}}'
"#;

fn serve(ostler: &Ostler) -> Running {
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "), "a server begins");
    serve
}

fn kill(mut serve: Running) {
    signal(serve.child.id() as i32, Signal::KILL);
    serve.child.wait().unwrap();
}

#[test]
fn every_task_is_done_once_by_a_server_that_is_killed_again_and_again() {
    let whole = std::env::var("QUEUE").is_ok_and(|all| all == "all");
    let tasks = if whole { 200 } else { 40 };
    let ostler = Ostler::new();
    let root = ostler.instance.root().to_owned();
    let (script, log) = (root.join("agent.sh"), root.join("log"));
    std::fs::write(&script, AGENT).unwrap();
    std::fs::write(&log, "").unwrap();
    let adapter = json!({ "type": "process", "binary": "sh", "args": [script, log] });
    let agents: BTreeMap<String, Value> = (0..AGENTS)
        .map(|n| (format!("w{n}"), json!({ "adapter": "worker", "cwd": ostler.instance.work() })))
        .collect();
    let config = json!({ "adapters": { "worker": adapter }, "agents": agents });
    ostler.instance.write_config(&config.to_string());

    let mut server = serve(&ostler);
    for n in 0..tasks {
        let agent = format!("w{}", n % AGENTS);
        let title = format!("task {n}");
        let args = ["task", "add", "--agent", &agent, "--title", &title, "--review", "none"];
        let said = ostler.says(&args);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
    let ended = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| line.starts_with("end ")).count()
    };
    let (began, mut deaths) = (Instant::now(), 0);
    while ended() < tasks {
        assert!(began.elapsed().as_millis() < u128::from(8 * BOUND_MS), "{} ended", ended());
        std::thread::sleep(LIFE);
        kill(server);
        deaths += 1;
        server = serve(&ostler);
    }
    let listed = until("every task to be done", 2 * BOUND_MS, || {
        let said = ostler.says(&["task", "list", "--limit", "500", "--json"]);
        let listed: Vec<Value> = serde_json::from_str(&said.stdout).unwrap();
        let open = listed.iter().filter(|task| task["state"] != "done").count();
        (listed.len() == tasks && open == 0).then_some(listed)
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

    for task in &listed {
        let id = task["id"].as_str().unwrap();
        let sheet = ostler.says(&["task", "show", id, "--json"]);
        let sheet: Value = serde_json::from_str(&sheet.stdout).unwrap();
        let runs = sheet["runs"].as_array().unwrap();
        let went_well = runs.iter().filter(|run| run["outcome"] == "succeeded").count();
        assert_eq!(went_well, 1, "{sheet:#}");
        let run = runs[0]["id"].as_str().unwrap();
        let events = ostler.events(&["show", run, "--json"]);
        assert_gap_free(&events);
        assert_eq!(result(&events)["outcome"], "succeeded");
    }
    signal(server.child.id() as i32, Signal::TERM);
    server.child.wait().unwrap();
    let violations = store::check(&ostler.instance.data()).unwrap();
    assert_eq!(violations, Vec::<String>::new());
    let mark = ostler.instance.mark();
    until("nobody to be left", BOUND_MS, || find_marked(&mark).is_empty().then_some(()));
}
