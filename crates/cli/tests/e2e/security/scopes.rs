//! Every method of every route × every kind of token, as the table of routes says who may use it. A
//! token that is expired, revoked or a browser's is no token; a cookie changes nothing for a page that
//! does not say it is ours; a sign-in link opens once. Tokens are kept as hashes and what is done about
//! them is written down.

use super::{Place, Tally};
use crate::door::{Answer, Door};
use crate::mcp::Guest;
use contract::Scope;
use serde_json::{Value, json};
use server::rest::Access;

/// Someone who asks, and what they hold.
struct Asker {
    name: &'static str,
    headers: Vec<(&'static str, String)>,
    may: May,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    Nothing,
    Person(Scope),
    Run,
}

/// A token of this scope, as the owner gives it.
fn given(door: &Door, name: &str, scope: Scope, expires_ms: Option<u64>) -> Value {
    let body = json!({ "name": name, "scope": scope, "expires_ms": expires_ms });
    let answer = door.owner("POST", "/api/v1/tokens", &body.to_string());
    assert_eq!(answer.status, 201, "{}", answer.body);
    serde_json::from_str(&answer.body).expect("a token")
}

fn bearer(token: &Value) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {}", token["token"].as_str().expect("a token")))]
}

/// The code of a new sign-in link.
fn link(door: &Door, scope: Scope) -> String {
    let body = json!({ "scope": scope }).to_string();
    let answer = door.owner("POST", "/api/v1/sign-in", &body);
    assert_eq!(answer.status, 201, "{}", answer.body);
    let link: Value = serde_json::from_str(&answer.body).expect("a link");
    let url = link["url"].as_str().expect("an address").to_owned();
    url.strip_prefix(&format!("http://{}", door.address)).expect("our own address").to_owned()
}

/// Opens a link, as a browser does whose person typed it.
fn enter(door: &Door, target: &str) -> Answer {
    let headers = [("host", door.address.as_str()), ("sec-fetch-site", "none")];
    door.request("GET", target, &headers, "")
}

/// The cookie of a browser that signed in.
fn signed_in(door: &Door, scope: Scope) -> String {
    let answer = enter(door, &link(door, scope));
    assert_eq!(answer.status, 303, "{}", answer.body);
    let cookie = answer.header("set-cookie").expect("a cookie");
    for wanted in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(wanted), "{cookie}");
    }
    cookie.split(';').next().expect("a name and a value").to_owned()
}

/// What an address says to a method that it lets in or not: only looking, so that nothing is changed
/// and nothing is waited for.
fn asked(door: &Door, place: &Place, asker: &Asker) -> u16 {
    let mut headers: Vec<_> =
        asker.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.extend([("host", door.address.as_str()), ("content-type", "application/json")]);
    // Without its body a stream has no end that could be waited for.
    let method = if place.method == "GET" { "HEAD" } else { &place.method };
    // No body that any of them wants: who is let in is told that.
    door.request(method, &place.path, &headers, "[7]").status
}

/// Whether a status says that whoever asked is not let in.
fn shut(status: u16) -> bool {
    matches!(status, 401 | 403)
}

fn lets_in(place: &Place, may: May) -> Option<bool> {
    match (place.access, may) {
        (Access::Open, _) => Some(true),
        (_, May::Nothing) => Some(false),
        (Access::Run, May::Run) => Some(true),
        // Costs are those of the run; of runs and tasks it is let in to its own alone.
        (Access::Own, May::Run) => Some(place.route == "/api/v1/costs"),
        (_, May::Run) => Some(false),
        // There persons are told that it is not theirs, or that there is no such run.
        (Access::Run, May::Person(_)) => None,
        (access, May::Person(scope)) => access.scope().map(|wanted| scope >= wanted),
    }
}

#[test]
fn every_route_lets_in_whom_its_row_names_and_nobody_else() {
    let door = Door::open();
    let guest = Guest::new(&door.ostler, &[]);
    let revoked = given(&door, "revoked", Scope::Admin, None);
    let path = format!("/api/v1/tokens/{}/revoke", revoked["id"].as_str().expect("an id"));
    assert_eq!(door.owner("POST", &path, "{}").status, 200);
    let expired = given(&door, "expired", Scope::Admin, Some(1));
    // One that was never good is not given.
    let never = json!({ "name": "never", "scope": Scope::Viewer, "expires_ms": 0 });
    assert_eq!(door.owner("POST", "/api/v1/tokens", &never.to_string()).status, 400);
    let cookie = signed_in(&door, Scope::Operator);
    let browser = cookie.split_once('=').expect("a value").1.to_owned();
    let own = || ("origin", format!("http://{}", door.address));
    let person = |name, scope| Asker {
        name,
        headers: bearer(&given(&door, name, scope, None)),
        may: May::Person(scope),
    };
    let askers = [
        Asker { name: "nobody", headers: vec![], may: May::Nothing },
        Asker { name: "a revoked token", headers: bearer(&revoked), may: May::Nothing },
        Asker { name: "an expired token", headers: bearer(&expired), may: May::Nothing },
        Asker {
            name: "a cookie as a token",
            headers: vec![("authorization", format!("Bearer {browser}"))],
            may: May::Nothing,
        },
        person("viewer", Scope::Viewer),
        person("operator", Scope::Operator),
        person("admin", Scope::Admin),
        Asker {
            name: "a browser",
            headers: vec![("cookie", cookie.clone()), own()],
            may: May::Person(Scope::Operator),
        },
        Asker {
            name: "the run",
            headers: vec![("authorization", format!("Bearer {}", guest.token()))],
            may: May::Run,
        },
    ];
    let mut tally = Tally::new("scopes");
    for place in Place::all() {
        for asker in &askers {
            let status = asked(&door, &place, asker);
            let Some(wanted) = lets_in(&place, asker.may) else {
                let refused = matches!(status, 400 | 403 | 404 | 415);
                tally.row(refused, || {
                    format!("{} {} as {}: {status}", place.method, place.path, asker.name)
                });
                continue;
            };
            // A run that is not its own is refused to a run as well.
            let held = match (place.access, asker.may) {
                (Access::Run, May::Run) => status != 401,
                _ => shut(status) != wanted || (place.route == "/sign-in" && status == 400),
            };
            tally.row(held, || {
                format!(
                    "{} {} as {}: {status}, let in: {wanted}",
                    place.method, place.path, asker.name
                )
            });
        }
        // A cookie that comes with something to change and without a page of ours is none.
        let silent =
            Asker { name: "", headers: vec![("cookie", cookie.clone())], may: May::Nothing };
        if place.method != "GET" && place.access != Access::Open {
            let status = asked(&door, &place, &silent);
            tally.row(status == 401, || {
                format!("{} {} by cookie alone: {status}", place.method, place.path)
            });
        }
    }
    guest.finish();
    tally.close(250);
}

#[test]
fn cookies_change_nothing_for_other_sites() {
    let door = Door::open();
    let cookie = signed_in(&door, Scope::Admin);
    let given = given(&door, "victim", Scope::Viewer, None);
    let target = format!("/api/v1/tokens/{}/revoke", given["id"].as_str().expect("an id"));
    let own = format!("http://{}", door.address);
    let post = |more: &[(&str, &str)]| {
        let mut headers = vec![("host", door.address.as_str()), ("cookie", cookie.as_str())];
        headers.extend(more);
        door.request("POST", &target, &headers, "").status
    };
    // As a form of another site sends it, and as one that hides where it comes from.
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post(&[form, ("origin", "https://evil.example")]), 403);
    assert_eq!(post(&[form, ("origin", "null")]), 403);
    assert_eq!(post(&[form]), 401);
    assert_eq!(post(&[("origin", &own), ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(post(&[("origin", &own)]), 200, "a page of ours needs no content type either");
}

#[test]
fn an_operator_starts_agents_of_the_configuration_and_no_commands() {
    let door = Door::open();
    let operator = given(&door, "operator", Scope::Operator, None);
    let work = door.ostler.instance.work();
    let ask = |request: Value| {
        let auth = bearer(&operator).remove(0).1;
        let headers = [
            ("host", door.address.as_str()),
            ("authorization", auth.as_str()),
            ("content-type", "application/json"),
        ];
        door.request("POST", "/api/v1/runs", &headers, &request.to_string()).status
    };
    let mut tally = Tally::new("operators");
    let plain = || json!({ "agent": "demo", "prompt": "hello", "cwd": work });
    for (field, value) in [
        ("adapter", json!({ "name": "x", "runtime": "process", "lane": "process" })),
        ("environment", json!({ "LD_PRELOAD": "/tmp/x.so" })),
    ] {
        let mut request = plain();
        request[field] = value;
        let status = ask(request);
        // A shape that is none is refused before anyone asks who came.
        tally.row(matches!(status, 400 | 403), || format!("{field}: {status}"));
    }
    let mut request = plain();
    request["environment"] = json!({ "LD_PRELOAD": "/tmp/x.so" });
    let status = ask(request);
    tally.row(status == 403, || format!("an environment: {status}"));
    let status = ask(plain());
    tally.row(status == 201, || format!("an agent by its name: {status}"));
    tally.close(4);
}

#[test]
fn a_sign_in_link_opens_once_and_for_no_other_site() {
    let door = Door::open();
    let mut tally = Tally::new("sign-in links");
    let target = link(&door, Scope::Viewer);
    let foreign = [("host", door.address.as_str()), ("sec-fetch-site", "cross-site")];
    let status = door.request("GET", &target, &foreign, "").status;
    tally.row(status == 403, || format!("from another site: {status}"));
    for wrong in ["/sign-in?code=", "/sign-in?code=00", "/sign-in", "/sign-in?code=a&code=b"] {
        let answer = enter(&door, wrong);
        let refused = matches!(answer.status, 400 | 403) && answer.header("set-cookie").is_none();
        tally.row(refused, || format!("{wrong}: {}", answer.status));
    }
    let first = enter(&door, &target);
    tally.row(first.status == 303, || format!("the first time: {}", first.status));
    let again = enter(&door, &target);
    let shut = again.status == 403 && again.header("set-cookie").is_none();
    tally.row(shut, || format!("the second time: {}", again.status));
    let cookie =
        first.header("set-cookie").unwrap_or_default().split(';').next().unwrap_or_default();
    let headers = [("host", door.address.as_str()), ("cookie", cookie)];
    let status = door.request("GET", "/api/v1/host", &headers, "").status;
    tally.row(status == 200, || format!("with the cookie: {status}"));
    let status = door.request("GET", "/api/v1/tokens", &headers, "").status;
    tally.row(status == 403, || format!("beyond its scope: {status}"));
    tally.close(9);
}

#[test]
fn a_token_is_kept_as_a_hash_and_what_is_done_about_it_is_written_down() {
    let door = Door::open();
    let given = given(&door, "kept", Scope::Viewer, Some(60_000));
    let cookie = signed_in(&door, Scope::Admin);
    let revoked = door.owner("POST", "/api/v1/tokens/kept/revoke", "{}");
    assert_eq!(revoked.status, 200, "{}", revoked.body);
    let mut tally = Tally::new("tokens given");
    let token = given["token"].as_str().expect("a token");
    let secrets = [token, cookie.split_once('=').expect("a value").1];
    let audit = door.ostler.instance.data().join("audit.jsonl");
    let lines = testkit::until("every line to be written", crate::ostler::BOUND_MS, || {
        let text = std::fs::read_to_string(&audit).ok()?;
        (text.lines().count() >= 3).then_some(text)
    });
    for what in ["token_added", "signed_in", "token_revoked"] {
        tally.row(lines.contains(what), || format!("{what} is not in {lines}"));
    }
    for path in door.ostler.files() {
        let bytes = std::fs::read(&path).unwrap_or_default();
        for secret in secrets {
            // The hexadecimal digits alone would open it as well.
            let digits = &secret.as_bytes()[secret.len() - 64..];
            let found = bytes.windows(digits.len()).any(|window| window == digits);
            tally.row(!found, || format!("a token is in {}", path.display()));
        }
    }
    tally.close(10);
}
