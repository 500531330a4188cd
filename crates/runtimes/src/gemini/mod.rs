//! Gemini CLI, driven headless: the prompt on stdin, JSON lines on stdout, one turn for one process.
//! `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its words
//! and exits; `NOTES.md` says where each fact was found. The user's own settings are never written:
//! what a run adds is in flags, variables and files of its own.

mod dialect;
mod state;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, Model, PolicyRow, Reports, Requirement, Retries,
    Skills, SystemPrompt,
};
use contract::plan::{Lane, ProjectContext, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;

/// The name of the program.
const BINARY: &str = "gemini";
/// Headless, an unknown folder is refused unless this says that it is meant.
const TRUST_VARIABLE: &str = "GEMINI_CLI_TRUST_WORKSPACE";

/// Google's Gemini CLI.
pub struct Gemini;

impl Runtime for Gemini {
    fn card(&self) -> Card {
        Card {
            id: "gemini".to_owned(),
            label: "Gemini CLI".to_owned(),
            versions_recorded: vec!["0.61.0".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g @google/gemini-cli (Node 20 or newer)".to_owned(),
            }],
            lanes: vec![Lane::Native],
            models: models(),
            context_window: Some(1_048_576),
            reports: Reports { tokens: true, dollars: Dollars::None, quota: true, activity: true },
            can: Can {
                resume: true,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::None,
                api: true,
            },
            env: ENV.map(str::to_owned).into(),
            retries: Retries::Bounded,
            closing: "a result line of status success; exit 0 alone is none".to_owned(),
            policies: policies(),
            // Its own skills have to be activated, which is refused where nobody can be asked.
            skills: Some(Skills::Prompt { flag: Some("--include-directories".to_owned()) }),
            login: Some(
                Login::seen_by(
                    &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                    &["~/.gemini/oauth_creds.json"],
                    "run `gemini` and choose how to log in, or set GEMINI_API_KEY",
                )
                .billed_by(&["GEMINI_API_KEY"]),
            ),
            handshake: None,
            use_when: "the task needs a long context, or the account is one of Google".to_owned(),
            dont_use_when: "you want to be asked before each step, to speak during the run, or to \
                            see dollars"
                .to_owned(),
            config_schema: [
                ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
                ("extraArgs", json!({ "type": "array", "items": { "type": "string" } })),
            ]
            .map(|(key, schema)| (key.to_owned(), schema))
            .into(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = ["-p", "", "-o", "stream-json"].map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(&card, spec.policy)?);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(session) = &spec.session {
            args.extend(["--resume".to_owned(), session.clone()]);
        }
        match spec.adapter.project_context {
            // Its settings and context files have no switch; the extensions have.
            Some(ProjectContext::Isolate) => args.extend(["-e".to_owned(), "none".to_owned()]),
            Some(ProjectContext::Load) | None => {}
        }
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let start = Start {
            lane: Lane::Native,
            program: binary.unwrap_or(BINARY).to_owned(),
            args,
            env: vec![(TRUST_VARIABLE.to_owned(), "true".to_owned())],
            stdin: StdinMode::Prompt,
            files: Vec::new(),
            linger_ms: None,
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let prompt = launch::with_system_prompt(spec);
        Box::new(dialect::Gemini::new(prompt, spec.session.clone()))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Gemini::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Its own variables: keys, the way to Google's cloud, and where its home is.
const ENV: [&str; 11] = [
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GEMINI_MODEL",
    "GEMINI_CLI_HOME",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
];

fn models() -> Vec<Model> {
    let rows = [
        ("auto", "chosen for each prompt by a small model"),
        ("pro", "the largest, by its alias"),
        ("flash", "the quick one, by its alias"),
        ("flash-lite", "the smallest, by its alias"),
        ("gemini-3.8-flash", "Gemini 3.8 Flash"),
        ("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite"),
        ("gemini-3.1-pro-preview", "Gemini 3.1 Pro (preview)"),
    ];
    rows.map(|(id, label)| Model { id: id.to_owned(), label: label.to_owned() }).into()
}

/// Headless, whatever would be asked is refused: the modes that ask therefore only read.
fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (
            Policy::Deny,
            None,
            "headless, its tools that only read run unasked; its ACP mode asks for the others",
        ),
        (Policy::Ask, None, "headless, nobody can be asked; its ACP mode can"),
        (
            Policy::AllowReads,
            Some(&["--approval-mode", "default"]),
            "what it would ask for is refused, by its documentation; what the settings and policies \
             of the user or of the workspace allow stays allowed, so it is no guard against a \
             workspace that means harm",
        ),
        (
            Policy::AllowAll,
            Some(&["--yolo"]),
            "dangerous: every tool runs without asking, shell commands included",
        ),
    ];
    rows.map(launch::native_policy).into()
}
