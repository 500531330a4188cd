//! What a line costs a dialect, beside what it costs `serde_json` alone: every runtime that has
//! recordings, by all of them, and the mapped dialect by those of the agents it has examples of. The
//! registry and the folders say which; none is known here. Ours is the line split off and heard, with
//! all that comes of it made and dropped; the floor is the same line split off and made a
//! `serde_json::Value`: what it parses to or, for a line that is no JSON, its text. Nothing waits
//! here, so the time is that of the processor, which other work on the machine moves least.

use super::figures::{Bound, Pairs};
use super::lines::Lines;
use super::report::Report;
use super::{counted, said, usage};
use contract::plan::{Adapter, Lane};
use runtimes::registry::{self, Chosen};
use runtimes::{Dialect, Frame, Out, Spec, Stream};
use serde_json::Value;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use testkit::recorded::{self, Recording};

const ROUNDS: usize = 15;
/// One measurement takes about this many lines, so that a short recording is heard often.
const LINES: usize = 4_000;
const PROTOCOL_LINES: u64 = 400;
/// Fewer lines of JSON than this among a hundred, and the floor is no work that anybody would do.
const JSON_PERCENT_MIN: usize = 50;

/// One dialect with what it hears.
struct Speaker {
    name: String,
    runtime: Chosen,
    spec: Spec,
    recordings: Vec<Recording>,
}

pub fn run(root: &Path, report: &mut Report) -> Result<(), String> {
    let how = format!("{ROUNDS} rounds of floor, ours; about {LINES} lines each");
    report.begin("decode", &how);
    for speaker in speakers(root)? {
        let texts: Vec<Vec<u8>> = speaker.recordings.iter().map(text).collect();
        let lines: usize = speaker.recordings.iter().map(|one| one.stdout.len()).sum();
        if lines == 0 {
            return Err(format!("{} has recordings without a line", speaker.name));
        }
        let times = LINES.div_ceil(lines);
        let mut pairs = Pairs::default();
        for round in 0..=ROUNDS {
            let floor = floor(&texts, times, lines)?;
            let ours = ours(&speaker, &texts, times, lines)?;
            // The first one reads code and recordings into the caches of the machine.
            if round > 0 {
                pairs.push(floor, ours);
            }
        }
        let what = format!("a line of {}, {lines} lines", speaker.name);
        let bound = match json_percent(&speaker.recordings) >= JSON_PERCENT_MIN {
            true => Bound::AtMost { gate: 2.0, goal: 1.5 },
            false => Bound::None,
        };
        report.ratio(&what, "ns", &pairs, bound);
    }
    Ok(())
}

fn speakers(root: &Path) -> Result<Vec<Speaker>, String> {
    let folders = root.join("crates/runtimes/src");
    let mut all = vec![protocol()?];
    for runtime in registry::all() {
        let card = runtime.card();
        let folder = folders.join(&card.id).join("recordings");
        if let (true, Some(lane)) = (folder.exists(), card.lanes.first()) {
            let spec = recorded::spec(*runtime, *lane);
            all.push(Speaker::of(card.id, Chosen::Listed(*runtime), spec, Recording::all(&folder)));
        }
    }
    for path in examples(&folders)? {
        all.push(mapped(&folders, &path)?);
    }
    Ok(all)
}

/// The process protocol has no agent of its own; it hears the lines whose instructions are counted.
fn protocol() -> Result<Speaker, String> {
    let mut all = registry::all().iter();
    let speaks = |card: contract::Card| card.lanes.contains(&Lane::Process);
    let runtime = all.find(|runtime| speaks(runtime.card())).ok_or("nobody speaks JSON lines")?;
    let stdout = counted::lines_of(PROTOCOL_LINES).into_iter().map(String::into_bytes).collect();
    let recording = Recording { stdout, ..Recording::default() };
    let spec = recorded::spec(*runtime, Lane::Process);
    let name = "the process protocol".to_owned();
    Ok(Speaker::of(name, Chosen::Listed(*runtime), spec, vec![recording]))
}

fn examples(folders: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = folders.join("mapped/examples");
    let entries =
        std::fs::read_dir(&folder).map_err(said(format!("reading {}", folder.display())))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// An example of a mapping, with the recordings of the agent that it is called after.
fn mapped(folders: &Path, path: &Path) -> Result<Speaker, String> {
    let doing = || format!("reading {}", path.display());
    let bytes = std::fs::read(path).map_err(said(doing()))?;
    let mapping = serde_json::from_slice(&bytes).map_err(said(doing()))?;
    let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let binary = Some("agent".to_owned());
    let adapter =
        Adapter { name: id.clone(), binary, mapping: Some(mapping), ..Adapter::default() };
    let runtime = registry::of(&adapter).map_err(said(doing()))?;
    let spec = Spec { adapter, ..recorded::spec(&*runtime, Lane::Native) };
    let recordings = Recording::all(&folders.join(&id).join("recordings"));
    Ok(Speaker::of(format!("{id}, mapped"), runtime, spec, recordings))
}

impl Speaker {
    /// A recording without a line has nothing to be heard.
    fn of(name: String, runtime: Chosen, spec: Spec, mut recordings: Vec<Recording>) -> Self {
        recordings.retain(|recording| !recording.stdout.is_empty());
        Self { name, runtime, spec, recordings }
    }
}

/// What the agent printed, as bytes.
fn text(recording: &Recording) -> Vec<u8> {
    let mut text = recording.stdout.join(&b'\n');
    text.push(b'\n');
    text
}

fn json_percent(recordings: &[Recording]) -> usize {
    let lines: Vec<_> = recordings.iter().flat_map(|one| &one.stdout).collect();
    let json = lines.iter().filter(|line| {
        matches!(serde_json::from_slice(line), Ok(Value::Object(_) | Value::Array(_)))
    });
    json.count() * 100 / lines.len().max(1)
}

/// Nanoseconds a line.
fn floor(texts: &[Vec<u8>], times: usize, lines: usize) -> Result<f64, String> {
    let (mut splitter, mut seen) = (Lines::default(), 0);
    let from_ns = usage::own_cpu_ns();
    for _ in 0..times {
        for text in texts {
            splitter.push(text, |line| {
                let value = serde_json::from_slice(line)
                    .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(line).into_owned()));
                black_box(&value);
                seen += 1;
            });
        }
    }
    per_line(from_ns, seen, times * lines)
}

/// The same. Dialects are made and opened before the clock is looked at: what is measured is a line.
fn ours(speaker: &Speaker, texts: &[Vec<u8>], times: usize, lines: usize) -> Result<f64, String> {
    let mut dialects: Vec<Box<dyn Dialect>> = Vec::new();
    for recording in std::iter::repeat_n(&speaker.recordings, times).flatten() {
        let mut dialect = speaker.runtime.dialect(&recording.as_it_was(&speaker.spec));
        dialect.open();
        dialects.push(dialect);
    }
    let (mut splitter, mut seen) = (Lines::default(), 0);
    let from_ns = usage::own_cpu_ns();
    for (dialect, text) in dialects.iter_mut().zip(texts.iter().cycle()) {
        let mut number = 0;
        splitter.push(text, |bytes| {
            (number, seen) = (number + 1, seen + 1);
            let mut out = Out::default();
            let frame = Frame { stream: Stream::Stdout, line: number, bytes, cut: false };
            dialect.hear(&frame, &mut out);
            black_box(&out);
        });
    }
    per_line(from_ns, seen, times * lines)
}

fn per_line(from_ns: u64, seen: usize, expected: usize) -> Result<f64, String> {
    match seen == expected {
        true => Ok((usage::own_cpu_ns() - from_ns) as f64 / seen as f64),
        false => Err(format!("{seen} of {expected} lines were heard")),
    }
}
