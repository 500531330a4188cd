//! Who an event is shown to: people, a program that reads JSON lines, or someone who wants the
//! answer only.

use super::Context;
use crate::client::Received;
use crate::render::{Detail, Renderer, RunIntro, clean};
use crate::terminal::{self, Gone, Screen};
use contract::event::{Body, Event, RunResult};
use contract::{AskId, Fault};
use std::io::{Stdout, Write as _};

/// The reader of a run.
pub enum Audience {
    People(Box<People>),
    Json(Programs),
    Quiet(Programs),
    /// The reader has gone; the run goes on.
    Nobody,
}

/// A program, or a person who asked for what a program gets.
pub struct Programs {
    out: Stdout,
    is_terminal: bool,
}

pub struct People {
    screen: Screen<Stdout>,
    renderer: Renderer,
    /// The run has ended, and its closing lines are still to be shown.
    is_unclosed: bool,
    /// Whether an event came since the last tick.
    stirred: bool,
    /// A question that waits and has not been rung for. One that was answered long ago, in a run
    /// that is only looked at, never waits for a tick.
    unrung: Option<AskId>,
    /// A line that is being typed.
    prompt: Option<String>,
}

impl Audience {
    pub fn people(context: &Context, detail: Detail) -> Self {
        let surroundings = &context.surroundings;
        let is_terminal = surroundings.stdout_is_terminal;
        let colour = terminal::colour(&surroundings.vars, is_terminal);
        let redraws = terminal::redraws(&surroundings.vars, is_terminal);
        let mut renderer = Renderer::new(surroundings.columns, colour, detail);
        renderer.has_rows(is_terminal.then(terminal::rows).flatten());
        Self::People(Box::new(People {
            screen: Screen::new(std::io::stdout(), redraws, surroundings.columns),
            renderer,
            is_unclosed: false,
            stirred: false,
            unrung: None,
            prompt: None,
        }))
    }

    /// By the flags every command has.
    pub fn of(context: &Context, detail: Detail) -> Self {
        match context.global.json {
            true => Self::Json(Programs::of(context)),
            false => Self::people(context, detail),
        }
    }

    /// Someone who wants the answer only.
    pub fn quiet(context: &Context) -> Self {
        Self::Quiet(Programs::of(context))
    }

    /// Shows an event, and says what it was.
    pub fn hear(&mut self, received: &Received) -> Result<Event, Fault> {
        let event = received.event()?;
        if let Err(gone) = self.show(received, &event) {
            self.leave(&gone);
        }
        Ok(event)
    }

    /// Whether the run is shown to a person at a terminal.
    pub fn is_at_terminal(&self) -> bool {
        matches!(self, Self::People(people) if people.screen.is_terminal())
    }

    /// Says what is known of the run before its first event.
    pub fn introduce(&mut self, intro: RunIntro) {
        if let Self::People(people) = self {
            people.renderer.introduces(intro);
        }
    }

    /// Says whether questions are answered by keys here.
    pub fn takes_keys(&mut self, takes_keys: bool) {
        if let Self::People(people) = self {
            people.renderer.takes_keys(takes_keys);
        }
    }

    /// Shows all of what the open question is about.
    pub fn view_question(&mut self) {
        if let Self::People(people) = self {
            let pieces = people.renderer.whole_question();
            if let Err(gone) = people.screen.show(&pieces) {
                self.leave(&gone);
            }
        }
    }

    /// Shows a line that is being typed in place of the status line, until there is none.
    pub fn prompt(&mut self, prompt: Option<String>) {
        if let Self::People(people) = self {
            people.prompt = prompt;
        }
    }

    /// Says a line to people who watch; programs are not talked to.
    pub fn say(&mut self, line: &str) {
        if let Self::People(people) = self
            && let Err(gone) = people.screen.say(&clean(line))
        {
            self.leave(&gone);
        }
    }

    fn show(&mut self, received: &Received, event: &Event) -> Result<(), Gone> {
        match self {
            Self::People(people) => {
                people.stirred = true;
                if let Body::Permission(permission) = &event.body {
                    let waits = permission.decision.is_none() && permission.until.is_some();
                    people.unrung = waits.then_some(permission.ask_id);
                }
                let pieces = people.renderer.event(event);
                people.screen.show(&pieces)?;
                people.is_unclosed |= matches!(event.body, Body::Result(_));
            }
            Self::Json(Programs { out, is_terminal }) => {
                match is_terminal {
                    true => {
                        let text = String::from_utf8_lossy(&received.bytes);
                        out.write_all(terminal::json(&text, true).as_bytes())?;
                    }
                    false => out.write_all(&received.bytes)?,
                }
                out.write_all(b"\n")?;
                out.flush()?;
            }
            Self::Quiet(Programs { out, is_terminal }) => {
                if let Body::Result(result) = &event.body
                    && let Some(text) = answer(result)
                {
                    // A program gets the answer as it is; a terminal would obey what is in it.
                    let text = if *is_terminal { clean(&text) } else { text };
                    writeln!(out, "{}", text.trim_end())?;
                }
            }
            Self::Nobody => {}
        }
        Ok(())
    }

    /// Redraws what changes with time alone.
    pub fn tick(&mut self, elapsed_ms: u64) {
        if let Self::People(people) = self
            && let Err(gone) = people.tick(elapsed_ms)
        {
            self.leave(&gone);
        }
    }

    /// Ends: with the closing lines of a run that has ended, or in the middle of one that goes on.
    pub fn finish(&mut self) {
        self.finish_with(None);
    }

    /// The same with a hint that takes the place of the usual one.
    pub fn finish_with(&mut self, advice: Option<&str>) {
        if let Self::People(people) = self
            && let Err(gone) = people.finish(advice)
        {
            self.leave(&gone);
        }
    }

    /// The agent's own words about its failure besides the message, if people were shown them.
    pub fn last_words(&self) -> String {
        match self {
            Self::People(people) => people.renderer.last_words(),
            Self::Json(_) | Self::Quiet(_) | Self::Nobody => String::new(),
        }
    }

    fn leave(&mut self, _: &Gone) {
        *self = Self::Nobody;
    }
}

impl Programs {
    fn of(context: &Context) -> Self {
        let is_terminal = context.surroundings.stdout_is_terminal;
        Self { out: std::io::stdout(), is_terminal }
    }
}

impl People {
    fn tick(&mut self, elapsed_ms: u64) -> Result<(), Gone> {
        if self.unrung.take().is_some() {
            self.screen.ring()?;
        }
        if !std::mem::take(&mut self.stirred) {
            let pieces = self.renderer.idle();
            self.screen.show(&pieces)?;
        }
        let status = match &self.prompt {
            Some(prompt) => self.renderer.prompt(prompt),
            None => self.renderer.status(elapsed_ms),
        };
        self.screen.status(&status)
    }

    fn finish(&mut self, advice: Option<&str>) -> Result<(), Gone> {
        let pieces = self.renderer.finish();
        self.screen.show(&pieces)?;
        if std::mem::take(&mut self.is_unclosed) {
            self.screen.say(&self.renderer.summary(advice))?;
        }
        self.screen.finish()
    }
}

/// The final answer, in words.
fn answer(result: &RunResult) -> Option<String> {
    match (&result.text, &result.output) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(output)) => Some(output.to_string()),
        (None, None) => None,
    }
}
