//! The date of today in UTC, for pages that say when something was measured.

use contract::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or_default();
    Timestamp(millis).to_string().chars().take(10).collect()
}
