//! Calls over MCP that last, because a person is asked before they are carried out. A caller that gave a
//! progress token is sent `notifications/progress`; any other that accepts a stream is sent comments, so
//! that neither it nor a proxy takes the connection for dead. A call ends when its connection is closed
//! or when `notifications/cancelled` names it: its answer is dropped, and the run's driver then withdraws
//! the question.

use super::Service;
use crate::rest::Problem;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use contract::limits::{BODY_BYTES_MAX, MCP_PROGRESS_MS, TOOL_CALLS_OPEN_MAX};
use contract::speech::ToolAnswer;
use contract::{Code, Fault};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use host::ops::relay::{Bearer, CallProgress};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::Value;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const STREAM: &str = "text/event-stream";
const PROGRESS: Duration = Duration::from_millis(MCP_PROGRESS_MS);
/// How much the progress rises when all there is to tell is that the call is still open.
const TICK: f64 = 1e-6;
/// A little longer, so that a caller with a progress token is told by that.
const COMMENT: Duration = Duration::from_millis(MCP_PROGRESS_MS + 1_000);

/// The calls that are being carried out, so that a message of their caller can end one. A call is here
/// until it is answered or dropped.
#[derive(Default)]
pub struct OpenCalls {
    calls: Mutex<Vec<OpenCall>>,
}

struct OpenCall {
    bearer: Bearer,
    /// The id that the caller gave its request.
    request: Value,
    cancel: oneshot::Sender<()>,
}

impl OpenCalls {
    fn calls(&self) -> MutexGuard<'_, Vec<OpenCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the call of this run with this id. Of two clients of one run both may count from 1: where
    /// more than one call fits, none is ended.
    fn cancel(&self, bearer: Bearer, request: &Value) {
        let mut calls = self.calls();
        calls.retain(|call| !call.cancel.is_closed());
        let fits = |call: &OpenCall| call.bearer == bearer && call.request == *request;
        let mut fitting = calls.iter().enumerate().filter(|(_, call)| fits(call));
        if let (Some((place, _)), None) = (fitting.next(), fitting.next()) {
            // A call that was answered meanwhile needs no end.
            let _ = calls.swap_remove(place).cancel.send(());
        }
    }

    /// Waits for the answer of a call and reports progress meanwhile. The call is dropped when its
    /// caller leaves or cancels it.
    pub async fn lasting(
        &self,
        bearer: Bearer,
        context: &RequestContext<RoleServer>,
        call: impl Future<Output = Result<ToolAnswer, Fault>>,
        mut reports: mpsc::Receiver<CallProgress>,
    ) -> Result<ToolAnswer, Fault> {
        let (cancel, mut cancelled) = oneshot::channel();
        let request = serde_json::to_value(&context.id).unwrap_or_default();
        {
            let mut calls = self.calls();
            calls.retain(|call| !call.cancel.is_closed());
            // No run has more open calls; those of all runs are bounded by their number.
            if calls.iter().filter(|call| call.bearer == bearer).count() < TOOL_CALLS_OPEN_MAX {
                calls.push(OpenCall { bearer, request, cancel });
            }
        }
        let gone = || Fault::new(Code::Cancelled, "the caller cancelled the call");
        tokio::pin!(call);
        let mut told = Told::default();
        loop {
            tokio::select! {
                biased;
                Some(report) = reports.recv() => told.relay(context, report).await,
                answer = &mut call => {
                    // The answer may have overtaken the last reports.
                    while let Ok(report) = reports.try_recv() {
                        told.relay(context, report).await;
                    }
                    return answer;
                }
                () = context.ct.cancelled() => return Err(gone()),
                Ok(()) = &mut cancelled => return Err(gone()),
                () = tokio::time::sleep(PROGRESS) => told.tick(context).await,
            }
        }
    }
}

/// What a caller was told of the progress of its call. The protocol wants numbers that increase.
#[derive(Default)]
struct Told {
    last: Option<f64>,
}

impl Told {
    /// Passes on what the server of the tool reports.
    async fn relay(&mut self, context: &RequestContext<RoleServer>, report: CallProgress) {
        let increases = self.last.is_none_or(|last| report.progress > last);
        if !increases || !report.progress.is_finite() {
            return;
        }
        self.last = Some(report.progress);
        let Some(token) = context.meta.get_progress_token() else { return };
        let mut told = ProgressNotificationParam::new(token, report.progress);
        told.total = report.total;
        told.message = report.message;
        // A caller that has gone is noticed by its connection.
        let _ = context.peer.notify_progress(told).await;
    }

    /// Tells a caller that asked for progress that its call is still open. The number rises by so little
    /// that it stays below what the server of the tool reports next.
    async fn tick(&mut self, context: &RequestContext<RoleServer>) {
        let progress = self.last.unwrap_or_default() + TICK;
        self.last = Some(progress);
        let Some(token) = context.meta.get_progress_token() else { return };
        let mut told = ProgressNotificationParam::new(token, progress);
        told.message = Some("waiting for an answer; a person may have to approve it".to_owned());
        // The same.
        let _ = context.peer.notify_progress(told).await;
    }
}

/// A message that may cancel an earlier request.
#[derive(Deserialize)]
struct Message {
    method: String,
    #[serde(default)]
    params: Params,
}

#[derive(Default, Deserialize)]
struct Params {
    #[serde(default, rename = "requestId")]
    request: Option<Value>,
}

/// Answers one message of a run's client.
pub async fn answer(
    service: &Service,
    bearer: Bearer,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    // The guard has read it whole already.
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        Fault::new(Code::Usage, format!("reading the body of the request: {error}"))
    })?;
    if let Ok(Message { method, params: Params { request: Some(cancelled) } }) =
        serde_json::from_slice(&body)
        && method == "notifications/cancelled"
    {
        service.open.cancel(bearer, &cancelled);
    }
    let streams = accepts_stream(&parts.headers);
    let (service, request) = (service.inner.clone(), Request::from_parts(parts, Body::from(body)));
    let mut answering: BoxFuture<'static, Response> =
        async move { service.handle(request).await.map(Body::new) }.boxed();
    if !streams {
        return Ok(answering.await);
    }
    Ok(match tokio::time::timeout(COMMENT, &mut answering).await {
        Ok(response) => response,
        // The answer takes longer.
        Err(_) => kept_open(answering),
    })
}

fn accepts_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accepted.any(|accept| accept.contains(STREAM))
}

/// One piece of a stream whose end is an answer.
enum Piece {
    Comment,
    Answer(Response),
}

/// A stream of comments until the answer is there, and then the answer. Dropped with its connection, it
/// drops the call.
fn kept_open(answering: BoxFuture<'static, Response>) -> Response {
    let waiting = stream::unfold(Some(answering), async |answering| {
        let mut answering = answering?;
        tokio::select! {
            response = &mut answering => Some((Piece::Answer(response), None)),
            () = tokio::time::sleep(PROGRESS) => Some((Piece::Comment, Some(answering))),
        }
    });
    let pieces =
        stream::once(async { Piece::Comment }).chain(waiting).flat_map(|piece| match piece {
            Piece::Comment => {
                stream::once(async { Ok(Bytes::from_static(b": waiting\n\n")) }).boxed()
            }
            Piece::Answer(response) => events(response).boxed(),
        });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(STREAM));
    response
}

/// A response as server-sent events, which it may be already.
fn events(response: Response) -> impl stream::Stream<Item = Result<Bytes, Infallible>> + Send {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let streamed = kind.is_some_and(|kind| kind.starts_with(STREAM));
    let pieces = response.into_body().into_data_stream();
    // A stream that breaks off ends: the caller sees that no answer came.
    let pieces = pieces.take_while(|piece| futures::future::ready(piece.is_ok()));
    let pieces = pieces.filter_map(async |piece| piece.ok());
    let (before, after): (&[u8], &[u8]) = match streamed {
        true => (b"", b""),
        false => (b"data: ", b"\n\n"),
    };
    let mark = |bytes| stream::once(async move { Bytes::copy_from_slice(bytes) });
    mark(before)
        .chain(pieces)
        .chain(mark(after))
        .filter(|piece| futures::future::ready(!piece.is_empty()))
        .map(Ok)
}
