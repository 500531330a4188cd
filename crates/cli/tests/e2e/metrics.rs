//! `/metrics` of a server: that it counts what happened, that a token is needed, and that promtool finds
//! no fault in it.

use crate::ostler::{BOUND_MS, Ostler, Running, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use testkit::until;

/// Set by the gate where promtool is installed.
const PROMTOOL: &str = "OSTLER_TEST_PROMTOOL";

struct Served {
    ostler: Ostler,
    server: Running,
    address: String,
}

impl Served {
    fn new() -> Self {
        let ostler = Ostler::new();
        let agent = testkit::fake_agent();
        ostler.instance.write_config(
            &json!({ "adapters": {
                "good": { "type": "process", "binary": agent, "args": ["--burst", "3"] },
                "bad": { "type": "process", "binary": agent, "args": ["--failed", "no"] },
                "slow": { "type": "process", "binary": agent, "args": ["--burst", "1", "--wait-shutdown"] },
                "absent": { "type": "process", "binary": "/nonexistent/agent" },
            } })
            .to_string(),
        );
        let mut server = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        let address = server.line().trim().trim_start_matches("listening on ").to_owned();
        Self { ostler, server, address }
    }

    fn get(&self, token: Option<&str>) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client.get(format!("{}/metrics", self.address));
            let request = match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            };
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        })
    }

    fn text(&self) -> String {
        let token = std::fs::read_to_string(self.ostler.instance.data().join("token")).unwrap();
        let (status, text) = self.get(Some(token.trim()));
        assert_eq!(status, 200, "{text}");
        text
    }

    /// The samples by name and labels, as they are written.
    fn samples(&self) -> BTreeMap<String, f64> {
        let line = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        self.text().lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
    }

    fn run(&self, agent: &str) {
        self.ostler.says(&["run", agent, "x", "--quiet"]);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        signal(self.server.child.id() as i32, Signal::TERM);
        // Its exit code is asked by other tests.
        let _ = self.server.child.wait();
    }
}

#[test]
fn runs_tasks_and_requests_are_counted() {
    let served = Served::new();
    served.run("good");
    served.run("bad");
    let added = served.ostler.says(&["task", "add", "x", "--agent", "absent", "--json"]);
    assert_eq!(added.code, 0, "{added:?}");
    until("the queue to have decided", BOUND_MS, || {
        let samples = served.samples();
        let started = r#"ostler_dispatch_decisions_total{decision="started",reason=""}"#;
        let ended = r#"ostler_runs_ended_total{code="not_installed",outcome="failed"}"#;
        (samples.contains_key(started) && samples.contains_key(ended)).then_some(())
    });
    let slow = served.ostler.starts(&["run", "slow", "x", "--json"]);
    until("the metrics to have it all", BOUND_MS, || {
        let samples = served.samples();
        let is = |name: &str, value: f64| samples.get(name) == Some(&value);
        let all = is(r#"ostler_runs_ended_total{code="",outcome="succeeded"}"#, 1.0)
            && is(r#"ostler_runs_ended_total{code="agent_failed",outcome="failed"}"#, 1.0)
            && is("ostler_runs_started_total", 3.0)
            && is(r#"ostler_runs{state="live"}"#, 1.0)
            && is(r#"ostler_tasks{state="running"}"#, 1.0)
            && is("ostler_runs_driven", 1.0)
            && is("ostler_store_ok", 1.0);
        all.then_some(())
    });
    let samples = served.samples();
    assert!(samples["ostler_events_total"] > 10.0, "{samples:#?}");
    assert!(samples["ostler_commit_seconds_count"] > 5.0, "{samples:#?}");
    assert!(samples["process_resident_memory_bytes"] > 1e6, "{samples:#?}");
    let asked = r#"ostler_http_requests_total{method="GET",route="/metrics",status="200"}"#;
    assert!(samples[asked] >= 2.0, "{samples:#?}");
    assert_eq!(served.ostler.says(&["stop", "--now"]).code, 0);
    slow.finish();
}

#[test]
fn metrics_need_a_token() {
    let served = Served::new();
    assert_eq!(served.get(None).0, 401);
    let added = served.ostler.says(&["token", "add", "--name", "prom", "--scope", "viewer"]);
    assert_eq!(served.get(Some(added.stdout.trim())).0, 200, "{added:?}");
}

#[test]
fn promtool_finds_no_fault() {
    if std::env::var_os(PROMTOOL).is_none() {
        eprintln!("skipped: {PROMTOOL} is not set");
        return;
    }
    let served = Served::new();
    served.run("good");
    let text = served.text();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    assert!(said.status.success() && complaints.trim().is_empty(), "{complaints}\n{text}");
    // Nothing else than numbers after the names.
    let odd: Vec<Value> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| line.rsplit(' ').next().is_none_or(|value| value.parse::<f64>().is_err()))
        .map(|line| json!(line))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}
