//! A stdio MCP server for programs that cannot speak HTTP: every line of standard input is a message
//! that is posted to the run's `/mcp`, every answer a line of standard output. Nothing is understood
//! on the way but what HTTP wants in its headers: the revision, the method and the name.

use super::{Context, Stopped};
use base64::Engine as _;
use contract::limits::{BODY_BYTES_MAX, TOOL_CALLS_OPEN_MAX};
use contract::{Code, Fault};
use futures::StreamExt as _;
use host::blocking::{self, Bulkhead};
use host::supervise;
use serde_json::{Value, json};
use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, mpsc};

/// The first revision that wants the method and the name in headers.
const NAMED_SINCE: &str = "2026-07-28";
/// JSON-RPC's code for a server that cannot be reached or refuses.
const REFUSED: i64 = -32_000;
const INVALID: i64 = -32_700;

struct Proxy {
    http: reqwest::Client,
    url: String,
    token: String,
    /// The revision that an `initialize` agreed on.
    revision: Mutex<Option<String>>,
    out: mpsc::Sender<String>,
}

pub async fn mcp_proxy(context: &Context) -> Result<ExitCode, Stopped> {
    let given = |name: &str| {
        context.surroundings.vars.get(name).filter(|value| !value.is_empty()).cloned().ok_or_else(
            || {
                Fault::new(Code::Usage, format!("{name} is not set"))
                    .with_hint("an agent starts this command inside a run")
            },
        )
    };
    let (url, token) = (given("MCP_SERVER_URL")?, given("OSTLER_LEASE_TOKEN")?);
    let http = reqwest::Client::builder()
        // It speaks plain HTTP: no certificates are loaded.
        .tls_certs_only([])
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Fault::new(Code::InternalError, format!("making a client: {error}")))?;
    let (out, written) = mpsc::channel(TOOL_CALLS_OPEN_MAX);
    let writer = blocking::spawn(Bulkhead::Wait, "write output", move || write(written));
    let proxy = Arc::new(Proxy { http, url, token, revision: Mutex::default(), out });
    let places = Arc::new(Semaphore::new(TOOL_CALLS_OPEN_MAX));
    let mut lines = read();
    while let Some(line) = lines.recv().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let proxy = Arc::clone(&proxy);
        supervise::spawn("pass message", async move {
            proxy.pass(line).await;
            drop(place);
        });
    }
    // The client has said all it wants to say; what it asked is still answered.
    let all = u32::try_from(TOOL_CALLS_OPEN_MAX).unwrap_or(u32::MAX);
    // The semaphore is never closed, so waiting cannot fail.
    let _ = places.acquire_many(all).await;
    drop(proxy);
    // Only a panic is left to be dropped here, and `supervise` has logged it.
    let _ = writer.await;
    Ok(ExitCode::SUCCESS)
}

/// Lines of standard input, in a thread of its own: reading it cannot be given up.
fn read() -> mpsc::Receiver<Option<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(1);
    let reading = supervise::thread("read standard input", move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let limit = BODY_BYTES_MAX as u64 + 1;
            let read = input.by_ref().take(limit).read_until(b'\n', &mut line);
            let whole = line.last() == Some(&b'\n') || line.len() <= BODY_BYTES_MAX;
            match read {
                // An input that cannot be read has ended.
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) if !whole && input.skip_until(b'\n').is_err() => return,
                Ok(_) => {}
            }
            // A line that is too long is answered and not passed on.
            if sender.blocking_send(whole.then_some(line)).is_err() {
                return;
            }
        }
    });
    if let Err(error) = reading {
        // Without the thread the channel is closed, as at the end of the input.
        tracing::error!(%error, "standard input cannot be read: no thread can be started");
    }
    lines
}

fn write(mut lines: mpsc::Receiver<String>) {
    let mut output = std::io::stdout().lock();
    while let Some(line) = lines.blocking_recv() {
        // A client that does not read any more needs nothing more.
        if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

impl Proxy {
    async fn pass(&self, line: Option<Vec<u8>>) {
        let message = line.map(|line| serde_json::from_slice::<Value>(&line));
        let message = match message {
            Some(Ok(message)) => message,
            Some(Err(error)) => return self.refuse(&Value::Null, INVALID, error.to_string()).await,
            None => {
                let why = format!("a message may have at most {BODY_BYTES_MAX} bytes");
                return self.refuse(&Value::Null, INVALID, why).await;
            }
        };
        if let Err(why) = self.post(&message).await {
            self.refuse(&message["id"], REFUSED, why).await;
        }
    }

    async fn post(&self, message: &Value) -> Result<(), String> {
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream");
        for (name, value) in self.headers(message) {
            request = request.header(name, value);
        }
        let response = request.json(message).send().await.map_err(|error| error.to_string())?;
        let status = response.status();
        let streamed = response
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if status.is_success() && streamed {
            return self.stream(message, response).await;
        }
        let body = response.bytes().await.map_err(|error| error.to_string())?;
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if answer.get("jsonrpc").is_some() => {
                self.answer(message, &answer).await;
                Ok(())
            }
            _ if status.is_success() => Ok(()),
            Ok(fault) if fault["code"].is_string() => {
                let text = |field: &str| fault[field].as_str().unwrap_or_default().to_owned();
                Err(format!("{}: {}", text("code"), text("detail")))
            }
            _ => Err(format!("the host answered {status}")),
        }
    }

    async fn stream(&self, message: &Value, response: reqwest::Response) -> Result<(), String> {
        let mut bytes = response.bytes_stream();
        let (mut rest, mut data) = (Vec::new(), Vec::new());
        while let Some(chunk) = bytes.next().await {
            rest.extend_from_slice(&chunk.map_err(|error| error.to_string())?);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                match line.trim_ascii_end() {
                    b"" => {
                        if let Ok(answer) = serde_json::from_slice(&std::mem::take(&mut data)) {
                            self.answer(message, &answer).await;
                        }
                    }
                    line => {
                        let line = line.strip_prefix(b"data:").unwrap_or_default();
                        data.extend_from_slice(line.trim_ascii_start());
                    }
                }
                if rest.len() + data.len() > BODY_BYTES_MAX {
                    return Err(format!("an answer has more than {BODY_BYTES_MAX} bytes"));
                }
            }
        }
        Ok(())
    }

    async fn answer(&self, message: &Value, answer: &Value) {
        if message["method"] == "initialize"
            && let Some(revision) = answer["result"]["protocolVersion"].as_str()
        {
            *self.revision.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(revision.to_owned());
        }
        // A client that does not read any more needs no answer.
        let _ = self.out.send(answer.to_string()).await;
    }

    /// An answer to a request; whoever did not ask is told nothing.
    async fn refuse(&self, id: &Value, code: i64, why: String) {
        if code == INVALID || !id.is_null() {
            let error = json!({ "code": code, "message": why });
            // A client that does not read any more needs no answer.
            let _ = self
                .out
                .send(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
                .await;
        }
    }

    /// What HTTP wants to know of a message without reading it.
    fn headers(&self, message: &Value) -> Vec<(&'static str, String)> {
        let params = &message["params"];
        let own = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let agreed = self.revision.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let revision = own.map(str::to_owned).or(agreed);
        let mut headers = Vec::new();
        let named = revision.as_deref().is_some_and(|revision| revision >= NAMED_SINCE);
        if let Some(method) = message["method"].as_str().filter(|_| named) {
            headers.push(("mcp-method", plain(method)));
            let name = params["name"].as_str().or(params["uri"].as_str());
            headers.extend(name.map(|name| ("mcp-name", plain(name))));
        }
        headers.extend(revision.map(|revision| ("mcp-protocol-version", plain(&revision))));
        headers
    }
}

/// A text as it may stand in a header.
fn plain(text: &str) -> String {
    let visible = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    match visible && text.trim() == text && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => {
            format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
        }
    }
}
