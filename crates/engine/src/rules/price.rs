//! What tokens cost, in a fixed order: dollars that the agent or its runtime gave as the truth, the
//! person's own table, the one they imported, the built-in one by the model that was reported, then
//! all three by the adapter's `costModel`. What no price is found for stays unpriced, which is null
//! and never zero. Money is in whole nano-dollars and rounds once. The built-in table is known here
//! by its trait alone: the host loads it.

use contract::event::Usage;
use contract::money::{Basis, CostSource};
use contract::{NanoUsd, Timestamp, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Prices by `provider/model`, or by a bare model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceTable(pub BTreeMap<String, Price>);

/// Nano-dollars for a million tokens of each bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: NanoUsd,
    pub cache_read: NanoUsd,
    pub cache_write: NanoUsd,
    pub output: NanoUsd,
}

/// A table that came from a file, and the words by which it can be told from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    pub version: String,
    pub prices: PriceTable,
}

/// Everything a price can come from, in the order in which it is asked.
#[derive(Clone, Copy)]
pub struct Prices<'a> {
    pub user: &'a PriceTable,
    pub imported: Option<&'a Imported>,
    pub built_in: Option<&'a dyn BuiltIn>,
    /// The `provider/model` whose price stands in for a model without one.
    pub cost_model: Option<&'a str>,
    /// When the tokens were used.
    pub at: Timestamp,
}

/// The built-in table: it knows names by rules, dates, and prices that rise with the prompt.
pub trait BuiltIn {
    fn version(&self) -> &str;
    /// Whose model this is, when the name alone tells.
    fn provider_of(&self, model: &str) -> Option<String>;
    fn cost(&self, asked: &Asked<'_>) -> Option<Cost>;
    /// The plain members of a family of models (`plain_members`).
    fn family(&self, provider: &str, family: &str) -> Vec<String>;
}

/// What is to be priced by the built-in table.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub provider: Option<&'a str>,
    pub model: &'a str,
    pub tokens: &'a Tokens,
    pub basis: Basis,
    pub service_tier: Option<&'a str>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub nanousd: NanoUsd,
    /// Not all that decides the price is known.
    pub approximate: bool,
}

/// A price that was found, and where.
struct Found<'a> {
    cost: Cost,
    source: CostSource,
    version: Option<&'a str>,
}

impl<'a> Found<'a> {
    fn in_table(price: &Price, tokens: &Tokens, version: Option<&'a str>) -> Self {
        let cost = Cost { nanousd: cost(tokens, price), approximate: false };
        Self { cost, source: CostSource::UserTable, version }
    }
}

/// Prices a usage in place.
pub fn price(usage: &mut Usage, prices: &Prices<'_>) {
    if is_given(usage) {
        return;
    }
    let extras = usage.extras.iter().map(|extra| extra.nanousd);
    let extras = extras.fold(NanoUsd(0), NanoUsd::saturating_add);
    // What the agent said of its figures stays; what an earlier pricing said of its price does not.
    let told = usage.approximate == Some(true) && usage.computed_nanousd.is_none();
    usage.computed_nanousd = None;
    usage.effective_nanousd = None;
    usage.approximate = told.then_some(true);
    usage.price_version = None;
    usage.cost_source = CostSource::Unpriced;
    let Some(tokens) = usage.tokens.filter(|tokens| tokens.total() > 0) else {
        if !usage.extras.is_empty() {
            usage.effective_nanousd = Some(extras);
            usage.cost_source = CostSource::Direct;
        }
        return;
    };
    let found = by_model(usage, &tokens, prices).or_else(|| by_cost_model(usage, &tokens, prices));
    if let Some(Found { cost, source, version }) = found {
        usage.computed_nanousd = Some(cost.nanousd);
        usage.effective_nanousd = Some(cost.nanousd.saturating_add(extras));
        usage.cost_source = source;
        usage.price_version = version.map(str::to_owned);
        usage.approximate = (told || cost.approximate).then_some(true);
    }
}

/// Whether a usage can be priced right without the imported and the built-in table.
pub fn needs_no_table(usage: &Usage, user: &PriceTable, cost_model: Option<&str>) -> bool {
    is_given(usage)
        || usage.tokens.is_none_or(|tokens| tokens.total() == 0)
        || in_users(usage, user, cost_model).is_some()
}

fn is_given(usage: &Usage) -> bool {
    usage.effective_nanousd.is_some()
        && match usage.cost_source {
            CostSource::Runtime | CostSource::Direct => true,
            CostSource::UserTable | CostSource::BuiltIn | CostSource::Unpriced => false,
        }
}

/// The price of the model that was reported.
fn by_model<'a>(usage: &Usage, tokens: &Tokens, prices: &Prices<'a>) -> Option<Found<'a>> {
    if let Some(price) = in_users(usage, prices.user, prices.cost_model) {
        return Some(Found::in_table(price, tokens, None));
    }
    let model = reported(usage)?;
    if let Some(imported) = prices.imported {
        let known = || prices.built_in.and_then(|built_in| built_in.provider_of(model));
        let provider = usage.provider.clone().or_else(known);
        if let Some(price) = exact(&imported.prices, model, provider.as_deref())
            .or_else(|| bare(&imported.prices, model, provider.as_deref(), None))
        {
            return Some(Found::in_table(price, tokens, Some(&imported.version)));
        }
    }
    built_in(prices, usage, tokens, usage.provider.as_deref(), model)
}

/// The price of the model that the adapter names for those that have none.
fn by_cost_model<'a>(usage: &Usage, tokens: &Tokens, prices: &Prices<'a>) -> Option<Found<'a>> {
    let key = prices.cost_model?;
    let user = prices.user.0.get(key).map(|price| Found::in_table(price, tokens, None));
    let imported = || {
        let imported = prices.imported?;
        let price = imported.prices.0.get(key)?;
        Some(Found::in_table(price, tokens, Some(&imported.version)))
    };
    let (provider, model) = key.split_once('/').map_or((None, key), |(p, m)| (Some(p), m));
    let mut found = user
        .or_else(imported)
        .or_else(|| built_in(prices, usage, tokens, provider, model))
        .or_else(|| by_family(usage, tokens, prices, provider?, model))?;
    found.cost.approximate = true;
    Some(found)
}

/// The price of a family of models, such as `google/gemini-2.0`: of its plain members the dearest, so
/// that a budget errs on the safe side.
fn by_family<'a>(
    usage: &Usage,
    tokens: &Tokens,
    prices: &Prices<'a>,
    provider: &str,
    family: &str,
) -> Option<Found<'a>> {
    let in_table = |table: &'a PriceTable, version: Option<&'a str>| {
        let prefix = format!("{provider}/");
        let names = table.0.keys().filter_map(|key| key.strip_prefix(&prefix));
        let members = plain_members(family, names).into_iter();
        let found = members.filter_map(|model| {
            let price = table.0.get(&format!("{provider}/{model}"))?;
            Some(Found::in_table(price, tokens, version))
        });
        found.max_by_key(|found| found.cost.nanousd)
    };
    let imported = || prices.imported.and_then(|it| in_table(&it.prices, Some(&it.version)));
    let table = || {
        let members = prices.built_in?.family(provider, family);
        let found = members
            .iter()
            .filter_map(|model| built_in(prices, usage, tokens, Some(provider), model));
        found.max_by_key(|found| found.cost.nanousd)
    };
    in_table(prices.user, None).or_else(imported).or_else(table)
}

/// Whether a part of a model's name only tells its edition.
fn is_edition(part: &str) -> bool {
    let is_number = part.chars().all(|c| c.is_ascii_digit());
    is_number || matches!(part, "exp" | "experimental" | "preview" | "latest")
}

/// The members of a family of models that have the fewest further parts in their names:
/// `gemini-2.0-flash` is one of `gemini-2.0`, and `gemini-2.0-flash-lite` is not. Editions are none.
pub fn plain_members<'a>(family: &str, models: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let parts = |model: &'a str| {
        let rest = model.strip_prefix(family)?.strip_prefix('-')?;
        let is_member = !family.is_empty() && !rest.split('-').any(is_edition);
        is_member.then(|| (rest.split('-').count(), model))
    };
    let members: Vec<_> = models.filter_map(parts).collect();
    let fewest = members.iter().map(|(count, _)| *count).min();
    members
        .into_iter()
        .filter(|(count, _)| Some(*count) == fewest)
        .map(|(_, model)| model)
        .collect()
}

fn built_in<'a>(
    prices: &Prices<'a>,
    usage: &Usage,
    tokens: &Tokens,
    provider: Option<&str>,
    model: &str,
) -> Option<Found<'a>> {
    let table = prices.built_in?;
    let cost = table.cost(&Asked {
        provider,
        model,
        tokens,
        basis: usage.basis,
        service_tier: usage.service_tier.as_deref(),
        at: prices.at,
    })?;
    Some(Found { cost, source: CostSource::BuiltIn, version: Some(table.version()) })
}

fn reported(usage: &Usage) -> Option<&str> {
    usage.model.as_deref().filter(|model| !model.is_empty())
}

/// Exact `provider/model`, then the bare model, then the longest prefix among the models of the
/// `costModel`'s provider.
fn in_users<'t>(
    usage: &Usage,
    table: &'t PriceTable,
    cost_model: Option<&str>,
) -> Option<&'t Price> {
    let (model, provider) = (reported(usage)?, usage.provider.as_deref());
    let cost_provider =
        cost_model.and_then(|key| key.split_once('/')).map(|(provider, _)| provider);
    exact(table, model, provider)
        .or_else(|| bare(table, model, provider, cost_provider))
        .or_else(|| prefix(table, model, cost_provider?))
}

/// The model under its provider, or under its own name alone.
fn exact<'t>(table: &'t PriceTable, model: &str, provider: Option<&str>) -> Option<&'t Price> {
    provider
        .and_then(|provider| table.0.get(&format!("{provider}/{model}")))
        .or_else(|| table.0.get(model))
}

/// The model under any provider, as long as it is clear which one: the `costModel`'s, or the only
/// one that has it. A usage that names another provider is not meant.
fn bare<'a>(
    table: &'a PriceTable,
    model: &str,
    provider: Option<&str>,
    cost_provider: Option<&str>,
) -> Option<&'a Price> {
    if provider.is_some() {
        return None;
    }
    if let Some(price) = cost_provider.and_then(|name| table.0.get(&format!("{name}/{model}"))) {
        return Some(price);
    }
    let mut prices = table
        .0
        .iter()
        .filter(|(key, _)| key.split_once('/').is_some_and(|(_, name)| name == model))
        .map(|(_, price)| price);
    match (prices.next(), prices.next()) {
        (Some(price), None) => Some(price),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

/// A prefix ends where a part of the name ends: `gpt-4` is one of `gpt-4-0613`, not of `gpt-4o`.
fn prefix<'a>(table: &'a PriceTable, model: &str, cost_provider: &str) -> Option<&'a Price> {
    table
        .0
        .iter()
        .filter_map(|(key, price)| {
            let (provider, name) = key.split_once('/')?;
            let rest = model.strip_prefix(name).filter(|_| provider == cost_provider)?;
            let ends = rest.is_empty() || rest.starts_with(['-', ':', '@', '/']);
            (ends && !name.is_empty()).then_some((name.len(), price))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, price)| price)
}

/// Half a nano-dollar and more is rounded up.
fn cost(tokens: &Tokens, price: &Price) -> NanoUsd {
    const MILLION: i128 = 1_000_000;
    let sum = [
        (tokens.input_uncached, price.input),
        (tokens.cache_read, price.cache_read),
        (tokens.cache_write, price.cache_write),
        (tokens.output, price.output),
    ]
    .into_iter()
    .map(|(count, price)| i128::from(count) * i128::from(price.0.max(0)))
    .fold(MILLION / 2, i128::saturating_add);
    NanoUsd(i64::try_from(sum / MILLION).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
