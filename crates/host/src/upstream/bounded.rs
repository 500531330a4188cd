//! The client beneath MCP by HTTP, with a bound on what one answer may hold. The library reads a plain
//! JSON answer whole before anyone can look at its size, so posting is done here, and an answer is
//! given up as soon as it is too long. Where to post, and what may be sent there, is `http.rs`.

use super::login::Login;
use contract::limits::MCP_ANSWER_BYTES_MAX;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::sync::Arc;

const SESSION: &str = "mcp-session-id";
/// Headers that are the protocol's own.
const RESERVED: &[&str] = &["accept", SESSION, "last-event-id"];
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// What is shown of an answer that makes no sense.
const PREVIEW_CHARS: usize = 200;

type Failure = StreamableHttpError<reqwest::Error>;

/// A client whose answers are bounded, and which sends the token of a login.
#[derive(Clone)]
pub(super) struct Bounded {
    pub client: reqwest::Client,
    pub login: Option<Arc<Login>>,
}

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut request = self.client.post(&*uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in headers {
            if RESERVED.contains(&name.as_str()) {
                return Err(Failure::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, &**session);
        }
        let request = request.json(&message);
        let token = self.token(token).await?;
        let response = sent(&request, token.as_deref()).await?;
        let response = match (&self.login, token) {
            (Some(login), Some(refused)) if response.status() == StatusCode::UNAUTHORIZED => {
                let renewed = login.renewed(&refused).await.map_err(unexpected)?;
                sent(&request, Some(&renewed)).await?
            }
            _ => response,
        };
        taken(response, &message, session.is_some()).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let token = self.token(token).await?;
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let bytes_max = MCP_ANSWER_BYTES_MAX;
        let client = &self.client;
        let token = self.token(token).await?;
        client
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, bytes_max)
            .await
    }
}

impl Bounded {
    /// The token of the login, if there is one.
    async fn token(&self, configured: Option<String>) -> Result<Option<String>, Failure> {
        match &self.login {
            Some(login) => login.token().await.map(Some).map_err(unexpected),
            None => Ok(configured),
        }
    }
}

async fn sent(request: &RequestBuilder, token: Option<&str>) -> Result<Response, Failure> {
    let request =
        request.try_clone().ok_or_else(|| unexpected("a stream was posted".to_owned()))?;
    let request = token.into_iter().fold(request, RequestBuilder::bearer_auth);
    Ok(request.send().await?)
}

/// What an answer says.
async fn taken(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    if [StatusCode::ACCEPTED, StatusCode::NO_CONTENT].contains(&status) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && in_session {
        return Err(Failure::SessionExpired);
    }
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let session = text(SESSION).map(str::to_owned);
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default().to_owned();
    if status.is_success() && kind.starts_with(EVENTS) {
        return Ok(StreamableHttpPostResponse::Sse(
            events(response, MCP_ANSWER_BYTES_MAX),
            session,
        ));
    }
    let headers = response.headers().clone();
    let body = whole(response).await?;
    if !status.is_success() {
        return refused(status, &headers, &body, message, in_session, session);
    }
    let asks = matches!(message, ClientJsonRpcMessage::Request(_));
    if !kind.starts_with(JSON) && (asks || !body.is_empty()) {
        return Err(Failure::UnexpectedContentType(Some(kind)));
    }
    match serde_json::from_slice(&body) {
        Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
        // Who asked nothing needs no answer.
        Err(_) if !asks => Ok(StreamableHttpPostResponse::Accepted),
        Err(error) => Err(unexpected(format!("{error}: {}", preview(&body)))),
    }
}

/// A refusal may still hold an answer in the words of the protocol.
fn refused(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    message: &ClientJsonRpcMessage,
    in_session: bool,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Failure> {
    let known = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
    let answer = match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
        Ok(answer @ ServerJsonRpcMessage::Error(_)) if !known => Some(answer),
        _ => None,
    };
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !known
        && !in_session
    {
        // A server of an older revision does not know this question, and says so in its own way;
        // the answer must name the question all the same.
        let error = match answer {
            Some(ServerJsonRpcMessage::Error(error)) => error.error,
            _ => ErrorData::invalid_request(format!("HTTP {status}"), None),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    if let Some(answer) = answer {
        return Ok(StreamableHttpPostResponse::Json(answer, session));
    }
    let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    let challenge = challenge.unwrap_or_default().to_owned();
    if status == StatusCode::UNAUTHORIZED {
        return Err(Failure::AuthRequired(AuthRequiredError::new(challenge)));
    }
    if status == StatusCode::FORBIDDEN && challenge.contains("insufficient_scope") {
        return Err(Failure::InsufficientScope(InsufficientScopeError::new(challenge, None)));
    }
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        return Err(HttpStatusError::new(status.as_u16(), after.map(str::to_owned)).into());
    }
    Err(unexpected(format!("HTTP {status}: {}", preview(body))))
}

/// The whole of an answer that is not too long.
async fn whole(response: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        if body.len() + piece.len() > MCP_ANSWER_BYTES_MAX {
            return Err(unexpected(too_long()));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// An answer that comes as a stream of events, which together have no more than these bytes.
pub(super) fn events(
    response: Response,
    bytes_max: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut left = bytes_max;
    let pieces = response.bytes_stream().map(move |piece| {
        let piece = piece.map_err(std::io::Error::other)?;
        left = left.checked_sub(piece.len()).ok_or_else(|| std::io::Error::other(too_long()))?;
        Ok::<_, std::io::Error>(piece)
    });
    SseStream::from_bytes_stream(pieces).boxed()
}

fn too_long() -> String {
    format!("its answer has more than {MCP_ANSWER_BYTES_MAX} bytes")
}

fn preview(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(PREVIEW_CHARS).collect()
}

fn unexpected(why: String) -> Failure {
    Failure::UnexpectedServerResponse(why.into())
}
