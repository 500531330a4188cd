//! Agents by their mapping: the first line is a mapping, the others are heard by it. A mapping that
//! passes its check can be followed whatever it says: hearing all lines equals saving and loading
//! between any two, what came of it can be written, and an exit can be judged. A first line that is
//! no such mapping leaves the lines to an example.

use super::{Target, holds};
use crate::fuzz::search::Try;
use contract::mapping::Mapping;
use contract::plan::{Adapter, Lane};
use contract::speech::Close;
use runtimes::mapped::{Mapped, mistakes};
use runtimes::template::Context;
use runtimes::{Dialect, ExitEvidence, Frame, Out, Runtime as _, Spec, Stream};

pub const TARGET: Target = Target {
    name: "mapped",
    everyday: Some(1_500),
    seeds,
    words: &[
        b"\n",
        b"\"when\":{\"type\":\"x\"}",
        b"\"each\":\"a[]\"",
        b"\"where\":{\"@key\":{\"exists\":true}}",
        b"\"on\":\"stderr\"",
        b"\"text\":{\"at\":\"$\",\"delta\":true}",
        b"\"repeats\":true",
        b"\"toolUse\":{\"id\":\"@key\",\"name\":\"a\"}",
        b"\"usage\":{\"input\":[\"a\",\"-b\"]}",
        b"\"limit\":{\"waitMsAfter\":\"\"}",
        b"\"end\":{}",
        b"\"verdict\":{\"success\":true}",
        b"\"success\":\"zero\"",
        b"[0]",
        b"$.",
    ],
    make,
};

/// One recording in this many goes with each example: they are much alike.
const RECORDINGS_STEP: usize = 16;

fn examples() -> Vec<Mapping> {
    let folder = crate::root().join("crates/runtimes/src/mapped/examples");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let read = paths.iter().filter_map(|path| std::fs::read(path).ok());
    read.filter_map(|bytes| serde_json::from_slice(&bytes).ok()).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let recordings = super::recordings();
    let mut seeds = Vec::new();
    for example in examples() {
        let head = serde_json::to_vec(&example).unwrap_or_default();
        for recording in recordings.iter().step_by(RECORDINGS_STEP) {
            seeds.push([head.as_slice(), recording].join(&b'\n'));
        }
    }
    seeds
}

fn make() -> Try {
    let example = examples().into_iter().next().unwrap_or_default();
    Box::new(move |input, chance| {
        let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        let given = serde_json::from_slice::<Mapping>(lines[0]).ok();
        let given = given.filter(|mapping| mistakes(mapping).is_empty());
        if given.is_some() {
            lines.remove(0);
        }
        let spec = spec(given.unwrap_or_else(|| example.clone()));
        let mapping = spec.adapter.mapping.clone().unwrap_or_default();
        let mapped = Mapped::new(&spec.adapter, &mapping).map_err(|fault| fault.to_string())?;
        let cut = chance.one_in(16);
        let streams: Vec<_> = lines.iter().map(|_| chance.one_in(4)).collect();
        let hear = |dialect: &mut dyn Dialect, index: usize| {
            let stream = if streams[index] { Stream::Stderr } else { Stream::Stdout };
            let mut out = Out::default();
            let line = index as u64 + 1;
            dialect.hear(&Frame { stream, line, bytes: lines[index], cut }, &mut out);
            out
        };
        let (mut whole, mut moved) = (mapped.dialect(&spec), mapped.dialect(&spec));
        for index in 0..lines.len() {
            if chance.one_in(3) {
                let saved = moved.save();
                let next = Mapped::of_saved(&saved).and_then(|mapped| mapped.restore(&saved));
                moved = next.map_err(|fault| format!("its own state is refused: {fault}"))?;
            }
            let expected = hear(&mut *whole, index);
            holds(expected == hear(&mut *moved, index), || {
                "saved and loaded, it hears something else".to_owned()
            })?;
            for draft in &expected.drafts {
                serde_json::to_vec(&draft.body)
                    .map_err(|error| format!("cannot be written: {error}"))?;
            }
        }
        whole.close(Close::Ended, &mut Out::default());
        let stderr_tail = String::from_utf8_lossy(input);
        let exit_code = Some(i32::from(chance.one_in(2)));
        mapped.classify(&ExitEvidence { exit_code, signal: None, stderr_tail: &stderr_tail });
        Ok(())
    })
}

fn spec(mapping: Mapping) -> Spec {
    Spec {
        adapter: Adapter {
            name: "fuzzed".to_owned(),
            binary: Some("agent".to_owned()),
            mapping: Some(mapping),
            ..Adapter::default()
        },
        context: Context::new(),
        model: None,
        prompt: "do it".to_owned(),
        system_prompt: None,
        policy: contract::Policy::AllowAll,
        lane: Lane::Native,
        session: Some("s".to_owned()),
        budget: Default::default(),
        counts_spending: false,
        files: "/run/files".to_owned(),
        as_root: false,
        own_program: "ostler".to_owned(),
        caller_env: Default::default(),
    }
}
