//! One session that is held: what is known of it, and what is done when something happens to it. News
//! of the remote go up, words for it go down, one after the other in this one place, so that nothing
//! is passed on once the run is not ours any more. However it ends, the session is taken away last.

use super::ear::Ear;
use super::hook::{From, Hook};
use super::link::Link;
use super::mouth::{Mouth, Said};
use super::passage::{Passage, Whose};
use super::session::{delete, open};
use super::tongue::Tongue;
use super::words::{Begin, Input, Kind, Word};
use super::{Config, Ends, Limits, Line, News};
use crate::wire::{NewSession, Session};
use contract::limits::{REMOTE_DELETE_MS, REMOTE_INPUTS_MAX, REMOTE_PARTING_MS};
use contract::{Code, Fault};
use serde_json::json;
use serde_json::value::RawValue;
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument as _;

/// A session that is held.
pub struct Held {
    link: Link,
    tongue: Tongue,
    session: String,
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

/// The span of a task, so that the record of a panic names it.
fn task(name: &'static str) -> tracing::Span {
    tracing::info_span!("task", task_name = name)
}

impl Held {
    /// Opens or takes up the session. `None` when the run was over before there was one.
    pub async fn begin<Term: Future<Output = ()> + Unpin>(
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
                report(ends, opened(&session)).await;
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
                report(ends, word.line()).await;
                (id, run, None, asked.fencing_token)
            }
        };
        let taken_up = TakenUp { session, run, after, fence };
        Ok(Some(Self::of(link, tongue, config.limits, taken_up)))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the handles are kept by the session, which aborts or awaits them"
    )]
    fn of(link: Link, tongue: Tongue, limits: Limits, taken_up: TakenUp) -> Self {
        let TakenUp { session, run, after, fence } = taken_up;
        // One at a time: what is not read here waits at the remote.
        let (tell, news) = mpsc::channel(1);
        let (said, words) = mpsc::channel(REMOTE_INPUTS_MAX);
        let (to, heard) = (link.clone(), session.clone());
        let mut ear = Ear::new(to, tongue, heard, run, limits, tell.clone());
        ear.last = after;
        let hearing = tokio::spawn(ear.listen().instrument(task("hear remote")));
        let (to, spoken) = (link.clone(), session.clone());
        let mouth = Mouth { link: to, tongue, session: spoken, limits, fence, news: tell };
        let speaking = tokio::spawn(mouth.speak(words).instrument(task("speak to remote")));
        Self::made(link, tongue, session, news, said, [hearing, speaking])
    }

    /// The same for a service that only answers: there is nobody to speak to.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handles are kept by the session, which aborts or awaits them"
    )]
    fn hook(link: Link, limits: Limits, session: String, run: Option<String>, from: From) -> Self {
        let (tell, news) = mpsc::channel(1);
        let (said, mut words) = mpsc::channel(REMOTE_INPUTS_MAX);
        let whose = Whose { run, session: None };
        let hook = Hook { link: link.clone(), limits, news: tell, whose };
        let hearing = tokio::spawn(hook.listen(from).instrument(task("hear remote")));
        let speaking = tokio::spawn(async move { while words.recv().await.is_some() {} });
        Self::made(link, Tongue::Hook, session, news, said, [hearing, speaking])
    }

    fn made(
        link: Link,
        tongue: Tongue,
        session: String,
        news: mpsc::Receiver<News>,
        said: mpsc::Sender<Said>,
        [hearing, speaking]: [JoinHandle<()>; 2],
    ) -> Self {
        Self {
            link,
            tongue,
            session,
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

    pub async fn run<Term: Future<Output = ()> + Unpin>(
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
                    Some(News::Lines(passage)) => self.take(passage, ends).await,
                    Some(News::Opened(session)) => {
                        report(ends, opened(&session)).await;
                        self.session = session;
                        Next::GoOn
                    }
                    Some(News::Alive) => {
                        report(ends, Word::Alive.line()).await;
                        Next::GoOn
                    }
                    Some(News::Note(note)) => {
                        report(ends, noted(None, &note)).await;
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

    /// What the remote sent, on its way up.
    async fn take<Term>(&mut self, passage: Passage, ends: &Ends<Term>) -> Next {
        if self.fenced {
            return self.refuse(&passage);
        }
        let ended = passage.ended;
        let (mut pieces, weight) = passage.into_pieces();
        let last = pieces.pop();
        for bytes in pieces {
            if ends.out.send(bytes.into()).await.is_err() {
                return Next::Leave;
            }
        }
        if let Some(bytes) = last
            && ends.out.send(Line { bytes, weight }).await.is_err()
        {
            return Next::Leave;
        }
        if ended {
            self.ended = true;
            self.hearing.abort();
            self.part_within(REMOTE_PARTING_MS);
        }
        Next::GoOn
    }

    /// Whoever lost the lease may write nothing: every call is told so, and after the first of what
    /// came it is told to end.
    fn refuse(&mut self, passage: &Passage) -> Next {
        if passage.ended {
            self.ended = true;
            return Next::Leave;
        }
        let (first, others) = passage.calls.split_at(usize::from(passage.begins_with_call));
        self.refuse_calls(first);
        if passage.events > 0 && !std::mem::replace(&mut self.refusal_said, true) {
            self.say(&json!({ "type": "shutdown", "reason": Code::FenceStale.word() }));
        }
        self.refuse_calls(others);
        Next::GoOn
    }

    fn refuse_calls(&mut self, ids: &[Box<RawValue>]) {
        for id in ids {
            let error = "fence_stale: the lease of this run was lost";
            self.say(&json!({ "type": "tool_result", "id": id, "ok": false, "error": error }));
        }
    }

    /// A word for the remote on its way down.
    async fn pass_down<Term>(&mut self, line: &[u8], ends: &Ends<Term>) {
        let Ok(Input { n, input }) = serde_json::from_slice(line) else {
            let note = "a line to the courier was no word for the remote";
            report(ends, noted(None, note)).await;
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

    fn send(&self, said: Said) {
        // A mouth that has given up has reported it. `run` reads a line only when there is room for it;
        // without room only one more refusal of a call is lost.
        let _ = self.said.try_send(said);
    }

    /// The run is over: what was said is still said, then the session is taken away.
    async fn leave(self) -> Result<(), Fault> {
        self.hearing.abort();
        drop(self.said);
        drop(self.news);
        let spoken = Duration::from_millis(REMOTE_DELETE_MS);
        // What was not said by then is not said; the session is deleted all the same.
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
            report(ends, Word::Forced.line()).await;
        }
    }
}

/// Writes a line to the keeper. If the output is closed, the keeper is gone, and the lines end too.
async fn report<Term>(ends: &Ends<Term>, line: Vec<u8>) {
    // `run` leaves when the lines end.
    let _ = ends.out.send(line.into()).await;
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
