//! The table of routes, who may use each, and how faults become answers. One file per noun.
//!
//! A new route is one row: its verb, who may use it, what it is for, and its handler. Everything that
//! the OpenAPI document says of it comes from the handler's types (`describe.rs`).

mod agents;
mod approvals;
mod bounds;
mod callback;
pub mod describe;
mod host;
mod money;
pub mod openapi;
mod page;
mod plain;
mod quotas;
mod runs;
mod runtimes;
mod tasks;
mod tokens;
mod trees;
mod views;
mod workspace;

use crate::{App, feed, mcp, sign_in};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query};
use axum::http::request::Parts;
use axum::http::{self, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post};
use axum::{Json, Router};
use bytes::Bytes;
use contract::{Code, Fault, Scope, Surface, access::PROBLEM_TYPE, misread};
use describe::Described;
use serde::de::DeserializeOwned;
use std::sync::LazyLock;

/// The header by which a caller says where its hints are read.
pub const SURFACE: &str = "ostler-surface";

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever can knock.
    Open,
    Viewer,
    Operator,
    Admin,
    /// Whoever a viewer is, and the token of a live run for what is its own.
    Own,
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
            Self::Own => "own",
            Self::Run => "run",
        }
    }

    /// What a person needs for it; `None` where persons have no business, or need nothing.
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Open | Self::Run => None,
            Self::Viewer | Self::Own => Some(Scope::Viewer),
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
    /// Whether it stays for one release only, for callers of an older name.
    pub deprecated: bool,
    make: fn() -> MethodRouter<App>,
    describe: fn(&mut Described<'_>),
}

/// A verb, who may use it, what for, and the handler; `deprecated` when it is an older name.
macro_rules! at {
    ($verb:ident $access:ident $handler:path, $says:literal) => {
        at!($verb $access $handler, $says, false)
    };
    (deprecated $verb:ident $access:ident $handler:path, $says:literal) => {
        at!($verb $access $handler, $says, true)
    };
    ($verb:ident $access:ident $handler:path, $says:literal, $deprecated:literal) => {
        Method {
            verb: stringify!($verb),
            access: Access::$access,
            says: $says,
            deprecated: $deprecated,
            make: || $verb($handler),
            describe: |into| describe::of($handler, into),
        }
    };
}

/// The whole surface.
pub const ROUTES: &[Route] = &[
    Route {
        path: "/healthz",
        methods: &[at!(get Open host::healthz, "200 while the server runs; needs no token")],
    },
    Route {
        path: "/metrics",
        methods: &[at!(get Viewer host::metrics, "metrics in the text format of Prometheus")],
    },
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
            at!(get Viewer host::show, "show the host of this data directory and the state of its store"),
        ],
    },
    Route {
        path: "/api/v1/host/handover",
        methods: &[
            at!(post Admin host::hand_over, "hand this data directory over to another host; a server refuses"),
        ],
    },
    Route {
        path: "/api/v1/openapi.json",
        methods: &[at!(get Open openapi::show, "this document; needs no token")],
    },
    Route {
        path: "/api/v1/feed",
        methods: &[
            at!(get Viewer feed::show, "follow hints about what changed, as server-sent events"),
        ],
    },
    Route {
        path: "/api/v1/runs",
        methods: &[
            at!(get Viewer runs::list,
                "runs, newest first; filter by agent, state, outcome, since and cwd"),
            at!(post Operator runs::start,
                "start a run: 201, or 202 while it waits for a slot; repeat the request until it is 201"),
        ],
    },
    Route {
        path: "/api/v1/runs/{run}",
        methods: &[
            at!(get Own runs::show, "show a run; view=transcript gives its transcript with joined pieces"),
            at!(delete Admin runs::delete,
                "delete a run that has ended; its costs are kept; 409 if its worktree has work that was not applied, unless force=true"),
        ],
    },
    Route {
        path: "/api/v1/runs/{run}/plan",
        methods: &[at!(get Viewer runs::plan, "show the launch plan of a run, without secrets")],
    },
    Route {
        path: "/api/v1/runs/{run}/trace",
        methods: &[
            at!(get Viewer runs::trace, "show the raw output of a run as JSON lines, without secrets"),
        ],
    },
    Route {
        path: "/api/v1/runs/{run}/events",
        methods: &[at!(get Viewer runs::events,
            "show the events of a run: server-sent and followed with accept: text/event-stream, else JSON lines up to now")],
    },
    Route {
        path: "/api/v1/runs/{run}/workspace",
        methods: &[at!(get Run workspace::show,
            "download the workspace of a live run as a tar file, with the token of that run")],
    },
    Route {
        path: "/api/v1/runs/{run}/diff",
        methods: &[at!(get Viewer trees::diff,
            "show the changes of a run in its worktree; patch=false leaves the patch out")],
    },
    Route {
        path: "/api/v1/runs/{run}/apply",
        methods: &[at!(post Operator trees::apply,
            "merge the changes of a run from its worktree, or apply them as a patch")],
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
            "take events of a service that calls back, with the token of its live run")],
    },
    Route {
        path: "/api/v1/runs/{run}/commands",
        methods: &[at!(post Operator runs::command, "send a command to a live run")],
    },
    Route {
        path: "/api/v1/runs/{run}/stop",
        methods: &[at!(post Operator runs::stop, "stop a live run")],
    },
    Route {
        path: "/api/v1/runs/{run}/interrupt",
        methods: &[at!(post Operator runs::interrupt, "interrupt the current turn of a live run")],
    },
    Route {
        path: "/api/v1/runs/{run}/say",
        methods: &[at!(post Operator runs::say, "send a message to the agent of a live run")],
    },
    Route {
        path: "/api/v1/tasks",
        methods: &[
            at!(get Viewer tasks::list,
                "list tasks; filter by state and label; order=oldest or newest"),
            at!(post Operator tasks::add,
                "add a task to the queue; a second request with the same id or key returns the first task"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}",
        methods: &[
            at!(get Own tasks::show, "show a task, by its id or by that of one of its runs"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}/cancel",
        methods: &[at!(post Operator tasks::cancel, "cancel a task; its live run is stopped")],
    },
    Route {
        path: "/api/v1/tasks/{task}/retry",
        methods: &[at!(post Operator tasks::retry, "start a waiting task now")],
    },
    Route {
        path: "/api/v1/tasks/{task}/reopen",
        methods: &[at!(post Operator tasks::reopen, "put a failed task back into the queue")],
    },
    Route {
        path: "/api/v1/tasks/{task}/approve",
        methods: &[at!(post Operator tasks::approve, "approve the result of a task in review")],
    },
    Route {
        path: "/api/v1/tasks/{task}/reject",
        methods: &[
            at!(post Operator tasks::reject, "send a task in review back; the reason is the next prompt of its agent"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}/comment",
        methods: &[
            at!(post Operator tasks::comment, "comment on a task; agents that are mentioned are woken"),
        ],
    },
    Route {
        path: "/api/v1/tasks/{task}/budget",
        methods: &[at!(post Operator tasks::set_budget,
            "change the budget of a task and of the tasks below it; null removes a limit")],
    },
    Route {
        path: "/api/v1/agents",
        methods: &[
            at!(get Viewer agents::list, "list agents, hired and configured"),
            at!(post Admin agents::hire,
                "hire an agent; spec takes the keys of agents.<name> in the configuration"),
        ],
    },
    Route {
        path: "/api/v1/agents/{agent}",
        methods: &[
            at!(get Viewer agents::show, "show an agent; glance=true leaves out its runs and costs"),
            at!(patch Admin agents::edit,
                "change the spec of a hired agent; a key that is null is removed"),
        ],
    },
    Route {
        path: "/api/v1/agents/{agent}/state",
        methods: &[at!(post Operator agents::stand,
            "pause, resume or retire an agent: paused, active, retired")],
    },
    Route {
        path: "/api/v1/runtimes",
        methods: &[at!(get Viewer runtimes::list,
            "list the runtimes and the agents known by an ACP name, by id, with whether each is installed")],
    },
    Route {
        path: "/api/v1/runtimes/{runtime}",
        methods: &[at!(get Viewer runtimes::show,
            "show the card of a runtime: what it can do, its models, its permissions and every key of its adapter")],
    },
    Route {
        path: "/api/v1/runtimes/{runtime}/models",
        methods: &[at!(post Operator runtimes::models,
            "ask the program of a runtime, adapter or agent for its models; it takes up to 30 s")],
    },
    Route {
        path: "/api/v1/adapters",
        methods: &[
            at!(get Viewer runtimes::adapters, "list the adapters of the configuration, by name"),
        ],
    },
    Route {
        path: "/api/v1/config/schema",
        methods: &[at!(get Viewer runtimes::config_schema,
            "the JSON Schema of ostler.json, as `ostler config schema` prints it")],
    },
    Route {
        path: "/api/v1/doctor",
        methods: &[at!(post Operator runtimes::diagnose,
            "check an agent, adapter or runtime by name, or with the scope admin an adapter that is not saved; it takes up to 5 s")],
    },
    Route {
        path: "/api/v1/approvals",
        methods: &[at!(get Viewer approvals::list, "approvals that wait for a person, by id")],
    },
    Route {
        path: "/api/v1/approvals/{approval}/answer",
        methods: &[at!(post Operator approvals::answer, "answer an approval")],
    },
    Route {
        path: "/api/v1/asks",
        methods: &[at!(deprecated get Viewer approvals::list, "use /api/v1/approvals")],
    },
    Route {
        path: "/api/v1/asks/{ask}/answer",
        methods: &[at!(deprecated post Operator approvals::answer,
            "use /api/v1/approvals/{approval}/answer")],
    },
    Route {
        path: "/api/v1/costs",
        methods: &[at!(get Own money::costs,
            "list costs, newest days first: by=day,agent,adapter,model and since=2026-11-01 or 7d")],
    },
    Route {
        path: "/api/v1/budgets",
        methods: &[at!(get Viewer quotas::budgets,
                "list the budgets that runs share, with the remainder: all of them, at most 64")],
    },
    Route {
        path: "/api/v1/quotas",
        methods: &[at!(get Viewer quotas::list,
            "the quotas of accounts: open when runs may start; else blocked, with until when and why")],
    },
    Route {
        path: "/api/v1/quotas/clear",
        methods: &[at!(post Operator quotas::clear,
            "let runs start again in a scope, whatever its provider reported")],
    },
    Route {
        path: "/api/v1/prices",
        methods: &[
            at!(get Viewer money::prices, "list prices in use, by name; model= is a part of the name"),
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
            at!(get Admin tokens::list, "list valid tokens except the owner's, oldest first"),
            at!(post Admin tokens::add, "make a token; it is shown only in this answer"),
        ],
    },
    Route {
        path: "/api/v1/tokens/{token}/revoke",
        methods: &[at!(post Admin tokens::revoke, "revoke a token")],
    },
    Route {
        path: "/api/v1/sign-in",
        methods: &[at!(post Admin sign_in::link, "make a link that signs a browser in, once")],
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

/// How a method takes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// It takes none; one that is sent is ignored.
    None,
    /// One may be left out.
    Optional,
    Required,
}

/// How a method of an address takes a body, as the document says.
pub fn body_use(path: Option<&str>, method: &http::Method) -> BodyUse {
    static USES: LazyLock<Vec<(&str, &str, BodyUse)>> = LazyLock::new(|| {
        let all = ROUTES.iter().flat_map(|route| route.methods.iter().map(move |at| (route, at)));
        all.map(|(route, at)| (route.path, at.verb, openapi::body_use(at))).collect()
    });
    let known = find(path, method).zip(path).and_then(|(method, path)| {
        USES.iter().find(|(of, verb, _)| *of == path && *verb == method.verb)
    });
    known.map_or(BodyUse::None, |(_, _, body)| *body)
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
    let fault = Fault::new(Code::MethodNotAllowed, "this address does not accept that method");
    ([(header::ALLOW, taken.join(", "))], Problem(fault)).into_response()
}

async fn not_found() -> Problem {
    Problem(
        Fault::new(Code::NotFound, "no such address")
            .with_hint("/api/v1/openapi.json lists the addresses"),
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
        let mut response = problem(Surface::Api, self.0.clone());
        // Kept for a caller that reads hints of another surface (`worded`).
        response.extensions_mut().insert(Refusal(self.0));
        response
    }
}

/// The fault that a response was made of.
#[derive(Clone)]
struct Refusal(Fault);

fn problem(surface: Surface, fault: Fault) -> Response {
    let problem = contract::Problem::on(surface, fault);
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, PROBLEM_TYPE)], Json(problem)).into_response()
}

/// Whether a caller says that its reader sits at a terminal: our own commands do.
pub fn surface_of(headers: &http::HeaderMap) -> Surface {
    match headers.get(SURFACE).map(http::HeaderValue::as_bytes) {
        Some(b"cli") => Surface::Cli,
        Some(_) | None => Surface::Api,
    }
}

/// Gives a refusal the hint of the surface that asked. Everything else stays as it is.
pub fn worded(surface: Surface, response: Response) -> Response {
    let refusal = response.extensions().get::<Refusal>();
    match refusal.filter(|_| surface != Surface::Api) {
        None => response,
        Some(Refusal(fault)) => {
            let other = problem(surface, fault.clone());
            let (mut parts, _) = response.into_parts();
            // The body is another, so its length is.
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, other.into_body())
        }
    }
}

/// A JSON object as the body, whose faults are ours.
pub struct Given<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let (operation, bytes) = body(request, state).await?;
        Ok(Self(object(&operation, &bytes)?))
    }
}

/// The same where the body may be left out.
pub struct Perhaps<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for Perhaps<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let (operation, bytes) = body(request, state).await?;
        match bytes.is_empty() {
            true => Ok(Self(T::default())),
            false => Ok(Self(object(&operation, &bytes)?)),
        }
    }
}

/// A JSON body of whatever shape its reader takes.
pub struct Told<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Told<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let (operation, bytes) = body(request, state).await?;
        Ok(Self(read(&operation, &bytes)?))
    }
}

/// Where the document describes the operation that was asked for.
fn described(method: &http::Method, path: Option<&MatchedPath>) -> String {
    let path = path.map_or("it", MatchedPath::as_str);
    format!("see {method} {path} in /api/v1/openapi.json")
}

/// Where the operation is described, and the body that was sent.
async fn body<S: Send + Sync>(
    request: axum::extract::Request,
    state: &S,
) -> Result<(String, Bytes), Problem> {
    let operation = described(request.method(), request.extensions().get::<MatchedPath>());
    match Bytes::from_request(request, state).await {
        Ok(bytes) => Ok((operation, bytes)),
        Err(error) => Err(Problem(Fault::new(Code::Usage, error.body_text()))),
    }
}

/// Reads an object. A reader of structs takes a list of their fields for one, and an empty list for one
/// that says nothing: what nobody described would be done.
fn object<T: DeserializeOwned>(operation: &str, bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
        let message = "the request body is a list, and must be an object";
        return Err(Fault::new(Code::Usage, message).with_hint(operation).into());
    }
    read(operation, bytes)
}

fn read<T: DeserializeOwned>(operation: &str, bytes: &[u8]) -> Result<T, Problem> {
    let reader = &mut serde_json::Deserializer::from_slice(bytes);
    let read: Result<T, Unread> = serde_path_to_error::deserialize(&mut *reader).map_err(|error| {
        let path = error.path().to_string();
        unread(&error.into_inner(), &path)
    });
    let ended = |value| reader.end().map(|()| value).map_err(|error| unread(&error, "."));
    // The reader of an enum calls a number bad syntax, though it is good JSON.
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    let read = read.and_then(ended).or_else(|unread| whole_numbers(bytes).ok_or(unread));
    read.map_err(|Unread { message, field }| match field {
        Some(field) if is_json() => format!("`{field}` has the wrong form in the request body"),
        Some(_) | None => message,
    })
    .map_err(|message| Problem(Fault::new(Code::Usage, message).with_hint(operation)))
}

/// Reads a body once more with numbers such as `30.0` as the whole numbers that they are: JSON does not
/// tell them apart, and nor does a schema of type `integer`.
fn whole_numbers<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    if make_whole(&mut value) { serde_json::from_value(value).ok() } else { None }
}

/// Whether anything was changed.
fn make_whole(value: &mut serde_json::Value) -> bool {
    use serde_json::Value;
    /// Up to here every whole number is exact in floating point.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            let Some(float) = float.filter(|n| n.fract() == 0.0 && n.abs() <= EXACT_MAX) else {
                return false;
            };
            *number = (float as i64).into();
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| make_whole(item) | any),
        Value::Object(fields) => {
            fields.values_mut().fold(false, |any, field| make_whole(field) | any)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Why a body could not be read.
struct Unread {
    message: String,
    /// The field at which its text is bad syntax.
    field: Option<String>,
}

/// What is wrong with a body, in words for the author of a request: the field, and for text that is no
/// JSON its place.
fn unread(error: &serde_json::Error, path: &str) -> Unread {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let place = format!(" at line {line} column {column}");
    let said = said.strip_suffix(&place).unwrap_or(&said);
    let message = match error.classify() {
        serde_json::error::Category::Data => {
            format!("{} in the request body", misread::in_words(said, path))
        }
        serde_json::error::Category::Syntax => format!("the request body is not JSON{place}"),
        serde_json::error::Category::Eof => {
            format!("the request body is not JSON: it ends too early{place}")
        }
        serde_json::error::Category::Io => format!("reading the request body: {said}"),
    };
    let is_syntax = error.classify() == serde_json::error::Category::Syntax;
    Unread { message, field: (is_syntax && path != ".").then(|| path.to_owned()) }
}

/// What follows the question mark, whose faults are ours.
pub struct Options<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Options<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(options)) => Ok(Self(options)),
            Err(error) => {
                let said = error.body_text();
                let said = said.strip_prefix("Failed to deserialize query string: ");
                let said = said.map_or_else(|| error.body_text(), str::to_owned);
                let said = match said.split_once(": ") {
                    Some((name, said)) if !name.contains([' ', '\'']) => {
                        misread::in_words(said, name)
                    }
                    Some(_) | None => misread::in_words(&said, ""),
                };
                let operation = described(&parts.method, parts.extensions.get::<MatchedPath>());
                let message = format!("{said} in the query");
                Err(Problem(Fault::new(Code::Usage, message).with_hint(operation)))
            }
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
        ("get", "/api/v1/openapi.json", Access::Open),
        ("post", "/mcp", Access::Run),
        ("get", "/api/v1/runs/{run}", Access::Own),
        ("get", "/api/v1/tasks/{task}", Access::Own),
        ("get", "/api/v1/costs", Access::Own),
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
    fn wrong_bodies_are_told_in_words_of_the_api() {
        use contract::plan::Limit;
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wanted {
            #[expect(dead_code, reason = "it is only read")]
            cwd: String,
            #[expect(dead_code, reason = "it is only read")]
            limit: Option<u32>,
            #[expect(dead_code, reason = "it is only read")]
            #[serde(default)]
            wall: Option<Limit>,
        }
        let rows = [
            ("{}", "missing field `cwd` in the request body"),
            (
                r#"{"cwd":"/x","limit":"many"}"#,
                "`limit` must be a whole number of 0 or more, not the string \"many\" in the request body",
            ),
            (
                r#"{"path":1}"#,
                "unknown field `path`, expected one of `cwd`, `limit`, `wall` in the request body",
            ),
            (r#"{"cwd":"#, "the request body is not JSON: it ends too early at line 1 column 7"),
            (r#"{"cwd":"/x"} x"#, "the request body is not JSON at line 1 column 14"),
            ("[]", "the request body is a list, and must be an object"),
            ("\"x\"", "it must be an object, not the string \"x\" in the request body"),
            (r#"{"cwd":"/x","wall":5}"#, "`wall` has the wrong form in the request body"),
        ];
        for (body, message) in rows {
            let Problem(fault) = object::<Wanted>("see it", body.as_bytes()).unwrap_err();
            assert_eq!((fault.message.as_str(), fault.hint()), (message, "see it"), "{body}");
        }
    }

    #[test]
    fn only_operations_with_a_body_want_one() {
        let of = |method, path| body_use(Some(path), &method);
        assert_eq!(of(http::Method::DELETE, "/api/v1/runs/{run}"), BodyUse::None);
        assert_eq!(of(http::Method::POST, "/api/v1/tokens/{token}/revoke"), BodyUse::None);
        assert_eq!(of(http::Method::POST, "/api/v1/host/handover"), BodyUse::None);
        assert_eq!(of(http::Method::POST, "/api/v1/runs/{run}/stop"), BodyUse::Optional);
        assert_eq!(of(http::Method::POST, "/api/v1/tasks/{task}/approve"), BodyUse::Optional);
        assert_eq!(of(http::Method::POST, "/api/v1/runs"), BodyUse::Required);
        assert_eq!(of(http::Method::POST, "/mcp"), BodyUse::Required);
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
        // These look, and change nothing.
        let looks = ["/api/v1/doctor", "/api/v1/runtimes/{runtime}/models"];
        let for_runs = ["/mcp", "/api/v1/runs/{run}/callback"];
        let without = [&without[..], &looks, &for_runs].concat();
        for route in ROUTES {
            for method in route.methods.iter().filter(|method| method.verb == "post") {
                let none = without.contains(&route.path) || route.path.ends_with("/handover");
                let keyed = is_keyed(Some(route.path), &http::Method::POST);
                assert_eq!(keyed, !none, "{} {}", method.verb, route.path);
            }
        }
    }
}
