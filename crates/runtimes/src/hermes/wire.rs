//! The report that is asked for with `--usage-file`, as serde sees it. It is JSON over many lines,
//! heard on stderr among whatever else stands there, so its lines are gathered first. Every field
//! may be missing; nothing outside this folder may know the shape.

use contract::event::Usage;
use contract::money::Basis;
use contract::{NanoUsd, Tokens};
use serde::{Deserialize, Serialize};

/// No report is longer than this; what goes on is none.
const BYTES_MAX: usize = 16 * 1024;

/// Lines that may become a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Gathering(Vec<String>);

/// What came of one more line.
pub(super) enum Heard {
    /// A part of what may become a report.
    Part,
    Report(Box<Report>),
    /// These lines are no report after all, and are given back.
    Other(Vec<String>),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    pub completed: Option<bool>,
    /// Always there, and what tells a report from other JSON.
    pub failed: Option<bool>,
    pub failure: Option<String>,
    pub session_id: Option<String>,
    pub model: Option<String>,
    provider: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    estimated_cost_usd: Option<f64>,
    /// `unknown` when there is no price: the cost is then 0 and means nothing.
    cost_status: Option<String>,
    service_tier: Option<String>,
}

impl Gathering {
    /// A report begins with a line that is one brace and ends with another.
    pub(super) fn hear(&mut self, line: &str) -> Heard {
        let begins = line == "{";
        if self.0.is_empty() && !begins {
            return Heard::Other(vec![line.to_owned()]);
        }
        self.0.push(line.to_owned());
        let size: usize = self.0.iter().map(String::len).sum();
        if line != "}" && size <= BYTES_MAX {
            return Heard::Part;
        }
        let lines = std::mem::take(&mut self.0);
        let report: Option<Report> = serde_json::from_str(&lines.concat()).ok();
        match report.filter(|report| report.failed.is_some()) {
            Some(report) => Heard::Report(Box::new(report)),
            None => Heard::Other(lines),
        }
    }

    /// What was gathered in vain.
    pub(super) fn rest(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

impl Report {
    /// What was spent, if it is told. The four buckets are disjoint, and the thoughts are among the
    /// output already.
    pub(super) fn usage(&self) -> Option<Usage> {
        let tokens = Tokens {
            input_uncached: self.input_tokens?,
            cache_read: self.cache_read_tokens.unwrap_or(0),
            cache_write: self.cache_write_tokens.unwrap_or(0),
            output: self.output_tokens?,
            reasoning: self.reasoning_tokens.filter(|count| *count > 0),
        };
        let priced = self.cost_status.as_deref().is_some_and(|status| status != "unknown");
        let dollars = self.estimated_cost_usd.filter(|_| priced);
        Some(Usage {
            model: self.model.clone(),
            provider: self.provider.clone(),
            tokens: Some(tokens),
            basis: Basis::RunTotal,
            reported_nanousd: dollars.and_then(NanoUsd::from_usd),
            service_tier: self.service_tier.clone(),
            ..Usage::default()
        })
    }
}
