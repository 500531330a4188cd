//! The models that a program names by itself: what it printed, read by the way that its card says
//! (`contract::card::ModelList`). Pure: the program is run by `host::diagnose`. What it prints is
//! untrusted, so the list is bounded and odd names are left out.

use crate::acp::mode_trial;
use contract::card::{Model, ModelColumn, ModelList};
use contract::limits::MODELS_LISTED_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest name of a model that is believed to be one.
const NAME_CHARS_MAX: usize = 200;

/// What a program told of its models.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ModelListing {
    pub models: Vec<Model>,
    /// The one it takes when none is named, where it tells that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
}

/// Reads the models from everything that the program printed on its standard output.
pub fn listing(list: &ModelList, printed: &str) -> ModelListing {
    let mut found = match list {
        ModelList::Command { column, .. } => of_lines(*column, printed),
        ModelList::Session => reply(printed).map(|reply| of_session(&reply)).unwrap_or_default(),
        ModelList::Request { .. } => {
            reply(printed).map(|reply| of_data(&reply)).unwrap_or_default()
        }
    };
    found.models.retain(|model| is_name(&model.id));
    found.models.truncate(MODELS_LISTED_MAX);
    found.default_model = found.default_model.filter(|id| is_name(id));
    found
}

fn is_name(id: &str) -> bool {
    !id.is_empty()
        && id.chars().count() <= NAME_CHARS_MAX
        && !id.chars().any(|c| c.is_control() || c.is_whitespace())
}

fn model(id: &str, label: &str) -> Model {
    let label: String = label.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    Model { id: id.to_owned(), label }
}

fn of_lines(column: ModelColumn, printed: &str) -> ModelListing {
    let lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let models = match column {
        // Whatever has blanks is a sentence and no model.
        ModelColumn::Line => lines.map(|line| model(line, line)).collect(),
        ModelColumn::ProviderModel => lines.skip(1).filter_map(of_row).collect(),
    };
    ModelListing { models, default_model: None }
}

/// A row of a table whose first two columns are the provider and the model.
fn of_row(line: &str) -> Option<Model> {
    let mut words = line.split_whitespace();
    let (provider, name) = (words.next()?, words.next()?);
    Some(model(&format!("{provider}/{name}"), name))
}

/// The result of the request that was said after the greeting.
fn reply(printed: &str) -> Option<Value> {
    let line = printed.lines().find(|line| mode_trial::answers(line, mode_trial::OPEN_ID))?;
    // A reply that is no JSON was found by no id.
    serde_json::from_str::<Value>(line).ok()?.get("result").cloned()
}

/// A session of ACP names its models as an option of the category `model`, or as `models`.
fn of_session(opened: &Value) -> ModelListing {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let options = opened["configOptions"].as_array().into_iter().flatten();
    let mut options = options.filter(|it| it["category"] == "model" || it["id"] == "model");
    if let Some(option) = options.next() {
        let values = option["options"].as_array().into_iter().flatten();
        // Values may stand in groups.
        let values = values.flat_map(|value| match value["options"].as_array() {
            Some(group) => group.iter().collect(),
            None => vec![value],
        });
        let models = values.filter_map(|it| named(&it["value"], &it["name"])).collect();
        return ModelListing { models, default_model: text(&option["currentValue"]) };
    }
    let models = opened["models"]["availableModels"].as_array().into_iter().flatten();
    let models = models.filter_map(|it| named(&it["modelId"], &it["name"])).collect();
    ModelListing { models, default_model: text(&opened["models"]["currentModelId"]) }
}

/// An answer with `data`, of which one may be the default.
fn of_data(answer: &Value) -> ModelListing {
    let rows = || answer["data"].as_array().into_iter().flatten();
    let models = rows().filter_map(|it| named(&it["id"], &it["displayName"])).collect();
    let default = rows().find(|it| it["isDefault"] == true);
    let default_model = default.and_then(|it| it["id"].as_str()).map(str::to_owned);
    ModelListing { models, default_model }
}

fn named(id: &Value, label: &Value) -> Option<Model> {
    let id = id.as_str()?;
    Some(model(id, label.as_str().unwrap_or(id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ids(found: &ModelListing) -> Vec<&str> {
        found.models.iter().map(|model| model.id.as_str()).collect()
    }

    #[test]
    fn models_are_read_from_what_programs_print() {
        let lines = ModelList::Command { args: Vec::new(), column: ModelColumn::Line };
        let printed = "opencode/big-pickle\nThere was a problem\n\nfake/fake-model\n";
        assert_eq!(ids(&listing(&lines, printed)), ["opencode/big-pickle", "fake/fake-model"]);
        let table = ModelList::Command { args: Vec::new(), column: ModelColumn::ProviderModel };
        let printed = "provider   model    context\nanthropic  opus-5   1M\nfake  m  4K\n";
        assert_eq!(ids(&listing(&table, printed)), ["anthropic/opus-5", "fake/m"]);
        let data = ModelList::Request { say: String::new() };
        let answer = json!({ "id": 1, "result": { "data": [
            { "id": "gpt-6-sol", "displayName": "6 Sol", "isDefault": true },
            { "id": "bad name" }, { "id": 7 },
        ] } });
        let found = listing(&data, &format!("noise\n{answer}\n"));
        assert_eq!(
            (ids(&found), found.default_model.as_deref()),
            (vec!["gpt-6-sol"], Some("gpt-6-sol"))
        );
        assert_eq!(listing(&data, "nothing"), ModelListing::default());
    }

    #[test]
    fn sessions_of_recorded_agents_name_their_models() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/acp/recordings");
        let mut seen = 0;
        for agent in ["claude-agent-acp", "codex-acp", "droid", "gemini", "kilo", "opencode"] {
            let path = format!("{folder}/{agent}-hello.ndjson");
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let opened = text.lines().find(|line| {
                line.contains("\"configOptions\"") || line.contains("\"availableModels\"")
            });
            let line: Value = serde_json::from_str(opened.expect("a session")).unwrap();
            let result = line.get("result").or_else(|| line.pointer("/msg/result"));
            let found = of_session(result.expect("a result"));
            assert!(!found.models.is_empty() && found.default_model.is_some(), "{path}");
            seen += 1;
        }
        assert!(seen > 0, "no recording was found");
    }
}
