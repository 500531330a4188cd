//! A part of a foreign line whose shape may change with any version: one that is not known does not
//! cost the line it stands in, and it is read in the same pass. Which parts are so is said in each
//! agent's `wire.rs`.

use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Lenient<T> {
    Known(T),
    Other(IgnoredAny),
}

impl<T> Lenient<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(part) => Some(part),
            Self::Other(_) => None,
        }
    }
}
