//! Every death: server, keeper and agent, alone and together, at any moment. A run ends once, with
//! what was known of its end; nothing of it is left running; nothing that was committed is lost.

use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, deeds, keepers, result, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use testkit::promises::{Found, broken};
use testkit::{find_marked, until};

fn begun(run: &mut Running) -> (String, i32) {
    let begun = run.event("the agent to run", |event| event["phase"] == "running");
    let pid = begun["pid"].as_i64().expect("the agent has a pid");
    (begun["run_id"].as_str().unwrap().to_owned(), pid as i32)
}

fn killed(mut run: Running) {
    signal(run.child.id() as i32, Signal::KILL);
    run.child.wait().unwrap();
}

fn nothing_is_left(ostler: &Ostler, what: &str) {
    let mark = ostler.instance.mark();
    let left = until_empty(|| find_marked(&mark));
    assert!(left.is_empty(), "{what} left {left:?}");
}

fn until_empty<T>(look: impl Fn() -> Vec<T>) -> Vec<T> {
    for _ in 0..BOUND_MS / 10 {
        if look().is_empty() {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    look()
}

/// An agent that talks for some seconds: whole texts, deltas, and calls that are answered.
fn talker(ostler: &Ostler) -> String {
    let mut script = String::new();
    for round in 0..60 {
        script += match round % 10 {
            3 => "--tool list_files {} ",
            7 => "--tool report_progress '{\"summary\":\"on\"}' ",
            _ => "--burst 4 ",
        };
        script += "--sleep-ms 90 ";
        if round == 30 {
            script += "--deltas ";
        }
    }
    ostler.fake(script.trim())
}

#[test]
fn a_server_killed_at_twenty_moments_changes_nothing_of_the_run() {
    let quiet = Ostler::new();
    let expected = quiet.events(&["run", "--process", &talker(&quiet), "x", "--json"]);
    assert_eq!(result(&expected)["outcome"], "succeeded", "{expected:#?}");

    let ostler = Ostler::new();
    let mut run = ostler.starts(&["run", "--process", &talker(&ostler), "x", "--json"]);
    let (id, _) = begun(&mut run);
    killed(run);
    for moment in 0..19u64 {
        let server = match moment % 3 {
            0 => ostler.starts(&["serve", "--listen", "127.0.0.1:0"]),
            _ => ostler.starts(&["watch", &id, "--json"]),
        };
        // From before it has the lock to the middle of driving.
        std::thread::sleep(Duration::from_millis(10 + moment * 37 % 320));
        killed(server);
    }
    let watched = ostler.says(&["watch", &id, "--json"]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    let shown = ostler.says(&["show", &id, "--json"]);
    let events = shown.events();
    assert_eq!(watched.events(), events, "a watcher sees what is stored");
    let numbered = (1..).zip(watched.stdout.lines().map(str::to_owned)).collect();
    let found = Found {
        events: shown.stdout.lines().map(str::to_owned).collect(),
        trace: ostler.says(&["show", &id, "--raw"]).stdout.lines().map(str::to_owned).collect(),
    };
    assert_eq!(broken(&found, &numbered), [""; 0]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    let (expected, seen) = (deeds(&expected), deeds(&events));
    for (i, (expected, seen)) in expected.iter().zip(&seen).enumerate() {
        assert_eq!(expected, seen, "deed {i}");
    }
    assert_eq!(expected.len(), seen.len());
    let runs = events.iter().filter(|event| event["phase"] == "running").count();
    assert_eq!(runs, 1, "it was launched once");
    nothing_is_left(&ostler, "twenty deaths");
}

#[test]
fn the_binary_as_it_is_shipped_cannot_be_told_to_die() {
    let bytes = std::fs::read(crate::ostler::program()).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("ostler-keeper"), "words of the product are found in it");
    assert!(!holds("OSTLER_FAILPOINT"));
}

#[test]
fn an_agent_that_ends_while_nobody_hosts_it_is_heard_to_its_last_word() {
    let script = "--burst 5 --echo-env OSTLER_LEASE_TOKEN --sleep-ms 900 --burst 20";
    let quiet = Ostler::new();
    let expected = quiet.events(&["run", "--process", &quiet.fake(script), "x", "--json"]);

    let ostler = Ostler::new();
    let mut run = ostler.starts(&["run", "--process", &ostler.fake(script), "x", "--json"]);
    let (id, _) = begun(&mut run);
    killed(run);
    until("the agent and its keeper to end", BOUND_MS, || keepers(&id).is_empty().then_some(()));
    assert_eq!(ostler.says(&["watch", &id, "--json"]).code, 0);
    let events = ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    assert_eq!(deeds(&events), deeds(&expected), "the token is redacted in both");
}

#[test]
fn words_whose_secrets_are_lost_are_not_kept_and_that_is_told() {
    let ostler = Ostler::new();
    let script = "--burst 5 --echo-env OSTLER_LEASE_TOKEN --sleep-ms 900 --burst 20";
    let mut run = ostler.starts(&["run", "--process", &ostler.fake(script), "x", "--json"]);
    let (id, _) = begun(&mut run);
    killed(run);
    until("the agent and its keeper to end", BOUND_MS, || keepers(&id).is_empty().then_some(()));
    let kept = ostler.files().into_iter().find(|path| path.ends_with("keepsake")).unwrap();
    std::fs::remove_file(kept).unwrap();
    let events = ostler.events(&["watch", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    let adopted = events.iter().position(|event| event["phase"] == "adopted").unwrap();
    let after = &events[adopted..];
    let told =
        |event: &&Value| event["text"].as_str().is_some_and(|text| text.contains("not stored"));
    assert_eq!(after.iter().filter(told).count(), 1, "{after:#?}");
    let words = after.iter().filter(|event| event["kind"] == "progress" || event["delta"] == true);
    assert_eq!(words.count(), 0, "{after:#?}");
}

#[test]
fn the_spool_of_a_run_that_was_settled_just_before_its_host_died_is_removed() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 1");
    let events = ostler.events(&["run", "--process", &agent, "x", "--json"]);
    let id = events[0]["run_id"].as_str().unwrap().trim_start_matches("run_").to_owned();
    let spools = std::fs::read_dir(ostler.instance.runtime().join("ostler")).unwrap();
    let left = spools.flatten().next().unwrap().path().join(format!("{id}.1"));
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("00000000000000000000"), "what it said, raw").unwrap();
    // A server, because a command that only looks may be gone before.
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    until("the spool to be removed", BOUND_MS, || (!left.exists()).then_some(()));
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}

/// Who dies, and how the run then ends.
const DEATHS: &[(&[Victim], &str, Option<&str>)] = &[
    (&[Victim::Agent], "failed", Some("process_killed")),
    (&[Victim::Keeper], "lost", Some("process_lost")),
    (&[Victim::Server], "succeeded", None),
    (&[Victim::Keeper, Victim::Agent], "lost", Some("process_lost")),
    (&[Victim::Server, Victim::Agent], "failed", Some("process_killed")),
    (&[Victim::Server, Victim::Keeper], "lost", Some("process_lost")),
    (&[Victim::Server, Victim::Keeper, Victim::Agent], "lost", Some("process_lost")),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Server,
    Keeper,
    Agent,
}

/// Lets the victims die while the agent has children that hide, and gives the run's events.
fn die(level: &str, victims: &[Victim]) -> Vec<Value> {
    let ostler = Ostler::new();
    let script = "--setsid-child --double-fork --burst 30 --sleep-ms 2500 --burst 3";
    let agent = ostler.fake(script);
    let mut command = ostler.command(&["run", "--process", &agent, "x", "--json"]);
    let mut run = Running::of(command.env("OSTLER_ISOLATION", level));
    let (id, pid) = begun(&mut run);
    let mut seen = vec![];
    while seen.len() < 20 {
        seen.push(run.event("an event", |event| event["origin"] == "agent"));
    }
    let mut dying = Vec::new();
    for victim in victims {
        match victim {
            Victim::Server => dying.push(run.child.id() as i32),
            Victim::Keeper => dying.extend(keepers(&id)),
            Victim::Agent => dying.push(pid),
        }
    }
    assert!(dying.len() >= victims.len(), "{dying:?}");
    for pid in dying {
        signal(pid, Signal::KILL);
    }
    match victims.contains(&Victim::Server) {
        true => drop(run.child.wait()),
        false => drop(run.finish()),
    }
    // Whoever acts next takes over what is left; there may be nothing.
    ostler.says(&["watch", &id, "--json"]);
    let what = format!("{victims:?} at {level}");
    nothing_is_left(&ostler, &what);
    let events = ostler.events(&["show", &id, "--json"]);
    for event in seen {
        assert!(events.contains(&event), "{what}: a committed event is gone: {event}");
    }
    let left: Vec<_> = ostler.files().into_iter().filter(|path| path.ends_with("lock")).collect();
    assert!(left.len() <= 1, "{what}: spools are removed: {left:?}");
    events
}

fn deaths(level: &str) {
    for (victims, outcome, code) in DEATHS {
        let events = die(level, victims);
        assert_gap_free(&events);
        let result = result(&events);
        let told = (result["outcome"].as_str(), result["code"].as_str());
        assert_eq!(told, (Some(*outcome), *code), "{victims:?} at {level}: {result}");
    }
}

#[test]
fn whoever_dies_the_run_ends_once_and_nothing_is_left_at_the_level_basic() {
    deaths("basic");
}

#[test]
fn whoever_dies_the_run_ends_once_and_nothing_is_left_at_the_strongest_level() {
    deaths("auto");
}

#[test]
fn a_run_shows_how_strongly_its_agent_is_held() {
    let ostler = Ostler::new();
    let shown = |level: &str| {
        let mut command = ostler.command(&["run", "demo", "hello", "--json"]);
        let said = Running::of(command.env("OSTLER_ISOLATION", level)).finish();
        let events = said.events();
        let running = events.iter().find(|event| event["phase"] == "running").cloned();
        (said.code, running.unwrap_or_default()["isolation"].as_str().map(str::to_owned))
    };
    assert_eq!(shown("basic"), (0, Some("basic".to_owned())));
    let (code, level) = shown("auto");
    assert_eq!(code, 0);
    assert!(["basic", "cgroup", "strict"].contains(&level.unwrap().as_str()));
    assert_eq!(shown("iron").0, 3);
}

fn short_lease(ostler: &Ostler) {
    ostler.instance.write_config(r#"{ "server": { "leaseSec": 2 } }"#);
}

fn is_gone(pid: i32) -> bool {
    !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

#[test]
fn a_host_that_slept_past_its_lease_writes_nothing_more_under_it() {
    let ostler = Ostler::new();
    short_lease(&ostler);
    // It does not leave when it is asked to: the kill at the end of the lease is what ends it.
    let agent = ostler.fake("--ignore-term --never-read-stdin --burst 10 --sleep-ms 600000");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let (id, pid) = begun(&mut run);
    signal(run.child.id() as i32, Signal::STOP);
    until("the keeper to end its agent", BOUND_MS, || is_gone(pid).then_some(()));
    until("the keeper to leave", BOUND_MS, || keepers(&id).is_empty().then_some(()));
    signal(run.child.id() as i32, Signal::CONT);
    let said = run.finish();
    let events = ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    let end = result(&events);
    assert_eq!((&end["outcome"], &end["code"]), (&"lost".into(), &"lease_expired".into()), "{end}");
    assert_eq!(said.code, 13, "{}", said.stderr);
    assert_eq!(end["fence"], 2, "its end was written under the next fence");
    assert!(events.iter().any(|event| event["kind"] == "lease" && event["action"] == "lost"));
    // Fences never fall, and each event of the agent is there once.
    let fences: Vec<_> = events.iter().map(|event| event["fence"].as_u64().unwrap()).collect();
    assert!(fences.is_sorted(), "{fences:?}");
    let burst = deeds(&events).into_iter().filter(|deed| deed["kind"] == "assistant_text").count();
    assert_eq!(burst, 10, "{events:#?}");
    let rows: Vec<Value> = serde_json::from_str(&ostler.says(&["runs", "--json"]).stdout).unwrap();
    assert_eq!(rows[0]["state"], "settled");
    nothing_is_left(&ostler, "a lease that ran out");
}

#[test]
fn a_short_lease_is_renewed_for_as_long_as_the_agent_works() {
    let ostler = Ostler::new();
    ostler.instance.write_config(r#"{ "server": { "leaseSec": 8 } }"#);
    let events =
        ostler.events(&["run", "--process", &ostler.fake("--sleep-ms 10000"), "x", "--json"]);
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    assert!(events.iter().any(|event| event["action"] == "renewed"));
}

#[test]
fn a_run_whose_keeper_hangs_is_ended_when_its_lease_is_over() {
    let ostler = Ostler::new();
    short_lease(&ostler);
    let agent = ostler.fake("--setsid-child --burst 10 --sleep-ms 600000");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let (id, _) = begun(&mut run);
    for pid in keepers(&id) {
        signal(pid, Signal::STOP);
    }
    killed(run);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let watched = ostler.says(&["watch", &id, "--json"]);
    let events = watched.events();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "lost", "{:#?}", events.last());
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    nothing_is_left(&ostler, "a keeper that hung");
}

/// What a busy machine may add to the time in which the run of a hung keeper is settled.
const BUSY_MS: u128 = 20_000;
/// Within this time after the graces of the stop the run is settled.
const SETTLED_MS: u128 = 10_000;
/// The graces of a stop that is not `--now`.
const GRACES_MS: u128 = 20_000;

/// Whether agents can be held at this level here. One that cannot be had is told, because its row of a test is
/// not shown then.
fn is_offered(level: &str) -> bool {
    let ostler = Ostler::new();
    let mut command = ostler.command(&["run", "demo", "hello", "--json"]);
    let said = Running::of(command.env("OSTLER_ISOLATION", level)).finish();
    let events = said.events();
    let message = result(&events)["message"].as_str().unwrap_or_default().to_owned();
    match said.code {
        0 => true,
        _ => {
            assert!(message.contains(&format!("isolation {level}")), "{events:#?}");
            eprintln!("NOT SHOWN at level {level}, which this machine does not offer: {message}");
            false
        }
    }
}

/// A run whose keeper is stopped by a signal while its host lives, at one level of isolation: a stop
/// ends the run within the time that a keeper has to answer.
fn hung_keeper(level: &str) {
    if !is_offered(level) {
        return;
    }
    for (stop, graces_ms) in [(&["stop"][..], GRACES_MS), (&["stop", "--now"], 0)] {
        let ostler = Ostler::new();
        let agent = ostler.fake("--setsid-child --burst 10 --sleep-ms 600000");
        let mut command = ostler.command(&["run", "--process", &agent, "x", "--json"]);
        let mut run = Running::of(command.env("OSTLER_ISOLATION", level));
        let begun = run.event("the agent to run", |event| event["phase"] == "running");
        assert_eq!(begun["isolation"], level);
        let id = begun["run_id"].as_str().unwrap();
        let hung = keepers(id);
        assert!(!hung.is_empty());
        for pid in hung {
            signal(pid, Signal::STOP);
        }
        let asked = std::time::Instant::now();
        assert_eq!(ostler.says(&[stop, &[id][..]].concat()).code, 0, "{stop:?}");
        let said = run.finish();
        let settled_ms = asked.elapsed().as_millis();
        eprintln!("{level} {stop:?}: settled {settled_ms} ms after the stop");
        assert!(settled_ms < graces_ms + SETTLED_MS + BUSY_MS, "{level} {stop:?}: {settled_ms} ms");
        let events = ostler.events(&["show", id, "--json"]);
        assert_gap_free(&events);
        let end = result(&events);
        assert_eq!((said.code, &end["outcome"]), (130, &"cancelled".into()), "{end}");
        let warned = |event: &Value| {
            event["text"].as_str().is_some_and(|text| text.contains("hung and was ended"))
        };
        assert!(events.iter().any(warned), "{events:#?}");
        nothing_is_left(&ostler, "a keeper that hung beside its host");
    }
}

#[test]
fn hung_keeper_is_ended_at_level_basic() {
    hung_keeper("basic");
}

#[test]
fn hung_keeper_is_ended_at_level_cgroup() {
    hung_keeper("cgroup");
}

#[test]
fn hung_keeper_is_ended_at_level_strict() {
    hung_keeper("strict");
}

/// A file system of its own for spools, which can be frozen so that every write to it waits.
struct Disk {
    at: std::path::PathBuf,
}

impl Disk {
    /// `None` where this user may not mount one. That is told, because nothing is shown then.
    fn mount(ostler: &Ostler) -> Option<Self> {
        let (image, at) = (ostler.instance.root().join("disk"), ostler.instance.runtime());
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let (image, at_text) = (image.to_str().unwrap(), at.to_str().unwrap());
        for command in [
            &["mkfs.ext4", "-q", image][..],
            &["mount", "-o", "loop", image, at_text],
            &["chmod", "700", at_text],
        ] {
            if !ran(command) {
                eprintln!(
                    "NOT SHOWN: {command:?} is not possible here, so no disk can be made to hang"
                );
                return None;
            }
        }
        Some(Self { at })
    }

    fn freeze(&self) -> bool {
        let at = self.at.clone();
        // A command of the test that waits for the disk too would wait for ever otherwise.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2 * BOUND_MS));
            ran(&["fsfreeze", "-u", at.to_str().unwrap()]);
        });
        ran(&["fsfreeze", "-f", self.at.to_str().unwrap()])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The second fails for a disk that is not frozen, the last for one that is in use for a moment.
        let at = self.at.to_str().unwrap();
        ran(&["fsfreeze", "-u", at]);
        ran(&["umount", "-l", at]);
    }
}

fn ran(command: &[&str]) -> bool {
    let run = std::process::Command::new(command[0]).args(&command[1..]).output();
    run.is_ok_and(|output| output.status.success())
}

/// Whether a process waits for a disk and hears no signal.
fn is_in_disk_wait(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
}

#[test]
fn run_ends_although_its_keeper_waits_for_a_disk() {
    let ostler = Ostler::new();
    let Some(disk) = Disk::mount(&ostler) else { return };
    let script = ostler.instance.root().join("talker.sh");
    let talk = r#"while :; do echo '{"type":"progress","summary":"x"}'; sleep 0.05; done"#;
    std::fs::write(&script, talk).unwrap();
    let talker = format!("sh {}", script.display());
    let mut run = ostler.starts(&["run", "--process", &talker, "x", "--json"]);
    let (id, agent) = begun(&mut run);
    run.event("the agent to speak", |event| event["kind"] == "progress");
    assert!(disk.freeze());
    until("the keeper to wait for its disk", BOUND_MS, || {
        keepers(&id).into_iter().any(is_in_disk_wait).then_some(())
    });
    let asked = std::time::Instant::now();
    let stop = ostler.starts(&["stop", "--now", &id]);
    let events = until("the end of the run", BOUND_MS, || {
        let events = ostler.events(&["show", &id, "--json"]);
        events.iter().any(|event| event["kind"] == "result").then_some(events)
    });
    let settled_ms = asked.elapsed().as_millis();
    eprintln!("a keeper that waits for a disk: settled {settled_ms} ms after the stop");
    assert!(settled_ms < SETTLED_MS + BUSY_MS, "{settled_ms} ms");
    assert_eq!(result(&events)["outcome"], "cancelled", "{:#?}", events.last());
    let warned = |event: &Value| {
        event["text"].as_str().is_some_and(|text| text.contains("could not be ended"))
    };
    assert!(events.iter().any(warned), "{events:#?}");
    let is_dead =
        || std::fs::read(format!("/proc/{agent}/cmdline")).map_or(true, |argv| argv.is_empty());
    until("the agent to be ended", BOUND_MS, || is_dead().then_some(()));
    assert_eq!(stop.finish().code, 0);
    // What waited for the disk goes on, and ends.
    drop(disk);
    assert_eq!(run.finish().code, 130);
    nothing_is_left(&ostler, "a keeper that waited for its disk");
}

/// What a host shows to the keeper of a first attempt, as its successor derives it.
fn hello_secret(ostler: &Ostler, run: &str) -> String {
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    let key = blake3::derive_key("ostler 2026-11 secrets of one run", token.trim().as_bytes());
    blake3::keyed_hash(&key, format!("hello {run} 1").as_bytes()).to_hex().to_string()
}

#[test]
fn a_keeper_that_let_go_of_its_host_is_taken_up_again() {
    let script = "--burst 5 --sleep-ms 2000 --tool list_files {} --burst 9";
    let quiet = Ostler::new();
    let expected = quiet.events(&["run", "--process", &quiet.fake(script), "x", "--json"]);

    let ostler = Ostler::new();
    let mut run = ostler.starts(&["run", "--process", &ostler.fake(script), "x", "--json"]);
    let (id, _) = begun(&mut run);
    let kept = ostler.files().into_iter().find(|path| path.ends_with("keepsake")).unwrap();
    let secret = hello_secret(&ostler, &id);
    // Whoever knows the secret is obeyed, and the host it obeyed before sees its connection end.
    let stolen = keeper::door::dial(kept.parent().unwrap(), &secret, 1).unwrap();
    drop(stolen);
    let said = run.finish();
    let events = ostler.events(&["show", &id, "--json"]);
    assert_eq!(said.code, 0, "{:#?}", events.last());
    assert_gap_free(&events);
    assert_eq!(deeds(&events), deeds(&expected));
    let adopted = events.iter().filter(|event| event["phase"] == "adopted").count();
    assert_eq!(adopted, 1, "{events:#?}");
    nothing_is_left(&ostler, "a stolen keeper");
}
