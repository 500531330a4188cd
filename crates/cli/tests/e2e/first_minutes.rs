//! A visitor's first five minutes: the demo, then what was kept of it.

use crate::ostler::{Ostler, Said, assert_gap_free, kinds, result};
use serde_json::{Value, json};

#[test]
fn the_demo_shows_text_thinking_tools_and_cost_with_nothing_installed() {
    let ostler = Ostler::new();
    let events = ostler.events(&["run", "demo", "hello", "--json"]);
    assert_gap_free(&events);
    let kinds = kinds(&events);
    for kind in
        ["session", "assistant_text", "thinking", "tool_use", "tool_result", "progress", "usage"]
    {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
    let result = result(&events);
    assert_eq!(
        (&result["outcome"], &result["evidence"]["end"]),
        (&"succeeded".into(), &"explicit".into())
    );
    assert!(result["totals"]["tokens"]["output"].as_u64() > Some(0), "{result}");
    assert!(result["totals"]["effective_nanousd"].as_i64() > Some(0), "{result}");
}

#[test]
fn what_was_run_is_listed_shown_replayed_and_exported_later() {
    let ostler = Ostler::new();
    let live = ostler.says(&["run", "demo", "hello"]);
    assert_eq!(live.code, 0, "{live:?}");
    let runs: Vec<Value> = serde_json::from_str(&ostler.says(&["runs", "--json"]).stdout).unwrap();
    let run = runs[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (runs.len(), &runs[0]["outcome"], &runs[0]["agent"]),
        (1, &"succeeded".into(), &"demo".into())
    );

    let tail = &run[run.len() - 8..];
    let listed = ostler.says(&["runs"]);
    assert!(listed.stdout.contains("demo") && listed.stdout.contains("hello"), "{listed:?}");

    let shown = ostler.says(&["show", tail]);
    assert_eq!((shown.code, &shown.stdout), (0, &live.stdout), "shown again as it was live");
    let replayed = ostler.says(&["replay", tail, "--speed", "0"]);
    assert_eq!(replayed.stdout, live.stdout);

    let events = ostler.events(&["show", &run, "--json"]);
    assert_gap_free(&events);
    result(&events);
    let exported = ostler.says(&["export", &run]);
    let first: Value = serde_json::from_str(exported.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["id"], run.as_str());
    assert_eq!(exported.stdout.lines().count(), events.len() + 1);
}

#[test]
fn the_words_of_the_prompt_change_what_the_demo_does() {
    let ostler = Ostler::new();
    let failed = ostler.says(&["run", "demo", "please fail", "--json"]);
    assert_eq!((failed.code, &result(&failed.events())["code"]), (9, &"agent_failed".into()));

    let tools = ostler.events(&["run", "demo", "tools", "--json"]);
    let answers: Vec<_> = tools.iter().filter(|event| event["kind"] == "tool_result").collect();
    let calls = tools
        .iter()
        .filter(|event| event["kind"] == "tool_use" && event["via"] == "relayed")
        .count();
    assert!(calls >= 4, "{calls} calls");
    assert!(
        answers.iter().any(|answer| answer.to_string().contains("unknown_tool")),
        "{answers:#?}"
    );
    assert_eq!(result(&tools)["outcome"], "succeeded");

    let big = ostler.events(&["run", "demo", "big", "--json"]);
    assert_gap_free(&big);
    let kept: Vec<_> = big.iter().filter(|event| event["truncated"] == true).collect();
    assert!(!kept.is_empty(), "something is too big to stay inside its event");
    let run = big[0]["run_id"].as_str().unwrap();
    let whole = ostler.says(&["show", run, "--json", "--full"]);
    assert!(whole.stdout.len() > 100_000, "the whole is put back: {} bytes", whole.stdout.len());
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let ostler = Ostler::new();
    let mut running = ostler.starts(&["run", "demo", "big", "--json"]);
    running.line();
    drop(running.stdout);
    let output = running.child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn the_prompt_is_read_from_standard_input_when_it_is_not_given() {
    use std::io::Write as _;
    let ostler = Ostler::new();
    for args in [&["run", "demo", "--json"][..], &["run", "demo", "-", "--json"]] {
        let mut command = ostler.command(args);
        let mut child = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"from a pipe\n").unwrap();
        let said = crate::ostler::Said::from(child.wait_with_output().unwrap());
        let events = said.events();
        assert_eq!(events[0]["kind"], "user_text");
        assert_eq!(events[0]["text"], "from a pipe\n");
    }
}

#[test]
fn quiet_prints_the_answer_and_nothing_else() {
    let ostler = Ostler::new();
    let said = ostler.says(&["run", "demo", "hello", "--quiet"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.contains("hello") && said.stdout.lines().count() < 8, "{said:?}");
}

#[test]
fn an_agent_that_is_not_there_is_told_with_how_to_get_it() {
    let ostler = Ostler::new();
    let bin = ostler.instance.root().join("bin");
    let mut command = ostler.command(&["run", "codex", "hello"]);
    let said = Said::from(command.env("PATH", bin).output().unwrap());
    assert_eq!(said.code, 4, "{said:?}");
    let shown = format!("{}{}", said.stdout, said.stderr);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = "→ install it with `npm install -g @openai/codex`, or set the adapter's binary";
    assert!(shown.contains(hint), "{shown}");
    // Who configured another program knows where it comes from.
    let other = json!({ "type": "cli", "runtime": "codex", "binary": "/no/such/codex" });
    ostler.instance.write_config(&json!({ "adapters": { "codex": other } }).to_string());
    let said = ostler.says(&["run", "codex", "hello"]);
    let shown = format!("{}{}", said.stdout, said.stderr);
    assert!(said.code == 4 && !shown.contains("npm install"), "{shown}");
}

#[test]
fn a_shell_can_complete_every_command() {
    let ostler = Ostler::new();
    let help = ostler.says(&["--help"]).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Run:")
        .take_while(|line| *line != "Examples:")
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 25, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = ostler.says(&["completions", shell]);
        assert_eq!(script.code, 0, "{shell}: {}", script.stderr);
        for command in &commands {
            assert!(script.stdout.contains(command), "{shell} does not know {command}");
        }
    }
    // What the shell itself says of it.
    let script = ostler.instance.root().join("completions.bash");
    std::fs::write(&script, ostler.says(&["completions", "bash"]).stdout).unwrap();
    let read = ostler.instance.command("bash").arg("-n").arg(&script).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    assert_eq!(ostler.says(&["completions", "abacus"]).code, 2);
}
