//! The judge of agents, on good ones and on bad ones: what it says of each is the specification.

use crate::ostler::{Ostler, Said, program};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::Stdio;

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
    insta::assert_snapshot!(verdict(&ostler, &[&own, "demo-agent"]), @"
    exit 0, ok true
    not_seen hears.resume -:- no hello accepts to be resumed
    ");
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
    not_seen hears.resume -:- no hello accepts to be resumed
    ");
    let printed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/printed_agent.py");
    insta::assert_snapshot!(verdict(&ostler, &["python3", printed]), @"
    exit 0, ok true
    fail hears.refused refused:- it exited with 1
    not_seen hears.spoken -:- no hello accepts a message or an interrupt
    not_seen hears.resume -:- no hello accepts to be resumed
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

/// The scenes that were played, as people are told.
fn scenes(said: &Said) -> usize {
    said.stderr.lines().filter(|line| line.starts_with("playing the scene ")).count()
}

#[test]
fn points_appear_as_scenes_end() {
    let ostler = Ostler::new();
    let script = "import time\ntime.sleep(0.5)\nprint('{\"type\":\"complete\"}', flush=True)\n";
    std::fs::write(ostler.instance.work().join("slow.py"), script).unwrap();
    let mut command = ostler.command(&["conformance", "process", "--", "python3", "slow.py"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut judging = command.spawn().unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(judging.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    assert!(first.starts_with("✓ starts"), "{first}");
    assert!(judging.try_wait().unwrap().is_none(), "other scenes are still to be played");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(judging.wait().unwrap().code(), Some(0), "{rest}");
    assert!(
        rest.contains("\nOstler can run it: yes\nit follows the specification: yes\n"),
        "{rest}"
    );
}

#[test]
fn prose_ends_judging_after_one_scene() {
    let ostler = Ostler::new();
    std::fs::write(ostler.instance.work().join("prose.py"), "print('hello world')\n").unwrap();
    let said = ostler.says(&["conformance", "process", "--", "python3", "prose.py"]);
    assert_eq!((said.code, scenes(&said)), (15, 1), "{said:?}");
    assert!(said.stdout.contains("it is not JSON: write logs to stderr"), "{}", said.stdout);
    let cut = "points were not tested: no line of its output is a JSON object";
    assert!(said.stdout.contains(cut), "{}", said.stdout);
    assert!(said.stdout.contains("Ostler can run it: no (end.said)"), "{}", said.stdout);
    assert!(said.stdout.lines().count() < 15, "{}", said.stdout);
}

#[test]
fn an_agent_that_breaks_the_specification_can_run() {
    let ostler = Ostler::new();
    let script = "print('{\"type\":\"progres\"}')\nprint('{\"type\":\"complete\"}')\n";
    std::fs::write(ostler.instance.work().join("typo.py"), script).unwrap();
    let said = ostler.says(&["conformance", "process", "--", "python3", "typo.py"]);
    assert_eq!(said.code, 15, "{said:?}");
    let meant = "the protocol has no type 'progres'; did you mean 'progress'?";
    assert!(said.stdout.contains(meant), "{}", said.stdout);
    let verdict = "Ostler can run it: yes\nit follows the specification: no (lines.types)";
    assert!(said.stdout.contains(verdict), "{}", said.stdout);
}

#[test]
fn what_cannot_be_started_is_said_to_people_too() {
    let ostler = Ostler::new();
    let said = ostler.says(&["conformance", "process", "--", "no-such-agent"]);
    assert_eq!(said.code, 15, "{said:?}");
    assert!(said.stdout.starts_with("✗ starts"), "{}", said.stdout);
    assert!(said.stdout.contains("no-such-agent"), "{}", said.stdout);
    assert_eq!(scenes(&said), 1, "{}", said.stderr);
    assert!(said.stdout.contains("were not tested: it could not be started"), "{}", said.stdout);
    let usage = ostler.says(&["conformance", "process"]);
    assert_eq!(usage.code, 2, "{usage:?}");
}
