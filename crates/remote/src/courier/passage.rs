//! What a remote sent in one piece, as the lines that it becomes: every event that is for this run and
//! is one, in its order, in one buffer that is written at once. An event of many bytes is not copied
//! into it but stands beside it. Nothing here waits, and nothing decides whether the lines are passed
//! on; what whoever decides needs for that is counted along the way.

use super::words::{Glance, Word};
use contract::limits::{REMOTE_APART_BYTES, REMOTE_CALL_ID_BYTES_MAX, REMOTE_TEXT_BYTES_MAX};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::Write as _;
use tokio::sync::OwnedSemaphorePermit;

/// Whose events are taken; those that name someone else are not.
#[derive(Debug, Clone, Default)]
pub struct Whose {
    pub run: Option<String>,
    pub session: Option<String>,
}

/// Lines on their way up, with what they weigh until they are read.
#[derive(Debug, Default)]
pub struct Passage {
    /// One line after the other, each piece going on where the one before ended.
    pieces: Vec<Vec<u8>>,
    /// Where the next line goes.
    line: Vec<u8>,
    /// How many events it holds.
    pub events: u64,
    /// The ids of the calls among them, unread: they may be anything.
    pub calls: Vec<Box<RawValue>>,
    /// The first event is the first of these.
    pub begins_with_call: bool,
    /// The last of them is the end of the run.
    pub ended: bool,
    pub weight: Option<OwnedSemaphorePermit>,
}

impl Passage {
    /// Room for the events of a piece of so many bytes.
    pub fn of_bytes(bytes: usize) -> Self {
        // What stands around an event here is hardly longer than what stood around it there.
        Self { line: Vec::with_capacity(bytes + bytes / 8 + 64), ..Self::default() }
    }

    pub const fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.line.is_empty()
    }

    /// The pieces, to be written one after the other, and what they weigh until the last of them is.
    pub fn into_pieces(mut self) -> (Vec<Vec<u8>>, Option<OwnedSemaphorePermit>) {
        if !self.line.is_empty() {
            self.pieces.push(self.line);
        }
        (self.pieces, self.weight)
    }

    /// Adds what the remote sent as an event: as one, as a text, or as a note that it is not ours.
    pub fn event(&mut self, whose: &Whose, id: Option<u64>, data: Cow<'_, [u8]>) {
        let glance = match serde_json::from_slice::<Glance<'_>>(&data) {
            Ok(glance) => glance,
            // An object whose fields are odd is for whoever knows events.
            Err(error) if error.is_data() => Glance::default(),
            // What is no JSON is text.
            Err(_) => return self.text(id, data),
        };
        if let Some(foreign) = whose.misses(&glance) {
            return self
                .note(id, &format!("an event of the remote was not taken: it is for {foreign}"));
        }
        self.events += 1;
        self.ended |= glance.ends();
        if let Some(call) = glance.call() {
            self.begins_with_call |= self.events == 1;
            self.calls.push(call.to_owned());
        }
        self.head(id, "event");
        self.put(data);
        self.line.extend_from_slice(b"}\n");
    }

    /// Adds what is no event: its text, as far as it is passed on. What of it is too long is told.
    pub fn text(&mut self, id: Option<u64>, data: Cow<'_, [u8]>) {
        let left_out = data.len().saturating_sub(REMOTE_TEXT_BYTES_MAX);
        let kept = match data {
            Cow::Borrowed(data) => Cow::Borrowed(&data[..data.len() - left_out]),
            // In JSON it may be six times as long: what is left out is not held beside that.
            Cow::Owned(mut data) => {
                data.truncate(REMOTE_TEXT_BYTES_MAX);
                data.shrink_to_fit();
                Cow::Owned(data)
            }
        };
        self.events += 1;
        self.head(id, "text");
        // A text always serializes, and nothing fails to be written into memory.
        let _ = serde_json::to_writer(&mut self.line, &String::from_utf8_lossy(&kept));
        self.line.extend_from_slice(b"}\n");
        if left_out > 0 {
            let note = format!("{left_out} bytes of what the remote sent as an event, and is none");
            self.note(id, &format!("{note}, are left out"));
        }
    }

    /// Adds a word of our own; the number is that of an event that it stands for.
    pub fn note(&mut self, id: Option<u64>, message: &str) {
        let note = Word::Note { id: id.map(|id| id.to_string()), message };
        self.line.extend_from_slice(&note.line());
    }

    fn head(&mut self, id: Option<u64>, what: &str) {
        // Nothing fails to be written into memory.
        let _ = match id {
            Some(id) => write!(self.line, "{{\"id\":\"{id}\",\"{what}\":"),
            None => write!(self.line, "{{\"{what}\":"),
        };
    }

    fn put(&mut self, data: Cow<'_, [u8]>) {
        match data {
            // Copied, it would be held twice.
            Cow::Owned(data) if data.len() >= REMOTE_APART_BYTES => {
                self.pieces.extend([std::mem::take(&mut self.line), data]);
            }
            data => self.line.extend_from_slice(&data),
        }
    }
}

impl Whose {
    /// Whom an event is for, when it is not for us.
    fn misses(&self, glance: &Glance<'_>) -> Option<String> {
        let other = |named: &Option<Cow<'_, str>>, ours: &Option<String>| {
            let other = named.as_ref().filter(|named| ours.as_ref().is_some_and(|o| o != *named));
            other.map(|named| named.chars().take(200).collect::<String>())
        };
        let run = other(&glance.run_id, &self.run).map(|run| format!("the run '{run}'"));
        let session = || other(&glance.session_id, &self.session);
        run.or_else(|| session().map(|session| format!("the session '{session}'")))
            .map(|whom| whom.chars().filter(|c| !c.is_control()).take(200).collect())
    }
}

impl Glance<'_> {
    /// Nothing more is to come after it.
    fn ends(&self) -> bool {
        matches!(self.r#type.as_deref(), Some("complete" | "failed"))
    }

    /// The id of a call that can be refused by name.
    fn call(&self) -> Option<&RawValue> {
        let id = self.id.filter(|id| id.get().len() <= REMOTE_CALL_ID_BYTES_MAX);
        id.filter(|_| self.r#type.as_deref() == Some("tool_call"))
    }
}
