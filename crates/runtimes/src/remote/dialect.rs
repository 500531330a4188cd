//! Hears a remote through its courier. Events go to the code of the process protocol, untouched;
//! here is only what HTTP adds: the session, the number of the last event, the numbers of what was
//! said, and how the courier tells that the remote is gone. All of it is in the saved state, so that
//! the last number is stored with the events that it came with.

use super::ending::Before;
use super::wire::{self, Attach, Input, Line, Told};
use crate::{Dialect, Frame, Out, Stream, jsonlines, saved};
use contract::event::{self, Body, Log, Raw, Session};
use contract::plan::{Remote, RemoteProtocol};
use contract::speech::{Close, Ending};
use contract::{Code, Draft, Fault, Signal, Timestamp, Utterance};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

const VERSION: u32 = 1;

/// The level of what was dropped, or went otherwise than it should.
const WARNING: &str = "warning";

/// What is remembered beside the conversation itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    version: u32,
    run: String,
    /// Where the remote is, for a courier that takes up the session after a loss of both others.
    remote: Remote,
    session: Option<String>,
    /// The number of the last event that was heard.
    last: Option<u64>,
    /// How many words were said.
    said: u64,
    /// The fence under which the session was opened.
    fence: Option<u64>,
    /// The remote, or its courier, has named an end.
    over: bool,
    /// The remote was given an earlier session to resume.
    #[serde(default)]
    resumes: bool,
}

/// The state with the conversation that it belongs to, as it is saved.
#[derive(Serialize)]
struct Saved {
    #[serde(flatten)]
    state: State,
    talk: Box<RawValue>,
}

/// A conversation with a remote.
pub(super) struct Remotely {
    state: State,
    /// The body that opens the session, until it is said.
    opening: Option<Value>,
    talk: Box<dyn Dialect>,
}

impl Remotely {
    pub(super) fn new(
        run: String,
        fence: Option<u64>,
        remote: Remote,
        opening: Value,
        resumes: bool,
    ) -> Self {
        let state = State {
            version: VERSION,
            run,
            remote,
            session: None,
            last: None,
            said: 0,
            fence,
            over: false,
            resumes,
        };
        Self { state, opening: Some(opening), talk: jsonlines::opened(resumes) }
    }

    pub(super) fn restore(bytes: &[u8]) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Talk<'a> {
            #[serde(borrow)]
            talk: &'a RawValue,
        }
        let state: State = saved::load(bytes, VERSION)?;
        let talk: Talk<'_> = serde_json::from_slice(bytes).map_err(|error| {
            Fault::new(Code::ProcessLost, format!("reading the saved conversation failed: {error}"))
        })?;
        let talk = jsonlines::restore(talk.talk.get().as_bytes())?;
        Ok(Self { state, opening: None, talk })
    }

    /// Where the remote is, of a session that can be taken up again, and under which fence it was
    /// opened.
    pub(super) fn left(&self) -> Option<(&Remote, Option<u64>)> {
        let live = self.state.session.is_some() && !self.state.over;
        live.then_some((&self.state.remote, self.state.fence))
    }

    /// The first line for a courier that takes up the session.
    pub(super) fn attach(&self) -> Option<Vec<u8>> {
        let session = self.state.session.as_deref()?;
        let (run, after, fence) = (self.state.run.as_str(), self.state.last, self.state.fence);
        Some(wire::frame(&Told::Attach(Attach { session, run, after, fence })))
    }

    fn hear_line(&mut self, line: Line<'_>, frame: &Frame<'_>, out: &mut Out) {
        let id = line.id.as_ref().and_then(|id| id.parse().ok());
        if let (Some(event), None) = (line.event, &line.courier) {
            if self.is_called_back() && !self.is_news(id, event, frame, out) {
                return;
            }
            self.state.last = id.or(self.state.last);
            let before = Before::of(out);
            self.talk.hear(&Frame { bytes: event.get().as_bytes(), ..*frame }, out);
            return before.name_failure(event.get(), out);
        }
        if let (Some(text), None) = (&line.text, &line.courier) {
            self.state.last = id.or(self.state.last);
            return self.talk.hear(&Frame { bytes: text.as_bytes(), ..*frame }, out);
        }
        let raw = Some(Raw { stream: frame.stream.into(), line: frame.line });
        let message = line.message.unwrap_or_default();
        match line.courier.as_deref() {
            Some("opened") => self.opened(&line.session, line.model, line.capabilities, raw, out),
            Some("note") => {
                self.state.last = id.or(self.state.last);
                out.drafts.push(Draft { raw, ..note(message) });
            }
            Some("fault") => {
                self.state.over = true;
                let code = line.code.as_deref().and_then(Code::from_word);
                let code = Some(code.unwrap_or(Code::RemoteLost));
                if code == Some(Code::NativeSessionUnknown) && self.state.resumes {
                    out.signals.push(Signal::SessionUnknown);
                }
                let (text, output, detail) = (None, None, Some(message));
                out.signals.push(Signal::Result(Ending { code, text, output, detail }));
            }
            // It was heard, and that is all that it says.
            Some("alive") => {}
            Some("forced") => out.signals.push(Signal::Forced),
            // A line that is no courier's is kept, as it would be of any other agent.
            Some(_) | None => self.talk.hear(frame, out),
        }
    }

    /// Whether an event of a service is to be heard. It may come twice, by an answer and by a call
    /// back; a run ends once whatever number its end has. And nobody can tell it what a tool answered.
    fn is_news(&self, id: Option<u64>, event: &RawValue, frame: &Frame<'_>, out: &mut Out) -> bool {
        let kind: wire::Kind<'_> = serde_json::from_str(event.get()).unwrap_or_default();
        match kind.r#type.as_deref() {
            Some("complete" | "failed") => true,
            _ if id.is_some() && id <= self.state.last => false,
            Some("tool_call") => {
                let raw = Some(Raw { stream: frame.stream.into(), line: frame.line });
                let text = "a tool_call was not carried out: a service calls tools at mcpUrl";
                out.drafts.push(Draft { raw, ..note(text.to_owned()) });
                false
            }
            Some(_) | None => true,
        }
    }

    /// Whether the other side is a service that only answers, and may call back.
    pub(super) fn is_called_back(&self) -> bool {
        self.state.remote.protocol == RemoteProtocol::WebhookV1
    }

    pub(super) fn run(&self) -> &str {
        &self.state.run
    }

    fn opened(
        &mut self,
        session: &Option<Cow<'_, str>>,
        model: Option<String>,
        capabilities: Option<wire::Capabilities>,
        raw: Option<Raw>,
        out: &mut Out,
    ) {
        let Some(id) = session.as_deref() else { return };
        let again = self.state.session.as_deref() == Some(id);
        self.state.session = Some(id.to_owned());
        if again {
            return out.drafts.push(Draft { raw, ..note("the session was taken up again".into()) });
        }
        let native_session = Some(id.to_owned());
        // A remote refuses what it cannot resume.
        let resumed = self.state.resumes;
        let body = Session { model, tools: None, cwd: None, native_session, resumed };
        out.drafts.push(Draft { raw, ..Draft::agent(Body::Session(body)) });
        if capabilities.unwrap_or_default().resume == Some(true) {
            out.signals.push(Signal::Session { id: id.to_owned() });
        }
    }

    /// Numbers what the conversation has to say.
    fn number(&mut self, frames: &mut [Vec<u8>]) {
        for frame in frames {
            self.state.said += 1;
            *frame = wrapped(Some(self.state.said), frame);
        }
    }
}

impl Dialect for Remotely {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.opening.take().map(|body| wire::frame(&Told::Open(&body)))
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let frames = out.frames.len();
        let line = match frame.stream {
            Stream::Stdout if !frame.cut => std::str::from_utf8(frame.bytes).ok(),
            Stream::Stdout | Stream::Stderr => None,
        };
        match line.and_then(|line| serde_json::from_str::<Line<'_>>(line).ok()) {
            Some(line) => self.hear_line(line, frame, out),
            None => self.talk.hear(frame, out),
        }
        self.state.over |= out.signals.iter().any(|signal| matches!(signal, Signal::Ended(_)));
        // What the conversation answers by itself is said like everything else.
        let mut answers = out.frames.split_off(frames);
        self.number(&mut answers);
        out.frames.append(&mut answers);
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        let frames = out.frames.len();
        self.talk.say(utterance, out);
        let mut said = out.frames.split_off(frames);
        self.number(&mut said);
        out.frames.append(&mut said);
    }

    fn tick(&mut self, now: Timestamp, out: &mut Out) {
        self.talk.tick(now, out);
    }

    fn close(&mut self, how: Close, out: &mut Out) {
        self.talk.close(how, out);
    }

    /// Without a number: whoever says it may not know how much was said before.
    fn farewell(&self, reason: Code) -> Option<Vec<u8>> {
        self.talk.farewell(reason).map(|frame| wrapped(None, &frame))
    }

    fn save(&self) -> Vec<u8> {
        let talk = String::from_utf8(self.talk.save()).ok();
        let talk = talk.and_then(|talk| RawValue::from_string(talk).ok());
        debug_assert!(talk.is_some(), "a conversation is saved as JSON");
        let talk = talk.unwrap_or_default();
        saved::save(&Saved { state: self.state.clone(), talk })
    }
}

fn wrapped(n: Option<u64>, frame: &[u8]) -> Vec<u8> {
    let input: Option<&RawValue> = serde_json::from_slice(frame).ok();
    debug_assert!(input.is_some(), "a frame of the process protocol is one object");
    input.map_or_else(|| frame.to_vec(), |input| wire::frame(&Input { n, input }))
}

fn note(text: String) -> Draft {
    let (stream, level) = (event::Stream::Ostler, Some(WARNING.to_owned()));
    Draft::ostler(Body::Log(Log { stream, text, level }))
}
