//! What the recordings do not show, as lines and tables: the ledger against the vendor's own
//! figures, plans, limits, questions, sub-agents, an unknown conversation, and lines that are broken.
//! The recordings themselves are played by the suite that plays those of every runtime.

use super::*;
use crate::{Frame, Out, Stream, trial};
use contract::event::Body;
use contract::money::{Basis, Budget};
use contract::plan::{Adapter, EnvSource, ProjectContext};
use contract::speech::Close;
use contract::{Billing, NanoUsd, Signal, Tokens, Utterance};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn spec() -> Spec {
    trial::spec_with("claude", |spec| {
        spec.context.set("mcpUrl", "http://127.0.0.1:9/mcp").set("leaseToken", "lease-1");
        spec.adapter.name = "mine".to_owned();
        spec.prompt = "mend it".to_owned();
        spec.policy = Policy::Ask;
    })
}

fn frame(stream: Stream, line: usize, bytes: &[u8]) -> Frame<'_> {
    Frame { stream, line: line as u64 + 1, bytes, cut: false }
}

fn hear(spec: &Spec, lines: &[Vec<u8>]) -> Out {
    let (mut dialect, mut out) = (Claude.dialect(spec), Out::default());
    for (index, line) in lines.iter().enumerate() {
        dialect.hear(&frame(Stream::Stdout, index, line), &mut out);
    }
    dialect.close(Close::Ended, &mut out);
    out
}

fn heard(lines: &[Value]) -> Out {
    let lines: Vec<_> = lines.iter().map(|line| line.to_string().into_bytes()).collect();
    hear(&spec(), &lines)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/claude/recordings")
}

/// The agent's lines of a recording; of a transcript, what came in.
fn recorded(name: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.ndjson"))).unwrap();
    let line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(entry) if entry.get("dir").is_some() => {
            (entry["dir"] == "in").then(|| entry["msg"].to_string().into_bytes())
        }
        _ => Some(line.as_bytes().to_vec()),
    };
    text.split('\n').filter(|text| !text.is_empty()).filter_map(line).collect()
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_str()?.strip_suffix(".why").map(str::to_owned)
    };
    let mut names: Vec<_> = entries.filter_map(name).collect();
    names.sort();
    names
}

/// What was booked: approximate increments of each model, until its total replaces them.
fn booked(out: &Out) -> (Tokens, NanoUsd) {
    let mut models: BTreeMap<_, (Tokens, NanoUsd)> = BTreeMap::new();
    for signal in &out.signals {
        let Signal::Spent(usage) = signal else { continue };
        let told = (usage.tokens.unwrap_or_default(), usage.effective_nanousd.unwrap_or_default());
        let row = models.entry((usage.provider.clone(), usage.model.clone())).or_default();
        match (usage.basis, usage.approximate) {
            (Basis::RunTotal, _) => *row = told,
            (Basis::Increment, Some(true)) => {
                *row = (row.0.plus(&told.0), row.1.saturating_add(told.1));
            }
            other => panic!("{other:?} is neither an approximation nor a total"),
        }
    }
    models.into_values().fold(Default::default(), |sum: (Tokens, NanoUsd), row| {
        (sum.0.plus(&row.0), sum.1.saturating_add(row.1))
    })
}

fn tokens(of: &Value, keys: [&str; 4]) -> Tokens {
    let [input, read, write, output] = keys.map(|key| of[key].as_u64().unwrap_or(0));
    let reasoning = None;
    Tokens { input_uncached: input, cache_read: read, cache_write: write, output, reasoning }
}

const VENDORS: [&str; 4] =
    ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens"];
const SERVERS: [&str; 4] = ["input", "cache_read", "cache_create", "output"];

#[test]
fn every_recording_costs_what_the_vendor_says() {
    for name in names() {
        let lines = recorded(&name);
        let parsed = lines.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let results: Vec<_> = parsed.filter(|line| line["type"] == "result").collect();
        let (found, paid) = booked(&hear(&spec(), &lines));
        let Some(last) = results.last() else {
            // Nothing but what an answer told when it began.
            assert_eq!(paid, NanoUsd(0), "{name}");
            assert_eq!(found.total() > 0, name == "tool_sleep.killed", "{name}");
            continue;
        };
        // The totals of a conversation that was taken up hold what was spent before.
        let resumed = name.ends_with(".resume");
        let of = if resumed { "model_usage_since_last_result" } else { "modelUsage" };
        let models = last[of].as_object().unwrap();
        let vendors =
            models.values().fold(Tokens::default(), |sum, model| sum.plus(&tokens(model, VENDORS)));
        let dollars: f64 = match resumed {
            true => models.values().map(|model| model["costUSD"].as_f64().unwrap()).sum(),
            false => last["total_cost_usd"].as_f64().unwrap(),
        };
        assert_eq!((found, Some(paid)), (vendors, NanoUsd::from_usd(dollars)), "{name}");
    }
}

#[test]
fn an_agent_that_is_ended_in_the_middle_costs_what_its_answers_told() {
    let lines = recorded("claude-stream");
    let whole = booked(&hear(&spec(), &lines)).0;
    let mut before = Tokens::default();
    for cut in 0..=lines.len() {
        let found = booked(&hear(&spec(), &lines[..cut])).0;
        assert_eq!(found.minus(&whole).total(), 0, "{cut}: {found:?} of {whole:?}");
        assert_eq!(before.minus(&found).total(), 0, "{cut}: {found:?} after {before:?}");
        before = found;
    }
    // Before the first result both answers of the first turn are known to the last token.
    let is_result =
        |line: &Vec<u8>| serde_json::from_slice::<Value>(line).unwrap()["type"] == "result";
    let first = lines.iter().position(is_result).unwrap();
    let ended = booked(&hear(&spec(), &lines[..first]));
    assert_eq!(ended, (booked(&hear(&spec(), &lines[..=first])).0, NanoUsd(0)));
    assert_eq!((ended.0.cache_write, ended.0.output), (11_886, 44));
}

#[test]
fn an_interrupted_answer_is_paid_for_though_its_result_tells_nothing() {
    let usage = |output: u64| json!({"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": output});
    let message = json!({"id": "m1", "model": "opus", "usage": usage(1)});
    let start =
        json!({"type": "stream_event", "event": {"type": "message_start", "message": message}});
    let grown =
        json!({"type": "stream_event", "event": {"type": "message_delta", "usage": usage(9)}});
    let aborted = json!({"type": "result", "subtype": "error_during_execution",
        "terminal_reason": "aborted_streaming", "usage": {"input_tokens": 0, "output_tokens": 0},
        "modelUsage": {}, "model_usage_since_last_result": {}});
    let out = heard(&[start.clone(), grown, aborted.clone()]);
    assert_eq!((booked(&out).0.total(), booked(&out).0.output), (17, 9));
    let out = heard(&[start.clone(), aborted]);
    assert_eq!(booked(&out).0.total(), 9, "what it began with, once");
    // A shape that is not known costs nothing, and the line is heard all the same.
    let odd = json!({"type": "assistant", "message": {"id": "m2", "usage": {"input_tokens": "many"},
        "content": [{"type": "text", "text": "here"}]}});
    let out = heard(&[odd]);
    assert_eq!(booked(&out).0.total(), 0);
    assert!(out.drafts.iter().any(|draft| matches!(draft.body, Body::AssistantText(_))));
}

#[test]
fn each_answer_is_counted_once_and_at_its_end() {
    let usage = |output: u64| json!({"input_tokens": 3, "output_tokens": output});
    let message = |id: &str, output| {
        json!({"id": id, "model": "opus", "content": [],
        "usage": usage(output)})
    };
    let start = |id| {
        let event = json!({"type": "message_start", "message": message(id, 1)});
        json!({"type": "stream_event", "event": event})
    };
    let whole = |id| json!({"type": "assistant", "message": message(id, 1)});
    let of_helper =
        |id| json!({"type": "assistant", "parent_tool_use_id": "call", "message": message(id, 2)});
    let delta = |output| {
        let event = json!({"type": "message_delta", "usage": usage(output)});
        json!({"type": "stream_event", "event": event})
    };
    let result = |spent: Value| {
        json!({"type": "result", "subtype": "success", "result": "ok",
            "model_usage_since_last_result": spent})
    };
    let first = [start("m1"), whole("m1"), whole("m1")];
    assert_eq!(answers_and_tokens(&heard_open(&first)), (1, 0), "nothing before its end");
    let second = [&first[..], &[delta(9), of_helper("h1"), of_helper("h1")]].concat();
    assert_eq!(answers_and_tokens(&heard_open(&second)), (2, 12 + 5));
    // The vendor's total counts a side call of another model, and calls the first by another name.
    let spent = json!({"opus[1m]": {"inputTokens": 5, "outputTokens": 9, "costUSD": 0.5},
        "haiku": {"inputTokens": 2, "costUSD": 0.1}});
    let third = [&second[..], &[result(spent)]].concat();
    let out = heard_open(&third);
    assert_eq!(
        booked(&out),
        (Tokens { input_uncached: 7, output: 9, ..Tokens::default() }, NanoUsd(600_000_000))
    );
    // A second turn adds to it.
    let again = json!({"opus[1m]": {"inputTokens": 1, "outputTokens": 1, "costUSD": 0.5}});
    let fourth = [&third[..], &[start("m2"), delta(4), result(again)]].concat();
    let out = heard_open(&fourth);
    assert_eq!(booked(&out).0.total(), 18);
    assert_eq!(booked(&out).1, NanoUsd(1_100_000_000));
    assert_eq!(answers_and_tokens(&out).0, 3);
}

#[test]
fn a_sub_agents_output_is_estimated_until_its_total_is_told() {
    let block = |block: Value| {
        json!({"type": "assistant", "parent_tool_use_id": "call", "message": {"id": "h1",
            "model": "opus", "content": [block],
            "usage": {"input_tokens": 3, "output_tokens": 1}}})
    };
    let text = block(json!({"type": "text", "text": "x".repeat(400)}));
    let call = block(json!({"type": "tool_use", "id": "c", "name": "Bash",
        "input": {"command": "y".repeat(382)}}));
    let out = heard_open(&[text.clone(), call.clone()]);
    assert_eq!(answers_and_tokens(&out), (1, 3 + 200), "800 bytes");
    let total = json!({"type": "result", "subtype": "success", "result": "ok",
        "model_usage_since_last_result": {"opus": {"inputTokens": 3, "outputTokens": 170}}});
    let out = heard_open(&[text, call, total]);
    assert_eq!(booked(&out).0.total(), 173);
}

#[test]
fn its_own_limit_does_not_fail_finished_work() {
    let spec = Spec {
        budget: Budget { nanousd: Some(NanoUsd(1)), turns: Some(4), ..Budget::default() },
        ..spec()
    };
    let args = Claude.plan(&spec).unwrap().args;
    let given = |flag: &str| {
        let place = args.iter().position(|arg| arg == flag);
        place.and_then(|place| args.get(place + 1)).cloned()
    };
    assert_eq!(given("--max-budget-usd").as_deref(), Some("0.000000001"));
    assert_eq!(given("--max-turns").as_deref(), Some("4"));
    let answer = json!({"type": "assistant", "message": {"id": "m1", "content":
        [{"type": "text", "text": "done"}]}});
    for (stop, code) in [("end_turn", None), ("tool_use", Some(Code::BudgetExceeded))] {
        let limit = json!({"type": "result", "subtype": "error_max_budget_usd", "is_error": true,
            "terminal_reason": "budget_exhausted", "stop_reason": stop,
            "errors": ["Reached maximum budget"]});
        let mut dialect = Claude.dialect(&spec);
        let mut out = Out::default();
        for (index, line) in [&answer, &limit].into_iter().enumerate() {
            dialect.hear(&frame(Stream::Stdout, index, line.to_string().as_bytes()), &mut out);
        }
        let Some(Signal::Result(ending)) = out.signals.last() else { panic!("{out:?}") };
        let text = code.is_none().then_some("done");
        assert_eq!((ending.code, ending.text.as_deref()), (code, text), "{stop}");
    }
}

/// Heard without an end of the process.
fn heard_open(lines: &[Value]) -> Out {
    let mut dialect = Claude.dialect(&spec());
    let mut out = Out::default();
    for (index, line) in lines.iter().enumerate() {
        dialect.hear(&frame(Stream::Stdout, index, line.to_string().as_bytes()), &mut out);
        // A host that takes over goes on with the saved state.
        dialect = Claude.restore(&dialect.save()).unwrap();
    }
    out
}

fn answers_and_tokens(out: &Out) -> (usize, u64) {
    let answers = out.signals.iter().filter(|signal| **signal == Signal::ModelAnswer).count();
    (answers, booked(out).0.total())
}

#[test]
fn what_is_remembered_of_spending_is_bounded() {
    let answer = |n: usize| {
        let (id, model) = (format!("m{n}"), format!("model-{}", n % 40));
        json!({"type": "assistant", "message": {"id": id, "model": model, "content": [],
            "usage": {"input_tokens": 1, "output_tokens": 1}}})
    };
    let lines: Vec<_> = (0..500).map(answer).collect();
    let mut dialect = Claude.dialect(&spec());
    let mut out = Out::default();
    let mut larges = 0;
    for (index, line) in lines.iter().enumerate() {
        dialect.hear(&frame(Stream::Stdout, index, line.to_string().as_bytes()), &mut out);
        larges = larges.max(dialect.save().len());
    }
    assert!(larges < 16 * 1024, "{larges} bytes");
    dialect.close(Close::Ended, &mut out);
    assert_eq!(booked(&out).0.total(), 1_000);
}

/// Recordings whose figures cannot equal the server's, and why.
const INCOMPARABLE: &[(&str, &str)] = &[
    ("malformed", "the agent counts nothing that it could not read"),
    ("stream_error", "a broken stream told one token of output"),
    (
        "tool_sleep.killed",
        "it was ended before it told its output: an answer begins with one token",
    ),
    ("truncate", "a broken stream told one token of output, and not every one was counted"),
];

#[test]
fn every_recording_costs_the_tokens_that_the_server_reported() {
    let mut compared = 0;
    for name in names() {
        let asked = std::fs::read_to_string(folder().join(format!("{name}.requests.ndjson")));
        let Ok(asked) = asked else { continue };
        if INCOMPARABLE.iter().any(|(incomparable, _)| *incomparable == name) {
            continue;
        }
        let meta = std::fs::read(folder().join(format!("{name}.meta.json"))).unwrap();
        let meta: Value = serde_json::from_slice(&meta).unwrap();
        let before = meta["first_run_requests"].as_u64().unwrap_or(0) as usize;
        let requests = asked.lines().skip(before);
        let requests = requests.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let server = requests
            .fold(Tokens::default(), |sum, request| sum.plus(&tokens(&request["usage"], SERVERS)));
        assert_eq!(booked(&hear(&spec(), &recorded(&name))).0, server, "{name}");
        compared += usize::from(server.total() > 0);
    }
    assert!(compared > 12, "only {compared} recordings were compared");
}

/// The plan without the allowlist and the card's names, which are the same for all.
fn planned(spec: &Spec) -> String {
    let mut plan = Claude.plan(spec).unwrap();
    plan.env.retain(|entry| !matches!(entry.source, EnvSource::Allowlist | EnvSource::Card));
    serde_json::to_string_pretty(&plan).unwrap()
}

#[test]
fn plans_read_as_they_were_reviewed() {
    let rows = [
        ("ask", spec()),
        ("allow-all as root", Spec { policy: Policy::AllowAll, as_root: true, ..spec() }),
        (
            "resume with a model and a system prompt, isolated, without MCP",
            Spec {
                model: Some("opus".to_owned()),
                system_prompt: Some("be brief".to_owned()),
                session: Some("0f0e".to_owned()),
                adapter: Adapter {
                    mcp: false,
                    binary: Some("/opt/claude".to_owned()),
                    extra_args: vec!["--effort".to_owned(), "low".to_owned()],
                    project_context: Some(ProjectContext::Isolate),
                    ..spec().adapter
                },
                ..spec()
            },
        ),
    ];
    let shown: Vec<_> =
        rows.iter().map(|(name, spec)| format!("{name}\n{}", planned(spec))).collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn root_is_told_to_be_meant_only_where_everything_is_allowed() {
    for policy in [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll] {
        for as_root in [false, true] {
            let plan = Claude.plan(&Spec { policy, as_root, ..spec() }).unwrap();
            let set = plan.env.iter().any(|entry| entry.name == "IS_SANDBOX");
            assert_eq!(set, as_root && policy == Policy::AllowAll, "{policy:?} {as_root}");
        }
    }
}

#[test]
fn a_long_system_prompt_goes_by_file() {
    let system_prompt = Some("x".repeat(limits::PROMPT_ARGV_BYTES_MAX + 1));
    let plan = Claude.plan(&Spec { system_prompt, ..spec() }).unwrap();
    assert!(plan.args.iter().any(|arg| arg == "/run/files/system-prompt.md"));
    assert!(plan.files.iter().any(|file| file.name == SYSTEM_FILE));
    assert!(plan.args.iter().all(|arg| arg.len() < 1000));
}

fn init() -> Value {
    json!({ "type": "system", "subtype": "init", "session_id": "s-1", "model": "m" })
}

fn done(queued: u64) -> Value {
    json!({ "type": "result", "subtype": "success", "is_error": false, "result": "ok",
            "terminal_reason": "completed", "queued_turn_count": queued })
}

#[test]
fn a_result_before_a_message_that_waits_is_no_end() {
    let ends = |out: &Out| out.signals.iter().any(|signal| matches!(signal, Signal::Result(_)));
    assert!(!ends(&heard(&[init(), done(1)])));
    assert!(ends(&heard(&[init(), done(1), init(), done(0)])));
}

#[test]
fn quota_windows_are_told_and_a_rejection_holds_the_agent() {
    let event = |status: &str| {
        json!({ "type": "rate_limit_event", "rate_limit_info": {
            "status": status, "resetsAt": 1_784_079_000, "rateLimitType": "five_hour",
            "unifiedWindows": { "five_hour": { "utilization": 1, "resetsAt": 1_784_079_000 },
                                "seven_day": { "utilization": 0.25 } } } })
    };
    let out = heard(&[event("allowed_warning")]);
    let Body::Quota(quota) = &out.drafts[0].body else { panic!("{:?}", out.drafts) };
    let windows: Vec<_> =
        quota.windows.iter().map(|w| (w.id.as_str(), w.used_percent, w.exhausted)).collect();
    assert_eq!(windows, [("five_hour", Some(100.0), true), ("seven_day", Some(25.0), false)]);
    assert!(!quota.rate_limited && out.signals.is_empty());

    let out = heard(&[event("rejected")]);
    let Signal::Limited(limited) = &out.signals[0] else { panic!("{:?}", out.signals) };
    let resets_at = limited.resets_at.map(|at| at.to_string());
    assert_eq!((limited.code, limited.terminal), (Code::ProviderQuota, false));
    assert_eq!(resets_at.as_deref(), Some("2026-07-15T01:30:00.000Z"));
}

#[test]
fn an_unknown_conversation_is_told_by_words_and_only_where_one_was_taken_up() {
    let words = "No conversation found with session ID: 0f0e";
    let line = json!({ "type": "result", "subtype": "error_during_execution", "is_error": true,
                       "errors": [words] });
    for (session, expected) in [(None, 0), (Some("0f0e".to_owned()), 1)] {
        let spec = Spec { session, ..spec() };
        let (mut dialect, mut out) = (Claude.dialect(&spec), Out::default());
        dialect.hear(&frame(Stream::Stderr, 0, words.as_bytes()), &mut out);
        dialect.hear(&frame(Stream::Stdout, 0, line.to_string().as_bytes()), &mut out);
        let told = out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown);
        assert_eq!(told.count(), expected);
        assert!(!out.signals.contains(&Signal::TurnStarted));
    }
}

fn asks(tool: &str) -> Value {
    json!({ "type": "control_request", "request_id": "q-1", "request": {
        "subtype": "can_use_tool", "tool_name": tool, "input": { "file_path": "/w/a" } } })
}

#[test]
fn a_question_is_answered_once_and_its_input_goes_back_with_a_yes() {
    let rows = [
        (Some("allow"), r#"{"behavior":"allow","updatedInput":{"file_path":"/w/a"}}"#),
        (Some("deny"), r#""behavior":"deny","message":"#),
        (None, r#""behavior":"deny","message":"#),
    ];
    for (option, expected) in rows {
        let (mut dialect, mut out) = (Claude.dialect(&spec()), Out::default());
        dialect.hear(&frame(Stream::Stdout, 0, asks("Write").to_string().as_bytes()), &mut out);
        let Some(Signal::Asked(question)) = out.signals.last() else { panic!("{:?}", out.signals) };
        assert_eq!((question.title.as_str(), question.reads), ("Write: /w/a", false));
        let option = option.map(str::to_owned);
        let decide = Utterance::Decide { request: question.request.clone(), option, reason: None };
        dialect.say(&decide, &mut out);
        dialect.say(&decide, &mut out);
        let said: Vec<_> = out.frames.iter().map(|said| String::from_utf8_lossy(said)).collect();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains(expected), "{}", said[0]);
    }
}

#[test]
fn question_carries_command_or_change() {
    let rows = [
        (
            "Bash",
            json!({ "command": "rm -r x", "description": "clean up" }),
            json!({ "tool": "Bash", "tool_kind": "execute", "command": "rm -r x", "cwd": "/w",
                    "reason": "clean up" }),
        ),
        (
            "Edit",
            json!({ "file_path": "/w/a", "old_string": "1", "new_string": "2" }),
            json!({ "tool": "Edit", "tool_kind": "edit", "paths": ["/w/a"], "cwd": "/w",
                    "diffs": [{ "path": "/w/a", "old_text": "1", "new_text": "2" }] }),
        ),
        (
            "Write",
            json!({ "file_path": "/w/a", "content": "all" }),
            json!({ "tool": "Write", "tool_kind": "edit", "paths": ["/w/a"], "cwd": "/w",
                    "diffs": [{ "path": "/w/a", "new_text": "all" }] }),
        ),
        (
            "mcp__x__y",
            json!({ "n": 1 }),
            json!({ "tool": "mcp__x__y", "input": { "n": 1 }, "cwd": "/w" }),
        ),
    ];
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s", "cwd": "/w" });
    for (tool, input, expected) in rows {
        let mut line = asks(tool);
        line["request"]["input"] = input;
        let out = heard(&[init.clone(), line]);
        let asked = out.signals.iter().find_map(|signal| match signal {
            Signal::Asked(question) => Some(question),
            _ => None,
        });
        let question = asked.expect("a question");
        assert_eq!(serde_json::to_value(&question.content).unwrap(), expected);
    }
}

#[test]
fn diagnostics_of_an_interrupt_are_not_a_reason() {
    let errors = ["[ede_diagnostic] result_type=user stop_reason=null", "it broke"];
    let line = json!({ "type": "result", "subtype": "error_during_execution", "is_error": true,
                       "errors": errors });
    let out = heard(&[line]);
    let told = format!("{:?}", out.signals);
    assert!(told.contains("it broke") && !told.contains("ede_diagnostic"), "{told}");
}

#[test]
fn reason_of_a_denial_reaches_the_agent() {
    let (mut dialect, mut out) = (Claude.dialect(&spec()), Out::default());
    dialect.hear(&frame(Stream::Stdout, 0, asks("Write").to_string().as_bytes()), &mut out);
    let (request, option) = ("q-1".to_owned(), Some("deny".to_owned()));
    let reason = Some("use b.txt".to_owned());
    dialect.say(&Utterance::Decide { request, option, reason }, &mut out);
    let said = String::from_utf8_lossy(&out.frames[0]);
    assert!(said.contains("did not permit this, and says: use b.txt"), "{said}");
}

#[test]
fn questions_that_look_are_known_and_those_about_our_own_tools_are_not_asked() {
    let rows = [("Read", Some(true)), ("Bash", Some(false)), ("mcp__ostler__read_task", None)];
    for (tool, reads) in rows {
        let out = heard(&[asks(tool)]);
        let asked = out.signals.iter().find_map(|signal| match signal {
            Signal::Asked(question) => Some(question.reads),
            _ => None,
        });
        assert_eq!(asked, reads, "{tool}");
        assert_eq!(out.frames.is_empty(), reads.is_some(), "{tool}");
    }
    // A choice that nobody can make, and a request that is not known, do not wait for ever.
    let other =
        json!({ "type": "control_request", "request_id": "r", "request": { "subtype": "x" } });
    for line in [asks(tools::CHOICE), other] {
        assert_eq!(heard(&[line]).frames.len(), 1);
    }
}

#[test]
fn what_a_sub_agent_does_is_under_its_call_and_not_in_the_answer() {
    let block = |block: Value| {
        json!({ "type": "assistant", "parent_tool_use_id": "t-1",
                                       "message": { "id": "m-2", "content": [block] } })
    };
    let out = heard(&[
        json!({ "type": "assistant", "message": { "id": "m-1", "content": [
            { "type": "tool_use", "id": "t-1", "name": "Task", "input": {} } ] } }),
        block(json!({ "type": "text", "text": "looking" })),
        block(json!({ "type": "tool_use", "id": "t-2", "name": "Read", "input": {} })),
        done(0),
    ]);
    let parents = out.drafts.iter().filter_map(|draft| match &draft.body {
        Body::ToolUse(call) => Some(call.parent.as_deref()),
        _ => None,
    });
    assert_eq!(parents.collect::<Vec<_>>(), [None, Some("t-1")]);
    assert!(!out.drafts.iter().any(|draft| matches!(draft.body, Body::AssistantText(_))));
    // Both calls were left open by the agent and are closed with its turn.
    let closed = out.signals.iter().filter(|signal| matches!(signal, Signal::ToolClosed { .. }));
    assert_eq!(closed.count(), 2);
}

#[test]
fn late_result_of_a_sub_agent_is_understood() {
    let result = |parent: Option<&str>| {
        json!({ "type": "user", "parent_tool_use_id": parent, "agent_id": "a",
                "message": { "content": [{ "type": "tool_result", "tool_use_id": "t-2" }] } })
    };
    let levels = |parent| {
        let out = heard(&[done(0), result(parent)]);
        let levels = out.drafts.iter().filter_map(|draft| match &draft.body {
            Body::Log(log) => log.level.clone(),
            _ => None,
        });
        levels.collect::<Vec<_>>()
    };
    assert_eq!(levels(Some("t-1")), ["its_own"]);
    assert_eq!(levels(None), ["unrecognised"]);
}

#[test]
fn exits_mean_what_their_words_say() {
    let rows = [
        (
            1,
            "cannot be used with root/sudo privileges for security reasons",
            Some(Code::PolicyNotPossible),
        ),
        (1, "No conversation found with session ID: x", Some(Code::NativeSessionUnknown)),
        (1, "error: unknown option '--nope'", Some(Code::InvalidConfig)),
        (1, "Not logged in · Please run /login", Some(Code::AuthRequired)),
        (1, "", None),
        (0, "Please run /login", None),
        (143, "", None),
    ];
    for (exit_code, stderr_tail, expected) in rows {
        let evidence = ExitEvidence { exit_code: Some(exit_code), signal: None, stderr_tail };
        assert_eq!(Claude.classify(&evidence), expected, "{exit_code} {stderr_tail}");
    }
}

#[test]
fn state_of_another_version_is_refused() {
    let saved = br#"{"version":99}"#;
    assert_eq!(Claude.restore(saved).err().map(|fault| fault.code), Some(Code::ProcessLost));
}

proptest! {
    #[test]
    fn broken_lines_are_heard_without_a_panic_and_leave_no_call_open(
        name in proptest::sample::select(names()),
        place in any::<proptest::sample::Index>(),
        line in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut lines = recorded(&name);
        let index = line.index(lines.len());
        let at = place.index(lines[index].len());
        match cut {
            true => lines[index].truncate(at),
            false => lines[index][at] = byte,
        }
        let out = hear(&spec(), &lines);
        let opened = out.signals.iter().filter(|signal| matches!(signal, Signal::ToolOpened { .. }));
        let closed = out.signals.iter().filter(|signal| matches!(signal, Signal::ToolClosed { .. }));
        prop_assert_eq!(opened.count(), closed.count());
    }
}

#[test]
fn an_index_at_its_very_end_is_counted_on_from_without_a_panic() {
    let event = |event: Value| json!({ "type": "stream_event", "event": event });
    let start = json!({ "type": "content_block_start", "index": u64::MAX });
    heard(&[
        event(json!({ "type": "message_start", "message": { "id": "m" } })),
        event(start),
        event(json!({ "type": "content_block_start" })),
    ]);
}

/// The figures of results without `modelUsage`, one result a turn.
fn spent_by_total(resumes: bool, results: &[Value]) -> Vec<(Option<String>, u64, Option<i64>)> {
    let mut wanted = spec();
    wanted.session = resumes.then(|| "s".to_owned());
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "model": "opus",
        "apiKeySource": "none"});
    let mut lines = Vec::new();
    for result in results {
        lines.push(init.to_string().into_bytes());
        lines.push(result.to_string().into_bytes());
    }
    let out = hear(&wanted, &lines);
    let billing = Signal::Billing { billing: Billing::Subscription };
    assert!(out.signals.contains(&billing), "a login has no key");
    let mut spent = Vec::new();
    for signal in &out.signals {
        if let Signal::Spent(usage) = signal {
            assert_eq!(usage.basis, Basis::RunTotal);
            let tokens = usage.tokens.map_or(0, |tokens| tokens.total());
            spent.push((usage.model.clone(), tokens, usage.effective_nanousd.map(|nano| nano.0)));
        }
    }
    spent
}

#[test]
fn total_dollars_count_where_there_are_none_by_model() {
    let result = |dollars: Value| {
        json!({"type": "result", "subtype": "success", "result": "done", "total_cost_usd": dollars,
            "usage": {"input_tokens": 10, "output_tokens": 5}})
    };
    let opus = |tokens, nano| (Some("opus".to_owned()), tokens, nano);
    let two = [result(json!(0.1)), result(json!(0.25))];
    assert_eq!(
        spent_by_total(false, &two),
        [opus(15, Some(100_000_000)), opus(30, Some(250_000_000))],
        "the total is that of the conversation, and each turn adds its growth"
    );
    assert_eq!(
        spent_by_total(true, &two),
        [opus(15, None), opus(30, None)],
        "the first total of a resumed conversation holds what earlier runs spent"
    );
    assert_eq!(spent_by_total(false, &[result(Value::Null)]), [opus(15, None)]);
    let dollars = json!({"type": "result", "subtype": "success", "result": "done",
        "total_cost_usd": 0.1});
    assert_eq!(spent_by_total(false, &[dollars]), [opus(0, Some(100_000_000))]);
}

#[test]
fn the_source_of_the_key_tells_the_billing() {
    for (source, billing) in [
        ("none", Some(Billing::Subscription)),
        ("oauth", Some(Billing::Subscription)),
        ("ANTHROPIC_API_KEY", Some(Billing::Metered)),
        ("apiKeyHelper", Some(Billing::Metered)),
        ("", None),
    ] {
        assert_eq!(result::billing(source), billing, "{source}");
    }
}
