//! The configuration as its authors meet it: what loads, what is refused and in which words, what a
//! name resolves to, and what is never shown.

use super::*;
use crate::config::words::Workspace;
use contract::money::Budget;
use contract::plan::Limit;
use contract::{NanoUsd, Policy};

const SEED_PROCESS: &str = include_str!("../../tests/golden/seed-process.json");
const SEED_HTTP: &str = include_str!("../../tests/golden/seed-http.json");
const EVERY_KEY: &str = include_str!("../../tests/golden/every-key.jsonc");

fn vars(pairs: &[(&str, &str)]) -> Vars {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Loads a text from a file called `ostler.json`.
fn loaded(text: &str) -> Result<Config, Fault> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ostler.json");
    std::fs::write(&path, text).unwrap();
    load(Some(&path))
}

/// The adapter that a name runs.
fn adapter(config: &Config, name: &str) -> contract::plan::Adapter {
    resolve(name, config).unwrap().adapter
}

/// A fault as a person reads it.
fn told(fault: &Fault) -> String {
    let detail = fault.detail.as_ref().map(|detail| format!("\n{detail}")).unwrap_or_default();
    format!("{fault}\n  {}{detail}", fault.hint())
}

fn refused(text: &str) -> String {
    told(&loaded(text).unwrap_err())
}

/// Findings as `ostler config check` prints them.
fn findings(text: &str, vars: &Vars) -> String {
    let lines = check::findings(text, vars).into_iter().map(|finding| {
        let hint = finding.hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default();
        format!("{:?}: {}: {finding}{hint}", finding.level, finding.code)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_process_adapters_of_the_first_users_load_unchanged() {
    let config = loaded(SEED_PROCESS).unwrap();
    insta::assert_json_snapshot!(adapter(&config, "gemini-cli"), @r#"
    {
      "name": "gemini-cli",
      "runtime": "process",
      "binary": "gemini",
      "args": [
        "--non-interactive",
        "--workdir",
        "{{workspacePath}}"
      ],
      "env": {
        "GOOGLE_GENERATIVE_AI_API_KEY": "${GOOGLE_GENERATIVE_AI_API_KEY}"
      },
      "env_passthrough": [],
      "cost_model": "google/gemini-2.0",
      "env_compat": [],
      "clocks": {},
      "trace": true,
      "mcp": true
    }
    "#);
    for name in ["gemini-cli", "cursor-agent", "openclaw"] {
        assert!(resolve(name, &config).is_ok(), "{name}");
    }
}

#[test]
fn the_http_keys_of_the_first_users_load_unchanged() {
    let config = loaded(SEED_HTTP).unwrap();
    let remote = |name: &str| {
        let resolved = resolve(name, &config).unwrap();
        assert_eq!(resolved.adapter.cost_model.as_deref(), Some("pi/pi-1"));
        serde_json::to_string(&resolved.adapter.remote.unwrap()).unwrap()
    };
    let remotes = ["pi-remote", "mesh-remote", "trusted-remote"].map(remote).join("\n");
    insta::assert_snapshot!(remotes, @r#"
    {"base_url":"https://pi.example.com","protocol":"ca-http-v1","auth":{"type":"bearer","token_env":"PI_REMOTE_TOKEN"}}
    {"base_url":"https://agent.mesh.internal","protocol":"ca-http-v1","auth":{"type":"mtls","cert_path":"/etc/mesh/client.pem","key_path":"/etc/mesh/client.key"}}
    {"base_url":"http://10.0.0.7:8080","protocol":"ca-http-v1","auth":{"type":"none"}}
    "#);
    for name in ["pi-remote", "mesh-remote", "trusted-remote"] {
        let adapter = adapter(&config, name);
        let runtime = runtimes::registry::of(&adapter).unwrap();
        assert_eq!(runtime.card().lanes, [contract::plan::Lane::Http], "{name}");
    }
}

#[test]
fn files_of_a_remote_are_looked_for_beside_the_configuration() {
    let mut config = loaded(
        r#"{"adapters": {"a": {"type": "http", "baseUrl": "https://far.example", "auth": {
            "type": "mtls", "certPath": "own.pem", "keyPath": "/etc/own.key", "caPath": "ca.pem"}}}}"#,
    )
    .unwrap();
    config.path = Some("/srv/me/ostler.json".into());
    let remote = adapter(&config, "a").remote.unwrap();
    let (cert_path, key_path) = ("/srv/me/own.pem".to_owned(), "/etc/own.key".to_owned());
    assert_eq!(remote.auth, contract::plan::RemoteAuth::Mtls { cert_path, key_path });
    assert_eq!(remote.ca_path.as_deref(), Some("/srv/me/ca.pem"));
}

#[test]
fn every_key_there_is_loads_and_is_written_back_the_same() {
    let config = loaded(EVERY_KEY).unwrap();
    let again = serde_json::to_string(&config.file).unwrap();
    assert_eq!(loaded(&again).unwrap().file, config.file);
    // A key of the schema that the golden file lacks would be a key nobody has tried.
    let schema = schema();
    let properties = schema["$defs"]["Adapter"]["properties"].as_object().unwrap();
    for key in properties.keys().chain(schema["properties"].as_object().unwrap().keys()) {
        assert!(EVERY_KEY.contains(&format!("\"{key}\"")), "{key}");
    }
}

#[test]
fn the_configurations_of_the_pages_load() {
    const PAGES: [&str; 2] = [
        include_str!("../../../../docs/configuration.md"),
        include_str!("../../../../docs/protocols/mapped.md"),
    ];
    for page in PAGES {
        let blocks: Vec<_> = page.split("```jsonc\n").skip(1).collect();
        assert!(!blocks.is_empty());
        for block in blocks {
            let (text, _) = block.split_once("```").unwrap();
            assert_eq!(findings(text, &vars(&[("FAR_TOKEN", "set")])), "");
        }
    }
}

#[test]
fn a_mapping_is_checked_key_by_key_where_it_stands() {
    insta::assert_snapshot!(refused(
        r#"{"adapters": {"a": {"type": "cli", "runtime": "x", "mapping": {
            "args": ["${KEY}", "{{modle}}"],
            "policies": {"allow-all": []},
            "rules": [
                {"when": {"type": "a"}, "text": {"at": "a..b"}},
                {"when": {"type": "b"}, "end": {"success": true}}
            ]}}}}"#
    ), @r"
    invalid_config: ostler.json: adapters.a.binary: missing: a mapping needs it (line 1, column 15)
      name the program that the mapping describes
    ostler.json: adapters.a.runtime: the adapter has a mapping, which replaces the runtime (line 1, column 36)
    ostler.json: adapters.a.mapping.args[1]: {{modle}} is not a placeholder (line 2, column 32)
    ostler.json: adapters.a.mapping.rules[0].text.at: 'a..b' is no path: a name is missing (line 5, column 50)
    ");
    insta::assert_snapshot!(refused(
        r#"{"adapters": {"a": {"type": "cli", "binary": "x", "mapping": {
            "policies": {"allow-everything": []},
            "prompt": "stdn",
            "rules": [{"when": {"type": null}, "txt": {"at": "a"}, "end": {"code": "agent_fail"}}]
            }}}}"#
    ), @r#"
    invalid_config: ostler.json: adapters.a.mapping.policies.allow-everything: unknown key (line 2, column 26)
      the keys here are allow-all, allow-reads, deny
    ostler.json: adapters.a.mapping.prompt: expected "stdin", "argument" or "file", found "stdn" (line 3, column 23)
    ostler.json: adapters.a.mapping.rules[0].when.type: expected a string, true or false, a number or an object, found null (line 4, column 41)
    ostler.json: adapters.a.mapping.rules[0].txt: unknown key (line 4, column 48)
    ostler.json: adapters.a.mapping.rules[0].end.code: expected one of 59 words such as "internal_error", "usage", "method_not_allowed", found "agent_fail" (line 4, column 84)
    "#);
    let visible = r#"{"adapters": {"a": {"type": "cli", "binary": "x", "mapping": {
        "args": ["${KEY}"], "policies": {"allow-all": []},
        "rules": [{"when": {"type": "b"}, "end": {"success": true}}]}}}}"#;
    insta::assert_snapshot!(findings(visible, &vars(&[("KEY", "1")])), @r"
    Warning: invalid_config: adapters.a.mapping.args[0]: the value of KEY is visible in the process list (line 2, column 18)
      set it in env instead: arguments can be read by every user of the machine
    ");
}

#[test]
fn snake_case_and_old_names_mean_the_same() {
    let config = loaded(
        r#"{"adapters": {"a": {"type": "process", "cli_path": "x", "command_timeout_ms": 90000,
            "env_passthrough": ["A"], "cost_model": "p/m"}, "b": {"type": "process", "bin": "y"}}}"#,
    )
    .unwrap();
    let adapter = adapter(&config, "a");
    assert_eq!(adapter.binary.as_deref(), Some("x"));
    assert_eq!(adapter.clocks.wall, Some(Limit::Ms(90_000)));
    assert_eq!(adapter.env_passthrough, ["A"]);
    assert_eq!(adapter.cost_model.as_deref(), Some("p/m"));
    assert_eq!(self::adapter(&config, "b").binary.as_deref(), Some("y"));
}

#[test]
fn zero_is_the_default_and_unlimited_is_a_word() {
    let config = loaded(
        r#"{"adapters": {"a": {"type": "process", "binary": "x", "timeoutSec": 0,
            "silenceSec": "unlimited", "firstOutputSec": 1.5, "graceSec": 0, "lingerSec": 2,
            "maxOutputBytes": 0, "model": null}}}"#,
    )
    .unwrap();
    let adapter = adapter(&config, "a");
    assert_eq!(adapter.clocks.wall, None);
    assert_eq!(adapter.clocks.silence, Some(Limit::Unlimited));
    assert_eq!(adapter.clocks.first_output, Some(Limit::Ms(1_500)));
    assert_eq!((adapter.clocks.term_ms, adapter.clocks.linger_ms), (None, Some(2_000)));
    assert_eq!((adapter.output_bytes_max, adapter.model), (None, None));
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_was_meant() {
    let text = r#"{
  "adapters": {
    "gemini-cli": {
      "type": "process",
      "binary": "gemini",
      "argz": []
    }
  }
}"#;
    insta::assert_snapshot!(refused(text), @r#"
    invalid_config: ostler.json: adapters.gemini-cli.argz: unknown key (line 6, column 7)
      did you mean 'args'?
    "#);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = r#"{
  "adaptors": {},
  "adapters": {
    "a": { "type": "proces", "binary": "x" },
    "b": { "type": "process", "binary": 5, "args": ["x", 7], "timeoutSec": "never" },
    "c": { "binary": "x", "graceSec": -1, "maxOutputBytes": 1.5, "weather": 1 },
    "d": { "type": "process", "binary": "x", "cliPath": "y", "permission": "allow" }
  },
  "budgets": [{ "window": "run", "quotaPercent": 101 }]
}"#;
    insta::assert_snapshot!(refused(text), @r#"
    invalid_config: ostler.json: adaptors: unknown key (line 2, column 3)
      did you mean 'adapters'?
    ostler.json: adapters.a.type: expected "process", "cli", "acp" or "http", found "proces" (line 4, column 20)
    ostler.json: adapters.b.binary: expected a string, found 5 (line 5, column 41)
    ostler.json: adapters.b.args[1]: expected a string, found 7 (line 5, column 58)
    ostler.json: adapters.b.timeoutSec: expected a number or "unlimited", found "never" (line 5, column 76)
    ostler.json: adapters.c.type: missing (line 6, column 10)
    ostler.json: adapters.c.graceSec: expected 0 or more, found -1 (line 6, column 39)
    ostler.json: adapters.c.maxOutputBytes: expected a whole number, found 1.5 (line 6, column 61)
    ostler.json: adapters.c.weather: unknown key (line 6, column 66)
    ostler.json: adapters.d.cliPath: given twice, before as 'binary' (line 7, column 46)
    ostler.json: adapters.d.permission: expected "deny", "ask", "allow-reads" or "allow-all", found "allow" (line 7, column 76)
    ostler.json: budgets[0].quotaPercent: expected at most 100, found 101 (line 9, column 50)
    "#);
}

#[test]
fn keys_of_another_type_are_refused() {
    let text = r#"{"adapters": {
        "a": {"type": "process", "binary": "x", "baseUrl": "http://y"},
        "b": {"type": "process", "args": ["x"]},
        "c": {"type": "http", "baseUrl": "ftp://x", "protocol": "json-lines"},
        "d": {"type": "http", "baseUrl": "http://far.example.com", "auth": {"type": "bearer"}},
        "e": {"type": "http", "baseUrl": "http://[::1]:80/x", "auth": {"type": "bearer", "tokenEnv": "T"}},
        "f": {"type": "http", "baseUrl": "https://x", "auth": {"type": "mtls", "certPath": "c"}}
    }}"#;
    insta::assert_snapshot!(refused(text), @r#"
    invalid_config: ostler.json: adapters.a.baseUrl: not a key of type process (line 2, column 49)
      type http takes it
    ostler.json: adapters.b.binary: missing: type process needs it (line 3, column 9)
    ostler.json: adapters.c.baseUrl: expected an address that begins with http:// or https:// (line 4, column 31)
    ostler.json: adapters.c.protocol: type http does not speak json-lines (line 4, column 53)
    ostler.json: adapters.d.baseUrl: a bearer token would cross the network in the clear (line 5, column 31)
    ostler.json: adapters.d.auth.tokenEnv: missing: type bearer needs it, or tokenFile (line 5, column 68)
    ostler.json: adapters.f.auth.keyPath: missing: type mtls needs it (line 7, column 55)
    "#);
}

#[test]
fn text_that_is_not_json_is_refused_where_it_breaks() {
    let cases =
        ["{", "{\"a\": tru}", "{'adapters': {}}", "[]", "{\"adapters\": {} \"agents\": {}}"];
    let told: Vec<String> = cases.iter().map(|text| refused(text)).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    invalid_config: ostler.json: not JSON: unterminated object (line 1, column 1)
      the file is JSON; comments and trailing commas are allowed
    invalid_config: ostler.json: not JSON: unexpected token (line 1, column 7)
      the file is JSON; comments and trailing commas are allowed
    invalid_config: ostler.json: not JSON: single-quoted strings are not allowed (line 1, column 2)
      the file is JSON; comments and trailing commas are allowed
    invalid_config: ostler.json: expected an object, found a list (line 1, column 1)
      fix the named key; `ostler config schema` prints what is allowed
    invalid_config: ostler.json: not JSON: expected comma (line 1, column 16)
      the file is JSON; comments and trailing commas are allowed
    ");
    assert!(loaded("").is_ok(), "an empty file says nothing wrong");
    assert!(loaded("\u{feff}{ /* nothing */ }").is_ok(), "a byte order mark is no mistake");
}

#[test]
fn a_file_that_is_too_long_or_too_deep_or_not_text_is_refused() {
    let long = format!("{{}}{}", " ".repeat(limits::CONFIG_BYTES_MAX));
    assert!(loaded(&long).unwrap_err().message.contains("longer than the 1048576 bytes allowed"));
    let deep = format!("{{\"adapters\": {}", "[".repeat(100_000));
    assert!(loaded(&deep).unwrap_err().message.contains("nesting depth"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ostler.json");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(load(Some(&path)).unwrap_err().message.ends_with("not UTF-8 text"));
    let missing = load(Some(&dir.path().join("none.json"))).unwrap_err();
    assert!(missing.message.contains("none.json: cannot be read"), "{}", missing.message);
}

#[test]
fn check_finds_what_loads_but_will_not_work() {
    let text = r#"{
  "adapters": {
    "a": {
      "type": "process",
      "binary": "x",
      "args": ["{{workspacepath}}", "--token", "{{leaseToken}}", "${SET}", "${UNSET}"],
      "env": { "KEY": "${MISSING}", "P": "{{task.title}} {{nonsense}}" }
    }
  },
  "agents": {
    "w": { "adapter": "aa", "promptTemplate": "{{promt}}", "fallback": [{ "agent": "v" }] }
  }
}"#;
    assert!(loaded(text).is_ok(), "it loads");
    insta::assert_snapshot!(findings(text, &vars(&[("SET", "1")])), @r"
    Error: unknown_placeholder: adapters.a.args[0]: {{workspacepath}} is not a placeholder (line 6, column 16)
      did you mean 'workspacePath'?
    Error: invalid_config: adapters.a.args[4]: the variable UNSET is not set (line 6, column 76)
      export UNSET before you run the agent
    Error: invalid_config: adapters.a.env.KEY: the variable MISSING is not set (line 7, column 16)
      export MISSING before you run the agent
    Error: unknown_placeholder: adapters.a.env.P: {{nonsense}} is not a placeholder (line 7, column 37)
      the placeholders are workspacePath, leaseToken, fencingToken, taskId, runId, mcpUrl, agentId, companyId, prompt, systemPrompt, model, and company, agent, run, task, context with dotted paths
    Error: unknown_agent: agents.w.adapter: there is no adapter 'aa' (line 11, column 12)
      did you mean 'a'?
    Error: unknown_placeholder: agents.w.promptTemplate: {{promt}} is not a placeholder (line 11, column 29)
      did you mean 'prompt'?
    Error: unknown_agent: agents.w.fallback[0].agent: there is no agent 'v' (line 11, column 75)
      known names: w
    Warning: invalid_config: adapters.a.args[2]: the lease token is visible in the process list (line 6, column 48)
      set it in env instead: arguments can be read by every user of the machine
    Warning: invalid_config: adapters.a.args[3]: the value of SET is visible in the process list (line 6, column 66)
      set it in env instead: arguments can be read by every user of the machine
    Warning: invalid_config: adapters.a.args[4]: the value of UNSET is visible in the process list (line 6, column 76)
      set it in env instead: arguments can be read by every user of the machine
    ");
    assert_eq!(findings(EVERY_KEY, &vars(&[("API_KEY", "1"), ("TOKEN", "1")])), "");
}

#[test]
fn the_first_file_works_and_so_do_its_examples() {
    assert_eq!(findings(TEMPLATE, &Vars::new()), "");
    let whole = TEMPLATE.replace("/*", "").replace("*/", "");
    assert_eq!(findings(&whole, &vars(&[("MY_AGENT_API_KEY", "1")])), "");
    let config = loaded(&whole).unwrap();
    assert!(config.file.agents.contains_key("reviewer") && !config.file.prices.is_empty());
    let greeter = resolve("greeter", &config).unwrap();
    assert_eq!(greeter.adapter.runtime, "demo");
}

#[test]
fn a_flag_beats_the_agent_and_the_agent_beats_the_adapter() {
    let config =
        Config { path: Some("/etc/ostler/ostler.json".into()), ..loaded(EVERY_KEY).unwrap() };
    let plain = resolve("everything", &config).unwrap();
    assert_eq!(plain.adapter.model.as_deref(), Some("m-1"));
    assert_eq!(plain.permission, Some(Policy::AllowReads));
    assert_eq!(plain.run_budget, Budget::default());

    let worker = resolve("worker", &config).unwrap();
    assert_eq!(worker.adapter.model.as_deref(), Some("m-3"));
    assert_eq!(worker.adapter.account.as_deref(), Some("home"));
    assert_eq!(worker.permission, Some(Policy::Ask));
    assert_eq!(worker.cwd.as_deref(), Some(Path::new("/etc/ostler/work")));
    assert_eq!(worker.run_budget.ms, Some(1_800_000));
    assert_eq!(worker.budgets.len(), 1, "only the longer windows are left");

    let flags = Flags {
        model: Some("m-9".into()),
        system_prompt: Some("Be loud.".into()),
        cwd: Some("/here".into()),
        workspace: Some(Workspace::Here),
        permission: Some(Policy::Deny),
        timeout: Some(Limit::Unlimited),
        budget: Budget { nanousd: Some(NanoUsd(7)), ..Budget::default() },
    };
    let told = resolve_with("worker", &config, &flags).unwrap();
    assert_eq!(told.adapter.model.as_deref(), Some("m-9"));
    assert_eq!(told.system_prompt.as_deref(), Some("Be loud."));
    assert_eq!(told.cwd.as_deref(), Some(Path::new("/here")));
    assert_eq!(told.workspace, Some(Workspace::Here));
    assert_eq!(told.permission, Some(Policy::Deny));
    assert_eq!(told.adapter.permission, Some(Policy::Deny));
    assert_eq!(told.adapter.clocks.wall, Some(Limit::Unlimited));
    assert_eq!(told.adapter.clocks.silence, Some(Limit::Unlimited));
    assert_eq!(told.run_budget.nanousd, Some(NanoUsd(7)));
    assert_eq!(told.run_budget.tokens, Some(100_000));
}

#[test]
fn passthrough_of_file_adapter_and_agent_add_up() {
    let config = loaded(
        r#"{"envPassthrough": ["A", "B"], "adapters": {
            "one": {"type": "process", "binary": "x", "envPassthrough": ["B", "C"]}},
            "agents": {"worker": {"adapter": "one", "envPassthrough": ["C", "D"]}}}"#,
    )
    .unwrap();
    assert_eq!(adapter(&config, "demo").env_passthrough, ["A", "B"]);
    assert_eq!(adapter(&config, "one").env_passthrough, ["A", "B", "C"]);
    assert_eq!(adapter(&config, "worker").env_passthrough, ["A", "B", "C", "D"]);
    let command = process_adapter("./agent").unwrap();
    let resolved = resolve_adapter(&config, command, &Flags::default()).unwrap();
    assert_eq!(resolved.adapter.env_passthrough, ["A", "B"]);
}

#[test]
fn passthrough_takes_names_alone() {
    insta::assert_snapshot!(refused(
        r#"{"envPassthrough": ["KEY=hush"], "agents": {"w": {"adapter": "demo", "envPassthrough": [""]}}}"#
    ), @r#"
    invalid_config: ostler.json: envPassthrough[0]: 'KEY=…' has a value; expected only the name of a variable (line 1, column 21)
      write "KEY", or set its value in `env`
    ostler.json: agents.w.envPassthrough[0]: '' is not a valid variable name (line 1, column 89)
    "#);
}

#[test]
fn mistakes_in_good_faith_get_the_line_that_was_meant() {
    let adapter = |text: &str| findings(&format!(r#"{{"adapters": {text}}}"#), &Vars::new());
    let cases = [
        r#"{"gemini-cli": {"type": "process", "binary": "gemini", "protocol": "json-lines"}}"#,
        r#"{"codex": {"type": "process", "binary": "/opt/codex"}}"#,
        r#"{"a": {"type": "cli", "runtime": "claude-code"}}"#,
        r#"{"mine": {"type": "cli"}}"#,
        r#"{"a": {"type": "claude"}}"#,
        r#"{"a": {"type": "acp", "command": "gemini --acp"}}"#,
        r#"{"a": {"type": "http", "baseUrl": "https://x", "colour": 1}}"#,
        r#"{"a": {"type": "process", "binary": "x", "timeoutSec": "10 minutes", "graceSec": "unlimited"}}"#,
        r#"{"a": {"type": "process", "binary": "x", "commandTimeoutMs": "10m", "silenceSec": ""}}"#,
        r#"{"a": {"type": "cli", "runtime": "acp"}}"#,
        r#"{"a": {"type": "cli", "runtime": "remote"}}"#,
        r#"{"a": {"type": "acp", "binary": "claude"}}"#,
        r#"{"claude": {"type": "process", "binary": "my-bot"}}"#,
        r#"{"gemini": {"type": "cli", "runtime": "claude"}}"#,
    ];
    insta::assert_snapshot!(cases.map(adapter).join("\n\n"), @r#"
    Warning: invalid_config: adapters.gemini-cli.type: Gemini CLI does not speak the JSON lines of type process (line 1, column 30)
      use `ostler run gemini`, or write "gemini-cli": { "type": "cli", "runtime": "gemini" }

    Warning: invalid_config: adapters.codex.type: Codex does not speak the JSON lines of type process (line 1, column 25)
      use `ostler run codex` without an adapter of this name, or write "codex": { "type": "cli", "runtime": "codex" }

    Error: invalid_config: adapters.a.runtime: there is no runtime 'claude-code' (line 1, column 36)
      did you mean "claude"?

    Error: invalid_config: adapters.mine.runtime: there is no runtime 'mine' (line 1, column 15)
      the runtimes are demo, claude, codex, gemini, pi, opencode, kilo, droid, copilot, cline, openclaw, cursor-agent, hermes, openhands, aider

    Error: invalid_config: adapters.a.type: expected "process", "cli", "acp" or "http", found "claude" (line 1, column 29)
      for Claude Code write "type": "cli", "runtime": "claude"

    Error: invalid_config: adapters.a.command: unknown key (line 1, column 36)
      did you mean "binary": "gemini", "args": ["--acp"]?

    Error: invalid_config: adapters.a.colour: unknown key (line 1, column 61)
      the keys of type http are account, allowInsecure, askTimeoutSec, auth, baseUrl, billing, costModel, env, envCompat, envPassthrough, firstOutputSec, graceSec, lingerSec, maxConcurrent, maxConcurrentSessions, maxOutputBytes, mcp, model, patienceSec, permission, protocol, quota, rotation, silenceSec, skills, timeoutSec, trace, type

    Error: invalid_config: adapters.a.timeoutSec: expected a number or "unlimited", found "10 minutes" (line 1, column 69)
      give a number of seconds, or a duration such as "90s", "10m" or "2h"
    Error: invalid_config: adapters.a.graceSec: expected a number, found "unlimited" (line 1, column 95)
      give a number of seconds, or a duration such as "90s", "10m" or "2h"

    Error: invalid_config: adapters.a.timeoutSec: expected a number or "unlimited", found "10m" (line 1, column 75)
    Error: invalid_config: adapters.a.silenceSec: expected a number or "unlimited", found "" (line 1, column 96)
      give a number of seconds, or a duration such as "90s", "10m" or "2h"

    Error: invalid_config: adapters.a.runtime: 'acp' is not an agent but a way to drive one (line 1, column 36)
      write "type": "acp", without `runtime`

    Error: invalid_config: adapters.a.runtime: 'remote' is not an agent but a way to drive one (line 1, column 36)
      write "type": "http", without `runtime`

    Warning: invalid_config: adapters.a.type: Claude Code speaks ACP only through claude-agent-acp (line 1, column 21)
      use `ostler run claude-acp`, or write "binary": "claude-agent-acp"

    Warning: invalid_config: adapters.claude: `ostler run claude` runs this adapter of type process, not the built-in claude (line 1, column 15)
      give it another name to keep both

    Warning: invalid_config: adapters.gemini: `ostler run gemini` runs this adapter of type cli, not the built-in gemini (line 1, column 15)
      give it another name to keep both
    "#);
    let agent = |text: &str| findings(&format!(r#"{{"agents": {text}}}"#), &Vars::new());
    insta::assert_snapshot!(agent(r#"{"demo": {"adapter": "claude"}}"#), @r"
    Warning: invalid_config: agents.demo: `ostler run demo` runs this agent on claude, not the built-in demo (line 1, column 13)
      give it another name to keep both
    ");
    assert_eq!(agent(r#"{"claude": {"adapter": "claude", "model": "opus"}}"#), "");
    assert_eq!(adapter(r#"{"opencode": {"type": "acp", "binary": "opencode"}}"#), "");
    for empty in ["", " \n", "// soon"] {
        let said = findings(empty, &Vars::new());
        assert!(said.starts_with("Warning: invalid_config: the file is empty"), "{said}");
    }
}

#[test]
fn durations_are_read_as_on_the_command_line() {
    let text = r#"{ "adapters": { "a": { "type": "process", "binary": "x", "timeoutSec": "10m",
        "graceSec": "500ms", "silenceSec": "unlimited", "firstOutputSec": "90", "patienceSec": 7,
        "env": { "A_Sec": "10m" } } } }"#;
    let adapter = resolve("a", &loaded(text).unwrap()).unwrap().adapter;
    let clocks = adapter.clocks;
    let ms = |ms| Some(contract::plan::Limit::Ms(ms));
    assert_eq!((clocks.wall, clocks.first_output), (ms(600_000), ms(90_000)));
    assert_eq!((clocks.term_ms, clocks.patience_ms), (Some(500), Some(7_000)));
    assert_eq!(clocks.silence, Some(contract::plan::Limit::Unlimited));
    assert_eq!(adapter.env["A_Sec"], "10m");
}

#[test]
fn cost_model_without_a_price_is_a_warning() {
    let text = r#"{"prices": {"own/m": {"input": 1, "output": 2}}, "adapters": {
        "a": {"type": "process", "binary": "x", "costModel": "nobody/knows"},
        "b": {"type": "process", "binary": "x", "costModel": "own/m"},
        "c": {"type": "process", "binary": "x", "costModel": "anthropic/claude-sonnet-4-5"},
        "d": {"type": "process", "binary": "x", "costModel": "google/gemini-2.0"},
        "e": {"type": "process", "binary": "x", "costModel": "own/"}}}"#;
    let has_price = |model: &str| host::prices::has_cost_model(model, None);
    let found = check::unpriced(&read::read(text), has_price);
    let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["adapters.a.costModel", "adapters.e.costModel"]);
}

#[test]
fn what_a_run_may_lack_or_sets_itself_is_a_warning() {
    let text = r#"{"adapters": {
      "a": {"type": "process", "binary": "x", "args": ["{{context.ticket}}", "{{context.taskId}}"],
        "env": {"CA_RUN_ID": "1", "PAPERCLIP_API_KEY": "2"}},
      "b": {"type": "process", "binary": "x", "env": {"PAPERCLIP_API_KEY": "3"},
        "envCompat": ["paperclip"]}},
      "agents": {"c": {"adapter": "a", "promptTemplate": "{{prompt}} {{context.approvalId}}"}}}"#;
    insta::assert_snapshot!(findings(text, &Vars::new()));
}

#[test]
fn unknown_default_agent_is_a_warning() {
    let said = |name: &str| findings(&format!(r#"{{"defaultAgent": "{name}"}}"#), &Vars::new());
    for known in ["claude", "goose-acp"] {
        assert_eq!(said(known), "", "{known}");
    }
    insta::assert_snapshot!(format!("{}\n{}", said("claud"), said("zebra")), @r"
    Warning: invalid_config: defaultAgent: no agent, adapter or runtime is called 'claud' (line 1, column 2)
      did you mean 'claude' or 'claude-acp'?
    Warning: invalid_config: defaultAgent: no agent, adapter or runtime is called 'zebra' (line 1, column 2)
      `ostler runtimes` lists the runtimes; an agent that you hired by this name works too
    ");
}

#[test]
fn a_name_that_cannot_be_run_says_why() {
    let mut config = loaded(EVERY_KEY).unwrap();
    config.file.adapters.get_mut("everything").unwrap().args = Some(vec!["{{runid}}".into()]);
    config.file.agents.get_mut("other").unwrap().adapter = "gone".into();
    config.file.adapters.get_mut("a-cli").unwrap().runtime = Some("claude-code".into());
    let names = ["evrything", "zebra", "other", "a-cli", "everything"];
    let lines: Vec<String> =
        names.iter().map(|name| told(&resolve(name, &config).unwrap_err())).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    unknown_agent: no agent, adapter or runtime is called 'evrything'
      did you mean 'everything'?
    unknown_agent: no agent, adapter or runtime is called 'zebra'
      `ostler runtimes` lists the names; an adapter in ostler.json adds one
    unknown_agent: agent 'other' uses the adapter 'gone', which does not exist
      `ostler runtimes` lists the names; an adapter in ostler.json adds one
    not_supported: adapters.a-cli.runtime: there is no runtime 'claude-code'
      did you mean "claude"?
    unknown_placeholder: adapters.everything.args[0]: {{runid}} is not a placeholder
      did you mean 'runId'?
    "#);
}

#[test]
fn an_acp_agent_is_configured_by_its_program_and_arguments_alone() {
    let text = r#"{ "adapters": {
        "short": { "type": "acp", "binary": "opencode" },
        "long": { "type": "acp", "id": "d", "name": "Devin", "bin": "devin", "versionArgs": ["-V"],
            "args": ["--permission-mode", "ask", "acp"], "streamFormat": "acp-json-rpc",
            "turnEnd": "update",
            "fallbackModels": [{ "id": "default", "label": "default" }], "model": "m" }
    } }"#;
    let config = loaded(text).unwrap();
    let short = resolve("short", &config).unwrap().adapter;
    assert_eq!((short.runtime.as_str(), short.binary.as_deref()), ("acp", Some("opencode")));
    assert_eq!(short.args, ["acp"]);
    let long = resolve("long", &config).unwrap().adapter;
    assert_eq!((short.turn_end, long.turn_end), (None, Some(contract::plan::TurnEnd::Update)));
    assert_eq!(long.args, ["--permission-mode", "ask", "acp"]);
    assert_eq!((long.model.as_deref(), long.fallback_models), (Some("m"), vec!["default".into()]));
    let adapter = acp_adapter("copilot --acp").unwrap();
    assert_eq!((adapter.name.as_str(), adapter.runtime.as_str()), ("copilot", "acp"));
    assert_eq!(adapter.args, ["--acp"]);
}

#[test]
fn a_command_line_becomes_an_adapter() {
    let adapter =
        process_adapter("./bots/echo.py --greeting 'good day' {{workspacePath}}").unwrap();
    assert_eq!((adapter.name.as_str(), adapter.runtime.as_str()), ("echo", "process"));
    assert_eq!(adapter.binary.as_deref(), Some("./bots/echo.py"));
    assert_eq!(adapter.args, ["--greeting", "good day", "{{workspacePath}}"]);
    assert!(process_adapter("'open").is_err());
}

#[test]
fn a_file_is_found_where_it_is_named_and_never_in_the_current_directory() {
    let home = tempfile::tempdir().unwrap();
    let home_text = home.path().to_str().unwrap();
    let here = vars(&[("HOME", home_text)]);
    assert_eq!(locate(None, &here), None);
    let path = home.path().join(".config/ostler/ostler.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "{}").unwrap();
    assert_eq!(locate(None, &here), Some(path.clone()));
    assert_eq!(default_path(&here), Some(path));
    let named = vars(&[("HOME", home_text), ("OSTLER_CONFIG", "/x.json")]);
    assert_eq!(locate(None, &named), Some("/x.json".into()));
    assert_eq!(locate(Some(Path::new("y.json")), &named), Some("y.json".into()));
    // By its specification a relative XDG directory counts as unset.
    let relative = vars(&[("XDG_CONFIG_HOME", "."), ("OSTLER_CONFIG", "")]);
    assert_eq!(locate(None, &relative), None);
}

#[test]
fn data_lives_in_the_persons_own_data_directory() {
    let of = |pairs: &[(&str, &str)]| data_dir(None, &vars(pairs)).map_err(|fault| fault.code);
    assert_eq!(of(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]), Ok("/d/ostler".into()));
    assert_eq!(of(&[("XDG_DATA_HOME", "d"), ("HOME", "/h")]), Ok("/h/.local/share/ostler".into()));
    assert_eq!(of(&[]), Err(Code::Usage));
    assert_eq!(data_dir(Some(Path::new("t")), &Vars::new()), Ok("t".into()));
}

#[test]
fn show_keeps_secrets_to_itself() {
    let config = loaded(
        r#"{
        "adapters": {
            "a": {
                "type": "process", "binary": "x",
                "args": ["--api-key", "hush-1", "--token=hush-2", "--keep", "this", "--key-file=${F}"],
                "env": {"API_KEY": "hush-3", "KEY": "hush-4", "REF": "${REF}", "MY_TOKEN": "${T}", "PLAIN": "yes"},
                "costModel": "p/m"
            },
            "b": {"type": "http", "baseUrl": "https://me:hush-5@host/x", "auth": {"type": "bearer", "tokenEnv": "T"}}
        },
        "mcpServers": {"s": {"url": "https://h", "headers": {"Authorization": "Bearer hush-6", "Cookie": "${C}"}}},
        "budgets": [{"window": "day", "tokens": 5}]
    }"#,
    )
    .unwrap();
    let shown = serde_json::to_string_pretty(&show(&config)).unwrap();
    assert!(!shown.contains("hush"), "{shown}");
    insta::assert_snapshot!(shown, @r#"
    {
      "adapters": {
        "a": {
          "args": [
            "--api-key",
            "[redacted]",
            "--token=[redacted]",
            "--keep",
            "this",
            "--key-file=${F}"
          ],
          "binary": "x",
          "costModel": "p/m",
          "env": {
            "API_KEY": "[redacted]",
            "KEY": "[redacted]",
            "MY_TOKEN": "${T}",
            "PLAIN": "yes",
            "REF": "${REF}"
          },
          "type": "process"
        },
        "b": {
          "auth": {
            "tokenEnv": "T",
            "type": "bearer"
          },
          "baseUrl": "https://[redacted]@host/x",
          "type": "http"
        }
      },
      "budgets": [
        {
          "tokens": 5,
          "window": "day"
        }
      ],
      "mcpServers": {
        "s": {
          "headers": {
            "Authorization": "[redacted]",
            "Cookie": "${C}"
          },
          "url": "https://h"
        }
      }
    }
    "#);
}

#[test]
fn the_schema_says_which_keys_a_type_takes() {
    let schema = schema();
    let rules = schema["$defs"]["Adapter"]["allOf"].as_array().unwrap();
    let process = &rules[0]["then"];
    assert_eq!(process["required"], serde_json::json!(["binary"]));
    let taken = process["propertyNames"]["enum"].as_array().unwrap();
    assert!(taken.contains(&"args".into()) && !taken.contains(&"baseUrl".into()));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\PC\\n{}\\[\\]\":,/*0-9a-z]{0,200}") {
        let _ = check::findings(&text, &Vars::new());
    }
}

#[test]
fn the_skills_of_an_agent_beat_those_of_its_adapter_and_are_looked_for_beside_the_file() {
    let text = r#"{
        "adapters": { "a": { "type": "process", "binary": "x", "skills": ["one"] } },
        "agents": {
            "plain": { "adapter": "a" },
            "own": { "adapter": "a", "skills": ["two", { "name": "three", "always": true }] },
        },
    }"#;
    let path = Some("/etc/ostler/ostler.json".into());
    let config = Config { path, ..loaded(text).unwrap() };
    let skills = |name: &str| {
        let adapter = resolve(name, &config).unwrap().adapter;
        let shown = |skill: &contract::plan::Skill| format!("{} {}", skill.name, skill.always);
        (adapter.skills.iter().map(shown).collect::<Vec<_>>().join(", "), adapter.skills_dir)
    };
    let beside = Some("/etc/ostler/skills".to_owned());
    assert_eq!(skills("plain"), ("one false".to_owned(), beside.clone()));
    assert_eq!(skills("own"), ("two false, three true".to_owned(), beside));
    assert_eq!(skills("demo"), (String::new(), None), "nobody asked for any");
}
