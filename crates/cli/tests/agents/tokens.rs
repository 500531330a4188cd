//! What the model said it spent, in the buckets of the contract, beside what a run says.

use crate::clis::Cli;
use serde_json::{Value, json};

/// The sum over all answers that were given whole. A model that knows no writing into a cache counts
/// those tokens as input, and one whose thoughts stand beside its output has them added to it.
pub fn reported(cli: &Cli, requests: &[Value]) -> Value {
    let (mut input, mut read, mut write, mut output) = (0, 0, 0, 0);
    let counted = |request: &&Value| cli.side_calls || request["aux"] != true;
    for request in requests.iter().filter(counted).filter(|one| one["usage"].is_object()) {
        let count = |name: &str| request["usage"][name].as_u64().unwrap_or_default();
        match request["proto"].as_str() {
            Some("anthropic") => write += count("cache_create"),
            _ => input += count("cache_create"),
        }
        if request["proto"] == "gemini" {
            output += count("reasoning");
        }
        input += count("input");
        read += count("cache_read");
        output += count("output");
    }
    json!({ "input_uncached": input, "cache_read": read, "cache_write": write, "output": output })
}

/// The same, where all input is in one bucket.
pub fn undivided(mut reported: Value) -> Value {
    let names = ["input_uncached", "cache_read", "cache_write"];
    let sum: u64 = names.iter().filter_map(|name| reported[name].as_u64()).sum();
    for name in names {
        reported[name] = json!(if name == "input_uncached" { sum } else { 0 });
    }
    reported
}

/// The same buckets of a run's result.
pub fn told(result: &Value) -> Value {
    let tokens = &result["totals"]["tokens"];
    let count = |name: &str| tokens[name].as_u64().unwrap_or_default();
    json!({
        "input_uncached": count("input_uncached"),
        "cache_read": count("cache_read"),
        "cache_write": count("cache_write"),
        "output": count("output"),
    })
}
