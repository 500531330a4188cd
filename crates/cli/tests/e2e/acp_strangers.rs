//! Agents made with the official SDKs of ACP, in Rust and in Python, driven as strangers: what they say
//! and understand is the SDK's own. The SDKs are had from their registries on first use, and whoever
//! cannot reach one is told that it was not tried; `scripts/test` puts both there and then it must be.

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
/// Set by whoever has put both there.
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

/// The command of the agent made with the Python SDK.
fn python() -> Option<String> {
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
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/acp_agent.py");
    found(SDK, python.as_ref().map(|python| format!("{} {script}", python.display())))
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
    let waiting = run.event("it to wait", |event| event["text"] == "waiting");
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
