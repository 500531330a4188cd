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

use crate::launch::Start;
use crate::{Dialect, ExitEvidence, Runtime, Spec, provider, template};
use contract::card::{
    Can, CardEvidence, Dollars, Handshake, Login, Mcp, Model, PolicyRow, Reports, Requirement,
    Retries, Seen, Skills, SystemPrompt,
};
use contract::plan::{Lane, PlanFile, ProjectContext, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy, limits};
use serde_json::json;
use std::collections::BTreeMap;

/// The runtime of Claude Code.
pub struct Claude;

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

/// Its own variables, taken over from the caller where they are set.
const ENV: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "DO_NOT_TRACK",
    "MAX_THINKING_TOKENS",
];

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

impl Runtime for Claude {
    fn card(&self) -> Card {
        Card {
            id: "claude".to_owned(),
            label: "Claude Code".to_owned(),
            versions_recorded: vec!["2.1.325".to_owned()],
            evidence: CardEvidence::Recorded,
            requires: vec![Requirement {
                binary: "claude".to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: "npm install -g @anthropic-ai/claude-code".to_owned(),
            }],
            lanes: vec![Lane::Native],
            models: models(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Trusted,
                quota: true,
                activity: true,
            },
            can: Can {
                resume: true,
                interrupt: true,
                message: true,
                permissions: true,
                compaction: true,
                system_prompt: Some(SystemPrompt::Flag),
                mcp: Mcp::Http,
                api: true,
            },
            env: owned(ENV),
            retries: Retries::Bounded,
            closing: "a result line without error whose terminal reason is `completed`, after \
                      something was said or done"
                .to_owned(),
            policies: policies(),
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
                .billed_by(&["ANTHROPIC_API_KEY"]),
            ),
            handshake: Some(Handshake {
                args: owned(&[
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
            }),
            use_when: "code is to be read, changed and tried out with Anthropic's models, with \
                       questions, messages and interrupts during the work"
                .to_owned(),
            dont_use_when: "the model is another vendor's, or no file and no command may be \
                            touched at all"
                .to_owned(),
            config_schema: BTreeMap::from([
                ("binary".to_owned(), json!({ "type": "string" })),
                ("extraArgs".to_owned(), json!({ "type": "array", "items": { "type": "string" } })),
                ("projectContext".to_owned(), json!({ "enum": ["load", "isolate"] })),
            ]),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let mut args = owned(HEADLESS);
        let mut files = Vec::new();
        let mut add = |flag: &str, value: &str| args.extend([flag.to_owned(), value.to_owned()]);
        if let Some(model) = &spec.model {
            add("--model", model);
        }
        if let Some(session) = &spec.session {
            add("--resume", session);
        }
        if let Some(system) = &spec.system_prompt {
            if system.len() <= limits::PROMPT_ARGV_BYTES_MAX {
                add("--append-system-prompt", system);
            } else {
                add("--append-system-prompt-file", &format!("{}/{SYSTEM_FILE}", spec.files));
                files.push(PlanFile { name: SYSTEM_FILE.to_owned(), text: system.clone() });
            }
        }
        // The flag takes all that follows up to the next flag, so it never stands last.
        if let Some(servers) = servers(spec) {
            add("--mcp-config", &format!("{}/{MCP_FILE}", spec.files));
            files.push(PlanFile { name: MCP_FILE.to_owned(), text: servers });
        }
        if spec.adapter.project_context == Some(ProjectContext::Isolate) {
            add("--setting-sources", "user");
            args.push("--strict-mcp-config".to_owned());
        }
        args.extend(owned(flags(spec.policy)));
        let dangerous = spec.as_root && spec.policy == Policy::AllowAll;
        let sandbox = dangerous.then(|| ("IS_SANDBOX".to_owned(), "1".to_owned()));
        let program = spec.adapter.binary.clone().filter(|binary| !binary.trim().is_empty());
        let start = Start {
            lane: Lane::Native,
            program: program.unwrap_or_else(|| "claude".to_owned()),
            args,
            env: sandbox.into_iter().collect(),
            stdin: StdinMode::StreamJson,
            files,
            linger_ms: None,
        };
        let mut plan = start.plan(spec, &card)?;
        plan.secrets.extend(owned(SECRETS));
        plan.secrets.sort();
        plan.secrets.dedup();
        Ok(plan)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let state = state::State::new(spec.session.is_some());
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
fn models() -> Vec<Model> {
    [
        ("opus", "the newest Opus"),
        ("sonnet", "the newest Sonnet"),
        ("haiku", "the newest Haiku"),
        ("claude-opus-5-5", "Opus 5.5"),
    ]
    .map(|(id, label)| Model { id: id.to_owned(), label: label.to_owned() })
    .into()
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
            flags: Some(owned(flags(policy))),
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
fn servers(spec: &Spec) -> Option<String> {
    let none = BTreeMap::new();
    let url = template::fill("{{mcpUrl}}", "mcpUrl", &spec.context, &none).ok();
    let url = url.filter(|url| spec.adapter.mcp && !url.is_empty())?;
    let server = json!({
        "type": "http",
        "url": url,
        "headers": { "Authorization": "Bearer ${OSTLER_LEASE_TOKEN}" },
    });
    Some(json!({ "mcpServers": { (tools::OWN_SERVER): server } }).to_string())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
