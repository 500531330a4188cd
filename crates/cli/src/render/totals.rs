//! What is known of the whole run while its events go by: what was spent, what it is doing, how it
//! ended. The status line and the closing lines are made from this.

use super::clean::one_line;
use super::flow;
use super::measure::{fit, width};
use super::tone::{Colour, Tone};
use super::{figures, tools};
use contract::event::{EndEvidence, Error, Phase, RunResult, TurnPhase, Usage};
use contract::money::Basis;
use contract::{Body, Event, NanoUsd, Outcome, RunId};

#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub run_id: Option<RunId>,
    tokens: u64,
    cost: Option<NanoUsd>,
    /// Something was spent that has no price: the sum is not known.
    unpriced: bool,
    doing: String,
    result: Option<RunResult>,
    /// The last error on the way: its hint may be better than the table's.
    error: Option<Error>,
}

impl Totals {
    pub fn hear(&mut self, event: &Event) {
        self.run_id = Some(event.run_id);
        match &event.body {
            Body::Usage(usage) => self.spend(usage),
            Body::Result(result) => self.result = Some(result.clone()),
            Body::Error(error) => self.error = Some(error.clone()),
            Body::Session(_) | Body::ToolResult(_) => self.doing = "working".to_owned(),
            Body::AssistantText(_) => self.doing = "answering".to_owned(),
            Body::Thinking(_) => self.doing = "thinking".to_owned(),
            Body::ToolUse(call) => {
                let about = tools::about(call);
                self.doing = format!("{} {about}", one_line(&call.name)).trim_end().to_owned();
            }
            Body::ToolUpdate(update) => {
                if let Some(title) = &update.title {
                    self.doing = one_line(title);
                }
            }
            Body::Progress(progress) => self.doing = one_line(&progress.summary),
            Body::Permission(permission) => {
                let asked = permission.decision.is_none();
                self.doing = if asked { "waiting for your answer" } else { "working" }.to_owned();
            }
            Body::Lifecycle(lifecycle) => self.doing = phase(lifecycle.phase).to_owned(),
            Body::Turn(turn) => match turn.phase {
                TurnPhase::Started => self.doing = "working".to_owned(),
                TurnPhase::Ended => self.doing = "ending".to_owned(),
            },
            Body::UserText(_)
            | Body::Plan(_)
            | Body::Diff(_)
            | Body::Comment(_)
            | Body::Quota(_)
            | Body::Budget(_)
            | Body::Lease(_)
            | Body::Log(_) => {}
        }
    }

    fn spend(&mut self, usage: &Usage) {
        let tokens = usage.tokens.map_or(0, |tokens| tokens.total());
        match usage.basis {
            Basis::Increment => {
                self.tokens = self.tokens.saturating_add(tokens);
                let so_far = self.cost.unwrap_or_default();
                match usage.effective_nanousd {
                    Some(more) => self.cost = Some(so_far.saturating_add(more)),
                    None => self.unpriced |= tokens > 0,
                }
            }
            // A session may be older than its run, so its total is an upper bound until the end.
            Basis::RunTotal | Basis::SessionTotal => {
                self.tokens = tokens.max(self.tokens);
                self.unpriced = tokens > 0 && usage.effective_nanousd.is_none();
                self.cost = usage.effective_nanousd.or(self.cost);
            }
        }
    }

    fn figures(&self, tokens: u64, cost: Option<NanoUsd>) -> Vec<String> {
        let spent = (tokens > 0).then(|| figures::tokens(tokens));
        spent.into_iter().chain(figures::cost(cost, tokens)).collect()
    }

    /// One line that says that and what something is happening.
    pub fn status(&self, elapsed_ms: u64, columns: usize, colour: Colour) -> String {
        const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        let frame = FRAMES[(elapsed_ms / 100 % 10) as usize];
        let mut parts = vec![figures::elapsed(elapsed_ms)];
        parts.extend(self.figures(self.tokens, self.cost.filter(|_| !self.unpriced)));
        parts.extend(Some(self.doing.clone()).filter(|doing| !doing.is_empty()));
        let text = fit(&parts.join(" · "), columns.saturating_sub(width(frame) + 2));
        format!("{} {}", colour.paint(Tone::System, frame), colour.paint(Tone::Gray, &text))
    }

    /// The closing lines.
    pub fn summary(&self, columns: usize, colour: Colour) -> String {
        let id = self.run_id.map(|id| id.to_string()).unwrap_or_default();
        let Some(result) = &self.result else {
            let text = format!("  the run goes on: ostler watch {id}");
            return colour.paint(Tone::Gray, &text);
        };
        let (mark, tone) = mark(result.outcome);
        let mut parts = vec![result.outcome.word().replace('_', " ")];
        parts.push(figures::duration(result.duration_ms));
        let totals = &result.totals;
        parts.extend(self.figures(totals.tokens.total(), totals.effective_nanousd));
        let head = format!("{mark} {}", parts.join(" · "));
        let mut lines = vec![colour.paint(tone, &fit(&head, columns))];
        let mut add = |tone, text: &str| {
            for line in flow::lines(text, columns.saturating_sub(2)) {
                lines.push(format!("  {}", colour.paint(tone, &line)));
            }
        };
        if result.outcome != Outcome::Succeeded {
            add(tone, &self.why(result));
            // Who stopped a run knows what to do next.
            let hint = self.hint(result).filter(|_| result.outcome != Outcome::Cancelled);
            if let Some(hint) = hint {
                add(Tone::Strong, &format!("→ {hint}"));
            }
        }
        for note in notes(result) {
            add(Tone::Gray, &note);
        }
        add(Tone::Gray, &format!("ostler show {id}"));
        lines.join("\n")
    }

    /// The code and what happened.
    fn why(&self, result: &RunResult) -> String {
        let said = result.message.as_deref().map(one_line);
        match result.code {
            Some(code) => {
                let said = said.unwrap_or_else(|| code.row().message.to_owned());
                format!("{code}: {said}")
            }
            None => said.unwrap_or_else(|| "no reason was given".to_owned()),
        }
    }

    fn hint(&self, result: &RunResult) -> Option<String> {
        let code = result.code?;
        let seen = self.error.as_ref().filter(|error| error.code == code);
        let seen = seen.and_then(|error| error.hint.as_deref()).map(one_line);
        Some(seen.unwrap_or_else(|| code.row().hint.to_owned()))
    }
}

/// What a reader of the evidence would want to know.
fn notes(result: &RunResult) -> Vec<String> {
    let evidence = &result.evidence;
    let mut notes = Vec::new();
    if result.outcome != Outcome::Succeeded {
        match (evidence.end, result.exit_code, result.signal) {
            (EndEvidence::Exit, Some(code), _) => notes.push(format!("it exited with {code}")),
            (EndEvidence::Signal, _, Some(signal)) if evidence.forced != Some(true) => {
                notes.push(format!("it was ended by signal {signal}"));
            }
            (EndEvidence::Explicit | EndEvidence::Structured | EndEvidence::None, _, _)
            | (EndEvidence::Exit | EndEvidence::Signal, _, _) => {}
        }
    }
    if evidence.forced == Some(true) {
        notes.push("it did not obey and was killed".to_owned());
    }
    if evidence.salvaged == Some(true) {
        notes.push("what it had said before was kept".to_owned());
    }
    notes.extend(evidence.note.as_deref().map(one_line));
    notes
}

/// The sign and the tone of an outcome.
pub fn mark(outcome: Outcome) -> (&'static str, Tone) {
    match outcome {
        Outcome::Succeeded => ("✓", Tone::Good),
        Outcome::Failed => ("✗", Tone::Bad),
        Outcome::TimedOut => ("◷", Tone::Bad),
        Outcome::Lost => ("?", Tone::Bad),
        Outcome::Cancelled => ("■", Tone::Tool),
    }
}

pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for a person",
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Stopping => "stopping",
        Phase::AttemptEnded => "the attempt has ended",
        Phase::Adopted => "taken over from an earlier host",
    }
}
