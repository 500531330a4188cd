//! Commands in the very moment in which their host changes: a `serve` takes over, another is killed,
//! again and again, while commands are fired at them. Each is done, and none is done twice: that is
//! counted in the store and by the agents themselves.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, Said, assert_gap_free, result, signal};
use crate::storage::BadDisk;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
const CHANGES_MAX: usize = 60;

/// Serves and is killed, serves and is told to leave, until `enough`; then one stays to the end.
fn change_hosts(
    ostler: &Ostler,
    enough: &AtomicBool,
    changed: &AtomicUsize,
) -> crate::ostler::Running {
    loop {
        let changes = changed.load(Ordering::SeqCst);
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        let line = serve.line();
        assert!(line.starts_with("listening on "), "{line:?}");
        if enough.load(Ordering::SeqCst) || changes == CHANGES_MAX {
            return serve;
        }
        // From the moment it listens to the middle of its work.
        std::thread::sleep(Duration::from_millis((changes as u64 * 41) % 170));
        let how = if changes % 3 == 2 { Signal::TERM } else { Signal::KILL };
        signal(serve.child.id() as i32, how);
        serve.child.wait().unwrap();
        changed.store(changes + 1, Ordering::SeqCst);
    }
}

/// Fires commands one after the other, in a few threads, each after one more host has gone, and
/// gives what each said, with the host that is left.
fn fire(ostler: &Ostler, commands: &[Vec<String>]) -> (Vec<Said>, crate::ostler::Running) {
    const AT_ONCE: usize = 3;
    let (enough, changed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let changed = &changed;
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| change_hosts(ostler, &enough, changed));
        let threads: Vec<_> = (0..AT_ONCE)
            .map(|thread| {
                scope.spawn(move || {
                    let mine = commands.iter().enumerate().skip(thread).step_by(AT_ONCE);
                    mine.map(|(i, command)| {
                        let args: Vec<_> = command.iter().map(String::as_str).collect();
                        until("a change of host", BOUND_MS, || {
                            (changed.load(Ordering::SeqCst) >= i / 2).then_some(())
                        });
                        (i, ostler.says(&args))
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut said: Vec<_> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        enough.store(true, Ordering::SeqCst);
        let serve = changing.join().unwrap();
        let changes = changed.load(Ordering::SeqCst);
        eprintln!("{} commands while the host changed {changes} times", commands.len());
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

/// The next request of a connection: its method, its target and its body.
fn heard(connection: &TcpStream) -> Option<(String, String, String)> {
    let mut reader = BufReader::new(connection);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?, String::from_utf8(body).unwrap()))
}

#[test]
fn a_stop_whose_answer_was_lost_still_learns_how_its_run_ended() {
    let door = Door::open();
    let agent = script(&door.ostler, "sleeper.sh", SLEEPER);
    let mut run = door.ostler.starts(&["run", "--process", &agent, "sleep", "--json"]);
    let asleep = run.event("a sleeper", |event| event["summary"] == "asleep");
    let id = asleep["run_id"].as_str().unwrap().to_owned();
    // A host that takes the stop and is gone before it says so, until the run has ended of it.
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.ostler.instance.data().join("address");
    let at = format!("http://{}", relay.local_addr().unwrap());
    std::fs::write(&address, at).unwrap();
    let stop = door.ostler.starts(&["stop", &id]);
    let unanswered = loop {
        let (mut connection, _) = relay.accept().unwrap();
        let Some((method, target, body)) = heard(&connection) else { continue };
        let answer = door.owner(&method, &target, &body);
        if method == "POST" {
            assert_eq!(answer.status, 202, "{answer:?}");
            break connection;
        }
        let head = format!("HTTP/1.1 {} -\r\nconnection: close\r\n", answer.status);
        let length = format!("content-length: {}\r\n\r\n", answer.body.len());
        connection.write_all([head, length, answer.body].concat().as_bytes()).unwrap();
    };
    assert_eq!(run.finish().code, 130, "the run was stopped");
    std::fs::write(&address, format!("http://{}", door.address)).unwrap();
    drop((relay, unanswered));
    let said = stop.finish();
    assert_eq!((said.code, said.stdout.contains("cancelled")), (0, true), "{said:?}");
}

#[test]
fn a_run_that_was_durable_and_not_launched_when_its_host_died_is_launched_once() {
    let Some(disk) = BadDisk::new() else { return };
    let mut serve = disk.serve();
    let agent = script(&disk.ostler, "quick.sh", QUICK);
    // The host dies as soon as anything is durable, which is before anything is done.
    std::fs::write(disk.switch("killing_sync"), "").unwrap();
    let said =
        disk.ostler.says(&["run", "--process", &format!("{agent} started"), "be quick", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!serve.child.wait().unwrap().success(), "the first host died");
    let events = said.events();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    let adopted: Vec<_> = events.iter().filter(|event| event["phase"] == "adopted").collect();
    assert_eq!(adopted.len(), 1, "{events:#?}");
    assert_eq!(adopted[0]["why"], "its host ended before the agent was started");
    let rows: Vec<Value> =
        serde_json::from_str(&disk.ostler.says(&["runs", "--json"]).stdout).unwrap();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(lines(&disk.ostler.instance.work().join("started")).len(), 1);
}

#[test]
fn what_was_said_and_durable_when_its_host_died_is_heard_once() {
    let Some(disk) = BadDisk::new() else { return };
    let mut serve = disk.serve();
    let agent = script(&disk.ostler, "listener.sh", LISTENER);
    let mut run = disk.ostler.starts(&["run", "--process", &agent, "listen", "--json"]);
    let begun = run.event("the agent to run", |event| event["phase"] == "running");
    let id = begun["run_id"].as_str().unwrap();
    std::fs::write(disk.switch("killing_sync"), "").unwrap();
    // The host has it, and dies before it can say so. Whoever hosts next stays to the end.
    let say = disk.ostler.starts(&["say", id, "once"]);
    assert!(!serve.child.wait().unwrap().success(), "the host died");
    let path = disk.ostler.instance.work().join("heard");
    until("the agent to hear it", BOUND_MS, || lines(&path).pop());
    let enough = disk.ostler.starts(&["say", id, "enough"]);
    assert_eq!(run.finish().code, 0);
    for say in [say, enough] {
        let said = say.finish();
        assert_eq!(said.code, 0, "{said:?}");
    }
    let heard = lines(&disk.ostler.instance.work().join("heard"));
    let once = heard.iter().filter(|line| line.contains("once")).count();
    assert_eq!(once, 1, "{heard:#?}");
}

#[test]
fn an_answer_that_was_durable_when_its_host_died_counts_once() {
    let Some(disk) = BadDisk::new() else { return };
    let mut serve = disk.serve();
    let mut run = disk.ostler.starts(&["run", "demo", "ask", "--json", "--permission", "ask"]);
    let question = run.event("the question", |event| event["kind"] == "permission");
    let ask = question["ask_id"].as_str().unwrap();
    std::fs::write(disk.switch("killing_sync"), "").unwrap();
    let answered = disk.ostler.says(&["answer", ask, "allow"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert!(!serve.child.wait().unwrap().success(), "the host died with the answer in its store");
    assert_eq!(run.finish().code, 0);
    let id = question["run_id"].as_str().unwrap();
    let events = disk.ostler.events(&["show", id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    let decided = events.iter().filter(|event| event["decision"].is_string()).count();
    assert_eq!(decided, 1, "{events:#?}");
    assert!(disk.ostler.instance.work().join("note-from-the-demo.txt").exists());
}

#[test]
fn a_run_that_was_never_launched_and_that_nobody_asks_for_again_can_be_stopped() {
    let Some(disk) = BadDisk::new() else { return };
    let agent = script(&disk.ostler, "quick.sh", QUICK);
    let mut serve = disk.serve();
    let id = "run_01a1e165b07f7291bd6f634d2d5f8ec7";
    std::fs::write(disk.switch("killing_sync"), "").unwrap();
    let data = disk.ostler.instance.data();
    let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap().trim().to_owned();
    let address = read("address").trim_start_matches("http://").to_owned();
    let body = serde_json::json!({
        "run_id": id, "agent": "quick", "prompt": "be quick", "cwd": disk.ostler.instance.work(),
        "adapter": { "name": "quick", "runtime": "process", "binary": "sh",
                     "args": [agent.trim_start_matches("sh "), "started"] },
        "environment": {},
    })
    .to_string();
    let mut asking = std::net::TcpStream::connect(&address).unwrap();
    let request = format!(
        "POST /api/v1/runs HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        read("token"),
        body.len()
    );
    std::io::Write::write_all(&mut asking, request.as_bytes()).unwrap();
    assert!(!serve.child.wait().unwrap().success(), "the host died");
    // Until its lease is over it waits for whoever asked; a stop need not wait.
    let rows: Vec<Value> =
        serde_json::from_str(&disk.ostler.says(&["runs", "--json"]).stdout).unwrap();
    assert_eq!((&rows[0]["id"], &rows[0]["outcome"]), (&id.into(), &Value::Null), "{rows:#?}");
    assert_eq!(disk.ostler.says(&["stop", id]).code, 0);
    let events = disk.ostler.events(&["show", id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "lost", "{:#?}", events.last());
    assert!(!disk.ostler.instance.work().join("started").exists(), "it was never launched");
}

#[test]
fn a_wish_that_a_dead_host_did_not_take_is_taken_by_the_next_at_once() {
    let ostler = Ostler::new();
    // It never pauses for long, and ends by itself when nobody stops it.
    let chatty = r#"i=0; while [ $i -lt 400 ]; do i=$((i+1))
echo '{"type":"progress","summary":"and another thing"}'; sleep 0.05; done
echo '{"type":"complete","output":{"text":"done"}}'"#;
    let agent = script(&ostler, "chatty.sh", chatty);
    let mut run = ostler.starts(&["run", "--process", &agent, "talk", "--json"]);
    let begun = run.event("the agent to talk", |event| event["kind"] == "progress");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    signal(run.child.id() as i32, Signal::KILL);
    run.child.wait().unwrap();
    // As a host leaves it that dies between the wish and the taking of it.
    let wish = contract::Wish::Stop { reason: contract::Code::Cancelled, at_once: false };
    let command = store::NewCommand {
        id: host::chance::command_id(),
        run: id.parse().unwrap(),
        asked_at: host::clock::now().wall,
        wish: store::Seal::default().json(&wish),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store::Store::open(&ostler.instance.data()).unwrap();
        store.command(command).await.unwrap();
        store.close().await;
    });
    let events = ostler.says(&["watch", &id, "--json"]).events();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "cancelled", "{:#?}", events.last());
}

#[test]
fn a_stop_is_owed_to_the_keeper_until_the_run_has_ended() {
    let ostler = Ostler::new();
    let deaf = r#"trap '' TERM; echo '{"type":"progress","summary":"deaf"}'
while [ ! -e enough ]; do echo '{"type":"progress","summary":"what?"}'; sleep 0.05; done"#;
    let agent = script(&ostler, "deaf.sh", deaf);
    let mut run = ostler.starts(&["run", "--process", &agent, "be deaf", "--json"]);
    let begun = run.event("a deaf agent", |event| event["summary"] == "deaf");
    let id = begun["run_id"].as_str().unwrap().to_owned();
    let mut stop = ostler.starts(&["stop", &id]);
    run.event("the stop", |event| event["phase"] == "stopping");
    // Whatever the host writes down of it is written by then.
    std::thread::sleep(Duration::from_secs(1));
    for running in [&mut run, &mut stop] {
        signal(running.child.id() as i32, Signal::KILL);
        running.child.wait().unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let owed = runtime.block_on(async {
        let store = store::Store::open(&ostler.instance.data()).unwrap();
        let point = store.resume_point(id.parse().unwrap()).await.unwrap().unwrap();
        store.close().await;
        point.effects
    });
    let words: Vec<_> = owed.iter().map(|owed| String::from_utf8_lossy(&owed.bytes)).collect();
    assert!(words.iter().any(|words| words.contains("cancelled")), "{words:?}");
    // Asked twice, the keeper stops it once.
    std::fs::write(ostler.instance.work().join("enough"), "").unwrap();
    let events = ostler.says(&["watch", &id, "--json"]).events();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "cancelled", "{:#?}", events.last());
    let stopping = events.iter().filter(|event| event["phase"] == "stopping").count();
    assert_eq!(stopping, 1, "{events:#?}");
}
