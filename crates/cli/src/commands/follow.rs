//! Following a run to its end, whatever happens to the host meanwhile: when the connection breaks,
//! the next host is found (or this process becomes it) and the events go on behind the last one
//! seen.

use super::audience::Audience;
use crate::client::Received;
use crate::hosting::Hosting;
use crate::way::Way;
use contract::event::{Body, Permission, RunResult};
use contract::{AskId, Code, CommandId, Fault, RunId, Wish};
use futures::StreamExt as _;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// How often the status line is redrawn.
const REDRAW: Duration = Duration::from_millis(120);

/// How often a host whose store has stopped is asked again: it is about to leave.
const LEAVING_TRIES: u32 = 50;
const LEAVING_RETRY: Duration = Duration::from_millis(100);

/// What Ctrl-C means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    /// Stop the run; again: at once.
    Stop,
    /// Leave; the run goes on.
    Leave,
}

/// How following ended.
pub enum Followed {
    Ended(Box<RunResult>),
    /// The person left before the run did.
    Left,
}

/// What a person types, line by line, from the first question on.
#[derive(Default)]
struct Keyboard {
    lines: Option<mpsc::Receiver<String>>,
    /// Questions in the order they were asked.
    asks: VecDeque<AskId>,
}

impl Keyboard {
    /// Begins to listen. The thread ends with the process: a read of a terminal cannot be called off.
    fn listen(&mut self) {
        if self.lines.is_some() {
            return;
        }
        let (sender, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        self.lines = Some(lines);
    }

    async fn line(&mut self) -> String {
        match &mut self.lines {
            Some(lines) => match lines.recv().await {
                Some(line) => line,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

/// The answer a person means by what they typed.
fn choice(line: &str) -> Option<&'static str> {
    match line.trim().to_lowercase().as_str() {
        "a" | "allow" | "y" | "yes" => Some("allow"),
        "d" | "deny" | "n" | "no" => Some("deny"),
        _ => None,
    }
}

pub struct Follow<'a> {
    pub way: Way<'a>,
    pub run: RunId,
    pub seen: u64,
    on_interrupt: OnInterrupt,
    /// What was wished here and no host has taken yet.
    wishes: VecDeque<(CommandId, Wish)>,
}

pub(super) struct Interrupts {
    int: Signal,
    term: Signal,
    count: u32,
}

impl Interrupts {
    pub(super) fn new() -> Result<Self, Fault> {
        let failed =
            |error| Fault::new(Code::InternalError, format!("listening for signals: {error}"));
        Ok(Self {
            int: signal(SignalKind::interrupt()).map_err(failed)?,
            term: signal(SignalKind::terminate()).map_err(failed)?,
            count: 0,
        })
    }

    pub(super) async fn next(&mut self) -> u32 {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
        self.count += 1;
        self.count
    }
}

enum Heard {
    /// Another process wants to be the host.
    Handover,
    Event(Option<Result<Received, Fault>>),
    Interrupt(u32),
    Typed(String),
    Time,
}

impl<'a> Follow<'a> {
    /// From the run's first event on.
    pub fn new(way: Way<'a>, run: RunId, on_interrupt: OnInterrupt) -> Self {
        Self { way, run, seen: 0, on_interrupt, wishes: VecDeque::new() }
    }

    pub async fn until_its_end(&mut self, audience: &mut Audience) -> Result<Followed, Fault> {
        let mut interrupts = Interrupts::new()?;
        let mut redraw = tokio::time::interval(REDRAW);
        let mut keyboard = Keyboard::default();
        let begun_ms = host::clock::now().mono_ms;
        let mut tries = LEAVING_TRIES;
        loop {
            self.put_wishes(audience).await;
            let mut events = match self.way.client.follow(self.run, self.seen).await {
                Ok(events) => events,
                Err(fault) if fault.code == Code::StoreUnreadable && tries > 0 => {
                    tries -= 1;
                    tokio::time::sleep(LEAVING_RETRY).await;
                    self.way.next_host(Fault::new(Code::RemoteUnavailable, fault.message)).await?;
                    continue;
                }
                Err(fault) => {
                    self.way.next_host(fault).await?;
                    continue;
                }
            };
            let lost = loop {
                let heard = tokio::select! {
                    biased;
                    count = interrupts.next() => Heard::Interrupt(count),
                    () = handover_asked(&self.way.hosting) => Heard::Handover,
                    event = events.next() => Heard::Event(event),
                    line = keyboard.line() => Heard::Typed(line),
                    _ = redraw.tick() => Heard::Time,
                };
                match heard {
                    Heard::Handover => {
                        break Fault::new(Code::RemoteUnavailable, "another process hosts now");
                    }
                    Heard::Time => {
                        audience.tick(host::clock::now().mono_ms.saturating_sub(begun_ms))
                    }
                    Heard::Interrupt(count) => {
                        if self.on_interrupt == OnInterrupt::Leave {
                            audience.finish();
                            return Ok(Followed::Left);
                        }
                        self.stop(count > 1, audience).await;
                    }
                    Heard::Event(Some(Ok(received))) => {
                        // A reconnect may repeat what was already seen.
                        if received.seq <= self.seen {
                            continue;
                        }
                        self.seen = received.seq;
                        match audience.hear(&received)? {
                            Body::Result(result) => return Ok(Followed::Ended(Box::new(result))),
                            Body::Permission(asked) => self.ask(&asked, &mut keyboard, audience),
                            _ => {}
                        }
                    }
                    Heard::Typed(line) => {
                        audience.typed();
                        self.answer(&line, &mut keyboard, audience).await;
                    }
                    Heard::Event(Some(Err(fault))) => break fault,
                    Heard::Event(None) => {
                        break Fault::new(
                            Code::RemoteUnavailable,
                            "the host ended the stream before the run ended",
                        );
                    }
                }
            };
            drop(events);
            self.way.next_host(lost).await?;
        }
    }

    /// A question came, or was decided. Only the terminal that started the run asks its person.
    fn ask(&self, asked: &Permission, keyboard: &mut Keyboard, audience: &mut Audience) {
        keyboard.asks.retain(|open| *open != asked.ask_id);
        let person =
            self.on_interrupt == OnInterrupt::Stop && self.way.place.surroundings.stdin_is_terminal;
        if asked.decision.is_none() && person {
            keyboard.asks.push_back(asked.ask_id);
            keyboard.listen();
            audience.say("  type a to allow or d to deny, then Enter");
        }
    }

    async fn answer(&mut self, line: &str, keyboard: &mut Keyboard, audience: &mut Audience) {
        let Some(ask_id) = keyboard.asks.front().copied() else { return };
        let Some(choice) = choice(line) else {
            return audience.say("  type a to allow or d to deny, then Enter");
        };
        self.wish(Wish::Answer { ask_id, option: choice.to_owned(), by: None }, audience).await;
    }

    async fn stop(&mut self, at_once: bool, audience: &mut Audience) {
        self.wish(Wish::Stop { reason: Code::Cancelled, at_once }, audience).await;
    }

    async fn wish(&mut self, wish: Wish, audience: &mut Audience) {
        self.wishes.push_back((host::chance::command_id(), wish));
        self.put_wishes(audience).await;
    }

    /// Puts every wish to the host. One that is gone is noticed by the stream of events, and the
    /// next host is asked the same again.
    async fn put_wishes(&mut self, audience: &mut Audience) {
        while let Some((id, wish)) = self.wishes.front() {
            match self.way.client.wish(self.run, *id, wish).await {
                Err(lost) if lost.code == Code::RemoteUnavailable => return,
                // A run that has ended is stopped; its result says how.
                Err(fault) if !matches!(wish, Wish::Stop { .. }) => {
                    audience.say(&format!("  {fault}"));
                }
                Ok(()) | Err(_) => {}
            }
            self.wishes.pop_front();
        }
    }
}

pub(super) async fn handover_asked(hosting: &Option<Hosting>) {
    match hosting {
        Some(hosting) => hosting.handover_asked().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_an_answer_or_none() {
        let rows = [
            ("a", Some("allow")),
            (" Yes ", Some("allow")),
            ("DENY", Some("deny")),
            ("", None),
            ("what?", None),
        ];
        for (line, expected) in rows {
            assert_eq!(choice(line), expected, "{line}");
        }
    }
}
