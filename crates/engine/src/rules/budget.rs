//! Budgets that several runs share: whose they are, which window they count in, and whether one more
//! run may start under them. What a run may spend is set aside before it starts and counts as spent
//! until the run is settled, so that runs side by side cannot spend the same dollar. The sums are read
//! by whoever asks; days and months are those of UTC.

use contract::event::{BudgetLevel, Remaining, Totals};
use contract::limits::{RESERVE_MS, RESERVE_NANOUSD, RESERVE_TOKENS, RESERVE_TURNS};
use contract::{Code, NanoUsd, Timestamp};
use jiff::tz::TimeZone;
use jiff::{ToSpan as _, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const SOFT_PERCENT: u128 = 80;
/// The rows of the fault table from a faulty configuration to a provider that refuses: before any of
/// them a model was not asked, or gave no answer.
const CONFIG_EXIT: u8 = 3;
const PROVIDER_EXIT: u8 = 6;

/// How long what was spent counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    Day,
    Month,
    Lifetime,
}

impl Window {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Lifetime => "lifetime",
        }
    }

    /// When the window that `now` lies in began.
    pub fn begin(self, now: Timestamp) -> Timestamp {
        let begun = self.bounds(now).map(|(begin, _)| begin);
        begun.unwrap_or(Timestamp(i64::MIN))
    }

    /// When the next one begins.
    pub fn end(self, now: Timestamp) -> Option<Timestamp> {
        self.bounds(now).map(|(_, end)| end)
    }

    fn bounds(self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let at = jiff::Timestamp::from_millisecond(now.ms()).ok()?.to_zoned(TimeZone::UTC);
        let (begin, length) = match self {
            Self::Day => (at.date(), 1.day()),
            Self::Month => (at.date().first_of_month(), 1.month()),
            Self::Lifetime => return None,
        };
        let ms = |at: Zoned| Timestamp(at.timestamp().as_millisecond());
        let begins = begin.to_zoned(TimeZone::UTC).ok()?;
        let ends = begin.checked_add(length).ok()?.to_zoned(TimeZone::UTC).ok()?;
        Some((ms(begins), ms(ends)))
    }
}

/// What may be spent, or was. A unit that is absent has no limit, or nobody said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Amounts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanousd: Option<NanoUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

impl From<crate::RunBudget> for Amounts {
    fn from(budget: crate::RunBudget) -> Self {
        let crate::RunBudget { nanousd, tokens, turns, ms } = budget;
        Self { nanousd, tokens, turns, ms }
    }
}

/// One budget: whose, for how long, and how much of each unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// `global`, `agent:NAME` or `task:ID`.
    pub scope: String,
    pub window: Window,
    #[serde(flatten)]
    pub limit: Amounts,
    /// The share of the account's own quota above which nothing starts, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_percent: Option<f64>,
}

impl Budget {
    /// As people and events call it.
    pub fn name(&self) -> String {
        format!("{} {}", self.scope, self.window.word())
    }
}

/// What a scope has spent in a window, and what its live runs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    pub nanousd: NanoUsd,
    pub tokens: u64,
    pub turns: u64,
    pub ms: u64,
}

/// What is left of every unit that has a limit.
pub fn left(limit: &Amounts, used: &Used) -> Amounts {
    let turns_used = u32::try_from(used.turns).unwrap_or(u32::MAX);
    Amounts {
        nanousd: limit.nanousd.map(|limit| limit.saturating_sub(used.nanousd).max(NanoUsd(0))),
        tokens: limit.tokens.map(|limit| limit.saturating_sub(used.tokens)),
        turns: limit.turns.map(|limit| limit.saturating_sub(turns_used)),
        ms: limit.ms.map(|limit| limit.saturating_sub(used.ms)),
    }
}

/// The unit of which nothing is left, in words.
pub fn spent(left: &Amounts) -> Option<&'static str> {
    [
        (left.nanousd == Some(NanoUsd(0)), "dollars"),
        (left.tokens == Some(0), "tokens"),
        (left.turns == Some(0), "turns"),
        (left.ms == Some(0), "minutes"),
    ]
    .into_iter()
    .find_map(|(spent, unit)| spent.then_some(unit))
}

/// What a run sets aside of each unit that some budget limits: all of its own budget, else a named
/// estimate or the rest, whichever is less. `lefts` are of every budget it spends from.
pub fn set_aside(own: &Amounts, lefts: &[Amounts]) -> Amounts {
    let least = lefts.iter().fold(Amounts::default(), |so_far, left| Amounts {
        nanousd: least(so_far.nanousd, left.nanousd),
        tokens: least(so_far.tokens, left.tokens),
        turns: least(so_far.turns, left.turns),
        ms: least(so_far.ms, left.ms),
    });
    Amounts {
        nanousd: share(own.nanousd, least.nanousd, NanoUsd(RESERVE_NANOUSD)),
        tokens: share(own.tokens, least.tokens, RESERVE_TOKENS),
        turns: share(own.turns, least.turns, RESERVE_TURNS),
        ms: share(own.ms, least.ms, RESERVE_MS),
    }
}

/// Nothing is set aside of a unit that nobody limits. Its own budget is set aside whole, even where
/// less is left: then the run is refused, and not cut short without a word.
fn share<T: Ord>(own: Option<T>, left: Option<T>, estimate: T) -> Option<T> {
    match (left, own) {
        (None, _) => None,
        (Some(_), Some(own)) => Some(own),
        (Some(left), None) => Some(estimate.min(left)),
    }
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A run's own budget where its task has less left: that is all it may spend, whatever its agent may.
pub fn within(own: &Amounts, left: &Amounts) -> Amounts {
    Amounts {
        nanousd: own.nanousd.map(|own| left.nanousd.map_or(own, |left| own.min(left))),
        tokens: own.tokens.map(|own| left.tokens.map_or(own, |left| own.min(left))),
        turns: own.turns.map(|own| left.turns.map_or(own, |left| own.min(left))),
        ms: own.ms.map(|own| left.ms.map_or(own, |left| own.min(left))),
    }
}

/// The budget of the run itself: its own, and what was set aside where it has none.
pub fn cap(own: &Amounts, aside: &Amounts) -> Amounts {
    Amounts {
        nanousd: own.nanousd.or(aside.nanousd),
        tokens: own.tokens.or(aside.tokens),
        turns: own.turns.or(aside.turns),
        ms: own.ms.or(aside.ms),
    }
}

/// What is to be set aside in all when a run that has no budget of its own wants to go on: as much
/// again, of each unit that is running low.
pub fn more(
    own: &Amounts,
    aside: &Amounts,
    remaining: &Remaining,
    percent: u64,
) -> Option<Amounts> {
    let nanousd = grown(
        own.nanousd.map(unsigned),
        aside.nanousd.map(unsigned),
        remaining.nanousd.map(unsigned),
        RESERVE_NANOUSD.unsigned_abs(),
        percent,
    );
    let wide = |n: Option<u32>| n.map(u64::from);
    let turns = grown(
        wide(own.turns),
        wide(aside.turns),
        wide(remaining.turns),
        RESERVE_TURNS.into(),
        percent,
    );
    let more = Amounts {
        nanousd: nanousd.map(|n| NanoUsd(i64::try_from(n).unwrap_or(i64::MAX))).or(aside.nanousd),
        tokens: grown(own.tokens, aside.tokens, remaining.tokens, RESERVE_TOKENS, percent)
            .or(aside.tokens),
        turns: turns.map(|n| u32::try_from(n).unwrap_or(u32::MAX)).or(aside.turns),
        ms: grown(own.ms, aside.ms, remaining.ms, RESERVE_MS, percent).or(aside.ms),
    };
    (more != *aside).then_some(more)
}

fn grown(
    own: Option<u64>,
    aside: Option<u64>,
    remaining: Option<u64>,
    step: u64,
    percent: u64,
) -> Option<u64> {
    let (None, Some(aside), Some(remaining)) = (own, aside, remaining) else { return None };
    // One that was given less than a step, because there was no more, is not low from its beginning.
    let share = step.min(aside);
    let low = u128::from(remaining) * 100 < u128::from(share) * u128::from(percent);
    low.then(|| aside.saturating_add(step))
}

fn unsigned(amount: NanoUsd) -> u64 {
    amount.0.max(0).unsigned_abs()
}

/// Whether it is known that a run spent nothing: no model answered it, and it told of no spending. An
/// agent that worked and told nothing may have spent anything.
pub fn unspent(code: Option<Code>, totals: &Totals) -> bool {
    let silent = totals.effective_nanousd.is_none() && totals.tokens.total() == 0;
    let unanswered = match code {
        // A run can be ended so after its agent has worked without reporting what it spent.
        None | Some(Code::PolicyNotPossible | Code::BudgetNotCountable) => false,
        Some(code) => matches!(code.row().exit, CONFIG_EXIT..=PROVIDER_EXIT),
    };
    silent && unanswered
}

/// How full a budget is.
pub fn level(limit: &Amounts, left: &Amounts) -> BudgetLevel {
    let wide = |n: Option<u32>| n.map(u64::from);
    let units = [
        (limit.nanousd.map(unsigned), left.nanousd.map(unsigned)),
        (limit.tokens, left.tokens),
        (wide(limit.turns), wide(left.turns)),
        (limit.ms, left.ms),
    ];
    let mut level = BudgetLevel::Ok;
    for (limit, left) in units.into_iter().filter_map(|(limit, left)| limit.zip(left)) {
        let used = u128::from(limit.saturating_sub(left)) * 100;
        match (left, used >= u128::from(limit) * SOFT_PERCENT) {
            (0, _) => return BudgetLevel::Hard,
            (_, true) => level = BudgetLevel::Soft,
            (_, false) => {}
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(written: &str) -> Timestamp {
        serde_json::from_value(serde_json::Value::from(written)).unwrap()
    }

    fn usd(nanousd: i64) -> Amounts {
        Amounts { nanousd: Some(NanoUsd(nanousd)), ..Amounts::default() }
    }

    #[test]
    fn a_window_begins_and_ends_with_the_days_of_utc() {
        let now = at("2028-02-29T23:59:59.999Z");
        let rows = [
            (Window::Day, "2028-02-29T00:00:00.000Z", "2028-03-01T00:00:00.000Z"),
            (Window::Month, "2028-02-01T00:00:00.000Z", "2028-03-01T00:00:00.000Z"),
        ];
        for (window, begin, end) in rows {
            assert_eq!(window.begin(now).to_string(), begin, "{window:?}");
            assert_eq!(window.end(now).unwrap().to_string(), end, "{window:?}");
        }
        assert_eq!(Window::Lifetime.end(now), None);
        assert!(Window::Lifetime.begin(now) < Timestamp(0));
    }

    #[test]
    fn a_run_sets_aside_its_own_budget_or_an_estimate_or_the_rest() {
        let plenty = usd(50 * RESERVE_NANOUSD);
        let rows = [
            (
                "no budget limits it",
                Amounts::default(),
                vec![Amounts::default()],
                Amounts::default(),
            ),
            ("the estimate", Amounts::default(), vec![plenty], usd(RESERVE_NANOUSD)),
            ("the rest", Amounts::default(), vec![plenty, usd(7)], usd(7)),
            ("its own", usd(9), vec![plenty], usd(9)),
            ("its own, though less is left", usd(9), vec![usd(7)], usd(9)),
            ("its own is no limit of others", usd(9), vec![], Amounts::default()),
        ];
        for (why, own, lefts, expected) in rows {
            assert_eq!(set_aside(&own, &lefts), expected, "{why}");
        }
    }

    #[test]
    fn what_a_task_has_left_is_more_than_no_run_of_it_may_spend() {
        let unlimited = Amounts::default();
        for (own, left, expected) in [
            (usd(9), usd(7), usd(7)),
            (usd(7), usd(9), usd(7)),
            (usd(9), unlimited, usd(9)),
            (unlimited, usd(7), unlimited),
        ] {
            assert_eq!(within(&own, &left), expected, "{own:?} within {left:?}");
        }
        let of = |n: u32| Amounts {
            nanousd: None,
            tokens: Some(n.into()),
            turns: Some(n),
            ms: Some(n.into()),
        };
        assert_eq!(within(&of(9), &of(7)), of(7));
        assert_eq!(within(&of(7), &of(9)), of(7));
    }

    #[test]
    fn a_run_asks_for_more_when_half_of_a_share_is_left() {
        let none = Amounts::default();
        let remaining =
            |nanousd: i64| Remaining { nanousd: Some(NanoUsd(nanousd)), ..Remaining::default() };
        let share = usd(RESERVE_NANOUSD);
        assert_eq!(more(&none, &share, &remaining(RESERVE_NANOUSD / 2), 50), None);
        let low = remaining(RESERVE_NANOUSD / 2 - 1);
        assert_eq!(more(&none, &share, &low, 50), Some(usd(2 * RESERVE_NANOUSD)));
        let rest = usd(RESERVE_NANOUSD / 10);
        let whole = remaining(RESERVE_NANOUSD / 10);
        assert_eq!(more(&none, &rest, &whole, 50), None, "a small rest is whole at first");
        assert_eq!(more(&share, &share, &low, 50), None, "its own budget is its own word");
        assert_eq!(more(&none, &none, &low, 50), None, "nobody limits it");
    }

    #[test]
    fn a_run_that_no_model_answered_spent_nothing_and_a_silent_one_may_have() {
        let none = Totals::default();
        for code in [Code::ProviderQuota, Code::AuthFailed, Code::NotInstalled, Code::BadWorkspace]
        {
            assert!(unspent(Some(code), &none), "{code}");
        }
        for code in [
            Code::AgentFailed,
            Code::TimeoutWall,
            Code::BudgetExceeded,
            Code::PolicyNotPossible,
            Code::BudgetNotCountable,
            Code::Cancelled,
        ] {
            assert!(!unspent(Some(code), &none), "{code}");
        }
        assert!(!unspent(None, &none), "it succeeded and told nothing");
        let told = Totals { effective_nanousd: Some(NanoUsd(1)), ..Totals::default() };
        assert!(!unspent(Some(Code::ProviderQuota), &told));
    }

    #[test]
    fn what_is_left_and_how_full_it_is() {
        let limit = Amounts { tokens: Some(100), turns: Some(10), ..usd(100) };
        let rows = [
            (Used::default(), BudgetLevel::Ok, None),
            (Used { tokens: 79, ..Used::default() }, BudgetLevel::Ok, None),
            (Used { tokens: 80, ..Used::default() }, BudgetLevel::Soft, None),
            (Used { turns: 10, ..Used::default() }, BudgetLevel::Hard, Some("turns")),
            (Used { nanousd: NanoUsd(500), ..Used::default() }, BudgetLevel::Hard, Some("dollars")),
        ];
        for (used, expected, unit) in rows {
            let left = left(&limit, &used);
            assert_eq!((level(&limit, &left), spent(&left)), (expected, unit), "{used:?}");
        }
    }
}
