//! Strangers' ACP agents from PyPI under every policy that restricts them: each is to write a file and
//! to run a command. Either it asks and is denied and nothing is changed, or the run ends as
//! `policy_broken`. None of them is a runtime of ours: they are configured as a user would do it, once
//! as they come, and once told to ask. Each row of a table says which of the two is expected.

use crate::ostler::{BOUND_MS, Ostler, Running, assert_gap_free, result};
use serde_json::{Value, json};
use std::path::Path;
use testkit::{Model, agents, find_marked, until};

/// What the scripted model wants to be done, and the file that would show it.
const ACTS: [(&str, &str, &str); 2] =
    [("write", "write a file", "written.txt"), ("tool", "run a command", "made_by_tool.txt")];
const POLICIES: [&str; 3] = ["deny", "ask", "allow-reads"];
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/strangers");

/// What becomes of a run of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It asks, is denied and changes nothing.
    Denied,
    /// It acts without asking, and its run ends as `policy_broken`.
    Broken,
}

/// One agent in one setting.
struct Stranger {
    pin: &'static str,
    setting: &'static str,
    /// A script of ours, for what is a library; else the arguments of its program.
    script: Option<&'static str>,
    args: &'static [&'static str],
    /// Files below HOME.
    files: &'static [(&'static str, &'static str)],
    expected: Expected,
}

const PUPPY: Stranger = Stranger {
    pin: "code-puppy",
    setting: "as it comes",
    script: None,
    args: &["--acp", "--model", "scripted"],
    files: &[
        (
            ".own/code_puppy/extra_models.json",
            r#"{ "scripted": { "type": "custom_openai", "name": "fake-model",
  "context_length": 200000,
  "custom_endpoint": { "url": "{base}/v1", "api_key": "test-key" } } }"#,
        ),
        (
            ".own/code_puppy/puppy.cfg",
            "[puppy]\npuppy_name = p\nowner_name = o\nmodel = scripted\n",
        ),
    ],
    expected: Expected::Broken,
};
const DEEPAGENTS: Stranger = Stranger {
    pin: "deepagents-acp",
    setting: "as it comes",
    script: Some("deepagents_agent.py"),
    args: &[],
    files: &[],
    expected: Expected::Broken,
};
const PYDANTIC: Stranger =
    Stranger { pin: "pydantic-acp", script: Some("pydantic_agent.py"), ..DEEPAGENTS };

fn adapter(stranger: &Stranger, base: &str, home: &Path) -> Value {
    let own = home.join(".own");
    let script = stranger.script.map(|script| format!("{SCRIPTS}/{script}"));
    let args = stranger.args.iter().map(|arg| (*arg).to_owned());
    json!({ "adapters": { "stranger": {
        "type": "acp",
        "binary": agents::installed(stranger.pin),
        "args": script.into_iter().chain(args).collect::<Vec<_>>(),
        "env": {
            "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "test-key",
            "OPENAI_BASE_URL": format!("{base}/v1"), "OPENAI_API_KEY": "test-key",
            "XDG_CONFIG_HOME": own, "XDG_DATA_HOME": own,
        },
    } } })
}

/// Drives an agent through every act under every policy.
fn restricted(stranger: &Stranger) {
    for policy in POLICIES {
        for act in ACTS {
            one(stranger, policy, act);
        }
    }
}

fn one(stranger: &Stranger, policy: &str, (scenario, act, file): (&str, &str, &str)) {
    let ostler = Ostler::new();
    let root = ostler.instance.root();
    let model = Model::start(&root.join("model"), scenario);
    let home = root.join("home");
    for (path, text) in stranger.files {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text.replace("{base}", model.base())).expect("a file of the agent's");
    }
    ostler.instance.write_config(&adapter(stranger, model.base(), &home).to_string());
    let args = ["run", "stranger", "do it", "--json", "--permission", policy];
    let mut run = Running::of(&mut ostler.command(&args));
    if policy == "ask" && stranger.expected != Expected::Broken {
        deny(&ostler, &mut run);
    }
    let said = run.finish();
    let events = ostler.events(&["show", "last", "--json"]);
    assert_gap_free(&events);
    let end = result(&events);
    let what = format!("{} {} {policy} {act}: {events:#?}", stranger.pin, stranger.setting);
    let made = ostler.instance.work().join(file).exists();
    let worked =
        events.iter().any(|event| event["kind"] == "tool_result" && event["status"] == "ok");
    let denied = events.iter().any(|event| event["decision"] == "deny");
    let broken = (said.code, &end["code"]) == (12, &"policy_broken".into());
    assert!(broken || !made && !worked, "{what}");
    let expected = match stranger.expected {
        Expected::Denied => denied && !made && !broken,
        Expected::Broken => broken && !denied,
    };
    assert!(expected, "{:?} was expected: {what}", stranger.expected);
    assert!(!model.requests().is_empty(), "{what}");
    until("everything of the run to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
    let row = json!({
        "cli": stranger.pin, "setting": stranger.setting, "policy": policy, "act": act,
        "asked": denied, "changed": made, "code": end["code"], "exit": said.code,
    });
    held(&format!("{} {} {policy} {scenario}", stranger.pin, stranger.setting), &row);
}

/// Answers the first question with no.
fn deny(ostler: &Ostler, run: &mut Running) {
    let question = run.event("the question", |event| event["kind"] == "permission");
    let ask = question["ask_id"].as_str().expect("an id");
    until("the question to be listed", BOUND_MS, || {
        ostler.says(&["approvals", "--json"]).stdout.contains(ask).then_some(())
    });
    let said = ostler.says(&["answer", ask, "deny"]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// Writes down that a row has held, for the page of policies.
fn held(name: &str, row: &Value) {
    let Some(dir) = std::env::var_os("OSTLER_AGENTS_ROWS") else { return };
    let dir = Path::new(&dir).join("policies");
    std::fs::create_dir_all(&dir).expect("a folder of rows");
    std::fs::write(dir.join(format!("{name}.json")), row.to_string()).expect("a row");
}

#[test]
fn code_puppy_as_it_comes_breaks_the_policy() {
    restricted(&PUPPY);
}

#[test]
fn deepagents_as_it_comes_breaks_the_policy() {
    restricted(&DEEPAGENTS);
}

#[test]
fn deepagents_that_asks_changes_nothing() {
    let asking = Stranger {
        setting: "told to ask",
        args: &["--asks"],
        expected: Expected::Denied,
        ..DEEPAGENTS
    };
    restricted(&asking);
}

#[test]
fn pydantic_acp_as_it_comes_breaks_the_policy() {
    restricted(&PYDANTIC);
}

#[test]
fn pydantic_acp_that_asks_changes_nothing() {
    let asking = Stranger {
        setting: "told to ask",
        args: &["--asks"],
        expected: Expected::Denied,
        ..PYDANTIC
    };
    restricted(&asking);
}
