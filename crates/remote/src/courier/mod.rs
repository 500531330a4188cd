//! The courier: holds one session of one remote, between a keeper that speaks lines and a remote that
//! speaks HTTP. It opens the session, passes events up and words down, and takes the session away
//! again when the run is over, however that comes about. It decides nothing about the run: it says
//! what happened, and whoever drives the run makes an end of it.
//!
//! `address` says where a remote may be, `link` how it is reached, `tongue` what it speaks, `ear` hears
//! it (`hook` hears one that only answers), `mouth` speaks to it, `words` are the lines. What stands
//! between stdin, stdout and this is in the program itself.

mod address;
mod ear;
mod hermes;
mod hook;
mod link;
mod mouth;
mod tongue;
mod words;

#[cfg(test)]
mod tests;

use crate::wire::{NewSession, Session};
use contract::limits::{
    REMOTE_CALL_ID_BYTES_MAX, REMOTE_DELETE_MS, REMOTE_IDLE_MS, REMOTE_INPUTS_MAX, REMOTE_LOST_MS,
    REMOTE_PARTING_MS, REMOTE_PAUSE_MS, REMOTE_PAUSE_MS_MAX, REMOTE_START_MS,
    REMOTE_TEXT_BYTES_MAX,
};
use contract::plan::{RemoteAuth, RemoteProtocol};
use contract::{Code, Fault};
use ear::Ear;
use hook::{From, Hook};
use link::{Link, Trouble};
use mouth::{Mouth, Said};
use reqwest::Method;
use serde_json::json;
use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tongue::Tongue;
pub use words::Said as Line;
use words::{Begin, Glance, Input, Kind, Word, event_line, text_line};

/// What a courier is told when it is started.
#[derive(Clone)]
pub struct Config {
    pub base_url: String,
    pub protocol: RemoteProtocol,
    pub auth: RemoteAuth,
    /// The value of the variable that `auth` names.
    pub token: Option<String>,
    pub ca_path: Option<String>,
    pub allow_insecure: bool,
    pub limits: Limits,
}

/// How patient a courier is.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub start: Duration,
    pub lost: Duration,
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: Duration::from_millis(REMOTE_START_MS),
            lost: Duration::from_millis(REMOTE_LOST_MS),
            idle: Duration::from_millis(REMOTE_IDLE_MS),
        }
    }
}

impl Limits {
    /// The pause before the next try.
    fn pause(&self, tries: u32) -> Duration {
        let ms = REMOTE_PAUSE_MS.saturating_mul(1 << tries.min(16));
        Duration::from_millis(ms.min(REMOTE_PAUSE_MS_MAX))
    }
}

/// What ear and mouth tell.
#[derive(Debug)]
enum News {
    Event(Heard),
    /// A service took the task, under this name.
    Opened(String),
    /// A service says that it still works.
    Alive,
    /// The end, found where the remote keeps how its runs stand.
    Ended(serde_json::Value),
    Note(String),
    Over(Fault),
}

/// An event as it came, with what it weighs while it is on its way.
#[derive(Debug)]
struct Heard {
    id: Option<u64>,
    data: Vec<u8>,
    weight: Option<OwnedSemaphorePermit>,
}

/// The reader's side of standard input, the writer's side of standard output, and what ends us early.
pub struct Ends<Term> {
    pub lines: mpsc::Receiver<Vec<u8>>,
    pub out: mpsc::Sender<Line>,
    /// Comes when we are to leave.
    pub term: Term,
}

/// Holds one session to its end. Gives the fault that ended it, which was said already.
pub async fn carry<Term: Future<Output = ()> + Unpin>(
    config: &Config,
    mut ends: Ends<Term>,
) -> Result<(), Fault> {
    let held = match Held::begin(config, &mut ends).await {
        Ok(Some(held)) => held.run(&mut ends).await,
        Ok(None) => Ok(()),
        Err(fault) => Err(fault),
    };
    if let Err(fault) = &held {
        let _ = ends.out.send(told(fault).into()).await;
    }
    held
}

/// Asks a remote whether it is there, for doctor. The line says what came of it.
pub async fn greet(config: &Config) -> Result<Vec<u8>, Fault> {
    let link = Link::new(config).await?;
    let request = link.request(Method::GET, link.below(["healthz"]));
    let message = match link.answer(request).await {
        Ok(_) => "it is there and well",
        // It need not have such a place.
        Err(Trouble::Gone | Trouble::Refused(_) | Trouble::Stale) => "it is there",
        Err(Trouble::Lasting(fault)) => return Err(fault),
        Err(Trouble::Passing(why)) => return Err(Fault::new(Code::RemoteUnavailable, why)),
    };
    Ok(Word::Well { message }.line())
}

fn told(fault: &Fault) -> Vec<u8> {
    Word::Fault { code: fault.code, message: &fault.message }.line()
}

/// A session that is held.
struct Held {
    link: Link,
    tongue: Tongue,
    /// What a gateway of runs has told so far, where the remote is one.
    runs: hermes::Ear,
    session: String,
    run: Option<String>,
    news: mpsc::Receiver<News>,
    hearing: JoinHandle<()>,
    speaking: JoinHandle<()>,
    said: mpsc::Sender<Said>,
    /// The highest number that a word had.
    last_n: u64,
    /// The remote said that it is done.
    ended: bool,
    /// The remote was told to end.
    shut: bool,
    /// The run is not ours any more: nothing of the remote is taken.
    fenced: bool,
    /// That was said to the remote in answer to what it sent.
    refusal_said: bool,
    /// When the session is taken away, whatever the remote still does.
    until: Option<Instant>,
}

/// Where a session is taken up: a new one at its beginning, another courier's where it was left.
struct TakenUp {
    session: String,
    run: Option<String>,
    after: Option<u64>,
    fence: Option<u64>,
}

/// What to do after something happened.
enum Next {
    GoOn,
    /// The session can be taken away now.
    Leave,
}

impl Held {
    /// Opens or takes up the session. `None` when the run was over before there was one.
    async fn begin<Term: Future<Output = ()> + Unpin>(
        config: &Config,
        ends: &mut Ends<Term>,
    ) -> Result<Option<Self>, Fault> {
        let Some(first) = ends.lines.recv().await else { return Ok(None) };
        let begin: Begin = serde_json::from_slice(&first).map_err(|error| {
            Fault::new(Code::InternalError, format!("the courier's first line: {error}"))
        })?;
        let tongue = Tongue::of(config.protocol);
        let link = Link::new(config).await?;
        let (session, run, after, fence) = match begin {
            Begin::Attach { session, run, after, fence } => {
                let _ = ends.out.send(opened(&session).into()).await;
                if tongue == Tongue::Hook {
                    let from = From::Session(session.clone());
                    return Ok(Some(Self::hook(link, config.limits, session, Some(run), from)));
                }
                (session, Some(run), after, fence)
            }
            Begin::Open(body) => {
                let asked: NewSession = serde_json::from_str(body.get()).unwrap_or_default();
                let run = asked.run_id.clone();
                if tongue == Tongue::Hook {
                    let named = run.clone().unwrap_or_default();
                    let from = From::Task { asked: Box::new(asked), body: body.get().to_owned() };
                    return Ok(Some(Self::hook(link, config.limits, named, run, from)));
                }
                let opening = open(&link, tongue, config.limits, &asked, body.get());
                let mut opening = std::pin::pin!(opening);
                let opened = tokio::select! {
                    opened = &mut opening => opened?,
                    () = &mut ends.term => {
                        // It may be there by now, and must not stay.
                        let late = Duration::from_millis(REMOTE_DELETE_MS);
                        if let Ok(Ok(session)) = tokio::time::timeout(late, opening).await {
                            delete(&link, tongue, &session.id).await;
                        }
                        return Ok(None);
                    }
                };
                let Session { id, model, capabilities, .. } = opened;
                let model = model.as_deref();
                let word = Word::Opened { session: &id, model, capabilities };
                let _ = ends.out.send(word.line().into()).await;
                (id, run, None, asked.fencing_token)
            }
        };
        let taken_up = TakenUp { session, run, after, fence };
        Ok(Some(Self::of(link, tongue, config.limits, taken_up)))
    }

    fn of(link: Link, tongue: Tongue, limits: Limits, taken_up: TakenUp) -> Self {
        let TakenUp { session, run, after, fence } = taken_up;
        // One at a time: what is not read here waits at the remote.
        let (tell, news) = mpsc::channel(1);
        let (said, words) = mpsc::channel(REMOTE_INPUTS_MAX);
        let mut ear = Ear::new(link.clone(), tongue, session.clone(), limits, tell.clone());
        ear.last = after;
        let hearing = tokio::spawn(ear.listen());
        let (to, spoken) = (link.clone(), session.clone());
        let mouth = Mouth { link: to, tongue, session: spoken, limits, fence, news: tell };
        let speaking = tokio::spawn(mouth.speak(words));
        Self::made(link, tongue, session, run, news, said, [hearing, speaking])
    }

    /// The same for a service that only answers: there is nobody to speak to.
    fn hook(link: Link, limits: Limits, session: String, run: Option<String>, from: From) -> Self {
        let (tell, news) = mpsc::channel(1);
        let (said, mut words) = mpsc::channel(REMOTE_INPUTS_MAX);
        let hook = Hook { link: link.clone(), limits, news: tell };
        let hearing = tokio::spawn(hook.listen(from));
        let speaking = tokio::spawn(async move { while words.recv().await.is_some() {} });
        Self::made(link, Tongue::Hook, session, run, news, said, [hearing, speaking])
    }

    fn made(
        link: Link,
        tongue: Tongue,
        session: String,
        run: Option<String>,
        news: mpsc::Receiver<News>,
        said: mpsc::Sender<Said>,
        [hearing, speaking]: [JoinHandle<()>; 2],
    ) -> Self {
        Self {
            link,
            tongue,
            runs: hermes::Ear::default(),
            session,
            run,
            news,
            hearing,
            speaking,
            said,
            last_n: 0,
            ended: false,
            shut: false,
            fenced: false,
            refusal_said: false,
            until: None,
        }
    }

    async fn run<Term: Future<Output = ()> + Unpin>(
        mut self,
        ends: &mut Ends<Term>,
    ) -> Result<(), Fault> {
        let mut open = true;
        loop {
            let until = self.until;
            // No line is read that there is no room for: what is not read waits in the pipe.
            let room = self.said.clone().reserve_owned();
            let line = async {
                let _room = room.await;
                ends.lines.recv().await
            };
            let next = tokio::select! {
                () = &mut ends.term => {
                    self.take_away(ends).await;
                    return Ok(());
                }
                news = self.news.recv() => match news {
                    Some(News::Event(heard)) => self.take(heard, ends).await,
                    Some(News::Opened(session)) => {
                        let _ = ends.out.send(opened(&session).into()).await;
                        self.session = session;
                        Next::GoOn
                    }
                    Some(News::Alive) => {
                        let _ = ends.out.send(Word::Alive.line().into()).await;
                        Next::GoOn
                    }
                    Some(News::Ended(event)) => {
                        let data = event.to_string().into_bytes();
                        self.pass_on(Heard { id: None, data, weight: None }, ends).await
                    }
                    Some(News::Note(note)) => {
                        let _ = ends.out.send(noted(None, &note).into()).await;
                        Next::GoOn
                    }
                    // One that was told to end, or has ended, may be gone.
                    Some(News::Over(_)) if self.shut || self.ended || !open => Next::Leave,
                    Some(News::Over(fault)) => {
                        self.hearing.abort();
                        delete(&self.link, self.tongue, &self.session).await;
                        return Err(fault);
                    }
                    None => Next::Leave,
                },
                line = line, if open => match line {
                    Some(line) => {
                        self.pass_down(&line, ends).await;
                        self.heeded(self.shut)
                    }
                    None => {
                        open = false;
                        self.part_within(REMOTE_PARTING_MS);
                        self.heeded(true)
                    }
                },
                () = until_then(until) => Next::Leave,
            };
            let done = self.ended && !open;
            if done || matches!(next, Next::Leave) {
                return self.leave().await;
            }
        }
    }

    /// After the word to end: a remote that does not hear it is not waited for.
    const fn heeded(&self, told: bool) -> Next {
        if told && !self.tongue.heeds() { Next::Leave } else { Next::GoOn }
    }

    fn part_within(&mut self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
    }

    /// What the remote sent, as the events that it is.
    async fn take<Term>(&mut self, heard: Heard, ends: &Ends<Term>) -> Next {
        let events = match self.tongue {
            Tongue::Ca | Tongue::Hook => return self.pass_on(heard, ends).await,
            Tongue::Hermes => self.runs.hear(&heard.data),
        };
        let Ok(events) = events else { return self.pass_text(heard, ends).await };
        for event in events {
            let data = event.to_string().into_bytes();
            let event = Heard { id: heard.id, data, weight: None };
            if let Next::Leave = self.pass_on(event, ends).await {
                return Next::Leave;
            }
        }
        Next::GoOn
    }

    /// What is no event is passed on as a text, and what of it is too long is told.
    async fn pass_text<Term>(&self, heard: Heard, ends: &Ends<Term>) -> Next {
        let Heard { id, data, weight } = heard;
        let left_out = data.len().saturating_sub(REMOTE_TEXT_BYTES_MAX);
        let _ = ends.out.send(Line { bytes: text_line(id, data), weight }).await;
        if left_out > 0 {
            let note = format!("{left_out} bytes of what the remote sent as an event, and is none");
            let _ = ends.out.send(noted(id, &format!("{note}, are left out")).into()).await;
        }
        Next::GoOn
    }

    /// An event of the remote on its way up.
    async fn pass_on<Term>(&mut self, heard: Heard, ends: &Ends<Term>) -> Next {
        let id = heard.id;
        let glance = match serde_json::from_slice::<Glance<'_>>(&heard.data) {
            Ok(glance) => glance,
            // An object whose fields are odd is for whoever knows events; what is no JSON is text.
            Err(error) if error.is_data() => Glance::default(),
            Err(_) => return self.pass_text(heard, ends).await,
        };
        if self.fenced {
            return self.refuse(&glance);
        }
        if let Some(foreign) = self.foreign(&glance) {
            let note = format!("an event of the remote was not taken: it is for {foreign}");
            let _ = ends.out.send(noted(id, &note).into()).await;
            return Next::GoOn;
        }
        let ends_it = glance.ends();
        let Heard { id, data, weight } = heard;
        let said = Line { bytes: event_line(id, data), weight };
        if ends.out.send(said).await.is_err() {
            return Next::Leave;
        }
        if ends_it {
            self.ended = true;
            self.hearing.abort();
            self.part_within(REMOTE_PARTING_MS);
        }
        Next::GoOn
    }

    /// Whom an event is for, when it is not for this run.
    fn foreign(&self, glance: &Glance<'_>) -> Option<String> {
        let other = |named: &Option<Cow<'_, str>>, ours: Option<&String>| {
            let other = named.as_ref().filter(|named| ours.is_some_and(|ours| ours != *named));
            other.map(|named| named.chars().take(200).collect::<String>())
        };
        let run = other(&glance.run_id, self.run.as_ref()).map(|run| format!("the run '{run}'"));
        let ours = (self.tongue != Tongue::Hook).then_some(&self.session);
        let session = other(&glance.session_id, ours);
        run.or(session.map(|session| format!("the session '{session}'")))
            .map(|whom| whom.chars().filter(|c| !c.is_control()).take(200).collect())
    }

    /// Whoever lost the lease may write nothing: it is told so, and told to end.
    fn refuse(&mut self, glance: &Glance<'_>) -> Next {
        if glance.ends() {
            self.ended = true;
            return Next::Leave;
        }
        let id = glance.id.filter(|id| id.get().len() <= REMOTE_CALL_ID_BYTES_MAX);
        if let (Some("tool_call"), Some(id)) = (glance.r#type.as_deref(), id) {
            let error = "fence_stale: the lease of this run was lost";
            self.say(&json!({ "type": "tool_result", "id": id, "ok": false, "error": error }));
        }
        if !std::mem::replace(&mut self.refusal_said, true) {
            self.say(&json!({ "type": "shutdown", "reason": Code::FenceStale.word() }));
        }
        Next::GoOn
    }

    /// A word for the remote on its way down.
    async fn pass_down<Term>(&mut self, line: &[u8], ends: &Ends<Term>) {
        let Ok(Input { n, input }) = serde_json::from_slice(line) else {
            let note = "a line to the courier was no word for the remote";
            let _ = ends.out.send(noted(None, note).into()).await;
            return;
        };
        let kind: Kind = serde_json::from_str(input.get()).unwrap_or_default();
        if kind.r#type == "shutdown" {
            self.shut = true;
            let lost = [Code::LeaseExpired, Code::FenceStale];
            self.fenced |= lost.iter().any(|code| code.word() == kind.reason);
        }
        let n = n.unwrap_or(self.last_n + 1);
        self.last_n = self.last_n.max(n);
        self.send(Said { n, body: input.get().to_owned() });
    }

    fn say(&mut self, word: &serde_json::Value) {
        self.last_n += 1;
        let n = self.last_n;
        self.send(Said { n, body: word.to_string() });
    }

    /// A mouth that has given up has said so; and a refusal too many is not missed.
    fn send(&self, said: Said) {
        let _ = self.said.try_send(said);
    }

    /// The run is over: what was said is still said, then the session is taken away.
    async fn leave(self) -> Result<(), Fault> {
        self.hearing.abort();
        drop(self.said);
        drop(self.news);
        let spoken = Duration::from_millis(REMOTE_DELETE_MS);
        let _ = tokio::time::timeout(spoken, self.speaking).await;
        // A service that was not told to end, and did not end here, has called back.
        let left = !self.ended && (self.shut || self.tongue.heeds());
        if left || self.tongue.leaves_something() {
            delete(&self.link, self.tongue, &self.session).await;
        }
        Ok(())
    }

    /// We are to leave at once: a session that is still there is taken away, and that is told.
    async fn take_away<Term>(self, ends: &Ends<Term>) {
        self.hearing.abort();
        self.speaking.abort();
        let was_there = delete(&self.link, self.tongue, &self.session).await;
        if was_there && !self.ended {
            let _ = ends.out.send(Word::Forced.line().into()).await;
        }
    }
}

fn opened(session: &str) -> Vec<u8> {
    Word::Opened { session, model: None, capabilities: None }.line()
}

fn noted(id: Option<u64>, message: &str) -> Vec<u8> {
    Word::Note { id: id.map(|id| id.to_string()), message }.line()
}

async fn until_then(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Asks for a session, for as long as it may help: asking again is asking once.
async fn open(
    link: &Link,
    tongue: Tongue,
    limits: Limits,
    asked: &NewSession,
    body: &str,
) -> Result<Session, Fault> {
    let began = Instant::now();
    let mut tries = 0;
    loop {
        let why = match link.answer(tongue.create(link, asked, body)).await {
            Ok(answer) => return tongue.session(&answer),
            Err(Trouble::Passing(why)) => why,
            Err(Trouble::Lasting(fault)) => return Err(fault),
            Err(Trouble::Stale) => return Err(ear::stale()),
            Err(Trouble::Refused(why)) => return Err(Fault::new(Code::ProtocolError, why)),
            Err(Trouble::Gone) => {
                let message = "it has no place for sessions: is baseUrl the address of a remote?";
                return Err(Fault::new(Code::ProtocolError, message));
            }
        };
        if began.elapsed() >= limits.start {
            return Err(Fault::new(Code::RemoteUnavailable, why));
        }
        tokio::time::sleep(limits.pause(tries)).await;
        tries += 1;
    }
}

/// Takes a session away. False when it was not there any more.
async fn delete(link: &Link, tongue: Tongue, session: &str) -> bool {
    let Some(request) = tongue.delete(link, session) else { return false };
    let answer = link.answer(request);
    let answer = tokio::time::timeout(Duration::from_millis(REMOTE_DELETE_MS), answer);
    !matches!(answer.await, Ok(Err(Trouble::Gone)))
}
