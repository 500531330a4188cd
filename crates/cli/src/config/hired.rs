//! Hired agents, read by the rules of the file. A spec has the keys of `agents.<name>`, so it is put
//! where such an agent stands and walked by the same reader: one list of keys, one list of mistakes.
//! What no file may have is refused; what a person should only know of is a warning and keeps nobody
//! from saving. Directories are whole paths, because a spec lies beside no file.

use super::file::{self, Agent};
use super::resolve::{self, Config, Flags};
use super::words::{AdapterType, Workspace};
use super::{check, patient, placeholder, skills};
use crate::hosting;
use contract::{Code, Fault};
use host::diagnose::Patient;
use host::ops::agents::{DoctorSubject, Known, KnownAdapter, PROMPT_TEMPLATE, Read};
use host::ops::catalog;
use host::ops::run::Named;
use serde_json::{Value, json};
use std::path::Path;

/// The configuration as the host asks it about agents.
pub struct Book<C = Config>(pub C);

impl<C: std::borrow::Borrow<Config> + Send + Sync> host::ops::agents::Book for Book<C> {
    fn own(&self) -> Vec<Known> {
        let known = |(name, agent): (&String, &Agent)| Known {
            name: name.clone(),
            adapter: agent.adapter.clone(),
            model: agent.model.clone(),
        };
        self.config().file.agents.iter().map(known).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.config().file.agents.contains_key(name)
            || self.config().file.adapters.contains_key(name)
    }

    fn read(&self, name: &str, spec: &Value) -> Result<Read, Fault> {
        let agent = agent(name, spec)?;
        let resolved =
            resolve::resolve_agent(name, Some(&agent), self.config(), &Flags::default())?;
        let mut warnings = self.warnings(&agent);
        if let Err(missing) = skills::known(name, &resolved.adapter) {
            warnings.push(missing.message);
        }
        let spec = serde_json::to_value(&agent)
            .map_err(|error| Fault::new(Code::InternalError, format!("writing JSON: {error}")))?;
        Ok(Read { spec, adapter: agent.adapter, model: resolved.adapter.model, warnings })
    }

    fn named(&self, name: &str, spec: &Value) -> Result<Named, Fault> {
        let resolved = self.resolved(name, spec, &Flags::default())?;
        skills::known(name, &resolved.adapter)?;
        Ok(hosting::named(resolved))
    }

    fn adapters(&self) -> Vec<KnownAdapter> {
        let config = self.config();
        let known = |(name, from): (&String, &file::Adapter)| {
            let resolved = resolve::resolve(name, config).map(|resolved| resolved.adapter);
            let program = resolve::program(name, config);
            KnownAdapter {
                name: name.clone(),
                kind: from.kind,
                runtime: match &resolved {
                    Ok(adapter) => adapter.runtime.clone(),
                    // Its problem is told below.
                    Err(_) => from.runtime.clone().unwrap_or_else(|| from.kind.word().to_owned()),
                },
                label: from.name.clone(),
                model: from.model.clone(),
                permission: from.permission,
                account: from.account.clone(),
                problem: program.as_ref().err().map(|fault| fault.message.clone()),
                // What keeps it from being resolved is its problem.
                program: program.ok().flatten().filter(|_| from.kind != AdapterType::Http),
            }
        };
        config.file.adapters.iter().map(known).collect()
    }

    fn patient(&self, subject: DoctorSubject<'_>) -> Result<Patient, Fault> {
        let (config, flags) = (self.config(), Flags::default());
        match subject {
            DoctorSubject::Name(name) => {
                let agent = config.file.agents.get(name);
                patient::patient(name, resolve::resolve(name, config)?, agent, config)
            }
            DoctorSubject::Hired(name, spec) => {
                let agent = agent(name, spec)?;
                let resolved = resolve::resolve_agent(name, Some(&agent), config, &flags)?;
                patient::patient(name, resolved, Some(&agent), config)
            }
            DoctorSubject::Adapter(name, given) => {
                let mut config = config.clone();
                config.file.adapters.insert(name.to_owned(), adapter(name, given)?);
                patient::patient(name, resolve::resolve(name, &config)?, None, &config)
            }
        }
    }
}

impl<C: std::borrow::Borrow<Config>> Book<C> {
    fn config(&self) -> &Config {
        self.0.borrow()
    }

    /// What to run for a hired agent, under what the command line says.
    pub fn resolved(
        &self,
        name: &str,
        spec: &Value,
        flags: &Flags,
    ) -> Result<resolve::Resolved, Fault> {
        let mut agent = agent(name, spec)?;
        agent.prompt_template.get_or_insert_with(|| PROMPT_TEMPLATE.to_owned());
        resolve::resolve_agent(name, Some(&agent), self.config(), flags)
    }

    /// What should be known before the first run.
    fn warnings(&self, agent: &Agent) -> Vec<String> {
        let mut found = Vec::new();
        let there = |path: &str| Path::new(path).is_dir();
        for (key, path) in [("cwd", &agent.cwd), ("repository", &agent.repository)] {
            if let Some(path) = path.as_deref().filter(|path| !there(path)) {
                found.push(format!("{key}: there is no directory {path}"));
            }
        }
        if agent.workspace == Some(Workspace::Worktree) {
            let place = agent.repository.as_deref().or(agent.cwd.as_deref());
            let place = place.map(Path::new).filter(|place| place.is_dir());
            let kept = |place: &Path| place.ancestors().any(|dir| dir.join(".git").exists());
            if let Some(place) = place.filter(|place| !kept(place)) {
                let place = place.display();
                found.push(format!(
                    "workspace: {place} is not in a git repository, so that no worktree can be made"
                ));
            }
        }
        let known = |tool: &str| catalog::find(tool).is_some() || tool.contains("__");
        for tool in agent.tools.iter().flatten().filter(|tool| !known(tool)) {
            found.push(format!("tools: no tool is called '{tool}'"));
        }
        for other in agent.fallback.iter().filter_map(|fallback| fallback.adapter.as_deref()) {
            if resolve::resolve(other, self.config()).is_err() {
                found.push(format!("fallback: there is no adapter '{other}'"));
            }
        }
        let template = agent.prompt_template.as_deref();
        let says = |text: &str| placeholder::placeholders(text).contains(&"prompt");
        if template.is_some_and(|template| !says(template)) {
            let lost = "the text of the task would be lost";
            found.push(format!("promptTemplate: no {{{{prompt}}}} in it, so that {lost}"));
        }
        found
    }
}

/// An adapter that is in no file, as the file's own reader understands it.
fn adapter(name: &str, given: &Value) -> Result<file::Adapter, Fault> {
    let text = json!({ "adapters": { name: given } }).to_string();
    let (mut file, findings) = check::formed(&text);
    if let Some(finding) = findings.first() {
        let mut fault = Fault::new(finding.code, format!("{}: {}", finding.path, finding.message));
        fault.hint = finding.hint.clone();
        return Err(fault);
    }
    let adapter = file.adapters.remove(name);
    adapter.ok_or_else(|| Fault::new(Code::InvalidConfig, "the adapter is not an object"))
}

/// A spec as the file's own reader understands it.
fn agent(name: &str, spec: &Value) -> Result<Agent, Fault> {
    // A fixed name: what is said of a key is not to depend on what the agent is called.
    let text = json!({ "agents": { "it": spec } }).to_string();
    let (mut file, findings) = check::formed(&text);
    if let Some(finding) = findings.first() {
        let key = finding.path.trim_start_matches("agents.it").trim_start_matches('.');
        let colon = if key.is_empty() { "" } else { ": " };
        let mut fault =
            Fault::new(finding.code, format!("agent '{name}': {key}{colon}{}", finding.message));
        fault.hint = finding.hint.clone();
        return Err(fault);
    }
    let agent = file.agents.remove("it");
    let agent = agent.ok_or_else(|| {
        Fault::new(Code::InvalidConfig, format!("agent '{name}': the spec is not an object"))
    })?;
    for (key, path) in [("cwd", &agent.cwd), ("repository", &agent.repository)] {
        if let Some(path) = path.as_deref().filter(|path| !Path::new(path).is_absolute()) {
            let message = format!("agent '{name}': {key}: '{path}' is not an absolute path");
            return Err(Fault::new(Code::InvalidConfig, message).with_hint("start it with /"));
        }
    }
    Ok(agent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::ops::agents::Book as _;

    fn read(spec: Value) -> Result<Read, String> {
        let book = Book(Config::default());
        book.read("rev", &spec).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_spec_is_refused_for_what_no_file_may_have_and_warned_of_the_rest() {
        let rows = [
            (json!({ "adapter": "demo" }), Ok(0)),
            (json!({ "adapter": "demo", "system_prompt": "s" }), Ok(0)),
            (json!({ "adapter": "demo", "cwd": "/nowhere/at/all" }), Ok(1)),
            (json!({ "adapter": "demo", "cwd": "/proc", "workspace": "worktree" }), Ok(1)),
            (json!({ "adapter": "demo", "tools": ["read_task", "fly"] }), Ok(1)),
            (json!({ "adapter": "demo", "promptTemplate": "work" }), Ok(1)),
            (json!({ "adapter": "demo", "fallback": [{ "adapter": "nobody" }] }), Ok(1)),
            (json!({ "adapter": "demo", "skills": ["unheard-of"] }), Ok(1)),
            (json!({ "adapter": "demo", "modle": "m" }), Err("modle")),
            (json!({ "adapter": "nobody" }), Err("nobody")),
            (json!({ "adapter": "demo", "cwd": "here" }), Err("not an absolute path")),
            (json!({ "model": "m" }), Err("adapter")),
            (json!([]), Err("agent 'rev'")),
        ];
        for (spec, expected) in rows {
            match (read(spec.clone()), expected) {
                (Ok(read), Ok(warnings)) => {
                    assert_eq!(read.warnings.len(), warnings, "{spec}: {:?}", read.warnings);
                }
                (Err(said), Err(word)) => assert!(said.contains(word), "{spec}: {said}"),
                (read, expected) => panic!("{spec}: {read:?}, not {expected:?}"),
            }
        }
        let read = read(json!({ "adapter": "demo", "system_prompt": "s" })).unwrap();
        assert_eq!(read.spec, json!({ "adapter": "demo", "systemPrompt": "s" }));
    }

    #[test]
    fn a_hired_agent_is_told_who_it_is_unless_someone_says_otherwise() {
        let book = Book(Config::default());
        let template = |spec: Value| {
            let resolved = book.resolved("rev", &spec, &Flags::default()).unwrap();
            resolved.prompt_template.unwrap()
        };
        assert_eq!(template(json!({ "adapter": "demo" })), PROMPT_TEMPLATE);
        let own = json!({ "adapter": "demo", "promptTemplate": "do {{prompt}}" });
        assert_eq!(template(own), "do {{prompt}}");
    }
}
