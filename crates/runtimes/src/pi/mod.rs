//! pi, driven headless: the prompt on stdin, JSON lines on stdout, one turn for one process. `wire`
//! mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its words;
//! `NOTES.md` says where each fact was found. It never asks before it acts: what it may do is which
//! tools it is given.

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
use contract::card::{
    Can, Dollars, Login, ModelColumn, ModelList, Reports, Retries, Seen, Skills, SystemPrompt,
};
use contract::plan::StdinMode;
use contract::{Card, Code, Fault, LaunchPlan};
use dialect::State;

/// The file that holds the system prompt of a run.
const SYSTEM_FILE: &str = "pi-system.md";
/// What leaves out the project's and the user's own instructions and extensions.
const ISOLATE: [&str; 4] =
    ["--no-extensions", "--no-skills", "--no-prompt-templates", "--no-context-files"];

const PRODUCT: Product = Product {
    id: "pi",
    label: "pi",
    binary: "pi",
    install: "npm install -g @earendil-works/pi-coding-agent",
    recorded: &["0.87.1"],
    // Keys of the providers it is used with most, and its own switches; others pass by
    // `envPassthrough`.
    env: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "XAI_API_KEY",
        "PI_CODING_AGENT_DIR",
        "PI_OFFLINE",
    ],
    retries: Retries::Bounded,
    closing: "agent_settled after a message that ended with stop; exit 0 is none",
    models: "it speaks to many providers: which models there are depends on its models.json and on \
         the keys that are set; `pi --list-models` tells them",
    use_when: &[
        "you want a small agent with any provider's model, and its dollars",
        "the start must be quick: the first line comes after half a second",
        "restrictions by tools are enough: a policy is a choice of its tools",
    ],
    dont_use_when: &[
        "you want to be asked before each step, or tools by MCP",
        "you want to interrupt a turn or to send messages during the run",
        "the project's own permission rules must hold: it has none",
    ],
};

/// It has no questions, so a policy is a choice of tools.
const POLICIES: Policies = Policies {
    deny: By(&["--no-tools"], "it has no tools at all, by its documentation"),
    ask: Not("it never asks before it acts"),
    allow_reads: By(
        &["--tools", "read,grep,find,ls"],
        "it has only the tools that read, by its documentation",
    ),
    allow_all: By(&[], "dangerous: every tool runs without asking, shell commands included"),
};

/// The pi coding agent.
pub struct Pi;

impl Runtime for Pi {
    fn card(&self) -> Card {
        Card {
            model_list: Some(ModelList::Command {
                args: launch::words(&["--list-models"]),
                column: ModelColumn::ProviderModel,
            }),
            reports: Reports { dollars: Dollars::Trusted, ..REPORTS_ANSWERS },
            can: Can { resume: true, system_prompt: Some(SystemPrompt::File), ..CAN },
            skills: Some(Skills::AddDir {
                flag: "--skill".to_owned(),
                subdir: String::new(),
                isolated: Seen::ByItself,
            }),
            login: Some(Login::seen_by(
                &PRODUCT.keys(),
                &["~/.pi/agent/auth.json"],
                "run `pi` and type /login, or set the key of a provider",
            )),
            ..PRODUCT.card(POLICIES.rows())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(&["-p", "--mode", "json"]);
        args.extend(launch::policy_flags(&card, spec.policy)?);
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--session", spec.session.as_deref()));
        if launch::isolates(spec) {
            args.extend(launch::words(&ISOLATE));
        }
        let mut files = Vec::new();
        if let Some(system) = &spec.system_prompt {
            args.extend(["--append-system-prompt".to_owned(), launch::path(spec, SYSTEM_FILE)]);
            files.push(launch::file(SYSTEM_FILE, system));
        }
        let start = Start {
            program: launch::binary(spec, PRODUCT.binary),
            args,
            stdin: StdinMode::Prompt,
            files,
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
