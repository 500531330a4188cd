//! The work whose instructions are counted: decode, trace, seal, commit, a given number of times.
//! Nothing here measures anything: `instructions.rs` runs this under valgrind twice, with different
//! numbers, so that what is paid once drops out. The lines are those of an agent at work.

use super::adapter::{now, run_id, secrets};
use super::said;
use super::stored::{self, Maker, run_number, wait_for};
use contract::event::{Envelope, Origin};
use runtimes::join::Joiner;
use runtimes::{Frame, Out, Stream};
use store::seal::Seal;

/// What can be counted, and of what its number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Lines of the pipeline bench to sealed events.
    Event,
    /// Lines to joined drafts.
    Decode,
    /// Lines to sealed lines of the trace.
    Trace,
    /// Drafts to sealed events.
    Seal,
    /// Batches of 256 events to the store.
    Commit,
    /// The seal of a new run, with five known values.
    Begin,
}

impl Work {
    pub const ALL: [Self; 6] =
        [Self::Event, Self::Decode, Self::Trace, Self::Seal, Self::Commit, Self::Begin];

    pub fn word(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Decode => "decode",
            Self::Trace => "trace",
            Self::Seal => "seal",
            Self::Commit => "commit",
            Self::Begin => "begin",
        }
    }

    /// How often it is done in the shorter of two runs.
    pub fn times(self) -> u64 {
        match self {
            Self::Event | Self::Decode | Self::Trace | Self::Seal => 2_000,
            Self::Commit => 20,
            Self::Begin => 20,
        }
    }
}

const BATCH_EVENTS: u64 = 256;
const SECRETS_OF_A_RUN: usize = 5;

/// What an agent says, kind by kind as often as they occur.
const LINES: [&str; 8] = [
    r#"{"type":"event","event":{"kind":"assistant_text","text":"I will look at the failing test first, then at the code it calls.","block":"b1","delta":true}}"#,
    r#"{"type":"event","event":{"kind":"assistant_text","text":" The assertion compares two lists; one of them is sorted and the other is not.","block":"b1","delta":true}}"#,
    r#"{"type":"event","event":{"kind":"tool_use","tool_call_id":"call_%","name":"read_file","input":{"path":"src/orders/sort.rs","from":1,"to":80},"title":"Read src/orders/sort.rs"}}"#,
    r#"{"type":"event","event":{"kind":"tool_result","tool_call_id":"call_%","status":"ok","output":"pub fn sorted(orders: &[Order]) -> Vec<Order> {\n    let mut sorted = orders.to_vec();\n    sorted.sort_by(|a, b| a.placed_at.cmp(&b.placed_at));\n    sorted\n}\n","duration_ms":3}}"#,
    r#"{"type":"event","event":{"kind":"thinking","text":"The order of equal elements is kept, so the list of the test must be made with the same rule.","delta":false}}"#,
    r#"{"type":"event","event":{"kind":"usage","model":"some-model-1","tokens":{"input_uncached":1200,"cache_read":18000,"cache_write":0,"output":240},"basis":"increment"}}"#,
    r#"{"type":"progress","summary":"the cause is found","beliefs":["the sort is stable"],"attempted":[]}"#,
    r#"{"type":"event","event":{"kind":"assistant_text","text":"Done: the two lists are made by one function now, and the test passes. Nothing else was touched.","delta":false}}"#,
];

pub fn run(words: &[&str]) -> Result<(), String> {
    let usage = "bench-count takes the name of a work and a number";
    let [work, times] = words else { return Err(usage.to_owned()) };
    let work = Work::ALL.into_iter().find(|known| known.word() == *work).ok_or(usage)?;
    let times: u64 = times.parse().map_err(said(usage))?;
    match work {
        Work::Event => drop(event(times)),
        Work::Decode => drop(decode(&lines_of(2 * work.times()), times)),
        Work::Trace => drop(trace(times)),
        Work::Seal => drop(seal(times)),
        Work::Commit => commit(times)?,
        Work::Begin => drop(begin(times)),
    }
    Ok(())
}

fn line(n: u64) -> String {
    // Calls have ids of their own, or they would count as said twice.
    let pair = n / LINES.len() as u64;
    LINES[n as usize % LINES.len()].replace('%', &pair.to_string())
}

/// Making them is other work, and the same number is made however many are heard.
pub fn lines_of(count: u64) -> Vec<String> {
    (0..count).map(line).collect()
}

fn decode(lines: &[String], times: u64) -> Vec<contract::Draft> {
    let mut dialect = runtimes::jsonlines::fresh();
    let (mut joiner, mut drafts) = (Joiner::default(), Vec::new());
    let (at, mut out) = (contract::Timestamp(0), Out::default());
    for (n, line) in (1..=times).zip(lines.iter().cycle()) {
        let frame = Frame { stream: Stream::Stdout, line: n, bytes: line.as_bytes(), cut: false };
        dialect.hear(&frame, &mut out);
        out.signals.clear();
        out.drafts.drain(..).for_each(|draft| joiner.push(draft, at, &mut drafts));
    }
    joiner.flush(&mut drafts);
    drafts
}

/// What the adapter bench does with a line once it has it.
fn event(times: u64) -> usize {
    let line = String::from_utf8_lossy(&super::agent::template()).trim_end().to_owned();
    let (run_id, ts, origin) = (run_id(), now(), Origin::Agent);
    let seal = Seal::new(secrets());
    let drafts = decode(&[line], times);
    let sealed = (1..).zip(&drafts).map(|(seq, draft)| {
        let envelope = Envelope { run_id, seq, ts, attempt: 1, fence: 1, origin };
        seal.event(&envelope, &draft.body, draft.raw).bytes.bytes().len()
    });
    sealed.sum()
}

fn trace(times: u64) -> usize {
    let seal = Seal::new(secrets());
    let lines: Vec<String> = (0..LINES.len() as u64).map(line).collect();
    let sealed = (0..times as usize).map(|n| seal.line(lines[n % lines.len()].as_bytes()));
    sealed.map(|line| line.bytes().len()).sum()
}

fn seal(times: u64) -> usize {
    let seal = Seal::new(secrets());
    let drafts = decode(&lines_of(LINES.len() as u64), LINES.len() as u64);
    let (run_id, ts, origin) = (run_id(), now(), Origin::Agent);
    (1..=times)
        .map(|seq| {
            let draft = &drafts[seq as usize % drafts.len()];
            let envelope = Envelope { run_id, seq, ts, attempt: 1, fence: 1, origin };
            seal.event(&envelope, &draft.body, draft.raw).bytes.bytes().len()
        })
        .sum()
}

fn commit(times: u64) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let (store, run) = (stored::open(dir.path())?, run_number(0));
    stored::admit(&store, run)?;
    let maker = Maker::new(run);
    // Making events is other work, and the same number is made however many are committed.
    let most = 2 * Work::Commit.times();
    let batches: Vec<_> =
        (0..most).map(|n| maker.batch(n * BATCH_EVENTS + 1, BATCH_EVENTS)).collect();
    for batch in batches.into_iter().take(times as usize) {
        wait_for(store.commit(batch)).map_err(said("committing"))?;
    }
    Ok(())
}

fn begin(times: u64) -> usize {
    (0..times)
        .map(|n| {
            let secrets = secrets().into_iter().skip(n as usize % 40).take(SECRETS_OF_A_RUN);
            Seal::new(secrets).line(b"{\"a\":1}").bytes().len()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood_and_every_kind_of_work_can_be_done() {
        let count = 2 * LINES.len() as u64;
        let drafts = decode(&lines_of(count), count);
        assert!(drafts.len() >= 2 * (LINES.len() - 1), "{}", drafts.len());
        for draft in &drafts {
            assert_ne!(draft.body.kind(), "log", "{draft:?}");
        }
        for work in Work::ALL {
            run(&[work.word(), "2"]).unwrap();
        }
        assert!(run(&["nothing", "2"]).is_err());
    }
}
