//! Hears one session: a stream of events that is taken up again where it was cut. Numbers are what
//! makes that safe: what was heard before is dropped, what is missing is asked for once more, and a
//! stream without numbers cannot be taken up. A remote that is gone for good, or for too long, is the
//! end; a remote that dribbles bytes and never finishes an event is treated as one that is cut off.

use super::link::{Link, Trouble, failed};
use super::tongue::Tongue;
use super::{Heard, Limits, News};
use crate::sse::{Reader, Record};
use crate::wire::LAST_EVENT_ID;
use contract::limits::{
    REMOTE_AHEAD_BYTES, REMOTE_EVENT_BYTES_MAX, REMOTE_PROGRESS_BYTES, REMOTE_STEADY_MS,
};
use contract::{Code, Fault};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Response};
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
    /// The number of the last event that was passed on.
    pub last: Option<u64>,
    /// An event without a number came: nothing can be taken up any more.
    pub unnumbered: bool,
    /// The number after which something was missing and has been asked for again.
    pub asked: Option<u64>,
    /// Events passed on, and whether bytes came that made none.
    pub heard: u64,
    pub dribbled: bool,
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
        limits: Limits,
        news: mpsc::Sender<News>,
    ) -> Self {
        Self {
            link,
            tongue,
            session,
            limits,
            news,
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
                let _ = self.news.send(News::Ended(ended)).await;
                return;
            }
            if self.unnumbered && self.tongue == Tongue::Ca {
                let message =
                    format!("{why}; it numbers no events, so the stream cannot be taken up");
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
                format!("its events are {}, and no event stream", kind.unwrap_or("nothing"));
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
            if reader.push(&chunk).is_err() {
                let message = format!("one event has more than {REMOTE_EVENT_BYTES_MAX} bytes");
                return Left::Over(Fault::new(Code::OutputLimit, message));
            }
            let mut whole = false;
            while let Some(record) = reader.next_record() {
                whole = true;
                if let Record::Event { id, data } = record {
                    let weight = held.as_mut().and_then(|held| split(held, data.len()));
                    if let Some(left) = self.take(id.as_deref(), data, weight).await {
                        return left;
                    }
                }
            }
            // What stood around events, and comments, weigh nothing any more.
            if let Some(held) = &mut held {
                drop(split(held, held.num_permits().saturating_sub(reader.held_bytes())));
            }
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

    /// Passes an event on, once and in its turn.
    async fn take(
        &mut self,
        id: Option<&str>,
        data: Vec<u8>,
        weight: Option<OwnedSemaphorePermit>,
    ) -> Option<Left> {
        let id: Option<u64> = id.and_then(|id| id.trim().parse().ok());
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
                if self.news.send(News::Note(note)).await.is_err() {
                    return Some(Left::Alone);
                }
            }
            (Some(_), _) => {}
        }
        self.last = id.or(self.last);
        self.heard += 1;
        let sent = self.news.send(News::Event(Heard { id, data, weight })).await;
        sent.is_err().then_some(Left::Alone)
    }
}

/// Takes so many bytes of what is held, or all of it where that is less.
fn split(held: &mut OwnedSemaphorePermit, bytes: usize) -> Option<OwnedSemaphorePermit> {
    held.split(bytes.min(held.num_permits()))
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
    let message = "it does not know the session any more: it was restarted, or ended it";
    Fault::new(Code::RemoteLost, message)
}

/// The work belongs to someone else, says the remote.
pub fn stale() -> Fault {
    Fault::new(Code::FenceStale, "it says that someone else owns this work by now")
}
