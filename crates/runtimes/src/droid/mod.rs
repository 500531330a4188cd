//! Factory's droid, driven headless: the prompt on stdin, JSON lines on stdout, one process for one
//! prompt. `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its
//! words; `NOTES.md` says where each fact was found.

mod dialect;
mod tools;
mod trouble;
mod wire;

/// The current ones of those that its ACP session named.
fn models() -> Vec<Model> {
    let rows = [
        ("claude-fable-5.1", "Fable 5.1"),
        ("claude-fable-5", "Fable 5"),
        ("claude-opus-5", "Opus 5"),
        ("claude-opus-5-fast", "Opus 5 Fast Mode"),
        ("claude-opus-4-8", "Opus 4.8"),
        ("claude-sonnet-5", "Sonnet 5"),
        ("claude-sonnet-4-6", "Sonnet 4.6"),
        ("claude-haiku-4-5-20251001", "Haiku 4.5"),
        ("gpt-6-astra", "GPT-6 Astra"),
        ("gpt-5.6-sol", "GPT-5.6 Sol"),
        ("gpt-5.6-terra", "GPT-5.6 Terra"),
        ("gpt-5.6-luna", "GPT-5.6 Luna"),
        ("gpt-5.5", "GPT-5.5"),
        ("gpt-5.5-pro", "GPT-5.5 Pro"),
        ("gpt-5.4", "GPT-5.4"),
        ("gpt-5.4-mini", "GPT-5.4 Mini"),
        ("gemini-3.1-pro-preview", "Gemini 3.1 Pro"),
        ("gemini-3.8-flash", "Gemini 3.8 Flash"),
        ("inkling", "Inkling (Droid Core)"),
        ("glm-5.3", "GLM-5.3 (Droid Core)"),
        ("kimi-k3", "Kimi K3 (Droid Core)"),
        ("deepseek-v4-pro", "DeepSeek V4 Pro (Droid Core)"),
        ("grok-4.6", "Grok 4.6"),
    ];
    rows.map(|(id, label)| Model { id: id.to_owned(), label: label.to_owned() }).into()
}

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Held, Laned};
use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, CardEvidence, Login, Model, Retries, Skills, SystemPrompt};
use contract::plan::StdinMode;
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

/// The file that holds the system prompt of a run.
const SYSTEM_FILE: &str = "droid-system.md";
/// All its files are written when it says that it is done; then it looks for its vendor for about six
/// seconds, five times, and leaves. Ended before that, it takes the same time again.
const LINGER_MS: u64 = 8_000;

const PRODUCT: Product = Product {
    id: "droid",
    label: "Factory Droid",
    binary: "droid",
    install: "npm install -g droid",
    recorded: &["0.215.0"],
    // Its own variables; keys of custom models pass by `envPassthrough`.
    env: &["FACTORY_API_KEY", "FACTORY_DISABLE_AUTO_UPDATE"],
    // Some are bounded, others went on for four minutes; nothing is printed of any.
    retries: Retries::Silent,
    closing: "a completion line; exit 0 is none, it comes after SIGTERM too",
    models: "recorded with 0.215.0: the current ones among those that its ACP session named; models of \
         one's own are `custom:NAME`, and the default is that of its settings",
    use_when: &[
        "you have a Factory account, or set up models of your own there",
        "models of several vendors are to be used under one account",
        "the run is to be steered: `lane: acp` takes messages, interrupts and questions",
    ],
    dont_use_when: &[
        "you want to see dollars, to be asked before each step, to speak during the run, or tools \
         by MCP",
        "runs must end quickly: its process stays about six seconds after its answer",
        "a failure must be told early: it prints nothing of a retry, some of which went on for \
         four minutes",
    ],
};

/// By ACP.
pub(crate) const BY_ACP: Laned = Laned::new(
    PRODUCT.id,
    cards::row(
        ("droid-acp", PRODUCT.label),
        (PRODUCT.binary, &["exec", "--output-format", "acp"]),
        "npm install -g @factory/cli",
        CardEvidence::Recorded,
    ),
    Held::Asking,
);

const POLICIES: Policies = Policies {
    deny: Not("headless, its tools that only read run unasked"),
    ask: Not("headless, nobody can be asked; its ACP mode can"),
    allow_reads: By(
        &[],
        "without a flag it only reads, by its documentation; what it would do beyond that ends \
         the run",
    ),
    allow_all: By(
        &["--skip-permissions-unsafe"],
        "dangerous: every tool runs without asking, shell commands included",
    ),
};

/// Factory's droid.
pub struct Droid;

impl Runtime for Droid {
    fn card(&self) -> Card {
        Card {
            models: models(),
            can: Can { resume: true, system_prompt: Some(SystemPrompt::File), ..CAN },
            skills: Some(Skills::HomeLinks { dir: "~/.factory/skills".to_owned() }),
            login: Some(Login::seen_by(
                &["FACTORY_API_KEY"],
                &["~/.factory/auth.json", "~/.factory/auth.v2.file"],
                "run `droid` and log in, or set FACTORY_API_KEY",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&["exec", "-o", "stream-json"]);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--session-id", spec.session.as_deref()));
        let mut files = Vec::new();
        if let Some(system) = &spec.system_prompt {
            let path = launch::path(spec, SYSTEM_FILE);
            args.extend(["--append-system-prompt-file".to_owned(), path]);
            files.push(launch::file(SYSTEM_FILE, system));
        }
        let start = Start {
            program: launch::binary(spec, PRODUCT.binary),
            args,
            stdin: StdinMode::Prompt,
            files,
            linger_ms: Some(LINGER_MS),
            ..Start::default()
        };
        start.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        headless::dialect(Some(spec.prompt.clone()), State::new(spec))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}
