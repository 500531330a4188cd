//! For the tests of agents that are only listened to: their recordings, a plain spec, and what must
//! hold for each of them whatever its lines look like. The facts of an agent stay in its own tests.

use crate::{Dialect, Frame, Out, Runtime, Spec, Stream};
use contract::plan::{Adapter, EnvSource, Lane};
use contract::speech::Close;
use contract::{Policy, Signal, Tokens};
use std::path::PathBuf;
use testkit::recorded::Recording;

/// The recordings in the folder of a runtime.
pub(crate) fn recordings(id: &str) -> Vec<Recording> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", id, "recordings"].iter().collect();
    Recording::all(&folder)
}

/// The spec of the harness belongs to another build of this crate, so it is made here.
pub(crate) fn spec(runtime: &dyn Runtime) -> Spec {
    let id = runtime.card().id;
    let mut context = crate::template::Context::new();
    context.set("mcpUrl", "http://127.0.0.1:7717/mcp");
    Spec {
        adapter: Adapter { name: id.clone(), runtime: id, mcp: true, ..Adapter::default() },
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

/// A recording heard to its end, standard output first.
pub(crate) fn play(runtime: &dyn Runtime, spec: &Spec, recording: &Recording) -> Out {
    let mut dialect = runtime.dialect(spec);
    let mut out = hear(&mut *dialect, Stream::Stdout, &recording.stdout);
    let aside = hear(&mut *dialect, Stream::Stderr, &recording.stderr);
    out.drafts.extend(aside.drafts);
    out.signals.extend(aside.signals);
    dialect.close(Close::Ended, &mut out);
    out
}

/// What a recording spent, all usage taken together.
pub(crate) fn booked(out: &Out) -> Tokens {
    let mut sum = Tokens::default();
    for signal in &out.signals {
        if let Signal::Spent(usage) = signal {
            let tokens = usage.tokens.unwrap_or_default();
            sum.input_uncached += tokens.input_uncached;
            sum.cache_read += tokens.cache_read;
            sum.cache_write += tokens.cache_write;
            sum.output += tokens.output;
        }
    }
    sum
}

/// What the model server says it reported over a recording.
pub(crate) fn served(recording: &Recording) -> Tokens {
    let mut sum = Tokens::default();
    for request in &recording.requests {
        let usage = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
        sum.input_uncached += usage("input");
        sum.cache_read += usage("cache_read");
        sum.cache_write += usage("cache_create");
        // Thoughts are among the output already, in the protocol that these agents speak.
        sum.output += usage("output");
    }
    sum
}

/// A name, and what is particular about the spec.
pub(crate) type PlanRow = (&'static str, fn(&mut Spec));

/// Plans as they are reviewed, one block for each row.
pub(crate) fn plans(runtime: &dyn Runtime, rows: &[PlanRow]) -> String {
    let mut shown = String::new();
    for (name, change) in rows {
        let mut spec = spec(runtime);
        change(&mut spec);
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
            shown.push_str(&format!("  {}: {:?}\n", file.name, file.text));
        }
        if let Some(said) = runtime.dialect(&spec).open() {
            shown.push_str(&format!("  < {:?}\n", String::from_utf8_lossy(&said)));
        }
    }
    shown
}

/// The rows that every agent has a plan for.
pub(crate) const PLANS: &[PlanRow] = &[
    ("allow-all", |_| {}),
    ("allow-reads", |spec| spec.policy = Policy::AllowReads),
    ("ask", |spec| spec.policy = Policy::Ask),
    ("deny", |spec| spec.policy = Policy::Deny),
    ("a model", |spec| spec.model = Some("some-model".to_owned())),
    ("a conversation", |spec| spec.session = Some("c79e6605".to_owned())),
    ("a system prompt", |spec| spec.system_prompt = Some("Be brief.".to_owned())),
    ("isolated, with more arguments", |spec| {
        spec.adapter.project_context = Some(contract::plan::ProjectContext::Isolate);
        spec.adapter.extra_args = vec!["--debug".to_owned()];
    }),
    ("another binary, no tools of ours", |spec| {
        spec.adapter.binary = Some("/opt/agent".to_owned());
        spec.adapter.mcp = false;
    }),
];

/// Asserts that every call of every recording is opened and closed once, and gives their number.
pub(crate) fn calls_closed(runtime: &dyn Runtime, recordings: &[Recording]) -> usize {
    let mut calls = 0;
    for recording in recordings {
        let mut open = Vec::new();
        for signal in play(runtime, &spec(runtime), recording).signals {
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
        assert!(open.is_empty(), "{}: {open:?}", recording.name);
    }
    calls
}

/// Hears one line of the recordings after something was written over a part of it. The dialect must
/// stay usable, and gives the endings that it told.
pub(crate) fn broken(
    runtime: &dyn Runtime,
    line: &[u8],
    at: usize,
    junk: Vec<u8>,
    stream: Stream,
) -> (Vec<u8>, Vec<Option<contract::Code>>) {
    let mut line = line.to_vec();
    let end = (at + junk.len()).min(line.len());
    line.splice(at..end, junk);
    let mut dialect = runtime.dialect(&spec(runtime));
    let out = hear(&mut *dialect, stream, std::slice::from_ref(&line));
    let saved = dialect.save();
    assert!(runtime.restore(&saved).is_ok(), "its own state cannot be read");
    let endings = out.signals.iter().filter_map(|signal| match signal {
        Signal::Result(ending) | Signal::Ended(ending) => Some(ending.code),
        _ => None,
    });
    (line, endings.collect())
}
