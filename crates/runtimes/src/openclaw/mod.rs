//! OpenClaw, its embedded agent driven once: the prompt in a file of the run, one JSON document on
//! stdout when all is over, one turn for one process. `wire` mirrors the document, `dialect` hears it
//! and `trouble` knows its words; `NOTES.md` says where each fact was found. It writes files of its
//! own into its workspace, so `owned` gives each run one. The user's settings are never written.

mod dialect;
mod owned;
mod state;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, template};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt,
};
use contract::plan::{Lane, PlanFile};
use contract::{Card, Code, Fault, LaunchPlan, Policy};

/// The name of the program.
const BINARY: &str = "openclaw";
/// One turn of the embedded agent, without its gateway.
const HEADLESS: [&str; 3] = ["agent", "--local", "--json"];
/// The file that holds the prompt of a run.
const MESSAGE_FILE: &str = "openclaw-message.md";
/// Its own limit is ten minutes unless told otherwise. Ours decide, so its own is put out of their
/// way: a week, because timers of its kind cannot count far beyond.
const TIMEOUT_SEC: u64 = 7 * 24 * 3600;
/// The conversation of a run that has no id of its own.
const SESSION: &str = "ostler";

/// The OpenClaw CLI.
pub struct Openclaw;

impl Runtime for Openclaw {
    fn card(&self) -> Card {
        Card {
            id: "openclaw".to_owned(),
            label: "OpenClaw".to_owned(),
            versions_recorded: vec!["2026.9.6".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g openclaw (Node 24.16 or newer)".to_owned(),
            }],
            lanes: vec![Lane::Native],
            // It speaks to the providers of its own configuration.
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Trusted,
                quota: false,
                activity: false,
            },
            can: Can {
                resume: true,
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
            closing: "the one document at its end, of a run that stopped by itself and was not \
                      aborted"
                .to_owned(),
            policies: policies(),
            skills: None,
            login: Some(Login::seen_by(
                &["OPENCLAW_CONFIG_PATH"],
                &["~/.openclaw/openclaw.json"],
                "run `openclaw onboard`",
            )),
            handshake: None,
            use_when: "you have OpenClaw set up and want its agent, its memory and its dollars in \
                       the same books"
                .to_owned(),
            dont_use_when:
                "you want to see what it does while it does it, or its memory and persona: \
                            a run has a workspace of its own, and those are in the user's"
                    .to_owned(),
            config_schema: launch::cli_schema(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = HEADLESS.map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(["--session-id".to_owned(), session(spec)]);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        args.extend(["--timeout".to_owned(), TIMEOUT_SEC.to_string()]);
        let path = format!("{}/{MESSAGE_FILE}", spec.files);
        args.extend(["--message-file".to_owned(), path]);
        let text = launch::with_system_prompt(spec);
        let mut files = vec![PlanFile { name: MESSAGE_FILE.to_owned(), text }];
        let mut env = Vec::new();
        let cwd = placeholder(spec, "workspacePath");
        if let Some(owned) = cwd.and_then(|cwd| owned::of(spec, &cwd)) {
            files.push(owned.file);
            env = owned.env;
        }
        let program = launch::binary(spec, BINARY);
        let start = Start { program, args, env, files, ..Start::default() };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let workspace = placeholder(spec, "workspacePath");
        let owned = owned::dir(spec).filter(|_| workspace.is_some());
        Box::new(dialect::Openclaw::new(spec.session.clone(), workspace, owned))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Openclaw::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Where its home and its configuration are, and the keys of the providers it is used with most;
/// others pass by `envPassthrough`.
const ENV: [&str; 10] = [
    "OPENCLAW_HOME",
    "OPENCLAW_STATE_DIR",
    "OPENCLAW_CONFIG_PATH",
    "OPENCLAW_INCLUDE_ROOTS",
    "OPENCLAW_PROFILE",
    "OPENCLAW_NO_AUTO_UPDATE",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
];

/// What its tools may do is in its own configuration, and no flag changes it.
fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, None, "its tools are those of its own configuration, whatever is asked for"),
        (Policy::Ask, None, "nobody can be asked while it runs"),
        (Policy::AllowReads, None, "no flag is known by which it has only the tools that read"),
        (
            Policy::AllowAll,
            Some(&[]),
            "dangerous: every tool of its own configuration runs without asking, shell commands \
             included",
        ),
    ];
    rows.map(launch::native_policy).into()
}

/// The conversation: one that is taken up again, or one that is called as the run is. It makes what
/// it does not know, so none is ever unknown.
fn session(spec: &Spec) -> String {
    let run = || placeholder(spec, "runId");
    spec.session.clone().or_else(run).unwrap_or_else(|| SESSION.to_owned())
}

/// What the run knows under this name, if anything.
fn placeholder(spec: &Spec, name: &str) -> Option<String> {
    let template = format!("{{{{{name}}}}}");
    let value = template::fill(&template, name, &spec.context, &spec.caller_env).ok();
    value.filter(|value| !value.is_empty())
}
