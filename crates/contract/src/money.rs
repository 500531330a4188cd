//! Tokens in four disjoint buckets, money in whole nano-dollars, and what a run may spend of both.
//! Unpriced is `None`, never zero. Decimals exist only on foreign wires: `NanoUsd::from_usd` is
//! where they come in and `NanoUsd::usd` where they go out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thousand-millionth of a dollar.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct NanoUsd(pub i64);

impl NanoUsd {
    /// Reads a decimal of a foreign wire. Negative, infinite and absurd amounts are not money.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let nano = (usd * 1e9).round();
        (nano.is_finite() && (0.0..=9.0e18).contains(&nano)).then_some(Self(nano as i64))
    }

    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// What a model read and wrote. The four buckets are disjoint; `reasoning` is a part of `output`,
/// kept for information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    #[serde(default)]
    pub input_uncached: u64,
    #[serde(default)]
    pub cache_read: u64,
    #[serde(default)]
    pub cache_write: u64,
    #[serde(default)]
    pub output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Tokens {
    pub fn total(&self) -> u64 {
        [self.input_uncached, self.cache_read, self.cache_write, self.output]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// What `self` adds over `earlier`, bucket by bucket; a bucket that shrank adds nothing.
    pub fn minus(&self, earlier: &Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    fn zip(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
        Self {
            input_uncached: f(self.input_uncached, other.input_uncached),
            cache_read: f(self.cache_read, other.cache_read),
            cache_write: f(self.cache_write, other.cache_write),
            output: f(self.output, other.output),
            reasoning: match (self.reasoning, other.reasoning) {
                (None, None) => None,
                (mine, theirs) => Some(f(mine.unwrap_or(0), theirs.unwrap_or(0))),
            },
        }
    }
}

/// What the numbers of a usage event count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    #[default]
    Increment,
    RunTotal,
    SessionTotal,
}

/// Who said what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    Runtime,
    UserTable,
    BuiltIn,
    Direct,
    #[default]
    Unpriced,
}

/// How the use of an account is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Billing {
    /// By use: what is spent is billed.
    Metered,
    /// By a fixed price: what is used is included in it.
    Subscription,
    /// Not at all.
    Free,
    /// A way of a newer version. It counts as billed by use.
    #[serde(other)]
    Unknown,
}

impl Billing {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Metered => "metered",
            Self::Subscription => "subscription",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }

    /// Whether nothing is billed for the use: its price is a list price, and no budget of dollars
    /// that runs share counts it.
    pub const fn is_included(self) -> bool {
        match self {
            Self::Subscription | Self::Free => true,
            Self::Metered | Self::Unknown => false,
        }
    }
}

/// A cost that is not tokens, added as given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extra {
    pub label: String,
    pub nanousd: NanoUsd,
}

/// What the run may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanousd: Option<NanoUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Start also where a budget cannot be counted while the agent works; it is then checked
    /// whenever the agent reports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort: bool,
}

impl Budget {
    /// `self` where it says something, `under` elsewhere.
    pub fn over(self, under: Self) -> Self {
        Self {
            nanousd: self.nanousd.or(under.nanousd),
            tokens: self.tokens.or(under.tokens),
            turns: self.turns.or(under.turns),
            ms: self.ms.or(under.ms),
            best_effort: self.best_effort || under.best_effort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_decimals_become_whole_nano_dollars_or_nothing() {
        assert_eq!(NanoUsd::from_usd(0.12), Some(NanoUsd(120_000_000)));
        assert_eq!(NanoUsd::from_usd(0.0), Some(NanoUsd(0)));
        for nonsense in [-0.01, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(NanoUsd::from_usd(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_total_that_shrank_adds_nothing() {
        let before = Tokens { input_uncached: 10, output: 5, ..Tokens::default() };
        let after = Tokens { input_uncached: 12, output: 3, ..Tokens::default() };
        assert_eq!(after.minus(&before), Tokens { input_uncached: 2, ..Tokens::default() });
    }
}
