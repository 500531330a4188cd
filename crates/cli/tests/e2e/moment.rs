//! Commands in the very moment in which their host changes: a `serve` takes over, another is killed,
//! again and again, while commands are fired at them. Each is done, and none is done twice: that is
//! counted in the store and by the agents themselves.

use crate::ostler::{BOUND_MS, Ostler, Said, assert_gap_free, result, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{find_marked, until};

/// Writes down every line it is told, until one says that it is enough.
const LISTENER: &str = r#"
echo '{"type":"hello","accepts":["message","interrupt"]}'
while read -r line; do
  printf '%s\n' "$line" >> heard
  case "$line" in *enough*) echo '{"type":"complete","output":{"text":"done"}}'; exit;; esac
done
"#;

/// Writes down that it was started, and waits to be stopped.
const SLEEPER: &str = r#"
echo started >> started
echo '{"type":"progress","summary":"asleep"}'
while read -r line; do case "$line" in *shutdown*) exit;; esac; done
"#;

/// Writes down that it was started, and is done.
const QUICK: &str = r#"
echo started >> "$1"
echo '{"type":"complete","output":{"text":"done"}}'
"#;

fn script(ostler: &Ostler, name: &str, text: &str) -> String {
    let path = ostler.instance.root().join(name);
    std::fs::write(&path, text).unwrap();
    format!("sh {}", path.display())
}

/// How often a host is changed while commands come, at most.
const CHANGES_MAX: usize = 200;

/// Serves and is killed, serves and is told to leave, until `enough`; then one stays to the end.
fn change_hosts(ostler: &Ostler, enough: &AtomicBool) -> (crate::ostler::Running, usize) {
    let mut changes = 0;
    loop {
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        let line = serve.line();
        assert!(line.starts_with("listening on "), "{line:?}");
        if enough.load(Ordering::SeqCst) || changes == CHANGES_MAX {
            return (serve, changes);
        }
        // From the moment it listens to the middle of its work.
        std::thread::sleep(Duration::from_millis((changes as u64 * 41) % 170));
        let how = if changes % 3 == 2 { Signal::TERM } else { Signal::KILL };
        signal(serve.child.id() as i32, how);
        serve.child.wait().unwrap();
        changes += 1;
    }
}

/// Fires commands one after the other, in a few threads, while hosts change, and gives what each
/// said, with the host that is left.
fn fire(ostler: &Ostler, commands: &[Vec<String>]) -> (Vec<Said>, crate::ostler::Running) {
    const AT_ONCE: usize = 3;
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| change_hosts(ostler, &enough));
        let threads: Vec<_> = (0..AT_ONCE)
            .map(|thread| {
                scope.spawn(move || {
                    let mine = commands.iter().enumerate().skip(thread).step_by(AT_ONCE);
                    mine.map(|(i, command)| {
                        let args: Vec<_> = command.iter().map(String::as_str).collect();
                        (i, ostler.says(&args))
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut said: Vec<_> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        enough.store(true, Ordering::SeqCst);
        let (serve, changes) = changing.join().unwrap();
        eprintln!("{} commands while the host changed {changes} times", commands.len());
        assert!(changes > 2, "nothing was tried: the host changed {changes} times");
        said.sort_by_key(|(i, _)| *i);
        (said.into_iter().map(|(_, said)| said).collect(), serve)
    })
}

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn leave(ostler: &Ostler, serve: crate::ostler::Running) {
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    until("everyone to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn what_is_said_while_hosts_change_is_heard_once() {
    const SAYINGS: usize = 15;
    let ostler = Ostler::new();
    let agent = script(&ostler, "listener.sh", LISTENER);
    let mut run = ostler.starts(&["run", "--process", &agent, "listen", "--json"]);
    let begun = run.event("the agent to run", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    let text = |n: usize| format!("saying-{n}-");
    let commands: Vec<_> = (0..SAYINGS).map(|n| owned(&["say", &id, &text(n)])).collect();
    let (said, serve) = fire(&ostler, &commands);
    for (n, said) in said.iter().enumerate() {
        assert_eq!(said.code, 0, "saying {n}: {said:?}");
    }
    assert_eq!(ostler.says(&["say", &id, "enough"]).code, 0);
    assert_eq!(run.finish().code, 0);
    let events = ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    let heard = lines(&ostler.instance.work().join("heard"));
    for n in 0..SAYINGS {
        let is_it = |event: &&Value| {
            event["kind"] == "user_text" && event["text"].as_str() == Some(text(n).as_str())
        };
        let stored = events.iter().filter(is_it).count();
        let told = heard.iter().filter(|line| line.contains(&text(n))).count();
        assert_eq!((stored, told), (1, 1), "saying {n}: stored, heard");
    }
    leave(&ostler, serve);
}

#[test]
fn runs_that_are_asked_for_while_hosts_change_are_started_once() {
    const RUNS: usize = 12;
    let ostler = Ostler::new();
    let agent = script(&ostler, "quick.sh", QUICK);
    let commands: Vec<_> = (0..RUNS)
        .map(|n| owned(&["run", "--process", &format!("{agent} started-{n}"), &format!("run {n}")]))
        .collect();
    let (said, serve) = fire(&ostler, &commands);
    for (n, said) in said.iter().enumerate() {
        assert_eq!(said.code, 0, "run {n}: {said:?}");
    }
    let rows: Vec<Value> = serde_json::from_str(&ostler.says(&["runs", "--json"]).stdout).unwrap();
    assert_eq!(rows.len(), RUNS, "one run for each command: {rows:#?}");
    for n in 0..RUNS {
        let prompt = format!("run {n}");
        let fitting: Vec<_> = rows.iter().filter(|row| row["prompt_preview"] == *prompt).collect();
        assert_eq!(fitting.len(), 1, "{prompt}: {rows:#?}");
        assert_eq!(fitting[0]["outcome"], "succeeded", "{prompt}");
        let started = lines(&ostler.instance.work().join(format!("started-{n}")));
        assert_eq!(started.len(), 1, "{prompt} was launched once");
    }
    leave(&ostler, serve);
}

#[test]
fn stops_that_come_while_hosts_change_end_their_runs() {
    const RUNS: usize = 6;
    let ostler = Ostler::new();
    let agent = script(&ostler, "sleeper.sh", SLEEPER);
    let mut runs: Vec<_> = (0..RUNS)
        .map(|_| {
            let mut run = ostler.starts(&["run", "--process", &agent, "sleep", "--json"]);
            let asleep = run.event("a sleeper", |event| event["summary"] == "asleep");
            (run, asleep["run_id"].as_str().unwrap().to_owned())
        })
        .collect();
    let commands: Vec<_> = runs.iter().map(|(_, id)| owned(&["stop", id])).collect();
    let (said, serve) = fire(&ostler, &commands);
    for (run, said) in runs.drain(..).zip(&said) {
        let (run, id) = run;
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(run.finish().code, 130, "whoever watched it saw it stopped");
        let events = ostler.events(&["show", &id, "--json"]);
        assert_gap_free(&events);
        assert_eq!(result(&events)["outcome"], "cancelled", "{:#?}", events.last());
    }
    assert_eq!(lines(&ostler.instance.work().join("started")).len(), RUNS);
    leave(&ostler, serve);
}
