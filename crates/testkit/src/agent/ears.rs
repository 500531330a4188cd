//! What the fake agent hears. A thread reads standard input continuously, as the protocol asks of
//! every agent; a deaf agent starts none, so the pipe fills up behind it.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How long one look lasts: signals are noted between two looks.
const LOOK: Duration = Duration::from_millis(10);
const FRAMES_MAX: usize = 1024;

#[derive(Debug)]
pub enum Heard {
    Frame(Value),
    Eof,
    Nothing,
}

pub struct Ears(Option<Receiver<Value>>);

impl Ears {
    pub fn deaf() -> Self {
        Self(None)
    }

    /// Starts to read. Lines that are no JSON are passed over.
    pub fn open(input: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(FRAMES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(input).lines().map_while(Result::ok) {
                let Ok(frame) = serde_json::from_str(&line) else { continue };
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        Self(Some(receiver))
    }

    /// Listens for a moment, and no longer than `until`.
    pub fn listen(&self, until: Instant) -> Heard {
        let time = until.saturating_duration_since(Instant::now()).min(LOOK);
        let Some(receiver) = &self.0 else {
            std::thread::sleep(time);
            return Heard::Nothing;
        };
        match receiver.recv_timeout(time) {
            Ok(frame) => Heard::Frame(frame),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::Eof,
        }
    }
}
