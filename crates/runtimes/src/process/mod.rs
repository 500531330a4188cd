//! Any program that speaks JSON lines, driven by configuration alone: a binary, its arguments and
//! its environment. This is the runtime for a foreign agent whose author writes to the protocol and
//! no adapter at all. The protocol itself is in `jsonlines`; the environment's values are put in by
//! whoever carries out the plan, so only names and configured values are stated here.

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, jsonlines};
use contract::card::{Can, CardEvidence, Dollars, Mcp, PolicyRow, Reports, Retries, Told};
use contract::plan::{Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;

/// The runtime for any command that speaks JSON lines.
pub struct Process;

impl Runtime for Process {
    fn card(&self) -> Card {
        Card {
            id: "process".to_owned(),
            label: "JSON-lines process".to_owned(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Documented,
            requires: Vec::new(),
            lanes: vec![Lane::Process],
            models: Vec::new(),
            models_source: "the program decides; name its model with `model` and its price with `costModel`"
                .to_owned(),
            default_model: None,
            context_window: None,
            model_list: None,
            reports: Reports {
                tokens: true,
                usage: Told::ByAgent,
                answers: Told::ByAgent,
                dollars: Dollars::Trusted,
                quota: false,
                activity: true,
            },
            // An agent may say hello and accept messages, interrupts and to be resumed; until it does,
            // it cannot.
            can: Can {
                resume: false,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: None,
                mcp: Mcp::Http,
                api: true,
            },
            env: Vec::new(),
            env_modes: Vec::new(),
            env_files: Vec::new(),
            retries: Retries::Silent,
            closing: "a complete or failed line".to_owned(),
            policies: policies(),
            skills: None,
            login: None,
            handshake: None,
            use_when: "the agent is a local program that prints JSON lines and reads them\n\
             you write the agent: forty lines of any language are enough, and docs/protocols/agent.py is one\n\
             the tools of Ostler are to be called by lines instead of MCP".to_owned(),
            dont_use_when: "the agent runs on another machine, or speaks another protocol\n\
             the program prints JSON lines of its own: describe them by `mapping` in an adapter of type cli\n\
             the agent's own file changes must be governed by the policy: only relayed tools are".to_owned(),
            config_schema: [
                ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
                ("args", json!({ "type": "array", "items": { "type": "string" } })),
                ("protocol", json!({ "const": "json-lines" })),
            ]
            .map(|(key, schema)| (key.to_owned(), schema))
            .into(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let name = &spec.adapter.name;
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let Some(binary) = binary else {
            let message = format!("adapters.{name}: a process needs a binary, and none is named");
            let hint = format!("set adapters.{name}.binary to a name on PATH or a path");
            return Err(Fault::new(Code::InvalidConfig, message).with_hint(hint));
        };
        launch(spec, &self.card(), binary.to_owned(), Vec::new())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        jsonlines::opened(spec.session.is_some())
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        jsonlines::restore(state)
    }

    /// The exit codes of an unknown program mean nothing that is known here.
    fn classify(&self, _: &ExitEvidence<'_>) -> Option<Code> {
        None
    }
}

/// The policies of the process lane: all of them, because what the agent does by itself is not seen.
pub(crate) fn policies() -> Vec<PolicyRow> {
    [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll]
        .map(|policy| PolicyRow {
            policy,
            lane: Lane::Process,
            flags: Some(Vec::new()),
            note: Some(match policy {
                Policy::Deny | Policy::Ask | Policy::AllowReads => {
                    "governs the relayed tools only; what the program does by itself is not seen"
                        .to_owned()
                }
                Policy::AllowAll => {
                    "dangerous: every relayed tool may be used without asking; what the program \
                     does by itself is not seen"
                        .to_owned()
                }
            }),
        })
        .into()
}

/// A plan for a program of the process lane: its own arguments, then those of the configuration.
pub(crate) fn launch(
    spec: &Spec,
    card: &Card,
    program: String,
    own_args: Vec<String>,
) -> Result<LaunchPlan, Fault> {
    let mut args = own_args;
    args.extend(launch::filled(spec, "args", &spec.adapter.args)?);
    let start =
        Start { lane: Lane::Process, program, args, stdin: StdinMode::Events, ..Start::default() };
    start.plan(spec, card)
}

#[cfg(test)]
mod tests;
