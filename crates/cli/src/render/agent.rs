//! `ostler agents show`: one agent with everything it was given, under the names of the configuration,
//! so that what is read here can be said to `ostler agents edit` or written into the file.

use super::clean::one_line;
use super::figures;
use super::page::Page;
use super::tone::{Colour, Tone};
use contract::Timestamp;
use contract::state::AgentState;
use host::ops::agents::{AgentView, Source};
use serde_json::{Map, Value};

/// The sheet of one agent, without a newline at its end.
pub fn agent_sheet(agent: &AgentView, now: Timestamp, columns: usize, colour: Colour) -> String {
    let name = one_line(&agent.name);
    let mut page = Page::titled(&name, columns, colour);
    page.gap();
    let tone = match agent.state {
        AgentState::Active => Tone::Good,
        AgentState::Paused => Tone::Tool,
        AgentState::Retired | AgentState::Unknown => Tone::Gray,
    };
    page.painted("state", tone, agent.state.word());
    page.say("adapter", &one_line(&agent.adapter));
    if let Some(model) = &agent.model {
        page.say("model", &one_line(model));
    }
    let runs = match agent.running {
        1 => "1 run".to_owned(),
        many => format!("{} runs", figures::count(many)),
    };
    page.say("at work", &runs);
    let spent = agent.month_nanousd.map_or_else(|| "unpriced".to_owned(), figures::money);
    page.say("month", &spent);
    match (agent.source, agent.hired_at) {
        (Source::Hired, Some(at)) => page.say("hired", &figures::ago(at, now)),
        (Source::Hired, None) => {}
        (Source::Configured, _) => page.say("keys", "in ostler.json"),
    }
    let keys = agent.spec.as_ref().and_then(Value::as_object);
    let told = ["adapter", "model"];
    let mut first = true;
    for (key, value) in keys.into_iter().flatten().filter(|(key, _)| !told.contains(&key.as_str()))
    {
        let text = plain(value);
        page.say(if first { "keys" } else { "" }, &format!("{key}: {}", one_line(&text)));
        first = false;
    }
    page.next(&steps(agent, &name));
    page.finish()
}

/// A value without the signs of JSON, as far as it can be read without them.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(keys) => match keys.get("window") {
            Some(window) => budget(keys, window),
            None => {
                let part = |(key, value): (&String, &Value)| format!("{key} {}", plain(value));
                keys.iter().map(part).collect::<Vec<_>>().join(" ")
            }
        },
        Value::Number(number) => match number.as_f64().filter(|number| number.fract() == 0.0) {
            Some(whole) => format!("{whole:.0}"),
            None => number.to_string(),
        },
        value @ (Value::Null | Value::Bool(_)) => value.to_string(),
    }
}

/// `5 usd a month`.
fn budget(keys: &Map<String, Value>, window: &Value) -> String {
    let much = keys.iter().filter(|(key, _)| *key != "window");
    let much: Vec<String> = much.map(|(key, value)| format!("{} {key}", plain(value))).collect();
    format!("{} a {}", much.join(" and "), plain(window))
}

fn steps(agent: &AgentView, name: &str) -> Vec<String> {
    match agent.state {
        AgentState::Active => vec![
            format!("ostler task add \"WHAT\" --agent {name}"),
            format!("ostler agents pause {name}"),
        ],
        AgentState::Paused => vec![format!("ostler agents resume {name}")],
        AgentState::Retired | AgentState::Unknown => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_is_shown_with_its_keys_and_what_can_be_done() {
        let agent: AgentView = serde_json::from_value(json!({
            "id": "agent_00000000000000000000000000000001", "name": "smith", "source": "hired",
            "state": "active", "adapter": "demo", "running": 1, "month_nanousd": 1_300_000,
            "version": 1, "hired_at": "2026-11-16T15:00:00.000Z",
            "spec": { "adapter": "demo", "budgets": [{ "window": "month", "usd": 5.0 }],
                      "repository": "/srv/yard", "workspace": "worktree" },
        }))
        .unwrap();
        let now = agent.hired_at.unwrap().plus_ms(120_000);
        insta::assert_snapshot!(agent_sheet(&agent, now, 60, Colour::Off), @r#"
        smith

        state     active
        adapter   demo
        at work   1 run
        month     $0.0013
        hired     2 min ago
        keys      budgets: 5 usd a month
                  repository: /srv/yard
                  workspace: worktree

        next      ostler task add "WHAT" --agent smith
                  ostler agents pause smith
        "#);
    }
}
