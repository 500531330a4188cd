//! What a courier and its keeper say to each other, one line each. Downward: how the session begins,
//! then numbered words for the remote. Upward: the remote's events as they came, each with its number,
//! and the courier's own words, which nothing that a remote sends can look like.
//! The other side of these lines is `crates/runtimes/src/remote/wire.rs`.

use crate::wire::Capabilities;
use contract::Code;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use tokio::sync::OwnedSemaphorePermit;

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// The body with which a session is asked for.
    Open(Box<RawValue>),
    /// A session that another courier held, up to this event, and the fence it was opened under.
    Attach {
        session: String,
        run: String,
        after: Option<u64>,
        #[serde(default)]
        fence: Option<u64>,
    },
}

/// A word for the remote. One without a number is the next.
#[derive(Debug, Deserialize)]
pub struct Input {
    pub n: Option<u64>,
    pub input: Box<RawValue>,
}

/// What of an input matters to whoever carries it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Kind {
    pub r#type: String,
    pub reason: String,
}

/// What of an event matters to whoever carries it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Glance<'a> {
    #[serde(borrow)]
    pub r#type: Option<Cow<'a, str>>,
    /// The id of a call, unread: it may be anything, of any size.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, alias = "run_id")]
    pub run_id: Option<Cow<'a, str>>,
    #[serde(borrow, alias = "session_id")]
    pub session_id: Option<Cow<'a, str>>,
}

/// A word of the courier's own.
#[derive(Debug, Serialize)]
#[serde(tag = "courier", rename_all = "snake_case")]
pub enum Word<'a> {
    /// The session is there.
    Opened {
        session: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        capabilities: Option<Capabilities>,
    },
    /// Something that went otherwise than it should; the number is that of an event it stands for.
    Note {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        message: &'a str,
    },
    /// The end of the run, and why.
    Fault { code: Code, message: &'a str },
    /// The remote is there; said when nothing more was asked.
    Well { message: &'a str },
    /// The remote says that it still works, and nothing more.
    Alive,
    /// The session was taken away from a remote that did not end by itself.
    Forced,
}

impl Word<'_> {
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Bytes on their way to whoever reads us. What they weigh is held until they were written, so that no
/// more of a remote is taken in meanwhile than fits.
#[derive(Debug)]
pub struct Said {
    pub bytes: Vec<u8>,
    pub weight: Option<OwnedSemaphorePermit>,
}

impl From<Vec<u8>> for Said {
    /// A line that is short enough to weigh nothing.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, weight: None }
    }
}
