//! The hands of the judge of ca-http-v1: requests, and records cut out of an event stream as the
//! published rules say. Every wait has a bound, what a server sends is bounded too, and redirects are
//! not followed: a server is judged by its own answers.

use contract::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX};
use contract::{Code, Fault};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// Who asks.
pub struct Caller {
    http: Client,
    base: String,
    token: Option<String>,
    patience: Duration,
}

/// What came of a request.
#[derive(Debug, Default)]
pub struct Answer {
    what: String,
    /// None when no answer came.
    pub status: Option<u16>,
    pub content_type: Option<String>,
    pub body: Value,
    text: String,
}

impl Answer {
    pub fn is_done(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    pub fn is_refused(&self) -> bool {
        self.status.is_some_and(|status| (400..500).contains(&status))
    }

    /// What was asked and what was answered.
    pub fn told(&self) -> String {
        let Self { what, status, content_type, text, .. } = self;
        let kind = content_type.as_deref().unwrap_or("no content type");
        match status {
            Some(status) => format!("{what} answered {status} ({kind}) {text}"),
            None => format!("{what}: {text}"),
        }
    }
}

impl Caller {
    pub fn new(base: &str, token: Option<String>, patience: Duration) -> Result<Self, Fault> {
        let failed = |error: reqwest::Error| {
            Fault::new(Code::InternalError, format!("making a client: {error}"))
        };
        let builder = Client::builder().redirect(reqwest::redirect::Policy::none());
        let http = builder.connect_timeout(patience).build().map_err(failed)?;
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(Fault::new(Code::Usage, format!("'{base}' is no address of a server"))
                .with_hint("give one such as http://127.0.0.1:7718"));
        }
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), token, patience })
    }

    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn get(&self, path: &str, last_id: Option<&str>) -> Answer {
        let mut request = self.request(Method::GET, path);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        self.answered(format!("GET {path}"), request).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.answered(format!("DELETE {path}"), self.request(Method::DELETE, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value, header: Option<(&str, &str)>) -> Answer {
        let headers: Vec<_> =
            header.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        self.post_with(path, body, &headers).await
    }

    pub async fn post_with(&self, path: &str, body: &Value, headers: &[(&str, String)]) -> Answer {
        let mut request = self.request(Method::POST, path).json(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.answered(format!("POST {path}"), request).await
    }

    pub async fn post_text(&self, path: &str, body: &str) -> Answer {
        let request = self.request(Method::POST, path);
        let request = request.header("content-type", "application/json").body(body.to_owned());
        self.answered(format!("POST {path} with '{body}'"), request).await
    }

    /// The same with another token, or none.
    pub async fn post_as(&self, token: Option<&str>, path: &str, body: &Value) -> Answer {
        let mut request =
            self.http.request(Method::POST, format!("{}{path}", self.base)).json(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let whose = token.map_or("no token", |_| "a wrong token");
        self.answered(format!("POST {path} with {whose}"), request).await
    }

    async fn answered(&self, what: String, request: RequestBuilder) -> Answer {
        let whole = async {
            let (mut answer, response) = sent(what.clone(), request).await;
            // A stream where an answer was expected has no end; its status says all.
            let streams =
                answer.content_type.as_deref().is_some_and(|kind| kind.contains("stream"));
            if let Some(response) = response.filter(|_| !streams) {
                answer.text = text(response).await;
                answer.body = serde_json::from_str(&answer.text).unwrap_or_default();
            }
            answer
        };
        tokio::time::timeout(self.patience, whole).await.unwrap_or_else(|_| Answer {
            what,
            text: "no answer came in time".to_owned(),
            ..Answer::default()
        })
    }

    /// Opens the stream of a session behind an event.
    pub async fn follow(&self, path: &str, last_id: Option<&str>) -> (Answer, Option<Events>) {
        let mut request = self.request(Method::GET, path).header("accept", "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let what = format!("GET {path}");
        match tokio::time::timeout(self.patience, sent(what.clone(), request)).await {
            // The timeout.
            Err(_) => {
                let text = "no answer came in time".to_owned();
                (Answer { what, text, ..Answer::default() }, None)
            }
            Ok((answer, response)) => {
                let events = response.filter(|_| answer.is_done()).map(|response| Events {
                    bytes: response.bytes_stream().boxed(),
                    held: Vec::new(),
                    ready: VecDeque::new(),
                    patience: self.patience,
                });
                (answer, events)
            }
        }
    }
}

async fn sent(what: String, request: RequestBuilder) -> (Answer, Option<Response>) {
    match request.send().await {
        Err(error) => (Answer { what, text: innermost(&error), ..Answer::default() }, None),
        Ok(response) => {
            let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
            let answer = Answer {
                what,
                status: Some(response.status().as_u16()),
                content_type: kind.map(str::to_owned),
                ..Answer::default()
            };
            (answer, Some(response))
        }
    }
}

/// The cause of an error, such as a refused connection: what is around it names the address alone.
fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}

/// The body of an answer, as much of it as there may be.
async fn text(response: Response) -> String {
    let mut pieces = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() > BODY_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    pub id: Option<String>,
    pub data: String,
}

impl Record {
    pub fn number(&self) -> Option<u64> {
        self.id.as_deref().and_then(|id| id.parse().ok())
    }

    pub fn shown(&self) -> String {
        format!("id {}: {}", self.id.as_deref().unwrap_or("missing"), self.data)
    }
}

/// What a stream gives next.
#[derive(Debug)]
pub enum Stream {
    Record(Record),
    Ended,
    /// Nothing came for as long as it may be quiet.
    Quiet,
    Broken(String),
}

/// An open stream of events.
pub struct Events {
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    held: Vec<u8>,
    ready: VecDeque<Record>,
    patience: Duration,
}

impl Events {
    pub async fn next(&mut self) -> Stream {
        // Comments keep a stream open, and do not count as something that was said.
        let next = async {
            loop {
                if let Some(record) = self.ready.pop_front() {
                    return Stream::Record(record);
                }
                match self.bytes.next().await {
                    // A cut connection is an end like any other: what matters is what comes after.
                    None | Some(Err(_)) => return Stream::Ended,
                    Some(Ok(piece)) => self.held.extend_from_slice(&piece),
                }
                if self.held.len() > FRAME_BYTES_MAX {
                    return Stream::Broken(format!(
                        "an event of more than {FRAME_BYTES_MAX} bytes"
                    ));
                }
                self.ready.extend(records(&mut self.held));
            }
        };
        tokio::time::timeout(self.patience, next).await.unwrap_or(Stream::Quiet)
    }
}

/// Takes the whole records out of what was read.
fn records(held: &mut Vec<u8>) -> Vec<Record> {
    let blank = |length: usize, end: &[u8]| held.windows(length).rposition(|found| found == end);
    let ends = [blank(2, b"\n\n").map(|at| at + 2), blank(3, b"\n\r\n").map(|at| at + 3)];
    let Some(end) = ends.into_iter().flatten().max() else { return Vec::new() };
    let whole: Vec<u8> = held.drain(..end).collect();
    let text = String::from_utf8_lossy(&whole).replace("\r\n", "\n");
    text.split("\n\n").filter_map(record).collect()
}

fn record(text: &str) -> Option<Record> {
    let mut found = Record::default();
    let mut data: Vec<&str> = Vec::new();
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => found.id = Some(value.to_owned()),
            "data" => data.push(value),
            _ => {}
        }
    }
    found.data = data.join("\n");
    (!data.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_out_whole_and_the_rest_is_held() {
        let mut held =
            b": hi\n\nid: 1\ndata: {}\n\nid: 2\r\ndata: a\r\ndata: b\r\n\r\nid: 3\nda".to_vec();
        let found = records(&mut held);
        let record =
            |id: &str, data: &str| Record { id: Some(id.to_owned()), data: data.to_owned() };
        assert_eq!(found, [record("1", "{}"), record("2", "a\nb")]);
        held.extend_from_slice(b"ta:c\n\n");
        assert_eq!(records(&mut held), [record("3", "c")]);
        assert!(held.is_empty());
    }
}
