//! The agent by plans, by dialogues that were not recorded, and by its own figures: what is started
//! for each policy, what is said when, that tokens equal what the agent and its model server count,
//! and that no line can break the dialect. Outcomes are tested for all runtimes at once elsewhere.

use super::*;
use crate::{Frame, Out, Stream, trial};
use contract::event::Body;
use contract::money::Basis;
use contract::plan::{Adapter, EnvSource, ProjectContext};
use contract::speech::{Close, Ending};
use contract::{Billing, Signal, Timestamp, Tokens, Utterance};
use proptest::prelude::*;
use serde_json::Value;
use std::path::PathBuf;

fn spec() -> Spec {
    trial::spec_with("codex", |spec| {
        spec.context.set("mcpUrl", "http://127.0.0.1:9/mcp").set("workspacePath", "/w/1");
        spec.prompt = "mend it".to_owned();
    })
}

fn hear(dialect: &mut dyn Dialect, stream: Stream, line: &str) -> Out {
    let mut out = Out::default();
    dialect.hear(&Frame { stream, line: 1, bytes: line.as_bytes(), cut: false }, &mut out);
    out
}

fn told(dialect: &mut dyn Dialect, line: &Value) -> Out {
    hear(dialect, Stream::Stdout, &line.to_string())
}

fn say(dialect: &mut dyn Dialect, utterance: &Utterance) -> Vec<Value> {
    let mut out = Out::default();
    dialect.say(utterance, &mut out);
    frames(&out)
}

fn frames(out: &Out) -> Vec<Value> {
    out.frames.iter().map(|frame| serde_json::from_slice(frame).unwrap()).collect()
}

/// A dialect after its greeting, with its thread.
fn with_thread(spec: &Spec) -> Box<dyn Dialect> {
    let mut dialect = Codex.dialect(spec);
    assert!(dialect.open().is_some());
    told(&mut *dialect, &json!({ "id": 0, "result": { "userAgent": "ostler/0.166.0" } }));
    told(&mut *dialect, &json!({ "id": 1, "result": { "thread": { "id": "t" }, "model": "m" } }));
    dialect
}

/// The same in its first turn.
fn in_turn() -> Box<dyn Dialect> {
    let mut dialect = with_thread(&spec());
    told(&mut *dialect, &json!({ "id": 2, "result": { "turn": { "id": "u" } } }));
    told(&mut *dialect, &note("turn/started", json!({ "turn": { "id": "u" } })));
    dialect
}

fn note(method: &str, mut params: Value) -> Value {
    if params.get("threadId").is_none() {
        params["threadId"] = json!("t");
    }
    json!({ "method": method, "params": params })
}

fn result(out: &Out) -> Option<&Ending> {
    out.signals.iter().find_map(|signal| match signal {
        Signal::Result(ending) => Some(ending),
        _ => None,
    })
}

#[test]
fn the_start_of_a_server_is_told_only_when_it_fails_and_a_warning_by_its_words() {
    let logs = |method: &str, params: Value| -> Vec<String> {
        let out = told(&mut *in_turn(), &note(method, params));
        let texts = out.drafts.iter().map(|draft| match &draft.body {
            Body::Log(log) => format!("{}: {}", log.level.as_deref().unwrap_or(""), log.text),
            other => panic!("{other:?}"),
        });
        texts.collect()
    };
    let started = "mcpServer/startupStatus/updated";
    for status in ["starting", "ready"] {
        assert_eq!(logs(started, json!({ "name": "ostler", "status": status })), [""; 0]);
    }
    let failed = logs(started, json!({ "name": "ostler", "status": "failed" }));
    assert!(failed[0].starts_with("warning: ") && failed[0].contains("failed"), "{failed:?}");
    let warned = logs("configWarning", json!({ "summary": "no bubblewrap", "details": null }));
    assert_eq!(warned, ["warning: no bubblewrap"]);
}

#[test]
fn each_wish_becomes_its_arguments_and_the_parameters_of_its_thread() {
    let isolated = Adapter {
        project_context: Some(ProjectContext::Isolate),
        binary: Some("/opt/codex".into()),
        extra_args: vec!["--verbose".into()],
        mcp: false,
        ..spec().adapter
    };
    let rows = [
        ("deny", Spec { policy: Policy::Deny, ..spec() }),
        ("ask", Spec { policy: Policy::Ask, ..spec() }),
        ("allow-reads", Spec { policy: Policy::AllowReads, ..spec() }),
        ("allow-all", spec()),
        ("resume", Spec { session: Some("thread-1".into()), ..spec() }),
        ("model", Spec { model: Some("gpt-5.5".into()), ..spec() }),
        ("system prompt", Spec { system_prompt: Some("be brief".into()), ..spec() }),
        ("isolated, no mcp, own binary", Spec { adapter: isolated, ..spec() }),
    ];
    let mut shown = String::new();
    for (name, spec) in rows {
        let mut plan = Codex.plan(&spec).unwrap();
        plan.env.retain(|entry| entry.source != EnvSource::Allowlist);
        let mut dialect = Codex.dialect(&spec);
        dialect.open();
        let greeted = json!({ "id": 0, "result": { "userAgent": "u" } });
        let asked = frames(&told(&mut *dialect, &greeted));
        let [program, args] = [json!(plan.program), json!(plan.args)];
        shown.push_str(&format!("{name}\n  {program} {args}\n  {}\n", asked[1]));
        assert!(!plan.args.contains(&"lease-token".to_owned()) && plan.files.is_empty());
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn the_flags_of_the_card_are_what_a_thread_is_started_with() {
    for row in Codex.card().policies.into_iter().filter(|row| row.lane == Lane::Native) {
        let [approval, sandbox] = state::settings(row.policy);
        let wanted = [format!("approvalPolicy={approval}"), format!("sandbox={sandbox}")];
        assert_eq!(row.flags.as_deref(), Some(&wanted[..]));
        assert_eq!(row.note.unwrap().contains("dangerous"), row.policy == Policy::AllowAll);
    }
}

#[test]
fn a_prompt_of_any_length_is_said_whole_and_then_forgotten() {
    let prompt = "é\n\"".repeat(100_000);
    let mut dialect = Codex.dialect(&Spec { prompt: prompt.clone(), ..spec() });
    dialect.open();
    told(&mut *dialect, &json!({ "id": 0, "result": { "userAgent": "u" } }));
    let out = told(&mut *dialect, &json!({ "id": 1, "result": { "thread": { "id": "t" } } }));
    assert_eq!(frames(&out)[0]["params"]["input"][0]["text"], prompt);
    assert!(dialect.save().len() < 2_000);
}

#[test]
fn messages_that_wait_for_a_thread_are_bounded_and_one_too_many_is_told() {
    let mut dialect = Codex.dialect(&spec());
    let text = "x".repeat(contract::limits::PROMPT_BYTES_MAX / 4);
    let mut out = Out::default();
    for _ in 0..8 {
        dialect.say(&Utterance::Message { text: text.clone() }, &mut out);
    }
    assert!(dialect.save().len() < 2 * contract::limits::PROMPT_BYTES_MAX);
    let told = out.drafts.iter().filter(|draft| matches!(draft.body, Body::Log(_))).count();
    assert_eq!((told, out.frames.len()), (5, 0), "three were kept");
}

#[test]
fn a_message_steers_a_turn_begins_one_or_waits_for_one() {
    let message = |text: &str| Utterance::Message { text: text.into() };
    let mut dialect = in_turn();
    let steered = say(&mut *dialect, &message("more"));
    assert_eq!(steered[0]["method"], "turn/steer");
    assert_eq!(steered[0]["params"]["expectedTurnId"], "u");

    let stopped = say(&mut *dialect, &Utterance::Interrupt);
    assert_eq!(stopped[0]["method"], "turn/interrupt");
    assert_eq!(stopped[0]["params"], json!({ "threadId": "t", "turnId": "u" }));
    assert!(say(&mut *dialect, &message("rather this")).is_empty(), "it would be refused");
    let ended = json!({ "turn": { "id": "u", "status": "interrupted" } });
    let out = told(&mut *dialect, &note("turn/completed", ended));
    assert_eq!(result(&out), None, "an interrupt is no end");
    assert_eq!(frames(&out)[0]["method"], "turn/start");
    assert_eq!(frames(&out)[0]["params"]["input"][0]["text"], "rather this");

    let mut early = Codex.dialect(&spec());
    early.open();
    assert!(say(&mut *early, &message("and that")).is_empty());
    told(&mut *early, &json!({ "id": 0, "result": { "userAgent": "u" } }));
    let out = told(&mut *early, &json!({ "id": 1, "result": { "thread": { "id": "t" } } }));
    assert_eq!(frames(&out)[0]["params"]["input"][0]["text"], "mend it\n\nand that");
}

#[test]
fn a_refused_steer_does_not_undo_the_end() {
    let mut dialect = in_turn();
    let sent = say(&mut *dialect, &Utterance::Message { text: "late".into() });
    let done = json!({ "turn": { "id": "u", "status": "completed" } });
    assert!(result(&told(&mut *dialect, &note("turn/completed", done))).is_some());
    let error = json!({ "code": -32600, "message": "no active turn to steer" });
    let out = told(&mut *dialect, &json!({ "id": sent[0]["id"], "error": error }));
    assert_eq!((out.signals.len(), out.drafts.len()), (0, 1));
}

#[test]
fn a_thread_that_is_not_known_is_told_by_words_and_ends_the_attempt() {
    let message = "no rollout found for thread id x";
    let mut dialect = Codex.dialect(&Spec { session: Some("x".into()), ..spec() });
    dialect.open();
    let out = told(&mut *dialect, &json!({ "id": 0, "result": { "userAgent": "u" } }));
    assert_eq!(frames(&out)[1]["method"], "thread/resume");
    let line = json!({ "id": 1, "error": { "code": -32600, "message": message } });
    let out = told(&mut *dialect, &line);
    assert!(out.signals.contains(&Signal::SessionUnknown));
    assert_eq!(result(&out).unwrap().code, Some(Code::NativeSessionUnknown));

    let mut heard = Codex.dialect(&Spec { session: Some("x".into()), ..spec() });
    let out = hear(&mut *heard, Stream::Stderr, &format!("Error: thread/resume failed: {message}"));
    assert_eq!(out.signals, [Signal::SessionUnknown]);
    let fresh = hear(&mut *Codex.dialect(&spec()), Stream::Stderr, message);
    assert!(fresh.signals.is_empty(), "nothing was to be taken up");
}

#[test]
fn troubles_hold_back_or_end_by_what_the_agent_says_of_them() {
    let rows = [
        ("Reconnecting... 1/5", json!(null), Some(true)),
        ("Reconnecting... waiting for network (Connection failed)", json!(null), Some(true)),
        ("busy", json!("serverOverloaded"), Some(true)),
        ("busy", json!("serverOverloaded"), Some(false)),
        ("You've hit your usage limit. Try again in 2 hours 5 minutes.", json!(null), Some(false)),
        ("bad key", json!({ "httpConnectionFailed": { "httpStatusCode": 401 } }), Some(false)),
    ];
    let mut shown = String::new();
    for (message, info, will_retry) in rows {
        let error = json!({ "message": message, "codexErrorInfo": info });
        let mut dialect = in_turn();
        let line = note("error", json!({ "error": error, "willRetry": will_retry }));
        let out = told(&mut *dialect, &line);
        shown.push_str(&format!("{message} {info} {will_retry:?}\n"));
        for signal in &out.signals {
            shown.push_str(&format!("    {}\n", json!(signal)));
        }
        let text = note("item/agentMessage/delta", json!({ "itemId": "i", "delta": "hello" }));
        for signal in &told(&mut *dialect, &text).signals {
            shown.push_str(&format!("    then {}\n", json!(signal)));
        }
        let failed = json!({ "turn": { "status": "failed", "error": error } });
        let out = told(&mut *dialect, &note("turn/completed", failed));
        let code = result(&out).unwrap().code.unwrap();
        shown.push_str(&format!("    a turn that fails so: {code}\n"));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn when_a_used_up_plan_resets_is_told_whichever_of_its_two_notices_comes_first() {
    let error = json!({ "message": "odd", "codexErrorInfo": "usageLimitExceeded" });
    let limit = note("error", json!({ "error": error, "willRetry": false }));
    let full = json!({ "usedPercent": 100, "windowDurationMins": 300, "resetsAt": 1_794_813_613 });
    let windows = note("account/rateLimits/updated", json!({ "rateLimits": { "primary": full } }));
    for order in [[&windows, &limit], [&limit, &windows]] {
        let mut dialect = in_turn();
        let heard = order.map(|line| told(&mut *dialect, line).signals).concat();
        let last = heard.iter().rev().find_map(|signal| match signal {
            Signal::Limited(limited) => Some((limited.code, limited.terminal, limited.resets_at)),
            _ => None,
        });
        let resets_at = Some(Timestamp(1_794_813_613_000));
        assert_eq!(last, Some((Code::ProviderQuota, true, resets_at)), "{order:?}");
    }
    // Windows that are full say nothing of a run that goes on: credits may pay for it.
    assert!(told(&mut *in_turn(), &windows).signals.is_empty());
}

#[test]
fn a_question_that_only_reads_is_known_as_one_and_an_odd_one_is_refused() {
    let ask = |method: &str, params: Value| {
        let mut line = note(method, params);
        line["id"] = json!("q-1");
        told(&mut *in_turn(), &line)
    };
    let reads = |actions: Value| {
        let params = json!({ "command": "cat a", "commandActions": actions });
        match &ask("item/commandExecution/requestApproval", params).signals[..] {
            [Signal::Asked(question)] => question.reads,
            other => panic!("{other:?}"),
        }
    };
    assert!(reads(json!([{ "type": "read" }, { "type": "listFiles" }])));
    assert!(!reads(json!([{ "type": "read" }, { "type": "unknown" }])));
    assert!(!reads(json!([])));
    let out = ask("item/fileChange/requestApproval", json!({ "itemId": "i" }));
    assert!(matches!(&out.signals[..], [Signal::Asked(question)] if !question.reads));
    let out = ask("item/tool/requestUserInput", json!({}));
    assert_eq!(frames(&out)[0]["id"], "q-1");
    assert!(frames(&out)[0]["error"]["message"].is_string() && out.signals.is_empty());
}

#[test]
fn status_of_a_thread_is_understood() {
    let mut dialect = in_turn();
    let status = json!({ "type": "active", "activeFlags": ["waitingOnApproval"] });
    let out = told(&mut *dialect, &note("thread/status/changed", json!({ "status": status })));
    assert!(out.drafts.is_empty(), "{:?}", out.drafts);
}

#[test]
fn question_carries_command_or_patch_and_reason_follows() {
    let mut dialect = in_turn();
    let changes = json!([{ "path": "/w/a", "kind": "add", "diff": "one" },
        { "path": "/w/b", "kind": { "type": "update" }, "diff": "@@ -1 +1 @@\n-a\n+b" },
        { "path": "/w/c", "kind": { "type": "delete" }, "diff": "gone" }]);
    let item = json!({ "type": "fileChange", "id": "i", "changes": changes });
    told(&mut *dialect, &note("item/started", json!({ "item": item })));
    let mut line = note("item/fileChange/requestApproval", json!({ "itemId": "i" }));
    line["id"] = json!("q-1");
    let out = told(&mut *dialect, &line);
    let [Signal::Asked(question)] = &out.signals[..] else { panic!("{:?}", out.signals) };
    assert_eq!(question.title, "change /w/a, /w/b, /w/c");
    assert_eq!(question.content.paths, ["/w/a", "/w/b", "/w/c"]);
    let diffs = &question.content.diffs;
    assert_eq!(diffs[0].new_text.as_deref(), Some("one"), "a new file comes as its text");
    assert_eq!(diffs[1].patch.as_deref(), Some("@@ -1 +1 @@\n-a\n+b"));
    assert_eq!(diffs[2].old_text.as_deref(), Some("gone"));
    let params = json!({ "command": "make", "cwd": "/w/sub", "reason": "to build" });
    let mut line = note("item/commandExecution/requestApproval", params);
    line["id"] = json!("q-2");
    let out = told(&mut *dialect, &line);
    let [Signal::Asked(question)] = &out.signals[..] else { panic!("{:?}", out.signals) };
    let content = &question.content;
    assert_eq!(content.command.as_deref(), Some("make"));
    assert_eq!(
        (content.cwd.as_deref(), content.reason.as_deref()),
        (Some("/w/sub"), Some("to build"))
    );
    let (request, option) = (question.request.clone(), Some("decline".to_owned()));
    let decide = Utterance::Decide { request, option, reason: Some("use ninja".to_owned()) };
    let mut out = Out::default();
    dialect.say(&decide, &mut out);
    let said = frames(&out);
    assert_eq!(said[0]["result"]["decision"], "decline");
    assert!(said[1].to_string().contains("says: use ninja"), "{}", said[1]);
}

#[test]
fn what_a_helper_of_the_agent_does_counts_and_its_end_does_not() {
    let mut dialect = in_turn();
    let last = json!({ "inputTokens": 10, "cachedInputTokens": 4, "outputTokens": 2 });
    let params = json!({ "threadId": "other", "tokenUsage": { "total": last, "last": last } });
    let out = told(&mut *dialect, &note("thread/tokenUsage/updated", params));
    assert!(matches!(&out.signals[..], [Signal::ModelAnswer, Signal::Spent(usage)]
            if usage.tokens.unwrap().total() == 12));
    let params = json!({ "threadId": "other", "turn": { "status": "completed" } });
    assert_eq!(told(&mut *dialect, &note("turn/completed", params)), Out::default());
}

#[test]
fn whole_text_says_that_the_turn_may_end() {
    let item = json!({ "type": "agentMessage", "id": "m", "text": "Done." });
    let out = told(&mut *in_turn(), &note("item/completed", json!({ "item": item })));
    assert_eq!(out.signals, [Signal::FinalText]);
}

#[test]
fn the_tokens_of_an_earlier_run_are_not_counted_again() {
    let counts = |input: u64| json!({ "inputTokens": input, "outputTokens": 1 });
    let usage = |total: u64, last: u64| {
        let usage = json!({ "total": counts(total), "last": counts(last) });
        note("thread/tokenUsage/updated", json!({ "tokenUsage": usage }))
    };
    let spent = |out: &Out| match &out.signals[..] {
        [Signal::ModelAnswer, Signal::Spent(usage)] => usage.tokens.unwrap().input_uncached,
        [] => 0,
        other => panic!("{other:?}"),
    };
    let mut told_first = with_thread(&Spec { session: Some("t".into()), ..spec() });
    assert_eq!(spent(&told(&mut *told_first, &usage(100, 40))), 0);
    told(&mut *told_first, &note("turn/started", json!({ "turn": { "id": "u" } })));
    assert_eq!(spent(&told(&mut *told_first, &usage(130, 30))), 30);
    let mut told_late = in_turn();
    assert_eq!(spent(&told(&mut *told_late, &usage(130, 30))), 30);
    assert_eq!(spent(&told(&mut *told_late, &usage(130, 30))), 0);
}

#[test]
fn what_is_remembered_stays_small_however_long_the_agent_talks() {
    let long = "é".repeat(50_000);
    let mut dialect = with_thread(&Spec { system_prompt: Some(long.clone()), ..spec() });
    told(&mut *dialect, &note("turn/started", json!({ "turn": { "id": long } })));
    for n in 0..100 {
        let delta = json!({ "itemId": format!("{n}"), "delta": long });
        told(&mut *dialect, &note("item/agentMessage/delta", delta));
        let item = json!({ "type": "agentMessage", "id": format!("{n}"), "text": long });
        told(&mut *dialect, &note("item/completed", json!({ "item": item })));
        let item = json!({ "type": "commandExecution", "id": format!("{n}-{n}"), "command": long });
        told(&mut *dialect, &note("item/started", json!({ "item": item })));
        let mut question = note("item/fileChange/requestApproval", json!({ "itemId": "i" }));
        question["id"] = json!(n);
        told(&mut *dialect, &question);
    }
    told(&mut *dialect, &json!({ "id": 9, "result": { "thread": { "id": long } } }));
    let size = dialect.save().len();
    assert!(size < contract::limits::TEXT_BYTES_MAX + 16 * 1024, "{size}");
}

#[test]
fn last_words_are_understood_only_after_a_failure() {
    let rows = [
        (0, "error loading config", None),
        (1, "Error loading config.toml: odd", Some(Code::InvalidConfig)),
        (1, "Not inside a trusted directory and", Some(Code::BadWorkspace)),
        (1, "no rollout found for thread id x", Some(Code::NativeSessionUnknown)),
        (1, "Not logged in", Some(Code::AuthRequired)),
        (1, "panicked", None),
    ];
    for (exit_code, stderr_tail, expected) in rows {
        let evidence = ExitEvidence { exit_code: Some(exit_code), signal: None, stderr_tail };
        assert_eq!(Codex.classify(&evidence), expected, "{stderr_tail}");
    }
}

/// A recording: its name, what the agent printed, and what the model server reported.
struct Recording {
    name: String,
    lines: Vec<String>,
    served: Vec<Value>,
}

fn recordings() -> Vec<Recording> {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "src", "codex", "recordings"].iter().collect();
    let entries = std::fs::read_dir(&folder).unwrap();
    let names = entries.filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        Some(name.strip_suffix(".ndjson")?.to_owned()).filter(|name| !name.ends_with(".requests"))
    });
    let read = |name: String| {
        let text = |kind: &str| {
            std::fs::read_to_string(folder.join(format!("{name}.{kind}"))).unwrap_or_default()
        };
        let values = |text: String| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let lines = values(text("ndjson")).into_iter().filter_map(|line| match line.get("dir") {
            None => Some(line.to_string()),
            Some(dir) => (dir == "in").then(|| line["msg"].to_string()),
        });
        let (lines, served) = (lines.collect(), values(text("requests.ndjson")));
        Recording { name, lines, served }
    };
    names.map(read).collect()
}

fn ledger(lines: &[String]) -> Tokens {
    let (mut dialect, mut sum) = (Codex.dialect(&spec()), Tokens::default());
    for line in lines {
        for signal in hear(&mut *dialect, Stream::Stdout, line).signals {
            if let Signal::Spent(usage) = signal {
                let tokens = usage.tokens.unwrap();
                sum = match usage.basis {
                    Basis::Increment => sum.plus(&tokens),
                    Basis::RunTotal | Basis::SessionTotal => tokens,
                };
            }
        }
    }
    sum
}

#[test]
fn the_tokens_of_every_recording_are_those_of_the_agent_and_of_its_model_server() {
    let (mut by_agent, mut by_server) = (0, 0);
    for Recording { name, lines, served } in recordings() {
        let counted = ledger(&lines);
        let input = counted.input_uncached + counted.cache_read + counted.cache_write;
        let own = lines.iter().rev().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let total = &line["params"]["tokenUsage"]["total"];
            let pick = |counts: &Value, input: &str, output: &str| {
                Some((counts[input].as_u64()?, counts[output].as_u64()?))
            };
            pick(&line["usage"], "input_tokens", "output_tokens")
                .or_else(|| pick(total, "inputTokens", "outputTokens"))
        });
        let Some(own) = own else {
            assert_eq!(counted.total(), 0, "{name}: tokens that nobody told");
            continue;
        };
        assert_eq!((input, counted.output), own, "{name}");
        by_agent += 1;
        if served.is_empty() {
            continue;
        }
        let sum = |field: &str| {
            served.iter().filter_map(|request| request["usage"][field].as_u64()).sum::<u64>()
        };
        let by_model = (sum("input") + sum("cache_read") + sum("cache_create"), sum("output"));
        assert_eq!((input, counted.output), by_model, "{name}: model server");
        assert_eq!(counted.cache_read, sum("cache_read"), "{name}: model server");
        by_server += 1;
    }
    assert!(by_agent >= 25 && by_server >= 20, "{by_agent} {by_server}");
}

#[test]
fn every_call_of_every_recording_is_opened_and_closed_once() {
    for Recording { name, lines, .. } in recordings() {
        let (mut dialect, mut uses, mut results) = (Codex.dialect(&spec()), Vec::new(), Vec::new());
        for line in &lines {
            for draft in hear(&mut *dialect, Stream::Stdout, line).drafts {
                match draft.body {
                    Body::ToolUse(tool) => uses.push(tool.tool_call_id),
                    Body::ToolResult(result) => results.push(result.tool_call_id),
                    _ => {}
                }
            }
        }
        uses.sort();
        results.sort();
        assert_eq!(uses, results, "{name}");
        uses.dedup();
        assert_eq!(uses.len(), results.len(), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn lines_that_are_nearly_right_are_heard_without_a_panic_and_the_dialect_can_be_saved(
        which in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let all = recordings();
        let lines = &all[which.index(all.len())].lines;
        let mut bytes: Vec<u8> = lines.join("\n").into_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let (mut dialect, mut out) = (Codex.dialect(&spec()), Out::default());
        for (index, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = index as u64 + 1;
            dialect.hear(&Frame { stream: Stream::Stdout, line, bytes, cut: false }, &mut out);
        }
        dialect.close(Close::Cut, &mut out);
        prop_assert!(Codex.restore(&dialect.save()).is_ok());
    }

    #[test]
    fn any_bytes_are_kept(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut dialect, mut out) = (Codex.dialect(&spec()), Out::default());
        let frame = Frame { stream: Stream::Stdout, line: 1, bytes: &line, cut: false };
        dialect.hear(&frame, &mut out);
        let blank = String::from_utf8_lossy(&line).trim_end_matches('\r').trim_ascii().is_empty();
        prop_assert_eq!(out.drafts.len(), usize::from(!blank));
    }
}

#[test]
fn skills_go_to_the_home_of_the_account_that_runs() {
    let into = |change: &dyn Fn(&mut Spec)| {
        let mut spec = spec();
        spec.adapter.skills = vec![contract::plan::Skill { name: "x".into(), always: false }];
        spec.caller_env.insert("HOME".into(), "/srv/me".into());
        change(&mut spec);
        super::Codex.plan(&spec).map(|plan| plan.mounts[0].into.clone())
    };
    assert_eq!(into(&|_| {}).unwrap(), "/srv/me/.codex/skills");
    assert_eq!(
        into(&|spec| {
            spec.caller_env.insert("CODEX_HOME".into(), "/caller".into());
            spec.adapter.env.insert("CODEX_HOME".into(), "/second/account".into());
        })
        .unwrap(),
        "/second/account/skills",
        "the configuration beats the caller"
    );
    let homeless = into(&|spec| spec.caller_env.clear()).unwrap_err();
    assert_eq!(homeless.code, Code::InvalidConfig);
}

#[test]
fn plan_and_login_tell_the_billing() {
    let plan = |plan: Value| {
        note("account/rateLimits/updated", json!({ "rateLimits": { "planType": plan } }))
    };
    let login = |mode: Value| note("account/updated", json!({ "authMode": mode }));
    for (line, billing) in [
        (plan(json!("pro")), Some(Billing::Subscription)),
        (plan(json!("free")), Some(Billing::Free)),
        (plan(Value::Null), None),
        (login(json!("chatgpt")), Some(Billing::Subscription)),
        (login(json!("apikey")), Some(Billing::Metered)),
        (login(Value::Null), None),
    ] {
        let out = told(&mut *in_turn(), &line);
        let found = out.signals.iter().find_map(|signal| match signal {
            Signal::Billing { billing } => Some(*billing),
            _ => None,
        });
        assert_eq!(found, billing, "{line}");
    }
}
