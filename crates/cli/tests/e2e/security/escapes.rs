//! Every command that prints what an agent, a repository or a person's file said × every class of
//! sequence that a terminal obeys. Piped, no control character comes through; on a terminal none but
//! our own colours and the few moves of the status line.

use super::Tally;
use crate::ostler::{BOUND_MS, Ostler, Said, result};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use testkit::until;

/// One of each class, with a word that must come through beside it.
const SEQUENCES: &[&str] = &[
    "\u{1b}[38;5;201mSGR\u{1b}[0m",
    "\u{1b}[2J\u{1b}[H\u{1b}[3J",
    "\u{1b}[?1049h\u{1b}[?25l\u{1b}[6n\u{1b}[c\u{1b}[21t",
    "\u{1b}]0;title\u{7}\u{1b}]2;title\u{1b}\\",
    "\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\",
    "\u{1b}]52;c;cm0gLXJmIH4=\u{7}",
    "\u{1b}]1337;File=:AAAA\u{7}\u{1b}]777;notify;a;b\u{7}",
    "\u{1b}Pq#0;2;0;0;0\u{1b}\\\u{1b}P$qm\u{1b}\\",
    "\u{1b}_Gf=100;AAAA\u{1b}\\",
    "\u{1b}^private\u{1b}\\\u{1b}Xstart\u{1b}\\",
    "\u{1b}c\u{1b}7\u{1b}8\u{1b}=\u{1b}>\u{1b}(0\u{1b}#8\u{1b}N\u{1b}O\u{1b}D\u{1b}M",
    "\u{9b}2J\u{9d}52;c;AAAA\u{9c}\u{90}q\u{9c}\u{9f}x\u{9c}\u{9e}x\u{9c}\u{98}x\u{9c}\u{85}\u{84}",
    "\u{7}\u{8}\u{b}\u{c}\u{e}\u{f}\u{0}\u{5}\u{11}\u{13}\u{18}\u{1a}\u{7f}",
    "over\rwritten",
    "user\u{202e}nimda\u{202c}\u{202a}\u{202b}\u{202d}\u{2066}\u{2067}\u{2068}\u{2069}",
    "\u{1b}[200~pasted\u{1b}[201~",
    "\u{1b}[>4;2m\u{1b}[=c\u{1b}[!p\u{1b}[5i\u{1b}[4i",
    "\u{1b}\u{1b}[31m\u{1b}[\u{1b}[31m",
    "\u{1b}[31",
    "\u{1b}]52;c;never closed",
    "\u{1b}",
];

fn dirty() -> String {
    SEQUENCES.concat()
}

/// Everything an agent can say, with all of it in every text.
fn lines() -> String {
    let dirt = dirty();
    let event = |event: Value| json!({ "type": "event", "event": event });
    let said = [
        json!({ "type": "progress", "summary": dirt, "beliefs": [dirt], "attempted": [dirt] }),
        json!({ "type": "comment", "text": dirt, "mentions": [dirt] }),
        event(json!({ "kind": "session", "model": dirt, "cwd": dirt, "resumed": false })),
        event(json!({ "kind": "turn", "phase": "started", "n": 1 })),
        event(json!({ "kind": "assistant_text", "text": dirt, "delta": false })),
        event(
            json!({ "kind": "assistant_text", "text": "\u{1b}]52;c;", "delta": true, "block": "b" }),
        ),
        event(
            json!({ "kind": "assistant_text", "text": "AAAA\u{7}", "delta": true, "block": "b" }),
        ),
        event(json!({ "kind": "thinking", "text": dirt, "delta": false })),
        event(json!({ "kind": "user_text", "text": dirt })),
        event(
            json!({ "kind": "tool_use", "tool_call_id": "1", "name": dirt, "input": { dirt.clone(): dirt },
            "via": "native", "title": dirt, "locations": [{ "path": dirt }] }),
        ),
        event(
            json!({ "kind": "tool_update", "tool_call_id": "1", "title": dirt, "content": dirt }),
        ),
        event(
            json!({ "kind": "tool_result", "tool_call_id": "1", "status": "error", "output": dirt }),
        ),
        event(json!({ "kind": "plan", "entries": [{ "text": dirt, "status": "pending" }] })),
        event(
            json!({ "kind": "diff", "path": dirt, "patch": format!("@@ -1 +1 @@\n-{dirt}\n+{dirt}\n") }),
        ),
        event(json!({ "kind": "usage", "model": dirt, "provider": dirt, "basis": "increment",
            "tokens": { "input_uncached": 10, "cache_read": 0, "cache_write": 0, "output": 5 } })),
        event(json!({ "kind": "quota", "provider": dirt, "rate_limited": true,
            "windows": [{ "id": dirt, "label": dirt, "exhausted": true, "used_percent": 99.0 }] })),
        event(json!({ "kind": "log", "stream": "stderr", "text": dirt, "level": dirt })),
        event(json!({ "kind": dirt, "text": dirt })),
        json!({ "type": "tool_call", "id": dirt, "tool": dirt, "args": { "a": dirt } }),
        json!({ "type": "tool_call", "id": "2", "tool": "read_file", "args": { "path": dirt } }),
        json!({ "type": dirt, "a": dirt }),
    ];
    let mut text: String = said.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(&format!("{}\n", dirt.replace('\r', "")));
    text
}

/// Scripts of an agent that succeeds and of one that fails, with dirt on both streams.
fn agents(ostler: &Ostler) -> (String, String) {
    let root = ostler.instance.root();
    let dirt = dirty();
    std::fs::write(root.join("lines"), lines()).unwrap();
    std::fs::write(root.join("dirt"), format!("{dirt}\n")).unwrap();
    let complete = json!({ "type": "complete", "output": { "text": dirt } });
    let failed = json!({ "type": "failed", "reason": dirt, "details": dirt });
    for (name, last) in [("good", complete), ("bad", failed)] {
        std::fs::write(root.join(name), format!("{last}\n")).unwrap();
    }
    let agent = |last: &str| {
        let at = |name: &str| root.join(name).display().to_string();
        let script = format!("cat {}; cat {} >&2; cat {}", at("lines"), at("dirt"), at(last));
        std::fs::write(root.join(format!("{last}.sh")), script).unwrap();
        format!("sh {}", at(&format!("{last}.sh")))
    };
    (agent("good"), agent("bad"))
}

/// Arguments, and what comes of them when no terminal is there.
type Row = (Vec<String>, Piped);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piped {
    /// For a person, who may look at it later.
    Words,
    /// For a program: JSON, in which ESC is escaped.
    Data,
    /// A patch, which is nothing worth when a byte of it is missing.
    Bytes,
}

fn rows(ostler: &Ostler, run: &str, good: &str, bad: &str) -> Vec<Row> {
    // A name of a file cannot hold a NUL, and an argument neither.
    let dirt = dirty().replace(['\0', '/'], "");
    let root = ostler.instance.root().display().to_string();
    let prices = format!("{root}/prices");
    let entry = json!({ "mode": "chat", "litellm_provider": dirt, "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-6 });
    std::fs::write(&prices, json!({ dirt.clone(): entry }).to_string()).unwrap();
    let config = format!("{root}/odd.json");
    let odd = json!({ "adapters": { dirt.clone(): { "type": "process", "binary": dirt, dirt.clone(): 1 } } });
    std::fs::write(&config, odd.to_string()).unwrap();
    let fine = format!("{root}/fine.json");
    let named = json!({ "adapters": { dirt.clone(): { "type": "process", "binary": dirt } },
        "agents": { format!("{dirt}2"): { "adapter": dirt } } });
    std::fs::write(&fine, named.to_string()).unwrap();
    let row = |words: &[&str]| (owned(words), Piped::Words);
    let data = |words: &[&str]| (owned(words), Piped::Data);
    vec![
        row(&["run", "--process", good, &dirt]),
        row(&["run", "--process", bad, &dirt]),
        data(&["run", "--process", good, &dirt, "--json"]),
        row(&["run", "--process", bad, &dirt, "--quiet"]),
        row(&["run", &dirt, "x"]),
        row(&["run", "demo", "x", "--cwd", &dirt]),
        row(&["run", "demo", "x", "--config", &dirt]),
        row(&["run", "demo", "x", "--config", &config]),
        row(&["run", "demo", "x", "--trace", &format!("{dirt}/x")]),
        row(&["run", "demo", "x", "--timeout", &dirt]),
        row(&["run", "--process", &format!("'{dirt}'"), "x"]),
        row(&["runs"]),
        row(&["status"]),
        row(&["worktrees"]),
        row(&["help", "run"]),
        data(&["runs", "--json"]),
        row(&["show", run]),
        row(&["diff", run]),
        row(&["diff", &dirt]),
        row(&["apply", run]),
        row(&["apply", &dirt, "--patch"]),
        row(&["show", run, "--full"]),
        row(&["show", run, "--debug"]),
        row(&["show", run, "--plan"]),
        data(&["show", run, "--plan", "--json"]),
        data(&["show", run, "--raw"]),
        data(&["show", run, "--json"]),
        row(&["show", &dirt]),
        row(&["watch", run]),
        row(&["watch", &dirt]),
        row(&["replay", run, "--speed", "0"]),
        row(&["replay", run, "--speed", &dirt]),
        data(&["export", run]),
        row(&["stop", run]),
        row(&["stop", &dirt]),
        row(&["say", run, &dirt]),
        row(&["interrupt", &dirt]),
        row(&["agents", "hire", &dirt, "--adapter", "demo"]),
        row(&["agents", "hire", "odd", "--adapter", &dirt]),
        row(&["agents", "hire", "odd", "--adapter", "demo", "--model", &dirt, "--tool", &dirt]),
        row(&["agents", "hire", "odd", "--adapter", "demo", "--spec", &dirt]),
        row(&["agents", "edit", "odd", "--set", &dirt]),
        row(&["agents", "pause", &dirt]),
        row(&["agents", "show", &dirt]),
        row(&["agents", "show", "odd"]),
        row(&["completions", &dirt]),
        row(&["agents"]),
        row(&["agents", "--config", &fine]),
        data(&["agents", "show", "odd"]),
        row(&["runs", "delete", &dirt]),
        row(&["backup", &format!("{prices}/{dirt}")]),
        row(&["approvals"]),
        row(&["answer", &dirt, &dirt]),
        row(&["costs", "--by", "day,agent,adapter,model"]),
        row(&["costs", "--by", &dirt]),
        row(&["costs", "--since", &dirt]),
        row(&["quotas"]),
        row(&["quotas", "clear", &dirt]),
        row(&["token", "list"]),
        row(&["token", "add", &dirt]),
        row(&["token", "revoke", &dirt]),
        row(&["mcp", "--data", &format!("{prices}/{dirt}")]),
        row(&["prices", "import", &prices]),
        row(&["prices", "import", &dirt]),
        row(&["prices", "list", "SGR"]),
        row(&["prices", "list", &dirt]),
        row(&["task", "add", "--agent", "demo", "--title", "x", "--body", &dirt, "--key", "k"]),
        row(&["task", "add", "--agent", "demo", "--title", &dirt]),
        row(&["task", "add", "--agent", &dirt, "--title", "x"]),
        row(&["task", "add", "--agent", "demo", "--title", "x", "--not-before", &dirt]),
        row(&["task", "comment", run, &dirt, "--mention", &dirt]),
        row(&["task", "reject", run, &dirt]),
        row(&["task", "reopen", run]),
        row(&["task", "retry", &dirt]),
        row(&["task", "approve", &dirt]),
        row(&["task", "cancel", run]),
        row(&["task", "list"]),
        row(&["task", "list", "--state", &dirt]),
        row(&["task", "list", "--label", &dirt]),
        row(&["task", "show", run]),
        row(&["task", "show", &dirt]),
        row(&["serve", "--listen", &dirt]),
        row(&["serve", "--listen", "127.0.0.1:0", "--data", &format!("{prices}/{dirt}")]),
        row(&["remote", "--agent", &dirt, "--no-auth"]),
        row(&["remote", "--agent", "demo", "--no-auth", "--listen", &dirt]),
        row(&["remote", "--agent", "demo", "--token-env", &dirt]),
        row(&["remote", "--agent", "demo", "--no-auth", "--cert", &dirt, "--key", &dirt]),
        row(&["conformance", "http", "--", &dirt]),
        row(&["conformance", "process", "--patience", "1s", "--", "cat", &format!("{root}/lines")]),
        row(&["conformance", "process", "--", &dirt]),
        row(&["conformance", "acp", "--patience", "1s", "--", "cat", &format!("{root}/lines")]),
        row(&["conformance", "acp", "--", &dirt]),
        row(&["runtimes", "--config", &fine]),
        row(&["doctor", &dirt]),
        row(&["doctor", "--config", &fine]),
        row(&["doctor", "--config", &config]),
        row(&[
            "record",
            "--out",
            &format!("{root}/recorded"),
            "--name",
            &dirt,
            "--",
            "cat",
            &format!("{root}/lines"),
        ]),
        row(&["record", "--out", &format!("{root}/recorded"), "--", &dirt]),
        row(&["init", "--config", &format!("{prices}/{dirt}")]),
        row(&["init", "--config", &format!("{root}/new{dirt}")]),
        row(&["config", "check", "--config", &config]),
        row(&["config", "check", "--config", &fine]),
        data(&["config", "show", "--config", &fine]),
        data(&["config", "schema"]),
        row(&[&dirt]),
        row(&["--data", &dirt, &dirt]),
    ]
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What a terminal would obey in this, were it not taken out.
fn obeyed(text: &str, allowed: &[char]) -> Option<char> {
    text.chars().find(|c| {
        (c.is_control() && !allowed.contains(c))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// The same without our own colours and the moves of the status line.
fn without_ours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let inner = tail.strip_prefix('[').unwrap_or("");
        let end = inner.find(|c: char| !c.is_ascii_digit() && c != ';');
        let end =
            end.filter(|end| matches!(inner.as_bytes()[*end], b'm' | b'K' | b'J' | b'A' | b'G'));
        // A colour that only the agent has is not ours, and neither is a cleared screen.
        let end = end.filter(|end| !matches!(&inner[..=*end], "38;5;201m" | "2J" | "3J"));
        match end {
            Some(end) => rest = &inner[end + 1..],
            None => {
                plain.push('\u{1b}');
                rest = tail;
            }
        }
    }
    plain + rest
}

/// Runs a command on a terminal of its own and gives all that it wrote there.
const ON_A_TERMINAL: &str =
    "import os, pty, sys\nsys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

fn on_a_terminal(ostler: &Ostler, args: &[String]) -> Option<String> {
    let python = testkit::python()?;
    let mut command: Command = ostler.instance.command(python);
    command.args(["-c", ON_A_TERMINAL]).arg(crate::ostler::program()).args(args);
    command.env_remove("NO_COLOR").env("TERM", "xterm-256color").stdin(Stdio::null());
    Some(Said::from(command.output().unwrap()).stdout)
}

/// Runs a command without a terminal and on one; gives how much it printed.
fn look(ostler: &Ostler, (args, piped): &Row, tally: &mut Tally) -> usize {
    let said = ostler.says(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let shown = format!("{:.80?}", args);
    let found = match piped {
        Piped::Words => obeyed(&said.stdout, &['\n']),
        Piped::Data => said.stdout.chars().find(|c| *c == '\u{1b}'),
        Piped::Bytes => None,
    };
    tally.row(found.is_none(), || format!("{shown} printed {found:?}"));
    let found = obeyed(&said.stderr, &['\n']);
    tally.row(found.is_none(), || format!("{shown} complained with {found:?}"));
    if let Some(screen) = on_a_terminal(ostler, args) {
        let found = obeyed(&without_ours(&screen), &['\n', '\r']);
        tally.row(found.is_none(), || format!("{shown} showed {found:?} on a terminal"));
    }
    said.stdout.len() + said.stderr.len()
}

#[test]
fn no_command_prints_what_a_terminal_would_obey() {
    let ostler = Ostler::new();
    let (good, bad) = agents(&ostler);
    let first = ostler.events(&["run", "--process", &good, "first", "--json"]);
    assert!(first.len() > 25, "{first:#?}");
    let run = first[0]["run_id"].as_str().unwrap().to_owned();
    let rows = rows(&ostler, &run, &good, &bad);
    covers_every_command(&ostler, &rows);
    let mut tally = Tally::new("escapes");
    let mut words = 0;
    for row in &rows {
        words += look(&ostler, row, &mut tally);
    }
    assert!(words > 10_000, "something was printed: {words}");
    // The answer alone, for whoever wants it as it is; on a terminal it is cleaned too.
    let quiet: Vec<String> = ["run", "--process", &good, "x", "--quiet"].map(str::to_owned).into();
    let screen = on_a_terminal(&ostler, &quiet).unwrap_or_default();
    let found = obeyed(&without_ours(&screen), &['\n', '\r']);
    tally.row(found.is_none(), || format!("--quiet showed {found:?} on a terminal"));
    tally.close(100);
}

/// Commands that have little to say unless somebody changed a file, wrote a task or asked.
#[test]
fn nor_does_one_that_shows_a_change_a_task_or_a_question() {
    let ostler = Ostler::new();
    crate::trees::repository(&ostler);
    let dirt = dirty().replace(['\0', '/'], "");
    let root = ostler.instance.root();
    let ends = json!({ "type": "complete", "text": "done" });
    let writes = format!(
        "import sys\nname = {}\nopen(name[:80], 'w').write(name)\n\
         open('a.txt', 'a').write(name)\nprint('{ends}')\n",
        json!(dirt)
    );
    std::fs::write(root.join("writes.py"), writes).unwrap();
    let writes = format!("python3 {}", root.join("writes.py").display());
    let changed = ostler.events(&["run", "--worktree", "--process", &writes, &dirt, "--json"]);
    assert_eq!(result(&changed)["outcome"], "succeeded", "{changed:#?}");
    let changed = changed[0]["run_id"].as_str().unwrap();

    let asks = json!({ "text": dirt, "options": [dirt, format!("{dirt}2")] });
    let config = json!({ "adapters": { "asks": { "type": "process", "binary": testkit::fake_agent(),
        "args": ["--tool", "request_approval", asks.to_string()] } } });
    ostler.instance.write_config(&config.to_string());
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let mut run = ostler.starts(&["run", "asks", "x", "--json"]);
    let question = run.event("the question", |event| event["kind"] == "permission");
    let ask = question["ask_id"].as_str().unwrap();

    let later = "2100-01-01T00:00:00Z";
    // In a title no control character is taken; what turns the direction of writing is none.
    let title = dirt.replace(char::is_control, "");
    let add = ["task", "add", "--agent", "demo", "--title", &title, "--body", &dirt];
    let added = ostler.says(&[&add[..], &["--key", "k", "--not-before", later]].concat());
    assert_eq!(added.code, 0, "{added:?}");
    let told = ostler.says(&["task", "comment", "k", &dirt]);
    assert_eq!(told.code, 0, "{told:?}");

    assert!(ostler.says(&["diff", changed]).stdout.contains('\u{1b}'), "the patch to the byte");
    until("the question to be listed", BOUND_MS, || {
        ostler.says(&["approvals", "--json"]).stdout.contains(ask).then_some(())
    });
    let row = |words: &[&str]| (owned(words), Piped::Words);
    let data = |words: &[&str]| (owned(words), Piped::Data);
    let rows = [
        (owned(&["diff", changed]), Piped::Bytes),
        data(&["diff", changed, "--json"]),
        row(&["show", changed]),
        row(&["apply", changed]),
        row(&["apply", changed]),
        row(&["approvals"]),
        data(&["approvals", "--json"]),
        row(&["answer", ask, &dirt]),
        row(&["task", "list"]),
        row(&["task", "show", "k"]),
        data(&["task", "show", "k", "--json"]),
        row(&["task", "cancel", "k", &dirt]),
        row(&["task", "show", "k"]),
    ];
    let mut tally = Tally::new("escapes in what is there");
    for row in &rows {
        let words = look(&ostler, row, &mut tally);
        assert!(words > 0, "{row:?} says something");
    }
    tally.close(30);
}

/// The table has a row for every command that there is.
fn covers_every_command(ostler: &Ostler, rows: &[Row]) {
    let help = ostler.says(&["--help"]).stdout;
    let listed = help.split("\nRun:\n").nth(1).and_then(|rest| rest.split("Examples:").next());
    let lines = listed.expect("a list of commands").lines();
    let names: Vec<_> = lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        assert!(rows.iter().any(|(args, _)| args[0] == name), "no row for `ostler {name}`");
    }
}

#[test]
fn the_instrument_sees_every_class() {
    for sequence in SEQUENCES {
        assert!(obeyed(sequence, &['\n']).is_some(), "{sequence:?}");
        let carriage = sequence.contains('\r');
        let found = obeyed(&without_ours(sequence), &['\n', '\r']);
        assert!(carriage || found.is_some(), "{sequence:?}");
    }
    let ours = "\r\u{1b}[Kworking\u{1b}[A\u{1b}[3G\u{1b}[1;32mgreen\u{1b}[0m\u{1b}[J";
    assert_eq!(obeyed(&without_ours(ours), &['\r']), None);
}
