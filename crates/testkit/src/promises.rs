//! What must hold of a run whatever was killed meanwhile, as one checker over what was promised and
//! what is there: events as they are stored, lines of the trace, and everything that someone was
//! told before. Pure over its inputs, so that torture and end-to-end tests ask the same questions;
//! the store's own rules are in its `check`, and those of a task in `promises/task.rs`.

pub mod task;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A run as it is found afterwards.
#[derive(Debug, Default, Clone)]
pub struct Found {
    /// Canonical bytes, in the order of the store.
    pub events: Vec<String>,
    /// Lines of its trace; none when no trace is kept.
    pub trace: Vec<String>,
}

/// What a watcher was shown of one run: numbers, and the bytes that came with them.
pub type Shown = Vec<(u64, String)>;

/// Everything that does not hold of a run that has ended, in words; empty when all is well.
pub fn broken(found: &Found, shown: &Shown) -> Vec<String> {
    let mut broken = Vec::new();
    let events: Vec<Value> = found
        .events
        .iter()
        .map(|bytes| serde_json::from_str(bytes).unwrap_or(Value::Null))
        .collect();
    numbers(&events, &mut broken);
    end(&events, &mut broken);
    fences(&events, &mut broken);
    promised(found, shown, &mut broken);
    traced(found, &events, &mut broken);
    let launched = events.iter().filter(|event| event["phase"] == "running").count();
    if launched > 1 {
        broken.push(format!("a run is launched once: it was {launched} times"));
    }
    broken
}

fn numbers(events: &[Value], broken: &mut Vec<String>) {
    for (event, seq) in events.iter().zip(1u64..) {
        if event["seq"] != seq {
            broken.push(format!("events are numbered without gaps: {seq} is {}", event["seq"]));
            return;
        }
    }
}

fn end(events: &[Value], broken: &mut Vec<String>) {
    let results = events.iter().filter(|event| event["kind"] == "result").count();
    let last = events.last().is_some_and(|event| event["kind"] == "result");
    if results != 1 || !last {
        broken.push(format!("one result ends a run: {results} are there, the last is {last}"));
    }
}

fn fences(events: &[Value], broken: &mut Vec<String>) {
    let fences: Vec<u64> = events.iter().filter_map(|event| event["fence"].as_u64()).collect();
    if !fences.is_sorted() || fences.len() != events.len() {
        broken.push(format!("fences never fall: {fences:?}"));
    }
}

/// What was shown is there, once and to the byte.
fn promised(found: &Found, shown: &Shown, broken: &mut Vec<String>) {
    for (seq, bytes) in shown {
        let there = usize::try_from(seq.saturating_sub(1)).ok().and_then(|at| found.events.get(at));
        if there != Some(bytes) {
            broken.push(format!("what was shown is stored: {seq} was {bytes}, and is {there:?}"));
        }
    }
}

/// Each line is in the trace once, without gaps, and what an event names is there.
fn traced(found: &Found, events: &[Value], broken: &mut Vec<String>) {
    if found.trace.is_empty() {
        return;
    }
    let mut lines: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in &found.trace {
        let line: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        let stream = line["stream"].as_str().unwrap_or("torn").to_owned();
        lines.entry(stream).or_default().push(line["line"].as_u64().unwrap_or(0));
    }
    for (stream, numbers) in &lines {
        if !numbers.iter().copied().eq(1..=numbers.len() as u64) {
            broken.push(format!("each line is traced once: {stream} has {numbers:?}"));
        }
    }
    for raw in events.iter().map(|event| &event["raw"]).filter(|raw| !raw.is_null()) {
        let stream = raw["stream"].as_str().and_then(|stream| lines.get(stream));
        let there = raw["line"].as_u64().zip(stream).is_some_and(|(n, there)| there.contains(&n));
        if !there {
            broken.push(format!("the line an event came from is traced: {raw}"));
        }
    }
}

/// The hashes of the blobs that an event names.
pub fn blobs(event: &str) -> Vec<String> {
    let event: Value = serde_json::from_str(event).unwrap_or_default();
    let fields = event.as_object().into_iter().flatten();
    let named = fields.filter(|(name, _)| name.ends_with("_blob"));
    named.filter_map(|(_, blob)| blob["hash"].as_str().map(str::to_owned)).collect()
}

/// What the agent did, whoever hosted it: its events without the envelope, deltas of one block
/// joined, and the answers to its calls.
pub fn deeds(events: &[Value]) -> Vec<Value> {
    let mut deeds: Vec<Value> = Vec::new();
    for event in events {
        if event["origin"] != "agent" && event["kind"] != "tool_result" {
            continue;
        }
        let mut deed = event.clone();
        if let Some(fields) = deed.as_object_mut() {
            for name in ["v", "run_id", "seq", "ts", "fence", "attempt", "raw", "duration_ms"] {
                fields.remove(name);
            }
        }
        match deeds.last_mut() {
            Some(last) if deed["delta"] == true && joins(last, &deed) => {
                let text = [&last["text"], &deed["text"]].map(|text| text.as_str().unwrap_or(""));
                last["text"] = text.concat().into();
            }
            _ => deeds.push(deed),
        }
    }
    deeds
}

fn joins(last: &Value, next: &Value) -> bool {
    ["kind", "block", "delta"].iter().all(|field| last[*field] == next[*field])
}

/// How the deeds of a run that nobody harmed differ from those of one that was left in peace.
pub fn differs(seen: &[Value], expected: &[Value]) -> Option<String> {
    let first = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    match first {
        Some(at) => Some(format!("deed {at} is {} and not {}", seen[at], expected[at])),
        None if seen.len() != expected.len() => {
            Some(format!("{} deeds are there, and not {}", seen.len(), expected.len()))
        }
        None => None,
    }
}

/// The same for a run whose keeper or agent was killed: what is there of its own deeds is how they
/// begin. Its last text and its last line may be cut.
pub fn goes_astray(seen: &[Value], expected: &[Value]) -> Option<String> {
    let own = |deeds: &[Value]| -> Vec<Value> {
        deeds.iter().filter(|deed| deed["origin"] == "agent").cloned().collect()
    };
    let (mut seen, expected) = (own(seen), own(expected));
    // A line that was cut in its middle is no event, and is kept as what it is.
    seen.pop_if(|deed| deed["kind"] == "log" && deed["level"] == "unrecognised");
    for (at, deed) in seen.iter().enumerate() {
        let cut = at + 1 == seen.len() && deed["delta"] == true;
        let fits = expected.get(at).is_some_and(|expected| match cut {
            true => begins(expected, deed),
            false => expected == deed,
        });
        if !fits {
            return Some(format!("deed {at} is {deed} and not {:?}", expected.get(at)));
        }
    }
    None
}

fn begins(whole: &Value, part: &Value) -> bool {
    let text = |deed: &Value| deed["text"].as_str().unwrap_or_default().to_owned();
    joins(whole, part) && text(whole).starts_with(&text(part))
}

/// How what an agent heard differs from what was said to it: everything that was acknowledged once
/// and in order, and of the rest nothing twice. A harmed agent may have heard less.
pub fn misheard(
    heard: &[String],
    said: &[String],
    acknowledged: &BTreeSet<String>,
    whole: bool,
) -> Option<String> {
    let mut rest = said.iter();
    for message in heard {
        if !rest.any(|said| said == message) {
            return Some(format!("{message:?} was heard twice, out of turn, or never said"));
        }
    }
    let missing = acknowledged.iter().find(|message| !heard.contains(message));
    missing.filter(|_| whole).map(|message| format!("{message:?} was taken and never heard"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(events: &[Value]) -> Found {
        Found { events: events.iter().map(Value::to_string).collect(), trace: Vec::new() }
    }

    fn whole() -> Vec<Value> {
        vec![
            json!({ "seq": 1, "fence": 1, "kind": "lifecycle", "phase": "running" }),
            json!({ "seq": 2, "fence": 1, "kind": "log", "raw": { "stream": "stdout", "line": 1 } }),
            json!({ "seq": 3, "fence": 2, "kind": "result" }),
        ]
    }

    #[test]
    fn a_whole_run_breaks_nothing() {
        let mut found = found(&whole());
        found.trace = vec![json!({ "stream": "stdout", "line": 1, "text": "x" }).to_string()];
        let shown = vec![(2, found.events[1].clone())];
        assert_eq!(broken(&found, &shown), [""; 0]);
    }

    #[test]
    fn each_promise_can_be_seen_broken() {
        type Harm = fn(&mut Vec<Value>);
        let harms: &[(Harm, &str)] = &[
            (|events| drop(events.remove(1)), "events are numbered without gaps"),
            (|events| drop(events.pop()), "one result ends a run"),
            (|events| events[0]["kind"] = "result".into(), "one result ends a run"),
            (|events| events[0]["fence"] = 3.into(), "fences never fall"),
            (|events| events[1]["phase"] = "running".into(), "a run is launched once"),
            (|events| events[1]["text"] = "other".into(), "what was shown is stored"),
        ];
        for (harm, words) in harms {
            let shown = vec![(2, whole()[1].to_string())];
            let mut events = whole();
            harm(&mut events);
            let said = broken(&found(&events), &shown);
            assert!(said.iter().any(|said| said.starts_with(words)), "{words}: {said:?}");
        }
    }

    #[test]
    fn a_line_traced_twice_or_not_at_all_is_seen() {
        let line = |n: u64| json!({ "stream": "stdout", "line": n, "text": "x" }).to_string();
        for (trace, words) in [
            (vec![line(1), line(1)], "each line is traced once"),
            (vec![line(2)], "the line an event came from is traced"),
            (vec!["{\"stream\":".to_owned()], "each line is traced once"),
        ] {
            let found = Found { trace, ..found(&whole()) };
            let said = broken(&found, &Vec::new());
            assert!(said.iter().any(|said| said.starts_with(words)), "{words}: {said:?}");
        }
    }

    #[test]
    fn deltas_may_fall_apart_differently_and_nothing_else_may() {
        let text = |text: &str, delta: bool| json!({ "origin": "agent", "kind": "assistant_text", "text": text, "delta": delta });
        let one = deeds(&[text("a", false), text("bcd", true)]);
        let other = deeds(&[text("a", false), text("b", true), text("cd", true)]);
        assert_eq!(differs(&other, &one), None);
        assert!(differs(&other[..1], &one).is_some() && differs(&one, &other[..1]).is_some());
        let cut = deeds(&[text("a", false), text("b", true)]);
        assert_eq!(goes_astray(&cut, &one), None);
        assert!(differs(&cut, &one).is_some());
        let torn =
            json!({ "origin": "agent", "kind": "log", "level": "unrecognised", "text": "{" });
        let line = deeds(&[text("a", false), torn.clone()]);
        assert_eq!(goes_astray(&line, &one), None);
        assert!(goes_astray(&deeds(&[torn, text("a", false)]), &one).is_some());
        let twice = deeds(&[text("a", false), text("a", false)]);
        assert!(goes_astray(&twice, &one).is_some());
    }

    #[test]
    fn a_message_heard_twice_or_lost_is_seen() {
        let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let taken: BTreeSet<_> = words("a c").into_iter().collect();
        let heard = |heard: &str| misheard(&words(heard), &words("a b c"), &taken, true);
        assert_eq!((heard("a c"), heard("a b c")), (None, None));
        for wrong in ["a a c", "c a", "a", "a x c"] {
            assert!(heard(wrong).is_some(), "{wrong}");
        }
        assert_eq!(misheard(&words("a"), &words("a b c"), &taken, false), None);
    }
}
