//! The guard of the remote: who may come, and what may come with them, asked in the order of `auth.rs`
//! and by the same checks. A bearer token is compared in constant time, and who has none is counted; a
//! client certificate was checked before anything was said. Browsers have no business here: whatever
//! carries a browser's headers or another's name is refused, so that no web page starts an agent
//! through a loopback port. Bodies are JSON, and bounded in size and time.

use super::{Access, Refusal, Remote, access, takes_body};
use crate::auth::{self, content_type, protected, whole};
use crate::names::Names;
use crate::places::Standing;
use crate::refused::Refused;
use crate::watchers::Holder;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use contract::{Code, Fault};
use subtle::ConstantTimeEq as _;

/// Headers that only a browser sends.
const OF_BROWSERS: &[&str] = &["origin", "sec-fetch-site"];

/// Who may open sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Whoever shows this token.
    Bearer(String),
    /// Whoever has a connection: its certificate was checked, or everyone may come.
    Connected,
}

impl Auth {
    fn check(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let wanted = match self {
            Self::Connected => return Ok(()),
            Self::Bearer(token) => token,
        };
        let refused = || {
            Fault::new(Code::Unauthorized, "the request has no valid token")
                .with_hint("send Authorization: Bearer with the token of this server")
        };
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(given), None) = (given.next(), given.next()) else { return Err(refused()) };
        let token = given.to_str().ok().and_then(|given| given.strip_prefix("Bearer "));
        match token.is_some_and(|token| token.as_bytes().ct_eq(wanted.as_bytes()).into()) {
            true => Ok(()),
            false => Err(refused()),
        }
    }
}

/// What is compared against.
pub(super) struct Guard {
    auth: Auth,
    names: Names,
    refused: Refused,
}

impl Guard {
    pub fn new(auth: Auth, names: Names) -> Self {
        Self { auth, names, refused: Refused::default() }
    }
}

async fn admit(remote: &Remote, request: Request) -> Result<Request, Fault> {
    let Guard { auth: wanted, names, refused } = &*remote.guard;
    let (parts, body) = request.into_parts();
    names.host(&parts.uri, &parts.headers)?;
    if OF_BROWSERS.iter().any(|name| parts.headers.contains_key(*name)) {
        return Err(Fault::new(Code::Forbidden, "browsers are not served here"));
    }
    let matched = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    if access(matched) == Access::Open {
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let shown = wanted.check(&parts.headers);
    shown.map_err(|fault| auth::refused(remote.sessions.host(), refused, &parts, fault))?;
    if let Some(standing) = parts.extensions.get::<Standing>() {
        standing.vouch(Holder::Owner);
    }
    let body = match takes_body(matched, &parts.method) {
        true => {
            content_type(&parts.headers)?;
            Body::from(whole(&parts.headers, body).await?)
        }
        // What only looks or closes has nothing to say, and what nobody takes is told so.
        false => Body::empty(),
    };
    Ok(Request::from_parts(parts, body))
}

/// Lets a request through, or answers it here.
pub(super) async fn check(State(remote): State<Remote>, request: Request, next: Next) -> Response {
    protected(match admit(&remote, request).await {
        Ok(request) => next.run(request).await,
        Err(fault) => Refusal::from(fault).into_response(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_alone_is_good() {
        let auth = Auth::Bearer("remote-hush-2026".to_owned());
        let rows: &[(&[&str], bool)] = &[
            (&["Bearer remote-hush-2026"], true),
            (&["Bearer remote-hush-2026", "Bearer remote-hush-2026"], false),
            (&["Bearer remote-hush-202"], false),
            (&["Bearer remote-hush-20266"], false),
            (&["Bearer "], false),
            (&["bearer remote-hush-2026"], false),
            (&["Basic remote-hush-2026"], false),
            (&["remote-hush-2026"], false),
            (&[], false),
        ];
        for (given, good) in rows {
            let mut headers = HeaderMap::new();
            for given in *given {
                headers.append(header::AUTHORIZATION, given.parse().unwrap());
            }
            assert_eq!(auth.check(&headers).is_ok(), *good, "{given:?}");
        }
        assert!(Auth::Connected.check(&HeaderMap::new()).is_ok());
    }
}
