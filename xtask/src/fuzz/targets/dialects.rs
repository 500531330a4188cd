//! The dialect of any registered runtime, by what its own agent really printed, broken as lines and
//! as bytes. Whatever is heard: the same bytes cut elsewhere, with the dialect saved and loaded
//! between any two pieces, come to the same; what is drafted and said is bounded and well formed;
//! what is remembered does not grow with the run; and a run of it has one end. The registry says
//! which runtimes there are: none is known here.

use super::frame::Lines;
use super::holds;
use crate::fuzz::lines;
use crate::fuzz::mutate::{self, Chance};
use crate::fuzz::search::{Reader, Try};
use contract::event::{Body, Remaining};
use contract::speech::{Close, ToolAnswer};
use contract::{Code, Policy, Signal, Timestamp, Utterance};
use runtimes::{Dialect, Frame, Out, Runtime, Spec, Stream, registry};
use serde::de::IgnoredAny;
use std::sync::OnceLock;
use testkit::recorded::{self, Recording};

/// In the gate: a second or a few for each.
const EVERYDAY: u64 = 600;
/// Of the recordings of all others, how many are passed over for one that has none of its own.
const OTHERS_STEP: usize = 16;
/// What may come of the bytes heard: an escape can take six bytes where one was heard, and some
/// texts are told twice.
const OUT_BYTES_FACTOR: usize = 32;
const OUT_LINE_BYTES: usize = 8 * 1024;
/// One input in this many is also heard over and over.
const LONG_RUN_ONE_IN: usize = 100;

/// The dialect of one runtime.
struct Spoken {
    runtime: &'static dyn Runtime,
    name: String,
    words: OnceLock<Vec<Vec<u8>>>,
}

/// One for each registered runtime.
pub fn all() -> impl Iterator<Item = Box<dyn Reader>> {
    registry::all().iter().map(|runtime| {
        let name = format!("dialect-{}", runtime.card().id);
        let words = OnceLock::new();
        Box::new(Spoken { runtime: *runtime, name, words }) as Box<dyn Reader>
    })
}

impl Reader for Spoken {
    fn name(&self) -> &str {
        &self.name
    }

    fn everyday(&self) -> Option<u64> {
        Some(EVERYDAY)
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let id = self.runtime.card().id;
        let folder = crate::root().join("crates/runtimes/src").join(id).join("recordings");
        if !folder.exists() {
            return super::recordings().into_iter().step_by(OTHERS_STEP).collect();
        }
        let streams = Recording::all(&folder).into_iter().flat_map(|one| [one.stdout, one.stderr]);
        streams.filter(|lines| !lines.is_empty()).map(|lines| lines.join(&b'\n')).collect()
    }

    fn input(&self, chance: &mut Chance, seeds: &[Vec<u8>]) -> Vec<u8> {
        lines::input(chance, seeds, self.words.get_or_init(|| lines::words(seeds)))
    }

    fn make(&self) -> Try {
        let runtime = self.runtime;
        Box::new(move |input, chance| {
            let scene = Scene::of(runtime, input, chance);
            scene.holds(runtime, chance)?;
            match chance.one_in(LONG_RUN_ONE_IN) {
                true => scene.stays_small(runtime),
                false => Ok(()),
            }
        })
    }
}

/// What is heard, in which order and by which stream, and what is said in between.
struct Scene {
    spec: Spec,
    lines: Vec<Said>,
    /// The lines of one stream that follow each other, as bytes.
    streaks: Vec<(Stream, Vec<u8>)>,
    close: Close,
}

struct Said {
    stream: Stream,
    number: u64,
    bytes: Vec<u8>,
    cut: bool,
    /// What decides how we answer.
    answer: u64,
}

impl Scene {
    fn of(runtime: &dyn Runtime, input: &[u8], chance: &mut Chance) -> Self {
        let mut all: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
        all.pop_if(|last| last.is_empty());
        let mut stream = if chance.one_in(4) { Stream::Stderr } else { Stream::Stdout };
        let (mut numbers, mut lines) = ([0, 0], Vec::new());
        let mut streaks: Vec<(Stream, Vec<u8>)> = Vec::new();
        let overlong = chance.one_in(16).then(|| chance.below(all.len()));
        for (index, bytes) in all.into_iter().enumerate() {
            if chance.one_in(8) {
                stream = if stream == Stream::Stdout { Stream::Stderr } else { Stream::Stdout };
            }
            numbers[stream as usize] += 1;
            match streaks.last_mut() {
                Some((last, held)) if *last == stream => held.extend_from_slice(bytes),
                _ => streaks.push((stream, bytes.to_vec())),
            }
            let bare = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
            lines.push(Said {
                stream,
                number: numbers[stream as usize],
                bytes: bare.to_vec(),
                cut: overlong == Some(index),
                answer: chance.number(),
            });
        }
        let close = if chance.one_in(4) { Close::Cut } else { Close::Ended };
        Self { spec: spec(runtime, chance), lines, streaks, close }
    }

    /// Everything that must hold, but for what takes a long run to be seen.
    fn holds(&self, runtime: &dyn Runtime, chance: &mut Chance) -> Result<(), String> {
        let whole = self.heard(runtime);
        well_said(&whole, self)?;
        let moved = self.moved(runtime, chance)?;
        holds(whole == moved, || {
            format!("cut and saved elsewhere, it hears something else: {}", other(&whole, &moved))
        })?;
        self.damaged(runtime, chance);
        self.ends_once(runtime)
    }

    /// Line by line, in one go.
    fn heard(&self, runtime: &dyn Runtime) -> Vec<Out> {
        let mut dialect = runtime.dialect(&self.spec);
        let mut all = vec![opened(&mut *dialect)];
        all.extend(self.lines.iter().map(|said| hear(&mut *dialect, said, &said.bytes)));
        all.push(closed(&mut *dialect, self.close));
        all
    }

    /// The same bytes in pieces, with the dialect saved and loaded between some of them.
    fn moved(&self, runtime: &dyn Runtime, chance: &mut Chance) -> Result<Vec<Out>, String> {
        let mut dialect = runtime.dialect(&self.spec);
        let mut all = vec![opened(&mut *dialect)];
        let mut framed = [Lines::default(), Lines::default()];
        let mut offset = 0;
        for (stream, bytes) in &self.streaks {
            for cut in chance.cuts(bytes.len()).windows(2) {
                if chance.one_in(2) {
                    dialect = runtime
                        .restore(&dialect.save())
                        .map_err(|fault| format!("its own state is refused: {fault}"))?;
                }
                let (piece, next) = (&bytes[cut[0]..cut[1]], offset + 1 + (cut[1] - cut[0]) as u64);
                framed[*stream as usize].push(offset, next, piece, |line| {
                    all.extend(self.next(&all, &mut *dialect, line.number, line.bytes));
                });
                offset = next;
            }
        }
        for lines in &mut framed {
            lines.close(|line| {
                all.extend(self.next(&all, &mut *dialect, line.number, line.bytes));
            });
        }
        all.push(closed(&mut *dialect, self.close));
        Ok(all)
    }

    /// Hears the line that comes next, if it is the one that was to come.
    fn next(
        &self,
        all: &[Out],
        dialect: &mut dyn Dialect,
        number: u64,
        bytes: &[u8],
    ) -> Option<Out> {
        let said = self.lines.get(all.len() - 1).filter(|said| said.number == number)?;
        Some(hear(dialect, said, bytes))
    }

    /// Its own state, damaged, is refused or read, and then goes on.
    fn damaged(&self, runtime: &dyn Runtime, chance: &mut Chance) {
        let mut dialect = runtime.dialect(&self.spec);
        let middle = self.lines.len() / 2;
        self.lines[..middle].iter().for_each(|said| drop(hear(&mut *dialect, said, &said.bytes)));
        let mut saved = dialect.save();
        for _ in 0..=chance.below(3) {
            mutate::mutate(chance, &mut saved, &[], &[b"18446744073709551615"]);
        }
        if let Ok(mut dialect) = runtime.restore(&saved) {
            self.lines[middle..]
                .iter()
                .for_each(|said| drop(hear(&mut *dialect, said, &said.bytes)));
            closed(&mut *dialect, self.close);
        }
    }

    /// A run that heard all this has one result, and nothing after it.
    fn ends_once(&self, runtime: &dyn Runtime) -> Result<(), String> {
        let of = |stream| {
            let lines = self.lines.iter().filter(move |said| said.stream == stream);
            lines.map(|said| said.bytes.clone()).collect::<Vec<_>>()
        };
        let (stdout, stderr) = (of(Stream::Stdout), of(Stream::Stderr));
        let exit_code = Some(self.lines.first().map_or(0, |said| (said.answer % 2) as i32));
        let heard = stdout.len();
        let recording = Recording { stdout, stderr, exit_code, ..Recording::default() };
        let played = recording.play_until(runtime, &self.spec, heard, self.close);
        let is_result = |body: &Body| matches!(body, Body::Result(_));
        let results = played.drafts.iter().filter(|draft| is_result(&draft.body)).count();
        let last = played.drafts.last().is_some_and(|draft| is_result(&draft.body));
        holds(results == 1 && last, || format!("a run has not one end, last: {results} results"))
    }

    /// Heard over and over with other ids, it comes to remember no more than at first.
    fn stays_small(&self, runtime: &dyn Runtime) -> Result<(), String> {
        let mut dialect = runtime.dialect(&self.spec);
        opened(&mut *dialect);
        let bytes: usize = self.lines.iter().map(|said| said.bytes.len() + 1).sum();
        let (mut heard, mut round, mut before) = (0, 0, None);
        let mut rounds = growth::ROUNDS.min(growth::BYTES / (bytes + 1)).max(1);
        while heard < growth::BYTES_MAX {
            for _ in 0..rounds {
                for line in &self.lines {
                    // What people say is bounded elsewhere, so only questions are answered.
                    let said = Said { answer: growth::ANSWER, bytes: Vec::new(), ..*line };
                    hear(&mut *dialect, &said, &growth::renamed(&line.bytes, round));
                }
                round += 1;
                heard += bytes + 1;
            }
            let now = dialect.save().len();
            match before {
                Some(before) if now <= growth::settled(before) => return Ok(()),
                _ => before = Some(now),
            }
            rounds *= 2;
        }
        // A few texts may be kept whole, and can take long to fill.
        let kept = before.unwrap_or_default();
        holds(kept <= growth::KEPT_BYTES_MAX, || {
            format!("it remembers more and more: {kept} bytes after {round} rounds")
        })
    }
}

/// How a dialect is shown to remember everything it ever heard.
mod growth {
    /// More rounds than any list that is kept has places.
    pub const ROUNDS: usize = 300;
    pub const BYTES: usize = 1024 * 1024;
    pub const KEPT_BYTES_MAX: usize = 4 * contract::limits::TEXT_BYTES_MAX;
    /// Whoever keeps a whole document has stopped by then.
    pub const BYTES_MAX: usize = 16 * 1024 * 1024;

    /// Answers a question with the last of its options, and says nothing else.
    pub const ANSWER: u64 = 23;

    /// The most that may be remembered after twice the rounds.
    pub fn settled(bytes: usize) -> usize {
        bytes + bytes / 8 + 1024
    }

    /// The line with the digits inside its strings changed, which changes every id.
    pub fn renamed(line: &[u8], round: usize) -> Vec<u8> {
        let (mut inside, mut escaped, mut place) = (false, false, 0);
        let mut renamed = line.to_vec();
        for byte in &mut renamed {
            match *byte {
                b'"' if !escaped => inside = !inside,
                digit @ b'0'..=b'9' if inside => {
                    let turn = round / 10_usize.pow(place % 4) % 10;
                    *byte = b'0' + (digit - b'0' + turn as u8) % 10;
                    place += 1;
                }
                _ => {}
            }
            escaped = *byte == b'\\' && !escaped;
        }
        renamed
    }
}

fn spec(runtime: &dyn Runtime, chance: &mut Chance) -> Spec {
    let lanes = runtime.card().lanes;
    let lane = chance.pick(&lanes).copied().unwrap_or(contract::plan::Lane::Native);
    let mut spec = recorded::spec(runtime, lane);
    let policies = [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll];
    spec.policy = chance.pick(&policies).copied().unwrap_or(Policy::Ask);
    spec.session = chance.one_in(3).then(|| "c79e6605".to_owned());
    spec.model = chance.one_in(4).then(|| "some/model".to_owned());
    spec
}

fn opened(dialect: &mut dyn Dialect) -> Out {
    Out { frames: dialect.open().into_iter().collect(), ..Out::default() }
}

fn closed(dialect: &mut dyn Dialect, how: Close) -> Out {
    let mut out = Out::default();
    dialect.close(how, &mut out);
    out
}

/// Hears one line and answers what it asks; sometimes something else is said as well.
fn hear(dialect: &mut dyn Dialect, said: &Said, bytes: &[u8]) -> Out {
    let mut out = Out::default();
    let frame = Frame { stream: said.stream, line: said.number, bytes, cut: said.cut };
    dialect.hear(&frame, &mut out);
    for signal in out.signals.clone() {
        if let Signal::Asked(question) = &signal {
            let option = question.options.get(said.answer as usize % 4);
            let option = option.map(|option| option.id.clone());
            dialect.say(
                &Utterance::Decide {
                    request: question.request.clone(),
                    option,
                    reason: Some("no".to_owned()),
                },
                &mut out,
            );
        }
        if let Signal::ToolCalled(call) = &signal {
            let answer = ToolAnswer::Value(call.args.clone());
            let tool_call_id = call.tool_call_id.clone();
            dialect.say(&Utterance::ToolResult { tool_call_id, answer }, &mut out);
        }
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    match said.answer % 24 {
        0 => dialect.say(&Utterance::Message { text }, &mut out),
        1 => dialect.say(&Utterance::Interrupt, &mut out),
        2 => {
            let remaining = Remaining::default();
            dialect.say(&Utterance::BudgetUpdate { remaining }, &mut out);
        }
        3 => {
            dialect.say(&Utterance::Decide { request: text, option: None, reason: None }, &mut out)
        }
        4 => {
            let answer = ToolAnswer::Error { code: Code::UnknownTool, message: String::new() };
            dialect.say(&Utterance::ToolResult { tool_call_id: text, answer }, &mut out);
        }
        5 => dialect.say(&Utterance::Shutdown { reason: Code::Cancelled }, &mut out),
        6 => dialect.tick(Timestamp(said.answer as i64 >> 20), &mut out),
        _ => {}
    }
    out
}

/// What came of it can be written, is an agent's to say, and is bounded by what was heard; what is
/// said is one line of JSON each.
fn well_said(all: &[Out], scene: &Scene) -> Result<(), String> {
    let heard: usize = scene.lines.iter().map(|said| said.bytes.len()).sum();
    let mut told = 0;
    for out in all {
        for draft in &out.drafts {
            let written = serde_json::to_vec(&draft.body)
                .map_err(|error| format!("cannot be written: {error}"))?;
            told += written.len();
            let kind = draft.body.kind();
            let ours = ["result", "lease", "lifecycle", "budget"].contains(&kind);
            holds(!ours, || format!("a dialect tells what is not its own: {kind}"))?;
        }
        told += out.frames.iter().map(Vec::len).sum::<usize>();
    }
    // The opening may be any bytes, such as a prompt.
    for frame in all.iter().skip(1).flat_map(|out| &out.frames) {
        let inside = frame.strip_suffix(b"\n").unwrap_or_default();
        let json = serde_json::from_slice::<IgnoredAny>(inside).is_ok();
        let one = memchr::memchr2(b'\n', b'\r', inside).is_none();
        holds(json && one, || format!("not one line: {}", String::from_utf8_lossy(frame)))?;
    }
    let most = heard * OUT_BYTES_FACTOR + (scene.lines.len() + 2) * OUT_LINE_BYTES;
    holds(told <= most, || format!("it tells more than it heard: {told} bytes of {heard}"))
}

/// The first line of which something else came, for whoever reads the report.
fn other(whole: &[Out], moved: &[Out]) -> String {
    let place = whole.iter().zip(moved).position(|(one, other)| one != other);
    match place {
        Some(place) => format!("line {place}: {:?}\n  and {:?}", whole[place], moved[place]),
        None => format!("{} lines and {}", whole.len(), moved.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::growth::renamed;
    use super::*;
    use contract::event::{Lease, LeaseAction, Log};
    use contract::{Card, Draft, Fault, LaunchPlan};
    use runtimes::ExitEvidence;

    #[test]
    fn ids_are_other_ids_in_every_round_and_numbers_stay() {
        let line = br#"{"id":"call_0a1\"2","n":12}"#;
        assert_eq!(renamed(line, 0), line);
        assert_eq!(renamed(line, 21), br#"{"id":"call_1a3\"2","n":12}"#);
        let all: std::collections::BTreeSet<_> = (0..1_000).map(|n| renamed(line, n)).collect();
        assert_eq!(all.len(), 1_000);
    }

    /// A runtime that is broken on purpose, in one way.
    #[derive(Clone, Copy, PartialEq)]
    enum Broken {
        Nowhere,
        ForgetsWhenSaved,
        RefusesItsOwnState,
        RepeatsEverything,
        SaysHalfALine,
        GivesUpTheLeaseItself,
        RemembersEverything,
    }

    /// Counts what it hears, as a `log`.
    struct Parrot {
        broken: Broken,
        heard: Vec<String>,
        count: usize,
    }

    impl Dialect for Parrot {
        fn open(&mut self) -> Option<Vec<u8>> {
            None
        }

        fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
            self.count += 1;
            let mut text = self.count.to_string();
            if matches!(self.broken, Broken::RepeatsEverything | Broken::RemembersEverything) {
                self.heard.push(String::from_utf8_lossy(frame.bytes).into_owned());
            }
            if self.broken == Broken::RepeatsEverything {
                text = self.heard.concat();
            }
            let log = Log { stream: frame.stream.into(), text, level: None };
            out.drafts.push(Draft::agent(Body::Log(log)));
            if self.broken == Broken::SaysHalfALine {
                out.frames.push(b"{}".to_vec());
            }
            if self.broken == Broken::GivesUpTheLeaseItself {
                let (action, expires_at) = (LeaseAction::Released, None);
                out.drafts.push(Draft::agent(Body::Lease(Lease { action, expires_at })));
            }
        }

        fn say(&mut self, _: &Utterance, _: &mut Out) {}

        fn tick(&mut self, _: Timestamp, _: &mut Out) {}

        fn close(&mut self, _: Close, _: &mut Out) {}

        fn farewell(&self, _: Code) -> Option<Vec<u8>> {
            None
        }

        fn save(&self) -> Vec<u8> {
            let count = if self.broken == Broken::ForgetsWhenSaved { 0 } else { self.count };
            serde_json::to_vec(&(count, &self.heard)).unwrap()
        }
    }

    impl Runtime for Broken {
        fn card(&self) -> Card {
            registry::all()[0].card()
        }

        fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
            registry::all()[0].plan(spec)
        }

        fn dialect(&self, _: &Spec) -> Box<dyn Dialect> {
            Box::new(Parrot { broken: *self, heard: Vec::new(), count: 0 })
        }

        fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
            let refused = |_| Fault::new(Code::ProcessLost, "no state");
            if *self == Self::RefusesItsOwnState {
                return Err(Fault::new(Code::ProcessLost, "no state"));
            }
            let (count, heard): (usize, _) = serde_json::from_slice(state).map_err(refused)?;
            // A damaged count is no matter of this test.
            Ok(Box::new(Parrot { broken: *self, heard, count: count.min(1_000_000) }))
        }

        fn classify(&self, _: &ExitEvidence<'_>) -> Option<Code> {
            None
        }
    }

    /// What is found first over some inputs of many lines, and in a long run.
    fn found(broken: Broken) -> Option<String> {
        let line = format!("{{\"id\":\"call_0a1b2\",\"text\":\"{}\"}}\n", "x".repeat(400));
        let input = line.repeat(120).into_bytes();
        let scene = |chance: &mut Chance| Scene::of(&broken, &input, chance);
        let tried = (0..8).try_for_each(|number| {
            let mut chance = Chance::of(1, "parrot", number);
            scene(&mut chance).holds(&broken, &mut chance)
        });
        let tried =
            tried.and_then(|()| scene(&mut Chance::of(1, "parrot", 0)).stays_small(&broken));
        tried.err().map(|why| why.split(": ").next().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_dialect_broken_on_purpose_is_found_broken_each_way_and_a_sound_one_is_not() {
        use Broken::*;
        let rows = [
            (Nowhere, None),
            (ForgetsWhenSaved, Some("cut and saved elsewhere, it hears something else")),
            (RefusesItsOwnState, Some("its own state is refused")),
            (RepeatsEverything, Some("it tells more than it heard")),
            (SaysHalfALine, Some("not one line")),
            (GivesUpTheLeaseItself, Some("a dialect tells what is not its own")),
            (RemembersEverything, Some("it remembers more and more")),
        ];
        for (broken, expected) in rows {
            assert_eq!(found(broken).as_deref(), expected);
        }
    }
}
