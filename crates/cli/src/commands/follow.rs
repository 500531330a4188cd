//! Following a run to its end, whatever happens to the host meanwhile: when the connection breaks,
//! the next host is found (or this process becomes it) and the events go on behind the last one
//! seen.

use super::audience::Audience;
use super::keys::{AnswerKeys, KeyAction, KeyAnswer, Keyboard};
use crate::client::Received;
use crate::hosting::Hosting;
use crate::way::Way;
use contract::event::{Body, Permission, RunResult};
use contract::{Code, CommandId, Fault, RunId, Timestamp, Wish};
use futures::StreamExt as _;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

pub struct Follow<'a> {
    pub way: Way<'a>,
    pub run: RunId,
    pub seen: u64,
    on_interrupt: OnInterrupt,
    /// What was wished here and no host has taken yet.
    wishes: VecDeque<(CommandId, Wish)>,
    /// The longest time the run may take; absent if it is unknown or unlimited.
    pub run_ms_max: Option<u64>,
    /// When the run's first event came.
    begun_at: Option<Timestamp>,
    keys: AnswerKeys,
    /// It was said where a question can be answered.
    waits_told: bool,
}

pub(super) struct Interrupts {
    int: Signal,
    term: Signal,
    /// Absent where the user made this process ignore it (`nohup`).
    hangup: Option<Signal>,
    count: u32,
}

/// What a person or the system wants of this process.
pub(super) enum Interrupt {
    /// Ctrl-C or SIGTERM, for the so-manyeth time.
    Stop(u32),
    /// The terminal was closed.
    HangUp,
}

impl Interrupts {
    pub(super) fn new() -> Result<Self, Fault> {
        let failed =
            |error| Fault::new(Code::InternalError, format!("listening for signals: {error}"));
        Ok(Self {
            int: signal(SignalKind::interrupt()).map_err(failed)?,
            term: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: match ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup()).map_err(failed)?),
            },
            count: 0,
        })
    }

    pub(super) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
            () = received(&mut self.hangup) => return Interrupt::HangUp,
        }
        self.count += 1;
        Interrupt::Stop(self.count)
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP was ignored when this process was started. Once it is listened for, the answer is no.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // SIGHUP is signal 1, the lowest bit.
    mask & 1 == 1
}

enum Heard {
    /// Another process wants to be the host.
    Handover,
    Event(Option<Result<Received, Fault>>),
    Interrupt(Interrupt),
    Key(char),
    Time,
}

impl<'a> Follow<'a> {
    /// From the run's first event on.
    pub fn new(way: Way<'a>, run: RunId, on_interrupt: OnInterrupt) -> Self {
        Self {
            way,
            run,
            seen: 0,
            on_interrupt,
            wishes: VecDeque::new(),
            run_ms_max: None,
            begun_at: None,
            keys: AnswerKeys::default(),
            waits_told: false,
        }
    }

    pub async fn until_its_end(&mut self, audience: &mut Audience) -> Result<Followed, Fault> {
        let mut interrupts = Interrupts::new()?;
        let mut redraw = tokio::time::interval(REDRAW);
        // Keys are taken from the start, so that none of them is echoed or reaches the shell.
        let mut keyboard = match audience.is_at_terminal() {
            true => Keyboard::open(),
            false => None,
        };
        audience.takes_keys(keyboard.is_some());
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
                    interrupt = interrupts.next() => Heard::Interrupt(interrupt),
                    () = handover_asked(&self.way.hosting) => Heard::Handover,
                    event = events.next() => Heard::Event(event),
                    key = next_key(&mut keyboard) => Heard::Key(key),
                    _ = redraw.tick() => Heard::Time,
                };
                match heard {
                    Heard::Handover => {
                        break Fault::new(Code::RemoteUnavailable, "another process hosts now");
                    }
                    Heard::Time => {
                        let now = host::clock::now().wall;
                        audience.tick(self.begun_at.map_or(0, |begun| now.since(begun)));
                    }
                    // The run goes on: whoever follows it hands it to a background host.
                    Heard::Interrupt(Interrupt::HangUp) => {
                        *audience = Audience::Nobody;
                        return Ok(Followed::Left);
                    }
                    Heard::Interrupt(Interrupt::Stop(count)) => {
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
                        let event = audience.hear(&received)?;
                        self.begun_at.get_or_insert(event.ts);
                        match event.body {
                            Body::Result(result) => return Ok(Followed::Ended(Box::new(result))),
                            Body::Permission(asked) => {
                                self.ask(&asked, keyboard.is_some(), audience);
                            }
                            _ => {}
                        }
                    }
                    Heard::Key(key) => {
                        let action = self.keys.key(key);
                        audience.prompt(self.keys.prompt());
                        match action {
                            Some(KeyAction::Answer(answer)) => self.answer(answer, audience).await,
                            Some(KeyAction::View) => audience.view_question(),
                            None => {}
                        }
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

    /// A question came, or was decided. Without a keyboard here it is said once where to answer.
    fn ask(&mut self, asked: &Permission, has_keys: bool, audience: &mut Audience) {
        self.keys.note(asked);
        audience.prompt(self.keys.prompt());
        if let (None, Some(until), false, false) =
            (asked.decision, asked.until, has_keys, self.waits_told)
        {
            self.waits_told = true;
            let id = crate::render::tail(&asked.ask_id.to_string()).to_owned();
            let now = host::clock::now().wall;
            let run_left = self.begun_at.zip(self.run_ms_max);
            let run_left = run_left.map(|(begun, ms)| ms.saturating_sub(now.since(begun)));
            let left = run_left.into_iter().fold(until.since(now), u64::min);
            crate::terminal::remark(&crate::render::waits_for_answer(&id, left));
        }
    }

    async fn answer(&mut self, answer: KeyAnswer, audience: &mut Audience) {
        let KeyAnswer { ask_id, option, reason } = answer;
        self.wish(Wish::Answer { ask_id, option, by: None, reason }, audience).await;
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
                Err(fault) if !matches!(wish, Wish::Stop { .. }) => {
                    audience.say(&format!("  {fault}"));
                }
                // A run that has ended is stopped; its result says how.
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

async fn next_key(keyboard: &mut Option<Keyboard>) -> char {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}
