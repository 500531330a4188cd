//! Cursor's agent in the terminal, driven headless: the prompt on stdin, JSON lines on stdout, one
//! turn for one process. It is not on a package registry and needs an account, so this folder is
//! written from what is documented and was never tried: the card says so, and `NOTES.md` says where
//! each fact was found. The user's own settings are never written.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, Login, Model, Retries};
use contract::plan::StdinMode;
use contract::{Billing, Card, Code, Fault, LaunchPlan};
use dialect::State;

/// Headless, with every line as JSON. A directory that nobody trusted before is refused without
/// `--trust`, because nobody can be asked.
const HEADLESS: [&str; 4] = ["-p", "--output-format", "stream-json", "--trust"];

/// What tells a program that this agent started it.
pub(crate) const MARKERS: &[&str] = &["CURSOR_AGENT", "CURSOR_TRACE_ID"];

const PRODUCT: Product = Product {
    id: "cursor-agent",
    label: "Cursor Agent",
    // The name of the program; it is also installed as `agent`, which is too common a word.
    binary: "cursor-agent",
    install: "curl https://cursor.com/install -fsS | bash",
    recorded: &[],
    env: &["CURSOR_API_KEY", "CURSOR_CONFIG_DIR"],
    retries: Retries::Silent,
    closing: "a result line of subtype success that is no error, after something was said \
                    or done",
    models: "documented: `auto` is there for every account, and which others there are depends on the \
         subscription; no version of it was recorded",
    use_when: &[
        "you have a Cursor account",
        "its `auto` choice of models is what you want",
        "tokens are to be reported at the end of a turn without a key of your own",
    ],
    dont_use_when: &[
        "you want to be asked before each step, to speak during the run, or to offer it tools of \
         your own",
        "the behaviour must be proven: it follows the documentation, and was not tested with the \
         program",
        "dollars must be known: it reports none",
    ],
};

const POLICIES: Policies = Policies {
    deny: Not("headless, its tools that only read run unasked"),
    ask: Not("headless, nobody can be asked"),
    allow_reads: By(
        &["--mode", "ask"],
        "its mode for questions, read-only by its documentation; that is kept by Cursor's \
         servers and not by this machine",
    ),
    allow_all: By(
        &["--force"],
        "dangerous: every tool runs without asking, shell commands included, except what its \
         own configuration denies",
    ),
};

/// Cursor's agent.
pub struct CursorAgent;

impl Runtime for CursorAgent {
    fn card(&self) -> Card {
        Card {
            models: vec![Model { id: "auto".to_owned(), label: "chosen by Cursor".to_owned() }],
            default_model: Some("auto".to_owned()),
            can: Can { resume: true, api: false, ..CAN },
            login: Some(
                Login::seen_by(
                    &["CURSOR_API_KEY"],
                    &["~/.config/cursor/auth.json"],
                    "run `cursor-agent login`",
                )
                // A key of Cursor's belongs to the same plan as the login.
                .paid_by(Billing::Subscription),
            ),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&HEADLESS);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--resume", spec.session.as_deref()));
        let program = launch::binary(spec, PRODUCT.binary);
        let start = Start { program, args, stdin: StdinMode::Prompt, ..Start::default() };
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
