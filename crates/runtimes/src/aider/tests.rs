//! What the recordings do not show by themselves: the plans, the tokens against the agent's own
//! figures and against what the model server reported, in which order the two streams may be heard,
//! and that no line, however broken, does harm.

use super::{Aider, trouble};
use crate::trial::{self, ROWS, Style, booked, fresh, hear, played, recordings, spec_with};
use crate::{Out, Runtime, Stream};
use contract::event::Body;
use contract::speech::Close;
use contract::{Code, Signal};
use serde_json::Value;

const ID: &str = "aider";

/// Two recordings of the plain flags, without the log.
const UNLOGGED: [&str; 2] = ["unlogged", "unlogged_tool"];

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}

/// What comes of two streams heard one after the other.
fn heard(stdout: &str, stderr: &str, stdout_first: bool) -> Out {
    let mut dialect = fresh(&Aider);
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
    insta::assert_snapshot!(trial::plans(&Aider, &ROWS, Style::Quoted));
}

#[test]
fn a_prompt_is_never_taken_for_a_command() {
    for (prompt, written) in [("/exit", "\n/exit"), ("!ls", "\n!ls"), ("look", "look")] {
        let spec = spec_with(ID, |spec| spec.prompt = prompt.to_owned());
        assert_eq!(Aider.plan(&spec).unwrap().files.first().unwrap().text, written);
    }
}

#[test]
fn the_ledger_equals_the_figures_of_the_agent_and_of_the_model_server() {
    let all = recordings(ID);
    let mut compared = 0;
    for recording in &all {
        let tokens = booked(&played(&Aider, recording));
        let sum = |name: &str| -> u64 {
            let entries = recording.stderr.iter().filter_map(|line| {
                let value: Value = serde_json::from_slice(line).ok()?;
                value["properties"][name].as_u64()
            });
            entries.sum()
        };
        assert_eq!(tokens.uncached, sum("prompt_tokens"), "{}", recording.name);
        assert_eq!(tokens.output, sum("completion_tokens"), "{}", recording.name);
        if tokens.total() == 0 {
            continue;
        }
        // It does not tell what was cached from what was not.
        let served = trial::served(recording, &all);
        let sent = served.uncached + served.cached;
        assert_eq!((tokens.uncached, tokens.cached), (sent, 0), "{}", recording.name);
        assert_eq!(tokens.output, served.output, "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 8, "recordings with tokens");
}

#[test]
fn rounded_tokens_are_no_tokens() {
    for name in UNLOGGED {
        let recording = trial::recording(ID, name);
        let text = recording.stdout.join(&b'\n');
        assert!(String::from_utf8(text).unwrap().contains("Tokens: 2.3k sent"));
        let out = played(&Aider, &recording);
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
        ("Half\nModel x has hit a token limit!\n", DONE, vec![(Some(Code::AnswerCut), None)]),
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
        let said: Vec<_> = trial::texts(&out).into_iter().map(|(_, text)| text).collect();
        assert_eq!(said, expected, "{rest:?}");
        assert_eq!(trial::diffs(&out).len(), changes, "{rest:?}");
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

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Aider);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&Aider, trial::never_a_success);
}
