//! What the tests of runtimes share: a plain spec, recordings and lines played through a dialect,
//! plans written down for review, what was booked against what was served, and what must hold of
//! every agent that is only listened to. Which figures come out is each runtime's own business.
//! The spec of the harness in `testkit` belongs to another build of this crate, so it is made here.

use crate::{Dialect, ExitEvidence, Frame, Out, Runtime, Spec, Stream};
use contract::event::Body;
use contract::plan::{Adapter, EnvSource, Lane, ProjectContext};
use contract::speech::Close;
use contract::{Code, Policy, Signal, Utterance};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use std::path::PathBuf;
use testkit::recorded::Recording;

/// Every recording of a runtime.
pub(crate) fn recordings(id: &str) -> Vec<Recording> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", id, "recordings"].iter().collect();
    Recording::all(&folder)
}

pub(crate) fn recording(id: &str, name: &str) -> Recording {
    recordings(id).into_iter().find(|one| one.name == name).expect("a recording")
}

pub(crate) fn spec(id: &str) -> Spec {
    let mut context = crate::template::Context::new();
    context
        .set("mcpUrl", "http://127.0.0.1:7717/mcp")
        .set("runId", "run_0198c0de00007000800000000000cafe")
        .set("workspacePath", "/workspace");
    let (name, runtime) = (id.to_owned(), id.to_owned());
    Spec {
        adapter: Adapter { name, runtime, mcp: true, ..Adapter::default() },
        context,
        model: None,
        prompt: "Please do the small task now.".to_owned(),
        system_prompt: None,
        policy: Policy::AllowAll,
        lane: Lane::Native,
        session: None,
        budget: Default::default(),
        counts_spending: false,
        files: "/run/files".to_owned(),
        as_root: false,
        own_program: "/usr/bin/ostler".to_owned(),
        caller_env: Default::default(),
    }
}

/// The same with a change.
pub(crate) fn spec_with(id: &str, change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = spec(id);
    change(&mut spec);
    spec
}

pub(crate) fn hear(dialect: &mut dyn Dialect, stream: Stream, lines: &[Vec<u8>]) -> Out {
    let mut out = Out::default();
    for (index, bytes) in lines.iter().enumerate() {
        let frame = Frame { stream, line: index as u64 + 1, bytes, cut: false };
        dialect.hear(&frame, &mut out);
    }
    out
}

/// Lines made up for a test.
pub(crate) fn lines(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.to_string().into_bytes()).collect()
}

/// What a fresh dialect makes of lines of JSON on standard output.
pub(crate) fn heard(runtime: &dyn Runtime, values: &[Value]) -> Out {
    hear(&mut *fresh(runtime), Stream::Stdout, &lines(values))
}

/// The same, and that no more lines came.
pub(crate) fn heard_to_the_end(runtime: &dyn Runtime, values: &[Value], how: Close) -> Out {
    let mut dialect = fresh(runtime);
    let mut out = hear(&mut *dialect, Stream::Stdout, &lines(values));
    dialect.close(how, &mut out);
    out
}

/// A whole recording, standard output first.
pub(crate) fn played(runtime: &dyn Runtime, recording: &Recording) -> Out {
    let mut dialect = fresh(runtime);
    let mut out = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
    let aside = hear(&mut *dialect, Stream::Stderr, &recording.stderr);
    out.drafts.extend(aside.drafts);
    out.signals.extend(aside.signals);
    dialect.close(Close::Ended, &mut out);
    out
}

pub(crate) fn fresh(runtime: &dyn Runtime) -> Box<dyn Dialect> {
    runtime.dialect(&spec(&runtime.card().id))
}

/// What was told, by the bodies of its events.
pub(crate) fn told<'o, T>(out: &'o Out, pick: impl Fn(&'o Body) -> Option<T>) -> Vec<T> {
    out.drafts.iter().filter_map(|draft| pick(&draft.body)).collect()
}

/// Texts and thoughts, by kind.
pub(crate) fn texts(out: &Out) -> Vec<(&'static str, &str)> {
    told(out, |body| match body {
        Body::AssistantText(text) | Body::Thinking(text) => Some((body.kind(), text.text.as_str())),
        _ => None,
    })
}

/// Changes: the path and the new text.
pub(crate) fn diffs(out: &Out) -> Vec<(&str, Option<&str>)> {
    told(out, |body| match body {
        Body::Diff(diff) => Some((diff.path.as_str(), diff.new_text.as_deref())),
        _ => None,
    })
}

pub(crate) fn logs(out: &Out) -> Vec<&str> {
    told(out, |body| match body {
        Body::Log(log) => Some(log.text.as_str()),
        _ => None,
    })
}

/// The codes of the structured results; `None` is success.
pub(crate) fn results(out: &Out) -> Vec<Option<Code>> {
    let result = |signal: &Signal| match signal {
        Signal::Result(ending) => Some(ending.code),
        _ => None,
    };
    out.signals.iter().filter_map(result).collect()
}

/// Limits with their waits, and that they were lifted.
pub(crate) fn limits(out: &Out) -> Vec<(&'static str, Option<u64>)> {
    let limit = |signal: &Signal| match signal {
        Signal::Limited(limited) => Some((limited.code.word(), limited.wait_ms)),
        Signal::LimitLifted => Some(("lifted", None)),
        _ => None,
    };
    out.signals.iter().filter_map(limit).collect()
}

/// A name, and what is particular about the spec.
pub(crate) type Row = (&'static str, fn(&mut Spec));

/// What is asked of every runtime; the first four are the policies.
pub(crate) const ROWS: [Row; 9] = [
    ("allow-all", |_| {}),
    ("allow-reads", |spec| spec.policy = Policy::AllowReads),
    ("ask", |spec| spec.policy = Policy::Ask),
    ("deny", |spec| spec.policy = Policy::Deny),
    ("a model", |spec| spec.model = Some("some-model".to_owned())),
    ("a conversation", |spec| spec.session = Some("c79e6605".to_owned())),
    ("a system prompt", |spec| spec.system_prompt = Some("Be brief.".to_owned())),
    ("isolated, with more arguments", |spec| {
        spec.adapter.project_context = Some(ProjectContext::Isolate);
        spec.adapter.extra_args = vec!["--debug".to_owned()];
    }),
    ("another binary, no tools of ours", |spec| {
        spec.adapter.binary = Some("/opt/agent".to_owned());
        spec.adapter.mcp = false;
    }),
];

/// `ROWS` with those of a runtime's own: instead of the one with the same name, or after all.
pub(crate) fn rows_with(own: &[Row]) -> Vec<Row> {
    let mut rows = ROWS.to_vec();
    for row in own {
        match rows.iter_mut().find(|(name, _)| *name == row.0) {
            Some(known) => *known = *row,
            None => rows.push(*row),
        }
    }
    rows
}

/// How the reviewed plans write down their files and first words.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    /// Files as they are, and the words where there are some.
    Plain,
    /// The same, with files in quotation marks.
    Quoted,
    /// Files as they are, and always whether there are words.
    Spelled,
}

/// Plans as they are reviewed: program, arguments, own variables, files and first words.
pub(crate) fn plans(runtime: &dyn Runtime, rows: &[Row], style: Style) -> String {
    let mut shown = String::new();
    for (name, change) in rows {
        let spec = spec_with(&runtime.card().id, change);
        shown.push_str(&format!("{name}\n"));
        let plan = match runtime.plan(&spec) {
            Ok(plan) => plan,
            Err(fault) => {
                shown.push_str(&format!("  {}: {}\n", fault.code, fault.message));
                continue;
            }
        };
        shown.push_str(&format!("  {} {:?} {:?}\n", plan.program, plan.args, plan.stdin));
        for entry in plan.env {
            if let EnvSource::Runtime { value } = entry.source {
                shown.push_str(&format!("  {}={value}\n", entry.name));
            }
        }
        for file in plan.files {
            shown.push_str(&match style {
                Style::Plain | Style::Spelled => format!("  {}: {}\n", file.name, file.text),
                Style::Quoted => format!("  {}: {:?}\n", file.name, file.text),
            });
        }
        let said = runtime.dialect(&spec).open().map(|said| String::from_utf8(said).unwrap());
        match (style, said) {
            (Style::Spelled, said) => shown.push_str(&format!("  < {said:?}\n")),
            (Style::Plain | Style::Quoted, Some(said)) => {
                shown.push_str(&format!("  < {said:?}\n"));
            }
            (Style::Plain | Style::Quoted, None) => {}
        }
    }
    shown
}

/// Tokens by bucket, and nano-dollars.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
pub(crate) struct Sum {
    pub uncached: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
    pub nanousd: i64,
}

impl Sum {
    pub fn total(&self) -> u64 {
        self.uncached + self.cached + self.output
    }
}

/// The sum of all that was booked.
pub(crate) fn booked(out: &Out) -> Sum {
    let mut sum = Sum::default();
    for signal in &out.signals {
        if let Signal::Spent(usage) = signal {
            let tokens = usage.tokens.unwrap();
            sum.uncached += tokens.input_uncached + tokens.cache_write;
            sum.cached += tokens.cache_read;
            sum.output += tokens.output;
            sum.reasoning += tokens.reasoning.unwrap_or(0);
            sum.nanousd += usage.effective_nanousd.map_or(0, |usd| usd.0);
        }
    }
    sum
}

/// What the model server reported for the agent's own work.
pub(crate) fn served(recording: &Recording, all: &[Recording]) -> Sum {
    served_where(recording, all, |request| request["aux"] != true)
}

/// What the model server reported for those requests of a recording that count.
pub(crate) fn served_where(
    recording: &Recording,
    all: &[Recording],
    counts: fn(&Value) -> bool,
) -> Sum {
    // The requests of a resumed run follow those of the run before.
    let first = recording.name.strip_suffix(".resume");
    let before =
        first.map_or(0, |first| all.iter().find(|one| one.name == first).unwrap().requests.len());
    let mut sum = Sum::default();
    for request in recording.requests[before..].iter().filter(|request| counts(request)) {
        let usage = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
        sum.uncached += usage("input") + usage("cache_create");
        sum.cached += usage("cache_read");
        sum.output += usage("output");
        sum.reasoning += usage("reasoning");
    }
    sum
}

/// The lines of a recording as JSON; nothing for those that are none.
pub(crate) fn values(recording: &Recording) -> impl Iterator<Item = Value> + '_ {
    recording.stdout.iter().map(|line| serde_json::from_slice(line).unwrap_or_default())
}

/// Plays every recording to its end and counts the calls; panics where one is left open, is closed
/// twice, or has not one event for its beginning and one for its end.
pub(crate) fn assert_calls_are_paired(runtime: &dyn Runtime) -> usize {
    let mut calls = 0;
    for recording in recordings(&runtime.card().id) {
        let out = played(runtime, &recording);
        let (mut open, mut closed) = (Vec::new(), 0);
        for signal in &out.signals {
            match signal {
                Signal::ToolOpened { tool_call_id } => open.push(tool_call_id),
                Signal::ToolClosed { tool_call_id, .. } => {
                    let index = open.iter().position(|id| *id == tool_call_id);
                    open.remove(index.expect("a call that was opened"));
                    closed += 1;
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "{}: {open:?}", recording.name);
        let count = |is: fn(&Body) -> bool| out.drafts.iter().filter(|d| is(&d.body)).count();
        assert_eq!(count(|body| matches!(body, Body::ToolUse(_))), closed, "{}", recording.name);
        assert_eq!(count(|body| matches!(body, Body::ToolResult(_))), closed, "{}", recording.name);
        calls += closed;
    }
    calls
}

/// An agent that takes nothing after its prompt says so, and its state of another version is refused.
pub(crate) fn assert_it_takes_nothing_and_knows_its_state(runtime: &dyn Runtime) {
    let mut dialect = fresh(runtime);
    let mut out = Out::default();
    dialect.say(&Utterance::Message { text: "more".to_owned() }, &mut out);
    dialect.say(&Utterance::Interrupt, &mut out);
    dialect.say(&Utterance::Shutdown { reason: Code::Cancelled }, &mut out);
    assert_eq!((out.drafts.len(), out.frames.len()), (2, 0));
    let mut saved: Value = serde_json::from_slice(&dialect.save()).unwrap();
    assert!(runtime.restore(saved.to_string().as_bytes()).is_ok());
    saved["version"] = Value::from(saved["version"].as_u64().unwrap() + 1);
    assert!(runtime.restore(saved.to_string().as_bytes()).is_err());
}

/// A conversation that is not known is found by these words of the agent, on these streams, and only
/// when one was asked for; each time one event is made of the line.
pub(crate) fn assert_unknown_session_is_found(
    runtime: &dyn Runtime,
    words: &str,
    streams: &[Stream],
) {
    let unknown = |session: Option<&str>, stream, line: &str| {
        let spec = spec_with(&runtime.card().id, |spec| spec.session = session.map(str::to_owned));
        let out = hear(&mut *runtime.dialect(&spec), stream, &[line.as_bytes().to_vec()]);
        assert_eq!(out.drafts.len(), 1, "{line}");
        out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown).count()
    };
    for stream in streams {
        assert_eq!(unknown(Some("x"), *stream, words), 1, "{stream:?}");
        assert_eq!(unknown(None, *stream, words), 0, "{stream:?}");
        assert_eq!(unknown(Some("x"), *stream, "Error: something else"), 0, "{stream:?}");
    }
    // Words of the model in a line that was cut are none of the agent's.
    let cut = format!(r#"{{"type":"text","text":"{words}"#);
    assert_eq!(unknown(Some("x"), Stream::Stdout, &cut), 0);
}

/// Plays single lines of the recordings, each broken somewhere, to their end. None does harm, and
/// `harmless` says of each line what it may have come to.
pub(crate) fn assert_broken_lines_do_no_harm(
    runtime: &dyn Runtime,
    harmless: fn(&str, &[Option<Code>]) -> bool,
) {
    let all = recordings(&runtime.card().id);
    let lines: Vec<_> = all.iter().flat_map(|one| one.stdout.iter().chain(&one.stderr)).collect();
    let strategy = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        proptest::collection::vec(any::<u8>(), 0..8),
        any::<bool>(),
    );
    let played = TestRunner::new(Config::default()).run(&strategy, |(pick, at, junk, aside)| {
        let mut line = pick.get(&lines).to_vec();
        let start = at.index(line.len() + 1);
        let end = (start + junk.len()).min(line.len());
        line.splice(start..end, junk);
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let mut dialect = fresh(runtime);
        let mut out = hear(&mut *dialect, stream, std::slice::from_ref(&line));
        prop_assert!(runtime.restore(&dialect.save()).is_ok());
        dialect.close(Close::Ended, &mut out);
        prop_assert!(harmless(&String::from_utf8_lossy(&line), &results(&out)));
        Ok(())
    });
    played.unwrap();
}

/// What most agents hold to: no line alone is a success.
pub(crate) fn never_a_success(_: &str, results: &[Option<Code>]) -> bool {
    results.iter().all(Option::is_some)
}

/// Exits with their last words, and what each means.
pub(crate) fn assert_exits_mean(runtime: &dyn Runtime, rows: &[(Option<i32>, &str, Option<Code>)]) {
    for (exit_code, stderr_tail, expected) in rows {
        let evidence = ExitEvidence { exit_code: *exit_code, signal: None, stderr_tail };
        assert_eq!(runtime.classify(&evidence), *expected, "{exit_code:?} {stderr_tail}");
    }
}
