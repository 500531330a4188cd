//! Words of newer versions. What is read (a stored row, an answer of a host) takes any word: one that
//! this version does not know is `Unknown`. What a client sends is `Known`, which refuses it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// How a word is shown that this version does not know.
pub const UNKNOWN: &str = "unknown";

/// An enum that is stored and transmitted by its words.
pub trait Words: Sized {
    /// The words of this version.
    const WORDS: &'static [&'static str];

    fn from_word(word: &str) -> Option<Self>;
}

/// A word that a client sends: one of this version, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known<T>(pub T);

impl<'de, T: Words> Deserialize<'de> for Known<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<'de, str>::deserialize(deserializer)?;
        T::from_word(&word)
            .map(Self)
            .ok_or_else(|| serde::de::Error::unknown_variant(&word, T::WORDS))
    }
}

/// Reads a field of a request as `Known` does.
pub fn word<'de, D: Deserializer<'de>, T: Words>(deserializer: D) -> Result<T, D::Error> {
    Known::deserialize(deserializer).map(|known| known.0)
}

/// The same for a field that may be absent or null.
pub fn option<'de, D: Deserializer<'de>, T: Words>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Known<T>>::deserialize(deserializer)?.map(|known| known.0))
}

impl<T: Words + JsonSchema> JsonSchema for Known<T> {
    // A name of its own: generators of clients make up names for what has none, even one twice.
    fn schema_name() -> Cow<'static, str> {
        format!("Known{}", T::schema_name()).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::WORDS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Review;

    #[test]
    fn a_client_may_send_only_words_of_this_version() {
        let read = |word: &str| serde_json::from_value::<Known<Review>>(word.into());
        assert_eq!(read("person").unwrap(), Known(Review::Person));
        for word in ["frobnicated", UNKNOWN] {
            let refused = read(word).unwrap_err().to_string();
            assert!(refused.contains("expected `none` or `person`"), "{refused}");
        }
    }
}
