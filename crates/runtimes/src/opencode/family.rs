//! How this agent and those made from it are started, and what their cards share: the same flags, and variables that differ by
//! their first word. What a run adds goes by flags, variables and files of its own; the user's and the
//! project's configuration are never written. Policies are rules of an agent that is made up for the
//! run, because the rules of an agent come after all others, and the last rule that fits decides.

use super::logged;
use crate::acp::lane::{self, Aside, ToldRetry};
use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product, REPORTS_ANSWERS};
use crate::launch::{self, Start};
use crate::{Spec, skills};
use contract::card::{
    Can, Dollars, Login, Mcp, ModelColumn, ModelList, Reports, Retries, Skills, SystemPrompt,
};
use contract::plan::StdinMode;
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

/// Headless, with thoughts, which are left out unless asked for, and with the errors of the log,
/// because retries are told nowhere else.
const HEADLESS: [&str; 7] =
    ["run", "--format", "json", "--thinking", "--print-logs", "--log-level", "ERROR"];
/// By ACP, with the same errors.
pub(crate) const ACP: [&str; 4] = ["acp", "--print-logs", "--log-level", "ERROR"];
/// What a member tells beside the protocol: the same log.
pub(crate) const ASIDE: Aside = Aside { stderr: retry_told, ..Aside::NONE };
/// Agents that are made up for a run, one for each policy that has rules.
const DENIES: &str = "ostler-deny";
const READS: &str = "ostler-allow-reads";
/// The tool that starts sub-agents. Nothing is told of what they spend, not even when they end.
const SUB_AGENTS: &str = "task";
/// The name of our server, and with it the beginning of the names of its tools.
const OWN_SERVER: &str = "ostler";
const OWN_TOOLS: &str = "ostler_*";

/// The policies of every member.
pub(crate) const POLICIES: Policies = Policies {
    deny: By(
        &["--agent", DENIES],
        "it has only the relayed tools, by rules given in variables; by its source, not recorded",
    ),
    ask: Not(
        "headless, whatever it would ask for is refused and ends the run; its ACP mode can ask",
    ),
    allow_reads: By(
        &["--agent", READS],
        "it may read and search inside the project, by rules given in variables; by its source, \
         not recorded; plugins of the project run all the same unless it is isolated",
    ),
    allow_all: By(
        &["--auto"],
        "dangerous: every tool runs without asking, shell commands included, except what the \
         configuration of the user denies",
    ),
};

/// A wait that a provider asks for is kept, an hour too, without a word on stdout; only the log on
/// stderr tells the error before it.
pub(crate) const RETRIES: Retries = Retries::Silent;
pub(crate) const CLOSING: &str =
    "a step that finished with stop, without an error after it; exit 0 is none";

/// The card of a member.
pub(crate) fn card(product: &Product, login: Login) -> Card {
    let mut card = Card {
        model_list: Some(ModelList::Command {
            args: launch::words(&["models"]),
            column: ModelColumn::Line,
        }),
        reports: Reports { dollars: Dollars::Trusted, ..REPORTS_ANSWERS },
        can: Can { resume: true, system_prompt: Some(SystemPrompt::File), mcp: Mcp::Http, ..CAN },
        skills: Some(Skills::Setting { key: "skills.paths".to_owned() }),
        login: Some(login),
        ..product.card(POLICIES.rows())
    };
    let context = json!({ "enum": ["load", "isolate"] });
    card.config_schema.insert("projectContext".to_owned(), context);
    card
}

impl Family {
    pub(crate) fn plan(&self, spec: &Spec, card: &Card) -> Result<LaunchPlan, Fault> {
        let mut args = launch::words(&HEADLESS);
        args.extend(launch::policy_flags(card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--session", spec.session.as_deref()));
        let mut env = Vec::new();
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        if let Some(config) = self.config(spec) {
            set(self.config, config.to_string());
        }
        // The agent made up for the run falls back to another if it is not found: then these hold.
        match rules(spec) {
            Some((_, rules)) => set(self.permission, rules.to_string()),
            None if spec.counts_spending => {
                set(self.permission, json!({ SUB_AGENTS: "deny" }).to_string())
            }
            None => {}
        }
        if launch::isolates(spec) {
            set(self.isolate, "1".to_owned());
        }
        let file = |system: &String| launch::file(self.system_file, system);
        let start = Start {
            program: launch::binary(spec, self.binary),
            args,
            env,
            stdin: StdinMode::Prompt,
            files: spec.system_prompt.iter().map(file).collect(),
            ..Start::default()
        };
        start.plan(spec, card)
    }

    /// Variables that let it ask over ACP. Its agent that is made up for this is one of its modes, and
    /// is chosen as such.
    pub(crate) fn asking(&self, spec: &Spec) -> Vec<(String, String)> {
        let mut set = Vec::new();
        if let Some(rules) = asking(spec) {
            let agent = json!({ lane::MADE_UP: { "mode": "primary", "permission": rules } });
            set.push((self.config.to_owned(), json!({ "agent": agent }).to_string()));
            set.push((self.permission.to_owned(), rules.to_string()));
        }
        if launch::isolates(spec) {
            set.push((self.isolate.to_owned(), "1".to_owned()));
        }
        set
    }

    /// What the run adds to the configuration; it is merged over the user's and the project's.
    fn config(&self, spec: &Spec) -> Option<Value> {
        let mut config = Map::new();
        if let Some((agent, rules)) = rules(spec) {
            let agent = json!({ agent: { "mode": "primary", "permission": rules } });
            config.insert("agent".to_owned(), agent);
        }
        if spec.system_prompt.is_some() {
            let path = launch::path(spec, self.system_file);
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

/// A retry that the log tells.
fn retry_told(line: &str) -> Option<ToldRetry> {
    let retry = logged::retry(line)?;
    let (is_limit, terminal) = (retry.is_limit(), retry.is_terminal());
    let logged::Retry { code, said, wait_ms } = retry;
    Some(ToldRetry { code, said, wait_ms, is_limit, terminal })
}

/// Our own server. The token stays in the environment, where the agent finds it by its name.
fn server(spec: &Spec) -> Option<Value> {
    Some(json!({
        "type": "remote",
        "url": launch::mcp_url(spec)?,
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

/// Rules by which somebody is asked. Under `deny` that is so for what only reads, too.
fn asking(spec: &Spec) -> Option<Value> {
    let reads = match spec.policy {
        Policy::AllowAll => return None,
        Policy::Deny => "ask",
        Policy::Ask | Policy::AllowReads => "allow",
    };
    let read = json!({ "*": reads, "*.env": "ask", "*.env.*": "ask", "*.env.example": reads });
    Some(json!({
        "*": "ask",
        "glob": reads,
        "grep": reads,
        "list": reads,
        "read": read,
        "todowrite": "allow",
        OWN_TOOLS: "allow",
    }))
}
