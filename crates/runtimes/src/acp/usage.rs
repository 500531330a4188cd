//! Tokens as agents count them over ACP, put into disjoint buckets. Whether a vendor's input already
//! holds what came from the cache, and its output what was thought, is not said anywhere: the total
//! tells, because only one way of adding up comes to it. Prices and totals over turns are not kept
//! here.

use super::wire::{Counts, Prompted};
use contract::Tokens;
use serde::Deserialize as _;
use serde_json::Value;

/// The tokens of one turn and the model that used them, when it is named.
#[derive(Debug, PartialEq)]
pub(super) struct Spent {
    pub model: Option<String>,
    pub tokens: Tokens,
}

/// What a turn spent, from wherever its reply tells it: the protocol's own place first, because it
/// is the turn's alone, then what is told beside it, model by model where that is known.
pub(super) fn of_turn(reply: &Prompted) -> Vec<Spent> {
    let models = &reply.meta.quota.model_usage;
    if let Some(counts) = &reply.usage {
        let model = match models.as_slice() {
            [only] => only.model.clone(),
            _ => None,
        };
        return vec![Spent { model, tokens: tokens(counts) }];
    }
    let by_model: Vec<Spent> = models
        .iter()
        .filter_map(|row| {
            Some(Spent { model: row.model.clone(), tokens: tokens(&row.token_count?) })
        })
        .collect();
    if !by_model.is_empty() {
        return by_model;
    }
    let all = reply.meta.quota.token_count.iter();
    all.map(|counts| Spent { model: None, tokens: tokens(counts) }).collect()
}

/// What one answer of the model spent so far, where an update tells it beside the protocol.
pub(super) fn of_update(meta: Option<&Value>) -> Option<Tokens> {
    let counts = Counts::deserialize(meta?.get("usage")?).ok()?;
    Some(tokens(&counts)).filter(|tokens| tokens.total() > 0)
}

/// The buckets. Without a total that decides, input is taken to be what the cache did not hold and
/// output to be all that was written.
fn tokens(counts: &Counts) -> Tokens {
    let input = counts.input_tokens.unwrap_or(0);
    let output = counts.output_tokens.unwrap_or(0);
    let read = counts.cached_read_tokens.unwrap_or(0);
    let write = counts.cached_write_tokens.unwrap_or(0);
    let thought = counts.thought_tokens.unwrap_or(0);
    let cached = read.saturating_add(write);
    let ways = [(true, true), (true, false), (false, true), (false, false)];
    let sum = |(cache_apart, thought_inside): (bool, bool)| {
        let input = if cache_apart { input.saturating_add(cached) } else { input };
        let output = if thought_inside { output } else { output.saturating_add(thought) };
        input.saturating_add(output)
    };
    let fits = |way: &&(bool, bool)| counts.total_tokens == Some(sum(**way));
    let (cache_apart, thought_inside) = ways.iter().find(fits).copied().unwrap_or((true, true));
    Tokens {
        input_uncached: if cache_apart { input } else { input.saturating_sub(cached) },
        cache_read: read,
        cache_write: write,
        output: if thought_inside { output } else { output.saturating_add(thought) },
        reasoning: counts.thought_tokens.filter(|thought| *thought > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Real replies: the bridge to Claude, the bridge to Codex, Copilot, Hermes, OpenCode.
    #[test]
    fn the_total_tells_which_bucket_holds_which() {
        let rows = [
            (json!([24, 44, 11_866, 11_792, null, 23_726]), [24, 11_866, 11_792, 44]),
            (json!([10_858, 43, 10_909, 0, 0, 21_810]), [10_858, 10_909, 0, 43]),
            (json!([21_591, 53, 10_820, 0, 0, 21_644]), [10_771, 10_820, 0, 53]),
            (json!([25_235, 44, 12_631, null, 0, 25_279]), [12_604, 12_631, 0, 44]),
            (json!([7_783, 8, null, null, 18, 7_809]), [7_783, 0, 0, 26]),
            (json!([10_799, 26, 0, 0, 18, 10_825]), [10_799, 0, 0, 26]),
            (json!([5, 7, 3, null, null, null]), [5, 3, 0, 7]),
        ];
        for (row, expected) in rows {
            let at = |index: usize| row[index].as_u64();
            let counts = Counts {
                input_tokens: at(0),
                output_tokens: at(1),
                cached_read_tokens: at(2),
                cached_write_tokens: at(3),
                thought_tokens: at(4),
                total_tokens: at(5),
            };
            let Tokens { input_uncached, cache_read, cache_write, output, .. } = tokens(&counts);
            assert_eq!([input_uncached, cache_read, cache_write, output], expected, "{row}");
            if let Some(total) = at(5) {
                assert_eq!(tokens(&counts).total(), total, "{row}");
            }
        }
    }

    #[test]
    fn tokens_are_found_in_every_place_agents_put_them() {
        let read = |reply: serde_json::Value| of_turn(&serde_json::from_value(reply).unwrap());
        let one = |model: Option<&str>, input, output| Spent {
            model: model.map(str::to_owned),
            tokens: Tokens { input_uncached: input, output, ..Tokens::default() },
        };
        let quota = json!({ "quota": {
            "token_count": { "input_tokens": 30, "output_tokens": 3 },
            "model_usage": [
                { "model": "a", "token_count": { "input_tokens": 10, "output_tokens": 1 } },
                { "model": "b", "token_count": { "inputTokens": 20, "outputTokens": 2 } },
            ],
        }});
        assert_eq!(read(json!({ "_meta": quota })), [one(Some("a"), 10, 1), one(Some("b"), 20, 2)]);
        let usage = json!({ "inputTokens": 7, "outputTokens": 1 });
        assert_eq!(read(json!({ "usage": usage, "_meta": quota })), [one(None, 7, 1)]);
        let count = json!({ "quota": { "token_count": { "input_tokens": 4 }, "model_usage": [] } });
        assert_eq!(read(json!({ "_meta": count })), [one(None, 4, 0)]);
        let empty = json!({ "quota": { "token_count": null, "model_usage": [] } });
        assert_eq!(read(json!({ "usage": null, "_meta": null })), []);
        assert_eq!(read(json!({ "usage": null, "_meta": empty })), []);
    }
}
