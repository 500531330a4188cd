//! `docs/api.md` as its readers play it: every command of its console blocks is typed into one shell, in
//! order and once, as when the page is pasted, with `curl` and `jq`, and the lines under it must be what
//! comes back. The page's address is that of the test's own server; `…` stands for anything.

use crate::console::{Ids, fits, steps};
use crate::door::Door;
use crate::ostler::program;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/api.md");
/// The address that the page has.
const ADDRESS: &str = "127.0.0.1:7717";
/// Behind the output of each command.
const MARK: &str = "--- that was it";

fn there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn api_page_examples_run_as_printed() {
    if !there("curl") || !there("jq") {
        eprintln!("skipped: curl and jq are not installed");
        return;
    }
    let door = Door::open();
    let mut shell = door.ostler.instance.command("sh");
    let beside = program().parent().unwrap().display().to_string();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap_or_default());
    shell.env("PATH", path).current_dir(door.ostler.instance.work());
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut input = shell.stdin.take().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    writeln!(input, "exec 2>&1").unwrap();
    let mut types = |command: &str| -> Vec<String> {
        writeln!(input, "{command}\necho '\n{MARK}'").unwrap();
        let mut said: Vec<String> = Vec::new();
        loop {
            let line = lines.next().expect("the shell lives").unwrap();
            if line == MARK {
                break;
            }
            said.push(line);
        }
        // The line before the mark is empty where the output ended with a newline.
        while said.last().is_some_and(String::is_empty) {
            said.pop();
        }
        said
    };
    let steps: Vec<_> = steps(PAGE).into_iter().filter(|s| !s.command.ends_with(" &")).collect();
    assert!(steps.len() >= 8, "the page has its commands: {steps:#?}");
    for step in &steps {
        let command = step.command.replace(ADDRESS, &door.address);
        let said = types(&command);
        let promised = step.promised.join("\n");
        let right = fits(&step.promised, &said, &mut Ids::new());
        assert!(right, "`{command}` promises\n{promised}\n\nand says\n{}", said.join("\n"));
    }
    drop(input);
    let _ = shell.wait();
}
