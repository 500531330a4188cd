//! What the tests of headless dialects share: a plain spec, lines played through a dialect, plans
//! written down for review, and the properties that hold for each of them. The spec of the harness
//! in `testkit` belongs to another build of this crate, so it is made here once more.

use crate::{Dialect, Frame, Out, Runtime, Spec, Stream};
use contract::plan::{EnvSource, Lane, ProjectContext};
use contract::speech::Close;
use contract::{Policy, Signal, Utterance};
use serde_json::Value;
use std::path::PathBuf;
use testkit::recorded::Recording;

pub(crate) fn recordings(id: &str) -> Vec<Recording> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", id, "recordings"].iter().collect();
    Recording::all(&folder)
}

pub(crate) fn spec(id: &str) -> Spec {
    let mut context = crate::template::Context::new();
    context
        .set("mcpUrl", "http://127.0.0.1:7717/mcp")
        .set("runId", "run_0198c0de00007000800000000000cafe")
        .set("workspacePath", "/workspace");
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

pub(crate) fn hear(dialect: &mut dyn Dialect, stream: Stream, lines: &[Vec<u8>]) -> Out {
    let mut out = Out::default();
    for (index, bytes) in lines.iter().enumerate() {
        let frame = Frame { stream, line: index as u64 + 1, bytes, cut: false };
        dialect.hear(&frame, &mut out);
    }
    out
}

/// A whole recording, to its end.
pub(crate) fn played(runtime: &dyn Runtime, recording: &Recording) -> Out {
    let mut dialect = runtime.dialect(&spec(&runtime.card().id));
    let mut out = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
    let mut more = hear(&mut *dialect, Stream::Stderr, &recording.stderr);
    dialect.close(Close::Ended, &mut more);
    out.drafts.append(&mut more.drafts);
    out.signals.append(&mut more.signals);
    out
}

/// A line made up for a test.
pub(crate) fn line(value: Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A change to the plain spec, with its name.
pub(crate) type Row = (&'static str, fn(&mut Spec));

/// What is asked of every runtime that is driven this way.
const ROWS: [Row; 9] = [
    ("allow-all", |_| {}),
    ("allow-reads", |spec| spec.policy = Policy::AllowReads),
    ("ask", |spec| spec.policy = Policy::Ask),
    ("deny", |spec| spec.policy = Policy::Deny),
    ("a model", |spec| spec.model = Some("some-model".to_owned())),
    ("a conversation", |spec| spec.session = Some("c79e6605".to_owned())),
    ("a system prompt", |spec| spec.system_prompt = Some("Be brief.".to_owned())),
    ("isolated, with more arguments", |spec| {
        spec.adapter.project_context = Some(ProjectContext::Isolate);
        spec.adapter.extra_args = vec!["--verbose".to_owned()];
    }),
    ("another binary, no tools of ours", |spec| {
        spec.adapter.binary = Some("/opt/agent".to_owned());
        spec.adapter.mcp = false;
    }),
];

/// Plans as they are reviewed: program, arguments, own variables, files and first words.
pub(crate) fn plans(runtime: &dyn Runtime, more: &[Row]) -> String {
    let mut shown = String::new();
    for (name, change) in ROWS.iter().chain(more) {
        let mut spec = spec(&runtime.card().id);
        change(&mut spec);
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
                let said =
                    runtime.dialect(&spec).open().map(|said| String::from_utf8(said).unwrap());
                shown.push_str(&format!("  < {said:?}\n"));
            }
            Err(fault) => shown.push_str(&format!("  {}: {}\n", fault.code, fault.message)),
        }
    }
    shown
}

/// How many calls were opened; panics for one that is closed never or twice.
pub(crate) fn calls(out: &Out) -> usize {
    let (mut open, mut calls) = (Vec::new(), 0);
    for signal in &out.signals {
        match signal {
            Signal::ToolOpened { tool_call_id } => open.push(tool_call_id),
            Signal::ToolClosed { tool_call_id } => {
                let index = open.iter().position(|id| *id == tool_call_id);
                open.remove(index.expect("a call that was opened"));
                calls += 1;
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    calls
}

/// The code of the structured result, if there was one; `None` inside is success.
pub(crate) fn ended(out: &Out) -> Option<Option<&'static str>> {
    out.signals.iter().find_map(|signal| match signal {
        Signal::Result(ending) => Some(ending.code.map(contract::Code::word)),
        _ => None,
    })
}

/// How often the conversation to be taken up was said to be unknown, by one line.
pub(crate) fn unknown(runtime: &dyn Runtime, session: Option<&str>, said: &str) -> usize {
    let spec = Spec { session: session.map(str::to_owned), ..spec(&runtime.card().id) };
    let out = hear(&mut *runtime.dialect(&spec), Stream::Stderr, &[said.as_bytes().to_vec()]);
    out.signals.iter().filter(|signal| **signal == Signal::SessionUnknown).count()
}

/// What cannot be said is told, and state of another version is refused.
pub(crate) fn assert_it_is_deaf_and_its_state_has_a_version(runtime: &dyn Runtime) {
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

/// One line of a recording, broken somewhere.
pub(crate) fn broken(
    recordings: &[Recording],
    pick: proptest::sample::Index,
    at: proptest::sample::Index,
    junk: Vec<u8>,
) -> Vec<u8> {
    let lines: Vec<_> =
        recordings.iter().flat_map(|one| one.stdout.iter().chain(&one.stderr)).collect();
    let mut line = pick.get(&lines).to_vec();
    let start = at.index(line.len() + 1);
    let end = (start + junk.len()).min(line.len());
    line.splice(start..end, junk);
    line
}
