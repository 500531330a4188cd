//! The one projection of events to the entries of a transcript, as people and other tools read it:
//! `init`, `assistant`, `thinking`, `user`, `tool_call`, `tool_result`, `diff`, `result`, `stderr`,
//! `stdout`, `system`. Used by the CLI, the API's `?view=transcript` and the dashboard alike.

use crate::RunId;
use crate::event::{self, Body, Event, Outcome, Stream, ToolStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One entry of a transcript. Camel case: this is a foreign format, kept as it is known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Entry {
    Init {
        model: Option<String>,
        session_id: Option<String>,
    },
    Assistant {
        text: String,
        delta: bool,
    },
    Thinking {
        text: String,
        delta: bool,
    },
    User {
        text: String,
    },
    ToolCall {
        name: String,
        tool_use_id: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Value,
        is_error: bool,
    },
    Diff {
        path: String,
        patch: Option<String>,
    },
    Result {
        text: Option<String>,
        input_tokens: u64,
        output_tokens: u64,
        cached_tokens: u64,
        cost_usd: Option<f64>,
        subtype: &'static str,
        is_error: bool,
        errors: Vec<String>,
    },
    Stderr {
        text: String,
    },
    Stdout {
        text: String,
    },
    System {
        text: String,
    },
}

/// What an event is in a transcript. Bookkeeping that says nothing to a reader is `None`.
pub fn entry(event: &Event) -> Option<Entry> {
    Some(match &event.body {
        Body::Session(session) => {
            Entry::Init { model: session.model.clone(), session_id: session.native_session.clone() }
        }
        Body::AssistantText(text) => {
            Entry::Assistant { text: text.text.clone(), delta: text.delta }
        }
        Body::Thinking(text) => Entry::Thinking { text: text.text.clone(), delta: text.delta },
        Body::UserText(text) => Entry::User { text: text.text.clone() },
        Body::ToolUse(tool) => Entry::ToolCall {
            name: tool.name.clone(),
            tool_use_id: tool.tool_call_id.clone(),
            input: tool.input.clone(),
        },
        Body::ToolResult(result) => Entry::ToolResult {
            tool_use_id: result.tool_call_id.clone(),
            content: result.output.clone(),
            is_error: result.status != ToolStatus::Ok,
        },
        Body::Diff(diff) => Entry::Diff { path: diff.path.clone(), patch: diff.patch.clone() },
        Body::Result(result) => Entry::Result {
            text: result.text.clone(),
            input_tokens: result.totals.tokens.input_uncached,
            output_tokens: result.totals.tokens.output,
            cached_tokens: result.totals.tokens.cache_read,
            cost_usd: result.totals.effective_nanousd.map(|nano| nano.usd()),
            subtype: result.outcome.word(),
            is_error: result.outcome != Outcome::Succeeded,
            errors: result.message.iter().cloned().collect(),
        },
        Body::Log(log) => match log.stream {
            Stream::Stderr => Entry::Stderr { text: log.text.clone() },
            Stream::Stdout => Entry::Stdout { text: log.text.clone() },
            Stream::Ostler | Stream::Unknown => Entry::System { text: log.text.clone() },
        },
        Body::Progress(progress) => Entry::System { text: progress.summary.clone() },
        Body::Comment(comment) => Entry::System { text: comment.text.clone() },
        Body::Error(error) => Entry::System { text: format!("{}: {}", error.code, error.message) },
        Body::Permission(permission) => Entry::System { text: permission.title.clone() },
        Body::Plan(plan) => Entry::System {
            text: plan
                .entries
                .iter()
                .map(|entry| entry.text.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
        },
        Body::Lifecycle(lifecycle) => Entry::System {
            text: match &lifecycle.why {
                Some(why) => format!("{:?}: {why}", lifecycle.phase).to_lowercase(),
                None => format!("{:?}", lifecycle.phase).to_lowercase(),
            },
        },
        Body::Quota(quota) => Entry::System { text: format!("quota of {}", quota.provider) },
        Body::Budget(budget) => Entry::System {
            text: format!("budget of {}: {:?}", budget.scope, budget.level).to_lowercase(),
        },
        Body::Unknown(fields) => Entry::System { text: event::unknown_text(fields) },
        Body::Turn(_) | Body::ToolUpdate(_) | Body::Usage(_) | Body::Lease(_) => return None,
    })
}

/// A part of a transcript, with the pieces of each text joined.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Transcript {
    pub run_id: RunId,
    pub entries: Vec<Placed>,
    /// Where the next part begins; absent when there is no more for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// An entry, and the first event of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Placed {
    pub seq: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

/// Joins the events behind `after` to a part of a transcript. A text that may go on behind them is
/// left to the next part, unless it is all there is.
pub fn joined(run_id: RunId, after: u64, events: &[Event], head_seq: u64) -> Transcript {
    let mut entries: Vec<Placed> = Vec::new();
    // The block whose pieces come, while nothing else has come between.
    let mut open: Option<Option<&str>> = None;
    for event in events {
        let Some(mut new) = entry(event) else { continue };
        let block = piece(&event.body);
        let last = entries.last_mut().filter(|_| block.is_some() && block == open);
        let grown = last.is_some_and(|last| grow(&mut last.entry, &new));
        open = block;
        if !grown {
            whole(&mut new);
            entries.push(Placed { seq: event.seq, entry: new });
        }
    }
    let end = events.last().map_or(after, |event| event.seq);
    let more = end < head_seq;
    let mut next = Some(end).filter(|_| more && !events.is_empty());
    if more && open.is_some() && entries.len() > 1 {
        next = entries.pop().map(|cut| cut.seq - 1);
    }
    Transcript { run_id, entries, next }
}

/// The block of which an event has a piece.
fn piece(body: &Body) -> Option<Option<&str>> {
    match body {
        Body::AssistantText(text) | Body::Thinking(text) if text.delta => {
            Some(text.block.as_deref())
        }
        _ => None,
    }
}

/// Lengthens a text by the next piece of it; false when that is of another kind.
fn grow(entry: &mut Entry, piece: &Entry) -> bool {
    match (entry, piece) {
        (Entry::Assistant { text, .. }, Entry::Assistant { text: more, .. })
        | (Entry::Thinking { text, .. }, Entry::Thinking { text: more, .. }) => {
            text.push_str(more);
            true
        }
        _ => false,
    }
}

fn whole(entry: &mut Entry) {
    if let Entry::Assistant { delta, .. } | Entry::Thinking { delta, .. } = entry {
        *delta = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::event::{Origin, Text, UserText};
    use uuid::Uuid;

    fn run() -> RunId {
        RunId::new(Uuid::from_u128(1))
    }

    fn events(bodies: Vec<Body>) -> Vec<Event> {
        let event = |(n, body)| Event {
            v: 1,
            run_id: run(),
            seq: n as u64 + 1,
            ts: Timestamp(0),
            attempt: 1,
            fence: 1,
            origin: Origin::Agent,
            body,
            raw: None,
            truncated: None,
        };
        bodies.into_iter().enumerate().map(event).collect()
    }

    fn delta(text: &str, block: &str) -> Body {
        let (text, block) = (text.to_owned(), Some(block.to_owned()));
        Body::AssistantText(Text { text, block, delta: true })
    }

    fn user(text: &str) -> Body {
        Body::UserText(UserText { text: text.to_owned() })
    }

    fn texts(transcript: &Transcript) -> Vec<(u64, String)> {
        let text = |placed: &Placed| match &placed.entry {
            Entry::Assistant { text, delta: false } | Entry::User { text } => {
                (placed.seq, text.clone())
            }
            other => panic!("{other:?}"),
        };
        transcript.entries.iter().map(text).collect()
    }

    #[test]
    fn the_pieces_of_a_block_are_one_entry_and_those_of_another_are_not() {
        let said = events(vec![user("q"), delta("a", "1"), delta("b", "1"), delta("c", "2")]);
        let transcript = joined(run(), 0, &said, 4);
        let expected = [(1, "q"), (2, "ab"), (4, "c")].map(|(seq, text)| (seq, text.to_owned()));
        assert_eq!(texts(&transcript), expected);
        assert_eq!(transcript.next, None);
    }

    #[test]
    fn a_text_that_may_go_on_is_left_to_the_next_part() {
        let said = events(vec![user("q"), delta("a", "1"), delta("b", "1"), delta("c", "1")]);
        let first = joined(run(), 0, &said[..3], 4);
        assert_eq!((texts(&first).len(), first.next), (1, Some(1)));
        let rest = joined(run(), 1, &said[1..], 4);
        assert_eq!(texts(&rest), [(2, "abc".to_owned())]);
        // One that is all there is comes in parts: nobody waits for ever.
        let part = joined(run(), 1, &said[1..3], 4);
        assert_eq!((texts(&part), part.next), (vec![(2, "ab".to_owned())], Some(3)));
        assert_eq!(joined(run(), 4, &[], 4).next, None);
    }
}
