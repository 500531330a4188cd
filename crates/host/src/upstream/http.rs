//! How an MCP server of the configuration is reached by HTTP: what may be sent where, and by which
//! client.
//!
//! Certificates are always verified, by the authorities of the system or those that `SSL_CERT_FILE`
//! and `SSL_CERT_DIR` of the host name. Headers go to the address that is written in the configuration
//! and to no other, and over plain HTTP only to this machine. Which machines those may be is in
//! `machines.rs`. What is refused is refused before anything is sent, in words that say what to change.

use super::bounded::Bounded;
use super::machines::{LookedAt, System, may_be_reached};
use crate::supervise;
use contract::plan::McpServer;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};
use rmcp::ServiceExt as _;
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

/// Redirects that are followed, one after the other.
const REDIRECTS_MAX: usize = 3;

/// Connects to the server at this address.
pub(super) async fn dial(
    server: &McpServer,
    url: &str,
) -> Result<RunningService<RoleClient, ()>, String> {
    let address = address(url, !server.headers.is_empty())?;
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let name = name.parse().map_err(|_| format!("'{name}' is not the name of a header"))?;
        let value = value.parse().map_err(|_| format!("the header '{name}' cannot be sent"))?;
        headers.insert(name, value);
    }
    let secret = !headers.is_empty() || names_a_user(&address);
    // The authorities of the system are read from files.
    let client = supervise::spawn_blocking("build MCP client", move || client(&address, secret))
        .await
        .map_err(|error| error.to_string())??;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    let transport = StreamableHttpClientTransport::with_client(Bounded(client), config);
    ().serve(transport).await.map_err(|error| not_begun(&error))
}

/// A client for an address that is sent a secret, if it may be.
pub(crate) async fn client_with_secret(url: String) -> Result<(Client, Url), String> {
    let address = address(&url, true)?;
    let to = address.clone();
    let made = supervise::spawn_blocking("build MCP client", move || client(&address, true)).await;
    Ok((made.map_err(|error| error.to_string())??, to))
}

/// The address, when it may be sent what is to be sent there.
fn address(url: &str, headers: bool) -> Result<Url, String> {
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
    let mut builder = Client::builder()
        .referer(false)
        .redirect(redirects(secret))
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

fn is_loopback(address: &Url) -> bool {
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
fn not_begun(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => carried(error),
        other => other.to_string(),
    }
}

/// Why something was not answered.
pub(super) fn not_answered(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => carried(error),
        other => refused(&other.to_string()),
    }
}

/// What the transport says hides what HTTP says beneath it.
fn carried(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => causes(error),
        _ => refused(&error.to_string()),
    }
}

/// Why a server refused, in words for whoever configured it.
fn refused(told: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| told.contains(word));
    if has(&["HTTP 401", "HTTP 403", "Auth required", "AuthRequired", "Insufficient scope"]) {
        return "it wants a login (HTTP 401 or 403): set its key in `headers` of this server"
            .to_owned();
    }
    if has(&["HTTP 404", "HTTP 405", "nexpected content type", "nexpectedContentType"]) {
        return "it does not speak streamable HTTP at this url: check the path; the older SSE \
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
        let login =
            refused("Transport [X] error: unexpected server response: HTTP 401 Unauthorized");
        assert!(login.contains("`headers`"), "{login}");
        let older = refused("Transport [X] error: unexpected server response: HTTP 405 <html>");
        assert!(older.contains("SSE") && !older.contains("<html>"), "{older}");
        assert_eq!(refused("it closed"), "it closed");
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
