//! `ostler remote`: every route of its table × no token, wrong tokens, foreign hosts, browsers, wrong
//! content types and bodies without end. Each row goes through the same routes as the API's, made from
//! the table that the router is made of; the requests that must pass are here too.

use super::{Tally, bad_headers, bodies, filled, knocks};
use crate::door::{Answer, Door, written};
use crate::ostler::{BOUND_MS, Ostler, Running};
use crate::remote_caller::TOKEN;
use contract::limits::{BODY_BYTES_MAX, REFUSED_MAX, REFUSED_TOLD_MAX, WATCHERS_MAX};
use server::remote::{Access, ROUTES};
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;

/// One method of one route.
struct Place {
    method: String,
    path: String,
    /// The address as the table has it.
    route: &'static server::remote::Route,
    access: Access,
}

impl Place {
    fn all() -> Vec<Self> {
        let of = |route: &'static server::remote::Route| {
            route.methods.iter().map(move |method| Self {
                method: method.verb.to_uppercase(),
                path: filled(route.path, "run_00000000000000000000000000000001"),
                route,
                access: method.access,
            })
        };
        let places: Vec<_> = ROUTES.iter().flat_map(of).collect();
        assert!(places.len() >= ROUTES.len() && ROUTES.len() >= 5, "every route has a method");
        places
    }

    fn is_open(&self) -> bool {
        self.access == Access::Open
    }

    /// Whether what is said beside the address counts.
    fn is_told(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "DELETE")
    }

    /// What is answered when nothing was in the way: nobody named a session that is there.
    fn unhindered(&self) -> u16 {
        match (self.is_open(), self.path.contains("run_")) {
            (true, _) => 200,
            (false, true) => 404,
            (false, false) => 400,
        }
    }
}

/// A remote of the demo agent, with these flags.
fn served(flags: &[&str]) -> Door {
    let ostler = Ostler::new();
    let mut command = ostler.command(&[&["remote", "--agent", "demo"], flags].concat());
    let mut serve = Running::of(command.env("REMOTE_TOKEN", TOKEN));
    let line = serve.line();
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    assert!(port.parse::<u16>().is_ok(), "it does not listen: {line}");
    Door { ostler, serve, address: format!("127.0.0.1:{port}"), token: TOKEN.to_owned() }
}

fn open() -> Door {
    served(&["--listen", "127.0.0.1:0", "--token-env", "REMOTE_TOKEN"])
}

/// Headers of a request.
type Headers = Vec<(&'static str, String)>;

fn good(door: &Door) -> Headers {
    let bearer = format!("Bearer {}", door.token);
    vec![host(door), ("authorization", bearer), ("content-type", "application/json".to_owned())]
}

fn host(door: &Door) -> (&'static str, String) {
    ("host", door.address.clone())
}

/// The good headers with one of them as it is given, or without it.
fn otherwise(door: &Door, name: &'static str, values: &[&str]) -> Headers {
    let mut headers = good(door);
    headers.retain(|(known, _)| *known != name);
    headers.extend(values.iter().map(|value| (name, (*value).to_owned())));
    headers
}

fn knocked(door: &Door, place: &Place, headers: &Headers) -> Answer {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    door.request(&place.method, &place.path, &headers, "{}")
}

/// One row: the answer has this status, in the words of the protocol when it is a refusal, and says
/// what every answer says.
fn met(tally: &mut Tally, place: &Place, what: &str, answer: &Answer, wanted: u16) {
    let at = || format!("{} {} with {what}: {}", place.method, place.path, answer.status);
    tally.row(answer.status == wanted, || format!("{}, not {wanted}: {}", at(), answer.body));
    let bad = bad_headers(answer);
    tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
    let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let code = match answer.status {
        400 => "usage",
        // HEAD has no words.
        405 if place.method != "HEAD" => "method_not_allowed",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not_found",
        413 => "too_large",
        415 => "unsupported_media",
        _ => return,
    };
    let worded = said["code"] == code && said["message"].is_string() && said["hint"].is_string();
    tally.row(worded, || format!("{}, in other words: {}", at(), answer.body));
}

#[test]
fn no_route_opens_without_the_one_token() {
    let door = open();
    let mut tally = Tally::new("tokens of the remote");
    let [less, more, other] = [&TOKEN[1..], &format!("{TOKEN}0"), "remote-hush-2027"];
    let wrong: Vec<Vec<String>> = vec![
        vec![],
        vec!["Bearer ".to_owned()],
        vec![format!("Bearer {less}")],
        vec![format!("Bearer {more}")],
        vec![format!("Bearer {other}")],
        vec![format!("Bearer  {TOKEN}")],
        vec![format!("bearer {TOKEN}")],
        vec![format!("Basic {TOKEN}")],
        vec![TOKEN.to_owned()],
        vec![format!("Bearer {TOKEN}, Bearer {TOKEN}")],
        vec![format!("Bearer {TOKEN}"), format!("Bearer {TOKEN}")],
    ];
    for place in Place::all() {
        for values in &wrong {
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            let answer = knocked(&door, &place, &otherwise(&door, "authorization", &values));
            let wanted = if place.is_open() { place.unhindered() } else { 401 };
            met(&mut tally, &place, &format!("{values:?}"), &answer, wanted);
        }
        let answer = knocked(&door, &place, &good(&door));
        met(&mut tally, &place, "the token", &answer, place.unhindered());
    }
    tally.close(200);
}

#[test]
fn no_route_answers_to_another_name() {
    let door = open();
    let port = door.port();
    let mut tally = Tally::new("hosts of the remote");
    let names = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("evil.localhost:{port}"),
        format!("localhost.:{port}"),
        format!("127.0.0.2:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("user@127.0.0.1:{port}"),
        "127.0.0.1".to_owned(),
        "localhost:1".to_owned(),
        String::new(),
    ];
    for place in Place::all() {
        for name in &names {
            let answer = knocked(&door, &place, &otherwise(&door, "host", &[name]));
            met(&mut tally, &place, &format!("the host {name}"), &answer, 403);
        }
        for values in
            [&[][..], &[door.address.as_str(), "evil.example"], &["evil.example", &door.address]]
        {
            let answer = knocked(&door, &place, &otherwise(&door, "host", values));
            met(&mut tally, &place, &format!("the hosts {values:?}"), &answer, 403);
        }
        let whole = Place { path: format!("http://evil.example:{port}{}", place.path), ..place };
        met(&mut tally, &whole, "its address", &knocked(&door, &whole, &good(&door)), 403);
    }
    for place in Place::all() {
        for name in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
            let name = format!("{name}:{port}");
            let answer = knocked(&door, &place, &otherwise(&door, "host", &[&name]));
            met(&mut tally, &place, &format!("the host {name}"), &answer, place.unhindered());
        }
    }
    tally.close(300);
}

#[test]
fn beyond_loopback_it_is_called_by_its_address_and_by_the_name_it_was_given() {
    let mut tally = Tally::new("hosts of a remote beyond loopback");
    let listen = ["--listen", "0.0.0.0:0", "--allow-insecure", "--token-env", "REMOTE_TOKEN"];
    let named = served(&[&listen[..], &["--public-url", "https://far.example"]].concat());
    let here = ["--listen", "127.0.0.1:0", "--token-env", "REMOTE_TOKEN"];
    let tunnel = served(&[&here[..], &["--public-url", "http://127.0.0.1:9"]].concat());
    let (far, near) = (named.port().to_owned(), tunnel.port().to_owned());
    let rows = [
        (&named, format!("127.0.0.1:{far}"), true),
        (&named, format!("192.0.2.7:{far}"), true),
        (&named, "far.example".to_owned(), true),
        (&named, "FAR.example".to_owned(), true),
        (&named, format!("localhost:{far}"), false),
        (&named, format!("evil.example:{far}"), false),
        (&named, "far.example.evil".to_owned(), false),
        (&named, "192.0.2.7:1".to_owned(), false),
        (&tunnel, format!("127.0.0.1:{near}"), true),
        (&tunnel, "127.0.0.1:9".to_owned(), true),
        (&tunnel, "evil.example:9".to_owned(), false),
    ];
    for place in Place::all() {
        for (door, name, own) in &rows {
            let answer = knocked(door, &place, &otherwise(door, "host", &[name]));
            let wanted = if *own { place.unhindered() } else { 403 };
            met(&mut tally, &place, &format!("the host {name}"), &answer, wanted);
        }
    }
    tally.close(150);
    let ostler = Ostler::new();
    let said = ostler.says(&["remote", "--agent", "demo", "--no-auth", "--public-url", "far"]);
    assert!(said.code == 2 && said.stderr.contains("--public-url far"), "{}", said.stderr);
}

#[test]
fn no_route_answers_to_a_browser() {
    let door = open();
    let mut tally = Tally::new("origins of the remote");
    let rows: Vec<(&'static str, String)> = vec![
        ("origin", "http://evil.example".to_owned()),
        ("origin", "null".to_owned()),
        ("origin", String::new()),
        ("origin", format!("http://{}", door.address)),
        ("origin", format!("http://localhost:{}", door.port())),
        ("sec-fetch-site", "cross-site".to_owned()),
        ("sec-fetch-site", "same-origin".to_owned()),
        ("sec-fetch-site", "none".to_owned()),
    ];
    for place in Place::all() {
        for (name, value) in &rows {
            let answer = knocked(&door, &place, &otherwise(&door, name, &[value]));
            met(&mut tally, &place, &format!("{name}: {value}"), &answer, 403);
        }
    }
    tally.close(100);
}

#[test]
fn what_is_told_is_json_and_has_an_end() {
    let door = open();
    let mut tally = Tally::new("bodies of the remote");
    let types: &[&[&str]] = &[
        &[],
        &[""],
        &["text/plain"],
        &["text/plain;charset=UTF-8"],
        &["application/x-www-form-urlencoded"],
        &["multipart/form-data; boundary=x"],
        &["text/json"],
        &["application/json-seq"],
        &["text/plain, application/json"],
        &["application/json", "text/plain"],
    ];
    for place in Place::all() {
        for values in types {
            let answer = knocked(&door, &place, &otherwise(&door, "content-type", values));
            let wanted = if place.is_told() { 415 } else { place.unhindered() };
            met(&mut tally, &place, &format!("{values:?}"), &answer, wanted);
        }
        for value in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
            let answer = knocked(&door, &place, &otherwise(&door, "content-type", &[value]));
            met(&mut tally, &place, value, &answer, place.unhindered());
        }
        // As long as it may be, it is read.
        let whole = [&vec![b' '; BODY_BYTES_MAX - 2][..], b"{}"].concat();
        let headers = good(&door);
        let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
        if place.is_told() {
            let answer = door.knock(&written(&place.method, &place.path, &headers, &whole));
            met(&mut tally, &place, "the longest body", &answer, place.unhindered());
        }
        // What it says of itself is enough: not one byte of it is waited for, nor where nothing is read.
        for length in [BODY_BYTES_MAX + 1, 1 << 30] {
            let length = length.to_string();
            let mut headers = good(&door);
            headers.push(("content-length", length.clone()));
            let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let answer = door.knock(&written(&place.method, &place.path, &headers, b""));
            let wanted = if place.is_told() { 413 } else { place.unhindered() };
            met(&mut tally, &place, &format!("{length} bytes"), &answer, wanted);
        }
    }
    tally.close(200);
}

#[test]
fn no_name_of_a_session_leads_anywhere_and_no_other_method_is_taken() {
    let door = open();
    let mut tally = Tally::new("names and methods of the remote");
    let long = "a".repeat(4096);
    for place in Place::all() {
        let takes = |method: &str| {
            // HEAD is GET without the body.
            let method = if method == "HEAD" { "GET" } else { method };
            place.route.methods.iter().any(|known| known.verb.to_uppercase() == method)
        };
        for method in knocks::METHODS.iter().filter(|method| !takes(method)) {
            let other = Place { method: (*method).to_owned(), path: place.path.clone(), ..place };
            met(&mut tally, &other, "no row", &knocked(&door, &other, &good(&door)), 405);
        }
        let named = place.route.path.contains('{');
        for trick in knocks::TRICKS.iter().copied().chain([long.as_str()]).filter(|_| named) {
            let path = filled(place.route.path, trick);
            let other = Place { method: place.method.clone(), path, ..place };
            let answer = knocked(&door, &other, &good(&door));
            // What is no address at all is refused before anyone reads it.
            if answer.status != 400 || !answer.body.is_empty() {
                let wanted = if answer.status == 400 { 400 } else { 404 };
                met(&mut tally, &other, "a trick", &answer, wanted);
            }
        }
    }
    tally.close(300);
}

#[test]
fn no_odd_or_endless_request_is_taken() {
    let door = open();
    let body = r#"{"runId":"live","prompt":"ask me"}"#;
    let headers = good(&door);
    let base: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let opened = door.request("POST", "/v1/sessions", &base, body);
    assert_eq!(opened.status, 201, "{opened:?}");
    let opened: serde_json::Value = serde_json::from_str(&opened.body).unwrap();
    let session = opened["id"].as_str().expect("an id");
    let mut tally = Tally::new("odd requests of the remote");
    let (long, names) = ("x".repeat(64 << 10), (0..1_000).map(|i| format!("x-{i}")));
    let names: Vec<String> = names.collect();
    for place in Place::all() {
        // What is not there would be refused whatever is said to it.
        let path = filled(place.route.path, session);
        let place = Place { path, ..place };
        let at = |what: &str, answer: &Answer| {
            format!("{} {} with {what}: {answer:?}", place.method, place.path)
        };
        for given in bodies::odd().iter().filter(|_| place.is_told()) {
            let answer = door.knock(&written(&place.method, &place.path, &base, given));
            let shown = String::from_utf8_lossy(&given[..given.len().min(40)]).into_owned();
            let refused = matches!(answer.status, 400 | 413 | 415 | 422);
            tally.row(refused, || at(&shown, &answer));
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{shown}: {}", bad.unwrap_or_default()));
        }
        if place.is_told() {
            let headers = [&base[..], &[("transfer-encoding", "chunked")]].concat();
            let head = written(&place.method, &place.path, &headers, b"");
            let answer = door.knock(&bodies::endless(head));
            // Whoever still writes when the answer comes may not read it.
            tally.row(matches!(answer.status, 413 | 0), || at("endless chunks", &answer));
        }
        let many = base.iter().copied().chain(names.iter().map(|name| (name.as_str(), "1")));
        for (what, headers) in [
            ("a header of 64 KiB", [&base[..], &[("x-long", long.as_str())]].concat()),
            ("a name of 64 KiB", [&base[..], &[(long.as_str(), "x")]].concat()),
            ("a thousand headers", many.collect()),
        ] {
            let answer = door.request(&place.method, &place.path, &headers, "{}");
            tally.row(matches!(answer.status, 431 | 0), || at(what, &answer));
        }
    }
    // After all of it the session is there, and so is the server.
    let answer = door.request("GET", &format!("/v1/sessions/{session}"), &base, "");
    tally.row(answer.status == 200, || format!("{answer:?}"));
    tally.close(90);
}

#[test]
fn guesses_are_counted_and_written_down_and_the_token_stays_good() {
    let door = open();
    let mut tally = Tally::new("guesses at the remote");
    let from = Ipv4Addr::new(127, 9, 1, 1);
    let asked = |values: &[&str]| {
        let headers = otherwise(&door, "authorization", values);
        let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
        door.knock_from(from, &written("POST", "/v1/sessions", &headers, b"{}")).status
    };
    for n in 0..REFUSED_MAX {
        let status = asked(&["Bearer guessed"]);
        tally.row(status == 401, || format!("guess {n}: {status}"));
    }
    let status = asked(&["Bearer guessed"]);
    tally.row(status == 429, || format!("one too many: {status}"));
    let status = asked(&[&format!("Bearer {TOKEN}")]);
    tally.row(status == 400, || format!("the token from the same address: {status}"));
    let file = door.ostler.instance.data().join("audit.jsonl");
    let audit = testkit::until("every line to be written", BOUND_MS, || {
        let text = std::fs::read_to_string(&file).ok()?;
        (text.lines().count() >= REFUSED_TOLD_MAX as usize).then_some(text)
    });
    let lines = audit.lines().filter(|line| line.contains("/v1/sessions")).count();
    tally.row(lines == REFUSED_TOLD_MAX as usize, || format!("{lines} lines: {audit}"));
    tally.row(!audit.contains("guessed"), || audit.clone());
    tally.close(60);
}

#[test]
fn more_readers_than_there_are_places_are_told_so() {
    let door = open();
    let headers = good(&door);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    // Nobody answers what it asks for, so it goes on for as long as it is read.
    let new = r#"{ "runId": "read by many", "prompt": "slow" }"#;
    let opened = door.request("POST", "/v1/sessions", &headers, new);
    assert_eq!(opened.status, 201, "{}", opened.body);
    let session: serde_json::Value = serde_json::from_str(&opened.body).unwrap();
    let target = format!("/v1/sessions/{}/events", session["id"].as_str().unwrap());
    let read = || {
        let mut stream = door.connect();
        stream.write_all(&written("GET", &target, &headers, b"")).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
    };
    let mut reading: Vec<_> = (0..WATCHERS_MAX).map(|_| read()).collect();
    assert!(reading.iter().all(|(status, _)| status == "200"), "there is a place for each of them");
    assert_eq!(read().0, "429");
    reading.pop();
    testkit::until("a place", BOUND_MS, || (read().0 == "200").then_some(()));
}
