//! GitHub's Copilot CLI, driven headless: the prompt on stdin, JSON lines on stdout, one turn for one
//! process. `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its
//! words; `NOTES.md` says where each fact was found. The user's own settings are never written: what
//! a run adds is in flags and a file of its own.

mod dialect;
mod state;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::acp;
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt,
};
use contract::plan::{Lane, PlanFile, ProjectContext, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;

/// The name of the program.
const BINARY: &str = "copilot";
/// What makes it print one JSON object a line and nothing else.
const HEADLESS: [&str; 3] = ["--output-format", "json", "--no-color"];
/// The file that names our MCP server.
const MCP_FILE: &str = "copilot-mcp.json";

/// GitHub Copilot CLI.
pub struct Copilot;

impl Runtime for Copilot {
    fn card(&self) -> Card {
        Card {
            id: "copilot".to_owned(),
            label: "GitHub Copilot CLI".to_owned(),
            versions_recorded: vec!["1.0.102".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g @github/copilot (Node 22 or newer)".to_owned(),
            }],
            lanes: vec![Lane::Native, Lane::Acp],
            // Which models there are depends on the subscription or on the provider of one's own.
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: false,
                dollars: Dollars::None,
                quota: false,
                activity: true,
            },
            can: Can {
                resume: true,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: true,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::Http,
                api: true,
            },
            env: ENV.map(str::to_owned).into(),
            retries: Retries::Bounded,
            closing: "a result line with exit 0 after an answer and no abort; exit 0 alone is none"
                .to_owned(),
            policies: acp::lane::both("copilot", policies()),
            skills: None,
            login: Some(Login::seen_by(
                &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"],
                &["${COPILOT_HOME:-~/.copilot}/config.json"],
                "run `copilot login`, or name a provider of your own by COPILOT_PROVIDER_BASE_URL",
            )),
            handshake: None,
            use_when: "the account is one of GitHub, or the work is about its repositories"
                .to_owned(),
            dont_use_when:
                "tokens or dollars must be known: headless it tells neither, so no budget \
                            in them holds; or you want to be asked before each step"
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
            args.push(format!("--resume={session}"));
        }
        match spec.adapter.project_context {
            Some(ProjectContext::Isolate) => args.push("--no-custom-instructions".to_owned()),
            Some(ProjectContext::Load) | None => {}
        }
        let mut files = Vec::new();
        if let Some(url) = launch::mcp_url(spec) {
            let path = format!("@{}/{MCP_FILE}", spec.files);
            args.extend(["--additional-mcp-config".to_owned(), path]);
            // What our tools may do is decided behind them.
            if spec.policy != Policy::AllowAll {
                args.push("--allow-tool=ostler".to_owned());
            }
            files.push(PlanFile { name: MCP_FILE.to_owned(), text: servers(&url) });
        }
        let start = Start {
            program: launch::binary(spec, BINARY),
            args,
            stdin: StdinMode::Prompt,
            files,
            ..Start::default()
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let prompt = launch::with_system_prompt(spec);
        Box::new(dialect::Copilot::new(prompt, spec.session.clone()))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Copilot::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Its own variables: the login, a provider of one's own, and where its home is.
const ENV: [&str; 14] = [
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_HOST",
    "COPILOT_HOME",
    "COPILOT_MODEL",
    "COPILOT_OFFLINE",
    "COPILOT_AUTO_UPDATE",
    "COPILOT_CUSTOM_INSTRUCTIONS_DIRS",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_WIRE_API",
];

/// Headless, whatever would be asked is refused: without a flag that allows, it only reads.
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
            Some(&["--deny-tool=shell", "--deny-tool=write"]),
            "shell and writing are denied, which outweighs what the user allowed before, and what \
             it would ask for is refused: both by its documentation",
        ),
        (
            Policy::AllowAll,
            Some(&["--allow-all"]),
            "dangerous: every tool, path and address is allowed without asking, shell commands \
             included",
        ),
    ];
    rows.map(launch::native_policy).into()
}

/// Our own MCP server, as the agent is told of it. The token stays in the environment.
fn servers(url: &str) -> String {
    let server = json!({
        "type": "http",
        "url": url,
        "headers": { "Authorization": "Bearer ${OSTLER_LEASE_TOKEN}" },
        "tools": ["*"],
    });
    json!({ "mcpServers": { "ostler": server } }).to_string()
}
