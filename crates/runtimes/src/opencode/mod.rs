//! OpenCode, driven headless: the prompt on stdin, JSON lines on stdout, one process for one prompt.
//! `wire` mirrors the lines, `dialect` hears them, `logged` reads its log on stderr, `tools` knows its
//! tools and `trouble` its errors;
//! `family` starts it and those made from it, which share the dialect. `NOTES.md` says where each
//! fact was found.

mod dialect;
pub(crate) mod family;
mod logged;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use dialect::Steps;
pub(crate) use trouble::at_exit;

use crate::acp::cards;
use crate::acp::lane::{Held, Laned};
use crate::card::Product;
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{CardEvidence, EnvFile, Login};
use contract::{Card, Code, Fault, LaunchPlan};
use family::Family;

const FAMILY: Family = Family {
    binary: "opencode",
    config: "OPENCODE_CONFIG_CONTENT",
    permission: "OPENCODE_PERMISSION",
    isolate: "OPENCODE_DISABLE_PROJECT_CONFIG",
    system_file: "opencode-system.md",
};

/// What tells a program that this agent started it.
pub(crate) const MARKERS: &[&str] = &["OPENCODE", "OPENCODE_BIN_PATH"];

const PRODUCT: Product = Product {
    id: "opencode",
    label: "OpenCode",
    binary: FAMILY.binary,
    install: "npm install -g opencode-ai",
    recorded: &["1.18.33"],
    // Keys of the providers it is used with most, and its own switches; others pass by
    // `envPassthrough`.
    env: &[
        "OPENCODE_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "XAI_API_KEY",
        "DEEPSEEK_API_KEY",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_MODELS_FETCH",
    ],
    retries: family::RETRIES,
    closing: family::CLOSING,
    models: "it speaks to many providers: which models there are depends on its opencode.json and its \
         logins; `opencode models` tells them, and its default is the last one used",
    use_when: &[
        "you want any provider's model with an open agent, and its dollars",
        "the tools of Ostler are to be offered over MCP by HTTP",
        "a conversation is to be resumed, or steered by ACP: `lane: acp` takes messages, \
         interrupts and questions",
    ],
    dont_use_when: &[
        "you want to be asked before each step, to speak during the run, or to see text and \
         commands while they come",
        "a used-up quota must end the run by itself: it keeps the provider's wait, an hour too",
        "answers of megabytes are expected: its output can be cut at its exit",
    ],
};

/// By ACP, where it asks because of rules.
pub(crate) const BY_ACP: Laned = Laned {
    env: asking_rules,
    aside: family::ASIDE,
    ..Laned::new(
        PRODUCT.id,
        cards::row(
            ("opencode-acp", PRODUCT.label),
            (PRODUCT.binary, &family::ACP),
            PRODUCT.install,
            CardEvidence::Recorded,
        ),
        Held::ByRules,
    )
};

/// The OpenCode agent.
pub struct OpenCode;

impl Runtime for OpenCode {
    fn card(&self) -> Card {
        let login = Login::seen_by(
            &PRODUCT.keys(),
            &["${XDG_DATA_HOME:-~/.local/share}/opencode/auth.json"],
            "run `opencode auth login`, or set the key of a provider",
        );
        // Its own configuration may name the variable of a provider's key.
        let env_files = [
            "${OPENCODE_CONFIG:-~/.config/opencode/opencode.json}",
            "${XDG_CONFIG_HOME:-~/.config}/opencode/opencode.json",
            "${XDG_CONFIG_HOME:-~/.config}/opencode/opencode.jsonc",
        ];
        let env_files = env_files.map(EnvFile::braces).into();
        Card { env_files, ..family::card(&PRODUCT, login) }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        FAMILY.plan(spec, &self.card())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        headless::dialect(Some(spec.prompt.clone()), Steps::new(spec))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<Steps>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        at_exit(evidence)
    }
}

/// What it is given over ACP, so that it asks.
fn asking_rules(spec: &Spec) -> Vec<(String, String)> {
    FAMILY.asking(spec)
}
