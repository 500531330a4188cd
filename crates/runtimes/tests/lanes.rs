//! One scenario, two lanes: what a real agent said natively and what it said over ACP come to the same
//! events, by recordings of both. Where they do not, that is a row of one table, with the reason; a
//! row that is not needed any more is an error, so the table may only shrink.

use contract::event::{Body, ToolStatus};
use contract::plan::Lane;
use runtimes::acp::lane;
use runtimes::registry::{self, Chosen};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use testkit::recorded::{Played, Recording, spec};

/// The scenarios that were recorded on both lanes with the same model.
const SCENARIOS: [&str; 6] = ["hello", "thinking", "tool", "tool_fail", "multi_tool", "write"];

/// What is compared of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Facet {
    Outcome,
    /// All that the model said.
    Text,
    Thought,
    /// How each call ended, in the order in which they were made.
    Calls,
    /// In which order texts, thoughts, calls and their results came.
    Order,
    Answer,
}

const FACETS: [Facet; 6] =
    [Facet::Outcome, Facet::Text, Facet::Thought, Facet::Calls, Facet::Order, Facet::Answer];

/// Where the lanes differ, and why. It may only shrink.
const EXCEPTIONS: &[(&str, &str, Facet, &str)] = &[
    ("claude", "write", Facet::Text, "another path was asked for in the native recording"),
    ("claude", "write", Facet::Answer, "another path was asked for in the native recording"),
    ("gemini", "thinking", Facet::Thought, "natively thoughts are counted and not told"),
    ("gemini", "thinking", Facet::Order, "natively thoughts are counted and not told"),
    ("gemini", "multi_tool", Facet::Order, "over ACP the second call follows the first's result"),
    ("gemini", "write", Facet::Calls, "the recording client served files, and its reading failed"),
    ("hermes", "tool", Facet::Text, "its native one-shot mode prints the answer alone"),
    ("hermes", "tool", Facet::Calls, "its native one-shot mode prints the answer alone"),
    ("hermes", "tool", Facet::Order, "its native one-shot mode prints the answer alone"),
    ("opencode", "thinking", Facet::Thought, "the native recording did not ask for thoughts"),
    ("opencode", "thinking", Facet::Order, "the native recording did not ask for thoughts"),
    ("opencode", "multi_tool", Facet::Order, "over ACP both calls are told before their results"),
];

fn recording(folder: &str, name: &str) -> Option<Recording> {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "src", folder, "recordings"].iter().collect();
    folder.join(format!("{name}.ndjson")).exists().then(|| Recording::read(&folder, name))
}

/// The name that recordings over ACP have for an agent: that of its program.
fn recorded_as(laned: &lane::Laned) -> &'static str {
    let program = laned.known.binary;
    program.strip_suffix("-acp").filter(|stem| *stem == laned.runtime).unwrap_or(program)
}

/// One facet of a run, in words.
fn facet(of: Facet, played: &Played) -> String {
    let bodies = || played.drafts.iter().map(|draft| &draft.body);
    match of {
        Facet::Outcome => format!("{:?} {:?}", played.result.outcome, played.result.code),
        Facet::Text => words(bodies().filter_map(|body| match body {
            Body::AssistantText(text) => Some(text.text.as_str()),
            _ => None,
        })),
        Facet::Thought => words(bodies().filter_map(|body| match body {
            Body::Thinking(text) => Some(text.text.as_str()),
            _ => None,
        })),
        Facet::Calls => {
            let ends: BTreeMap<&str, ToolStatus> = bodies()
                .filter_map(|body| match body {
                    Body::ToolResult(result) => Some((&*result.tool_call_id, result.status)),
                    _ => None,
                })
                .collect();
            let calls = bodies().filter_map(|body| match body {
                Body::ToolUse(call) => Some(format!("{:?}", ends.get(&*call.tool_call_id))),
                _ => None,
            });
            calls.collect::<Vec<_>>().join(" ")
        }
        Facet::Order => {
            let mut kinds: Vec<&str> = bodies()
                .filter(|body| {
                    matches!(
                        body,
                        Body::AssistantText(_)
                            | Body::Thinking(_)
                            | Body::ToolUse(_)
                            | Body::ToolResult(_)
                    )
                })
                .map(Body::kind)
                .collect();
            kinds.dedup();
            kinds.join(" ")
        }
        Facet::Answer => played.result.text.as_deref().unwrap_or_default().trim().to_owned(),
    }
}

/// A text without what lies between its blocks.
fn words<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let all: String = texts.collect();
    all.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn one_scenario_comes_to_the_same_events_on_both_lanes() {
    let mut differ = BTreeSet::new();
    let mut seen = Vec::new();
    let mut pairs = 0;
    for laned in registry::by_acp() {
        let native = registry::find(laned.runtime).expect("a runtime");
        let by_acp = registry::on_lane(Chosen::Listed(native), Lane::Acp);
        for scenario in SCENARIOS {
            let other = format!("{}-{scenario}", recorded_as(laned));
            let (Some(one), Some(other)) =
                (recording(laned.runtime, scenario), recording("acp", &other))
            else {
                continue;
            };
            pairs += 1;
            let one = one.play(native, &spec(native, Lane::Native));
            let other = other.play(&*by_acp, &spec(&*by_acp, Lane::Acp));
            for of in FACETS {
                let (one, other) = (facet(of, &one), facet(of, &other));
                if one != other {
                    differ.insert((laned.runtime, scenario, of));
                    let place = format!("{} {scenario} {of:?}", laned.runtime);
                    seen.push(format!("{place}\n  native {one}\n  acp    {other}"));
                }
            }
        }
    }
    assert!(pairs >= 30, "only {pairs} scenarios were recorded on both lanes");
    let known: BTreeSet<_> =
        EXCEPTIONS.iter().map(|(runtime, scenario, of, _)| (*runtime, *scenario, *of)).collect();
    let new: Vec<_> = differ.difference(&known).collect();
    assert!(new.is_empty(), "{} differ: {new:#?}\n{}", new.len(), seen.join("\n"));
    let gone: Vec<_> = known.difference(&differ).collect();
    assert!(gone.is_empty(), "these differ no more, and leave the table: {gone:?}");
}

#[test]
fn every_exception_has_a_reason_and_is_named_once() {
    let mut named = BTreeSet::new();
    for (runtime, scenario, of, why) in EXCEPTIONS {
        assert!(why.len() > 10, "{runtime} {scenario} {of:?}");
        assert!(named.insert((runtime, scenario, *of)), "{runtime} {scenario} {of:?} twice");
    }
}
