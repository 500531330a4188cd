//! What a form or a language model reads before it configures an agent, and a server that takes over a
//! changed file: runtimes, adapters, the schema and doctor over HTTP, the reload of `ostler serve`, the
//! file of a remote's token, and secrets that may not stand in a prompt.

use crate::door::Door;
use crate::mcp::Guest;
use crate::ostler::{BOUND_MS, Ostler};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use testkit::until;

fn get(door: &Door, target: &str) -> Value {
    let answer = door.owner("GET", target, "");
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{target}: {error}"))
}

fn configured(config: &Value) -> Door {
    let ostler = Ostler::new();
    ostler.instance.write_config(&config.to_string());
    Door::of(ostler)
}

#[test]
fn runtimes_adapters_and_the_schema_are_served() {
    let door = configured(&json!({ "adapters": {
        "far": { "type": "http", "baseUrl": "http://127.0.0.1:9" },
        "gone": { "type": "acp", "binary": "/nowhere/agent" },
        "mine": { "type": "process", "binary": testkit::fake_agent(), "model": "m-1" },
    } }));
    let listed = get(&door, "/api/v1/runtimes?limit=100");
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert!(ids.len() >= 30 && ids.contains(&&json!("kimi-acp")), "{ids:?}");
    let page = get(&door, "/api/v1/runtimes?limit=1");
    let next = page["next"].as_str().expect("more behind it");
    let second = get(&door, &format!("/api/v1/runtimes?limit=1&after={next}"));
    assert_eq!(second["items"][0]["id"], *ids[1]);

    let card = get(&door, "/api/v1/runtimes/claude");
    assert_eq!((&card["id"], &card["type"]), (&json!("claude"), &json!("cli")));
    for key in ["type", "binary", "extraArgs", "model", "timeoutSec", "permission", "lane"] {
        let says = card["config_schema"][key]["description"].as_str();
        assert!(says.is_some_and(|says| !says.is_empty()), "{key}: {card:#}");
    }
    assert_eq!(card["config_schema"]["timeoutSec"]["default"], 7200);
    assert!(card["use_when"].as_str().unwrap().lines().count() >= 3, "{card:#}");
    assert_eq!(door.owner("GET", "/api/v1/runtimes/nobody", "").status, 404);

    let adapters = get(&door, "/api/v1/adapters");
    let rows: Vec<_> = adapters["items"].as_array().unwrap().iter().collect();
    let installed: Vec<_> = rows.iter().map(|row| (&row["name"], &row["installed"])).collect();
    assert_eq!(
        installed,
        [
            (&json!("far"), &Value::Null),
            (&json!("gone"), &json!(false)),
            (&json!("mine"), &json!(true)),
        ]
    );
    assert_eq!((&rows[2]["type"], &rows[2]["model"]), (&json!("process"), &json!("m-1")));

    let printed = door.ostler.says(&["config", "schema"]);
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(get(&door, "/api/v1/config/schema"), printed);
}

#[test]
fn doctor_over_http_finds_what_the_command_finds() {
    let door = configured(&json!({ "adapters": {
        "mine": { "type": "process", "binary": testkit::fake_agent() },
        "gone": { "type": "process", "binary": "/nowhere/agent" },
    } }));
    let asked = |body: Value| {
        let answer = door.owner("POST", "/api/v1/doctor", &body.to_string());
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let codes = |diagnosis: &Value| -> Vec<Value> {
        let checks = diagnosis["checks"].as_array().unwrap();
        checks.iter().map(|check| check["code"].clone()).collect()
    };
    for name in ["mine", "gone", "nobody"] {
        let (status, over_http) = asked(json!({ "name": name }));
        assert_eq!(status, 200, "{over_http}");
        let said = door.ostler.says(&["doctor", name, "--json"]);
        let by_command: Value = serde_json::from_str(&said.stdout).unwrap();
        let by_command = &by_command["diagnoses"][0];
        assert_eq!(over_http["status"], by_command["status"], "{over_http}");
        assert_eq!(codes(&over_http), codes(by_command), "{name}");
    }
    let unsaved = json!({ "type": "process", "binary": "/nowhere/else" });
    let (status, found) = asked(json!({ "adapter": unsaved }));
    assert!(status == 200 && codes(&found).contains(&json!("binary_missing")), "{found}");
    let (status, found) = asked(json!({ "adapter": { "type": "process", "binray": "x" } }));
    assert!(status == 200 && codes(&found) == [json!("configuration_invalid")], "{found}");
    for body in [json!({}), json!({ "name": "mine", "adapter": unsaved })] {
        assert_eq!(asked(body).0, 400);
    }
    // An adapter of the request's own is a program to start.
    let operator = json!({ "name": "operator", "scope": "operator" });
    let answer = door.owner("POST", "/api/v1/tokens", &operator.to_string());
    let token: Value = serde_json::from_str(&answer.body).unwrap();
    let bearer = format!("Bearer {}", token["token"].as_str().expect("a token"));
    let as_operator = |body: Value| {
        let headers = [
            ("host", door.address.as_str()),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        door.request("POST", "/api/v1/doctor", &headers, &body.to_string()).status
    };
    assert_eq!(as_operator(json!({ "adapter": unsaved })), 403);
    assert_eq!(as_operator(json!({ "name": "mine" })), 200);
}

/// The configuration as the host tells of it.
fn state(door: &Door) -> Value {
    get(door, "/api/v1/host")["configuration"].clone()
}

#[test]
fn a_server_takes_over_a_changed_file() {
    let agent = testkit::fake_agent();
    let adapter = |words: &str| json!({ "type": "process", "binary": agent, "args": [words] });
    let config = json!({ "adapters": { "first": adapter("--wait-shutdown") } });
    let mut door = configured(&config);
    let live = json!({ "agent": "first", "prompt": "x", "cwd": door.ostler.instance.work(),
        "permission": "allow-all" });
    let started = door.owner("POST", "/api/v1/runs", &live.to_string());
    assert_eq!(started.status, 201, "{}", started.body);
    let run: Value = serde_json::from_str(&started.body).unwrap();
    let run = run["run_id"].as_str().unwrap().to_owned();
    let plan = get(&door, &format!("/api/v1/runs/{run}/plan"));

    let changed = json!({
        "adapters": { "first": adapter("--silent"), "second": adapter("--silent") },
        "agents": { "scout": { "adapter": "second" } },
        "prices": { "a/b": { "input": 1, "output": 2 } },
        "server": { "publicUrl": "https://agents.example.com" },
    });
    door.ostler.instance.write_config(&changed.to_string());
    until("the reload", BOUND_MS, || {
        let adapters = get(&door, "/api/v1/adapters");
        (adapters["items"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    let agents = get(&door, "/api/v1/agents");
    assert_eq!(agents["items"][0]["name"], "scout", "{agents}");
    assert_eq!(get(&door, "/api/v1/prices?model=a/b")["items"][0]["model"], "a/b");
    assert_eq!(state(&door)["restart_for"], json!(["server.publicUrl"]));
    let shown = door.ostler.says(&["status"]).stdout;
    assert!(shown.contains("changed server.publicUrl: restart ostler serve"), "{shown}");
    // The live run goes on as it was planned.
    assert_eq!(get(&door, &format!("/api/v1/runs/{run}/plan")), plan);
    assert_eq!(get(&door, &format!("/api/v1/runs/{run}"))["state"], "live");

    door.ostler.instance.write_config(r#"{ "adapters": { "third": { "type": "proces" } } }"#);
    until("the refusal", BOUND_MS, || state(&door).get("refused").map(|_| ()));
    let refused = state(&door)["refused"].clone();
    assert_eq!(refused["code"], "invalid_config", "{refused}");
    assert_eq!(get(&door, "/api/v1/adapters")["items"].as_array().map(Vec::len), Some(2));
    // Commands read the file themselves, and say what is wrong with it.
    let said = door.ostler.says(&["doctor", "third", "--json"]);
    let found: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    let checks = &found["diagnoses"][0]["checks"];
    assert_eq!((said.code, &checks[0]["code"]), (3, &json!("configuration_invalid")), "{said:?}");
    let all = door.ostler.says(&["doctor", "--json"]);
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let names: Vec<_> = all["diagnoses"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(names.contains(&&json!("configuration")) && names.contains(&&json!("third")));

    door.ostler.instance.write_config(&config.to_string());
    until("the file before", BOUND_MS, || {
        let state = state(&door);
        (state.get("refused").is_none() && state.get("restart_for").is_none()).then_some(())
    });
    assert_eq!(door.owner("POST", &format!("/api/v1/runs/{run}/stop"), "").status, 202);
    door.serve.child.kill().unwrap();
    door.serve.child.wait().unwrap();
}

#[test]
fn a_run_reads_only_what_is_its_own() {
    let door = Door::open();
    let guest = Guest::new(&door.ostler, &[]);
    let elsewhere = door.ostler.instance.root().join("other");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let other = Guest::of_cwd(&door.ostler, &elsewhere);
    let runs = get(&door, "/api/v1/runs?live=true");
    let ids = |guest: &Guest| {
        let bearer = format!("Bearer {}", guest.token());
        let headers = [("host", door.address.as_str()), ("authorization", bearer.as_str())];
        let rows = runs["items"].as_array().unwrap();
        let own = rows.iter().find(|row| {
            let path = format!("/api/v1/runs/{}", row["run_id"].as_str().unwrap());
            door.request("GET", &path, &headers, "").status == 200
        });
        let own = own.expect("its own run");
        (bearer, own["run_id"].as_str().unwrap().to_owned(), own["task_id"].clone())
    };
    let (bearer, run, task) = ids(&guest);
    let (_, foreign, foreign_task) = ids(&other);
    assert_ne!(run, foreign);
    let as_run = |method: &str, path: &str| {
        let headers = [("host", door.address.as_str()), ("authorization", bearer.as_str())];
        door.request(method, path, &headers, "").status
    };
    let (task, foreign_task) = (task.as_str().unwrap(), foreign_task.as_str().unwrap());
    for (method, path, status) in [
        ("GET", format!("/api/v1/runs/{run}"), 200),
        ("GET", format!("/api/v1/runs/{run}?view=transcript"), 200),
        ("GET", format!("/api/v1/tasks/{task}"), 200),
        ("GET", format!("/api/v1/tasks/{run}"), 200),
        ("GET", "/api/v1/costs".to_owned(), 200),
        ("GET", format!("/api/v1/runs/{foreign}"), 403),
        ("GET", "/api/v1/runs/00000000".to_owned(), 403),
        ("GET", format!("/api/v1/tasks/{foreign_task}"), 403),
        ("GET", "/api/v1/runs".to_owned(), 403),
        ("GET", "/api/v1/tasks".to_owned(), 403),
        ("GET", "/api/v1/host".to_owned(), 403),
        ("POST", format!("/api/v1/runs/{run}/stop"), 403),
        ("POST", "/api/v1/runs".to_owned(), 403),
    ] {
        assert_eq!(as_run(method, &path), status, "{method} {path}");
    }
    guest.finish();
    other.finish();
}

#[test]
fn secrets_in_prompts_are_refused() {
    let ostler = Ostler::new();
    let rows = [
        ("promptTemplate", "{{prompt}} {{leaseToken}}"),
        ("systemPrompt", "your token is {{ leaseToken }}"),
        ("systemPrompt", "call it with ${MY_API_KEY}"),
    ];
    for (key, text) in rows {
        let mut config = json!({ "agents": { "a": { "adapter": "demo" } } });
        config["agents"]["a"][key] = text.into();
        ostler.instance.write_config(&config.to_string());
        for args in [&["config", "check"][..], &["run", "a", "hi"], &["serve"]] {
            let said = ostler.says(args);
            let shown = format!("{}{}", said.stdout, said.stderr);
            assert_eq!(said.code, 3, "{args:?}: {said:?}");
            assert!(shown.contains("would show a secret to the model"), "{shown}");
        }
    }
    ostler.instance.write_config("{}");
    let door = Door::of(ostler);
    let spec = json!({ "adapter": "demo", "promptTemplate": "{{prompt}} {{leaseToken}}" });
    let hire = json!({ "name": "ann", "spec": spec });
    let answer = door.owner("POST", "/api/v1/agents", &hire.to_string());
    assert!(answer.status == 422 && answer.body.contains("invalid_config"), "{}", answer.body);
    let request = json!({ "agent": "demo", "prompt": "x", "prompt_template": "{{leaseToken}}",
        "cwd": door.ostler.instance.work(), "permission": "allow-all" });
    let answer = door.owner("POST", "/api/v1/runs", &request.to_string());
    assert!(answer.status == 422 && answer.body.contains("invalid_config"), "{}", answer.body);
}

/// A service that answers every request with 401 and tells the bearer token that it was shown.
fn service() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (told, tokens) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = vec![0; 16 * 1024];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let token = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_it = name.eq_ignore_ascii_case("authorization");
                is_it.then(|| value.trim_start_matches("Bearer ").to_owned())
            });
            // A test that has what it wants does not listen any more.
            let _ = told.send(token.unwrap_or_default());
            let refusal =
                "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // A courier that has gone reads no answer.
            let _ = stream.write_all(refusal.as_bytes());
        }
    });
    (address, tokens)
}

#[test]
fn the_file_of_a_token_is_read_by_each_session() {
    let (address, tokens) = service();
    let ostler = Ostler::new();
    let auth = json!({ "type": "bearer", "tokenFile": "remote.token" });
    let config =
        json!({ "adapters": { "far": { "type": "http", "baseUrl": address, "auth": auth } } });
    ostler.instance.write_config(&config.to_string());
    let file = ostler.instance.config().parent().unwrap().join("remote.token");
    let write = |token: &str, mode: u32| {
        std::fs::write(&file, token).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("first-token-of-a-remote\n", 0o600);
    let door = Door::of(ostler);
    let request = json!({ "agent": "far", "prompt": "x", "cwd": door.ostler.instance.work(),
        "permission": "allow-all" });
    let start = || door.owner("POST", "/api/v1/runs", &request.to_string());
    for token in ["first-token-of-a-remote", "second-token-of-a-remote"] {
        write(token, 0o600);
        assert_eq!(start().status, 201);
        let shown = tokens.recv_timeout(std::time::Duration::from_millis(BOUND_MS)).unwrap();
        assert_eq!(shown, token, "the server was not restarted");
    }
    write("third-token-of-a-remote", 0o644);
    let refused = start();
    assert!(refused.status == 401 && refused.body.contains("chmod 600"), "{}", refused.body);
    let said = door.ostler.says(&["doctor", "far"]);
    assert!(said.stdout.contains("chmod 600"), "{said:?}");
    for path in door.ostler.files() {
        if path != file {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let holds = bytes.windows(16).any(|part| part == b"token-of-a-remot");
            assert!(!holds, "{}", path.display());
        }
    }
}

#[test]
fn a_program_that_answers_nothing_is_an_error() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, text) in
        [("kimi", "exec sleep 600"), ("qwen", "[ \"$1\" = --version ] && echo 1.2.3")]
    {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let look = |name: &str| {
        let mut command = ostler.command(&["doctor", name, "--json"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let said = crate::ostler::Said::from(command.output().unwrap());
        let found: Value =
            serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        (said.code, found["diagnoses"][0].clone())
    };
    let (code, hung) = look("kimi-acp");
    let codes: Vec<_> =
        hung["checks"].as_array().unwrap().iter().map(|check| &check["code"]).collect();
    assert!(codes.contains(&&json!("program_hangs")), "{hung:#}");
    assert_eq!((code, &hung["status"]), (8, &json!("fail")), "{hung:#}");
    let (_, answered) = look("qwen-acp");
    assert_eq!((&answered["version"], &answered["status"]), (&json!("1.2.3"), &json!("warn")));
    assert!(testkit::find_marked(&ostler.instance.mark()).is_empty());
    let all = ostler.says(&["doctor"]);
    assert!(all.stdout.contains("npm install -g @augmentcode/auggie"), "{all:?}");
    assert!(!all.stdout.contains("adapters."), "{all:?}");
}
