//! Wall-clock time as the contract writes it: RFC 3339, UTC, milliseconds.
//! This crate never asks what time it is; a clock is always passed in.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub const fn ms(self) -> i64 {
        self.0
    }

    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self`; zero when the clock went backwards.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0).max(0).unsigned_abs()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => f.write_str("1970-01-01T00:00:00.000Z"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Cow::<str>::deserialize(deserializer)?;
        let timestamp: jiff::Timestamp = given.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(timestamp.as_millisecond()))
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_written_with_three_digits_of_milliseconds() {
        assert_eq!(Timestamp(1_500).to_string(), "1970-01-01T00:00:01.500Z");
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        let read: Timestamp = serde_json::from_str("\"1970-01-01T00:00:01.500Z\"").unwrap();
        assert_eq!(read, Timestamp(1_500));
    }
}
