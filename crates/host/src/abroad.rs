//! Relayed tools that whoever asked for the run carries out, because the workspace that counts is
//! theirs. A call goes out as an event like any other and waits here; its answer comes as a wish in
//! the run's inbox, so that it is durable before it counts and counts once. A successor sends the
//! call out again under the same id, and the answer finds it there. Nothing is carried out here but
//! the end that an agent marks by a tool, which is this run's end too.

use crate::drive::Drive;
use crate::ops::run::ToolsBy;
use crate::ops::tool;
use contract::event::{Body, Log, Stream};
use contract::speech::{ACCEPTS, ToolAnswer, ToolCall};
use contract::{Draft, Signal};
use engine::{Input, Now};
use runtimes::Out;
use std::collections::BTreeMap;

/// The calls of one run that are with its caller.
#[derive(Debug, Default)]
pub(crate) struct Abroad {
    pub tools_by: ToolsBy,
    sent: BTreeMap<String, Sent>,
}

/// A call that waits for its answer.
#[derive(Debug)]
struct Sent {
    effect: u64,
    call: ToolCall,
    since_ms: u64,
}

impl Abroad {
    pub fn of(tools_by: ToolsBy) -> Self {
        Self { tools_by, sent: BTreeMap::new() }
    }

    /// Whether calls are answered by the caller.
    pub fn is_asked(&self) -> bool {
        self.tools_by == ToolsBy::Caller
    }

    pub fn send(&mut self, now: Now, effect: u64, call: ToolCall) {
        let sent = Sent { effect, since_ms: now.mono_ms, call };
        self.sent.insert(sent.call.tool_call_id.clone(), sent);
    }

    /// What the agent takes is an event of a run whose caller is elsewhere and sees nothing else. It
    /// comes before what was said with it, as a hello does.
    pub fn hellos(&self, signals: &[Signal]) -> Vec<Draft> {
        let hello = |signal: &Signal| {
            let Signal::Accepts { message, interrupt } = signal else { return None };
            let words = [(*message, "message"), (*interrupt, "interrupt")];
            let words = words.into_iter().filter(|(taken, _)| *taken).map(|(_, word)| word);
            let text = words.collect::<Vec<_>>().join(" ");
            let log = Log { stream: Stream::Ostler, text, level: Some(ACCEPTS.to_owned()) };
            Some(Draft::ostler(Body::Log(log)))
        };
        match self.tools_by {
            ToolsBy::Host => Vec::new(),
            ToolsBy::Caller => signals.iter().filter_map(hello).collect(),
        }
    }
}

impl Drive {
    /// The caller answers a call. One that is not open was answered before, or never made.
    pub(crate) fn take_result(&mut self, now: Now, tool_call_id: String, answer: ToolAnswer) {
        let Some(Sent { effect, call, since_ms }) = self.abroad.sent.remove(&tool_call_id) else {
            return;
        };
        self.pending.done.push(effect);
        let marks = match &answer {
            ToolAnswer::Value(_) => tool::mark(&call),
            ToolAnswer::Error { .. } => Vec::new(),
        };
        self.spread(now, &mut Out { signals: marks, ..Out::default() });
        let duration_ms = now.mono_ms.saturating_sub(since_ms);
        self.step(now, Input::Answered { tool_call_id, answer, duration_ms });
    }
}
