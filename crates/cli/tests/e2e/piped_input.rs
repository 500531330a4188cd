//! Standard input beside a prompt, in every form that a shell, CI or another program gives it; and
//! prompts that are not quoted or name no agent.

use crate::ostler::{Ostler, Running, Said};
use contract::limits::PROMPT_BYTES_MAX;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

/// The prompt that the agent got.
fn prompt(said: &Said) -> String {
    let events = said.events();
    assert_eq!(said.code, 0, "{said:?}");
    events[0]["text"].as_str().expect("the first event is the prompt").to_owned()
}

/// Runs a command with these bytes in a pipe.
fn piped(command: &mut Command, bytes: &[u8]) -> Said {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ostler starts");
    // A program that refuses its input early closes the pipe.
    let _ = child.stdin.take().expect("piped").write_all(bytes);
    Said::from(child.wait_with_output().expect("ostler ends"))
}

#[test]
fn piped_input_is_appended_to_the_prompt() {
    let ostler = Ostler::new();
    let args = ["run", "demo", "review", "--json"];
    let expected = "review\n\nStandard input:\n\n```\n+added\n```\n";
    assert_eq!(prompt(&piped(&mut ostler.command(&args), b"+added\n")), expected);
    let path = ostler.instance.work().join("change.diff");
    std::fs::write(&path, "+added\n").unwrap();
    let said = ostler.command(&args).stdin(File::open(&path).unwrap()).output().unwrap();
    assert_eq!(prompt(&Said::from(said)), expected, "a file is read like a pipe");
}

#[test]
fn input_without_content_adds_nothing() {
    let ostler = Ostler::new();
    let args = ["run", "demo", "review", "--json"];
    assert_eq!(prompt(&ostler.says(&args)), "review", "/dev/null");
    assert_eq!(prompt(&piped(&mut ostler.command(&args), b"")), "review", "an empty pipe");
    let mut closed = ostler.instance.command("sh");
    closed.args(["-c", "exec \"$0\" run demo review --json <&-"]).arg(crate::ostler::program());
    assert_eq!(prompt(&Said::from(closed.output().unwrap())), "review", "closed");
}

#[test]
fn an_idle_pipe_is_not_waited_for_without_end() {
    let ostler = Ostler::new();
    let mut command = ostler.command(&["run", "demo", "review", "--json"]);
    command.stdin(Stdio::piped());
    let mut run = Running::of(&mut command);
    // Held open and never written to, as by a program that started this one.
    let idle = run.child.stdin.take();
    let said = run.finish();
    drop(idle);
    assert_eq!(prompt(&said), "review");
    assert!(said.stderr.contains("no input came on standard input within 10 s"), "{said:?}");
    assert!(said.stderr.contains("< /dev/null"), "{said:?}");
}

#[test]
fn a_slow_program_of_a_pipeline_is_waited_for() {
    let ostler = Ostler::new();
    let mut shell = ostler.instance.command("sh");
    // Later than the limit for a pipe that only an ancestor holds.
    let line = "(sleep 11; echo LATE) | \"$0\" run demo review --json";
    shell.args(["-c", line]).arg(crate::ostler::program());
    let said = Said::from(shell.output().unwrap());
    assert!(prompt(&said).contains("LATE"), "{said:?}");
    assert!(said.stderr.contains("waiting for standard input"), "{said:?}");
}

#[test]
fn input_that_does_not_end_is_told() {
    let ostler = Ostler::new();
    let mut command = ostler.command(&["run", "demo", "review", "--json"]);
    command.stdin(Stdio::piped());
    let mut run = Running::of(&mut command);
    let mut input = run.child.stdin.take().expect("piped");
    input.write_all(b"+a").expect("it reads");
    let mut told = String::new();
    let mut stderr = BufReader::new(run.child.stderr.take().expect("piped"));
    stderr.read_line(&mut told).expect("text");
    assert!(told.contains("waiting for the end of standard input (2 bytes so far)"), "{told}");
    drop(input);
    assert!(prompt(&run.finish()).contains("+a"));
}

#[test]
fn input_that_is_no_text_or_too_large_is_refused() {
    let ostler = Ostler::new();
    let args = ["run", "demo", "review"];
    let said = piped(&mut ostler.command(&args), b"ok\xff\xfe");
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.complaint().contains("not UTF-8 text (at byte 2)"), "{said:?}");
    let large = vec![b'x'; PROMPT_BYTES_MAX + 1];
    let path = ostler.instance.work().join("large.txt");
    std::fs::write(&path, &large).unwrap();
    let said = ostler.command(&args).stdin(File::open(&path).unwrap()).output().unwrap();
    let said = Said::from(said);
    assert_eq!(said.code, 2, "{said:?}");
    for part in ["too_large", &large.len().to_string(), &PROMPT_BYTES_MAX.to_string()] {
        assert!(said.complaint().contains(part), "{part}: {said:?}");
    }
    let said = piped(&mut ostler.command(&args), &large);
    assert!(said.code == 2 && said.complaint().contains("too_large"), "{said:?}");
}

#[test]
fn words_without_quotes_are_joined() {
    let ostler = Ostler::new();
    let said = ostler.says(&["run", "demo", "fix", "the", "bug", "--json"]);
    assert_eq!(prompt(&said), "fix the bug");
}

#[test]
fn a_prompt_alone_goes_to_the_default_agent() {
    let ostler = Ostler::new();
    ostler.instance.write_config(r#"{ "defaultAgent": "demo" }"#);
    let said = ostler.says(&["run", "fix the bug", "--json"]);
    assert_eq!(prompt(&said), "fix the bug");
    let said = ostler.says(&["run", "fix", "the", "bug", "--json"]);
    assert_eq!(prompt(&said), "fix the bug", "the first word resembles no agent");
    assert!(said.stderr.contains("no agent is called 'fix'"), "{said:?}");
    let said = ostler.says(&["run", "cluade", "the", "bug"]);
    assert_eq!(said.code, 3, "a misspelt agent is no prompt: {said:?}");
    assert!(said.stderr.contains("did you mean 'claude'"), "{said:?}");
    let said = ostler.says(&["run", "fix"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stderr.contains("ostler run AGENT \"fix\""), "{said:?}");
    ostler.instance.write_config(r#"{ "defaultAgent": "nobody" }"#);
    let said = ostler.says(&["run", "fix the bug"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stderr.contains("fix `defaultAgent` in /"), "{said:?}");
}

#[test]
fn an_ostler_json_in_the_directory_is_explained() {
    let ostler = Ostler::new();
    let path = ostler.instance.work().join("ostler.json");
    let agent = testkit::fake_agent();
    let config =
        serde_json::json!({ "adapters": { "mine": { "type": "process", "binary": agent } } });
    std::fs::write(&path, config.to_string()).unwrap();
    let mut command = ostler.command(&["run", "mine", "hello"]);
    let said = Said::from(command.current_dir(ostler.instance.work()).output().unwrap());
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stderr.contains("never read from the current directory"), "{said:?}");
    assert!(said.stderr.contains("--config ./ostler.json"), "{said:?}");
}
