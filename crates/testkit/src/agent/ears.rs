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

pub enum Ears {
    Deaf,
    Open(Receiver<Value>),
    /// Opens them when someone listens for the first time.
    Late(Option<Box<dyn Read + Send>>),
}

impl Ears {
    pub fn deaf() -> Self {
        Self::Deaf
    }

    /// Reads nothing until someone listens.
    pub fn late(input: impl Read + Send + 'static) -> Self {
        Self::Late(Some(Box::new(input)))
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
        Self::Open(receiver)
    }

    /// Listens for a moment, and no longer than `until`.
    pub fn listen(&mut self, until: Instant) -> Heard {
        if let Self::Late(input) = self
            && let Some(input) = input.take()
        {
            *self = Self::open(input);
        }
        let time = until.saturating_duration_since(Instant::now()).min(LOOK);
        let Self::Open(receiver) = self else {
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
