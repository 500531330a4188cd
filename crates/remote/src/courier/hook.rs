//! The ear for services that take a task and answer: the task is posted, and the answer is the end,
//! now or at the address where the service says how the work stands. Whoever says that it will call
//! back is waited for; its calls come to the host and not here. `read` is pure and says what an
//! answer means: an answer that is cut is never the end of a run.

use super::link::{Link, Trouble, Worked};
use super::passage::{Passage, Whose};
use super::tongue::Tongue;
use super::{Limits, News, ear};
use crate::wire::NewSession;
use contract::limits::{
    REMOTE_ALIVE_MS, REMOTE_LOOK_MS_MAX, REMOTE_LOOK_MS_MIN, REMOTE_STATUS_BYTES_MAX,
    REMOTE_STEADY_MS,
};
use contract::{Code, Fault};
use reqwest::{Method, RequestBuilder, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Whoever hears a service.
pub struct Hook {
    pub link: Link,
    pub limits: Limits,
    pub news: mpsc::Sender<News>,
    pub whose: Whose,
}

/// Where it begins.
pub enum From {
    /// With the task.
    Task { asked: Box<NewSession>, body: String },
    /// With the session that another courier held.
    Session(String),
}

/// What a service says when it does not answer yet.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Later {
    status_url: Option<String>,
    retry_after_ms: Option<u64>,
}

impl Hook {
    /// Hears until there is an answer, or nobody listens.
    pub async fn listen(self, from: From) {
        let heard = match from {
            From::Task { asked, body } => self.begin(&asked, &body).await,
            From::Session(session) => self.wait(self.link.own_status(&session), None).await,
        };
        if let Err(fault) = heard {
            // Without a receiver the session is over.
            let _ = self.news.send(News::Over(fault)).await;
        }
    }

    async fn begin(&self, asked: &NewSession, body: &str) -> Result<(), Fault> {
        let ask = || Tongue::Hook.create(&self.link, asked, body);
        let worked = self.ask(ask, self.limits.start, Code::RemoteUnavailable).await?;
        if !worked.accepted {
            return self.tell(&worked).await;
        }
        let later = later(&worked.bytes);
        let status = match &later.status_url {
            Some(named) => Some(self.status(named)?),
            None => None,
        };
        let session = status.as_ref().map(Url::to_string).or(asked.run_id.clone());
        // Without a receiver the session is over.
        let _ = self.news.send(News::Opened(session.unwrap_or_default())).await;
        self.wait(status, later.retry_after_ms).await
    }

    /// The address at which it says how the work stands.
    fn status(&self, named: &str) -> Result<Url, Fault> {
        let wrong = |why: &str| Fault::new(Code::ProtocolError, format!("its statusUrl {why}"));
        let url = self.link.own(named);
        let url = url.ok_or_else(|| wrong("is not of the same origin as baseUrl"))?;
        if url.as_str().len() > REMOTE_STATUS_BYTES_MAX {
            return Err(wrong(&format!("has more than {REMOTE_STATUS_BYTES_MAX} bytes")));
        }
        Ok(url)
    }

    /// Looks how the work stands until it is done. Without a place to look, it will call back.
    async fn wait(&self, status: Option<Url>, after_ms: Option<u64>) -> Result<(), Fault> {
        let Some(status) = status else { return std::future::pending().await };
        let (mut looks, mut after_ms) = (0, after_ms);
        let mut told: Option<Instant> = None;
        loop {
            let asked = after_ms.map(|ms| ms.clamp(REMOTE_LOOK_MS_MIN, REMOTE_LOOK_MS_MAX));
            tokio::time::sleep(match asked {
                Some(ms) => Duration::from_millis(ms),
                None => self.limits.pause(looks),
            })
            .await;
            looks = looks.saturating_add(1);
            let ask = || self.link.request(Method::GET, status.clone());
            let worked = self.ask(ask, self.limits.lost, Code::RemoteLost).await?;
            if !worked.accepted {
                return self.tell(&worked).await;
            }
            // Work that is known to go on is not silent.
            let often = Duration::from_millis(REMOTE_ALIVE_MS);
            if told.is_none_or(|told| told.elapsed() >= often) {
                told = Some(Instant::now());
                // Without a receiver the session is over.
                let _ = self.news.send(News::Alive).await;
            }
            after_ms = later(&worked.bytes).retry_after_ms;
        }
    }

    /// Asks until there is an answer. A try that lasted was no failure of the one before.
    async fn ask(
        &self,
        request: impl Fn() -> RequestBuilder,
        patience: Duration,
        code: Code,
    ) -> Result<Worked, Fault> {
        let mut since: Option<Instant> = None;
        let mut tries = 0;
        loop {
            let began = Instant::now();
            let why = match self.link.work(request()).await {
                Ok(worked) => return Ok(worked),
                Err(Trouble::Passing(why)) => why,
                Err(Trouble::Lasting(fault)) => return Err(fault),
                Err(Trouble::Stale) => return Err(ear::stale()),
                Err(Trouble::Refused(why)) => return Err(Fault::new(Code::ProtocolError, why)),
                Err(Trouble::Gone) if code == Code::RemoteLost => return Err(ear::gone()),
                Err(Trouble::Gone) => {
                    let message = "it does not accept tasks: is baseUrl the address of a service?";
                    return Err(Fault::new(Code::ProtocolError, message));
                }
            };
            if began.elapsed() >= Duration::from_millis(REMOTE_STEADY_MS) {
                since = None;
            }
            let since = since.get_or_insert(began);
            if since.elapsed() >= patience {
                return Err(Fault::new(code, why));
            }
            tokio::time::sleep(self.limits.pause(tries)).await;
            tries += 1;
        }
    }

    /// Passes the answer on, each event with its place in it as its number.
    async fn tell(&self, worked: &Worked) -> Result<(), Fault> {
        let mut passage = Passage::default();
        for (id, event) in (1..).zip(read(worked)?) {
            passage.event(&self.whose, Some(id), Cow::Owned(event.to_string().into_bytes()));
        }
        if self.news.send(News::Lines(passage)).await.is_err() {
            return Ok(());
        }
        // Whoever heard the end makes one.
        std::future::pending().await
    }
}

impl Link {
    /// The address in the name of a session, if it has one.
    pub fn own_status(&self, session: &str) -> Option<Url> {
        Url::parse(session).ok().and_then(|url| self.own(url.as_str()))
    }
}

/// An answer that cannot be read says nothing of when.
fn later(bytes: &[u8]) -> Later {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// The events that an answer is; the last of them ends the run.
fn read(worked: &Worked) -> Result<Vec<Value>, Fault> {
    let bytes = worked.bytes.trim_ascii();
    let wrong = |why: &str| Err(Fault::new(Code::ProtocolError, format!("its answer {why}")));
    let events = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(events)) if events.first().is_some_and(is_event) => events,
        Ok(event) if is_event(&event) => vec![event],
        Ok(other) => return Ok(vec![answered(other)]),
        // No single JSON value: it may be a stream of events, or text.
        Err(_) => {
            let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let mut lines = lines.by_ref().map(serde_json::from_slice::<Value>).peekable();
            let is_stream = matches!(lines.peek(), Some(Ok(first)) if is_event(first));
            if !is_stream && !worked.text && matches!(bytes.first(), Some(b'{' | b'[')) {
                return wrong("begins as JSON and is none: it was cut, or is badly made");
            }
            if !is_stream {
                return Ok(vec![answered(json!(String::from_utf8_lossy(bytes)))]);
            }
            match lines.collect::<Result<Vec<_>, _>>() {
                Ok(events) => events,
                Err(error) => return wrong(&format!("has a line that is no JSON: {error}")),
            }
        }
    };
    let ends = events.iter().position(ends);
    match ends {
        Some(end) if end + 1 == events.len() => Ok(events),
        Some(_) => wrong("goes on after its end"),
        None => wrong("is events without an end: complete or failed must be the last"),
    }
}

/// Whether something is an event of the process protocol, and no answer of the service's own.
fn is_event(value: &Value) -> bool {
    let events = ["progress", "tool_call", "comment", "complete", "failed", "hello", "event"];
    value["type"].as_str().is_some_and(|kind| events.contains(&kind))
}

fn ends(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("complete" | "failed"))
}

/// The end that an answer of the service's own is.
fn answered(answer: Value) -> Value {
    let text = match (&answer, &answer["text"]) {
        (Value::String(text), _) | (Value::Object(_), Value::String(text)) => text.clone(),
        (Value::Null, _) => return json!({ "type": "complete" }),
        (other, _) => other.to_string(),
    };
    json!({ "type": "complete", "text": text, "output": answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(body: &str) -> Result<String, Code> {
        let worked = Worked { accepted: false, text: false, bytes: body.as_bytes().to_vec() };
        let events = read(&worked).map_err(|fault| fault.code)?;
        let word = |event: &Value| match event["text"].as_str() {
            Some(text) => format!("{}={text}", event["type"].as_str().unwrap()),
            None => event["type"].as_str().unwrap_or("?").to_owned(),
        };
        Ok(events.iter().map(word).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_answer_is_events_or_the_text_of_a_result_and_nothing_cut_is_either() {
        let rows = [
            (r#"{"type":"complete","text":"hi"}"#, Ok("complete=hi")),
            (r#"{"type":"failed","reason":"no"}"#, Ok("failed")),
            (r#"[{"type":"progress"},{"type":"complete"}]"#, Ok("progress complete")),
            ("{\"type\":\"progress\"}\n\n{\"type\":\"complete\"}\n", Ok("progress complete")),
            ("{\"type\":\"progress\"}\r\n{\"type\":\"failed\"}\r\n", Ok("progress failed")),
            ("done, and well", Ok("complete=done, and well")),
            ("", Ok("complete=")),
            ("null", Ok("complete")),
            (r#""quoted""#, Ok("complete=quoted")),
            (r#"{"text":"hi","more":1}"#, Ok("complete=hi")),
            (r#"{"type":"message"}"#, Ok(r#"complete={"type":"message"}"#)),
            ("[1,2]", Ok("complete=[1,2]")),
            ("[]", Ok("complete=[]")),
            (r#"{"type":"progress"}"#, Err(Code::ProtocolError)),
            (r#"[{"type":"progress"}]"#, Err(Code::ProtocolError)),
            (r#"[{"type":"progress"},{"type":"progress"}]"#, Err(Code::ProtocolError)),
            ("{\"type\":\"progress\"}\n{\"type\":\"progress\"}\n", Err(Code::ProtocolError)),
            (r#"[{"type":"complete"},{"type":"progress"}]"#, Err(Code::ProtocolError)),
            ("{\"type\":\"progress\"}\n{\"type\":\"compl", Err(Code::ProtocolError)),
            (r#"{"type":"complete","te"#, Err(Code::ProtocolError)),
            (r#"[{"type":"complete"}"#, Err(Code::ProtocolError)),
        ];
        for (body, told) in rows {
            assert_eq!(words(body), told.map(str::to_owned), "{body}");
        }
        let text = Worked { accepted: false, text: true, bytes: b"[x] done".to_vec() };
        assert_eq!(read(&text).unwrap()[0]["text"], "[x] done");
    }

    #[test]
    fn an_answer_of_events_cut_anywhere_is_never_the_end_of_a_run() {
        let whole = "{\"type\":\"progress\",\"summary\":\"a\"}\n{\"type\":\"complete\"}";
        for cut in 1..whole.len() {
            assert_eq!(words(&whole[..cut]), Err(Code::ProtocolError), "cut at {cut}");
        }
        assert_eq!(words(whole).as_deref(), Ok("progress complete"));
    }

    #[test]
    fn what_a_service_says_of_later_is_read_or_passed_over() {
        let said = later(br#"{"statusUrl":"/jobs/1","retryAfterMs":5,"more":true}"#);
        let known = Later { status_url: Some("/jobs/1".to_owned()), retry_after_ms: Some(5) };
        assert_eq!((said, later(b"soon")), (known, Later::default()));
    }
}
