//! Runtimes: how each agent is started and how it talks, as pure code. A `Runtime` makes a launch
//! plan and a dialect; a `Dialect` turns bytes into drafts and signals and utterances into frames.
//! Nothing here does IO, reads a clock or rolls dice: time is an argument, values are passed in.
//! `registry` lists the runtimes; `headless` is the dialect of those that are only listened to,
//! `jsonlines` the process protocol, `acp` and `mapped` know no agent by name; `card` and `launch`
//! have what cards and plans share, and `join` joins deltas before they are sealed.

pub mod account;
pub mod acp;
pub mod adapter_judge;
pub mod aider;
mod card;
pub mod catalogue;
pub mod claude;
pub mod cline;
pub mod codex;
pub mod copilot;
#[path = "cursor-agent/mod.rs"]
pub mod cursor_agent;
pub mod demo;
mod denial;
pub mod droid;
pub mod gemini;
mod headless;
pub mod hermes;
pub mod join;
pub mod jsonlines;
pub mod kilo;
pub mod launch;
mod lenient;
pub mod mapped;
pub mod models;
pub mod openclaw;
pub mod opencode;
pub mod openhands;
pub mod page;
pub mod passed_env;
pub mod pi;
pub mod process;
pub mod provider;
pub mod registry;
pub mod remote;
pub mod reset;
mod saved;
pub mod skills;
pub mod template;
#[cfg(test)]
mod trial;
pub mod verdict;

use contract::event;
use contract::money::Budget;
use contract::plan::{Adapter, Lane};
use contract::speech::Close;
use contract::{Card, Code, Draft, Fault, LaunchPlan, Policy, Signal, Timestamp, Utterance};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An agent product. Every method is required: what a runtime cannot do is absent from its card.
pub trait Runtime: Send + Sync {
    /// What it is and can do, as data.
    fn card(&self) -> Card;

    /// What to start. A wrong configuration is a fault here, before anything is spawned.
    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault>;

    /// A fresh conversation.
    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect>;

    /// The conversation that `Dialect::save` wrote. State of an unknown version is a fault.
    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault>;

    /// What this runtime's exit codes and last words mean; `None` when it says nothing by them.
    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code>;
}

/// A way of talking. Holds no handle and no clock, so it can be saved between any two frames and
/// go on elsewhere: hearing everything equals stopping at any frame, saving, loading, going on.
pub trait Dialect: Send {
    /// The first words, said with the launch itself: the prompt, or the greeting of a protocol.
    /// Asked for once, before anything is heard.
    fn open(&mut self) -> Option<Vec<u8>>;

    /// Hears one frame. It cannot fail: what is not understood becomes a `log` draft.
    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out);

    /// Puts an utterance into frames, each a whole line with its newline. What cannot be said puts
    /// a `log` draft instead, so nothing is lost in silence.
    fn say(&mut self, utterance: &Utterance, out: &mut Out);

    /// Tells the time, for dialects that wait for something.
    fn tick(&mut self, now: Timestamp, out: &mut Out);

    /// No more frames will come.
    fn close(&mut self, how: Close, out: &mut Out);

    /// The frame that says goodbye, held by the keeper in case nobody else can say it.
    fn farewell(&self, reason: Code) -> Option<Vec<u8>>;

    /// Says that the agent called a tool of Ostler's own by the relay, for dialects that hold what the
    /// agent reports against its policy. Gives the id under which the agent reported the same call.
    fn note_relayed(&mut self, _tool: &str) -> Option<String> {
        None
    }

    /// The state as JSON with a version.
    fn save(&self) -> Vec<u8>;
}

/// What a plan and a dialect are made from. It holds tokens and a prompt, so it has no `Debug`.
#[derive(Clone)]
pub struct Spec {
    pub adapter: Adapter,
    pub context: template::Context,
    pub model: Option<String>,
    pub prompt: String,
    pub system_prompt: Option<String>,
    pub policy: Policy,
    pub lane: Lane,
    /// The agent's own conversation that is to be taken up again.
    pub session: Option<String>,
    /// The run's own budget, for runtimes that have limits of their own. It never grows.
    pub budget: Budget,
    /// A budget must be counted while the agent works, so it gets no sub-agents whose spending it
    /// does not tell.
    pub counts_spending: bool,
    /// The directory that will hold the plan's files.
    pub files: String,
    /// The agent will run as root, which some refuse unless told that it is meant.
    pub as_root: bool,
    /// The path of the `ostler` binary itself.
    pub own_program: String,
    /// Values for `${NAME}`; `template::references` says which are needed.
    pub caller_env: BTreeMap<String, String>,
}

/// How a process ended, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitEvidence<'a> {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub stderr_tail: &'a str,
}

/// Where a frame was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl From<Stream> for event::Stream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
        }
    }
}

/// One line of the agent's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub stream: Stream,
    /// The number of the line in its stream, as the trace counts it.
    pub line: u64,
    /// The line without its newline.
    pub bytes: &'a [u8],
    /// The line was longer than allowed and `bytes` hold its head only.
    pub cut: bool,
}

impl<'a> Frame<'a> {
    /// The line as text, borrowed when it is one as it stands. Nearly every line is, and is seen by
    /// blocks this way and not byte by byte.
    pub fn text(&self) -> Cow<'a, str> {
        match std::str::from_utf8(self.bytes) {
            Ok(text) => Cow::Borrowed(text),
            // Bytes that are no UTF-8 are replaced, and the trace has them as they were.
            Err(_) => String::from_utf8_lossy(self.bytes),
        }
    }
}

/// What came of hearing or saying something, in order within each list.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Out {
    pub drafts: Vec<Draft>,
    pub signals: Vec<Signal>,
    pub frames: Vec<Vec<u8>>,
}
