//! What differs between the protocols that a remote may speak: where a session is asked for, heard,
//! spoken to and taken away, and what its events are called. Everything else, the patience, the
//! numbers and the end, is the same for all. `hermes` puts the events of that service into those of
//! the process protocol, and `hook` hears services that only answer.

use super::hermes;
use super::link::Link;
use super::mouth::Said;
use super::words::Kind;
use crate::wire::{FENCE, IDEMPOTENCY_KEY, INPUT_NUMBER, NewSession, SESSIONS, Session};
use contract::Code;
use contract::Fault;
use contract::limits::REMOTE_SESSION_BYTES_MAX;
use contract::plan::RemoteProtocol;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, Url};
use serde_json::{Value, json};

/// What a remote speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tongue {
    /// The process protocol over HTTP.
    Ca,
    /// The runs of a Hermes gateway.
    Hermes,
    /// A service that takes a task and answers it, now or later. It is told nothing more.
    Hook,
}

impl Tongue {
    pub const fn of(protocol: RemoteProtocol) -> Self {
        match protocol {
            RemoteProtocol::CaHttpV1 => Self::Ca,
            RemoteProtocol::HermesRunsV1 => Self::Hermes,
            RemoteProtocol::WebhookV1 => Self::Hook,
        }
    }

    /// The request for a session.
    pub fn create(self, link: &Link, asked: &NewSession, body: &str) -> RequestBuilder {
        let run = asked.run_id.as_deref().unwrap_or_default();
        let (url, body) = match self {
            Self::Ca => (link.below(SESSIONS), body.to_owned()),
            Self::Hermes => (link.below(hermes::RUNS), hermes::asked(asked).to_string()),
            Self::Hook => (link.base(), body.to_owned()),
        };
        let request = link
            .request(Method::POST, url)
            .header(CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, run)
            .body(body);
        match (self, asked.agent_id.as_deref()) {
            (Self::Hermes, Some(agent)) => request.header(hermes::SESSION_KEY, agent),
            (Self::Hermes, None) | (Self::Ca | Self::Hook, _) => request,
        }
    }

    /// The session that was made.
    pub fn session(self, answer: &[u8]) -> Result<Session, Fault> {
        let wrong =
            |why: String| Fault::new(Code::ProtocolError, format!("its new session: {why}"));
        let session: Session = match self {
            Self::Ca | Self::Hook => serde_json::from_slice(answer),
            Self::Hermes => hermes::session(answer),
        }
        .map_err(|error| wrong(error.to_string()))?;
        let fits = 1..=REMOTE_SESSION_BYTES_MAX;
        if !fits.contains(&session.id.len()) || session.id.chars().any(char::is_control) {
            return Err(wrong(format!(
                "an id has 1 to {REMOTE_SESSION_BYTES_MAX} plain characters"
            )));
        }
        Ok(session)
    }

    /// Where the session is, or something of it.
    pub fn place(self, link: &Link, session: &str, part: Option<&str>) -> Url {
        let [version, noun] = match self {
            Self::Ca => SESSIONS,
            Self::Hermes => hermes::RUNS,
            Self::Hook => return link.own_status(session).unwrap_or_else(|| link.base()),
        };
        link.below([version, noun, session].into_iter().chain(part))
    }

    /// The request that says a word; nothing for one that the remote has no ear for.
    pub fn input(
        self,
        link: &Link,
        session: &str,
        fence: Option<u64>,
        said: &Said,
    ) -> Option<RequestBuilder> {
        let post = |part: &str, body: String| {
            link.request(Method::POST, self.place(link, session, Some(part)))
                .header(CONTENT_TYPE, "application/json")
                .body(body)
        };
        match self {
            Self::Ca => {
                let request = post("input", said.body.clone()).header(INPUT_NUMBER, said.n);
                Some(match fence {
                    Some(fence) => request.header(FENCE, fence),
                    None => request,
                })
            }
            Self::Hermes => {
                let kind: Kind = serde_json::from_str(&said.body).unwrap_or_default();
                (kind.r#type == "shutdown").then(|| post("stop", json!({}).to_string()))
            }
            Self::Hook => None,
        }
    }

    /// The request that takes a session away, where there is a place for it.
    pub fn delete(self, link: &Link, session: &str) -> Option<RequestBuilder> {
        match self {
            Self::Ca => Some(link.request(Method::DELETE, self.place(link, session, None))),
            Self::Hermes => Some(
                link.request(Method::POST, self.place(link, session, Some("stop")))
                    .header(CONTENT_TYPE, "application/json")
                    .body("{}"),
            ),
            Self::Hook => {
                link.own_status(session).map(|status| link.request(Method::DELETE, status))
            }
        }
    }

    /// Whether the remote hears that it is to end, and ends by itself then.
    pub const fn heeds(self) -> bool {
        match self {
            Self::Ca | Self::Hermes => true,
            Self::Hook => false,
        }
    }

    /// Whether an ended session is still to be taken away.
    pub const fn leaves_something(self) -> bool {
        match self {
            Self::Ca => true,
            Self::Hermes | Self::Hook => false,
        }
    }

    /// Where to ask how a session stands that sends nothing any more, and the event that the answer is
    /// when it has ended. Streams with numbers need no such place: they are taken up.
    pub fn status(self, link: &Link, session: &str) -> Option<RequestBuilder> {
        match self {
            Self::Ca | Self::Hook => None,
            Self::Hermes => Some(link.request(Method::GET, self.place(link, session, None))),
        }
    }

    pub fn ended(self, status: &[u8]) -> Option<Value> {
        match self {
            Self::Ca | Self::Hook => None,
            Self::Hermes => hermes::ended(status),
        }
    }
}
