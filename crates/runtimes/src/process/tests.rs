//! Plans from configuration, as data: the three adapters of the protocol's own documentation, and
//! what is refused before anything is started.

use super::*;
use crate::passed_env::{ENV_ALLOWLIST, ENV_ALLOWLIST_PREFIXES};
use crate::template::Context;
use contract::plan::EnvSource;
use serde_json::Value;

fn spec(adapter: Value) -> Spec {
    let mut context = Context::new();
    context
        .set("workspacePath", "/w/1")
        .set("leaseToken", "lease-1")
        .set("fencingToken", 3)
        .set("taskId", "task_1")
        .set("runId", "run_1")
        .set("mcpUrl", "http://127.0.0.1:9/mcp");
    Spec {
        adapter: serde_json::from_value(adapter).unwrap(),
        context,
        model: Some("m-1".into()),
        prompt: "mend it".into(),
        system_prompt: None,
        policy: contract::Policy::Ask,
        lane: contract::plan::Lane::Process,
        session: None,
        budget: Default::default(),
        counts_spending: false,
        files: String::new(),
        as_root: false,
        own_program: "/bin/ostler".into(),
        caller_env: [("GOOGLE_GENERATIVE_AI_API_KEY".to_owned(), "g-key".to_owned())].into(),
    }
}

/// The plan without the allowlist, which is the same for all.
fn shown(adapter: Value) -> String {
    match Process.plan(&spec(adapter)) {
        Ok(mut plan) => {
            plan.env.retain(|entry| entry.source != EnvSource::Allowlist);
            serde_json::to_string_pretty(&plan).unwrap()
        }
        Err(fault) => format!("{fault}\nhint: {}", fault.hint()),
    }
}

#[test]
fn an_adapter_with_a_key_by_reference_is_planned_and_its_key_is_secret() {
    insta::assert_snapshot!(shown(json!({
        "name": "gemini-cli",
        "runtime": "process",
        "binary": "gemini",
        "args": ["--non-interactive", "--workdir", "{{workspacePath}}"],
        "env": { "GOOGLE_GENERATIVE_AI_API_KEY": "${GOOGLE_GENERATIVE_AI_API_KEY}" },
        "cost_model": "google/gemini-2.0",
    })));
}

#[test]
fn lease_token_and_relay_address_can_be_arguments() {
    let plan = Process.plan(&spec(json!({
        "name": "openclaw", "runtime": "process", "binary": "openclaw",
        "args": ["run", "--lease-token", "{{leaseToken}}", "--mcp", "{{mcpUrl}}", "{{model}}"],
    })));
    let args = plan.unwrap().args;
    assert_eq!(args[2..], ["lease-1", "--mcp", "http://127.0.0.1:9/mcp", "m-1"]);
}

#[test]
fn the_environment_is_stated_in_the_order_in_which_later_entries_win() {
    let plan = Process
        .plan(&spec(json!({
            "name": "a", "runtime": "process", "binary": "a",
            "env": { "PATH": "/opt", "APP_COOKIE": "c" , "MODE": "fast"},
            "env_passthrough": ["CLOUD_ACCOUNT"],
        })))
        .unwrap();
    let names: Vec<_> = plan.env.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names[..ENV_ALLOWLIST.len()], *ENV_ALLOWLIST);
    assert_eq!(names[ENV_ALLOWLIST.len()..], ["CLOUD_ACCOUNT", "APP_COOKIE", "MODE", "PATH"]);
    assert_eq!(plan.secrets, ["APP_COOKIE", "CLOUD_ACCOUNT"]);
}

#[test]
fn a_variable_filled_by_a_reference_is_secret_whatever_it_is_called() {
    let plan = Process
        .plan(&spec(json!({
            "name": "a", "runtime": "process", "binary": "a",
            "env": { "INNOCENT": "x-${GOOGLE_GENERATIVE_AI_API_KEY}" },
        })))
        .unwrap();
    assert_eq!(plan.secrets, ["GOOGLE_GENERATIVE_AI_API_KEY", "INNOCENT"]);
}

#[test]
fn what_cannot_be_started_is_refused_with_the_key_that_is_wrong() {
    let rows = [
        json!({ "name": "a", "runtime": "process" }),
        json!({ "name": "a", "runtime": "process", "binary": " " }),
        json!({ "name": "a", "runtime": "process", "binary": "b", "args": ["{{runid}}"] }),
        json!({ "name": "a", "runtime": "process", "binary": "b", "args": ["x", "a\u{0}b"] }),
        json!({ "name": "a", "runtime": "process", "binary": "b", "args": ["{{systemPrompt}}"] }),
        json!({ "name": "a", "runtime": "process", "binary": "b", "env": { "K": "${K}" } }),
        json!({ "name": "a", "runtime": "process", "binary": "b", "env": { "A=B": "c" } }),
        json!({ "name": "a", "runtime": "process", "binary": "b", "env_passthrough": [""] }),
    ];
    let shown: Vec<_> = rows.into_iter().map(shown).collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn every_prefix_stands_in_the_allowlist() {
    for prefix in ENV_ALLOWLIST_PREFIXES {
        assert!(ENV_ALLOWLIST.contains(&format!("{prefix}*").as_str()));
    }
}
