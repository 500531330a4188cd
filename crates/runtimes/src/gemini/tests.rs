//! What the recordings do not show by themselves: the plans, the tokens against the vendor's own
//! figures and against what the model server reported, and that no line, however broken, does harm.

use super::Gemini;
use crate::trial::{self, Style, Sum, booked, fresh, hear, heard, recordings};
use crate::{Runtime, Stream};
use contract::event::Body;
use contract::{Code, Signal};
use serde_json::{Value, json};

const ID: &str = "gemini";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let rows = trial::rows_with(&[
        ("a model", |spec| spec.model = Some("flash".to_owned())),
        ("another binary, no tools of ours", |spec| {
            spec.adapter.binary = Some("/opt/gemini".to_owned());
            spec.adapter.mcp = false;
        }),
    ]);
    insta::assert_snapshot!(trial::plans(&Gemini, &rows, Style::Plain));
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor() {
    let mut compared = 0;
    for recording in recordings(ID) {
        let result = trial::values(&recording).filter(|line| line["type"] == "result").last();
        let Some(result) = result else { continue };
        let sum = booked(&trial::played(&Gemini, &recording));
        let stats = |name: &str| result["stats"][name].as_u64().unwrap();
        let thoughts = stats("total_tokens") - stats("input_tokens") - stats("output_tokens");
        let vendor = Sum {
            uncached: stats("input"),
            cached: stats("cached"),
            output: stats("output_tokens") + thoughts,
            reasoning: thoughts,
            nanousd: 0,
        };
        assert_eq!(sum, vendor, "{}", recording.name);
        assert_eq!(sum.total(), stats("total_tokens"));
        compared += 1;
    }
    assert_eq!(compared, 26, "recordings with a result");
}

/// Recordings whose sums differ from the server's because the agent does not count an answer that it
/// could not read to the end.
const UNCOUNTED: [&str; 2] = ["malformed", "truncate"];

#[test]
fn the_ledger_equals_what_the_model_server_reported() {
    let all = recordings(ID);
    let mut compared = 0;
    for recording in &all {
        let sum = booked(&trial::played(&Gemini, recording));
        if sum == Sum::default() || UNCOUNTED.contains(&recording.name.as_str()) {
            continue;
        }
        // The small model that chooses among models is paid for too, and thoughts come beside the
        // output.
        let served = trial::served_where(recording, &all, |_| true);
        let served = Sum { output: served.output + served.reasoning, ..served };
        assert_eq!(sum, served, "{}", recording.name);
        compared += 1;
    }
    assert!(compared >= 18, "only {compared} recordings were compared");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    let calls = trial::assert_calls_are_paired(&Gemini);
    assert!(calls > 8, "{calls} calls");
}

#[test]
fn a_change_is_told_when_it_was_made_and_a_plan_when_it_was_written() {
    let call = |name: &str, id: &str, parameters: Value| json!({"type": "tool_use", "tool_name": name, "tool_id": id, "parameters": parameters});
    let result =
        |id: &str, status: &str| json!({"type": "tool_result", "tool_id": id, "status": status});
    let replace = json!({"file_path": "a.txt", "old_string": "x", "new_string": "y"});
    let todos = json!({"todos": [{"description": "look", "status": "in_progress"}, {"no": 1}]});
    let lines = [
        call("replace", "1", replace.clone()),
        call("replace", "2", replace),
        call("write_todos", "3", todos),
        result("2", "error"),
        result("1", "success"),
        result("1", "success"),
    ];
    let out = heard(&Gemini, &lines);
    let diffs = trial::told(&out, |body| match body {
        Body::Diff(diff) => {
            Some((diff.tool_call_id.as_deref(), diff.old_text.as_deref(), diff.new_text.as_deref()))
        }
        _ => None,
    });
    assert_eq!(diffs, [(Some("1"), Some("x"), Some("y"))]);
    let plans = trial::told(&out, |body| match body {
        Body::Plan(plan) => Some(plan.entries.len()),
        _ => None,
    });
    assert_eq!(plans, [1]);
}

#[test]
fn only_a_result_that_says_success_is_one() {
    let rows = [
        (json!({"status": "success"}), None),
        (json!({"status": "error"}), Some(Code::UpstreamError)),
        (json!({"status": "halted"}), Some(Code::UpstreamError)),
        (json!({"status": true}), Some(Code::UpstreamError)),
        (json!({}), Some(Code::UpstreamError)),
        (json!({"status": "error", "error": {"message": "x"}}), Some(Code::AgentFailed)),
        (
            json!({"status": "error", "error": {"type": "FatalTurnLimitedError"}}),
            Some(Code::MaxTurns),
        ),
    ];
    for (mut line, expected) in rows {
        line["type"] = json!("result");
        assert_eq!(trial::results(&heard(&Gemini, &[line.clone()])), [expected], "{line}");
    }
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let words = "Error resuming session: Invalid session identifier \"x\".";
    trial::assert_unknown_session_is_found(&Gemini, words, &[Stream::Stdout, Stream::Stderr]);
}

#[test]
fn a_limit_is_told_with_its_wait_and_lifted_by_the_next_answer() {
    let recording = trial::recording(ID, "rate_limit_once");
    let mut dialect = fresh(&Gemini);
    let aside = hear(&mut *dialect, Stream::Stderr, &recording.stderr);
    assert_eq!(trial::limits(&aside), [("rate_limited", None), ("rate_limited", Some(5697))]);
    let terminal = |signal: &Signal| matches!(signal, Signal::Limited(told) if told.terminal);
    assert!(!aside.signals.iter().any(terminal));
    let answer = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
    assert_eq!(trial::limits(&answer), [("lifted", None)]);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Gemini);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&Gemini, |line, results| {
        line.contains("success") || trial::never_a_success(line, results)
    });
}

/// Under a budget of 3 turns a sub-agent asked the model 21 times, and no line told of it.
#[test]
fn a_budget_leaves_no_sub_agents_that_tell_nothing() {
    let plan = |counts_spending| {
        let change = |spec: &mut crate::Spec| spec.counts_spending = counts_spending;
        Gemini.plan(&trial::spec_with(ID, change)).unwrap()
    };
    let (counted, free) = (plan(true), plan(false));
    assert!(counted.args.iter().any(|arg| arg == "--policy"), "{:?}", counted.args);
    assert!(counted.args.iter().any(|arg| arg.ends_with("/sub-agents.toml")), "{:?}", counted.args);
    assert_eq!((counted.files.len(), free.files.len()), (1, 0));
    assert!(!free.args.iter().any(|arg| arg == "--policy"), "{:?}", free.args);
}
