//! Agents: who works here, on which adapter, and whether they may work now. The configuration has
//! some, the store those that were hired; both are known by their names, and a name is given once.
//! What a hired agent's spec means is asked of the configuration (`Book`), which has the same keys
//! for its own. Nothing here starts a run: `start.rs` asks whether it may.

mod books;

use super::budgets;
use super::gate::Candidate;
use super::run::{Named, stored};
use super::who::Who;
use crate::diagnose::Patient;
use crate::{Host, chance, clock};
use books::Books;
use contract::config::words::AdapterType;
use contract::limits::{AGENT_NAME_BYTES_MAX, PAGE_ROWS_MAX};
use contract::state::{AgentState, WaitingFor};
use contract::{AgentId, Code, Fault, NanoUsd, Policy, Timestamp};
use engine::rules::hold::Hold;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::{AgentChange, AgentRow, NewAgent, Seal};

/// What the configuration knows of agents, and how it reads one that was hired.
pub trait Book: Send + Sync {
    /// Those of its own, by name.
    fn own(&self) -> Vec<Known>;

    /// Whether a name is one of its own agents or adapters: those come before any that was hired.
    fn has(&self, name: &str) -> bool;

    /// What a spec says, under its one set of names, or what is wrong with it.
    fn read(&self, name: &str, spec: &Value) -> Result<Read, Fault>;

    /// What to run for a name with this spec.
    fn named(&self, name: &str, spec: &Value) -> Result<Named, Fault>;

    /// Its adapters, by name.
    fn adapters(&self) -> Vec<KnownAdapter> {
        Vec::new()
    }

    /// What doctor looks at for a name.
    fn patient(&self, subject: DoctorSubject<'_>) -> Result<Patient, Fault> {
        let (DoctorSubject::Name(name)
        | DoctorSubject::Hired(name, _)
        | DoctorSubject::Adapter(name, _)) = subject;
        Err(Fault::new(Code::UnknownAgent, name))
    }
}

/// Whom doctor is asked about.
#[derive(Debug, Clone, Copy)]
pub enum DoctorSubject<'a> {
    /// An agent, an adapter or a runtime, by its name.
    Name(&'a str),
    /// An agent that was hired, with its spec.
    Hired(&'a str, &'a Value),
    /// An adapter that is in no file yet, with the name that it is to have.
    Adapter(&'a str, &'a Value),
}

/// An adapter of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAdapter {
    pub name: String,
    pub kind: AdapterType,
    /// The runtime that drives it.
    pub runtime: String,
    pub label: Option<String>,
    pub model: Option<String>,
    pub permission: Option<Policy>,
    pub account: Option<String>,
    /// The program that it starts; absent for an agent elsewhere, and for what is built in.
    pub program: Option<String>,
    /// Why nothing can be run by it.
    pub problem: Option<String>,
}

/// A configuration that has no agents and reads none.
impl Book for () {
    fn own(&self) -> Vec<Known> {
        Vec::new()
    }

    fn has(&self, _: &str) -> bool {
        false
    }

    fn read(&self, name: &str, _: &Value) -> Result<Read, Fault> {
        Err(Fault::new(Code::NotSupported, format!("'{name}' cannot be hired")))
    }

    fn named(&self, name: &str, _: &Value) -> Result<Named, Fault> {
        Err(Fault::new(Code::UnknownAgent, name))
    }
}

/// An agent of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub name: String,
    pub adapter: String,
    pub model: Option<String>,
}

/// A spec that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    pub spec: Value,
    pub adapter: String,
    pub model: Option<String>,
    /// What a person should know before the first run. It keeps nobody from saving.
    pub warnings: Vec<String>,
}

/// An agent as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    pub id: AgentId,
    pub name: String,
    pub source: Source,
    pub state: AgentState,
    pub adapter: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its runs that have not ended.
    pub running: u64,
    /// What it spent since the first of this month (in UTC); null as soon as any part has no price.
    pub month_nanousd: Option<NanoUsd>,
    /// The keys that `agents.<name>` takes in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// Rises with every change; 0 for one that was never changed here.
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hired_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hired_at: Option<Timestamp>,
}

/// Who has an agent's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Hired,
    Configured,
}

/// An agent that was saved, and what should be known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    #[serde(flatten)]
    pub agent: AgentView,
    pub warnings: Vec<String>,
}

/// Who is to be hired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hire {
    pub name: String,
    pub spec: Value,
}

/// What is to be different: a key that is null goes away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub spec: Map<String, Value>,
    /// The version that was looked at; absent when whatever is there may be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// What an agent is asked when nobody says otherwise: by its hirer, or by the queue.
pub const PROMPT_TEMPLATE: &str = "{{prompt}}";

/// How often a change is tried again when another came between.
const TRIES: usize = 5;

/// Those who work here or did, by name: so many whose names come after this one.
pub async fn list(host: &Host, after: &str, limit: usize) -> Result<Vec<AgentView>, Fault> {
    let books = Books::open(host).await?;
    let rows = host.store().agents(after, limit).await.map_err(stored)?;
    // Of a page that is full nothing behind its last row is known.
    let last = rows.last().filter(|_| rows.len() >= limit).map(|row| row.name.as_str());
    let own = host.inner.book.own();
    let unchanged = own.iter().filter(|own| {
        let name = own.name.as_str();
        name > after
            && last.is_none_or(|last| name < last)
            && rows.iter().all(|row| row.name != name)
    });
    let mut views: Vec<_> = unchanged.map(|own| books.configured(own, None)).collect();
    views.extend(rows.iter().filter_map(|row| books.view(host, row)));
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views.truncate(limit);
    Ok(views)
}

/// All of them by name, without their figures: so many at most.
pub(super) async fn names(host: &Host, limit: usize) -> Result<Vec<AgentView>, Fault> {
    let books = Books::closed();
    let rows = host.store().agents("", limit).await.map_err(stored)?;
    let own = host.inner.book.own();
    let unchanged = own.iter().filter(|own| rows.iter().all(|row| row.name != own.name));
    let mut views: Vec<_> = unchanged.map(|own| books.configured(own, None)).collect();
    views.extend(rows.iter().filter_map(|row| books.view(host, row)));
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views.truncate(limit);
    Ok(views)
}

/// One of them.
pub async fn get(host: &Host, name: &str) -> Result<AgentView, Fault> {
    look_at(host, name, Books::open(host).await?).await
}

/// The same without its figures, for whoever is about to run it and does not want to wait for them.
pub async fn glance(host: &Host, name: &str) -> Result<AgentView, Fault> {
    look_at(host, name, Books::closed()).await
}

async fn look_at(host: &Host, name: &str, books: Books) -> Result<AgentView, Fault> {
    let row = host.store().agent(name).await.map_err(stored)?;
    let view = match &row {
        Some(row) => books.view(host, row),
        None => own(host, name).map(|own| books.configured(&own, None)),
    };
    view.ok_or_else(|| unknown(name))
}

/// Hires an agent. The same again changes nothing, because whoever asked may not have heard.
pub async fn hire(host: &Host, hire: Hire, by: &Who) -> Result<Saved, Fault> {
    let Hire { name, spec } = hire;
    named_well(&name)?;
    let mut read = host.inner.book.read(&name, &spec)?;
    if host.inner.book.has(&name) {
        read.warnings
            .push(format!("the configuration has an agent '{name}', which has precedence"));
    }
    let spec = Seal::default().json(&read.spec);
    let agent = NewAgent {
        id: chance::agent_id(&name),
        name: name.clone(),
        state: AgentState::Active,
        spec: Some(spec.clone()),
        by: by.to_string(),
        at: clock::now().wall,
    };
    match host.inner.heed(host.store().put_agent(agent).await) {
        Ok(()) => {
            host.inner.audit.agent(clock::now().wall, by, "hired", &name);
            host.inner.stirred.notify_one();
        }
        Err(error) if error.code() == Code::Conflict => {
            let there = host.store().agent(&name).await.map_err(stored)?;
            // A key that stood in it is in neither.
            let asked: Option<Value> = serde_json::from_slice(spec.bytes()).ok();
            let same = there.as_ref().and_then(spec_of).map(|spec| Some(spec) == asked);
            let retired = there.is_some_and(|row| row.state == AgentState::Retired);
            match (same, retired) {
                (Some(true), false) => {}
                (_, true) => {
                    let message = format!("'{name}' was retired, and its runs keep the name");
                    return Err(
                        Fault::new(Code::Conflict, message).with_hint("choose another name")
                    );
                }
                (_, false) => {
                    let message = format!("an agent '{name}' already exists");
                    let hint = format!("change it with `ostler agents edit {name}`");
                    return Err(Fault::new(Code::Conflict, message).with_hint(hint));
                }
            }
        }
        Err(error) => return Err(stored(error)),
    }
    Ok(Saved { agent: get(host, &name).await?, warnings: read.warnings })
}

/// Changes what an agent is.
pub async fn edit(host: &Host, name: &str, edit: Edit, by: &Who) -> Result<Saved, Fault> {
    for _ in 0..TRIES {
        let row = hired(host, name).await?;
        if edit.version.is_some_and(|seen| seen != row.version) {
            let message = format!("'{name}' was changed meanwhile: its version is {}", row.version);
            return Err(Fault::new(Code::Conflict, message).with_hint(
                "read it again, then repeat \
             the change",
            ));
        }
        let mut spec = spec_of(&row).unwrap_or_default();
        merge(&mut spec, &edit.spec);
        let read = host.inner.book.read(name, &spec)?;
        let spec = Some(Seal::default().json(&read.spec));
        if change(host, &row, row.state, spec).await? {
            host.inner.audit.agent(clock::now().wall, by, "edited", name);
            budgets::changed(host).await?;
            return Ok(Saved { agent: get(host, name).await?, warnings: read.warnings });
        }
    }
    Err(contended(name))
}

/// Pauses, resumes or retires an agent. One that stands so already is left as it is.
pub async fn stand(
    host: &Host,
    name: &str,
    state: AgentState,
    by: &Who,
) -> Result<AgentView, Fault> {
    for _ in 0..TRIES {
        let row = match host.store().agent(name).await.map_err(stored)? {
            Some(row) => row,
            None => standing_only(host, name, by).await?,
        };
        if row.state == state {
            return get(host, name).await;
        }
        if !row.state.may_become(state) {
            return Err(retired(name));
        }
        if state == AgentState::Retired && row.spec.is_none() {
            let message = format!("'{name}' is an agent of the configuration");
            return Err(Fault::new(Code::Conflict, message)
                .with_hint("remove it from ostler.json, or pause it"));
        }
        let spec = row.spec.as_deref().map(|spec| Seal::default().given(spec));
        if change(host, &row, state, spec).await? {
            let what = match state {
                AgentState::Active => "resumed",
                AgentState::Paused => "paused",
                AgentState::Retired => "retired",
                AgentState::Unknown => "changed",
            };
            host.inner.audit.agent(clock::now().wall, by, what, name);
            host.inner.stirred.notify_one();
            return get(host, name).await;
        }
    }
    Err(contended(name))
}

/// Whether a run of this name may begin now, by its row if it has one.
pub(crate) fn may_run(name: &str, row: Option<&AgentRow>) -> Result<(), Fault> {
    match row.map_or(AgentState::Active, |row| row.state) {
        AgentState::Active => Ok(()),
        AgentState::Paused => Err(Fault::new(Code::Conflict, format!("'{name}' is paused"))
            .with_hint(format!("`ostler agents resume {name}` resumes it"))),
        AgentState::Retired => Err(retired(name)),
        AgentState::Unknown => Err(of_newer_version(name)),
    }
}

fn of_newer_version(name: &str) -> Fault {
    let message = format!("the state of '{name}' was set by a newer version of Ostler");
    Fault::new(Code::Conflict, message).with_hint("use that version or a newer one")
}

/// Whether work may be handed to this name: one that is paused comes back, one that is retired does
/// not.
pub(crate) async fn is_here(host: &Host, name: &str) -> Result<(), Fault> {
    match host.store().agent(name).await.map_err(stored)?.map(|row| row.state) {
        Some(AgentState::Retired) => Err(retired(name)),
        Some(AgentState::Unknown) => Err(of_newer_version(name)),
        Some(AgentState::Active | AgentState::Paused) | None => Ok(()),
    }
}

/// The gate of the queue: tasks of an agent that is paused or retired wait.
pub async fn hold(host: &Host, candidate: &Candidate) -> Result<Option<Hold>, Fault> {
    let row = host.store().agent(&candidate.agent).await.map_err(stored)?;
    Ok(row.filter(|row| row.state != AgentState::Active).map(|row| Hold {
        why: WaitingFor::Agent,
        until: None,
        note: format!("'{}' is {}", row.name, row.state.word()),
        of: None,
    }))
}

/// Every row there is.
async fn rows(host: &Host) -> Result<Vec<AgentRow>, Fault> {
    let mut rows = Vec::new();
    loop {
        let after = rows.last().map_or("", |row: &AgentRow| row.name.as_str()).to_owned();
        let page = host.store().agents(&after, PAGE_ROWS_MAX).await.map_err(stored)?;
        let more = page.len() == PAGE_ROWS_MAX;
        rows.extend(page);
        if !more {
            return Ok(rows);
        }
    }
}

/// Everyone who may work now, by name.
pub(crate) async fn active(host: &Host) -> Result<Vec<String>, Fault> {
    let rows = rows(host).await?;
    let stands = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.state);
    let own = host.inner.book.own().into_iter().map(|own| own.name);
    let hired = rows.iter().filter(|row| row.spec.is_some()).map(|row| row.name.clone());
    let mut names: Vec<String> = own.chain(hired).collect();
    names.retain(|name| stands(name).unwrap_or(AgentState::Active) == AgentState::Active);
    names.sort();
    names.dedup();
    Ok(names)
}

/// What to run for a name: of the configuration, of those who were hired, or of the registry.
pub(crate) async fn named(host: &Host, name: &str) -> Result<Named, Fault> {
    if host.inner.book.has(name) {
        return (host.inner.resolve)(name);
    }
    let row = host.store().agent(name).await.map_err(stored)?;
    named_by(host, name, row.as_ref())
}

/// The same by the row of one that the configuration does not have.
pub(super) fn named_by(host: &Host, name: &str, row: Option<&AgentRow>) -> Result<Named, Fault> {
    match row.and_then(spec_of) {
        None => (host.inner.resolve)(name),
        Some(spec) => host.inner.book.named(name, &spec),
    }
}

/// The row of an agent whose keys are ours to change.
async fn hired(host: &Host, name: &str) -> Result<AgentRow, Fault> {
    match host.store().agent(name).await.map_err(stored)? {
        Some(row) if row.state == AgentState::Retired => Err(retired(name)),
        Some(row) if row.spec.is_some() => Ok(row),
        Some(_) => Err(configured(name)),
        None if own(host, name).is_some() => Err(configured(name)),
        None => Err(unknown(name)),
    }
}

/// An agent of the configuration gets a row when its standing is to change.
async fn standing_only(host: &Host, name: &str, by: &Who) -> Result<AgentRow, Fault> {
    if own(host, name).is_none() {
        return Err(unknown(name));
    }
    let agent = NewAgent {
        id: chance::agent_id(name),
        name: name.to_owned(),
        state: AgentState::Active,
        spec: None,
        by: by.to_string(),
        at: clock::now().wall,
    };
    match host.inner.heed(host.store().put_agent(agent).await) {
        // Another was quicker, and its row will do.
        Ok(()) | Err(store::Error::Conflict { .. }) => {}
        Err(error) => return Err(stored(error)),
    }
    host.store().agent(name).await.map_err(stored)?.ok_or_else(|| unknown(name))
}

/// False when another change came between.
async fn change(
    host: &Host,
    row: &AgentRow,
    state: AgentState,
    spec: Option<store::Sealed>,
) -> Result<bool, Fault> {
    let (name, version) = (row.name.clone(), row.version);
    let change = AgentChange { name, version, state, spec, at: clock::now().wall };
    match host.inner.heed(host.store().change_agent(change).await) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Code::Conflict => Ok(false),
        Err(error) => Err(stored(error)),
    }
}

fn own(host: &Host, name: &str) -> Option<Known> {
    host.inner.book.own().into_iter().find(|own| own.name == name)
}

pub(super) fn spec_of(row: &AgentRow) -> Option<Value> {
    row.spec.as_deref().and_then(|spec| serde_json::from_str(spec).ok())
}

/// Puts the new keys over the old ones; null takes one away.
fn merge(spec: &mut Value, edit: &Map<String, Value>) {
    let mut keys = spec.as_object().cloned().unwrap_or_default();
    for (key, value) in edit {
        match value {
            Value::Null => keys.remove(key),
            value => keys.insert(key.clone(), value.clone()),
        };
    }
    *spec = Value::Object(keys);
}

/// A name stands in commands, paths and tables: it is one plain word.
fn named_well(name: &str) -> Result<(), Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= AGENT_NAME_BYTES_MAX && name.chars().all(plain) {
        return Ok(());
    }
    let shown: String = name.chars().take(AGENT_NAME_BYTES_MAX).collect();
    Err(Fault::new(Code::Usage, format!("'{shown}' is not a valid agent name"))
        .with_hint("use letters, digits, - and _, at most 64 of them"))
}

fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().take(80).collect();
    Fault::new(Code::NotFound, format!("there is no agent '{shown}'"))
        .with_hint("`ostler agents` lists them")
}

fn retired(name: &str) -> Fault {
    Fault::new(Code::Conflict, format!("'{name}' is retired"))
        .with_hint("hire another one under a new name")
}

fn configured(name: &str) -> Fault {
    Fault::new(Code::Conflict, format!("'{name}' is an agent of the configuration"))
        .with_hint("change it in ostler.json")
}

fn contended(name: &str) -> Fault {
    Fault::new(Code::Conflict, format!("'{name}' is being changed by another request; try again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, plain};
    use serde_json::json;

    #[test]
    fn a_name_is_one_plain_word() {
        let long = "a".repeat(AGENT_NAME_BYTES_MAX + 1);
        for name in ["reviewer", "rev-2", "a.b_c", "9"] {
            assert!(named_well(name).is_ok(), "{name}");
        }
        for name in ["", "-x", ".hidden", "a b", "a/b", "ä", "a\n", &long] {
            assert_eq!(named_well(name).unwrap_err().code, Code::Usage, "{name:?}");
        }
    }

    #[test]
    fn an_edit_puts_keys_over_keys_and_null_takes_one_away() {
        let mut spec = json!({ "adapter": "demo", "model": "m", "account": "a" });
        let edit = json!({ "model": "n", "account": null, "cwd": "/x" });
        merge(&mut spec, edit.as_object().unwrap());
        assert_eq!(spec, json!({ "adapter": "demo", "model": "n", "cwd": "/x" }));
    }

    /// A configuration that takes every spec as it is.
    struct Anything;

    impl Book for Anything {
        fn own(&self) -> Vec<Known> {
            Vec::new()
        }

        fn has(&self, _: &str) -> bool {
            false
        }

        fn read(&self, _: &str, spec: &Value) -> Result<Read, Fault> {
            let (adapter, warnings) = ("demo".to_owned(), Vec::new());
            Ok(Read { spec: spec.clone(), adapter, model: None, warnings })
        }

        fn named(&self, name: &str, _: &Value) -> Result<Named, Fault> {
            Err(Fault::new(Code::UnknownAgent, name))
        }
    }

    #[tokio::test]
    async fn who_is_hired_and_changed_is_kept_without_keys() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Setup { book: Box::new(Anything), ..plain::setup(dir.path()) });
        let key = format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
        let spec = json!({ "adapter": "demo", "systemPrompt": format!("push with {key}, always") });
        let new = || Hire { name: "rev".to_owned(), spec: spec.clone() };
        let kept = async |host: &Host| host.store().agent("rev").await.unwrap().unwrap();
        hire(&host, new(), &Who::Owner).await.unwrap();
        let hired = kept(&host).await;
        let spec = hired.spec.unwrap();
        assert!(spec.contains("push with ") && spec.contains(", always"), "{spec}");
        assert!(!spec.contains("16C7e42F"), "{spec}");
        // Whoever did not hear and asks again is told the same.
        hire(&host, new(), &Who::Owner).await.unwrap();
        assert_eq!(kept(&host).await.version, hired.version);

        let spec = json!({ "promptTemplate": format!("{key} is yours: {{{{prompt}}}}") });
        let spec = spec.as_object().unwrap().clone();
        edit(&host, "rev", Edit { spec, version: None }, &Who::Owner).await.unwrap();
        let spec = kept(&host).await.spec.unwrap();
        assert!(spec.contains("push with ") && spec.contains(" is yours: {{prompt}}"), "{spec}");
        assert!(!spec.contains("16C7e42F"), "{spec}");
    }
}
