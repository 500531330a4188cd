//! When a fault is tried again without a person, and when it is not: the retry column of the fault
//! table as delays. Chance comes in as a number from 0 to 1, so the answer can be tested.

use contract::fault::Retry;
use contract::{Code, Timestamp};

const MINUTE_MS: u64 = 60_000;
/// The waits between tries of something that may mend itself.
const BACKOFF_MS: [u64; 4] = [2 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, 120 * MINUTE_MS];
/// How long to wait for a quota whose reset nobody named.
const QUOTA_MS: u64 = 30 * MINUTE_MS;
/// How often a run that ran out of turns is continued.
const RESUMES_MAX: u32 = 2;
/// How often a task is tried in all, whatever the reasons: a poisoned one must come to rest.
pub(super) const TRIES_MAX: u32 = 4;
/// Retries are spread by this share to both sides, so that many tasks do not come back at once.
const JITTER: f64 = 0.25;

/// How long to wait before the next try after `tries` retries; `None` when there is none.
pub fn next_retry(code: Code, tries: u32, jitter01: f64) -> Option<u64> {
    if tries >= TRIES_MAX {
        return None;
    }
    match code.row().retry {
        Retry::No | Retry::AfterFix | Retry::Person => None,
        Retry::Once => (tries == 0).then_some(0),
        Retry::Resume => (tries < RESUMES_MAX).then_some(0),
        Retry::Requeue => Some(0),
        Retry::Backoff => {
            let wait_ms = usize::try_from(tries).ok().and_then(|tries| BACKOFF_MS.get(tries))?;
            Some(spread(*wait_ms, 1.0 - JITTER + 2.0 * JITTER * unit(jitter01)))
        }
        Retry::AtReset => Some(spread(QUOTA_MS, 1.0 + JITTER * unit(jitter01))),
    }
}

/// How long to wait for a quota that resets at a known time: never before it, and a little spread
/// behind it.
pub fn until_reset(resets_at: Timestamp, now: Timestamp, jitter01: f64) -> u64 {
    resets_at.since(now).saturating_add(spread(MINUTE_MS, unit(jitter01)))
}

fn spread(wait_ms: u64, by: f64) -> u64 {
    (wait_ms as f64 * by).round() as u64
}

/// Nonsense is no reason to wait forever.
fn unit(chance: f64) -> f64 {
    if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_retry_has_its_delays_and_its_end() {
        let rows: &[(Code, &[Option<u64>])] = &[
            (Code::AgentFailed, &[None]),
            (Code::AuthFailed, &[None]),
            (Code::BudgetExceeded, &[None]),
            (Code::TimeoutSilence, &[Some(0), None]),
            (Code::ProcessKilled, &[None]),
            (Code::MaxTurns, &[Some(0), Some(0), None]),
            (
                Code::Overloaded,
                &[Some(120_000), Some(600_000), Some(1_800_000), Some(7_200_000), None],
            ),
            (Code::LeaseExpired, &[Some(0), Some(0), Some(0), Some(0), None]),
            (Code::ProviderQuota, &[Some(2_025_000), Some(2_025_000)]),
        ];
        for (code, delays) in rows {
            for (tries, delay) in (0..).zip(*delays) {
                assert_eq!(next_retry(*code, tries, 0.5), *delay, "{code} after {tries}");
            }
        }
    }

    #[test]
    fn jitter_spreads_a_backoff_by_a_quarter_to_both_sides() {
        for (jitter01, delay_ms) in
            [(0.0, 90_000), (1.0, 150_000), (-5.0, 90_000), (9.0, 150_000), (f64::NAN, 120_000)]
        {
            assert_eq!(next_retry(Code::RateLimited, 0, jitter01), Some(delay_ms), "{jitter01}");
        }
    }

    #[test]
    fn a_quota_is_never_tried_before_its_reset() {
        let now = Timestamp(1_000_000);
        assert_eq!(until_reset(Timestamp(1_090_000), now, 0.0), 90_000);
        assert_eq!(until_reset(Timestamp(1_090_000), now, 1.0), 150_000);
        assert_eq!(until_reset(Timestamp(10), now, 0.0), 0);
    }
}
