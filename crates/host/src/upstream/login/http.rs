//! What a login may reach. Addresses come from the server and from documents that it names, so each is
//! looked at before anything is sent: https, or plain http on this machine if the MCP server itself is
//! on this machine; no machine at which credentials are offered (`machines.rs`); no redirect is followed;
//! an answer has a bound.

use super::super::http::{address, client_without_redirects, is_loopback};
use crate::blocking::{self, Bulkhead};
use contract::limits::MCP_LOGIN_ANSWER_BYTES_MAX;
use futures::StreamExt as _;
use reqwest::Url;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use std::time::Duration;

/// How long an authorization server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The client beneath the login at the server of this address.
pub(super) struct OAuthHttp {
    server: String,
}

impl OAuthHttp {
    pub fn of(server: &str) -> Self {
        Self { server: server.to_owned() }
    }
}

/// An address that a login at this server may lead to.
pub(super) fn checked(server: &str, url: &str) -> Result<Url, String> {
    let to =
        address(url, true).map_err(|why| format!("its login leads to {}: {why}", named(url)))?;
    let here = Url::parse(server).is_ok_and(|server| is_loopback(&server));
    if is_loopback(&to) && !here {
        return Err(format!("its login leads to {}, which is this machine", named(url)));
    }
    Ok(to)
}

/// The machine of an address, without what may be secret in it.
fn named(url: &str) -> String {
    Url::parse(url)
        .map_or_else(|_| "no address".to_owned(), |url| url.origin().ascii_serialization())
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request)?;
            let to = checked(&self.server, request.url().as_str())?;
            // The authorities of the system are read from files.
            let made = move || client_without_redirects(&to);
            let client = blocking::spawn(Bulkhead::Data, "build MCP login client", made).await??;
            let answered = tokio::time::timeout(ANSWER_MAX, async {
                let response =
                    client.execute(request).await.map_err(|error| error.without_url())?;
                let mut answer = http::Response::new(Vec::new());
                *answer.status_mut() = response.status();
                *answer.headers_mut() = response.headers().clone();
                let mut pieces = response.bytes_stream();
                while let Some(piece) = pieces.next().await {
                    let piece = piece.map_err(|error| error.without_url())?;
                    if answer.body().len() + piece.len() > MCP_LOGIN_ANSWER_BYTES_MAX {
                        return Err("its answer is too long".into());
                    }
                    answer.body_mut().extend_from_slice(&piece);
                }
                Ok(answer)
            });
            answered.await.unwrap_or_else(|_| Err("it did not answer in time".into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_leads_to_allowed_machines_only() {
        let (far, near) = ("https://mcp.example/mcp", "http://127.0.0.1:1/mcp");
        let rows = [
            (far, "https://auth.example/token", true),
            (far, "http://auth.example/token", false),
            (far, "http://127.0.0.1:1/token", false),
            (far, "https://localhost/token", false),
            (far, "https://169.254.169.254/token", false),
            (far, "file:///etc/passwd", false),
            (far, "javascript:alert(1)", false),
            (near, "http://127.0.0.1:2/token", true),
            (near, "http://localhost:2/token", true),
            (near, "https://auth.example/token", true),
            (near, "http://auth.example/token", false),
        ];
        for (server, url, may) in rows {
            assert_eq!(checked(server, url).is_ok(), may, "{server} {url}");
        }
    }
}
