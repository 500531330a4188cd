//! What is told from names, texts and files alone; probes themselves are tried end to end.

use super::*;
use contract::diagnosis::{CheckLevel, Status};

fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn codes(checks: &[Check]) -> Vec<CheckCode> {
    checks.iter().map(|check| check.code).collect()
}

fn login() -> Login {
    Login {
        env: vec!["A_KEY".to_owned(), "A_TOKEN".to_owned()],
        files: vec!["${A_HOME:-~/.a}/auth.json".to_owned()],
        billed: vec!["A_KEY".to_owned()],
        hint: "run `a login`".to_owned(),
        ..Login::default()
    }
}

#[test]
fn a_version_is_found_among_the_words_around_it() {
    for (text, version) in [
        ("2.1.325 (Claude Code)\n", Some("2.1.325")),
        ("codex-cli 0.166.0", Some("0.166.0")),
        ("tool v1.2\nnewer: 3.4.5", Some("1.2")),
        ("2026.9.6-beta.1 (abc)", Some("2026.9.6-beta.1")),
        ("GitHub Copilot CLI 1.0.102.\nRun 'copilot update'", Some("1.0.102")),
        ("no number here, only 7", None),
        ("", None),
    ] {
        assert_eq!(version_in(text), version, "{text:?}");
    }
}

#[test]
fn a_login_is_seen_by_a_name_or_a_file() {
    let home = tempfile::tempdir().unwrap();
    let home_path = home.path().display().to_string();
    let none = logged_in(&login(), &[], &vars(&[("HOME", &home_path)]));
    assert_eq!(codes(&none), [CheckCode::LoginNotSeen]);
    assert_eq!(none[0].hint.as_deref(), Some("run `a login`"));

    let token = logged_in(&login(), &[], &vars(&[("HOME", &home_path), ("A_TOKEN", "t")]));
    assert_eq!(codes(&token), [CheckCode::LoginSeen]);
    let empty = logged_in(&login(), &[], &vars(&[("HOME", &home_path), ("A_TOKEN", "")]));
    assert_eq!(codes(&empty), [CheckCode::LoginNotSeen]);

    fs::create_dir(home.path().join(".a")).unwrap();
    fs::write(home.path().join(".a/auth.json"), "x").unwrap();
    let file = logged_in(&login(), &[], &vars(&[("HOME", &home_path)]));
    assert_eq!(codes(&file), [CheckCode::LoginSeen]);

    let key = logged_in(&login(), &[], &vars(&[("HOME", &home_path), ("A_KEY", "secret-value")]));
    assert_eq!(codes(&key), [CheckCode::LoginSeen, CheckCode::KeySwitchesBilling]);
    assert_eq!(Status::of(&key), Status::Pass, "an API key is no problem");
    assert!(key[1].message.contains("instead of the login in"), "{}", key[1].message);
    let said = serde_json::to_string(&key).unwrap();
    assert!(!said.contains("secret-value"), "{said}");
}

#[test]
fn a_provider_that_the_agent_names_is_a_login() {
    let named = [("MY_KEY".to_owned(), "/h/.a/config.toml".to_owned())];
    let set = logged_in(&login(), &named, &vars(&[("MY_KEY", "secret-value")]));
    assert_eq!(codes(&set), [CheckCode::LoginSeen]);
    assert_eq!(set[0].message, "MY_KEY is set; /h/.a/config.toml names it");
    let unset = logged_in(&login(), &named, &vars(&[]));
    assert_eq!(codes(&unset), [CheckCode::LoginNotSeen]);
    assert!(unset[0].message.contains("MY_KEY, which is not set"), "{}", unset[0].message);
}

#[test]
fn a_directory_that_a_variable_moves_is_looked_for_where_it_was_moved() {
    let vars = vars(&[("HOME", "/srv/p"), ("A_HOME", "/elsewhere")]);
    let at = |file| expanded(file, &vars);
    assert_eq!(at("${A_HOME:-~/.a}/auth.json"), Some("/elsewhere/auth.json".into()));
    assert_eq!(at("${B_HOME:-~/.b}/auth.json"), Some("/srv/p/.b/auth.json".into()));
    assert_eq!(at("~/x/y"), Some("/srv/p/x/y".into()));
    assert_eq!(at("/etc/x"), Some("/etc/x".into()));
    assert_eq!(expanded("~/x", &BTreeMap::new()), None);
}

#[test]
fn a_program_is_found_as_a_shell_would_find_it() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (home.path().join("1"), home.path().join("2"));
    for directory in [&first, &second] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("agent"), "#!/bin/sh\n").unwrap();
    }
    let path = format!("{}::{}", first.display(), second.display());
    assert_eq!(find_program("agent", Some(&path)), None, "neither can be executed");
    fs::set_permissions(second.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(find_program("agent", Some(&path)), Some(second.join("agent")));
    let whole = second.join("agent").display().to_string();
    assert_eq!(find_program(&whole, None), Some(second.join("agent")));
    assert_eq!(find_program("agent", None), None);
    assert_eq!(find_program(&first.display().to_string(), None), None, "a directory is none");
}

#[test]
fn secrets_in_arguments_are_a_warning_and_an_impossible_policy_is_an_error() {
    let adapter = Adapter {
        args: vec!["--token={{ leaseToken }}".to_owned(), "--model".to_owned()],
        extra_args: vec!["--key=${MY_KEY}".to_owned()],
        ..Adapter::default()
    };
    assert_eq!(codes(&arguments(&adapter)), [CheckCode::SecretInArguments; 2]);
    assert!(arguments(&Adapter::default()).is_empty());

    for runtime in runtimes::registry::all() {
        let card = runtime.card();
        for row in card.policies.iter().filter(|row| row.flags.is_none()) {
            let others = card
                .policies
                .iter()
                .any(|other| other.policy == row.policy && other.flags.is_some());
            let checks = policies(&card, Some(row.policy), None);
            let failed = codes(&checks).contains(&CheckCode::PolicyNotPossible);
            assert_eq!(failed, !others, "{} {:?}", card.id, row.policy);
        }
        let dangerous = policies(&card, None, None);
        let told = dangerous.iter().find(|check| check.code == CheckCode::PolicyDangerous);
        if let Some(told) = told {
            assert!(told.message.contains("dangerous"), "{}", card.id);
        }
        assert!(dangerous.iter().all(|check| check.level == CheckLevel::Info));
    }
}

#[test]
fn a_policy_is_a_promise_only_of_who_gave_it() {
    let mut card = runtimes::registry::find("acp").expect("a runtime").card();
    let told = |card: &Card| policies(card, None, None)[0].message.clone();
    let all = "answered by Ostler where the agent asks: deny, ask, allow-reads, allow-all (not \
               tested)";
    assert_eq!(told(&card), all);
    card.policies.retain(|row| row.policy != Policy::Ask);
    let but = "answered by Ostler where the agent asks: deny, allow-reads, allow-all (not tested); \
               not possible: ask";
    assert_eq!(told(&card), but);
    let card_of = |runtime| runtimes::registry::find(runtime).expect("a runtime").card();
    let flags = "promised by the agent: deny, ask, allow-reads, allow-all";
    assert_eq!(told(&card_of("claude")), flags);
    let own = "only for the tools that Ostler offers: deny, ask, allow-reads, allow-all";
    assert_eq!(told(&card_of("process")), own);
}

#[test]
fn modes_of_a_session_are_told_apart_from_a_promise() {
    let card = runtimes::registry::find("acp").expect("a runtime").card();
    let trials = vec![
        (Policy::Deny, ModeTrial::Accepted),
        (Policy::Ask, ModeTrial::NotPossible("it offers no mode that asks".to_owned())),
        (Policy::AllowReads, ModeTrial::Begun),
    ];
    let checks = policies(&card, Some(Policy::Ask), Some(&trials));
    let told = "accepts the mode for: deny (not tested with a change); begins in a mode for: \
                allow-reads (not tested with a change); answered by Ostler where the agent asks: \
                allow-all (not tested); not possible: ask";
    assert_eq!(checks[0].message, told);
    assert_eq!(checks[0].detail.as_deref(), Some("it offers no mode that asks"));
    assert!(codes(&checks).contains(&CheckCode::PolicyNotPossible));
}
