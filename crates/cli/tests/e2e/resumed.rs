//! Conversations that are resumed, and those that are not: in another directory, after a crash, when
//! the agent does not know them any more. The agent is a script of these tests that notes with which
//! arguments and which prompt it was started.

use crate::ostler::{BOUND_MS, Ostler, Said};
use crate::tasks::Yard;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use testkit::until;

/// Notes how it was started, and does what the file beside its log says. A new conversation is named
/// after the number of the start.
const AGENT: &str = r#"#!/bin/sh
printf '%s|%s|%s\n' "$OSTLER_WAKE_REASON" "$*" "$(cat | tr '\n' ' ')" >> "$LOG"
HOW=$(cat "$LOG.how" 2>/dev/null); rm -f "$LOG.how"
case $* in
  *--resume*) [ "$HOW" = unknown ] && { echo '{"ev":"lost"}'; exit 1; }; ID=${*##* };;
  *) ID=s-$(($(wc -l < "$LOG")));;
esac
echo '{"ev":"hi","id":"'$ID'"}'
echo '{"ev":"talk","bit":"I found '$ID'"}'
[ "$HOW" = crash ] && exit 3
[ "$HOW" = fail ] && { echo '{"ev":"no"}'; exit 0; }
echo '{"ev":"bye"}'
"#;

/// A CLI described by a mapping that runs this script.
pub(crate) fn adapter(root: &Path, log: &Path) -> Value {
    let script = root.join("names-its-conversations");
    std::fs::write(&script, AGENT).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    json!({
        "type": "cli", "binary": script, "permission": "allow-all", "env": { "LOG": log },
        "mapping": {
            "args": [], "prompt": "stdin", "policies": { "allow-all": [] },
            "with": { "session": ["--resume", "{{session}}"] },
            "rules": [
                { "when": { "ev": "hi" }, "session": { "id": "id" } },
                { "when": { "ev": "talk" }, "text": { "at": "bit" } },
                { "when": { "ev": "lost" }, "sessionUnknown": true },
                { "when": { "ev": "no" }, "end": { "success": false, "code": "agent_failed" } },
                { "when": { "ev": "bye" }, "end": { "success": true } },
            ],
        },
    })
}

/// An instance with that agent under the name `mine`.
struct House {
    ostler: Ostler,
    log: PathBuf,
}

impl House {
    fn new() -> Self {
        let ostler = Ostler::new();
        let log = ostler.instance.root().join("log");
        let mine = adapter(ostler.instance.root(), &log);
        ostler.instance.write_config(&json!({ "adapters": { "mine": mine } }).to_string());
        Self { ostler, log }
    }

    fn dir(&self, name: &str) -> String {
        let dir = self.ostler.instance.root().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir.display().to_string()
    }

    fn run(&self, args: &[&str]) -> Vec<Value> {
        let said = self.ostler.says(&[&["run", "mine"], args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{said:#?}");
        said.events()
    }
}

/// The arguments and the prompt of each start.
fn starts(log: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let start = |line: &str| {
        let mut parts = line.splitn(3, '|').skip(1).map(|part| part.trim().to_owned());
        Some((parts.next()?, parts.next()?))
    };
    text.lines().filter_map(start).collect()
}

/// The arguments and the prompt of the last start.
fn last(log: &Path) -> (String, String) {
    starts(log).pop().expect("a start")
}

fn how(log: &Path, word: &str) {
    std::fs::write(format!("{}.how", log.display()), word).unwrap();
}

fn run_of(events: &[Value]) -> &str {
    events[0]["run_id"].as_str().unwrap()
}

fn warned(events: &[Value], words: &str) -> usize {
    let logs = events.iter().filter(|event| event["kind"] == "log" && event["origin"] == "ostler");
    logs.filter(|log| log["text"].as_str().unwrap().contains(words)).count()
}

const HANDED_OVER: &str = "You are continuing work from an earlier conversation";

#[test]
fn other_directory_begins_afresh_unless_forced() {
    let house = House::new();
    let (one, two) = (house.dir("one"), house.dir("two"));
    let link = house.ostler.instance.root().join("link").display().to_string();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let first = house.run(&["first words", "--cwd", &one]);
    let run = run_of(&first).to_owned();

    let elsewhere = house.run(&["second words", "--resume", &run, "--cwd", &two]);
    let (args, prompt) = last(&house.log);
    assert_eq!(args, "", "{prompt}");
    for words in [HANDED_OVER, "first words", "I found s-1", "second words"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    assert_eq!(warned(&elsewhere, "--force-cwd"), 1, "{elsewhere:#?}");

    // A link to the directory is the same directory.
    house.run(&["third words", "--resume", &run, "--cwd", &link]);
    assert_eq!(last(&house.log), ("--resume s-1".to_owned(), "third words".to_owned()));

    let forced = ["fourth words", "--resume", &run, "--cwd", &two, "--force-cwd"];
    let forced = house.run(&forced);
    assert_eq!(last(&house.log), ("--resume s-1".to_owned(), "fourth words".to_owned()));
    assert_eq!(warned(&forced, "began with the directory"), 1, "{forced:#?}");

    let said = house.ostler.says(&["run", "mine", "fifth words", "--force-cwd"]);
    assert_eq!(said.code, 2, "{said:#?}");
}

#[test]
fn stale_conversation_is_offered_by_no_run_again() {
    let house = House::new();
    let first = house.run(&["first words"]);
    let second = house.run(&["second words", "--continue"]);
    assert_eq!(last(&house.log).0, "--resume s-1");
    how(&house.log, "unknown");
    let third = house.run(&["third words", "--continue"]);
    let args: Vec<_> = starts(&house.log).into_iter().map(|(args, _)| args).collect();
    assert_eq!(args, ["", "--resume s-1", "--resume s-1", ""], "the same run, once more");
    assert!(last(&house.log).1.contains(HANDED_OVER));

    for run in [run_of(&first), run_of(&second)] {
        let again = house.run(&["fourth words", "--resume", run]);
        let (args, prompt) = last(&house.log);
        assert_eq!(args, "", "{prompt}");
        assert!(prompt.contains(HANDED_OVER) && prompt.contains("I found s-1"), "{prompt}");
        assert_eq!(warned(&again, "no longer knows the conversation"), 1, "{again:#?}");
    }
    // The conversation that began instead is a good one.
    house.run(&["fifth words", "--resume", run_of(&third)]);
    assert_eq!(last(&house.log).0, "--resume s-4");
    let shown = house.ostler.says(&["show", run_of(&first), "--json"]).stdout;
    let of_run = house.ostler.says(&["runs", "--json"]).stdout;
    assert!(shown.contains("s-1") && !of_run.contains("\"s-1\""), "{of_run}");
}

/// A yard whose agent `a` is that of these tests, and the log of it.
fn yard(agent: &Value) -> (Yard, PathBuf) {
    let yard = Yard::of(&[]);
    let root = yard.ostler.instance.root().to_owned();
    let log = yard.log.clone();
    let config = json!({
        "adapters": { "mine": adapter(&root, &log) }, "agents": { "a": agent },
    });
    yard.ostler.instance.write_config(&config.to_string());
    (yard, log)
}

fn added(yard: &Yard, title: &str, more: &[&str]) -> String {
    let args = [&["add", "--title", title, "--agent", "a"], more].concat();
    yard.json(&args)["id"].as_str().unwrap().to_owned()
}

fn until_runs(yard: &Yard, task: &str, count: usize, state: &str) -> Value {
    until(&format!("{count} runs and {state}"), BOUND_MS, || {
        let sheet = yard.json(&["show", task]);
        let runs = sheet["runs"].as_array().unwrap().len();
        (runs == count && sheet["state"] == state).then_some(sheet)
    })
}

#[test]
fn retry_and_reopen_resume_the_last_good_conversation() {
    let (mut yard, log) = yard(&json!({ "adapter": "mine" }));
    let work = yard.ostler.instance.work().display().to_string();
    yard.serve();
    let task = added(&yard, "dig a hole", &["--cwd", &work]);
    yard.until_is(&task, "review");
    // The second run crashes in its first turn, and the third goes on where the first was.
    how(&log, "crash");
    yard.json(&["reject", &task, "deeper"]);
    until_runs(&yard, &task, 3, "review");
    let expected = [("", "dig a hole"), ("--resume s-1", "deeper"), ("--resume s-1", "deeper")];
    assert_eq!(starts(&log), expected.map(|(args, asked)| (args.to_owned(), asked.to_owned())));

    // And one that failed goes on when it is opened again.
    how(&log, "fail");
    yard.json(&["reject", &task, "wider"]);
    until_runs(&yard, &task, 4, "failed");
    yard.json(&["reopen", &task]);
    until_runs(&yard, &task, 5, "review");
    assert_eq!(last(&log), ("--resume s-1".to_owned(), "wider".to_owned()));
    let reasons = std::fs::read_to_string(&log).unwrap();
    let reasons: Vec<_> =
        reasons.lines().map(|line| line.split('|').next().unwrap().to_owned()).collect();
    assert_eq!(reasons, ["task", "rejected", "retry", "rejected", "reopened"]);
}

#[test]
fn retry_and_reopen_without_a_conversation_hand_over() {
    let (mut yard, log) = yard(&json!({ "adapter": "mine" }));
    let work = yard.ostler.instance.work().display().to_string();
    yard.serve();
    how(&log, "crash");
    let task = added(&yard, "dig a hole", &["--cwd", &work, "--review", "none"]);
    yard.until_is(&task, "done");
    let (args, prompt) = last(&log);
    assert_eq!(args, "", "no turn of the first went well");
    for words in [HANDED_OVER, "I found s-1", "How it ended: process_crashed", "dig a hole"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    // It goes on in the one that went well: the task was opened again after that.
    how(&log, "fail");
    let task = added(&yard, "dig another", &["--cwd", &work, "--review", "none"]);
    yard.until_is(&task, "failed");
    yard.json(&["reopen", &task]);
    until_runs(&yard, &task, 2, "done");
    let (_, prompt) = last(&log);
    assert!(prompt.contains(HANDED_OVER) && prompt.contains("dig another"), "{prompt}");
}

#[test]
fn task_of_an_agent_that_moved_begins_afresh() {
    let (mut yard, log) = yard(&json!({ "adapter": "mine" }));
    let root = yard.ostler.instance.root().to_owned();
    let [one, two] = ["one", "two"].map(|name| {
        std::fs::create_dir(root.join(name)).unwrap();
        root.join(name).display().to_string()
    });
    let hire = ["agents", "hire", "scout", "--adapter", "mine", "--cwd", &one];
    let hired = yard.ostler.says(&hire);
    assert_eq!(hired.code, 0, "{hired:?}");
    yard.serve();
    let task = yard.json(&["add", "--title", "dig", "--agent", "scout"])["id"].clone();
    let task = task.as_str().unwrap();
    yard.until_is(task, "review");
    let edited: Said = yard.ostler.says(&["agents", "edit", "scout", "--cwd", &two]);
    assert_eq!(edited.code, 0, "{edited:?}");
    yard.json(&["reject", task, "deeper"]);
    until_runs(&yard, task, 2, "review");
    let (args, prompt) = last(&log);
    assert_eq!(args, "", "{prompt}");
    for words in [HANDED_OVER, "I found s-1", "deeper"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
}

#[test]
fn comments_on_a_task_in_review_or_failed_wake_its_agent_once() {
    let (mut yard, log) = yard(&json!({ "adapter": "mine" }));
    let work = yard.ostler.instance.work().display().to_string();
    yard.serve();
    let task = added(&yard, "dig a hole", &["--cwd", &work]);
    yard.until_is(&task, "review");
    assert_eq!(yard.ostler.says(&["agents", "pause", "a"]).code, 0);
    for text in ["mind the roots", "and the pipes", "there is a mole"] {
        yard.json(&["comment", &task, text]);
    }
    // A word to people alone, or to another agent, is none to it; here there is no other.
    assert_eq!(yard.ostler.says(&["agents", "resume", "a"]).code, 0);
    let sheet = until_runs(&yard, &task, 2, "review");
    assert_eq!(sheet["generation"], 1, "{sheet}");
    let (args, prompt) = last(&log);
    assert_eq!(args, "--resume s-1", "{prompt}");
    for words in ["mind the roots", "and the pipes", "there is a mole"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    how(&log, "fail");
    yard.json(&["reject", &task, "deeper"]);
    until_runs(&yard, &task, 3, "failed");
    yard.json(&["comment", &task, "try the other spade"]);
    until_runs(&yard, &task, 4, "review");
    assert_eq!(last(&log), ("--resume s-1".to_owned(), "try the other spade".to_owned()));
    yard.json(&["approve", &task]);
    yard.json(&["comment", &task, "well done"]);
    assert_eq!(yard.json(&["show", &task])["state"], "done");
    let reasons = std::fs::read_to_string(&log).unwrap();
    let reasons: Vec<_> =
        reasons.lines().map(|line| line.split('|').next().unwrap().to_owned()).collect();
    assert_eq!(reasons, ["task", "comment", "rejected", "comment"]);
}

fn page(name: &str) -> String {
    format!("{}/../../docs/protocols/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The conversation that a run's agent named.
fn named(events: &[Value]) -> String {
    let session = events.iter().find(|event| event["kind"] == "session").expect("a session");
    session["native_session"].as_str().unwrap().to_owned()
}

fn answer(events: &[Value]) -> String {
    crate::ostler::result(events)["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn process_agent_that_names_its_conversation_is_resumed() {
    let ostler = Ostler::new();
    let agent = format!("python3 {}", page("agent.py"));
    let run = |words: &str, more: &[&str]| {
        let args = [&["run", "--process", &agent, words, "--json"], more].concat();
        let said = ostler.says(&args);
        assert_eq!(said.code, 0, "{said:#?}");
        said.events()
    };
    let first = run("first words", &[]);
    assert!(!answer(&first).contains("Before that"), "{first:#?}");
    let second = run("second words", &["--continue"]);
    assert!(answer(&second).ends_with("Before that you said 'first words'."), "{second:#?}");
    assert_eq!(named(&first), named(&second));
    let third = run("third words", &["--resume", run_of(&first)]);
    assert!(answer(&third).ends_with("Before that you said 'second words'."), "{third:#?}");

    // It lost what it knew: the same run begins afresh, and is told what is known here.
    let kept = ostler.instance.root().join("home/.agent.py");
    std::fs::remove_file(kept.join(format!("{}.json", named(&first)))).unwrap();
    let fourth = run("fourth words", &["--continue"]);
    let told = answer(&fourth);
    for words in [HANDED_OVER, "third words", "fourth words"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_ne!(named(&fourth), named(&first));
}

#[test]
fn process_agent_that_names_nothing_cannot_be_resumed() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 1");
    assert_eq!(ostler.says(&["run", "--process", &agent, "x", "--quiet"]).code, 0);
    let said = ostler.says(&["run", "--process", &agent, "x", "--continue"]);
    assert_eq!(said.code, 3, "{said:#?}");
    assert!(said.stderr.contains("named no conversation"), "{said:#?}");
    assert!(said.stderr.contains("in its hello"), "{said:#?}");
}

/// The remote of the docs, in the background.
struct Far(crate::ostler::Running, String);

impl Far {
    fn start(ostler: &Ostler) -> Self {
        let mut command = ostler.instance.command("python3");
        let mut far =
            crate::ostler::Running::of(command.arg(page("remote.py")).env("REMOTE_PORT", "0"));
        let line = far.line();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self(far, url)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
    }
}

#[test]
fn remote_that_says_so_is_resumed() {
    let ostler = Ostler::new();
    let far = Far::start(&ostler);
    let config = json!({ "adapters": { "far": {
        "type": "http", "baseUrl": far.1, "auth": { "type": "none" },
    } } });
    ostler.instance.write_config(&config.to_string());
    let run = |words: &str, more: &[&str]| {
        let said = ostler.says(&[&["run", "far", words, "--json"], more].concat());
        assert_eq!(said.code, 0, "{said:#?}");
        said.events()
    };
    let first = run("first words", &[]);
    let second = run("second words", &["--continue"]);
    assert!(answer(&second).ends_with("Before that you said 'first words'."), "{second:#?}");
    let session = second.iter().find(|event| event["kind"] == "session").unwrap();
    assert_eq!(session["resumed"], true, "{session}");

    // Another remote at the same name knows nothing of it.
    drop(far);
    let far = Far::start(&ostler);
    let mut config = config;
    config["adapters"]["far"]["baseUrl"] = json!(far.1);
    ostler.instance.write_config(&config.to_string());
    let third = run("third words", &["--resume", run_of(&second)]);
    let told = answer(&third);
    for words in [HANDED_OVER, "second words", "third words"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let again = run("fourth words", &["--resume", run_of(&second)]);
    assert_eq!(warned(&again, "no longer knows the conversation"), 1, "{again:#?}");
    let of_first = run("fifth words", &["--resume", run_of(&first)]);
    assert!(answer(&of_first).contains(HANDED_OVER), "{of_first:#?}");
}

#[test]
fn remote_session_is_resumed_in_its_own_directory() {
    let there = Ostler::new();
    let log = there.instance.root().join("log");
    let mine = adapter(there.instance.root(), &log);
    there.instance.write_config(&json!({ "adapters": { "mine": mine } }).to_string());
    let args = ["remote", "--agent", "mine", "--listen", "127.0.0.1:0", "--no-auth"];
    let remote = crate::remote_caller::Remote::with(&there, &args);
    let here = Ostler::new();
    let run = |words: &str, more: &[&str]| {
        let args = [&["run", "--http", &remote.url, words, "--json"], more].concat();
        let said = here.says(&args);
        assert_eq!(said.code, 0, "{said:#?}");
        said.events()
    };
    let first = run("first words", &[]);
    let second = run("second words", &["--continue"]);
    assert_eq!(last(&log), ("--resume s-1".to_owned(), "second words".to_owned()), "{second:#?}");
    let third = run("third words", &["--continue"]);
    assert_eq!(last(&log).0, "--resume s-1", "{third:#?}");
    assert_ne!(named(&first), named(&second), "each session has an id of its own");

    // Runs that the owner of that machine started are nobody else's.
    let own = there.says(&["run", "mine", "own words", "--json", "--cwd", "/"]);
    let own = own.events();
    let body = |session: &str| json!({ "runId": session, "prompt": "x", "sessionResume": session });
    for session in [run_of(&own), "nobody", "run_00000000000000000000000000000001"] {
        let answered = post(&remote.url, &body(session));
        assert_eq!(answered.0, 409, "{answered:?}");
        assert_eq!(answered.1["code"], "native_session_unknown", "{answered:?}");
    }
}

/// Asks for a session.
fn post(url: &str, body: &Value) -> (u16, Value) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let request = reqwest::Client::new().post(format!("{url}/v1/sessions")).json(body);
        let sent = request.send().await.unwrap();
        (sent.status().as_u16(), sent.json().await.unwrap())
    })
}
