//! What is known of the whole run while its events go by: what was spent, what it is doing, how it
//! ended. The status line and the closing lines are made from this.

use super::clean::{clean, one_line};
use super::flow;
use super::measure::{fit, width};
use super::tone::{Colour, Tone};
use super::{RunIntro, SilentLimit, figures, tools};
use contract::event::{
    self, BudgetLevel, DecidedBy, Decision, EndEvidence, Error, Origin, Phase, RunResult,
    TurnPhase, WorkspaceEvidence,
};
use contract::{Billing, Body, Code, Event, Outcome, RunId, Timestamp};
use engine::Ledger;
use std::collections::VecDeque;

#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub run_id: Option<RunId>,
    /// What is known of the run from the start.
    pub intro: RunIntro,
    /// The agent has printed something.
    has_output: bool,
    /// What was spent so far, counted as the host counts it.
    spent: Ledger,
    billing: Option<Billing>,
    doing: String,
    result: Option<RunResult>,
    ended_at: Timestamp,
    /// The last error on the way: its hint may be better than the table's.
    error: Option<Error>,
    /// The trouble with the model's provider, until it answers again.
    limited: Option<Code>,
    /// Requests that a person denied, who needs no advice about that.
    denied_by_person: u32,
    /// The run's own budget is used up.
    used_up: bool,
    /// Lines of the agent that were not understood.
    not_understood: u64,
    /// The last lines of the agent's stderr.
    stderr: VecDeque<String>,
}

/// Lines of stderr that are shown with a failure.
const STDERR_LINES_MAX: usize = 6;
/// How long a program may print nothing before the status line says so.
const SILENCE_TOLD_MS: u64 = 10_000;
/// The level of a line that its dialect did not understand.
const UNRECOGNISED: &str = "unrecognised";

impl Totals {
    pub fn hear(&mut self, event: &Event) {
        self.run_id = Some(event.run_id);
        self.has_output |= event.origin == Origin::Agent;
        match &event.body {
            Body::Usage(usage) => {
                self.billing = usage.billing.or(self.billing);
                self.spent.book(usage);
            }
            Body::Result(result) => (self.result, self.ended_at) = (Some(result.clone()), event.ts),
            Body::Error(error) => {
                let is_provider = provider_trouble(error.code).is_some();
                self.limited = is_provider.then_some(error.code).or(self.limited);
                self.error = Some(error.clone());
            }
            Body::Session(_) | Body::ToolResult(_) => self.doing = "working".to_owned(),
            Body::AssistantText(_) => {
                (self.doing, self.limited) = ("answering".to_owned(), None);
            }
            Body::Thinking(_) => (self.doing, self.limited) = ("thinking".to_owned(), None),
            Body::ToolUse(call) => {
                self.limited = None;
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
                let asked = permission.decision.is_none() && permission.until.is_some();
                self.doing = if asked { "waiting for your answer" } else { "working" }.to_owned();
                let by_person = permission.decided_by == Some(DecidedBy::Person);
                if by_person && permission.decision == Some(Decision::Deny) {
                    self.denied_by_person += 1;
                }
            }
            // A run that another host took over goes on as before.
            Body::Lifecycle(lifecycle) if lifecycle.phase == Phase::Adopted => {}
            Body::Lifecycle(lifecycle) => {
                let agent = one_line(&self.intro.agent);
                let of_agent = lifecycle.phase == Phase::Starting && !agent.is_empty();
                let agent = if of_agent { format!(" {agent}") } else { String::new() };
                self.doing = format!("{}{agent}", phase(lifecycle.phase));
            }
            Body::Budget(budget) => {
                self.used_up |= budget.scope == "run" && budget.level == BudgetLevel::Hard;
            }
            Body::Turn(turn) => match turn.phase {
                TurnPhase::Started => self.doing = "working".to_owned(),
                TurnPhase::Ended => self.doing = "ending".to_owned(),
            },
            Body::UserText(_)
            | Body::Plan(_)
            | Body::Diff(_)
            | Body::Comment(_)
            | Body::Quota(_)
            | Body::Lease(_)
            | Body::Unknown(_) => {}
            Body::Log(log) => {
                if log.level.as_deref() == Some(UNRECOGNISED) {
                    self.not_understood += 1;
                }
            }
        }
    }

    /// Keeps a line of the agent's stderr in case the run fails.
    pub fn keep_stderr(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if self.stderr.len() == STDERR_LINES_MAX {
                self.stderr.pop_front();
            }
            self.stderr.push_back(clean(line).trim_end().to_owned());
        }
    }

    fn figures(&self, totals: &event::Totals, billing: Option<Billing>) -> Vec<String> {
        let tokens = totals.tokens.total();
        let spent = (tokens > 0).then(|| figures::tokens(tokens));
        spent.into_iter().chain(figures::paid(totals.effective_nanousd, tokens, billing)).collect()
    }

    /// One line that says that and what something is happening.
    pub fn status(&self, elapsed_ms: u64, columns: usize, colour: Colour) -> String {
        const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        let frame = FRAMES[(elapsed_ms / 100 % 10) as usize];
        let mut parts = vec![figures::elapsed(elapsed_ms)];
        parts.extend(self.figures(&self.spent.totals(), self.billing));
        let doing = self.silence(elapsed_ms).unwrap_or_else(|| self.doing.clone());
        parts.extend(Some(doing).filter(|doing| !doing.is_empty()));
        let text = fit(&parts.join(" · "), columns.saturating_sub(width(frame) + 2));
        format!("{} {}", colour.paint(Tone::System, frame), colour.paint(Tone::Gray, &text))
    }

    /// What the status line says of a program that has printed nothing for a while.
    fn silence(&self, elapsed_ms: u64) -> Option<String> {
        let limit = self.intro.silent_limit.filter(|_| !self.has_output)?;
        (elapsed_ms >= SILENCE_TOLD_MS && self.result.is_none()).then(|| {
            let SilentLimit { ms, setting } = limit;
            format!("no output yet; stopped after {} ({setting})", figures::duration(ms))
        })
    }

    /// The closing lines; `advice` takes the place of the hint.
    pub fn summary(&self, advice: Option<&str>, columns: usize, colour: Colour) -> String {
        let id = self.run_id.map(|id| id.to_string()).unwrap_or_default();
        let Some(result) = &self.result else {
            let text = format!("  the run goes on: ostler watch {id}");
            return colour.paint(Tone::Gray, &text);
        };
        let (mark, tone) = mark(result.outcome);
        let denied = denied(result.denials);
        let workspace = workspace_note(result);
        // Work that was not allowed is no plain success, and neither is work that was not checked.
        let tone = match (result.outcome, denied.is_some() || workspace.is_some()) {
            (Outcome::Succeeded, true) => Tone::Tool,
            _ => tone,
        };
        let outcome = result.outcome.word().replace('_', " ");
        let outcome = [Some(outcome), denied].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let mut parts = vec![outcome, figures::duration(result.duration_ms)];
        parts.extend(self.figures(&result.totals, result.report.billing));
        let head = format!("{mark} {}", parts.join(" · "));
        let mut lines = vec![colour.paint(tone, &fit(&head, columns))];
        let mut add = |tone, text: &str| {
            let arrow = if text.starts_with("→ ") { 2 } else { 0 };
            let broken = flow::lines(text, columns.saturating_sub(2 + arrow));
            for (i, line) in broken.iter().enumerate() {
                let hang = if i == 0 { 2 } else { 2 + arrow };
                lines.push(format!("{:hang$}{}", "", colour.paint(tone, line)));
            }
        };
        if result.outcome != Outcome::Succeeded {
            add(tone, &self.why(result));
            // Whoever stopped a run knows what to do next.
            let hint = advice.map(str::to_owned).or_else(|| self.hint(result));
            let hint = hint.filter(|_| result.outcome != Outcome::Cancelled);
            if let Some(hint) = hint {
                add(Tone::Strong, &format!("→ {hint}"));
            }
        }
        if let Some(note) = workspace {
            add(Tone::Tool, &note);
        }
        // Whoever stopped the run knows why requests were denied.
        if result.denials > self.denied_by_person && result.outcome != Outcome::Cancelled {
            add(Tone::Strong, DENIED_HINT);
        }
        for note in notes(result, self.used_up) {
            add(Tone::Gray, &note);
        }
        if !is_explained(result) {
            for line in self.last_words(result) {
                add(Tone::Gray, &fit(&format!("┆ {line}"), columns.saturating_sub(2)));
            }
        }
        let show = format!("ostler show {}", super::tail(&id));
        let lines_not_understood = match self.not_understood {
            1 => "1 line".to_owned(),
            count => format!("{} lines", figures::count(count)),
        };
        if self.not_understood > 0 {
            let text = format!("{lines_not_understood} of the agent were not understood");
            let text = text.replace("1 line of the agent were", "1 line of the agent was");
            add(Tone::Gray, &format!("{text}: {show} --debug"));
        }
        add(Tone::Gray, &show);
        lines.join("\n")
    }

    /// The detail of the last error and the lines of stderr that were kept.
    pub fn all_last_words(&self) -> String {
        let detail = self.error.as_ref().and_then(|error| error.detail.as_deref());
        let lines = detail.into_iter().chain(self.stderr.iter().map(String::as_str));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The last lines of stderr that the reason does not repeat.
    fn last_words(&self, result: &RunResult) -> Vec<String> {
        let detail = self.error.as_ref().filter(|error| Some(error.code) == result.code);
        let detail = clean(detail.and_then(|error| error.detail.as_deref()).unwrap_or_default());
        let detail: Vec<String> = detail.lines().map(|line| line.trim_end().to_owned()).collect();
        let lines =
            if self.stderr.is_empty() { detail } else { self.stderr.iter().cloned().collect() };
        let told = result.message.as_deref().map(one_line).unwrap_or_default();
        let is_news = |line: &String| !line.trim().is_empty() && !told.contains(&one_line(line));
        let lines: Vec<String> = lines.into_iter().filter(is_news).collect();
        lines[lines.len().saturating_sub(STDERR_LINES_MAX)..].to_vec()
    }

    /// The code and what happened.
    fn why(&self, result: &RunResult) -> String {
        let said = result.message.as_deref().map(one_line);
        let said = said.map(|said| figures::with_moments(&said, self.ended_at));
        match result.code {
            Some(code) => {
                let said = said.unwrap_or_else(|| code.row().message.to_owned());
                // The agent's own reason says more than that it failed.
                let own =
                    said.strip_prefix(code.row().message).filter(|_| code == Code::AgentFailed);
                let own = own.and_then(|own| own.strip_prefix(": ")).map(str::to_owned);
                format!("{code}: {}", own.unwrap_or(said))
            }
            None => said.unwrap_or_else(|| "no reason was given".to_owned()),
        }
    }

    fn hint(&self, result: &RunResult) -> Option<String> {
        let code = result.code?;
        if let (Code::TimeoutWall, Some(trouble)) = (code, self.limited) {
            let what = provider_trouble(trouble).unwrap_or_default();
            return Some(format!(
                "the model's provider {what} ({trouble}) when the time ran out; try again later, or \
                 raise --timeout"
            ));
        }
        if code == Code::TimeoutWall && self.intro.silent_limit.is_some() && !self.has_output {
            let hint = "the program printed nothing: run its command by hand, and check that it speaks \
                        JSON lines and flushes its output";
            return Some(hint.to_owned());
        }
        // The courier of a remote names the part of its configuration first.
        let said = result.message.as_deref().unwrap_or_default();
        if code == Code::AuthFailed && said.contains(": auth: ") {
            let hint = match said.contains("; the token in ") {
                true => "put a valid token of the remote into that variable",
                false => {
                    "give the token of the remote with --token-env NAME, or with `auth` of its \
                     adapter"
                }
            };
            return Some(hint.to_owned());
        }
        let seen = self.error.as_ref().filter(|error| error.code == code);
        let seen = seen.and_then(|error| error.hint.as_deref()).map(one_line);
        // The last line names the same command.
        let of_code = code.row().hint.to_owned();
        seen.into_iter().chain([of_code]).find(|hint| !hint.contains("`ostler show`"))
    }
}

/// What the model's provider was doing, for the faults that are its own.
fn provider_trouble(code: Code) -> Option<&'static str> {
    match code {
        Code::RateLimited | Code::ProviderQuota | Code::Overloaded => {
            Some("was holding the agent back")
        }
        Code::UpstreamError => Some("was failing"),
        _ => None,
    }
}

/// What a person can do about requests that were denied without asking one.
const DENIED_HINT: &str = "→ let it work in a copy with --worktree, or allow everything with --permission \
                           allow-all";

/// The count of denied requests, in words.
fn denied(count: u32) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 request denied".to_owned()),
        count => Some(format!("{} requests denied", figures::count(count.into()))),
    }
}

/// Whether the last lines of the agent's stderr would explain nothing: the run succeeded, or Ostler ended
/// it for a reason of its own.
fn is_explained(result: &RunResult) -> bool {
    let by_limit = match result.code {
        Some(Code::BudgetExceeded | Code::BudgetNotCountable | Code::PolicyBroken) => true,
        // Without particulars the agent itself refused, and said why on stderr.
        Some(code @ Code::PolicyNotPossible) => {
            result.message.as_deref() != Some(code.row().message)
        }
        _ => false,
    };
    by_limit || matches!(result.outcome, Outcome::Succeeded | Outcome::Cancelled)
}

/// Says that a workspace which must not change was not compared, or changed beside another run.
pub fn workspace_note(result: &RunResult) -> Option<String> {
    let note = result.evidence.workspace_note.as_deref().map(one_line).unwrap_or_default();
    match result.evidence.workspace? {
        WorkspaceEvidence::Compared => None,
        WorkspaceEvidence::NotCompared => {
            Some(format!("the workspace was not compared with its beginning: {note}"))
        }
        WorkspaceEvidence::ChangedBesideOtherRun => Some(format!(
            "{note}; it is not counted against this run, because another run works there too"
        )),
    }
}

/// What a reader of the evidence would want to know.
fn notes(result: &RunResult, used_up: bool) -> Vec<String> {
    let evidence = &result.evidence;
    let mut notes = Vec::new();
    // How the process of a stopped run ended is Ostler's own doing.
    if result.outcome != Outcome::Succeeded && evidence.stopped_by.is_none() {
        match (evidence.end, result.exit_code, result.signal) {
            (EndEvidence::Exit, Some(code), _) => {
                let told = result.message.as_deref().unwrap_or_default();
                if !told.contains(&format!("exit code {code}")) {
                    notes.push(format!("it exited with {code}"));
                }
            }
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
    if result.outcome == Outcome::Succeeded {
        let limit = evidence.stopped_by.as_deref().and_then(|by| by.strip_prefix("budget "));
        match limit {
            Some(limit) => notes.push(format!("its budget of {limit} is used up")),
            None if used_up => notes.push("its budget is used up".to_owned()),
            None => {}
        }
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
        Outcome::Unknown => ("·", Tone::System),
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
