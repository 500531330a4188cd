//! Prices from files that others publish: LiteLLM's `model_prices_and_context_window.json` and the
//! `api.json` of models.dev. Which of the two it is shows in its shape. A file is taken whole or
//! refused whole, with the path of the first fault; models without a price for tokens are left out.
//! Prices that rise with the prompt or the hour are read at their base. Pure: files are read by
//! whoever calls.

use contract::limits::{PRICE_NAME_BYTES_MAX, PRICES_MAX};
use contract::{Code, Fault, NanoUsd};
use engine::rules::price::{Imported, Price, PriceTable};
use serde_json::{Map, Value};

const MILLION: f64 = 1e6;

/// Providers that these files call otherwise than the built-in table does: theirs, then ours.
const OTHER_NAMES: &str = include_str!("provider_names.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    LiteLlm,
    ModelsDev,
}

impl Format {
    fn word(self) -> &'static str {
        match self {
            Self::LiteLlm => "litellm",
            Self::ModelsDev => "models.dev",
        }
    }
}

/// Reads a file of either kind, parsed already.
pub fn read(file: &Value) -> Result<Imported, Fault> {
    let root = object(file, "")?;
    let (format, prices) = match format(root) {
        Some(Format::LiteLlm) => (Format::LiteLlm, litellm(root)?),
        Some(Format::ModelsDev) => (Format::ModelsDev, models_dev(root)?),
        None => {
            return Err(Fault::new(
                Code::Usage,
                "neither LiteLLM's model_prices_and_context_window.json nor the api.json of \
                 models.dev",
            ));
        }
    };
    if prices.0.is_empty() {
        return Err(Fault::new(Code::Usage, "no model in it has a price for tokens"));
    }
    // The same file has the same version, however often it is imported.
    let hash = blake3::hash(file.to_string().as_bytes()).to_hex();
    Ok(Imported { version: format!("{} {}", format.word(), &hash.as_str()[..12]), prices })
}

fn format(root: &Map<String, Value>) -> Option<Format> {
    let has = |name: &str| root.values().any(|value| value.get(name).is_some());
    match (has("litellm_provider"), has("models")) {
        (true, _) => Some(Format::LiteLlm),
        (false, true) => Some(Format::ModelsDev),
        (false, false) => None,
    }
}

/// `{ "claude-x": { "litellm_provider": "anthropic", "input_cost_per_token": 3e-06, … } }`
fn litellm(root: &Map<String, Value>) -> Result<PriceTable, Fault> {
    let mut prices = PriceTable::default();
    for (name, entry) in root.iter().filter(|(name, _)| *name != "sample_spec") {
        let fields = object(entry, name)?;
        let path = |field: &str| format!("{name}.{field}");
        let unit = |field: &str| dollars(fields, field, MILLION, &path(field));
        let (Some(input), output) = (unit("input_cost_per_token")?, unit("output_cost_per_token")?)
        else {
            continue;
        };
        let provider = text(fields, "litellm_provider", &path("litellm_provider"))?;
        let model = name.strip_prefix(&format!("{provider}/")).unwrap_or(name);
        let price = Price {
            input,
            cache_read: unit("cache_read_input_token_cost")?.unwrap_or(input),
            cache_write: unit("cache_creation_input_token_cost")?.unwrap_or(input),
            // What writes nothing (embeddings) costs nothing to write.
            output: output.unwrap_or_default(),
        };
        keep(&mut prices, provider, model, price, name)?;
    }
    Ok(prices)
}

/// `{ "anthropic": { "models": { "claude-x": { "cost": { "input": 3, "output": 15, … } } } } }`
fn models_dev(root: &Map<String, Value>) -> Result<PriceTable, Fault> {
    let mut prices = PriceTable::default();
    for (provider, entry) in root {
        let models = format!("{provider}.models");
        let Some(listed) = object(entry, provider)?.get("models") else { continue };
        for (model, entry) in object(listed, &models)? {
            let at = format!("{models}.{model}");
            let Some(cost) = object(entry, &at)?.get("cost").filter(|cost| !cost.is_null()) else {
                continue;
            };
            let at = format!("{at}.cost");
            let fields = object(cost, &at)?;
            let unit = |field: &str| dollars(fields, field, 1.0, &format!("{at}.{field}"));
            let (Some(input), output) = (unit("input")?, unit("output")?) else { continue };
            let price = Price {
                input,
                cache_read: unit("cache_read")?.unwrap_or(input),
                cache_write: unit("cache_write")?.unwrap_or(input),
                output: output.unwrap_or_default(),
            };
            keep(&mut prices, provider, model, price, &at)?;
        }
    }
    Ok(prices)
}

fn keep(
    prices: &mut PriceTable,
    provider: &str,
    model: &str,
    price: Price,
    path: &str,
) -> Result<(), Fault> {
    let mut names = OTHER_NAMES.lines().filter_map(|line| line.split_once(' '));
    let provider = names.find(|(theirs, _)| *theirs == provider).map_or(provider, |it| it.1);
    let name = format!("{provider}/{model}");
    if name.len() > PRICE_NAME_BYTES_MAX {
        return Err(at(path, &format!("a name of more than {PRICE_NAME_BYTES_MAX} bytes")));
    }
    if prices.0.len() >= PRICES_MAX {
        return Err(at(path, &format!("more than {PRICES_MAX} prices")));
    }
    // What is listed as free is not known to be: it stays without a price.
    if price != Price::default() {
        prices.0.insert(name, price);
    }
    Ok(())
}

fn object<'v>(value: &'v Value, path: &str) -> Result<&'v Map<String, Value>, Fault> {
    value.as_object().ok_or_else(|| at(path, &format!("expected an object, found {}", kind(value))))
}

fn text<'v>(fields: &'v Map<String, Value>, name: &str, path: &str) -> Result<&'v str, Fault> {
    let found = fields.get(name).unwrap_or(&Value::Null);
    found.as_str().ok_or_else(|| at(path, &format!("expected a text, found {}", kind(found))))
}

/// Dollars for so many tokens, as nano-dollars for a million; null is the same as missing.
fn dollars(
    fields: &Map<String, Value>,
    name: &str,
    times: f64,
    path: &str,
) -> Result<Option<NanoUsd>, Fault> {
    let found = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(found) => found,
    };
    found.as_f64().and_then(|usd| NanoUsd::from_usd(usd * times)).map(Some).ok_or_else(|| {
        let shown: String = found.to_string().chars().take(40).collect();
        at(path, &format!("expected an amount of dollars, found {shown}"))
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn at(path: &str, what: &str) -> Fault {
    let path: String = path.chars().take(200).collect();
    let message = if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") };
    Fault::new(Code::Usage, message).with_hint("nothing was imported; the prices are as before")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn usd(amounts: [f64; 4]) -> Price {
        let [input, cache_read, cache_write, output] =
            amounts.map(|amount| NanoUsd::from_usd(amount).unwrap());
        Price { input, cache_read, cache_write, output }
    }

    #[test]
    fn both_kinds_of_file_give_the_same_prices() {
        let litellm = include_str!("fixtures/litellm.json");
        let models_dev = include_str!("fixtures/models_dev.json");
        let read_text = |text: &str| read(&serde_json::from_str(text).unwrap()).unwrap();
        let (one, two) = (read_text(litellm), read_text(models_dev));
        assert!(one.version.starts_with("litellm ") && two.version.starts_with("models.dev "));
        assert_eq!(one.prices.0["acme/large-1"], usd([3.0, 0.3, 3.75, 15.0]));
        assert_eq!(one.prices.0["google/small-1"], usd([0.1, 0.1, 0.1, 0.4]));
        assert_eq!(one.prices.0["router/acme/large-1"], usd([3.5, 3.5, 3.5, 16.0]));
        assert_eq!(one.prices, two.prices);
        assert_eq!(one.prices.0.len(), 3, "what has no price for tokens is left out");
    }

    #[test]
    fn a_bad_file_is_refused_whole_with_the_path_of_its_fault() {
        let good = json!({ "litellm_provider": "acme", "input_cost_per_token": 1e-6 });
        let with = |field: &str, value: Value| {
            let mut bad = good.clone();
            bad[field] = value;
            json!({ "good": good, "bad": bad })
        };
        let dev = |cost: Value| json!({ "acme": { "models": { "bad": { "cost": cost } } } });
        let rows = [
            (json!([]), "expected an object, found a list"),
            (
                json!({}),
                "neither LiteLLM's model_prices_and_context_window.json nor the api.json of models.dev",
            ),
            (json!({ "acme": { "models": {} } }), "no model in it has a price for tokens"),
            (json!({ "good": good, "bad": 1 }), "bad: expected an object, found a number"),
            (
                with("input_cost_per_token", json!("3e-6")),
                "bad.input_cost_per_token: expected an amount of dollars, found \"3e-6\"",
            ),
            (
                with("output_cost_per_token", json!(-1)),
                "bad.output_cost_per_token: expected an amount of dollars, found -1",
            ),
            (
                with("litellm_provider", json!(7)),
                "bad.litellm_provider: expected a text, found a number",
            ),
            (dev(json!(3)), "acme.models.bad.cost: expected an object, found a number"),
            (
                dev(json!({ "input": 1e300 })),
                "acme.models.bad.cost.input: expected an amount of dollars, found 1e+300",
            ),
            (json!({ "acme": { "models": [] } }), "acme.models: expected an object, found a list"),
        ];
        for (file, expected) in rows {
            let fault = read(&file).unwrap_err();
            assert_eq!((fault.code, fault.message.as_str()), (Code::Usage, expected), "{file}");
        }
        let long = "x".repeat(PRICE_NAME_BYTES_MAX);
        let fault = read(&json!({ long: good })).unwrap_err();
        assert!(fault.message.contains("a name of more than"), "{fault}");
    }
}
