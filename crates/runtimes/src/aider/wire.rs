//! The lines of `--analytics-log`, as serde sees them: what the agent would tell its makers, written
//! to stderr and sent to nobody. Every field may be missing, and an event of another name is no error
//! of ours. Nothing outside this folder may know these shapes.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub event: String,
    #[serde(default)]
    pub properties: Properties,
}

/// Of all events together: each has a few of these.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Properties {
    /// All that was sent for one message, what was cached included.
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// In dollars, by a table of the agent's own; 0 without a price.
    pub cost: Option<f64>,
    /// Why it exits.
    pub reason: Option<String>,
    pub exception: Option<String>,
}

impl Entry {
    pub(super) fn read(line: &str) -> Option<Self> {
        line.starts_with('{').then(|| serde_json::from_str(line).ok())?
    }
}
