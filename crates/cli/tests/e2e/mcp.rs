//! The relayed tools by MCP: a client of the official SDK, wrong tokens, the policy, and every way
//! to write a path that leads out.

use crate::ostler::{BOUND_MS, Ostler, Running, Said, assert_gap_free, program, result};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The SDK, as it is on PyPI.
const SDK: &str = "mcp==2.3.0";

/// An agent that tells where its tools are and with which token, and then waits to be told to end.
pub const AGENT: &str = r#"
printf '%s\n%s\n%s\n' "$OSTLER_LEASE_TOKEN" "$MCP_SERVER_URL" "$OSTLER_RUN_ID" > door.part && mv door.part door
while [ ! -e done ]; do sleep 0.05; done
echo '{"type":"complete","output":{"text":"done"}}'
"#;

/// A run whose agent has opened its door.
pub struct Guest {
    run: Running,
    work: PathBuf,
    token: String,
    url: String,
}

impl Guest {
    pub fn new(ostler: &Ostler, permission: &[&str]) -> Self {
        Self::with_env(ostler, permission, &[])
    }

    /// The same, with more in the environment of whoever hosts it.
    pub fn with_env(ostler: &Ostler, permission: &[&str], env: &[(&str, &str)]) -> Self {
        let script = ostler.instance.root().join("agent.sh");
        std::fs::write(&script, AGENT).unwrap();
        let agent = format!("sh {}", script.display());
        let mut args = vec!["run", "--process", &agent, "be there", "--json"];
        args.extend(permission);
        Self::of(ostler, ostler.command(&args).envs(env.iter().copied()))
    }

    /// The same, hosted by whoever has this mask for new files.
    pub fn with_umask(ostler: &Ostler, umask: &str) -> Self {
        let script = ostler.instance.root().join("agent.sh");
        std::fs::write(&script, AGENT).unwrap();
        let mut command = ostler.instance.command("sh");
        command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]).arg(program());
        command.args(["run", "--process", &format!("sh {}", script.display()), "be there"]);
        Self::of(ostler, command.arg("--json").stdin(Stdio::null()))
    }

    /// The same, at work in another directory.
    pub fn of_cwd(ostler: &Ostler, work: &Path) -> Self {
        let script = ostler.instance.root().join("agent.sh");
        std::fs::write(&script, AGENT).unwrap();
        let agent = format!("sh {}", script.display());
        let mut command = ostler.command(&["run", "--process", &agent, "be there", "--json"]);
        Self::at(work.to_owned(), command.arg("--cwd").arg(work))
    }

    fn of(ostler: &Ostler, command: &mut Command) -> Self {
        Self::at(ostler.instance.work(), command)
    }

    /// The run of a command that works in this directory.
    pub fn at(work: PathBuf, command: &mut Command) -> Self {
        let run = Running::of(command);
        let (token, url) = door(&work);
        Self { run, work, token, url }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory that its run works in.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The id of its run.
    pub fn run(&self) -> String {
        let text = std::fs::read_to_string(self.work.join("door")).unwrap();
        text.lines().nth(2).unwrap().to_owned()
    }

    /// Lets the agent end.
    pub fn release(&self) {
        std::fs::write(self.work.join("done"), "").unwrap();
    }

    pub fn post_as(&self, token: &str, message: &Value) -> (u16, Value) {
        post(&self.url, token, message)
    }

    pub fn post(&self, message: &Value) -> (u16, Value) {
        post(&self.url, &self.token, message)
    }

    /// The status with which the workspace of its run is answered.
    pub fn fetch(&self) -> u16 {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let (run, token) = (self.run(), &self.token);
        let asked = format!(
            "GET /api/v1/runs/{run}/workspace HTTP/1.1\r\nhost: {address}\r\n\
             connection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        request(address, &asked).0
    }

    /// Calls a tool without an SDK and gives its answer: a value, or a code.
    pub fn call(&self, tool: &str, args: &Value) -> Result<Value, String> {
        called(&self.post(&tool_call(tool, args)).1)
    }

    /// The most memory that the process which started the run, and hosts it, ever had.
    pub fn host_peak_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.run.child.id()));
        let peak = status.unwrap_or_default();
        let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak.trim().trim_end_matches(" kB").parse().expect("the kernel counts")
    }

    pub fn finish(self) -> Vec<Value> {
        self.release();
        self.run.finish().events()
    }
}

pub fn door(work: &Path) -> (String, String) {
    let text = testkit::until("the agent's door", BOUND_MS, || {
        std::fs::read_to_string(work.join("door")).ok()
    });
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.next().unwrap())
}

pub fn tool_call(tool: &str, args: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": args });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

pub fn called(answer: &Value) -> Result<Value, String> {
    if let Some(error) = answer.get("error") {
        return Err(error["data"]["code"].as_str().unwrap_or_default().to_owned());
    }
    if let Some(code) = answer["code"].as_str() {
        return Err(code.to_owned());
    }
    let value = answer["result"]["structuredContent"].clone();
    match answer["result"]["isError"] == true {
        true => Err(value["code"].as_str().unwrap_or_default().to_owned()),
        false => Ok(value),
    }
}

pub fn post(url: &str, token: &str, message: &Value) -> (u16, Value) {
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let body = message.to_string();
    let (status, answer) = request(
        address,
        &format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    (status, serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
}

pub fn request(address: &str, bytes: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => body.split("\r\n").skip(1).step_by(2).collect(),
        false => body.to_owned(),
    };
    (status, body)
}

pub fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })
}

/// The Python that has the SDK, made on first use; none when the registry cannot be reached.
pub fn sdk() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("mcp-sdk");
        let python = home.join("bin/python");
        let has = |python: &Path| {
            let asked =
                Command::new(python).args(["-c", "import mcp"]).stdin(Stdio::null()).output();
            asked.is_ok_and(|output| output.status.success())
        };
        if has(&python) {
            return Some(python);
        }
        // Made under a name of its own, so that a half-made one is never taken for whole.
        let part = home.with_extension(std::process::id().to_string());
        let done = |command: &mut Command| {
            command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let made = done(Command::new(testkit::python()?).args(["-m", "venv"]).arg(&part))
            && done(
                Command::new(part.join("bin/python")).args(["-m", "pip", "install", "-q", SDK]),
            );
        if made {
            let _ = std::fs::remove_dir_all(&home);
            let _ = std::fs::rename(&part, &home);
        }
        let _ = std::fs::remove_dir_all(&part);
        has(&python).then_some(python)
    });
    if found.is_none() {
        assert!(
            std::env::var_os("OSTLER_TEST_SDK").is_none(),
            "the SDK of MCP could not be installed, and this run needs it"
        );
        eprintln!("SKIPPED: {SDK} could not be installed from PyPI, so no SDK was tried");
    }
    found.as_deref()
}

/// What a client of the SDK says after making these calls.
fn sdk_says(python: &Path, guest: &Guest, how: &[&str], calls: &Value) -> Value {
    let mut client = Command::new(python);
    client.env("MCP_SERVER_URL", &guest.url).env("OSTLER_LEASE_TOKEN", &guest.token);
    sdk_client(&mut client, how, calls)
}

/// The same for a client that finds its server otherwise.
pub fn sdk_client(client: &mut Command, how: &[&str], calls: &Value) -> Value {
    let mut child = client
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_client.py"))
        .args(how)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(calls.to_string().as_bytes()).unwrap();
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, 0, "{how:?}: {}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

#[test]
fn the_official_sdk_lists_and_calls_the_tools_in_every_way() {
    let Some(python) = sdk() else { return };
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "allow-all"]);
    std::fs::write(guest.work.join("note"), "hello\n").unwrap();
    let proxy = program().display().to_string();
    let ways: [(&[&str], &str); 4] = [
        (&["http", "auto"], "2026-07-28"),
        (&["http", "legacy"], "2025-11-25"),
        (&["stdio", "auto", &proxy, "mcp-proxy"], "2026-07-28"),
        (&["stdio", "legacy", &proxy, "mcp-proxy"], "2025-11-25"),
    ];
    for (i, (how, revision)) in ways.into_iter().enumerate() {
        let new = format!("new-{i}");
        let patch = format!("--- /dev/null\n+++ b/{new}\n@@ -0,0 +1 @@\n+hi\n");
        let calls = json!([
            ["read_task", {}],
            ["read_file", { "path": "note" }],
            ["write_file", { "path": "note", "content": "hello\n" }],
            ["apply_patch", { "patch": patch }],
            ["read_file", { "path": "../secret" }],
            ["no_such_tool", {}],
        ]);
        let said = sdk_says(python, &guest, how, &calls);
        assert_eq!((&said["revision"], &said["server"]), (&revision.into(), &"ostler".into()));
        let tools: Vec<_> = said["tools"].as_array().unwrap().iter().collect();
        let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
        assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{tools:#?}");
        assert_eq!(tool("write_file")["inputSchema"]["required"], json!(["path"]));
        assert_eq!(tool("write_file")["annotations"]["readOnlyHint"], false);
        assert_eq!(tool("read_file")["annotations"]["readOnlyHint"], true);
        let results = &said["results"];
        assert_eq!(results[0]["value"]["prompt"], "be there");
        assert_eq!(results[1]["value"]["content"], "hello\n");
        assert_eq!(results[2]["value"]["bytes"], 6);
        assert_eq!(results[3]["value"]["files"][0]["change"], "created", "{results}");
        assert_eq!(results[4]["value"]["code"], "forbidden");
        assert_eq!(results[4]["error"], true);
        assert_eq!(
            (&results[5]["code"], &results[5]["data"]["code"]),
            (&json!(-32602), &json!("unknown_tool"))
        );
        assert_eq!(std::fs::read_to_string(guest.work.join(new)).unwrap(), "hi\n");
    }
    let events = guest.finish();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    let calls: Vec<_> = events.iter().filter(|event| event["kind"] == "tool_use").collect();
    assert_eq!(calls.len(), 4 * 6);
    for call in calls {
        assert_eq!(call["via"], "relayed");
        let id = &call["tool_call_id"];
        assert!(id.as_str().unwrap().starts_with("mcp_"));
        let answers = events
            .iter()
            .filter(|event| event["kind"] == "tool_result" && event["tool_call_id"] == *id);
        assert_eq!(answers.count(), 1, "{id}");
    }
    assert!(events.iter().filter(|event| event["kind"] == "diff").count() == 8);
}

#[test]
fn a_token_that_is_not_this_runs_own_is_refused() {
    let (ostler, other) = (Ostler::new(), Ostler::new());
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    serve.line();
    let guest = Guest::new(&ostler, &[]);
    let foreign = Guest::new(&other, &[]);
    let owner = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    let flipped = match guest.token.strip_prefix('0') {
        Some(rest) => format!("1{rest}"),
        None => format!("0{}", &guest.token[1..]),
    };
    let rows = [
        ("", 401),
        ("0", 401),
        (&guest.token[..guest.token.len() - 1], 401),
        (&format!("{}0", guest.token), 401),
        (&flipped, 401),
        (&guest.token.to_uppercase(), 401),
        (&foreign.token, 401),
        (owner.trim(), 403),
        (&guest.token, 200),
    ];
    for (token, status) in rows {
        for message in [list(), tool_call("read_task", &json!({}))] {
            let (got, body) = post(&guest.url, token, &message);
            assert_eq!(got, status, "{token}: {body}");
            assert_eq!(body.get("result").is_some(), status == 200, "{token}: {body}");
        }
    }
    // The run's token opens no other door, and the door no other house.
    let address = guest.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    for (method, path, host, status) in [
        ("GET", "/api/v1/runs", address, 403),
        ("GET", "/api/v1/host", address, 403),
        ("POST", "/mcp", "evil.example", 403),
        ("GET", "/mcp", address, 405),
        ("DELETE", "/mcp", address, 405),
    ] {
        let (got, _) = request(
            address,
            &format!(
                "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
                 content-type: application/json\r\nauthorization: Bearer {}\r\n\
                 content-length: 2\r\n\r\n{{}}",
                guest.token
            ),
        );
        assert_eq!(got, status, "{method} {path} {host}");
    }
    let events = foreign.finish();
    assert_eq!(result(&events)["outcome"], "succeeded");
    assert!(events.iter().all(|event| event["kind"] != "tool_use"), "nobody called for it");

    // A token ends with its run, while its host lives on.
    let (url, token) = (guest.url.clone(), guest.token.clone());
    assert_eq!(result(&guest.finish())["outcome"], "succeeded");
    assert_eq!(post(&url, &token, &list()).0, 401);
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
}

#[test]
fn under_ask_a_call_waits_for_the_answer_of_a_person() {
    for (choice, answered) in [("allow", Ok(())), ("deny", Err("permission_denied".to_owned()))] {
        let ostler = Ostler::new();
        let guest = Guest::new(&ostler, &["--permission", "ask"]);
        let args = json!({ "path": "new.txt", "content": "hi" });
        std::thread::scope(|scope| {
            let call = scope.spawn(|| guest.call("write_file", &args).map(drop));
            let ask: String = testkit::until("the question", crate::ostler::BOUND_MS, || {
                let open: Vec<Value> =
                    serde_json::from_str(&ostler.says(&["approvals", "--json"]).stdout).ok()?;
                open.first()?["ask_id"].as_str().map(str::to_owned)
            });
            assert_eq!(ostler.says(&["answer", &ask, choice]).code, 0);
            assert_eq!(call.join().unwrap(), answered, "{choice}");
        });
        assert_eq!(guest.work.join("new.txt").exists(), choice == "allow");
        guest.finish();
    }
}

#[test]
fn what_writes_needs_leave_and_what_reads_does_not() {
    let rows: [(&[&str], bool); 4] = [
        (&["--permission", "allow-all"], true),
        (&["--permission", "allow-reads"], false),
        (&["--permission", "deny"], false),
        (&[], false),
    ];
    for (permission, may) in rows {
        let ostler = Ostler::new();
        let guest = Guest::new(&ostler, permission);
        assert!(guest.call("read_file", &json!({ "path": "door" })).is_ok(), "{permission:?}");
        let args = json!({ "path": "deep/er/new.txt", "content": "hi" });
        let answer = guest.call("write_file", &args);
        let new = guest.work.join("deep/er/new.txt");
        match may {
            true => assert_eq!(answer, Ok(json!({ "path": "deep/er/new.txt", "bytes": 2 }))),
            false => assert_eq!(answer, Err("permission_denied".to_owned()), "{permission:?}"),
        }
        assert_eq!(new.exists(), may, "{permission:?}");
        let events = guest.finish();
        let denied = events.iter().any(|event| event["denied"] == true);
        let diff = events.iter().find(|event| event["kind"] == "diff");
        assert_eq!((denied, diff.is_some()), (!may, may), "{permission:?}");
        if let Some(diff) = diff {
            assert_eq!((&diff["new_text"], &diff["origin"]), (&json!("hi"), &json!("ostler")));
        }
    }
}

#[test]
fn no_tool_is_led_out_of_the_workspace() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "allow-all"]);
    let root = ostler.instance.root();
    std::fs::create_dir_all(root.join("outside")).unwrap();
    std::fs::write(root.join("outside/secret"), "hidden\n").unwrap();
    std::fs::create_dir_all(guest.work.join(".git")).unwrap();
    std::os::unix::fs::symlink("../outside", guest.work.join("out")).unwrap();
    std::os::unix::fs::symlink("../outside/secret", guest.work.join("link")).unwrap();
    let absolute = root.join("outside/secret").display().to_string();
    let tricks = [
        "../outside/secret",
        "x/../../outside/secret",
        "./.././outside/secret",
        "out/secret",
        "link",
        &absolute,
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/Cargo.toml",
        "a\0b",
    ];
    for path in tricks {
        let change = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-hidden\n+seen\n");
        let create = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+seen\n");
        let delete = format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-hidden\n");
        let calls = [
            ("read_file", json!({ "path": path })),
            ("list_files", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "seen" })),
            ("apply_patch", json!({ "patch": change })),
            ("apply_patch", json!({ "patch": create })),
            ("apply_patch", json!({ "patch": delete })),
            ("upload_asset", json!({ "name": path, "content": "seen" })),
        ];
        for (tool, args) in calls {
            let answer = guest.call(tool, &args);
            let refused = matches!(&answer, Err(code) if ["forbidden", "not_found", "usage"].contains(&code.as_str()));
            // A plain name is a name for an asset, whatever lies in the workspace.
            assert!(
                refused || (tool == "upload_asset" && path == "link"),
                "{tool} {path:?}: {answer:?}"
            );
        }
    }
    for path in ["out", "../outside", ".."] {
        assert_eq!(guest.call("list_files", &json!({ "path": path })), Err("forbidden".to_owned()));
    }
    let hook = json!({ "path": ".git/hooks/post-checkout", "content": "#!/bin/sh" });
    assert_eq!(guest.call("write_file", &hook), Err("forbidden".to_owned()));
    let mut left: Vec<_> = std::fs::read_dir(root.join("outside")).unwrap().flatten().collect();
    assert_eq!(left.pop().map(|entry| entry.file_name()), Some("secret".into()));
    assert!(left.is_empty());
    assert_eq!(std::fs::read_to_string(root.join("outside/secret")).unwrap(), "hidden\n");
    guest.finish();
}

#[test]
fn an_asset_is_kept_and_a_run_can_be_ended_by_its_tools() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &[]);
    let asset = json!({ "name": "r.html", "content": format!("<p>{}", guest.token), "media_type": "text/html" });
    let kept = guest.call("upload_asset", &asset).unwrap();
    let hash = kept["hash"].as_str().unwrap();
    let blob = ostler.instance.data().join("blobs").join(&hash[..2]).join(hash);
    assert_eq!(std::fs::read_to_string(blob).unwrap(), "<p>[redacted:OSTLER_LEASE_TOKEN]");
    let output = json!({ "output": { "n": 7 }, "text": "as asked" });
    assert_eq!(guest.call("mark_complete", &output), Ok(json!({ "noted": true })));
    // Nothing is taken after the end, whether or not the process has gone yet.
    let late = guest.call("comment", &json!({ "text": "late" })).unwrap_err();
    assert!(["conflict", "unauthorized"].contains(&late.as_str()), "{late}");
    let events = guest.finish();
    let result = result(&events);
    assert_eq!((&result["outcome"], &result["text"]), (&json!("succeeded"), &json!("as asked")));
    assert!(events.iter().any(|event| {
        event["kind"] == "log" && event["text"].as_str().is_some_and(|text| text.contains(hash))
    }));
    let said = serde_json::to_string(&events).unwrap();
    assert!(!said.contains(asset["content"].as_str().unwrap().trim_start_matches("<p>")));
}

#[test]
fn a_token_is_good_again_when_the_next_host_has_taken_over() {
    let ostler = Ostler::new();
    let script = ostler.instance.root().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "guest": {{ "type": "process", "binary": "sh", "args": ["{}"],
              "permission": "allow-all" }} }} }}"#,
        script.display()
    ));
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = serve.line();
    let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    let mut run = ostler.starts(&["run", "guest", "be there", "--json"]);
    let work = ostler.instance.work();
    let (token, url) = door(&work);
    let write = |path: &str| {
        called(
            &post(&url, &token, &tool_call("write_file", &json!({ "path": path, "content": "" })))
                .1,
        )
    };
    assert!(write("one").is_ok());
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
    let _ = run.child.kill();
    let _ = run.child.wait();
    let mut serve = ostler.starts(&["serve", "--listen", &address]);
    serve.line();
    testkit::until("the adopted run", BOUND_MS, || {
        (post(&url, &token, &list()).0 == 200).then_some(())
    });
    assert!(write("two").is_ok(), "the policy was adopted too");
    assert!(work.join("one").exists() && work.join("two").exists());
    std::fs::write(work.join("done"), "").unwrap();
    testkit::until("the end of the run", BOUND_MS, || {
        (post(&url, &token, &list()).0 == 401).then_some(())
    });
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
}

#[test]
fn the_proxy_answers_what_it_cannot_pass_on() {
    let ostler = Ostler::new();
    let said = ostler.says(&["mcp-proxy"]);
    assert_eq!((said.code, said.complaint()), (2, "error: MCP_SERVER_URL is not set"), "{said:?}");
    let guest = Guest::new(&ostler, &[]);
    let proxied = |token: &str, input: &str| -> Vec<Value> {
        let mut child = ostler
            .command(&["mcp-proxy"])
            .env("MCP_SERVER_URL", &guest.url)
            .env("OSTLER_LEASE_TOKEN", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let said = Said::from(child.wait_with_output().unwrap());
        assert_eq!(said.code, 0);
        said.events()
    };
    let ask = list().to_string();
    let listed = proxied(&guest.token, &ask);
    assert!(listed[0]["result"]["tools"].is_array(), "{listed:?}");
    let refused = proxied("wrong", &format!("{ask}\n"));
    assert_eq!((&refused[0]["id"], &refused[0]["error"]["code"]), (&json!(1), &json!(-32000)));
    assert!(refused[0]["error"]["message"].as_str().unwrap().starts_with("unauthorized: "));
    let garbage = proxied(&guest.token, "\n{\"half\n");
    assert_eq!((garbage.len(), &garbage[0]["error"]["code"]), (1, &json!(-32700)));
    let long = format!("{}\n{ask}\n", "x".repeat(9 * 1024 * 1024));
    let answers = proxied(&guest.token, &long);
    assert_eq!(answers.len(), 2, "one refused, one answered");
    let noted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert!(proxied(&guest.token, &format!("{noted}\n")).is_empty());
    guest.finish();
}

#[test]
fn an_agent_is_shown_the_tools_of_a_server_that_it_is_offered_and_no_others() {
    let ostler = Ostler::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_server.py");
    let agent = ostler.instance.root().join("agent.sh");
    std::fs::write(&agent, AGENT).unwrap();
    let config = json!({
        "mcpServers": { "near": { "command": "python3", "args": [script] } },
        "adapters": { "here": { "type": "process", "binary": "sh", "args": [agent] } },
        "agents": { "one": { "adapter": "here", "tools": ["read_task", "near__add"] } },
    });
    ostler.instance.write_config(&config.to_string());
    let guest = Guest::of(&ostler, &mut ostler.command(&["run", "one", "be there", "--json"]));
    let (_, answer) = guest.post(&list());
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["read_task", "near__add"]);
    assert_eq!(guest.call("near__env", &json!({})), Err("unknown_tool".to_owned()));
    guest.finish();
}

#[test]
fn servers_of_the_configuration_are_offered_and_end_with_the_run() {
    let (ostler, other) = (Ostler::new(), Ostler::new());
    let far = Guest::new(&other, &[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_server.py");
    ostler.instance.write_config(&format!(
        r#"{{ "mcpServers": {{
              "near": {{ "command": "python3", "args": ["{script}"], "env": {{ "NEAR_KEY": "${{NEAR_KEY}}" }} }},
              "far": {{ "url": "{}", "headers": {{ "Authorization": "Bearer ${{FAR_TOKEN}}" }} }},
              "gone": {{ "command": "/nowhere/at/all" }} }} }}"#,
        far.url
    ));
    let agent = ostler.instance.root().join("agent.sh");
    std::fs::write(&agent, AGENT).unwrap();
    let mut command =
        ostler.command(&["run", "--json", "--permission", "allow-reads", "--process"]);
    let child = command
        .args([&format!("sh {}", agent.display()), "be there"])
        .envs([("NEAR_KEY", "near-hush-2026"), ("FAR_TOKEN", &far.token)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let work = ostler.instance.work();
    let (token, url) = door(&work);
    let guest = Guest { run: Running { child, stdout }, work, token, url };

    let (_, answer) = guest.post(&list());
    let tools: Vec<_> = answer["result"]["tools"].as_array().unwrap().iter().collect();
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in ["read_task", "near__add", "near__fail", "far__read_task", "far__write_file"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let text =
        |answer: &Value| answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let near = |tool: &str, args: &Value| {
        let (_, answer) = guest.post(&tool_call(tool, args));
        answer["result"].clone()
    };
    assert_eq!(text(&near("near__add", &json!({ "a": 3, "b": 4 }))), "7");
    let seen: Value = serde_json::from_str(&text(&near("near__env", &json!({})))).unwrap();
    assert_eq!(seen["NEAR_KEY"], "near-hush-2026");
    for name in ["OSTLER_LEASE_TOKEN", "OSTLER_API_KEY", "CA_LEASE_TOKEN", "FAR_TOKEN"] {
        assert!(seen.get(name).is_none(), "{name} is not for servers");
    }
    // A failure of another server is passed on whole, and is a failure in the events too.
    let failed = near("near__look", &json!({}));
    assert_eq!(
        (&failed["isError"], &failed["content"][1]["type"]),
        (&json!(true), &json!("image"))
    );
    assert_eq!(failed["structuredContent"], json!({ "why": "no" }));
    let prompt = near("far__read_task", &json!({}))["structuredContent"]["prompt"].clone();
    assert_eq!(prompt, "be there");
    // What does not say that it only reads needs leave, and what is not there is not there.
    assert_eq!(guest.call("near__fail", &json!({})), Err("permission_denied".to_owned()));
    assert_eq!(guest.call("near__none", &json!({})), Err("unknown_tool".to_owned()));
    assert_eq!(guest.call("gone__x", &json!({})), Err("remote_unavailable".to_owned()));
    let events = guest.finish();
    let failures = events.iter().filter(|event| {
        event["kind"] == "tool_result" && event["output"]["structuredContent"]["why"] == "no"
    });
    let statuses: Vec<_> = failures.map(|event| event["status"].clone()).collect();
    assert_eq!(statuses, ["error"]);
    let logs: Vec<_> = events.iter().filter_map(|event| event["text"].as_str()).collect();
    let told = |word: &str| logs.iter().filter(|text| text.contains(word)).count();
    assert_eq!(told("the MCP server 'near' is connected: 4 tools"), 1, "{logs:?}");
    assert_eq!((told("'far' is connected"), told("'gone' failed: ")), (1, 1), "{logs:?}");
    let all = serde_json::to_string(&events).unwrap();
    assert!(!all.contains("near-hush-2026") && !all.contains(&far.token), "kept out of the events");
    far.finish();
    testkit::until("the end of the servers", BOUND_MS, || {
        testkit::find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}
