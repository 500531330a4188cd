//! Which price counts, and how it is rounded.

use super::*;
use contract::money::Extra;

/// Knows `gpt-4o` and all of `acme` at 100 nano-dollars a token.
struct Shelf;

impl BuiltIn for Shelf {
    fn version(&self) -> &str {
        "shelf 1"
    }

    fn provider_of(&self, model: &str) -> Option<String> {
        model.starts_with("gpt").then(|| "openai".to_owned())
    }

    fn family(&self, provider: &str, family: &str) -> Vec<String> {
        let models = ["gpt-4o", "gpt-4o-mini", "gpt-5"];
        let members = plain_members(family, models.into_iter().filter(|_| provider == "openai"));
        members.into_iter().map(str::to_owned).collect()
    }

    fn cost(&self, asked: &Asked<'_>) -> Option<Cost> {
        let known = asked.provider == Some("acme") || asked.model == "gpt-4o";
        let nanousd = NanoUsd(100 * i64::try_from(asked.tokens.total()).ok()?);
        known.then_some(Cost { nanousd, approximate: asked.basis != Basis::Increment })
    }
}

fn only<'a>(user: &'a PriceTable, cost_model: Option<&'a str>) -> Prices<'a> {
    Prices { user, imported: None, built_in: None, cost_model, at: Timestamp(0) }
}

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
        price(&mut usage, &only(&table, cost_model));
        let found = usage.effective_nanousd.map(|amount| (amount.0, usage.approximate));
        assert_eq!(found, expected, "{provider} {model} {cost_model:?}");
        let source = if expected.is_some() { CostSource::UserTable } else { CostSource::Unpriced };
        assert_eq!((usage.cost_source, usage.computed_nanousd), (source, usage.effective_nanousd));
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
        price(&mut given, &only(&table, None));
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
    price(&mut shown, &only(&table(&[("m", 9)]), None));
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
        price(&mut usage, &only(table, None));
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
    price(&mut once, &only(&table, None));
    let mut twice = once.clone();
    price(&mut twice, &only(&table, None));
    assert_eq!(once, twice);
}

#[test]
fn the_tables_are_asked_in_their_order() {
    let user = table(&[("mine", 1), ("openai/standin", 4)]);
    let imported = Imported {
        version: "file 7".to_owned(),
        prices: table(&[("openai/gpt-4", 2), ("azure/gpt-4", 3), ("openai/mine", 5)]),
    };
    // provider, model, costModel → nano-dollars, source, version, approximate
    let (own, built_in) = (CostSource::UserTable, CostSource::BuiltIn);
    let (file, shelf) = (Some("file 7"), Some("shelf 1"));
    let rows = [
        ("", "mine", None, Some((1, own, None, None))),
        ("", "gpt-4", None, Some((2, own, file, None))),
        ("azure", "gpt-4", None, Some((3, own, file, None))),
        ("", "openai/gpt-4", None, Some((2, own, file, None))),
        ("acme", "any", None, Some((100_000_000, built_in, shelf, None))),
        ("", "gpt-4o", None, Some((100_000_000, built_in, shelf, None))),
        ("", "gpt-4o", Some("openai/standin"), Some((100_000_000, built_in, shelf, None))),
        ("", "other", Some("openai/standin"), Some((4, own, None, Some(true)))),
        ("", "other", Some("azure/gpt-4"), Some((3, own, file, Some(true)))),
        ("", "other", Some("acme/x"), Some((100_000_000, built_in, shelf, Some(true)))),
        ("", "", Some("acme/x"), Some((100_000_000, built_in, shelf, Some(true)))),
        ("", "other", Some("nobody/x"), None),
        ("", "other", None, None),
    ];
    for (provider, model, cost_model, expected) in rows {
        let mut usage = usage(provider, model);
        let prices =
            Prices { imported: Some(&imported), built_in: Some(&Shelf), ..only(&user, cost_model) };
        price(&mut usage, &prices);
        let found = usage.effective_nanousd.map(|amount| {
            (amount.0, usage.cost_source, usage.price_version.as_deref(), usage.approximate)
        });
        assert_eq!(found, expected, "{provider} {model} {cost_model:?}");
    }
}

#[test]
fn only_what_the_other_tables_could_price_waits_for_them() {
    let user = table(&[("mine", 1)]);
    let given = Usage {
        cost_source: CostSource::Direct,
        effective_nanousd: Some(NanoUsd(1)),
        ..usage("", "other")
    };
    let rows = [
        (usage("", "mine"), true),
        (given, true),
        (Usage { tokens: None, ..usage("", "other") }, true),
        (usage("", "other"), false),
    ];
    for (usage, ready) in rows {
        assert_eq!(needs_no_table(&usage, &user, None), ready, "{usage:?}");
    }
}

#[test]
fn a_family_takes_its_plain_member() {
    let models = [
        "gemini-2.0-flash",
        "gemini-2.0-flash-lite",
        "gemini-2.0-001",
        "gemini-2.0-exp",
        "gemini-2.5-pro",
        "gemini-2.0x-pro",
    ];
    let members = |family| plain_members(family, models.into_iter());
    assert_eq!(members("gemini-2.0"), ["gemini-2.0-flash"]);
    assert_eq!(members("gemini-2.0-flash"), ["gemini-2.0-flash-lite"]);
    assert_eq!(members("gemini-3"), [""; 0]);
    assert_eq!(members(""), [""; 0]);
}

#[test]
fn the_cost_model_may_be_a_family() {
    let user = table(&[("acme/large-pro", 3_000_000), ("acme/large-air", 1_000_000)]);
    let none = PriceTable::default();
    let built_in = |cost_model| Prices { built_in: Some(&Shelf), ..only(&none, Some(cost_model)) };
    for (why, prices, expected) in [
        ("the dearest of two plain members", only(&user, Some("acme/large")), Some(30)),
        ("of the built-in table", built_in("openai/gpt"), Some(1_000)),
        ("no such family", built_in("openai/o"), None),
        ("no provider", only(&user, Some("large")), None),
    ] {
        let mut given = Usage {
            tokens: Some(Tokens { output: 10, ..Tokens::default() }),
            ..usage("", "unknown")
        };
        price(&mut given, &prices);
        let told = given.effective_nanousd.map(|nano| nano.0);
        assert_eq!((told, given.approximate), (expected, expected.map(|_| true)), "{why}");
    }
}
