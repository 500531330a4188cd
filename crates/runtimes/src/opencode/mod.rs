//! OpenCode, driven headless: the prompt on stdin, JSON lines on stdout, one process for one prompt.
//! `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its errors;
//! `family` starts it and those made from it, which share the dialect. `NOTES.md` says where each
//! fact was found.

mod dialect;
mod family;
mod state;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use dialect::Steps;
pub(crate) use family::{Family, policies};
pub(crate) use trouble::at_exit;

use crate::acp;
use crate::launch;
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, Reports, Requirement, Retries, Skills, SystemPrompt,
};
use contract::plan::Lane;
use contract::{Card, Code, Fault, LaunchPlan};
use serde_json::json;

const FAMILY: Family = Family {
    binary: "opencode",
    config: "OPENCODE_CONFIG_CONTENT",
    permission: "OPENCODE_PERMISSION",
    isolate: "OPENCODE_DISABLE_PROJECT_CONFIG",
    system_file: "opencode-system.md",
};

/// The OpenCode agent.
pub struct OpenCode;

impl Runtime for OpenCode {
    fn card(&self) -> Card {
        Card {
            id: "opencode".to_owned(),
            label: "OpenCode".to_owned(),
            versions_recorded: vec!["1.18.33".to_owned()],
            requires: vec![Requirement {
                binary: FAMILY.binary.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g opencode-ai".to_owned(),
            }],
            env: ENV.map(str::to_owned).into(),
            policies: acp::lane::both("opencode", policies()),
            login: Some(Login::seen_by(
                &launch::keys(&ENV),
                &["${XDG_DATA_HOME:-~/.local/share}/opencode/auth.json"],
                "run `opencode auth login`, or set the key of a provider",
            )),
            use_when: "you want any provider's model with an open agent, and its dollars"
                .to_owned(),
            dont_use_when: "you want to be asked before each step, to speak during the run, or to \
                            see text and commands while they come"
                .to_owned(),
            ..shared_card()
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        FAMILY.plan(spec, &self.card())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let (session, model) = (spec.session.clone(), spec.model.clone());
        Box::new(Steps::new(spec.prompt.clone(), session, model))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(Steps::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        at_exit(evidence)
    }
}

/// What it is given over ACP, so that it asks.
pub(crate) fn asking_rules(spec: &Spec) -> Vec<(String, String)> {
    FAMILY.asking(spec)
}

/// What is on the card of every member of the family.
pub(crate) fn shared_card() -> Card {
    Card {
        id: String::new(),
        label: String::new(),
        versions_recorded: Vec::new(),
        evidence: CardEvidence::Recorded,
        requires: Vec::new(),
        lanes: vec![Lane::Native, Lane::Acp],
        // It speaks to many providers; its command `models` tells which are there.
        models: Vec::new(),
        context_window: None,
        reports: Reports { tokens: true, dollars: Dollars::Trusted, quota: false, activity: true },
        can: Can {
            resume: true,
            interrupt: false,
            message: false,
            permissions: false,
            compaction: false,
            system_prompt: Some(SystemPrompt::File),
            mcp: Mcp::Http,
            api: true,
        },
        env: Vec::new(),
        // A wait that a provider asks for is kept, an hour too, without a word on either stream.
        retries: Retries::Silent,
        closing: "a step that finished with stop, without an error after it; exit 0 is none"
            .to_owned(),
        policies: policies(),
        skills: Some(Skills::Setting { key: "skills.paths".to_owned() }),
        login: None,
        handshake: None,
        use_when: String::new(),
        dont_use_when: String::new(),
        config_schema: [
            ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
            ("extraArgs", json!({ "type": "array", "items": { "type": "string" } })),
            ("projectContext", json!({ "enum": ["load", "isolate"] })),
        ]
        .map(|(key, schema)| (key.to_owned(), schema))
        .into(),
    }
}

/// Keys of the providers it is used with most, and its own switches; others pass by
/// `envPassthrough`.
const ENV: [&str; 15] = [
    "OPENCODE_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
];
