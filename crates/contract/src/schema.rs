//! The contract as JSON Schema: one document, one definition per public shape, the fault table and
//! the limits beside them. Snapshot-tested, so that a change is seen and is additive.

use crate::{card::Card, command::Command, diagnosis, event::Event, fault, limits, plan};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The whole contract.
pub fn document() -> Value {
    let mut definitions = Map::new();
    let mut shapes = Map::new();
    shape::<Event>("event", &mut shapes, &mut definitions);
    shape::<Command>("command", &mut shapes, &mut definitions);
    shape::<Card>("card", &mut shapes, &mut definitions);
    shape::<plan::LaunchPlan>("launch_plan", &mut shapes, &mut definitions);
    shape::<plan::Adapter>("adapter", &mut shapes, &mut definitions);
    shape::<diagnosis::Diagnosis>("diagnosis", &mut shapes, &mut definitions);
    shape::<fault::Fault>("fault", &mut shapes, &mut definitions);
    shape::<crate::TaskState>("task_state", &mut shapes, &mut definitions);
    shape::<crate::RunState>("run_state", &mut shapes, &mut definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The contract of Ostler, version 1",
        "type": "object",
        "properties": shapes,
        "$defs": definitions,
        "x-faults": faults(),
        "x-limits": limits::ALL.iter().map(|(name, value, _)| (name.to_lowercase(), json!(value))).collect::<Map<_, _>>(),
    })
}

fn shape<T: JsonSchema>(
    name: &str,
    shapes: &mut Map<String, Value>,
    definitions: &mut Map<String, Value>,
) {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    if let Some(Value::Object(found)) = schema.remove("$defs") {
        definitions.extend(found);
    }
    schema.remove("$schema");
    shapes.insert(name.to_owned(), schema.to_value());
}

fn faults() -> Vec<Value> {
    fault::Code::ALL
        .iter()
        .map(|code| {
            let row = code.row();
            json!({ "code": row.word, "exit": row.exit, "http": row.http, "retry": row.retry, "message": row.message, "hint": row.hint })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Body, ENVELOPE_NAMES};
    use std::collections::BTreeSet;

    #[test]
    fn the_contract_is_this_schema() {
        insta::assert_json_snapshot!(document());
    }

    /// The kinds as the schema knows them: tag → names of its fields.
    fn kinds() -> Vec<(String, BTreeSet<String>)> {
        let document = document();
        let event = &document["properties"]["event"];
        let variants = event["oneOf"].as_array().expect("one schema per kind");
        variants
            .iter()
            .map(|variant| {
                let kind =
                    variant["properties"]["kind"]["const"].as_str().expect("a tag").to_owned();
                let mut names: BTreeSet<String> =
                    variant["properties"].as_object().unwrap().keys().cloned().collect();
                if let Some(reference) = variant["$ref"].as_str() {
                    let name = reference.rsplit('/').next().unwrap();
                    names.extend(
                        document["$defs"][name]["properties"].as_object().unwrap().keys().cloned(),
                    );
                }
                names.remove("kind");
                (kind, names)
            })
            .collect()
    }

    #[test]
    fn every_kind_of_the_list_is_in_the_schema() {
        let words: Vec<_> = kinds().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(words, Body::KINDS);
    }

    #[test]
    fn no_kind_uses_a_name_of_the_envelope() {
        for (kind, names) in kinds() {
            for name in ENVELOPE_NAMES {
                assert!(!names.contains(name), "{kind} uses {name}");
            }
        }
    }
}
