//! Money and tokens as an agent reports them. A `cost` is an increment unless it says
//! `cumulative: true`. Its buckets are disjoint: `inputTokens` excludes cached tokens, unless
//! `inputIncludesCached: true` says otherwise. Dollars that the agent states are taken as they are;
//! tokens without dollars stay unpriced here and are priced elsewhere. A number that cannot be
//! money is dropped with a complaint and never becomes money, and nothing is never taken for free.

use contract::event::Usage;
use contract::money::{Basis, CostSource, Extra};
use contract::{NanoUsd, Tokens};
use serde_json::{Map, Value};

/// More tokens than this were not spent in one run.
const TOKENS_MAX: u64 = 1_000_000_000_000;

/// What could be used, and what was dropped and why.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub usage: Option<Usage>,
    pub complaints: Vec<String>,
}

/// Reads the `cost` of a line. Its keys are camelCase; snake_case is accepted.
pub(super) fn read(cost: &Value) -> Reading {
    let fields = match cost {
        Value::Null => return Reading::default(),
        Value::Object(fields) if fields.is_empty() => return Reading::default(),
        Value::Object(fields) => fields,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let complaints = vec![format!("a cost is an object, and {} is none", shown(cost))];
            return Reading { usage: None, complaints };
        }
    };
    let mut reader = Reader { fields, complaints: Vec::new() };
    let usage = reader.usage();
    if usage.is_none() && reader.complaints.is_empty() {
        reader.complaints.push("a cost without tokens, usd or extras says nothing".to_owned());
    }
    Reading { usage, complaints: reader.complaints }
}

/// Checks a `usage` event that the agent states itself: who priced it is not its to say.
pub(super) fn check(mut usage: Usage) -> Reading {
    let mut complaints = Vec::new();
    let mut money = |name: &str, given: Option<NanoUsd>| match given {
        Some(NanoUsd(nano)) if nano < 0 => {
            complaints.push(format!("{name} of {nano} is not money and was dropped"));
            None
        }
        other => other,
    };
    let reported = money("reported_nanousd", usage.reported_nanousd);
    let effective = money("effective_nanousd", usage.effective_nanousd);
    usage.extras.retain(|extra| money("an extra", Some(extra.nanousd)).is_some());
    if usage.tokens.is_some_and(|tokens| tokens.total() > TOKENS_MAX) {
        complaints.push("the tokens are more than can be spent and were dropped".to_owned());
        usage.tokens = None;
    }
    usage.reported_nanousd = reported.or(effective);
    usage.effective_nanousd =
        reported.map(|reported| with_extras(reported, &usage.extras)).or(effective);
    usage.cost_source = source(usage.effective_nanousd);
    (usage.computed_nanousd, usage.price_version) = (None, None);
    Reading { usage: Some(usage), complaints }
}

fn source(effective: Option<NanoUsd>) -> CostSource {
    match effective {
        Some(_) => CostSource::Direct,
        None => CostSource::Unpriced,
    }
}

fn with_extras(usd: NanoUsd, extras: &[Extra]) -> NanoUsd {
    extras.iter().fold(usd, |sum, extra| sum.saturating_add(extra.nanousd))
}

/// The fields of one cost object.
struct Reader<'a> {
    fields: &'a Map<String, Value>,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn usage(&mut self) -> Option<Usage> {
        let tokens = self.tokens();
        let stated = self.get("usd", "usd").is_some();
        let reported = self.usd();
        let extras = self.extras();
        if tokens.is_none() && reported.is_none() && extras.is_empty() {
            return None;
        }
        let effective = match reported {
            Some(usd) => Some(with_extras(usd, &extras)),
            // Extras alone are the whole price; tokens, or dollars that were dropped, are not.
            None if tokens.is_none() && !stated => Some(with_extras(NanoUsd(0), &extras)),
            None => None,
        };
        Some(Usage {
            model: self.text("model"),
            provider: self.text("provider"),
            tokens,
            basis: if self.flag("cumulative", "cumulative") {
                Basis::RunTotal
            } else {
                Basis::Increment
            },
            reported_nanousd: reported,
            effective_nanousd: effective,
            cost_source: source(effective),
            extras,
            ..Usage::default()
        })
    }

    fn tokens(&mut self) -> Option<Tokens> {
        let input = self.count("inputTokens", "input_tokens");
        let output = self.count("outputTokens", "output_tokens");
        let cache_read = self.count("cacheReadTokens", "cache_read_tokens");
        let cache_write = self.count("cacheWriteTokens", "cache_write_tokens");
        let reasoning = self.count("reasoningTokens", "reasoning_tokens");
        let includes_cached = self.flag("inputIncludesCached", "input_includes_cached");
        if [input, output, cache_read, cache_write].iter().all(Option::is_none) {
            return None;
        }
        let (read, write) = (cache_read.unwrap_or(0), cache_write.unwrap_or(0));
        let mut input = input.unwrap_or(0);
        if includes_cached {
            if read + write > input {
                self.complaints.push(format!(
                    "inputTokens of {input} cannot include {} cached ones; none are left uncached",
                    read + write
                ));
            }
            input = input.saturating_sub(read + write);
        }
        Some(Tokens {
            input_uncached: input,
            cache_read: read,
            cache_write: write,
            output: output.unwrap_or(0),
            reasoning,
        })
    }

    fn extras(&mut self) -> Vec<Extra> {
        let rows = match self.get("extras", "extras") {
            None => return Vec::new(),
            Some(Value::Array(rows)) => rows.clone(),
            Some(other) => {
                self.complaints.push(format!("extras are a list, and {} is none", shown(other)));
                return Vec::new();
            }
        };
        let mut extras = Vec::new();
        for row in rows {
            let label = row.get("label").and_then(Value::as_str).unwrap_or("extra").to_owned();
            let usd = row.get("usd").unwrap_or(&Value::Null);
            match usd.as_f64().and_then(NanoUsd::from_usd) {
                Some(nanousd) => extras.push(Extra { label, nanousd }),
                None => self.drop(&format!("extras '{label}' usd"), usd, "money"),
            }
        }
        extras
    }

    fn usd(&mut self) -> Option<NanoUsd> {
        let given = self.get("usd", "usd")?.clone();
        let money = given.as_f64().and_then(NanoUsd::from_usd);
        if money.is_none() {
            self.drop("usd", &given, "money");
        }
        money
    }

    /// A number of tokens; some writers have only one kind of number, so 12.0 is 12.
    fn count(&mut self, name: &str, alias: &str) -> Option<u64> {
        let given = self.get(name, alias)?.clone();
        let whole = |number: f64| {
            (number.fract() == 0.0 && (0.0..=TOKENS_MAX as f64).contains(&number))
                .then_some(number as u64)
        };
        let count = given.as_u64().or_else(|| given.as_f64().and_then(whole));
        let count = count.filter(|count| *count <= TOKENS_MAX);
        if count.is_none() {
            self.drop(name, &given, "a number of tokens");
        }
        count
    }

    fn flag(&mut self, name: &str, alias: &str) -> bool {
        match self.get(name, alias) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                let other = other.clone();
                self.drop(name, &other, "true or false");
                false
            }
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.fields.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    /// A field by either of its names; null is the same as missing.
    fn get(&self, name: &str, alias: &str) -> Option<&Value> {
        self.fields.get(name).or_else(|| self.fields.get(alias)).filter(|value| !value.is_null())
    }

    fn drop(&mut self, name: &str, given: &Value, wanted: &str) {
        self.complaints.push(format!("{name} of {} is not {wanted} and was dropped", shown(given)));
    }
}

/// A foreign value in a complaint, short.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_cost_gives_its_usage_or_a_complaint() {
        let rows = [
            r#"{"model": "gemini-2.0-flash", "inputTokens": 15200, "outputTokens": 3100, "extras": [{"label": "image_gen", "usd": 0.12}]}"#,
            r#"{"usd": 0}"#,
            r#"{"usd": 0.25, "extras": [{"label": "search", "usd": 0.05}]}"#,
            r#"{"usd": 0.25, "inputTokens": 10, "outputTokens": 2, "cumulative": true}"#,
            r#"{"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4}"#,
            r#"{"inputTokens": 10, "cacheReadTokens": 6, "cacheWriteTokens": 1, "inputIncludesCached": true}"#,
            r#"{"inputTokens": 5, "cacheReadTokens": 6, "inputIncludesCached": true}"#,
            r#"{"inputTokens": 10.0, "outputTokens": 0, "reasoningTokens": 1}"#,
            r#"{"extras": [{"label": "tax", "usd": 0.01}, {"usd": 0.02}]}"#,
            r#"{"usd": -1}"#,
            r#"{"usd": -1, "extras": [{"label": "tax", "usd": 0.01}]}"#,
            r#"{"usd": 1e200, "inputTokens": 4}"#,
            r#"{"usd": "0.10"}"#,
            r#"{"inputTokens": -4, "outputTokens": 2.5}"#,
            r#"{"inputTokens": 18446744073709551615, "outputTokens": 7}"#,
            r#"{"inputTokens": 1, "cumulative": "yes"}"#,
            r#"{"extras": [{"label": "x", "usd": -0.5}, {"label": "y"}], "usd": 1}"#,
            r#"{"extras": {"usd": 1}}"#,
            r#"{"model": "m"}"#,
            r#"{"usd": null, "inputTokens": 2}"#,
            "{}",
            "null",
            "12",
        ];
        let mut shown = String::new();
        for row in rows {
            let Reading { usage, complaints } = read(&serde_json::from_str(row).unwrap());
            let usage = usage.map_or("nothing".to_owned(), |usage| json!(usage).to_string());
            shown.push_str(&format!("{row}\n    {usage}\n"));
            for complaint in complaints {
                shown.push_str(&format!("    ! {complaint}\n"));
            }
        }
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn an_agent_cannot_say_who_priced_its_usage() {
        let stated = json!({
            "reported_nanousd": 5, "effective_nanousd": 1, "computed_nanousd": 9,
            "cost_source": "built_in", "price_version": "v", "approximate": true,
            "extras": [{ "label": "a", "nanousd": 2 }, { "label": "b", "nanousd": -2 }],
        });
        let Reading { usage, complaints } = check(serde_json::from_value(stated).unwrap());
        let wanted = Usage {
            reported_nanousd: Some(NanoUsd(5)),
            effective_nanousd: Some(NanoUsd(7)),
            cost_source: CostSource::Direct,
            approximate: Some(true),
            extras: vec![Extra { label: "a".into(), nanousd: NanoUsd(2) }],
            ..Usage::default()
        };
        assert_eq!(usage, Some(wanted));
        assert_eq!(complaints, ["an extra of -2 is not money and was dropped"]);
    }
}
