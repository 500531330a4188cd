//! The judge of agents, on good ones and on bad ones: what it says of each is the specification.

use crate::ostler::{Ostler, program};
use serde_json::Value;
use std::path::Path;

/// What the judge says besides that all is well, with its exit status.
fn verdict(ostler: &Ostler, command: &[&str]) -> String {
    let mut args = vec!["conformance", "process", "--json", "--patience", "8s", "--"];
    args.extend(command);
    let said = ostler.says(&args);
    let report: Value =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:#?}"));
    let mut text = format!("exit {}, ok {}\n", said.code, report["ok"]);
    for point in report["points"].as_array().unwrap() {
        if point["verdict"] == "pass" {
            continue;
        }
        let field = |name: &str| match &point[name] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.push_str(&format!(
            "{} {} {}:{} {}\n",
            field("verdict"),
            field("id"),
            field("scene"),
            field("line"),
            field("why")
        ));
    }
    text
}

/// Nothing of a judged agent is left: no process, no file.
fn assert_swept(ostler: &Ostler) {
    assert_eq!(testkit::find_marked(&ostler.instance.mark()), []);
    let left: Vec<_> =
        std::fs::read_dir(ostler.instance.root().join("tmp")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!ostler.instance.data().exists(), "a judge needs no store");
}

#[test]
fn the_demo_agent_conforms() {
    let ostler = Ostler::new();
    let own = program().display().to_string();
    insta::assert_snapshot!(verdict(&ostler, &[&own, "demo-agent"]), @"exit 0, ok true");
    assert_swept(&ostler);
}

#[test]
fn the_agents_of_the_pages_conform() {
    let ostler = Ostler::new();
    let tree = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let ours = tree.join("docs/protocols/agent.py").display().to_string();
    insta::assert_snapshot!(verdict(&ostler, &["python3", &ours]), @"
    exit 0, ok true
    not_seen hears.spoken -:- no hello accepts a message or an interrupt
    ");
    let wrap = tree.join("docs/protocols/wrap.py").display().to_string();
    insta::assert_snapshot!(verdict(&ostler, &["python3", &wrap, "--", "cat"]), @"
    exit 0, ok true
    not_seen costs -:- it reported no cost
    not_seen hears.spoken -:- no hello accepts a message or an interrupt
    ");
    let printed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/printed_agent.py");
    insta::assert_snapshot!(verdict(&ostler, &["python3", printed]), @"
    exit 0, ok true
    fail hears.refused refused:- it exited with 1
    not_seen hears.spoken -:- no hello accepts a message or an interrupt
    ");
    assert_swept(&ostler);
}

#[test]
fn every_bad_manner_is_named_with_its_line() {
    let ostler = Ostler::new();
    let fake = testkit::fake_agent().display().to_string();
    let command =
        [&fake, "--garbage", "--unknown-tool", "--exit", "3", "--no-final-newline", "--cost"];
    let command: Vec<&str> = command.into_iter().chain([r#"{"usd":-1}"#]).collect();
    insta::assert_snapshot!(verdict(&ostler, &command));
    assert_swept(&ostler);
}

#[test]
fn output_that_is_stuck_in_a_buffer_is_found() {
    let ostler = Ostler::new();
    let path = ostler.instance.work().join("buffered.py");
    // Output into a pipe is buffered as a whole unless someone flushes it.
    let script = "import sys\nprint('{\"type\":\"tool_call\",\"id\":\"1\",\"tool\":\"read_task\"}')\nsys.stdin.readline()\n";
    std::fs::write(&path, script).unwrap();
    let said = verdict(&ostler, &["python3", "buffered.py"]);
    assert!(said.starts_with("exit 15"), "{said}");
    assert!(said.contains("fail lines.flush plain:1"), "{said}");
}

#[test]
fn an_agent_that_does_not_leave_is_named_and_ended() {
    let ostler = Ostler::new();
    let fake = testkit::fake_agent().display().to_string();
    let command = [&fake, "--never-read-stdin", "--setsid-child", "--wait-shutdown"];
    insta::assert_snapshot!(verdict(&ostler, &command));
    assert_swept(&ostler);
}

#[test]
fn what_cannot_be_started_is_said_to_people_too() {
    let ostler = Ostler::new();
    let said = ostler.says(&["conformance", "process", "--", "no-such-agent"]);
    assert_eq!(said.code, 15, "{said:?}");
    assert!(said.stdout.starts_with("✗ starts"), "{}", said.stdout);
    assert!(said.stdout.contains("no-such-agent"), "{}", said.stdout);
    let usage = ostler.says(&["conformance", "process"]);
    assert_eq!(usage.code, 2, "{usage:?}");
}
