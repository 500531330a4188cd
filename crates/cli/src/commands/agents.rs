//! `ostler agents`: who works here, and hiring, changing, pausing and retiring them.

use super::{Context, Stopped};
use crate::args::{AgentKeys, AgentName, Agents};
use crate::hosting::Purpose;
use crate::render;
use crate::terminal;
use crate::way::Way;
use contract::state::AgentState;
use contract::{Code, Fault, limits};
use host::ops::agents::{AgentView, Edit, Hire, Saved};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const NO_AGENTS: &str = "\
no agents yet; create one with `ostler agents hire NAME --adapter demo`
`ostler runtimes` lists what `ostler run` starts without one, `ostler doctor` checks it";

pub async fn agents(context: &Context, args: Option<Agents>) -> Result<ExitCode, Stopped> {
    match args {
        None => list(context, false).await,
        Some(Agents::List { all }) => list(context, all).await,
        Some(Agents::Show(AgentName { name })) => {
            let agent = context.ask(async |client| Ok(client.agent(&name).await?)).await?;
            sheet(context, &agent)
        }
        Some(Agents::Hire { name, keys }) => {
            let mut spec = keys.keys(&context.surroundings.cwd)?;
            spec.retain(|_, value| !value.is_null());
            if !spec.contains_key("adapter") {
                let message = format!("--adapter is required to hire '{name}'");
                return Err(Fault::new(Code::Usage, message)
                    .with_hint("give --adapter NAME; `ostler runtimes` lists the names")
                    .into());
            }
            let hire = Hire { name, spec: Value::Object(spec) };
            let saved = act(context, async |client| client.hire(&hire).await).await?;
            told(context, "hired", &saved)
        }
        Some(Agents::Edit { name, keys }) => {
            let spec = keys.keys(&context.surroundings.cwd)?;
            if spec.is_empty() {
                let fault = Fault::new(Code::Usage, "no change is given");
                return Err(fault.with_hint("name a key, such as --model").into());
            }
            let edit = Edit { spec, version: None };
            let saved = act(context, async |client| client.edit_agent(&name, &edit).await).await?;
            told(context, "changed", &saved)
        }
        Some(Agents::Pause(AgentName { name })) => stand(context, name, AgentState::Paused).await,
        Some(Agents::Resume(AgentName { name })) => stand(context, name, AgentState::Active).await,
        Some(Agents::Retire(AgentName { name })) => stand(context, name, AgentState::Retired).await,
    }
}

fn sheet(context: &Context, agent: &AgentView) -> Result<ExitCode, Stopped> {
    if context.global.json {
        context.print_named(agent, ("id", "agent_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let now = host::clock::now().wall;
    context.print_rendered(&render::agent_sheet(agent, now, surroundings.columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

async fn list(context: &Context, all: bool) -> Result<ExitCode, Stopped> {
    let mut agents: Vec<AgentView> = context.ask(async |client| Ok(client.agents().await?)).await?;
    agents.retain(|agent| all || agent.state != AgentState::Retired);
    if context.global.json {
        context.print_named(&agents, ("id", "agent_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if agents.is_empty() {
        context.print(NO_AGENTS)?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let columns = surroundings.columns_to_fill();
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    context.print_rendered(&render::agents_table(&agents, columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

async fn stand(context: &Context, name: String, state: AgentState) -> Result<ExitCode, Stopped> {
    let agent = act(context, async |client| client.stand(&name, state).await).await?;
    match context.global.json {
        true => context.print_named(&agent, ("id", "agent_id"))?,
        false => context.print(&format!("{} is {}", agent.name, agent.state.word()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the host for a change, and the next host again: the same change twice is one.
async fn act<T>(
    context: &Context,
    ask: impl AsyncFnMut(&crate::client::Client) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let answer = way.ask(ask).await;
    way.finish().await;
    answer
}

fn told(context: &Context, what: &str, saved: &Saved) -> Result<ExitCode, Stopped> {
    if context.global.json {
        context.print_named(saved, ("id", "agent_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for warning in &saved.warnings {
        // Who cannot be warned has hired all the same.
        let _ = writeln!(std::io::stderr(), "warning: {}", render::clean(warning));
    }
    let AgentView { name, adapter, .. } = &saved.agent;
    context
        .print(&format!("{what} {name} on {adapter}; try: ostler task add \"…\" --agent {name}"))?;
    Ok(ExitCode::SUCCESS)
}

impl AgentKeys {
    /// The keys that were given, under their names in the configuration; null takes one away.
    fn keys(self, here: &Path) -> Result<Map<String, Value>, Fault> {
        let mut keys = match &self.spec {
            None => Map::new(),
            Some(path) => read(path)?,
        };
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                keys.insert(key.to_owned(), value);
            }
        };
        let whole = |path: PathBuf| here.join(path).components().collect::<PathBuf>();
        let place = |path: PathBuf| json!(whole(path));
        put("adapter", self.adapter.map(Value::from));
        put("model", self.model.map(Value::from));
        put("promptTemplate", self.prompt_template.map(Value::from));
        put("systemPrompt", self.system.map(Value::from));
        put("cwd", self.cwd.map(place));
        put("repository", self.repository.map(place));
        put("workspace", self.workspace.map(Value::from));
        put("permission", self.permission.map(|policy| json!(policy)));
        put("concurrency", self.concurrency.map(Value::from));
        put("account", self.account.map(Value::from));
        put("skills", some(self.skills));
        put("tools", some(self.tools));
        let budgets: Result<Vec<Value>, Fault> =
            self.budgets.iter().map(|text| budget(text)).collect();
        put("budgets", some(budgets?));
        put("fallback", some(self.fallback.iter().map(|text| fallback(text)).collect()));
        for text in &self.set {
            let (key, value) = set(text)?;
            keys.insert(key, value);
        }
        keys.extend(self.unset.into_iter().map(|key| (key, Value::Null)));
        Ok(keys)
    }
}

fn some<T: Into<Value>>(list: Vec<T>) -> Option<Value> {
    (!list.is_empty()).then(|| list.into_iter().map(Into::into).collect())
}

/// `month=80`: so much in a window, in dollars unless it says otherwise.
fn budget(text: &str) -> Result<Value, Fault> {
    let refused = || {
        Fault::new(Code::Usage, format!("--budget {text}: expected a window and how much"))
            .with_hint("such as month=80 (dollars), day=200000tokens, run=40turns, day=90minutes, month=80%")
    };
    let (window, much) = text.split_once('=').ok_or_else(refused)?;
    let units =
        [("tokens", "tokens"), ("turns", "turns"), ("minutes", "minutes"), ("%", "quotaPercent")];
    let unit = units.iter().find_map(|(end, key)| Some((much.strip_suffix(end)?, *key)));
    let (number, key) = unit.unwrap_or((much.trim_start_matches('$'), "usd"));
    // Tokens and turns are counted in whole ones, which is for the reader of the keys to say.
    let number: Value = match number.parse::<u64>() {
        Ok(whole) if key == "tokens" || key == "turns" => whole.into(),
        // Not a whole number, or of a unit that has fractions.
        Ok(_) | Err(_) => number.parse::<f64>().map_err(|_| refused())?.into(),
    };
    Ok(json!({ "window": window, key: number }))
}

/// `NAME`, an agent or whatever else can be run by its name; `ADAPTER=MODEL` another model of one.
fn fallback(text: &str) -> Value {
    match text.split_once('=') {
        Some((adapter, model)) => json!({ "adapter": adapter, "model": model }),
        None => json!({ "agent": text }),
    }
}

/// `key=value`, where the value is JSON, or a text when it is none.
fn set(text: &str) -> Result<(String, Value), Fault> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        Fault::new(Code::Usage, format!("--set {text}: expected KEY=VALUE"))
            .with_hint("such as --set fallback='[{\"adapter\":\"spare\"}]'")
    })?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((key.to_owned(), value))
}

fn read(path: &Path) -> Result<Map<String, Value>, Fault> {
    let failed = |why: String| {
        Fault::new(Code::Usage, format!("--spec {}: {why}", path.display())).with_hint(
            "give a file with one JSON object, as `ostler agents show --json` has it under spec",
        )
    };
    let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if metadata.len() > limits::CONFIG_BYTES_MAX as u64 {
        return Err(failed(format!("longer than the {} bytes allowed", limits::CONFIG_BYTES_MAX)));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_the_keys_of_the_configuration() {
        let keys = AgentKeys {
            adapter: Some("demo".to_owned()),
            cwd: Some("./work/.".into()),
            skills: vec!["a".to_owned(), "b".to_owned()],
            budgets: ["month=80", "day=200000tokens", "run=1.5minutes", "month=80%"]
                .map(str::to_owned)
                .into(),
            fallback: vec!["spare".to_owned(), "codex=gpt-5".to_owned()],
            set: vec!["concurrency=2".to_owned(), "account=team".to_owned()],
            unset: vec!["model".to_owned()],
            ..AgentKeys::default()
        };
        let expected = json!({
            "adapter": "demo",
            "cwd": "/srv/me/work",
            "skills": ["a", "b"],
            "budgets": [
                { "window": "month", "usd": 80.0 },
                { "window": "day", "tokens": 200_000 },
                { "window": "run", "minutes": 1.5 },
                { "window": "month", "quotaPercent": 80.0 },
            ],
            "fallback": [{ "agent": "spare" }, { "adapter": "codex", "model": "gpt-5" }],
            "concurrency": 2,
            "account": "team",
            "model": null,
        });
        assert_eq!(Value::from(keys.keys(Path::new("/srv/me")).unwrap()), expected);
        for wrong in ["month", "month=much", "day=tokens", "day=5 apples"] {
            assert_eq!(budget(wrong).unwrap_err().code, Code::Usage);
        }
    }
}
