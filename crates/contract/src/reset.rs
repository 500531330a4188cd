//! When a limit of a provider ends, as whoever ran into it was told: a moment, a span from now on, or
//! what a clock on some wall will show. A dialect reads the words and knows no time; which moment they
//! mean is said by `engine::rules::reset`, which is told the time and reads no words.

use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// When a limit ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    At(Timestamp),
    After { ms: u64 },
    Clock(Clock),
}

/// What a clock shows then: the next time it does, unless a day is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    pub hour: u8,
    pub minute: u8,
    /// As it was named, in lower case: `europe/london`, `utc`, `pst`. Without one nobody knows whose
    /// clock is meant.
    #[serde(default)]
    pub zone: Option<String>,
    #[serde(default)]
    pub day: Option<Day>,
}

/// A day of a calendar; the year is often left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Day {
    #[serde(default)]
    pub year: Option<i16>,
    pub month: u8,
    pub day: u8,
}
