//! pi, driven headless: the prompt on stdin, JSON lines on stdout, one turn for one process. `wire`
//! mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its words;
//! `NOTES.md` says where each fact was found. It never asks before it acts: what it may do is which
//! tools it is given.

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
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, Seen, Skills,
    SystemPrompt,
};
use contract::plan::{Lane, PlanFile, ProjectContext, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;

/// The name of the program.
const BINARY: &str = "pi";
/// The file that holds the system prompt of a run.
const SYSTEM_FILE: &str = "pi-system.md";
/// What leaves out the project's and the user's own instructions and extensions.
const ISOLATE: [&str; 4] =
    ["--no-extensions", "--no-skills", "--no-prompt-templates", "--no-context-files"];

/// The pi coding agent.
pub struct Pi;

impl Runtime for Pi {
    fn card(&self) -> Card {
        Card {
            id: "pi".to_owned(),
            label: "pi".to_owned(),
            versions_recorded: vec!["0.87.1".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g @earendil-works/pi-coding-agent".to_owned(),
            }],
            lanes: vec![Lane::Native],
            // It speaks to many providers; `pi --list-models` tells which are there.
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Trusted,
                quota: false,
                activity: true,
            },
            can: Can {
                resume: true,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: Some(SystemPrompt::File),
                mcp: Mcp::None,
                api: true,
            },
            env: ENV.map(str::to_owned).into(),
            retries: Retries::Bounded,
            closing: "agent_settled after a message that ended with stop; exit 0 is none"
                .to_owned(),
            policies: policies(),
            skills: Some(Skills::AddDir {
                flag: "--skill".to_owned(),
                subdir: String::new(),
                isolated: Seen::ByItself,
            }),
            login: Some(Login::seen_by(
                &launch::keys(&ENV),
                &["~/.pi/agent/auth.json"],
                "run `pi` and type /login, or set the key of a provider",
            )),
            handshake: None,
            use_when: "you want a small agent with any provider's model, and its dollars"
                .to_owned(),
            dont_use_when: "you want to be asked before each step, or tools by MCP".to_owned(),
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
        let mut args = ["-p", "--mode", "json"].map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(&card, spec.policy)?);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(session) = &spec.session {
            args.extend(["--session".to_owned(), session.clone()]);
        }
        match spec.adapter.project_context {
            Some(ProjectContext::Isolate) => args.extend(ISOLATE.map(str::to_owned)),
            Some(ProjectContext::Load) | None => {}
        }
        let mut files = Vec::new();
        if let Some(system) = &spec.system_prompt {
            let path = format!("{}/{SYSTEM_FILE}", spec.files);
            args.extend(["--append-system-prompt".to_owned(), path]);
            files.push(PlanFile { name: SYSTEM_FILE.to_owned(), text: system.clone() });
        }
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let start = Start {
            lane: Lane::Native,
            program: binary.unwrap_or(BINARY).to_owned(),
            args,
            env: Vec::new(),
            stdin: StdinMode::Prompt,
            files,
            linger_ms: None,
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        Box::new(dialect::Pi::new(spec.prompt.clone(), spec.session.clone()))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Pi::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Keys of the providers it is used with most, and its own switches; others pass by
/// `envPassthrough`.
const ENV: [&str; 10] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "PI_CODING_AGENT_DIR",
    "PI_OFFLINE",
];

/// It has no questions, so a policy is a choice of tools.
fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, Some(&["--no-tools"]), "it has no tools at all, by its documentation"),
        (Policy::Ask, None, "it never asks before it acts"),
        (
            Policy::AllowReads,
            Some(&["--tools", "read,grep,find,ls"]),
            "it has only the tools that read, by its documentation",
        ),
        (
            Policy::AllowAll,
            Some(&[]),
            "dangerous: every tool runs without asking, shell commands included",
        ),
    ];
    rows.map(launch::native_policy).into()
}
