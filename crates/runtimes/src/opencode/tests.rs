//! What the recordings do not show by themselves: the plans, the tokens and dollars against the
//! vendor's own figures and against what the model server reported, what was never recorded but is
//! known, and that no line, however broken, does harm.

use super::OpenCode;
use crate::trial::{self, Style, Sum, booked, hear, heard, recordings, results, spec, spec_with};
use crate::{Runtime, Stream};
use contract::event::{Body, ToolStatus};
use contract::plan::{self, ProjectContext};
use contract::speech::Close;
use contract::{Policy, Signal};
use serde_json::{Value, json};
use testkit::recorded::Recording;

const ID: &str = "opencode";

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let rows = trial::rows_with(&[
        ("a model", |spec| spec.model = Some("anthropic/claude-sonnet-5".to_owned())),
        ("a conversation", |spec| spec.session = Some("ses_1".to_owned())),
        ("isolated, with more arguments", |spec| {
            spec.adapter.project_context = Some(ProjectContext::Isolate);
            spec.adapter.extra_args = vec!["--variant".to_owned(), "high".to_owned()];
        }),
        ("another binary, no tools of ours", |spec| {
            spec.adapter.binary = Some("/opt/opencode".to_owned());
            spec.adapter.mcp = false;
        }),
    ]);
    insta::assert_snapshot!(trial::plans(&OpenCode, &rows, Style::Plain));
}

/// In one run of 30 s under a budget of 60,000 tokens a sub-agent asked the model 66 times, and no line
/// told of it.
#[test]
fn a_budget_leaves_no_sub_agents_that_tell_nothing() {
    let permission = |policy, counts_spending| {
        let change = |spec: &mut crate::Spec| {
            (spec.policy, spec.counts_spending) = (policy, counts_spending);
        };
        let plan = OpenCode.plan(&spec_with(ID, change)).unwrap();
        let set = plan.env.iter().find(|entry| entry.name == "OPENCODE_PERMISSION");
        set.map(|entry| format!("{:?}", entry.source))
    };
    let set = permission(Policy::AllowAll, true).unwrap_or_default();
    assert!(set.contains(r#"{\"task\":\"deny\"}"#), "{set}");
    assert_eq!(permission(Policy::AllowAll, false), None);
    // These leave them out anyway.
    for policy in [Policy::Deny, Policy::AllowReads] {
        assert_eq!(permission(policy, true), permission(policy, false), "{policy:?}");
    }
}

/// The figures of the lines themselves, read without the dialect.
fn vendor(recording: &Recording) -> Sum {
    let mut sum = Sum::default();
    for line in trial::values(recording) {
        let part = &line["part"];
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let tokens = &part["tokens"];
        sum.uncached += count(&tokens["input"]) + count(&tokens["cache"]["write"]);
        sum.cached += count(&tokens["cache"]["read"]);
        sum.output += count(&tokens["output"]) + count(&tokens["reasoning"]);
        sum.reasoning += count(&tokens["reasoning"]);
        sum.nanousd += (part["cost"].as_f64().unwrap_or(0.0) * 1e9).round() as i64;
        // The vendor's own total is the check of the buckets.
        let total = count(&tokens["input"])
            + count(&tokens["output"])
            + count(&tokens["reasoning"])
            + count(&tokens["cache"]["read"])
            + count(&tokens["cache"]["write"]);
        assert_eq!(total, count(&tokens["total"]));
    }
    sum
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let all = recordings(ID);
    let mut compared = 0;
    for recording in &all {
        let sum = booked(&trial::played(&OpenCode, recording));
        assert_eq!(sum, vendor(recording), "{}", recording.name);
        if sum == Sum::default() {
            continue;
        }
        assert!(sum.nanousd > 0, "{}", recording.name);
        let served = Sum { nanousd: sum.nanousd, ..trial::served(recording, &all) };
        assert_eq!(sum, served, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 19, "recordings with a step that finished");
}

#[test]
fn every_call_that_was_opened_is_closed_once() {
    assert_eq!(trial::assert_calls_are_paired(&OpenCode), 11);
}

fn line(kind: &str, part: Value) -> Value {
    json!({"type": kind, "sessionID": "ses_1", "part": part})
}

fn finish(reason: &str) -> Value {
    line("step_finish", json!({"reason": reason}))
}

fn tool(name: &str, state: Value) -> Value {
    line("tool_use", json!({"tool": name, "callID": "call_1", "state": state}))
}

#[test]
fn a_step_that_used_a_tool_is_not_the_end_whatever_its_reason() {
    let worked = tool("bash", json!({"status": "completed", "output": "ok"}));
    let lines = [line("step_start", json!({})), worked, finish("stop")];
    assert_eq!(results(&heard(&OpenCode, &lines)), []);
    let told = line("text", json!({"text": "Done."}));
    let more = [line("step_start", json!({})), told, finish("stop")];
    let lines: Vec<_> = lines.into_iter().chain(more).collect();
    assert_eq!(results(&heard(&OpenCode, &lines)), [None]);
}

#[test]
fn a_last_line_that_was_cut_is_no_end() {
    let hello = trial::recording(ID, "hello");
    let (last, before) = hello.stdout.split_last().unwrap();
    for length in 0..last.len() {
        let lines: Vec<_> = before.iter().cloned().chain([last[..length].to_vec()]).collect();
        let mut dialect = OpenCode.dialect(&spec(ID));
        let mut out = hear(&mut *dialect, Stream::Stdout, &lines);
        dialect.close(Close::Ended, &mut out);
        assert_eq!(results(&out), [], "cut after {length} bytes");
    }
}

#[test]
fn what_follows_an_end_is_a_turn_of_its_own() {
    let told = line("text", json!({"text": "Hello."}));
    let step = [line("step_start", json!({})), told, finish("stop")];
    let overflow =
        json!({"type": "error", "sessionID": "ses_1", "error": {"name": "ContextOverflowError"}});
    let lines: Vec<_> = step.clone().into_iter().chain([overflow]).chain(step).collect();
    let out = trial::heard_to_the_end(&OpenCode, &lines, Close::Ended);
    let turns = out.signals.iter().filter(|signal| **signal == Signal::TurnStarted).count();
    assert_eq!(turns, 2);
    // The error was not the end, because a step followed it.
    assert_eq!(results(&out), [None, None]);
}

#[test]
fn a_part_that_is_printed_twice_is_told_once() {
    let told = line("text", json!({"id": "prt_1", "text": "Hello."}));
    let thought = line("reasoning", json!({"id": "prt_2", "text": "Hm."}));
    let lines = [told.clone(), thought.clone(), told, thought];
    let out = heard(&OpenCode, &lines);
    let kinds: Vec<_> = out.drafts.iter().map(|draft| draft.body.kind()).collect();
    assert_eq!(kinds, ["session", "assistant_text", "thinking", "log", "log"]);
}

#[test]
fn a_command_that_ended_badly_and_a_tool_that_does_not_exist_did_not_go_well() {
    let rows = [
        ("bash", json!({"status": "completed", "metadata": {"exit": 0}}), ToolStatus::Ok),
        ("bash", json!({"status": "completed", "metadata": {"exit": 3}}), ToolStatus::Error),
        ("invalid", json!({"status": "completed"}), ToolStatus::Error),
        ("read", json!({"status": "error", "error": "no such file"}), ToolStatus::Error),
        ("read", json!({}), ToolStatus::Error),
    ];
    for (name, state, expected) in rows {
        let out = heard(&OpenCode, &[tool(name, state.clone())]);
        let statuses = trial::told(&out, |body| match body {
            Body::ToolResult(result) => Some(result.status),
            _ => None,
        });
        assert_eq!(statuses, [expected], "{name} {state}");
    }
}

#[test]
fn changes_and_plans_are_told_when_they_were_made() {
    let edit = json!({"filePath": "/w/a", "oldString": "x", "newString": "y"});
    let files = json!([{"filePath": "/w/b", "patch": "-b"}, {"filePath": "/w/c", "movePath": "/w/d", "patch": "+d"}]);
    let todos = json!({"todos": [{"content": "look", "status": "completed", "priority": "high"}]});
    let rows = [
        tool("edit", json!({"status": "completed", "input": edit, "metadata": {"diff": "+y"}})),
        tool("edit", json!({"status": "completed", "input": edit})),
        tool("edit", json!({"status": "error", "error": "not found", "input": edit})),
        tool("apply_patch", json!({"status": "completed", "metadata": {"files": files}})),
        tool("todowrite", json!({"status": "completed", "input": todos})),
    ];
    let out = heard(&OpenCode, &rows);
    let told: Vec<_> = out
        .drafts
        .iter()
        .filter(|draft| matches!(draft.body, Body::Diff(_) | Body::Plan(_)))
        .map(|draft| serde_json::to_string(&draft.body).unwrap())
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn the_model_that_was_asked_for_names_what_was_spent() {
    let tokens = json!({"input": 1, "output": 2, "reasoning": 3});
    let lines = [line("step_finish", json!({"reason": "stop", "tokens": tokens, "cost": 0}))];
    let spec = spec_with(ID, |spec| spec.model = Some("acme/big/model".to_owned()));
    let out = hear(&mut *OpenCode.dialect(&spec), Stream::Stdout, &trial::lines(&lines));
    let usage = out.signals.iter().find_map(|signal| match signal {
        Signal::Spent(usage) => Some(usage),
        _ => None,
    });
    let usage = usage.unwrap();
    assert_eq!(usage.provider.as_deref(), Some("acme"));
    assert_eq!(usage.model.as_deref(), Some("big/model"));
    assert_eq!(usage.tokens.unwrap().output, 5);
    assert_eq!(usage.effective_nanousd, None);
}

#[test]
fn a_conversation_that_is_not_known_is_found_by_words_and_only_when_one_was_asked_for() {
    let words = "Error: Session not found";
    trial::assert_unknown_session_is_found(&OpenCode, words, &[Stream::Stdout, Stream::Stderr]);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&OpenCode);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&OpenCode, trial::never_a_success);
}

#[test]
fn an_agent_that_only_reads_may_read_its_skills_and_what_lies_beside_them() {
    let rules = |skills: &[&str]| {
        let spec = spec_with("opencode", |spec| {
            spec.policy = Policy::AllowReads;
            let skill = |name: &&str| plan::Skill { name: (*name).to_owned(), always: false };
            spec.adapter.skills = skills.iter().map(skill).collect();
        });
        let plan = OpenCode.plan(&spec).unwrap();
        let of = |name: &str| plan.env.iter().find(|entry| entry.name == name).cloned();
        match of("OPENCODE_PERMISSION").unwrap().source {
            plan::EnvSource::Runtime { value } => serde_json::from_str::<Value>(&value).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let with = rules(&["x"]);
    assert_eq!(with["skill"], "allow");
    assert_eq!(with["external_directory"]["/run/files/skills/*"], "allow");
    assert_eq!(with["external_directory"]["*"], "deny");
    assert_eq!((&rules(&[])["skill"], &with["edit"]), (&Value::Null, &Value::Null));
}
