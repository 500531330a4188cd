//! Every route that takes a body × bodies that are too large, too deep, of the wrong shape or no
//! text. All are refused as the caller's fault: none is the server's own, and none is taken.

use super::{Place, Tally, bad_headers, runs};
use crate::door::{Door, written};
use crate::mcp::Guest;
use crate::ostler::BOUND_MS;
use contract::limits::{BODY_BYTES_MAX, PROMPT_BYTES_MAX};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A thing of every kind that an address can name, there and alive: what is not there would be refused
/// whatever is said of it.
struct Live {
    door: Door,
    guest: Guest,
    /// By the name of the parameter.
    named: BTreeMap<&'static str, String>,
}

impl Live {
    fn new() -> Self {
        let door = Door::open();
        let guest = Guest::new(&door.ostler, &[]);
        let work = door.ostler.instance.work();
        let made = |path: &str, body: Value| {
            let answer = door.owner("POST", path, &body.to_string());
            assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
            serde_json::from_str::<Value>(&answer.body).unwrap()
        };
        let text = |value: &Value| value.as_str().expect("an id").to_owned();
        made("/api/v1/agents", json!({ "name": "helper", "spec": { "adapter": "demo" } }));
        let task = made(
            "/api/v1/tasks",
            json!({ "title": "later", "agent": "helper", "cwd": work,
                "not_before": "2100-01-01T00:00:00Z" }),
        );
        let token = made("/api/v1/tokens", json!({ "name": "kept", "scope": "viewer" }));
        made(
            "/api/v1/runs",
            json!({ "agent": "demo", "prompt": "ask me", "cwd": work, "permission": "ask",
                "attended": true }),
        );
        let ask = testkit::until("a question", BOUND_MS, || {
            let open = door.owner("GET", "/api/v1/asks", "");
            let open: Value = serde_json::from_str(&open.body).ok()?;
            open["items"][0]["ask_id"].as_str().map(str::to_owned)
        });
        let named = BTreeMap::from([
            ("run", guest.run()),
            ("task", text(&task["id"])),
            ("agent", "helper".to_owned()),
            ("approval", ask.clone()),
            ("ask", ask),
            ("token", text(&token["id"])),
            ("runtime", "demo".to_owned()),
        ]);
        Self { door, guest, named }
    }

    /// Where the place is for things that are there.
    fn path(&self, place: &Place) -> String {
        let parts = place.route.split(['{', '}']).enumerate();
        parts.map(|(i, part)| if i % 2 == 1 { self.named[part].as_str() } else { part }).collect()
    }

    /// The token that a place takes: the owner's, or that of the run that is open meanwhile.
    fn bearer(&self, place: &Place) -> String {
        let token = if place.is_for_runs() { self.guest.token() } else { &self.door.token };
        format!("Bearer {token}")
    }
}

/// Bodies that no route wants: too deep, of the wrong shape, or no text.
pub fn odd() -> Vec<Vec<u8>> {
    let deep = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat();
    vec![
        b"".to_vec(),
        b"null".to_vec(),
        b"7".to_vec(),
        b"\"x\"".to_vec(),
        b"[]".to_vec(),
        b"[{}]".to_vec(),
        b"{".to_vec(),
        b"{}{}".to_vec(),
        b"{\"agent\":7,\"option\":7,\"kind\":7}".to_vec(),
        b"{\"agent\":{\"a\":[]},\"prompt\":null}".to_vec(),
        b"{\"__proto__\":{\"x\":1}}".to_vec(),
        b"{\"a\":\"\xff\xfe\"}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"{\"a\":\"\\ud800\"}".to_vec(),
        b"{\"a\":1e999999}".to_vec(),
        b"\0\0\0\0".to_vec(),
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        deep("[", "").into_bytes(),
        format!("{{\"agent\":\"{}\"}}", "x".repeat(1 << 20)).into_bytes(),
    ]
}

/// A body in chunks that is longer than it may be, behind the head of its request.
pub fn endless(mut request: Vec<u8>) -> Vec<u8> {
    let chunk = [format!("{:x}\r\n", 1 << 20).as_bytes(), &[b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..=BODY_BYTES_MAX >> 20 {
        request.extend_from_slice(&chunk);
    }
    request.extend_from_slice(b"2\r\n{}\r\n0\r\n\r\n");
    request
}

#[test]
fn no_body_is_taken_that_is_not_what_a_route_wants() {
    let live = Live::new();
    let door = &live.door;
    let bodies = odd();
    let before = runs(door);
    let mut tally = Tally::new("bodies");
    for place in Place::mutating().iter().filter(|place| place.wants_a_body()) {
        let (path, bearer) = (live.path(place), live.bearer(place));
        let is_a_body = |body: &&Vec<u8>| !(body.is_empty() && place.has_an_optional_body());
        for body in bodies.iter().filter(is_a_body) {
            let headers = [
                ("host", door.address.as_str()),
                ("authorization", &bearer),
                ("content-type", "application/json"),
                ("accept", "application/json, text/event-stream"),
            ];
            let answer = door.knock(&written(&place.method, &path, &headers, body));
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            let at = || format!("{} {} {shown}: {}", place.method, path, answer.status);
            tally.row(matches!(answer.status, 400 | 413 | 415 | 422), at);
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
        }
    }
    tally.row(runs(door) == before, || "a run was started".to_owned());
    live.guest.finish();
    tally.close(200);
}

#[test]
fn a_body_within_its_limit_is_read() {
    let door = Door::open();
    let prompt = "x".repeat(PROMPT_BYTES_MAX);
    assert!(prompt.len() < BODY_BYTES_MAX);
    let body = format!(r#"{{"agent":"nobody","cwd":"/","environment":{{}},"prompt":"{prompt}"}}"#);
    let answer = door.owner("POST", "/api/v1/runs", &body);
    assert!(answer.body.contains("nobody"), "it was read, and its agent is not known: {answer:?}");
}

#[test]
fn no_body_is_read_beyond_its_limit() {
    let live = Live::new();
    let door = &live.door;
    let mut tally = Tally::new("large bodies");
    for place in Place::mutating() {
        let (path, bearer) = (live.path(&place), live.bearer(&place));
        let base = [
            ("host", door.address.as_str()),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        // What it says of itself is enough: not one byte of it is waited for.
        for length in [BODY_BYTES_MAX as u64 + 1, 1 << 30, u64::MAX - 1] {
            let length = length.to_string();
            let headers = [&base[..], &[("content-length", length.as_str())]].concat();
            let answer = door.knock(&written(&place.method, &path, &headers, b""));
            let at = || format!("{} {} of {length}: {}", place.method, path, answer.status);
            // A number that no length can be is refused with the headers.
            tally.row(matches!(answer.status, 413 | 431), at);
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
        }
        // In chunks it is counted. Whoever still writes when the answer comes may not read it.
        let headers = [&base[..], &[("transfer-encoding", "chunked")]].concat();
        let request = endless(written(&place.method, &path, &headers, b""));
        let answer = door.knock(&request);
        tally.row(matches!(answer.status, 413 | 0), || {
            format!("{} {} in chunks: {}", place.method, path, answer.status)
        });
    }
    live.guest.finish();
    tally.close(30);
}
