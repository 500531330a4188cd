//! MCP servers of the configuration at https addresses: a certificate that is trusted, those that are
//! not, and where headers and redirects may not go.

use crate::mcp::{Guest, list, tool_call};
use crate::ostler::{BOUND_MS, Ostler};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A certificate for localhost that vouches for itself, good until this year, in files of this name.
fn certificate(dir: &Path, name: &str, until: i32) -> [PathBuf; 2] {
    let mut wanted = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    wanted.distinguished_name.push(rcgen::DnType::CommonName, name);
    wanted.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let paths = ["crt", "key"].map(|kind| dir.join(name).with_extension(kind));
    std::fs::write(&paths[0], wanted.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&paths[1], key.serialize_pem()).unwrap();
    paths
}

/// A server in the background, and what it was asked.
struct Server {
    child: Child,
    port: String,
    seen: PathBuf,
}

impl Server {
    fn new(ostler: &Ostler, name: &str, away: &str, pair: &[PathBuf]) -> Self {
        let seen = ostler.instance.root().join(name).with_extension("seen");
        std::fs::write(&seen, "").unwrap();
        let mut child = ostler
            .instance
            .command("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_https.py"))
            .arg(&seen)
            .arg(away)
            .args(pair)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().to_owned(), seen }
    }

    fn seen(&self) -> String {
        std::fs::read_to_string(&self.seen).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a server fared, as the run tells it.
fn fared<'a>(events: &'a [Value], server: &str) -> &'a str {
    let begins = format!("the MCP server '{server}' ");
    let mut texts = events.iter().filter_map(|event| event["text"].as_str()?.strip_prefix(&begins));
    texts.next().unwrap_or_else(|| panic!("{server} in {events:#?}"))
}

fn add(guest: &Guest, server: &str) -> Value {
    let (_, answer) = guest.post(&tool_call(&format!("{server}__add"), &json!({ "a": 3, "b": 4 })));
    answer["result"]["content"][0]["text"].clone()
}

#[test]
fn a_server_at_https_is_asked_only_when_its_certificate_is_trusted() {
    let ostler = Ostler::new();
    let root = ostler.instance.root();
    let good = certificate(root, "good", 2200);
    let other = certificate(root, "other", 2200);
    let old = certificate(root, "old", 2020);
    let trusted = Server::new(&ostler, "trusted", "/", &good);
    let misnamed = Server::new(&ostler, "misnamed", "/", &good);
    let stranger = Server::new(&ostler, "stranger", "/", &other);
    let expired = Server::new(&ostler, "expired", "/", &old);
    let at = |host: &str, server: &Server| {
        json!({ "url": format!("https://{host}:{}/mcp", server.port),
                "headers": { "Authorization": "Bearer ${FAR_TOKEN}" } })
    };
    let servers = json!({
        "trusted": at("localhost", &trusted), "misnamed": at("127.0.0.1", &misnamed),
        "stranger": at("localhost", &stranger), "expired": at("localhost", &expired),
    });
    ostler.instance.write_config(&json!({ "mcpServers": servers }).to_string());
    let authorities = root.join("authorities.pem");
    let texts = [&good, &old].map(|pair| std::fs::read_to_string(&pair[0]).unwrap());
    std::fs::write(&authorities, texts.concat()).unwrap();
    let authorities = authorities.display().to_string();
    let env = [("SSL_CERT_FILE", authorities.as_str()), ("FAR_TOKEN", "far-hush-2026")];
    let guest = Guest::with_env(&ostler, &["--permission", "allow-reads"], &env);
    guest.post(&list());
    assert_eq!(add(&guest, "trusted"), "7");
    assert_eq!(guest.call("stranger__add", &json!({})), Err("remote_unavailable".to_owned()));
    let events = guest.finish();
    assert_eq!(fared(&events, "trusted"), "is connected: 1 tools");
    let rows = [
        ("stranger", "UnknownIssuer", &stranger),
        ("misnamed", "certificate not valid for name", &misnamed),
        ("expired", "certificate expired", &expired),
    ];
    for (name, why, server) in rows {
        let said = fared(&events, name);
        assert!(said.starts_with("failed: ") && said.contains(why), "{said}");
        assert!(said.contains("nothing was sent") && said.contains("SSL_CERT_FILE"), "{said}");
        assert_eq!(server.seen(), "", "{name} was asked nothing");
    }
    assert!(trusted.seen().lines().all(|line| line == "/mcp Bearer far-hush-2026"));
    assert!(trusted.seen().lines().count() >= 4, "{}", trusted.seen());
    assert!(!serde_json::to_string(&events).unwrap().contains("far-hush-2026"));
}

#[test]
fn headers_and_redirects_do_not_leave_the_address_that_is_written() {
    let ostler = Ostler::new();
    let pair = certificate(ostler.instance.root(), "good", 2200);
    let plain = Server::new(&ostler, "plain", "/", &[]);
    let away = format!("http://localhost:{}/mcp", plain.port);
    let server = Server::new(&ostler, "server", &away, &pair);
    let at = |path: &str| format!(r#""url": "https://localhost:{}{path}""#, server.port);
    let headers = r#""headers": { "Authorization": "Bearer far-hush-2026" }"#;
    ostler.instance.write_config(&format!(
        r#"{{ "mcpServers": {{
              "moved": {{ {} }}, "away": {{ {} }}, "loop": {{ {} }}, "secret": {{ {}, {headers} }},
              "near": {{ "url": "{away}", {headers} }},
              "far": {{ "url": "https://mcp.invalid/mcp", {headers} }},
              "open": {{ "url": "http://mcp.invalid/mcp", {headers} }} }} }}"#,
        at("/moved"),
        at("/away"),
        at("/loop"),
        at("/moved")
    ));
    // A proxy of the environment is not asked for what is on this machine: nothing would come of it.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    proxy.set_nonblocking(true).unwrap();
    let proxied = std::thread::spawn(move || {
        let asked = testkit::until("a call of the proxy", BOUND_MS, || proxy.accept().ok());
        asked.0.set_read_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
        let lines = BufReader::new(asked.0).lines();
        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect::<Vec<_>>()
    });
    let authorities = pair[0].display().to_string();
    let env = [
        ("SSL_CERT_FILE", authorities.as_str()),
        ("HTTPS_PROXY", address.as_str()),
        ("HTTP_PROXY", address.as_str()),
    ];
    let guest = Guest::with_env(&ostler, &["--permission", "allow-reads"], &env);
    guest.post(&list());
    assert_eq!((add(&guest, "moved"), add(&guest, "near")), (json!("7"), json!("7")));
    let events = guest.finish();
    let to = format!("it redirects to https://localhost:{}/mcp, and its headers", server.port);
    let rows = [
        ("moved", "is connected: 1 tools"),
        ("near", "is connected: 1 tools"),
        ("away", &format!("failed: it redirects to {away}, which is not followed")),
        ("loop", "failed: it redirects more than 3 times"),
        ("secret", &format!("failed: {to}")),
        ("open", "failed: its headers would cross the network"),
        ("far", "failed: client error (Connect)"),
    ];
    for (name, how) in rows {
        assert!(fared(&events, name).starts_with(how), "{name}: {}", fared(&events, name));
    }
    let proxied = proxied.join().unwrap();
    assert!(proxied[0].starts_with("CONNECT mcp.invalid:443 "), "{proxied:?}");
    assert!(!proxied.concat().contains("far-hush-2026"), "a tunnel is asked for, and no more");
    let seen = server.seen();
    let asked = |line: &str| seen.lines().filter(|seen| *seen == line).count();
    // Each time that an address is tried it is asked once, and again for each of three redirects.
    assert!(asked("/loop -") >= 4, "{seen}");
    assert!(asked("/away -") > 0 && asked("/moved Bearer far-hush-2026") > 0, "{seen}");
    assert_eq!(asked("/mcp Bearer far-hush-2026"), 0, "{seen}");
    assert!(!plain.seen().contains("/mcp -"), "nothing followed: {}", plain.seen());
}
