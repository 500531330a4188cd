//! Hears one session: a stream of events that is taken up again where it was cut. Numbers are what
//! makes that safe: what was heard before is dropped, what is missing is asked for once more, and a
//! stream without numbers cannot be taken up. A remote that is gone for good, or for too long, is the
//! end; a remote that dribbles bytes and never finishes an event is treated as one that is cut off.

use super::link::{Link, Trouble, failed};
use super::passage::{Passage, Whose};
use super::tongue::Tongue;
use super::{Limits, News, hermes};
use crate::wire::LAST_EVENT_ID;
use contract::limits::{
    REMOTE_AHEAD_BYTES, REMOTE_EVENT_BYTES_MAX, REMOTE_PROGRESS_BYTES, REMOTE_STEADY_MS,
};
use contract::sse::{Reader, Record, TooLong};
use contract::{Code, Fault};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Response};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

/// Whoever hears a session.
pub struct Ear {
    pub link: Link,
    pub tongue: Tongue,
    pub session: String,
    pub limits: Limits,
    pub news: mpsc::Sender<News>,
    whose: Whose,
    /// What a gateway of runs has told so far, where the remote is one.
    runs: hermes::Ear,
    /// The number of the last event that was passed on.
    pub last: Option<u64>,
    /// An event without a number came: nothing can be taken up any more.
    pub unnumbered: bool,
    /// The number after which something was missing and has been asked for again.
    pub asked: Option<u64>,
    /// Events passed on, and whether bytes came that made none.
    heard: u64,
    dribbled: bool,
    /// Room for one event and a little more, in bytes: what is held here or waits to be read takes of
    /// it, and nothing is taken in that has none.
    pub room: Arc<Semaphore>,
}

/// Why a stream was left.
enum Left {
    /// It was cut; it may be taken up.
    Cut(String),
    /// Something was missing in it, and is asked for again.
    Missing,
    Over(Fault),
    /// Nobody listens to us any more.
    Alone,
}

/// What a piece of a stream held.
enum Heard {
    /// Something whole, be it a comment.
    Whole,
    /// Only a part of something.
    Part,
    /// What makes us leave the stream.
    Left(Left),
}

/// How long the remote has been in trouble.
struct Tries {
    since: Instant,
    count: u32,
}

impl Ear {
    pub fn new(
        link: Link,
        tongue: Tongue,
        session: String,
        run: Option<String>,
        limits: Limits,
        news: mpsc::Sender<News>,
    ) -> Self {
        Self {
            link,
            tongue,
            whose: Whose { run, session: Some(session.clone()) },
            session,
            limits,
            news,
            runs: hermes::Ear::default(),
            last: None,
            unnumbered: false,
            asked: None,
            heard: 0,
            dribbled: false,
            room: Arc::new(Semaphore::new(REMOTE_EVENT_BYTES_MAX + REMOTE_AHEAD_BYTES)),
        }
    }

    /// Waits until there is room for so many bytes more. A piece that is larger than all that may be
    /// ahead would wait for ever beside an event that is nearly as long as may be.
    async fn make_room(&self, bytes: usize, held: &mut Option<OwnedSemaphorePermit>) {
        let bytes = u32::try_from(bytes.min(REMOTE_AHEAD_BYTES)).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.room).acquire_many_owned(bytes).await else { return };
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
    }

    /// Hears until the session is over or nobody listens.
    pub async fn listen(mut self) {
        let mut tries: Option<Tries> = None;
        loop {
            let (began, before) = (Instant::now(), self.heard);
            self.dribbled = false;
            let why = match self.stream().await {
                Left::Cut(why) => why,
                Left::Missing => continue,
                Left::Over(fault) => return self.over(fault).await,
                Left::Alone => return,
            };
            if let Some(ended) = self.ended().await {
                let mut passage = Passage::default();
                passage.event(&self.whose, None, Cow::Owned(ended.to_string().into_bytes()));
                // Without a receiver the session is over.
                let _ = self.news.send(News::Lines(passage)).await;
                return;
            }
            if self.unnumbered && self.tongue == Tongue::Ca {
                let message = format!(
                    "{why}; it does not number its events, so that the stream cannot be \
                     resumed"
                );
                return self.over(Fault::new(Code::RemoteLost, message)).await;
            }
            let steady = began.elapsed() >= Duration::from_millis(REMOTE_STEADY_MS);
            if self.heard > before || (steady && !self.dribbled) {
                tries = None;
            }
            let tries = tries.get_or_insert(Tries { since: Instant::now(), count: 0 });
            if tries.since.elapsed() >= self.limits.lost {
                let message = format!("{why}, and it was tried {} times", tries.count);
                return self.over(Fault::new(Code::RemoteLost, message)).await;
            }
            tokio::time::sleep(self.limits.pause(tries.count)).await;
            tries.count += 1;
        }
    }

    /// The end of a session that sends nothing any more, where the remote can be asked for it.
    async fn ended(&self) -> Option<serde_json::Value> {
        let asked = self.tongue.status(&self.link, &self.session)?;
        let status = self.link.answer(asked).await.ok()?;
        self.tongue.ended(&status)
    }

    async fn over(&self, fault: Fault) {
        // Without a receiver the session is over.
        let _ = self.news.send(News::Over(fault)).await;
    }

    /// Hears one stream to its end, whatever that is.
    async fn stream(&mut self) -> Left {
        let url = self.tongue.place(&self.link, &self.session, Some("events"));
        let mut request = self.link.request(Method::GET, url).header(ACCEPT, "text/event-stream");
        if let Some(last) = self.last {
            request = request.header(LAST_EVENT_ID, last.to_string());
        }
        let response = match self.link.ask(request).await {
            Ok(response) => response,
            Err(trouble) => return left_by(trouble),
        };
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let message =
                format!("its events are {}, not an event stream", kind.unwrap_or("nothing"));
            return Left::Over(Fault::new(Code::ProtocolError, message));
        }
        self.read(response).await
    }

    async fn read(&mut self, mut response: Response) -> Left {
        let mut reader = Reader::new(REMOTE_EVENT_BYTES_MAX);
        let mut until = Instant::now() + self.limits.idle;
        let (mut progress, mut held) = (0, None);
        loop {
            let chunk = match tokio::time::timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Left::Cut("its stream of events ended".to_owned()),
                Ok(Err(error)) => return left_by(failed(&error)),
                // The timeout.
                Err(_) => {
                    let ms = self.limits.idle.as_millis();
                    return Left::Cut(format!("it sent nothing whole for {ms} ms"));
                }
            };
            self.dribbled |= !chunk.is_empty();
            let waits = Instant::now();
            self.make_room(chunk.len(), &mut held).await;
            // Whoever does not read us is no silence of the remote.
            until += waits.elapsed();
            let mut passage = Passage::of_bytes(chunk.len());
            let heard = self.hear(&mut reader, &chunk, &mut passage);
            // What is not held any more goes with the lines that it became; what stood around events,
            // and comments, weigh nothing once they are written.
            passage.weight = held.as_mut().and_then(|held| {
                held.split(held.num_permits().saturating_sub(reader.held_bytes()))
            });
            let ended = passage.ended;
            if !passage.is_empty() && self.news.send(News::Lines(passage)).await.is_err() {
                return Left::Alone;
            }
            let whole = match heard {
                Heard::Left(left) => return left,
                // Whoever heard the end makes one.
                _ if ended => return Left::Alone,
                Heard::Whole => true,
                Heard::Part => false,
            };
            if whole {
                self.dribbled = false;
            }
            // An event that takes long is no silence, as long as it grows.
            let grown = reader.held_bytes() >= progress + REMOTE_PROGRESS_BYTES;
            if whole || grown {
                until = Instant::now() + self.limits.idle;
                progress = reader.held_bytes();
            }
        }
    }

    /// Makes lines of the events in a piece of the stream, up to the one that ends the run.
    fn hear(&mut self, reader: &mut Reader, mut piece: &[u8], passage: &mut Passage) -> Heard {
        let mut heard = Heard::Part;
        while !passage.ended {
            match reader.next(&mut piece) {
                Ok(Some(Record::Event { id, data })) => {
                    heard = Heard::Whole;
                    if let Some(left) = self.take(id, data, passage) {
                        return Heard::Left(left);
                    }
                }
                Ok(Some(Record::Still)) => heard = Heard::Whole,
                Ok(None) => break,
                Err(TooLong) => {
                    let message = format!("one event has more than {REMOTE_EVENT_BYTES_MAX} bytes");
                    return Heard::Left(Left::Over(Fault::new(Code::OutputLimit, message)));
                }
            }
        }
        heard
    }

    /// Passes an event on, once and in its turn.
    fn take(
        &mut self,
        id: Option<u64>,
        data: Cow<'_, [u8]>,
        passage: &mut Passage,
    ) -> Option<Left> {
        match (id, self.last) {
            (None, _) => self.unnumbered = true,
            (Some(id), Some(last)) if id <= last => return None,
            (Some(id), Some(last)) if id > last + 1 => {
                if self.asked != Some(last) {
                    self.asked = Some(last);
                    return Some(Left::Missing);
                }
                let missing = match id - last - 1 {
                    1 => format!("the event {}", last + 1),
                    _ => format!("the events {} to {}", last + 1, id - 1),
                };
                let note = format!("the remote did not send {missing}, also when asked again");
                passage.note(None, &note);
            }
            (Some(_), _) => {}
        }
        self.last = id.or(self.last);
        self.heard += 1;
        match self.tongue {
            Tongue::Ca | Tongue::Hook => passage.event(&self.whose, id, data),
            Tongue::Hermes => match self.runs.hear(&data) {
                Ok(events) => {
                    for event in events {
                        passage.event(&self.whose, id, Cow::Owned(event.to_string().into_bytes()));
                    }
                }
                // What is no event of this protocol is handed on as text.
                Err(_) => passage.text(id, data),
            },
        }
        None
    }
}

fn left_by(trouble: Trouble) -> Left {
    match trouble {
        Trouble::Passing(why) => Left::Cut(why),
        Trouble::Gone => Left::Over(gone()),
        Trouble::Stale => Left::Over(stale()),
        Trouble::Refused(why) => Left::Over(Fault::new(Code::ProtocolError, why)),
        Trouble::Lasting(fault) => Left::Over(fault),
    }
}

/// The session is not there any more.
pub fn gone() -> Fault {
    let message = "it no longer knows the session: it was restarted, or ended the session";
    Fault::new(Code::RemoteLost, message)
}

/// The work belongs to someone else, says the remote.
pub fn stale() -> Fault {
    Fault::new(Code::FenceStale, "it says that another host owns this run now")
}
