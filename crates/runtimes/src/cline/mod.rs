//! Cline, driven headless: the prompt on the command line, where there is little room, JSON lines on
//! stdout, one turn for one process. `wire` mirrors the lines, `dialect` hears them, `tools` knows
//! its tools and `trouble` its words; `NOTES.md` says where each fact was found, also that it leaves
//! a daemon behind. The user's own settings are never written.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product, REPORTS_ANSWERS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, Dollars, Login, Reports, Retries};
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

const PRODUCT: Product = Product {
    id: "cline",
    label: "Cline",
    binary: "cline",
    install: "npm install -g cline (Node 22 or newer)",
    recorded: &["3.0.65"],
    // Its own variables: where its home is, how it works, and what is the user's business.
    env: &[
        "CLINE_DIR",
        "CLINE_DATA_DIR",
        "CLINE_HOOKS_DIR",
        "CLINE_HUB_ADDRESS",
        "CLINE_SESSION_BACKEND_MODE",
        "CLINE_COMMAND_PERMISSIONS",
        "CLINE_SANDBOX",
        "CLINE_SANDBOX_DATA_DIR",
        "CLINE_DISABLE_TELEMETRY",
        "CLINE_NO_AUTO_UPDATE",
    ],
    retries: Retries::Silent,
    closing: "a run_result line whose finishReason is completed",
    models: "it speaks to many providers, whose models are known to it alone; `--model` names one, \
         and its default is that of its providers.json",
    use_when: &[
        "you have Cline set up with a provider and want its tokens reported",
        "work that was begun in its editor extension's account is to go on without an editor",
        "allow-all in a worktree is what you want: it works without questions",
    ],
    dont_use_when: &[
        "the prompt is long (it goes on the command line, up to 96 KiB), no process may stay \
         behind after the run (it starts a daemon), or you want to be asked before each step",
        "a run must stop gently: it ignores SIGTERM and is killed",
        "a conversation is to be resumed: its lines do not name it",
    ],
};

/// Headless, it runs everything, and no flag is known that lets it only read.
const POLICIES: Policies = Policies {
    deny: Not("headless, it runs its tools unasked, and they cannot be taken away"),
    ask: Not("headless, nobody can be asked"),
    allow_reads: Not("no flag is known by which it has only the tools that read"),
    allow_all: By(&[], "dangerous: every tool runs without asking, shell commands included"),
};

/// The Cline CLI.
pub struct Cline;

impl Runtime for Cline {
    fn card(&self) -> Card {
        Card {
            reports: Reports { dollars: Dollars::Shown, ..REPORTS_ANSWERS },
            can: Can {
                // Its lines do not name the conversation by which it could be taken up again.
                resume: false,
                ..CAN
            },
            login: Some(Login::seen_by(
                &[],
                &["~/.cline/data/settings/providers.json"],
                "run `cline auth`",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = vec!["--json".to_owned()];
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--id", spec.session.as_deref()));
        args.push(plain(launch::argv_prompt(spec, &card)?));
        let start =
            Start { program: launch::binary(spec, PRODUCT.binary), args, ..Start::default() };
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

/// A prompt that can be taken neither for a flag nor for one of the agent's own commands, which a
/// single word could be: an empty line before it changes neither.
fn plain(prompt: String) -> String {
    let word = !prompt.contains(char::is_whitespace);
    if word || prompt.starts_with('-') { format!("\n{prompt}") } else { prompt }
}
