//! Rows as the API shows them to everybody: what is kept for the host alone, such as leases, fences and
//! processes, is left out.

use crate::event::{Outcome, RunReport, RunUsage, Totals};
use crate::money::{Billing, Tokens};
use crate::{Code, RunId, RunState, TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run: one agent's work on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Run")]
pub struct RunView {
    pub run_id: RunId,
    pub task_id: TaskId,
    /// The older name of `run_id`, for one release.
    pub id: RunId,
    /// The older name of `task_id`, for one release.
    pub task: TaskId,
    pub state: RunState,
    /// The number of its newest event, as the hints of the feed have it.
    pub head_seq: u64,
    pub agent: String,
    pub adapter: String,
    pub runtime: String,
    pub cwd: String,
    /// The model that was used, as far as it was reported; else the one that was asked for.
    pub model: Option<String>,
    /// The model that was asked for.
    pub requested_model: Option<String>,
    pub provider: Option<String>,
    pub prompt_preview: String,
    pub started_at: Timestamp,
    pub totals: Option<Totals>,
    /// Null when the agent reported no tokens.
    pub usage: Option<UsageView>,
    /// The price in dollars, at list price where nothing is billed; null when a part has no price.
    pub cost_usd: Option<f64>,
    /// The part of `cost_usd` that is billed: none where `billing` is `subscription` or `free`.
    pub billed_usd: Option<f64>,
    /// How it is paid for; null where that is not known, and then it counts as billed by use.
    pub billing: Option<Billing>,
    /// The agent's own name for its conversation, once a turn of it went well.
    pub native_session: Option<String>,
    /// The agent that does it in place of the one it was given to, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Everything from here on is there when the run is settled.
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    pub code: Option<Code>,
    pub message: Option<String>,
}

/// The tokens of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunUsageView")]
pub struct UsageView {
    pub tokens: Tokens,
    /// The sum of the four buckets.
    pub total_tokens: u64,
    pub service_tier: Option<String>,
}

impl From<RunUsage> for UsageView {
    fn from(usage: RunUsage) -> Self {
        let RunUsage { tokens, service_tier } = usage;
        Self { tokens, total_tokens: tokens.total(), service_tier }
    }
}

/// The figures of a run as they are shown, from what was stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    pub usage: Option<UsageView>,
    pub cost_usd: Option<f64>,
    pub billed_usd: Option<f64>,
}

impl Figures {
    /// `report` is absent for runs of older versions: those had tokens exactly when they counted some.
    pub fn of(totals: Option<&Totals>, report: Option<&RunReport>) -> Self {
        let usage = match report {
            Some(report) => report.usage.clone(),
            None => totals
                .filter(|totals| totals.tokens.total() > 0)
                .map(|totals| RunUsage { tokens: totals.tokens, service_tier: None }),
        };
        let cost = totals.and_then(|totals| totals.effective_nanousd);
        let is_included =
            report.and_then(|report| report.billing).is_some_and(Billing::is_included);
        let billed = if is_included { Some(crate::NanoUsd(0)) } else { cost };
        Self {
            usage: usage.map(UsageView::from),
            cost_usd: cost.map(crate::NanoUsd::usd),
            billed_usd: billed.map(crate::NanoUsd::usd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NanoUsd;

    #[test]
    fn figures_tell_nothing_from_zero_and_billed_from_included() {
        let tokens = Tokens {
            input_uncached: 3,
            output: 4,
            cache_read: 5,
            cache_write: 6,
            reasoning: Some(2),
        };
        let priced = |tokens| Totals { tokens, effective_nanousd: Some(NanoUsd(2_500_000_000)) };
        let report = |usage: bool, billing| RunReport {
            usage: usage.then(|| RunUsage { tokens, service_tier: Some("standard".to_owned()) }),
            billing,
            ..RunReport::default()
        };
        let none = Tokens::default();
        for (why, totals, report, total_tokens, cost, billed) in [
            ("a run that has not begun", None, None, None, None, None),
            (
                "reported",
                Some(priced(tokens)),
                Some(report(true, None)),
                Some(18),
                Some(2.5),
                Some(2.5),
            ),
            (
                "dollars alone",
                Some(priced(none)),
                Some(report(false, None)),
                None,
                Some(2.5),
                Some(2.5),
            ),
            ("an older run", Some(priced(tokens)), None, Some(18), Some(2.5), Some(2.5)),
            ("an older run without tokens", Some(priced(none)), None, None, Some(2.5), Some(2.5)),
            (
                "included",
                Some(priced(tokens)),
                Some(report(true, Some(Billing::Subscription))),
                Some(18),
                Some(2.5),
                Some(0.0),
            ),
            (
                "a way of a newer version",
                Some(priced(tokens)),
                Some(report(true, Some(Billing::Unknown))),
                Some(18),
                Some(2.5),
                Some(2.5),
            ),
        ] {
            let figures = Figures::of(totals.as_ref(), report.as_ref());
            let told = figures.usage.map(|usage| usage.total_tokens);
            assert_eq!(
                (told, figures.cost_usd, figures.billed_usd),
                (total_tokens, cost, billed),
                "{why}"
            );
        }
    }
}
