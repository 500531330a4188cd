//! Claude Code, driven by stream-json both ways, so that messages, interrupts and questions of
//! permission go over its standard streams. Holds the card, the launch plan and what exit codes and
//! last words mean; `wire` mirrors the lines, `ear`, `control` and `result` hear them, `dialect` says, `state`
//! is what is saved, `tools` knows the agent's tools by name. Facts and their sources: NOTES.md.

pub mod account;
mod control;
mod dialect;
mod ear;
mod result;
mod spending;
mod state;
mod tools;
mod wire;

#[cfg(test)]
mod tests;

use crate::acp::cards;
use crate::acp::lane::{Held, Laned};
use crate::card::{CAN, Product, REPORTS_ANSWERS};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, provider};
use contract::card::{
    Can, CardEvidence, Dollars, EnvMode, Handshake, Login, Mcp, Model, PolicyRow, Reports, Retries,
    Seen, Skills, SystemPrompt,
};
use contract::money::Budget;
use contract::plan::{Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy, limits};
use serde_json::json;
use std::collections::BTreeMap;

/// Talks by JSON lines both ways, and shows text while it comes.
const HEADLESS: &[&str] = &[
    "--print",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
];

/// Questions of permission come over the standard streams.
const ASKING: &[&str] = &["--permission-prompt-tool", "stdio", "--permission-mode", "manual"];
const TRUSTING: &[&str] = &["--dangerously-skip-permissions"];

/// Those of them that hold secrets.
const SECRETS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// The files of a plan.
const MCP_FILE: &str = "mcp.json";
const SYSTEM_FILE: &str = "system-prompt.md";

/// What tells a program that this agent started it.
pub(crate) const MARKERS: &[&str] =
    &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"];

const PRODUCT: Product = Product {
    id: "claude",
    label: "Claude Code",
    binary: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    recorded: &["2.1.325"],
    env: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
        "DO_NOT_TRACK",
        "MAX_THINKING_TOKENS",
    ],
    retries: Retries::Bounded,
    closing: "a result line without error whose terminal reason is `completed`, after something \
              was said or done",
    models: "recorded with 2.1.325: the default is that of an account with an API key, and a login \
         can have another; the aliases follow the newest of each family",
    use_when: &[
        "you want Anthropic's models to read, change and test code, with questions, messages and \
         interrupts during the work",
        "dollars and tokens must be known with each answer, so that a budget can stop the run in \
         time",
        "the account's quota must be seen before it is used up: it reports its windows",
        "each change is to be asked about first: its own lane asks, and no bridge is needed",
    ],
    dont_use_when: &[
        "the model is another vendor's, or the agent must not touch any file or command",
        "a failed key must end the run at once: it retries a 401 for three minutes, unless \
         `patienceSec` is shorter",
        "you run as root without a sandbox and need allow-all: it refuses its flag there unless \
         IS_SANDBOX is set",
    ],
};

/// By ACP it is driven through a bridge, which is a program of its own.
pub(crate) const BY_ACP: Laned = Laned::new(
    PRODUCT.id,
    cards::row(
        ("claude-acp", "Claude Code, by its bridge"),
        ("claude-agent-acp", &[]),
        "npm install -g @agentclientprotocol/claude-agent-acp",
        CardEvidence::Recorded,
    ),
    Held::Asking,
);

/// The runtime of Claude Code.
pub struct Claude;

impl Runtime for Claude {
    fn card(&self) -> Card {
        Card {
            models: models(),
            default_model: Some("claude-opus-5-5".to_owned()),
            // Told in `modelUsage` of its result.
            context_window: Some(1_000_000),
            reports: Reports { dollars: Dollars::Trusted, quota: true, ..REPORTS_ANSWERS },
            can: Can {
                resume: true,
                interrupt: true,
                message: true,
                permissions: true,
                compaction: true,
                system_prompt: Some(SystemPrompt::Flag),
                mcp: Mcp::Http,
                ..CAN
            },
            skills: Some(Skills::AddDir {
                flag: "--add-dir".to_owned(),
                subdir: ".claude/skills".to_owned(),
                // Its setting sources leave out what is found in added directories too.
                isolated: Seen::InThePrompt,
            }),
            login: Some(
                Login::seen_by(
                    &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
                    &["${CLAUDE_CONFIG_DIR:-~/.claude}/.credentials.json"],
                    "run `claude` and type /login; on macOS the keychain holds it, which is not \
                     looked into",
                )
                .billed_by(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
            ),
            env_modes: env_modes(),
            handshake: Some(Handshake {
                args: launch::words(&[
                    "--print",
                    "--input-format",
                    "stream-json",
                    "--output-format",
                    "stream-json",
                    "--verbose",
                ]),
                say: json!({
                    "type": "control_request",
                    "request_id": "doctor",
                    "request": { "subtype": "initialize" },
                })
                .to_string(),
                answer: "/response/response".to_owned(),
                session: None,
            }),
            config_schema: BTreeMap::from([
                ("binary".to_owned(), json!({ "type": "string" })),
                ("extraArgs".to_owned(), json!({ "type": "array", "items": { "type": "string" } })),
                ("projectContext".to_owned(), json!({ "enum": ["load", "isolate"] })),
            ]),
            ..PRODUCT.card(policies())
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = launch::words(HEADLESS);
        let mut files = Vec::new();
        args.extend(launch::given("--model", spec.model.as_deref()));
        args.extend(launch::given("--resume", spec.session.as_deref()));
        if let Some(system) = &spec.system_prompt {
            if system.len() <= limits::PROMPT_ARGV_BYTES_MAX {
                args.extend(launch::words(&["--append-system-prompt", system]));
            } else {
                let path = launch::path(spec, SYSTEM_FILE);
                args.extend(["--append-system-prompt-file".to_owned(), path]);
                files.push(launch::file(SYSTEM_FILE, system));
            }
        }
        // The flag takes all that follows up to the next flag, so it never stands last.
        if let Some(url) = launch::mcp_url(spec) {
            args.extend(["--mcp-config".to_owned(), launch::path(spec, MCP_FILE)]);
            files.push(launch::file(MCP_FILE, servers(&url)));
        }
        if launch::isolates(spec) {
            args.extend(launch::words(&["--setting-sources", "user", "--strict-mcp-config"]));
        }
        args.extend(own_limits(&spec.budget));
        args.extend(launch::words(flags(spec.policy)));
        let dangerous = spec.as_root && spec.policy == Policy::AllowAll;
        let sandbox = dangerous.then(|| ("IS_SANDBOX".to_owned(), "1".to_owned()));
        let start = Start {
            program: launch::binary(spec, PRODUCT.binary),
            args,
            env: sandbox.into_iter().collect(),
            stdin: StdinMode::StreamJson,
            files,
            ..Start::default()
        };
        let mut plan = start.plan(spec, &card)?;
        plan.secrets.extend(launch::words(SECRETS));
        plan.secrets.sort();
        plan.secrets.dedup();
        Ok(plan)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let mut state = state::State::new(spec.session.is_some());
        state.keeps_text = spec.budget.nanousd.is_some();
        Box::new(dialect::StreamJson::new(state, Some(spec.prompt.clone())))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(dialect::StreamJson::new(state::State::load(state)?, None)))
    }

    /// An exit code alone says nothing: 1 is every failure and 143 is SIGTERM.
    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        let tail = evidence.stderr_tail;
        let failed = evidence.exit_code.is_some_and(|code| code != 0) && evidence.signal.is_none();
        if !failed {
            return None;
        }
        let lower = tail.to_lowercase();
        if result::names_unknown_session(tail) {
            Some(Code::NativeSessionUnknown)
        } else if lower.contains("root/sudo privileges") {
            Some(Code::PolicyNotPossible)
        } else if lower.contains("unknown option") || lower.contains("invalid mcp configuration") {
            Some(Code::InvalidConfig)
        } else {
            provider::of_words(tail)
        }
    }
}

/// Names that stand for the newest model of a size, and the one that was recorded.
/// The clouds that serve its models, as its documentation names their variables. Each is passed only
/// when its switch is set, because most of these are credentials for more than a model.
fn env_modes() -> Vec<EnvMode> {
    let bedrock = [
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_ROLE_ARN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CA_BUNDLE",
        "ANTHROPIC_BEDROCK_BASE_URL",
        "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    ];
    let vertex = [
        "CLOUD_ML_REGION",
        "VERTEX_REGION_CLAUDE_*",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "ANTHROPIC_VERTEX_BASE_URL",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GCLOUD_PROJECT",
        "CLOUDSDK_CONFIG",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    ];
    let foundry = [
        "ANTHROPIC_FOUNDRY_API_KEY",
        "ANTHROPIC_FOUNDRY_BASE_URL",
        "ANTHROPIC_FOUNDRY_RESOURCE",
        "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    ];
    vec![
        EnvMode::new("Amazon Bedrock", "CLAUDE_CODE_USE_BEDROCK", &bedrock),
        EnvMode::new("Google Vertex AI", "CLAUDE_CODE_USE_VERTEX", &vertex),
        EnvMode::new("Microsoft Foundry", "CLAUDE_CODE_USE_FOUNDRY", &foundry),
    ]
}

fn models() -> Vec<Model> {
    [
        ("opus", "the newest Opus"),
        ("sonnet", "the newest Sonnet"),
        ("haiku", "the newest Haiku"),
        ("fable", "the newest Fable"),
        ("claude-opus-5-5", "Opus 5.5"),
    ]
    .map(|(id, label)| Model { id: id.to_owned(), label: label.to_owned() })
    .into()
}

/// The agent's own limits, as a second belt: it then ends by itself before the next answer. They count
/// what this process spends, also in a conversation that is taken up.
fn own_limits(budget: &Budget) -> Vec<String> {
    let usd = budget.nanousd.map(|nanousd| nanousd.usd().to_string());
    let turns = budget.turns.map(|turns| turns.to_string());
    let usd = launch::given("--max-budget-usd", usd.as_deref());
    usd.into_iter().chain(launch::given("--max-turns", turns.as_deref())).collect()
}

fn flags(policy: Policy) -> &'static [&'static str] {
    match policy {
        Policy::Deny | Policy::Ask | Policy::AllowReads => ASKING,
        Policy::AllowAll => TRUSTING,
    }
}

fn policies() -> Vec<PolicyRow> {
    let unasked = "it does not ask before it reads inside the workspace, nor before what the \
                   person's own settings allow";
    [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll]
        .map(|policy| PolicyRow {
            policy,
            lane: Lane::Native,
            flags: Some(launch::words(flags(policy))),
            note: Some(match policy {
                Policy::Deny => format!("every question is answered with no; {unasked}"),
                Policy::Ask => format!("every question waits for a person; {unasked}"),
                Policy::AllowReads => {
                    format!("a question to read or search is answered with yes, others with no; {unasked}")
                }
                Policy::AllowAll => {
                    "dangerous: it changes files and runs commands without asking; as root it \
                     refuses this unless IS_SANDBOX=1 says that it is meant, which is then set"
                        .to_owned()
                }
            }),
        })
        .into()
}

/// Our own MCP server, as the agent is told of it. The token stays in the environment.
fn servers(url: &str) -> String {
    let server = json!({
        "type": "http",
        "url": url,
        "headers": { "Authorization": "Bearer ${OSTLER_LEASE_TOKEN}" },
    });
    json!({ "mcpServers": { (tools::OWN_SERVER): server } }).to_string()
}
