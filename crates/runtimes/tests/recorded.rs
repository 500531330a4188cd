//! Every runtime by what its agent really printed: each recording comes to the outcome that its
//! `why` states, its events are a reviewed snapshot, it can be left and taken up between any two
//! lines, and no cut makes it a success.
//!
//! A runtime with recordings is one with a folder of them: nothing is listed here.

use contract::event::{Body, TurnPhase};
use contract::plan::Lane;
use contract::{Draft, Outcome};
use runtimes::{Runtime, Spec, registry};
use std::path::PathBuf;
use testkit::recorded::{Recording, row, spec};

/// Every runtime that has recordings, with them.
fn recorded() -> Vec<(&'static dyn Runtime, Spec, Vec<Recording>)> {
    let all = registry::all().iter().filter_map(|runtime| {
        let folder = folder(&runtime.card().id);
        let lane = *runtime.card().lanes.first()?;
        folder.exists().then(|| (*runtime, spec(*runtime, lane), Recording::all(&folder)))
    });
    all.collect()
}

fn folder(id: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src", id, "recordings"].iter().collect()
}

/// The first words of a `why`.
fn outcome(code: Option<contract::Code>, outcome: Outcome) -> String {
    match code {
        Some(code) => format!("{} {code}", outcome.word()),
        None => outcome.word().to_owned(),
    }
}

#[test]
fn every_recording_comes_to_the_outcome_that_its_why_states() {
    let mut wrong = Vec::new();
    for (runtime, spec, recordings) in recorded() {
        for recording in recordings {
            let result = recording.play(runtime, &spec).result;
            let came = outcome(result.code, result.outcome);
            let stated = recording.why.split_once(": ").map_or("", |(outcome, _)| outcome);
            if came != stated {
                wrong.push(format!(
                    "{}/{}: {came}, not {stated:?}",
                    runtime.card().id,
                    recording.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_recording_reads_as_it_was_reviewed() {
    for (runtime, spec, recordings) in recorded() {
        for recording in recordings {
            let played = recording.play(runtime, &spec);
            let mut rows: Vec<String> = vec![recording.why.clone(), String::new()];
            rows.extend(played.drafts.iter().map(row));
            rows.extend(played.said.iter().map(|said| format!("> {}", said.trim_end())));
            rows.extend(played.session.iter().map(|id| format!("keeps {id}")));
            let name = format!("{}__{}", runtime.card().id, recording.name);
            insta::assert_snapshot!(name, rows.join("\n"));
        }
    }
}

#[test]
fn a_conversation_that_was_taken_up_again_is_told_as_one() {
    let mut seen = 0;
    for (runtime, spec, recordings) in recorded() {
        for recording in recordings.iter().filter(|recording| recording.resumed.is_some()) {
            let played = recording.play(runtime, &spec);
            let resumed = played.drafts.iter().any(|draft| match &draft.body {
                Body::Session(session) => session.resumed,
                _ => false,
            });
            // One that could not take it up told no session at all.
            let place = format!("{}/{}", runtime.card().id, recording.name);
            assert_eq!(resumed, played.result.outcome == Outcome::Succeeded, "{place}");
            seen += 1;
        }
    }
    assert!(seen >= 22, "only {seen} recordings are of a conversation taken up again");
}

/// Lines that agents were recorded with and that nothing is made of but a `log`: the runtime, a part
/// of the line, and why. It may only shrink.
const UNRECOGNISED: &[(&str, &str, &str)] = &[
    ("acp", "_auth/status_update", "an extension of one bridge, whose name begins with a line"),
    ("acp", "fs/read_text_file", "the one who recorded it offered files, which Ostler does not"),
    ("remote", r#"{"id":"2","event":{"type":"comple"#, "a line of the courier that was cut"),
    ("remote", "this is no JSON", "what a remote sent in the place of an event"),
    ("remote", "unheard of", "an event of a kind that there is not"),
    ("openhands", "CondensationRequest", "it makes room in its context, which has no event"),
];

#[test]
fn a_line_of_a_recording_is_recognised_but_for_those_of_a_table() {
    let mut needed = vec![false; UNRECOGNISED.len()];
    let mut new = Vec::new();
    for (runtime, spec, recordings) in recorded() {
        let id = runtime.card().id;
        for recording in recordings {
            for draft in recording.play(runtime, &spec).drafts {
                let Body::Log(log) = draft.body else { continue };
                if log.level.as_deref() != Some("unrecognised") {
                    continue;
                }
                let known = |(runtime, part, _): &(&str, &str, &str)| {
                    *runtime == id && log.text.contains(part)
                };
                match UNRECOGNISED.iter().position(known) {
                    Some(at) => needed[at] = true,
                    None => new.push(format!("{id}/{}: {}", recording.name, log.text)),
                }
            }
        }
    }
    assert!(new.is_empty(), "{} lines are not recognised:\n{}", new.len(), new.join("\n"));
    let gone = UNRECOGNISED.iter().zip(needed).filter(|(_, needed)| !needed);
    let gone: Vec<_> = gone.map(|(row, _)| row).collect();
    assert!(gone.is_empty(), "these are recognised now, and leave the table: {gone:?}");
}

#[test]
fn every_recording_can_be_left_and_taken_up_between_any_two_lines() {
    for (runtime, spec, recordings) in recorded() {
        for recording in recordings {
            recording.assert_it_can_be_adopted_anywhere(runtime, &spec);
        }
    }
}

#[test]
fn no_recording_succeeds_before_its_closing_line_was_heard() {
    for (runtime, spec, recordings) in recorded() {
        for recording in recordings {
            // A long one is cut often enough by its short kin.
            if recording.stdout.len() > 200 {
                continue;
            }
            let whole = recording.play(runtime, &spec).result;
            let after = recording.succeeds_after(runtime, &spec);
            if whole.code.is_some() {
                assert_eq!(after, None, "{} succeeds when it is cut", recording.name);
            }
            if let (Some(after), Lane::Native | Lane::Acp) = (after, spec.lane) {
                let played = recording.play(runtime, &spec).drafts;
                let early =
                    recording.play_until(runtime, &spec, after, contract::speech::Close::Cut);
                // A conversation may go on after an end, but only with a turn of its own.
                let turns = early.drafts.iter().filter(|draft| starts_turn(draft)).count();
                let mut started = 0;
                let same = played.iter().take_while(|draft| {
                    started += usize::from(starts_turn(draft));
                    started <= turns
                });
                let texts = same.filter(|draft| is_text(draft)).count();
                let heard = early.drafts.iter().filter(|draft| is_text(draft)).count();
                assert_eq!(heard, texts, "{}: text after the end", recording.name);
            }
        }
    }
}

fn is_text(draft: &Draft) -> bool {
    matches!(draft.body, Body::AssistantText(_))
}

fn starts_turn(draft: &Draft) -> bool {
    matches!(&draft.body, Body::Turn(turn) if turn.phase == TurnPhase::Started)
}

#[test]
fn a_key_that_passes_by_a_card_is_known_to_the_seal() {
    let mut keys = 0;
    for runtime in registry::all() {
        let card = runtime.card();
        let Some(lane) = card.lanes.first() else { continue };
        let Ok(plan) = runtime.plan(&spec(*runtime, *lane)) else { continue };
        for name in card.env.iter().filter(|name| name.ends_with("_KEY")) {
            assert!(plan.secrets.contains(name), "{}: {name}", card.id);
            keys += 1;
        }
    }
    assert!(keys > 0, "no runtime takes a key");
}
