//! The guard before every route: Host, Origin, token, content type and size, in that order. It fails
//! closed, answers in the words of the fault table, and is the same on loopback: any web page can
//! reach a local port.

use crate::App;
use crate::rest::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use contract::{Code, Fault};
use host::ops::relay::Bearer;
use std::net::SocketAddr;
use subtle::ConstantTimeEq as _;

/// The one address that tells only that we live.
pub const OPEN_PATHS: &[&str] = &["/healthz"];
/// Where the token of a live run is good enough.
const RUN_SCOPED_PATHS: &[&str] = &["/mcp"];

/// What is compared against.
pub struct Guard {
    token: String,
    hosts: Vec<String>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Owner,
    Run(Bearer),
}

impl Guard {
    pub fn new(token: String, address: SocketAddr) -> Self {
        let port = address.port();
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        Self { token, hosts: hosts.into() }
    }

    /// The names by which this server may be called.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    fn host(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let mut given = headers.get_all(header::HOST).iter();
        let known = |host: &header::HeaderValue| {
            host.to_str()
                .is_ok_and(|host| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
        };
        match (given.next(), given.next()) {
            (Some(host), None) if known(host) => Ok(()),
            _ => Err(Fault::new(Code::Forbidden, "the Host header does not name this server")),
        }
    }

    fn origin(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let refused = || Fault::new(Code::Forbidden, "the request comes from another origin");
        for origin in headers.get_all(header::ORIGIN) {
            let host = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.strip_prefix("http://"))
                .ok_or_else(refused)?;
            if !self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
                return Err(refused());
            }
        }
        match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(refused()),
        }
    }

    fn caller(&self, app: &App, headers: &HeaderMap, path: &str) -> Result<Caller, Fault> {
        let missing =
            || Fault::new(Code::Unauthorized, "the request has no token that is good here");
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(given), None) = (given.next(), given.next()) else { return Err(missing()) };
        let token = given
            .to_str()
            .ok()
            .and_then(|given| given.strip_prefix("Bearer "))
            .ok_or_else(missing)?;
        if bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            return Ok(Caller::Owner);
        }
        match app.host.run_of_token(token) {
            Some(bearer) if RUN_SCOPED_PATHS.contains(&path) => Ok(Caller::Run(bearer)),
            _ => Err(missing()),
        }
    }
}

fn content_type(method: &Method, headers: &HeaderMap) -> Result<(), Fault> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|given| given.to_str().ok())
        .and_then(|given| given.split(';').next())
        .is_some_and(|given| given.trim().eq_ignore_ascii_case("application/json"));
    match json {
        true => Ok(()),
        false => Err(Fault::new(
            Code::UnsupportedMedia,
            "the request does not say that it is application/json",
        )),
    }
}

/// Lets a request through, or answers it here.
pub async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let headers = request.headers();
    let passed = app.guard.host(headers).and_then(|()| app.guard.origin(headers)).and_then(|()| {
        if OPEN_PATHS.contains(&path.as_str()) {
            return Ok(None);
        }
        let caller = app.guard.caller(&app, headers, &path)?;
        content_type(request.method(), headers).map(|()| Some(caller))
    });
    let mut response = match passed {
        Ok(caller) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(fault) => Problem(fault).into_response(),
    };
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
