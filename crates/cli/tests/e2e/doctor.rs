//! What doctor finds, with made-up programs in the places of the real ones: nothing here names a
//! runtime, every card of the registry is gone through.

use crate::ostler::{Ostler, Said};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Puts a program of this name and text into a directory.
fn program(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_path(ostler: &Ostler, bin: &Path, args: &[&str], vars: &[(&str, &str)]) -> Said {
    let mut command = ostler.command(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.envs(vars.iter().copied());
    Said::from(command.output().unwrap())
}

fn diagnoses(said: &Said) -> Vec<Value> {
    let whole: Value =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    whole["diagnoses"].as_array().unwrap().clone()
}

fn codes(diagnosis: &Value) -> Vec<&str> {
    let checks = diagnosis["checks"].as_array().unwrap();
    checks.iter().map(|check| check["code"].as_str().unwrap()).collect()
}

/// The cards of runtimes that need a program.
fn cards() -> Vec<contract::Card> {
    let cards = runtimes::registry::all().iter().map(|runtime| runtime.card());
    cards.filter(|card| !card.requires.is_empty()).collect()
}

#[test]
fn with_nothing_installed_every_runtime_is_named_with_how_to_install_it() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    let said = with_path(&ostler, &bin, &["doctor"], &[]);
    assert_eq!(said.code, 0, "{said:?}");
    for card in cards() {
        assert!(
            said.stdout.contains(&card.requires[0].install_hint),
            "{}\n{}",
            card.id,
            said.stdout
        );
        let alone = with_path(&ostler, &bin, &["doctor", &card.id, "--json"], &[]);
        assert_eq!(alone.code, 4, "{}: {alone:?}", card.id);
        let found = diagnoses(&alone);
        assert_eq!((found.len(), &found[0]["status"]), (1, &"fail".into()), "{alone:?}");
        assert!(codes(&found[0]).contains(&"binary_missing"), "{alone:?}");
    }
}

#[test]
fn a_program_of_the_recorded_version_is_known_and_another_is_told_apart() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    for (index, card) in cards().iter().enumerate() {
        let recorded = card.versions_recorded.first().filter(|_| index % 2 == 0);
        let version = recorded.map_or("9.99.999", String::as_str);
        program(
            &bin,
            &card.requires[0].binary,
            &format!("echo 'agent {version} (x)'; cat >/dev/null"),
        );
    }
    let said = with_path(&ostler, &bin, &["doctor", "--json"], &[]);
    assert_eq!(said.code, 0, "{said:?}");
    let found = diagnoses(&said);
    for (index, card) in cards().iter().enumerate() {
        let diagnosis = found.iter().find(|one| one["name"] == card.id.as_str()).unwrap();
        let recorded = index % 2 == 0 && !card.versions_recorded.is_empty();
        let word = if recorded { "version_recorded" } else { "version_not_recorded" };
        assert!(codes(diagnosis).contains(&word), "{diagnosis:#}");
        assert_ne!(diagnosis["status"], "fail", "{diagnosis:#}");
        // A program that reads its greeting and says nothing is found out.
        assert_eq!(codes(diagnosis).contains(&"handshake_failed"), card.handshake.is_some());
    }
}

#[test]
fn a_probe_that_hangs_is_ended_with_everything_it_started() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    let card = cards().remove(0);
    let text = "trap '' TERM\n(trap '' TERM; exec sleep 600) &\nsetsid sleep 600 &\nexec sleep 600";
    program(&bin, &card.requires[0].binary, text);
    let said = with_path(&ostler, &bin, &["doctor", &card.id, "--json"], &[]);
    let found = diagnoses(&said);
    assert!(codes(&found[0]).contains(&"version_unknown"), "{said:?}");
    assert!(said.stdout.contains("took longer than 5 s"), "{said:?}");
    let strays = testkit::find_marked(&ostler.instance.mark());
    assert!(strays.is_empty(), "left behind: {strays:?}");
}

#[test]
fn a_key_is_noted_as_billed_by_use_and_its_value_not_shown() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    let billed =
        |card: &contract::Card| card.login.as_ref().and_then(|login| login.billed.first().cloned());
    let mut seen = 0;
    for card in cards() {
        let Some(key) = billed(&card) else { continue };
        seen += 1;
        program(&bin, &card.requires[0].binary, "echo 1.2.3");
        let vars = [(key.as_str(), "value-that-nobody-may-see")];
        let said = with_path(&ostler, &bin, &["doctor", &card.id, "--json"], &vars);
        assert_eq!(said.code, 0, "{said:?}");
        let found = diagnoses(&said);
        let checks = found[0]["checks"].as_array().unwrap();
        let billed = checks.iter().find(|check| check["code"] == "key_switches_billing").unwrap();
        assert_eq!(billed["level"], "info", "an API key is no problem: {said:?}");
        assert_eq!(billed["message"], format!("billed by use: {key} is set"));
        assert!(!said.stdout.contains("nobody-may-see"), "{said:?}");
    }
    assert!(seen >= 3, "{seen} cards have such a key");
}

#[test]
fn a_configured_agent_that_cannot_work_is_the_exit_status() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--silent");
    let config = serde_json::json!({
        "adapters": {
            "good": { "type": "process", "binary": agent.split(' ').next().unwrap(), "args": ["--token", "{{leaseToken}}"] },
            "gone": { "type": "process", "binary": "/nowhere/agent" },
        },
        "agents": {
            "homeless": { "adapter": "good", "cwd": "/nowhere/at/all" },
        },
    });
    let path = ostler.instance.root().join("c.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let path = path.display().to_string();
    for (name, exit, code) in [
        ("good", 0, "secret_in_arguments"),
        ("gone", 4, "binary_missing"),
        ("homeless", 3, "directory_unusable"),
        ("nobody", 3, "configuration_invalid"),
    ] {
        let said = ostler.says(&["doctor", name, "--json", "--config", &path]);
        assert_eq!(said.code, exit, "{name}: {said:?}");
        assert!(codes(&diagnoses(&said)[0]).contains(&code), "{name}: {said:?}");
    }
    assert_ne!(ostler.says(&["doctor", "--config", &path]).code, 0, "one of them fails");
}

/// The message of a check.
fn message(diagnosis: &Value, code: &str) -> String {
    let checks = diagnosis["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["code"] == code);
    check.unwrap_or_else(|| panic!("no {code}: {diagnosis:#}"))["message"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn doctor_names_the_variables_an_agent_gets() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    program(&bin, "claude", "echo 1.2.3");
    let vars = [
        ("CARGO_HOME", "hush-1"),
        ("ANTHROPIC_API_KEY", "hush-2"),
        ("GITHUB_TOKEN", "hush-3"),
        ("AWS_PROFILE", "hush-4"),
        ("HARMLESS", "hush-5"),
    ];
    let said = with_path(&ostler, &bin, &["doctor", "claude", "--json"], &vars);
    assert!(!said.stdout.contains("hush-"), "{said:?}");
    let found = &diagnoses(&said)[0];
    let (gets, not) =
        (message(found, "environment_passed"), message(found, "environment_not_passed"));
    for name in ["CARGO_HOME", "ANTHROPIC_API_KEY", "PATH"] {
        assert!(gets.contains(name) && !not.contains(name), "{name}: {gets}\n{not}");
    }
    assert_eq!(not, "set here and not passed: AWS_PROFILE, GITHUB_TOKEN");
    // With its switch, the cloud's variables are passed.
    let vars = [&vars[..], &[("CLAUDE_CODE_USE_BEDROCK", "1")]].concat();
    let said = with_path(&ostler, &bin, &["doctor", "claude", "--json"], &vars);
    let found = &diagnoses(&said)[0];
    assert!(message(found, "environment_passed").contains("AWS_PROFILE"), "{said:?}");
}

#[test]
fn a_custom_provider_of_codex_is_a_login() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    program(&bin, "codex", "echo 1.2.3");
    let home = ostler.instance.root().join("codex-home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("config.toml"), "[model_providers.x]\nenv_key = \"FAKE_API_KEY\"\n")
        .unwrap();
    let home = home.display().to_string();
    let of = |vars: &[(&str, &str)]| {
        let vars = [&[("CODEX_HOME", home.as_str())], vars].concat();
        let said = with_path(&ostler, &bin, &["doctor", "codex", "--json"], &vars);
        diagnoses(&said).remove(0)
    };
    let seen = of(&[("FAKE_API_KEY", "hush-1")]);
    assert!(message(&seen, "login_seen").starts_with("FAKE_API_KEY is set"), "{seen:#}");
    assert!(message(&seen, "environment_passed").contains("FAKE_API_KEY"), "{seen:#}");
    assert!(!seen.to_string().contains("hush-1"), "{seen:#}");
    let unset = of(&[]);
    assert!(message(&unset, "login_not_seen").contains("FAKE_API_KEY, which is not set"));
}

#[test]
fn a_known_agent_as_process_is_explained() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    program(&bin, "gemini", "echo 'Usage: gemini'; exit 1");
    ostler.instance.write_config(
        r#"{ "adapters": {
            "gemini-cli": { "type": "process", "binary": "gemini", "args": ["--api-key", "hush-1"] },
            "cursor-agent": { "type": "process", "binary": "cursor-agent" } } }"#,
    );
    let said = with_path(&ostler, &bin, &["doctor", "gemini-cli", "--json"], &[]);
    let found = &diagnoses(&said)[0];
    assert_eq!(found["status"], "warn", "{said:?}");
    assert!(message(found, "wrong_protocol").starts_with("Gemini CLI does not speak"), "{said:?}");
    assert_eq!(message(found, "stands_for"), "process: gemini --api-key [redacted]");
    let said = with_path(&ostler, &bin, &["doctor", "cursor-agent"], &[]);
    let card = runtimes::registry::find("cursor-agent").unwrap().card();
    assert!(said.stdout.contains(&card.requires[0].install_hint), "{said:?}");
    let said = with_path(&ostler, &bin, &["run", "gemini-cli", "hello"], &[]);
    assert_ne!(said.code, 0, "{said:?}");
    // The advice is broken into lines.
    let shown = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("`ostler run gemini`"), "{said:?}");
    let said = with_path(&ostler, &bin, &["config", "check"], &[]);
    assert!(said.stdout.contains(r#""type": "cli", "runtime": "gemini""#), "{said:?}");
    ostler.instance.write_config(
        r#"{ "adapters": {
            "g": { "type": "process", "binary": "goose" },
            "h": { "type": "acp", "binary": "gemini --acp" } } }"#,
    );
    let said = with_path(&ostler, &bin, &["config", "check"], &[]);
    let goose = r#"use `ostler run goose-acp`, or write "g": { "type": "acp", "binary": "goose", "args": ["acp"] }"#;
    assert!(said.stdout.contains(goose), "{said:?}");
    assert!(
        said.stdout.contains(r#"did you mean "binary": "gemini", "args": ["--acp"]?"#),
        "{said:?}"
    );
}

#[test]
fn configured_variables_are_passed_or_missing() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    program(&bin, "mine", "echo 1.2.3");
    ostler.instance.write_config(
        r#"{ "adapters": {
            "set": { "type": "process", "binary": "mine", "env": { "OTHER": "${MY_TOKEN}", "A_KEY": "x" } },
            "unset": { "type": "process", "binary": "mine", "env": { "A": "${NOT_SET}" } } } }"#,
    );
    let vars = [("MY_TOKEN", "hush-1"), ("A_KEY", "hush-2")];
    let set = with_path(&ostler, &bin, &["doctor", "set", "--json"], &vars);
    let found = &diagnoses(&set)[0];
    let gets = message(found, "environment_passed");
    assert!(gets.ends_with("; the configuration sets: A_KEY, OTHER"), "{gets}");
    assert!(!codes(found).contains(&"environment_not_passed"), "{found:#}");
    let unset = with_path(&ostler, &bin, &["doctor", "unset", "--json"], &vars);
    let found = &diagnoses(&unset)[0];
    assert_eq!(unset.code, 3, "{found:#}");
    assert!(message(found, "variable_not_set").contains("${NOT_SET}"), "{found:#}");
    // One hint, wherever the fault is met.
    let hint = "export NOT_SET before you run the agent";
    for args in [&["doctor", "unset"][..], &["run", "unset", "x"], &["config", "check"]] {
        let said = with_path(&ostler, &bin, args, &vars);
        assert!(
            said.code == 3 && format!("{}{}", said.stdout, said.stderr).contains(hint),
            "{said:?}"
        );
    }
}

#[test]
fn agents_known_by_acp_have_an_install_line() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    program(&bin, "unrelated", "true");
    let install = "npm install -g @qwen-code/qwen-code";
    for args in [&["doctor", "qwen-acp"][..], &["run", "qwen-acp", "hi"]] {
        let said = with_path(&ostler, &bin, args, &[]);
        let shown = format!("{}{}", said.stdout, said.stderr);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.code, 4, "{shown}");
        assert!(shown.contains(install) && !shown.contains("adapters.qwen-acp"), "{shown}");
    }
    ostler.instance.write_config(r#"{ "adapters": { "q": { "type": "acp", "binary": "qwen" } } }"#);
    let said = with_path(&ostler, &bin, &["doctor", "q"], &[]);
    let both = format!("fix adapters.q.binary, or install it: {install}");
    assert!(said.stdout.contains(&both), "{said:?}");
    // A command of the command line is in no file.
    let said = with_path(&ostler, &bin, &["run", "--process", "qwen", "hi"], &[]);
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("\"qwen\":"), "{said:?}");
}
