//! Following a run to its end, whatever happens to the host meanwhile: when the connection breaks,
//! the next host is found (or this process becomes it) and the events go on behind the last one
//! seen.

use super::audience::Audience;
use crate::client::{Client, Received};
use crate::hosting::{self, Hosting, Place, Purpose, Reached};
use contract::event::{Body, Permission, RunResult};
use contract::{AskId, Code, Fault, RunId, Wish};
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
    pub place: &'a Place,
    pub client: Client,
    /// The host, if it is us; it may become us on the way.
    pub hosting: Option<Hosting>,
    pub run: RunId,
    pub seen: u64,
    pub on_interrupt: OnInterrupt,
}

struct Interrupts {
    int: Signal,
    term: Signal,
    count: u32,
}

impl Interrupts {
    fn new() -> Result<Self, Fault> {
        let failed =
            |error| Fault::new(Code::InternalError, format!("listening for signals: {error}"));
        Ok(Self {
            int: signal(SignalKind::interrupt()).map_err(failed)?,
            term: signal(SignalKind::terminate()).map_err(failed)?,
            count: 0,
        })
    }

    async fn next(&mut self) -> u32 {
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

impl Follow<'_> {
    pub async fn until_its_end(&mut self, audience: &mut Audience) -> Result<Followed, Fault> {
        let mut interrupts = Interrupts::new()?;
        let mut redraw = tokio::time::interval(REDRAW);
        let mut keyboard = Keyboard::default();
        let begun_ms = host::clock::now().mono_ms;
        let mut tries = LEAVING_TRIES;
        loop {
            let mut events = match self.client.follow(self.run, self.seen).await {
                Ok(events) => events,
                Err(fault) if fault.code == Code::StoreUnreadable && tries > 0 => {
                    tries -= 1;
                    tokio::time::sleep(LEAVING_RETRY).await;
                    self.next_host(Fault::new(Code::RemoteUnavailable, fault.message)).await?;
                    continue;
                }
                Err(fault) => {
                    self.next_host(fault).await?;
                    continue;
                }
            };
            let lost = loop {
                let heard = tokio::select! {
                    biased;
                    count = interrupts.next() => Heard::Interrupt(count),
                    () = handover_asked(&self.hosting) => Heard::Handover,
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
                        self.stop(count > 1).await;
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
                    Heard::Typed(line) => self.answer(&line, &mut keyboard, audience).await,
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
            self.next_host(lost).await?;
        }
    }

    /// A question came, or was decided. Only the terminal that started the run asks its person.
    fn ask(&self, asked: &Permission, keyboard: &mut Keyboard, audience: &mut Audience) {
        keyboard.asks.retain(|open| *open != asked.ask_id);
        let person =
            self.on_interrupt == OnInterrupt::Stop && self.place.surroundings.stdin_is_terminal;
        if asked.decision.is_none() && person {
            keyboard.asks.push_back(asked.ask_id);
            keyboard.listen();
            audience.say("  type a to allow or d to deny, then Enter");
        }
    }

    async fn answer(&self, line: &str, keyboard: &mut Keyboard, audience: &mut Audience) {
        let Some(ask) = keyboard.asks.front() else { return };
        let Some(choice) = choice(line) else {
            return audience.say("  type a to allow or d to deny, then Enter");
        };
        if let Err(fault) = self.client.answer(&ask.to_string(), choice).await {
            audience.say(&format!("  {fault}"));
        }
    }

    /// Asks for the stop. A host that does not answer is noticed by the stream of events.
    async fn stop(&self, at_once: bool) {
        let _ = self.client.wish(self.run, &Wish::Stop { reason: Code::Cancelled, at_once }).await;
    }

    /// Finds who hosts now. Any other fault than a lost host is the caller's.
    async fn next_host(&mut self, lost: Fault) -> Result<(), Fault> {
        if let Some(fault) = self.hosting.as_ref().and_then(Hosting::is_broken) {
            return Err(fault);
        }
        if lost.code != Code::RemoteUnavailable {
            return Err(lost);
        }
        let reached = match self.hosting.take() {
            None => hosting::reach(self.place, &Purpose::Act).await?,
            // We are the host and were asked to make room; a failure of our own is not survived.
            Some(hosting) if hosting.is_asked_for() => {
                hosting.leave().await;
                hosting::reach_successor(self.place).await?
            }
            Some(hosting) => {
                self.hosting = Some(hosting);
                return Err(lost);
            }
        };
        let Reached { client, hosting } = reached;
        self.client = client;
        self.hosting = hosting;
        Ok(())
    }
}

async fn handover_asked(hosting: &Option<Hosting>) {
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
