//! Bad input: one row per fault that can occur here: input → code → exit status → first line.

use crate::ostler::{Ostler, Said, result};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;

/// What is done to the instance before the command.
type Prepare = fn(&Ostler);

struct Row {
    code: &'static str,
    exit: i32,
    prepare: Prepare,
    args: &'static [&'static str],
    /// What the first line of standard error says after the code.
    says: &'static str,
}

const fn row(
    code: &'static str,
    exit: i32,
    prepare: Prepare,
    args: &'static [&'static str],
    says: &'static str,
) -> Row {
    Row { code, exit, prepare, args, says }
}

fn nothing(_: &Ostler) {}

fn config(text: &str) -> impl Fn(&Ostler) {
    move |ostler| ostler.instance.write_config(text)
}

const FAULTS: &[Row] = &[
    row("usage", 2, nothing, &["run"], "no agent is named"),
    row("usage", 2, nothing, &["fly"], "unrecognized subcommand 'fly'"),
    row("usage", 2, nothing, &["run", "demo", " "], "the prompt is empty"),
    row(
        "usage",
        2,
        nothing,
        &["run", "demo", "x", "--timeout", "soon"],
        "invalid value 'soon' for '--timeout <DURATION>'",
    ),
    row(
        "usage",
        2,
        nothing,
        &["run", "demo", "x", "--budget-usd", "-1"],
        "'-1' for '--budget-usd <N>': expected a number such as 2.5, from 0.0001 to 1000000",
    ),
    row("usage", 2, nothing, &["run", "demo", "x", "--budget-usd", "0"], "from 0.0001 to 1000000"),
    row(
        "usage",
        2,
        nothing,
        &["run", "demo", "x", "--budget-usd", "99999999999999999"],
        "from 0.0001 to 1000000",
    ),
    row(
        "usage",
        2,
        nothing,
        &["run", "demo", "x", "--budget-turns", "0"],
        "expected a whole number from 1 to 1000000",
    ),
    row("unknown_agent", 3, nothing, &["run", "demmo", "x"], "'demmo'"),
    row(
        "bad_workspace",
        3,
        nothing,
        &["run", "demo", "x", "--cwd", "nowhere"],
        "nowhere: No such file",
    ),
    row(
        "not_supported",
        3,
        nothing,
        &["serve", "--listen", "0.0.0.0:0"],
        "--listen 0.0.0.0:0: connections beyond loopback must be encrypted",
    ),
    row(
        "invalid_config",
        3,
        nothing,
        &["run", "demo", "x", "--config", "absent.json"],
        "absent.json: cannot be read",
    ),
    row(
        "invalid_config",
        3,
        |o| config(r#"{"adapters":{"a":{"type":"process","binary":"x","argz":[]}}}"#)(o),
        &["run", "a", "x"],
        "adapters.a.argz",
    ),
    row("invalid_config", 3, |o| config("{")(o), &["config", "show"], ""),
    row(
        "invalid_config",
        3,
        |o| {
            config(
                r#"{"adapters":{"a":{"type":"process","binary":"x","args":["${NOT_SET_ANYWHERE}"]}}}"#,
            )(o)
        },
        &["run", "a", "x"],
        "NOT_SET_ANYWHERE",
    ),
    row(
        "unknown_placeholder",
        3,
        |o| {
            config(
                r#"{"adapters":{"a":{"type":"process","binary":"x","args":["{{workspacePth}}"]}}}"#,
            )(o)
        },
        &["run", "a", "x"],
        "workspacePth",
    ),
    row("not_found", 16, nothing, &["show", "ffffffff"], "there is no run 'ffffffff'"),
    row(
        "not_found",
        16,
        nothing,
        &["stop", "run_00000000000000000000000000000001"],
        "there is no run run_0000",
    ),
    row("not_found", 16, nothing, &["watch", "nope"], "there is no run 'nope'"),
    row(
        "store_unreadable",
        14,
        |o| {
            std::fs::create_dir_all(o.instance.data().parent().unwrap()).unwrap();
            std::fs::write(o.instance.data(), "a file in the way").unwrap();
        },
        &["runs"],
        "data/ostler",
    ),
    row(
        "store_unreadable",
        14,
        |o| {
            std::fs::create_dir_all(o.instance.data()).unwrap();
            std::fs::write(
                o.instance.data().join("ostler.db"),
                "this is no database at all".repeat(100),
            )
            .unwrap();
        },
        &["runs"],
        "ostler.db",
    ),
    row("conflict", 13, |o| drop(o.says(&["init"])), &["init"], "exists already"),
];

#[test]
fn every_fault_before_a_run_says_its_code_and_its_first_line() {
    for Row { code, exit, prepare, args, says } in FAULTS {
        let ostler = Ostler::new();
        prepare(&ostler);
        let said = ostler.says(args);
        let line = said.complaint();
        assert_eq!(said.code, *exit, "{args:?}: {said:?}");
        // The code of a mistake in the command line says no more than the message does.
        let begins = match *code {
            "usage" => "error: ".to_owned(),
            code => format!("error: {code}: "),
        };
        assert!(line.starts_with(&begins) && line.contains(says), "{args:?}: {line}");
        assert!(
            said.stderr.lines().any(|line| line.starts_with("hint: ")),
            "{args:?}: {}",
            said.stderr
        );
        assert_eq!(said.stdout, "", "{args:?}");
        let said = ostler.says(&[&["--json"], *args].concat());
        let error: Value = serde_json::from_str(&said.stderr)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", said.stderr));
        assert_eq!((said.code, error["code"].as_str()), (*exit, Some(*code)), "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(says)), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
}

/// Agents whose end is a fault: flags of the fake agent, extra arguments, code, exit status.
const ENDS: &[(&str, &[&str], &str, i32)] = &[
    ("--failed nope", &[], "agent_failed", 9),
    ("--failed budget_exceeded", &[], "budget_exceeded", 7),
    ("--no-complete", &[], "ended_without_result", 10),
    ("--no-complete --exit 3", &[], "process_crashed", 10),
    ("--exit-before-byte", &[], "ended_without_result", 10),
    ("--silent", &["--timeout", "300ms"], "timeout_wall", 8),
    (
        "--step-cost '{\"usd\":0.25}' --steps 1 --wait-shutdown",
        &["--budget-usd", "0.1"],
        "budget_exceeded",
        7,
    ),
    (
        "--step-cost '{\"inputTokens\":1000,\"outputTokens\":1}' --steps 1 --wait-shutdown",
        &["--budget-tokens", "100"],
        "budget_exceeded",
        7,
    ),
];

#[test]
fn usage_errors_say_what_was_expected_and_where_it_is_explained() {
    let ostler = Ostler::new();
    let copy = ostler.instance.root().join("none/copy").display().to_string();
    let wrong: [(&[&str], &str, &str); 6] = [
        (&["config", "nope"], "unrecognized subcommand 'nope'", "`ostler help config`"),
        (&["task", "aprove", "x"], "'aprove'", "did you mean 'approve'?"),
        (&["run", "--budget-usd", "x", "demo", "hi"], "a number such as 2.5", "`ostler help run`"),
        (&["runs", "--limit", "x"], "expected a whole number", "`ostler help runs`"),
        (&["runs", "--since", "tomorrow"], "expected a day", "`ostler help runs`"),
        (&["backup", &copy], "none does not exist", "create it first"),
    ];
    for (args, message, hint) in wrong {
        let said = ostler.says(args);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.stderr.contains(message) && said.stderr.contains(hint), "{said:?}");
    }
}

#[test]
fn unquoted_words_of_a_task_are_joined() {
    let ostler = Ostler::new();
    let added = ostler.says(&["task", "add", "fix", "the", "bug", "--agent", "demo", "--key", "k"]);
    assert!(added.stdout.contains("fix the bug"), "{added:?}");
    let said = ostler.says(&["task", "comment", "k", "look", "here"]);
    assert_eq!(said.code, 0, "{said:?}");
    let shown = ostler.says(&["task", "show", "k"]);
    assert!(shown.stdout.contains("look here"), "{shown:?}");
}

#[test]
fn configuration_in_the_current_directory_is_named() {
    let ostler = Ostler::new();
    let work = ostler.instance.work();
    std::fs::write(work.join("ostler.json"), r#"{ "agents": {} }"#).unwrap();
    let commands: [&[&str]; 6] = [
        &["run", "mine", "hello"],
        &["task", "add", "hello", "--agent", "mine"],
        &["agents", "hire", "scout", "--adapter", "mine"],
        &["doctor", "mine"],
        &["config", "check"],
        &["config"],
    ];
    for args in commands {
        let said = Said::from(ostler.command(args).current_dir(&work).output().unwrap());
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(all.contains("use --config ./ostler.json"), "{args:?}: {said:?}");
    }
    let args = ["config", "check", "--config", "ostler.json"];
    let said = Said::from(ostler.command(&args).current_dir(&work).output().unwrap());
    assert!(!said.stderr.contains("never read"), "it is read here: {said:?}");
}

#[test]
fn every_bad_end_of_an_agent_has_its_own_code() {
    let ostler = Ostler::new();
    for (flags, extra, code, exit) in ENDS {
        let agent = ostler.fake(flags);
        let mut args = vec!["run", "--process", &agent, "x", "--json"];
        args.extend(*extra);
        let said = ostler.says(&args);
        let events = said.events();
        let result = result(&events);
        assert_eq!((said.code, result["code"].as_str()), (*exit, Some(*code)), "{flags}: {result}");
        assert_ne!(result["outcome"], "succeeded");
        assert!(result["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
}

fn one(ostler: &Ostler, command: &str) -> (i32, String) {
    let said: Said = ostler.says(&["run", "--process", command, "x", "--json"]);
    let events = said.events();
    (said.code, result(&events)["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_program_that_cannot_be_started_or_was_killed_is_told_apart() {
    let ostler = Ostler::new();
    let plain = ostler.instance.work().join("plain.txt");
    std::fs::write(&plain, "no program").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(one(&ostler, "no-such-agent-anywhere"), (4, "not_installed".to_owned()));
    assert_eq!(one(&ostler, &plain.display().to_string()), (4, "spawn_failed".to_owned()));
    assert_eq!(one(&ostler, "sh -c 'kill -KILL $$'"), (10, "process_killed".to_owned()));
}

#[test]
fn clocks_and_limits_of_the_configuration_are_kept() {
    let ostler = Ostler::new();
    let fake = testkit::fake_agent();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{
            "mute": {{ "type": "process", "binary": "{0}", "args": ["--silent"], "firstOutputSec": 0.3 }},
            "chatty": {{ "type": "process", "binary": "{0}", "args": ["--burst", "100000", "--wait-shutdown"], "maxOutputBytes": 100000 }}
        }} }}"#,
        fake.display()
    ));
    for (agent, code, exit) in [("mute", "timeout_first_output", 8), ("chatty", "output_limit", 10)]
    {
        let said = ostler.says(&["run", agent, "x", "--json"]);
        let events = said.events();
        assert_eq!(
            (said.code, result(&events)["code"].as_str()),
            (exit, Some(code)),
            "{agent}: {:?}",
            events.last()
        );
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let ostler = Ostler::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = ostler.says(&["serve", "--listen", &address]);
    assert_eq!(said.code, 14, "{said:?}");
    assert!(
        said.complaint().starts_with("error: port_in_use: ") && said.complaint().contains(&address),
        "{said:?}"
    );
}

#[test]
fn a_lock_whose_holder_does_not_answer_is_told_after_a_while() {
    let ostler = Ostler::new();
    assert_eq!(ostler.says(&["runs"]).code, 0);
    let lock = std::fs::File::open(ostler.instance.data().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let said = ostler.says(&["runs"]);
    assert_eq!(said.code, 14, "{said:?}");
    assert!(said.complaint().starts_with("error: store_locked: "), "{said:?}");
}
