//! How an MCP server of the configuration is reached by HTTP: what may be sent where, and by which
//! client.
//!
//! Certificates are always verified, by the authorities of the system or those that `SSL_CERT_FILE`
//! and `SSL_CERT_DIR` of the host name. Headers go to the address that is written in the configuration
//! and to no other, and over plain HTTP only to this machine. Which machines those may be is in
//! `machines.rs`. What is refused is refused before anything is sent, in words that say what to change.

use super::NotOpened;
use super::bounded::{self, Bounded};
use super::client::{self, Connection, Opening};
use super::login::{Login, Logins};
use super::machines::{LookedAt, System, may_be_reached};
use crate::blocking::{self, Bulkhead};
use contract::plan::McpServer;
use futures::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a server is asked what login it wants.
const CHALLENGE_MAX: Duration = Duration::from_secs(15);
/// How long a server is asked whether it speaks the transport of 2024.
const SSE_LOOK_MAX: Duration = Duration::from_secs(3);
const SSE_ONLY: &str = "it speaks the retired SSE transport, which is not supported: use its address for \
                        streamable HTTP (often /mcp in place of /sse), or a newer version of the server";

/// Scopes that are named to a person.
const SCOPES_SHOWN_MAX: usize = 20;
/// Of the stream that tells whether a server speaks the transport of 2024: its first event is an address.
const SSE_LOOK_BYTES_MAX: usize = 64 * 1024;
/// Redirects that are followed, one after the other.
const REDIRECTS_MAX: usize = 3;

/// Connects to the server at this address.
pub(super) async fn dial(
    name: &str,
    server: &McpServer,
    url: &str,
    opening: Opening,
    logins: &Logins,
) -> Result<(Connection, Option<Arc<Login>>), NotOpened> {
    let has_own = server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    // A key of the configuration is meant to be sent, whatever login there is.
    let login = match has_own {
        true => None,
        false => Login::find(logins, name, url).await?.map(Arc::new),
    };
    let address = address(url, !server.headers.is_empty() || login.is_some())?;
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let name = name.parse().map_err(|_| format!("'{name}' is not the name of a header"))?;
        let value = value.parse().map_err(|_| format!("the header '{name}' cannot be sent"))?;
        headers.insert(name, value);
    }
    let secret = !headers.is_empty() || login.is_some() || names_a_user(&address);
    // The authorities of the system are read from files.
    let http =
        blocking::spawn(Bulkhead::Data, "build MCP client", move || client(&address, secret))
            .await
            .map_err(|error| error.to_string())??;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers.clone());
    let bounded = Bounded { client: http.clone(), login: login.clone() };
    let transport = StreamableHttpClientTransport::with_client(bounded, config);
    let error = match client::open(transport, opening).await {
        Ok(connection) => return Ok((connection, login)),
        Err(error) => error,
    };
    if speaks_sse(&http, url, headers, &error).await {
        return Err(SSE_ONLY.to_owned().into());
    }
    Err(NotOpened { why: not_begun(name, &error), again: client::another_opening(&error) })
}

/// What a server that wants a login says of it, asked as a run asks it; none when it wants none, or
/// cannot be asked.
pub(super) async fn challenge(url: &str) -> Option<String> {
    let to = address(url, false).ok()?; // the login itself says what is wrong with it
    let made =
        blocking::spawn(Bulkhead::Data, "build MCP client", move || client(&to, false)).await;
    let http = made.ok()?.ok()?; // the same
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let bounded = Bounded { client: http, login: None };
    let transport = StreamableHttpClientTransport::with_client(bounded, config);
    let opened = client::open(transport, Opening::DiscoverFirst);
    let opened = tokio::time::timeout(CHALLENGE_MAX, opened).await.ok()?; // it says nothing
    opened.err()?.auth_challenge().map(str::to_owned)
}

/// Whether a server that could not be opened is one of the transport of 2024: asked by GET it answers
/// with a stream whose first event names the address for messages.
async fn speaks_sse(
    http: &Client,
    url: &str,
    headers: HashMap<HeaderName, HeaderValue>,
    error: &ClientInitializeError,
) -> bool {
    if error.auth_challenge().is_some() {
        return false;
    }
    let headers = headers.into_iter().collect::<HeaderMap>();
    let asked = http.get(url).headers(headers).header(ACCEPT, "text/event-stream").send();
    let look = async {
        let response = asked.await.ok()?; // a server that does not answer a GET is not one of these
        let kind = response.headers().get(CONTENT_TYPE)?.to_str().ok()?; // nor one without words
        if !response.status().is_success() || !kind.starts_with("text/event-stream") {
            return None;
        }
        let first = bounded::events(response, SSE_LOOK_BYTES_MAX).next().await?;
        Some(first.ok()?.event.as_deref() == Some("endpoint")) // a broken stream says nothing
    };
    tokio::time::timeout(SSE_LOOK_MAX, look).await.ok().flatten().unwrap_or(false) // it is silent
}

/// A client for an address that is sent a secret, if it may be.
pub(crate) async fn client_with_secret(url: String) -> Result<(Client, Url), String> {
    let address = address(&url, true)?;
    let to = address.clone();
    let made =
        blocking::spawn(Bulkhead::Data, "build MCP client", move || client(&address, true)).await;
    Ok((made.map_err(|error| error.to_string())??, to))
}

/// The address, when it may be sent what is to be sent there.
pub(super) fn address(url: &str, headers: bool) -> Result<Url, String> {
    let address = Url::parse(url).map_err(|error| format!("its url cannot be read: {error}"))?;
    let secret = headers || names_a_user(&address);
    if let Some(ip) = by_number(&address) {
        may_be_reached(ip)?;
    }
    match address.scheme() {
        "https" => Ok(address),
        "http" if secret && !is_loopback(&address) => Err(
            "its headers would cross the network unencrypted: use an https url, or http on this \
             machine (localhost) only"
                .to_owned(),
        ),
        "http" => Ok(address),
        other => Err(format!("its url begins with '{other}' and not with https or http")),
    }
}

fn client(address: &Url, secret: bool) -> Result<Client, String> {
    client_with(address, redirects(secret))
}

/// A client that gives a redirect to its caller.
pub(super) fn client_without_redirects(address: &Url) -> Result<Client, String> {
    client_with(address, Policy::none())
}

fn client_with(address: &Url, redirects: Policy) -> Result<Client, String> {
    let mut builder = Client::builder()
        .referer(false)
        .redirect(redirects)
        .dns_resolver(Arc::new(LookedAt(System)));
    let tls = address.scheme() == "https";
    builder = match tls {
        true => builder.https_only(true),
        // Nothing is verified, so nothing is loaded.
        false => builder.tls_certs_only([]),
    };
    // A proxy sees all of plain HTTP, and has another idea of what this machine is. TLS goes through it
    // in a tunnel.
    if !tls || is_loopback(address) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| causes(&error))
}

pub(super) fn is_loopback(address: &Url) -> bool {
    address.host_str() == Some("localhost") || by_number(address).is_some_and(|ip| ip.is_loopback())
}

/// The machine, where it is written by its number.
fn by_number(address: &Url) -> Option<IpAddr> {
    address.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn names_a_user(address: &Url) -> bool {
    !address.username().is_empty() || address.password().is_some()
}

/// A server that is given headers is never followed to where the configuration does not point;
/// any other may send us on within its own house.
fn redirects(secret: bool) -> Policy {
    Policy::custom(move |attempt: Attempt<'_>| {
        let next = attempt.url();
        let to = format!("{}{}", next.origin().ascii_serialization(), next.path());
        let home = attempt.previous().first().map(Url::origin);
        let same = home == Some(next.origin()) && !names_a_user(next);
        // The other kinds would make a GET of what was posted.
        let whole = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
        if secret {
            attempt.error(format!(
                "it redirects to {to}, and its headers are sent only to its url: write that \
                 address as its url if you trust it"
            ))
        } else if !same || !whole.contains(&attempt.status()) {
            attempt.error(format!(
                "it redirects to {to}, which is not followed: write that address as its url if you \
                 trust it"
            ))
        } else if attempt.previous().len() > REDIRECTS_MAX {
            attempt.error(format!("it redirects more than {REDIRECTS_MAX} times"))
        } else {
            attempt.follow()
        }
    })
}

/// Why a connection was not made.
pub(super) fn not_begun(name: &str, error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => carried(name, error),
        // The server does not know the first question; its answer to the second is the reason.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => not_begun(name, fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let theirs: Vec<&str> =
                server_supported.iter().map(|version| version.as_str()).collect();
            format!(
                "it speaks revision {} of MCP alone, and Ostler 2026-07-28, 2025-11-25 and older",
                theirs.join(", ")
            )
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused to begin: {} (code {})", error.message, error.code.0)
        }
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection before it answered".to_owned()
        }
        other => refused(name, &other.to_string()),
    }
}

/// Why something was not answered.
pub(super) fn not_answered(name: &str, error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => carried(name, error),
        other => refused(name, &other.to_string()),
    }
}

/// What the transport says hides what HTTP says beneath it.
fn carried(name: &str, error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => causes(error),
        Some(StreamableHttpError::AuthRequired(_)) => wants_a_login(name),
        Some(StreamableHttpError::InsufficientScope(error)) => {
            wants_scopes(name, &error.www_authenticate_header)
        }
        Some(StreamableHttpError::UnexpectedServerResponse(told)) => refused(name, told),
        Some(StreamableHttpError::HttpStatus(error)) => {
            format!("it answered HTTP {}", error.status)
        }
        Some(error) => refused(name, &error.to_string()),
        None => refused(name, &error.error.to_string()),
    }
}

fn wants_a_login(name: &str) -> String {
    format!(
        "it wants a login (HTTP 401 or 403): run `ostler mcp login {name}`, or set its key in \
         `headers` of this server"
    )
}

/// The scopes that a server wants, in the words of the command that asks for them.
fn wants_scopes(name: &str, challenge: &str) -> String {
    let told = challenge.split_once("scope=\"").and_then(|(_, rest)| rest.split('"').next());
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ":._/-".contains(letter);
    let scopes = told.unwrap_or_default().split_whitespace();
    let scopes = scopes.filter(|scope| scope.chars().all(plain)).take(SCOPES_SHOWN_MAX);
    let flags: String = scopes.map(|scope| format!(" --scope {scope}")).collect();
    format!("it wants more than the login was given: run `ostler mcp login {name}{flags}`")
}

/// Why a server refused, in words for the person who configured it.
fn refused(name: &str, told: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| told.contains(word));
    if has(&["HTTP 401", "HTTP 403", "Auth required", "AuthRequired", "Insufficient scope"]) {
        return wants_a_login(name);
    }
    if has(&["HTTP 404", "HTTP 405", "nexpected content type", "nexpectedContentType"]) {
        return "it does not speak streamable HTTP at this url: check the path; the retired SSE \
                transport is not supported"
            .to_owned();
    }
    told.to_owned()
}

/// The causes of an error, without the address that stands before them: it may hold a secret.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !causes.contains(&text) {
            causes.push(text);
        }
        next = cause.source();
    }
    if causes.is_empty() {
        return error.to_string();
    }
    if causes.iter().any(|cause| cause.starts_with("invalid peer certificate")) {
        causes.push(
            "nothing was sent; trust its authority on this system, or in the file that \
             SSL_CERT_FILE names where the host was started"
                .to_owned(),
        );
    }
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_change() {
        let login = refused("x", "unexpected server response: HTTP 401 Unauthorized");
        assert!(login.contains("`headers`") && login.contains("`ostler mcp login x`"), "{login}");
        let older = refused("x", "unexpected server response: HTTP 405 <html>");
        assert!(older.contains("SSE") && !older.contains("<html>"), "{older}");
        assert_eq!(refused("x", "it closed"), "it closed");
    }

    #[test]
    fn headers_cross_the_network_under_tls_alone_and_nothing_goes_where_credentials_are() {
        let rows = [
            ("https://mcp.example/x", true, true),
            ("http://mcp.example/x", false, true),
            ("http://mcp.example/x", true, false),
            ("http://user@mcp.example/x", false, false),
            ("http://localhost.mcp.example/x", true, false),
            ("http://127.0.0.1.mcp.example/x", true, false),
            ("http://0.0.0.0:80/x", true, false),
            ("http://0.0.0.0:80/x", false, false),
            ("http://169.254.169.254/x", false, false),
            ("https://169.254.169.254/x", true, false),
            ("http://0xa9fea9fe/x", false, false),
            ("http://[::ffff:169.254.169.254]/x", false, false),
            ("http://[fe80::1]/x", false, false),
            ("http://[fd00:ec2::254]/x", false, false),
            ("http://10.0.0.1/x", false, true),
            ("http://10.0.0.1/x", true, false),
            ("http://localhost:80/x", true, true),
            ("http://LOCALHOST/x", true, true),
            ("http://127.8.0.1:1/x", true, true),
            ("http://[::1]:1/x", true, true),
            ("ftp://localhost/x", false, false),
            ("mcp.example/x", false, false),
        ];
        for (url, headers, may) in rows {
            assert_eq!(address(url, headers).is_ok(), may, "{url} {headers}");
        }
    }
}
