//! Skills in a launch plan: where each is put so that the agent finds it, by the strategy on the
//! runtime's card, and what the prompt says of them. Only names, descriptions and paths are ever put
//! into a prompt; what a skill says is read by the agent when it needs it. Nothing here touches a
//! disk: whoever carries out the plan makes the mounts, and takes them away again.

use crate::Spec;
use contract::card::{Seen, Skills};
use contract::plan::{EnvEntry, EnvSource, Held, Mount, ProjectContext};
use contract::{Card, Code, Fault};
use std::collections::BTreeMap;

/// The attempt's own directory of skills, below its other files.
const DIR: &str = "skills";
/// What a skill is read from.
pub const SKILL_FILE: &str = "SKILL.md";

/// A skill as a prompt tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// Whether the agent must use it, and not only may.
    pub always: bool,
}

/// The attempt's own directory of skills, if it has any.
pub fn dir(spec: &Spec) -> Option<String> {
    (!spec.adapter.skills.is_empty()).then(|| format!("{}/{DIR}", spec.files))
}

/// The mounts of a plan, one for each skill.
pub(crate) fn mounts(spec: &Spec, card: &Card, env: &[EnvEntry]) -> Result<Vec<Mount>, Fault> {
    let Some(own) = dir(spec) else { return Ok(Vec::new()) };
    let (into, held) = match &card.skills {
        Some(Skills::HomeLinks { dir }) => (shared(dir, spec, env)?, Held::Shared),
        Some(Skills::AddDir { .. } | Skills::Setting { .. } | Skills::Prompt { .. }) | None => {
            (within(own, card), Held::Attempt)
        }
    };
    let mount = |name: &String| Mount { skill: name.clone(), into: into.clone(), held };
    Ok(spec.adapter.skills.iter().map(|skill| mount(&skill.name)).collect())
}

/// The place in the attempt's own directory where the agent looks for skills.
fn within(own: String, card: &Card) -> String {
    match &card.skills {
        Some(Skills::AddDir { subdir, .. }) if !subdir.is_empty() => format!("{own}/{subdir}"),
        Some(
            Skills::AddDir { .. }
            | Skills::Setting { .. }
            | Skills::HomeLinks { .. }
            | Skills::Prompt { .. },
        )
        | None => own,
    }
}

/// The flag that names the directory. It comes before all other arguments: one that takes several
/// values would take what follows it for another directory.
pub(crate) fn flags(spec: &Spec, card: &Card) -> Vec<String> {
    let flag = match &card.skills {
        Some(Skills::AddDir { flag, .. } | Skills::Prompt { flag: Some(flag) }) => flag,
        Some(Skills::Setting { .. } | Skills::HomeLinks { .. } | Skills::Prompt { flag: None })
        | None => return Vec::new(),
    };
    dir(spec).map(|dir| vec![flag.clone(), dir]).unwrap_or_default()
}

/// The shared directory as the agent itself will find it, by the environment it is given.
fn shared(dir: &str, spec: &Spec, env: &[EnvEntry]) -> Result<String, Fault> {
    let vars: BTreeMap<String, String> = env
        .iter()
        .filter_map(|entry| {
            let value = match &entry.source {
                EnvSource::Allowlist
                | EnvSource::Card
                | EnvSource::Passthrough
                | EnvSource::Flag => spec.caller_env.get(&entry.name)?.clone(),
                EnvSource::Runtime { value } | EnvSource::Config { value } => value.clone(),
            };
            Some((entry.name.clone(), value))
        })
        .collect();
    expanded(dir, &vars).filter(|dir| dir.starts_with('/')).ok_or_else(|| {
        let message = format!("skills go to {dir}, and no home directory is known");
        Fault::new(Code::InvalidConfig, message).with_hint(
            "set HOME for the process that starts \
         the run",
        )
    })
}

/// `~/x`, `${NAME:-~/y}/x` and plain paths. `None` when no home is known.
pub fn expanded(path: &str, vars: &BTreeMap<String, String>) -> Option<String> {
    let set = |name: &str| vars.get(name).filter(|value| !value.is_empty());
    let joined = |dir: &str, rest: &str| {
        let (dir, rest) = (dir.trim_end_matches('/'), rest.trim_start_matches('/'));
        if rest.is_empty() { dir.to_owned() } else { format!("{dir}/{rest}") }
    };
    if let Some((inside, rest)) = path.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        let (name, or_else) = inside.split_once(":-").unwrap_or((inside, ""));
        let dir = match set(name) {
            Some(dir) => dir.clone(),
            None => expanded(or_else, vars)?,
        };
        return Some(joined(&dir, rest));
    }
    match path.strip_prefix("~/") {
        Some(rest) => Some(joined(set("HOME")?, rest)),
        None => Some(path.to_owned()),
    }
}

/// The prompt, and after it what must be said of the skills. After it, because agents take a prompt
/// that begins with a word of their own for a command.
pub fn introduced(
    prompt: &str,
    card: &Card,
    context: Option<ProjectContext>,
    skills: &[Told<'_>],
    files: &str,
) -> String {
    let isolated = context == Some(ProjectContext::Isolate);
    let named = match &card.skills {
        Some(Skills::AddDir { isolated: seen, .. }) => isolated && *seen == Seen::InThePrompt,
        Some(Skills::Setting { .. } | Skills::HomeLinks { .. }) => false,
        Some(Skills::Prompt { .. }) | None => true,
    };
    let own = within(format!("{files}/{DIR}"), card);
    let path = |name: &str| format!("{own}/{name}/{SKILL_FILE}");
    let mut said = Vec::new();
    if named && !skills.is_empty() {
        said.push(
            "Skills are at hand: procedures in files. Read the file of one when its description \
             fits what you are about to do, and follow it."
                .to_owned(),
        );
        let line = |skill: &Told<'_>| {
            format!("- {}: {} ({})", skill.name, skill.description, path(skill.name))
        };
        said.push(skills.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
    for Told { name, .. } in skills.iter().filter(|skill| skill.always) {
        said.push(match named {
            true => format!("Before you begin, read {} and follow it.", path(name)),
            false => format!("Before you begin, load the skill \"{name}\" and follow it."),
        });
    }
    match said.is_empty() {
        true => prompt.to_owned(),
        false => format!("{prompt}\n\n{}", said.join("\n\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::spec_with;
    use crate::{Runtime, registry};
    use contract::plan::{LaunchPlan, Skill};

    fn planned(runtime: &dyn Runtime, change: impl FnOnce(&mut Spec)) -> LaunchPlan {
        let spec = spec_with(&runtime.card().id, |spec| {
            spec.adapter.binary = Some("agent".to_owned());
            spec.adapter.skills = vec![Skill { name: "x".to_owned(), always: false }];
            spec.caller_env.insert("HOME".to_owned(), "/srv/me".to_owned());
            let base_url = "https://far.example".to_owned();
            spec.adapter.remote = Some(contract::plan::Remote { base_url, ..Default::default() });
            change(spec);
        });
        runtime.plan(&spec).unwrap()
    }

    #[test]
    fn every_runtime_is_given_skills_by_the_way_on_its_card() {
        let own = "/run/files/skills";
        for runtime in registry::all() {
            let card = runtime.card();
            let without = planned(*runtime, |spec| spec.adapter.skills.clear());
            assert!(without.mounts.is_empty(), "{}", card.id);
            for context in [None, Some(ProjectContext::Isolate)] {
                let with = planned(*runtime, |spec| spec.adapter.project_context = context);
                let without = planned(*runtime, |spec| {
                    spec.adapter.project_context = context;
                    spec.adapter.skills.clear();
                });
                let (flag, into, held) = match &card.skills {
                    Some(Skills::AddDir { flag, subdir, .. }) if subdir.is_empty() => {
                        (Some(flag.clone()), own.to_owned(), Held::Attempt)
                    }
                    Some(Skills::AddDir { flag, subdir, .. }) => {
                        (Some(flag.clone()), format!("{own}/{subdir}"), Held::Attempt)
                    }
                    Some(Skills::Prompt { flag }) => (flag.clone(), own.to_owned(), Held::Attempt),
                    Some(Skills::HomeLinks { dir }) => {
                        let vars = [("HOME".to_owned(), "/srv/me".to_owned())].into();
                        (None, expanded(dir, &vars).unwrap(), Held::Shared)
                    }
                    Some(Skills::Setting { .. }) => {
                        let told = serde_json::to_string(&with).unwrap();
                        assert!(told.matches(own).count() > 1, "{}: {told}", card.id);
                        (None, own.to_owned(), Held::Attempt)
                    }
                    None => (None, own.to_owned(), Held::Attempt),
                };
                let mount = Mount { skill: "x".to_owned(), into, held };
                assert_eq!(with.mounts, [mount], "{}", card.id);
                let mut args: Vec<String> =
                    flag.into_iter().flat_map(|flag| [flag, own.to_owned()]).collect();
                args.extend(without.args);
                assert_eq!(with.args, args, "{}", card.id);
            }
        }
    }

    #[test]
    fn no_skill_is_put_into_the_workspace() {
        for runtime in registry::all() {
            let plan = planned(*runtime, |spec| {
                spec.context.set("workspacePath", "/work");
            });
            assert!(plan.mounts.iter().all(|mount| !mount.into.starts_with("/work")));
        }
    }

    #[test]
    fn a_shared_directory_is_where_the_agent_itself_will_look() {
        let place = |path: &str, vars: &str| {
            let pairs = vars.split_whitespace().filter_map(|pair| pair.split_once('='));
            let owned = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            expanded(path, &owned.collect())
        };
        let rows = [
            ("HOME=/srv/me", Some("/srv/me/.a/skills")),
            ("HOME=/srv/me A_HOME=/moved/", Some("/moved/skills")),
            ("HOME=/srv/me A_HOME=", Some("/srv/me/.a/skills")),
            ("", None),
        ];
        for (vars, expected) in rows {
            assert_eq!(place("${A_HOME:-~/.a}/skills", vars).as_deref(), expected, "{vars}");
        }
        assert_eq!(place("/etc/a/skills", "").as_deref(), Some("/etc/a/skills"));
    }

    #[test]
    fn a_prompt_names_skills_only_where_nothing_else_does_and_never_holds_what_they_say() {
        let told = |always| [Told { name: "x", description: "Use when so.", always }];
        let mut card = registry::all()[0].card();
        let said = |card: &Card, context, prompt, skills: &[Told<'_>]| {
            introduced(prompt, card, context, skills, "/files")
        };
        card.skills = Some(Skills::Setting { key: "skills".to_owned() });
        assert_eq!(said(&card, None, "/review", &told(false)), "/review");
        assert_eq!(
            said(&card, None, "/review", &told(true)),
            "/review\n\nBefore you begin, load the skill \"x\" and follow it."
        );
        let listed = |dir: &str| {
            format!(
                "hi\n\nSkills are at hand: procedures in files. Read the file of one when its \
                 description fits what you are about to do, and follow it.\n\n\
                 - x: Use when so. (/files/{dir}/x/SKILL.md)"
            )
        };
        for way in [None, Some(Skills::Prompt { flag: None })] {
            card.skills = way;
            assert_eq!(said(&card, None, "hi", &[]), "hi");
            assert_eq!(said(&card, None, "hi", &told(false)), listed("skills"));
            let must = "\n\nBefore you begin, read /files/skills/x/SKILL.md and follow it.";
            let always = said(&card, None, "hi", &told(true));
            assert_eq!(always, format!("{}{must}", listed("skills")));
        }
        let add = |isolated| Skills::AddDir { flag: "-d".into(), subdir: "s".into(), isolated };
        let isolate = Some(ProjectContext::Isolate);
        card.skills = Some(add(Seen::ByItself));
        assert_eq!(said(&card, isolate, "hi", &told(false)), "hi");
        card.skills = Some(add(Seen::InThePrompt));
        assert_eq!(said(&card, None, "hi", &told(false)), "hi");
        assert_eq!(said(&card, isolate, "hi", &told(false)), listed("skills/s"));
    }
}
