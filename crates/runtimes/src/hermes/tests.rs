//! What the recordings do not show by themselves: the plans, the tokens against the agent's own
//! figures and against what the model server reported, in which order the two streams may be heard,
//! and that no line, however broken, does harm.

use super::Hermes;
use crate::trial::{self, ROWS, Style, booked, fresh, hear, played, recordings, spec_with};
use crate::{Out, Runtime, Stream};
use contract::event::Body;
use contract::speech::Close;
use contract::{Code, NanoUsd, Signal};
use serde_json::{Value, json};
use testkit::recorded::Recording;

const ID: &str = "hermes";

/// The report of a recording, if it has one.
fn report(recording: &Recording) -> Option<Value> {
    let text = String::from_utf8(recording.stderr.join(&b'\n')).unwrap();
    let end = text.rfind('}')?;
    serde_json::from_str(&text[text.find('{')?..=end]).ok()
}

fn printed(report: &Value) -> Vec<Vec<u8>> {
    let text = serde_json::to_string_pretty(report).unwrap();
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}

/// How a run ends whose streams are heard one after the other.
fn ended(streams: &[(Stream, Vec<Vec<u8>>)], how: Close) -> (Vec<Option<Code>>, usize) {
    let mut dialect = fresh(&Hermes);
    let (mut codes, mut logs) = (Vec::new(), 0);
    let mut count = |out: &Out| {
        logs += trial::logs(out).len();
        codes.extend(trial::results(out));
    };
    for (stream, lines) in streams {
        count(&hear(&mut *dialect, *stream, lines));
    }
    let mut out = Out::default();
    dialect.close(how, &mut out);
    count(&out);
    (codes, logs)
}

#[test]
fn every_plan_reads_as_it_was_reviewed() {
    insta::assert_snapshot!(trial::plans(&Hermes, &ROWS, Style::Plain));
}

#[test]
fn a_prompt_without_room_is_refused_and_one_like_a_flag_stays_a_prompt() {
    let mut spec = spec_with(ID, |spec| spec.prompt = "--yolo".to_owned());
    let plan = Hermes.plan(&spec).unwrap();
    assert_eq!(plan.args.last().map(String::as_str), Some("--oneshot=--yolo"));
    spec.prompt = "long ".repeat(40_000);
    assert_eq!(Hermes.plan(&spec).unwrap_err().code, Code::PromptTooLarge);
}

#[test]
fn the_ledger_equals_the_figures_of_the_agent_and_of_the_model_server() {
    let all = recordings(ID);
    let mut compared = 0;
    for recording in &all {
        let sum = booked(&played(&Hermes, recording));
        let told = report(recording).unwrap_or_default();
        let figure = |name: &str| told[name].as_u64().unwrap_or(0);
        let fresh = figure("input_tokens") + figure("cache_write_tokens");
        assert_eq!(sum.uncached, fresh, "{}", recording.name);
        assert_eq!(sum.cached, figure("cache_read_tokens"), "{}", recording.name);
        assert_eq!(sum.output, figure("output_tokens"), "{}", recording.name);
        assert_eq!(sum.total(), figure("total_tokens"), "{}", recording.name);
        if sum.total() == 0 {
            continue;
        }
        let served = trial::served(recording, &all);
        assert_eq!(sum.total(), served.total(), "{}", recording.name);
        assert_eq!((sum.cached, sum.output), (served.cached, served.output), "{}", recording.name);
        compared += 1;
    }
    assert_eq!(compared, 8, "recordings with tokens");
}

#[test]
fn dollars_are_told_only_when_there_is_a_price() {
    let rows = [
        (json!("unknown"), json!(0.0), None),
        (json!(null), json!(0.5), None),
        (json!("estimated"), json!(0.25), Some(NanoUsd(250_000_000))),
        (json!("included"), json!(0.0), Some(NanoUsd(0))),
    ];
    for (status, cost, expected) in rows {
        let report = json!({"failed": false, "input_tokens": 1, "output_tokens": 2,
            "cost_status": status, "estimated_cost_usd": cost});
        let out = hear(&mut *fresh(&Hermes), Stream::Stderr, &printed(&report));
        let told = out.signals.iter().find_map(|signal| match signal {
            Signal::Spent(usage) => Some((usage.reported_nanousd, usage.effective_nanousd)),
            _ => None,
        });
        assert_eq!(told, Some((expected, None)), "{status} {cost}");
    }
}

#[test]
fn only_a_report_of_completion_beside_an_answer_is_a_success() {
    let answer = vec![b"Done.".to_vec()];
    let done = json!({"completed": true, "failed": false});
    let failed = json!({"completed": false, "failed": true});
    let undecided = json!({"failed": false});
    let rows = [
        (answer.clone(), Some(&done), vec![None]),
        (answer.clone(), None, vec![]),
        (vec![], Some(&done), vec![Some(Code::EndedWithoutResult)]),
        (vec![b"  ".to_vec()], Some(&done), vec![Some(Code::EndedWithoutResult)]),
        (answer.clone(), Some(&failed), vec![Some(Code::AgentFailed)]),
        (vec![b"HTTP 429: slow down".to_vec()], Some(&failed), vec![Some(Code::RateLimited)]),
        (answer.clone(), Some(&undecided), vec![Some(Code::EndedWithoutResult)]),
    ];
    for (answer, report, expected) in rows {
        let stdout = (Stream::Stdout, answer);
        let stderr = (Stream::Stderr, report.map(printed).unwrap_or_default());
        for order in [[stdout.clone(), stderr.clone()], [stderr, stdout]] {
            assert_eq!(ended(&order, Close::Ended).0, expected, "{order:?}");
            assert_eq!(ended(&order, Close::Cut).0, [], "{order:?}");
        }
    }
}

#[test]
fn what_stands_around_a_report_is_kept_and_no_other_json_is_one() {
    let done = printed(&json!({"completed": true, "failed": false}));
    let around = [vec![b"a warning".to_vec()], done.clone(), vec![b"}".to_vec()]].concat();
    let other = printed(&json!({"completed": true}));
    let unfinished = vec![b"{".to_vec(), b"\"failed\": false,".to_vec()];
    let endless = [vec![b"{".to_vec()], vec![vec![b'x'; 1024]; 40]].concat();
    let rows = [
        (around, 1, 2),
        (other.clone(), 0, other.len()),
        (unfinished, 0, 2),
        (endless.clone(), 0, endless.len()),
        ([done.clone(), done].concat(), 1, 1),
    ];
    for (stderr, results, logs) in rows {
        let answer = (Stream::Stdout, vec![b"Done.".to_vec()]);
        let (codes, kept) = ended(&[answer, (Stream::Stderr, stderr.clone())], Close::Ended);
        assert_eq!((codes.len(), kept), (results, logs), "{}", stderr.len());
    }
}

#[test]
fn a_conversation_that_cannot_be_taken_up_again_is_shown_and_not_kept() {
    let out = played(&Hermes, &trial::recording(ID, "hello"));
    assert!(!Hermes.card().can.resume);
    assert!(!out.signals.iter().any(|signal| matches!(signal, Signal::Session { .. })));
    let shown = out.drafts.iter().any(|draft| match &draft.body {
        Body::Session(session) => session.native_session.is_some(),
        _ => false,
    });
    assert!(shown);
}

#[test]
fn last_words_mean_something_only_with_an_exit_that_is_not_0() {
    let words = "hermes -z: agent failed: No inference provider configured. Run 'hermes model'";
    let rows = [(Some(1), words, Some(Code::AuthRequired)), (Some(0), words, None)];
    trial::assert_exits_mean(&Hermes, &rows);
}

#[test]
fn what_cannot_be_said_is_told_and_saved_state_of_another_version_is_refused() {
    trial::assert_it_takes_nothing_and_knows_its_state(&Hermes);
}

#[test]
fn a_broken_line_does_no_harm_and_is_no_success() {
    trial::assert_broken_lines_do_no_harm(&Hermes, trial::never_a_success);
}
