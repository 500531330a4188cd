//! The environment of an agent: built, never filtered. Allowlist, then the card's own list, then
//! `envPassthrough`, then the configuration's `env`, then `--env`, then the reserved names, which
//! always win.
//! Markers of an agent that runs inside another agent are removed wherever they came from.

use contract::plan::{Adapter, EnvEntry, EnvSource};
use contract::{AgentId, Card, RunId, TaskId, limits};
use runtimes::{passed_env, registry};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// What the reserved names are made from.
#[derive(Debug, Clone)]
pub struct Reserved<'a> {
    pub run: RunId,
    pub task: TaskId,
    pub agent: AgentId,
    pub fence: u64,
    pub lease_token: &'a str,
    pub api_url: &'a str,
    pub organization: &'a str,
    pub workspace: &'a Path,
    pub wake_reason: &'a str,
    /// What woke it, when that was a comment.
    pub wake_comment: Option<&'a str>,
    /// The run about which a person decided, and the decision, when that woke it.
    pub approval: Option<&'a (RunId, String)>,
    /// The tasks that its own has to do with.
    pub linked_tasks: &'a [TaskId],
    /// Families of foreign names that are given too, such as `paperclip`.
    pub compat: &'a [String],
}

/// The whole environment of an agent, sorted by name.
pub fn build(
    entries: &[EnvEntry],
    prefixes: &[&str],
    caller: &BTreeMap<String, String>,
    reserved: &Reserved<'_>,
) -> Vec<(String, String)> {
    let mut built = asked_for(entries, prefixes, caller);
    built.extend(reserved.entries());
    given(built)
}

/// The environment of a program that belongs to no run: nothing reserved, so no token.
pub fn without_run(
    entries: &[EnvEntry],
    prefixes: &[&str],
    caller: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    given(asked_for(entries, prefixes, caller))
}

/// The variables that the user's own configuration of an agent names, such as that of a provider's
/// key: each with the file that names it. Reads the files that the card lists, and nothing of the
/// workspace. A file that cannot be read names none.
pub fn named_by_agent(card: &Card, caller: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in &card.env_files {
        let Some(path) = runtimes::skills::expanded(&file.path, caller) else { continue };
        let mut text = String::new();
        let bound = limits::CONFIG_BYTES_MAX as u64;
        let read = std::fs::File::open(&path)
            .and_then(|opened| opened.take(bound).read_to_string(&mut text));
        if read.is_err() {
            continue;
        }
        for name in passed_env::named_in(file, &text) {
            if !found.iter().any(|(known, _)| *known == name) {
                found.push((name, path.clone()));
            }
        }
    }
    found
}

/// Adds those names to the adapter's `envPassthrough`, where the caller has set them.
pub fn pass_named_by_agent(adapter: &mut Adapter, card: &Card, caller: &BTreeMap<String, String>) {
    let named = named_by_agent(card, caller).into_iter().map(|(name, _)| name);
    let new = named.filter(|name| caller.contains_key(name));
    let new: Vec<String> = new.filter(|name| !adapter.env_passthrough.contains(name)).collect();
    adapter.env_passthrough.extend(new);
}

/// The caller's own environment, as if it had started the program by hand, but for the marks of an
/// agent around us.
pub fn by_hand(caller: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut built = caller.clone();
    for marker in registry::nested_markers() {
        built.remove(marker);
    }
    given(built)
}

/// What the entries ask for, without the marks of an agent around us.
fn asked_for(
    entries: &[EnvEntry],
    prefixes: &[&str],
    caller: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut built = BTreeMap::new();
    for (name, value) in caller {
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            built.insert(name.clone(), value.clone());
        }
    }
    for EnvEntry { name, source } in entries {
        match source {
            EnvSource::Allowlist | EnvSource::Card | EnvSource::Passthrough | EnvSource::Flag => {
                if let Some(value) = caller.get(name) {
                    built.insert(name.clone(), value.clone());
                }
            }
            EnvSource::Runtime { value } | EnvSource::Config { value } => {
                built.insert(name.clone(), value.clone());
            }
        }
    }
    for marker in registry::nested_markers() {
        built.remove(marker);
    }
    built
}

fn given(mut built: BTreeMap<String, String>) -> Vec<(String, String)> {
    // What a process cannot be given is left out rather than failing the start.
    built.retain(|name, value| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
    });
    built.into_iter().collect()
}

impl Reserved<'_> {
    fn entries(&self) -> Vec<(String, String)> {
        let (run, task, agent) =
            (self.run.to_string(), self.task.to_string(), self.agent.to_string());
        let (fence, lease) = (self.fence.to_string(), self.lease_token.to_owned());
        let mcp = format!("{}/mcp", self.api_url);
        let mut entries = vec![
            ("MCP_SERVER_URL", mcp),
            ("OSTLER_RUN_ID", run.clone()),
            ("OSTLER_TASK_ID", task.clone()),
            ("OSTLER_AGENT_ID", agent.clone()),
            ("OSTLER_LEASE_TOKEN", lease.clone()),
            ("OSTLER_FENCING_TOKEN", fence.clone()),
            ("OSTLER_API_URL", self.api_url.to_owned()),
            ("OSTLER_API_KEY", lease.clone()),
            ("OSTLER_ORGANIZATION", self.organization.to_owned()),
            ("OSTLER_WORKSPACE", self.workspace.display().to_string()),
            ("OSTLER_WAKE_REASON", self.wake_reason.to_owned()),
            ("CA_LEASE_TOKEN", lease.clone()),
            ("CA_FENCING_TOKEN", fence),
            ("CA_TASK_ID", task.clone()),
            ("CA_RUN_ID", run.clone()),
        ];
        if let Some(comment) = self.wake_comment {
            entries.push(("OSTLER_WAKE_COMMENT_ID", comment.to_owned()));
        }
        if let Some((about, status)) = self.approval {
            entries.push(("OSTLER_APPROVAL_ID", about.to_string()));
            entries.push(("OSTLER_APPROVAL_STATUS", status.clone()));
        }
        let linked: Vec<_> = self.linked_tasks.iter().map(TaskId::to_string).collect();
        if !linked.is_empty() {
            entries.push(("OSTLER_LINKED_TASK_IDS", linked.join(",")));
        }
        if self.compat.iter().any(|family| family == "paperclip") {
            entries.extend([
                ("PAPERCLIP_RUN_ID", run),
                ("PAPERCLIP_TASK_ID", task),
                ("PAPERCLIP_AGENT_ID", agent),
                ("PAPERCLIP_API_URL", self.api_url.to_owned()),
                ("PAPERCLIP_API_KEY", lease),
                ("PAPERCLIP_COMPANY_ID", self.organization.to_owned()),
                ("PAPERCLIP_WAKE_REASON", self.wake_reason.to_owned()),
            ]);
            if let Some(comment) = self.wake_comment {
                entries.push(("PAPERCLIP_WAKE_COMMENT_ID", comment.to_owned()));
            }
            if let Some((about, status)) = self.approval {
                entries.push(("PAPERCLIP_APPROVAL_ID", about.to_string()));
                entries.push(("PAPERCLIP_APPROVAL_STATUS", status.clone()));
            }
            if !linked.is_empty() {
                entries.push(("PAPERCLIP_LINKED_ISSUE_IDS", linked.join(",")));
            }
        }
        entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(
        entries: &[EnvEntry],
        caller: &[(&str, &str)],
        compat: &[String],
    ) -> BTreeMap<String, String> {
        let caller =
            caller.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let nil = "00000000000000000000000000000001";
        let reserved = Reserved {
            run: format!("run_{nil}").parse().unwrap(),
            task: format!("task_{nil}").parse().unwrap(),
            agent: format!("agent_{nil}").parse().unwrap(),
            fence: 7,
            lease_token: "lease",
            api_url: "http://127.0.0.1:9",
            organization: "default",
            workspace: Path::new("/w"),
            wake_reason: "run",
            wake_comment: Some("command_1"),
            approval: Some(&(format!("run_{nil}").parse().unwrap(), "rejected".to_owned())),
            linked_tasks: &[format!("task_{nil}").parse().unwrap()],
            compat,
        };
        build(entries, &["LC_"], &caller, &reserved).into_iter().collect()
    }

    fn entry(name: &str, source: EnvSource) -> EnvEntry {
        EnvEntry { name: name.to_owned(), source }
    }

    #[test]
    fn nothing_of_the_caller_gets_in_that_was_not_asked_for() {
        let caller = [
            ("PATH", "/bin"),
            ("DATABASE_URL", "x"),
            ("LC_ALL", "C"),
            ("MY_KEY", "k"),
            ("CLAUDECODE", "1"),
        ];
        let entries = [
            entry("PATH", EnvSource::Allowlist),
            entry("HOME", EnvSource::Allowlist),
            entry("MY_KEY", EnvSource::Passthrough),
            entry("CLAUDECODE", EnvSource::Passthrough),
        ];
        let built = built(&entries, &caller, &[]);
        let foreign: Vec<_> = built
            .iter()
            .filter(|(name, _)| !name.starts_with("OSTLER_") && !name.starts_with("CA_"))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            foreign,
            ["LC_ALL=C", "MCP_SERVER_URL=http://127.0.0.1:9/mcp", "MY_KEY=k", "PATH=/bin"]
        );
    }

    #[test]
    fn reserved_names_win_over_the_configuration() {
        let value = |value: &str| EnvSource::Config { value: value.to_owned() };
        let entries = [
            entry("CA_LEASE_TOKEN", value("mine")),
            entry("A", value("1")),
            entry("B", value("a\0b")),
        ];
        let built = built(&entries, &[("A", "0")], &[]);
        assert_eq!(
            (built["CA_LEASE_TOKEN"].as_str(), built["A"].as_str(), built.get("B")),
            ("lease", "1", None)
        );
        assert_eq!(built["OSTLER_API_KEY"], built["OSTLER_LEASE_TOKEN"]);
    }

    #[test]
    fn every_name_that_a_run_sets_is_known_as_reserved() {
        let all = built(&[], &[], &["paperclip".to_owned()]);
        let known = passed_env::RUN_VARIABLES.len() + passed_env::PAPERCLIP_VARIABLES.len();
        assert_eq!(all.len(), known, "{all:?}");
        let is_set = passed_env::is_set_by_run;
        assert!(all.keys().all(|name| is_set(name, &["paperclip"])), "{all:?}");
        assert!(!is_set("PAPERCLIP_API_KEY", &[]) && !is_set("PATH", &["paperclip"]));
    }

    #[test]
    fn foreign_families_are_given_only_when_asked_for() {
        assert!(!built(&[], &[], &[]).keys().any(|name| name.starts_with("PAPERCLIP_")));
        let compat = built(&[], &[], &["paperclip".to_owned()]);
        // Every variable that the source names, each with the value of ours.
        for (theirs, ours) in [
            ("AGENT_ID", "AGENT_ID"),
            ("COMPANY_ID", "ORGANIZATION"),
            ("API_URL", "API_URL"),
            ("RUN_ID", "RUN_ID"),
            ("TASK_ID", "TASK_ID"),
            ("WAKE_REASON", "WAKE_REASON"),
            ("WAKE_COMMENT_ID", "WAKE_COMMENT_ID"),
            ("APPROVAL_ID", "APPROVAL_ID"),
            ("APPROVAL_STATUS", "APPROVAL_STATUS"),
            ("LINKED_ISSUE_IDS", "LINKED_TASK_IDS"),
            ("API_KEY", "API_KEY"),
        ] {
            let (theirs, ours) = (format!("PAPERCLIP_{theirs}"), format!("OSTLER_{ours}"));
            assert_eq!(compat[&theirs], compat[&ours], "{theirs}");
        }
    }
}
