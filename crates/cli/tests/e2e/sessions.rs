//! Conversations over several runs, and what an account's limits look like to a person: agents here
//! are recordings of real ones, behind a script that notes how it was started.

use crate::ostler::{Ostler, Said, result};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::mpsc;

/// A token without any shape that gives it away.
const TOKEN: &str = "mauve-walrus-7f3a91c2e5d84b60";

/// A script that does this and then plays the recording of a runtime.
fn agent(ostler: &Ostler, runtime: &str, recording: &str, first: &str) -> String {
    let again =
        format!("{}/../runtimes/src/{runtime}/recordings/{recording}", env!("CARGO_MANIFEST_DIR"));
    let path = ostler.instance.root().join(format!("{runtime}-{recording}.sh"));
    let fake = testkit::fake_agent();
    let text = format!("#!/bin/sh\n{first}\nexec {} --again {again}\n", fake.display());
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn configure(ostler: &Ostler, runtime: &str, binary: &str, more: Value) {
    let mut adapter = json!({
        "type": "cli", "runtime": runtime, "binary": binary, "permission": "allow-all",
    });
    adapter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ostler.instance.write_config(&json!({ "adapters": { "mine": adapter } }).to_string());
}

fn noted(ostler: &Ostler, name: &str) -> String {
    std::fs::read_to_string(ostler.instance.root().join(name)).unwrap_or_default()
}

fn went_well(said: &Said) -> Vec<Value> {
    assert_eq!(said.code, 0, "{said:#?}");
    said.events()
}

#[test]
fn a_conversation_that_is_worn_out_is_begun_afresh_with_a_hand_over() {
    let ostler = Ostler::new();
    let root = ostler.instance.root().display().to_string();
    let note = format!("echo \"$*\" >> {root}/argv; cat > {root}/prompt; exec < /dev/null");
    let binary = agent(&ostler, "gemini", "hello", &note);
    configure(&ostler, "gemini", &binary, json!({ "rotation": { "runs": 2 } }));
    let takes_up = |line: &str| line.contains("--resume c79e6605-3604-4b41-8d8c-30d71db795ac");

    went_well(&ostler.says(&["run", "mine", "first words", "--json"]));
    let second = went_well(&ostler.says(&["run", "mine", "second words", "--continue", "--json"]));
    let third = went_well(&ostler.says(&["run", "mine", "third words", "--continue", "--json"]));
    let argv = noted(&ostler, "argv");
    let taken: Vec<bool> = argv.lines().map(takes_up).collect();
    assert_eq!(taken, [false, true, false], "{argv}");
    let prompt = noted(&ostler, "prompt");
    for words in ["second words", "Hello from the fake model.", "third words"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    let said = |events: &[Value]| {
        let logs = events.iter().filter(|event| event["kind"] == "log");
        logs.filter(|log| log["text"].as_str().unwrap().contains("its limit of 2 runs")).count()
    };
    assert_eq!((said(&second), said(&third)), (0, 1), "{third:#?}");

    // Who names a run means its conversation, however long it has become.
    let id = second[0]["run_id"].as_str().unwrap();
    went_well(&ostler.says(&["run", "mine", "fourth words", "--resume", id, "--json"]));
    assert!(takes_up(noted(&ostler, "argv").lines().last().unwrap()));
}

#[test]
fn a_conversation_whose_name_is_a_secret_is_kept_without_it() {
    const NAME: &str = "c79e6605-3604-4b41-8d8c-30d71db795ac";
    let ostler = Ostler::new();
    let binary = agent(&ostler, "gemini", "hello", "exec < /dev/null");
    configure(&ostler, "gemini", &binary, json!({ "env": { "NAME": "${NAME}" } }));
    let mut run = ostler.command(&["run", "mine", "hello", "--json"]);
    let events = went_well(&Said::from(run.env("NAME", NAME).output().unwrap()));
    let session = events.iter().find(|event| event["kind"] == "session").unwrap();
    assert_eq!(session["native_session"], "[redacted:NAME]");
    let data = ostler.instance.data();
    let kept: Vec<_> = ostler.files().into_iter().filter(|path| path.starts_with(&data)).collect();
    assert!(kept.iter().any(|path| path.ends_with("ostler.db")), "{kept:?}");
    for path in kept {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes.windows(NAME.len()).any(|bytes| bytes == NAME.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[test]
fn when_a_quota_resets_is_shown_with_the_end_of_its_run() {
    let ostler = Ostler::new();
    let binary = agent(&ostler, "claude", "usage_limit", "");
    configure(&ostler, "claude", &binary, json!({}));
    let said = ostler.says(&["run", "mine", "x", "--json"]);
    assert_eq!(said.code, 6, "{said:#?}");
    let events = said.events();
    let message = result(&events)["message"].as_str().unwrap();
    assert!(message.ends_with("; it resets at 2026-11-15T20:11:28.000Z"), "{message}");
    let shown = ostler.says(&["show", events[0]["run_id"].as_str().unwrap()]);
    // Long lines are broken between words.
    let shown = format!("{}{}", shown.stdout, shown.stderr);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // By the clock of the reader, not in UTC.
    assert!(shown.contains("it resets at ") && !shown.contains("000Z"), "{shown}");
}

#[test]
fn who_wants_no_quota_kept_is_shown_the_end_of_its_run_and_nothing_else_of_the_account() {
    let told = |source: &str| {
        // Each has a house of its own: an answer like this keeps the account closed for a while.
        let ostler = Ostler::new();
        let binary = agent(&ostler, "claude", "usage_limit", "");
        configure(&ostler, "claude", &binary, json!({ "quota": { "source": source } }));
        let said = ostler.says(&["run", "mine", "x", "--json"]);
        assert_eq!(said.code, 6, "{said:#?}");
        let events = said.events();
        let message = result(&events)["message"].as_str().unwrap();
        assert!(message.ends_with("; it resets at 2026-11-15T20:11:28.000Z"), "{message}");
        events.iter().filter(|event| event["kind"] == "quota").count()
    };
    assert_eq!((told("auto"), told("off")), (1, 0));
}

#[test]
fn a_conversation_that_is_taken_up_with_other_skills_says_so_once() {
    let ostler = Ostler::new();
    let binary = agent(&ostler, "gemini", "hello", "cat > /dev/null; exec < /dev/null");
    let run = |skills: Value, flags: &[&str]| {
        configure(&ostler, "gemini", &binary, json!({ "skills": skills }));
        let words = ["run", "mine", "some words", "--json"];
        let events = went_well(&ostler.says(&[&words, flags].concat()));
        let logs = events.iter().filter(|event| event["kind"] == "log");
        let texts = logs.filter_map(|log| log["text"].as_str());
        let warned: Vec<String> = texts
            .filter(|text| text.starts_with("the skills of the conversation have changed"))
            .map(str::to_owned)
            .collect();
        warned
    };
    let shipped = json!(["using-ostler", { "name": "hiring-an-agent", "always": true }]);
    assert_eq!(run(shipped.clone(), &[]), [""; 0], "nothing is taken up");
    assert_eq!(run(shipped, &["--continue"]), [""; 0], "they are the same");
    let changed = run(json!(["using-ostler"]), &["--continue"]);
    let words = "the skills of the conversation have changed: ";
    assert_eq!(changed, [format!("{words}hiring-an-agent, using-ostler then, using-ostler now")]);
    assert_eq!(run(json!(["using-ostler"]), &["--continue"]), [""; 0]);
    assert_eq!(run(json!([]), &["--continue"]), [format!("{words}using-ostler then, none now")]);
}

/// A usage endpoint for a few questions; what it was asked comes by the channel.
fn endpoint(answer: &'static str, questions: usize) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/api/oauth/usage", listener.local_addr().unwrap());
    let (heard, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(questions) {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> =
                lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            heard.send(head.join("\n")).unwrap();
            let length = answer.split("\r\n\r\n").nth(1).unwrap().len();
            let _ = stream.write_all(answer.replacen("LENGTH", &length.to_string(), 1).as_bytes());
        }
    });
    (url, asked)
}

const STANDS: &str = "HTTP/1.1 200 OK\r\ncontent-length: LENGTH\r\nconnection: close\r\n\r\n\
    {\"five_hour\":{\"utilization\":37.0,\"resets_at\":\"2026-11-16T12:00:00+00:00\"}}";
const REFUSES: &str =
    "HTTP/1.1 429 Too Many\r\ncontent-length: LENGTH\r\nconnection: close\r\n\r\n{}";

/// An agent that prints its own login, with a home that holds one.
fn tells_its_login(ostler: &Ostler) {
    let home = ostler.instance.root().join("home/.claude");
    std::fs::create_dir_all(&home).unwrap();
    let login = json!({ "claudeAiOauth": { "accessToken": TOKEN, "expiresAt": 1 } }).to_string();
    std::fs::write(home.join(".credentials.json"), login).unwrap();
    // Bare, without the name beside it by which any token would be known.
    let tells = r#"sed 's/.*accessToken":"//; s/".*//' "$HOME/.claude/.credentials.json" >&2"#;
    let binary = agent(ostler, "claude", "hello", tells);
    configure(
        ostler,
        "claude",
        &binary,
        json!({ "quota": { "source": "oauth" }, "account": "work" }),
    );
}

fn run_with(ostler: &Ostler, url: &str) -> Vec<Value> {
    let mut command = ostler.command(&["run", "mine", "x", "--json"]);
    let said = Said::from(command.env("OSTLER_USAGE_URL", url).output().unwrap());
    assert!(!said.stdout.contains(TOKEN) && !said.stderr.contains(TOKEN), "{said:#?}");
    went_well(&said)
}

fn assert_kept_nowhere(ostler: &Ostler) {
    let login = PathBuf::from("home/.claude");
    let mut looked = 0;
    for file in ostler.files() {
        if !file.starts_with(ostler.instance.root().join(&login)) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            let found = bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
            assert!(!found, "the token is in {}", file.display());
            looked += 1;
        }
    }
    assert!(looked > 3, "{looked} files were looked at");
}

#[test]
fn an_account_is_asked_for_its_quota_once_in_half_an_hour_and_its_token_kept_nowhere() {
    let ostler = Ostler::new();
    tells_its_login(&ostler);
    let (url, asked) = endpoint(STANDS, 2);
    for _ in 0..2 {
        let events = run_with(&ostler, &url);
        let quota = events.iter().find(|event| event["kind"] == "quota").expect("a quota");
        assert_eq!(
            (&quota["origin"], &quota["account"], &quota["windows"][0]["used_percent"]),
            (&json!("ostler"), &json!("work"), &json!(37.0)),
            "{quota}"
        );
    }
    let head = asked.try_recv().expect("it was asked").to_lowercase();
    assert!(head.starts_with("get /api/oauth/usage http/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {TOKEN}")), "{head}");
    assert!(head.contains("anthropic-beta: oauth-2025-04-20"), "{head}");
    assert!(asked.try_recv().is_err(), "the second run takes what was kept");
    assert_kept_nowhere(&ostler);
}

const FULL: &str = "HTTP/1.1 200 OK\r\ncontent-length: LENGTH\r\nconnection: close\r\n\r\n\
    {\"five_hour\":{\"utilization\":100.0,\"resets_at\":\"2099-01-01T00:00:00+00:00\"}}";

#[test]
fn used_up_account_is_refused_before_the_start() {
    let ostler = Ostler::new();
    tells_its_login(&ostler);
    let (url, asked) = endpoint(FULL, 3);
    let refused = || {
        let mut command = ostler.command(&["run", "mine", "x"]);
        let said = Said::from(command.env("OSTLER_USAGE_URL", &url).output().unwrap());
        assert_eq!(said.code, 6, "{said:#?}");
        assert!(said.stderr.contains("resets at"), "{said:#?}");
    };
    refused();
    refused();
    assert_eq!(asked.try_iter().count(), 1, "a blocked account is not asked again");
    assert_eq!(ostler.says(&["runs", "--json"]).stdout.trim(), "[]", "nothing was started");
    let listed: Value = serde_json::from_str(&ostler.says(&["quotas", "--json"]).stdout).unwrap();
    let quota = &listed[0];
    assert_eq!((&quota["state"], &quota["blocked_by"]), (&json!("blocked"), &Value::Null));
    assert_eq!(quota["windows"][0]["used_percent"], 100.0, "{quota}");
    // A person's word holds until the provider is asked anew.
    assert_eq!(ostler.says(&["quotas", "clear", "claude/work"]).code, 0);
    refused();
    assert_eq!(asked.try_iter().count(), 1);
    assert_kept_nowhere(&ostler);
}

#[test]
fn fresh_quotas_ask_the_provider() {
    let ostler = Ostler::new();
    tells_its_login(&ostler);
    let fresh = |url: &str, more: &[&str]| {
        let mut command = ostler.command(&[&["quotas", "--fresh"], more].concat());
        let said = Said::from(command.env("OSTLER_USAGE_URL", url).output().unwrap());
        assert_eq!(said.code, 0, "{said:#?}");
        assert!(!said.stdout.contains(TOKEN) && !said.stderr.contains(TOKEN), "{said:#?}");
        said.stdout
    };
    let rows = |text: &str| -> Vec<Value> { serde_json::from_str(text).unwrap() };
    // A trouble is told with its account, of which nothing was known before.
    let (refuses, _asked) = endpoint(REFUSES, 1);
    let failed = rows(&fresh(&refuses, &["--json"]));
    assert_eq!((&failed[0]["scope"], &failed[0]["state"]), (&json!("claude/work"), &json!("open")));
    assert!(failed[0]["error"].as_str().unwrap().contains("429"), "{failed:?}");
    let (url, asked) = endpoint(STANDS, 2);
    for _ in 0..2 {
        let told = rows(&fresh(&url, &["--json"]));
        let row = &told[0];
        assert_eq!((&row["scope"], &row["source"]), (&json!("claude/work"), &json!("provider")));
        assert_eq!(row["windows"][0]["used_percent"], 37.0, "{row}");
        assert!(row["told_at"].is_string() && row["error"].is_null(), "{row}");
    }
    assert_eq!(asked.try_iter().count(), 1, "an account is not asked twice in a moment");
    assert!(fresh(&url, &[]).contains("37 %"), "the table has it");
    assert_kept_nowhere(&ostler);
}

#[test]
fn an_account_that_cannot_be_asked_costs_a_warning_and_no_run() {
    let ostler = Ostler::new();
    tells_its_login(&ostler);
    let (url, asked) = endpoint(REFUSES, 2);
    let warned = |events: &[Value]| {
        let logs =
            events.iter().filter(|event| event["kind"] == "log" && event["origin"] == "ostler");
        logs.filter(|log| log["text"].as_str().unwrap().contains("could not be read")).count()
    };
    let first = run_with(&ostler, &url);
    assert_eq!(warned(&first), 1, "{first:#?}");
    assert!(first.iter().all(|event| event["kind"] != "quota"));
    assert_eq!(warned(&run_with(&ostler, &url)), 0, "it is not asked again at once");
    assert_eq!(asked.try_iter().count(), 1);
    // Nothing is ever sent in the clear to another machine.
    let events = run_with(&ostler, "http://usage.example/api/oauth/usage");
    assert_eq!(warned(&events), 1, "{events:#?}");
    assert_kept_nowhere(&ostler);
}

#[test]
fn a_login_is_not_looked_at_unless_the_configuration_says_so() {
    let ostler = Ostler::new();
    let (url, asked) = endpoint(STANDS, 1);
    tells_its_login(&ostler);
    let binary = agent(&ostler, "claude", "hello", "");
    configure(&ostler, "claude", &binary, json!({ "quota": { "source": "auto" } }));
    let events = run_with(&ostler, &url);
    assert!(events.iter().all(|event| event["kind"] != "quota"));
    assert!(asked.try_recv().is_err());
}
