//! How a run is named: not at all, as `last`, by the eight digits that are shown, or by a part that
//! fits several.

use crate::git::git;
use crate::ostler::{Ostler, Said};
use serde_json::Value;
use std::path::Path;

fn runs(ostler: &Ostler, args: &[&str]) -> Vec<Value> {
    let said = ostler.says(&[&["runs", "--json"], args].concat());
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// Whether the amounts of every row are there in dollars too.
fn rows_have_dollars(said: &Said) -> bool {
    let rows: Vec<Value> = serde_json::from_str(&said.stdout).unwrap();
    let nanousd = |row: &Value| row["totals"]["effective_nanousd"].as_f64();
    let is_same = |row: &Value| {
        row["totals"]["effective_usd"].as_f64() == nanousd(row).map(|nano| nano / 1e9)
    };
    rows.iter().any(|row| nanousd(row).is_some()) && rows.iter().all(is_same)
}

fn says_in(ostler: &Ostler, dir: &Path, args: &[&str]) -> Said {
    Said::from(ostler.command(args).current_dir(dir).output().unwrap())
}

#[test]
fn no_run_named_is_the_newest_of_the_directory() {
    let ostler = Ostler::new();
    let (one, two) = (ostler.instance.root().join("one"), ostler.instance.root().join("two"));
    for dir in [&one, &two] {
        std::fs::create_dir(dir).unwrap();
    }
    assert_eq!(says_in(&ostler, &one, &["show"]).code, 16);
    assert_eq!(says_in(&ostler, &one, &["run", "demo", "first words"]).code, 0);
    assert_eq!(says_in(&ostler, &two, &["run", "demo", "second words"]).code, 0);
    let shown = says_in(&ostler, &one, &["show"]);
    assert!(shown.stdout.contains("first words"), "{shown:?}");
    let shown = says_in(&ostler, &one, &["show", "last"]);
    assert!(shown.stdout.contains("second words"), "{shown:?}");
    let elsewhere = says_in(&ostler, ostler.instance.root(), &["show"]);
    assert_eq!(elsewhere.code, 16, "{elsewhere:?}");
    assert!(elsewhere.stderr.contains("demo  second words"), "it lists them: {elsewhere:?}");
}

#[test]
fn commands_that_delete_refuse_last() {
    let ostler = Ostler::new();
    assert_eq!(ostler.says(&["run", "demo", "hello"]).code, 0);
    for command in [["runs", "delete", "last"], ["worktrees", "discard", "last"]] {
        let refused = ostler.says(&command);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("give the ID of the run"), "{refused:?}");
    }
    assert_eq!(runs(&ostler, &[]).len(), 1);
}

#[test]
fn diff_and_apply_take_the_newest_worktree() {
    let ostler = Ostler::new();
    let work = ostler.instance.work();
    git(&work, &["init", "-q"]);
    git(&work, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let ran = says_in(&ostler, &work, &["run", "demo", "--worktree", "hello"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(says_in(&ostler, &work, &["run", "demo", "hello"]).code, 0);
    let rows = runs(&ostler, &[]);
    let id = rows[1]["run_id"].as_str().unwrap();
    let digits = &id[id.len() - 8..];
    let diff = says_in(&ostler, &work, &["diff"]);
    assert_eq!(diff.code, 0, "the run without a worktree is passed over: {diff:?}");
    assert!(diff.stderr.contains(&format!("run {digits}")), "{diff:?}");
    let applied = says_in(&ostler, &work, &["apply"]);
    assert!(applied.stdout.starts_with(&format!("{digits}: nothing was changed")), "{applied:?}");
}

#[test]
fn the_only_live_run_is_stopped_without_its_name() {
    let ostler = Ostler::new();
    assert_eq!(ostler.says(&["stop"]).code, 16, "nothing is live");
    let agent = ostler.fake("--wait-shutdown");
    let mut one = ostler.starts(&["run", "--process", &agent, "one", "--json"]);
    let begun = one.event("the first run", |event| event["phase"] == "running");
    let mut two = ostler.starts(&["run", "--process", &agent, "two", "--json"]);
    two.event("the second run", |event| event["phase"] == "running");
    let several = ostler.says(&["stop"]);
    assert_eq!(several.code, 2, "{several:?}");
    assert!(several.complaint().contains("2 runs are live"), "{several:?}");
    assert!(several.stderr.contains("  one") && several.stderr.contains("  two"), "{several:?}");
    let id = begun["run_id"].as_str().unwrap();
    let stopped = ostler.says(&["stop", &id[id.len() - 8..]]);
    assert_eq!(stopped.stdout, format!("{} stopped (cancelled)\n", &id[id.len() - 8..]));
    let stopped = ostler.says(&["stop"]);
    assert!(stopped.stdout.ends_with(" stopped (cancelled)\n"), "{stopped:?}");
    // The first one hosts until both have ended.
    assert_eq!((one.finish().code, two.finish().code), (130, 130));
}

#[test]
fn an_ambiguous_id_lists_the_candidates() {
    let ostler = Ostler::new();
    for prompt in ["first words", "second words"] {
        assert_eq!(ostler.says(&["run", "demo", prompt]).code, 0);
    }
    // The first digits of an id are its time.
    let said = ostler.says(&["show", "01"]);
    assert_eq!(said.code, 16, "{said:?}");
    assert!(said.complaint().contains("more than one run matches '01'"), "{said:?}");
    for part in ["first words", "second words", "run_01"] {
        assert!(said.stderr.contains(part), "{part}: {said:?}");
    }
}

#[test]
fn a_run_and_its_task_have_the_same_digits() {
    let ostler = Ostler::new();
    assert_eq!(ostler.says(&["run", "demo", "hello"]).code, 0);
    let run = &runs(&ostler, &[])[0];
    let (id, task) = (run["run_id"].as_str().unwrap(), run["task"].as_str().unwrap());
    assert_eq!(run["id"], run["run_id"]);
    assert_eq!(id.strip_prefix("run_"), task.strip_prefix("task_"));
}

#[test]
fn runs_are_filtered_by_place_agent_outcome_and_time() {
    let ostler = Ostler::new();
    let dir = ostler.instance.root().join("elsewhere");
    std::fs::create_dir(&dir).unwrap();
    assert_eq!(ostler.says(&["run", "demo", "hello"]).code, 0);
    assert_eq!(says_in(&ostler, &dir, &["run", "demo", "please fail"]).code, 9);
    let agent = ostler.fake("");
    ostler.says(&["run", "--process", &agent, "another"]);
    let prompts = |args: &[&str]| -> Vec<String> {
        let rows = runs(&ostler, args);
        rows.iter().map(|row| row["prompt_preview"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(prompts(&[]), ["another", "please fail", "hello"]);
    assert_eq!(prompts(&["--agent", "demo"]), ["please fail", "hello"]);
    assert_eq!(prompts(&["--agent", "demo", "--limit", "1"]), ["please fail"]);
    assert_eq!(prompts(&["--failed"]), ["please fail"]);
    assert_eq!(prompts(&["--since", "1h"]).len(), 3);
    assert_eq!(prompts(&["--since", "2100-01-01"]).len(), 0);
    assert_eq!(prompts(&["--live"]).len(), 0);
    let said = says_in(&ostler, &dir, &["runs", "--here", "--json"]);
    let here: Vec<Value> = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(here.len(), 1, "{here:?}");
    assert!(rows_have_dollars(&ostler.says(&["runs", "--agent", "demo", "--json"])));
    assert_eq!(ostler.says(&["ps"]).stdout, ostler.says(&["runs"]).stdout);
}
