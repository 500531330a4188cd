//! The API's guard: every route, and every wrong way to knock.

use crate::ostler::Ostler;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

struct Door {
    ostler: Ostler,
    serve: crate::ostler::Running,
    address: String,
    token: String,
}

impl Door {
    fn open() -> Self {
        let ostler = Ostler::new();
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        let line = serve.line();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let token = std::fs::read_to_string(ostler.instance.data().join("token"))
            .unwrap()
            .trim()
            .to_owned();
        Self { ostler, serve, address, token }
    }

    /// Sends raw bytes and gives status and body.
    fn knock(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let status =
            answer.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        self.knock(&format!("{request}\r\n{body}"))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = self.serve.child.kill();
        let _ = self.serve.child.wait();
    }
}

#[test]
fn every_route_is_shut_to_strangers() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let host = door.address.as_str();
    let (status, document) = door.request(
        "GET",
        "/api/v1/openapi.json",
        &[("host", host), ("authorization", &bearer)],
        "",
    );
    assert_eq!(status, 200);
    let body = &document[document.find('{').unwrap()..=document.rfind('}').unwrap()];
    let document: serde_json::Value = serde_json::from_str(body).unwrap();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let path = path
                .replace("{run}", "run_00000000000000000000000000000001")
                .replace("{hash}", "00");
            let json = ("content-type", "application/json");
            let refused = |headers: &[(&str, &str)], expected: u16, why: &str| {
                let (status, _) = door.request(&method, &path, headers, "{}");
                let expected = if path == "/healthz" && expected == 401 { 200 } else { expected };
                assert_eq!(status, expected, "{method} {path} {why}");
            };
            refused(&[("host", host), json], 401, "without a token");
            refused(
                &[("host", host), ("authorization", "Bearer 00"), json],
                401,
                "with a wrong token",
            );
            refused(
                &[("host", "evil.example"), ("authorization", &bearer), json],
                403,
                "for a foreign host",
            );
            refused(&[("authorization", &bearer), json], 403, "without a host");
            for origin in [
                "null",
                "http://evil.example",
                "https://127.0.0.1",
                "file://",
                "http://localhost:1",
            ] {
                refused(
                    &[("host", host), ("authorization", &bearer), ("origin", origin), json],
                    403,
                    origin,
                );
            }
            refused(
                &[
                    ("host", host),
                    ("authorization", &bearer),
                    ("sec-fetch-site", "cross-site"),
                    json,
                ],
                403,
                "cross-site",
            );
            if method == "POST" {
                refused(
                    &[("host", host), ("authorization", &bearer), ("content-type", "text/plain")],
                    415,
                    "as text",
                );
                let (status, _) = door.request(
                    "DELETE",
                    &path,
                    &[("host", host), ("authorization", &bearer), json],
                    "",
                );
                assert_eq!(status, 405, "DELETE {path}");
            }
            tried += 1;
        }
    }
    assert!(tried >= 10, "{tried} routes");
    let (status, body) =
        door.request("GET", "/nothing", &[("host", host), ("authorization", &bearer)], "");
    assert!(status == 404 && body.contains("not_found"), "{status} {body}");
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
    ];
    let body = format!("{{\"agent\":\"{}\"}}", "x".repeat(9 * 1024 * 1024));
    let (status, _) = door.request("POST", "/api/v1/runs", &headers, &body);
    assert!(status == 413 || status == 0, "{status}");
}

#[test]
fn a_run_can_be_started_and_read_over_http_by_name_alone() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
    ];
    let body = format!(
        r#"{{"agent":"demo","prompt":"hello","cwd":"{}"}}"#,
        door.ostler.instance.work().display()
    );
    let (status, started) = door.request("POST", "/api/v1/runs", &headers, &body);
    assert_eq!(status, 201, "{started}");
    let id = started.split("\"run_id\":\"").nth(1).map(|rest| rest[..36].to_owned()).unwrap();
    let followed =
        [headers[0], headers[1], ("accept", "text/event-stream"), ("last-event-id", "2")];
    let (status, stream) = door.request("GET", &format!("/api/v1/runs/{id}/events"), &followed, "");
    assert_eq!(status, 200);
    assert!(stream.contains("id: 3\ndata: {\"v\":1") && !stream.contains("id: 2\n"), "{stream}");
    assert!(stream.contains("\"kind\":\"result\""));
    let (status, transcript) = door.request(
        "GET",
        &format!("/api/v1/runs/{id}/events?view=transcript"),
        &headers[..2],
        "",
    );
    assert!(
        status == 200
            && transcript.contains("\"kind\":\"tool_call\"")
            && transcript.contains("toolUseId"),
        "{transcript}"
    );
    let (status, body) = door.request("POST", "/mcp", &headers, "{}");
    assert!(status == 403 && body.contains("forbidden"), "{status} {body}");
}

#[test]
fn what_is_kept_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let ostler = Ostler::new();
    assert_eq!(ostler.says(&["run", "demo", "big", "--quiet"]).code, 0);
    let data = ostler.instance.data();
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    let mut seen = 0;
    for path in ostler.files().into_iter().filter(|path| path.starts_with(&data)) {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 3, "{seen} files");
}
