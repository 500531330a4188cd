//! The private mirror of what is spoken with the courier, which holds the remote for us: the first
//! line that opens or takes up a session, numbered words for the remote, and upward either an event
//! of the remote with its number or a word of the courier's own. A remote cannot speak as the
//! courier: what it sends stands inside `event` or `text`, as it came.
//! The courier's side of the same lines is in `crates/remote/src/courier/words.rs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A line of the courier.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// The number of the remote's event, if it has one.
    #[serde(borrow, default)]
    pub id: Option<Cow<'a, str>>,
    /// One event of the remote, as it came.
    #[serde(borrow, default)]
    pub event: Option<&'a RawValue>,
    /// What the remote sent in the place of an event.
    #[serde(borrow, default)]
    pub text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub courier: Option<Cow<'a, str>>,
    /// The fields of the courier's own words.
    #[serde(borrow, default)]
    pub session: Option<Cow<'a, str>>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub capabilities: Option<Capabilities>,
    #[serde(default)]
    pub code: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
}

/// What of an event decides whether it is heard.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub r#type: Option<Cow<'a, str>>,
}

/// An event that did not come by the courier, as the courier would have told it.
#[derive(Debug, Serialize)]
pub(super) struct Called<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub event: &'a Value,
}

/// What a remote says of itself when a session is opened.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Capabilities {
    #[serde(default)]
    pub resume: Option<bool>,
}

/// A line to the courier.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told<'a> {
    /// The body with which a session is asked for.
    Open(&'a Value),
    /// A session that another courier held.
    Attach(Attach<'a>),
}

/// Where another courier left a session.
#[derive(Debug, Serialize)]
pub(super) struct Attach<'a> {
    pub session: &'a str,
    pub run: &'a str,
    /// The last event that is stored.
    pub after: Option<u64>,
    /// The fence that the session was opened under, which goes with every word to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// A word for the remote, with its number: one that comes twice is taken once.
#[derive(Debug, Serialize)]
pub(super) struct Input<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    pub input: &'a RawValue,
}

/// The whole line with its newline.
pub(super) fn frame(said: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(said).unwrap_or_default();
    debug_assert!(!line.is_empty(), "plain data with string keys always serializes");
    line.push(b'\n');
    line
}
