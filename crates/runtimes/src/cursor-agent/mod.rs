//! Cursor's agent in the terminal, driven headless: the prompt on stdin, JSON lines on stdout, one
//! turn for one process. It is not on a package registry and needs an account, so this folder is
//! written from what is documented and was never tried: the card says so, and `NOTES.md` says where
//! each fact was found. The user's own settings are never written.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, Model, PolicyRow, Reports, Requirement, Retries,
    SystemPrompt,
};
use contract::plan::{Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use dialect::State;

/// The name of the program; it is also installed as `agent`, which is too common a word.
const BINARY: &str = "cursor-agent";

/// Headless, with every line as JSON. A directory that nobody trusted before is refused without
/// `--trust`, because nobody can be asked.
const HEADLESS: [&str; 4] = ["-p", "--output-format", "stream-json", "--trust"];

/// Cursor's agent.
pub struct CursorAgent;

impl Runtime for CursorAgent {
    fn card(&self) -> Card {
        Card {
            id: "cursor-agent".to_owned(),
            label: "Cursor Agent".to_owned(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Documented,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "curl https://cursor.com/install -fsS | bash".to_owned(),
            }],
            lanes: vec![Lane::Native],
            models: vec![Model { id: "auto".to_owned(), label: "chosen by Cursor".to_owned() }],
            context_window: None,
            reports: Reports { tokens: true, dollars: Dollars::None, quota: false, activity: true },
            can: Can {
                resume: true,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::None,
                api: false,
            },
            env: ["CURSOR_API_KEY", "CURSOR_CONFIG_DIR"].map(str::to_owned).into(),
            retries: Retries::Silent,
            closing: "a result line of subtype success that is no error, after something was said \
                      or done"
                .to_owned(),
            policies: policies(),
            skills: None,
            login: Some(Login::seen_by(
                &["CURSOR_API_KEY"],
                &["~/.config/cursor/auth.json"],
                "run `cursor-agent login`",
            )),
            handshake: None,
            use_when: "the account is one of Cursor".to_owned(),
            dont_use_when: "you want to be asked before each step, to speak during the run, or to \
                            offer it tools of your own"
                .to_owned(),
            config_schema: launch::cli_schema(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = HEADLESS.map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(&card, spec.policy)?);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(session) = &spec.session {
            args.extend(["--resume".to_owned(), session.clone()]);
        }
        let program = launch::binary(spec, BINARY);
        let start = Start { program, args, stdin: StdinMode::Prompt, ..Start::default() };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        headless::dialect::<State>(spec, Some(launch::with_system_prompt(spec)))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, None, "headless, its tools that only read run unasked"),
        (Policy::Ask, None, "headless, nobody can be asked"),
        (
            Policy::AllowReads,
            Some(&["--mode", "ask"]),
            "its mode for questions, read-only by its documentation; that is kept by Cursor's \
             servers and not by this machine",
        ),
        (
            Policy::AllowAll,
            Some(&["--force"]),
            "dangerous: every tool runs without asking, shell commands included, except what its \
             own configuration denies",
        ),
    ];
    rows.map(launch::native_policy).into()
}
