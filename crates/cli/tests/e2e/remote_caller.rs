//! A caller of `ostler remote` by plain HTTP, and the server it calls: what the tests of remotes share.

use crate::ostler::{BOUND_MS, Ostler, Running, signal};
use contract::sse::{Reader, Record};
use futures::StreamExt as _;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Read as _;
use std::time::Duration;

pub const TOKEN: &str = "remote-hush-2026";
const BOUND: Duration = Duration::from_millis(BOUND_MS);

/// A server in the background.
pub struct Remote {
    pub running: Running,
    pub url: String,
}

impl Remote {
    pub fn of(ostler: &Ostler, flags: &[&str]) -> Self {
        let listen = ["remote", "--agent", "demo", "--listen", "127.0.0.1:0"];
        Self::with(ostler, &[&listen, flags].concat())
    }

    pub fn with(ostler: &Ostler, args: &[&str]) -> Self {
        let mut command = ostler.command(args);
        command.env("REMOTE_TOKEN", TOKEN);
        let mut running = Running::of(&mut command);
        let line = running.line();
        let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        if !url.starts_with("http") {
            let mut said = String::new();
            let _ = running.child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("it does not listen: {line}{said}");
        }
        Self { running, url }
    }

    pub fn bearer(ostler: &Ostler) -> Self {
        Self::of(ostler, &["--token-env", "REMOTE_TOKEN"])
    }

    pub fn kill(&mut self) {
        let _ = self.running.child.kill();
        let _ = self.running.child.wait();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        signal(self.running.child.id() as i32, Signal::TERM);
        let _ = self.running.child.wait();
    }
}

/// A caller of one server.
pub struct Caller {
    pub http: Client,
    pub url: String,
    pub token: Option<&'static str>,
}

impl Caller {
    pub fn of(remote: &Remote) -> Self {
        Self { http: Client::new(), url: remote.url.clone(), token: Some(TOKEN) }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url)).timeout(BOUND);
        match self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn sent(&self, request: RequestBuilder) -> (u16, Value) {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap_or_default();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.sent(self.request(Method::POST, path).json(body)).await
    }

    /// Opens a session and gives its path.
    pub async fn open(&self, run: &str, prompt: &str) -> String {
        let (status, opened) =
            self.post("/v1/sessions", &json!({ "runId": run, "prompt": prompt })).await;
        assert_eq!(status, 201, "{opened}");
        format!("/v1/sessions/{}", opened["id"].as_str().unwrap())
    }

    pub async fn input(&self, path: &str, number: u64, line: &Value) -> u16 {
        let request = self.request(Method::POST, &format!("{path}/input"));
        let request = request.header("Ostler-Input", number.to_string()).json(line);
        self.sent(request).await.0
    }

    pub async fn delete(&self, path: &str) -> u16 {
        self.sent(self.request(Method::DELETE, path)).await.0
    }

    /// The lines behind an id, until one fits or the stream ends. Ids must count up from there.
    pub async fn hear(
        &self,
        path: &str,
        after: u64,
        fits: impl Fn(&Value) -> bool,
    ) -> Vec<(u64, Value)> {
        let request = self.request(Method::GET, &format!("{path}/events"));
        let response = request.header("Last-Event-ID", after.to_string()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut pieces = response.bytes_stream();
        let mut reader = Reader::default();
        let mut heard = Vec::new();
        while let Some(Ok(piece)) = pieces.next().await {
            let mut piece = &piece[..];
            while let Some(record) = reader.next(&mut piece).unwrap() {
                let Record::Event { id, data } = record else { continue };
                let id = id.expect("every event has an id");
                assert_eq!(id, after + heard.len() as u64 + 1, "ids count up");
                let line: Value = serde_json::from_slice(&data).unwrap();
                let enough = fits(&line);
                heard.push((id, line));
                if enough {
                    return heard;
                }
            }
        }
        heard
    }

    /// Answers every call until the session ends; gives all lines behind `after`.
    pub async fn serve(&self, path: &str, after: u64) -> Vec<Value> {
        let (mut lines, mut at): (Vec<Value>, u64) = (Vec::new(), after);
        loop {
            let heard = self.hear(path, at, |line| line["type"] == "tool_call").await;
            let Some((id, last)) = heard.last().cloned() else { return lines };
            at = id;
            lines.extend(heard.into_iter().map(|(_, line)| line));
            if last["type"] != "tool_call" {
                return lines;
            }
            assert_eq!(self.input(path, at, &answer(&last)).await, 202);
        }
    }
}

/// What the caller's tools give.
pub fn answer(call: &Value) -> Value {
    let value = match call["tool"].as_str().unwrap() {
        "read_task" => json!({ "prompt": "hello from afar", "title": "t" }),
        "list_files" => json!({ "files": [{ "path": "README.md", "kind": "file" }] }),
        "read_file" => json!({ "path": "README.md", "content": "# Elsewhere\n" }),
        _ => json!({ "remaining": {} }),
    };
    json!({ "type": "tool_result", "id": call["id"], "ok": true, "value": value })
}
