//! Any agent that speaks the Agent Client Protocol over its standard input and output, driven by
//! configuration alone: a binary and its arguments. `wire` mirrors the messages, `dialect` answers
//! requests and replies, `ear` and `call` hear updates, `turn` begins and ends, `usage` counts,
//! `words` reads errors, `mode` sets the one that fits the policy (`mode_kind` says what modes
//! mean), `mode_trial` tries it for doctor, `policy` holds what was done against it, `state` is what is
//! saved, `cards` the agents that are known by name, `lane` those of them that are runtimes here. The
//! facts are in `NOTES.md`; what one agent does differently from the others is told by its own words
//! alone, never by how it is configured.

mod call;
pub mod cards;
mod dialect;
mod ear;
pub mod judge;
pub mod lane;
mod mode;
mod mode_kind;
pub mod mode_trial;
mod policy;
mod state;
mod turn;
mod usage;
mod wire;
mod words;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start, with_system_prompt};
use crate::{Dialect, ExitEvidence, Runtime, Spec, provider, template};
use contract::card::{
    Can, CardEvidence, Dollars, Handshake, Mcp, ModelList, PolicyRow, Reports, Retries,
    SystemPrompt, Told,
};
use contract::plan::{Lane, StdinMode, TurnEnd};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;
use state::{Relay, State, Wanted};

/// The runtime for any command that speaks ACP.
pub struct Acp;

impl Runtime for Acp {
    fn card(&self) -> Card {
        Card {
            id: "acp".to_owned(),
            label: "ACP agent".to_owned(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Recorded,
            requires: Vec::new(),
            lanes: vec![Lane::Acp],
            models: Vec::new(),
            models_source: "each agent names its models when a session opens: \
                 `ostler runtimes NAME --models` asks it".to_owned(),
            default_model: None,
            context_window: None,
            model_list: Some(ModelList::Session),
            reports: Reports {
                tokens: true,
                usage: Told::ByAgent,
                answers: Told::Never,
                dollars: Dollars::Shown,
                quota: false,
                activity: true,
            },
            // Resuming depends on the agent; one that cannot begins afresh.
            can: Can {
                resume: true,
                interrupt: true,
                message: true,
                permissions: true,
                compaction: false,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::Http,
                api: true,
            },
            env: Vec::new(),
            env_modes: Vec::new(),
            env_files: Vec::new(),
            retries: Retries::Silent,
            closing:
                "a reply to session/prompt whose stop reason is end_turn, after something was \
                      said or done and no failure of the model was told"
                    .to_owned(),
            policies: policies(),
            skills: None,
            login: None,
            handshake: None,
            use_when: "the agent speaks ACP on its standard input and output\n\
             you want its permission questions answered by Ostler, or messages and interrupts during the run\n\
             the agent is known by one of the names that end in -acp: then nothing has to be configured".to_owned(),
            dont_use_when: "the agent has a runtime of its own here that tells more\n\
             tokens and dollars must be known: ACP has a place for them, and many agents leave it empty\n\
             the success of a turn must be certain: some agents end a turn after an error of their model as if it went well".to_owned(),
            config_schema: [
                ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
                ("args", json!({ "type": "array", "items": { "type": "string" } })),
                ("versionArgs", json!({ "type": "array", "items": { "type": "string" } })),
                ("fallbackModels", json!({ "type": "array" })),
                ("turnEnd", json!({ "enum": ["reply", "update"] })),
            ]
            .map(|(key, schema)| (key.to_owned(), schema))
            .into(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let name = &spec.adapter.name;
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let Some(binary) = binary else {
            let message =
                format!("adapters.{name}: an ACP agent needs a binary, and none is named");
            let hint = format!("set adapters.{name}.binary to a name on PATH or a path");
            return Err(Fault::new(Code::InvalidConfig, message).with_hint(hint));
        };
        let args = launch::filled(spec, "args", &spec.adapter.args)?;
        let (lane, program, stdin) = (Lane::Acp, binary.to_owned(), StdinMode::Jsonrpc);
        Start { lane, program, args, stdin, ..Start::default() }.plan(spec, &self.card())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let wanted = Wanted {
            cwd: placeholder(spec, "{{workspacePath}}"),
            models: spec.model.iter().chain(fallback(spec)).cloned().collect(),
            resume: spec.session.clone(),
            relay: relay(spec),
            policy: spec.policy,
            turn_end: spec.adapter.turn_end.unwrap_or(TurnEnd::Reply),
        };
        Box::new(dialect::Acp::new(State::new(wanted, with_system_prompt(spec))))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Acp::new(State::load(state)?)))
    }

    /// The exit codes of an unknown program mean nothing; one that fails to start may say why.
    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        match evidence.exit_code? {
            0 => None,
            _ => provider::of_words(evidence.stderr_tail),
        }
    }
}

/// The greeting of a command with these arguments; `None` when they are known only in a run.
pub fn handshake(args: &[String]) -> Option<Handshake> {
    let filled = |arg: &String| !arg.contains("{{") && !arg.contains("${");
    args.iter().all(filled).then(|| Handshake {
        args: args.to_vec(),
        say: json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": dialect::greeting(),
        })
        .to_string(),
        answer: "/result/protocolVersion".to_owned(),
        session: Some(
            json!({
                "jsonrpc": "2.0", "id": mode_trial::OPEN_ID, "method": "session/new",
                "params": { "cwd": "{{cwd}}", "mcpServers": [] },
            })
            .to_string(),
        ),
    })
}

/// What to ask for instead, when something is asked for at all.
fn fallback(spec: &Spec) -> &[String] {
    if spec.model.is_some() { &spec.adapter.fallback_models } else { &[] }
}

/// Our own tools, if they are to be offered.
fn relay(spec: &Spec) -> Option<Relay> {
    let url = placeholder(spec, "{{mcpUrl}}").filter(|url| spec.adapter.mcp && !url.is_empty())?;
    let token = placeholder(spec, "{{leaseToken}}")?;
    Some(Relay::new(url, token, spec.own_program.clone()))
}

/// A value of the run's context, if it has one.
fn placeholder(spec: &Spec, template: &str) -> Option<String> {
    template::fill(template, template, &spec.context, &spec.caller_env).ok()
}

/// Each policy by answers to the agent's questions: there are no flags that all agents know.
fn policies() -> Vec<PolicyRow> {
    let unasked = "what the agent does without asking, by its own mode and settings, is only seen";
    [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll]
        .map(|policy| PolicyRow {
            policy,
            lane: Lane::Acp,
            flags: Some(Vec::new()),
            note: Some(match policy {
                Policy::Deny => format!("every question is answered with no; {unasked}"),
                Policy::Ask => format!("every question waits for a person; {unasked}"),
                Policy::AllowReads => format!(
                    "a question to read or search is answered with yes, others with no; {unasked}"
                ),
                Policy::AllowAll => {
                    "dangerous: every question is answered with yes, each time for that one time"
                        .to_owned()
                }
            }),
        })
        .into()
}
