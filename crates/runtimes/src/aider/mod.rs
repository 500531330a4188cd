//! Aider, driven by a message file: plain text on stdout, the log of its events on stderr, one turn
//! for one process. `wire` mirrors the log, `dialect` hears both streams and `trouble` knows its
//! words; `NOTES.md` says where each fact was found. Whatever it would ask, it is told to answer with
//! yes, so everything that must not be answered so is switched off here.

mod dialect;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, oneshot};
use contract::card::{
    Can, CardEvidence, Dollars, Login, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt,
};
use contract::plan::{Lane, PlanFile};
use contract::{Card, Code, Fault, LaunchPlan, Policy};

/// The name of the program.
const BINARY: &str = "aider";
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

/// Aider.
pub struct Aider;

impl Runtime for Aider {
    fn card(&self) -> Card {
        Card {
            id: "aider".to_owned(),
            label: "Aider".to_owned(),
            versions_recorded: vec!["0.86.2".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: BINARY.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "uv tool install aider-chat --python 3.12".to_owned(),
            }],
            lanes: vec![Lane::Native],
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Shown,
                quota: false,
                activity: true,
            },
            can: Can {
                resume: false,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: Some(SystemPrompt::Prepend),
                mcp: Mcp::None,
                api: true,
            },
            env: ENV.map(str::to_owned).into(),
            retries: Retries::Bounded,
            closing: "a message that is closed by its line of tokens, nothing wrong after it, and \
                      `Completed --message-file` in its log; exit 0 alone is none"
                .to_owned(),
            policies: policies(),
            skills: None,
            login: Some(Login::seen_by(
                &launch::keys(&ENV),
                &["~/.aider.conf.yml"],
                "set the key of a provider, or write it to ~/.aider.conf.yml",
            )),
            handshake: None,
            use_when: "a change in a git repository can be written down in one go by any model \
                       that LiteLLM knows, without tools"
                .to_owned(),
            dont_use_when: "commands must be run, a conversation must go on, or the workspace is \
                            no git repository and shall stay none"
                .to_owned(),
            config_schema: oneshot::config_schema(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = HEADLESS.map(str::to_owned).to_vec();
        args.extend(launch::policy_flags(&card, spec.policy)?);
        if let Some(model) = &spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        args.extend(["--message-file".to_owned(), format!("{}/{PROMPT_FILE}", spec.files)]);
        let text = plain(launch::with_system_prompt(spec));
        let files = vec![PlanFile { name: PROMPT_FILE.to_owned(), text }];
        let env = OWN.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let program = oneshot::program(spec, BINARY);
        Start { program, args, env, files, ..Start::default() }.plan(spec, &card)
    }

    fn dialect(&self, _: &Spec) -> Box<dyn Dialect> {
        Box::new(dialect::Aider::new())
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Aider::restore(state)?))
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// A prompt that begins like one of its commands would be taken for one, and `!` runs a shell.
fn plain(prompt: String) -> String {
    if prompt.starts_with(['/', '!']) { format!("\n{prompt}") } else { prompt }
}

/// Its own variables: keys, models, and whether LiteLLM asks the network for prices.
const ENV: [&str; 9] = [
    "AIDER_MODEL",
    "AIDER_WEAK_MODEL",
    "ANTHROPIC_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "LITELLM_LOCAL_MODEL_COST_MAP",
    "OPENAI_API_BASE",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
];

/// It asks in a terminal or says yes to everything; there is nothing between.
fn policies() -> Vec<PolicyRow> {
    let rows: [(Policy, Option<&[&str]>, &str); 4] = [
        (Policy::Deny, None, "it edits the files of its chat unasked"),
        (Policy::Ask, None, "without a terminal, nobody can be asked"),
        (Policy::AllowReads, None, "it edits the files of its chat unasked"),
        (
            Policy::AllowAll,
            Some(&["--yes-always"]),
            "dangerous: it changes any file without asking, and makes a git repository where there \
             is none; it runs no shell commands and commits nothing",
        ),
    ];
    rows.map(launch::native_policy).into()
}
