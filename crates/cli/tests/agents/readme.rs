//! README.md as its readers play it, with the demo agent and the real Claude Code (`console.rs` says
//! how). How many tokens a real agent uses depends on its version, so these figures are not compared.

use crate::console::{Reader, Step, steps};
use crate::stage::Stage;
use std::process::Command;

const PAGE: &str = include_str!("../../../../README.md");

#[test]
fn readme_examples_run_as_printed() {
    let steps = steps(PAGE);
    assert!(steps.len() >= 7, "the page has its commands: {steps:#?}");
    let stage = Stage::new("claude", "readme");
    let work = stage.ostler.instance.work();
    std::fs::write(work.join("greeting.txt"), "Hello.\n").expect("a file can be written");
    for args in [
        "init -q",
        "add greeting.txt",
        "-c user.name=p -c user.email=p@example.invalid commit -q -m first",
    ] {
        let status = Command::new("git").current_dir(&work).args(args.split(' ')).status();
        assert!(status.is_ok_and(|status| status.success()), "git {args}");
    }
    let mut reader = Reader::new(&stage.ostler, stage.environment());
    for step in &steps {
        reader.plays(&without_figures(step));
    }
    let merged = std::fs::read_to_string(work.join("greeting.txt")).expect("it is there");
    assert_eq!(merged, "Hello from the worktree.\n");
    stage.assert_nothing_left();
}

/// The step with `…` in place of the tokens and dollars of a real agent.
fn without_figures(step: &Step) -> Step {
    let real = step.command.starts_with("ostler run claude");
    let figure = |line: &String| match line.split_once(" tokens · $") {
        Some((before, _)) if real => {
            let outcome = before.rsplit_once(' ').map_or(before, |(outcome, _)| outcome);
            format!("{outcome} … tokens · …")
        }
        Some(_) | None => line.clone(),
    };
    Step { command: step.command.clone(), promised: step.promised.iter().map(figure).collect() }
}
