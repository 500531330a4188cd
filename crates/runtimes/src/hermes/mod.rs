//! Hermes Agent, driven by its one-shot mode: the prompt as an argument, the bare answer on stdout
//! and a report on stderr, one turn for one process. `wire` mirrors the report, `dialect` hears both
//! streams and `trouble` knows its words; `NOTES.md` says where each fact was found. The user's own
//! settings are never written.

mod dialect;
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
use contract::card::{Can, CardEvidence, Dollars, Login, Reports, Retries};
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

/// The report goes where it can be heard: a file of its own would be read by nobody.
const REPORT: [&str; 2] = ["--usage-file", "/dev/stderr"];

const PRODUCT: Product = Product {
    id: "hermes",
    label: "Hermes Agent",
    binary: "hermes",
    install: "uv tool install 'hermes-agent[acp]' --python 3.12",
    recorded: &["0.19.0"],
    // Its own variables: where its home is, the model, and keys.
    env: &[
        "HERMES_HOME",
        "HERMES_INFERENCE_MODEL",
        "HERMES_INFERENCE_PROVIDER",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENROUTER_API_KEY",
    ],
    retries: Retries::Silent,
    closing: "a report on stderr that the task was completed and did not fail, beside an \
                    answer on stdout; exit 0 with an answer alone is none",
    models: "it speaks to many providers: models are those of its config.yaml; its ACP session names \
         them, and its default is `model` there",
    use_when: &[
        "you want its own memory, skills and choice of providers, for a task that may do \
         everything",
        "an estimate of the dollars at the end is enough",
        "steps are to be seen: `lane: acp` shows them, and takes messages",
    ],
    dont_use_when: &[
        "you want to watch its steps, be asked first, continue a conversation, or give a prompt \
         above 96 KiB",
        "the start must be quick: it needs 12 to 20 seconds for the shortest task",
        "it must not reach the network before the first word: it asks for lists of models",
    ],
};

/// By ACP, which is a program of its own in the same package. It asks about an edit under an id that
/// is not the call's, and of this version never tells that the call ended.
pub(crate) const BY_ACP: Laned = Laned {
    aside: Aside { asks_as: Some("edit-approval-"), stderr: trouble::retry, ..Aside::NONE },
    ..Laned::new(
        PRODUCT.id,
        cards::row(
            ("hermes-acp", "Hermes"),
            ("hermes-acp", &[]),
            "pip install 'hermes-agent[acp]'",
            CardEvidence::Recorded,
        ),
        Held::Unasked,
    )
};

/// In its one-shot mode it approves everything itself, and there is no switch against that.
const POLICIES: Policies = Policies {
    deny: Not("its one-shot mode approves every tool itself"),
    ask: Not("its one-shot mode approves every tool itself"),
    allow_reads: Not("its one-shot mode approves every tool itself, also those that write"),
    allow_all: By(
        &["--yolo"],
        "dangerous: every tool runs without asking, shell commands included; its one-shot \
         mode knows nothing else",
    ),
};

/// Hermes Agent of Nous Research.
pub struct Hermes;

impl Runtime for Hermes {
    fn card(&self) -> Card {
        Card {
            reports: Reports { dollars: Dollars::Shown, activity: false, ..REPORTS },
            can: Can { compaction: true, ..CAN },
            login: Some(Login::seen_by(
                &PRODUCT.keys(),
                &["~/.hermes/.env", "~/.hermes/auth.json"],
                "run `hermes setup`, or set the key of a provider",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::policy_flags(&card, spec.policy)?;
        args.extend(launch::words(&REPORT));
        args.extend(launch::given("--model", spec.model.as_deref()));
        if launch::isolates(spec) {
            args.push("--ignore-rules".to_owned());
        }
        let prompt = launch::argv_prompt(spec, &card)?;
        // In one word, because a prompt may begin like a flag.
        args.push(format!("--oneshot={prompt}"));
        let program = launch::binary(spec, PRODUCT.binary);
        Start { program, args, ..Start::default() }.plan(spec, &card)
    }

    fn dialect(&self, _: &Spec) -> Box<dyn Dialect> {
        headless::dialect(None, State::default())
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}
