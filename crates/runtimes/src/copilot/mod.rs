//! GitHub's Copilot CLI, driven headless: the prompt on stdin, JSON lines on stdout, one turn for one
//! process. `wire` mirrors the lines, `dialect` hears them, `tools` knows its tools and `trouble` its
//! words; `NOTES.md` says where each fact was found. The user's own settings are never written: what
//! a run adds is in flags and a file of its own.

mod dialect;
mod tools;
mod trouble;
mod wire;

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Aside, Confession, Held, Laned};
use crate::card::Cell::{By, Not};
use crate::card::{CAN, Policies, Product, REPORTS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, headless};
use contract::card::{Can, CardEvidence, Login, Mcp, Reports, Retries, Told};
use contract::plan::StdinMode;
use contract::{Billing, Card, Code, Fault, LaunchPlan, Policy};
use dialect::State;
use serde_json::json;

/// What makes it print one JSON object a line and nothing else.
const HEADLESS: [&str; 3] = ["--output-format", "json", "--no-color"];
/// The file that names our MCP server.
const MCP_FILE: &str = "copilot-mcp.json";

const PRODUCT: Product = Product {
    id: "copilot",
    label: "GitHub Copilot CLI",
    binary: "copilot",
    install: "npm install -g @github/copilot (Node 22 or newer)",
    recorded: &["1.0.102"],
    // Its own variables: the login, a provider of one's own, and where its home is.
    env: &[
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_HOST",
        "COPILOT_HOME",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
        "COPILOT_AUTO_UPDATE",
        "COPILOT_CUSTOM_INSTRUCTIONS_DIRS",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_WIRE_API",
    ],
    retries: Retries::Bounded,
    closing: "a result line with exit 0 after an answer and no abort; exit 0 alone is none",
    models: "which models there are depends on the subscription, or on COPILOT_MODEL for a provider \
         of one's own; it lists none, and a run names the one that answered",
    use_when: &[
        "you have a GitHub account, or the work is about repositories there",
        "its subscription is to pay for the work: it reports premium requests, not tokens",
        "the run is to be steered, with tokens known: `lane: acp` takes messages and reports them",
    ],
    dont_use_when: &[
        "tokens or dollars must be known: headless it tells neither, so no budget in them holds; \
         or you want to be asked before each step",
        "a run that is killed must be resumed: headless its conversation is named in its last \
         line alone",
        "a rejected permission must not end the turn: by ACP it ends the turn there",
    ],
};

/// By ACP. When its model's provider refuses, it says so in plain text and ends the turn well.
pub(crate) const BY_ACP: Laned = Laned {
    aside: Aside {
        confession: Some(Confession { agent: "Copilot", failure: "Error: ", remark: "Info: " }),
        ..Aside::NONE
    },
    ..Laned::new(
        PRODUCT.id,
        cards::row(
            ("copilot-acp", "GitHub Copilot"),
            (PRODUCT.binary, &["--acp"]),
            "npm install -g @github/copilot",
            CardEvidence::Recorded,
        ),
        Held::Asking,
    )
};

/// Headless, whatever would be asked is refused: without a flag that allows, it only reads.
const POLICIES: Policies = Policies {
    deny: Not("headless, its tools that only read run unasked; its ACP mode asks for the others"),
    ask: Not("headless, nobody can be asked; its ACP mode can"),
    allow_reads: By(
        &["--deny-tool=shell", "--deny-tool=write"],
        "shell and writing are denied, which outweighs what the user allowed before, and what \
         it would ask for is refused: both by its documentation",
    ),
    allow_all: By(
        &["--allow-all"],
        "dangerous: every tool, path and address is allowed without asking, shell commands \
         included",
    ),
};

/// GitHub Copilot CLI.
pub struct Copilot;

impl Runtime for Copilot {
    fn card(&self) -> Card {
        Card {
            reports: Reports {
                tokens: false,
                usage: Told::Never,
                answers: Told::PerAnswer,
                ..REPORTS
            },
            can: Can { resume: true, compaction: true, mcp: Mcp::Http, ..CAN },
            login: Some(
                Login::seen_by(
                &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"],
                &["${COPILOT_HOME:-~/.copilot}/config.json"],
                "run `copilot login`, or name a provider of your own by COPILOT_PROVIDER_BASE_URL",
            )
                .billed_by(&["COPILOT_PROVIDER_BASE_URL"])
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
        if let Some(session) = &spec.session {
            args.push(format!("--resume={session}"));
        }
        if launch::isolates(spec) {
            args.push("--no-custom-instructions".to_owned());
        }
        let mut files = Vec::new();
        if let Some(url) = launch::mcp_url(spec) {
            let path = format!("@{}", launch::path(spec, MCP_FILE));
            args.extend(["--additional-mcp-config".to_owned(), path]);
            // What our tools may do is decided behind them.
            if spec.policy != Policy::AllowAll {
                args.push("--allow-tool=ostler".to_owned());
            }
            files.push(launch::file(MCP_FILE, servers(&url)));
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
        headless::dialect(Some(launch::with_system_prompt(spec)), State::new(spec))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<State>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(evidence)
    }
}

/// Our own MCP server, as the agent is told of it. The token stays in the environment.
fn servers(url: &str) -> String {
    let server = json!({
        "type": "http",
        "url": url,
        "headers": { "Authorization": "Bearer ${OSTLER_LEASE_TOKEN}" },
        "tools": ["*"],
    });
    json!({ "mcpServers": { "ostler": server } }).to_string()
}
