//! A recording made by `ostler record`, as the harness of runtimes reads it.

use crate::ostler::{Ostler, Said};
use std::io::Write as _;
use std::process::Stdio;
use testkit::recorded::Recording;

#[test]
fn a_recording_holds_what_was_said_without_the_secrets_that_were_given() {
    let ostler = Ostler::new();
    let out = ostler.instance.root().join("recordings");
    // Among plain words, so that nothing but the value itself tells that it is a secret.
    let secret = "ruby-4f9a77-otter-lake";
    let script = "read line; echo \"{\\\"heard\\\":\\\"$line\\\",\\\"said\\\":\\\"it is $MY_API_KEY\\\"}\"; \
                  echo warm $MY_API_KEY >&2; printf 'cut'; exit 3";
    let mut command = ostler.command(&[
        "record",
        "--out",
        &out.display().to_string(),
        "--name",
        "hello",
        "--",
        "sh",
        "-c",
        script,
    ]);
    command.env("MY_API_KEY", secret).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("a prompt about {secret}\n").as_bytes()).unwrap();
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");

    let recording = Recording::read(&out, "hello");
    assert_eq!((recording.exit_code, recording.ended_by_us), (Some(3), false));
    let lines: Vec<_> =
        recording.stdout.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("a prompt") && !lines[0].contains("4f9a77"), "{lines:?}");
    assert_eq!(lines[1], "cut");
    assert!(recording.stderr[0].starts_with(b"warm "), "{recording:?}");
    for file in ostler.files() {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("4f9a77"), "{}", file.display());
    }
    let again = ostler.says(&[
        "record",
        "--out",
        &out.display().to_string(),
        "--name",
        "hello",
        "--",
        "true",
    ]);
    assert_eq!(again.code, 13, "nothing is written over: {again:?}");
}

#[test]
fn a_command_that_does_not_end_is_ended_and_its_recording_says_so() {
    let ostler = Ostler::new();
    let out = ostler.instance.root().join("r");
    let said = ostler.says(&[
        "record",
        "--out",
        &out.display().to_string(),
        "--timeout",
        "1s",
        "--",
        "sh",
        "-c",
        "echo begun; exec sleep 600",
    ]);
    assert_eq!(said.code, 0, "{said:?}");
    let recording = Recording::read(&out, "recording");
    assert!(recording.ended_by_us && recording.signal.is_some(), "{recording:?}");
    assert_eq!(recording.stdout, [b"begun".to_vec()]);
    let nowhere = ostler.says(&[
        "record",
        "--out",
        &out.display().to_string(),
        "--name",
        "x",
        "--",
        "/nowhere/cli",
    ]);
    assert_eq!(nowhere.code, 4, "{nowhere:?}");
}
