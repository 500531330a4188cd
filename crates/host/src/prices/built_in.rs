//! The table inside `genai-prices`: names by rules, prices by date and by the length of the prompt.
//! A calculation takes microseconds, so nothing is remembered between two. Its dollars are decimals
//! and become nano-dollars once, here. A price of nothing is taken for no price.

use contract::money::Basis;
use contract::{NanoUsd, Timestamp, Tokens};
use engine::rules::price::{Asked, BuiltIn, Cost, Price, plain_members};
use genai_prices::{Calculator, PriceRequest, Usage, UsageKey};
use std::time::{Duration, SystemTime};

/// Stands with every cost that was computed by this table.
pub const VERSION: &str = "genai-prices 0.2.1";

/// No price rises at so short a prompt.
const SHORT_TOKENS: f64 = 1_000.0;
/// No model takes a longer prompt, as far as the table does not say.
const WINDOW_TOKENS: u64 = 2_000_000;

/// The table, decoded.
#[derive(Clone, Copy)]
pub struct Catalogue(&'static Calculator);

/// A price, and which model of the table it is of.
struct Calculated {
    usd: f64,
    provider: String,
    model: String,
}

impl Catalogue {
    /// Decodes the table, which takes a moment. Without it there are no built-in prices.
    pub fn load() -> Option<Self> {
        std::panic::catch_unwind(Calculator::bundled).ok().map(Self)
    }

    /// Every model with a price, as `provider/model`, in nano-dollars for a million tokens.
    pub fn all(self, at: Timestamp) -> Vec<(String, Price)> {
        let mut found = Vec::new();
        for provider in self.0.providers() {
            for model in provider.models() {
                let unit = |tokens: Tokens| {
                    let usage = usage(&tokens, 1.0);
                    let request = PriceRequest::new(model.id(), &usage)
                        .with_provider_id(provider.id())
                        .with_timestamp(moment(at));
                    let usd = self.0.calculate(&request).ok()?.total_price;
                    NanoUsd::from_usd(usd * 1e6 / SHORT_TOKENS)
                };
                let count = SHORT_TOKENS as u64;
                let price = || {
                    Some(Price {
                        input: unit(Tokens { input_uncached: count, ..Tokens::default() })?,
                        cache_read: unit(Tokens { cache_read: count, ..Tokens::default() })?,
                        cache_write: unit(Tokens { cache_write: count, ..Tokens::default() })?,
                        output: unit(Tokens { output: count, ..Tokens::default() })?,
                    })
                };
                if let Some(price) = price().filter(|price| *price != Price::default()) {
                    found.push((format!("{}/{}", provider.id(), model.id()), price));
                }
            }
        }
        found
    }

    fn calculate(self, asked: &Asked<'_>, share: f64) -> Option<Calculated> {
        let usage = usage(asked.tokens, share);
        // `anthropic/claude-…` names its provider itself, as far as the table knows that one.
        let named = match (asked.provider, asked.model.split_once('/')) {
            (None, Some((provider, model))) => {
                let known = self.0.find_provider(Some(provider), None).ok().flatten();
                known.map(|_| (Some(provider), model))
            }
            _ => None,
        };
        let (provider, model) = named.unwrap_or((asked.provider, asked.model));
        let mut request = PriceRequest::new(model, &usage).with_timestamp(moment(asked.at));
        request.provider_id = provider;
        if let Some(tier) = asked.service_tier {
            request = request.with_price_context("service_tier", tier);
        }
        let found = self.0.calculate(&request).ok()?;
        Some(Calculated {
            usd: found.total_price / share,
            provider: found.provider_id,
            model: found.model_id,
        })
    }

    /// How much fits into one prompt of a model.
    fn window(self, provider: &str, model: &str) -> Option<u64> {
        let provider = self.0.find_provider(Some(provider), None).ok().flatten()?;
        provider.models().find(|known| known.id() == model)?.context_window()
    }
}

impl BuiltIn for Catalogue {
    fn version(&self) -> &str {
        VERSION
    }

    fn provider_of(&self, model: &str) -> Option<String> {
        let none = Usage::new();
        self.0.calculate(&PriceRequest::new(model, &none)).ok().map(|found| found.provider_id)
    }

    fn family(&self, provider: &str, family: &str) -> Vec<String> {
        let Some(provider) = self.0.find_provider(Some(provider), None).ok().flatten() else {
            return Vec::new();
        };
        let models = provider.models().map(|model| model.id());
        plain_members(family, models).into_iter().map(str::to_owned).collect()
    }

    /// Where a long prompt costs more, that holds for one call. Totals, and more than fits into a
    /// prompt, are many calls: they are priced as short ones, and as approximate where it matters.
    fn cost(&self, asked: &Asked<'_>) -> Option<Cost> {
        let whole = self.calculate(asked, 1.0)?;
        let input = asked.tokens.total().saturating_sub(asked.tokens.output);
        let most = self.window(&whole.provider, &whole.model).unwrap_or(WINDOW_TOKENS);
        let one_call = asked.basis == Basis::Increment && input <= most;
        let (usd, approximate) = match one_call {
            true => (whole.usd, false),
            false => {
                let share = (SHORT_TOKENS / asked.tokens.total() as f64).min(1.0);
                let short = self.calculate(asked, share)?;
                (short.usd, (short.usd - whole.usd).abs() > whole.usd * 1e-9)
            }
        };
        let nanousd = NanoUsd::from_usd(usd).filter(|amount| *amount > NanoUsd(0))?;
        Some(Cost { nanousd, approximate })
    }
}

/// In the words of the table, where all input counts as input and the cached part again as cached.
fn usage(tokens: &Tokens, share: f64) -> Usage {
    let input = tokens.input_uncached as f64 + tokens.cache_read as f64 + tokens.cache_write as f64;
    Usage::from([
        (UsageKey::INPUT_TOKENS, input * share),
        (UsageKey::CACHE_READ_TOKENS, tokens.cache_read as f64 * share),
        (UsageKey::CACHE_WRITE_TOKENS, tokens.cache_write as f64 * share),
        (UsageKey::OUTPUT_TOKENS, tokens.output as f64 * share),
    ])
}

fn moment(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.ms()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fifteenth of November 2026.
    const AT: Timestamp = Timestamp(1_794_700_800_000);

    fn cost(provider: &str, model: &str, tokens: Tokens, basis: Basis) -> Option<(i64, bool)> {
        let asked = Asked {
            provider: (!provider.is_empty()).then_some(provider),
            model,
            tokens: &tokens,
            basis,
            service_tier: None,
            at: AT,
        };
        let found = Catalogue::load().unwrap().cost(&asked)?;
        Some((found.nanousd.0, found.approximate))
    }

    fn tokens(input_uncached: u64, cache_read: u64, cache_write: u64, output: u64) -> Tokens {
        Tokens { input_uncached, cache_read, cache_write, output, reasoning: None }
    }

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
        let (_, rest) = lock.split_once("name = \"genai-prices\"\nversion = \"").unwrap();
        let version = rest.split('"').next().unwrap();
        assert_eq!(VERSION, format!("genai-prices {version}"));
    }

    #[test]
    fn every_bucket_has_its_price() {
        // Sonnet 5: 2, 0.2, 2.5 and 10 dollars for a million tokens.
        let all = tokens(1_000, 1_000, 1_000, 1_000);
        let exact = 2_000_000 + 200_000 + 2_500_000 + 10_000_000;
        for (provider, model) in [
            ("anthropic", "claude-sonnet-5"),
            ("", "claude-sonnet-5"),
            ("", "anthropic/claude-sonnet-5"),
            ("Anthropic", "claude-sonnet-5-20260101"),
        ] {
            let found = cost(provider, model, all, Basis::Increment);
            assert_eq!(found, Some((exact, false)), "{provider} {model}");
        }
    }

    #[test]
    fn what_the_table_does_not_know_has_no_price() {
        let some = tokens(1_000, 0, 0, 10);
        for (provider, model) in
            [("", "m"), ("", "large"), ("acme", "claude-sonnet-5"), ("", "acme/x"), ("", "")]
        {
            assert_eq!(cost(provider, model, some, Basis::Increment), None, "{provider} {model}");
        }
    }

    #[test]
    fn a_total_of_many_calls_is_not_one_long_prompt() {
        // Gemini 2.5 Pro costs more for prompts above 200,000 tokens.
        let long = tokens(400_000, 0, 0, 0);
        let one = cost("google", "gemini-2.5-pro", long, Basis::Increment).unwrap();
        let many = cost("google", "gemini-2.5-pro", long, Basis::RunTotal).unwrap();
        assert_eq!((one, many), ((1_000_000_000, false), (500_000_000, true)));
        let more_than_fits = tokens(40_000_000, 0, 0, 0);
        let found = cost("google", "gemini-2.5-pro", more_than_fits, Basis::Increment);
        assert_eq!(found, Some((50_000_000_000, true)));
    }

    #[test]
    fn the_list_has_the_common_names() {
        let all: std::collections::BTreeMap<_, _> =
            Catalogue::load().unwrap().all(AT).into_iter().collect();
        let usd = |dollars: f64| NanoUsd::from_usd(dollars).unwrap();
        let wanted = Price {
            input: usd(2.0),
            cache_read: usd(0.2),
            cache_write: usd(2.5),
            output: usd(10.0),
        };
        assert_eq!(all.get("anthropic/claude-sonnet-5"), Some(&wanted));
        assert!(all.len() > 500, "{} models", all.len());
    }
}
