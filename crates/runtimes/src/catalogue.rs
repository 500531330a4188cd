//! Everything that can be run without a configuration, as whole cards: the runtimes of the registry and
//! the agents that are known by an ACP name. A whole card lists every key that its adapter takes, its
//! own and the common ones, from the one schema of `contract::config`. The pages of `docs/runtimes`,
//! `GET /api/v1/runtimes`, `ostler runtimes` and the tool `list_runtimes` are made from these.

use crate::{acp, registry};
use contract::Card;
use contract::config::words::AdapterType;
use contract::config::{adapter_keys, is_common_key};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The whole card of this name.
pub fn find(id: &str) -> Option<Card> {
    let card = match registry::find(id) {
        Some(runtime) => runtime.card(),
        None => acp::cards::card(acp::cards::find(id)?),
    };
    Some(whole(card))
}

/// The cards of the runtimes, in the order people see. They are not whole.
pub fn runtimes() -> impl Iterator<Item = Card> {
    registry::all().iter().map(|runtime| runtime.card())
}

/// The cards of the agents that are known by an ACP name. They are not whole.
pub fn by_acp_name() -> impl Iterator<Item = Card> {
    acp::cards::all().map(acp::cards::card)
}

/// The card with every key that its adapter takes.
pub fn whole(mut card: Card) -> Card {
    card.config_schema = keys(&card);
    card
}

/// The keys of an adapter that uses this card, its own first in meaning: what the card says of a key is
/// more than what the schema says of it.
fn keys(card: &Card) -> BTreeMap<String, Value> {
    let kind = card.kind();
    let takes = |name: &str| match (kind, name) {
        (_, "type") => true,
        (AdapterType::Cli, "runtime") => true,
        (AdapterType::Cli, "lane") => card.lanes.len() > 1,
        // What a native runtime does not list, it does not heed.
        (AdapterType::Cli, name) => is_common_key(name) || card.config_schema.contains_key(name),
        (AdapterType::Process | AdapterType::Acp | AdapterType::Http, _) => true,
    };
    let mut keys = adapter_keys(kind);
    keys.retain(|name, _| takes(name));
    // A card on its second lane has the keys of its first as well.
    for (name, own) in card.config_schema.iter().filter(|(name, _)| !kind.refuses(name)) {
        let known = keys.entry(name.clone()).or_insert_with(|| json!({}));
        if let (Value::Object(known), Value::Object(own)) = (known, own) {
            // The schema knows defaults and words where the card has none.
            known.extend(own.clone());
        }
    }
    if let Some(Value::Object(binary)) = keys.get_mut("binary")
        && let Some(required) = card.requires.first()
    {
        binary.insert("default".to_owned(), required.binary.clone().into());
    }
    if kind == AdapterType::Cli
        && let Some(Value::Object(runtime)) = keys.get_mut("runtime")
    {
        runtime.insert("const".to_owned(), card.id.clone().into());
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_cards_describe_every_key() {
        for card in runtimes().chain(by_acp_name()) {
            let card = whole(card);
            for common in ["type", "env", "model", "permission", "timeoutSec"] {
                assert!(card.config_schema.contains_key(common), "{}: {common}", card.id);
            }
            for (name, schema) in &card.config_schema {
                let says = schema["description"].as_str().unwrap_or_default();
                assert!(!says.is_empty(), "{}: {name} is not described", card.id);
            }
        }
        let demo = find("demo").expect("the demo").config_schema;
        assert!(!demo.contains_key("binary"), "{demo:?}");
        let known = find("kimi-acp").expect("a known agent");
        assert_eq!(known.requires[0].binary, "kimi");
        assert_eq!(known.config_schema["binary"]["default"], "kimi");
        assert!(find("nobody").is_none());
    }

    #[test]
    fn every_card_says_when_to_use_it_and_where_its_models_are_known_from() {
        for card in runtimes() {
            for reasons in [&card.use_when, &card.dont_use_when] {
                let lines: Vec<_> =
                    reasons.lines().filter(|line| !line.trim().is_empty()).collect();
                assert!(lines.len() >= 3, "{}: {reasons}", card.id);
            }
            assert!(!card.models_source.is_empty(), "{}: models", card.id);
            let default = card.default_model.as_ref();
            let is_listed = |id: &String| card.models.iter().any(|model| model.id == *id);
            assert!(default.is_none_or(is_listed), "{}: {default:?}", card.id);
        }
    }
}
