//! Kilo Code's command line, made from OpenCode: the same lines, heard by the same dialect, and the
//! same way to start it under names of its own. Here are its card and its names; `NOTES.md` says what
//! was found to differ.

#[cfg(test)]
mod tests;

use crate::acp;
use crate::launch;
use crate::opencode::{self, Family, Steps};
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{Login, Requirement};
use contract::{Card, Code, Fault, LaunchPlan};

const FAMILY: Family = Family {
    binary: "kilo",
    config: "KILO_CONFIG_CONTENT",
    permission: "KILO_PERMISSION",
    isolate: "KILO_DISABLE_PROJECT_CONFIG",
    system_file: "kilo-system.md",
};

/// The Kilo Code agent.
pub struct Kilo;

impl Runtime for Kilo {
    fn card(&self) -> Card {
        Card {
            id: "kilo".to_owned(),
            label: "Kilo Code".to_owned(),
            versions_recorded: vec!["7.7.7".to_owned()],
            requires: vec![Requirement {
                binary: FAMILY.binary.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g @kilocode/cli".to_owned(),
            }],
            env: ENV.map(str::to_owned).into(),
            policies: acp::lane::both("kilo", opencode::policies()),
            login: Some(Login::seen_by(
                &launch::keys(&ENV),
                &["${XDG_DATA_HOME:-~/.local/share}/kilo/auth.json"],
                "run `kilo auth login`, or set the key of a provider",
            )),
            use_when: "the account is one of Kilo, or its modes are wanted".to_owned(),
            dont_use_when: "a start of more than ten seconds is too slow, or you want to be asked \
                            before each step or to speak during the run"
                .to_owned(),
            ..opencode::shared_card()
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        FAMILY.plan(spec, &self.card())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let (session, model) = (spec.session.clone(), spec.model.clone());
        Box::new(Steps::new(spec.prompt.clone(), session, model))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(Steps::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        opencode::at_exit(evidence)
    }
}

/// What it is given over ACP, so that it asks.
pub(crate) fn asking_rules(spec: &Spec) -> Vec<(String, String)> {
    FAMILY.asking(spec)
}

/// Keys of the providers it is used with most, and its own switches; others pass by
/// `envPassthrough`.
const ENV: [&str; 11] = [
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
];
