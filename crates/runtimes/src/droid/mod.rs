//! Factory's droid, driven headless: the prompt on stdin, JSON lines on stdout, one process for one
//! prompt. `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its
//! words; `NOTES.md` says where each fact was found.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, Skills,
    SystemPrompt,
};
use contract::plan::{Lane, PlanFile, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;

/// The name of the program.
const BINARY: &str = "droid";
/// The file that holds the system prompt of a run.
const SYSTEM_FILE: &str = "droid-system.md";
/// Its own variables; keys of custom models pass by `envPassthrough`.
const ENV: [&str; 2] = ["FACTORY_API_KEY", "FACTORY_DISABLE_AUTO_UPDATE"];

/// All its files are written when it says that it is done; then it looks for its vendor for about six
/// seconds, five times, and leaves. Ended before that, it takes the same time again.
const LINGER_MS: u64 = 8_000;

/// Factory's droid.
pub struct Droid;

impl Runtime for Droid {
    fn card(&self) -> Card {
        Card {
            id: "droid".to_owned(),
            label: "Factory Droid".to_owned(),
            versions_recorded: vec!["0.215.0".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g droid".to_owned(),
            }],
            lanes: vec![Lane::Native],
            // `droid exec --help` tells which are there; models of one's own are `custom:NAME`.
            models: Vec::new(),
            context_window: None,
            reports: Reports { tokens: true, dollars: Dollars::None, quota: false, activity: true },
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
            // Some are bounded, others went on for four minutes; nothing is printed of any.
            retries: Retries::Silent,
            closing: "a completion line; exit 0 is none, it comes after SIGTERM too".to_owned(),
            policies: policies(),
            skills: Some(Skills::HomeLinks { dir: "~/.factory/skills".to_owned() }),
            login: Some(Login::seen_by(
                &["FACTORY_API_KEY"],
                &["~/.factory/auth.json", "~/.factory/auth.v2.file"],
                "run `droid` and log in, or set FACTORY_API_KEY",
            )),
            handshake: None,
            use_when: "the account is one of Factory, or its models of one's own are set up"
                .to_owned(),
            dont_use_when:
                "you want to see dollars, to be asked before each step, to speak during \
                            the run, or tools by MCP"
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
        let mut args = ["exec", "-o", "stream-json"].map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(&card, spec.policy)?);
        let mut add = |flag: &str, value: &str| args.extend([flag.to_owned(), value.to_owned()]);
        if let Some(model) = &spec.model {
            add("--model", model);
        }
        if let Some(session) = &spec.session {
            add("--session-id", session);
        }
        if spec.system_prompt.is_some() {
            add("--append-system-prompt-file", &format!("{}/{SYSTEM_FILE}", spec.files));
        }
        let file = |text: &String| PlanFile { name: SYSTEM_FILE.to_owned(), text: text.clone() };
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let start = Start {
            lane: Lane::Native,
            program: binary.unwrap_or(BINARY).to_owned(),
            args,
            env: Vec::new(),
            stdin: StdinMode::Prompt,
            files: spec.system_prompt.as_ref().map(file).into_iter().collect(),
            linger_ms: Some(LINGER_MS),
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        Box::new(dialect::Droid::new(spec.prompt.clone(), spec.session.clone()))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Droid::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, None, "headless, its tools that only read run unasked"),
        (Policy::Ask, None, "headless, nobody can be asked; its ACP mode can"),
        (
            Policy::AllowReads,
            Some(&[]),
            "without a flag it only reads, by its documentation; what it would do beyond that ends \
             the run",
        ),
        (
            Policy::AllowAll,
            Some(&["--skip-permissions-unsafe"]),
            "dangerous: every tool runs without asking, shell commands included",
        ),
    ];
    rows.map(launch::native_policy).into()
}
