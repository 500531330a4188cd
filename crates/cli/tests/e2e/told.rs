//! People are told by a command of theirs: of a question that waits, of a run that ended badly, of
//! a limit; once, and never of what went well.

use crate::ostler::{BOUND_MS, Ostler};
use serde_json::Value;
use std::path::PathBuf;
use testkit::until;

/// An instance whose people are told by a file, and that file.
fn told_by_file(more: &str) -> (Ostler, PathBuf) {
    let ostler = Ostler::new();
    let told = ostler.instance.root().join("told");
    let script = format!("(env | grep OSTLER_; cat) >> {}", told.display());
    let command = serde_json::json!(["/bin/sh", "-c", script]);
    ostler.instance.write_config(&format!(r#"{{ "notify": {{ "command": {command} }}{more} }}"#));
    (ostler, told)
}

fn lines(told: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(told).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_run_that_fails_or_meets_a_limit_is_told_and_one_that_goes_well_is_not() {
    let (ostler, told) = told_by_file("");
    assert_eq!(ostler.says(&["run", "demo", "hello", "--quiet"]).code, 0);
    assert!(!told.exists());
    let failing = ostler.fake("--failed no");
    // The host of a lone run stays until its people were told.
    assert_eq!(ostler.says(&["run", "--process", &failing, "x", "--quiet"]).code, 9);
    let said = lines(&told);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (&said[0]["kind"], &said[0]["outcome"], &said[0]["code"]),
        (&"run".into(), &"failed".into(), &"agent_failed".into())
    );
    let text = std::fs::read_to_string(&told).unwrap();
    assert!(text.contains(&format!("OSTLER_RUN_ID={}", said[0]["run_id"].as_str().unwrap())));
    assert!(!text.contains("OSTLER_DATA") && !text.contains("TOKEN"), "{text}");

    let dear = ostler.fake("--step-ms 50 --steps 20");
    let spent = ostler.says(&["run", "--process", &dear, "x", "--quiet", "--budget-usd", "0.3"]);
    assert_eq!(spent.code, 7, "{spent:?}");
    let said = lines(&told);
    assert_eq!(said.last().unwrap()["kind"], "limit", "{said:?}");
}

#[test]
fn a_question_is_told_once_while_it_waits() {
    let (ostler, told) = told_by_file("");
    let mut run = ostler.starts(&["run", "demo", "ask", "--json", "--permission", "ask"]);
    let question = run.event("the question", |event| event["kind"] == "permission");
    let said = until("someone to be told", BOUND_MS, || {
        Some(lines(&told)).filter(|said| !said.is_empty())
    });
    assert_eq!(
        (&said[0]["kind"], &said[0]["ask_id"], &said[0]["title"]),
        (
            &"ask".into(),
            &question["ask_id"],
            &"may it use write_file on note-from-the-demo.txt?".into()
        )
    );
    let ask = question["ask_id"].as_str().unwrap();
    assert_eq!(ostler.says(&["answer", ask, "allow"]).code, 0);
    assert_eq!(run.finish().code, 0);
    assert_eq!(lines(&told).len(), 1);
}

#[test]
fn a_command_that_cannot_be_run_keeps_nobody_from_anything() {
    let ostler = Ostler::new();
    ostler.instance.write_config(r#"{ "notify": { "command": ["/nowhere/at/all"] } }"#);
    let failing = ostler.fake("--failed no");
    assert_eq!(ostler.says(&["run", "--process", &failing, "x", "--quiet"]).code, 9);
}
