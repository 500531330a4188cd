//! `ostler mcp` as a person's assistant uses it for tasks: raw lines of JSON-RPC, and a client of the
//! official SDK. Every tool is called, the wrong way too; starting runs and answering them is in
//! `api.rs`.

use crate::api::Assistant;
use crate::door::Door;
use crate::mcp::{sdk, sdk_client};
use crate::ostler::{BOUND_MS, Ostler, program};
use serde_json::{Value, json};
use testkit::until;

/// A server, so that tasks are started.
fn served() -> Door {
    Door::of(Ostler::new())
}

fn waits_for(assistant: &mut Assistant, task: &str, state: &str) -> Value {
    until(&format!("the task to be {state}"), BOUND_MS, || {
        let (shown, _) = assistant.call("show_task", json!({ "task": task }));
        (shown["task"]["state"] == state).then(|| shown["task"].clone())
    })
}

#[test]
fn an_assistant_hands_tasks_over_and_decides_about_them() {
    let door = served();
    let work = door.ostler.instance.work().to_owned();
    let mut assistant = Assistant::new(&door.ostler);
    let mut done = |tool: &str, args: Value| {
        let (told, failed) = assistant.call(tool, args);
        assert!(!failed, "{tool}: {told}");
        told
    };
    let new = json!({ "title": "look around", "agent": "demo", "cwd": work, "labels": ["tour"], "key": "k" });
    let added = done("add_task", new.clone());
    let task = added["task"]["id"].as_str().unwrap().to_owned();
    assert_eq!(added["server_is_there"], true);
    assert_eq!(done("add_task", new)["task"]["id"], task.as_str(), "the same key is the same task");
    let listed = done("list_tasks", json!({ "label": "tour" }));
    assert_eq!(listed["tasks"][0]["id"], task.as_str());
    assert!(done("list_agents", json!({}))["agents"].is_array());
    waits_for(&mut assistant, &task, "review");
    for (tool, args) in [
        ("comment_task", json!({ "task": task, "text": "nicely put" })),
        ("reject_task", json!({ "task": task, "reason": "look again" })),
    ] {
        let (told, failed) = assistant.call(tool, args);
        assert!(!failed, "{tool}: {told}");
    }
    let sheet = waits_for(&mut assistant, &task, "review");
    assert_eq!(sheet["runs"].as_array().unwrap().len(), 2, "{sheet}");
    assert!(sheet["comments"].to_string().contains("nicely put"), "{sheet}");
    let (told, failed) = assistant.call("approve_task", json!({ "task": task }));
    assert!(!failed && told["task"]["state"] == "done", "{told}");
    // One after another that waits, tried now and then cancelled; and one that fails, opened again.
    let first = json!({ "title": "fail", "agent": "demo", "cwd": work, "review": "none" });
    let first = assistant.call("add_task", first).0["task"]["id"].as_str().unwrap().to_owned();
    waits_for(&mut assistant, &first, "failed");
    let second = json!({ "title": "then", "agent": "demo", "cwd": work, "after": [first] });
    let second = assistant.call("add_task", second).0["task"]["id"].as_str().unwrap().to_owned();
    let (told, failed) = assistant.call("cancel_task", json!({ "task": second }));
    assert!(!failed && told["task"]["state"] == "cancelled", "{told}");
    let (told, failed) = assistant.call("reopen_task", json!({ "task": first }));
    assert!(!failed, "{told}");
    for (tool, args, code) in [
        ("retry_task", json!({ "task": task }), "conflict"),
        ("approve_task", json!({ "task": second }), "conflict"),
        ("show_task", json!({ "task": "nothing" }), "not_found"),
        ("add_task", json!({ "agent": "demo" }), "usage"),
        ("add_task", json!({ "title": "x", "agent": "nobody" }), "unknown_agent"),
        ("reject_task", json!({ "task": task }), "usage"),
        ("comment_task", json!({ "task": task, "text": " " }), "usage"),
    ] {
        let (told, failed) = assistant.call(tool, args);
        assert!(failed && told["code"] == code, "{tool}: {told}");
    }
    assert_eq!(assistant.leave(), 0);
}

#[test]
fn the_official_sdk_finds_every_tool_and_hands_a_task_over() {
    let Some(python) = sdk() else { return };
    let door = served();
    let work = door.ostler.instance.work().to_owned();
    let ostler = program().display().to_string();
    for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let new = json!({ "title": mode, "agent": "demo", "cwd": work, "key": mode });
        let calls = json!([
            ["add_task", new],
            ["list_tasks", {}],
            ["list_approvals", {}],
            ["show_task", { "task": "nothing" }],
            ["no_such_tool", {}],
        ]);
        let mut client = door.ostler.instance.command(python);
        let said = sdk_client(&mut client, &["stdio", mode, &ostler, "mcp"], &calls);
        assert_eq!((&said["revision"], &said["server"]), (&revision.into(), &"ostler".into()));
        let tools = said["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 17, "{tools:#?}");
        assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{tools:#?}");
        let results = &said["results"];
        let task = &results[0]["value"]["task"]["id"];
        assert!(task.is_string(), "{results}");
        assert_eq!(results[1]["value"]["tasks"][0]["id"], *task, "{results}");
        assert_eq!(results[2]["error"], false);
        assert_eq!(
            (&results[3]["error"], &results[3]["value"]["code"]),
            (&true.into(), &"not_found".into())
        );
        assert_eq!(results[4]["code"], -32602);
    }
}
