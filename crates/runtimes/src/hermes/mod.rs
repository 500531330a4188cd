//! Hermes Agent, driven by its one-shot mode: the prompt as an argument, the bare answer on stdout
//! and a report on stderr, one turn for one process. `report` reads the report, `dialect` hears both
//! streams and `trouble` knows its words; `NOTES.md` says where each fact was found. The user's own
//! settings are never written.

mod dialect;
mod report;
mod trouble;

#[cfg(test)]
mod tests;

use crate::acp;
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, oneshot};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt,
};
use contract::plan::{Lane, ProjectContext};
use contract::{Card, Code, Fault, LaunchPlan, Policy};

/// The name of the program.
const BINARY: &str = "hermes";
/// The report goes where it can be heard: a file of its own would be read by nobody.
const REPORT: [&str; 2] = ["--usage-file", "/dev/stderr"];

/// Hermes Agent of Nous Research.
pub struct Hermes;

impl Runtime for Hermes {
    fn card(&self) -> Card {
        Card {
            id: "hermes".to_owned(),
            label: "Hermes Agent".to_owned(),
            versions_recorded: vec!["0.19.0".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "uv tool install 'hermes-agent[acp]' --python 3.12".to_owned(),
            }],
            lanes: vec![Lane::Native, Lane::Acp],
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Shown,
                quota: false,
                activity: false,
            },
            can: Can {
                resume: false,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: true,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::None,
                api: true,
            },
            env: ENV.map(str::to_owned).into(),
            retries: Retries::Silent,
            closing: "a report on stderr that the task was completed and did not fail, beside an \
                      answer on stdout; exit 0 with an answer alone is none"
                .to_owned(),
            policies: acp::lane::both("hermes", policies()),
            skills: None,
            login: Some(Login::seen_by(
                &launch::keys(&ENV),
                &["~/.hermes/.env", "~/.hermes/auth.json"],
                "run `hermes setup`, or set the key of a provider",
            )),
            handshake: None,
            use_when: "its own memory, skills and choice of providers are wanted for a task that \
                       may do everything"
                .to_owned(),
            dont_use_when: "you want to see what it does while it does it, to be asked first, to \
                            go on with a conversation, or to give a prompt above 96 KiB"
                .to_owned(),
            config_schema: oneshot::config_schema(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::policy_flags(&card, spec.policy)?;
        args.extend(REPORT.map(str::to_owned));
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        match spec.adapter.project_context {
            Some(ProjectContext::Isolate) => args.push("--ignore-rules".to_owned()),
            Some(ProjectContext::Load) | None => {}
        }
        let prompt = oneshot::prompt_argument(&card.label, launch::with_system_prompt(spec))?;
        // In one word, because a prompt may begin like a flag.
        args.push(format!("--oneshot={prompt}"));
        let program = oneshot::program(spec, BINARY);
        Start { program, args, ..Start::default() }.plan(spec, &card)
    }

    fn dialect(&self, _: &Spec) -> Box<dyn Dialect> {
        Box::new(dialect::Hermes::new())
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Hermes::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Its own variables: where its home is, the model, and keys.
const ENV: [&str; 7] = [
    "HERMES_HOME",
    "HERMES_INFERENCE_MODEL",
    "HERMES_INFERENCE_PROVIDER",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENROUTER_API_KEY",
];

/// In its one-shot mode it approves everything itself, and there is no switch against that.
fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, None, "its one-shot mode approves every tool itself"),
        (Policy::Ask, None, "its one-shot mode approves every tool itself"),
        (
            Policy::AllowReads,
            None,
            "its one-shot mode approves every tool itself, also those that write",
        ),
        (
            Policy::AllowAll,
            Some(&["--yolo"]),
            "dangerous: every tool runs without asking, shell commands included; its one-shot \
             mode knows nothing else",
        ),
    ];
    rows.map(launch::native_policy).into()
}
