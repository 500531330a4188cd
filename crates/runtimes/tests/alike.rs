//! One scenario across all runtimes: an agent that says what it will do, uses one tool and then answers tells the same
//! story whoever made it. Deltas are joined, repeats of a kind count once, and what is about limits
//! and bookkeeping is left out. The exceptions are one table, and it may only shrink.

use contract::event::{Body, TurnPhase};
use contract::{Draft, Outcome};
use runtimes::registry;
use std::path::PathBuf;
use testkit::recorded::{Recording, spec};

/// What everybody tells, in this order.
const STORY: &[&str] = &[
    "turn begins",
    "assistant_text",
    "tool_use",
    "tool_result",
    "assistant_text",
    "turn ends",
    "result",
];

/// An answer, and nothing of how it came about.
const BARE: &[&str] = &["turn begins", "assistant_text", "turn ends", "result"];
/// Two calls, one after the other: its example is another than the recorded scenario.
const TWICE: &[&str] = &[
    "turn begins",
    "assistant_text",
    "tool_use",
    "tool_result",
    "tool_use",
    "tool_result",
    "assistant_text",
    "turn ends",
    "result",
];

/// Runtime, how it differs, and why it cannot be otherwise.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("openclaw", BARE, "it prints one document at its end, without what it did on the way"),
    ("hermes", BARE, "its one-shot mode prints the answer alone, and its report has no calls"),
    ("aider", BARE, "it has no tools: changes stand in its answer, and it applies them itself"),
    ("cursor-agent", TWICE, "documented and not recorded: the published example has two calls"),
];

/// The word that a draft is in the story; `None` for what is told beside it.
fn word(draft: &Draft) -> Option<&'static str> {
    match &draft.body {
        Body::Turn(turn) => Some(match turn.phase {
            TurnPhase::Started => "turn begins",
            TurnPhase::Ended => "turn ends",
        }),
        Body::AssistantText(_) => Some("assistant_text"),
        Body::ToolUse(_) => Some("tool_use"),
        Body::ToolResult(_) => Some("tool_result"),
        Body::Result(_) => Some("result"),
        _ => None,
    }
}

#[test]
fn every_runtime_tells_the_same_story_of_one_tool_and_an_answer() {
    let mut told = 0;
    let mut wrong = Vec::new();
    for runtime in registry::all() {
        let id = runtime.card().id;
        let folder: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "src", &id, "recordings"].iter().collect();
        if !folder.join("tool.ndjson").exists() {
            continue;
        }
        told += 1;
        let lane = runtime.card().lanes[0];
        let recording = Recording::read(&folder, "tool");
        let played = recording.play(*runtime, &spec(*runtime, lane));
        assert_eq!(played.result.outcome, Outcome::Succeeded, "{id}");
        let mut story: Vec<&str> = played.drafts.iter().filter_map(word).collect();
        story.dedup();
        let exception = EXCEPTIONS.iter().find(|(of, ..)| *of == id);
        let expected = exception.map_or(STORY, |(_, story, _)| story);
        if story != expected {
            wrong.push(format!("{id}: {story:?}"));
        }
        if exception.is_some() && expected == STORY {
            wrong.push(format!("{id}: is no exception any more"));
        }
    }
    assert!(told >= 4, "{told} runtimes have the scenario");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_agent_tells_the_same_story_through_acp() {
    let runtime = registry::find("acp").expect("a runtime");
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", "acp", "recordings"].iter().collect();
    let spec = spec(runtime, runtime.card().lanes[0]);
    let mut told = 0;
    for recording in Recording::all(&folder) {
        // Two of them want a login before they do anything.
        let played = recording.play(runtime, &spec);
        if !recording.name.ends_with("-tool") || played.result.outcome != Outcome::Succeeded {
            continue;
        }
        told += 1;
        let mut story: Vec<&str> = played.drafts.iter().filter_map(word).collect();
        story.dedup();
        assert_eq!(story, STORY, "{}", recording.name);
    }
    assert!(told >= 8, "{told} agents have the scenario");
}

#[test]
fn every_exception_is_of_a_runtime_that_is_there_and_says_why() {
    for (id, _, why) in EXCEPTIONS {
        assert!(registry::find(id).is_some() && why.len() > 20, "{id}");
    }
}
