//! The token of a run: it opens the tools of its run while that run is live, and nothing else. It is
//! in no command line and in nothing that is kept.

use super::{Place, Tally, filled};
use crate::door::{Door, written};
use crate::mcp::{Guest, list};
use crate::ostler::{BOUND_MS, Ostler, keepers, signal};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// A host lets go of a run moments after its end is seen: who asks in between must be refused already.
/// That moment is short, so it is tried more than once.
const AFTER_THE_END: usize = 6;

/// What opens the tools and nothing else, in the ways it could come damaged.
fn damaged(token: &str) -> Vec<(&'static str, String)> {
    let flipped = |at: usize| {
        let other = if token.as_bytes()[at] == b'0' { "1" } else { "0" };
        format!("{}{other}{}", &token[..at], &token[at + 1..])
    };
    vec![
        ("truncated", token[..token.len() - 1].to_owned()),
        ("truncated in front", token[1..].to_owned()),
        ("halved", token[..token.len() / 2].to_owned()),
        ("flipped first", flipped(0)),
        ("flipped in the middle", flipped(token.len() / 2)),
        ("flipped last", flipped(token.len() - 1)),
        ("longer", format!("{token}0")),
        ("doubled", format!("{token}{token}")),
        ("in capitals", token.to_uppercase()),
        ("reversed", token.chars().rev().collect()),
        ("empty", String::new()),
    ]
}

#[test]
fn the_token_of_a_run_opens_its_tools_and_nothing_else() {
    let door = Door::open();
    let guest = Guest::new(&door.ostler, &[]);
    let bearer = format!("Bearer {}", guest.token());
    let mut tally = Tally::new("run tokens");
    for place in Place::all().iter().filter(|place| !place.is_open() && !place.is_for_runs()) {
        for (name, target) in [
            ("as it is", place.path.clone()),
            ("with a way through /mcp", format!("/mcp/..{}", place.path)),
            ("with a double slash", format!("/{}", place.path)),
            ("with a capital", place.path.replacen("api", "API", 1)),
        ] {
            let headers = [
                ("host", door.address.as_str()),
                ("authorization", &bearer),
                ("content-type", "application/json"),
            ];
            let answer = door.request(&place.method, &target, &headers, "{}");
            // Its own costs are the one thing that it may see without naming itself.
            let is_own = place.route == "/api/v1/costs" && answer.status == 200;
            tally.row(is_own || matches!(answer.status, 401 | 403), || {
                format!("{} {target}, {name}: {}", place.method, answer.status)
            });
        }
    }
    for (name, token) in damaged(guest.token()) {
        let (status, _) = guest.post_as(&token, &list());
        // All digits may be decimal, and then capitals are the same token.
        let same = token == guest.token();
        tally.row(status == if same { 200 } else { 401 }, || format!("{name}: {status}"));
    }
    let (status, body) = guest.post(&list());
    tally.row(status == 200, || format!("the token itself: {status} {body}"));
    guest.finish();
    tally.close(70);
}

#[test]
fn the_token_of_a_run_is_good_for_no_other_run_that_lives() {
    let door = Door::open();
    let other_work = door.ostler.instance.root().join("other");
    std::fs::create_dir_all(&other_work).unwrap();
    let one = Guest::new(&door.ostler, &[]);
    let other = Guest::of_cwd(&door.ostler, &other_work);
    let places: Vec<_> = Place::all().into_iter().filter(Place::is_for_runs).collect();
    let named: Vec<_> = places.iter().filter(|place| place.route.contains("{run}")).collect();
    assert!(named.len() >= 2, "the workspace and the call back");
    let body = r#"{"events":[]}"#;
    let mut tally = Tally::new("tokens of other runs");
    for place in named {
        let asked = |run: &str, token: &str| {
            let bearer = format!("Bearer {token}");
            let headers = [
                ("host", door.address.as_str()),
                ("authorization", &bearer),
                ("content-type", "application/json"),
            ];
            door.request(&place.method, &filled(place.route, run), &headers, body)
        };
        for (whose, run, token) in
            [("the one's", other.run(), one.token()), ("the other's", one.run(), other.token())]
        {
            let answer = asked(&run, token);
            let at = || format!("{whose} at {} {}: {answer:?}", place.method, place.route);
            tally.row(answer.status == 403, at);
            tally.row(answer.body.contains("this is not the token of that run"), at);
        }
        // Each at its own place is not refused for whose it is.
        for guest in [&one, &other] {
            let answer = asked(&guest.run(), guest.token());
            let own = !matches!(answer.status, 401 | 403 | 404);
            tally.row(own, || format!("its own at {} {}: {answer:?}", place.method, place.route));
        }
    }
    // The tools are those of the run whose token it is, whatever else lives.
    for (guest, text) in [(&one, "of the one"), (&other, "of the other")] {
        let said = guest.call("comment", &serde_json::json!({ "text": text }));
        tally.row(said.is_ok(), || format!("{said:?}"));
    }
    for (guest, text) in [(one, "of the one"), (other, "of the other")] {
        let said = serde_json::Value::from(guest.finish()).to_string();
        let (own, both) = (said.contains(text), said.matches("of the o").count());
        tally.row(own && both == said.matches(text).count(), || said);
    }
    tally.close(16);
}

#[test]
fn the_token_of_a_run_ends_with_it_however_it_ends() {
    let mut tally = Tally::new("ended runs");
    for end in ["complete", "stop", "lease"] {
        let ostler = Ostler::new();
        if end == "lease" {
            ostler.instance.write_config(r#"{ "server": { "leaseSec": 2 } }"#);
        }
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        serve.line();
        let guest = Guest::new(&ostler, &[]);
        let (first, _) = guest.post(&list());
        tally.row(first == 200, || format!("before {end}: {first}"));
        let fetched = guest.fetch();
        tally.row(fetched == 200, || format!("the workspace before {end}: {fetched}"));
        let run = guest.run();
        match end {
            "stop" => assert_eq!(ostler.says(&["stop", &run, "--now"]).code, 0),
            "lease" => {
                // The host sleeps past its lease; the keeper ends the agent without it.
                let host = serve.child.id() as i32;
                signal(host, Signal::STOP);
                testkit::until("the end of the keeper", BOUND_MS, || {
                    keepers(&run).is_empty().then_some(())
                });
                signal(host, Signal::CONT);
            }
            _ => guest.release(),
        }
        testkit::until("the end of the token", BOUND_MS, || {
            (guest.post(&list()).0 == 401).then_some(())
        });
        // Once ended it stays so.
        let (status, _) = guest.post(&list());
        tally.row(status == 401, || format!("after {end}: {status}"));
        let fetched = guest.fetch();
        tally.row(fetched == 401, || format!("the workspace after {end}: {fetched}"));
        guest.finish();
        let _ = serve.child.kill();
        let _ = serve.child.wait();
    }
    tally.close(12);
}

/// Asks for the tools of a run as soon as its end is on the wire, and gives the status of the answer.
fn asked_after_the_end(door: &Door, guest: &Guest) -> u16 {
    let mut watched = door.connect();
    let target = format!("/api/v1/runs/{}/events", guest.run());
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("accept", "text/event-stream"),
    ];
    watched.write_all(&written("GET", &target, &headers, b"")).unwrap();
    let bearer = format!("Bearer {}", guest.token());
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let ask = written("POST", "/mcp", &headers, list().to_string().as_bytes());
    // Connected beforehand, so that nothing stands between seeing and asking.
    let mut asking = door.connect();
    guest.release();
    let (mut seen, mut piece) = (Vec::new(), [0; 65536]);
    while !seen.windows(15).any(|window| window == br#""kind":"result""#) {
        let read = watched.read(&mut piece).unwrap();
        assert!(read > 0, "the run ends: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
    asking.write_all(&ask).unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn whoever_has_seen_the_end_of_a_run_finds_its_token_ended() {
    let door = Door::open();
    let mut tally = Tally::new("tokens after the end");
    for n in 0..AFTER_THE_END {
        let guest = Guest::new(&door.ostler, &[]);
        let status = asked_after_the_end(&door, &guest);
        tally.row(status == 401, || format!("run {n}: {status}"));
        guest.finish();
        for left in ["door", "done"] {
            std::fs::remove_file(door.ostler.instance.work().join(left)).unwrap();
        }
    }
    tally.close(AFTER_THE_END);
}

/// The processes whose command line holds this.
fn spoken_of(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter(|pid| {
        let argv = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        argv.windows(text.len()).any(|window| window == text.as_bytes())
    })
    .collect()
}

/// The files beneath a directory that hold this.
fn kept_in(ostler: &Ostler, dir: &Path, text: &str) -> Vec<String> {
    let files = ostler.files().into_iter().filter(|path| path.starts_with(dir));
    let holding = files.filter(|path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    });
    holding.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_token_is_in_no_command_line_and_in_nothing_that_is_kept() {
    let door = Door::open();
    let ostler = &door.ostler;
    let guest = Guest::new(ostler, &["--permission", "allow-all"]);
    // The agent repeats its token by every way it has.
    let token = guest.token();
    for (tool, args) in [
        ("comment", serde_json::json!({ "text": token })),
        ("report_progress", serde_json::json!({ "summary": token })),
        ("upload_asset", serde_json::json!({ "name": "a", "content": token })),
        ("read_file", serde_json::json!({ "path": token })),
    ] {
        let _ = guest.call(tool, &args);
    }
    let mut tally = Tally::new("tokens kept");
    for (name, token) in [("the run's", token), ("the owner's", door.token.as_str())] {
        let found = spoken_of(token);
        tally.row(found.is_empty(), || format!("{name} is in the command line of {found:?}"));
    }
    for dir in [ostler.instance.data(), ostler.instance.runtime()] {
        let found = kept_in(ostler, &dir, token);
        tally.row(found.is_empty(), || format!("the run's is in {found:?}"));
    }
    // The instruments see what is there.
    let mut child =
        Command::new("sh").args(["-c", "read line", token]).stdin(Stdio::piped()).spawn().unwrap();
    // The kernel shows it a moment after the program has begun.
    testkit::until("the command line", BOUND_MS, || spoken_of(token).pop());
    child.kill().unwrap();
    child.wait().unwrap();
    let found = kept_in(ostler, &ostler.instance.data(), &door.token);
    tally.row(found.len() == 1 && found[0].ends_with("/token"), || format!("{found:?}"));
    guest.finish();
    let found = kept_in(ostler, &ostler.instance.data(), &door.token);
    tally.row(found.len() == 1, || format!("{found:?}"));
    tally.close(6);
}
