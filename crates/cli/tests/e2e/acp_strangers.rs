//! Agents made with the official SDKs of ACP, in Rust and in Python, driven as strangers: what they say
//! and understand is the SDK's own. Driven are the examples that the SDKs are published with, had from
//! their registries and nothing of ours, and an agent of ours made with each, which does everything:
//! the examples only echo, that of Rust only greets, and the SDK's own test agent is not published.
//! All are had on first use, and whoever cannot reach a registry is told that they were not tried;
//! `scripts/test` puts them there, and then they must be.

use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, kinds, result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use testkit::{find_marked, until};

/// The Python SDK, as it is on PyPI.
const SDK: &str = "agent-client-protocol==0.12.1";
/// The longest the other one may be built for in a test; `scripts/test` builds it before.
const BUILD_SEC: u32 = 150;
/// What the agent of ours made with the Rust SDK is built from, which names its version.
const STRANGER: &str = include_str!("../stranger/Cargo.toml");
/// Set by whoever has put all of them there.
const THERE: &str = "OSTLER_TEST_ACP_SDK";

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory")
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What to do without: nothing, unless it was promised.
fn found(what: &str, found: Option<String>) -> Option<String> {
    if found.is_none() {
        assert!(std::env::var_os(THERE).is_none(), "{what} is not there, and this run needs it");
        eprintln!("SKIPPED: {what} could not be had, so no stranger was driven");
    }
    found
}

/// The Python that has the SDK.
fn interpreter() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let python = FOUND.get_or_init(|| {
        let home = target().join("acp-sdk");
        let python = home.join("bin/python");
        let has = |python: &Path| {
            let asked = Command::new(python).args(["-c", "import acp"]).output();
            asked.is_ok_and(|output| output.status.success())
        };
        if has(&python) {
            return Some(python);
        }
        // Made under a name of its own, so that a half-made one is never taken for whole.
        let part = home.with_extension(std::process::id().to_string());
        let install = ["-m", "pip", "install", "-q", SDK];
        let made = succeeds(Command::new(testkit::python()?).args(["-m", "venv"]).arg(&part))
            && succeeds(Command::new(part.join("bin/python")).args(install));
        if made {
            let _ = std::fs::remove_dir_all(&home);
            let _ = std::fs::rename(&part, &home);
        }
        let _ = std::fs::remove_dir_all(&part);
        has(&python).then_some(python)
    });
    python.as_deref()
}

/// The command of the agent made with the Python SDK.
fn python() -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/acp_agent.py");
    found(SDK, interpreter().map(|python| format!("{} {script}", python.display())))
}

/// The command of an example of the Python SDK: its wheel has none, its source archive has.
fn python_example(name: &str) -> Option<String> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOUND.get_or_init(|| {
        let (package, version) = SDK.split_once("==")?;
        let home = target().join(format!("acp-sdk-examples-{version}"));
        if home.join("agent.py").exists() {
            return Some(home);
        }
        let part = target().join(format!("acp-sdk-examples.{}", std::process::id()));
        let download = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", package, "-d"];
        let got = succeeds(Command::new(interpreter()?).args(download).arg(&part).arg(SDK));
        let archive = std::fs::read_dir(&part).ok()?.flatten().next()?.path();
        let mut unpack = Command::new("tar");
        unpack.args(["--strip-components=2", "--wildcards", "-xzf"]).arg(archive).arg("-C");
        if got && succeeds(unpack.arg(&part).arg("*/examples/*.py")) {
            let _ = std::fs::rename(&part, &home);
        }
        let _ = std::fs::remove_dir_all(&part);
        home.join("agent.py").exists().then_some(home)
    });
    let command = || {
        let script = folder.as_ref()?.join(name);
        Some(format!("{} {}", interpreter()?.display(), script.display()))
    };
    found("the source of the Python SDK", command())
}

/// The command of the example agent of the Rust SDK, built from the package as it is published.
fn rust_example() -> Option<String> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = FOUND.get_or_init(|| {
        let (_, version) = STRANGER.split_once("agent-client-protocol = { version = \"=")?;
        let (version, _) = version.split_once('"')?;
        let home = target().join("stranger");
        let root = home.join(format!("examples-{version}"));
        let program = root.join("bin/simple_agent");
        if program.exists() {
            return Some(program);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut install = Command::new("timeout");
        install.arg(BUILD_SEC.to_string()).arg(cargo).args(["install", "--quiet", "--locked"]);
        install.args(["--debug", "--example", "simple_agent", "--features", "stdio"]);
        install.args(["--version", version, "agent-client-protocol"]);
        install.arg("--root").arg(root).arg("--target-dir").arg(&home);
        succeeds(install.env("CARGO_PROFILE_DEV_DEBUG", "false")).then_some(program)
    });
    found("the example of the Rust SDK", program.as_ref().map(|path| path.display().to_string()))
}

/// The command of the agent made with the Rust SDK, a package of its own.
fn rust() -> Option<String> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = FOUND.get_or_init(|| {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stranger/Cargo.toml");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let home = target().join("stranger");
        // What is not done in time goes on where it stopped when it is wanted the next time.
        let mut build = Command::new("timeout");
        build.arg(BUILD_SEC.to_string()).arg(cargo);
        build.args(["build", "--quiet", "--locked", "--manifest-path", manifest]);
        let program = home.join("debug/stranger");
        succeeds(build.arg("--target-dir").arg(&home)).then_some(program)
    });
    found("the Rust SDK", program.as_ref().map(|program| program.display().to_string()))
}

/// Drives a stranger through everything it can do.
fn driven(agent: &str) {
    let ostler = Ostler::new();
    let run = |policy: &str| {
        let args = ["run", "--acp", agent, "edit it", "--json", "--permission", policy];
        let said = ostler.says(&args);
        (said.code, said.events())
    };
    // Under a policy the mode that asks is set, and the answer is the policy's.
    let (code, events) = run("deny");
    assert_gap_free(&events);
    assert_eq!(result(&events)["text"], "in mode default I was not allowed", "{events:#?}");
    assert_eq!(code, 0);
    assert!(events.iter().any(|event| event["denied"] == true), "{events:#?}");
    assert!(!kinds(&events).contains(&"diff"), "what was not allowed is no fact");
    // The same when a person is asked, and says no.
    let ask = ["run", "--acp", agent, "edit it", "--json", "--permission", "ask"];
    let mut asking = ostler.starts(&ask);
    let question = asking.event("the question", |event| event["kind"] == "permission");
    crate::approvals::answer(&ostler, &question, "deny");
    let said = asking.finish();
    assert_eq!(result(&said.events())["text"], "in mode default I was not allowed", "{said:?}");
    assert_eq!(std::fs::read_dir(ostler.instance.work()).expect("a folder").count(), 0);
    // Without one the mode is the agent's own.
    let (code, events) = run("allow-all");
    assert_gap_free(&events);
    assert_eq!(result(&events)["text"], "in mode yolo I was allowed", "{events:#?}");
    assert_eq!(code, 0);
    let told = ["thinking", "plan", "tool_use", "permission", "tool_result", "diff", "turn"];
    for kind in told {
        assert!(kinds(&events).contains(&kind), "{kind} in {:?}", kinds(&events));
    }
    let unknown = events.iter().find(|event| event["level"] == "unrecognised");
    assert_eq!(unknown, None, "everything it says is understood");
    // A turn that is interrupted, and another one after it.
    let mut run = ostler.starts(&["run", "--acp", agent, "wait", "--json", "--permission", "deny"]);
    let waiting = run.event("it to wait", crate::acp::is_waiting);
    let id = waiting["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(ostler.says(&["interrupt", &id]).code, 0);
    run.event("the turn to end", |event: &Value| event["stop_reason"] == "cancelled");
    assert_eq!(ostler.says(&["say", &id, "edit it"]).code, 0);
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(result(&said.events())["text"], "in mode default I was not allowed");
    until("it to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn an_agent_made_with_the_python_sdk_is_driven() {
    if let Some(agent) = python() {
        driven(&agent);
    }
}

#[test]
fn an_agent_made_with_the_rust_sdk_is_driven() {
    if let Some(agent) = rust() {
        driven(&agent);
    }
}

/// One run of an example with a prompt.
fn runs(ostler: &Ostler, agent: &str, args: &[&str]) -> (i32, Vec<Value>) {
    let policy: &[&str] =
        if args.contains(&"--permission") { &[] } else { &["--permission", "allow-all"] };
    let run = ["run", "--acp", agent, "good day", "--json"];
    let said = ostler.says(&[&run, policy, args].concat());
    let events = said.events();
    assert_gap_free(&events);
    (said.code, events)
}

#[test]
fn the_example_agents_of_the_python_sdk_are_driven() {
    for (name, text) in [("echo_agent.py", "good day"), ("agent.py", "Client sent:good day")] {
        let Some(agent) = python_example(name) else { return };
        let ostler = Ostler::new();
        let (code, events) = runs(&ostler, &agent, &[]);
        assert_eq!((code, &result(&events)["text"]), (0, &text.into()), "{events:#?}");
        let unknown = events.iter().find(|event| event["level"] == "unrecognised");
        assert_eq!(unknown, None, "everything it says is understood");
        for policy in ["deny", "ask", "allow-reads"] {
            let (code, events) = runs(&ostler, &agent, &["--permission", policy]);
            assert_eq!(
                (code, &result(&events)["text"]),
                (0, &text.into()),
                "{policy}: {events:#?}"
            );
            let made = std::fs::read_dir(ostler.instance.work()).expect("a folder").count();
            assert_eq!(made, 0, "{policy}");
        }
        // Neither offers to take a session up again: what was said is handed over to a new one.
        let (code, events) = runs(&ostler, &agent, &["--continue"]);
        let said = result(&events)["text"].as_str().unwrap_or_default();
        assert_eq!((code, said.matches("good day").count() > 1), (0, true), "{events:#?}");
        let resumed = events.iter().any(|event| event["resumed"] == true);
        assert!(!resumed, "{events:#?}");
        until("it to be gone", BOUND_MS, || {
            find_marked(&ostler.instance.mark()).is_empty().then_some(())
        });
    }
}

#[test]
fn the_example_agent_of_the_rust_sdk_is_driven_as_far_as_it_goes() {
    let Some(agent) = rust_example() else { return };
    let ostler = Ostler::new();
    let (code, events) = runs(&ostler, &agent, &[]);
    let end = result(&events);
    // It greets, and knows no request but that one.
    assert_eq!((code, &end["code"]), (15, &"protocol_error".into()), "{events:#?}");
    assert!(end["message"].as_str().is_some_and(|said| said.contains("session/new")), "{end}");
    until("it to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}
