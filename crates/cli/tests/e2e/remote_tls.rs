//! Remotes by mTLS, with certificates that are made here: the right ones pass; a caller or a remote
//! that is a stranger, expired or of another name is refused, and so is a key that others may read.

use crate::ostler::{Ostler, result};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(dir: &Path, name: &str) -> Authority {
    let mut wanted = CertificateParams::default();
    wanted.distinguished_name.push(DnType::CommonName, name);
    wanted.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let made = CertifiedIssuer::self_signed(wanted, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(dir.join(name).with_extension("crt"), made.pem()).unwrap();
    made
}

/// A certificate and its key in files of this name, good until this year.
fn certificate(dir: &Path, by: &Authority, name: &str, host: &str, until: i32) -> [PathBuf; 2] {
    let mut wanted = CertificateParams::new([host.to_owned()]).unwrap();
    wanted.distinguished_name.push(DnType::CommonName, name);
    wanted.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let paths = ["crt", "key"].map(|kind| dir.join(name).with_extension(kind));
    std::fs::write(&paths[0], wanted.signed_by(&key, by).unwrap().pem()).unwrap();
    std::fs::write(&paths[1], key.serialize_pem()).unwrap();
    std::fs::set_permissions(&paths[1], std::fs::Permissions::from_mode(0o600)).unwrap();
    paths
}

/// A remote that wants certificates.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn new(ostler: &Ostler, pair: &[PathBuf; 2], callers: &Path) -> Self {
        let mut child = ostler
            .instance
            .command("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/remote_tls.py"))
            .args(pair)
            .arg(callers)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn certificates_are_asked_of_both_sides_and_only_the_right_ones_pass() {
    let ostler = Ostler::new();
    let dir = ostler.instance.root();
    let (house, stranger) = (authority(dir, "house"), authority(dir, "stranger"));
    let own = certificate(dir, &house, "own", "caller", 2200);
    let foreign = certificate(dir, &stranger, "foreign", "caller", 2200);
    let old = certificate(dir, &house, "old", "caller", 2020);
    let open = certificate(dir, &house, "open", "caller", 2200);
    std::fs::set_permissions(&open[1], std::fs::Permissions::from_mode(0o640)).unwrap();
    let callers = dir.join("house.crt");
    let good = Server::new(&ostler, &certificate(dir, &house, "good", "localhost", 2200), &callers);
    let named =
        Server::new(&ostler, &certificate(dir, &house, "named", "elsewhere", 2200), &callers);
    let expired =
        Server::new(&ostler, &certificate(dir, &house, "expired", "localhost", 2020), &callers);
    let text = |path: &Path| path.display().to_string();
    let adapter = |server: &Server, pair: Option<&[PathBuf; 2]>, ca: &str| {
        let auth = match pair {
            Some([cert, key]) => json!({
                "type": "mtls", "certPath": text(cert), "keyPath": text(key),
                "caPath": text(&dir.join(ca)),
            }),
            None => json!({ "type": "none", "caPath": text(&dir.join(ca)) }),
        };
        let env = json!({ "OSTLER_REMOTE_START_MS": "300" });
        let base = format!("https://localhost:{}", server.port);
        json!({ "type": "http", "baseUrl": base, "auth": auth, "env": env })
    };
    let rows: [(&str, Value, Option<&str>, &str); 8] = [
        ("right", adapter(&good, Some(&own), "house.crt"), None, ""),
        (
            "a stranger calls",
            adapter(&good, Some(&foreign), "house.crt"),
            Some("auth_failed"),
            "certificate",
        ),
        (
            "an expired caller",
            adapter(&good, Some(&old), "house.crt"),
            Some("auth_failed"),
            "certificate",
        ),
        (
            "nobody in particular",
            adapter(&good, None, "house.crt"),
            Some("auth_failed"),
            "certificate",
        ),
        (
            "a remote of others",
            adapter(&good, Some(&own), "stranger.crt"),
            Some("remote_unavailable"),
            "is not trusted",
        ),
        (
            "a remote of another name",
            adapter(&named, Some(&own), "house.crt"),
            Some("remote_unavailable"),
            "not valid for name",
        ),
        (
            "an expired remote",
            adapter(&expired, Some(&own), "house.crt"),
            Some("remote_unavailable"),
            "expired",
        ),
        (
            "a key for all to read",
            adapter(&good, Some(&open), "house.crt"),
            Some("invalid_config"),
            "others may read it",
        ),
    ];
    let adapters: serde_json::Map<String, Value> = (0..)
        .zip(&rows)
        .map(|(n, (_, adapter, ..)): (u8, _)| (format!("r{n}"), adapter.clone()))
        .collect();
    ostler.instance.write_config(&json!({ "adapters": adapters }).to_string());
    for (n, (what, _, code, says)) in rows.iter().enumerate() {
        let events = ostler.events(&["run", &format!("r{n}"), "x", "--json"]);
        let result = result(&events);
        assert_eq!(result["code"].as_str(), *code, "{what}: {result}");
        let message = result["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{what}: {message}");
        if code.is_none() {
            assert_eq!(result["text"], "by certificate");
        }
    }
}
