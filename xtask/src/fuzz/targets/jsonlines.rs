//! The process protocol: no line is lost, nothing is said that is not one line, and hearing all of
//! it equals saving and loading between any two lines. Saved state that was damaged is refused or
//! read, and then goes on.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;
use contract::speech::{Close, ToolAnswer};
use contract::{Signal, Utterance};
use runtimes::jsonlines::{fresh, restore};
use runtimes::{Dialect, Frame, Out, Stream};

pub const TARGET: Target = Target {
    name: "jsonlines",
    everyday: None,
    seeds: || {
        let mut seeds = super::recordings();
        seeds.push(fresh().save());
        seeds
    },
    words: &[
        b"\n",
        b"{\"type\":\"hello\",\"accepts\":[\"message\",\"interrupt\"]}\n",
        b"{\"type\":\"progress\",\"summary\":\"s\"}\n",
        b"{\"type\":\"tool_call\",\"id\":1,\"name\":\"task.get\",\"args\":{}}\n",
        b"{\"type\":\"tool_call\",\"id\":\"1\",\"name\":\"x\"}\n",
        b"{\"type\":\"comment\",\"text\":\"c\"}\n",
        b"{\"type\":\"complete\",\"result\":\"r\",\"costUsd\":0.01}\n",
        b"{\"type\":\"failed\",\"error\":\"e\"}\n",
        b"{\"type\":\"event\",\"event\":{\"kind\":\"assistant_text\",\"text\":\"t\",\"delta\":true}}\n",
        b"\"type\":",
        b"\"usage\":{\"input_tokens\":1,\"output_tokens\":2}",
        b"\"costUsd\":",
        b"\"kind\":\"tool_use\"",
        b"\"kind\":\"turn\",\"phase\":\"started\"",
    ],
    make,
};

fn make() -> Try {
    Box::new(|input, chance| {
        let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        let cut = chance.one_in(16);
        let mut answers = chance.clone();
        let through = hear(fresh(), &lines, cut, &mut answers, Ok)?;
        let mut places = chance.clone();
        places.number();
        let mut answers = chance.clone();
        let stopped = hear(fresh(), &lines, cut, &mut answers, |dialect| {
            if !places.one_in(3) {
                return Ok(dialect);
            }
            restore(&dialect.save()).map_err(|fault| format!("its own state is refused: {fault}"))
        })?;
        holds(through == stopped, || "saved and loaded, it hears something else".to_owned())?;
        well_said(&through)?;
        if let Ok(damaged) = restore(lines.first().copied().unwrap_or_default()) {
            hear(damaged, &lines[1..], cut, chance, Ok)?;
        }
        Ok(())
    })
}

/// Hears the lines one by one and answers some of the calls.
fn hear(
    mut dialect: Box<dyn Dialect>,
    lines: &[&[u8]],
    cut: bool,
    answers: &mut Chance,
    mut between: impl FnMut(Box<dyn Dialect>) -> Result<Box<dyn Dialect>, String>,
) -> Result<Out, String> {
    let mut all = Out::default();
    for (line, bytes) in (1..).zip(lines) {
        let stream = if answers.one_in(8) { Stream::Stderr } else { Stream::Stdout };
        let mut out = Out::default();
        dialect.hear(&Frame { stream, line, bytes, cut }, &mut out);
        let text = String::from_utf8_lossy(bytes);
        let blank = text.trim_start_matches('\u{feff}').trim_ascii().is_empty();
        let kept = !out.drafts.is_empty() || !out.signals.is_empty();
        holds(kept || blank, || format!("a line is lost: {text}"))?;
        for signal in out.signals.clone() {
            if let (Signal::ToolCalled(call), true) = (signal, answers.one_in(2)) {
                let answer = ToolAnswer::Value(serde_json::json!({ "text": text }));
                let tool_call_id = call.tool_call_id.clone();
                dialect.say(&Utterance::ToolResult { tool_call_id, answer }, &mut out);
            }
        }
        dialect.say(&Utterance::Message { text: text.into_owned() }, &mut out);
        all.drafts.append(&mut out.drafts);
        all.signals.append(&mut out.signals);
        all.frames.append(&mut out.frames);
        dialect = between(dialect)?;
    }
    dialect.close(Close::Ended, &mut all);
    Ok(all)
}

/// What came of it can be written, and what is said is one line of JSON each.
fn well_said(out: &Out) -> Result<(), String> {
    for draft in &out.drafts {
        serde_json::to_vec(&draft.body).map_err(|error| format!("cannot be written: {error}"))?;
    }
    for frame in &out.frames {
        let inside = frame.strip_suffix(b"\n").unwrap_or_default();
        let json = serde_json::from_slice::<serde::de::IgnoredAny>(inside).is_ok();
        let one = memchr::memchr2(b'\n', b'\r', inside).is_none();
        holds(json && one, || format!("not one line: {}", String::from_utf8_lossy(frame)))?;
    }
    Ok(())
}
