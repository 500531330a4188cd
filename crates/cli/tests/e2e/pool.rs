//! Slots: an adapter that may have only so many runs at once. What was at work at the same time is
//! told by the agents' own log, not by anything that counts for the product; who waits is seen,
//! stopped, carried over from one host to the next, and cancelled when whoever asked is gone.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, Running, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::until;

pub const RUNS: usize = 40;
pub const PLACES: usize = 4;
/// How long one of the forty works: long beside what starting it costs on a loaded machine.
const WORK_SEC: f64 = 1.2;
/// Wall time beside the best there could be, for the same work in the same slots.
pub const RATIO_MAX: f64 = 2.0;

/// An agent that notes when it begins and ends. Its words: a number, and how it is to end.
const AGENT: &str = r#"
note() { printf '%s %s %s\n' "$1" "$N" "$(date +%s%N)" >> "$LOG"; }
LOG=$1; N=${2%% *}; HOW=${2#* }
note begin
case $HOW in
  ok) note end; echo '{"type":"complete","output":{"text":"done"}}';;
  fail) note end; echo '{"type":"failed","reason":"no"}';;
  kill) note end; kill -9 $$;;
  hold) while [ ! -e "$LOG.$N" ]; do sleep 0.05; done
        note end; echo '{"type":"complete","output":{"text":"done"}}';;
  *) sleep "$HOW"; note end; echo '{"type":"complete","output":{"text":"done"}}';;
esac
"#;

/// The place where agents work and write their log.
struct Yard {
    script: PathBuf,
    log: PathBuf,
    work: PathBuf,
}

impl Yard {
    fn new(ostler: &Ostler) -> Self {
        let root = ostler.instance.root();
        let (script, log) = (root.join("agent.sh"), root.join("log"));
        std::fs::write(&script, AGENT).unwrap();
        std::fs::write(&log, "").unwrap();
        Self { script, log, work: ostler.instance.work() }
    }

    /// The same adapter for whoever asks by name.
    fn configure(&self, ostler: &Ostler, places: usize) {
        let adapter = json!({
            "type": "process",
            "binary": "sh",
            "args": [self.script, self.log, "{{prompt}}"],
            "maxConcurrent": places,
        });
        ostler.instance.write_config(&json!({ "adapters": { "worker": adapter } }).to_string());
    }

    fn adapter(&self, places: usize) -> Value {
        json!({
            "name": "worker", "runtime": "process", "binary": "sh",
            "args": [self.script, self.log, "{{prompt}}"], "max_concurrent": places,
        })
    }

    fn request(&self, places: usize, prompt: &str) -> Value {
        json!({
            "agent": "worker", "prompt": prompt, "cwd": self.work, "adapter": self.adapter(places),
            "environment": { "PATH": std::env::var("PATH").unwrap_or_default() },
        })
    }

    /// What was noted so far: what, who, and when in nanoseconds.
    fn notes(&self) -> Vec<(String, usize, u128)> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let note = |line: &str| {
            let mut words = line.split(' ');
            let what = words.next()?.to_owned();
            Some((what, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        text.lines().filter_map(note).collect()
    }

    fn until_noted(&self, what: &str, who: usize) {
        until(&format!("{what} {who}"), BOUND_MS, || {
            let noted = self.notes();
            noted.iter().any(|(noted, n, _)| noted == what && *n == who).then_some(())
        });
    }

    /// Lets an agent that holds on come to its end.
    fn release(&self, who: usize) {
        std::fs::write(format!("{}.{who}", self.log.display()), "").unwrap();
    }
}

/// Asks for a run once: its status and what was answered.
pub fn ask(door: &Door, request: &Value) -> (u16, Value) {
    let answer = door.owner("POST", "/api/v1/runs", &request.to_string());
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

/// Asks for a run for the first time. Gives the request as it is to be asked again, and the run.
pub fn stood_in_line(door: &Door, mut request: Value) -> (Value, String) {
    let (status, answer) = ask(door, &request);
    let run = answer["run_id"].as_str().unwrap_or_else(|| panic!("{status} {answer}")).to_owned();
    request["run_id"] = json!(run);
    if status == 202 {
        assert_eq!(answer["waiting_for"], "pool", "{answer}");
        assert!(answer["place"].as_u64() >= Some(1), "{answer}");
    }
    (request, run)
}

/// Asks for all of them at once, again and again until each has a slot.
pub fn until_all_begin(door: &Door, asked: &[(Value, String)]) {
    std::thread::scope(|scope| {
        for (request, run) in asked {
            scope.spawn(move || {
                until("a slot", 4 * BOUND_MS, || {
                    let (status, answer) = ask(door, request);
                    assert!(matches!(status, 201 | 202), "{run}: {status} {answer}");
                    (status == 201).then_some(())
                });
            });
        }
    });
}

pub fn get(door: &Door, path: &str) -> Value {
    let answer = door.owner("GET", path, "");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

/// How many were at work at the same time, at most.
fn most_at_once(notes: &[(String, usize, u128)]) -> usize {
    let mut notes: Vec<_> = notes.iter().collect();
    // An end and a begin of the same moment are one slot changing hands.
    notes.sort_by_key(|(what, _, at)| (*at, what == "begin"));
    let (mut now, mut most) = (0_usize, 0);
    for (what, _, _) in notes {
        match what.as_str() {
            "begin" => now += 1,
            _ => now -= 1,
        }
        most = most.max(now);
    }
    most
}

#[test]
fn forty_runs_share_four_slots_in_the_order_they_came() {
    let door = Door::open();
    let yard = Yard::new(&door.ostler);
    let request = |n: usize| yard.request(PLACES, &format!("{n} {WORK_SEC}"));
    let asked: Vec<_> = (0..RUNS).map(|n| stood_in_line(&door, request(n))).collect();
    until_all_begin(&door, &asked);
    until("the last to end", BOUND_MS, || {
        (yard.notes().iter().filter(|(what, _, _)| what == "end").count() == RUNS).then_some(())
    });
    let notes = yard.notes();
    assert_eq!(most_at_once(&notes), PLACES, "all slots are used, and no more");

    // Each was begun before the next one was: in the order of the questions.
    let started: Vec<(Value, usize)> = asked
        .iter()
        .enumerate()
        .map(|(n, (_, run))| (get(&door, &format!("/api/v1/runs/{run}"))["started_at"].clone(), n))
        .collect();
    let mut sorted = started.clone();
    sorted.sort_by_key(|(at, n)| (at.to_string(), *n));
    assert_eq!(started, sorted);
    // By their own word too, but for those who came to life at the same time.
    let begun: Vec<usize> =
        notes.iter().filter(|(what, _, _)| what == "begin").map(|(_, n, _)| *n).collect();
    for (at, n) in begun.iter().enumerate() {
        assert!(at.abs_diff(*n) < PLACES, "{n} was the {at}th: {begun:?}");
    }

    let at = |what: &str, n: usize| {
        notes.iter().find(|(noted, who, _)| noted == what && *who == n).map(|(_, _, at)| *at)
    };
    let worked: u128 = (0..RUNS).map(|n| at("end", n).unwrap() - at("begin", n).unwrap()).sum();
    let times: Vec<u128> = notes.iter().map(|(_, _, at)| *at).collect();
    let wall = times.iter().max().unwrap() - times.iter().min().unwrap();
    let ratio = wall as f64 / (worked as f64 / PLACES as f64);
    eprintln!("{RUNS} runs in {PLACES} slots: {ratio:.2} times the ideal wall time");
    assert!(ratio < RATIO_MAX, "{ratio}");
    assert_eq!(get(&door, "/api/v1/tasks?state=waiting")["items"], json!([]));
}

#[test]
fn a_slot_is_free_after_every_ending() {
    let door = Door::open();
    let yard = Yard::new(&door.ostler);
    let plain = door.ostler.instance.root().join("plain");
    std::fs::write(&plain, "no program\n").unwrap();
    let mut n = 0;
    for how in ["ok", "fail", "kill", "stop", "spawn failure", "start that fails", "cancelled"] {
        // One that holds the only slot, one whose ending is tried, one that comes after it.
        let [holder, tried, after] = [n, n + 1, n + 2];
        n += 3;
        let (status, answer) = ask(&door, &yard.request(1, &format!("{holder} hold")));
        assert_eq!(status, 201, "{how}: the slot is free at first: {answer}");
        yard.until_noted("begin", holder);
        let word = if matches!(how, "ok" | "fail" | "kill") { how } else { "hold" };
        let mut request = yard.request(1, &format!("{tried} {word}"));
        let gone = door.ostler.instance.root().join("gone");
        match how {
            "spawn failure" => request["adapter"]["binary"] = json!(plain),
            "start that fails" => {
                std::fs::create_dir_all(&gone).unwrap();
                request["cwd"] = json!(gone);
            }
            _ => {}
        }
        let run = |request: &mut Value| {
            let (status, answer) = ask(&door, request);
            assert_eq!(status, 202, "{how}: {answer}");
            request["run_id"] = answer["run_id"].clone();
            answer["run_id"].as_str().unwrap().to_owned()
        };
        let mut next = yard.request(1, &format!("{after} ok"));
        let tried_run = run(&mut request);
        run(&mut next);
        if how == "start that fails" {
            std::fs::remove_dir(&gone).unwrap();
        }
        std::thread::scope(|scope| {
            let asking = [&request, &next].map(|request| {
                let door = &door;
                scope.spawn(move || {
                    until("an answer", BOUND_MS, || Some(ask(door, request)).filter(|a| a.0 != 202))
                })
            });
            let stop = |run: &str| {
                let path = format!("/api/v1/runs/{run}/commands");
                let wish = r#"{"wish":"stop","reason":"cancelled","at_once":true}"#;
                let answer = door.owner("POST", &path, wish);
                assert_eq!(answer.status, 202, "{how}: {}", answer.body);
            };
            if how == "cancelled" {
                stop(&tried_run);
            }
            yard.release(holder);
            if how == "stop" {
                yard.until_noted("begin", tried);
                stop(&tried_run);
            }
            let [(tried_status, tried_answer), (after_status, after_answer)] =
                asking.map(|thread| thread.join().unwrap());
            let expected = match how {
                "start that fails" => (422, json!("bad_workspace")),
                "cancelled" => (409, json!("cancelled")),
                _ => (201, Value::Null),
            };
            assert_eq!((tried_status, tried_answer["code"].clone()), expected, "{how}");
            assert_eq!(after_status, 201, "{how}: {after_answer}");
        });
        yard.until_noted("end", after);
        // The slot of the last one is free too before the next ending is tried.
        until("everyone to be done", BOUND_MS, || {
            (get(&door, "/api/v1/runs?live=true")["items"] == json!([])).then_some(())
        });
    }
    assert_eq!(most_at_once_of(&yard), 1);
    assert_eq!(get(&door, "/api/v1/tasks?state=waiting")["items"], json!([]));
}

/// The same for a log in which those that were stopped noted no end.
fn most_at_once_of(yard: &Yard) -> usize {
    let notes = yard.notes();
    let ended = |who: usize| notes.iter().any(|(what, n, _)| what == "end" && *n == who);
    most_at_once(&notes.iter().filter(|(_, n, _)| ended(*n)).cloned().collect::<Vec<_>>())
}

/// A run of the configured adapter in the background, and what it says of waiting.
fn waits(ostler: &Ostler, prompt: &str) -> (Running, String) {
    let mut run = ostler.starts(&["run", "worker", prompt, "--json"]);
    let mut said = std::io::BufReader::new(run.child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    // Read to its end elsewhere, so that it can go on saying where it stands.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    (run, line)
}

fn id_of(line: &str) -> String {
    let id = line.split("ostler stop ").nth(1).unwrap_or_else(|| panic!("{line}"));
    id.split('`').next().unwrap().to_owned()
}

#[test]
fn who_waits_is_seen_and_can_be_stopped() {
    let ostler = Ostler::new();
    let yard = Yard::new(&ostler);
    yard.configure(&ostler, 1);
    let first = ostler.starts(&["run", "worker", "1 hold", "--json"]);
    yard.until_noted("begin", 1);
    let (second, line) = waits(&ostler, "2 ok");
    assert!(
        line.starts_with("waiting for a slot of 'worker': 1 of 1 taken, 1st in line; "),
        "{line}"
    );
    let (third, line3) = waits(&ostler, "3 ok");
    assert!(line3.contains("2nd in line"), "{line3}");
    let (fourth, line4) = waits(&ostler, "4 ok");
    let [two, three, four] = [&line, &line3, &line4].map(|line| id_of(line));

    let listed = ostler.says(&["runs", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    let seen: Vec<_> = listed.iter().map(|row| (tail(&row["id"]), &row["state"])).collect();
    let waiting = json!("waiting");
    let expected = [&two, &three, &four].map(|id| (id.as_str(), &waiting));
    assert_eq!(seen[..3], expected, "{listed:#?}");
    assert_eq!((&listed[1]["place"], &listed[1]["pool"]), (&json!(2), &json!("worker")));
    let table = ostler.says(&["runs"]).stdout;
    assert!(table.contains("waits, 1st") && table.contains("waits, 3rd"), "{table}");
    let shown = ostler.says(&["show", &two]);
    assert_eq!(shown.code, 13, "{shown:?}");
    assert!(shown.complaint().contains("waits for a slot of 'worker'"), "{shown:?}");
    let said = ostler.says(&["say", &two, "hello"]);
    assert_eq!(said.code, 13, "{said:?}");
    let watch = ostler.starts(&["watch", &two[two.len() - 8..], "--json"]);

    // One is stopped from elsewhere, one by its own person: neither has cost anything.
    let stopped = ostler.says(&["stop", &three]);
    assert_eq!(stopped.stdout, format!("{three} cancelled, before it started\n"));
    assert_eq!(third.finish().code, 130);
    signal(fourth.child.id() as i32, Signal::INT);
    assert_eq!(fourth.finish().code, 130);
    for gone in [&three, &four] {
        let shown = ostler.says(&["show", gone]);
        assert_eq!(shown.code, 16, "{shown:?}");
        assert!(shown.complaint().contains("never started"), "{shown:?}");
    }

    yard.release(1);
    let (ran, watched) = (second.finish(), watch.finish());
    assert_eq!((ran.code, watched.code), (0, 0), "{watched:?}");
    assert_eq!(ran.events(), watched.events());
    assert_eq!(tail(&result(&ran.events())["run_id"]), two);
    assert_eq!(first.finish().code, 0);
    assert_eq!(yard.notes().len(), 4, "two of four ran: {:?}", yard.notes());
    assert_eq!(check(&ostler.instance.data()), Vec::<String>::new());
}

#[test]
fn who_waits_goes_on_waiting_at_the_next_host() {
    for way in ["killed", "handed over"] {
        let ostler = Ostler::new();
        let yard = Yard::new(&ostler);
        yard.configure(&ostler, 1);
        // The first hosts, as a command that came first does.
        let mut first = ostler.starts(&["run", "worker", "1 hold", "--json"]);
        yard.until_noted("begin", 1);
        let (second, line) = waits(&ostler, "2 ok");
        let (third, _) = waits(&ostler, "3 ok");
        let mut serve = None;
        match way {
            "killed" => {
                first.child.kill().unwrap();
                first.child.wait().unwrap();
            }
            _ => {
                let mut server = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
                server.line();
                serve = Some(server);
            }
        }
        // The slot is still held by the agent that lives on with its keeper.
        let listed = ostler.says(&["runs", "--json"]);
        let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
        let waiting: Vec<_> = listed.iter().filter(|row| row["state"] == "waiting").collect();
        assert_eq!(waiting.len(), 2, "{way}: {listed:#?}");
        assert_eq!(tail(&waiting[0]["id"]), id_of(&line), "{way}");
        assert_eq!(yard.notes().len(), 1, "{way}");
        yard.release(1);
        let (second, third) = (second.finish(), third.finish());
        assert_eq!((second.code, third.code), (0, 0), "{way}: {second:?} {third:?}");
        let begun: Vec<_> =
            yard.notes().into_iter().filter(|(what, _, _)| what == "begin").map(|n| n.1).collect();
        assert_eq!(begun, [1, 2, 3], "{way}");
        assert_eq!(most_at_once(&yard.notes()), 1, "{way}");
        if let Some(mut serve) = serve {
            assert_eq!(first.finish().code, 0, "{way}");
            serve.child.kill().unwrap();
            serve.child.wait().unwrap();
        }
        assert_eq!(check(&ostler.instance.data()), Vec::<String>::new());
    }
}

/// The digits of an id that are shown.
fn tail(id: &Value) -> &str {
    let id = id.as_str().expect("an id");
    &id[id.len() - 8..]
}

#[test]
fn a_place_whose_asker_is_gone_is_given_to_the_next() {
    let ostler = Ostler::new();
    let yard = Yard::new(&ostler);
    yard.configure(&ostler, 1);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    serve.line();
    let first = ostler.starts(&["run", "worker", "1 hold", "--json"]);
    yard.until_noted("begin", 1);
    let (mut second, line) = waits(&ostler, "2 ok");
    let (third, _) = waits(&ostler, "3 ok");
    second.child.kill().unwrap();
    second.child.wait().unwrap();
    let gone = Instant::now();
    until("its place to be given up", BOUND_MS, || {
        let listed = ostler.says(&["runs", "--json"]).stdout;
        (!listed.contains(&id_of(&line))).then_some(())
    });
    assert!(gone.elapsed() > Duration::from_secs(1), "whoever comes back at once is waited for");
    yard.release(1);
    assert_eq!((first.finish().code, third.finish().code), (0, 0));
    let noted: Vec<_> = yard.notes().into_iter().map(|(_, n, _)| n).collect();
    assert_eq!(noted, [1, 1, 3, 3]);
    let shown = ostler.says(&["show", &id_of(&line)]);
    assert!(shown.complaint().contains("never started: it was cancelled"), "{shown:?}");
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
    assert_eq!(check(&ostler.instance.data()), Vec::<String>::new());
}

fn check(data: &Path) -> Vec<String> {
    store::check(data).unwrap()
}
