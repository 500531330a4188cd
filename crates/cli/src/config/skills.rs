//! Whether the skills that a configuration names are there. The only part of the configuration that
//! looks at more than its file: at the names in the directory of skills beside it. What is in a skill
//! is read and checked by the host, when a run begins.

use super::file::{File, Skill};
use super::nearest::did_you_mean;
use super::read::{Finding, Level, Reading};
use super::resolve::SKILLS_DIR;
use contract::plan::Adapter;
use contract::{Code, Fault};
use std::path::Path;

/// The adapter, if all of its skills are there.
pub fn known(agent: &str, adapter: &Adapter) -> Result<(), Fault> {
    if adapter.skills.is_empty() {
        return Ok(());
    }
    let known = host::skills::names(adapter.skills_dir.as_deref().map(Path::new));
    match adapter.skills.iter().find(|skill| !known.contains(&skill.name)) {
        None => Ok(()),
        Some(skill) => {
            let (message, hint) = missing(&skill.name, &known);
            let message = format!("the skills of '{agent}': {message}");
            Err(Fault::new(Code::InvalidConfig, message).with_hint(hint))
        }
    }
}

/// What `ostler config check` says of the skills of a file at this path.
pub fn findings(path: &Path, reading: &Reading) -> Vec<Finding> {
    let dir = path.parent().unwrap_or(Path::new("")).join(SKILLS_DIR);
    let known = host::skills::names(Some(&dir));
    let File { adapters, agents, .. } = &reading.file;
    let of_adapters = adapters.iter().map(|(name, from)| ("adapters", name, &from.skills));
    let of_agents = agents.iter().map(|(name, from)| ("agents", name, &from.skills));
    let mut found = Vec::new();
    for (table, owner, skills) in of_adapters.chain(of_agents) {
        for (i, skill) in skills.iter().enumerate() {
            let name = match skill {
                Skill::Named(name) => name,
                Skill::Marked(marked) => &marked.name,
            };
            if known.contains(name) {
                continue;
            }
            let (message, hint) = missing(name, &known);
            let path = format!("{table}.{owner}.skills[{i}]");
            let at = reading.place(&path);
            let (level, code) = (Level::Error, Code::InvalidConfig);
            found.push(Finding { level, code, path, message, hint: Some(hint), at });
        }
    }
    found
}

fn missing(name: &str, known: &[String]) -> (String, String) {
    let hint = did_you_mean(name, known.iter().map(String::as_str))
        .unwrap_or_else(|| format!("known names: {}", known.join(", ")));
    (format!("no skill is called '{}'", name.escape_debug()), hint)
}
