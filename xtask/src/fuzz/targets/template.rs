//! Placeholders: any template is filled or refused, a text without any stays as it is, and what was
//! filled in is not looked at again.

use super::{Target, holds};
use crate::fuzz::search::Try;
use contract::plan::Adapter;
use runtimes::template::{Context, fill, fill_prompt, paths_in_args, references};
use serde_json::json;
use std::collections::BTreeMap;

pub const TARGET: Target = Target {
    name: "template",
    everyday: None,
    seeds: || {
        let seeds = [
            "--workdir={{workspacePath}} {{ taskId }}/{{fencingToken}}",
            "{{task.title}} by {{agent.team.name}}: {{task.inputs}}",
            "${KEY}${EMPTY}. {{prompt}}",
            "{{workspcePath}} ${MISSING} {{taskId ${9}",
            "plain $HOME {x} }} $ {",
        ];
        seeds.map(|seed| seed.as_bytes().to_vec()).into()
    },
    words: &[
        b"{{",
        b"}}",
        b"${",
        b"}",
        b"$",
        b"{",
        b".",
        b"{{prompt}}",
        b"{{task.title}}",
        b"${KEY}",
        b"{{task.none}}",
        b"agent.team",
        b"prompt",
    ],
    make,
};

fn make() -> Try {
    let mut context = Context::new();
    context
        .set("workspacePath", "/w/run 1")
        .set("fencingToken", 7)
        .set("taskId", "task_1")
        .set("prompt", "say {{taskId}} and ${KEY}")
        .set("task", json!({ "title": "mend it", "inputs": [1, "two"], "none": null }))
        .set("agent", json!({ "name": "ann", "team": { "name": "blue" } }));
    let caller_env: BTreeMap<String, String> =
        [("KEY", "{{nothing}}${KEY}"), ("EMPTY", "")].map(|(k, v)| (k.into(), v.into())).into();
    Box::new(move |input, _| {
        let text = String::from_utf8_lossy(input);
        let filled = fill(&text, "args[0]", &context, &caller_env);
        let prompt = fill_prompt(&text, "promptTemplate", &context);
        let adapter: Adapter = serde_json::from_value(
            json!({ "name": "a", "runtime": "any", "args": [text], "env": { "X": text } }),
        )
        .map_err(|error| format!("no adapter: {error}"))?;
        let needed = references(&adapter);
        paths_in_args(&adapter);
        let plain = !text.contains("{{");
        if plain {
            holds(prompt.as_deref() == Ok(&*text), || format!("a plain prompt changes: {text:?}"))?;
        }
        if plain && !text.contains("${") {
            holds(filled.as_deref() == Ok(&*text), || format!("a plain text changes: {text:?}"))?;
        }
        let missing = needed.iter().any(|name| !caller_env.contains_key(name));
        holds(!(missing && filled.is_ok()), || format!("filled without a value: {text:?}"))?;
        if let Ok(filled) = filled {
            // With every value in its place, more text may come out but no placeholder goes in.
            let again = fill(&text, "args[0]", &context, &caller_env);
            holds(again.as_ref() == Ok(&filled), || format!("filled in two ways: {text:?}"))?;
        }
        Ok(())
    })
}
