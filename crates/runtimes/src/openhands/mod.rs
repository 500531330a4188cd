//! OpenHands in the terminal, driven headless: the prompt as an argument, JSON lines between words
//! on stdout, one turn for one process. `wire` mirrors the lines, `dialect` hears them, `tools` knows
//! its tools and `trouble` its words; `NOTES.md` says where each fact was found. The user's own
//! settings are never written.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product, REPORTS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, Login, Reports, Retries, Told};
use contract::limits::PROMPT_ARGV_BYTES_MAX;
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

/// Without `--override-with-envs` it does not look at its own variables.
const HEADLESS: [&str; 3] = ["--headless", "--json", "--override-with-envs"];
const MODEL_VARIABLE: &str = "LLM_MODEL";
/// The file of a prompt that has no room on a command line.
const PROMPT_FILE: &str = "prompt.md";

const PRODUCT: Product = Product {
    id: "openhands",
    label: "OpenHands",
    binary: "openhands",
    install: "uv tool install openhands --python 3.12",
    recorded: &["1.16.0"],
    // Its own variables: the model and its key, where its home is, and whether LiteLLM asks the
    // network for prices.
    env: &[
        "LLM_API_KEY",
        "LLM_BASE_URL",
        MODEL_VARIABLE,
        "LITELLM_LOCAL_MODEL_COST_MAP",
        "OPENHANDS_CONVERSATIONS_DIR",
        "OPENHANDS_PERSISTENCE_DIR",
    ],
    retries: Retries::Silent,
    closing: "the words `Agent finished`, without an error of the conversation before \
                    them, and then the conversation's id; exit 0 alone is none",
    models: "any model that LiteLLM knows, named by `model` or LLM_MODEL; it lists none and has no \
         default of its own",
    use_when: &[
        "the model is one that LiteLLM knows, and the agent may do everything in the workspace",
        "one key and one address of a model server are all that is configured: it reads both from \
         variables",
        "its steps are to be seen as they come, with the output of its commands",
    ],
    dont_use_when: &[
        "you need tokens or dollars counted or want to be asked first, or the prompt must not \
         show in the process list",
        "a refused key must be told by the exit status: it exits with 0",
        "the model may say nothing: it asks it again and again",
    ],
};

/// Headless, it approves everything itself, and there is no switch against that.
const POLICIES: Policies = Policies {
    deny: Not("headless, it approves every tool itself"),
    ask: Not("headless, it approves every tool itself"),
    allow_reads: Not("headless, it approves every tool itself, also those that write"),
    allow_all: By(
        &[],
        "dangerous: every tool runs without asking, shell commands included; headless, it \
         knows nothing else",
    ),
};

/// OpenHands, by its own CLI.
pub struct OpenHands;

impl Runtime for OpenHands {
    fn card(&self) -> Card {
        Card {
            reports: Reports { tokens: false, usage: Told::Never, ..REPORTS },
            can: Can { resume: true, compaction: true, ..CAN },
            login: Some(Login::seen_by(
                &["LLM_API_KEY"],
                &["~/.openhands/agent_settings.json"],
                "run `openhands` and choose a model, or set LLM_API_KEY and LLM_MODEL",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&HEADLESS);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--resume", spec.session.as_deref()));
        // A file is shown to the model as a file, so it is taken only where an argument has no room.
        let prompt = launch::with_system_prompt(spec);
        let mut files = Vec::new();
        if prompt.len() <= PROMPT_ARGV_BYTES_MAX {
            // In one word, because a prompt may begin like a flag.
            args.push(format!("--task={prompt}"));
        } else {
            args.extend(["-f".to_owned(), launch::path(spec, PROMPT_FILE)]);
            files.push(launch::file(PROMPT_FILE, prompt));
        }
        let mut env = OWN.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        env.extend(spec.model.clone().map(|model| (MODEL_VARIABLE.to_owned(), model)));
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

    /// It says nothing by its exits: 0 is every failure of the model, and its words are on stdout.
    fn classify(&self, _: &ExitEvidence<'_>) -> Option<Code> {
        None
    }
}

/// What every run sets: without the first its lines are held back until there are many of them.
const OWN: [(&str, &str); 2] = [("PYTHONUNBUFFERED", "1"), ("OPENHANDS_SUPPRESS_BANNER", "1")];
