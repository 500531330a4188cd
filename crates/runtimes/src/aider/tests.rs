//! What the recordings do not show by themselves: the plans, the tokens against the agent's own
//! figures and against what the model server reported, in which order the two streams may be heard,
//! and that no line, however broken, does harm.

use super::{Aider, trouble};
use crate::played::{PLANS, booked, broken, hear, plans, play, recordings, served, spec};
use crate::{Out, Runtime, Stream};
use contract::event::Body;
use contract::speech::Close;
use contract::{Code, Signal};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::LazyLock;
use testkit::recorded::Recording;

/// Read once: the property looks at them for every case.
static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| recordings("aider"));

/// Two recordings of the plain flags, without the log.
const UNLOGGED: [&str; 2] = ["unlogged", "unlogged_tool"];

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}

/// What comes of two streams heard one after the other.
fn heard(stdout: &str, stderr: &str, stdout_first: bool) -> Out {
    let mut dialect = Aider.dialect(&spec(&Aider));
    let mut streams = [(Stream::Stdout, lines(stdout)), (Stream::Stderr, lines(stderr))];
    if !stdout_first {
        streams.reverse();
    }
    let mut out = Out::default();
    for (stream, lines) in streams {
        let part = hear(&mut *dialect, stream, &lines);
        out.drafts.extend(part.drafts);
        out.signals.extend(part.signals);
    }
    dialect.close(Close::Ended, &mut out);
    out
}

fn endings(out: &Out) -> Vec<(Option<Code>, Option<&str>)> {
    let endings = out.signals.iter().filter_map(|signal| match signal {
        Signal::Result(ending) => Some((ending.code, ending.text.as_deref())),
        _ => None,
    });
    endings.collect()
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(plans(&Aider, PLANS));
}

#[test]
fn a_prompt_is_never_taken_for_a_command() {
    for (prompt, written) in [("/exit", "\n/exit"), ("!ls", "\n!ls"), ("look", "look")] {
        let mut spec = spec(&Aider);
        spec.prompt = prompt.to_owned();
        assert_eq!(Aider.plan(&spec).unwrap().files.first().unwrap().text, written);
    }
}

#[test]
fn the_ledger_equals_the_figures_of_the_agent_and_of_the_model_server() {
    let mut compared = 0;
    for recording in RECORDINGS.iter() {
        let tokens = booked(&play(&Aider, &spec(&Aider), recording));
        let sum = |name: &str| -> u64 {
            let entries = recording.stderr.iter().filter_map(|line| {
                let value: Value = serde_json::from_slice(line).ok()?;
                value["properties"][name].as_u64()
            });
            entries.sum()
        };
        assert_eq!(tokens.input_uncached, sum("prompt_tokens"), "{}", recording.name);
        assert_eq!(tokens.output, sum("completion_tokens"), "{}", recording.name);
        if tokens.total() == 0 {
            continue;
        }
        let server = served(recording);
        let sent = server.input_uncached + server.cache_read + server.cache_write;
        assert_eq!(tokens.input_uncached, sent, "{}", recording.name);
        assert_eq!(tokens.output, server.output, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 8, "recordings with tokens");
}

#[test]
fn rounded_tokens_are_no_tokens() {
    for recording in RECORDINGS.iter().filter(|one| UNLOGGED.contains(&one.name.as_str())) {
        let text = recording.stdout.join(&b'\n');
        assert!(String::from_utf8(text).unwrap().contains("Tokens: 2.3k sent"));
        let out = play(&Aider, &spec(&Aider), recording);
        assert!(!out.drafts.iter().any(|draft| matches!(draft.body, Body::Usage(_))));
    }
}

#[test]
fn only_a_closed_message_and_the_word_of_a_completed_exit_are_a_success() {
    const HEAD: &str = "Repo-map: disabled\n\n";
    const DONE: &str = r#"{"event": "exit", "properties": {"reason": "Completed --message-file"}}"#;
    const GONE: &str = r#"{"event": "exit", "properties": {"reason": "Unknown edit format"}}"#;
    const BROKE: &str = r#"{"event": "message_send_exception", "properties": {"exception": "x"}}"#;
    let ok = "Done.\n\nTokens: 706 sent, 6 received.\n";
    let wrong = "litellm.RateLimitError: slow\nThe API provider says so.\n";
    let retried = format!("{wrong}Retrying in 0.2 seconds...\n{ok}");
    let twice = format!("One.\nTokens: 1 sent, 1 received.\n\na.txt\nApplied edit to a.txt\n{ok}");
    let broken_off = format!("{DONE}\n{BROKE}");
    let rows = [
        (ok, DONE, vec![(None, Some("Done."))]),
        (ok, "", vec![]),
        ("Done.\n", DONE, vec![(Some(Code::EndedWithoutResult), None)]),
        ("", DONE, vec![(Some(Code::EndedWithoutResult), None)]),
        (ok, GONE, vec![(Some(Code::AgentFailed), None)]),
        (wrong, DONE, vec![(Some(Code::RateLimited), None)]),
        (&retried, DONE, vec![(None, Some("Done."))]),
        (&twice, DONE, vec![(None, Some("Done."))]),
        (
            "Half\nModel x has hit a token limit!\n",
            DONE,
            vec![(Some(Code::EndedWithoutResult), None)],
        ),
        ("Model x has hit a token limit!\n", DONE, vec![(Some(Code::ContextOverflow), None)]),
        ("Done.\n", &broken_off, vec![(Some(Code::AgentFailed), None)]),
    ];
    for (stdout, stderr, expected) in rows {
        for stdout_first in [true, false] {
            let out = heard(&format!("{HEAD}{stdout}"), stderr, stdout_first);
            assert_eq!(endings(&out), expected, "{stdout:?} {stderr:?}");
        }
    }
}

#[test]
fn a_changed_file_is_told_and_its_name_is_no_message() {
    let first = "Repo-map: disabled\n\nOne.\nTokens: 1 sent, 1 received.\n\n";
    let rows = [
        ("a.txt\nApplied edit to a.txt\n", vec!["One.\n"], 1),
        (
            "a.txt\n\nTwo.\nTokens: 1 sent, 1 received.\n",
            vec!["One.\n", "a.txt\n", "\n", "Two.\n"],
            0,
        ),
        ("Yes.\nTokens: 1 sent, 1 received.\n", vec!["One.\n", "Yes.\n"], 0),
        ("b.txt\nApplied edit to a.txt\n", vec!["One.\n", "b.txt\n"], 1),
    ];
    for (rest, expected, changes) in rows {
        let out = heard(&format!("{first}{rest}"), "", true);
        let said = out.drafts.iter().filter_map(|draft| match &draft.body {
            Body::AssistantText(text) => Some(text.text.as_str()),
            _ => None,
        });
        assert_eq!(said.collect::<Vec<_>>(), expected, "{rest:?}");
        let diffs = out.drafts.iter().filter(|draft| matches!(draft.body, Body::Diff(_)));
        assert_eq!(diffs.count(), changes, "{rest:?}");
    }
}

#[test]
fn a_missing_key_ends_the_run_before_a_browser_would_be_waited_for() {
    let out = heard("No LLM model was specified and no API keys were provided.\n", "", true);
    let terminal = out.signals.iter().any(|signal| match signal {
        Signal::Limited(limited) => limited.terminal && limited.code == Code::AuthRequired,
        _ => false,
    });
    assert!(terminal);
}

#[test]
fn a_quota_that_is_used_up_is_not_waited_for_by_trying_again() {
    let words = "litellm.RateLimitError: RateLimitError: OpenAIException - ";
    for (said, expected) in [
        ("Rate limit reached for m", (Code::RateLimited, false)),
        ("You exceeded your current quota, please check your plan", (Code::ProviderQuota, true)),
    ] {
        let text = format!("Repo-map: off\n{words}{said}\nRetrying in 0.2 seconds...\n");
        let out = heard(&text, "", true);
        let limits = out.signals.iter().filter_map(|signal| match signal {
            Signal::Limited(limited) => Some((limited.code, limited.terminal)),
            _ => None,
        });
        assert_eq!(limits.collect::<Vec<_>>(), [expected], "{said}");
    }
}

#[test]
fn a_wait_is_read_where_it_is_told() {
    assert_eq!(trouble::wait_ms("Retrying in 0.2 seconds..."), Some(200));
    assert_eq!(trouble::wait_ms("Retrying in 1e99 seconds..."), None);
    assert_eq!(trouble::wait_ms("Retrying in NaN seconds..."), None);
    assert_eq!(trouble::wait_ms("Retrying"), None);
}

proptest! {
    #[test]
    fn a_broken_line_does_no_harm_and_is_no_success(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        junk in proptest::collection::vec(any::<u8>(), 0..8),
        aside in any::<bool>(),
    ) {
        let lines = RECORDINGS.iter().flat_map(|one| one.stdout.iter().chain(&one.stderr));
        let all: Vec<_> = lines.collect();
        let line = pick.get(&all);
        let stream = if aside { Stream::Stderr } else { Stream::Stdout };
        let (_, endings) = broken(&Aider, line, at.index(line.len() + 1), junk, stream);
        prop_assert!(endings.is_empty());
    }
}
