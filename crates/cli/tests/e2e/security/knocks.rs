//! Every route × every method it does not take, every wrong content type, and every trick in the
//! place of a parameter. A method that only looks changes nothing; what is not understood is a
//! fault in our own words.

use super::{Place, Tally, bad_headers, filled, runs};
use crate::door::{Answer, Door};
use server::rest::ROUTES;

/// Those that exist, those that browsers send by themselves, and some that nobody knows.
pub const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "BREW",
];

#[test]
fn a_route_takes_the_methods_of_its_row_and_no_others() {
    let door = Door::open();
    let mut tally = Tally::new("methods");
    for route in ROUTES {
        let path = filled(route.path, "run_00000000000000000000000000000001");
        let takes = |method: &str| {
            // HEAD is GET without the body.
            let method = if method == "HEAD" { "GET" } else { method };
            route.methods.iter().any(|known| known.verb.to_uppercase() == method)
        };
        for method in METHODS.iter().filter(|method| !takes(method)) {
            let answer = door.owner(method, &path, "{}");
            let at = || format!("{method} {path}: {}", answer.status);
            tally.row(answer.status == 405, at);
            let told = answer.header("allow").is_some_and(|taken| !taken.contains(method));
            tally.row(told, || format!("{}, allow {:?}", at(), answer.header("allow")));
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
            let bearer = format!("Bearer {}", door.token);
            let bare = [("host", door.address.as_str()), ("authorization", bearer.as_str())];
            let status = door.request(method, &path, &bare, "").status;
            tally.row(status == 405, || format!("{method} {path} as nothing: {status}"));
            // No preflight of a browser is answered with leave.
            let allowed = answer.headers.iter().any(|(name, _)| name.starts_with("access-control"));
            tally.row(!allowed, at);
        }
    }
    tally.close(300);
}

#[test]
fn looking_changes_nothing() {
    let door = Door::open();
    let mut tally = Tally::new("safe methods");
    let before = runs(&door);
    let body = format!(
        r#"{{"agent":"demo","prompt":"hello","cwd":"{}"}}"#,
        door.ostler.instance.work().display()
    );
    for place in Place::mutating() {
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            let answer = door.owner(method, &place.path, &body);
            // A look at what is not there is one too.
            let held =
                (200..300).contains(&answer.status) || matches!(answer.status, 404 | 405 | 415);
            tally.row(held, || format!("{method} {}: {}", place.path, answer.status));
        }
    }
    tally.row(runs(&door) == before, || "a run was started".to_owned());
    let serves = door.owner("GET", "/api/v1/host", "");
    tally.row(serves.status == 200, || "the host was asked away".to_owned());
    // The instrument sees a run that is started.
    let started = door.owner("POST", "/api/v1/runs", &body);
    assert_eq!((started.status, runs(&door)), (201, before + 1), "{}", started.body);
    tally.close(20);
}

#[test]
fn what_changes_something_takes_json_alone() {
    const TYPES: &[&[&str]] = &[
        &[],
        &["application/x-www-form-urlencoded"],
        &["text/plain"],
        &["text/plain;charset=UTF-8"],
        &["multipart/form-data; boundary=x"],
        &["text/json"],
        &["application/jsonp"],
        &["application/json-seq"],
        &["application/vnd.api+json"],
        &["text/plain; application/json"],
        &["text/plain, application/json"],
        &["application/javascript"],
        &[""],
        &["*/*"],
        &["application/json", "text/plain"],
        &["text/plain", "application/json"],
    ];
    let door = Door::open();
    let before = runs(&door);
    let bearer = format!("Bearer {}", door.token);
    let body = format!(
        r#"{{"agent":"demo","prompt":"hello","cwd":"{}"}}"#,
        door.ostler.instance.work().display()
    );
    let mut tally = Tally::new("content types");
    for place in Place::mutating().into_iter().filter(Place::wants_a_body) {
        for types in TYPES {
            let mut headers =
                vec![("host", door.address.as_str()), ("authorization", bearer.as_str())];
            headers.extend(types.iter().map(|given| ("content-type", *given)));
            let answer = door.request(&place.method, &place.path, &headers, &body);
            tally.row(answer.status == 415, || {
                format!("{} {} as {types:?}: {}", place.method, place.path, answer.status)
            });
        }
    }
    tally.row(runs(&door) == before, || "a run was started".to_owned());
    tally.close(80);
}

/// What might be read as a path, a pattern, a command or a number.
pub const TRICKS: &[&str] = &[
    "..",
    "%2e%2e",
    "%252e%252e",
    "..%2f..%2ftoken",
    "..%252f..%252ftoken",
    "%2fetc%2fpasswd",
    "..%5c..%5ctoken",
    "%5c%5cserver%5cshare",
    ".",
    "token",
    "%00",
    "run_00000000000000000000000000000001%00",
    "%ff",
    "%c0%ae%c0%ae",
    "%ed%a0%80",
    "%",
    "%zz",
    "%25",
    "*",
    "%27%20OR%201%3D1--",
    "%25%25",
    "_",
    "RUN_00000000000000000000000000000001",
    "run_0000000000000000000000000000000g",
    "run_",
    "-1",
    "99999999999999999999999999",
    "%EF%BC%8E%EF%BC%8E",
    "%E2%80%AE",
    "run%20_1",
    ";rm",
    "%0d%0ax-evil:%201",
    "%1b%5b2J",
];

#[test]
fn no_parameter_of_a_path_leads_anywhere() {
    let door = Door::open();
    let long = "a".repeat(4096);
    let mut tally = Tally::new("path parameters");
    for place in Place::all().iter().filter(|place| place.route.contains('{')) {
        for trick in TRICKS.iter().copied().chain([long.as_str()]) {
            let path = filled(place.route, trick);
            let answer = door.owner(&place.method, &path, "{}");
            let at = || format!("{} {path}: {} {}", place.method, answer.status, answer.body);
            tally.row(matches!(answer.status, 400 | 404), at);
            tally.row(in_our_words(&answer), at);
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
        }
    }
    tally.close(500);
}

/// A fault with a code of the table, and nothing in it that a terminal would obey.
fn in_our_words(answer: &Answer) -> bool {
    let fault: Result<serde_json::Value, _> = serde_json::from_str(&answer.body);
    let ours = fault.is_ok_and(|fault| fault["code"].is_string() && fault["detail"].is_string());
    // What is no address at all is refused before anyone reads it.
    ours || (answer.status == 400 && answer.body.is_empty())
}

#[test]
fn an_odd_query_is_an_answer_or_a_fault_of_usage() {
    const QUERIES: &[&str] = &[
        "%ff=%ff",
        "limit=%ff",
        "limit=-1",
        "limit=99999999999999999999",
        "limit[]=1",
        "after=-1",
        "after=%00",
        "before=..%2f..",
        "by=%27;drop",
        "by=day&by=day",
        "since=%1b%5b2J",
        "model=%00",
        "view=%ff",
        "__proto__=1",
        "a=1&a=2&a=3",
        "&&&==",
        "%",
    ];
    let door = Door::open();
    let mut tally = Tally::new("queries");
    for place in Place::all() {
        for query in QUERIES {
            let answer = door.owner(&place.method, &format!("{}?{query}", place.path), "{}");
            let at = || format!("{} {}?{query}: {}", place.method, place.path, answer.status);
            tally.row((200..500).contains(&answer.status), at);
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
        }
    }
    tally.close(500);
}
