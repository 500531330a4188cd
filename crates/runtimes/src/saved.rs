//! How a dialect's state is kept between two hosts: plain JSON with a version in it. State of another
//! version is refused rather than guessed at, so that its run ends as lost, honestly.
//! What a state holds is each dialect's own business.

use contract::{Code, Fault};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Reads a state back, if it has this version.
pub(crate) fn load<State: DeserializeOwned>(saved: &[u8], known: u32) -> Result<State, Fault> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let unreadable = |error: serde_json::Error| {
        Fault::new(Code::ProcessLost, format!("reading the saved conversation failed: {error}"))
    };
    let Head { version } = serde_json::from_slice(saved).map_err(unreadable)?;
    if version != known {
        let message =
            format!("the saved conversation has version {version}, and only {known} is known here");
        return Err(Fault::new(Code::ProcessLost, message));
    }
    serde_json::from_slice(saved).map_err(unreadable)
}

pub(crate) fn save(state: &impl Serialize) -> Vec<u8> {
    let saved = serde_json::to_vec(state).unwrap_or_default();
    debug_assert!(!saved.is_empty(), "plain data with string keys always serializes");
    saved
}
