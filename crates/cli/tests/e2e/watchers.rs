//! Watchers who do not read: they lose their places and not their events, end with their token, and
//! take nobody's place but their own.

use crate::door::{Door, written};
use crate::ostler::{BOUND_MS, Ostler, Running};
use contract::limits::{WATCHERS_MAX, WATCHERS_OF_OWNER_MIN, WATCHERS_OF_TOKEN_MAX};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;
use testkit::until;

/// What is told of a run is more than the system keeps for a connection by itself.
const EVENTS: usize = 4_000;
const LINE_BYTES: usize = 4_000;
/// What the system keeps of it for whoever does not read.
const WINDOW_BYTES: usize = 4_096;
/// For a server whose patience no test outlasts.
const NEVER_MS: u64 = 3_600_000;

/// A server with this patience for whoever does not read, and a run that said much.
fn served(patience_ms: u64) -> (Door, String) {
    let ostler = Ostler::new();
    let patience = [("OSTLER_STALLED_MS", patience_ms.to_string())];
    let door = Door::with_env(ostler, &patience);
    let agent = door.ostler.fake(&format!("--line-bytes {LINE_BYTES} --burst {EVENTS}"));
    let said = door.ostler.says(&["run", "--process", &agent, "go", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    (door, said.events()[0]["run_id"].as_str().unwrap().to_owned())
}

/// Sockets that a process holds.
fn sockets(pid: u32) -> usize {
    let held = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// What the system holds for each of those that are connected to the server, and has not sent.
fn unsent(door: &Door) -> Vec<u64> {
    let local = format!("0100007F:{:04X}", door.port().parse::<u16>().unwrap());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let connected = rows.filter(|row| row[1] == local && row[3] == "01");
    connected.map(|row| u64::from_str_radix(&row[4][..8], 16).unwrap()).collect()
}

fn viewer(door: &Door, name: &str) -> Value {
    let answer = door.owner(
        "POST",
        "/api/v1/tokens",
        &json!({ "name": name, "scope": "viewer" }).to_string(),
    );
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn bearer(token: &Value) -> String {
    format!("Bearer {}", token["token"].as_str().unwrap())
}

/// Whoever asks for the events of a run behind one of them, and reads the status of the answer alone.
struct Watcher {
    stream: TcpStream,
    status: String,
}

impl Watcher {
    fn new(door: &Door, bearer: &str, run: &str, behind: u64) -> Self {
        let (kind, family) = (SocketType::STREAM, AddressFamily::INET);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, WINDOW_BYTES).unwrap();
        connect(&socket, &door.address.parse::<SocketAddrV4>().unwrap()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
        let behind = behind.to_string();
        let headers = [
            ("host", door.address.as_str()),
            ("authorization", bearer),
            ("accept", "text/event-stream"),
            ("last-event-id", &behind),
        ];
        let target = format!("/api/v1/runs/{run}/events");
        stream.write_all(&written("GET", &target, &headers, b"")).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        Self { stream, status: String::from_utf8_lossy(&head[9..]).into_owned() }
    }

    /// Waits until the server has closed the connection, without reading what it sent before.
    fn is_cut(&self) {
        until("the end of a stream that nobody reads", BOUND_MS, || {
            self.stream.take_error().unwrap()
        });
    }

    /// What has come up to the end, as numbered events; one that came in part is none.
    fn events(mut self) -> Vec<(u64, String)> {
        let mut bytes = Vec::new();
        // A connection that was reset has what came before it all the same.
        let _ = self.stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (_, body) = text.split_once("\r\n\r\n").expect("an answer");
        let mut rest = body;
        let mut unchunked = String::new();
        while let Some((length, after)) = rest.split_once("\r\n") {
            let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
            unchunked.push_str(&after[..length.min(after.len())]);
            rest = after.get(length + 2..).unwrap_or_default();
        }
        let whole = unchunked.rfind("\n\n").map_or("", |end| &unchunked[..end]);
        let event = |frame: &str| {
            let id = frame.lines().find_map(|line| line.strip_prefix("id: "))?.parse().ok()?;
            Some((id, frame.lines().find_map(|line| line.strip_prefix("data: "))?.to_owned()))
        };
        whole.split("\n\n").filter_map(event).collect()
    }
}

#[test]
fn who_does_not_read_loses_the_place_and_finds_the_rest_behind_the_last_event() {
    let (door, run) = served(300);
    let all: Vec<Value> = door.ostler.events(&["show", &run, "--json"]);
    let bearer = bearer(&viewer(&door, "slow"));
    let watch = |behind| Watcher::new(&door, &bearer, &run, behind);
    let stalled: Vec<_> = (0..WATCHERS_OF_TOKEN_MAX).map(|_| watch(0)).collect();
    assert!(stalled.iter().all(|watcher| watcher.status == "200"));
    for watcher in stalled {
        watcher.is_cut();
        let mut events = watcher.events();
        let last = events.last().map_or(0, |(seq, _)| *seq);
        assert!(last < all.len() as u64, "it was cut before the end");
        let again = until("its place", BOUND_MS, || {
            Some(watch(last)).filter(|again| again.status == "200")
        });
        events.extend(again.events());
        assert_eq!(events.len(), all.len(), "behind {last}");
        for ((seq, data), event) in events.iter().zip(&all) {
            assert_eq!(event["seq"], *seq);
            assert_eq!(&serde_json::from_str::<Value>(data).unwrap(), event);
        }
    }
}

#[test]
fn a_stream_that_nobody_reads_ends_with_its_token_and_no_other_does() {
    let (door, run) = served(NEVER_MS);
    let (taken, kept) = (viewer(&door, "taken"), viewer(&door, "kept"));
    let watch = |token: &Value| Watcher::new(&door, &bearer(token), &run, 0);
    let before = until("nobody to be connected", BOUND_MS, || {
        Some(sockets(door.serve.child.id())).filter(|_| unsent(&door).is_empty())
    });
    let staying = watch(&kept);
    let ending: Vec<_> = (0..4).map(|_| watch(&taken)).collect();
    // Nothing more can be sent to any of them.
    let (mut looks, mut last) = (0, Vec::new());
    until("all of them to stall", BOUND_MS, || {
        let now = unsent(&door);
        let same = now == last && now.len() > ending.len() && now.iter().all(|bytes| *bytes > 0);
        looks = if same { looks + 1 } else { 0 };
        last = now;
        (looks == 100).then_some(())
    });
    let revoke = format!("/api/v1/tokens/{}/revoke", taken["id"].as_str().unwrap());
    assert_eq!(door.owner("POST", &revoke, "{}").status, 200);
    until("the end of the streams", BOUND_MS, || {
        (sockets(door.serve.child.id()) <= before + 1).then_some(())
    });
    assert!(staying.stream.take_error().unwrap().is_none(), "another's is left alone");
    assert!(staying.events().len() > EVENTS);
}

#[test]
fn tokens_have_their_shares_of_the_places_and_the_owner_always_has_one() {
    let (door, run) = served(NEVER_MS);
    let fill = |bearer: &str| {
        let mut held = Vec::new();
        loop {
            let watcher = Watcher::new(&door, bearer, &run, 0);
            match watcher.status.as_str() {
                "200" => held.push(watcher),
                status => {
                    assert_eq!(status, "429");
                    return held;
                }
            }
            assert!(held.len() <= WATCHERS_MAX, "there is no end of places");
        }
    };
    let others = WATCHERS_MAX - WATCHERS_OF_OWNER_MIN;
    let mut held = Vec::new();
    for number in 0..=others / WATCHERS_OF_TOKEN_MAX {
        let own = fill(&bearer(&viewer(&door, &format!("viewer {number}"))));
        let share = WATCHERS_OF_TOKEN_MAX.min(others - held.len());
        assert_eq!(own.len(), share, "viewer {number}");
        held.extend(own);
    }
    assert_eq!(held.len(), others);
    let own = fill(&format!("Bearer {}", door.token));
    assert_eq!(own.len(), WATCHERS_OF_OWNER_MIN);
}

#[test]
fn what_a_person_does_not_read_for_a_while_is_shown_whole() {
    let ostler = Ostler::new();
    let agent = ostler.fake(&format!("--line-bytes {LINE_BYTES} --burst {EVENTS}"));
    let run = ostler.events(&["run", "--process", &agent, "go", "--json"]);
    let run = run[0]["run_id"].as_str().unwrap();
    for args in [&["show", run, "--json"][..], &["show", run, "--raw"], &["export", run]] {
        let whole = ostler.says(args);
        assert_eq!(whole.code, 0, "{args:?}: {}", whole.stderr);
        // The command hosts the directory itself, as it does where nobody serves.
        let mut read = Running::of(ostler.command(args).env("OSTLER_STALLED_MS", "200"));
        let (pid, first) = (read.child.id(), read.line());
        let mut most = 0;
        until("the host to cut it off", BOUND_MS, || {
            most = most.max(sockets(pid));
            (sockets(pid) < most).then_some(())
        });
        let said = read.finish();
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        assert!(first + &said.stdout == whole.stdout, "{args:?} shows something else");
    }
}
