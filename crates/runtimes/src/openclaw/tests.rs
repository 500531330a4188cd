//! What the recordings do not show by themselves: the plans, the tokens and dollars against the
//! vendor's own figures and against what the model server reported, what becomes of a document that
//! is cut or too long, and that no line, however broken, does harm.

use super::Openclaw;
use super::dialect::DOCUMENT_BYTES_MAX;
use crate::trial::{
    self, Style, Sum, booked, fresh, hear, heard, lines, played, recordings, results, spec_with,
};
use crate::{Out, Runtime, Stream};
use contract::event::Body;
use contract::plan::LaunchPlan;
use contract::speech::Close;
use contract::{Code, Signal};
use serde_json::{Value, json};

const ID: &str = "openclaw";

/// The document of a run, with some of it replaced.
fn document(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "payloads": [{"text": "Done."}],
        "meta": {"aborted": false, "stopReason": "stop", "finalAssistantVisibleText": "Done."},
    });
    change(&mut document);
    document
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    let rows = trial::rows_with(&[
        ("isolated, with more arguments", |spec| {
            spec.adapter.project_context = Some(contract::plan::ProjectContext::Isolate);
            spec.adapter.extra_args = vec!["--verbose".to_owned()];
        }),
        ("a run without an id", |spec| spec.context = crate::template::Context::new()),
    ]);
    insta::assert_snapshot!(trial::plans(&Openclaw, &rows, Style::Spelled));
}

#[test]
fn the_ledger_equals_the_figures_of_the_vendor_and_of_the_model_server() {
    let all = recordings(ID);
    for recording in &all {
        let told: Value = serde_json::from_slice(&recording.stdout.concat()).unwrap();
        let usage = &told["meta"]["agentMeta"]["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap();
        // The dollars are told twice; the dialect listens to the other one.
        let usd = told["meta"]["agentMeta"]["costUsd"].as_f64().unwrap();
        let vendor = Sum {
            uncached: count("input") + count("cacheWrite"),
            cached: count("cacheRead"),
            output: count("output"),
            reasoning: 0,
            nanousd: (usd * 1e9).round() as i64,
        };
        let sum = booked(&played(&Openclaw, recording));
        assert_eq!(sum, vendor, "{}", recording.name);
        let served = trial::served(recording, &all);
        let served = Sum { nanousd: sum.nanousd, reasoning: 0, ..served };
        assert_eq!(sum, served, "{}", recording.name);
        // By the prices that it was recorded with: 3, 0.3 and 15 dollars for a million.
        let price = sum.uncached * 3000 + sum.cached * 300 + sum.output * 15000;
        assert_eq!(sum.nanousd, i64::try_from(price).unwrap(), "{}", recording.name);
    }
    assert_eq!(all.len(), 2);
}

#[test]
fn a_document_that_is_cut_anywhere_is_kept_and_is_no_result() {
    for recording in recordings(ID) {
        for lines in 1..recording.stdout.len() {
            let mut dialect = fresh(&Openclaw);
            let mut out = hear(&mut *dialect, Stream::Stdout, &recording.stdout[..lines]);
            assert_eq!(out, Out::default(), "{} after {lines} lines", recording.name);
            dialect.close(Close::Cut, &mut out);
            assert_eq!(results(&out), []);
            let Body::Log(log) = &out.drafts[0].body else { panic!("{:?}", out.drafts) };
            assert_eq!(log.text.lines().count(), lines);
        }
    }
}

#[test]
fn a_document_of_one_line_is_heard_like_one_of_many_and_lines_around_it_are_kept() {
    let banner = b"plugins loaded".to_vec();
    let pretty = serde_json::to_string_pretty(&document(|_| {})).unwrap();
    let many: Vec<Vec<u8>> = pretty.lines().map(|line| line.as_bytes().to_vec()).collect();
    for lines in [lines(&[document(|_| {})]), many] {
        let around = [vec![banner.clone()], lines, vec![banner.clone()]].concat();
        let out = hear(&mut *fresh(&Openclaw), Stream::Stdout, &around);
        assert_eq!(results(&out), [None]);
        assert_eq!(trial::logs(&out).len(), 2);
    }
    // Any object begins a document, but only one that tells of a run or an error is the end.
    assert_eq!(results(&heard(&Openclaw, &[json!({"level": "info"})])), []);
}

#[test]
fn a_document_that_is_too_long_is_kept_line_by_line_and_is_no_result() {
    let long = format!("  \"text\": \"{}\",", "x".repeat(DOCUMENT_BYTES_MAX / 2)).into_bytes();
    let lines = [b"{".to_vec(), long.clone(), long.clone(), long, b"}".to_vec()];
    let mut dialect = fresh(&Openclaw);
    let out = hear(&mut *dialect, Stream::Stdout, &lines);
    let kept: usize = trial::logs(&out).iter().map(|log| log.lines().count()).sum();
    assert_eq!((kept, results(&out)), (lines.len(), vec![]));
    assert!(dialect.save().len() < DOCUMENT_BYTES_MAX);
}

#[test]
fn only_a_run_that_stopped_by_itself_and_was_not_aborted_is_a_success() {
    let rows = [
        (document(|_| {}), None),
        (document(|run| run["meta"]["aborted"] = true.into()), Some(Code::Cancelled)),
        (document(|run| run["meta"]["stopReason"] = "length".into()), Some(Code::AnswerCut)),
        (document(|run| run["meta"]["stopReason"] = "refusal".into()), Some(Code::ModelRefusal)),
        (document(|run| run["meta"]["stopReason"] = Value::Null), Some(Code::EndedWithoutResult)),
        (
            document(|run| run["meta"]["finalAssistantVisibleText"] = "".into()),
            Some(Code::EndedWithoutResult),
        ),
        (
            document(|run| run["meta"]["error"] = json!({"kind": "context_overflow"})),
            Some(Code::ContextOverflow),
        ),
        (
            document(|run| {
                run["payloads"][0] = json!({"text": "Rate limit reached", "isError": true});
            }),
            Some(Code::RateLimited),
        ),
        (document(|run| run["ok"] = false.into()), Some(Code::AgentFailed)),
        (
            json!({"ok": false, "error": {"message": "No API key found for provider x"}}),
            Some(Code::AuthRequired),
        ),
        (json!({"ok": true}), Some(Code::EndedWithoutResult)),
    ];
    for (document, expected) in rows {
        let out = heard(&Openclaw, std::slice::from_ref(&document));
        assert_eq!(results(&out), [expected], "{document}");
    }
}

#[test]
fn a_conversation_is_named_and_told_as_resumed_only_when_it_is_the_one_asked_for() {
    let named = document(|run| run["meta"]["agentMeta"] = json!({"sessionId": "t1"}));
    let named = lines(&[named]);
    for (asked, expected) in [(None, false), (Some("t1"), true), (Some("t2"), false)] {
        let spec = spec_with(ID, |spec| spec.session = asked.map(str::to_owned));
        let out = hear(&mut *Openclaw.dialect(&spec), Stream::Stdout, &named);
        assert!(out.signals.contains(&Signal::Session { id: "t1".to_owned() }));
        let resumed = out.drafts.iter().find_map(|draft| match &draft.body {
            Body::Session(session) => Some(session.resumed),
            _ => None,
        });
        assert_eq!(resumed, Some(expected), "{asked:?}");
    }
}

#[test]
fn a_run_that_worked_elsewhere_is_told_so() {
    let at = |path: &str| {
        document(|run| run["meta"]["systemPromptReport"] = json!({"workspaceDir": path}))
    };
    for (path, expected) in [("/workspace", 0), ("/srv/agent/.openclaw/workspace", 1)] {
        let out = heard(&Openclaw, &[at(path)]);
        let warned = out.drafts.iter().filter(|draft| match &draft.body {
            Body::Log(log) => log.level.as_deref() == Some("warning") && log.text.contains(path),
            _ => false,
        });
        assert_eq!(warned.count(), expected, "{path}");
        assert_eq!(results(&out), [None]);
    }
}

type Vars<'a> = &'a [(&'a str, &'a str)];

/// The plan and the dialect of a person with this environment and this adapter.
fn for_whom(vars: Vars<'_>, env: Vars<'_>) -> (LaunchPlan, Out) {
    let owned = |pairs: Vars<'_>| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let spec = spec_with(ID, |spec| {
        (spec.caller_env, spec.adapter.env) = (owned(vars), owned(env));
        spec.files = "/run/1".to_owned();
        spec.policy = contract::Policy::AllowAll;
    });
    let told = document(|run| {
        run["meta"]["systemPromptReport"] = json!({"workspaceDir": "/run/1/workspace"});
    });
    let out = hear(&mut *Openclaw.dialect(&spec), Stream::Stdout, &lines(&[told]));
    (Openclaw.plan(&spec).unwrap(), out)
}

#[test]
fn a_run_owns_its_workspace_and_takes_over_the_configuration_that_the_program_would_find() {
    let home = ("HOME", "/srv/me");
    let rows: [(Vars<'_>, Vars<'_>, Option<&str>); 8] = [
        (&[home], &[], Some("/srv/me/.openclaw/openclaw.json")),
        (&[home, ("OPENCLAW_PROFILE", "work")], &[], Some("/srv/me/.openclaw-work/openclaw.json")),
        (&[home, ("OPENCLAW_HOME", "/svc")], &[], Some("/svc/.openclaw/openclaw.json")),
        (&[home, ("OPENCLAW_STATE_DIR", "~/state")], &[], Some("/srv/me/state/openclaw.json")),
        (&[home, ("OPENCLAW_CONFIG_PATH", "/etc/c.json5")], &[], Some("/etc/c.json5")),
        (&[home], &[("OPENCLAW_STATE_DIR", "/given")], Some("/given/openclaw.json")),
        // The adapter decides, or no home is known.
        (&[home], &[("OPENCLAW_CONFIG_PATH", "/own.json")], None),
        (&[], &[], None),
    ];
    for (vars, env, expected) in rows {
        let (plan, out) = for_whom(vars, env);
        let file = plan.files.iter().find(|file| file.name == "openclaw.json");
        let config: Option<Value> = file.map(|file| serde_json::from_str(&file.text).unwrap());
        let included = config.as_ref().map(|config| config["$include"].as_str().unwrap());
        assert_eq!(included, expected, "{vars:?} {env:?}");
        let defaults = config.as_ref().map(|config| &config["agents"]["defaults"]);
        let places = defaults.map(|of| (of["workspace"].as_str(), of["cwd"].as_str()));
        let owned = expected.map(|_| (Some("/run/1/workspace"), Some("/workspace")));
        assert_eq!(places, owned, "{vars:?} {env:?}");
        let cwd = out.drafts.iter().find_map(|draft| match &draft.body {
            Body::Session(session) => session.cwd.as_deref(),
            _ => None,
        });
        let told = if expected.is_some() { "/workspace" } else { "/run/1/workspace" };
        assert_eq!(cwd, Some(told), "{vars:?} {env:?}");
    }
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Openclaw);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_result() {
    trial::assert_broken_lines_do_no_harm(&Openclaw, |_, results| results.is_empty());
}
