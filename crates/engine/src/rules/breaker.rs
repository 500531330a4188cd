//! The breaker of one quota: after a provider's terminal answer nothing starts in its scope until the
//! reset; then one run asks first; when that goes on without a new answer, the others follow one after
//! another for a while. A rule over a small state: who keeps it writes what comes out only if nobody
//! else changed it meanwhile. Live runs are nobody's business here: they are left to their own end.

use contract::event::Quota;
use contract::limits::{QUOTA_PROBE_MS, QUOTA_RAMP_MS, QUOTA_STAGGER_MS};
use contract::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one scope stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Breaker {
    /// Runs start as they come.
    #[default]
    Closed,
    /// No run starts before then.
    Open { until: Timestamp },
    /// The reset is past, and one run asks first whether the provider answers.
    Probing { run: RunId, since: Timestamp },
    /// The provider answers; runs start again, not all at once.
    Resuming { since: Timestamp, next_at: Timestamp },
}

/// What became of the run that asks first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Live,
    /// It ended, and not by the quota: that answer would have opened the breaker again.
    Ended,
}

/// What a start may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It may, and the breaker is this from then on.
    Go(Breaker),
    /// Look again then.
    Wait { until: Timestamp },
}

/// A provider said that nothing is left before `until`. What was known to last longer still does.
pub fn trip(breaker: Breaker, until: Timestamp) -> Breaker {
    match breaker {
        Breaker::Open { until: known } => Breaker::Open { until: known.max(until) },
        Breaker::Closed | Breaker::Probing { .. } | Breaker::Resuming { .. } => {
            Breaker::Open { until }
        }
    }
}

/// Until when nothing of an account is left, as it was reported; `None` if something is left or if no
/// reset ahead is known.
pub fn reported(quota: &Quota, now: Timestamp) -> Option<Timestamp> {
    if !quota.rate_limited {
        return None;
    }
    let full = quota.windows.iter().filter(|window| window.exhausted);
    // What is full in two windows is free again when the later one resets.
    let reset = quota.resets_at.or_else(|| full.filter_map(|window| window.resets_at).max());
    reset.filter(|at| *at > now).map(|at| super::reset::until(Some(at), now))
}

/// Whether `run` may start now. `probe` is what became of the run that asked first.
pub fn start(breaker: Breaker, probe: Probe, run: RunId, now: Timestamp) -> Passage {
    match breaker {
        Breaker::Closed => Passage::Go(Breaker::Closed),
        Breaker::Open { until } if now < until => Passage::Wait { until },
        Breaker::Open { .. } => Passage::Go(Breaker::Probing { run, since: now }),
        // Asked again because an answer got lost.
        Breaker::Probing { run: first, .. } if first == run => Passage::Go(breaker),
        Breaker::Probing { since, .. } => match probe {
            Probe::Live if now.since(since) < QUOTA_PROBE_MS => {
                Passage::Wait { until: later(since, QUOTA_PROBE_MS) }
            }
            Probe::Live | Probe::Ended => Passage::Go(staggered(now, now)),
        },
        Breaker::Resuming { since, .. } if now.since(since) >= QUOTA_RAMP_MS => {
            Passage::Go(Breaker::Closed)
        }
        Breaker::Resuming { next_at, .. } if now < next_at => Passage::Wait { until: next_at },
        Breaker::Resuming { since, .. } => Passage::Go(staggered(since, now)),
    }
}

fn staggered(since: Timestamp, now: Timestamp) -> Breaker {
    Breaker::Resuming { since, next_at: later(now, QUOTA_STAGGER_MS) }
}

fn later(at: Timestamp, ms: u64) -> Timestamp {
    at.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// The name of a quota: whose account it is at whose door. Without a label every adapter has its own,
/// so that two of them never hold each other up by mistake; one label for both says that they share.
pub fn scope(
    provider: Option<&str>,
    runtime: &str,
    adapter: &str,
    account: Option<&str>,
) -> String {
    let door = provider.unwrap_or(runtime);
    match account {
        Some(account) => format!("{door}/{account}"),
        None if adapter == door => door.to_owned(),
        None => format!("{door}/{adapter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::event::QuotaWindow;
    use uuid::Uuid;

    const SECOND_MS: i64 = 1_000;

    fn run(n: u128) -> RunId {
        RunId::new(Uuid::from_u128(n))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * SECOND_MS)
    }

    #[test]
    fn a_start_finds_the_breaker_as_it_stands() {
        let until = at(1_000);
        let open = Breaker::Open { until };
        let probing = Breaker::Probing { run: run(1), since: at(1_000) };
        let resuming = Breaker::Resuming { since: at(1_010), next_at: at(1_012) };
        let go_on = |at_s: i64| Passage::Go(staggered(at(1_010), at(at_s)));
        let rows = [
            ("closed", Breaker::Closed, Probe::Live, 5, Passage::Go(Breaker::Closed)),
            ("before the reset", open, Probe::Live, 999, Passage::Wait { until }),
            ("the first after it asks", open, Probe::Live, 1_000, {
                Passage::Go(Breaker::Probing { run: run(2), since: at(1_000) })
            }),
            ("others wait for it", probing, Probe::Live, 1_059, Passage::Wait { until: at(1_060) }),
            (
                "it goes on well",
                probing,
                Probe::Live,
                1_060,
                Passage::Go(staggered(at(1_060), at(1_060))),
            ),
            (
                "it ended well",
                probing,
                Probe::Ended,
                1_001,
                Passage::Go(staggered(at(1_001), at(1_001))),
            ),
            (
                "one after another",
                resuming,
                Probe::Ended,
                1_011,
                Passage::Wait { until: at(1_012) },
            ),
            ("and the next", resuming, Probe::Ended, 1_012, go_on(1_012)),
            ("until it is over", resuming, Probe::Ended, 2_810, Passage::Go(Breaker::Closed)),
        ];
        for (why, breaker, probe, now, expected) in rows {
            assert_eq!(start(breaker, probe, run(2), at(now)), expected, "{why}");
        }
        assert_eq!(start(probing, Probe::Live, run(1), at(1_001)), Passage::Go(probing), "again");
    }

    #[test]
    fn an_answer_opens_it_again_and_a_later_reset_stays() {
        let probing = Breaker::Probing { run: run(1), since: at(10) };
        assert_eq!(trip(probing, at(50)), Breaker::Open { until: at(50) });
        assert_eq!(trip(Breaker::Open { until: at(90) }, at(50)), Breaker::Open { until: at(90) });
        assert_eq!(trip(Breaker::Closed, at(50)), Breaker::Open { until: at(50) });
    }

    #[test]
    fn a_report_holds_until_its_reset() {
        let window = |exhausted: bool, resets_at: Option<i64>| QuotaWindow {
            id: "w".to_owned(),
            label: None,
            used_percent: None,
            resets_at: resets_at.map(at),
            exhausted,
        };
        let rows = [
            ("its own reset", true, Some(90), vec![], Some(90)),
            (
                "of the windows",
                true,
                None,
                vec![window(true, Some(70)), window(true, Some(80))],
                Some(80),
            ),
            ("not of one that is not full", true, None, vec![window(false, Some(70))], None),
            ("past", true, Some(50), vec![], None),
            ("without a reset", true, None, vec![window(true, None)], None),
            ("something is left", false, Some(90), vec![window(true, Some(70))], None),
        ];
        for (why, rate_limited, resets_at, windows, expected) in rows {
            let (provider, account, resets_at) = ("p".to_owned(), None, resets_at.map(at));
            let quota = Quota { provider, account, windows, rate_limited, resets_at };
            assert_eq!(reported(&quota, at(60)), expected.map(at), "{why}");
        }
    }

    #[test]
    fn a_scope_is_named_by_its_account_or_else_by_its_adapter() {
        let rows = [
            (None, "claude", "claude", None, "claude"),
            (None, "claude", "opus", None, "claude/opus"),
            (None, "claude", "opus", Some("work"), "claude/work"),
            (Some("anthropic"), "claude", "opus", Some("work"), "anthropic/work"),
        ];
        for (provider, runtime, adapter, account, expected) in rows {
            assert_eq!(scope(provider, runtime, adapter, account), expected);
        }
    }

    #[test]
    fn a_hundred_that_wait_start_after_the_reset_and_never_two_at_once() {
        let mut breaker = trip(Breaker::Closed, at(1_000));
        let (mut now, mut starts) = (at(0), Vec::new());
        let mut waiting: Vec<u128> = (1..=100).collect();
        while let Some(next) = waiting.first().copied() {
            match start(breaker, Probe::Ended, run(next), now) {
                Passage::Go(then) => {
                    breaker = then;
                    starts.push(now);
                    waiting.remove(0);
                }
                Passage::Wait { until } => {
                    assert!(until > now, "whoever waits has a later time to look");
                    now = until;
                }
            }
        }
        assert_eq!(starts.first(), Some(&at(1_000)));
        let gaps: Vec<u64> = starts.windows(2).map(|two| two[1].since(two[0])).collect();
        assert!(gaps[1..].iter().all(|gap| *gap == QUOTA_STAGGER_MS), "{gaps:?}");
    }
}
