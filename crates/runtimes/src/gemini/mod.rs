//! Gemini CLI, driven headless: the prompt on stdin, JSON lines on stdout, one turn for one process.
//! `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its words
//! and exits; `NOTES.md` says where each fact was found. The user's own settings are never written:
//! what a run adds is in flags, variables and files of its own.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Aside, Held, Laned};
use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product, REPORTS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{
    BillingFile, Can, CardEvidence, EnvMode, Login, Model, Reports, Retries, Skills, Told,
};
use contract::plan::StdinMode;
use contract::{Billing, Card, Code, Fault, LaunchPlan};
use dialect::State;

/// Headless, an unknown folder is refused unless this says that it is meant.
const TRUST_VARIABLE: &str = "GEMINI_CLI_TRUST_WORKSPACE";

/// What tells a program that this agent started it.
pub(crate) const MARKERS: &[&str] = &["GEMINI_CLI"];

const PRODUCT: Product = Product {
    id: "gemini",
    label: "Gemini CLI",
    binary: "gemini",
    install: "npm install -g @google/gemini-cli (Node 20 or newer)",
    recorded: &["0.61.0"],
    // Its own variables: keys, the way to Google's cloud, and where its home is.
    env: &[
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
    ],
    retries: Retries::Bounded,
    closing: "a result line of status success; exit 0 alone is none",
    models: "recorded with 0.61.0: `auto` and what its ACP session named; the aliases follow the \
         newest of each family; the context window is that of its Pro models",
    use_when: &[
        "the task needs a long context, or you have a Google account",
        "many small runs are to be cheap: its smallest models start in two seconds",
        "tools are to be asked about by ACP: `lane: acp` can keep ask",
    ],
    dont_use_when: &[
        "you want to be asked before each step, to speak during the run, or to see dollars",
        "a rate limit must be known early: it retries for five minutes and tells it on stderr \
         alone",
        "a conversation must be resumed by ACP: loading a session failed every time it was tried",
    ],
};

/// By ACP.
pub(crate) const BY_ACP: Laned = Laned {
    aside: Aside { tells_late: Some("gemini-cli"), ..Aside::NONE },
    ..Laned::new(
        PRODUCT.id,
        cards::row(
            ("gemini-acp", PRODUCT.label),
            (PRODUCT.binary, &["--acp"]),
            "npm install -g @google/gemini-cli",
            CardEvidence::Recorded,
        ),
        Held::Asking,
    )
};

/// Headless, whatever would be asked is refused: the modes that ask therefore only read.
const POLICIES: Policies = Policies {
    deny: Not("headless, its tools that only read run unasked; its ACP mode asks for the others"),
    ask: Not("headless, nobody can be asked; its ACP mode can"),
    allow_reads: By(
        &["--approval-mode", "default"],
        "what it would ask for is refused, by its documentation; what the settings and policies \
         of the user or of the workspace allow stays allowed, so it is no guard against a \
         workspace that means harm",
    ),
    allow_all: By(
        &["--yolo"],
        "dangerous: every tool runs without asking, shell commands included",
    ),
};

/// A rule that leaves out sub-agents: nothing is told of their answers while they work.
const SUB_AGENTS_FILE: &str = "sub-agents.toml";
const NO_SUB_AGENTS: &str =
    "[[rule]]\ntoolName = \"invoke_agent\"\ndecision = \"deny\"\npriority = 999\n";

/// Google's Gemini CLI.
pub struct Gemini;

impl Runtime for Gemini {
    fn card(&self) -> Card {
        Card {
            models: models(),
            default_model: Some("auto".to_owned()),
            context_window: Some(1_048_576),
            reports: Reports { quota: true, answers: Told::PerAnswer, ..REPORTS },
            can: Can { resume: true, ..CAN },
            // Its own skills have to be activated, which is refused where nobody can be asked.
            skills: Some(Skills::Prompt { flag: Some("--include-directories".to_owned()) }),
            env_modes: vec![EnvMode::new(
                "Google Vertex AI",
                "GOOGLE_GENAI_USE_VERTEXAI",
                &["CLOUDSDK_CONFIG", "GOOGLE_CLOUD_QUOTA_PROJECT"],
            )],
            login: Some(Login {
                billing_file: Some(kinds_of_login()),
                ..Login::seen_by(
                    &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                    &["~/.gemini/oauth_creds.json"],
                    "run `gemini` and choose how to log in, or set GEMINI_API_KEY",
                )
                .billed_by(&["GEMINI_API_KEY"])
            }),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&["-p", "", "-o", "stream-json"]);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--resume", spec.session.as_deref()));
        if launch::isolates(spec) {
            // Its settings and context files have no switch; the extensions have.
            args.extend(launch::words(&["-e", "none"]));
        }
        let mut files = Vec::new();
        if spec.counts_spending {
            args.extend(["--policy".to_owned(), launch::path(spec, SUB_AGENTS_FILE)]);
            files.push(launch::file(SUB_AGENTS_FILE, NO_SUB_AGENTS));
        }
        let start = Start {
            program: launch::binary(spec, PRODUCT.binary),
            args,
            files,
            env: vec![(TRUST_VARIABLE.to_owned(), "true".to_owned())],
            stdin: StdinMode::Prompt,
            ..Start::default()
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        headless::dialect(Some(launch::with_system_prompt(spec)), State::new(spec))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

fn models() -> Vec<Model> {
    let rows = [
        ("auto", "chosen for each prompt by a small model"),
        ("pro", "the largest, by its alias"),
        ("flash", "the quick one, by its alias"),
        ("flash-lite", "the smallest, by its alias"),
        ("gemini-3.8-flash", "Gemini 3.8 Flash"),
        ("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite"),
        ("gemini-3.1-pro-preview", "Gemini 3.1 Pro (preview)"),
        ("gemini-2.5-pro", "Gemini 2.5 Pro"),
    ];
    rows.map(|(id, label)| Model { id: id.to_owned(), label: label.to_owned() }).into()
}

/// The setting that names the kind of login. A login with a Google account has a free tier or a
/// subscription, and nothing is billed by use.
fn kinds_of_login() -> BillingFile {
    let kinds = [
        ("oauth-personal", Billing::Free),
        ("login-with-google", Billing::Free),
        ("gemini-api-key", Billing::Metered),
        ("vertex-ai", Billing::Metered),
        ("cloud-shell", Billing::Metered),
    ];
    BillingFile {
        path: "~/.gemini/settings.json".to_owned(),
        pointers: launch::words(&["/security/auth/selectedType", "/selectedAuthType"]),
        kinds: kinds.map(|(kind, billing)| (kind.to_owned(), billing)).into(),
    }
}
