//! Agents by their mapping alone, with their own folder switched off: what they really printed comes
//! to the same events and the same outcome as by the dialect that was written for them. A block of
//! text is compared by what belongs to it, not by its name, which only joins its pieces.
//!
//! `EXCEPTIONS` is what differs, each with its reason. It may only shrink: one that no longer differs
//! fails the test as well.

use contract::event::{Body, Text};
use contract::mapping::Mapping;
use contract::plan::{Adapter, Lane};
use contract::{Draft, Policy};
use runtimes::{Runtime, Spec, mapped::Mapped, registry};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use testkit::recorded::{Played, Recording, row, spec};

/// The mappings, each with the runtime whose recordings it is held against.
const EXAMPLES: [&str; 2] = ["pi", "gemini"];

/// Recordings that come to something else, and why.
const EXCEPTIONS: &[(&str, &str)] = &[];

struct Both {
    name: String,
    recording: Recording,
    native: Played,
    mapped: Played,
}

fn file(parts: &[&str]) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src"].iter().chain(parts).collect()
}

fn mapping(example: &str) -> Mapping {
    let path = file(&["mapped", "examples", &format!("{example}.json")]);
    let text = std::fs::read_to_string(path).expect("an example");
    serde_json::from_str(&text).expect("a mapping")
}

fn adapter(example: &str) -> Adapter {
    Adapter {
        name: format!("my-{example}"),
        binary: Some("agent".to_owned()),
        mapping: Some(mapping(example)),
        mcp: true,
        trace: true,
        ..Adapter::default()
    }
}

fn runtime(example: &str) -> (Mapped, Spec) {
    let adapter = adapter(example);
    let mapped = Mapped::new(&adapter, adapter.mapping.as_ref().unwrap()).expect("no mistakes");
    let spec = Spec { adapter, ..spec(&mapped, Lane::Native) };
    (mapped, spec)
}

fn played() -> Vec<Both> {
    let mut all = Vec::new();
    for example in EXAMPLES {
        let native = registry::find(example).expect("a runtime with a folder");
        let (mapped, mapped_spec) = runtime(example);
        let native_spec = spec(native, Lane::Native);
        for recording in Recording::all(&file(&[example, "recordings"])) {
            all.push(Both {
                name: format!("{example}/{}", recording.name),
                native: recording.play(native, &native_spec),
                mapped: recording.play(&mapped, &mapped_spec),
                recording,
            });
        }
    }
    all
}

/// The events with their blocks named in the order they came.
fn rows(drafts: &[Draft]) -> Vec<String> {
    let mut names = BTreeMap::new();
    let mut rows = Vec::new();
    for draft in drafts {
        let mut draft = draft.clone();
        if let Body::AssistantText(Text { block: Some(block), .. })
        | Body::Thinking(Text { block: Some(block), .. }) = &mut draft.body
        {
            let next = names.len();
            *block = format!("b{}", names.entry(block.clone()).or_insert(next));
        }
        let whole = serde_json::to_string(&draft.body).expect("an event is JSON");
        let head: Vec<_> = row(&draft).split(' ').take(2).map(str::to_owned).collect();
        rows.push(format!("{} {whole}", head.join(" ")));
    }
    rows
}

#[test]
fn a_mapping_hears_what_the_folder_hears() {
    let (mut wrong, mut events) = (Vec::new(), 0);
    let excused: BTreeSet<_> = EXCEPTIONS.iter().map(|(name, _)| *name).collect();
    let all = played();
    for Both { name, native, mapped, .. } in &all {
        let (native_rows, mapped_rows) = (rows(&native.drafts), rows(&mapped.drafts));
        events += native_rows.len();
        let same = native_rows == mapped_rows
            && native.result == mapped.result
            && native.session == mapped.session
            && native.said == mapped.said;
        if same == excused.contains(name.as_str()) {
            let differs = native_rows.iter().zip(&mapped_rows).find(|(native, own)| native != own);
            let counts = (native_rows.len(), mapped_rows.len());
            wrong.push(format!("{name}: same {same}, events {counts:?}, first {differs:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.len() >= 62 && events > 700, "{} recordings, {events} events", all.len());
}

#[test]
fn a_mapped_run_can_be_left_and_taken_up_between_any_two_lines() {
    for example in EXAMPLES {
        let (mapped, spec) = runtime(example);
        for recording in Recording::all(&file(&[example, "recordings"])) {
            recording.assert_it_can_be_adopted_anywhere(&mapped, &spec);
        }
    }
}

#[test]
fn no_cut_of_a_mapped_recording_is_a_success() {
    for Both { name, recording, native, .. } in played() {
        let example = name.split('/').next().unwrap();
        let (mapped, spec) = runtime(example);
        if recording.stdout.len() > 200 {
            continue;
        }
        let after = recording.succeeds_after(&mapped, &spec);
        assert_eq!(after.is_some(), native.result.code.is_none(), "{name}");
        assert!(after.is_none_or(|after| after == recording.stdout.len()), "{name}: {after:?}");
    }
}

/// What makes a start another one.
type Change = fn(&mut Spec);

#[test]
fn a_mapping_starts_what_the_folder_starts() {
    for example in EXAMPLES {
        let native = registry::find(example).expect("a runtime with a folder");
        let (mapped, mapped_spec) = runtime(example);
        let changes: [(&str, Change); 7] = [
            ("plain", |_| {}),
            ("a model", |spec| spec.model = Some("some/model".to_owned())),
            ("a conversation", |spec| spec.session = Some("c79e6605".to_owned())),
            ("a system prompt", |spec| spec.system_prompt = Some("Be brief.".to_owned())),
            ("deny", |spec| spec.policy = Policy::Deny),
            ("ask", |spec| spec.policy = Policy::Ask),
            ("allow-reads", |spec| spec.policy = Policy::AllowReads),
        ];
        for (what, change) in changes {
            let plan = |runtime: &dyn Runtime, mut spec: Spec| {
                change(&mut spec);
                let said = runtime.dialect(&spec).open();
                let plan = runtime.plan(&spec).map_err(|fault| fault.code)?;
                let files: Vec<_> = plan.files.into_iter().map(|file| file.text).collect();
                // The file that holds the same text has another name.
                let args = plan.args.iter().map(|arg| match arg.starts_with(&spec.files) {
                    true => "FILE".to_owned(),
                    false => arg.clone(),
                });
                Ok::<_, contract::Code>((args.collect::<Vec<_>>(), plan.stdin, files, said))
            };
            let mut native_spec = spec(native, Lane::Native);
            // What a run is told of our tools is no part of a mapping.
            native_spec.adapter.mcp = false;
            assert_eq!(
                plan(native, native_spec),
                plan(&mapped, mapped_spec.clone()),
                "{example}: {what}"
            );
        }
    }
}
