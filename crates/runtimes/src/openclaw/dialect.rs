//! Hears `agent --local --json`, which prints one document over many lines when all is over. The
//! lines are gathered up to a bound and read when one closes the document, or when no more come;
//! what turns out to be no document is kept as a log.

use super::wire::{AgentMeta, Document, Meta, Payload, ToolSummary};
use super::{owned, trouble};
use crate::headless::{Ear, INFO, Listener, REPEATED, UNRECOGNISED, WARNING, bounded, preview};
use crate::{Spec, Stream, launch};
use contract::event::{self, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, NanoUsd, Tokens};
use serde::{Deserialize, Serialize};

/// A longer document is not gathered: its lines are kept as logs, and the run has no result.
pub(super) const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is remembered of a run: one prompt, one turn, one document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    /// Where the run is meant to work.
    workspace: Option<String>,
    /// The workspace of its own that it was given for this run.
    #[serde(default)]
    owned: Option<String>,
    ended: bool,
    /// The lines of the document so far, each with its newline.
    document: String,
}

impl Listener for State {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.stream {
            _ if ear.is_blank() => {}
            Stream::Stderr => ear.keep(None),
            Stream::Stdout if self.ended => ear.keep(Some(REPEATED)),
            Stream::Stdout => self.gather(ear),
        }
    }

    /// A document whose end never came is none.
    fn close(&mut self, _: Close, ear: &mut Ear<'_>) {
        self.give_up(ear);
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        let workspace = launch::placeholder(spec, "workspacePath");
        let owned = owned::dir(spec).filter(|_| workspace.is_some());
        Self { resumes: spec.session.clone(), workspace, owned, ..Self::default() }
    }

    /// The document begins with a brace at the very left and ends with one.
    fn gather(&mut self, ear: &mut Ear<'_>) {
        let begins = ear.line.starts_with('{');
        if !ear.whole || (self.document.is_empty() && !begins) {
            return ear.keep(Some(UNRECOGNISED));
        }
        if self.document.len() + ear.line.len() >= DOCUMENT_BYTES_MAX {
            self.give_up(ear);
            return ear.keep(Some(UNRECOGNISED));
        }
        self.document.push_str(ear.line);
        self.document.push('\n');
        if !begins && !ear.line.starts_with('}') {
            return;
        }
        if let Some(document) = Document::read(&self.document) {
            self.document.clear();
            self.end(document, ear);
        }
    }

    /// What was gathered is kept, but not as a document.
    fn give_up(&mut self, ear: &mut Ear<'_>) {
        let text = std::mem::take(&mut self.document);
        if !text.is_empty() {
            ear.log(text, Some(UNRECOGNISED));
        }
    }

    fn end(&mut self, document: Document, ear: &mut Ear<'_>) {
        self.ended = true;
        let Document { ok, error, payloads, meta } = document;
        let failed = ok == Some(false) || !error.is_null();
        let told = failed.then(|| trouble::of(&error)).or_else(|| wrong(&payloads, meta.as_ref()));
        self.introduce(meta.as_ref(), ear);
        ear.start_turn();
        for (number, payload) in
            payloads.into_iter().filter(|payload| !payload.is_error).enumerate()
        {
            if let Some(text) = payload.text.filter(|text| !text.is_empty()) {
                ear.say(text, Some(format!("payload-{number}")), false);
            }
        }
        let mut worked = false;
        if let Some(summary) = meta.as_ref().and_then(|meta| meta.tool_summary.as_ref()) {
            worked = summary.calls > summary.failures;
            calls(summary, ear);
        }
        if let Some(agent) = meta.as_ref().and_then(|meta| meta.agent_meta.as_ref()) {
            spent(agent, ear);
        }
        settle(told, meta, worked, ear);
    }

    fn introduce(&mut self, meta: Option<&Meta>, ear: &mut Ear<'_>) {
        let agent = meta.and_then(|meta| meta.agent_meta.as_ref());
        let report = meta.and_then(|meta| meta.system_prompt_report.as_ref());
        let tools = report.and_then(|report| report.tools.as_ref());
        let native_session = agent.and_then(|agent| agent.session_id.clone());
        let meant = self.workspace.clone();
        let cwd = match report.and_then(|report| report.workspace_dir.clone()) {
            // With a workspace that the run owns, its tools work where the run does.
            cwd if cwd.is_some() && cwd == self.owned => meant.clone(),
            cwd => cwd,
        };
        let elsewhere = cwd.clone().zip(meant).filter(|(cwd, meant)| cwd != meant);
        ear.introduce(event::Session {
            model: agent.and_then(|agent| agent.model.clone()),
            tools: tools.and_then(|tools| u32::try_from(tools.entries.len()).ok()),
            cwd,
            resumed: native_session.is_some() && native_session == self.resumes,
            native_session,
        });
        if let Some((cwd, meant)) = elsewhere {
            let text = format!(
                "the agent worked in {cwd}, the workspace of its own configuration, and not in {meant}"
            );
            ear.log(text, Some(WARNING));
        }
    }
}

/// The end. Only a run that stopped by itself, was not aborted and said or did something is a
/// success.
fn settle(told: Option<(Code, String)>, meta: Option<Meta>, worked: bool, ear: &mut Ear<'_>) {
    let (aborted, reason, said) = match meta {
        Some(meta) => (meta.aborted, meta.stop_reason, meta.final_assistant_visible_text),
        None => (None, None, None),
    };
    let (stop, code) = trouble::of_end(reason.as_deref());
    let said = said.filter(|said| !said.is_empty());
    let (stop, code, detail) = match told {
        _ if aborted == Some(true) => (event::StopReason::Cancelled, Some(Code::Cancelled), None),
        Some((code, words)) => {
            ear.error(code, &words);
            (event::StopReason::Error, Some(code), Some(preview(&words)))
        }
        None if code.is_none() && said.is_none() && !worked => {
            (stop, Some(Code::EndedWithoutResult), None)
        }
        None => (stop, code, None),
    };
    ear.end_turn(stop);
    let text = said.map(|text| bounded(&text, TEXT_BYTES_MAX));
    ear.result(code, text, detail);
}

/// Calls are only counted, so they are told as words and not as calls.
fn calls(summary: &ToolSummary, ear: &mut Ear<'_>) {
    let ToolSummary { calls, tools, failures } = summary;
    let names = tools.join(", ");
    let text = format!("calls of its own tools: {calls} ({names}), {failures} of them failed");
    ear.log(text, Some(INFO));
}

fn spent(agent: &AgentMeta, ear: &mut Ear<'_>) {
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
    ear.spent(Usage {
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

/// The error inside a document that is none itself: of the run, or in place of an answer.
fn wrong(payloads: &[Payload], meta: Option<&Meta>) -> Option<(Code, String)> {
    let error = meta.map(|meta| &meta.error).filter(|error| !error.is_null());
    let payload = payloads.iter().find(|payload| payload.is_error);
    let said = payload.map(|payload| payload.text.clone().unwrap_or_default().into());
    error.cloned().or(said).map(|error| trouble::of(&error))
}
