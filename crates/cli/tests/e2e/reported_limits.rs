//! Limits that a provider or an agent reports while a run goes on or before one starts: a used-up quota
//! blocks the next start of its account until the reset, a retry that only a log tells ends the run,
//! and retries without end do not keep it alive.

use crate::ostler::{BOUND_MS, Ostler, Said, result};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use testkit::until;

/// What OpenCode 1.18.33 and Kilo 7.7.7 log on stderr for a used-up quota; they print nothing else and
/// wait as long as the provider says.
const QUOTA_LOG: &str = r#"timestamp=2026-11-19T22:36:06.970Z level=ERROR run=7e1cbdf6 message="stream error" providerID=scripted modelID=fake-model session.id=ses_e0 small=false agent=build mode=primary error.error="AI_APICallError: You exceeded your current quota, please check your plan and billing details.""#;

/// An ACP agent whose provider limits the rate: it says so every 200 ms in words of its own.
const RETRYING: &str = r#"import json, sys, time
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            say(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            say(id=asked["id"], result={"sessionId": "s1"})
        case "session/prompt":
            while True:
                say(method="_session/retrying", params=json.loads(sys.argv[1]))
                time.sleep(0.2)
"#;

fn script(ostler: &Ostler, name: &str, text: &str) -> String {
    let path = ostler.instance.root().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn quotas(ostler: &Ostler) -> Vec<Value> {
    let said = ostler.says(&["quotas", "--json"]);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn assert_blocked(ostler: &Ostler, said: &Said) {
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stderr.contains("is used up") && said.stderr.contains("resets at"), "{said:?}");
    assert_eq!(quotas(ostler)[0]["state"], "blocked", "{said:?}");
}

/// The rejected event of Claude Code, before a run that goes well all the same.
#[test]
fn reported_quota_blocks_the_next_start() {
    let ostler = Ostler::new();
    let recording =
        format!("{}/../runtimes/src/claude/recordings/hello", env!("CARGO_MANIFEST_DIR"));
    let fake = testkit::fake_agent();
    let event = json!({ "type": "rate_limit_event", "session_id": "s", "uuid": "u",
        "rate_limit_info": { "status": "rejected", "resetsAt": 4_070_908_800_u64,
            "rateLimitType": "five_hour", "isUsingOverage": false } });
    let text = format!("#!/bin/sh\necho '{event}'\nexec {} --again {recording}\n", fake.display());
    let binary = script(&ostler, "claude.sh", &text);
    let adapter = json!({ "type": "cli", "runtime": "claude", "binary": binary,
        "permission": "allow-all" });
    let agent = json!({ "adapter": "mine", "cwd": ostler.instance.work() });
    let config = json!({ "adapters": { "mine": adapter }, "agents": { "a": agent } });
    ostler.instance.write_config(&config.to_string());

    let first = ostler.says(&["run", "mine", "x", "--json"]);
    assert_eq!(first.code, 0, "the run itself goes on: {first:#?}");
    let told = first.events().into_iter().find(|event| event["kind"] == "quota").expect("a quota");
    let seen = (&told["rate_limited"], &told["windows"][0]["exhausted"]);
    assert_eq!(seen, (&json!(true), &json!(true)), "{told}");
    assert_blocked(&ostler, &ostler.says(&["run", "mine", "x"]));
    let quota = &quotas(&ostler)[0];
    assert!(quota["why"].as_str().unwrap().contains("reported"), "{quota}");
    assert!(quota["blocked_by"].as_str().unwrap().starts_with("run_"), "{quota}");

    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let args = ["task", "add", "--title", "later", "--agent", "a", "--json"];
    let added: Value = serde_json::from_str(&ostler.says(&args).stdout).unwrap();
    let task = added["id"].as_str().unwrap();
    let sheet = until("the task to wait", BOUND_MS, || {
        let shown = ostler.says(&["task", "show", task, "--json"]);
        let sheet: Value = serde_json::from_str(&shown.stdout).ok()?;
        (sheet["state"] == "waiting").then_some(sheet)
    });
    assert_eq!(sheet["waiting_for"], "quota", "{sheet}");
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
}

#[test]
fn quota_in_the_log_ends_the_run() {
    for runtime in ["opencode", "kilo"] {
        let ostler = Ostler::new();
        let root = ostler.instance.root().display().to_string();
        let text = format!(
            "#!/bin/sh\necho \"$*\" > {root}/argv\ncat > /dev/null\ncat >&2 <<'EOF'\n{QUOTA_LOG}\nEOF\n\
             exec sleep 600\n"
        );
        let binary = script(&ostler, runtime, &text);
        let adapter = json!({ "type": "cli", "runtime": runtime, "binary": binary,
            "permission": "allow-all" });
        ostler.instance.write_config(&json!({ "adapters": { "mine": adapter } }).to_string());
        let said = ostler.says(&["run", "mine", "x", "--json"]);
        assert_eq!(said.code, 6, "{said:#?}");
        let events = said.events();
        let ended = result(&events);
        assert_eq!(ended["code"], "provider_quota", "{ended}");
        let log = events.iter().find(|event| event["stream"] == "stderr").expect("the log");
        assert_eq!(log["level"], "debug", "{log}");
        let argv = std::fs::read_to_string(ostler.instance.root().join("argv")).unwrap();
        assert!(argv.contains("--print-logs --log-level ERROR"), "{argv}");
        assert_blocked(&ostler, &ostler.says(&["run", "mine", "x"]));
    }
}

/// Gemini names the reset on stderr and would try again without end.
#[test]
fn stated_reset_above_patience_is_a_quota() {
    let ostler = Ostler::new();
    let text = "#!/bin/sh\ncat > /dev/null\necho 'Attempt 1 failed: You have exhausted your capacity on \
                this model. Your quota will reset after 2h39m12s.. Retrying after 5466ms...' >&2\n\
                exec sleep 600\n";
    let binary = script(&ostler, "gemini", text);
    let adapter = json!({ "type": "cli", "runtime": "gemini", "binary": binary,
        "permission": "allow-all" });
    ostler.instance.write_config(&json!({ "adapters": { "mine": adapter } }).to_string());
    let said = ostler.says(&["run", "mine", "x", "--json"]);
    assert_eq!(said.code, 6, "{said:#?}");
    let events = said.events();
    let ended = result(&events);
    assert_eq!(ended["code"], "provider_quota", "{ended}");
    assert!(ended["message"].as_str().unwrap().contains("it resets at 20"), "{ended}");
    let quota = events.iter().find(|event| event["kind"] == "quota").expect("a quota");
    let window = &quota["windows"][0];
    assert_eq!((&window["id"], &window["exhausted"]), (&json!("gemini_model_quota"), &json!(true)));
    assert!(window["resets_at"].is_string(), "{quota}");
    assert_blocked(&ostler, &ostler.says(&["run", "mine", "x"]));
}

#[test]
fn told_retries_do_not_keep_a_run_alive() {
    let limit = json!({ "category": "rate_limited", "detail": "HTTP 429" });
    let unknown = json!({ "category": "network", "detail": "connection reset" });
    let rows = [
        (limit, json!({ "patienceSec": 3, "silenceSec": 2 }), 6, "rate_limited"),
        (unknown, json!({ "silenceSec": 3 }), 8, "timeout_silence"),
    ];
    for (params, clocks, exit, code) in rows {
        let ostler = Ostler::new();
        let agent = script(&ostler, "retrying.py", RETRYING);
        let python = testkit::python().expect("a python3");
        let mut adapter = json!({ "type": "acp", "binary": python,
            "args": [agent, params.to_string()], "permission": "allow-all", "timeoutSec": 60 });
        adapter.as_object_mut().unwrap().extend(clocks.as_object().unwrap().clone());
        ostler.instance.write_config(&json!({ "adapters": { "mine": adapter } }).to_string());
        let said = ostler.says(&["run", "mine", "x", "--json"]);
        let events = said.events();
        assert_eq!((said.code, &result(&events)["code"]), (exit, &json!(code)), "{said:#?}");
    }
}
