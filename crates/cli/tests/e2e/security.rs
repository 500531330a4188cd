//! The security table: every defence that exists, with the wrong ways to come at it, as data.
//!
//! The rows of the API are made from the server's own table of routes, so a route that is added
//! later is covered without a change here. Each part prints how many rows it tried and how many
//! came through that should not have; one is enough to fail it. What is defended, and what is not,
//! is in `docs/security.md`.

mod bodies;
mod environment;
mod escapes;
mod knocks;
mod listening;
mod modes;
mod paths;
mod refused;
mod remote;
mod scopes;
mod strangers;
mod tokens;
mod wire;

use crate::door::{Answer, Door};
use server::rest::{Access, ROUTES, Route};

/// Counts rows, and remembers those that went wrong.
pub struct Tally {
    name: &'static str,
    rows: usize,
    wrong: Vec<String>,
}

impl Tally {
    pub fn new(name: &'static str) -> Self {
        Self { name, rows: 0, wrong: Vec::new() }
    }

    /// One row: what was tried, and whether it was met as it should be.
    pub fn row(&mut self, held: bool, what: impl FnOnce() -> String) {
        self.rows += 1;
        if !held {
            self.wrong.push(what());
        }
    }

    /// Says the figures, and fails if there is one unexpected row or there were too few.
    pub fn close(self, rows_min: usize) {
        let Self { name, rows, wrong } = self;
        eprintln!("security table, {name}: {rows} rows, {} unexpected passes", wrong.len());
        let shown: Vec<_> = wrong.iter().take(20).map(String::as_str).collect();
        assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), shown.join("\n"));
        assert!(rows >= rows_min, "{name}: only {rows} rows, {rows_min} were meant");
    }
}

/// One method of one route, with its parameters filled in.
#[derive(Clone)]
pub struct Place {
    pub method: String,
    pub path: String,
    /// The address as the table has it.
    pub route: &'static str,
    pub access: Access,
}

impl Place {
    /// Every method of every route.
    pub fn all() -> Vec<Self> {
        let places: Vec<_> = ROUTES.iter().flat_map(of_route).collect();
        assert!(places.len() >= ROUTES.len(), "every route has a method");
        places
    }

    /// Those that change something, or could.
    pub fn mutating() -> Vec<Self> {
        Self::all().into_iter().filter(|place| place.method != "GET").collect()
    }

    pub fn is_open(&self) -> bool {
        self.access == Access::Open
    }

    /// Where the token of a run is the one that is good, and the owner's is not.
    pub fn is_for_runs(&self) -> bool {
        self.access == Access::Run
    }

    /// Whether it takes words beside its address. Whatever else is said to the others is not read.
    pub fn wants_a_body(&self) -> bool {
        let wordless = [
            ("POST", "/api/v1/host/handover"),
            ("DELETE", "/api/v1/runs/{run}"),
            ("POST", "/api/v1/tokens/{token}/revoke"),
            ("POST", "/api/v1/runs/{run}/interrupt"),
            ("POST", "/api/v1/worktrees/prune"),
            ("POST", "/api/v1/runtimes/{runtime}/models"),
            ("DELETE", "/api/v1/worktrees/{run}"),
        ];
        !wordless.contains(&(self.method.as_str(), self.route))
    }

    /// Whether its body may be left out.
    pub fn has_an_optional_body(&self) -> bool {
        let optional = [
            "/api/v1/runs/{run}/apply",
            "/api/v1/runs/{run}/stop",
            "/api/v1/tasks/{task}/cancel",
            "/api/v1/tasks/{task}/retry",
            "/api/v1/tasks/{task}/reopen",
            "/api/v1/tasks/{task}/approve",
        ];
        self.method == "POST" && optional.contains(&self.route)
    }

    /// What it says to whoever needs no token and brings nothing.
    pub fn unasked(&self) -> u16 {
        if self.route == "/sign-in" { 400 } else { 200 }
    }
}

fn of_route(route: &'static Route) -> impl Iterator<Item = Place> {
    route.methods.iter().map(|method| Place {
        access: method.access,
        method: method.verb.to_uppercase(),
        path: filled(route.path, "run_00000000000000000000000000000001"),
        route: route.path,
    })
}

/// An address of the table with this in the place of each of its parameters.
pub fn filled(path: &str, given: &str) -> String {
    let parts = path.split(['{', '}']).enumerate();
    parts.map(|(i, part)| if i % 2 == 1 { given } else { part }).collect()
}

/// What is wrong with the headers of an answer that our own code gave.
pub fn bad_headers(answer: &Answer) -> Option<String> {
    // The reader of headers answers for itself when it understood none: without a body.
    if matches!(answer.status, 0 | 400 | 414 | 431) && answer.body.is_empty() {
        return None;
    }
    let wanted = [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ];
    let missing = wanted.iter().find(|(name, value)| answer.header(name) != Some(*value));
    if let Some((name, _)) = missing {
        return Some(format!("{name} is {:?}", answer.header(name)));
    }
    let unwanted = answer.headers.iter().find(|(name, value)| {
        name.starts_with("access-control-")
            || matches!(name.as_str(), "server" | "set-cookie" | "x-powered-by")
            || (name == "content-type" && value.contains("html"))
    });
    unwanted.map(|(name, value)| format!("{name}: {value}"))
}

/// Runs that the host knows: what a request without leave may not change.
pub fn runs(door: &Door) -> usize {
    let listed = door.owner("GET", "/api/v1/runs", "");
    assert_eq!(listed.status, 200, "{}", listed.body);
    let page: serde_json::Value = serde_json::from_str(&listed.body).expect("a page");
    page["items"].as_array().expect("a list").len()
}
