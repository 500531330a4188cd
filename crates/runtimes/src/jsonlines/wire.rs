//! The private mirror of the lines, both ways. Unknown fields are ignored and nearly every field
//! may be missing, because agents are written by others. A line is read in one pass when its `type`
//! (and, inside `event`, its `kind`) comes first, as it does in practice; when it does not, the
//! object is gathered first. Nothing here is public and nothing here decides what a line means.

use contract::event;
use contract::event::{StopReason, TurnPhase};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A line of the agent. What has another `type` is an error of reading.
#[derive(Debug)]
pub(super) enum Line {
    Progress(Progress),
    ToolCall(ToolCall),
    Comment(Comment),
    Complete(Complete),
    Failed(Failed),
    Hello(Hello),
    Event(Event),
}

impl Line {
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let line = tagged(&mut reader)?;
        // Two objects on one line are no event, so nothing may follow.
        reader.end()?;
        Ok(line)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    pub summary: Option<String>,
    #[serde(default)]
    pub beliefs: Value,
    #[serde(default)]
    pub attempted: Value,
    #[serde(default)]
    pub cost: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    #[serde(default)]
    pub id: Value,
    #[serde(default)]
    pub tool: Value,
    #[serde(default)]
    pub args: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub text: String,
    #[serde(default)]
    pub mentions: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Complete {
    #[serde(default)]
    pub output: Value,
    /// The final answer for people, where it is not in the output.
    #[serde(default)]
    pub text: Value,
    #[serde(default)]
    pub cost: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failed {
    #[serde(default)]
    pub reason: Value,
    #[serde(default)]
    pub details: Value,
    #[serde(default)]
    pub cost: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    #[serde(default)]
    pub accepts: Value,
}

/// The events an agent may state itself, with the fields of the contract. What has another `kind`
/// is an error of reading.
#[derive(Debug)]
pub(super) enum Event {
    Session(event::Session),
    Turn(Turn),
    AssistantText(event::Text),
    Thinking(event::Text),
    UserText(event::UserText),
    ToolUse(event::ToolUse),
    ToolUpdate(event::ToolUpdate),
    ToolResult(event::ToolResult),
    Plan(event::Plan),
    Diff(event::Diff),
    Usage(event::Usage),
    Quota(event::Quota),
    Log(Log),
}

/// A turn whose number may be left to us.
#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    pub phase: TurnPhase,
    pub n: Option<u32>,
    pub stop_reason: Option<StopReason>,
}

/// A log line; its stream is what it came through, not what it claims.
#[derive(Debug, Deserialize)]
pub(super) struct Log {
    pub text: String,
    pub level: Option<String>,
}

#[derive(Deserialize)]
struct Wrapped {
    #[serde(deserialize_with = "tagged")]
    event: Event,
}

/// Something whose shape is decided by one of its fields.
trait Tagged<'de>: Sized {
    const TAG: &'static str;

    fn read<D: Deserializer<'de>>(tag: &str, rest: D) -> Result<Self, D::Error>;
}

impl<'de> Tagged<'de> for Line {
    const TAG: &'static str = "type";

    fn read<D: Deserializer<'de>>(tag: &str, rest: D) -> Result<Self, D::Error> {
        Ok(match tag {
            "event" => Self::Event(Wrapped::deserialize(rest)?.event),
            "progress" => Self::Progress(Deserialize::deserialize(rest)?),
            "tool_call" => Self::ToolCall(Deserialize::deserialize(rest)?),
            "comment" => Self::Comment(Deserialize::deserialize(rest)?),
            "complete" => Self::Complete(Deserialize::deserialize(rest)?),
            "failed" => Self::Failed(Deserialize::deserialize(rest)?),
            "hello" => Self::Hello(Deserialize::deserialize(rest)?),
            _ => return Err(D::Error::custom("not a type of this protocol")),
        })
    }
}

impl<'de> Tagged<'de> for Event {
    const TAG: &'static str = "kind";

    fn read<D: Deserializer<'de>>(tag: &str, rest: D) -> Result<Self, D::Error> {
        Ok(match tag {
            "assistant_text" => Self::AssistantText(Deserialize::deserialize(rest)?),
            "thinking" => Self::Thinking(Deserialize::deserialize(rest)?),
            "tool_use" => Self::ToolUse(Deserialize::deserialize(rest)?),
            "tool_update" => Self::ToolUpdate(Deserialize::deserialize(rest)?),
            "tool_result" => Self::ToolResult(Deserialize::deserialize(rest)?),
            "session" => Self::Session(Deserialize::deserialize(rest)?),
            "turn" => Self::Turn(Deserialize::deserialize(rest)?),
            "user_text" => Self::UserText(Deserialize::deserialize(rest)?),
            "plan" => Self::Plan(Deserialize::deserialize(rest)?),
            "diff" => Self::Diff(Deserialize::deserialize(rest)?),
            "usage" => Self::Usage(Deserialize::deserialize(rest)?),
            "quota" => Self::Quota(Deserialize::deserialize(rest)?),
            "log" => Self::Log(Deserialize::deserialize(rest)?),
            _ => return Err(D::Error::custom("not a kind an agent may state")),
        })
    }
}

fn tagged<'de, T: Tagged<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(TagFirst(PhantomData))
}

/// Reads the tag, then lets the rest of the same object be read by what the tag names.
struct TagFirst<T>(PhantomData<T>);

/// A string that is borrowed when it holds no escapes.
#[derive(Deserialize)]
struct Word<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, T: Tagged<'de>> Visitor<'de> for TagFirst<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a `{}`", T::TAG)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut early = Map::new();
        while let Some(Word(key)) = map.next_key()? {
            if early.is_empty() && key == T::TAG {
                let Word(tag) = map.next_value()?;
                return T::read(&tag, MapAccessDeserializer::new(map));
            }
            early.insert(key.into_owned(), map.next_value()?);
        }
        match early.remove(T::TAG) {
            Some(Value::String(tag)) => {
                T::read(&tag, Value::Object(early)).map_err(A::Error::custom)
            }
            _ => Err(A::Error::missing_field(T::TAG)),
        }
    }
}

/// A line to the agent.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Said<'a> {
    ToolResult {
        id: CallId<'a>,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    BudgetUpdate {
        remaining: Remaining,
    },
    Shutdown {
        reason: &'a str,
    },
    Message {
        text: &'a str,
    },
    Interrupt,
}

/// An id goes back the way it came: some agents count instead of naming.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum CallId<'a> {
    Text(&'a str),
    Number(serde_json::Number),
}

#[derive(Debug, Serialize)]
pub(super) struct Remaining {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Ours; an agent that does not know it passes over it, like the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

impl Said<'_> {
    /// The whole line with its newline.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        debug_assert!(!line.is_empty(), "string keys and finite numbers always serialize");
        line.push(b'\n');
        line
    }
}
