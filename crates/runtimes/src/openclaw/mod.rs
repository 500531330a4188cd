//! OpenClaw, its embedded agent driven once: the prompt in a file of the run, one JSON document on
//! stdout when all is over, one turn for one process. `wire` mirrors the document, `dialect` hears it
//! and `trouble` knows its words; `NOTES.md` says where each fact was found. It writes files of its
//! own into its workspace, so `owned` gives each run one. The user's settings are never written.

mod dialect;
mod owned;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product, REPORTS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, Dollars, Login, Reports, Retries};
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

/// One turn of the embedded agent, without its gateway.
const HEADLESS: [&str; 3] = ["agent", "--local", "--json"];
/// The file that holds the prompt of a run.
const MESSAGE_FILE: &str = "openclaw-message.md";
/// Its own limit is ten minutes unless told otherwise. Ours decide, so its own is put out of their
/// way: a week, because timers of its kind cannot count far beyond.
const TIMEOUT_SEC: u64 = 7 * 24 * 3600;
/// The conversation of a run that has no id of its own.
const SESSION: &str = "ostler";

const PRODUCT: Product = Product {
    id: "openclaw",
    label: "OpenClaw",
    binary: "openclaw",
    install: "npm install -g openclaw (Node 24.16 or newer)",
    recorded: &["2026.9.6"],
    // Where its home and its configuration are, and the keys of the providers it is used with most;
    // others pass by `envPassthrough`.
    env: &[
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
    ],
    retries: Retries::Silent,
    closing: "the one document at its end, of a run that stopped by itself and was not \
                    aborted",
    models: "models and their names are in its own openclaw.json; `--model PROVIDER/NAME` names one",
    use_when: &[
        "you have OpenClaw set up and want its agent, its memory and its dollars in the same \
         books",
        "the answer matters and not the way to it: one document at its end has all of it",
        "a conversation is to be resumed in the same workspace",
    ],
    dont_use_when: &[
        "you want to see what it does while it does it, or its memory and persona: a run has a \
         workspace of its own, and those are in the user's",
        "the start must be quick: a short run takes 13 to 28 seconds",
        "you want to be asked before each step, or tools by MCP",
    ],
};

/// What its tools may do is in its own configuration, and no flag changes it.
const POLICIES: Policies = Policies {
    deny: Not("its tools are those of its own configuration, whatever is asked for"),
    ask: Not("nobody can be asked while it runs"),
    allow_reads: Not("no flag is known by which it has only the tools that read"),
    allow_all: By(
        &[],
        "dangerous: every tool of its own configuration runs without asking, shell commands \
         included",
    ),
};

/// The OpenClaw CLI.
pub struct Openclaw;

impl Runtime for Openclaw {
    fn card(&self) -> Card {
        Card {
            // It speaks to the providers of its own configuration.
            reports: Reports { dollars: Dollars::Trusted, activity: false, ..REPORTS },
            can: Can { resume: true, compaction: true, ..CAN },
            login: Some(Login::seen_by(
                &["OPENCLAW_CONFIG_PATH"],
                &["~/.openclaw/openclaw.json"],
                "run `openclaw onboard`",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&HEADLESS);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(["--session-id".to_owned(), session(spec)]);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(["--timeout".to_owned(), TIMEOUT_SEC.to_string()]);
        args.extend(["--message-file".to_owned(), launch::path(spec, MESSAGE_FILE)]);
        let mut files = vec![launch::file(MESSAGE_FILE, launch::with_system_prompt(spec))];
        let mut env = Vec::new();
        let cwd = launch::placeholder(spec, "workspacePath");
        if let Some(owned) = cwd.and_then(|cwd| owned::of(spec, &cwd)) {
            files.push(owned.file);
            env = owned.env;
        }
        let program = launch::binary(spec, PRODUCT.binary);
        let start = Start { program, args, env, files, ..Start::default() };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        headless::dialect(None, State::new(spec))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// The conversation: one that is taken up again, or one that is called as the run is. It makes what
/// it does not know, so none is ever unknown.
fn session(spec: &Spec) -> String {
    let run = || launch::placeholder(spec, "runId");
    spec.session.clone().or_else(run).unwrap_or_else(|| SESSION.to_owned())
}
