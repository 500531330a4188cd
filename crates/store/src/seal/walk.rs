//! Redaction inside JSON without building a tree: one pass over the bytes, string by string, so
//! that order, numbers and everything without a secret stay byte for byte as they were.
//! `Scope` says who owns the names. Meant for JSON that was parsed or written by serde; other
//! bytes come out changed in no other way than they would as text.

use super::Seal;
use super::rules;
use std::borrow::Cow;

/// Whose names the JSON uses, and so which rules apply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The body of an event: the contract's names outside, anyone's inside the free fields.
    Event,
    /// Our own state, to be read back: known values and vendors' keys are replaced.
    State,
    /// The same for a successor that knows the same values: it finds them again.
    Kept,
    /// Anyone's: all rules everywhere.
    View,
}

/// What applies to a value, by where it stands.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Names are the agent's own, so they tell.
    free: bool,
    /// The value stands under a telling name.
    secret: bool,
    /// A word of the contract: replacing it would make the event unreadable.
    fixed: bool,
}

struct Frame {
    object: bool,
    expects_key: bool,
    place: Place,
    /// The place of the next value; in an array the same for all.
    next: Place,
    /// The telling name the next value stands under.
    name: String,
}

/// What stands in the place of a piece of a text.
pub(super) const PIECE: &[u8] = b"[delta]";

/// The same JSON with its secrets replaced.
pub(super) fn rewrite(seal: &Seal, json: &[u8], scope: Scope) -> Vec<u8> {
    let mut walk = Walk::new(seal, json, scope, &[]);
    walk.through(json);
    walk.out
}

/// The same for anyone's JSON, without these pieces of a text; `None` when one of them is not there
/// as it is.
pub(super) fn rewrite_without(seal: &Seal, json: &[u8], pieces: &[&str]) -> Option<Vec<u8>> {
    let mut walk = Walk::new(seal, json, Scope::View, pieces);
    walk.through(json);
    (walk.left_out >= pieces.len()).then_some(walk.out)
}

struct Walk<'a> {
    seal: &'a Seal,
    scope: Scope,
    out: Vec<u8>,
    frames: Vec<Frame>,
    /// The event's kind, as soon as it was passed.
    kind: Vec<u8>,
    pieces: &'a [&'a str],
    left_out: usize,
}

impl<'a> Walk<'a> {
    fn new(seal: &'a Seal, json: &[u8], scope: Scope, pieces: &'a [&'a str]) -> Self {
        let out = Vec::with_capacity(json.len());
        Self { seal, scope, out, frames: Vec::new(), kind: Vec::new(), pieces, left_out: 0 }
    }

    fn through(&mut self, json: &[u8]) {
        let mut at = 0;
        while at < json.len() {
            at = self.step(json, at);
        }
    }

    fn step(&mut self, json: &[u8], at: usize) -> usize {
        let byte = json[at];
        match byte {
            b'"' => {
                let end = string_end(json, at);
                self.string(&json[at..end]);
                return end;
            }
            b'{' | b'[' => {
                let place = self.place();
                let secret = place.secret && byte == b'[';
                let next = Place { secret, ..place };
                let name = self.frames.last().map(|frame| frame.name.clone()).unwrap_or_default();
                let object = byte == b'{';
                self.frames.push(Frame { object, expects_key: object, place, next, name });
            }
            b'}' | b']' => {
                self.frames.pop();
            }
            b',' => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.expects_key = frame.object;
                }
            }
            b'-' | b'0'..=b'9' => {
                let end = at + json[at..].iter().take_while(|byte| is_number(**byte)).count();
                self.number(&json[at..end]);
                return end;
            }
            _ => {}
        }
        self.out.push(byte);
        at + 1
    }

    fn place(&self) -> Place {
        let everywhere = Place { free: self.scope == Scope::View, ..Place::default() };
        self.frames.last().map_or(everywhere, |frame| frame.next)
    }

    fn string(&mut self, token: &[u8]) {
        match self.frames.last() {
            Some(frame) if frame.expects_key => self.key(token),
            _ => self.value(token),
        }
    }

    fn key(&mut self, token: &[u8]) {
        let depth = self.frames.len();
        let text = unquoted(token);
        let owned_by_contract = self.scope == Scope::Event && depth == 1;
        if let Some(frame) = self.frames.last_mut() {
            frame.expects_key = false;
            frame.next = match self.scope {
                Scope::Event if depth == 1 => Place {
                    free: matches!(
                        &*text,
                        b"input" | b"output" | b"content" | b"beliefs" | b"attempted"
                    ),
                    secret: false,
                    fixed: is_fixed(&self.kind, &text),
                },
                _ => Place {
                    free: frame.place.free,
                    secret: frame.place.free
                        && std::str::from_utf8(&text).is_ok_and(rules::telling),
                    fixed: self.scope == Scope::Event
                        && !frame.place.free
                        && matches!(&*text, b"end" | b"resets_at"),
                },
            };
            frame.name.clear();
            if frame.next.secret {
                frame.name.push_str(&String::from_utf8_lossy(&text));
            }
        }
        match self.seal.redact_forms(&text).filter(|_| !owned_by_contract) {
            Some(changed) => self.write_string(&changed),
            None => self.out.extend_from_slice(token),
        }
    }

    fn value(&mut self, token: &[u8]) {
        let place = self.place();
        if place.fixed {
            if self.kind.is_empty() && self.frames.len() == 1 {
                self.kind = unquoted(token).into_owned();
            }
            self.out.extend_from_slice(token);
            return;
        }
        let text = unquoted(token);
        if self.pieces.iter().any(|piece| piece.as_bytes() == &*text) {
            self.left_out += 1;
            self.write_string(PIECE);
            return;
        }
        let name = self.frames.last().map_or("", |frame| frame.name.as_str());
        if place.secret && !rules::harmless_field(name, &text) {
            self.write_string(rules::MARK.as_bytes());
            return;
        }
        let changed = match self.scope {
            Scope::State => {
                let clean = self.seal.redact_forms(&text);
                self.seal.hold(clean.as_deref().unwrap_or(&text)).or(clean)
            }
            Scope::Kept => self.seal.keep(&text),
            Scope::Event | Scope::View => self.seal.redact(&text),
        };
        match changed {
            Some(changed) => self.write_string(&changed),
            None => self.out.extend_from_slice(token),
        }
    }

    /// A secret of digits may come as a number; only where a string may stand in its place.
    fn number(&mut self, token: &[u8]) {
        match self.seal.known.first(token, 0) {
            Some(hit) if self.place().free && hit.start == 0 && hit.end == token.len() => {
                let mark = self.seal.known.mark(hit.pattern).to_owned();
                self.write_string(mark.as_bytes());
            }
            _ => self.out.extend_from_slice(token),
        }
    }

    fn write_string(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut self.out, &*text);
    }
}

/// The words of the contract that stand directly in an event's body.
fn is_fixed(kind: &[u8], name: &[u8]) -> bool {
    match name {
        b"kind" | b"ask_id" | b"phase" | b"stop_reason" | b"via" | b"decision" | b"decided_by"
        | b"basis" | b"cost_source" | b"action" | b"stream" | b"outcome" | b"code"
        | b"retry_at" | b"resets_at" | b"expires_at" | b"status" => true,
        b"level" => kind == b"budget",
        _ => false,
    }
}

fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.eE".contains(&byte)
}

/// Where the string that starts at `at` ends, its closing quote included.
pub(super) fn string_end(json: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(found) = json.get(from..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        let place = from + found;
        match json[place] {
            b'"' => return place + 1,
            _ => from = place + 2,
        }
    }
    json.len()
}

/// The text of a string token. Escapes that are not text (a lone surrogate) are left as written.
pub(super) fn unquoted(token: &[u8]) -> Cow<'_, [u8]> {
    let inside = token.strip_prefix(b"\"").unwrap_or(token);
    let inside = inside.strip_suffix(b"\"").unwrap_or(inside);
    if !inside.contains(&b'\\') {
        return Cow::Borrowed(inside);
    }
    match serde_json::from_slice::<String>(token) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        // A lone surrogate, for example.
        Err(_) => Cow::Borrowed(inside),
    }
}
