//! How this agent and those made from it are started: the same flags, and variables that differ by
//! their first word. What a run adds goes by flags, variables and files of its own; the user's and the
//! project's configuration are never written. Policies are rules of an agent that is made up for the
//! run, because the rules of an agent come after all others, and the last rule that fits decides.

use crate::launch::{self, Start};
use crate::{Spec, skills, template};
use contract::card::PolicyRow;
use contract::plan::{Lane, PlanFile, ProjectContext, StdinMode};
use contract::{Card, Fault, LaunchPlan, Policy};
use serde_json::{Map, Value, json};

/// The names that a member of the family has of its own.
pub(crate) struct Family {
    /// The name of the program.
    pub binary: &'static str,
    /// Variables: a whole configuration as JSON, rules of permission as JSON, and the one that leaves
    /// out what the project configures and instructs.
    pub config: &'static str,
    pub permission: &'static str,
    pub isolate: &'static str,
    /// The file that holds the system prompt of a run.
    pub system_file: &'static str,
}

/// Headless, with thoughts, which are left out unless asked for.
const HEADLESS: [&str; 4] = ["run", "--format", "json", "--thinking"];
/// Agents that are made up for a run, one for each policy that has rules.
const DENIES: &str = "ostler-deny";
const READS: &str = "ostler-allow-reads";
/// The name of our server, and with it the beginning of the names of its tools.
const OWN_SERVER: &str = "ostler";
const OWN_TOOLS: &str = "ostler_*";

impl Family {
    pub(crate) fn plan(&self, spec: &Spec, card: &Card) -> Result<LaunchPlan, Fault> {
        let mut args = HEADLESS.map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(card, spec.policy)?);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(session) = &spec.session {
            args.extend(["--session".to_owned(), session.clone()]);
        }
        let mut env = Vec::new();
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        if let Some(config) = self.config(spec) {
            set(self.config, config.to_string());
        }
        // The agent made up for the run falls back to another if it is not found: then these hold.
        if let Some((_, rules)) = rules(spec) {
            set(self.permission, rules.to_string());
        }
        match spec.adapter.project_context {
            Some(ProjectContext::Isolate) => set(self.isolate, "1".to_owned()),
            Some(ProjectContext::Load) | None => {}
        }
        let system = spec.system_prompt.as_ref();
        let file =
            |text: &String| PlanFile { name: self.system_file.to_owned(), text: text.clone() };
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let start = Start {
            lane: Lane::Native,
            program: binary.unwrap_or(self.binary).to_owned(),
            args,
            env,
            stdin: StdinMode::Prompt,
            files: system.map(file).into_iter().collect(),
            linger_ms: None,
        };
        start.plan(spec, card)
    }

    /// What the run adds to the configuration; it is merged over the user's and the project's.
    fn config(&self, spec: &Spec) -> Option<Value> {
        let mut config = Map::new();
        if let Some((agent, rules)) = rules(spec) {
            let agent = json!({ agent: { "mode": "primary", "permission": rules } });
            config.insert("agent".to_owned(), agent);
        }
        if spec.system_prompt.is_some() {
            let path = format!("{}/{}", spec.files, self.system_file);
            config.insert("instructions".to_owned(), json!([path]));
        }
        if let Some(server) = server(spec) {
            config.insert("mcp".to_owned(), json!({ OWN_SERVER: server }));
        }
        if let Some(dir) = skills::dir(spec) {
            config.insert("skills".to_owned(), json!({ "paths": [dir] }));
        }
        (!config.is_empty()).then_some(Value::Object(config))
    }
}

/// Our own server. The token stays in the environment, where the agent finds it by its name.
fn server(spec: &Spec) -> Option<Value> {
    if !spec.adapter.mcp {
        return None;
    }
    // A run without a relay has no such address, and then there is nothing to offer.
    let url = template::fill("{{mcpUrl}}", "mcpUrl", &spec.context, &spec.caller_env).ok()?;
    Some(json!({
        "type": "remote",
        "url": url,
        "headers": { "Authorization": "Bearer {env:OSTLER_LEASE_TOKEN}" },
        "oauth": false,
        "enabled": true,
    }))
}

/// The agent that keeps a policy, and its rules: the last one that fits decides, and `*` is written
/// first because it sorts before every name. What our own tools may do is decided behind them.
fn rules(spec: &Spec) -> Option<(&'static str, Value)> {
    match spec.policy {
        Policy::Deny => Some((DENIES, json!({ "*": "deny", OWN_TOOLS: "allow" }))),
        Policy::AllowReads => {
            // Files that hold secrets by custom are asked for, and nobody could answer.
            let read = json!({
                "*": "allow",
                "*.env": "deny",
                "*.env.*": "deny",
                "*.env.example": "allow",
            });
            let mut rules = json!({
                "*": "deny",
                "glob": "allow",
                "grep": "allow",
                "list": "allow",
                "read": read,
                "todowrite": "allow",
                OWN_TOOLS: "allow",
            });
            if let Some(dir) = skills::dir(spec) {
                // A skill is read like a file, and the files that it names lie beside it.
                rules["skill"] = json!("allow");
                rules["external_directory"] = json!({ "*": "deny", format!("{dir}/*"): "allow" });
            }
            Some((READS, rules))
        }
        Policy::Ask | Policy::AllowAll => None,
    }
}

pub(crate) fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (
            Policy::Deny,
            Some(&["--agent", DENIES]),
            "it has no tools but ours, by rules given in variables; by its source, not recorded",
        ),
        (
            Policy::Ask,
            None,
            "headless, whatever it would ask for is refused and ends the run; its ACP mode can ask",
        ),
        (
            Policy::AllowReads,
            Some(&["--agent", READS]),
            "it may read and search inside the project, by rules given in variables; by its source, \
             not recorded; plugins of the project run all the same unless it is isolated",
        ),
        (
            Policy::AllowAll,
            Some(&["--auto"]),
            "dangerous: every tool runs without asking, shell commands included, except what the \
             configuration of the user denies",
        ),
    ];
    rows.map(launch::native_policy).into()
}
