//! What tokens cost by a table of prices. Dollars that the agent or its runtime gave as the truth
//! stay as they are; what no price is found for stays unpriced, which is null and never zero.
//! All arithmetic is in whole nano-dollars and rounds once.

use contract::event::Usage;
use contract::money::CostSource;
use contract::{NanoUsd, Tokens};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Prices by `provider/model`, or by a bare model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceTable(pub BTreeMap<String, Price>);

/// Nano-dollars for a million tokens of each bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Price {
    pub input: NanoUsd,
    pub cache_read: NanoUsd,
    pub cache_write: NanoUsd,
    pub output: NanoUsd,
}

/// How a price was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    ByModel,
    /// The adapter's `costModel` stands in for a model that the table does not know.
    ByCostModel,
}

/// Prices a usage in place. `cost_model` is the table's key that the adapter names for models that
/// the table does not know.
pub fn price(usage: &mut Usage, table: &PriceTable, cost_model: Option<&str>) {
    if usage.effective_nanousd.is_some() && is_given(usage.cost_source) {
        return;
    }
    let extras = usage.extras.iter().map(|extra| extra.nanousd);
    let extras = extras.fold(NanoUsd(0), NanoUsd::saturating_add);
    usage.computed_nanousd = None;
    usage.effective_nanousd = None;
    usage.approximate = None;
    usage.cost_source = CostSource::Unpriced;
    let Some(tokens) = usage.tokens.filter(|tokens| tokens.total() > 0) else {
        if !usage.extras.is_empty() {
            usage.effective_nanousd = Some(extras);
            usage.cost_source = CostSource::Direct;
        }
        return;
    };
    if let Some((price, found)) = find(table, usage, cost_model) {
        let computed = cost(&tokens, price);
        usage.computed_nanousd = Some(computed);
        usage.effective_nanousd = Some(computed.saturating_add(extras));
        usage.cost_source = CostSource::UserTable;
        usage.approximate = (found == Found::ByCostModel).then_some(true);
    }
}

fn is_given(source: CostSource) -> bool {
    match source {
        CostSource::Runtime | CostSource::Direct => true,
        CostSource::UserTable | CostSource::BuiltIn | CostSource::Unpriced => false,
    }
}

/// Exact `provider/model`, then the bare model, then the longest prefix among the models of the
/// `costModel`'s provider, then the `costModel` itself.
fn find<'a>(
    table: &'a PriceTable,
    usage: &Usage,
    cost_model: Option<&str>,
) -> Option<(&'a Price, Found)> {
    let model = usage.model.as_deref().filter(|model| !model.is_empty());
    let provider = usage.provider.as_deref();
    let cost_provider =
        cost_model.and_then(|key| key.split_once('/')).map(|(provider, _)| provider);
    let by_model = model.and_then(|model| {
        let exact = provider.and_then(|provider| table.0.get(&format!("{provider}/{model}")));
        exact
            .or_else(|| table.0.get(model))
            .or_else(|| bare(table, model, provider, cost_provider))
            .or_else(|| prefix(table, model, cost_provider?))
    });
    match by_model {
        Some(price) => Some((price, Found::ByModel)),
        None => Some((table.0.get(cost_model?)?, Found::ByCostModel)),
    }
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
mod tests {
    use super::*;
    use contract::money::Extra;

    fn table(keys: &[(&str, i64)]) -> PriceTable {
        let price = |output| Price { output: NanoUsd(output), ..Price::default() };
        PriceTable(keys.iter().map(|(key, output)| ((*key).to_owned(), price(*output))).collect())
    }

    fn usage(provider: &str, model: &str) -> Usage {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Usage {
            provider: named(provider),
            model: named(model),
            tokens: Some(Tokens { output: 1_000_000, ..Tokens::default() }),
            ..Usage::default()
        }
    }

    #[test]
    fn a_price_is_found_in_order_or_not_at_all() {
        let table = table(&[
            ("google/gemini-2.0", 1),
            ("google/gemini-2.0-flash-lite", 2),
            ("openai/gpt-4", 3),
            ("azure/gpt-4", 4),
            ("solo/opus", 5),
            ("bare-model", 6),
        ]);
        // provider, model, costModel → nano-dollars, approximate
        let rows = [
            ("openai", "gpt-4", None, Some((3, None))),
            ("azure", "gpt-4", Some("openai/gpt-4"), Some((4, None))),
            ("", "openai/gpt-4", None, Some((3, None))),
            ("any", "bare-model", None, Some((6, None))),
            ("", "opus", None, Some((5, None))),
            ("", "gpt-4", None, None),
            ("", "gpt-4", Some("azure/gpt-4"), Some((4, None))),
            ("other", "opus", None, None),
            ("", "gemini-2.0-flash", Some("google/gemini-2.0"), Some((1, None))),
            ("", "gemini-2.0-flash-lite-001", Some("google/gemini-2.0"), Some((2, None))),
            ("", "gemini-2.0-flash", None, None),
            ("", "gpt-4o", Some("openai/gpt-4"), Some((3, Some(true)))),
            ("", "gpt-4.1", Some("openai/gpt-4"), Some((3, Some(true)))),
            ("", "", Some("openai/gpt-4"), Some((3, Some(true)))),
            ("", "unheard-of", Some("openai/missing"), None),
            ("", "", None, None),
        ];
        for (provider, model, cost_model, expected) in rows {
            let mut usage = usage(provider, model);
            price(&mut usage, &table, cost_model);
            let found = usage.effective_nanousd.map(|amount| (amount.0, usage.approximate));
            assert_eq!(found, expected, "{provider} {model} {cost_model:?}");
            let source =
                if expected.is_some() { CostSource::UserTable } else { CostSource::Unpriced };
            assert_eq!(
                (usage.cost_source, usage.computed_nanousd),
                (source, usage.effective_nanousd)
            );
        }
    }

    #[test]
    fn given_dollars_stay_as_they_are() {
        let table = table(&[("m", 9)]);
        for (source, amount) in [(CostSource::Direct, 0), (CostSource::Runtime, 7)] {
            let mut given = Usage {
                cost_source: source,
                effective_nanousd: Some(NanoUsd(amount)),
                ..usage("", "m")
            };
            let before = given.clone();
            price(&mut given, &table, None);
            assert_eq!(given, before);
        }
    }

    #[test]
    fn dollars_that_are_only_shown_do_not_count() {
        let mut shown = Usage {
            cost_source: CostSource::Runtime,
            reported_nanousd: Some(NanoUsd(7)),
            ..usage("", "m")
        };
        price(&mut shown, &table(&[("m", 9)]), None);
        assert_eq!(
            (shown.effective_nanousd, shown.reported_nanousd),
            (Some(NanoUsd(9)), Some(NanoUsd(7)))
        );
    }

    #[test]
    fn extras_are_added_as_given_but_do_not_price_tokens() {
        let extras = vec![Extra { label: "search".to_owned(), nanousd: NanoUsd(5) }];
        let check = |tokens: Option<Tokens>, table: &PriceTable| {
            let mut usage = Usage { tokens, extras: extras.clone(), ..usage("", "m") };
            price(&mut usage, table, None);
            usage.effective_nanousd.map(|amount| amount.0)
        };
        let million = Some(Tokens { output: 1_000_000, ..Tokens::default() });
        assert_eq!(check(million, &table(&[("m", 9)])), Some(14));
        assert_eq!(check(million, &table(&[])), None);
        assert_eq!(check(None, &table(&[])), Some(5));
    }

    #[test]
    fn all_buckets_are_summed_before_the_one_rounding() {
        let price = Price {
            input: NanoUsd(1),
            cache_read: NanoUsd(1),
            cache_write: NanoUsd(1),
            output: NanoUsd(1),
        };
        let tokens = |each| Tokens {
            input_uncached: each,
            cache_read: each,
            cache_write: each,
            output: each,
            reasoning: None,
        };
        assert_eq!(cost(&tokens(125_000), &price), NanoUsd(1));
        assert_eq!(cost(&tokens(124_999), &price), NanoUsd(0));
        let dear = Price { output: NanoUsd(i64::MAX), ..price };
        assert_eq!(cost(&tokens(u64::MAX), &dear), NanoUsd(i64::MAX));
    }

    #[test]
    fn pricing_twice_changes_nothing() {
        let table = table(&[("m", 9)]);
        let mut once = usage("", "m");
        price(&mut once, &table, None);
        let mut twice = once.clone();
        price(&mut twice, &table, None);
        assert_eq!(once, twice);
    }
}
