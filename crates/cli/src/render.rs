//! Events → lines for a terminal. Pure: an event goes in, pieces of text come out, and what they
//! look like is decided here and nowhere else. A gutter of two columns says who speaks; running
//! text is broken at words and continues where it stopped; a tool call is one line and its result
//! another. Everything an agent said is cleaned first (`clean`), so no sequence of its own reaches
//! the terminal. Writing is `terminal.rs`.

mod agent;
mod asks;
mod attention;
mod clean;
mod diff;
mod figures;
mod flow;
mod grid;
mod inline;
mod intro;
mod items;
mod launch_plan;
mod limits;
mod markdown;
mod measure;
mod money;
mod page;
mod paths;
mod practice;
mod question;
mod system;
mod table;
mod tasks;
mod tokens;
mod tone;
mod tools;
mod totals;
mod worktrees;

pub use agent::agent_sheet;
pub use asks::{AskRow, asks_table};
pub use attention::{Attention, attention_lines};
pub use clean::{clean, one_line};
pub use diff::diff;
pub use figures::{ordinal, with_moments};
pub use intro::{RunIntro, SilentLimit};
pub use launch_plan::launch_plan;
pub use limits::{budgets_table, quotas_table};
pub use money::{agents_table, costs_table, costs_total, prices_table};
pub use practice::{Practice, practice};
pub use question::{named_options, waits_for_answer};
pub use table::{RunRow, home_relative, runs_table, tail};
pub use tasks::{task_sheet, tasks_table};
pub use tokens::tokens_table;
pub use tone::Colour;
pub use totals::workspace_note;
pub use worktrees::worktrees;

use clean::Cleaner;
use contract::event::{Body, Event, Text};
use contract::{Code, Timestamp};
use flow::Step;
use inline::Look;
use markdown::{Markdown, Reading};
use measure::fit;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tone::Tone;
use totals::Totals;

/// What to print next, where the cursor stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text on the present line, which stays open.
    Text(String),
    /// The end of the line.
    End,
}

/// The columns a painted text takes: colours take none.
pub fn visible_width(painted: &str) -> usize {
    let mut plain = String::with_capacity(painted.len());
    let mut rest = painted;
    // Colours are the only sequences there are: what agents say is cleaned of its own.
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = sequence.split_once('m').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    measure::width(&plain)
}

/// How much of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What people want to see.
    Usual,
    /// The lines that were not understood and the bookkeeping too.
    Debug,
}

/// Lines of one kind stand together; between kinds there is an empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    System,
    Assistant,
    Thought,
    Tools,
    Person,
}

/// A block of running text that is still open.
#[derive(Debug)]
struct OpenBlock {
    group: Group,
    tone: Tone,
    block: Option<String>,
    cleaner: Cleaner,
    markdown: Markdown,
    /// The gutter's sign until the first word, then blanks.
    gutter: &'static str,
    at_line_start: bool,
}

/// Events that wait for the session, and how many ticks without news they wait.
const EARLY_MAX: usize = 16;
const EARLY_TICKS_MAX: u32 = 12;
/// Lines of piped input that are shown with a prompt.
const INPUT_LINES_MAX: usize = 4;
/// Calls whose names are remembered until their results come.
const CALLS_MAX: usize = 1024;
const GUTTER: usize = 2;
const COLUMNS_MIN: usize = 24;
/// Longer lines are hard to read, however wide the terminal is.
const TEXT_COLUMNS_MAX: usize = 100;

/// One run on its way to one terminal.
#[derive(Debug)]
pub struct Renderer {
    columns: usize,
    colour: Colour,
    detail: Detail,
    group: Option<Group>,
    open: Option<OpenBlock>,
    /// A block that gray lines cut in two: it goes on without a new sign.
    cut: Option<(Group, Option<String>)>,
    /// Names of calls without a result yet.
    calls: BTreeMap<String, String>,
    /// The last calls that were told, and those that were not because another told the same.
    recent_calls: VecDeque<contract::event::ToolUse>,
    doubles: BTreeSet<String>,
    /// Calls that were denied or withdrawn and whose results are still to come.
    denied: BTreeSet<String>,
    /// The call whose line was the last one printed.
    last_call: Option<String>,
    /// The directory that the agent works in: paths inside it are shown relative to it.
    root: Option<String>,
    /// Questions are answered by keys at this terminal.
    takes_keys: bool,
    /// The lines of the terminal, where there is one.
    rows: Option<usize>,
    /// The question that waits.
    question: Option<contract::event::Permission>,
    /// How to answer it was not shown yet.
    owes_choices: bool,
    /// Not all of what it is about was shown.
    is_question_cut: bool,
    /// The model that was told last.
    model: Option<String>,
    /// What came before the session is known and is shown behind it: the header is one line.
    early: Vec<Event>,
    /// How often nothing had come while `early` waited.
    early_ticks: u32,
    /// The line of the last trouble, as long as nothing else was told.
    last_trouble: Option<String>,
    /// When the last event was told.
    told_at: Timestamp,
    /// The run is being stopped: its last turn needs no line of its own.
    stopping: bool,
    /// The line that names the run was printed.
    introduced: bool,
    /// An error that may be the reason of the end; then it is told there and only there.
    pending: Option<contract::event::Error>,
    answered: bool,
    totals: Totals,
}

impl Renderer {
    pub fn new(columns: usize, colour: Colour, detail: Detail) -> Self {
        Self {
            columns: columns.max(COLUMNS_MIN),
            colour,
            detail,
            group: None,
            open: None,
            cut: None,
            calls: BTreeMap::new(),
            recent_calls: VecDeque::new(),
            doubles: BTreeSet::new(),
            denied: BTreeSet::new(),
            last_call: None,
            root: None,
            takes_keys: false,
            rows: None,
            question: None,
            owes_choices: false,
            is_question_cut: false,
            model: None,
            early: Vec::new(),
            early_ticks: 0,
            last_trouble: None,
            told_at: Timestamp::default(),
            stopping: false,
            introduced: false,
            pending: None,
            answered: false,
            totals: Totals::default(),
        }
    }

    /// Says what is known of the run before its first event.
    pub fn introduces(&mut self, intro: RunIntro) {
        self.totals.intro = intro;
    }

    /// What to print for the next event.
    pub fn event(&mut self, event: &Event) -> Vec<Piece> {
        self.totals.hear(event);
        self.told_at = event.ts;
        if !self.introduced && is_early(&event.body) && self.early.len() < EARLY_MAX {
            self.early.push(event.clone());
            return Vec::new();
        }
        let mut out = Vec::new();
        self.show(event, &mut out);
        out
    }

    /// Says that a text is not shown to its end.
    fn tell_cut(&mut self, event: &Event, out: &mut Vec<Piece>) {
        if event.truncated == Some(true) {
            let id = event.run_id.to_string();
            self.close(out);
            self.text(Tone::Gray, &format!("  … cut here: ostler show {} --full", tail(&id)), out);
            out.push(Piece::End);
        }
    }

    /// Shows what waited for the session.
    fn show_early(&mut self, out: &mut Vec<Piece>) {
        for event in std::mem::take(&mut self.early) {
            self.show(&event, out);
        }
    }

    fn show(&mut self, event: &Event, out: &mut Vec<Piece>) {
        self.settle_pending(&event.body, out);
        if let Body::Session(session) = &event.body {
            self.root = session.cwd.clone().or(self.root.take());
        }
        let introduces = self.introduce(event, out);
        if self.introduced {
            self.show_early(out);
        }
        if let Body::Lifecycle(lifecycle) = &event.body {
            self.stopping |= lifecycle.phase == contract::event::Phase::Stopping;
        }
        match &event.body {
            Body::AssistantText(text) => {
                self.answered = true;
                self.speak(Group::Assistant, text, out);
                self.tell_cut(event, out);
            }
            Body::Thinking(text) => self.speak(Group::Thought, text, out),
            Body::UserText(said) => {
                let text = Text { text: folded_prompt(&said.text), ..Text::default() };
                self.speak(Group::Person, &text, out);
            }
            Body::ToolUse(call) => self.call(call, out),
            Body::ToolResult(result) => self.answer(result, event.truncated, out),
            Body::Diff(diff) => {
                let (more, less) = tools::changed(diff);
                let path = paths::relative(&one_line(&diff.path), self.root.as_deref());
                let figures = format!("  +{more} −{less}");
                let room = self.columns.saturating_sub(GUTTER + measure::width(&figures));
                let line = format!("± {}{figures}", measure::fit_middle(&path, room));
                self.line(Group::Tools, Tone::Tool, &line, out);
            }
            Body::Permission(permission) => self.permission(permission, out),
            Body::Plan(plan) => self.plan(plan, out),
            Body::Log(log) => self.log(log, out),
            Body::Error(error) => {
                self.pending = Some(error.clone());
            }
            Body::Result(result) => {
                // An agent that never spoke still has its answer shown.
                if let (false, Some(text)) = (self.answered, &result.text) {
                    let text = Text { text: text.clone(), ..Text::default() };
                    self.speak(Group::Assistant, &text, out);
                }
                self.close(out);
                // A run that has ended takes no answers.
                self.owes_choices = false;
                // An empty line before whatever closes the run.
                if self.group.take().is_some() {
                    out.push(Piece::End);
                }
            }
            Body::Session(_)
            | Body::Turn(_)
            | Body::ToolUpdate(_)
            | Body::Progress(_)
            | Body::Comment(_)
            | Body::Usage(_)
            | Body::Quota(_)
            | Body::Budget(_)
            | Body::Lease(_)
            | Body::Lifecycle(_)
            | Body::Unknown(_) => {
                let is_shown = match &event.body {
                    Body::Session(session) => {
                        let known = self.model == session.model && !session.resumed;
                        self.model.clone_from(&session.model);
                        introduces || known
                    }
                    _ => false,
                };
                let is_of_run = match &event.body {
                    Body::Turn(_) => true,
                    Body::Budget(budget) => budget.scope == "run",
                    _ => false,
                };
                let ends_stopped = is_of_run && self.stopping && self.detail == Detail::Usual;
                let scope = self.totals.intro.quota_scope.as_deref();
                if let Some(line) = system::line(&event.body, event.ts, self.detail, scope)
                    && !(is_shown || ends_stopped)
                {
                    self.paragraph(Group::System, Tone::System, &line, out);
                }
            }
        }
    }

    /// One line that says what is happening, for a terminal that redraws it in place.
    pub fn status(&self, elapsed_ms: u64) -> String {
        self.totals.status(elapsed_ms, self.columns, self.colour)
    }

    /// A line that is being typed, for the place of the status line.
    pub fn prompt(&self, prompt: &str) -> String {
        let room = self.columns.saturating_sub(GUTTER + 1);
        format!("  {}", self.colour.paint(Tone::Strong, &measure::fit_middle(&clean(prompt), room)))
    }

    /// Says how many lines the terminal has.
    pub fn has_rows(&mut self, rows: Option<usize>) {
        self.rows = rows;
    }

    /// Says whether questions are answered by keys at this terminal.
    pub fn takes_keys(&mut self, takes_keys: bool) {
        self.takes_keys = takes_keys;
    }

    /// The closing lines: how it ended, why, what to do, what it cost, how to see more. `advice` is
    /// the hint of a caller who knows more than the events say, and takes the place of the usual one.
    pub fn summary(&self, advice: Option<&str>) -> String {
        self.totals.summary(advice, self.columns.min(TEXT_COLUMNS_MAX), self.colour)
    }

    /// What the agent said of its failure beside the message: the detail of the error and the last
    /// lines of its stderr.
    pub fn last_words(&self) -> String {
        self.totals.all_last_words()
    }

    /// What is held back of a text when nothing more has come for a while. The text may go on.
    pub fn idle(&mut self) -> Vec<Piece> {
        let mut out = Vec::new();
        if !self.early.is_empty() {
            self.early_ticks += 1;
            if self.early_ticks >= EARLY_TICKS_MAX {
                self.begin_without_session(&mut out);
            }
        }
        out.extend(self.rest());
        self.show_choices(&mut out);
        out
    }

    /// What is held back of the open text, and an error that is news.
    fn rest(&mut self) -> Vec<Piece> {
        let mut out = Vec::new();
        // An error after which the agent goes on by itself is news; another is about to be the end.
        if let Some(error) = self.pending.take_if(|error| error.retryable && !self.stopping) {
            self.trouble(&error, &mut out);
        }
        if let Some(mut open) = self.open.take() {
            let mut steps = Vec::new();
            open.markdown.rest(&mut steps);
            self.print(&mut open, steps, &mut out);
            self.open = Some(open);
        }
        out
    }

    /// Ends a line that is still open: before the summary, or before leaving early.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut out = Vec::new();
        self.begin_without_session(&mut out);
        self.close(&mut out);
        self.show_choices(&mut out);
        out
    }

    /// Tells an error that turned out not to be the end.
    fn settle_pending(&mut self, next: &Body, out: &mut Vec<Piece>) {
        let is_told_at_the_end = |error: &contract::event::Error| match next {
            Body::Result(result) => {
                let own_limit =
                    (error.code, result.code) == (Code::MaxTurns, Some(Code::BudgetExceeded));
                // What the agent tried again when it was stopped leads nowhere.
                let tried_again = self.stopping && error.retryable;
                result.code == Some(error.code) || own_limit || tried_again
            }
            _ => false,
        };
        let leads_to_the_end = match (next, &self.pending) {
            (Body::Error(next), Some(error)) => {
                (next.code, &next.message) == (error.code, &error.message)
            }
            (
                Body::Lease(_)
                | Body::Lifecycle(_)
                | Body::Log(_)
                | Body::Turn(_)
                | Body::Usage(_)
                | Body::Budget(_),
                _,
            ) => true,
            _ => false,
        };
        if leads_to_the_end {
            return;
        }
        if let Some(error) = self.pending.take().filter(|error| !is_told_at_the_end(error)) {
            self.trouble(&error, out);
        }
    }

    fn trouble(&mut self, error: &contract::event::Error, out: &mut Vec<Piece>) {
        let now = self.told_at;
        let message = figures::with_moments(&one_line(&error.message), now);
        let line = format!("! {}: {message}", error.code);
        // The same again and again is told once.
        if self.last_trouble.as_ref() != Some(&line) {
            self.paragraph(Group::System, Tone::Bad, &line, out);
        }
        self.last_trouble = Some(line);
    }

    /// Prints the line that names the run: with its session, or before the first thing that is shown.
    fn introduce(&mut self, event: &Event, out: &mut Vec<Piece>) -> bool {
        let shows = !matches!(
            event.body,
            Body::Lease(_)
                | Body::Lifecycle(_)
                | Body::Log(_)
                | Body::Usage(_)
                | Body::Quota(_)
                | Body::Turn(_)
                | Body::Budget(_)
                | Body::Session(_)
                | Body::Error(_)
        );
        let is_session = matches!(event.body, Body::Session(_));
        if self.introduced || !(shows || is_session) {
            return false;
        }
        let session = match &event.body {
            Body::Session(session) => Some(session),
            _ => None,
        };
        self.header(event.run_id, session, out);
        true
    }

    /// The line that names the run.
    fn header(
        &mut self,
        run: contract::RunId,
        session: Option<&contract::event::Session>,
        out: &mut Vec<Piece>,
    ) {
        self.introduced = true;
        let line = self.totals.intro.header(run, session, self.columns.saturating_sub(GUTTER));
        self.line(Group::System, Tone::System, &format!("◆ {line}"), out);
    }

    /// Shows what waited for a session that does not come.
    fn begin_without_session(&mut self, out: &mut Vec<Piece>) {
        let run = self.early.first().map(|event| event.run_id);
        if let Some(run) = run.filter(|_| !self.introduced) {
            self.header(run, None, out);
        }
        self.show_early(out);
    }

    fn speak(&mut self, group: Group, text: &Text, out: &mut Vec<Piece>) {
        let goes_on = self
            .open
            .as_ref()
            .is_some_and(|open| open.group == group && text.delta && open.block == text.block);
        let mut open = match self.open.take() {
            Some(open) if goes_on => open,
            earlier => {
                self.open = earlier;
                let cut = self.cut.take();
                if text.delta && cut == Some((group, text.block.clone())) {
                    OpenBlock { gutter: " ", ..self.new_block(group, text.block.clone()) }
                } else {
                    self.begin(group, out);
                    self.new_block(group, text.block.clone())
                }
            }
        };
        let (mut steps, clean) = (Vec::new(), open.cleaner.push(&text.text));
        open.markdown.push(&clean, &mut steps);
        self.print(&mut open, steps, out);
        self.open = Some(open);
        if !text.delta {
            self.close(out);
        }
    }

    fn new_block(&self, group: Group, block: Option<String>) -> OpenBlock {
        let (gutter, tone) = match group {
            Group::Assistant => ("●", Tone::Plain),
            Group::Thought => ("∴", Tone::Thought),
            Group::Person => ("›", Tone::Person),
            Group::System | Group::Tools => ("·", Tone::System),
        };
        let reading = match (group, self.colour) {
            (Group::Assistant | Group::Thought, Colour::On) => Reading::WithLooks,
            (Group::Assistant | Group::Thought, Colour::Off) => Reading::WithSigns,
            (Group::Person | Group::System | Group::Tools, _) => Reading::Verbatim,
        };
        let text_columns = self.columns.min(TEXT_COLUMNS_MAX) - GUTTER;
        let markdown = Markdown::new(reading, text_columns, self.columns - GUTTER);
        let cleaner = Cleaner::default();
        OpenBlock { group, tone, block, cleaner, markdown, gutter, at_line_start: true }
    }

    fn print(&self, open: &mut OpenBlock, steps: Vec<Step>, out: &mut Vec<Piece>) {
        let (mut text, mut tone) = (String::new(), open.tone);
        for step in steps {
            match step {
                Step::Text(span) => {
                    if std::mem::take(&mut open.at_line_start) {
                        // The sign has the tone of its speaker, not of the first word.
                        text.push_str(open.gutter);
                        text.push(' ');
                        open.gutter = " ";
                        tone = open.tone;
                    }
                    let own = own_tone(open.tone, span.look);
                    if own != tone {
                        self.text(tone, &std::mem::take(&mut text), out);
                        tone = own;
                    }
                    text.push_str(&span.text);
                }
                Step::Break => {
                    self.text(tone, &std::mem::take(&mut text), out);
                    out.push(Piece::End);
                    open.at_line_start = true;
                }
            }
        }
        self.text(tone, &text, out);
    }

    fn text(&self, tone: Tone, text: &str, out: &mut Vec<Piece>) {
        if !text.is_empty() {
            out.push(Piece::Text(self.colour.paint(tone, text)));
        }
    }

    /// Ends the open block, if there is one.
    fn close(&mut self, out: &mut Vec<Piece>) {
        out.extend(self.rest());
        let Some(mut open) = self.open.take() else { return };
        let mut steps = Vec::new();
        open.markdown.finish(&mut steps);
        self.print(&mut open, steps, out);
        if !open.at_line_start {
            out.push(Piece::End);
        }
    }

    /// Makes ready for a line of `group`.
    fn begin(&mut self, group: Group, out: &mut Vec<Piece>) {
        self.close(out);
        if self.group.is_some_and(|before| before != group) {
            out.push(Piece::End);
        }
        self.group = Some(group);
        (self.last_call, self.last_trouble, self.cut) = (None, None, None);
    }

    /// One line, cut to fit.
    fn line(&mut self, group: Group, tone: Tone, line: &str, out: &mut Vec<Piece>) {
        self.begin(group, out);
        self.text(tone, &fit(line, self.columns), out);
        out.push(Piece::End);
    }

    /// A text of several lines whose first two columns are its gutter.
    fn paragraph(&mut self, group: Group, tone: Tone, text: &str, out: &mut Vec<Piece>) {
        // What is said while a call is open was said by the call, and stands under it.
        let nested = group == Group::System && self.last_call.is_some();
        let indent = if nested { "  " } else { "" };
        if nested {
            self.close(out);
        } else {
            self.begin(group, out);
        }
        let mut sign = text.chars();
        let gutter = sign.next().map(String::from).unwrap_or_default();
        let room = self.columns.min(TEXT_COLUMNS_MAX) - GUTTER - indent.len();
        for (i, line) in flow::lines(sign.as_str().trim_start(), room).iter().enumerate() {
            let gutter = if i == 0 { gutter.as_str() } else { " " };
            self.text(tone, format!("{indent}{gutter} {line}").trim_end(), out);
            out.push(Piece::End);
        }
    }

    /// Gray lines that belong to whatever stands above them.
    fn gray(&mut self, text: &str, out: &mut Vec<Piece>) {
        if let Some(open) = &self.open {
            self.cut = Some((open.group, open.block.clone()));
        }
        self.close(out);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.text(Tone::Gray, &fit(&format!("┆ {}", line.trim_end()), self.columns), out);
            out.push(Piece::End);
        }
    }
}

/// Whether this belongs behind the line of the session, which it may come before.
fn is_early(body: &Body) -> bool {
    match body {
        Body::UserText(_) => true,
        Body::Log(log) => log.stream == contract::event::Stream::Ostler && items::is_grave(log),
        _ => false,
    }
}

/// A prompt with the first lines of the input that was piped to it.
fn folded_prompt(text: &str) -> String {
    let Some((prompt, input)) = text.split_once(crate::input::HEADING) else {
        return text.to_owned();
    };
    let lines: Vec<&str> = input.lines().collect();
    // Two of them are the fence.
    let more = lines.len().saturating_sub(INPUT_LINES_MAX + 2);
    if more == 0 {
        return text.to_owned();
    }
    let shown = lines[..=INPUT_LINES_MAX].join("\n");
    let fence = lines.last().copied().unwrap_or_default();
    format!("{prompt}{}{shown}\n… +{more} lines\n{fence}", crate::input::HEADING)
}

/// The tone of a word in the text of a speaker.
fn own_tone(speaker: Tone, look: Look) -> Tone {
    match (speaker, look) {
        (Tone::Plain, Look::Strong | Look::Heading) => Tone::Strong,
        (Tone::Plain, Look::Emphasis) => Tone::Emphasis,
        (Tone::Plain, Look::Code) => Tone::Code,
        (Tone::Plain, Look::Quiet) => Tone::Gray,
        (Tone::Plain, Look::Added) => Tone::Good,
        (Tone::Plain, Look::Removed) => Tone::Bad,
        (speaker, _) => speaker,
    }
}

#[cfg(test)]
mod tests;
