//! The table of routes, who may use each, and how faults become answers. One file per noun.
//!
//! A new route is one row: its verb, who may use it, what it is for, and its handler. Everything that
//! the OpenAPI document says of it comes from the handler's types (`describe.rs`).

mod agents;
mod asks;
mod callback;
pub mod describe;
mod host;
mod money;
pub mod openapi;
mod page;
mod quotas;
mod runs;
mod tasks;
mod tokens;
mod trees;
mod workspace;

use crate::{App, feed, mcp, sign_in};
use axum::extract::{FromRequest, FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{self, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post};
use axum::{Json, Router};
use bytes::Bytes;
use contract::{Code, Fault, Scope, access::PROBLEM_TYPE};
use describe::Described;
use serde::de::DeserializeOwned;
use std::sync::LazyLock;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever can knock.
    Open,
    Viewer,
    Operator,
    Admin,
    /// The token of a live run, and no person's.
    Run,
}

impl Access {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Run => "run",
        }
    }

    /// What a person needs for it; `None` where persons have no business, or need nothing.
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Open | Self::Run => None,
            Self::Viewer => Some(Scope::Viewer),
            Self::Operator => Some(Scope::Operator),
            Self::Admin => Some(Scope::Admin),
        }
    }
}

/// One address and what it takes.
pub struct Route {
    pub path: &'static str,
    pub methods: &'static [Method],
}

/// One method of an address.
pub struct Method {
    /// In lower case.
    pub verb: &'static str,
    pub access: Access,
    /// Its summary in the OpenAPI document.
    pub says: &'static str,
    make: fn() -> MethodRouter<App>,
    describe: fn(&mut Described<'_>),
}

/// A verb, who may use it, what for, and the handler.
macro_rules! at {
    ($verb:ident $access:ident $handler:path, $says:literal) => {
        Method {
            verb: stringify!($verb),
            access: Access::$access,
            says: $says,
            make: || $verb($handler),
            describe: |into| describe::of($handler, into),
        }
    };
}

/// The whole surface.
pub const ROUTES: &[Route] = &[
    Route { path: "/healthz", methods: &[at!(get Open host::healthz, "whether the host lives")] },
    Route {
        path: "/sign-in",
        methods: &[
            at!(get Open sign_in::enter, "exchange the code of a sign-in link for a cookie, once"),
        ],
    },
    Route {
        path: "/mcp",
        methods: &[at!(post Run mcp::take, "relayed tools by MCP, for the token of a live run")],
    },
    Route {
        path: "/api/v1/host",
        methods: &[
            at!(get Viewer host::show, "who hosts this data directory, and how its store is"),
        ],
    },
    Route {
        path: "/api/v1/host/handover",
        methods: &[
            at!(post Admin host::hand_over, "make room for another host; a server does not"),
        ],
    },
    Route {
        path: "/api/v1/openapi.json",
        methods: &[at!(get Viewer openapi::show, "this document")],
    },
    Route {
        path: "/api/v1/feed",
        methods: &[
            at!(get Viewer feed::show, "hints of what changed, server-sent: look there again"),
        ],
    },
    Route {
        path: "/api/v1/runs",
        methods: &[
            at!(get Viewer runs::list, "runs, newest first"),
            at!(post Operator runs::start,
                "start a run: 201, or 202 while it waits for a slot and is to be asked for again"),
        ],
    },
    Route {
        path: "/api/v1/runs/{run}",
        methods: &[
            at!(get Viewer runs::show, "one run, or with view=transcript what it said, joined"),
            at!(delete Admin runs::delete,
                "delete a run that has ended; its costs stay; 409 if its worktree has work that was not applied, unless force=true"),
        ],
    },
    Route {
        path: "/api/v1/runs/{run}/plan",
        methods: &[at!(get Viewer runs::plan, "its sealed launch plan")],
    },
    Route {
        path: "/api/v1/runs/{run}/trace",
        methods: &[at!(get Viewer runs::trace, "its sealed raw output, as JSON lines")],
    },
    Route {
        path: "/api/v1/runs/{run}/events",
        methods: &[at!(get Viewer runs::events,
            "its events: server-sent and followed with accept: text/event-stream, else JSON lines up to now")],
    },
    Route {
        path: "/api/v1/runs/{run}/workspace",
        methods: &[at!(get Run workspace::show,
            "its workspace as a tar file, for the token of that run while it lives")],
    },
    Route {
        path: "/api/v1/runs/{run}/diff",
        methods: &[at!(get Viewer trees::diff,
            "what it changed in its worktree; patch=false leaves the patch out")],
    },
    Route {
        path: "/api/v1/runs/{run}/apply",
        methods: &[at!(post Operator trees::apply,
            "bring its work back from its worktree, by merge or patch")],
    },
    Route {
        path: "/api/v1/worktrees",
        methods: &[at!(get Viewer trees::list,
            "the worktrees that are kept, newest first, with their state and number of changed files")],
    },
    Route {
        path: "/api/v1/worktrees/prune",
        methods: &[at!(post Operator trees::prune,
            "remove the worktrees that have no work and in which no run works")],
    },
    Route {
        path: "/api/v1/worktrees/{run}",
        methods: &[at!(delete Operator trees::discard,
            "remove the worktree of a run; 409 if it has work that was not applied, unless force=true")],
    },
    Route {
        path: "/api/v1/runs/{run}/callback",
        methods: &[at!(post Run callback::take,
            "events of a service that calls back, for the token of its live run")],
    },
    Route {
        path: "/api/v1/runs/{run}/commands",
        methods: &[at!(post Operator runs::wish, "wish something of a live run")],
    },
    Route {
        path: "/api/v1/tasks",
        methods: &[
            at!(get Viewer tasks::list,
                "tasks: state=, label=, order=oldest or newest; after= the next of the page before"),
            at!(post Operator tasks::add,
                "hand a task over to the queue; the same id or key again is the same task"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}",
        methods: &[
            at!(get Viewer tasks::show, "one task, by its own id or by that of a run of it"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}/cancel",
        methods: &[at!(post Operator tasks::cancel, "cancel it; one that runs is stopped")],
    },
    Route {
        path: "/api/v1/tasks/{task}/retry",
        methods: &[at!(post Operator tasks::retry, "try one that waits now")],
    },
    Route {
        path: "/api/v1/tasks/{task}/reopen",
        methods: &[at!(post Operator tasks::reopen, "open a failed one again")],
    },
    Route {
        path: "/api/v1/tasks/{task}/approve",
        methods: &[at!(post Operator tasks::approve, "take its result")],
    },
    Route {
        path: "/api/v1/tasks/{task}/reject",
        methods: &[
            at!(post Operator tasks::reject, "send it back; the reason is what its agent is asked next"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}/comment",
        methods: &[
            at!(post Operator tasks::comment, "say something of it; agents that are mentioned are woken"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}/budget",
        methods: &[at!(post Operator tasks::set_budget,
            "change what it and the tasks below it may spend; null takes a limit away")],
    },
    Route {
        path: "/api/v1/agents",
        methods: &[
            at!(get Viewer agents::list, "who works here: hired, or configured"),
            at!(post Admin agents::hire,
                "hire an agent: its name, and as spec what agents.<name> takes"),
        ],
    },
    Route {
        path: "/api/v1/agents/{agent}",
        methods: &[
            at!(get Viewer agents::show, "one agent; glance=true leaves out what it runs and spends"),
            at!(patch Admin agents::edit,
                "change the spec of a hired agent; a key that is null goes away"),
        ],
    },
    Route {
        path: "/api/v1/agents/{agent}/state",
        methods: &[at!(post Operator agents::stand,
            "pause, resume or retire an agent: paused, active, retired")],
    },
    Route {
        path: "/api/v1/asks",
        methods: &[at!(get Viewer asks::list, "questions that wait for a person, by their ids")],
    },
    Route {
        path: "/api/v1/asks/{ask}/answer",
        methods: &[at!(post Operator asks::answer, "answer a question")],
    },
    Route {
        path: "/api/v1/costs",
        methods: &[at!(get Viewer money::costs,
            "what was spent, newest days first: by=day,agent,adapter,model and since=2026-11-01 or 7d")],
    },
    Route {
        path: "/api/v1/budgets",
        methods: &[at!(get Viewer quotas::budgets,
                "the budgets that runs share, and what is left of them: all of them, at most 64")],
    },
    Route {
        path: "/api/v1/quotas",
        methods: &[at!(get Viewer quotas::list,
            "the quotas of accounts: whether runs start, until when not, and why")],
    },
    Route {
        path: "/api/v1/quotas/clear",
        methods: &[at!(post Operator quotas::clear,
            "let runs start again in a scope, whatever its provider said")],
    },
    Route {
        path: "/api/v1/prices",
        methods: &[
            at!(get Viewer money::prices, "the prices that count, by name: model is a part of it"),
            at!(post Admin money::import, "import prices in the format of LiteLLM or models.dev"),
        ],
    },
    Route {
        path: "/api/v1/blobs/{hash}",
        methods: &[at!(get Viewer runs::blob, "a blob that an event names")],
    },
    Route {
        path: "/api/v1/tokens",
        methods: &[
            at!(get Admin tokens::list, "the tokens that are good besides the owner's, oldest first"),
            at!(post Admin tokens::add, "give a token; it is shown this once"),
        ],
    },
    Route {
        path: "/api/v1/tokens/{token}/revoke",
        methods: &[at!(post Admin tokens::revoke, "take a token away")],
    },
    Route {
        path: "/api/v1/sign-in",
        methods: &[at!(post Admin sign_in::link, "a link that signs a browser in, once")],
    },
];

pub fn routes() -> Router<App> {
    let router = ROUTES.iter().fold(Router::new(), |router, route| {
        let methods = route.methods.iter().map(|method| (method.make)());
        let methods = methods.reduce(MethodRouter::merge).unwrap_or_default();
        router.route(route.path, methods.fallback(|| async { method_not_allowed(route) }))
    });
    router.fallback(not_found)
}

/// A method of an address, as the table has it.
fn find(path: Option<&str>, method: &http::Method) -> Option<&'static Method> {
    let route = ROUTES.iter().find(|route| Some(route.path) == path)?;
    // HEAD is GET without the body.
    let verb = if method == http::Method::HEAD { "GET" } else { method.as_str() };
    route.methods.iter().find(|known| known.verb.to_uppercase() == verb)
}

/// Whether an address heeds keys of its callers: those that say so in the document, and no others.
pub fn is_keyed(path: Option<&str>, method: &http::Method) -> bool {
    static KEYED: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let all = ROUTES.iter().flat_map(|route| route.methods.iter().map(move |at| (route, at)));
        all.filter(|(_, at)| openapi::takes_keys(at)).map(|(to, at)| (to.path, at.verb)).collect()
    });
    let known = find(path, method).zip(path);
    known.is_some_and(|(method, path)| KEYED.contains(&(path, method.verb)))
}

/// Whether there is such a method of such an address.
pub fn takes(path: Option<&str>, method: &http::Method) -> bool {
    find(path, method).is_some()
}

/// Who may come to an address. What is no address, or no method of it, is told so to whoever may use
/// the first of it.
pub fn access(path: Option<&str>, method: &http::Method) -> Access {
    let route = || ROUTES.iter().find(|route| Some(route.path) == path)?.methods.first();
    find(path, method).or_else(route).map_or(Access::Viewer, |method| method.access)
}

/// A method that an address does not take is told which it does.
fn method_not_allowed(route: &Route) -> Response {
    let verbs = route.methods.iter().map(|method| method.verb.to_uppercase());
    let looks = route.methods.iter().any(|method| method.verb == "get");
    let taken: Vec<_> = verbs.chain(looks.then(|| "HEAD".to_owned())).collect();
    let fault = Fault::new(Code::MethodNotAllowed, "this address does not take that method");
    ([(header::ALLOW, taken.join(", "))], Problem(fault)).into_response()
}

async fn not_found() -> Problem {
    Problem(
        Fault::new(Code::NotFound, "there is nothing at this address")
            .with_hint("see /api/v1/openapi.json"),
    )
}

/// A fault as an answer: its status from the one table, its body by RFC 9457.
pub struct Problem(pub Fault);

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let problem = contract::Problem::from(self.0);
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, PROBLEM_TYPE)], Json(problem)).into_response()
    }
}

/// A JSON object as the body, whose faults are ours.
pub struct Given<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let bytes = body(request, state).await?;
        // A reader of structs takes a list of their fields for one, and an empty list for one that
        // says nothing: what nobody described would be done.
        if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
            let message = "the body of the request is a list, and an object is wanted";
            return Err(Fault::new(Code::Usage, message).into());
        }
        Ok(Self(read(&bytes)?))
    }
}

/// A JSON body of whatever shape its reader takes.
pub struct Told<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Told<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        Ok(Self(read(&body(request, state).await?)?))
    }
}

async fn body<S: Send + Sync>(
    request: axum::extract::Request,
    state: &S,
) -> Result<Bytes, Problem> {
    let read = Bytes::from_request(request, state).await;
    read.map_err(|error| Problem(Fault::new(Code::Usage, error.body_text())))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let read = Json::<T>::from_bytes(bytes);
    read.map(|Json(told)| told).map_err(|error| Problem(Fault::new(Code::Usage, error.body_text())))
}

/// What follows the question mark, whose faults are ours.
pub struct Options<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Options<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(options)) => Ok(Self(options)),
            Err(error) => Err(Problem(Fault::new(Code::Usage, error.body_text()))),
        }
    }
}

/// The one parameter of an address, as text.
pub struct Named(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(error) => Err(Problem(Fault::new(Code::Usage, error.body_text()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those whose access is not what their verb says, written down apart from the table: whoever adds
    /// one, or changes one, says so twice.
    const OTHERWISE: &[(&str, &str, Access)] = &[
        ("get", "/healthz", Access::Open),
        ("get", "/sign-in", Access::Open),
        ("post", "/mcp", Access::Run),
        ("get", "/api/v1/runs/{run}/workspace", Access::Run),
        ("post", "/api/v1/runs/{run}/callback", Access::Run),
        ("post", "/api/v1/host/handover", Access::Admin),
        ("delete", "/api/v1/runs/{run}", Access::Admin),
        ("post", "/api/v1/agents", Access::Admin),
        ("patch", "/api/v1/agents/{agent}", Access::Admin),
        ("post", "/api/v1/prices", Access::Admin),
        ("get", "/api/v1/tokens", Access::Admin),
        ("post", "/api/v1/tokens", Access::Admin),
        ("post", "/api/v1/tokens/{token}/revoke", Access::Admin),
        ("post", "/api/v1/sign-in", Access::Admin),
    ];

    #[test]
    fn who_looks_needs_a_viewer_who_changes_an_operator_and_the_rest_is_written_down() {
        let mut met = 0;
        for route in ROUTES {
            for Method { verb, access, .. } in route.methods {
                let row = OTHERWISE.iter().find(|(of, path, _)| of == verb && *path == route.path);
                met += usize::from(row.is_some());
                let usual = if *verb == "get" { Access::Viewer } else { Access::Operator };
                let wanted = row.map_or(usual, |(_, _, access)| *access);
                assert_eq!(*access, wanted, "{verb} {}", route.path);
            }
        }
        assert_eq!(met, OTHERWISE.len(), "a row is about no route");
    }

    #[test]
    fn what_is_not_a_page_says_how_long_it_can_be() {
        let budgets = ROUTES.iter().find(|route| route.path == "/api/v1/budgets").unwrap();
        let most = format!("at most {}", contract::limits::BUDGETS_MAX);
        assert!(budgets.methods[0].says.ends_with(&most), "{}", budgets.methods[0].says);
    }

    #[test]
    fn what_makes_something_heeds_keys_unless_its_answer_is_a_secret() {
        // A token and a link are shown once; the others answer for a run, or move this host.
        let without = ["/api/v1/tokens", "/api/v1/tokens/{token}/revoke", "/api/v1/sign-in"];
        let without = [&without[..], &["/mcp", "/api/v1/runs/{run}/callback"]].concat();
        for route in ROUTES {
            for method in route.methods.iter().filter(|method| method.verb == "post") {
                let none = without.contains(&route.path) || route.path.ends_with("/handover");
                let keyed = is_keyed(Some(route.path), &http::Method::POST);
                assert_eq!(keyed, !none, "{} {}", method.verb, route.path);
            }
        }
    }
}
