//! Skills: procedures that an agent reads when it needs them. Found by name, among the person's own
//! and those that are shipped, read whole and checked before anything exists, so that what was
//! checked is what the agent is given. `read.rs` reads a skill, `front.rs` the head of its SKILL.md;
//! `mount.rs` gives a run its own copies, `links.rs` keeps links in directories that others use too.
//! Nothing is ever written into a working directory.

mod front;
mod links;
mod mount;
mod read;

pub(crate) use links::Links;
pub(crate) use mount::Mounts;

use contract::plan::{Adapter, ProjectContext};
use contract::{Card, Code, Fault, limits};
use runtimes::skills::{SKILL_FILE, Told};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The skills that come with the product: a name and its SKILL.md.
const SHIPPED: [(&str, &str); 2] = [
    ("using-ostler", include_str!("../../../skills/using-ostler/SKILL.md")),
    ("hiring-an-agent", include_str!("../../../skills/hiring-an-agent/SKILL.md")),
];

/// A skill that was found, read and checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Skill {
    pub name: String,
    pub description: String,
    /// Its invocation is written into the prompt.
    pub always: bool,
    /// SKILL.md among them; the paths are relative and lead nowhere else.
    pub files: Vec<SkillFile>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SkillFile {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// The names of all skills that can be had, in order: the person's own in `dir`, and the shipped.
pub fn names(dir: Option<&Path>) -> Vec<String> {
    let mut names: Vec<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    let entries = dir.and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.path().join(SKILL_FILE).exists());
    names.extend(named.filter_map(|entry| entry.file_name().into_string().ok()));
    names.sort();
    names.dedup();
    names
}

/// Reads the skills that an adapter names. The person's own come before shipped ones of their name.
pub(crate) fn load(adapter: &Adapter) -> Result<Arc<[Skill]>, Fault> {
    let wanted = &adapter.skills;
    if wanted.len() > limits::SKILLS_MAX {
        let message = format!(
            "{} skills are named; at most {} are allowed",
            wanted.len(),
            limits::SKILLS_MAX
        );
        return Err(Fault::new(Code::InvalidConfig, message));
    }
    let own = adapter.skills_dir.as_deref().map(Path::new);
    let mut found: Vec<Skill> = Vec::new();
    for wish in wanted {
        // Named twice is given once; it is enough that one of them wants it invoked.
        match found.iter_mut().find(|skill| skill.name == wish.name) {
            Some(again) => again.always |= wish.always,
            None => found.push(Skill { always: wish.always, ..one(&wish.name, own)? }),
        }
    }
    Ok(found.into())
}

fn one(name: &str, own: Option<&Path>) -> Result<Skill, Fault> {
    front::check_name(name).map_err(|why| refused(name, &why))?;
    let dir = own.map(|own| own.join(name)).filter(|dir| dir.join(SKILL_FILE).exists());
    let files = match (&dir, SHIPPED.iter().find(|(shipped, _)| *shipped == name)) {
        (Some(dir), _) => read::directory(dir)
            .map_err(|why| refused(name, &format!("{}: {why}", dir.display())))?,
        (None, Some((_, text))) => {
            let bytes = text.as_bytes().to_vec();
            vec![SkillFile { path: SKILL_FILE.into(), bytes, executable: false }]
        }
        (None, None) => return Err(unknown(name, own)),
    };
    let description = front::description(name, &files).map_err(|why| refused(name, &why))?;
    Ok(Skill { name: name.to_owned(), description, always: false, files })
}

fn refused(name: &str, why: &str) -> Fault {
    let name: String = name.chars().take(limits::SKILL_NAME_BYTES_MAX).collect();
    Fault::new(Code::InvalidConfig, format!("the skill '{}': {why}", name.escape_debug()))
        .with_hint("a skill is a directory <name>/SKILL.md whose head names it and describes it")
}

fn unknown(name: &str, own: Option<&Path>) -> Fault {
    let place = match own {
        Some(dir) => format!(" in {}, nor among those that are shipped", dir.display()),
        None => " among those that are shipped".to_owned(),
    };
    Fault::new(Code::InvalidConfig, format!("no skill is called '{name}'{place}"))
        .with_hint(format!("known names: {}", names(own).join(", ")))
}

/// The prompt with what must be said of the skills.
pub(crate) fn introduced(
    prompt: &str,
    card: &Card,
    context: Option<ProjectContext>,
    skills: &[Skill],
    files: &str,
) -> String {
    let told: Vec<Told<'_>> = skills
        .iter()
        .map(|Skill { name, description, always, .. }| Told { name, description, always: *always })
        .collect();
    runtimes::skills::introduced(prompt, card, context, &told, files)
}

#[cfg(test)]
mod tests;
