//! Which of the caller's variables an agent gets, by name. The environment of an agent is built, not
//! filtered: a short list for every agent, the runtime's own names, the names of a cloud mode whose
//! switch is set, and what the configuration or the command line asks for. No value is looked at
//! except that of a switch. `launch.rs` puts the names into a plan.

use crate::template;
use contract::Card;
use contract::card::{EnvFile, EnvForm};
use contract::plan::Adapter;
use std::collections::{BTreeMap, BTreeSet};

type Vars = BTreeMap<String, String>;

/// The variables that every agent gets when they are set. None of them is a credential, because
/// agents are expected to be logged in already. An entry that ends in `*` stands for every name that
/// begins so (`ENV_ALLOWLIST_PREFIXES`).
///
/// Left out on purpose: `EDITOR` (an agent cannot use one), `PYTHONPATH`, `NODE_PATH` and `LD_*`
/// (they change the code that the agent itself loads), `GOPROXY`, `MAVEN_OPTS` and
/// `JAVA_TOOL_OPTIONS` (often hold passwords), `KUBECONFIG` and `DOCKER_CONFIG` (credentials),
/// `DBUS_SESSION_BUS_ADDRESS` and `XDG_RUNTIME_DIR` (a service manager behind them starts processes
/// that no keeper can end).
#[rustfmt::skip]
pub const ENV_ALLOWLIST: &[&str] = &[
    // The user and the session.
    "HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "CI",
    "LANG", "LANGUAGE", "LC_*",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME",
    // Proxies and certificates, without which nothing is reachable in many companies.
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
    "NIX_SSL_CERT_FILE",
    // Where toolchains are, so that a build works as it does in the user's own shell.
    "CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN",
    "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOTOOLCHAIN", "GOPRIVATE",
    "JAVA_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "M2_HOME", "MAVEN_HOME", "SDKMAN_DIR",
    "ANDROID_HOME", "ANDROID_SDK_ROOT",
    "VIRTUAL_ENV", "PYENV_ROOT", "PYENV_VERSION", "POETRY_HOME",
    "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL",
    "NODE_OPTIONS", "NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_DIR", "PNPM_HOME", "BUN_INSTALL",
    "DENO_DIR", "DENO_INSTALL",
    "RBENV_ROOT", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH",
    "DOTNET_ROOT", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "HOMEBREW_PREFIX",
    "NIX_PATH", "NIX_PROFILES", "CC", "CXX", "PKG_CONFIG_PATH",
    // Programs that the user's own tools talk to; the agent can use them, not read their keys.
    "SSH_AUTH_SOCK", "GNUPGHOME", "DOCKER_HOST", "DOCKER_CONTEXT",
    // The author of commits.
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
];

/// The beginnings that the entries of `ENV_ALLOWLIST` with a `*` stand for.
pub const ENV_ALLOWLIST_PREFIXES: &[&str] = &["LC_"];

/// The names that Ostler sets itself, or keeps from every agent.
const RESERVED_PREFIXES: [&str; 2] = ["OSTLER_", "CA_"];
const RESERVED: &str = "MCP_SERVER_URL";

/// Whether only Ostler sets a variable of this name.
pub fn is_reserved(name: &str) -> bool {
    name == RESERVED || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an entry of a list, which may end in `*`, stands for a name.
fn stands_for(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => entry == name,
    }
}

/// Whether every agent gets a variable of this name.
pub fn is_common(name: &str) -> bool {
    ENV_ALLOWLIST.iter().any(|entry| stands_for(entry, name))
}

/// The names that a runtime's card asks for here: its own, and those of each cloud mode that is
/// switched on by the caller or by the adapter's `env`. Entries with a `*` are replaced by the
/// caller's names that they stand for.
pub fn of_card(card: &Card, adapter: &Adapter, caller: &Vars) -> Vec<String> {
    let value = |name: &str| {
        let configured = adapter.env.get(name).map(String::as_str);
        configured.or(caller.get(name).map(String::as_str))
    };
    let mut names: Vec<String> = Vec::new();
    for entry in card.env_names(value) {
        match entry.ends_with('*') {
            true => names.extend(caller.keys().filter(|name| stands_for(entry, name)).cloned()),
            false => names.push(entry.to_owned()),
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// The names of the caller's variables that an agent gets.
pub fn passed(adapter: &Adapter, card: &Card, caller: &Vars) -> BTreeSet<String> {
    let asked: BTreeSet<String> = of_card(card, adapter, caller)
        .into_iter()
        .chain(adapter.env_passthrough.iter().cloned())
        .chain(adapter.env_flags.iter().cloned())
        .collect();
    let set = caller.keys().filter(|name| is_common(name) || asked.contains(*name));
    set.cloned().collect()
}

/// The caller's variables without which a run cannot be started: what the agent gets, what `${NAME}`
/// stands for, and the token of a remote.
pub fn needed(adapter: &Adapter, card: &Card, caller: &Vars) -> Vars {
    let passed = passed(adapter, card, caller);
    let references = template::references(adapter);
    let token = adapter.remote.as_ref().and_then(|remote| remote.auth.token_env());
    let wanted = |name: &String| {
        passed.contains(name) || references.contains(name) || token == Some(name.as_str())
    };
    let needed = caller.iter().filter(|(name, _)| wanted(name));
    needed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The variables that an agent's own configuration file names, such as that of a provider's key.
pub fn named_in(file: &EnvFile, text: &str) -> BTreeSet<String> {
    let names: Vec<&str> = match file.form {
        EnvForm::TomlKeys => {
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            let pairs = lines
                .flat_map(|line| file.keys.iter().flat_map(move |key| values_after(line, key)));
            pairs.collect()
        }
        EnvForm::Braces => {
            let after = text.split("{env:").skip(1);
            after.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name.trim()).collect()
        }
    };
    names
        .into_iter()
        .filter(|name| is_name(name) && !is_reserved(name))
        .map(str::to_owned)
        .collect()
}

/// The quoted strings that a key is set to, in a line of TOML.
fn values_after<'l>(line: &'l str, key: &'l str) -> impl Iterator<Item = &'l str> {
    line.match_indices(key).filter_map(move |(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
            return None;
        }
        let value = line[at + key.len()..].trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        value[1..].split(quote).next()
    })
}

/// Whether a text can be the name of a variable as people write them.
fn is_name(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_word)
}

/// The fewest letters that make a word of an error the name of a variable.
const NAME_CHARS_MIN: usize = 3;

/// The variable that an error of an agent names although the caller has it, and the agent was not
/// given it. A word without `_` counts only where the error speaks of a variable.
pub fn missing_in(
    error: &str,
    is_set: impl Fn(&str) -> bool,
    passed: impl Fn(&str) -> bool,
) -> Option<&str> {
    let lower = error.to_ascii_lowercase();
    let speaks_of_one = lower.contains("variable") || lower.contains("env");
    let words = error.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| word.len() >= NAME_CHARS_MIN && is_name(word))
        .filter(|word| !word.chars().any(|c| c.is_ascii_lowercase()))
        .filter(|word| speaks_of_one || word.contains('_'))
        .find(|word| is_set(word) && !passed(word) && !is_reserved(word))
}

/// The names that a run sets, whatever the configuration says.
pub const RUN_VARIABLES: &[&str] = &[
    "MCP_SERVER_URL",
    "OSTLER_RUN_ID",
    "OSTLER_TASK_ID",
    "OSTLER_AGENT_ID",
    "OSTLER_LEASE_TOKEN",
    "OSTLER_FENCING_TOKEN",
    "OSTLER_API_URL",
    "OSTLER_API_KEY",
    "OSTLER_ORGANIZATION",
    "OSTLER_WORKSPACE",
    "OSTLER_WAKE_REASON",
    "OSTLER_WAKE_COMMENT_ID",
    "OSTLER_APPROVAL_ID",
    "OSTLER_APPROVAL_STATUS",
    "OSTLER_LINKED_TASK_IDS",
    "CA_LEASE_TOKEN",
    "CA_FENCING_TOKEN",
    "CA_TASK_ID",
    "CA_RUN_ID",
];
/// The same of the family `paperclip`.
pub const PAPERCLIP_VARIABLES: &[&str] = &[
    "PAPERCLIP_RUN_ID",
    "PAPERCLIP_TASK_ID",
    "PAPERCLIP_AGENT_ID",
    "PAPERCLIP_API_URL",
    "PAPERCLIP_API_KEY",
    "PAPERCLIP_COMPANY_ID",
    "PAPERCLIP_WAKE_REASON",
    "PAPERCLIP_WAKE_COMMENT_ID",
    "PAPERCLIP_APPROVAL_ID",
    "PAPERCLIP_APPROVAL_STATUS",
    "PAPERCLIP_LINKED_ISSUE_IDS",
];

/// Whether a run with these families of foreign names sets this variable itself.
pub fn is_set_by_run(name: &str, compat: &[&str]) -> bool {
    RUN_VARIABLES.contains(&name)
        || (compat.contains(&"paperclip") && PAPERCLIP_VARIABLES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use serde_json::json;

    fn vars(names: &[&str]) -> Vars {
        names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect()
    }

    fn adapter(more: serde_json::Value) -> Adapter {
        let mut whole = json!({ "name": "a", "runtime": "claude" });
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn card(id: &str) -> Card {
        registry::find(id).unwrap().card()
    }

    #[test]
    fn no_default_variable_sounds_like_a_secret() {
        for name in ENV_ALLOWLIST {
            assert!(!crate::launch::sounds_secret(name), "{name}");
        }
    }

    #[test]
    fn toolchains_are_passed_and_credentials_are_not() {
        let tools =
            ["CARGO_HOME", "JAVA_HOME", "VIRTUAL_ENV", "NVM_DIR", "GOPATH", "SSH_AUTH_SOCK"];
        let secrets = ["DATABASE_URL", "GITHUB_TOKEN", "AWS_PROFILE", "AWS_SECRET_ACCESS_KEY"];
        let caller = vars(&[&tools[..], &secrets, &["LC_TIME", "CI", "FAKE_API_KEY"]].concat());
        let passed = passed(&adapter(json!({})), &card("claude"), &caller);
        let mut expected: Vec<&str> = tools.to_vec();
        expected.extend(["LC_TIME", "CI"]);
        expected.sort_unstable();
        assert_eq!(passed.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn cloud_variables_need_their_switch() {
        let aws = ["AWS_REGION", "AWS_PROFILE", "AWS_SECRET_ACCESS_KEY"];
        let google = ["CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID", "VERTEX_REGION_CLAUDE_4_0"];
        let all = [&aws[..], &google].concat();
        let given = |switch: &[&str], own: serde_json::Value| {
            let caller = vars(&[&all[..], switch].concat());
            let passed = passed(&adapter(own), &card("claude"), &caller);
            let has = |names: &[&str]| names.iter().all(|name| passed.contains(*name));
            let any = |names: &[&str]| names.iter().any(|name| passed.contains(*name));
            ((has(&aws), any(&aws)), (has(&google), any(&google)))
        };
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(given(&[], json!({})), (no, no));
        assert_eq!(given(&["CLAUDE_CODE_USE_BEDROCK"], json!({})), (yes, no));
        assert_eq!(given(&["CLAUDE_CODE_USE_VERTEX"], json!({})), (no, yes));
        let off = json!({ "env": { "CLAUDE_CODE_USE_BEDROCK": "0" } });
        assert_eq!(given(&["CLAUDE_CODE_USE_BEDROCK"], off), (no, no));
        let on = json!({ "env": { "CLAUDE_CODE_USE_BEDROCK": "1" } });
        assert_eq!(given(&[], on), (yes, no));
    }

    #[test]
    fn secrets_of_a_cloud_mode_are_sealed() {
        for runtime in registry::all() {
            let card = runtime.card();
            for name in card.env_modes.iter().flat_map(|mode| &mode.env) {
                let holds_one = name.ends_with("_KEY") || name.ends_with("_TOKEN");
                assert!(!holds_one || crate::launch::sounds_secret(name), "{}: {name}", card.id);
            }
        }
    }

    #[test]
    fn provider_keys_are_found_in_an_agents_own_file() {
        let codex = card("codex").env_files.remove(0);
        let text = r#"
model_provider = "mine" # env_key = "COMMENTED"
[model_providers.mine]
env_key = "FAKE_API_KEY"
env_key_instructions = "set NOT_THIS"
[model_providers]
other = { base_url = "x", env_key='OTHER_KEY', my_env_key = "NOR_THIS" }
bad = { env_key = "OSTLER_LEASE_TOKEN" }
[mcp_servers.x]
bearer_token_env_var = "MCP_TOKEN"
"#;
        let found: Vec<String> = named_in(&codex, text).into_iter().collect();
        assert_eq!(found, ["FAKE_API_KEY", "MCP_TOKEN", "OTHER_KEY"]);
        let opencode = card("opencode").env_files.remove(0);
        let text = r#"{"provider": {"x": {"options": {"apiKey": "{env:MY_KEY}", "b": "{env:}"}}}}"#;
        assert_eq!(named_in(&opencode, text).into_iter().collect::<Vec<_>>(), ["MY_KEY"]);
    }

    #[test]
    fn an_error_that_names_a_set_variable_is_explained() {
        let set = ["FAKE_API_KEY", "PATH", "ERROR", "TOKEN", "PASSED_KEY"];
        let missing = |error| {
            missing_in(
                error,
                |name| set.contains(&name),
                |name| ["PATH", "PASSED_KEY"].contains(&name),
            )
        };
        assert_eq!(missing("Missing environment variable: `FAKE_API_KEY`."), Some("FAKE_API_KEY"));
        assert_eq!(missing("set PASSED_KEY or FAKE_API_KEY"), Some("FAKE_API_KEY"));
        assert_eq!(missing("the env TOKEN is empty"), Some("TOKEN"));
        assert_eq!(missing("ERROR: no such file in PATH"), None, "a word is not a variable");
        assert_eq!(missing("Missing environment variable: `UNSET_KEY`"), None);
        assert_eq!(missing("environment variable fake_api_key"), None);
    }
}
