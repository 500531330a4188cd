//! Answers by single keys at a terminal. `AnswerKeys` is pure: it knows the open questions and turns
//! keys into answers. `Keyboard` does the IO: it puts the terminal into a mode without echo and
//! without lines, and restores it when it is dropped, which also happens after Ctrl-C (signals are
//! still delivered and end the command in order) and while a panic unwinds.

use crate::render::named_options;
use contract::AskId;
use contract::event::Permission;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::collections::VecDeque;
use std::io::Read as _;
use tokio::sync::mpsc;

/// A reason longer than this is not taken from the keyboard.
const REASON_CHARS_MAX: usize = 500;
/// Keys that are read ahead; more wait in the terminal.
const KEYS_AHEAD_MAX: usize = 64;

/// The action of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyAction {
    Answer(KeyAnswer),
    /// Show all of what the question is about.
    View,
}

/// An answer given by keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAnswer {
    pub ask_id: AskId,
    pub option: String,
    pub reason: Option<String>,
}

#[derive(Debug)]
struct OpenQuestion {
    ask_id: AskId,
    always: bool,
    /// The answers that the agent named itself, where it did.
    named: Vec<String>,
}

/// The questions that wait, in the order they were asked, and a reason that is being typed.
#[derive(Debug, Default)]
pub struct AnswerKeys {
    open: VecDeque<OpenQuestion>,
    reason: Option<String>,
}

impl AnswerKeys {
    /// Takes up a question, or forgets one that was decided.
    pub fn note(&mut self, asked: &Permission) {
        let front = self.open.front().map(|open| open.ask_id);
        self.open.retain(|open| open.ask_id != asked.ask_id);
        if front == Some(asked.ask_id) {
            self.reason = None;
        }
        if asked.decision.is_none() && asked.until.is_some() {
            let named = named_options(asked).into_iter().map(|option| option.id.clone()).collect();
            let always = asked.always.is_some();
            self.open.push_back(OpenQuestion { ask_id: asked.ask_id, always, named });
        }
    }

    /// The action that a key starts or completes.
    pub fn key(&mut self, key: char) -> Option<KeyAction> {
        let open = self.open.front()?;
        if let Some(reason) = &mut self.reason {
            match key {
                '\r' | '\n' => {
                    let reason = self.reason.take().map(|text| text.trim().to_owned());
                    return self.answer("deny", reason.filter(|text| !text.is_empty()));
                }
                '\u{1b}' => self.reason = None,
                '\u{7f}' | '\u{8}' => drop(reason.pop()),
                key if !key.is_control() && reason.chars().count() < REASON_CHARS_MAX => {
                    reason.push(key);
                }
                _ => {}
            }
            return None;
        }
        let (always, named) = (open.always, !open.named.is_empty());
        match key {
            'a' | 'y' if !named => self.answer("allow", None),
            'A' | '!' if always => self.answer("always", None),
            'd' | 'n' => self.answer("deny", None),
            'v' => Some(KeyAction::View),
            'r' => {
                self.reason = Some(String::new());
                None
            }
            '1'..='9' => {
                let place = key.to_digit(10)? as usize - 1;
                let option = open.named.get(place)?.clone();
                self.answer(&option, None)
            }
            _ => None,
        }
    }

    /// The line that is being typed, if one is.
    pub fn prompt(&self) -> Option<String> {
        self.reason.as_ref().map(|reason| format!("reason (Enter denies, Esc goes back): {reason}"))
    }

    fn answer(&mut self, option: &str, reason: Option<String>) -> Option<KeyAction> {
        // Taken away at once, so that a second key answers the next question and not this one again.
        let ask_id = self.open.pop_front()?.ask_id;
        Some(KeyAction::Answer(KeyAnswer { ask_id, option: option.to_owned(), reason }))
    }
}

/// A terminal in key mode.
pub struct Keyboard {
    before: Termios,
    keys: mpsc::Receiver<char>,
}

impl Keyboard {
    /// Takes the terminal, if standard input is one and this process is in its foreground: a process
    /// in the background would be stopped for changing it.
    pub fn open() -> Option<Self> {
        let stdin = rustix::stdio::stdin();
        let foreground = rustix::termios::tcgetpgrp(stdin).ok()?;
        if foreground != rustix::process::getpgrp() {
            return None;
        }
        let before = rustix::termios::tcgetattr(stdin).ok()?;
        let mut keys = before.clone();
        // Signals stay on: Ctrl-C still interrupts.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(stdin, OptionalActions::Now, &keys).ok()?;
        Some(Self { before, keys: listen() })
    }

    /// The next key. Never resolves once the terminal is gone.
    pub async fn next(&mut self) -> char {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // What was typed and not read is dropped too, so that it does not reach the shell. A terminal
        // that is gone needs no restoring.
        let _ = rustix::termios::tcsetattr(
            rustix::stdio::stdin(),
            OptionalActions::Flush,
            &self.before,
        );
    }
}

/// Reads keys on a thread of its own, which ends with the process: a read of a terminal cannot be
/// called off.
fn listen() -> mpsc::Receiver<char> {
    let (sender, keys) = mpsc::channel(KEYS_AHEAD_MAX);
    let reading = host::supervise::thread("read keys", move || {
        let (mut stdin, mut bytes) = (std::io::stdin().lock(), [0; 64]);
        loop {
            let read = match stdin.read(&mut bytes) {
                // A terminal that cannot be read gives no more keys.
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            };
            for key in keys_of(&bytes[..read]) {
                if sender.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    });
    if let Err(error) = reading {
        // Without the thread the channel is closed, as for a terminal that is gone.
        tracing::error!(%error, "keys cannot be read: no thread can be started");
    }
    keys
}

/// The keys in what was read at once. An arrow or a function key comes as a sequence that begins with
/// Escape and means nothing here; Escape alone is a key.
fn keys_of(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(bytes);
    match text.strip_prefix('\u{1b}') {
        Some("") => vec!['\u{1b}'],
        Some(_) => Vec::new(),
        None => text.chars().filter(|key| *key != char::REPLACEMENT_CHARACTER).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::event::PermissionOption;
    use serde_json::json;

    fn question(n: u8, always: bool) -> Permission {
        serde_json::from_value(json!({
            "ask_id": format!("ask_0000000000000000000000000000000{n}"),
            "title": "Write: a.txt",
            "request": { "tool": "Write" },
            "options": [
                { "id": "allow", "kind": "allow_once", "name": "allow" },
                { "id": "deny", "kind": "reject_once", "name": "deny" },
            ],
            "always": always.then_some("all edits"),
            "until": "2026-11-18T17:00:00.000Z",
        }))
        .unwrap()
    }

    fn typed(keys: &mut AnswerKeys, text: &str) -> Vec<(String, Option<String>)> {
        let actions = text.chars().filter_map(|key| keys.key(key));
        let answer = |action| match action {
            KeyAction::Answer(answer) => (answer.option, answer.reason),
            KeyAction::View => ("view".to_owned(), None),
        };
        actions.map(answer).collect()
    }

    #[test]
    fn viewing_answers_nothing() {
        let mut keys = AnswerKeys::default();
        assert_eq!(typed(&mut keys, "v"), []);
        keys.note(&question(1, true));
        assert_eq!(typed(&mut keys, "v")[0].0, "view");
        assert_eq!(typed(&mut keys, "a")[0].0, "allow");
    }

    #[test]
    fn one_key_is_an_answer() {
        for (key, option) in
            [("a", "allow"), ("y", "allow"), ("A", "always"), ("!", "always"), ("n", "deny")]
        {
            let mut keys = AnswerKeys::default();
            keys.note(&question(1, true));
            assert_eq!(typed(&mut keys, key), [(option.to_owned(), None)], "{key}");
            assert_eq!(typed(&mut keys, key), [], "the question is answered once");
        }
    }

    #[test]
    fn keys_without_a_question_do_nothing() {
        let mut keys = AnswerKeys::default();
        assert_eq!(typed(&mut keys, "aAdr!"), []);
        keys.note(&question(1, false));
        assert_eq!(typed(&mut keys, "A!xq7 \r"), []);
    }

    #[test]
    fn denial_can_have_a_reason() {
        let mut keys = AnswerKeys::default();
        keys.note(&question(1, true));
        assert_eq!(typed(&mut keys, "rnoy\u{7f}pe"), []);
        assert!(keys.prompt().unwrap().ends_with(": nope"));
        assert_eq!(typed(&mut keys, "\u{1b}"), []);
        assert_eq!(keys.prompt(), None);
        let reason = Some("use git mv".to_owned());
        assert_eq!(typed(&mut keys, "ruse git mv\r"), [("deny".to_owned(), reason)]);
    }

    #[test]
    fn decided_question_is_forgotten() {
        let mut keys = AnswerKeys::default();
        keys.note(&question(1, true));
        keys.note(&question(2, true));
        typed(&mut keys, "rhal");
        let decided =
            Permission { decision: Some(contract::event::Decision::Allow), ..question(1, true) };
        keys.note(&decided);
        assert_eq!(keys.prompt(), None);
        let Some(KeyAction::Answer(answer)) = keys.key('a') else { panic!("no answer") };
        assert_eq!(answer.ask_id, question(2, true).ask_id);
    }

    #[test]
    fn named_options_are_chosen_by_number() {
        let mut asked = question(1, false);
        asked.request = None;
        let option = |id: &str| PermissionOption {
            id: id.to_owned(),
            kind: "allow_once".to_owned(),
            name: id.to_owned(),
        };
        asked.options = vec![option("ship"), option("wait a day")];
        let mut keys = AnswerKeys::default();
        keys.note(&asked);
        assert_eq!(typed(&mut keys, "a932"), [("wait a day".to_owned(), None)]);
    }

    #[test]
    fn arrow_keys_are_not_keys() {
        assert!(keys_of(b"\x1b[A").is_empty());
        assert_eq!(keys_of(b"\x1b"), ['\u{1b}']);
        assert_eq!(keys_of("aé".as_bytes()), ['a', 'é']);
    }
}
