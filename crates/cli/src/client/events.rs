//! Events of a run out of a stream of bytes, from one connection to the next: one that breaks after it
//! has brought something is opened again behind the last event. Whether it broke because nobody read
//! it or because the host went away, the answer to that tells.

use super::{Client, Received, answered, unreachable_host};
use contract::{Code, Fault, RunId, limits, sse};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use reqwest::Method;
use std::collections::VecDeque;

/// A way to tell events apart in what comes.
pub trait Heard: Send + 'static {
    /// What is asked for, so that it comes this way.
    const ACCEPT: &'static str;
    /// Nothing is heard yet, and this event is the last that is known.
    fn behind(seq: u64) -> Self;
    fn hear(&mut self, piece: &[u8]) -> Result<(), Fault>;
    fn next(&mut self) -> Option<Received>;
}

/// The events of a run.
pub struct Going<H> {
    client: Client,
    run: RunId,
    /// The last event that was handed on, and the one of when this connection began.
    seen: u64,
    begun: u64,
    pieces: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    heard: H,
}

impl<H: Heard> Going<H> {
    pub async fn open(client: Client, run: RunId, seen: u64) -> Result<Self, Fault> {
        let path = format!("/api/v1/runs/{run}/events?after={seen}");
        let request = client.request(Method::GET, &path).header("accept", H::ACCEPT);
        let pieces = answered(request).await?.bytes_stream().boxed();
        Ok(Self { client, run, seen, begun: seen, pieces, heard: H::behind(seen) })
    }

    pub fn events(self) -> BoxStream<'static, Result<Received, Fault>> {
        let next = async |mut going: Self| Some((going.next().await?, going));
        stream::unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Option<Result<Received, Fault>> {
        loop {
            if let Some(received) = self.heard.next() {
                self.seen = received.seq;
                return Some(Ok(received));
            }
            let lost = match self.pieces.next().await? {
                Ok(piece) => match self.heard.hear(&piece) {
                    Ok(()) => continue,
                    Err(fault) => return Some(Err(fault)),
                },
                Err(error) => unreachable_host(&error),
            };
            if self.seen == self.begun {
                return Some(Err(lost));
            }
            match Self::open(self.client.clone(), self.run, self.seen).await {
                Ok(again) => *self = again,
                // The first error says why the stream broke off.
                Err(_) => return Some(Err(lost)),
            }
        }
    }
}

/// Server-sent events; one without a number is none of ours.
#[derive(Default)]
pub struct Frames {
    reader: sse::Reader,
    ready: VecDeque<Received>,
}

impl Heard for Frames {
    const ACCEPT: &'static str = "text/event-stream";

    fn behind(_: u64) -> Self {
        Self::default()
    }

    fn hear(&mut self, mut piece: &[u8]) -> Result<(), Fault> {
        while let Some(record) = self.reader.next(&mut piece).map_err(|sse::TooLong| too_long())? {
            if let sse::Record::Event { id: Some(seq), data } = record {
                self.ready.push_back(Received { seq, bytes: data.into_owned() });
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Received> {
        self.ready.pop_front()
    }
}

fn too_long() -> Fault {
    let bytes_max = limits::FRAME_BYTES_MAX;
    Fault::new(Code::ParseFailed, format!("the host sent an event of more than {bytes_max} bytes"))
}

/// JSON lines.
#[derive(Default)]
pub struct Lines {
    buffer: Vec<u8>,
    read: usize,
    count: u64,
}

impl Heard for Lines {
    const ACCEPT: &'static str = "application/x-ndjson";

    fn behind(seq: u64) -> Self {
        Self { count: seq, ..Self::default() }
    }

    fn hear(&mut self, piece: &[u8]) -> Result<(), Fault> {
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    fn next(&mut self) -> Option<Received> {
        let rest = &self.buffer[self.read..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            self.buffer.drain(..self.read);
            self.read = 0;
            return None;
        };
        let bytes = rest[..length].to_vec();
        self.read += length + 1;
        self.count += 1;
        Some(Received { seq: self.count, bytes })
    }
}
