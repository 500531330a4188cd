//! The environment that `ostler run` sends with a run: of the caller's variables only those that the
//! agent gets, and what `--env` names. Values travel with the request and are stored nowhere; the
//! adapter, which is stored with the plan, has the names alone.

use contract::event::RunResult;
use contract::plan::Adapter;
use contract::{Code, Fault};
use host::ops::run::RunRequest;
use runtimes::acp::cards;
use runtimes::{passed_env, registry};
use std::collections::BTreeMap;

type Vars = BTreeMap<String, String>;

/// The environment of the request; the adapter is told the names that `--env` and the agent's own
/// configuration add.
pub(super) fn sent(adapter: &mut Adapter, vars: &Vars, flags: &[String]) -> Result<Vars, Fault> {
    let given = given(flags, vars)?;
    if adapter.remote.is_some() && !given.is_empty() {
        let message = "--env: an agent on another machine does not get variables of this machine";
        return Err(Fault::new(Code::Usage, message)
            .with_hint("set the variable where that agent is started"));
    }
    let card = registry::of(adapter)?.card();
    let mut caller = vars.clone();
    caller.extend(given.clone());
    host::environment::pass_named_by_agent(adapter, &card, &caller);
    adapter.env_flags = given.into_keys().collect();
    Ok(passed_env::needed(adapter, &card, &caller))
}

/// The variables of `--env NAME` and `--env NAME=VALUE`; of one that is given twice the last counts.
fn given(flags: &[String], vars: &Vars) -> Result<Vars, Fault> {
    let mut given = Vars::new();
    for flag in flags {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag.as_str(), None),
        };
        check(name)?;
        let value = match value {
            Some(value) if value.contains('\0') => {
                let message = format!("--env {name}: a value cannot hold a NUL character");
                return Err(Fault::new(Code::Usage, message));
            }
            Some(value) => value.to_owned(),
            None => vars.get(name).cloned().ok_or_else(|| {
                Fault::new(Code::Usage, format!("--env {name}: the variable {name} is not set"))
                    .with_hint(format!("export {name}, or give its value: --env {name}=VALUE"))
            })?,
        };
        given.insert(name.to_owned(), value);
    }
    Ok(given)
}

/// Refuses a name that is none, or that Ostler decides about itself.
fn check(name: &str) -> Result<(), Fault> {
    let refused =
        |message: String, hint: &str| Err(Fault::new(Code::Usage, message).with_hint(hint));
    if name.is_empty() || name.contains('\0') {
        let message = format!("--env: '{}' is not a valid variable name", name.escape_debug());
        return refused(message, "write --env NAME, or --env NAME=VALUE");
    }
    if passed_env::is_reserved(name) {
        let message = format!("--env {name}: this name is reserved, Ostler sets it for every run");
        return refused(
            message,
            "OSTLER_*, CA_* and MCP_SERVER_URL are reserved; use another name",
        );
    }
    if registry::nested_markers().any(|marker| marker == name) {
        let message = format!(
            "--env {name}: this variable tells an agent that it runs inside \
         another one"
        );
        return refused(message, "leave it out: it is removed from the environment of every agent");
    }
    Ok(())
}

/// Says which variable to pass when a failed run names one that is set here and was not passed: in its
/// message, or in `last_words`, which is the detail of its error and the end of its stderr.
pub(super) fn hint(
    result: &RunResult,
    last_words: &str,
    vars: &Vars,
    request: &RunRequest,
) -> Option<String> {
    let is_set = |name: &str| vars.get(name).is_some_and(|value| !value.is_empty());
    let sent = request.environment.as_ref();
    let passed = |name: &str| sent.is_some_and(|sent| sent.contains_key(name));
    // The last line is the likeliest reason.
    let texts = || result.message.as_deref().into_iter().chain(last_words.lines().rev());
    if let Some(name) = texts().find_map(|text| passed_env::missing_in(text, is_set, passed)) {
        return Some(format!(
            "{name} is set in your environment but was not passed to the agent; use `--env {name}`, \
             or `envPassthrough` in the configuration"
        ));
    }
    let is_unset = |name: &str| !is_set(name);
    let of_variables = |text: &&str| text.to_ascii_lowercase().contains("environment variable");
    let mut unset = texts()
        .filter(of_variables)
        .filter_map(|text| passed_env::missing_in(text, is_unset, passed));
    if let Some(name) = unset.next() {
        return Some(format!(
            "{name} is not set here; export it, or give it with `--env {name}=VALUE`"
        ));
    }
    let needs_login = matches!(result.code, Some(Code::AuthRequired | Code::AuthFailed));
    let adapter = request.adapter.as_ref().filter(|_| needs_login)?;
    key_of_known_agent(adapter, |name| is_set(name) && !passed(name), vars)
}

/// Names the key that an agent given by `--acp` did not get, because its variables are known only to
/// the runtime of its own name.
fn key_of_known_agent(
    adapter: &Adapter,
    is_missing: impl Fn(&str) -> bool,
    vars: &Vars,
) -> Option<String> {
    let card = registry::by_binary(adapter.binary.as_deref()?)?.card();
    if card.id == adapter.runtime {
        return None;
    }
    let names = passed_env::of_card(&card, adapter, vars);
    let name = names.into_iter().find(|name| is_missing(name))?;
    let by_acp = format!("{}-{}", card.id, adapter.runtime);
    let id = cards::find(&by_acp).map_or(card.id.as_str(), |known| known.id);
    Some(format!(
        "{name} is set in your environment but was not passed to the agent; use `ostler run {id}`, \
         or `--env {name}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Vars {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn adapter(runtime: &str) -> Adapter {
        let (name, runtime) = (runtime.to_owned(), runtime.to_owned());
        Adapter { name, runtime, ..Adapter::default() }
    }

    fn flags(flags: &[&str]) -> Vec<String> {
        flags.iter().map(|flag| (*flag).to_owned()).collect()
    }

    #[test]
    fn values_are_in_the_request_and_names_in_the_adapter() {
        let mut adapter = adapter("demo");
        let vars = vars(&[("PATH", "/bin"), ("MINE", "hush-1"), ("OTHER", "hush-2")]);
        let sent = sent(&mut adapter, &vars, &flags(&["MINE", "SET=a=b", "SET=c=d"])).unwrap();
        let shown: Vec<String> =
            sent.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["MINE=hush-1", "PATH=/bin", "SET=c=d"]);
        assert_eq!(adapter.env_flags, ["MINE", "SET"]);
        assert!(!serde_json::to_string(&adapter).unwrap().contains("hush"));
    }

    #[test]
    fn hint_follows_from_what_is_set_here() {
        let result = |message: &str| -> RunResult {
            serde_json::from_value(serde_json::json!({
                "outcome": "failed", "code": "agent_failed", "duration_ms": 1, "message": message,
                "totals": { "tokens": {} }, "evidence": { "end": "explicit" },
            }))
            .unwrap()
        };
        let request: RunRequest = serde_json::from_value(
            serde_json::json!({ "agent": "codex", "prompt": "x", "cwd": "/srv" }),
        )
        .unwrap();
        let told = |message: &str| hint(&result(message), "", &vars(&[("MY_KEY", "1")]), &request);
        let missing = |name: &str| told(&format!("Missing environment variable: `{name}`."));
        assert!(missing("MY_KEY").unwrap().contains("`--env MY_KEY`"));
        let unset = "YOUR_KEY is not set here; export it, or give it with `--env YOUR_KEY=VALUE`";
        assert_eq!(missing("YOUR_KEY").as_deref(), Some(unset));
        assert_eq!(told("INVALID_ARGUMENT: no"), None);
    }

    #[test]
    fn hint_follows_from_stderr_too() {
        let told = |code: &str, last_words: &str, adapter: Adapter| {
            let result = serde_json::from_value(serde_json::json!({
                "outcome": "failed", "code": code, "duration_ms": 1, "message": "it failed",
                "totals": { "tokens": {} }, "evidence": { "end": "explicit" },
            }));
            let mut request: RunRequest = serde_json::from_value(
                serde_json::json!({ "agent": "mine", "prompt": "x", "cwd": "/srv" }),
            )
            .unwrap();
            request.adapter = Some(adapter);
            let vars = vars(&[("DATABASE_URL", "hush"), ("GEMINI_API_KEY", "hush")]);
            hint(&result.unwrap(), last_words, &vars, &request)
        };
        let trace = "Traceback:\n  os.environ[..]\nKeyError: 'DATABASE_URL'";
        let shown = told("process_crashed", trace, adapter("process")).unwrap();
        assert!(shown.contains("`--env DATABASE_URL`"), "{shown}");
        let unset = "error: missing environment variable OTHER_URL";
        let shown = told("process_crashed", unset, adapter("process")).unwrap();
        assert!(shown.starts_with("OTHER_URL is not set here"), "{shown}");
        let gemini = || Adapter { binary: Some("/opt/gemini".to_owned()), ..adapter("acp") };
        let shown = told("auth_required", "", gemini()).unwrap();
        assert!(shown.contains("GEMINI_API_KEY is set in your environment"), "{shown}");
        assert!(shown.contains("`ostler run gemini-acp`"), "{shown}");
        assert_eq!(told("agent_failed", "", gemini()), None);
        assert_eq!(told("auth_required", "", adapter("gemini")), None);
    }

    #[test]
    fn what_env_cannot_give_is_refused() {
        let refused = |flag: &str| {
            let fault = sent(&mut adapter("demo"), &vars(&[]), &flags(&[flag])).unwrap_err();
            format!("{}: {}", fault.code, fault.message)
        };
        insta::assert_snapshot!(
            ["UNSET", "=x", "OSTLER_RUN_ID=x", "CA_LEASE_TOKEN", "MCP_SERVER_URL=x", "CLAUDECODE=1"]
                .map(refused)
                .join("\n"),
            @r"
    usage: --env UNSET: the variable UNSET is not set
    usage: --env: '' is not a valid variable name
    usage: --env OSTLER_RUN_ID: this name is reserved, Ostler sets it for every run
    usage: --env CA_LEASE_TOKEN: this name is reserved, Ostler sets it for every run
    usage: --env MCP_SERVER_URL: this name is reserved, Ostler sets it for every run
    usage: --env CLAUDECODE: this variable tells an agent that it runs inside another one
    "
        );
        let mut far = adapter("remote");
        far.remote = Some(contract::plan::Remote::default());
        assert!(sent(&mut far, &vars(&[]), &flags(&["A=1"])).is_err());
    }
}
