//! Logins at MCP servers of other people, with an authorization server of our own on loopback: a login is
//! made, sent, renewed, shown and forgotten; its tokens are found nowhere; answers that do not belong to it
//! and servers that lead elsewhere are refused.

use crate::mcp::{AGENT, Guest, list, tool_call};
use crate::ostler::{BOUND_MS, Ostler, Running, Said};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

struct Locked {
    server: Running,
    address: String,
}

impl Locked {
    /// The server with one thing changed, configured as `locked`.
    fn new(ostler: &Ostler, mode: &str) -> Self {
        let mut command = Command::new(testkit::python().expect("Python 3"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_oauth.py")).arg(mode);
        let mut server = Running::of(&mut command);
        let address = format!("127.0.0.1:{}", server.line().trim());
        let agent = ostler.instance.root().join("agent.sh");
        std::fs::write(&agent, AGENT).unwrap();
        let config = json!({
            "mcpServers": { "locked": { "url": format!("http://{address}/mcp") } },
            "adapters": { "here": { "type": "process", "binary": "sh", "args": [agent] } },
        });
        ostler.instance.write_config(&config.to_string());
        Self { server, address }
    }

    fn get(&self, path: &str) -> Value {
        let (_, _, body) = get(&self.address, path);
        serde_json::from_str(&body).unwrap_or_default()
    }

    fn was_asked(&self, path: &str) -> bool {
        self.get("/seen").as_array().unwrap().iter().any(|seen| seen == path)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.server.child.kill();
        let _ = self.server.child.wait();
    }
}

/// Status, `Location` and body of a page.
fn get(address: &str, path: &str) -> (u16, Option<String>, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap();
    let location = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.to_owned())
    });
    (status, location, body.to_owned())
}

/// Address and path of a URL of this machine.
fn split(url: &str) -> (&str, String) {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    (address, format!("/{path}"))
}

/// Logs in as a person does, with a browser that follows.
fn log_in(ostler: &Ostler, words: &[&str]) -> Said {
    let mut login = ostler.starts(&[&["mcp", "login", "locked"], words].concat());
    let url = login.line();
    if let Some(url) = url.trim().strip_prefix("http").map(|_| url.trim()) {
        let (address, path) = split(url);
        let (_, location, _) = get(address, &path);
        let location = location.expect("the authorization server redirects");
        let (address, path) = split(&location);
        // An answer to another login, and an icon, are not taken for the answer.
        let forged = path.split("state=").next().unwrap().to_owned() + "state=forged";
        assert_eq!(get(address, &forged).0, 404);
        assert_eq!(get(address, "/favicon.ico").0, 404);
        get(address, &path);
    }
    login.finish()
}

fn guest(ostler: &Ostler) -> Guest {
    for file in ["door", "done"] {
        // The files of the run before.
        let _ = std::fs::remove_file(ostler.instance.work().join(file));
    }
    let mut command = ostler.command(&["run", "here", "be there", "--json"]);
    Guest::at(ostler.instance.work(), &mut command)
}

/// What the tool answers, or the message of its error.
fn whoami(guest: &Guest) -> String {
    let (_, answer) = guest.post(&tool_call("locked__whoami", &json!({})));
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str();
    let message = result["structuredContent"]["message"].as_str();
    message.or(text).unwrap_or_default().to_owned()
}

fn login_state(ostler: &Ostler) -> Value {
    let said = ostler.says(&["doctor", "--json"]);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    told["mcp_servers"][0]["login"].clone()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn login_is_made_sent_renewed_and_forgotten() {
    let ostler = Ostler::new();
    let locked = Locked::new(&ostler, "");
    assert_eq!(login_state(&ostler)["login"], "none");
    let run = guest(&ostler);
    run.post(&list());
    let events = run.finish();
    let told = serde_json::to_string(&events).unwrap();
    assert!(told.contains("`ostler mcp login locked`"), "{told}");

    let said = log_in(&ostler, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("logged in at 'locked'"), "{said:?}");
    let state = login_state(&ostler);
    assert_eq!((&state["login"], &state["renewable"]), (&json!("valid"), &json!(true)), "{state}");

    // The token is sent, and what the server echoes of it is replaced.
    let run = guest(&ostler);
    assert_eq!(whoami(&run), "you sent [redacted:mcp login]");
    // It is renewed when it is refused, inside the run.
    locked.get("/expire");
    assert_eq!(whoami(&run), "you sent [redacted:mcp login]");
    // What cannot be renewed is told with the command that helps.
    locked.get("/revoke");
    let refused = whoami(&run);
    assert!(refused.contains("`ostler mcp login locked` again"), "{refused}");
    let events = serde_json::to_string(&run.finish()).unwrap();
    let kept = ostler.files().into_iter().filter_map(|file| std::fs::read(file).ok());
    for bytes in kept.chain([events.into_bytes(), said.stdout.into(), said.stderr.into()]) {
        assert!(!holds(&bytes, "access-hush") && !holds(&bytes, "refresh-hush"), "a token is kept");
    }

    assert_eq!(log_in(&ostler, &[]).code, 0);
    let run = guest(&ostler);
    assert_eq!(whoami(&run), "you sent [redacted:mcp login]");
    run.finish();
    assert_eq!(ostler.says(&["mcp", "logout", "locked"]).code, 0);
    assert_eq!(login_state(&ostler)["login"], "none");
    assert_ne!(ostler.says(&["mcp", "logout", "locked"]).code, 0, "there is none any more");
    let run = guest(&ostler);
    assert_eq!(run.call("locked__whoami", &json!({})), Err("remote_unavailable".to_owned()));
    run.finish();
}

#[test]
fn more_scopes_are_asked_for_by_name() {
    let ostler = Ostler::new();
    let _locked = Locked::new(&ostler, "scope");
    assert_eq!(log_in(&ostler, &[]).code, 0);
    let run = guest(&ostler);
    let refused = whoami(&run);
    assert!(refused.contains("`ostler mcp login locked --scope read --scope write`"), "{refused}");
    run.finish();
    assert_eq!(log_in(&ostler, &["--scope", "read", "--scope", "write"]).code, 0);
    let run = guest(&ostler);
    assert_eq!(whoami(&run), "you sent [redacted:mcp login]");
    run.finish();
}

#[test]
fn login_that_leads_elsewhere_is_refused() {
    for (mode, words) in [
        ("wrong_issuer", "issuer"),
        ("no_pkce", "PKCE"),
        ("elsewhere", ""),
        ("plain", "unencrypted"),
    ] {
        let ostler = Ostler::new();
        let locked = Locked::new(&ostler, mode);
        let said = log_in(&ostler, &[]);
        assert_ne!(said.code, 0, "{mode}: {said:?}");
        assert!(said.stderr.contains(words), "{mode}: {said:?}");
        assert!(!locked.was_asked("/token"), "{mode}: no code is exchanged");
        assert_eq!(login_state(&ostler)["login"], "none", "{mode}");
    }
}

#[test]
fn login_names_servers_that_can_be_logged_in_at() {
    let ostler = Ostler::new();
    let servers = json!({ "near": { "command": "true" }, "far": { "url": "https://mcp.example" } });
    ostler.instance.write_config(&json!({ "mcpServers": servers }).to_string());
    let said = ostler.says(&["mcp", "login", "other"]);
    assert!(said.code != 0 && said.stderr.contains("servers with a url are far"), "{said:?}");
    let said = ostler.says(&["mcp", "login", "near"]);
    assert!(said.code != 0 && said.stderr.contains("started by a command"), "{said:?}");
}
