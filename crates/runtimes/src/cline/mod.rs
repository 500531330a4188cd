//! Cline, driven headless: the prompt on the command line, where there is little room, JSON lines on
//! stdout, one turn for one process. `wire` mirrors the lines, `dialect` hears them, `tools` knows
//! its tools and `trouble` its words; `NOTES.md` says where each fact was found, also that it leaves
//! a daemon behind. The user's own settings are never written.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt,
};
use contract::plan::{Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use dialect::State;

/// The name of the program.
const BINARY: &str = "cline";

/// The Cline CLI.
pub struct Cline;

impl Runtime for Cline {
    fn card(&self) -> Card {
        Card {
            id: "cline".to_owned(),
            label: "Cline".to_owned(),
            versions_recorded: vec!["3.0.65".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g cline (Node 22 or newer)".to_owned(),
            }],
            lanes: vec![Lane::Native],
            // It speaks to many providers, whose models are known to it alone.
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Shown,
                quota: false,
                activity: true,
            },
            can: Can {
                // Its lines do not name the conversation by which it could be taken up again.
                resume: false,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::None,
                api: true,
            },
            env: ENV.map(str::to_owned).into(),
            retries: Retries::Silent,
            closing: "a run_result line whose finishReason is completed".to_owned(),
            policies: policies(),
            skills: None,
            login: Some(Login::seen_by(
                &[],
                &["~/.cline/data/settings/providers.json"],
                "run `cline auth`",
            )),
            handshake: None,
            use_when: "you have Cline set up with a provider and want its tokens told".to_owned(),
            dont_use_when:
                "the prompt is long (it goes on the command line, up to 96 KiB), nothing \
                            may stay behind after the run (it starts a daemon), or you want to be \
                            asked before each step"
                    .to_owned(),
            config_schema: launch::cli_schema(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = vec!["--json".to_owned()];
        args.extend(launch::policy_flags(&card, spec.policy)?);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(session) = &spec.session {
            args.extend(["--id".to_owned(), session.clone()]);
        }
        args.push(plain(launch::argv_prompt(spec, &card)?));
        let start = Start {
            program: launch::binary(spec, BINARY),
            args,
            stdin: StdinMode::None,
            ..Start::default()
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        headless::dialect::<State>(spec, None)
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Its own variables: where its home is, how it works, and what is the user's business.
const ENV: [&str; 10] = [
    "CLINE_DIR",
    "CLINE_DATA_DIR",
    "CLINE_HOOKS_DIR",
    "CLINE_HUB_ADDRESS",
    "CLINE_SESSION_BACKEND_MODE",
    "CLINE_COMMAND_PERMISSIONS",
    "CLINE_SANDBOX",
    "CLINE_SANDBOX_DATA_DIR",
    "CLINE_DISABLE_TELEMETRY",
    "CLINE_NO_AUTO_UPDATE",
];

/// Headless, it runs everything, and no flag is known that lets it only read.
fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, None, "headless, it runs its tools unasked, and they cannot be taken away"),
        (Policy::Ask, None, "headless, nobody can be asked"),
        (Policy::AllowReads, None, "no flag is known by which it has only the tools that read"),
        (
            Policy::AllowAll,
            Some(&[]),
            "dangerous: every tool runs without asking, shell commands included",
        ),
    ];
    rows.map(launch::native_policy).into()
}

/// A prompt that can be taken neither for a flag nor for one of the agent's own commands, which a
/// single word could be: an empty line before it changes neither.
fn plain(prompt: String) -> String {
    let word = !prompt.contains(char::is_whitespace);
    if word || prompt.starts_with('-') { format!("\n{prompt}") } else { prompt }
}
