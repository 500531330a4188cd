//! Events on the wire. A watcher is a cursor in the store: a page is read, sent, and forgotten, so
//! a stalled watcher holds one page and never slows the run it watches; it is not waited for without
//! end (`patience.rs`), and comes again with its last number. Canonical bytes go out as
//! they were committed.

use crate::App;
use crate::auth::Caller;
use crate::patience::Hurry;
use crate::rest::Problem;
use crate::watchers::{Leash, WatcherPlace};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use contract::{Event, RunId, limits, sse, transcript};
use futures::stream;
use host::Attached;
use host::blocking::{self, Bulkhead};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use store::{Follower, Page, Store, StoredEvent, TraceReader};

/// A comment is sent this often when there is nothing else, so that a dead peer is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Server-sent, until the run has ended.
    Followed,
    /// JSON lines of what there is now.
    UpToNow,
}

/// What is sent of each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum View {
    #[default]
    Events,
    Transcript,
}

struct Watcher {
    store: Store,
    run: RunId,
    after: u64,
    follower: Follower<Store>,
    shape: Shape,
    view: View,
    over: bool,
    /// A host that is about to stop ends its streams, and whoever watches finds the next one; so does
    /// a token that is taken away.
    leash: Leash,
    /// Keeps the host here for as long as someone watches.
    _attached: Attached,
    _place: WatcherPlace,
}

pub fn stream(
    app: &App,
    (caller, hurry): (&Caller, Hurry),
    (run, after): (RunId, u64),
    shape: Shape,
    view: View,
) -> Result<Response, Problem> {
    let place = app.watchers.take(caller)?;
    let watcher = Watcher {
        store: app.host.store().clone(),
        run,
        after,
        follower: app.host.store().follow(run, after),
        shape,
        view,
        over: false,
        leash: Leash::of(&app.host, caller, hurry),
        _attached: app.host.attach(),
        _place: place,
    };
    let body = Body::from_stream(stream::unfold(watcher, async |mut watcher| {
        let chunk = watcher.next().await?;
        Some((chunk, watcher))
    }));
    let content_type = match shape {
        Shape::Followed => "text/event-stream",
        Shape::UpToNow => "application/x-ndjson",
    };
    Ok(([(header::CONTENT_TYPE, content_type)], body).into_response())
}

/// A trace, a piece at a time: it may be larger than memory.
pub fn lines(app: &App, reader: TraceReader) -> Response {
    let attached = app.host.attach();
    let pieces = stream::unfold(Some((reader, attached)), async |open| {
        let (mut reader, attached) = open?;
        let read = move || (reader.lines(), reader);
        let read = blocking::spawn(Bulkhead::Data, "read trace", read).await;
        match read {
            Ok((Ok(piece), reader)) => Some((Ok(Bytes::from(piece?)), Some((reader, attached)))),
            Ok((Err(error), _)) => Some((Err(std::io::Error::other(error)), None)),
            Err(error) => Some((Err(std::io::Error::other(error)), None)),
        }
    });
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (content_type, Body::from_stream(pieces)).into_response()
}

impl Watcher {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, store::Error>> {
        if self.over {
            return None;
        }
        let page = match self.shape {
            Shape::UpToNow => self.page().await,
            Shape::Followed => {
                let page = self.follower.next(limits::PAGE_EVENTS_MAX);
                tokio::select! {
                    biased;
                    () = self.leash.over() => {
                        self.over = true;
                        return None;
                    }
                    page = tokio::time::timeout(KEEP_ALIVE, page) => match page {
                        Ok(page) => page,
                        // No event came in time.
                        Err(_) => return Some(Ok(Bytes::from_static(sse::STILL_HERE))),
                    },
                }
            }
        };
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let run = self.run;
                tracing::warn!(%run, %error, "a stream of events failed: the store cannot be read");
                self.over = true;
                return Some(Err(error));
            }
        };
        self.over = match self.shape {
            Shape::UpToNow => page.events.is_empty(),
            Shape::Followed => page.settled,
        };
        if page.events.is_empty() && self.over {
            return None;
        }
        failpoint::hit(failpoint::Point::PageRead);
        Some(Ok(self.frames(&page.events)))
    }

    /// The next page of what there is now, without waiting for more.
    async fn page(&mut self) -> Result<Page, store::Error> {
        let events = self.store.events(self.run, self.after, limits::PAGE_EVENTS_MAX).await?;
        self.after = events.last().map_or(self.after, |event| event.seq);
        Ok(Page { events, settled: false })
    }

    fn frames(&self, events: &[StoredEvent]) -> Bytes {
        let mut out =
            BytesMut::with_capacity(events.iter().map(|event| event.bytes.len() + 40).sum());
        for event in events {
            match self.view {
                View::Events => self.frame(event.seq, &event.bytes, &mut out),
                View::Transcript => {
                    // What we stored we can read; an entry that says nothing is left out.
                    let entry = serde_json::from_slice::<Event>(&event.bytes)
                        .ok()
                        .as_ref()
                        .and_then(transcript::entry);
                    if let Some(bytes) = entry.and_then(|entry| serde_json::to_vec(&entry).ok()) {
                        self.frame(event.seq, &bytes, &mut out);
                    }
                }
            }
        }
        out.freeze()
    }

    fn frame(&self, seq: u64, bytes: &[u8], out: &mut BytesMut) {
        match self.shape {
            Shape::UpToNow => {
                out.put_slice(bytes);
                out.put_u8(b'\n');
            }
            Shape::Followed => sse::write(seq, bytes, |bytes| out.put_slice(bytes)),
        }
    }
}
