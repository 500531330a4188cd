//! Codex, driven by its app-server: JSON-RPC over standard input and output, which takes messages,
//! interrupts and answers to its questions, and a prompt of any length. Its `exec --json` lines are
//! understood too, but never asked for. `wire` mirrors the lines, `words` reads its free text,
//! `ear` and `dialect` put them together, `state` is what is saved; `bridge` has what its bridge to ACP
//! tells beside that protocol. The facts are in `NOTES.md`;
//! nothing outside this folder may know any of them.

mod bridge;
mod call;
mod dialect;
mod ear;
mod state;
mod wire;
mod words;

/// What it answers to `model/list`.
fn models() -> Vec<Model> {
    let rows = [
        ("gpt-6.1-sol", "6.1 Sol"),
        ("gpt-6.1-terra", "6.1 Terra"),
        ("gpt-6-astra", "6 Astra"),
        ("gpt-6-sol", "6 Sol"),
        ("gpt-6-luna", "6 Luna"),
        ("gpt-5.6-sol", "5.6 Sol"),
        ("gpt-5.6-terra", "5.6 Terra"),
        ("gpt-5.6-luna", "5.6 Luna"),
        ("gpt-5.5", "5.5"),
    ];
    rows.map(|(id, label)| Model { id: id.to_owned(), label: label.to_owned() }).into()
}

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Aside, Held, Laned};
use crate::card::{CAN, Product, REPORTS_ANSWERS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, provider};
use contract::card::{
    Can, CardEvidence, EnvFile, Handshake, Login, Mcp, Model, ModelList, PolicyRow, Reports,
    Retries, Skills, SystemPrompt,
};
use contract::plan::{Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;
use state::{State, Wanted};

/// The variable that holds the token of the relay.
const TOKEN_VARIABLE: &str = "OSTLER_LEASE_TOKEN";

/// What tells a program that this agent started it.
pub(crate) const MARKERS: &[&str] = &["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"];

const PRODUCT: Product = Product {
    id: "codex",
    label: "Codex",
    binary: "codex",
    install: "npm install -g @openai/codex",
    recorded: &["0.166.0"],
    env: &["CODEX_HOME", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
    retries: Retries::Unbounded,
    closing: "turn/completed with status completed",
    models: "0.166.0 answers `model/list` with these, and calls gpt-6.1-sol its default; `model` in its \
         config.toml can name another; the context window is the one that it told for gpt-5.5",
    use_when: &[
        "the task is code, and you want messages, interrupts or permission questions",
        "you have a ChatGPT subscription or an OpenAI key",
        "commands of the agent should run in a sandbox of its own vendor under deny, ask and \
         allow-reads",
    ],
    dont_use_when: &[
        "dollars must come from the agent itself: it reports only tokens",
        "the model server may be unreachable: it waits for the network without limit, so that \
         only a clock ends the run",
        "the model is not one of OpenAI and speaks no Responses API",
    ],
};

/// By ACP it is driven through a bridge, which is a program of its own.
pub(crate) const BY_ACP: Laned = Laned {
    aside: Aside { meta: bridge::told, ..Aside::NONE },
    ..Laned::new(
        PRODUCT.id,
        cards::row(
            ("codex-acp", "Codex, by its bridge"),
            ("codex-acp", &[]),
            "npm install -g @agentclientprotocol/codex-acp",
            CardEvidence::Recorded,
        ),
        Held::ReadOnly,
    )
};

/// The runtime for Codex.
pub struct Codex;

impl Runtime for Codex {
    fn card(&self) -> Card {
        Card {
            models: models(),
            default_model: Some("gpt-6.1-sol".to_owned()),
            context_window: Some(258_400),
            reports: Reports { quota: true, ..REPORTS_ANSWERS },
            can: Can {
                resume: true,
                interrupt: true,
                message: true,
                permissions: true,
                system_prompt: Some(SystemPrompt::Flag),
                mcp: Mcp::Http,
                api: false,
                ..CAN
            },
            skills: Some(Skills::HomeLinks { dir: "${CODEX_HOME:-~/.codex}/skills".to_owned() }),
            login: Some(
                Login::seen_by(
                    &["CODEX_API_KEY"],
                    &["${CODEX_HOME:-~/.codex}/auth.json"],
                    "run `codex login`",
                )
                .billed_by(&["CODEX_API_KEY"]),
            ),
            // A provider of the user's own names the variable that holds its key.
            env_files: vec![EnvFile::toml(
                "${CODEX_HOME:-~/.codex}/config.toml",
                &["env_key", "bearer_token_env_var"],
            )],
            handshake: Some(Handshake {
                args: vec!["app-server".to_owned()],
                say: json!({
                    "id": 0,
                    "method": "initialize",
                    "params": { "clientInfo": { "name": "ostler", "version": "doctor" } },
                })
                .to_string(),
                answer: "/result".to_owned(),
                session: None,
            }),
            // Its answer has `data`, each with an `id`.
            model_list: Some(ModelList::Request {
                say: json!({ "id": 1, "method": "model/list", "params": {} }).to_string(),
            }),
            config_schema: [(
                "binary",
                json!({ "type": "string", "description": "a name on PATH, or a path" }),
            )]
            .map(|(key, schema)| (key.to_owned(), schema))
            .into(),
            ..PRODUCT.card(policies())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let program = launch::binary(spec, PRODUCT.binary);
        let mut args = vec!["app-server".to_owned()];
        args.extend(overrides(spec).into_iter().flat_map(|pair| ["-c".to_owned(), pair]));
        let stdin = StdinMode::Jsonrpc;
        Start { program, args, stdin, ..Start::default() }.plan(spec, &self.card())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let wanted = Wanted {
            policy: spec.policy,
            model: spec.model.clone(),
            cwd: launch::placeholder(spec, "workspacePath"),
            system_prompt: spec.system_prompt.clone(),
            resume: spec.session.clone(),
        };
        Box::new(dialect::Codex::new(State::new(wanted, spec.prompt.clone())))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::Codex::new(State::load(state)?)))
    }

    /// The exit code tells nothing that the last turn did not; a start that fails says why on stderr.
    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        let lower = evidence.stderr_tail.to_lowercase();
        match evidence.exit_code? {
            0 => None,
            _ if lower.contains("error loading config") => Some(Code::InvalidConfig),
            _ if lower.contains("not inside a trusted directory") => Some(Code::BadWorkspace),
            _ if lower.contains("no rollout found") => Some(Code::NativeSessionUnknown),
            _ => provider::of_words(&lower),
        }
    }
}

/// Settings for this start alone, as `key=value` with a TOML value; the user's own files stay as
/// they are.
fn overrides(spec: &Spec) -> Vec<String> {
    let mut pairs = Vec::new();
    // Of what a project keeps, its instructions can be left out; the user's own settings cannot.
    if launch::isolates(spec) {
        pairs.push("project_doc_max_bytes=0".to_owned());
    }
    if let Some(url) = launch::mcp_url(spec) {
        pairs.push(format!("mcp_servers.ostler.url={}", json!(url)));
        pairs.push(format!("mcp_servers.ostler.bearer_token_env_var={}", json!(TOKEN_VARIABLE)));
        // Whoever answers behind that address keeps the policy and asks; asking here as well would
        // be a second question about the same call, in a form that cannot be answered.
        pairs.push("mcp_servers.ostler.default_tools_approval_mode=\"approve\"".to_owned());
    }
    pairs
}

/// Each policy as what a thread is started with.
fn policies() -> Vec<PolicyRow> {
    [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll]
        .map(|policy| {
            let [approval, sandbox] = state::settings(policy);
            let flags = vec![format!("approvalPolicy={approval}"), format!("sandbox={sandbox}")];
            let note = match policy {
                Policy::Deny => {
                    "every question is denied; commands that the agent itself trusts to only read \
                     run unasked in a read-only sandbox"
                }
                Policy::Ask => {
                    "asks before every command and change, except commands that the agent itself \
                     trusts to only read"
                }
                Policy::AllowReads => {
                    "commands that only read are allowed, every other question is denied"
                }
                Policy::AllowAll => "dangerous: no sandbox and no questions",
            };
            PolicyRow {
                policy,
                lane: Lane::Native,
                flags: Some(flags),
                note: Some(note.to_owned()),
            }
        })
        .into()
}
