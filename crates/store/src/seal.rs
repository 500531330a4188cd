//! Redact and bound: the one door to disk and wire. `Sealed` is made here and nowhere else, so
//! what a store, a blob, a trace or a watcher gets has passed this file. Imports nothing of the
//! store. An event without secrets passes at the cost of two looks at a few of its bytes
//! (`seal/grams.rs`); only a hit takes the walk through its strings.
//!
//! Known values: `seal/known.rs`, in colours `seal/ansi.rs`. Telling names: `seal/rules.rs`. Forms
//! of vendors' keys: `seal/forms.rs`. JSON: `seal/walk.rs`.
//! Long fields: `seal/bound.rs`. Deltas: `seal/carry.rs`.

mod ansi;
mod bound;
mod carry;
mod forms;
mod grams;
mod known;
mod rules;
#[cfg(test)]
mod tests;
mod walk;

pub use carry::Carry;

use contract::event::{Body, Envelope, Log, Raw, Stream};
use known::Known;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use walk::Scope;

/// Bytes that may be stored and shown.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// An event as it is stored: its canonical bytes, and the blobs they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedEvent {
    pub seq: u64,
    pub bytes: Sealed,
    pub blobs: Vec<SealedBlob>,
    /// Whether this is the run's result, which only a settling Batch may hold.
    pub result: bool,
    /// Set on events that are read by their task.
    pub of_task: Option<TaskEvent>,
}

/// The kinds of events that are read by their task, over all of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEvent {
    Comment,
    Progress,
}

impl TaskEvent {
    fn of(body: &Body) -> Option<Self> {
        match body {
            Body::Comment(_) => Some(Self::Comment),
            Body::Progress(_) => Some(Self::Progress),
            _ => None,
        }
    }

    /// The kind of the event.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::Progress => "progress",
        }
    }
}

/// The whole of a field that was cut, named by the hash of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedBlob {
    pub hash: String,
    pub bytes: Sealed,
}

impl SealedBlob {
    /// Takes the bytes and leaves the name.
    pub(crate) fn take(&mut self) -> Self {
        Self { hash: self.hash.clone(), bytes: Sealed(std::mem::take(&mut self.bytes.0)) }
    }
}

/// The seal of one run: it knows the run's secret values. Cheap to clone.
#[derive(Clone, Default)]
pub struct Seal {
    known: Arc<Known>,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("patterns", &self.known.shape().0).finish_non_exhaustive()
    }
}

impl Seal {
    /// A seal that knows these names and values. Values shorter than `SECRET_BYTES_MIN` would
    /// redact ordinary words and are not looked for.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { known: Arc::new(Known::new(secrets)) }
    }

    /// The canonical bytes of an event, redacted and bounded.
    pub fn event(&self, envelope: &Envelope, body: &Body, raw: Option<Raw>) -> SealedEvent {
        let shallow = body.with_bounded_depth();
        let body = shallow.as_ref().unwrap_or(body);
        let mut bytes = Vec::with_capacity(512);
        envelope.write(&mut bytes);
        // The envelope ends with a comma; the body's brace is written over and becomes it again.
        bytes.pop();
        let start = bytes.len();
        // The fields of an event of a newer version could pass for those of the envelope.
        if matches!(body, Body::Unknown(_)) || body.write(&mut bytes).is_err() {
            // JSON cannot write some values (a map with keys that are no strings): say so.
            bytes.truncate(start);
            // A text of ours always serializes, and writing to a Vec cannot fail.
            let _ = unwritable(body).write(&mut bytes);
        }
        if self.may_hold_secrets(&bytes[start..]) {
            let clean = walk::rewrite(self, &bytes[start..], Scope::Event);
            bytes.truncate(start);
            bytes.extend_from_slice(&clean);
        }
        let mut blobs = Vec::new();
        if let Some((bounded, wholes)) = bound::bound(&bytes[start..]) {
            bytes.truncate(start);
            bytes.extend_from_slice(&bounded);
            blobs = wholes;
        }
        bytes[start] = b',';
        if let Some(raw) = raw {
            bytes.pop();
            bytes.extend_from_slice(br#","raw":"#);
            raw.write(&mut bytes);
            bytes.push(b'}');
        }
        let result = matches!(body, Body::Result(_));
        let of_task = TaskEvent::of(body);
        SealedEvent { seq: envelope.seq, bytes: Sealed(bytes), blobs, result, of_task }
    }

    /// A text for people, by all rules.
    pub fn text(&self, text: &str) -> String {
        match self.redact(text.as_bytes()) {
            Some(changed) => String::from_utf8_lossy(&changed).into_owned(),
            None => text.to_owned(),
        }
    }

    /// A text that will be used again as it was given, such as a prompt: only known values are
    /// replaced.
    pub fn given(&self, text: &str) -> Sealed {
        Sealed(self.redact_known(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec()))
    }

    /// A text that is handed on for others to work by, such as a task: known values and what has the
    /// form of a key are replaced, whatever stands beside them.
    pub fn handed(&self, text: &str) -> Sealed {
        Sealed(self.redact_forms(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec()))
    }

    /// A file that an agent hands in: text by all rules, other bytes without the known values.
    pub fn asset(&self, bytes: &[u8]) -> SealedBlob {
        let changed = match std::str::from_utf8(bytes) {
            Ok(_) => self.redact(bytes),
            // No UTF-8, so no text.
            Err(_) => self.redact_known(bytes),
        };
        let sealed = changed.unwrap_or_else(|| bytes.to_vec());
        SealedBlob { hash: blake3::hash(&sealed).to_hex().to_string(), bytes: Sealed(sealed) }
    }

    /// Our own state, to be read back: known values and vendors' keys are replaced, inside strings,
    /// so that it stays the JSON it was. Its names are ours, so they tell nothing. A text that ends
    /// in the middle of a known value is held as `carry.rs` does; `unheld` gives it back.
    pub fn json(&self, value: &impl Serialize) -> Sealed {
        Sealed(walk::rewrite(self, &written(value), Scope::State))
    }

    /// State that only a successor reads, who knows the same values: a known value is written as its
    /// place among them, and `unheld` gives it back. Whoever does not know it learns nothing of it.
    pub fn state(&self, value: &impl Serialize) -> Sealed {
        Sealed(walk::rewrite(self, &written(value), Scope::Kept))
    }

    /// JSON for people (a launch plan, a card): by all rules, telling names included.
    pub fn view(&self, value: &impl Serialize) -> Sealed {
        Sealed(self.clean_json(written(value)))
    }

    /// A line of raw output, for the trace: as JSON by all rules when it is JSON, else as text.
    pub fn line(&self, bytes: &[u8]) -> Sealed {
        // Other writers may escape any character they like; then only the walk can tell. A line
        // that is no JSON may have colours, which our own JSON has as escapes.
        let odd = memchr::memchr2(b'\\', ansi::ESCAPE, bytes).is_some_and(|at| {
            bytes[at] == ansi::ESCAPE || memchr::memmem::find(&bytes[at..], br"\u00").is_some()
        });
        if !odd && !self.may_hold_secrets(bytes) {
            return Sealed(bytes.to_vec());
        }
        let is_json = matches!(bytes.first(), Some(b'{' | b'['))
            && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
        if is_json {
            return Sealed(walk::rewrite(self, bytes, Scope::View));
        }
        Sealed(self.redact(bytes).unwrap_or_else(|| bytes.to_vec()))
    }

    /// A line of raw output that carries pieces of a text which other lines go on with. A secret may
    /// be split over them, so the pieces are not kept here: the events have them, joined.
    pub fn line_without(&self, bytes: &[u8], pieces: &[&str]) -> Sealed {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
        let cleaned = is_json.then(|| walk::rewrite_without(self, bytes, pieces)).flatten();
        Sealed(cleaned.unwrap_or_else(|| walk::PIECE.to_vec()))
    }

    /// A line of which only the beginning is there: by all rules, and without an end that could be
    /// the first half of a known value.
    pub fn head(&self, bytes: &[u8]) -> Sealed {
        let mut head = self.line(bytes).0;
        let kept = head.len().saturating_sub(self.known.bytes_max());
        // Not inside a character.
        let whole = (kept.saturating_sub(3)..=kept)
            .rev()
            .find(|at| head.get(*at).is_none_or(|byte| (*byte as i8) >= -0x40));
        head.truncate(whole.unwrap_or(kept));
        // What is left of a line of JSON is no JSON any more, so its bytes count as they stand: a
        // value may lie across an escape.
        Sealed(self.redact_known(&head).unwrap_or(head))
    }

    fn clean_json(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.may_hold_secrets(&bytes) { walk::rewrite(self, &bytes, Scope::View) } else { bytes }
    }

    fn may_hold_secrets(&self, bytes: &[u8]) -> bool {
        self.known.occurs(bytes) || rules::may_apply(bytes)
    }

    /// By value and by form, whatever names there are.
    fn redact_forms(&self, text: &[u8]) -> Option<Vec<u8>> {
        let known = self.redact_known(text);
        let formed = rules::redact_by(known.as_deref().unwrap_or(text), rules::Which::Forms);
        formed.or(known)
    }

    /// By all rules; `None` when nothing is to be replaced.
    fn redact(&self, text: &[u8]) -> Option<Vec<u8>> {
        let known = self.redact_known(text);
        let ruled = rules::redact(known.as_deref().unwrap_or(text));
        ruled.or(known)
    }
}

fn written(value: &impl Serialize) -> Vec<u8> {
    // State and plans are structs of ours; what JSON cannot write reads back as nothing.
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

fn unwritable(body: &Body) -> Body {
    Body::Log(Log {
        stream: Stream::Ostler,
        text: format!("an event of kind {} could not be written", body.kind()),
        level: Some("error".into()),
    })
}
