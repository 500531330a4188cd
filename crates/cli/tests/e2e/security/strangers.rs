//! Every route × every wrong token, foreign Host and foreign Origin. Rows that must pass are here
//! too: a guard that refuses everything would hold all the others.

use super::{Place, Tally, bad_headers};
use crate::door::Door;

/// Headers of a request, and an end of its address.
struct Way {
    name: String,
    headers: Vec<(&'static str, String)>,
    target: Target,
}

enum Target {
    Plain,
    /// Something behind the path.
    Query(String),
    /// The absolute form, with this authority.
    Absolute(String),
}

impl Way {
    fn new(name: impl Into<String>, headers: Vec<(&'static str, String)>) -> Self {
        Self { name: name.into(), headers, target: Target::Plain }
    }
}

/// The same request in every one of these ways.
fn tried(tally: &mut Tally, door: &Door, ways: &[Way], expected: impl Fn(&Place) -> u16) {
    for place in Place::all() {
        for Way { name, headers, target } in ways {
            let target = match target {
                Target::Plain => place.path.clone(),
                Target::Query(query) => format!("{}?{query}", place.path),
                Target::Absolute(authority) => format!("http://{authority}{}", place.path),
            };
            let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let answer = door.request(&place.method, &target, &headers, "{}");
            let (got, wanted) = (answer.status, expected(&place));
            let at = || format!("{} {} with {name}: {got}", place.method, place.path);
            tally.row(got == wanted, || format!("{}, not {wanted}", at()));
            let bad = bad_headers(&answer);
            tally.row(bad.is_none(), || format!("{}, {}", at(), bad.unwrap_or_default()));
        }
    }
}

fn json() -> (&'static str, String) {
    ("content-type", "application/json".to_owned())
}

#[test]
fn no_route_opens_without_the_one_token() {
    let door = Door::open();
    let good = door.token.as_str();
    let flipped = |at: usize| {
        let other = if good.as_bytes()[at] == b'0' { "1" } else { "0" };
        format!("{}{other}{}", &good[..at], &good[at + 1..])
    };
    let basic = "Basic dG9rZW46dG9rZW4=".to_owned();
    let values = [
        ("an empty bearer", "Bearer ".to_owned()),
        ("a wrong one", "Bearer 00".to_owned()),
        ("zeros", format!("Bearer {}", "0".repeat(64))),
        ("one digit less", format!("Bearer {}", &good[..good.len() - 1])),
        ("one digit less in front", format!("Bearer {}", &good[1..])),
        ("one digit more", format!("Bearer {good}0")),
        ("itself twice", format!("Bearer {good}{good}")),
        ("its first digit changed", format!("Bearer {}", flipped(0))),
        ("a digit changed in its middle", format!("Bearer {}", flipped(32))),
        ("its last digit changed", format!("Bearer {}", flipped(63))),
        ("no scheme", good.to_owned()),
        ("another scheme", format!("Token {good}")),
        ("a name and a password", basic),
        ("two blanks", format!("Bearer  {good}")),
        ("a list", format!("Bearer {good}, Bearer {good}")),
        ("quotes", format!("Bearer \"{good}\"")),
    ];
    let host = || ("host", door.address.clone());
    let mut ways = vec![Way::new("no token", vec![host(), json()])];
    for (name, value) in values {
        ways.push(Way::new(name, vec![host(), ("authorization", value), json()]));
    }
    let bearer = || ("authorization", format!("Bearer {good}"));
    ways.push(Way::new("the token twice", vec![host(), bearer(), bearer(), json()]));
    for name in ["cookie", "x-api-key", "proxy-authorization", "x-authorization", "token"] {
        ways.push(Way::new(name, vec![host(), (name, format!("token={good}")), json()]));
    }
    for name in ["token", "access_token", "authorization", "api_key"] {
        let mut way = Way::new(format!("?{name}="), vec![host(), json()]);
        way.target = Target::Query(format!("{name}={good}"));
        ways.push(way);
    }
    let mut way = Way::new("the token before the name", vec![host(), json()]);
    way.target = Target::Absolute(format!("{good}@{}", door.address));
    ways.push(way);
    let mut tally = Tally::new("tokens");
    // A name before the host makes another authority of it, so the guard ends it earlier.
    let last = ways.split_off(ways.len() - 1);
    tried(&mut tally, &door, &ways, |place| if place.is_open() { place.unasked() } else { 401 });
    tried(&mut tally, &door, &last, |_| 403);
    tally.close(500);
}

#[test]
fn no_route_answers_to_another_name() {
    let door = Door::open();
    let port = door.port();
    let names = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        "127.0.0.1.nip.io".to_owned(),
        format!("localhost.evil:{port}"),
        format!("evil.localhost:{port}"),
        format!("localhost.:{port}"),
        format!("127.0.0.1.:{port}"),
        format!("EVIL.EXAMPLE:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::]:{port}"),
        format!("[0:0:0:0:0:0:0:1]:{port}"),
        format!("::1:{port}"),
        format!("0.0.0.0:{port}"),
        format!("127.1:{port}"),
        format!("127.0.0.2:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.0.0.1:{port}"),
        format!("0177.0.0.1:{port}"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        "localhost:1".to_owned(),
        format!("127.0.0.1:0{port}"),
        format!("127.0.0.1:{port}0"),
        format!("user@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}/"),
        format!("127.0.0.1:{port},evil.example"),
        format!("127.0.0.1:{port} evil.example"),
        String::new(),
        "*".to_owned(),
        "null".to_owned(),
    ];
    let bearer = || ("authorization", format!("Bearer {}", door.token));
    let mut ways: Vec<_> = names
        .into_iter()
        .map(|name| Way::new(format!("host {name}"), vec![("host", name), bearer(), json()]))
        .collect();
    let (good, evil) = (|| ("host", door.address.clone()), || ("host", "evil.example".to_owned()));
    ways.push(Way::new("no host", vec![bearer(), json()]));
    ways.push(Way::new("the host twice", vec![good(), good(), bearer(), json()]));
    ways.push(Way::new("a second host", vec![good(), evil(), bearer(), json()]));
    ways.push(Way::new("a first host", vec![evil(), good(), bearer(), json()]));
    let forwarded = vec![evil(), ("x-forwarded-host", door.address.clone()), bearer(), json()];
    ways.push(Way::new("a forwarded host", forwarded));
    for authority in ["evil.example".to_owned(), format!("evil.example:{port}")] {
        let mut way = Way::new(format!("absolute {authority}"), vec![good(), bearer(), json()]);
        way.target = Target::Absolute(authority);
        ways.push(way);
    }
    let mut tally = Tally::new("hosts");
    tried(&mut tally, &door, &ways, |_| 403);
    // The names it does answer to, however they are written.
    for name in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let (name, bearer) = (format!("{name}:{port}"), format!("Bearer {}", door.token));
        let headers = [("host", name.as_str()), ("authorization", bearer.as_str())];
        let answer = door.request("GET", "/api/v1/host", &headers, "");
        tally.row(answer.status == 200, || format!("{name}: {}", answer.status));
    }
    tally.close(600);
}

#[test]
fn no_route_answers_to_another_origin() {
    let door = Door::open();
    let port = door.port();
    let origins = [
        "null".to_owned(),
        "file://".to_owned(),
        "http://evil.example".to_owned(),
        format!("http://evil.example:{port}"),
        "https://evil.example".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("https://localhost:{port}"),
        "http://127.0.0.1".to_owned(),
        "http://localhost".to_owned(),
        "http://localhost:1".to_owned(),
        "http://127.0.0.1:80".to_owned(),
        format!("http://localhost.evil:{port}"),
        format!("http://127.0.0.1.nip.io:{port}"),
        format!("http://localhost.:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("http://0.0.0.0:{port}"),
        format!("http://127.0.0.2:{port}"),
        format!("http://user@127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}.evil.example"),
        format!("http://127.0.0.1:{port} http://evil.example"),
        format!("//127.0.0.1:{port}"),
        format!("127.0.0.1:{port}"),
        format!("ws://127.0.0.1:{port}"),
        format!("HTTP ://127.0.0.1:{port}"),
        "chrome-extension://abcdefgh".to_owned(),
        "moz-extension://abcdefgh".to_owned(),
        "vscode-webview://abcdefgh".to_owned(),
        "app://obsidian.md".to_owned(),
        "data:".to_owned(),
        "about:blank".to_owned(),
        String::new(),
        "*".to_owned(),
    ];
    let host = || ("host", door.address.clone());
    let bearer = || ("authorization", format!("Bearer {}", door.token));
    let mut ways: Vec<_> = origins
        .into_iter()
        .map(|origin| {
            let headers = vec![host(), bearer(), ("origin", origin.clone()), json()];
            Way::new(format!("origin {origin}"), headers)
        })
        .collect();
    let own = || ("origin", format!("http://{}", door.address));
    let evil = || ("origin", "http://evil.example".to_owned());
    ways.push(Way::new("a second origin", vec![host(), bearer(), own(), evil(), json()]));
    for site in ["cross-site", "same-site", "CROSS-SITE", "", "?1"] {
        let headers = vec![host(), bearer(), ("sec-fetch-site", site.to_owned()), json()];
        ways.push(Way::new(format!("sec-fetch-site {site}"), headers));
    }
    let mut sites = vec![host(), bearer(), ("sec-fetch-site", "same-origin".to_owned())];
    sites.extend([("sec-fetch-site", "cross-site".to_owned()), json()]);
    ways.push(Way::new("a second sec-fetch-site", sites));
    let mut tally = Tally::new("origins");
    tried(&mut tally, &door, &ways, |_| 403);
    for name in ["127.0.0.1", "localhost", "[::1]"] {
        let (origin, bearer) = (format!("http://{name}:{port}"), bearer().1);
        let site = ("sec-fetch-site", "same-origin");
        let headers =
            [("host", door.address.as_str()), ("authorization", &bearer), ("origin", &origin)];
        let headers = [&headers[..], &[site]].concat();
        let answer = door.request("GET", "/api/v1/host", &headers, "");
        tally.row(answer.status == 200, || format!("{origin}: {}", answer.status));
    }
    tally.close(700);
}
