//! Where the server may listen: on this machine, and elsewhere by TLS or when its owner says so in so
//! many words. Anything else is refused before anything is opened. Whoever comes from elsewhere shows
//! a token like everyone, and calls the server by its address or the name that its owner gave it.

use super::Tally;
use crate::door::Door;
use crate::ostler::{Ostler, Running};
use serde_json::json;
use std::time::Duration;

#[test]
fn nothing_but_loopback_is_listened_on() {
    let rows = [
        ("0.0.0.0:0", 3),
        ("0.0.0.0:7717", 3),
        ("[::]:0", 3),
        ("[::ffff:127.0.0.1]:0", 3),
        ("[::ffff:0.0.0.0]:0", 3),
        ("192.0.2.1:0", 3),
        ("10.0.0.1:0", 3),
        ("169.254.169.254:80", 3),
        ("224.0.0.1:0", 3),
        ("255.255.255.255:0", 3),
        ("[fe80::1]:0", 3),
        ("[2001:db8::1]:0", 3),
        // What is no address is not looked up: a name may lead anywhere.
        ("localhost:0", 2),
        ("evil.example:0", 2),
        ("127.0.0.1", 2),
        ("127.1:0", 2),
        ("0:0", 2),
        (":7717", 2),
        ("*:7717", 2),
        ("", 2),
        ("unix:sock", 2),
        ("127.0.0.1:99999", 2),
        ("127.0.0.1:0\u{1b}[2J", 2),
    ];
    let ostler = Ostler::new();
    let mut tally = Tally::new("listening");
    for (address, exit) in rows {
        let said = ostler.says(&["serve", "--listen", address]);
        let clear = said.stderr.contains("--listen") && said.stderr.contains("hint: ");
        let quiet = said.stdout.is_empty() && !said.stderr.contains('\u{1b}');
        tally.row(said.code == exit && clear && quiet, || format!("{address}: {said:?}"));
    }
    ostler.instance.write_config(r#"{ "server": { "listen": "0.0.0.0:0" } }"#);
    let said = ostler.says(&["serve"]);
    tally.row(said.code == 3 && said.stdout.is_empty(), || format!("configured: {said:?}"));
    for address in ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"] {
        let mut serve: Running = ostler.starts(&["serve", "--listen", address]);
        let line = serve.line();
        // A machine without IPv6 cannot listen there, and says so.
        let held = line.starts_with("listening on http://") || address.starts_with('[');
        tally.row(held, || format!("{address}: {line}"));
        // And it answers to the address that it listens on.
        let said = ostler.says(&["runs"]);
        tally.row(said.code == 0, || format!("{address}: {said:?}"));
        let _ = serve.child.kill();
        let _ = serve.child.wait();
    }
    tally.close(28);
}

/// A server of this configuration, and the door that it says it listens at.
fn opened(server: &serde_json::Value) -> (Door, String) {
    let ostler = Ostler::new();
    ostler.instance.write_config(&json!({ "server": server }).to_string());
    let mut serve: Running = ostler.starts(&["serve"]);
    let line = serve.line();
    let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
    let (scheme, address) = url.split_once("://").unwrap();
    let port = address.rsplit(':').next().unwrap();
    let (scheme, address) = (scheme.to_owned(), format!("127.0.0.1:{port}"));
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    (Door { ostler, serve, address, token: token.trim().to_owned() }, scheme)
}

#[test]
fn beyond_loopback_an_owner_who_says_so_is_served_by_address_and_by_given_name_alone() {
    let (door, scheme) = opened(&json!({
        "listen": "0.0.0.0:0", "allowInsecure": true, "publicUrl": "http://ostler.example"
    }));
    assert_eq!(scheme, "http");
    let mut tally = Tally::new("listening beyond");
    let (bearer, port) = (format!("Bearer {}", door.token), door.port().to_owned());
    let rows = [
        (format!("127.0.0.1:{port}"), 200),
        (format!("192.0.2.7:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        ("ostler.example".to_owned(), 200),
        ("OSTLER.example".to_owned(), 200),
        (format!("evil.example:{port}"), 403),
        (format!("localhost:{port}"), 403),
        (format!("127.0.0.1.nip.io:{port}"), 403),
        ("127.0.0.1:1".to_owned(), 403),
        ("127.0.0.1".to_owned(), 403),
        ("ostler.example.evil".to_owned(), 403),
        (String::new(), 403),
    ];
    for (host, expected) in rows {
        for origin in [None, Some(format!("http://{host}")), Some("http://evil.example".to_owned())]
        {
            let mut headers = vec![("host", host.as_str()), ("authorization", bearer.as_str())];
            headers.extend(origin.as_deref().map(|origin| ("origin", origin)));
            let status = door.request("GET", "/api/v1/host", &headers, "").status;
            let foreign = origin.as_deref() == Some("http://evil.example");
            let expected = if foreign { 403 } else { expected };
            tally.row(status == expected, || format!("{host} from {origin:?}: {status}"));
        }
    }
    let status = door.request("GET", "/api/v1/host", &[("host", &door.address)], "").status;
    tally.row(status == 401, || format!("without a token: {status}"));
    // Commands of this machine come by loopback, at a door of their own.
    let told = std::fs::read_to_string(door.ostler.instance.data().join("address")).unwrap();
    let apart = told.contains("127.0.0.1:") && !told.contains(&format!(":{port}"));
    tally.row(apart, || format!("commands come to {told}"));
    let ran = door.ostler.says(&["run", "demo", "hello", "--quiet"]);
    tally.row(ran.code == 0, || format!("a run: {ran:?}"));
    tally.close(39);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn by_tls_it_is_served_to_whoever_trusts_its_certificate_and_has_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = wanted.self_signed(&key).unwrap().pem();
    let [cert_path, key_path] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    std::fs::write(&cert_path, &pem).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    let (door, scheme) = opened(&json!({
        "listen": "127.0.0.1:0", "tls": { "cert": cert_path, "key": key_path }
    }));
    assert_eq!(scheme, "https");
    let trusted = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    let builder = || reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30));
    let trusting = builder().tls_certs_only([trusted]).build().unwrap();
    let strange = builder().tls_certs_only([]).build().unwrap();
    let asked = async |client: &reqwest::Client, scheme: &str, token: &str| {
        let url = format!("{scheme}://localhost:{}/api/v1/host", door.port());
        let answer = client.get(url).bearer_auth(token).send().await;
        answer.ok().map(|answer| answer.status().as_u16())
    };
    let mut tally = Tally::new("listening by TLS");
    for (what, client, scheme, token, expected) in [
        ("the owner", &trusting, "https", door.token.as_str(), Some(200)),
        ("no good token", &trusting, "https", "x", Some(401)),
        ("who trusts nobody", &strange, "https", &door.token, None),
        ("plain words", &trusting, "http", &door.token, None),
    ] {
        let status = asked(client, scheme, token).await;
        tally.row(status == expected, || format!("{what}: {status:?}"));
    }
    let ran = door.ostler.says(&["run", "demo", "hello", "--quiet"]);
    tally.row(ran.code == 0, || format!("a run: {ran:?}"));
    let link = door.ostler.says(&["token", "link"]).stdout;
    let here = link.starts_with(&format!("https://{}/sign-in?code=", door.address));
    tally.row(here, || format!("a link: {link}"));
    let ostler = Ostler::new();
    let server = json!({ "listen": "0.0.0.0:0", "tls": { "cert": "none.pem", "key": "none.key" } });
    ostler.instance.write_config(&json!({ "server": server }).to_string());
    let said = ostler.says(&["serve"]);
    tally.row(said.code == 3 && said.stderr.contains("none.pem"), || format!("no file: {said:?}"));
    tally.close(7);
}
