//! A run whose agent is a session elsewhere shows what the same agent shows here, but for processes,
//! paths, times and the session itself: the events of the two are compared, one by one. Here are two
//! whole instances of the product, one of which calls the other; what becomes of the run when either
//! of them, or both, die in the middle is here too.

use crate::ostler::{BOUND_MS, Ostler, Running, Said, assert_gap_free, deeds, result, signal};
use crate::remote_caller::{Caller, Remote, TOKEN};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;
use testkit::{find_marked, until};

/// What belongs to this run and no other.
const OWN: &[&str] = &[
    "run_id",
    "seq",
    "ts",
    "raw",
    "pid",
    "duration_ms",
    "expires_at",
    "attempt",
    "fence",
    "exit_code",
    "ms",
    "id",
    "native_session",
    "taskId",
];

/// An instance that calls, and one that serves an agent to it.
struct Chain {
    here: Ostler,
    there: Ostler,
    remote: Remote,
}

impl Chain {
    /// With the demo agent at the far end.
    fn demo() -> Self {
        let there = Ostler::new();
        let remote = Remote::bearer(&there);
        Self { here: Ostler::new(), there, remote }
    }

    /// With an agent of bad manners at the far end.
    fn fake(flags: &[&str]) -> Self {
        let there = Ostler::new();
        let fake = adapter(flags);
        there.instance.write_config(&json!({ "adapters": { "fake": fake } }).to_string());
        let args =
            ["remote", "--agent", "fake", "--listen", "127.0.0.1:0", "--token-env", "REMOTE_TOKEN"];
        let remote = Remote::with(&there, &args);
        Self { here: Ostler::new(), there, remote }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.here.command(args);
        command.env("REMOTE_TOKEN", TOKEN);
        command
    }

    /// A run whose agent is elsewhere.
    fn far(&self, prompt: &str) -> Command {
        let url = self.remote.url.as_str();
        self.command(&[
            "run",
            "--http",
            url,
            "--token-env",
            "REMOTE_TOKEN",
            prompt,
            "--json",
            "--permission",
            "allow-all",
        ])
    }

    /// Its events when it has ended.
    fn far_events(&self, prompt: &str) -> Vec<Value> {
        let events = Said::from(self.far(prompt).output().unwrap()).events();
        assert_gap_free(&events);
        events
    }

    /// The events of a run when it has ended, under whichever host.
    fn ended(&self, id: &str) -> Vec<Value> {
        self.command(&["watch", id, "--json"]).output().unwrap();
        let events = self.here.events(&["show", id, "--json"]);
        assert_gap_free(&events);
        events
    }

    /// The far server dies, and another takes its place and its address.
    fn restart_remote(&mut self) {
        self.remote.kill();
        let listen = self.remote.url.trim_start_matches("http://").to_owned();
        let args =
            ["remote", "--agent", "demo", "--listen", &listen, "--token-env", "REMOTE_TOKEN"];
        self.remote = Remote::with(&self.there, &args);
    }

    /// Nobody works at the far end any more, but for the server itself.
    fn rests(&self) {
        let server = self.remote.running.child.id();
        until("nobody to be left at the far end", BOUND_MS, || {
            let left = find_marked(&self.there.instance.mark());
            left.iter().all(|left| left.pid == server).then_some(())
        });
    }
}

fn adapter(flags: &[&str]) -> Value {
    json!({ "type": "process", "binary": testkit::fake_agent(), "args": flags })
}

/// An event without what is its run's own.
fn bare(event: &Value) -> Value {
    match event {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), bare(value))).collect())
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// The events with deltas of one block joined, as they mean the same however they were cut.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for event in events.iter().map(bare) {
        let goes_on = all.last().is_some_and(|last| {
            event["delta"] == true
                && last["kind"] == event["kind"]
                && last["block"] == event["block"]
        });
        match (goes_on, all.last_mut()) {
            (true, Some(last)) => {
                let text = [&last["text"], &event["text"]].map(|text| text.as_str().unwrap());
                last["text"] = text.concat().into();
            }
            _ => all.push(event),
        }
    }
    all
}

/// The same prompt to the same agent, here and elsewhere. What the far run has beyond the other is the
/// event that names its session.
fn same(chain: &Chain, prompt: &str) -> (Vec<Value>, Vec<Value>) {
    std::fs::write(chain.here.instance.work().join("README.md"), "# Here\n\nand not there\n")
        .unwrap();
    let local = ["run", "demo", prompt, "--json", "--permission", "allow-all"];
    let local = joined(&chain.here.events(&local));
    let mut far = chain.far_events(prompt);
    let named: Vec<_> =
        far.iter().filter(|event| event["native_session"].is_string()).cloned().collect();
    assert_eq!(named.len(), 1, "its session is named once");
    far.retain(|event| !event["native_session"].is_string());
    let far = joined(&far);
    for (local, far) in local.iter().zip(&far) {
        assert_eq!(local, far, "{prompt}");
    }
    assert_eq!(local.len(), far.len(), "{prompt}");
    (local, far)
}

#[test]
fn a_run_elsewhere_shows_what_the_same_run_shows_here() {
    let chain = Chain::demo();
    let (_, far) = same(&chain, "hello");
    let text = result(&far)["text"].as_str().unwrap();
    assert!(text.contains("# Here"), "its tools look into the caller's directory: {text}");
    let spent: i64 = far
        .iter()
        .filter(|event| event["kind"] == "usage")
        .map(|event| event["effective_nanousd"].as_i64().unwrap())
        .sum();
    assert!(spent > 0, "it spends something");
    assert_eq!(result(&far)["totals"]["effective_nanousd"], spent, "each cent is counted once");
    chain.rests();
}

#[test]
fn a_run_elsewhere_that_uses_tools_or_fails_shows_the_same_too() {
    let chain = Chain::demo();
    same(&chain, "tools");
    let (_, far) = same(&chain, "fail");
    assert_eq!(result(&far)["code"], "agent_failed");
}

#[test]
fn what_is_too_long_for_an_event_comes_whole() {
    let (_, far) = same(&Chain::demo(), "big");
    assert!(far.iter().any(|event| event["truncated"] == true), "something was kept apart");
}

#[test]
fn tools_of_a_far_agent_change_the_callers_files_and_no_others() {
    let patch = "--- a/one.txt\n+++ b/one.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let write = json!({ "path": "made-by-the-far-one.txt", "content": "hello\n" }).to_string();
    let patch = json!({ "patch": patch }).to_string();
    let chain = Chain::fake(&["--tool", "write_file", &write, "--tool", "apply_patch", &patch]);
    let work = chain.here.instance.work();
    std::fs::write(work.join("one.txt"), "one\n").unwrap();
    let events = chain.far_events("change it");
    assert_eq!(result(&events)["outcome"], "succeeded", "{events:#?}");
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(
        (read("made-by-the-far-one.txt"), read("one.txt")),
        ("hello\n".into(), "two\n".into())
    );
    for file in chain.there.files() {
        assert!(!file.ends_with("made-by-the-far-one.txt"), "{}", file.display());
    }
    let answers = events.iter().filter(|event| event["kind"] == "tool_result");
    assert!(answers.clone().all(|answer| answer["status"] == "ok"));
    assert_eq!(answers.count(), 2);
}

#[test]
fn a_failure_at_the_far_end_is_told_in_the_words_of_one_here() {
    let rows: [&[&str]; 4] = [
        &["--no-complete"],
        &["--no-complete", "--exit", "3"],
        &["--failed", "the well is dry"],
        &["--failed", "budget_exceeded"],
    ];
    for flags in rows {
        let chain = Chain::fake(flags);
        let here = json!({ "adapters": { "fake": adapter(flags) } }).to_string();
        chain.here.instance.write_config(&here);
        let local = chain.here.events(&["run", "fake", "x", "--json", "--permission", "allow-all"]);
        let far = chain.far_events("x");
        for field in ["outcome", "code", "message"] {
            assert_eq!(result(&far)[field], result(&local)[field], "{flags:?}");
        }
    }
}

#[test]
fn a_run_that_is_stopped_here_ends_its_agent_there() {
    for how in [&["stop"][..], &["stop", "--now"]] {
        let chain = Chain::demo();
        let mut run = Running::of(&mut chain.far("slow"));
        let heard = run.event("it to count", |event| event["kind"] == "assistant_text");
        let id = heard["run_id"].as_str().unwrap().to_owned();
        assert_eq!(chain.here.says(&[how, &[&id]].concat()).code, 0);
        assert_eq!(result(&run.finish().events())["code"], "cancelled", "{how:?}");
        chain.rests();
        assert!(find_marked(&chain.here.instance.mark()).is_empty(), "{how:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_word_of_someone_who_no_longer_owns_the_work_is_refused_at_the_far_end() {
    let chain = Chain::demo();
    let mut run = Running::of(&mut chain.far("slow"));
    let session = run.event("its session", |event| event["native_session"].is_string());
    run.event("it to count", |event| event["kind"] == "assistant_text");
    let (id, path) =
        (session["run_id"].as_str().unwrap(), session["native_session"].as_str().unwrap());
    // Whoever owns it now has been heard by the remote.
    let caller = Caller::of(&chain.remote);
    let owner = caller.request(Method::POST, &format!("/v1/sessions/{path}/input"));
    let owner = owner.header("Ostler-Fence", "99");
    let update = json!({ "type": "budget_update", "remaining": {} });
    assert_eq!(caller.sent(owner.json(&update)).await.0, 202);
    let said = chain.here.says(&["say", id, "are you mine?"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let events = run.finish().events();
    assert_eq!(result(&events)["code"], "fence_stale", "{:?}", events.last());
    let there = chain.there.events(&["show", path, "--json"]);
    assert!(there.iter().all(|event| event["text"] != "are you mine?"), "it was not said");
}

/// Which side dies in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dies {
    Nobody,
    Remote,
    Host,
    Both,
}

/// What a run shows in the middle of which someone died.
fn through(dies: Dies) -> Vec<Value> {
    let mut chain = Chain::demo();
    std::fs::write(chain.here.instance.work().join("README.md"), "# Here\n").unwrap();
    let mut run = Running::of(&mut chain.far("hello"));
    let heard = run.event("its plan", |event| event["kind"] == "plan");
    let id = heard["run_id"].as_str().unwrap().to_owned();
    if matches!(dies, Dies::Host | Dies::Both) {
        signal(run.child.id() as i32, Signal::KILL);
        run.child.wait().unwrap();
    }
    if matches!(dies, Dies::Remote | Dies::Both) {
        chain.restart_remote();
    }
    let events = chain.ended(&id);
    assert_eq!(result(&events)["outcome"], "succeeded", "{dies:?}: {:?}", events.last());
    chain.rests();
    deeds(&events).iter().map(bare).collect()
}

#[test]
fn whoever_dies_in_the_middle_the_run_shows_the_same() {
    let expected = through(Dies::Nobody);
    assert!(expected.len() > 15, "{expected:#?}");
    for dies in [Dies::Remote, Dies::Host, Dies::Both] {
        let seen = through(dies);
        for (expected, seen) in expected.iter().zip(&seen) {
            assert_eq!(expected, seen, "{dies:?}");
        }
        assert_eq!(expected.len(), seen.len(), "{dies:?}");
    }
}
