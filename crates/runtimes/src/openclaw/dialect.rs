//! Hears `agent --local --json`, which prints one document over many lines when all is over. The
//! lines are gathered up to a bound and read when one closes the document, or when no more come;
//! what turns out to be no document is kept as a log. It takes no word after its prompt.

use super::state::{DOCUMENT_BYTES_MAX, State};
use super::trouble;
use super::wire::{AgentMeta, Document, Meta, Payload, ToolSummary};
use crate::headless::{self, INFO, REPEATED, UNRECOGNISED, WARNING};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, Log, Text, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::{Close, Ending};
use contract::{Code, Draft, Fault, NanoUsd, Signal, Timestamp, Tokens, Utterance};

/// A run of the agent: one prompt, one turn, one document.
pub(super) struct Openclaw {
    state: State,
}

impl Openclaw {
    pub(super) fn new(
        resumes: Option<String>,
        workspace: Option<String>,
        owned: Option<String>,
    ) -> Self {
        Self { state: State::new(resumes, workspace, owned) }
    }

    pub(super) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        Ok(Self { state: State::load(saved)? })
    }
}

impl Dialect for Openclaw {
    fn open(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let Some((text, whole)) = headless::text(frame) else {
            return;
        };
        let line = headless::Line::new(frame, &text, out);
        let mut ear = Ear { state: &mut self.state, line };
        match frame.stream {
            Stream::Stderr => ear.line.keep(None),
            Stream::Stdout if ear.state.ended => ear.line.keep(Some(REPEATED)),
            Stream::Stdout => ear.gather(whole),
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        headless::say(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    /// A document whose end never came is none.
    fn close(&mut self, _: Close, out: &mut Out) {
        let text = std::mem::take(&mut self.state.document);
        if !text.is_empty() {
            let (stream, level) = (event::Stream::Stdout, Some(UNRECOGNISED.to_owned()));
            out.drafts.push(Draft::agent(Body::Log(Log { stream, text, level })));
        }
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

/// One line being heard.
struct Ear<'a> {
    state: &'a mut State,
    line: headless::Line<'a>,
}

impl Ear<'_> {
    /// The document begins with a brace at the very left and ends with one.
    fn gather(&mut self, whole: bool) {
        let begins = self.line.text.starts_with('{');
        if !whole || (self.state.document.is_empty() && !begins) {
            return self.line.keep(Some(UNRECOGNISED));
        }
        if self.state.document.len() + self.line.text.len() >= DOCUMENT_BYTES_MAX {
            self.give_up();
            return self.line.keep(Some(UNRECOGNISED));
        }
        self.state.document.push_str(self.line.text);
        self.state.document.push('\n');
        if !begins && !self.line.text.starts_with('}') {
            return;
        }
        if let Some(document) = Document::read(&self.state.document) {
            self.state.document.clear();
            self.end(document);
        }
    }

    /// What was gathered is kept, but not as a document.
    fn give_up(&mut self) {
        let text = std::mem::take(&mut self.state.document);
        if !text.is_empty() {
            self.line.log(text, Some(UNRECOGNISED));
        }
    }

    fn end(&mut self, document: Document) {
        self.state.ended = true;
        let Document { ok, error, payloads, meta } = document;
        let failed = ok == Some(false) || !error.is_null();
        let told = failed.then(|| trouble::of(&error)).or_else(|| wrong(&payloads, meta.as_ref()));
        self.introduce(meta.as_ref());
        self.line.turn_started();
        for (number, payload) in
            payloads.into_iter().filter(|payload| !payload.is_error).enumerate()
        {
            if let Some(text) = payload.text.filter(|text| !text.is_empty()) {
                let (block, delta) = (Some(format!("payload-{number}")), false);
                self.line.draft(Body::AssistantText(Text { text, block, delta }));
            }
        }
        let mut worked = false;
        if let Some(summary) = meta.as_ref().and_then(|meta| meta.tool_summary.as_ref()) {
            worked = summary.calls > summary.failures;
            self.tools(summary);
        }
        if let Some(agent) = meta.as_ref().and_then(|meta| meta.agent_meta.as_ref()) {
            self.spent(agent);
        }
        self.settle(told, meta, worked);
    }

    /// The end. Only a run that stopped by itself, was not aborted and said or did something is a
    /// success.
    fn settle(&mut self, told: Option<(Code, String)>, meta: Option<Meta>, worked: bool) {
        let (aborted, reason, said) = match meta {
            Some(meta) => (meta.aborted, meta.stop_reason, meta.final_assistant_visible_text),
            None => (None, None, None),
        };
        let (stop, code) = trouble::of_end(reason.as_deref());
        let said = said.filter(|said| !said.is_empty());
        let (stop, code, detail) = match told {
            _ if aborted == Some(true) => {
                (event::StopReason::Cancelled, Some(Code::Cancelled), None)
            }
            Some((code, words)) => {
                self.line.error(code, &words);
                (event::StopReason::Error, Some(code), Some(headless::preview(&words)))
            }
            None if code.is_none() && said.is_none() && !worked => {
                (stop, Some(Code::EndedWithoutResult), None)
            }
            None => (stop, code, None),
        };
        self.line.turn_ended(stop);
        let text = said.filter(|_| code.is_none());
        let text = text.map(|text| headless::bounded(&text, TEXT_BYTES_MAX));
        self.line.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }

    fn introduce(&mut self, meta: Option<&Meta>) {
        let agent = meta.and_then(|meta| meta.agent_meta.as_ref());
        let report = meta.and_then(|meta| meta.system_prompt_report.as_ref());
        let tools = report.and_then(|report| report.tools.as_ref());
        let native_session = agent.and_then(|agent| agent.session_id.clone());
        if let Some(id) = native_session.clone() {
            self.line.signal(Signal::Session { id });
        }
        let meant = self.state.workspace.clone();
        let cwd = match report.and_then(|report| report.workspace_dir.clone()) {
            // With a workspace that the run owns, its tools work where the run does.
            cwd if cwd.is_some() && cwd == self.state.owned => meant.clone(),
            cwd => cwd,
        };
        let elsewhere = cwd.clone().zip(meant).filter(|(cwd, meant)| cwd != meant);
        self.line.draft(Body::Session(event::Session {
            model: agent.and_then(|agent| agent.model.clone()),
            tools: tools.and_then(|tools| u32::try_from(tools.entries.len()).ok()),
            cwd,
            resumed: native_session.is_some() && native_session == self.state.resumes,
            native_session,
        }));
        if let Some((cwd, meant)) = elsewhere {
            let text = format!(
                "the agent worked in {cwd}, the workspace of its own configuration, and not in {meant}"
            );
            self.line.log(text, Some(WARNING));
        }
    }

    /// Calls are only counted, so they are told as words and not as calls.
    fn tools(&mut self, summary: &ToolSummary) {
        let ToolSummary { calls, tools, failures } = summary;
        let names = tools.join(", ");
        let text = format!("calls of its own tools: {calls} ({names}), {failures} of them failed");
        self.line.log(text, Some(INFO));
    }

    fn spent(&mut self, agent: &AgentMeta) {
        let Some(spent) = &agent.usage else {
            return;
        };
        let tokens = Tokens {
            input_uncached: spent.input,
            cache_read: spent.cache_read,
            cache_write: spent.cache_write,
            output: spent.output,
            reasoning: None,
        };
        if tokens.total() == 0 {
            return;
        }
        // No dollars for tokens are a model without a price, not one that is free.
        let usd = spent.cost.as_ref().and_then(|cost| cost.total).filter(|usd| *usd > 0.0);
        let usd = usd.and_then(NanoUsd::from_usd);
        self.line.spent(Usage {
            model: agent.model.clone(),
            provider: agent.provider.clone(),
            tokens: Some(tokens),
            basis: Basis::RunTotal,
            reported_nanousd: usd,
            effective_nanousd: usd,
            cost_source: if usd.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
            ..Usage::default()
        });
    }
}

/// The error inside a document that is none itself: of the run, or in place of an answer.
fn wrong(payloads: &[Payload], meta: Option<&Meta>) -> Option<(Code, String)> {
    let error = meta.map(|meta| &meta.error).filter(|error| !error.is_null());
    let payload = payloads.iter().find(|payload| payload.is_error);
    let said = payload.map(|payload| payload.text.clone().unwrap_or_default().into());
    error.cloned().or(said).map(|error| trouble::of(&error))
}
