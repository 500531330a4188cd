//! Any program that speaks JSON lines, driven by configuration alone: a binary, its arguments and
//! its environment. This is the runtime for a foreign agent whose author writes to the protocol and
//! no adapter at all. The protocol itself is in `jsonlines`; the environment's values are put in by
//! whoever carries out the plan, so only names and configured values are stated here.

use crate::jsonlines;
use crate::template::{self, Context};
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{Can, CardEvidence, Dollars, Mcp, PolicyRow, Reports, Retries};
use contract::plan::{Adapter, EnvEntry, EnvSource, Framing, Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::json;
use std::collections::BTreeSet;

/// Names that every agent may take over from its caller: no credential among them, because agents
/// are expected to be logged in already. The one list of its kind. An entry that ends in `*` stands
/// for every name that begins so (`ENV_ALLOWLIST_PREFIXES`); whoever builds the environment
/// expands it.
pub const ENV_ALLOWLIST: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "SHELL",
    "LANG",
    "LC_*",
    "TERM",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "NODE_OPTIONS",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// What the entries of `ENV_ALLOWLIST` that end in `*` begin with.
pub const ENV_ALLOWLIST_PREFIXES: &[&str] = &["LC_"];

/// A variable whose name holds one of these, in any case, holds a secret.
const SECRET_WORDS: [&str; 6] = ["key", "token", "secret", "password", "authorization", "cookie"];

/// The runtime for any command that speaks JSON lines.
pub struct Process;

impl Runtime for Process {
    fn card(&self) -> Card {
        Card {
            id: "process".to_owned(),
            label: "JSON-lines process".to_owned(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Documented,
            requires: Vec::new(),
            lanes: vec![Lane::Process],
            models: Vec::new(),
            context_window: None,
            reports: Reports {
                tokens: true,
                dollars: Dollars::Trusted,
                quota: false,
                activity: true,
            },
            // An agent may say hello and accept messages and interrupts; until it does, it cannot.
            can: Can {
                resume: false,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: None,
                mcp: Mcp::Http,
                api: true,
            },
            env: Vec::new(),
            retries: Retries::Silent,
            closing: "a complete or failed line".to_owned(),
            policies: policies(),
            skills: None,
            login: None,
            use_when: "the agent is a local program that prints JSON lines and reads them"
                .to_owned(),
            dont_use_when: "the agent runs elsewhere, or has a protocol of its own".to_owned(),
            config_schema: [
                ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
                ("args", json!({ "type": "array", "items": { "type": "string" } })),
                ("protocol", json!({ "const": "json-lines" })),
            ]
            .map(|(key, schema)| (key.to_owned(), schema))
            .into(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let name = &spec.adapter.name;
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let Some(binary) = binary else {
            let message = format!("adapters.{name}: a process needs a binary, and none is named");
            let hint = format!("set adapters.{name}.binary to a name on PATH or a path");
            return Err(Fault::new(Code::InvalidConfig, message).with_hint(hint));
        };
        launch(spec, &self.card(), binary.to_owned(), Vec::new())
    }

    fn dialect(&self, _: &Spec) -> Box<dyn Dialect> {
        jsonlines::fresh()
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        jsonlines::restore(state)
    }

    /// The exit codes of an unknown program mean nothing that is known here.
    fn classify(&self, _: &ExitEvidence<'_>) -> Option<Code> {
        None
    }
}

/// The policies of the process lane: all of them, because what the agent does by itself is not seen.
pub(crate) fn policies() -> Vec<PolicyRow> {
    [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll]
        .map(|policy| PolicyRow {
            policy,
            lane: Lane::Process,
            flags: Some(Vec::new()),
            note: Some(match policy {
                Policy::Deny | Policy::Ask | Policy::AllowReads => {
                    "governs the relayed tools only; what the program does by itself is not seen"
                        .to_owned()
                }
                Policy::AllowAll => {
                    "dangerous: every relayed tool may be used without asking; what the program \
                     does by itself is not seen"
                        .to_owned()
                }
            }),
        })
        .into()
}

/// A plan for a program of the process lane: its own arguments, then those of the configuration.
pub(crate) fn launch(
    spec: &Spec,
    card: &Card,
    program: String,
    own_args: Vec<String>,
) -> Result<LaunchPlan, Fault> {
    let adapter = &spec.adapter;
    let context = with_spec(spec);
    let mut args = own_args;
    for (index, template) in adapter.args.iter().enumerate() {
        let key = format!("adapters.{}.args[{index}]", adapter.name);
        let arg = template::fill(template, &key, &context, &spec.caller_env)?;
        args.push(without_nul(arg, &key)?);
    }
    Ok(LaunchPlan {
        lane: Lane::Process,
        program: without_nul(program, &format!("adapters.{}.binary", adapter.name))?,
        args,
        env: environment(spec, card, &context)?,
        stdin: StdinMode::Events,
        framing: Framing::Lines,
        secrets: secrets(adapter),
    })
}

/// The run's context with what the spec itself knows.
fn with_spec(spec: &Spec) -> Context {
    let mut context = spec.context.clone();
    context
        .set("prompt", spec.prompt.clone())
        .set_some("systemPrompt", spec.system_prompt.clone())
        .set_some("model", spec.model.clone());
    context
}

/// The allowlist, the card's names, the passthrough and the configured values, in this order: a
/// later entry of the same name wins.
fn environment(spec: &Spec, card: &Card, context: &Context) -> Result<Vec<EnvEntry>, Fault> {
    let adapter = &spec.adapter;
    let entry = |name: &str, source| EnvEntry { name: name.to_owned(), source };
    let mut entries: Vec<_> =
        ENV_ALLOWLIST.iter().map(|name| entry(name, EnvSource::Allowlist)).collect();
    entries.extend(card.env.iter().map(|name| entry(name, EnvSource::Card)));
    for (index, name) in adapter.env_passthrough.iter().enumerate() {
        let key = format!("adapters.{}.envPassthrough[{index}]", adapter.name);
        entries.push(entry(variable(name, &key)?, EnvSource::Passthrough));
    }
    for (name, template) in &adapter.env {
        let key = format!("adapters.{}.env.{name}", adapter.name);
        let value = template::fill(template, &key, context, &spec.caller_env)?;
        let source = EnvSource::Config { value: without_nul(value, &key)? };
        entries.push(entry(variable(name, &key)?, source));
    }
    Ok(entries)
}

/// Names whose values must never be shown: what `${NAME}` brings in, what is passed through, and
/// what is configured under a name that sounds secret.
fn secrets(adapter: &Adapter) -> Vec<String> {
    let mut names: BTreeSet<String> = template::references(adapter);
    names.extend(adapter.env_passthrough.iter().cloned());
    names.extend(adapter.env.keys().filter(|name| sounds_secret(name)).cloned());
    // A reference makes the variable it is put into secret as well, whatever that one is called.
    let holds_reference = |value: &&String| value.contains("${");
    names.extend(
        adapter
            .env
            .iter()
            .filter(|(_, value)| holds_reference(value))
            .map(|(name, _)| name.clone()),
    );
    names.into_iter().collect()
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// A name that can be a variable's: the kernel allows anything but `=` and NUL.
fn variable<'a>(name: &'a str, key: &str) -> Result<&'a str, Fault> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let message = format!("{key}: '{}' cannot be the name of a variable", name.escape_debug());
        return Err(Fault::new(Code::InvalidConfig, message));
    }
    Ok(name)
}

/// A text that can be handed to a process at all.
fn without_nul(text: String, key: &str) -> Result<String, Fault> {
    if text.contains('\0') {
        let message = format!("{key}: a NUL character cannot be given to a process");
        return Err(Fault::new(Code::InvalidConfig, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
