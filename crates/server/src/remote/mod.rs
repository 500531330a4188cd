//! ca-http-v1 over `host::ops::session`: the routes by which a caller elsewhere opens a session, hears
//! it, answers it and closes it. They are one table, from which the router is made and every defence is
//! tried. `guard.rs` stands before each of them, `listen.rs` has the address and its encryption,
//! `stream.rs` the events. What a line means is in the crate `remote`; nothing is decided here.

mod guard;
mod listen;
mod stream;
pub(crate) mod tls;

pub use guard::Auth;
pub use listen::{Door, Listening, listen};
pub use tls::Files;

use crate::rest::{Named, Problem};
use ::remote::serve::wire::{Capabilities, FENCE_HEADER, INPUT_HEADER, PROTOCOL, SessionBody};
use ::remote::serve::{heed, wire};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{self, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Json, Router};
use bytes::Bytes;
use contract::{Code, Fault, limits};
use host::ops::run::Budget;
use host::ops::session::{Missing, Opened, Session, Sessions, Wanted};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What every handler can reach.
#[derive(Clone)]
pub struct Remote {
    sessions: Arc<Sessions>,
    guard: Arc<guard::Guard>,
    readers: Arc<Semaphore>,
}

impl Remote {
    fn find(&self, id: &str) -> Result<Arc<Session>, Refusal> {
        self.sessions.find(id).map_err(|missing| match missing {
            Missing::Unknown(fault) => Refusal { fault, closed: false },
            Missing::Closed(fault) => Refusal { fault, closed: true },
        })
    }
}

/// Why something was not done, in the words of ca-http-v1: code, message and hint. Of a session that
/// was there it is said that it is gone.
pub(crate) struct Refusal {
    fault: Fault,
    closed: bool,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault, closed: false }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { mut fault, closed } = self;
        let status = match closed {
            true => StatusCode::GONE,
            false => StatusCode::from_u16(fault.code.row().http)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        fault.hint = Some(fault.hint().to_owned());
        (status, Json(fault)).into_response()
    }
}

/// The session in an address, as text; what is none is refused in the words of the protocol.
struct Id(String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let named = Named::from_request_parts(parts, state).await;
        named.map(|Named(id)| Self(id)).map_err(|Problem(fault)| fault.into())
    }
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever can knock.
    Open,
    /// Whoever may open sessions.
    Caller,
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
    make: fn() -> MethodRouter<Remote>,
}

/// A verb, who may use it, and the handler.
macro_rules! at {
    ($verb:ident $access:ident $handler:path) => {
        Method { verb: stringify!($verb), access: Access::$access, make: || $verb($handler) }
    };
}

/// The whole surface.
pub const ROUTES: &[Route] = &[
    Route { path: "/healthz", methods: &[at!(get Open healthz)] },
    Route { path: "/v1/sessions", methods: &[at!(post Caller create)] },
    Route { path: "/v1/sessions/{id}", methods: &[at!(get Caller show), at!(delete Caller close)] },
    Route { path: "/v1/sessions/{id}/events", methods: &[at!(get Caller stream::events)] },
    Route { path: "/v1/sessions/{id}/input", methods: &[at!(post Caller input)] },
];

/// Who may come to an address. What is none is told so to callers alone.
fn access(path: Option<&str>) -> Access {
    let route = ROUTES.iter().find(|route| Some(route.path) == path);
    route.and_then(|route| route.methods.first()).map_or(Access::Caller, |method| method.access)
}

/// Whether what is said beside the address counts: for all methods that are taken, but those that look
/// or close.
fn takes_body(path: Option<&str>, method: &http::Method) -> bool {
    let route = ROUTES.iter().find(|route| Some(route.path) == path);
    let told = |known: &Method| {
        known.verb.eq_ignore_ascii_case(method.as_str()) && !matches!(known.verb, "get" | "delete")
    };
    route.is_some_and(|route| route.methods.iter().any(told))
}

pub(crate) fn router(remote: Remote) -> Router {
    let routes = ROUTES.iter().fold(Router::new(), |router, route| {
        let methods = route.methods.iter().map(|method| (method.make)());
        let methods = methods.reduce(MethodRouter::merge).unwrap_or_default();
        router.route(route.path, methods.fallback(method_not_allowed))
    });
    routes
        .fallback(not_found)
        .layer(axum::extract::DefaultBodyLimit::max(limits::BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(remote.clone(), guard::check))
        .with_state(remote)
}

async fn method_not_allowed() -> Refusal {
    Fault::new(Code::MethodNotAllowed, "this address does not accept that method").into()
}

async fn not_found() -> Refusal {
    Fault::new(Code::NotFound, "no such address").into()
}

async fn healthz() -> Json<Value> {
    Json(json!({ "ok": true, "protocol": PROTOCOL }))
}

async fn create(
    State(remote): State<Remote>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<wire::Opened>), Refusal> {
    let body: SessionBody = serde_json::from_slice(&body)
        .map_err(|error| Fault::new(Code::Usage, format!("the body of the session: {error}")))?;
    let model = body.model.clone();
    let wanted = wanted(body, &headers)?;
    let Opened { session, made } = remote.sessions.create(wanted).await?;
    let resume = remote.sessions.can_resume().await;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    let opened = wire::Opened {
        id: session.run.to_string(),
        protocol: PROTOCOL.to_owned(),
        model,
        capabilities: Capabilities { resume, cancel: true, usage: true },
    };
    Ok((status, Json(opened)))
}

/// What a body asks for, or why it cannot be had.
fn wanted(body: SessionBody, headers: &HeaderMap) -> Result<Wanted, Fault> {
    if let Some(protocol) = body.protocol.filter(|protocol| protocol != PROTOCOL) {
        let message = format!("the protocol '{protocol}' is not supported");
        return Err(Fault::new(Code::NotSupported, message).with_hint(format!("use {PROTOCOL}")));
    }
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let name = body.run_id.or(key).ok_or_else(|| {
        Fault::new(Code::Usage, "the body has no runId").with_hint("give the runId of the session")
    })?;
    let (title, text) = body.task.map_or((None, None), |task| (task.title, task.body));
    let prompt = body.prompt.or(text).ok_or_else(|| {
        Fault::new(Code::Usage, "the body has no prompt").with_hint("give the prompt")
    })?;
    let budget = heed::left(&body.budget_envelope.unwrap_or_default())?;
    let contract::event::Remaining { nanousd, tokens, turns, ms } = budget;
    Ok(Wanted {
        name,
        fence: body.fencing_token,
        prompt,
        title,
        system_prompt: body.system_prompt,
        model: body.model,
        resume: body.session_resume,
        budget: Budget { nanousd, tokens, turns, ms, best_effort: false },
    })
}

async fn show(State(remote): State<Remote>, Id(id): Id) -> Result<Json<Value>, Refusal> {
    let session = remote.find(&id)?;
    let row = host::ops::run::get(remote.sessions.host(), session.run).await?;
    let status = if row.outcome.is_some() { "ended" } else { "running" };
    Ok(Json(json!({ "id": id, "protocol": PROTOCOL, "status": status, "outcome": row.outcome })))
}

async fn close(State(remote): State<Remote>, Id(id): Id) -> Result<StatusCode, Refusal> {
    let session = remote.find(&id)?;
    remote.sessions.close(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn input(
    State(remote): State<Remote>,
    Id(id): Id,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Refusal> {
    let session = remote.find(&id)?;
    let (number, fence) = (counted(&headers, INPUT_HEADER)?, counted(&headers, FENCE_HEADER)?);
    let wish = heed::read(&body)?;
    remote.sessions.input(&session, fence, number, wish).await?;
    Ok(StatusCode::ACCEPTED)
}

/// The number in a header, if it is there.
fn counted(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Fault> {
    let Some(given) = headers.get(name) else { return Ok(None) };
    let number = given.to_str().ok().and_then(|given| given.trim().parse().ok());
    number.map(Some).ok_or_else(|| Fault::new(Code::Usage, format!("{name} is not a number")))
}
