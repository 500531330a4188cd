//! The help as it is printed, the layout of its groups and examples, and the values that arguments take.

use super::help::{self, EXAMPLES, GROUPS};
use super::*;
use std::collections::BTreeSet;

/// Calls `see` with every visible command and its path.
fn each_command(command: &clap::Command, path: &str, see: &mut impl FnMut(&str, &clap::Command)) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
        see(&path, sub);
        each_command(sub, &path, see);
    }
}

/// The help of a command on a terminal of 80 columns.
fn rendered(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let text = help::rendered(help::command().term_width(80), &words).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    text
}

#[test]
fn the_command_line_is_well_formed() {
    help::command().debug_assert();
}

#[test]
fn every_argument_has_a_description() {
    let mut arguments = 0;
    each_command(&help::command(), "", &mut |path, command| {
        assert!(command.get_about().is_some(), "`{path}` has no description");
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.len() > 3, "`{path}` {} has no description", argument.get_id());
            arguments += 1;
        }
    });
    assert!(arguments > 100, "{arguments}");
}

#[test]
fn every_command_is_in_one_group() {
    let command = help::command();
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut known: Vec<&str> = visible.map(clap::Command::get_name).collect();
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    known.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(known, grouped);
}

#[test]
fn every_command_has_two_examples_that_parse() {
    let mut paths = BTreeSet::from([String::new()]);
    each_command(&help::command(), "", &mut |path, _| {
        paths.insert(path.to_owned());
    });
    let named: BTreeSet<String> = EXAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(paths, named);
    for (path, examples) in EXAMPLES {
        assert!(examples.len() >= 2, "{path}");
        for example in *examples {
            let begins = example.find("ostler ").expect("an example runs ostler");
            // Redirections and pipes after the command are the shell's.
            let line = example[begins..].split([')', '|', '>']).next().unwrap_or_default();
            let words = crate::config::split_words(line).expect("words");
            if let Err(error) = Arguments::try_parse_from(&words) {
                // What claude is told is not for us to parse.
                assert!(example.starts_with("claude "), "{example}: {error}");
            }
        }
    }
}

#[test]
fn durations_are_read_with_their_unit() {
    use contract::plan::Limit;
    let rows =
        [("500ms", 500), ("90s", 90_000), ("90", 90_000), ("1.5m", 90_000), ("2h", 7_200_000)];
    for (text, ms) in rows {
        assert_eq!(limit(text), Ok(Limit::Ms(ms)), "{text}");
    }
    assert_eq!(limit("unlimited"), Ok(Limit::Unlimited));
    for nonsense in ["", "0", "-1s", "5 d", "h", "1e9h"] {
        assert!(limit(nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn a_word_of_another_tool_is_translated() {
    let told = |word: &str| help::instead_of(&[], word);
    assert!(told("open").contains("ostler watch"), "{}", told("open"));
    assert_eq!(told("stauts"), "did you mean 'status'?");
    assert_eq!(told("xyzzy"), "`ostler help` lists the commands");
}

#[test]
fn url_of_conformance_needs_no_dashes() {
    for words in [vec!["http://127.0.0.1:1"], vec!["--", "http://127.0.0.1:1"]] {
        let line = ["ostler", "conformance", "http"].into_iter().chain(words);
        assert!(Arguments::try_parse_from(line).is_ok());
    }
}

#[test]
fn hints_stay_within_the_named_command() {
    let path = |line: &str| help::path_in(line.split(' ').map(str::to_owned));
    assert_eq!(path("--json --config x config check --nope"), ["config", "check"]);
    assert_eq!(path("record -- runs"), ["record"]);
    assert!(path("nope runs").is_empty());
    assert_eq!(help::instead_of(&path("task"), "aprove"), "did you mean 'approve'?");
    assert_eq!(
        help::instead_of(&path("config"), "xyzzy"),
        "`ostler help config` lists the commands"
    );
}

#[test]
fn help_lists_commands_in_groups() {
    insta::assert_snapshot!(rendered(&[]), @r#"
    Run coding agents of any vendor, and limit what they may do and spend

    Usage: ostler [OPTIONS] [COMMAND]

    Run:
      run          Run one agent on one prompt and watch it
      runs         List runs, newest first
      status       Show what runs, what waits and what needs attention
      show         Show a run's transcript
      watch        Watch a live run; Ctrl-C leaves it running
      say          Send a message to a live run
      interrupt    Interrupt the current turn of a live run
      stop         Stop a live run
      diff         Show what a run changed in its worktree
      apply        Merge a run's changes into your checkout and remove its worktree
      worktrees    List, discard or prune the worktrees of runs
      replay       Play a run's transcript back with its own timing
      export       Print a run and its events as JSON lines

    Hand over:
      task         Add tasks to the queue, follow and review them
      agents       List agents, or hire, change, pause and retire them
      approvals    List the requests that wait for your approval
      answer       Answer a request for approval

    Money:
      costs        Show what was spent
      quotas       Show provider quotas, or clear a block
      prices       Show model prices, or import newer ones

    Serve:
      serve        Start queued tasks and offer the HTTP API, until stopped
      mcp          Offer Ostler to your own assistant, as an MCP server
      remote       Serve one agent to callers on other machines (ca-http-v1)
      token        Manage API tokens
      backup       Back up the data directory (safe while Ostler runs)

    Build an agent:
      conformance  Test whether an agent speaks a protocol
      record       Record what a command prints, without secrets, for a runtime

    Set up:
      doctor       Check the installed agents: program, version, login, permissions
      runtimes     List what `ostler run` accepts: agents, adapters, runtimes
      init         Write a first ostler.json
      config       Show where the configuration is; check, edit or print it
      completions  Print a shell completion script
      help         Print help for a command, or the exit codes

    Examples:
      ostler doctor
      ostler run claude "fix the failing test"
      ostler run codex --worktree "add a changelog"
      git diff | ostler run gemini "review this"

    Global options:
          --data <DIR>     Data directory [default: ~/.local/share/ostler] [env:
                           OSTLER_DATA]
          --config <FILE>  Configuration file; never read from the current directory
                           [default: ~/.config/ostler/ostler.json] [env:
                           OSTLER_CONFIG]
          --json           Print JSON; errors are one JSON object on standard error
      -h, --help           Print help
      -V, --version        Print the version, with --json as JSON

    `ostler help COMMAND` explains a command, `ostler help exit-codes` exit codes.
    Settings are in ~/.config/ostler/ostler.json; `ostler init` writes a first one.
    "#);
}

#[test]
fn help_of_run_explains_every_option() {
    insta::assert_snapshot!(rendered(&["run"]));
}

#[test]
fn exit_codes_come_from_the_fault_table() {
    let text = help::of(&["exit-codes".to_owned()]).unwrap();
    for code in contract::Code::ALL {
        assert!(text.contains(code.word()), "{} is missing", code.word());
    }
    assert!(text.contains("    9  agent_failed "), "{text}");
    let fault = help::of(&["rnus".to_owned()]).unwrap_err();
    assert_eq!(fault.hint(), "did you mean 'runs'?");
}
