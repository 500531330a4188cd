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
    let task = added["task"]["task_id"].as_str().unwrap().to_owned();
    assert!(added["warning"].is_null(), "a server is there: {added}");
    assert_eq!(
        done("add_task", new)["task"]["task_id"],
        task.as_str(),
        "the same key is the same task"
    );
    let listed = done("list_tasks", json!({ "label": "tour" }));
    assert_eq!(listed["tasks"][0]["task_id"], task.as_str());
    assert!(done("list_agents", json!({}))["agents"].is_array());
    waits_for(&mut assistant, &task, "review");
    // A comment on a task in review wakes its agent, like a rejection.
    for (tool, args) in [
        ("comment_task", json!({ "task": task, "text": "nicely put" })),
        ("reject_task", json!({ "task": task, "reason": "look again" })),
    ] {
        let (told, failed) = assistant.call(tool, args);
        assert!(!failed, "{tool}: {told}");
        waits_for(&mut assistant, &task, "review");
    }
    let sheet = waits_for(&mut assistant, &task, "review");
    assert_eq!(sheet["runs"].as_array().unwrap().len(), 3, "{sheet}");
    assert!(sheet["comments"].to_string().contains("nicely put"), "{sheet}");
    let (told, failed) = assistant.call("approve_task", json!({ "task": task }));
    assert!(!failed && told["task"]["state"] == "done", "{told}");
    // One after another that waits, tried now and then cancelled; and one that fails, opened again.
    let first = json!({ "title": "fail", "agent": "demo", "cwd": work, "review": "none" });
    let first = assistant.call("add_task", first).0["task"]["task_id"].as_str().unwrap().to_owned();
    waits_for(&mut assistant, &first, "failed");
    let second = json!({ "title": "then", "agent": "demo", "cwd": work, "after": [first] });
    let second =
        assistant.call("add_task", second).0["task"]["task_id"].as_str().unwrap().to_owned();
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
        assert_eq!(tools.len(), 23, "{tools:#?}");
        let hinted = |name: &str| {
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
            tool["annotations"].clone()
        };
        assert_eq!(hinted("list_runtimes")["readOnlyHint"], true);
        assert_eq!(hinted("stop_run")["destructiveHint"], true);
        let start = hinted("start_run");
        assert_eq!(
            (&start["idempotentHint"], &start["destructiveHint"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(hinted("answer")["destructiveHint"], true);
        assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{tools:#?}");
        let results = &said["results"];
        let task = &results[0]["value"]["task"]["task_id"];
        assert!(task.is_string(), "{results}");
        assert_eq!(results[1]["value"]["tasks"][0]["task_id"], *task, "{results}");
        assert_eq!(results[2]["error"], false);
        assert_eq!(
            (&results[3]["error"], &results[3]["value"]["code"]),
            (&true.into(), &"not_found".into())
        );
        assert_eq!(results[4]["code"], -32602);
    }
}

#[test]
fn assistant_delegates_work_and_brings_it_back() {
    let door = served();
    let work = door.ostler.instance.work().to_owned();
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["-c", "user.name=p", "-c", "user.email=p@x", "commit", "-q", "--allow-empty", "-m", "b"],
    ] {
        let made = door.ostler.instance.command("git").current_dir(&work).args(args).status();
        assert!(made.unwrap().success());
    }
    let mut assistant = Assistant::new(&door.ostler);
    let (listed, failed) = assistant.call("list_runtimes", json!({}));
    assert!(!failed, "{listed}");
    let runtimes = listed["runtimes"].as_array().unwrap();
    let demo = runtimes.iter().find(|one| one["name"] == "demo").expect("demo is always there");
    let needs_adapter = ["process", "acp", "remote"];
    let startable =
        runtimes.iter().all(|one| !needs_adapter.iter().any(|name| one["name"] == *name));
    assert!(startable, "what needs an adapter is in list_agents: {listed}");
    for key in ["ready", "use_when", "dont_use_when", "asks", "resumes", "tells_dollars"] {
        assert!(!demo[key].is_null(), "{key}: {demo}");
    }
    let missing = listed["not_installed"].as_array().unwrap().len();
    assert!(listed.to_string().len() < 600 * (runtimes.len() + 1) + 40 * missing, "{listed}");
    let request = json!({
        "agent": "demo", "prompt": "write a file", "cwd": work, "worktree": true,
        "budget_usd": 5, "budget_tokens": 1_000_000, "timeout_minutes": 5,
        "system_prompt": "be brief",
    });
    let (started, failed) = assistant.call("start_run", request);
    assert!(!failed && started["warning"].is_null(), "{started}");
    let run = started["run_id"].as_str().unwrap().to_owned();
    let ended = until("the end of the run", BOUND_MS, || {
        let (told, failed) = assistant.call("wait_run", json!({ "run": run, "seconds": 5 }));
        assert!(!failed, "{told}");
        (told["done"] == true).then_some(told)
    });
    assert_eq!(ended["run"]["outcome"], "succeeded", "{ended}");
    let (diff, failed) = assistant.call("show_diff", json!({ "run": run }));
    assert!(!failed && diff["files"].is_array(), "{diff}");
    let (costs, failed) = assistant.call("costs", json!({ "by": "agent" }));
    assert!(!failed && costs["costs"][0]["agent"] == "demo", "{costs}");
    assert!(costs["costs"][0]["usd"].as_f64().is_some_and(|usd| usd > 0.0), "{costs}");
    let (tasks, _) = assistant.call("list_tasks", json!({}));
    assert_eq!(tasks["tasks"], json!([]), "only what was handed over is listed");
    for (tool, args, message) in [
        ("list_runs", json!({ "outcome": "lucky" }), "`outcome` cannot be `lucky`"),
        ("start_run", json!({ "agent": "demo", "prompt": 7 }), "`prompt` must be a string"),
        ("show_run", json!({ "run": "zzz" }), "there is no run 'zzz'"),
        ("answer", json!({ "approval": "zzz", "choice": "allow" }), "no approval 'zzz' is waiting"),
    ] {
        let (told, failed) = assistant.call(tool, args);
        assert!(failed && told["message"].as_str().unwrap().starts_with(message), "{told}");
        assert!(!told["hint"].to_string().contains("/api/v1"), "{told}");
    }
    let outside = json!({
        "agent": "demo", "prompt": "x", "worktree": true, "cwd": door.ostler.instance.root(),
    });
    let (told, failed) = assistant.call("start_run", outside);
    assert!(failed && told["hint"].to_string().contains("git repository"), "{told}");
    let ask = json!({ "agent": "demo", "prompt": "ask me", "cwd": work, "permission": "ask" });
    let asking = assistant.call("start_run", ask).0["run_id"].clone();
    let (waiting, _) = assistant.call("wait_run", json!({ "run": asking }));
    let approval = &waiting["approvals"][0]["approval_id"];
    let (answered, failed) =
        assistant.call("answer", json!({ "approval": approval, "choice": "deny" }));
    assert!(!failed && answered["taken"] == true, "{answered}");
    let (told, _) = assistant.call("wait_run", json!({ "run": asking }));
    assert_eq!(told["approvals"], json!([]), "an answered approval is not told again: {told}");
    until("the end of the run", BOUND_MS, || {
        let (told, _) = assistant.call("wait_run", json!({ "run": asking, "seconds": 5 }));
        (told["done"] == true).then_some(())
    });
    for (tool, hint) in
        [("show_diff", "in a worktree"), ("apply", "in a worktree"), ("stop_run", "call show_run")]
    {
        let (told, failed) = assistant.call(tool, json!({ "run": asking }));
        assert!(failed && told["hint"].as_str().unwrap().contains(hint), "{tool}: {told}");
    }
    for wrong in [json!({ "budget_usd": -1 }), json!({ "timeout_minutes": 0 })] {
        let mut request = json!({ "agent": "demo", "prompt": "x" });
        request.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let (told, failed) = assistant.call("start_run", request);
        assert!(failed && told["code"] == "usage", "{told}");
    }
    assert_eq!(assistant.leave(), 0);
}

#[test]
fn assistant_finds_configured_adapters() {
    let ostler = Ostler::new();
    let config = json!({ "adapters": {
        "mine": { "type": "process", "binary": testkit::fake_agent() },
        "gone": { "type": "acp", "binary": "qwen" },
        "far": { "type": "http", "baseUrl": "http://127.0.0.1:9" },
    } });
    ostler.instance.write_config(&config.to_string());
    let mut assistant = Assistant::new(&ostler);
    let (listed, _) = assistant.call("list_runtimes", json!({}));
    assert_eq!(
        listed["adapters"],
        json!([
            { "name": "far", "type": "http" },
            { "name": "gone", "ready": false, "type": "acp" },
            { "name": "mine", "ready": true, "type": "process" },
        ])
    );
    let acp = listed["acp"].as_array().expect("names of ACP");
    assert!(acp.iter().any(|one| one["name"] == "kimi-acp" && one["ready"] == false), "{listed}");
    let (one, failed) =
        assistant.call("list_runtimes", json!({ "name": "codex", "detail": "full" }));
    assert!(!failed && one["runtime"]["config_schema"]["model"].is_object(), "{one}");
    let spec = json!({ "name": "rev", "adapter": "mine", "system_prompt": "be brief",
        "budget_usd_per_run": 0.5 });
    let (hired, failed) = assistant.call("hire_agent", spec);
    assert!(
        !failed && hired["agent"]["name"] == "rev" && hired["warnings"] == json!([]),
        "{hired}"
    );
    let odd = json!({ "name": "odd", "adapter": "nobody" });
    assert!(assistant.call("hire_agent", odd).1, "an unknown adapter was taken");
    let request = json!({ "agent": "gone", "prompt": "x" });
    assistant.call("start_run", request.clone());
    let run = assistant.call("start_run", request).0["run_id"].clone();
    let ended = until("the end of the run", BOUND_MS, || {
        let (told, _) = assistant.call("wait_run", json!({ "run": run, "seconds": 5 }));
        (told["done"] == true).then_some(told)
    });
    assert_eq!(ended["run"]["code"], "not_installed", "{ended}");
    let hint = ended["hint"].as_str().expect("what to do about it");
    assert!(hint.contains("npm install -g @qwen-code/qwen-code"), "{ended}");
    let (runs, _) = assistant.call("list_runs", json!({ "limit": 1 }));
    assert!(runs["next"].is_string(), "{runs}");
    let (rest, failed) = assistant.call("list_runs", json!({ "limit": 1, "after": runs["next"] }));
    assert!(!failed && rest["runs"][0]["run_id"] != runs["runs"][0]["run_id"], "{rest}");
    assert_eq!(assistant.leave(), 0);
}
