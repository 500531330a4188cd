//! What is right in form but wrong in meaning. `formed` finds what no file may have, and is asked
//! on every load; `findings` finds everything, warnings too, and is what `ostler config check` prints.
//! Pure: `config.rs` reads the files.

use super::file::{Adapter, Agent, File};
use super::nearest::did_you_mean;
use super::read::{self, Finding, Level, Reading};
use super::words::{AdapterType, AuthType, Protocol};
use super::{log_level, mistaken, placeholder};
use contract::Code;
use contract::limits::LEASE_MS_MIN;
use contract::plan::MCP_TOOL_SEPARATOR;
use engine::rules::price::plain_members;
use runtimes::mapped::{Mistake, mistakes};
use runtimes::template;
use std::collections::BTreeMap;

/// Everything to be said about a text, errors first.
pub fn findings(text: &str, vars: &BTreeMap<String, String>) -> Vec<Finding> {
    let reading = read::read(text);
    let mut notes = Notes { reading: &reading, found: Vec::new() };
    notes.forms();
    notes.default_agent();
    if reading.is_empty {
        notes.warning(
            "",
            "the file is empty",
            "remove it and run `ostler init`, which writes a file with examples",
        );
    }
    for (name, adapter) in &reading.file.adapters {
        notes.adapter_texts(name, adapter, vars);
        notes.mistaken_adapter(name, adapter);
    }
    for (name, agent) in &reading.file.agents {
        notes.agent(name, agent);
        if let Some(hidden) = mistaken::hidden_by_agent(name, agent) {
            let by = format!("this agent on {}", agent.adapter);
            notes.hides(&format!("agents.{name}"), hidden, &by);
        }
    }
    let mut all = notes.found;
    all.extend(reading.findings.iter().cloned());
    all.sort_by_key(|finding| (finding.level, finding.at));
    all
}

/// The cost models without a price, which would leave every run without a cost.
pub fn unpriced(reading: &Reading, has_price: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut notes = Notes { reading, found: Vec::new() };
    for (name, adapter) in &reading.file.adapters {
        let Some(model) = &adapter.cost_model else { continue };
        if !has_own_price(&reading.file, model) && !has_price(model) {
            let hint = format!(
                "add \"prices\": {{ \"{model}\": {{ \"input\": …, \"output\": … }} }}, in dollars per \
                 million tokens, or import a table that has it"
            );
            let message =
                format!("there is no price for '{model}', so runs that need it have no cost");
            notes.warning(&format!("adapters.{name}.costModel"), &message, &hint);
        }
    }
    notes.found
}

/// Whether the file itself prices a `provider/model`, or a model of that family.
fn has_own_price(file: &File, model: &str) -> bool {
    let Some((provider, family)) = model.split_once('/') else {
        return file.prices.contains_key(model);
    };
    let prefix = format!("{provider}/");
    let models = file.prices.keys().filter_map(|key| key.strip_prefix(&prefix));
    file.prices.contains_key(model) || !plain_members(family, models).is_empty()
}

/// The file and the mistakes that no file may have.
pub fn formed(text: &str) -> (File, Vec<Finding>) {
    let reading = read::read(text);
    let mut notes = Notes { reading: &reading, found: Vec::new() };
    notes.forms();
    let mut all = notes.found;
    all.extend(reading.findings.iter().cloned());
    all.sort_by_key(|finding| finding.at);
    (reading.file, all)
}

struct Notes<'r> {
    reading: &'r Reading,
    found: Vec<Finding>,
}

impl Notes<'_> {
    fn forms(&mut self) {
        for (name, adapter) in &self.reading.file.adapters {
            self.keys_of_type(name, adapter);
            self.protocol(name, adapter);
            self.mapping(name, adapter);
            self.remote(name, adapter);
        }
        for (name, agent) in &self.reading.file.agents {
            for (i, fallback) in agent.fallback.iter().enumerate() {
                if fallback.agent.is_some() == fallback.adapter.is_some() {
                    let path = format!("agents.{name}.fallback[{i}]");
                    self.error(&path, "expected either an agent or an adapter", None);
                }
            }
        }
        for (name, server) in &self.reading.file.mcp_servers {
            if server.command.is_some() == server.url.is_some() {
                let path = format!("mcpServers.{name}");
                self.error(&path, "expected either a command or a url", None);
            }
            if let Some(oauth) = &server.oauth {
                let path = format!("mcpServers.{name}.oauth");
                if server.url.is_none() {
                    self.error(&path, "a login is for a server with a url", None);
                }
                if oauth.client_secret.is_some() && oauth.client_id.is_none() {
                    self.error(&path, "expected a clientId with the clientSecret", None);
                }
            }
        }
        self.ambiguous_servers();
        for (name, agent) in &self.reading.file.agents {
            self.secrets_in_prompts(name, agent);
        }
        self.passed_through();
        let lease = self.reading.file.server.as_ref().and_then(|server| server.lease_sec);
        if lease.and_then(|seconds| seconds.ms()).is_some_and(|ms| ms < LEASE_MS_MIN) {
            let message = format!("expected at least {} seconds, or 0", LEASE_MS_MIN / 1000);
            self.error("server.leaseSec", &message, None);
        }
        let log = self.reading.file.server.as_ref().and_then(|server| server.log.as_ref());
        if let Some(level) = log.and_then(|log| log.level.as_deref())
            && let Err(fault) = log_level::parse("server.log.level", level)
        {
            self.error("server.log.level", &fault.message, fault.hint.clone());
        }
        if self.reading.file.notify.as_ref().is_some_and(|notify| notify.command.is_empty()) {
            self.error("notify.command", "expected a program and its arguments", None);
        }
    }

    /// Tools are named after their server. Two names of which one begins like the tools of the other
    /// cannot be told apart: `a__b__x` is the tool `x` of `a__b`, or `b__x` of `a`.
    fn ambiguous_servers(&mut self) {
        let names: Vec<&String> = self.reading.file.mcp_servers.keys().collect();
        let tools_of = |name: &str| format!("{name}{MCP_TOOL_SEPARATOR}");
        for name in &names {
            let begins = |other: &&&String| tools_of(name).starts_with(&tools_of(other));
            if let Some(other) = names.iter().filter(|other| *other != name).find(begins) {
                let message = format!(
                    "tools of this server cannot be told from those of '{other}': both begin with \
                     '{}'",
                    tools_of(other)
                );
                let hint = "give one of the two servers another name".to_owned();
                self.error(&format!("mcpServers.{name}"), &message, Some(hint));
            }
        }
    }

    /// A key that only another type takes does nothing here, which its author did not mean.
    fn keys_of_type(&mut self, name: &str, adapter: &Adapter) {
        let kind = adapter.kind;
        let given = serde_json::to_value(adapter).unwrap_or_default();
        let keys = given.as_object().into_iter().flat_map(|keys| keys.keys());
        for key in keys.filter(|key| kind.refuses(key)) {
            let owners: Vec<&str> = AdapterType::ALL
                .into_iter()
                .filter(|other| other.own_keys().contains(&key.as_str()))
                .map(AdapterType::word)
                .collect();
            let hint = did_you_mean(key, kind.own_keys().iter().copied())
                .unwrap_or_else(|| format!("type {} takes it", owners.join(" or ")));
            let message = format!("not a key of type {}", kind.word());
            self.error(&format!("adapters.{name}.{key}"), &message, Some(hint));
        }
        for key in kind.required_keys() {
            if given.get(key).is_none() {
                let message = format!("missing: type {} needs it", kind.word());
                self.error(&format!("adapters.{name}.{key}"), &message, None);
            }
        }
        if given.get("binary").is_some_and(|value| value == "") {
            self.error(&format!("adapters.{name}.binary"), "expected a program", None);
        }
    }

    /// A prompt is read by a model, shown and stored, so no secret may stand in it.
    fn secrets_in_prompts(&mut self, name: &str, agent: &Agent) {
        let texts = [
            ("promptTemplate", agent.prompt_template.as_deref()),
            ("systemPrompt", agent.system_prompt.as_deref()),
        ];
        for (key, text) in texts.iter().filter_map(|(key, text)| Some((key, (*text)?))) {
            let path = format!("agents.{name}.{key}");
            for secret in placeholder::secrets_for_a_model(text) {
                let message = format!("{secret} would show a secret to the model");
                let hint = "give it to the agent's program by the adapter's `env` instead";
                self.error(&path, &message, Some(hint.to_owned()));
            }
        }
    }

    /// A name that no variable can have is never passed.
    fn passed_through(&mut self) {
        let file = &self.reading.file;
        let adapters = file.adapters.iter();
        let of_adapters =
            adapters.map(|(name, it)| (format!("adapters.{name}."), &it.env_passthrough));
        let agents = file.agents.iter();
        let of_agents = agents.map(|(name, it)| (format!("agents.{name}."), &it.env_passthrough));
        let lists = of_adapters.chain(of_agents).chain([(String::new(), &file.env_passthrough)]);
        for (prefix, names) in lists {
            for (i, name) in names.iter().enumerate().filter(|(_, name)| !can_be_a_variable(name)) {
                let path = format!("{prefix}envPassthrough[{i}]");
                let (message, hint) = not_a_variable(name);
                self.error(&path, &message, hint);
            }
        }
    }

    /// A hired agent is in no file, so an unknown name is only a warning here.
    fn default_agent(&mut self) {
        let file = &self.reading.file;
        let Some(name) = &file.default_agent else { return };
        let own = file.agents.keys().chain(file.adapters.keys()).chain(runtimes::registry::ids());
        let acp = runtimes::acp::cards::all().map(|known| known.id);
        let known: Vec<&str> = own.map(String::as_str).chain(acp).collect();
        if known.contains(&name.as_str()) {
            return;
        }
        let hint = did_you_mean(name, known).unwrap_or_else(|| {
            "`ostler runtimes` lists the runtimes; an agent that you hired by this name works too"
                .to_owned()
        });
        let message = format!("no agent, adapter or runtime is called '{name}'");
        self.warning("defaultAgent", &message, &hint);
    }

    /// Adapters that are right in form and cannot work, or not as their author meant.
    fn mistaken_adapter(&mut self, name: &str, adapter: &Adapter) {
        let path = |key: &str| format!("adapters.{name}.{key}");
        let binary = adapter.binary.as_deref().unwrap_or_default();
        let wrong_type = match adapter.kind {
            AdapterType::Process => mistaken::process_of_a_runtime(Some(name), binary),
            AdapterType::Acp => mistaken::acp_of_a_bridge(binary),
            AdapterType::Cli | AdapterType::Http => None,
        };
        if let Some((message, hint)) = wrong_type {
            self.warning(&path("type"), &message, &hint);
        }
        if let Some(hint) = mistaken::words_in_binary(binary) {
            self.warning(&path("binary"), "a program with its arguments", &hint);
        }
        if adapter.kind == AdapterType::Cli && adapter.mapping.is_none() {
            let runtime = adapter.runtime.as_deref().unwrap_or(name);
            if runtimes::registry::find(runtime).is_none() {
                let message = format!("there is no runtime '{runtime}'");
                let hint = mistaken::runtime_hint(runtime);
                self.error(&path("runtime"), &message, Some(hint));
            } else if let Some(kind) = mistaken::type_of_runtime(runtime) {
                let message = format!("'{runtime}' is not an agent but a way to drive one");
                let hint = format!("write \"type\": \"{}\", without `runtime`", kind.word());
                self.error(&path("runtime"), &message, Some(hint));
            }
        }
        if let Some(hidden) = mistaken::hidden_by_adapter(name, adapter) {
            let by = format!("this adapter of type {}", adapter.kind.word());
            self.hides(&format!("adapters.{name}"), hidden, &by);
        }
    }

    fn hides(&mut self, path: &str, hidden: &str, by: &str) {
        let message = format!("`ostler run {hidden}` runs {by}, not the built-in {hidden}");
        self.warning(path, &message, "give it another name to keep both");
    }

    fn protocol(&mut self, name: &str, adapter: &Adapter) {
        let Some(protocol) = adapter.protocol else { return };
        let fits = match adapter.kind {
            AdapterType::Process => protocol == Protocol::JsonLines,
            AdapterType::Http => protocol != Protocol::JsonLines,
            // Its presence alone is already an error.
            AdapterType::Cli | AdapterType::Acp => true,
        };
        if !fits {
            let message =
                format!("type {} does not speak {}", adapter.kind.word(), protocol.word());
            self.error(&format!("adapters.{name}.protocol"), &message, None);
        }
    }

    /// A mapping is whole by itself: it names no runtime, and its rules can be followed.
    fn mapping(&mut self, name: &str, adapter: &Adapter) {
        let Some(mapping) = &adapter.mapping else { return };
        if adapter.kind != AdapterType::Cli {
            // Its presence alone is already an error.
            return;
        }
        let path = |key: &str| format!("adapters.{name}.{key}");
        if adapter.runtime.is_some() {
            let hint = "leave out the runtime, or the mapping";
            self.error(
                &path("runtime"),
                "the adapter has a mapping, which replaces the runtime",
                Some(hint.to_owned()),
            );
        }
        if adapter.binary.is_none() {
            let hint = "name the program that the mapping describes";
            self.error(&path("binary"), "missing: a mapping needs it", Some(hint.to_owned()));
        }
        for Mistake { key, message, hint } in mistakes(mapping) {
            let dot = if key.is_empty() { "" } else { "." };
            self.error(&path(&format!("mapping{dot}{key}")), &message, Some(hint));
        }
    }

    fn remote(&mut self, name: &str, adapter: &Adapter) {
        let path = |key: &str| format!("adapters.{name}.{key}");
        let url = adapter.base_url.as_deref();
        if url.is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
            let message = "expected an address that begins with http:// or https://";
            self.error(&path("baseUrl"), message, None);
        }
        let Some(auth) = &adapter.auth else { return };
        if auth.token_file.is_some() && auth.kind != AuthType::Bearer {
            let message = "only type bearer takes it";
            self.error(&path("auth.tokenFile"), message, None);
        }
        match auth.kind {
            AuthType::Bearer => {
                match (&auth.token_env, &auth.token_file) {
                    (None, None) => {
                        let message = "missing: type bearer needs it, or tokenFile";
                        self.error(&path("auth.tokenEnv"), message, None);
                    }
                    (Some(_), Some(_)) => {
                        let message = "expected either tokenEnv or tokenFile";
                        self.error(&path("auth.tokenFile"), message, None);
                    }
                    (Some(_), None) | (None, Some(_)) => {}
                }
                let plain = url.is_some_and(|url| url.starts_with("http://") && !loopback(url));
                if plain && adapter.allow_insecure != Some(true) {
                    let message = "a bearer token would cross the network in the clear";
                    let hint = "use https://, or set allowInsecure to true";
                    self.error(&path("baseUrl"), message, Some(hint.to_owned()));
                }
            }
            AuthType::Mtls => {
                for (key, given) in [("certPath", &auth.cert_path), ("keyPath", &auth.key_path)] {
                    if given.is_none() {
                        let message = "missing: type mtls needs it";
                        self.error(&path(&format!("auth.{key}")), message, None);
                    }
                }
            }
            AuthType::None => {}
        }
    }

    fn adapter_texts(&mut self, name: &str, adapter: &Adapter, vars: &BTreeMap<String, String>) {
        let lists = [("args", adapter.args.as_deref()), ("extraArgs", Some(&*adapter.extra_args))];
        for (key, list) in lists {
            for (i, text) in list.unwrap_or_default().iter().enumerate() {
                let path = format!("adapters.{name}.{key}[{i}]");
                self.placeholders(&path, text);
                self.visible(&path, text);
                self.unset(&path, text, vars);
            }
        }
        for (key, text) in adapter.mapping.iter().flat_map(|mapping| mapping.templates()) {
            let path = format!("adapters.{name}.mapping.{key}");
            self.visible(&path, text);
            self.unset(&path, text, vars);
        }
        for (variable, text) in &adapter.env {
            let path = format!("adapters.{name}.env.{variable}");
            self.placeholders(&path, text);
            self.reserved(&path, variable, adapter);
            self.unset(&path, text, vars);
        }
        let token = adapter.auth.as_ref().and_then(|auth| auth.token_env.as_deref());
        if let Some(variable) = token.filter(|variable| !vars.contains_key(*variable)) {
            self.not_set(&format!("adapters.{name}.auth.tokenEnv"), variable);
        }
    }

    fn agent(&mut self, name: &str, agent: &Agent) {
        if let Some(template) = &agent.prompt_template {
            self.placeholders(&format!("agents.{name}.promptTemplate"), template);
        }
        let file = &self.reading.file;
        let runtimes = runtimes::registry::ids();
        let adapters: Vec<&str> =
            file.adapters.keys().chain(runtimes).map(String::as_str).collect();
        let agents: Vec<&str> = file.agents.keys().map(String::as_str).collect();
        self.refers(&format!("agents.{name}.adapter"), "adapter", &agent.adapter, &adapters);
        for (i, fallback) in agent.fallback.iter().enumerate() {
            let path = |key: &str| format!("agents.{name}.fallback[{i}].{key}");
            if let Some(other) = &fallback.agent {
                self.refers(&path("agent"), "agent", other, &agents);
            }
            if let Some(other) = &fallback.adapter {
                self.refers(&path("adapter"), "adapter", other, &adapters);
            }
        }
    }

    fn refers(&mut self, path: &str, what: &str, name: &str, known: &[&str]) {
        if known.contains(&name) {
            return;
        }
        let hint = did_you_mean(name, known.iter().copied())
            .unwrap_or_else(|| format!("known names: {}", known.join(", ")));
        let message = format!("there is no {what} '{name}'");
        self.note(Level::Error, Code::UnknownAgent, path, &message, Some(hint));
    }

    fn placeholders(&mut self, path: &str, text: &str) {
        for name in placeholder::placeholders(text) {
            if let Some((message, hint)) = placeholder::unknown(name) {
                let code = Code::UnknownPlaceholder;
                self.note(Level::Error, code, path, &message, Some(hint));
            }
            if template::can_be_empty(name) {
                let message = format!("{{{{{name}}}}} is empty in runs that are not given it");
                let hint = "give it with --context, or `context` in the API; `config check` cannot \
                            know whether every run has it";
                self.warning(path, &message, hint);
            }
        }
    }

    /// Arguments can be read by every user of the machine.
    fn visible(&mut self, path: &str, text: &str) {
        let hint = "set it in env instead: arguments can be read by every user of the machine";
        if placeholder::placeholders(text).contains(&"leaseToken") {
            let message = "the lease token is visible in the process list";
            self.warning(path, message, hint);
        }
        for name in placeholder::references(text) {
            let message = format!("the value of {name} is visible in the process list");
            self.warning(path, &message, hint);
        }
    }

    /// Ostler sets these itself for every run, so what the file says has no effect.
    fn reserved(&mut self, path: &str, variable: &str, adapter: &Adapter) {
        let compat: Vec<&str> = adapter.env_compat.iter().map(|family| family.word()).collect();
        if runtimes::passed_env::is_set_by_run(variable, &compat) {
            let message =
                format!("{variable} is set by Ostler for every run; this value is not used");
            let hint = "remove it, or pass the value under another name";
            self.warning(path, &message, hint);
        }
    }

    fn unset(&mut self, path: &str, text: &str, vars: &BTreeMap<String, String>) {
        for name in placeholder::references(text) {
            if !vars.contains_key(name) {
                self.not_set(path, name);
            }
        }
    }

    fn not_set(&mut self, path: &str, variable: &str) {
        let hint = runtimes::template::not_set_hint(variable);
        self.error(path, &format!("the variable {variable} is not set"), Some(hint));
    }

    fn error(&mut self, path: &str, message: &str, hint: Option<String>) {
        self.note(Level::Error, Code::InvalidConfig, path, message, hint);
    }

    fn warning(&mut self, path: &str, message: &str, hint: &str) {
        let hint = Some(hint.to_owned());
        self.note(Level::Warning, Code::InvalidConfig, path, message, hint);
    }

    fn note(&mut self, level: Level, code: Code, path: &str, message: &str, hint: Option<String>) {
        let at = self.reading.place(path);
        let (path, message) = (path.to_owned(), message.to_owned());
        self.found.push(Finding { level, code, path, message, hint, at });
    }
}

/// The kernel allows anything but `=` and NUL in the name of a variable.
fn can_be_a_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Says why a name cannot be passed; `NAME=VALUE` was meant for `env`.
fn not_a_variable(name: &str) -> (String, Option<String>) {
    // What follows the name may be a secret.
    let shown = name.split('=').next().unwrap_or_default().escape_debug().to_string();
    let message = match name.contains('=') {
        true => format!("'{shown}=…' has a value; expected only the name of a variable"),
        false => format!("'{shown}' is not a valid variable name"),
    };
    (message, name.contains('=').then(|| format!("write \"{shown}\", or set its value in `env`")))
}

/// Whether an address names this machine itself.
fn loopback(url: &str) -> bool {
    let host = url.trim_start_matches("http://").split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or(host);
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
