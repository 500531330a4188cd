//! Launch plans, put together the same way for every runtime: its own arguments and variables, then
//! what the configuration adds, with placeholders filled in, and the names of the values that the
//! seal must know. The values themselves are put in by whoever carries out the plan.

use crate::passed_env::{self, ENV_ALLOWLIST};
use crate::template::{self, Context};
use crate::{Spec, skills};
use contract::limits::PROMPT_ARGV_BYTES_MAX;
use contract::plan::{
    EnvEntry, EnvSource, Framing, Lane, LaunchPlan, PlanFile, ProjectContext, StdinMode,
};
use contract::{Card, Code, Fault, Policy};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A variable whose name holds one of these, in any case, holds a secret.
const SECRET_WORDS: [&str; 11] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "cookie",
    "database_url",
    "_dsn",
    "_pw",
];

/// What a runtime knows of its own start, before the configuration has its say.
pub struct Start {
    pub lane: Lane,
    pub program: String,
    pub args: Vec<String>,
    /// Variables that the runtime sets itself.
    pub env: Vec<(String, String)>,
    pub stdin: StdinMode,
    pub files: Vec<PlanFile>,
    /// How long it lives on after its end, where that is longer than usual.
    pub linger_ms: Option<u64>,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            lane: Lane::Native,
            program: String::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: StdinMode::None,
            files: Vec::new(),
            linger_ms: None,
        }
    }
}

impl Start {
    /// The plan: this, and what the configuration adds to it.
    pub fn plan(self, spec: &Spec, card: &Card) -> Result<LaunchPlan, Fault> {
        let adapter = &spec.adapter;
        let context = with_spec(spec);
        let env = environment(spec, card, self.env, &context)?;
        let mounts = skills::mounts(spec, card, &env)?;
        let mut args = skills::flags(spec, card);
        args.extend(self.args);
        args.extend(filled(spec, "extraArgs", &adapter.extra_args)?);
        if args.iter().any(|arg| arg.contains('\0')) {
            return Err(nul("what the agent is started with"));
        }
        Ok(LaunchPlan {
            lane: self.lane,
            program: without_nul(self.program, &format!("adapters.{}.binary", adapter.name))?,
            args,
            env,
            stdin: self.stdin,
            framing: Framing::Lines,
            secrets: secrets(spec, card),
            files: self.files,
            mounts,
            linger_ms: self.linger_ms,
        })
    }
}

/// Arguments of the configuration with their placeholders filled in.
pub fn filled(spec: &Spec, key: &str, templates: &[String]) -> Result<Vec<String>, Fault> {
    let context = with_spec(spec);
    let fill = |(index, template): (usize, &String)| {
        let key = format!("adapters.{}.{key}[{index}]", spec.adapter.name);
        let arg = template::fill(template, &key, &context, &spec.caller_env)?;
        without_nul(arg, &key)
    };
    templates.iter().enumerate().map(fill).collect()
}

/// The prompt for a CLI that takes it on its command line alone, where there is little room.
pub fn argv_prompt(spec: &Spec, card: &Card) -> Result<String, Fault> {
    let prompt = without_nul(with_system_prompt(spec), "the prompt")?;
    if prompt.len() <= PROMPT_ARGV_BYTES_MAX {
        return Ok(prompt);
    }
    let (label, bytes) = (&card.label, prompt.len());
    let message = format!(
        "{label} takes its prompt only on the command line, and {bytes} bytes are more than the \
         limit of {PROMPT_ARGV_BYTES_MAX}"
    );
    let hint = "put the long part into a file of the workspace and name that file in the prompt";
    Err(Fault::new(Code::PromptTooLarge, message).with_hint(hint))
}

/// The program of a CLI: what the configuration names, or its own name.
pub fn binary(spec: &Spec, name: &str) -> String {
    let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
    binary.unwrap_or(name).to_owned()
}

/// Words as arguments.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A flag with its value, where there is one.
pub fn given(flag: &str, value: Option<&str>) -> Vec<String> {
    value.map(|value| words(&[flag, value])).unwrap_or_default()
}

/// Where a file of the run will lie.
pub fn path(spec: &Spec, name: &str) -> String {
    format!("{}/{name}", spec.files)
}

/// A file of the run.
pub fn file(name: &str, text: impl Into<String>) -> PlanFile {
    PlanFile { name: name.to_owned(), text: text.into() }
}

/// Whether the agent is to leave out what the project and the user instruct.
pub fn isolates(spec: &Spec) -> bool {
    spec.adapter.project_context == Some(ProjectContext::Isolate)
}

/// Where our own MCP server is, if it is to be offered. A run without a relay has no such address,
/// and then there is nothing to offer.
pub fn mcp_url(spec: &Spec) -> Option<String> {
    placeholder(spec, "mcpUrl").filter(|_| spec.adapter.mcp)
}

/// What the run knows under this name, if anything.
pub fn placeholder(spec: &Spec, name: &str) -> Option<String> {
    let template = format!("{{{{{name}}}}}");
    let value = template::fill(&template, name, &spec.context, &spec.caller_env).ok();
    value.filter(|value| !value.is_empty())
}

/// The keys that every CLI takes in its adapter.
pub fn cli_schema() -> BTreeMap<String, Value> {
    let rows = [
        ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
        ("extraArgs", json!({ "type": "array", "items": { "type": "string" } })),
    ];
    rows.map(|(key, schema)| (key.to_owned(), schema)).into()
}

/// The flags that a policy becomes on the native lane.
pub fn policy_flags(card: &Card, policy: Policy) -> Result<Vec<String>, Fault> {
    let mut native = card.policies.iter().filter(|row| row.lane == Lane::Native);
    let row = native.find(|row| row.policy == policy);
    row.and_then(|row| row.flags.clone()).ok_or_else(|| {
        let note = row.and_then(|row| row.note.as_deref()).unwrap_or_default();
        let message = format!("{} cannot enforce the policy {}: {note}", card.label, policy.word());
        let hint = "use --permission allow-reads, or allow-all in a workspace that may be changed";
        Fault::new(Code::PolicyNotPossible, message).with_hint(hint)
    })
}

/// A system prompt for a runtime that has no flag for it: before the prompt, between marks.
pub fn with_system_prompt(spec: &Spec) -> String {
    match &spec.system_prompt {
        Some(system) => {
            format!("[SYSTEM INSTRUCTIONS]\n{system}\n[END SYSTEM INSTRUCTIONS]\n\n{}", spec.prompt)
        }
        None => spec.prompt.clone(),
    }
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

/// The allowlist, the card's names, what the runtime sets, the passthrough, the configured values and
/// those of `--env`, in this order: a later entry of the same name wins.
fn environment(
    spec: &Spec,
    card: &Card,
    own: Vec<(String, String)>,
    context: &Context,
) -> Result<Vec<EnvEntry>, Fault> {
    let adapter = &spec.adapter;
    let entry = |name: &str, source| EnvEntry { name: name.to_owned(), source };
    let mut entries: Vec<_> =
        ENV_ALLOWLIST.iter().map(|name| entry(name, EnvSource::Allowlist)).collect();
    let of_card = passed_env::of_card(card, adapter, &spec.caller_env);
    entries.extend(of_card.iter().map(|name| entry(name, EnvSource::Card)));
    for (name, value) in own {
        let value = without_nul(value, &name)?;
        entries.push(EnvEntry { name, source: EnvSource::Runtime { value } });
    }
    for name in &adapter.env_passthrough {
        let key = format!("envPassthrough of '{}'", adapter.name);
        entries.push(entry(variable(name, &key)?, EnvSource::Passthrough));
    }
    for (name, template) in &adapter.env {
        let key = format!("adapters.{}.env.{name}", adapter.name);
        let value = template::fill(template, &key, context, &spec.caller_env)?;
        let source = EnvSource::Config { value: without_nul(value, &key)? };
        entries.push(entry(variable(name, &key)?, source));
    }
    for name in &adapter.env_flags {
        entries.push(entry(variable(name, "--env")?, EnvSource::Flag));
    }
    Ok(entries)
}

/// Names whose values must never be shown: what `${NAME}` brings in, what is passed through, and
/// what the card, the configuration or the command line gives under a name that sounds secret.
fn secrets(spec: &Spec, card: &Card) -> Vec<String> {
    let adapter = &spec.adapter;
    let mut names: BTreeSet<String> = template::references(adapter);
    let of_card = passed_env::of_card(card, adapter, &spec.caller_env);
    names.extend(of_card.into_iter().filter(|name| sounds_secret(name)));
    names.extend(adapter.env_passthrough.iter().cloned());
    names.extend(adapter.env_flags.iter().filter(|name| sounds_secret(name)).cloned());
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

/// Whether a variable of this name holds something that must not be shown.
pub fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A number of tokens is no token.
    !name.ends_with("tokens") && SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// A name that can be a variable's: the kernel allows anything but `=` and NUL.
fn variable<'a>(name: &'a str, key: &str) -> Result<&'a str, Fault> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let message = format!("{key}: '{}' is not a valid variable name", name.escape_debug());
        return Err(Fault::new(Code::InvalidConfig, message));
    }
    Ok(name)
}

/// A text that can be handed to a process at all.
fn without_nul(text: String, key: &str) -> Result<String, Fault> {
    if text.contains('\0') { Err(nul(key)) } else { Ok(text) }
}

fn nul(key: &str) -> Fault {
    let message = format!("{key}: a NUL character cannot be given to a process");
    Fault::new(Code::InvalidConfig, message)
}
