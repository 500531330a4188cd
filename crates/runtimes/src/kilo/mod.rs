//! Kilo Code's command line, made from OpenCode: the same lines, heard by the same dialect, and the
//! same way to start it under names of its own. Here are its card and its names; `NOTES.md` says what
//! was found to differ.

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Held, Laned};
use crate::card::Product;
use crate::opencode::family::{self, Family};
use crate::opencode::{self, Steps};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{CardEvidence, Login};
use contract::{Card, Code, Fault, LaunchPlan};

const FAMILY: Family = Family {
    binary: "kilo",
    config: "KILO_CONFIG_CONTENT",
    permission: "KILO_PERMISSION",
    isolate: "KILO_DISABLE_PROJECT_CONFIG",
    system_file: "kilo-system.md",
};

const PRODUCT: Product = Product {
    id: "kilo",
    label: "Kilo Code",
    binary: FAMILY.binary,
    install: "npm install -g @kilocode/cli",
    recorded: &["7.7.7"],
    // Keys of the providers it is used with most, and its own switches; others pass by
    // `envPassthrough`.
    env: &[
        "KILO_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "KILO_CONFIG",
        "KILO_CONFIG_DIR",
        "KILO_DISABLE_AUTOUPDATE",
        "KILO_DISABLE_MODELS_FETCH",
        "KILO_DISABLE_SHARE",
        "KILO_TELEMETRY_LEVEL",
    ],
    retries: family::RETRIES,
    closing: family::CLOSING,
    models: "it speaks to many providers and its own gateway: which models there are depends on its \
         kilo.json and its login; `kilo models` tells them",
    use_when: &[
        "you have a Kilo account, or want its modes",
        "one account is to reach the models of many providers, with its dollars",
        "the configuration of OpenCode is known: it is made from it, with the same events",
    ],
    dont_use_when: &[
        "a start of more than ten seconds is too slow, or you want to be asked before each step \
         or to speak during the run",
        "a used-up quota must end the run by itself: it keeps the provider's wait",
        "there is no account and no provider set up: it has no models of its own without one",
    ],
};

/// By ACP, where it asks because of rules.
pub(crate) const BY_ACP: Laned = Laned {
    env: asking_rules,
    aside: family::ASIDE,
    ..Laned::new(
        PRODUCT.id,
        cards::row(
            ("kilo-acp", "Kilo"),
            (PRODUCT.binary, &family::ACP),
            PRODUCT.install,
            CardEvidence::Recorded,
        ),
        Held::ByRules,
    )
};

/// The Kilo Code agent.
pub struct Kilo;

impl Runtime for Kilo {
    fn card(&self) -> Card {
        let login = Login::seen_by(
            &PRODUCT.keys(),
            &["${XDG_DATA_HOME:-~/.local/share}/kilo/auth.json"],
            "run `kilo auth login`, or set the key of a provider",
        );
        family::card(&PRODUCT, login)
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
        opencode::at_exit(evidence)
    }
}

/// What it is given over ACP, so that it asks.
fn asking_rules(spec: &Spec) -> Vec<(String, String)> {
    FAMILY.asking(spec)
}
