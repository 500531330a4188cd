//! The protocol by recordings. Each has a `why` written before its snapshot: the outcome it must
//! come to and the reason. One harness decodes them all; the properties hold for every recording
//! and for bytes nobody would write.

use super::state::State;
use super::wire::Line;
use super::{fresh, restore};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::Remaining;
use contract::speech::{Close, ToolAnswer};
use contract::{Code, Draft, NanoUsd, Signal, Utterance, limits};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A recording: its name, what the agent wrote to stdout, and the outcome it must come to.
type Recording = (&'static str, &'static [u8], &'static str);

macro_rules! recordings {
    ($($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_bytes!(concat!("recordings/", $name, ".jsonl")),
            include_str!(concat!("recordings/", $name, ".why")),
        )),+]
    };
}

const RECORDINGS: &[Recording] = recordings![
    "costs", "cut", "failed", "garbage", "happy", "minimum", "printed", "tools", "unicode",
];

/// Cuts bytes into lines as they come; a last line without a newline is a line when all is over.
#[derive(Default)]
struct Splitter {
    held: Vec<u8>,
    lines: Vec<Vec<u8>>,
}

impl Splitter {
    fn take(&mut self, chunk: &[u8]) {
        for byte in chunk {
            match byte {
                b'\n' => self.lines.push(std::mem::take(&mut self.held)),
                other => self.held.push(*other),
            }
        }
    }

    fn end(mut self) -> Vec<Vec<u8>> {
        if !self.held.is_empty() {
            self.lines.push(self.held);
        }
        self.lines
    }
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut splitter = Splitter::default();
    splitter.take(bytes);
    splitter.end()
}

fn frame(bytes: &[u8], line: usize) -> Frame<'_> {
    Frame { stream: Stream::Stdout, line: line as u64 + 1, bytes, cut: false }
}

fn hear(lines: &[Vec<u8>]) -> Out {
    let (mut dialect, mut out) = (fresh(), Out::default());
    for (index, line) in lines.iter().enumerate() {
        dialect.hear(&frame(line, index), &mut out);
    }
    out
}

fn heard(line: &str) -> Out {
    hear(&[line.as_bytes().to_vec()])
}

/// The first words of a `why`: what a run that heard this and then exited would come to.
fn outcome(out: &Out) -> String {
    let ends = out.signals.iter().find_map(|signal| match signal {
        Signal::Ended(ending) => Some(ending.code),
        _ => None,
    });
    match ends {
        Some(None) => "succeeded".to_owned(),
        Some(Some(code)) => format!("failed {code}"),
        None => "failed ended_without_result".to_owned(),
    }
}

fn row(draft: &Draft) -> String {
    let line = draft.raw.map_or_else(|| "-".to_owned(), |raw| raw.line.to_string());
    format!("{line} {} {}", draft.origin.word(), serde_json::to_string(&draft.body).unwrap())
}

fn shown(out: &Out) -> String {
    let drafts = out.drafts.iter().map(row);
    let signals =
        out.signals.iter().map(|signal| format!("! {}", serde_json::to_string(signal).unwrap()));
    let frames = out.frames.iter().map(|frame| format!("> {}", String::from_utf8_lossy(frame)));
    let rows: Vec<_> = drafts.chain(signals).chain(frames).collect();
    rows.join("\n").trim_end().to_owned()
}

#[test]
fn every_recording_comes_to_the_outcome_its_why_states() {
    for (name, bytes, why) in RECORDINGS {
        let (wanted, reason) = why.split_once(": ").expect("an outcome and a reason");
        assert!(!reason.trim().is_empty(), "{name} has no reason");
        assert_eq!(outcome(&hear(&lines(bytes))), wanted, "{name}");
    }
}

#[test]
fn every_recording_decodes_to_its_snapshot() {
    for (name, bytes, why) in RECORDINGS {
        let mut dialect = fresh();
        let mut out = Out::default();
        for (index, line) in lines(bytes).iter().enumerate() {
            dialect.hear(&frame(line, index), &mut out);
        }
        dialect.close(Close::Ended, &mut out);
        insta::with_settings!({ description => why.trim(), omit_expression => true }, {
            insta::assert_snapshot!(*name, shown(&out));
        });
    }
}

/// The utterance of each row, and what the agent reads after it.
fn said(dialect: &mut dyn Dialect, utterance: Utterance) -> String {
    let mut out = Out::default();
    dialect.say(&utterance, &mut out);
    shown(&out)
}

fn result(id: &str, answer: ToolAnswer) -> Utterance {
    Utterance::ToolResult { tool_call_id: id.to_owned(), answer }
}

#[test]
fn what_is_said_reads_as_the_protocol_prints_it() {
    let mut dialect = fresh();
    let mut out = Out::default();
    for (index, id) in [r#""call_1""#, r#""call_2""#, "3"].iter().enumerate() {
        let line = format!(r#"{{"type":"tool_call","id":{id},"tool":"t"}}"#);
        dialect.hear(&frame(line.as_bytes(), index), &mut out);
    }
    let unknown = ToolAnswer::Error { code: Code::UnknownTool, message: "no tool 't'".into() };
    let remaining = Remaining {
        nanousd: Some(NanoUsd(1_100_000_000)),
        tokens: Some(180_000),
        ..Remaining::default()
    };
    let utterances = [
        result("call_1", ToolAnswer::Value(json!("..."))),
        result("call_1", ToolAnswer::Value(json!("a second time"))),
        result("call_2", unknown),
        result("3", ToolAnswer::Value(Value::Null)),
        Utterance::BudgetUpdate { remaining },
        Utterance::BudgetUpdate { remaining: Remaining { turns: Some(1), ..Remaining::default() } },
        Utterance::Message { text: "go on".into() },
        Utterance::Interrupt,
        Utterance::Shutdown { reason: Code::LeaseExpired },
    ];
    let said: Vec<_> = utterances.into_iter().map(|one| said(dialect.as_mut(), one)).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    > {"type":"tool_result","id":"call_1","ok":true,"value":"..."}
    - ostler {"kind":"log","stream":"ostler","text":"the call 'call_1' is not open, so its answer was not said","level":"warning"}
    > {"type":"tool_result","id":"call_2","ok":false,"error":"unknown_tool: no tool 't'"}
    > {"type":"tool_result","id":3,"ok":true,"value":null}
    > {"type":"budget_update","remaining":{"tokens":180000,"usd":1.1}}
    > {"type":"budget_update","remaining":{"turns":1}}
    - ostler {"kind":"log","stream":"ostler","text":"not_supported: the agent said no hello that accepts a message, so it was not said","level":"warning"}
    - ostler {"kind":"log","stream":"ostler","text":"not_supported: the agent said no hello that accepts an interrupt, so it was not said","level":"warning"}
    > {"type":"shutdown","reason":"lease_expired"}
    "#);
}

#[test]
fn messages_and_interrupts_are_said_after_a_hello_that_accepts_them() {
    let mut dialect = fresh();
    let mut out = Out::default();
    dialect.hear(&frame(br#"{"type":"hello","accepts":["message"]}"#, 0), &mut out);
    let message = said(dialect.as_mut(), Utterance::Message { text: "line\nline".into() });
    assert_eq!(message, r#"> {"type":"message","text":"line\nline"}"#);
    assert!(said(dialect.as_mut(), Utterance::Interrupt).contains("not_supported"));

    dialect.hear(&frame(br#"{"type":"hello","accepts":["interrupt"]}"#, 1), &mut out);
    let interrupt = said(dialect.as_mut(), Utterance::Interrupt);
    assert_eq!(interrupt, r#"> {"type":"interrupt"}"#);
    assert!(
        said(dialect.as_mut(), Utterance::Message { text: "x".into() }).contains("not_supported")
    );
}

#[test]
fn the_farewell_is_a_shutdown_line() {
    let farewell = fresh().farewell(Code::TimeoutWall).expect("this protocol has a goodbye");
    assert_eq!(farewell, b"{\"type\":\"shutdown\",\"reason\":\"timeout_wall\"}\n");
}

#[test]
fn an_id_that_was_answered_is_not_called_again() {
    let call = br#"{"type":"tool_call","id":"a","tool":"t"}"#;
    let (mut dialect, mut out) = (fresh(), Out::default());
    dialect.hear(&frame(call, 0), &mut out);
    dialect.say(&result("a", ToolAnswer::Value(json!(1))), &mut out);
    dialect.hear(&frame(call, 1), &mut out);
    let calls = out.signals.iter().filter(|signal| matches!(signal, Signal::ToolCalled(_)));
    assert_eq!((calls.count(), out.frames.len()), (1, 1));
}

#[test]
fn more_open_calls_than_allowed_are_refused_at_once() {
    let call = |n: usize| format!(r#"{{"type":"tool_call","id":"c{n}","tool":"t"}}"#).into_bytes();
    let calls: Vec<_> = (0..=limits::TOOL_CALLS_OPEN_MAX).map(call).collect();
    let out = hear(&calls);
    assert_eq!(out.signals.len(), limits::TOOL_CALLS_OPEN_MAX);
    let [refusal] = &out.frames[..] else { panic!("one refusal, not {:?}", out.frames) };
    let refusal: Value = serde_json::from_slice(refusal).unwrap();
    assert_eq!((&refusal["id"], &refusal["ok"]), (&json!("c64"), &json!(false)));
}

#[test]
fn the_answer_is_in_the_output_or_else_the_last_text() {
    let ending = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        hear(&lines).signals.into_iter().find_map(|signal| match signal {
            Signal::Ended(ending) => ending.text,
            _ => None,
        })
    };
    let delta = |text: &str| {
        format!(
            r#"{{"type":"event","event":{{"kind":"assistant_text","text":"{text}","delta":true}}}}"#
        )
    };
    let whole = r#"{"type":"event","event":{"kind":"assistant_text","text":"whole"}}"#;
    let think = r#"{"type":"event","event":{"kind":"thinking","text":"hm"}}"#;
    let end = r#"{"type":"complete"}"#;
    let (one, two) = (delta("one "), delta("two"));
    assert_eq!(ending(&[&one, &two, end]).as_deref(), Some("one two"));
    assert_eq!(ending(&[&one, think, &two, end]).as_deref(), Some("two"));
    assert_eq!(ending(&[&one, whole, end]).as_deref(), Some("whole"));
    assert_eq!(
        ending(&[whole, r#"{"type":"complete","output":{"summary":"s","answer":1}}"#]).as_deref(),
        Some("s")
    );
    assert_eq!(
        ending(&[whole, r#"{"type":"complete","output":{"text":5}}"#]).as_deref(),
        Some("whole")
    );
    assert_eq!(ending(&[end]), None);
}

#[test]
fn stderr_is_kept_and_never_understood() {
    let (mut dialect, mut out) = (fresh(), Out::default());
    let bytes = br#"{"type":"complete","output":{}}"#;
    dialect.hear(&Frame { stream: Stream::Stderr, line: 4, bytes, cut: false }, &mut out);
    dialect.hear(&Frame { stream: Stream::Stderr, line: 5, bytes: b" \t", cut: false }, &mut out);
    insta::assert_snapshot!(shown(&out), @r#"4 agent {"kind":"log","stream":"stderr","text":"{\"type\":\"complete\",\"output\":{}}"}"#);
}

#[test]
fn a_line_longer_than_allowed_is_kept_by_its_head_even_if_that_reads_as_an_end() {
    let (mut dialect, mut out) = (fresh(), Out::default());
    let bytes = br#"{"type":"complete","output":{}}"#;
    dialect.hear(&Frame { stream: Stream::Stdout, line: 1, bytes, cut: true }, &mut out);
    assert_eq!((out.signals.len(), out.drafts.len()), (0, 1));
}

#[test]
fn a_program_that_does_not_speak_the_protocol_is_told_at_the_end() {
    let (mut dialect, mut out) = (fresh(), Out::default());
    dialect.hear(&frame(b"total 12", 0), &mut out);
    dialect.hear(&frame(b"drwxr-xr-x", 1), &mut out);
    out.drafts.clear();
    dialect.close(Close::Ended, &mut out);
    insta::assert_snapshot!(shown(&out), @r#"- ostler {"kind":"log","stream":"ostler","text":"most of its output was not understood: does this program speak JSON lines?","level":"warning"}"#);
}

#[test]
fn what_is_remembered_stays_small_however_long_the_agent_talks() {
    let (mut dialect, mut out) = (fresh(), Out::default());
    let text = "é".repeat(50_000);
    for n in 0..400 {
        let call = format!(r#"{{"type":"tool_call","id":"call_{n}","tool":"t"}}"#);
        dialect.hear(&frame(call.as_bytes(), n), &mut out);
        dialect.say(&result(&format!("call_{n}"), ToolAnswer::Value(Value::Null)), &mut out);
        let delta = format!(
            r#"{{"type":"event","event":{{"kind":"assistant_text","text":"{text}","block":"b","delta":true}}}}"#
        );
        dialect.hear(&frame(delta.as_bytes(), n), &mut out);
    }
    let size = dialect.save().len();
    assert!(size < limits::TEXT_BYTES_MAX + 8 * 1024, "{size}");
    assert!(restore(&dialect.save()).is_ok());
}

#[test]
fn state_of_another_version_is_refused_honestly() {
    let mut state: Value = serde_json::from_slice(&State::default().save()).unwrap();
    state["version"] = json!(99);
    let refused = |saved: &[u8]| restore(saved).err().map(|fault| fault.to_string());
    assert_eq!(
        refused(state.to_string().as_bytes()).unwrap(),
        "process_lost: the saved conversation has version 99, and only 1 is known here"
    );
    let broken = refused(b"{").unwrap();
    assert!(
        broken.starts_with("process_lost: reading the saved conversation failed: "),
        "{broken}"
    );
    state["version"] = json!(1);
    assert_eq!(refused(state.to_string().as_bytes()), None);
}

#[test]
fn the_order_of_keys_changes_nothing() {
    for (name, bytes, _) in RECORDINGS {
        for line in lines(bytes) {
            // Objects that were gathered come back with their keys sorted, so `type` is late.
            let Ok(value) = serde_json::from_slice::<Value>(&line) else { continue };
            let sorted = value.to_string();
            assert_eq!(strip(&heard(&sorted)), strip(&hear(&[line])), "{name}: {sorted}");
        }
    }
}

/// What was understood, without the words of a line that was only kept.
fn strip(out: &Out) -> String {
    let mut out = out.clone();
    out.drafts.retain(|draft| draft.body.kind() != "log");
    shown(&out)
}

fn recording() -> impl Strategy<Value = Recording> {
    proptest::sample::select(RECORDINGS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_split_of_the_bytes_gives_the_same_drafts(
        (_, bytes, _) in recording(),
        mut cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
    ) {
        let mut splitter = Splitter::default();
        let mut places: Vec<_> = cuts.drain(..).map(|cut| cut.index(bytes.len())).collect();
        places.sort_unstable();
        let mut from = 0;
        for place in places.into_iter().chain([bytes.len()]) {
            splitter.take(&bytes[from..place]);
            from = place;
        }
        prop_assert_eq!(hear(&splitter.end()), hear(&lines(bytes)));
    }

    #[test]
    fn a_cut_before_the_end_of_the_closing_line_is_never_a_success(
        (_, bytes, _) in recording(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let closing = lines(bytes).iter().position(|line| {
            let text = String::from_utf8_lossy(line);
            matches!(Line::read(&text), Ok(Line::Complete(_) | Line::Failed(_)))
        });
        // Up to the last byte of the closing line, or of everything when there is none.
        let through = closing.map_or(usize::MAX, |index| index + 1);
        let end: usize = lines(bytes).iter().take(through).map(|line| line.len() + 1).sum();
        let out = hear(&lines(&bytes[..cut.index((end - 1).min(bytes.len()))]));
        prop_assert_eq!(outcome(&out), "failed ended_without_result");
    }

    #[test]
    fn saving_and_going_on_at_any_line_equals_hearing_everything(
        (_, bytes, _) in recording(),
        stops in proptest::collection::vec(any::<bool>(), 0..40),
    ) {
        let lines = lines(bytes);
        let (mut dialect, mut out) = (fresh(), Out::default());
        for (index, line) in lines.iter().enumerate() {
            if stops.get(index).copied().unwrap_or(true) {
                dialect = restore(&dialect.save()).expect("its own state");
            }
            dialect.hear(&frame(line, index), &mut out);
        }
        prop_assert_eq!(out, hear(&lines));
    }

    #[test]
    fn any_bytes_are_heard_and_none_are_lost(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let out = hear(std::slice::from_ref(&line));
        let text = String::from_utf8_lossy(&line);
        let blank = text.trim_start_matches('\u{feff}').trim_ascii().is_empty();
        prop_assert_eq!(out.drafts.len(), usize::from(!blank));
    }

    #[test]
    fn near_misses_of_the_protocol_are_heard_without_a_panic(
        (_, bytes, _) in recording(),
        place in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = bytes.to_vec();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let out = hear(&lines(&bytes));
        let ends = out.signals.iter().filter(|signal| matches!(signal, Signal::Ended(_)));
        prop_assert!(ends.count() <= 1);
    }
}

#[test]
fn saved_counts_at_their_very_end_are_counted_on_from_without_a_panic() {
    let mut state: Value = serde_json::from_slice(&fresh().save()).unwrap();
    for name in ["lines", "unrecognised"] {
        state[name] = json!(u64::MAX);
    }
    state["turns"] = json!(u32::MAX);
    let mut dialect = restore(state.to_string().as_bytes()).unwrap();
    let mut out = Out::default();
    let turn = br#"{"type":"event","event":{"kind":"turn","phase":"started"}}"#;
    for (line, bytes) in [&b"no JSON"[..], turn, b"{}"].into_iter().enumerate() {
        dialect.hear(&frame(bytes, line), &mut out);
    }
    dialect.close(Close::Ended, &mut out);
    let last = row(out.drafts.last().unwrap());
    assert!(last.contains("was not understood"), "{last}");
}

#[test]
fn conversation_can_be_resumed_when_hello_says_so() {
    let hello = r#"{"type":"hello","accepts":["resume"]}"#;
    let names =
        r#"{"type":"event","event":{"kind":"session","native_session":"c-1","resumed":false}}"#;
    let nothing = r#"{"type":"event","event":{"kind":"session","resumed":false}}"#;
    let long = names.replace("c-1", &"c".repeat(2_000));
    let unknown = r#"{"type":"failed","reason":"native_session_unknown"}"#;
    let signals = |dialect: &mut dyn Dialect, lines: &[&str]| {
        let mut out = Out::default();
        for (index, line) in lines.iter().enumerate() {
            dialect.hear(&frame(line.as_bytes(), index), &mut out);
        }
        let named = out.signals.iter().filter_map(|signal| match signal {
            Signal::Session { id } => Some(id.clone()),
            Signal::SessionUnknown => Some("unknown".to_owned()),
            _ => None,
        });
        named.collect::<Vec<_>>()
    };
    for (resumes, lines, expected) in [
        (false, vec![hello, names], vec!["c-1"]),
        (false, vec![names, hello], vec!["c-1"]),
        (false, vec![names], vec![]),
        (false, vec![hello, nothing], vec![]),
        (false, vec![hello, &long], vec![]),
        (true, vec![hello, unknown], vec!["unknown"]),
        // Without a conversation to resume it is a failure like any other.
        (false, vec![hello, unknown], vec![]),
    ] {
        let mut dialect = super::opened(resumes);
        assert_eq!(signals(&mut *dialect, &lines), expected, "{resumes} {lines:?}");
    }
    // What was heard before a host died counts after it.
    let mut dialect = super::opened(true);
    assert_eq!(signals(&mut *dialect, &[names]), [""; 0]);
    let mut dialect = restore(&dialect.save()).unwrap();
    assert_eq!(signals(&mut *dialect, &[hello, unknown]), ["c-1", "unknown"]);
}
