//! Single values of the configuration, in the words of the rooms that need them.

use super::Config;
use super::words::Activity;
use contract::NanoUsd;
use contract::limits::{LEASE_MS, LEASE_MS_MIN};
use engine::rules::price::{Price, PriceTable};
use host::ops::remove::Retention;

/// Who runs this, when nobody says.
const ORGANIZATION: &str = "default";

impl Config {
    pub fn organization(&self) -> &str {
        self.file.organization.as_deref().unwrap_or(ORGANIZATION)
    }

    /// Where `serve` listens.
    pub fn listen(&self) -> Option<&str> {
        self.file.server.as_ref().and_then(|server| server.listen.as_deref())
    }

    /// Whether what agents show of their work is stored.
    pub fn activity(&self) -> host::Activity {
        match self.file.server.as_ref().and_then(|server| server.activity) {
            Some(Activity::Off) => host::Activity::Off,
            Some(Activity::Full) | None => host::Activity::Full,
        }
    }

    /// What a server keeps, and how long.
    pub fn retention(&self) -> Retention {
        let given = self.file.server.as_ref().and_then(|server| server.retention.as_ref());
        Retention {
            days: given.and_then(|retention| retention.days),
            // The cast saturates: an absurdly large disk is the largest there is.
            bytes: given.and_then(|retention| retention.gigabytes).map(|gb| (gb * 1e9) as u64),
        }
    }

    /// How long a lease is good for without renewal.
    pub fn lease_ms(&self) -> u64 {
        let given = self.file.server.as_ref().and_then(|server| server.lease_sec);
        given.and_then(|seconds| seconds.ms()).unwrap_or(LEASE_MS).max(LEASE_MS_MIN)
    }

    /// The person's own prices. A bucket without a price of its own costs what input costs.
    pub fn prices(&self) -> PriceTable {
        let nano = |usd: f64| NanoUsd::from_usd(usd).unwrap_or_default();
        let price = |price: &super::file::Price| Price {
            input: nano(price.input),
            cache_read: nano(price.cache_read.unwrap_or(price.input)),
            cache_write: nano(price.cache_write.unwrap_or(price.input)),
            output: nano(price.output),
        };
        PriceTable(
            self.file.prices.iter().map(|(name, given)| (name.clone(), price(given))).collect(),
        )
    }
}
