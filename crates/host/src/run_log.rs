//! The records of a run in the operator log, and its metrics: one for each stored event that changes what the run is
//! doing. The span of the run has its ids. Only numbers and closed words of an event are taken, because
//! its texts may be the agent's.

use crate::drive::Drive;
use crate::metrics::metrics;
use contract::event::{Body, BudgetLevel, LeaseAction, Origin, Outcome, Phase};
use contract::{Code, Draft, NanoUsd};

impl Drive {
    /// The span that the driver of this run and everything it starts is in.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "run",
            run = %self.run,
            task = %self.bench.task.id,
            agent = self.bench.task.agent,
            fence = self.fence,
        )
    }
}

/// A stored event that an operator needs to know of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunRecord {
    Phase { phase: Phase, pid: Option<u32>, isolation: Option<String> },
    LeaseLost,
    LeaseRenewed,
    Error { code: Code },
    BudgetUsedUp,
    RateLimited,
    Ended(RunEnd),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunEnd {
    outcome: Outcome,
    code: Option<Code>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    duration_ms: u64,
    tokens: u64,
    usd: Option<f64>,
    denials: u32,
}

impl RunRecord {
    /// `None` for an event that an operator does not need.
    pub(crate) fn of(draft: &Draft) -> Option<Self> {
        match &draft.body {
            // Its words are ours.
            Body::Lifecycle(lifecycle) if draft.origin == Origin::Ostler => Some(Self::Phase {
                phase: lifecycle.phase,
                pid: lifecycle.pid,
                isolation: lifecycle.isolation.clone(),
            }),
            Body::Lease(lease) => match lease.action {
                LeaseAction::Lost => Some(Self::LeaseLost),
                LeaseAction::Renewed => Some(Self::LeaseRenewed),
                LeaseAction::Acquired | LeaseAction::Released => None,
            },
            Body::Error(error) => Some(Self::Error { code: error.code }),
            Body::Budget(budget) if budget.level == BudgetLevel::Hard => Some(Self::BudgetUsedUp),
            Body::Quota(quota) if quota.rate_limited => Some(Self::RateLimited),
            Body::Result(result) => Some(Self::Ended(RunEnd {
                outcome: result.outcome,
                code: result.code,
                exit_code: result.exit_code,
                signal: result.signal,
                duration_ms: result.duration_ms,
                tokens: result.totals.tokens.total(),
                usd: result.totals.effective_nanousd.map(NanoUsd::usd),
                denials: result.denials,
            })),
            _ => None,
        }
    }

    fn count(&self) {
        let metrics = metrics();
        match self {
            Self::Phase { phase: Phase::Running, .. } => metrics.runs_started.inc(),
            Self::Phase { phase: Phase::Adopted, .. } => metrics.runs_adopted.inc(),
            Self::LeaseLost => metrics.leases_lost.inc(),
            Self::LeaseRenewed => metrics.leases_renewed.inc(),
            Self::Ended(end) => {
                let code = end.code.map_or("", Code::word);
                metrics.runs_ended.with_label_values(&[end.outcome.word(), code]).inc();
                metrics.tokens.inc_by(end.tokens);
                // A counter refuses a negative amount, and no amount is negative.
                metrics.cost_usd.inc_by(end.usd.unwrap_or_default().max(0.0));
            }
            Self::Phase { .. } | Self::Error { .. } | Self::BudgetUsedUp | Self::RateLimited => {}
        }
    }

    /// Writes the record and counts it; the event is stored.
    pub(crate) fn log(self) {
        self.count();
        match self {
            Self::Phase { phase, pid, isolation } => match phase {
                Phase::Running => tracing::info!(pid, isolation, "run started"),
                Phase::Adopted => {
                    tracing::info!(pid, isolation, "run adopted from an earlier host")
                }
                Phase::Stopping => tracing::info!("run stopping"),
                Phase::Starting | Phase::Waiting | Phase::AttemptEnded => {
                    tracing::debug!(phase = ?phase, "run changed its phase");
                }
            },
            Self::LeaseLost => tracing::warn!("the lease of the run is lost"),
            Self::LeaseRenewed => tracing::debug!("lease renewed"),
            Self::Error { code } => tracing::info!(code = code.word(), "the run reported an error"),
            Self::BudgetUsedUp => tracing::info!("the budget of the run is used up"),
            Self::RateLimited => tracing::info!("the provider limits the rate of the run"),
            Self::Ended(end) => end.log(),
        }
    }
}

impl RunEnd {
    fn log(self) {
        let Self { outcome, code, exit_code, signal, duration_ms, tokens, usd, denials } = self;
        let (outcome, code) = (outcome.word(), code.map(Code::word));
        macro_rules! record {
            ($level:ident) => {
                tracing::$level!(
                    outcome,
                    code,
                    exit_code,
                    signal,
                    duration_ms,
                    tokens,
                    usd,
                    denials,
                    "run ended"
                )
            };
        }
        match self.outcome {
            Outcome::Succeeded | Outcome::Cancelled => record!(info),
            Outcome::Failed | Outcome::TimedOut | Outcome::Lost | Outcome::Unknown => record!(warn),
        }
    }
}
