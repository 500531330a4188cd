//! The agents that can be run, as data for people, forms and language models: the cards of the runtimes,
//! the agents that are known by an ACP name, and the adapters and agents of the configuration, each with
//! whether its program is installed here. Whether a program works is asked of doctor.

use super::agents::{self, AgentView, KnownAdapter};
use crate::Host;
use crate::blocking::{self, Bulkhead};
use crate::diagnose::find_program;
use contract::card::CardEvidence;
use contract::config::words::AdapterType;
use contract::limits::PAGE_ROWS_MAX;
use contract::{Card, Code, Fault, Policy, misread};
use runtimes::{catalogue, registry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A runtime in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeSummary {
    /// What `ostler run` takes.
    pub id: String,
    pub label: String,
    /// The `type` of an adapter that uses it.
    #[serde(rename = "type")]
    pub kind: AdapterType,
    pub evidence: CardEvidence,
    /// Whether its program is on the PATH of this host; absent when only an adapter names a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// The most important reason for it.
    pub use_when: String,
    /// The most important reason against it.
    pub dont_use_when: String,
}

/// A runtime with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeView {
    #[serde(flatten)]
    pub card: Card,
    /// The `type` of an adapter that uses it.
    #[serde(rename = "type")]
    pub kind: AdapterType,
    /// The version of Ostler, which drives it.
    pub adapter_version: String,
    /// Whether its program is on the PATH of this host; absent when only an adapter names a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<bool>,
}

/// An adapter of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterView {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: AdapterType,
    /// The runtime that drives it.
    pub runtime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Whether its program is there; absent for a remote, which only doctor can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<bool>,
    /// Why nothing can be run by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The runtimes and the agents that are known by an ACP name, by id.
pub async fn list(host: &Host) -> Result<Vec<RuntimeSummary>, Fault> {
    let path = path(host);
    looked("look for programs", move || {
        let cards = catalogue::runtimes().chain(catalogue::by_acp_name());
        let mut all: Vec<_> = cards.map(|card| summary(&card, path.as_deref())).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    })
    .await
}

/// One of them, whole.
pub async fn get(host: &Host, id: &str) -> Result<RuntimeView, Fault> {
    let Some(card) = catalogue::find(id) else {
        let shown: String = id.chars().take(80).collect();
        return Err(Fault::new(Code::NotFound, format!("there is no runtime '{shown}'"))
            .with_hint("GET /api/v1/runtimes lists them"));
    };
    let path = path(host);
    looked("look for a program", move || {
        let (installed, kind) = (installed(&card, path.as_deref()), card.kind());
        let adapter_version = env!("CARGO_PKG_VERSION").to_owned();
        RuntimeView { card, kind, adapter_version, installed }
    })
    .await
}

/// The adapters of the configuration, by name.
pub async fn adapters(host: &Host) -> Result<Vec<AdapterView>, Fault> {
    let (known, path) = (host.inner.book.adapters(), path(host));
    looked("look for programs", move || {
        let mut all: Vec<_> =
            known.into_iter().map(|adapter| adapter_view(adapter, path.as_deref())).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    })
    .await
}

fn adapter_view(known: KnownAdapter, path: Option<&str>) -> AdapterView {
    let KnownAdapter { name, kind, runtime, label, model, permission, account, program, problem } =
        known;
    let installed = match (&program, &problem) {
        (_, Some(_)) => None,
        (Some(program), None) => Some(find_program(program, path).is_some()),
        // What is built in is there; whether a remote is, only doctor can tell.
        (None, None) => (kind != AdapterType::Http).then_some(true),
    };
    AdapterView {
        name,
        kind,
        runtime,
        label,
        model,
        permission,
        account,
        program,
        installed,
        problem,
    }
}

fn summary(card: &Card, path: Option<&str>) -> RuntimeSummary {
    RuntimeSummary {
        id: card.id.clone(),
        label: card.label.clone(),
        kind: card.kind(),
        evidence: card.evidence,
        installed: installed(card, path),
        install_hint: card.requires.first().map(|required| required.install_hint.clone()),
        default_model: card.default_model.clone(),
        use_when: card.use_when_short().to_owned(),
        dont_use_when: card.dont_use_when_short().to_owned(),
    }
}

/// Whether the program of a card is there; `None` when only an adapter names a program.
pub fn installed(card: &Card, path: Option<&str>) -> Option<bool> {
    match card.requires.first() {
        Some(required) => Some(find_program(&required.binary, path).is_some()),
        None => (!card.needs_adapter()).then_some(true),
    }
}

fn path(host: &Host) -> Option<String> {
    host.inner.environment.get("PATH").cloned()
}

async fn looked<T: Send + 'static>(
    name: &'static str,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    blocking::spawn(Bulkhead::Data, name, look)
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("{name}: {error}")))
}

/// What an agent says when it calls `list_runtimes`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    #[serde(default)]
    detail: Detail,
    /// One of them alone.
    #[serde(default)]
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Detail {
    #[default]
    Short,
    Full,
}

/// The answer of the tool `list_runtimes`: a line of each runtime, or its whole card; the adapters and
/// agents of this house, and the agents that are known by an ACP name.
pub(crate) async fn for_agents(host: &Host, args: &Value) -> Result<Value, Fault> {
    let given = if args.is_null() { json!({}) } else { args.clone() };
    let ListArgs { detail, name } = serde_json::from_value(given).map_err(|error| {
        let wrong = misread::in_words(&error.to_string(), "");
        Fault::new(Code::Usage, format!("list_runtimes: {wrong}"))
    })?;
    if let Some(name) = name {
        let view = get(host, &name).await?;
        return Ok(match detail {
            Detail::Full => json!({ "runtime": view }),
            Detail::Short => json!({ "runtime": summary(&view.card, path(host).as_deref()) }),
        });
    }
    let all = list(host).await?;
    let (runtimes, by_acp): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| registry::find(&one.id).is_some());
    let runtimes: Vec<Value> = match detail {
        Detail::Short => runtimes.iter().map(runtime_line).collect(),
        Detail::Full => catalogue::runtimes()
            .map(|card| {
                let installed = runtimes.iter().find(|one| one.id == card.id);
                let mut whole = json!(card);
                whole["installed"] = json!(installed.and_then(|one| one.installed));
                whole
            })
            .collect(),
    };
    let by_acp: Vec<_> = by_acp
        .iter()
        .map(|one| json!({ "name": one.id, "label": one.label, "installed": one.installed }))
        .collect();
    let agents = agents::names(host, PAGE_ROWS_MAX).await?;
    Ok(json!({
        "runtimes": runtimes,
        "adapters": adapters(host).await?,
        "agents": agents.iter().map(agent_line).collect::<Vec<_>>(),
        "acp": by_acp,
    }))
}

fn runtime_line(one: &RuntimeSummary) -> Value {
    let mut line = json!({
        "name": one.id,
        "label": one.label,
        "use_when": one.use_when,
        "dont_use_when": one.dont_use_when,
    });
    for (key, value) in
        [("installed", json!(one.installed)), ("default_model", json!(one.default_model))]
    {
        if !value.is_null() {
            line[key] = value;
        }
    }
    line
}

fn agent_line(agent: &AgentView) -> Value {
    let mut line = json!({ "name": agent.name, "adapter": agent.adapter, "state": agent.state });
    if let Some(model) = &agent.model {
        line["model"] = json!(model);
    }
    line
}
