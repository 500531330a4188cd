//! `ostler remote` behind certificates that the test makes: who has one of the right authority and name
//! is served, and everyone else has no connection at all.

use crate::ostler::Ostler;
use crate::remote_caller::Remote;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use reqwest::{Certificate, Client, Identity};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An authority that vouches for others.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut wanted = CertificateParams::new([]).unwrap();
        wanted.distinguished_name.push(DnType::CommonName, name);
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = wanted.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(wanted, key), pem }
    }

    /// A certificate for this name, good until this year, and its key.
    fn issue(&self, name: &str, until: i32) -> (String, String) {
        let mut wanted = CertificateParams::new([name.to_owned()]).unwrap();
        wanted.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let issued = wanted.signed_by(&key, &self.issuer).unwrap();
        (issued.pem(), key.serialize_pem())
    }
}

fn written(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Whether a caller that trusts `authority` and shows this pair opens a session.
async fn served(url: &str, authority: &Authority, pair: Option<&(String, String)>) -> Option<u16> {
    let trusted = Certificate::from_pem(authority.pem.as_bytes()).unwrap();
    let mut builder = Client::builder().tls_certs_only([trusted]).timeout(Duration::from_secs(30));
    if let Some((cert, key)) = pair {
        builder = builder.identity(Identity::from_pem(format!("{cert}{key}").as_bytes()).unwrap());
    }
    let body = json!({ "runId": "far", "prompt": "slow" });
    let request = builder.build().unwrap().post(format!("{url}/v1/sessions")).json(&body);
    request.send().await.ok().map(|response| response.status().as_u16())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_a_certificate_of_the_right_authority_name_and_time_is_let_in() {
    let ostler = Ostler::new();
    let root = ostler.instance.root();
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let server = authority.issue("localhost", 2200);
    let paths = [
        written(root, "server.pem", &server.0),
        written(root, "server.key", &server.1),
        written(root, "ca.pem", &authority.pem),
    ];
    let [cert, key, ca] = paths.each_ref().map(|path| path.to_str().unwrap());
    let flags = ["--cert", cert, "--key", key, "--client-ca", ca, "--client-name", "caller.ours"];
    let remote = Remote::of(&ostler, &flags);
    let url = remote.url.replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://localhost:"), "{url}");

    let right = authority.issue("caller.ours", 2200);
    assert_eq!(served(&url, &authority, Some(&right)).await, Some(201));
    assert_eq!(served(&url, &authority, Some(&right)).await, Some(200), "the same session again");
    let rows = [
        ("no certificate", None),
        ("another authority", Some(other.issue("caller.ours", 2200))),
        ("over since 2020", Some(authority.issue("caller.ours", 2020))),
        ("another name", Some(authority.issue("someone.else", 2200))),
    ];
    for (what, pair) in rows {
        assert_eq!(served(&url, &authority, pair.as_ref()).await, None, "{what}");
    }
    // And the caller refuses us under a name or by an authority that is not ours.
    assert_eq!(served(&remote.url, &authority, Some(&right)).await, None, "by its number");
    assert_eq!(served(&url, &other, Some(&right)).await, None, "trusting another");
    // Plain words are no handshake.
    let plain = url.replace("https", "http");
    assert_eq!(served(&plain, &authority, Some(&right)).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_certificate_of_the_server_alone_does_not_replace_the_token() {
    let ostler = Ostler::new();
    let root = ostler.instance.root();
    let authority = Authority::new("ours");
    let server = authority.issue("localhost", 2200);
    let cert = written(root, "server.pem", &server.0);
    let key = written(root, "server.key", &server.1);
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let nobody = ostler.says(&["remote", "--agent", "demo", "--cert", cert, "--key", key]);
    assert!(
        nobody.code == 2 && nobody.stderr.contains("no way for callers to authenticate"),
        "{}",
        nobody.stderr
    );
    let swapped = ["remote", "--agent", "demo", "--no-auth", "--cert", key, "--key", cert];
    let swapped = ostler.says(&swapped);
    assert!(swapped.code == 3 && swapped.stderr.contains(key), "{}", swapped.stderr);
    let flags = ["--cert", cert, "--key", key, "--token-env", "REMOTE_TOKEN"];
    let remote = Remote::of(&ostler, &flags);
    let url = remote.url.replace("127.0.0.1", "localhost");
    assert_eq!(served(&url, &authority, None).await, Some(401));
}
