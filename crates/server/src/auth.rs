//! The guard before every route: Host, Origin, token, scope, content type and size, in that order. It fails
//! closed, answers in the words of the fault table, and is the same on loopback: any web page can
//! reach a local port. Who comes without a good token is counted (`refused.rs`) and written down.

use crate::App;
use crate::names::Names;
use crate::places::Standing;
use crate::refused::Refused;
use crate::rest::{self, Access, BodyUse, Problem};
use crate::watchers::Holder;
use crate::{keyed, sign_in};
use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use contract::{Code, Fault, RunId, Scope, Timestamp, TokenId, limits};
use futures::StreamExt as _;
use host::Host;
use host::audit::RefusedToken;
use host::ops::relay::Bearer;
use host::ops::token;
use host::ops::who::Who;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use store::TokenRow;
use subtle::ConstantTimeEq as _;

/// The run in an address of this kind.
fn of_run<'a>(path: &'a str, kind: &str) -> Option<&'a str> {
    let run = path.strip_prefix("/api/v1/runs/")?.strip_suffix(kind)?;
    (!run.is_empty() && !run.contains('/')).then_some(run)
}

/// Whether the token was that of the run whose service calls back.
fn was_good(app: &App, path: &str, token: &str) -> bool {
    let run = of_run(path, "/callback").and_then(|run| run.parse().ok());
    run.is_some_and(|run| app.host.was_token_of(run, token))
}

/// What is compared against.
pub struct Guard {
    token: String,
    pub names: Names,
    refused: Refused,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Person(Person),
    Run(Bearer),
}

/// A person, by the token that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub scope: Scope,
    pub who: Who,
    /// How long their token is good; for ever when absent.
    pub until: Option<Timestamp>,
}

impl Person {
    /// `None` for the owner, whose token is that of the data directory.
    pub fn token(&self) -> Option<TokenId> {
        match self.who {
            Who::Token { id, .. } => Some(id),
            Who::Owner | Who::Run(_) | Who::Caller | Who::Agreed { .. } => None,
        }
    }
}

impl Caller {
    /// Whether this is a person who may do what a scope allows.
    pub fn has(&self, scope: Scope) -> bool {
        matches!(self, Self::Person(person) if person.scope >= scope)
    }

    /// The run whose own token was shown.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Person(_) => None,
            Self::Run(bearer) => Some(bearer.run),
        }
    }

    /// Refuses a run that names another one than itself, before that one is looked for.
    pub fn may_see_run(&self, named: &str) -> Result<(), Fault> {
        match self.run() {
            Some(own) if named.parse().ok() != Some(own) => Err(not_its_own("run")),
            Some(_) | None => Ok(()),
        }
    }

    /// The name under which it is written down what they do.
    pub fn who(&self) -> Who {
        match self {
            Self::Person(person) => person.who.clone(),
            Self::Run(bearer) => Who::Run(bearer.run),
        }
    }
}

impl Guard {
    pub fn new(token: String, names: Names) -> Self {
        Self { token, names, refused: Refused::default() }
    }

    async fn caller(&self, app: &App, parts: &Parts) -> Result<Caller, Fault> {
        // A browser that signed in shows its cookie, and then no other token.
        let Some(given) = shown(&parts.headers)? else {
            return self.browser(app, parts).await?.ok_or_else(missing);
        };
        let token = given
            .to_str()
            .ok()
            .and_then(|given| given.strip_prefix("Bearer "))
            .ok_or_else(missing)?;
        if bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            let (scope, who) = (Scope::Admin, Who::Owner);
            return Ok(Caller::Person(Person { scope, who, until: None }));
        }
        match app.host.bearer_of(token).await {
            Some(bearer) => return Ok(Caller::Run(bearer)),
            None if was_good(app, parts.uri.path(), token) => {
                let message = "the run has ended, or belongs to another host";
                return Err(Fault::new(Code::FenceStale, message));
            }
            None => {}
        }
        match token::holder(&app.host, token).await? {
            // The token of a browser is its cookie, and nothing else.
            Some(row) if !row.browser => Ok(person(&row)),
            _ => Err(missing()),
        }
    }

    /// Who signed in with this browser. What changes something must say that it comes from a page of
    /// ours: a cookie is sent by whatever page makes the browser ask.
    async fn browser(&self, app: &App, parts: &Parts) -> Result<Option<Caller>, Fault> {
        let Some(token) = sign_in::cookie(&parts.headers) else { return Ok(None) };
        let looks = matches!(parts.method, Method::GET | Method::HEAD);
        if !looks && !parts.headers.contains_key(header::ORIGIN) {
            return Ok(None);
        }
        let row = token::holder(&app.host, token).await?;
        Ok(row.filter(|row| row.browser).map(|row| person(&row)))
    }
}

/// The refusal of a run that asks for what belongs to another.
pub fn not_its_own(what: &str) -> Fault {
    let message = format!("the token of a run opens its own {what} alone");
    Fault::new(Code::Forbidden, message)
        .with_hint("name it by OSTLER_RUN_ID or OSTLER_TASK_ID of its environment")
}

fn missing() -> Fault {
    Fault::new(Code::Unauthorized, "the request has no valid token")
}

/// The token that a request shows beside a cookie, if any. Of two nobody says which one counts.
fn shown(headers: &HeaderMap) -> Result<Option<&header::HeaderValue>, Fault> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (given, None) => Ok(given),
        (_, Some(_)) => Err(missing()),
    }
}

fn person(row: &TokenRow) -> Caller {
    Caller::Person(Person { scope: row.scope, who: Who::holds(row), until: row.expires_at })
}

/// Whether whoever asks may come here. Where persons have no business the handler says so itself.
fn allowed(caller: &Caller, access: Access) -> Result<(), Fault> {
    if caller.run().is_some() {
        return match access {
            Access::Run | Access::Own | Access::Open => Ok(()),
            Access::Viewer | Access::Operator | Access::Admin => {
                let message = "the token of a run does not open this";
                let hint = "it opens /mcp, and GET of its own run, task and costs";
                Err(Fault::new(Code::Forbidden, message).with_hint(hint))
            }
        };
    }
    match access.scope() {
        Some(scope) if !caller.has(scope) => {
            let message = format!("this needs a token of the scope {}", scope.word());
            Err(Fault::new(Code::Forbidden, message)
                .with_hint("the owner creates one with `ostler token add --scope`"))
        }
        _ => Ok(()),
    }
}

/// Refuses a body that is not said to be what we take.
pub(crate) fn content_type(headers: &HeaderMap) -> Result<(), Fault> {
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let json = |given: &header::HeaderValue| {
        let kind = given.to_str().ok().and_then(|given| given.split(';').next());
        kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    };
    match (given.next(), given.next()) {
        (Some(given), None) if json(given) => Ok(()),
        _ => Err(Fault::new(
            Code::UnsupportedMedia,
            "the content type of the request is not application/json",
        )),
    }
}

/// The whole body, within its limits of size and time: whoever dawdles over it holds no handler.
pub(crate) async fn whole(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Fault> {
    let too_large = || {
        Fault::new(Code::TooLarge, format!("at most {} bytes are allowed", limits::BODY_BYTES_MAX))
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|given| given.to_str().ok());
    let declared: u64 = declared.and_then(|given| given.parse().ok()).unwrap_or(0);
    if declared > limits::BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let read = async {
        let mut pieces = body.into_data_stream();
        let mut bytes = Vec::with_capacity(declared as usize);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| {
                Fault::new(Code::Usage, format!("reading the body of the request: {error}"))
            })?;
            if bytes.len() + piece.len() > limits::BODY_BYTES_MAX {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    let late = |_| {
        let message = format!("the body was not there after {} ms", limits::BODY_MS);
        Fault::new(Code::Usage, message)
    };
    tokio::time::timeout(Duration::from_millis(limits::BODY_MS), read).await.map_err(late)?
}

/// Counts a request that has no good token, writes it down while there are few of them, and gives
/// what it is answered with.
pub(crate) fn refused(host: &Host, refused: &Refused, parts: &Parts, reason: Fault) -> Fault {
    let from = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let from = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
    let verdict = refused.count(host::clock::now().mono_ms, from);
    if verdict.told {
        // Methods and addresses of their own making are their words, and not kept.
        let known =
            [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let method = known.iter().find(|known| **known == parts.method);
        let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
        let method = method.map_or("other", Method::as_str).to_owned();
        let before = verdict.before;
        tracing::warn!(
            %from,
            method,
            route,
            before,
            code = reason.code.word(),
            "a request was refused for its token"
        );
        host.token_refused(&reason, RefusedToken { from, method, route, before });
    }
    verdict.fault(reason)
}

/// The request that may be answered, with who asks and all that is said.
async fn admit(app: &App, request: Request) -> Result<Request, Fault> {
    let (mut parts, body) = request.into_parts();
    app.guard.names.host(&parts.uri, &parts.headers)?;
    app.guard.names.origin(&parts.headers)?;
    let matched = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    let access = rest::access(matched, &parts.method);
    if access == Access::Open {
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let caller = app.guard.caller(app, &parts).await;
    let caller = caller.map_err(|fault| match fault.code {
        Code::Unauthorized | Code::FenceStale => {
            refused(&app.host, &app.guard.refused, &parts, fault)
        }
        // That a store cannot be read is nobody's guess.
        _ => fault,
    })?;
    if let Some(standing) = parts.extensions.get::<Standing>() {
        standing.vouch(Holder::from(&caller));
    }
    allowed(&caller, access)?;
    parts.extensions.insert(caller);
    let matched = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    let body = match parts.method {
        // What only looks has nothing to say.
        Method::GET | Method::HEAD => Body::empty(),
        // What nobody takes is told so, whatever it has to say.
        _ if !rest::takes(matched, &parts.method) => Body::empty(),
        // A body that an operation does not take has its limit like any other, and is dropped. A page
        // of another site is kept out by the Origin that a cookie needs, not by a content type.
        _ => match rest::body_use(matched, &parts.method) {
            BodyUse::None => {
                whole(&parts.headers, body).await?;
                Body::empty()
            }
            BodyUse::Required => {
                content_type(&parts.headers)?;
                Body::from(whole(&parts.headers, body).await?)
            }
            BodyUse::Optional => {
                let sent = whole(&parts.headers, body).await?;
                if !sent.is_empty() {
                    content_type(&parts.headers)?;
                }
                Body::from(sent)
            }
        },
    };
    Ok(Request::from_parts(parts, body))
}

/// Lets a request through, or answers it here.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let surface = rest::surface_of(request.headers());
    // The route as it is declared: a path may hold words of the caller.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    let begun_ms = host::clock::now().mono_ms;
    let response = match admit(&app, request).await {
        Ok(request) => keyed::answer(&app, request, next).await,
        Err(fault) => Problem(fault).into_response(),
    };
    let status = response.status();
    let ms = host::clock::now().mono_ms.saturating_sub(begun_ms);
    let code = status.as_u16();
    // A method of the caller's own making would be a label without end.
    let known =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let verb = if known.contains(&method) { method.as_str() } else { "other" };
    let labels = [verb, route.as_deref().unwrap_or("none"), status.as_str()];
    host::metrics::metrics().http_requests.with_label_values(&labels).inc();
    match status {
        StatusCode::INTERNAL_SERVER_ERROR => {
            tracing::error!(%method, route, status = code, ms, "a request failed");
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            tracing::warn!(%method, route, status = code, ms, "a request failed: no storage");
        }
        _ => tracing::debug!(%method, route, status = code, ms, "a request was answered"),
    }
    protected(rest::worded(surface, response))
}

/// What every answer says to a browser that got hold of it.
pub(crate) fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    async fn refused(length: Option<&str>, body: Body) -> Code {
        let mut headers = HeaderMap::new();
        if let Some(length) = length {
            headers.insert(header::CONTENT_LENGTH, length.parse().unwrap());
        }
        whole(&headers, body).await.unwrap_err().code
    }

    #[test]
    fn of_two_tokens_none_is_good() {
        let of = |given: &[&'static str]| {
            let name = header::AUTHORIZATION;
            let given =
                given.iter().map(|one| (name.clone(), header::HeaderValue::from_static(one)));
            let headers: HeaderMap = given.collect();
            shown(&headers).map(|given| given.cloned()).map_err(|fault| fault.code)
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["Bearer a"]), Ok(Some(header::HeaderValue::from_static("Bearer a"))));
        for two in [["Bearer a", "Bearer a"], ["Bearer a", "Basic b"], ["", "Bearer a"]] {
            assert_eq!(of(&two), Err(Code::Unauthorized), "{two:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_not_waited_for() {
        let bound = Duration::from_millis(limits::BODY_MS);
        let begun = tokio::time::Instant::now();
        let first = stream::iter([Ok::<_, std::io::Error>("{")]);
        let silent = Body::from_stream(first.chain(stream::pending()));
        assert_eq!(refused(Some("2"), silent).await, Code::Usage);
        assert!((bound..bound * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // One that keeps coming, a piece a second, is not waited for either.
        let dripping = stream::iter(0..bound.as_secs() * 2).then(async |_| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::io::Error>(" ")
        });
        assert_eq!(refused(None, Body::from_stream(dripping)).await, Code::Usage);
    }

    #[tokio::test]
    async fn a_body_is_as_long_as_it_may_be_and_not_a_byte_longer() {
        let body = |bytes: usize| Body::from(vec![b' '; bytes]);
        let most = limits::BODY_BYTES_MAX;
        assert_eq!(whole(&HeaderMap::new(), body(most)).await.unwrap().len(), most);
        assert_eq!(refused(None, body(most + 1)).await, Code::TooLarge);
        assert_eq!(refused(Some(&(most + 1).to_string()), body(0)).await, Code::TooLarge);
    }
}
