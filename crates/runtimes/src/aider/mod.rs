//! Aider, driven by a message file: plain text on stdout, the log of its events on stderr, one turn
//! for one process. `wire` mirrors the log, `dialect` hears both streams and `trouble` knows its
//! words; `NOTES.md` says where each fact was found. Whatever it would ask, it is told to answer with
//! yes, so everything that must not be answered so is switched off here.

mod dialect;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::card::Cell::{By, Not};
use crate::card::{Policies, Product, REPORTS_ANSWERS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Dollars, Login, Reports, Retries};
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

const PROMPT_FILE: &str = "prompt.md";

/// Text as it is, whole messages so that their tokens are those of the provider, and its log where
/// it can be heard; no file of its own in the workspace; and nothing that a yes to every question
/// would do to the user: telemetry, pages in a browser, a changed .gitignore, downloads, commits. The
/// words of a commit are asked of a second model, whose tokens nobody tells.
const HEADLESS: [&str; 18] = [
    "--no-pretty",
    "--no-stream",
    "--no-fancy-input",
    "--no-check-update",
    "--no-show-release-notes",
    "--no-show-model-warnings",
    "--no-gitignore",
    "--no-auto-commits",
    "--no-dirty-commits",
    "--no-detect-urls",
    "--no-suggest-shell-commands",
    "--no-analytics",
    "--analytics-log",
    "/dev/stderr",
    "--input-history-file",
    "/dev/null",
    "--chat-history-file",
    "/dev/null",
];

/// What every run sets: its lines come as they are said, and what it would open in a browser is
/// opened in nothing.
const OWN: [(&str, &str); 3] =
    [("PYTHONUNBUFFERED", "1"), ("BROWSER", "true"), ("COLUMNS", COLUMNS)];

/// It breaks its own lines at the width of a terminal, and words are known whole or not at all. Longer
/// than any of its lines, and short enough for one that is filled up to the width.
const COLUMNS: &str = "4096";

const PRODUCT: Product = Product {
    id: "aider",
    label: "Aider",
    binary: "aider",
    install: "uv tool install aider-chat --python 3.12",
    recorded: &["0.86.2"],
    // Its own variables: keys, models, and whether LiteLLM asks the network for prices.
    env: &[
        "AIDER_MODEL",
        "AIDER_WEAK_MODEL",
        "ANTHROPIC_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "LITELLM_LOCAL_MODEL_COST_MAP",
        "OPENAI_API_BASE",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
    ],
    retries: Retries::Bounded,
    closing: "a message that is closed by its line of tokens, nothing wrong after it, and \
                    `Completed --message-file` in its log; exit 0 alone is none",
    models: "any model that LiteLLM knows, named by `model` or AIDER_MODEL; `aider --list-models` \
         tells their names, and its default depends on the keys that are set",
    use_when: &[
        "any model that LiteLLM knows can make the change in one step, in a git repository, \
         without tools",
        "the files to change are known and few, and its map of the repository is enough context",
        "a weak or small model has to do: it needs no calls of tools",
    ],
    dont_use_when: &[
        "the agent must run commands or continue a conversation, or the workspace is not a git \
         repository",
        "you want to be asked before each change, or tools by MCP",
        "exact tokens matter: it prints rounded figures",
    ],
};

/// It asks in a terminal or says yes to everything; there is nothing between.
const POLICIES: Policies = Policies {
    deny: Not("it edits the files of its chat unasked"),
    ask: Not("without a terminal, nobody can be asked"),
    allow_reads: Not("it edits the files of its chat unasked"),
    allow_all: By(
        &["--yes-always"],
        "dangerous: it changes any file without asking, and makes a git repository where there \
         is none; it runs no shell commands and commits nothing",
    ),
};

/// Aider.
pub struct Aider;

impl Runtime for Aider {
    fn card(&self) -> Card {
        Card {
            reports: Reports { dollars: Dollars::Shown, ..REPORTS_ANSWERS },
            login: Some(Login::seen_by(
                &PRODUCT.keys(),
                &["~/.aider.conf.yml"],
                "set the key of a provider, or write it to ~/.aider.conf.yml",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&HEADLESS);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(["--message-file".to_owned(), launch::path(spec, PROMPT_FILE)]);
        let files = vec![launch::file(PROMPT_FILE, plain(launch::with_system_prompt(spec)))];
        let env = OWN.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let program = launch::binary(spec, PRODUCT.binary);
        Start { program, args, env, files, ..Start::default() }.plan(spec, &card)
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

/// A prompt that begins like one of its commands would be taken for one, and `!` runs a shell.
fn plain(prompt: String) -> String {
    if prompt.starts_with(['/', '!']) { format!("\n{prompt}") } else { prompt }
}
