//! What comes before any route: too many headers, too long ones, lines that are no HTTP, and
//! connections that never finish a request. All end, and a client with manners is served meanwhile.

use super::{Place, Tally, bad_headers};
use crate::door::{Door, written};
use crate::mcp::Guest;
use contract::limits::{CONNECTIONS_MAX, WATCHERS_MAX};
use std::io::{Read as _, Write as _};

/// How many come for whom there is no place.
const CROWD_WAITS: usize = 50;

#[test]
fn too_many_or_too_long_headers_are_refused_on_every_route() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let base = [
        ("host", door.address.as_str()),
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let long = "x".repeat(64 << 10);
    let names: Vec<String> = (0..1_000).map(|i| format!("x-{i}")).collect();
    let mut tally = Tally::new("headers");
    for place in Place::all() {
        let mut ways = vec![
            ("a header of 64 KiB", [&base[..], &[("x-long", long.as_str())]].concat()),
            ("a name of 64 KiB", [&base[..], &[(long.as_str(), "x")]].concat()),
        ];
        let many = names.iter().map(|name| (name.as_str(), "1"));
        ways.push(("a thousand headers", base.iter().copied().chain(many).collect()));
        for (name, headers) in ways {
            let answer = door.request(&place.method, &place.path, &headers, "{}");
            tally.row(matches!(answer.status, 431 | 0), || {
                format!("{} {} with {name}: {}", place.method, place.path, answer.status)
            });
        }
        let answer = door.request(&place.method, &format!("{}?{long}", place.path), &base, "{}");
        tally.row(matches!(answer.status, 414 | 431 | 0), || {
            format!("{} {} with a long query: {}", place.method, place.path, answer.status)
        });
    }
    let many: Vec<String> = (0..100_000).map(|i| format!("x-{i}")).collect();
    let headers: Vec<_> =
        base.iter().copied().chain(many.iter().map(|name| (name.as_str(), "1"))).collect();
    let answer = door.request("GET", "/api/v1/host", &headers, "");
    tally.row(matches!(answer.status, 431 | 0), || format!("10⁵ headers: {}", answer.status));
    tally.close(70);
}

#[test]
fn what_is_no_request_is_not_guessed_at() {
    let door = Door::open();
    let (host, token) = (&door.address, &door.token);
    let head = format!("host: {host}\r\nauthorization: Bearer {token}\r\n");
    let body = "content-type: application/json\r\n";
    let rows = [
        // Not HTTP, or of another kind.
        "\0\0\0\0".to_owned(),
        "hello\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}".to_owned(),
        format!("GET /api/v1/host HTTP/9.9\r\n{head}\r\n"),
        format!("GET  /api/v1/host HTTP/1.1\r\n{head}\r\n"),
        format!("GET /api/v1/host\r\n{head}\r\n"),
        format!("GET api/v1/host HTTP/1.1\r\n{head}\r\n"),
        format!("CONNECT {host} HTTP/1.1\r\n{head}\r\n"),
        format!("OPTIONS * HTTP/1.1\r\n{head}\r\n"),
        // One request that might be read as two.
        format!(
            "POST /api/v1/runs HTTP/1.1\r\n{head}{body}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"
        ),
        format!("POST /api/v1/runs HTTP/1.1\r\n{head}{body}content-length: -1\r\n\r\n{{}}"),
        format!("POST /api/v1/runs HTTP/1.1\r\n{head}{body}content-length: +2\r\n\r\n{{}}"),
        format!("POST /api/v1/runs HTTP/1.1\r\n{head}{body}transfer-encoding: gzip\r\n\r\n{{}}"),
        format!(
            "POST /api/v1/runs HTTP/1.1\r\n{head}{body}transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"
        ),
        format!(
            "POST /api/v1/runs HTTP/1.1\r\n{head}{body}transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n{{}}\r\n"
        ),
        // Headers that are none.
        format!("GET /api/v1/host HTTP/1.1\r\n{head} folded: 1\r\n\r\n"),
        format!("GET /api/v1/host HTTP/1.1\r\n{head}no colon\r\n\r\n"),
        format!("GET /api/v1/host HTTP/1.1\r\n{head}name : blank\r\n\r\n"),
        format!(
            "GET /api/v1/host HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\0\r\n\r\n"
        ),
        format!(
            "GET /api/v1/host HTTP/1.1\r\nhost: {host}\0\r\nauthorization: Bearer {token}\r\n\r\n"
        ),
    ];
    let mut tally = Tally::new("no requests");
    for row in rows {
        let mut stream = door.connect();
        let _ = stream.write_all(row.as_bytes());
        // Nothing follows, so what waits for more has to see the end.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        tally.row(status == 0 || (400..500).contains(&status), || format!("{row:?}: {answer}"));
        tally.row(answer.matches("HTTP/1.").count() <= 1, || format!("{row:?}: {answer}"));
    }
    tally.close(40);
}

/// Connections that say a part of a request and then nothing, or go on one byte at a time.
const DAWDLERS: usize = 200;

#[test]
fn a_request_that_never_ends_is_ended_and_holds_up_nobody() {
    let door = Door::open();
    let half = format!("GET /api/v1/host HTTP/1.1\r\nhost: {}\r\nx-slow: ", door.address);
    let dawdlers: Vec<_> = (0..DAWDLERS)
        .map(|i| {
            let mut stream = door.connect();
            // Some say nothing at all.
            if i % 4 != 0 {
                stream.write_all(half.as_bytes()).unwrap();
            }
            stream
        })
        .collect();
    let mut tally = Tally::new("slow requests");
    for _ in 0..50 {
        let answer = door.owner("GET", "/api/v1/host", "");
        tally.row(answer.status == 200, || format!("meanwhile: {}", answer.status));
        let bad = bad_headers(&answer);
        tally.row(bad.is_none(), || bad.unwrap_or_default());
    }
    // The first goes on a byte at a time: what counts is when the request began.
    let mut dripping = door.connect();
    dripping.write_all(half.as_bytes()).unwrap();
    let closed = testkit::until("the end of a slow request", crate::ostler::BOUND_MS, || {
        dripping.set_nonblocking(true).unwrap();
        let written = dripping.write(b"x");
        let read = dripping.read(&mut [0; 512]);
        // Either way it is told, by an answer or by the end of the connection.
        (written.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock) || read.is_ok())
            .then_some(true)
    });
    tally.row(closed, || "a dripping request lives on".to_owned());
    // They all began earlier, so their time is up as well.
    let mut left = dawdlers;
    testkit::until("the end of all slow requests", crate::ostler::BOUND_MS, || {
        left.retain_mut(|dawdler| {
            dawdler.set_nonblocking(true).unwrap();
            let read = dawdler.read(&mut [0; 512]);
            // The end comes as an answer, an end or a reset; silence is none of them.
            read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        });
        left.is_empty().then_some(())
    });
    tally.close(100);
}

#[test]
fn more_connections_than_there_are_places_wait_for_one() {
    let door = Door::open();
    let request = written("GET", "/healthz", &[("host", &door.address), ("x-fill", "")], b"");
    let files = || {
        let held = std::fs::read_dir(format!("/proc/{}/fd", door.serve.child.id()));
        held.map_or(0, Iterator::count)
    };
    let before = files();
    let mut crowd: Vec<_> = (0..CONNECTIONS_MAX + CROWD_WAITS).map(|_| door.connect()).collect();
    let mut tally = Tally::new("a crowd");
    // When the last of those with a place are answered, all places were taken, and no more are.
    for mut stream in crowd.drain(CONNECTIONS_MAX - 3..CONNECTIONS_MAX) {
        let _ = stream.write_all(&request);
        let _ = stream.read_to_string(&mut String::new());
    }
    let taken = files().saturating_sub(before);
    tally.row(taken < CONNECTIONS_MAX + CROWD_WAITS / 2, || format!("{taken} files are held"));
    // Everyone in the crowd is served in the end, and nobody's files were taken for it.
    for mut stream in crowd {
        let _ = stream.write_all(&request);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        tally.row(answer.is_empty() || answer.starts_with("HTTP/1.1 200"), || answer.clone());
    }
    let answer = door.owner("GET", "/api/v1/host", "");
    tally.row(answer.status == 200, || format!("afterwards: {}", answer.status));
    tally.close(500);
}

/// As many as ten thousand, if this process may have so many open.
const IDLE_MAX: usize = 10_000;
/// The owner asks after so many more have come.
const IDLE_STEP: usize = 500;

#[test]
fn a_crowd_that_says_nothing_keeps_nobody_waiting() {
    let door = Door::open();
    let files = || {
        let held = std::fs::read_dir(format!("/proc/{}/fd", door.serve.child.id()));
        held.map_or(0, Iterator::count)
    };
    let before = files();
    // A connection that was good once is nobody's to take.
    let bearer = format!("Bearer {}", door.token);
    let headers = [("host", door.address.as_str()), ("authorization", &bearer)];
    let request = written("GET", "/api/v1/host", &headers, b"");
    let request = String::from_utf8(request).unwrap().replace("connection: close", "x-kept: yes");
    let mut kept = door.connect();
    let mut ask = || {
        kept.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        kept.read_exact(&mut head).unwrap();
        // The rest of the answer is taken as it comes; the next question has its own.
        kept.set_nonblocking(true).unwrap();
        testkit::until("the rest of the answer", crate::ostler::BOUND_MS, || {
            let mut rest = [0; 4096];
            let read = kept.read(&mut rest);
            read.is_ok_and(|count| rest[..count].ends_with(b"}")).then_some(())
        });
        kept.set_nonblocking(false).unwrap();
        String::from_utf8_lossy(&head[9..]).into_owned()
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = limit.map_or(IDLE_MAX, |limit| (limit as usize).saturating_sub(200));
    let mut tally = Tally::new("ten thousand who say nothing");
    let mut crowd = Vec::new();
    while crowd.len() < room.min(IDLE_MAX) {
        crowd.extend((0..IDLE_STEP).map(|_| door.connect()));
        let answer = door.owner("GET", "/api/v1/host", "");
        tally.row(answer.status == 200, || format!("{} and then {answer:?}", crowd.len()));
        let status = ask();
        tally.row(status == "200", || format!("kept, {}: {status}", crowd.len()));
        let held = files().saturating_sub(before);
        tally.row(held < CONNECTIONS_MAX + CROWD_WAITS / 2, || format!("{held} files are held"));
    }
    eprintln!("{} connections that say nothing", crowd.len());
    tally.close(3 * room.min(IDLE_MAX) / IDLE_STEP);
}

#[test]
fn every_request_of_a_kept_connection_is_asked_who_it_is_from() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let good = [("host", door.address.as_str()), ("authorization", bearer.as_str())];
    let first = String::from_utf8(written("GET", "/api/v1/host", &good, b"")).unwrap();
    let first = first.replace("connection: close\r\n", "");
    let mut tally = Tally::new("a second request on a connection that was good");
    for (headers, status) in [
        (vec![good[0], good[1]], "200"),
        (vec![good[0]], "401"),
        (vec![good[0], ("authorization", "Bearer guessed")], "401"),
        (vec![("host", "rebound.example"), good[1]], "403"),
        (vec![good[0], good[1], ("origin", "http://rebound.example")], "403"),
    ] {
        let second = written("GET", "/api/v1/runs", &headers, b"");
        let mut stream = door.connect();
        stream.write_all(first.as_bytes()).unwrap();
        stream.write_all(&second).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let heads: Vec<&str> =
            said.split("HTTP/1.1 ").skip(1).filter_map(|head| head.get(..3)).collect();
        tally.row(heads == ["200", status], || format!("{headers:?}: {heads:?}"));
    }
    tally.close(5);
}

#[test]
fn more_watchers_than_there_are_places_are_told_so() {
    let door = Door::open();
    let guest = Guest::new(&door.ostler, &[]);
    let target = format!("/api/v1/runs/{}/events", guest.run());
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("accept", "text/event-stream"),
    ];
    let watch = || {
        let mut stream = door.connect();
        stream.write_all(&written("GET", &target, &headers, b"")).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
    };
    // Whoever started the run watches it too.
    let watching: Vec<_> = (0..WATCHERS_MAX + 1).map(|_| watch()).collect();
    let admitted = watching.iter().filter(|(status, _)| status == "200").count();
    assert!(admitted > 0 && admitted <= WATCHERS_MAX, "{admitted} are admitted");
    assert_eq!(watching.last().unwrap().0, "429");
    drop(watching);
    testkit::until("a place", crate::ostler::BOUND_MS, || (watch().0 == "200").then_some(()));
    guest.finish();
}
