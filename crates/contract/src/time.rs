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

/// How many bytes a timestamp of our days has.
const WRITTEN_BYTES: usize = "1970-01-01T00:00:00.000Z".len();
const DAY_MS: i64 = 86_400_000;
/// Behind the last time that can be read back, a day before the end of the year 9999.
const END_MS: i64 = 253_402_207_200_001;

impl Timestamp {
    /// As it is written, when it lies between 1970 and the last that can be read back. Every event carries one, so it
    /// is worth a way of its own.
    fn written(self) -> Option<[u8; WRITTEN_BYTES]> {
        if !(0..END_MS).contains(&self.0) {
            return None;
        }
        // Half the width is enough for what follows, and divides in half the time.
        let (day, ms) = ((self.0 / DAY_MS) as u32, (self.0 % DAY_MS) as u32);
        // Years are counted from March, so that the odd day of a leap year is the last of its year;
        // four hundred of them have 146,097 days.
        let day = day + 719_468;
        let (era, day) = (day / 146_097, day % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day_of_month = day - (153 * month + 2) / 5 + 1;
        let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + next_year;

        let mut written = *b"0000-00-00T00:00:00.000Z";
        let mut put = |end: usize, digits: usize, mut value: u32| {
            for place in (end - digits..end).rev() {
                written[place] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        };
        put(4, 4, year);
        put(7, 2, month);
        put(10, 2, day_of_month);
        put(13, 2, ms / 3_600_000);
        put(16, 2, ms / 60_000 % 60);
        put(19, 2, ms / 1_000 % 60);
        put(23, 3, ms % 1_000);
        Some(written)
    }

    /// Appends what `Display` shows.
    pub fn write(self, out: &mut Vec<u8>) {
        match self.written() {
            Some(written) => out.extend_from_slice(&written),
            None => out.extend_from_slice(self.to_string().as_bytes()),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = self.written()
            && let Ok(text) = std::str::from_utf8(&written)
        {
            return f.write_str(text);
        }
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            // Outside of the years that jiff knows, which no clock of ours shows.
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

    #[test]
    fn the_quick_way_to_write_a_time_says_what_the_long_one_says() {
        let long = |ms: i64| format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap());
        // Every 97th day from 1970 to 9999 at another time of day, each day of eight years, and the
        // edges.
        let eight_years = (0..8 * 366).map(|day| 946_684_800_000 + day * DAY_MS);
        let days = (0..END_MS).step_by(97 * DAY_MS as usize).chain(eight_years);
        let times = days.enumerate().map(|(n, day)| day + (n as i64 * 7_654_321) % DAY_MS);
        for ms in times.chain([0, DAY_MS - 1, DAY_MS, END_MS - 1]) {
            assert_eq!(Timestamp(ms).to_string(), long(ms));
        }
        for ms in [-1, -62_135_596_800_000] {
            assert_eq!(Timestamp(ms).to_string(), long(ms));
        }
        assert_eq!(Timestamp(END_MS).to_string(), Timestamp(0).to_string());
    }
}
