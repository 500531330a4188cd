//! Requests without a good token: counted by address, told to wait when there are too many, written
//! down while there are few, and never in a way that shuts out whoever has the token.

use super::Tally;
use crate::door::{Door, written};
use contract::limits::{REFUSED_MAX, REFUSED_TOLD_MAX};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;

const NOISY: Ipv4Addr = Ipv4Addr::new(127, 8, 0, 1);
const QUIET: Ipv4Addr = Ipv4Addr::new(127, 8, 0, 2);
/// In the place of the token, of a name of a route, and of a method: none may be kept.
const WORDS: [&str; 3] = ["guessed-token-5f1d", "guessed-path-5f1d", "GUESSED"];

#[test]
fn whoever_guesses_tokens_is_told_to_wait_and_the_owner_never_is() {
    let door = Door::open();
    let request = |method: &str, path: &str, bearer: &str| {
        let headers = [("host", door.address.as_str()), ("authorization", bearer)];
        written(method, path, &headers, b"")
    };
    let [token, path, method] = WORDS;
    let wrong = request("GET", "/api/v1/runs?x=guessed-path-5f1d", &format!("Bearer {token}"));
    let right = request("GET", "/api/v1/host", &format!("Bearer {}", door.token));
    let mut tally = Tally::new("guessed tokens");
    for n in 0..REFUSED_MAX + 20 {
        let status = door.knock_from(NOISY, &wrong).status;
        let expected = if n < REFUSED_MAX { 401 } else { 429 };
        tally.row(status == expected, || format!("guess {n}: {status}, not {expected}"));
    }
    let status = door.knock_from(NOISY, &right).status;
    tally.row(status == 200, || format!("the owner, from the same address: {status}"));
    let odd = request(method, &format!("/{path}"), &format!("Bearer {token}"));
    let status = door.knock_from(QUIET, &odd).status;
    tally.row(status == 401, || format!("from another address: {status}"));

    let file = door.ostler.instance.data().join("audit.jsonl");
    let lines = testkit::until("every line to be written", crate::ostler::BOUND_MS, || {
        let text = std::fs::read_to_string(&file).ok()?;
        (text.lines().count() > REFUSED_TOLD_MAX as usize).then_some(text)
    });
    for word in WORDS.into_iter().chain([door.token.as_str()]) {
        tally.row(!lines.contains(word), || format!("{word} is kept"));
    }
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let from = |address: Ipv4Addr| {
        let lines = lines.iter().filter(move |line| line["from"] == address.to_string());
        lines.collect::<Vec<_>>()
    };
    let told = from(NOISY).len();
    tally.row(told == REFUSED_TOLD_MAX as usize, || format!("{told} of the noisy are told"));
    let first = from(NOISY)[0];
    let shown = ["method", "route", "what", "code"].map(|name| first[name].as_str().unwrap_or(""));
    let expected = ["GET", "/api/v1/runs", "token_refused", "unauthorized"];
    tally.row(shown == expected, || format!("{first}"));
    tally.row(first["ts"].is_string(), || format!("no time: {first}"));
    let quiet = from(QUIET);
    let odd = quiet.iter().all(|line| line["route"].is_null() && line["method"] == "other");
    tally.row(quiet.len() == 1 && odd, || format!("{quiet:?}"));
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    tally.row(mode == 0o600, || format!("mode {mode:o}"));
    tally.close(REFUSED_MAX as usize + 30);
}
