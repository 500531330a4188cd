//! The API as a dashboard and other programs stand on it: pages by key, keys that make asking again
//! safe, the feed of hints, the joined transcript, problems, and `ostler mcp` for assistants. Who may
//! ask is in `security/scopes.rs`.

use crate::door::{Answer, Door, written};
use crate::ostler::{BOUND_MS, Ostler, program};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn get(door: &Door, target: &str) -> Value {
    let answer = door.owner("GET", target, "");
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    parsed(&answer)
}

/// Asks for a run of the demo agent, under a key or none.
fn start(door: &Door, prompt: &str, key: Option<&str>) -> Answer {
    let body = json!({ "agent": "demo", "prompt": prompt, "cwd": door.ostler.instance.work() });
    let bearer = format!("Bearer {}", door.token);
    let mut headers = vec![
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
    ];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    door.request("POST", "/api/v1/runs", &headers, &body.to_string())
}

fn ended(door: &Door, run: &str) {
    testkit::until("the end of the run", BOUND_MS, || {
        (get(door, &format!("/api/v1/runs/{run}"))["state"] == "settled").then_some(())
    });
}

#[test]
fn pages_by_key_have_every_run_once_and_the_last_says_so() {
    let door = Door::open();
    let mut made: Vec<String> = (0..5)
        .map(|_| parsed(&start(&door, "hello", None))["run_id"].as_str().unwrap().to_owned())
        .collect();
    made.sort_unstable_by(|one, other| other.cmp(one));
    for limit in [1, 2, 5, 500] {
        let mut seen = Vec::new();
        let mut next = String::new();
        loop {
            let page = get(&door, &format!("/api/v1/runs?limit={limit}{next}"));
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            seen.extend(items.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(before) => next = format!("&before={before}"),
                None => break,
            }
            assert!(seen.len() <= made.len(), "the pages have no end");
        }
        assert_eq!(seen, made, "pages of {limit}");
    }
    // Hired agents and those of the configuration are one list, by name.
    let names = ["ann", "bob", "cy", "demo-2", "zoe"];
    for name in names {
        let body = json!({ "name": name, "spec": { "adapter": "demo" } }).to_string();
        assert_eq!(door.owner("POST", "/api/v1/agents", &body).status, 201);
    }
    for limit in [1, 2, 5, 500] {
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = get(&door, &format!("/api/v1/agents?limit={limit}{next}"));
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            seen.extend(items.iter().map(|agent| agent["name"].as_str().unwrap().to_owned()));
            let Some(after) = page["next"].as_str() else { break };
            next = format!("&after={after}");
            assert!(seen.len() <= names.len(), "the pages have no end");
        }
        assert_eq!(seen, names, "pages of {limit}");
    }
    let tasks = get(&door, "/api/v1/tasks?limit=2");
    assert_eq!(tasks["items"].as_array().unwrap().len(), 2);
    assert!(tasks["next"].is_string());
}

#[test]
fn the_same_key_makes_one_run_and_another_request_under_it_is_refused() {
    let mut door = Door::open();
    let first = start(&door, "hello", Some("key-1"));
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let again = start(&door, "hello", Some("key-1"));
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(parsed(&first), parsed(&again));
    let other = start(&door, "something else", Some("key-1"));
    assert_eq!((other.status, parsed(&other)["code"].as_str()), (409, Some("conflict")));
    let fresh = start(&door, "hello", Some("key-2"));
    assert_ne!(parsed(&fresh)["run_id"], parsed(&first)["run_id"]);
    for odd in ["", "two words", "ü", &"x".repeat(256)] {
        assert_eq!(start(&door, "hello", Some(odd)).status, 400, "{odd}");
    }
    assert_eq!(get(&door, "/api/v1/runs")["items"].as_array().unwrap().len(), 2);
    // The next host knows it too.
    let _ = door.serve.child.kill();
    let _ = door.serve.child.wait();
    let mut serve = door.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = serve.line();
    door.address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    door.serve = serve;
    let again = start(&door, "hello", Some("key-1"));
    assert_eq!((again.status, parsed(&again)), (201, parsed(&first)));
    assert_eq!(get(&door, "/api/v1/runs")["items"].as_array().unwrap().len(), 2);
}

#[test]
fn a_key_is_its_callers_own() {
    let door = Door::open();
    let body = json!({ "name": "other", "scope": "operator" }).to_string();
    let token = parsed(&door.owner("POST", "/api/v1/tokens", &body))["token"].clone();
    let first = parsed(&start(&door, "hello", Some("shared")));
    let bearer = format!("Bearer {}", token.as_str().unwrap());
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
        ("idempotency-key", "shared"),
    ];
    let body = json!({ "agent": "demo", "prompt": "hello", "cwd": door.ostler.instance.work() });
    let other = door.request("POST", "/api/v1/runs", &headers, &body.to_string());
    assert_eq!(other.status, 201);
    assert_ne!(parsed(&other)["run_id"], first["run_id"]);
}

#[test]
fn a_request_under_two_keys_or_an_odd_one_is_refused_and_makes_nothing() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let body = json!({ "agent": "demo", "prompt": "hello", "cwd": door.ostler.instance.work() });
    for keys in [&["one", "two"][..], &["same", "same"], &[""], &["two words"]] {
        let mut headers = vec![
            ("host", door.address.as_str()),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(keys.iter().map(|key| ("idempotency-key", *key)));
        let answer = door.request("POST", "/api/v1/runs", &headers, &body.to_string());
        assert_eq!(answer.status, 400, "{keys:?}: {}", answer.body);
    }
    let runs = parsed(&door.owner("GET", "/api/v1/runs", ""));
    assert_eq!(runs["items"], json!([]), "{runs}");
}

#[test]
fn the_feed_tells_where_something_changed_and_never_what() {
    let door = Door::open();
    let mut stream = door.connect();
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("accept", "text/event-stream"),
    ];
    stream.write_all(&written("GET", "/api/v1/feed", &headers, b"")).unwrap();
    let mut seen = String::new();
    let mut read = |what: &str| {
        let mut piece = [0; 65536];
        while !seen.contains(what) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the feed ended before {what}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        seen.clone()
    };
    // Whoever comes reads everything first.
    assert!(read("\"kind\":\"missed\"").contains("text/event-stream"));
    let prompt = "a prompt that nobody may overhear";
    let run = parsed(&start(&door, prompt, None))["run_id"].as_str().unwrap().to_owned();
    let seen = read("\"settled\":true");
    assert!(seen.contains(&format!("\"run_id\":\"{run}\"")), "{seen}");
    assert!(seen.contains("\"kind\":\"task\"") && seen.contains("id: 2\ndata: {"), "{seen}");
    assert!(!seen.contains("overhear"), "{seen}");
}

#[test]
fn a_transcript_is_joined_and_comes_in_parts() {
    let door = Door::open();
    let run = parsed(&start(&door, "hello", None))["run_id"].as_str().unwrap().to_owned();
    ended(&door, &run);
    let path = format!("/api/v1/runs/{run}?view=transcript");
    let mut entries = Vec::new();
    let mut after = 0;
    loop {
        let part = get(&door, &format!("{path}&after={after}"));
        entries.extend(part["entries"].as_array().unwrap().clone());
        match part["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    let kinds: Vec<_> = entries.iter().filter_map(|entry| entry["kind"].as_str()).collect();
    assert!(kinds.contains(&"tool_call") && kinds.contains(&"assistant"), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"result"));
    assert!(entries.iter().all(|entry| entry["delta"] != true), "{entries:?}");
    let said: String = entries
        .iter()
        .filter(|entry| entry["kind"] == "assistant")
        .map(|entry| entry["text"].as_str().unwrap())
        .collect();
    assert!(said.contains("I am the demo agent"), "{said}");
}

#[test]
fn a_problem_has_the_members_of_its_standard_and_ours() {
    let door = Door::open();
    let answer = door.owner("GET", "/api/v1/runs/run_00000000000000000000000000000001", "");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = parsed(&answer);
    let expected = [
        ("type", json!("urn:ostler:fault:not_found")),
        ("title", json!("not found")),
        ("status", json!(404)),
        ("code", json!("not_found")),
    ];
    for (name, value) in expected {
        assert_eq!(problem[name], value, "{problem}");
    }
    assert!(problem["detail"].as_str().unwrap().contains("run_0000"), "{problem}");
    assert!(problem["hint"].is_string());
}

#[test]
fn tokens_are_given_listed_and_taken_away_by_command() {
    let door = Door::open();
    let ostler = &door.ostler;
    let said =
        ostler.says(&["token", "add", "--name", "ci", "--scope", "viewer", "--expires", "7d"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let token = said.stdout.trim().to_owned();
    assert!(token.starts_with("ostler_") && !said.stderr.contains(&token), "{}", said.stderr);
    let host = || {
        let bearer = format!("Bearer {token}");
        let headers = [("host", door.address.as_str()), ("authorization", bearer.as_str())];
        door.request("GET", "/api/v1/host", &headers, "").status
    };
    assert_eq!(host(), 200);
    let listed = ostler.says(&["token", "list"]);
    assert!(listed.stdout.contains("viewer") && listed.stdout.contains("ci"), "{}", listed.stdout);
    assert!(!listed.stdout.contains(&token));
    let head: Vec<_> = listed.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["ID", "SCOPE", "UNTIL", "NAME"]);
    assert!(!listed.stdout.contains(".000Z"), "times are those of people: {}", listed.stdout);
    let twice = ostler.says(&["token", "add", "--name", "ci", "--scope", "admin"]);
    assert_ne!(twice.code, 0, "{}", twice.stdout);
    assert_eq!(ostler.says(&["token", "revoke", "ci"]).code, 0);
    assert_eq!(host(), 401);
    let link = ostler.says(&["token", "link", "--scope", "viewer"]);
    assert!(link.stdout.contains("/sign-in?code="), "{}{}", link.stdout, link.stderr);
    assert!(link.stderr.contains("as viewer"), "{}", link.stderr);
}

#[test]
fn a_link_is_made_by_a_server_alone() {
    let ostler = Ostler::new();
    let refused = ostler.says(&["token", "link"]);
    assert!(refused.code != 0 && refused.stderr.contains("ostler serve"), "{}", refused.stderr);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0", "--sign-in"]);
    assert!(serve.line().starts_with("listening on "));
    let line = serve.line();
    assert!(line.starts_with("sign in at http://127.0.0.1:"), "{line}");
    let _ = serve.child.kill();
    let _ = serve.child.wait();
}

#[test]
fn runs_are_filtered_and_paged() {
    let door = Door::open();
    for prompt in ["hello", "fail", "hello"] {
        let run = parsed(&start(&door, prompt, None))["run_id"].as_str().unwrap().to_owned();
        ended(&door, &run);
    }
    let work = door.ostler.instance.work().display().to_string();
    let count = |query: &str| {
        let page = get(&door, &format!("/api/v1/runs?{query}"));
        page["items"].as_array().unwrap().len()
    };
    for (query, expected) in [
        ("agent=demo", 3),
        ("agent=nobody", 0),
        ("state=settled", 3),
        ("state=live", 0),
        ("outcome=failed", 1),
        ("outcome=succeeded&agent=demo", 2),
        ("since=1h", 3),
        ("since=2999-01-01", 0),
        ("since=2999-01-01T00:00:00.000Z", 0),
        (&format!("cwd={work}"), 3),
        ("cwd=%2Fnowhere", 0),
    ] {
        assert_eq!(count(query), expected, "{query}");
    }
    let first = get(&door, "/api/v1/runs?outcome=succeeded&limit=1");
    let next = first["next"].as_str().expect("there is another");
    let second = get(&door, &format!("/api/v1/runs?outcome=succeeded&limit=1&before={next}"));
    assert_ne!(first["items"][0]["run_id"], second["items"][0]["run_id"]);
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    for wrong in ["since=yesterday", "state=odd", "colour=red"] {
        let answer = door.owner("GET", &format!("/api/v1/runs?{wrong}"), "");
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[test]
fn internals_of_runs_are_not_shown() {
    let door = Door::open();
    let run = parsed(&start(&door, "hello", None))["run_id"].as_str().unwrap().to_owned();
    ended(&door, &run);
    let listed = get(&door, "/api/v1/runs")["items"][0].clone();
    let shown = get(&door, &format!("/api/v1/runs/{run}"));
    let task = shown["task_id"].as_str().unwrap();
    let of_task = get(&door, &format!("/api/v1/tasks/{task}"))["runs"][0].clone();
    let said = door.ostler.says(&["runs", "--json"]).stdout;
    let by_command = serde_json::from_str::<Value>(&said).unwrap()[0].clone();
    for row in [listed, shown, of_task, by_command] {
        assert_eq!(row["run_id"], run.as_str(), "{row}");
        for name in ["fence", "holder", "lease_expires_at", "pid"] {
            assert!(row.get(name).is_none(), "{name}: {row}");
        }
    }
}

#[test]
fn a_relative_directory_is_refused() {
    let door = Door::open();
    let body = json!({ "agent": "demo", "prompt": "hello", "cwd": "." }).to_string();
    let answer = door.owner("POST", "/api/v1/runs", &body);
    let problem = parsed(&answer);
    assert_eq!(problem["code"], "bad_workspace", "{problem}");
    assert_eq!(problem["detail"], "`cwd` must be an absolute path, not '.'");
}

#[test]
fn older_names_are_still_taken() {
    let door = Door::open();
    let body = json!({
        "agent": "demo", "prompt": "ask me", "cwd": door.ostler.instance.work(),
        "permission": "ask", "attended": true,
    });
    let run = parsed(&door.owner("POST", "/api/v1/runs", &body.to_string()))["run_id"].clone();
    let run = run.as_str().unwrap();
    let ask = testkit::until("an approval", BOUND_MS, || {
        let open = get(&door, "/api/v1/approvals");
        open["items"][0]["approval_id"].as_str().map(str::to_owned)
    });
    let old = get(&door, "/api/v1/asks");
    assert_eq!(
        (&old["items"][0]["ask_id"], &old["items"][0]["run_id"]),
        (&json!(ask), &json!(run))
    );
    let commands = format!("/api/v1/runs/{run}/commands");
    for (body, status) in [
        (json!({ "command": "say", "wish": "say", "text": "x" }), 400),
        (json!({ "command": "dance" }), 400),
        (json!({ "wish": "answer", "ask_id": ask, "option": "allow" }), 202),
    ] {
        let answer = door.owner("POST", &commands, &body.to_string());
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
    }
    ended(&door, run);
    let document = get(&door, "/api/v1/openapi.json");
    assert_eq!(document["paths"]["/api/v1/asks"]["get"]["deprecated"], true);
    assert_eq!(document["paths"]["/api/v1/approvals"]["get"]["deprecated"], Value::Null);
}

#[test]
fn operations_without_a_body_take_no_content_type() {
    let door = Door::open();
    let run = parsed(&start(&door, "hello", None))["run_id"].as_str().unwrap().to_owned();
    ended(&door, &run);
    let token = json!({ "name": "short", "scope": "viewer" }).to_string();
    assert_eq!(door.owner("POST", "/api/v1/tokens", &token).status, 201);
    let slow = parsed(&start(&door, "slow", None))["run_id"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {}", door.token);
    let plain = [("host", door.address.as_str()), ("authorization", &bearer)];
    for (method, target, status) in [
        ("DELETE", format!("/api/v1/runs/{run}"), 200),
        ("POST", "/api/v1/tokens/short/revoke".to_owned(), 200),
        ("POST", format!("/api/v1/runs/{slow}/stop"), 202),
        ("POST", "/api/v1/runs".to_owned(), 415),
    ] {
        let answer = door.request(method, &target, &plain, "");
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
    }
    ended(&door, &slow);
    // A body that may be left out is still JSON when it is there.
    let stop = format!("/api/v1/runs/{slow}/stop");
    assert_eq!(door.request("POST", &stop, &plain, "at_once=true").status, 415);
}

#[test]
fn ids_of_commands_have_the_names_of_the_api() {
    let door = Door::open();
    let said = |args: &[&str]| -> Value {
        let said = door.ostler.says(args);
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    };
    let added = said(&["task", "add", "hello", "--agent", "demo", "--json"]);
    assert_eq!(added["task_id"], added["id"], "{added}");
    assert_eq!(said(&["task", "list", "--json"])[0]["task_id"], added["task_id"]);
    let given = said(&["token", "add", "--name", "t", "--scope", "viewer", "--json"]);
    let listed = said(&["token", "list", "--json"]);
    assert!(listed[0]["token_id"].is_string(), "{given} {listed}");
    let hired = said(&["agents", "hire", "scout", "--adapter", "demo", "--json"]);
    assert!(hired["agent_id"].is_string(), "{hired}");
    assert_eq!(said(&["agents", "--json"])[0]["agent_id"], hired["agent_id"]);
}

#[test]
fn refusals_speak_to_callers_of_the_api() {
    let door = Door::open();
    let problem = |method: &str, target: &str, body: &str| {
        let answer = door.owner(method, target, body);
        assert!(answer.status >= 400, "{target}: {answer:?}");
        parsed(&answer)
    };
    let wrong = problem("POST", "/api/v1/runs", r#"{"agent":"demo","prompt":"x"}"#);
    assert_eq!(wrong["detail"], "missing field `cwd` in the request body");
    assert_eq!(wrong["hint"], "see POST /api/v1/runs in /api/v1/openapi.json");
    for (method, target, body) in [
        ("GET", "/api/v1/runs/nothing", ""),
        ("GET", "/api/v1/runs?colour=red", ""),
        ("POST", "/api/v1/runs", r#"{"agent":"nobody","prompt":"x","cwd":"/"}"#),
        ("POST", "/api/v1/approvals/nothing/answer", r#"{"option":"allow"}"#),
        ("POST", "/api/v1/tasks/nothing/approve", "{}"),
        ("POST", "/api/v1/quotas/clear", r#"{"scope":"x"}"#),
    ] {
        let told = problem(method, target, body);
        let words = format!("{} {}", told["detail"], told["hint"]);
        for foreign in ["`ostler ", " --", "deserialize", "line 1 column"] {
            assert!(!words.contains(foreign), "{method} {target}: {words}");
        }
    }
    // The same fault at a terminal names the command.
    let said = door.ostler.says(&["show", "nothing"]);
    assert!(said.stderr.contains("ostler runs"), "{}", said.stderr);
    let headers = [("host", "evil.example")];
    let refused = parsed(&door.request("GET", "/healthz", &headers, ""));
    assert!(refused["hint"].as_str().unwrap().contains(&door.address), "{refused}");
}

/// An assistant's end of `ostler mcp`.
pub struct Assistant {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Assistant {
    pub fn new(ostler: &Ostler) -> Self {
        let mut command = ostler.instance.command(program());
        let command = command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("ostler starts");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut assistant = Self { child, input, output, asked: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" }
        });
        let answer = assistant.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "ostler", "{answer}");
        let instructions = answer["result"]["instructions"].as_str().unwrap_or_default();
        assert!(instructions.contains("start_run"), "{answer}");
        assistant.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assistant
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended before its answer");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// What a tool gives, and whether it is a failure.
    pub fn call(&mut self, tool: &str, args: Value) -> (Value, bool) {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": args }));
        let result = &answer["result"];
        (result["structuredContent"].clone(), result["isError"] == true)
    }

    pub fn leave(mut self) -> i32 {
        drop(self.input);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

#[test]
fn an_assistant_starts_a_run_reads_it_and_answers_its_question() {
    let ostler = Ostler::new();
    let mut assistant = Assistant::new(&ostler);
    for method in ["prompts/list", "resources/list"] {
        let answer = assistant.ask(method, &json!({}));
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    let listed = assistant.ask("tools/list", &json!({}));
    let tools: Vec<_> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for wanted in
        ["list_runs", "show_run", "start_run", "say", "stop_run", "list_approvals", "answer"]
    {
        assert!(tools.contains(&wanted), "{tools:?}");
    }
    let request = json!({ "agent": "demo", "prompt": "ask me", "cwd": ostler.instance.work(), "permission": "ask" });
    let (started, failed) = assistant.call("start_run", request);
    assert!(!failed, "{started}");
    let run = started["run_id"].as_str().unwrap().to_owned();
    let ask = testkit::until("a question", BOUND_MS, || {
        let (open, _) = assistant.call("list_approvals", json!({}));
        open["approvals"][0]["approval_id"].as_str().map(str::to_owned)
    });
    let (waited, failed) = assistant.call("wait_run", json!({ "run": run }));
    assert!(!failed && waited["done"] == false, "{waited}");
    assert_eq!(
        waited["approvals"][0]["approval_id"],
        ask.as_str(),
        "it does not wait on: {waited}"
    );
    let answer = json!({ "approval": ask, "choice": "allow" });
    let (answered, failed) = assistant.call("answer", answer);
    assert!(!failed, "{answered}");
    let shown = testkit::until("the end of the run", BOUND_MS, || {
        let (shown, _) = assistant.call("show_run", json!({ "run": run }));
        (shown["run"]["state"] == "settled").then_some(shown)
    });
    assert_eq!(shown["run"]["outcome"], "succeeded");
    assert!(shown["entries"].as_array().is_some_and(|entries| !entries.is_empty()), "{shown}");
    let (runs, _) = assistant.call("list_runs", json!({}));
    assert_eq!(runs["runs"][0]["run_id"], run);
    let (waited, _) = assistant.call("wait_run", json!({ "run": run }));
    assert!(waited["done"] == true && waited["answer"].is_string(), "{waited}");
    assert!(waited["entries"].is_null() && waited["run"]["fence"].is_null(), "{waited}");
    for (tool, args) in [
        ("show_run", json!({ "run": "nothing" })),
        ("start_run", json!({ "agent": "nobody", "prompt": "x" })),
        ("say", json!({ "run": run, "text": "too late" })),
        ("list_runs", json!({ "limit": "many" })),
        ("answer", json!({ "ask": ask, "choice": "allow" })),
    ] {
        let (told, failed) = assistant.call(tool, args);
        assert!(failed && told["code"].is_string(), "{tool}: {told}");
        let hint = told["hint"].as_str().unwrap();
        assert!(!hint.contains("`ostler ") && !hint.contains("--"), "{tool}: {hint}");
    }
    let unknown = assistant.ask("tools/call", &json!({ "name": "rm", "arguments": {} }));
    assert!(unknown["error"].is_object(), "{unknown}");
    assert_eq!(assistant.leave(), 0);
}
