//! What the tests of runtimes share: a plain spec, hearing lines, plans as text for review, and sums of
//! what was booked. Only for tests; which figures must come out is each runtime's own business.

use crate::{Dialect, Frame, Out, Runtime, Spec, Stream};
use contract::event::Body;
use contract::plan::{EnvSource, Lane};
use contract::speech::Close;
use contract::{Policy, Signal, Utterance};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::PathBuf;
use testkit::recorded::Recording;

/// Every recording of a runtime.
pub(crate) fn recordings(id: &str) -> Vec<Recording> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", id, "recordings"].iter().collect();
    Recording::all(&folder)
}

/// The spec of the harness belongs to another build of this crate, so it is made here.
pub(crate) fn spec(id: &str) -> Spec {
    let mut context = crate::template::Context::new();
    context.set("mcpUrl", "http://127.0.0.1:7717/mcp");
    Spec {
        adapter: contract::plan::Adapter {
            name: id.to_owned(),
            runtime: id.to_owned(),
            mcp: true,
            ..Default::default()
        },
        context,
        model: None,
        prompt: "Please do the small task now.".to_owned(),
        system_prompt: None,
        policy: Policy::AllowAll,
        lane: Lane::Native,
        session: None,
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

/// All that a fresh dialect makes of some lines of JSON on standard output.
pub(crate) fn heard(runtime: &dyn Runtime, spec: &Spec, lines: &[serde_json::Value]) -> Out {
    let lines: Vec<_> = lines.iter().map(|line| line.to_string().into_bytes()).collect();
    hear(&mut *runtime.dialect(spec), Stream::Stdout, &lines)
}

/// Plans as they are shown for review: program, arguments, what is set, files and first words.
pub(crate) fn shown(runtime: &dyn Runtime, rows: Vec<(&str, Spec)>) -> String {
    let mut shown = String::new();
    for (name, spec) in rows {
        shown.push_str(&format!("{name}\n"));
        match runtime.plan(&spec) {
            Ok(plan) => {
                shown.push_str(&format!("  {} {:?} {:?}\n", plan.program, plan.args, plan.stdin));
                for entry in plan.env {
                    if let EnvSource::Runtime { value } = entry.source {
                        shown.push_str(&format!("  {}={value}\n", entry.name));
                    }
                }
                for file in plan.files {
                    shown.push_str(&format!("  {}: {}\n", file.name, file.text));
                }
                let said = runtime.dialect(&spec).open().unwrap();
                shown.push_str(&format!("  < {:?}\n", String::from_utf8(said).unwrap()));
            }
            Err(fault) => shown.push_str(&format!("  {}: {}\n", fault.code, fault.message)),
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

/// The sum of all increments that a recording was booked with.
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

/// What the model server reported for the requests of a recording that were the agent's own work.
pub(crate) fn served(recording: &Recording, all: &[Recording]) -> Sum {
    // The requests of a resumed run follow those of the run before.
    let first = recording.name.strip_suffix(".resume");
    let before =
        first.map_or(0, |first| all.iter().find(|one| one.name == first).unwrap().requests.len());
    let mut sum = Sum::default();
    for request in recording.requests[before..].iter().filter(|request| request["aux"] != true) {
        let usage = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
        sum.uncached += usage("input") + usage("cache_create");
        sum.cached += usage("cache_read");
        sum.output += usage("output");
        sum.reasoning += usage("reasoning");
    }
    sum
}

/// Plays every recording to its end and counts the calls; panics where one is left open, is closed
/// twice, or has not one event for its beginning and one for its end.
pub(crate) fn assert_calls_are_paired(runtime: &dyn Runtime) -> usize {
    let id = runtime.card().id;
    let mut calls = 0;
    for recording in recordings(&id) {
        let mut dialect = runtime.dialect(&spec(&id));
        let mut out = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
        dialect.close(Close::Ended, &mut out);
        let mut open = Vec::new();
        let mut closed = 0;
        for signal in out.signals {
            match signal {
                Signal::ToolOpened { tool_call_id } => open.push(tool_call_id),
                Signal::ToolClosed { tool_call_id } => {
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
    let mut dialect = runtime.dialect(&spec(&runtime.card().id));
    let mut out = Out::default();
    dialect.say(&Utterance::Message { text: "more".to_owned() }, &mut out);
    dialect.say(&Utterance::Interrupt, &mut out);
    assert_eq!((out.drafts.len(), out.frames.len()), (2, 0));
    let saved = String::from_utf8(dialect.save()).unwrap();
    assert!(runtime.restore(saved.as_bytes()).is_ok());
    let newer = saved.replace("\"version\":1", "\"version\":2");
    assert!(runtime.restore(newer.as_bytes()).is_err());
}

/// A conversation that is not known is found by these words, and only when one was asked for.
pub(crate) fn assert_unknown_session_is_found(runtime: &dyn Runtime, words: &str) {
    let id = runtime.card().id;
    for (session, expected) in [(Some("x".to_owned()), 1), (None, 0)] {
        let spec = spec_with(&id, |spec| spec.session = session.clone());
        let lines = [words.as_bytes().to_vec()];
        let out = hear(&mut *runtime.dialect(&spec), Stream::Stderr, &lines);
        let unknown = out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown);
        assert_eq!(unknown.count(), expected, "{session:?}");
        assert_eq!(out.drafts.len(), 1);
    }
}

/// Plays single lines of the recordings, each broken somewhere: none does harm, and none alone is a
/// success.
pub(crate) fn assert_broken_lines_do_no_harm(runtime: &dyn Runtime) {
    let id = runtime.card().id;
    let all = recordings(&id);
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
        let mut dialect = runtime.dialect(&spec(&id));
        let mut out = hear(&mut *dialect, stream, &[line]);
        prop_assert!(runtime.restore(&dialect.save()).is_ok());
        dialect.close(Close::Ended, &mut out);
        for signal in &out.signals {
            if let Signal::Result(ending) = signal {
                prop_assert!(ending.code.is_some());
            }
        }
        Ok(())
    });
    played.unwrap();
}
