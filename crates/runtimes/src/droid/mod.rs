//! Factory's droid, driven headless: the prompt on stdin, JSON lines on stdout, one process for one
//! prompt. `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its
//! words; `NOTES.md` says where each fact was found.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Held, Laned};
use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, CardEvidence, Login, Retries, Skills, SystemPrompt};
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
    use_when: "you have a Factory account, or set up models of your own there",
    dont_use_when: "you want to see dollars, to be asked before each step, to speak during \
                    the run, or tools by MCP",
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
            // `droid exec --help` tells which are there; models of one's own are `custom:NAME`.
            models: Vec::new(),
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
