//! Requests that carry an `Idempotency-Key`: the same request under the same key is answered as it was
//! the first time, for a day, and another request under that key is refused. The id of what is made is
//! chosen and durable before it is made, so a caller that asks again after a crash finds the same and
//! not a second one. A handler that takes `Chosen` has keys: answers that hold a secret take none.

use crate::App;
use crate::auth::Caller;
use crate::rest::{self, Problem};
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use contract::limits::{ANSWER_BYTES_MAX, ANSWER_KEY_BYTES_MAX, ANSWERS_MAX, BODY_BYTES_MAX};
use contract::{Code, Fault};
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{AnswerKey, Kept, Seal};
use uuid::Uuid;

pub(crate) const KEY: &str = "idempotency-key";
/// Says that an answer is given again.
const AGAIN: &str = "idempotency-replayed";

/// The id of what is made, where the caller gave a key for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen(pub Option<Uuid>);

impl<S: Send + Sync> FromRequestParts<S> for Chosen {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(None)))
    }
}

/// In an answer: it is not the last word, and asking again may be answered otherwise.
#[derive(Debug, Clone, Copy)]
pub struct StillOpen;

/// The keys whose first request has not been answered yet.
#[derive(Default)]
pub struct Underway {
    keys: Mutex<HashSet<(String, String)>>,
}

impl Underway {
    fn keys(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until it is answered or its caller has hung up.
struct Place<'a> {
    underway: &'a Underway,
    key: (String, String),
}

impl<'a> Place<'a> {
    fn take(underway: &'a Underway, key: &AnswerKey) -> Result<Self, Fault> {
        let key = (key.caller.clone(), key.key.clone());
        match underway.keys().insert(key.clone()) {
            true => Ok(Self { underway, key }),
            false => Err(Fault::new(
                Code::Conflict,
                "a request with this idempotency-key is in progress",
            )
            .with_hint("wait for that answer, then ask again")),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.underway.keys().remove(&self.key);
    }
}

/// Answers a request that was let in, as before if its key says so.
pub async fn answer(app: &App, request: Request, next: Next) -> Response {
    match key_of(request.headers(), request.method(), request.extensions()) {
        Ok(None) => next.run(request).await,
        Ok(Some((caller, key))) => match once(app, caller, key, request, next).await {
            Ok(response) => response,
            Err(fault) => Problem(fault).into_response(),
        },
        Err(fault) => Problem(fault).into_response(),
    }
}

/// Whose key it is, and the key, where one was given and is heeded.
fn key_of(
    headers: &HeaderMap,
    method: &Method,
    extensions: &axum::http::Extensions,
) -> Result<Option<(String, String)>, Fault> {
    let path = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    if !rest::is_keyed(path, method) {
        return Ok(None);
    }
    let mut given = headers.get_all(KEY).iter();
    let (key, None) = (given.next(), given.next()) else { return Err(bad_key()) };
    let Some(key) = key else { return Ok(None) };
    let key = key.to_str().map_err(|_| bad_key())?;
    let plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_empty() || key.len() > ANSWER_KEY_BYTES_MAX || !plain {
        return Err(bad_key());
    }
    let caller = match extensions.get::<Caller>() {
        Some(Caller::Person(person)) => {
            person.token().map_or_else(|| "owner".to_owned(), |token| token.to_string())
        }
        Some(Caller::Run(_)) | None => return Ok(None),
    };
    Ok(Some((caller, key.to_owned())))
}

fn bad_key() -> Fault {
    let message =
        format!("an idempotency-key is one word of at most {ANSWER_KEY_BYTES_MAX} plain letters");
    Fault::new(Code::Usage, message)
}

async fn once(
    app: &App,
    caller: String,
    key: String,
    request: Request,
    next: Next,
) -> Result<Response, Fault> {
    let (mut parts, body) = request.into_parts();
    // The guard has read it whole already.
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        Fault::new(Code::Usage, format!("reading the body of the request: {error}"))
    })?;
    let key = AnswerKey {
        caller,
        key,
        request: asked(&parts, &body),
        chosen: host::chance::chosen(),
        now: host::clock::now().wall,
    };
    let _place = Place::take(&app.keyed, &key)?;
    let stored = |error: store::Error| Fault::new(error.code(), error.to_string());
    let chosen = match app.host.store().answer_for(key.clone()).await.map_err(stored)? {
        Kept::Open { chosen } => chosen,
        Kept::Answered { status, body } => return Ok(again(status, body)),
        Kept::OtherRequest => {
            let message = "this idempotency-key was used for another request";
            return Err(
                Fault::new(Code::Conflict, message).with_hint("use a new key for each new request")
            );
        }
        Kept::Full => {
            let message = format!(
                "{ANSWERS_MAX} idempotency-keys of the last day are stored, \
             which is the limit"
            );
            return Err(Fault::new(Code::RateLimited, message)
                .with_hint("send the request without one, or wait until the oldest expire"));
        }
    };
    parts.extensions.insert(Chosen(Some(chosen)));
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    keep(app, key, response).await
}

/// All that is asked: the address with its query, and the body.
fn asked(parts: &Parts, body: &Bytes) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    for piece in [parts.uri.path().as_bytes(), parts.uri.query().unwrap_or("").as_bytes()] {
        hash.update(&(piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hash.update(body);
    *hash.finalize().as_bytes()
}

/// Keeps an answer that made something. What was refused made nothing, and may be asked again.
async fn keep(app: &App, key: AnswerKey, response: Response) -> Result<Response, Fault> {
    let last = response.extensions().get::<StillOpen>().is_none();
    if !last || !response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        Fault::new(Code::InternalError, format!("writing the answer of the request: {error}"))
    })?;
    let value: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    if body.len() <= ANSWER_BYTES_MAX {
        let sealed = Seal::default().json(&value);
        // It was done: that it could not be kept is no reason to say otherwise. Asked again, it is
        // done under the same id.
        let kept = app.host.store().keep_answer(key, parts.status.as_u16(), sealed).await;
        if let Err(error) = kept {
            tracing::warn!(%error, "the answer for an idempotency key cannot be stored");
        }
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn again(status: u16, body: Vec<u8>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match body.as_slice() {
        b"null" => status.into_response(),
        _ => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
    };
    response.headers_mut().insert(AGAIN, HeaderValue::from_static("true"));
    response
}
