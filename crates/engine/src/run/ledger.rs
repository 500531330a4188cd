//! What a run has spent, model by model, and how that stands against its budget.
//! Turns totals into increments, so that an agent may report either way and is counted once.
//! Prices nothing: an amount that arrives without a price stays unpriced (see `rules::price`).
//! What it books it hands out, so that the store keeps the same books.
//!
//! Approximate increments (counted answer by answer, before the runtime states its own figures) are
//! kept apart from firm ones, because a total replaces them even where it is smaller
//! (docs/decisions/0025-approximate-usage-is-replaced.md).

use super::{RunBudget, SessionSpent};
use contract::amount::{self, counted, span};
use contract::event::{BudgetLevel, Remaining, RunReport, RunUsage, Totals, Usage};
use contract::money::Basis;
use contract::{NanoUsd, Tokens};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The agent is told once when it has used this share of any unit of its budget.
const SOFT_PERCENT: u128 = 80;
/// Models counted apart; further ones are counted together, so that names cannot fill the state.
const MODELS_MAX: usize = 64;
/// A longer name of a model is cut before it becomes a key.
const MODEL_CHARS_MAX: usize = 128;
/// The key of all models beyond `MODELS_MAX`; no real key has two slashes in front.
const OTHERS: &str = "//";
/// What those are called in the books.
const OTHERS_NAME: &str = "(others)";

/// What one usage added to the books of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booked {
    /// Empty when nobody said; bounded, and the agent's own words like the model.
    pub provider: String,
    pub model: String,
    pub tokens: Tokens,
    /// `None` when there is no price.
    pub nanousd: Option<NanoUsd>,
    /// Tokens were added and have no price.
    pub unpriced: bool,
    /// What was booked without a price before and is part of this priced total.
    pub covers: Covers,
    /// An increment that a later total replaces.
    pub approximate: bool,
    /// The approximate increments booked before that this total replaces.
    pub replaces: Covers,
    /// The agent spent more. A total after approximate increments only corrects what was known.
    pub is_payment: bool,
}

/// How far a total reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    Nothing,
    Model,
    Run,
}

/// What counts against a budget besides money and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    pub turns: u32,
    pub elapsed_ms: u64,
}

/// Where a run stands against its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub level: BudgetLevel,
    pub remaining: Remaining,
    /// The limit that is reached, in words.
    pub reached: Option<String>,
}

/// All spending of one run, from its usages in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    models: BTreeMap<String, Spent>,
    /// What the conversation had spent before this run, which a total of the session holds as well.
    #[serde(default)]
    before: BTreeMap<String, Spent>,
    /// Increments that a total of their model replaces.
    #[serde(default)]
    approximate: BTreeMap<String, Spent>,
    /// Approximate increments were booked in this run, so its totals are corrections.
    #[serde(default)]
    has_approximated: bool,
    /// The agent reported a usage with tokens or money in it, be it zero.
    #[serde(default)]
    was_told: bool,
    /// The agent reported tokens, be it none.
    #[serde(default)]
    has_tokens: bool,
    /// The key of the first usage that named a model.
    #[serde(default)]
    first_model: Option<String>,
    /// The provider and the model of each key. A name may hold a slash, so a key is never split: half of
    /// a name that is a secret would not be recognised by the seal.
    #[serde(default)]
    named: BTreeMap<String, (String, String)>,
    /// The model that the agent named for its conversation.
    #[serde(default)]
    session_model: Option<String>,
    /// As it was last reported.
    #[serde(default)]
    service_tier: Option<String>,
}

/// What one model has cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Spent {
    tokens: Tokens,
    nanousd: NanoUsd,
    /// Something here has a price that we know.
    priced: bool,
    /// Something here has none.
    unpriced: bool,
}

impl Ledger {
    /// The books of a run that goes on with a conversation.
    pub(super) fn after(session: &[SessionSpent]) -> Self {
        let mut before: BTreeMap<String, Spent> = BTreeMap::new();
        for SessionSpent { provider, model, tokens, nanousd } in session.iter().take(MODELS_MAX) {
            let spent = Spent {
                tokens: *tokens,
                nanousd: nanousd.unwrap_or_default(),
                priced: nanousd.is_some(),
                unpriced: nanousd.is_none() && tokens.total() > 0,
            };
            let known = before.entry(key(provider, model)).or_default();
            *known = known.plus(&spent);
        }
        Self { before, ..Self::default() }
    }

    /// The agent begins a new conversation instead.
    pub(super) fn forget_session(&mut self) {
        self.before.clear();
    }

    /// Books a usage. A total is booked as what it adds over what was seen of its model, and a
    /// total that names no model as what it adds over everything; approximate increments that it
    /// reaches are dropped. A total of a session holds what was spent before this run, too, which
    /// is not this run's to pay.
    pub fn book(&mut self, usage: &Usage) -> Option<Booked> {
        let tokens = usage.tokens.unwrap_or_default();
        let nanousd = usage.effective_nanousd.map(|amount| amount.max(NanoUsd(0)));
        self.was_told |= usage.tokens.is_some() || nanousd.is_some();
        self.has_tokens |= usage.tokens.is_some();
        let key = self.key(usage);
        self.note_names(usage, &key);
        let (provider, model) = names(&key, usage);
        let total = match usage.basis {
            Basis::Increment => false,
            Basis::RunTotal | Basis::SessionTotal => true,
        };
        let reach = match (total, &usage.model) {
            (false, _) => Covers::Nothing,
            (true, Some(_)) => Covers::Model,
            (true, None) => Covers::Run,
        };
        let replaces = self.drop_approximate(reach, &key);
        if tokens.total() == 0 && nanousd.is_none() && replaces == Covers::Nothing {
            return None;
        }
        let before = self.earlier(usage, &key);
        // A price of the whole cannot be told apart from that of a part which had none.
        let nanousd = nanousd.filter(|_| !before.unpriced);
        let seen = match reach {
            Covers::Nothing => Spent::default(),
            Covers::Model => self.models.get(&key).copied().unwrap_or_default().plus(&before),
            Covers::Run => sum(&self.models).plus(&before),
        };
        let added = tokens.minus(&seen.tokens);
        let covers = if nanousd.is_some() { reach } else { Covers::Nothing };
        self.forget_unpriced(covers, &key);
        let paid = nanousd.map(|amount| amount.saturating_sub(seen.nanousd).max(NanoUsd(0)));
        let unpriced = paid.is_none() && added.total() > 0;
        let says = unpriced || paid.is_some() || replaces != Covers::Nothing;
        if !says {
            return None;
        }
        let approximate = !total && usage.approximate == Some(true);
        self.has_approximated |= approximate;
        let models = if approximate { &mut self.approximate } else { &mut self.models };
        let spent = models.entry(key).or_default();
        *spent = spent.plus(&Spent {
            tokens: added,
            nanousd: paid.unwrap_or_default(),
            priced: paid.is_some(),
            unpriced,
        });
        let is_payment = !(total && self.has_approximated);
        Some(Booked {
            provider,
            model,
            tokens: added,
            nanousd: paid,
            unpriced,
            covers,
            approximate,
            replaces,
            is_payment,
        })
    }

    /// Drops the approximate increments that a total reaches, and says which those were.
    fn drop_approximate(&mut self, reach: Covers, key: &str) -> Covers {
        let dropped = match reach {
            Covers::Nothing => false,
            Covers::Model => self.approximate.remove(key).is_some(),
            Covers::Run => !std::mem::take(&mut self.approximate).is_empty(),
        };
        if dropped { reach } else { Covers::Nothing }
    }

    /// The agent reported tokens or money, be it none.
    pub fn was_told(&self) -> bool {
        self.was_told
    }

    /// Keeps what a usage says beside its figures.
    fn note_names(&mut self, usage: &Usage, key: &str) {
        if key != OTHERS && usage.model.as_ref().is_some_and(|model| !model.is_empty()) {
            self.named.entry(key.to_owned()).or_insert_with(|| names(key, usage));
            self.first_model.get_or_insert_with(|| key.to_owned());
        }
        if let Some(tier) = usage.service_tier.as_deref().filter(|tier| !tier.is_empty()) {
            self.service_tier = Some(tier.chars().take(MODEL_CHARS_MAX).collect());
        }
    }

    /// The agent named the model of its conversation.
    pub(super) fn name_model(&mut self, model: &str) {
        self.session_model = Some(model.chars().take(MODEL_CHARS_MAX).collect());
    }

    /// The tokens and the model of the run. Of several models the one counts that cost most; where
    /// one has no price, the one with the most tokens; without any tokens, the first one reported.
    pub fn report(&self) -> RunReport {
        let tokens = self.sum().tokens;
        let service_tier = self.service_tier.clone();
        // The state of a run from before this was kept has its tokens alone.
        let has_tokens = self.has_tokens || tokens.total() > 0;
        let usage = has_tokens.then_some(RunUsage { tokens, service_tier });
        let spent = |key: &String| {
            let of =
                |models: &BTreeMap<String, Spent>| models.get(key).copied().unwrap_or_default();
            of(&self.models).plus(&of(&self.approximate))
        };
        let keys: BTreeSet<&String> = self.models.keys().chain(self.approximate.keys()).collect();
        let is_named = |key: &&String| self.named.contains_key(*key);
        let named = keys.into_iter().filter(is_named).map(|key| (key, spent(key)));
        let named: Vec<_> = named.collect();
        let is_priced = !named.iter().any(|(_, spent)| spent.unpriced);
        let most = named.into_iter().max_by_key(|(_, spent)| {
            let paid = if is_priced { spent.nanousd } else { NanoUsd(0) };
            (paid, spent.tokens.total())
        });
        let most = most.filter(|(_, spent)| spent.nanousd > NanoUsd(0) || spent.tokens.total() > 0);
        let key = most.map(|(key, _)| key).or(self.first_model.as_ref());
        let (provider, model) = match key.and_then(|key| self.named.get(key)) {
            Some((provider, model)) => (provider.as_str(), Some(model.clone())),
            None => ("", self.session_model.clone()),
        };
        let provider = (!provider.is_empty()).then(|| provider.to_owned());
        RunReport { usage, model, provider, billing: None }
    }

    pub fn totals(&self) -> Totals {
        let sum = self.sum();
        Totals {
            tokens: sum.tokens,
            effective_nanousd: (sum.priced && !sum.unpriced).then_some(sum.nanousd),
        }
    }

    /// Where the spending stands. Money that has no price cannot be held against the budget.
    pub(super) fn standing(&self, budget: &RunBudget, used: Used) -> Standing {
        let sum = self.sum();
        let usd = budget.nanousd.map(|limit| (unsigned(sum.nanousd), unsigned(limit)));
        let tokens = budget.tokens.map(|limit| (sum.tokens.total(), limit));
        let turns = budget.turns.map(|limit| (u64::from(used.turns), u64::from(limit)));
        let time = budget.ms.map(|limit| (used.elapsed_ms, limit));
        let left = |unit: Option<(u64, u64)>| unit.map(|(used, limit)| limit.saturating_sub(used));
        let remaining = Remaining {
            nanousd: left(usd).map(|left| NanoUsd(i64::try_from(left).unwrap_or(i64::MAX))),
            tokens: left(tokens),
            turns: left(turns).map(|left| u32::try_from(left).unwrap_or(u32::MAX)),
            ms: left(time),
        };
        let full = |unit: Option<(u64, u64)>| unit.filter(|(used, limit)| used >= limit);
        // The last turn of a budget may be used to its end; only one beyond it is too many.
        let reached = full(usd)
            .map(|_| amount::dollars(budget.nanousd.unwrap_or_default()))
            .or_else(|| full(tokens).map(|(_, limit)| counted(limit, "token")))
            .or_else(|| turns.filter(|(used, limit)| used > limit).map(|(_, n)| counted(n, "turn")))
            .or_else(|| full(time).map(|(_, limit)| span(limit)));
        let soft = [usd, tokens, turns, time]
            .into_iter()
            .flatten()
            .any(|(used, limit)| u128::from(used) * 100 >= u128::from(limit) * SOFT_PERCENT);
        let level = match (reached.is_some(), soft) {
            (true, _) => BudgetLevel::Hard,
            (false, true) => BudgetLevel::Soft,
            (false, false) => BudgetLevel::Ok,
        };
        Standing { level, remaining, reached }
    }

    /// The budget that leaves as much as this, after what was used so far.
    pub(super) fn allowing(&self, budget: RunBudget, left: &Remaining, used: Used) -> RunBudget {
        let sum = self.sum();
        let nanousd = |left: NanoUsd| NanoUsd(sum.nanousd.0.saturating_add(left.0.max(0)));
        RunBudget {
            nanousd: left.nanousd.map(nanousd).or(budget.nanousd),
            tokens: left
                .tokens
                .map(|left| sum.tokens.total().saturating_add(left))
                .or(budget.tokens),
            turns: left.turns.map(|left| used.turns.saturating_add(left)).or(budget.turns),
            ms: left.ms.map(|left| used.elapsed_ms.saturating_add(left)).or(budget.ms),
        }
    }

    /// What a usage counts of the time before this run. A session's total that is smaller than what
    /// was spent before began anew with this run, whatever the agent calls it.
    fn earlier(&mut self, usage: &Usage, key: &str) -> Spent {
        match usage.basis {
            Basis::Increment | Basis::RunTotal => return Spent::default(),
            Basis::SessionTotal => {}
        }
        let before = match usage.model {
            Some(_) => self.before.get(key).copied().unwrap_or_default(),
            None => sum(&self.before),
        };
        if usage.tokens.is_some_and(|tokens| tokens.total() < before.tokens.total()) {
            self.forget_session();
            return Spent::default();
        }
        before
    }

    fn sum(&self) -> Spent {
        sum(&self.models).plus(&sum(&self.approximate))
    }

    fn key(&self, usage: &Usage) -> String {
        let provider = usage.provider.as_deref().unwrap_or_default();
        let key = key(provider, usage.model.as_deref().unwrap_or_default());
        let known = self.models.contains_key(&key) || self.approximate.contains_key(&key);
        let has_room = self.models.len().max(self.approximate.len()) < MODELS_MAX;
        if known || has_room { key } else { OTHERS.to_owned() }
    }

    /// A priced total covers the parts that had no price when they came.
    fn forget_unpriced(&mut self, covers: Covers, key: &str) {
        for (model, spent) in &mut self.models {
            spent.unpriced &= match covers {
                Covers::Nothing => true,
                Covers::Model => model != key,
                Covers::Run => false,
            };
        }
    }
}

impl Spent {
    fn plus(&self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.plus(&other.tokens),
            nanousd: self.nanousd.saturating_add(other.nanousd),
            priced: self.priced || other.priced,
            unpriced: self.unpriced || other.unpriced,
        }
    }
}

fn sum(models: &BTreeMap<String, Spent>) -> Spent {
    models.values().fold(Spent::default(), |sum, spent| sum.plus(spent))
}

fn key(provider: &str, model: &str) -> String {
    provider.chars().chain(['/']).chain(model.chars()).take(MODEL_CHARS_MAX).collect()
}

/// The first moment at which a budget of time is nearly used.
pub(super) fn soft_ms(limit_ms: u64) -> u64 {
    let soft = (u128::from(limit_ms) * SOFT_PERCENT).div_ceil(100);
    u64::try_from(soft).unwrap_or(u64::MAX)
}

/// Provider and model as the books call them.
fn names(key: &str, usage: &Usage) -> (String, String) {
    if key == OTHERS {
        return (String::new(), OTHERS_NAME.to_owned());
    }
    let bounded = |name: &Option<String>| {
        name.as_deref().unwrap_or_default().chars().take(MODEL_CHARS_MAX).collect()
    };
    (bounded(&usage.provider), bounded(&usage.model))
}

fn unsigned(amount: NanoUsd) -> u64 {
    amount.0.max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(model: &str, basis: Basis, output: u64, nanousd: Option<i64>) -> Usage {
        Usage {
            model: (!model.is_empty()).then(|| model.to_owned()),
            tokens: Some(Tokens { output, ..Tokens::default() }),
            basis,
            effective_nanousd: nanousd.map(NanoUsd),
            ..Usage::default()
        }
    }

    #[test]
    fn the_report_names_the_model_that_counts_most() {
        use Basis::Increment;
        let spent = |model: &str, output: u64, paid: Option<i64>| Usage {
            provider: Some("acme".to_owned()),
            ..usage(model, Increment, output, paid)
        };
        let nameless = usage("", Increment, 5, Some(9));
        let only_dollars = Usage { tokens: None, ..usage("", Increment, 0, Some(9)) };
        for (why, session, usages, model, tokens) in [
            ("nothing was reported", None, vec![], None, None),
            ("the session names it", Some("s"), vec![], Some("s"), None),
            ("dollars are not tokens", Some("s"), vec![only_dollars], Some("s"), None),
            ("a report of zero is one", None, vec![spent("a", 0, None)], Some("acme/a"), Some(0)),
            (
                "the highest spend, not the most tokens",
                Some("s"),
                vec![spent("a", 9, Some(1)), spent("b", 1, Some(5))],
                Some("acme/b"),
                Some(10),
            ),
            (
                "without all prices the most tokens",
                None,
                vec![spent("a", 9, None), spent("b", 1, Some(5))],
                Some("acme/a"),
                Some(10),
            ),
            ("usage without a model", Some("s"), vec![nameless], Some("s"), Some(5)),
        ] {
            let mut ledger = Ledger::default();
            if let Some(model) = session {
                ledger.name_model(model);
            }
            for usage in &usages {
                ledger.book(usage);
            }
            let report = ledger.report();
            let named = match (report.provider, report.model) {
                (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
                (_, model) => model,
            };
            let told = report.usage.map(|usage| usage.tokens.total());
            assert_eq!((named.as_deref(), told), (model, tokens), "{why}");
        }
    }

    /// Books each usage and compares tokens and money of the whole.
    fn check(why: &str, usages: &[Usage], expected: (u64, Option<i64>)) {
        let mut ledger = Ledger::default();
        let booked: Vec<_> = usages.iter().filter_map(|usage| ledger.book(usage)).collect();
        let totals = ledger.totals();
        let nanousd = totals.effective_nanousd.map(|amount| amount.0);
        assert_eq!((totals.tokens.total(), nanousd), expected, "{why}");
        let added = booked.iter().fold(Tokens::default(), |sum, row| sum.plus(&row.tokens));
        let paid: i64 = booked.iter().filter_map(|row| row.nanousd).map(|amount| amount.0).sum();
        assert_eq!(added, totals.tokens, "{why}: what was handed out adds up");
        assert_eq!(nanousd.unwrap_or(paid), paid, "{why}: and so does the money");
    }

    fn part(model: &str, output: u64, nanousd: Option<i64>) -> Usage {
        usage(model, Basis::Increment, output, nanousd)
    }

    fn total(model: &str, output: u64, nanousd: Option<i64>) -> Usage {
        usage(model, Basis::RunTotal, output, nanousd)
    }

    #[test]
    fn totals_and_increments_of_one_model_are_counted_once() {
        let part_of_a = part("a", 5, Some(1));
        check("nothing was reported", &[], (0, None));
        check("parts add up", &[part_of_a.clone(), part("a", 5, Some(2))], (10, Some(3)));
        check("a total replaces", &[total("a", 5, Some(1)), total("a", 8, Some(2))], (8, Some(2)));
        check("a total adds the rest", &[part_of_a, total("a", 8, Some(2))], (8, Some(2)));
        let shrunk = [total("a", 8, Some(2)), total("a", 5, Some(1))];
        check("a total that shrank adds nothing", &shrunk, (8, Some(2)));
    }

    #[test]
    fn each_model_has_its_own_total_and_no_model_means_all() {
        let session = usage("b", Basis::SessionTotal, 8, Some(2));
        check("two models", &[total("a", 5, Some(1)), session], (13, Some(3)));
        let all = [part("a", 5, Some(1)), part("b", 5, Some(1)), total("", 12, Some(5))];
        check("a total of everything", &all, (12, Some(5)));
    }

    #[test]
    fn a_conversation_that_goes_on_is_charged_only_for_what_this_run_adds() {
        let spent = |model: &str, output: u64, nanousd: Option<i64>| SessionSpent {
            provider: String::new(),
            model: model.to_owned(),
            tokens: Tokens { output, ..Tokens::default() },
            nanousd: nanousd.map(NanoUsd),
        };
        let session = |model: &str, output: u64, nanousd: Option<i64>| {
            usage(model, Basis::SessionTotal, output, nanousd)
        };
        let before = [spent("a", 100, Some(10)), spent("b", 50, Some(5))];
        let unpriced = [spent("a", 100, None)];
        type Row<'a> = (&'a str, &'a [SessionSpent], &'a [Usage], (u64, Option<i64>));
        let rows: &[Row<'_>] = &[
            (
                "what was before is not paid again",
                &before,
                &[session("a", 107, Some(12))],
                (7, Some(2)),
            ),
            (
                "nor in the second total",
                &before,
                &[session("a", 107, Some(12)), session("a", 109, Some(13))],
                (9, Some(3)),
            ),
            ("a total without a model", &before, &[session("", 160, Some(18))], (10, Some(3))),
            ("another model has its own past", &before, &[session("b", 51, Some(6))], (1, Some(1))),
            ("an increment has no past", &before, &[part("a", 7, Some(1))], (7, Some(1))),
            ("a total of the run neither", &before, &[total("a", 7, Some(1))], (7, Some(1))),
            (
                "a smaller total began anew",
                &before,
                &[session("a", 8, Some(1)), session("a", 200, Some(20))],
                (200, Some(20)),
            ),
            (
                "the price of a past without one is not guessed",
                &unpriced,
                &[session("a", 107, Some(12))],
                (7, None),
            ),
        ];
        for (why, before, usages, expected) in rows {
            let mut ledger = Ledger::after(before);
            let mut added = 0;
            for usage in *usages {
                added += ledger.book(usage).map_or(0, |booked| booked.tokens.total());
            }
            let totals = ledger.totals();
            let nanousd = totals.effective_nanousd.map(|amount| amount.0);
            assert_eq!((totals.tokens.total(), nanousd), *expected, "{why}");
            assert_eq!(added, expected.0, "{why}: what was handed out adds up");
        }
    }

    #[test]
    fn one_unpriced_part_makes_the_whole_unpriced() {
        let priced = part("a", 5, Some(1));
        check("another model", &[priced.clone(), part("b", 5, None)], (10, None));
        check("no tokens spend nothing", &[priced.clone(), part("b", 0, None)], (5, Some(1)));
        check("a total that adds nothing", &[priced, total("a", 5, None)], (5, Some(1)));
        let covered = [part("a", 5, None), total("a", 8, Some(4))];
        check("a priced total covers its parts", &covered, (8, Some(4)));
        check("free is not unpriced", &[part("a", 5, Some(0))], (5, Some(0)));
    }

    #[test]
    fn names_of_models_cannot_fill_the_state() {
        let mut ledger = Ledger::default();
        for n in 0..1000 {
            ledger.book(&usage(&format!("m{n}"), Basis::Increment, 1, Some(1)));
        }
        assert_eq!(ledger.models.len(), MODELS_MAX + 1);
        assert_eq!(ledger.totals().tokens.total(), 1000);
    }
}
