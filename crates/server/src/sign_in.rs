//! Signing a browser in: the owner asks for a link, the browser that opens it is given a cookie, and
//! the link is used up. A link is good for some minutes and is kept in memory alone, as its hash; the
//! cookie is a token of its own (`host::ops::token`), for pages of this server and no script.

use crate::App;
use crate::auth::Caller;
use crate::rest::describe::{Answer, Described, With};
use crate::rest::{Given, Options, Problem};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::limits::{SIGN_IN_MS, SIGN_INS_MAX, SIGNED_IN_MS};
use contract::{Code, Fault, Scope, Timestamp};
use host::ops::token;
use host::ops::who::Who;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Mutex, PoisonError};

/// The name of the cookie.
pub const COOKIE: &str = "ostler_session";
/// Where a browser goes that has signed in.
const ENTRANCE: &str = "/api/v1/host";

/// The links that are open.
#[derive(Default)]
pub struct SignIns {
    open: Mutex<Vec<Open>>,
}

struct Open {
    code: blake3::Hash,
    allows: Allows,
    until_ms: u64,
}

impl SignIns {
    /// Takes a new one in; the oldest goes when there are too many.
    fn add(&self, code: &str, allows: Allows, now_ms: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.until_ms > now_ms);
        if open.len() >= SIGN_INS_MAX {
            open.remove(0);
        }
        let code = blake3::hash(code.as_bytes());
        open.push(Open { code, allows, until_ms: now_ms + SIGN_IN_MS });
    }

    /// Uses one up and says what it allows; `None` when it was never there, is over, or was used.
    fn take(&self, code: &str, now_ms: u64) -> Option<Allows> {
        let given = blake3::hash(code.as_bytes());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.until_ms > now_ms);
        // Comparing two blake3 hashes takes the same time whatever they are.
        let found = open.iter().position(|open| open.code == given);
        found.map(|at| open.remove(at).allows)
    }
}

/// What a link allows, and who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Allows {
    scope: Scope,
    by: Who,
}

/// A link that signs a browser in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    pub url: String,
    pub expires_at: Timestamp,
}

/// What is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRequest {
    /// What the browser may do.
    #[serde(deserialize_with = "contract::known::word")]
    #[schemars(with = "contract::Known<Scope>")]
    scope: Scope,
}

pub async fn link(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(LinkRequest { scope }): Given<LinkRequest>,
) -> Result<With<201, Link>, Problem> {
    let drawn = host::chance::token();
    let code = drawn.map_err(|error| {
        Fault::new(
            Code::InternalError,
            format!(
                "creating a code: no random numbers from the \
         kernel: {error}"
            ),
        )
    })?;
    let now = host::clock::now();
    app.sign_ins.add(&code, Allows { scope, by: caller.who() }, now.mono_ms);
    let url = format!("{}/sign-in?code={code}", app.link_base);
    Ok(With(Link { url, expires_at: now.wall.plus_ms(SIGN_IN_MS as i64) }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnterQuery {
    code: String,
}

/// The cookie, and the way on.
pub struct Entered {
    cookie: String,
}

impl IntoResponse for Entered {
    fn into_response(self) -> Response {
        let headers = [(header::SET_COOKIE, self.cookie), (header::LOCATION, ENTRANCE.to_owned())];
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}

impl Answer for Entered {
    fn describe(into: &mut Described<'_>) {
        into.answers.insert(303, json!({}));
        // There may be as many tokens as there can be.
        into.refusals.push(409);
        let header = json!({ "schema": { "type": "string" }, "required": true });
        into.headers.insert(303, json!({ "set-cookie": header, "location": header }));
    }
}

pub async fn enter(
    State(app): State<App>,
    Options(EnterQuery { code }): Options<EnterQuery>,
) -> Result<Entered, Problem> {
    let Allows { scope, by } =
        app.sign_ins.take(&code, host::clock::now().mono_ms).ok_or_else(|| {
            Fault::new(Code::Forbidden, "this sign-in link was already used, or has expired")
                .with_hint("`ostler token link` makes another")
        })?;
    let given = token::sign_in(&app.host, scope, &by).await?;
    let (token, seconds) = (given.token, SIGNED_IN_MS / 1000);
    // A browser that came by TLS shows it nowhere else.
    let secure = if app.link_base.starts_with("https:") { "; Secure" } else { "" };
    let kept = "HttpOnly; SameSite=Strict";
    let cookie = format!("{COOKIE}={token}; Path=/; Max-Age={seconds}; {kept}{secure}");
    Ok(Entered { cookie })
}

/// What our cookie says, if there is one of it.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|given| given.to_str().ok());
    let mut ours = cookies
        .flat_map(|given| given.split(';'))
        .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    match (ours.next(), ours.next()) {
        (Some(token), None) => Some(token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(scope: Scope) -> Allows {
        Allows { scope, by: Who::Owner }
    }

    #[test]
    fn a_link_opens_once_and_not_after_its_time() {
        let links = SignIns::default();
        links.add("one", allows(Scope::Viewer), 0);
        assert_eq!(links.take("two", 1), None);
        assert_eq!(links.take("one", 1), Some(allows(Scope::Viewer)));
        assert_eq!(links.take("one", 1), None);
        links.add("late", allows(Scope::Admin), 0);
        assert_eq!(links.take("late", SIGN_IN_MS), None);
    }

    #[test]
    fn there_are_no_more_links_than_the_limit_and_the_newest_are_good() {
        let links = SignIns::default();
        (0..=SIGN_INS_MAX).for_each(|n| links.add(&n.to_string(), allows(Scope::Admin), 0));
        assert_eq!(links.take("0", 1), None);
        assert!(links.take("1", 1).is_some());
        assert!(links.take(&SIGN_INS_MAX.to_string(), 1).is_some());
    }

    #[test]
    fn our_cookie_is_found_among_others_and_one_that_is_there_twice_is_none() {
        let found = |given: &[&str]| {
            let mut headers = HeaderMap::new();
            for given in given {
                headers.append(header::COOKIE, given.parse().unwrap());
            }
            cookie(&headers).map(str::to_owned)
        };
        assert_eq!(found(&["a=b; ostler_session=x; c=d"]).as_deref(), Some("x"));
        for none in [&["a=b"][..], &["ostler_session=x", "ostler_session=y"], &["ostler_sessio=x"]]
        {
            assert_eq!(found(none), None);
        }
    }
}
