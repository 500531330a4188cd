//! The events of a session on the wire. A reader is a cursor in the store, as every watcher is; what it
//! is told are lines, numbered one by one, and which events are told is a function of the events alone:
//! so a reader that comes back is served from its last number, also by the next server of this
//! directory. Places that were passed are remembered, so that coming back costs one page and not all.

use super::{Id, Refusal, Remote};
use crate::patience::Hurry;
use crate::watchers::Leash;
use ::remote::serve::tell;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use contract::{Code, Event, Fault, limits, sse};
use futures::stream;
use host::Attached;
use host::blocking::{self, Bulkhead};
use host::ops::session::{Mark, Reading, Session};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use store::{Follower, Store, StoredEvent};
use tokio::sync::OwnedSemaphorePermit;

/// A comment is sent this often when there is nothing else, so that a dead peer is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Reader {
    store: Store,
    session: Arc<Session>,
    at: Mark,
    follower: Follower<Store>,
    /// Read from the store and not told yet.
    waiting: VecDeque<StoredEvent>,
    begun: bool,
    over: bool,
    /// A server that is about to stop ends its streams; whoever reads comes to the next one.
    leash: Leash,
    _reading: Reading,
    _attached: Attached,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn events(
    State(remote): State<Remote>,
    Extension(hurry): Extension<Hurry>,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let session = remote.find(&id)?;
    let after = match headers.get("last-event-id") {
        None => 0,
        Some(id) => id.to_str().ok().and_then(|id| id.trim().parse().ok()).ok_or_else(|| {
            Fault::new(Code::Usage, "last-event-id is not the number of an event")
        })?,
    };
    let place = remote.readers.clone().try_acquire_owned().map_err(|_| {
        Fault::new(
            Code::Overloaded,
            format!("{} readers are already connected", limits::WATCHERS_MAX),
        )
    })?;
    let reading = session.read();
    let host = remote.sessions.host();
    let mut leaving = host.leaving();
    let store = host.store().clone();
    let at = find(&store, &session, after).await?;
    let reader = Reader {
        follower: store.follow(session.run, at.seq),
        store,
        at,
        waiting: VecDeque::new(),
        begun: false,
        over: false,
        leash: Leash::until(hurry, async move {
            // A sender that is gone is a host that has left.
            let _ = leaving.changed().await;
        }),
        _attached: host.attach(),
        _reading: reading,
        _place: place,
        session,
    };
    let body = Body::from_stream(stream::unfold(reader, async |mut reader| {
        let chunk = reader.next().await?;
        Some((chunk, reader))
    }));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// The place behind the line of this number.
async fn find(store: &Store, session: &Session, after: u64) -> Result<Mark, Fault> {
    let mut at = session.mark_before(after);
    while at.id < after {
        let failed = |error: store::Error| Fault::new(error.code(), error.to_string());
        let page = store.events(session.run, at.seq, limits::PAGE_EVENTS_MAX).await;
        let page = page.map_err(failed)?;
        if page.is_empty() {
            let message = format!("{} events were sent, and {after} was requested", at.id);
            return Err(Fault::new(Code::Usage, message));
        }
        for event in &page {
            if at.id == after {
                break;
            }
            at.seq = event.seq;
            at.id += u64::from(read(event).is_some_and(|event| tell::line(&event).is_some()));
        }
        session.remember(at);
    }
    Ok(at)
}

/// What we stored we can read; what we cannot is not told.
fn read(event: &StoredEvent) -> Option<Event> {
    serde_json::from_slice(&event.bytes).ok()
}

impl Reader {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<std::io::Result<Bytes>> {
        if !std::mem::replace(&mut self.begun, true) {
            // Headers alone may be held back on the way; whoever reads sees that we are here.
            return Some(Ok(Bytes::from_static(sse::STILL_HERE)));
        }
        loop {
            while self.waiting.is_empty() {
                if self.over {
                    return None;
                }
                let page = self.follower.next(limits::PAGE_EVENTS_MAX);
                tokio::select! {
                    biased;
                    () = self.leash.over() => return None,
                    page = tokio::time::timeout(KEEP_ALIVE, page) => match page {
                        Ok(Ok(page)) => {
                            self.over = page.settled;
                            self.waiting.extend(page.events);
                        }
                        Ok(Err(error)) => return self.fail(error),
                        // No event came in time.
                        Err(_) => return Some(Ok(Bytes::from_static(sse::STILL_HERE))),
                    },
                }
            }
            match self.frames().await {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Some(Ok(bytes)),
                Err(error) => return self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: store::Error) -> Option<std::io::Result<Bytes>> {
        tracing::warn!(run = %self.session.run, %error, "a stream of events failed: the store cannot be read");
        self.over = true;
        self.waiting.clear();
        Some(Err(std::io::Error::other(error)))
    }

    /// As many of the waiting events as fit one piece.
    async fn frames(&mut self) -> Result<Bytes, store::Error> {
        let mut out = BytesMut::new();
        while out.len() < limits::BATCH_BYTES_MAX
            && let Some(stored) = self.waiting.pop_front()
        {
            self.at.seq = stored.seq;
            let Some(event) = self.whole(&stored).await? else { continue };
            let Some(line) = tell::line(&event) else { continue };
            self.at.id += 1;
            sse::write(self.at.id, &line.bytes(), |bytes| out.put_slice(bytes));
        }
        self.session.remember(self.at);
        Ok(out.freeze())
    }

    /// The event with what was kept apart for its size: the caller keeps it apart again.
    async fn whole(&self, stored: &StoredEvent) -> Result<Option<Event>, store::Error> {
        let event = read(stored);
        if event.as_ref().is_none_or(|event| event.truncated != Some(true)) {
            return Ok(event);
        }
        let (store, bytes) = (self.store.clone(), Arc::clone(&stored.bytes));
        match blocking::spawn(Bulkhead::Data, "read blobs", move || store.whole(&bytes)).await {
            Ok(whole) => Ok(serde_json::from_value(whole?).ok().or(event)),
            // `supervise` has logged the panic; the event goes without what was kept apart.
            Err(_) => Ok(event),
        }
    }
}
