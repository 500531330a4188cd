//! What real agents once printed, played again: a recording goes through a runtime's dialect and the
//! run machine, and comes out as the events and the result that a run would have had.
//!
//! A recording is a few files of one name: `.ndjson` (standard output, or a transcript of both
//! directions), `.stderr`, `.meta.json` (how it was started and how it ended), `.requests.ndjson`
//! (what the model server was asked and what usage it reported), and `.why`, which somebody wrote
//! before the snapshot: the outcome it must come to and the reason.

use contract::command::{Command, Wish};
use contract::event::{Body, RunResult};
use contract::plan::{Adapter, Clocks, Lane};
use contract::speech::{Close, Draft};
use contract::{Code, Policy, Timestamp, Tokens, limits};
use engine::rules::price::{PriceTable, Prices, price};
use engine::{Effect, Input, Machine, Now, SessionSpent, Step, Terms, Testimony};
use runtimes::join::Joiner;
use runtimes::template::Context;
use runtimes::{Dialect, ExitEvidence, Frame, Out, Runtime, Spec, Stream};
use serde_json::Value;
use std::path::Path;

/// One run of a real agent.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub name: String,
    pub why: String,
    /// Lines without their newlines; the last one may have been cut.
    pub stdout: Vec<Vec<u8>>,
    /// What the agent was told, of a transcript of both directions.
    pub told: Vec<Value>,
    pub stderr: Vec<Vec<u8>>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Whoever recorded it lost patience and ended it.
    pub ended_by_us: bool,
    /// What the model server reported for each request, in order.
    pub requests: Vec<Value>,
    /// How many of those belong to the run whose conversation this one takes up.
    pub requests_before: usize,
    pub argv: Vec<String>,
    pub version: String,
    /// What the agent was allowed, where that is not everything.
    pub policy: Option<Policy>,
    /// The conversation of the agent's own that it was to take up.
    pub resumed: Option<String>,
    /// How many lines of stdout had come when all of stderr did. Nobody noted the times of stderr; an
    /// agent says there why it waits, so it is taken to have spoken in the longest pause of stdout.
    pub stderr_after: usize,
}

/// What came of playing it.
#[derive(Debug)]
pub struct Played {
    /// Events after joining, the result last.
    pub drafts: Vec<Draft>,
    pub result: RunResult,
    /// What was said to the agent, the opening first.
    pub said: Vec<String>,
    /// The agent's own conversation, if it was worth keeping.
    pub session: Option<String>,
}

impl Recording {
    /// Every recording of a folder, by name. Transcripts give what the agent said in them.
    pub fn all(folder: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let names = entries.filter_map(|entry| {
            let name = entry.expect("a folder that can be read").file_name();
            name.to_str()?.strip_suffix(".ndjson").map(str::to_owned)
        });
        let mut names: Vec<_> = names.filter(|name| !name.ends_with(".requests")).collect();
        names.sort();
        names.iter().map(|name| Self::read(folder, name)).collect()
    }

    pub fn read(folder: &Path, name: &str) -> Self {
        let file = |kind: &str| folder.join(format!("{name}.{kind}"));
        let bytes = |kind: &str| std::fs::read(file(kind)).unwrap_or_default();
        let meta: Value = serde_json::from_slice(&bytes("meta.json")).unwrap_or_default();
        let stdout = heard(lines(&bytes("ndjson")));
        let stderr_after = longest_pause(&meta).filter(|place| *place <= stdout.len());
        let exit = meta["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok());
        let word = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            name: name.to_owned(),
            why: String::from_utf8_lossy(&bytes("why")).trim().to_owned(),
            told: told(&lines(&bytes("ndjson"))),
            stderr_after: stderr_after.unwrap_or(stdout.len()),
            stdout,
            stderr: lines(&bytes("stderr")),
            exit_code: exit.filter(|code| *code >= 0),
            signal: exit.filter(|code| *code < 0).map(|code| -code),
            ended_by_us: meta["timed_out"] == true,
            requests: lines(&bytes("requests.ndjson"))
                .iter()
                .filter_map(|line| serde_json::from_slice(line).ok())
                .collect(),
            requests_before: meta["first_run_requests"]
                .as_u64()
                .map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX)),
            argv: meta["argv"].as_array().into_iter().flatten().filter_map(word).collect(),
            version: word(&meta["version"]).unwrap_or_default(),
            policy: serde_json::from_value(meta["policy"].clone()).ok(),
            resumed: word(&meta["resumed_session"]),
        }
    }

    /// The spec that leads to what the agent was told, as far as its notes or a transcript show it: the
    /// session that was taken up, the model that was asked for, and whether its questions were allowed.
    pub fn as_it_was(&self, spec: &Spec) -> Spec {
        let param = |method: &str, name: &str| {
            let told = self.told.iter().find(|told| told["method"] == method)?;
            told["params"][name].as_str().map(str::to_owned)
        };
        let allowed =
            self.told.iter().filter_map(|told| told["result"].get("outcome")).all(|told| {
                let option = told["optionId"].as_str().unwrap_or("reject");
                ["allow", "once", "always", "proceed"].iter().any(|word| option.starts_with(word))
            });
        Spec {
            session: param("session/load", "sessionId")
                .or(self.resumed.clone())
                .or(spec.session.clone()),
            model: param("session/set_model", "modelId").or(spec.model.clone()),
            policy: if allowed { spec.policy } else { Policy::Deny },
            ..spec.clone()
        }
    }

    /// Plays it whole.
    pub fn play(&self, runtime: &dyn Runtime, spec: &Spec) -> Played {
        self.play_until(runtime, spec, self.stdout.len(), Close::Ended)
    }

    /// Plays its first lines only. A process whose output is cut is one that was lost.
    pub fn play_until(
        &self,
        runtime: &dyn Runtime,
        spec: &Spec,
        lines: usize,
        how: Close,
    ) -> Played {
        let spec = self.as_it_was(spec);
        let spec = Spec { policy: self.policy.unwrap_or(spec.policy), ..spec };
        let mut player = Player::new(runtime, &spec, self.spent_before());
        let stdout = self.stdout[..lines].iter().enumerate();
        // Agents tell of a limit while they wait for it; whatever else they say beside their output
        // is heard last.
        let stderr_after = match self.stderr_tells_of_limits(runtime, &spec) {
            true => self.stderr_after,
            false => lines,
        };
        let (before, after): (Vec<_>, Vec<_>) =
            stdout.partition(|(index, _)| *index < stderr_after);
        let stderr = self.stderr.iter().enumerate();
        for (index, bytes) in before {
            player.hear(Stream::Stdout, index, bytes);
        }
        for (index, bytes) in stderr {
            player.hear(Stream::Stderr, index, bytes);
        }
        for (index, bytes) in after {
            player.hear(Stream::Stdout, index, bytes);
        }
        player.end(self, how)
    }

    fn stderr_tells_of_limits(&self, runtime: &dyn Runtime, spec: &Spec) -> bool {
        let mut dialect = runtime.dialect(spec);
        let mut out = Out::default();
        for (index, bytes) in self.stderr.iter().enumerate() {
            dialect.hear(&frame(Stream::Stderr, index, bytes), &mut out);
        }
        out.signals.iter().any(|signal| matches!(signal, contract::Signal::Limited(_)))
    }

    /// What the conversation that it takes up had spent, by the model server's own count. What was
    /// written to a cache counts as input, because that is how agents count that tell totals.
    fn spent_before(&self) -> Vec<SessionSpent> {
        let before = self.requests.iter().take(self.requests_before);
        let tokens = before.fold(Tokens::default(), |sum, request| {
            let count = |name: &str| request["usage"][name].as_u64().unwrap_or(0);
            sum.plus(&Tokens {
                input_uncached: count("input") + count("cache_create"),
                cache_read: count("cache_read"),
                output: count("output"),
                reasoning: request["usage"]["reasoning"].as_u64(),
                ..Tokens::default()
            })
        });
        let (provider, model) = (String::new(), String::new());
        vec![SessionSpent { provider, model, tokens, nanousd: None }]
    }

    /// How many lines must be heard before it counts as a success; `None` if it never does.
    pub fn succeeds_after(&self, runtime: &dyn Runtime, spec: &Spec) -> Option<usize> {
        (0..=self.stdout.len()).find(|lines| {
            let played = self.play_until(runtime, spec, *lines, Close::Cut);
            played.result.code.is_none()
        })
    }

    /// Hears every line once in one go and once with the dialect saved and loaded between any two;
    /// panics where that makes a difference.
    pub fn assert_it_can_be_adopted_anywhere(&self, runtime: &dyn Runtime, spec: &Spec) {
        let spec = &self.as_it_was(spec);
        let (mut whole, mut moved) = (runtime.dialect(spec), runtime.dialect(spec));
        assert_eq!(whole.open(), moved.open());
        for (index, bytes) in self.stdout.iter().enumerate() {
            let saved = moved.save();
            moved = runtime.restore(&saved).unwrap_or_else(|fault| {
                panic!("{} line {index}: its state cannot be read: {}", self.name, fault.message)
            });
            let frame = frame(Stream::Stdout, index, bytes);
            let (mut expected, mut found) = (Out::default(), Out::default());
            whole.hear(&frame, &mut expected);
            moved.hear(&frame, &mut found);
            assert_eq!(expected, found, "{} line {index}", self.name);
        }
    }
}

/// A spec as plain as can be, for a runtime with nothing configured.
pub fn spec(runtime: &dyn Runtime, lane: Lane) -> Spec {
    let id = runtime.card().id;
    let mut context = Context::new();
    context.set("mcpUrl", "http://127.0.0.1:7717/mcp").set("leaseToken", "lease-token");
    Spec {
        adapter: Adapter {
            name: id.clone(),
            runtime: id,
            mcp: true,
            trace: true,
            ..Adapter::default()
        },
        context,
        model: None,
        prompt: "Please do the small task now.".to_owned(),
        system_prompt: None,
        policy: Policy::AllowAll,
        lane,
        session: None,
        budget: Default::default(),
        counts_spending: false,
        files: "/run/files".to_owned(),
        as_root: false,
        own_program: "/usr/bin/ostler".to_owned(),
        caller_env: Default::default(),
    }
}

/// One event as a line of a snapshot.
pub fn row(draft: &Draft) -> String {
    let line = draft.raw.map_or_else(|| "-".to_owned(), |raw| raw.line.to_string());
    let body = serde_json::to_string(&draft.body).expect("an event is JSON");
    let shown: String = body.chars().take(ROW_CHARS_MAX).collect();
    let more = if shown.len() < body.len() { "…" } else { "" };
    format!("{line} {} {shown}{more}", draft.origin.word())
}

/// A longer line of a snapshot is cut: nobody reads on.
const ROW_CHARS_MAX: usize = 600;

/// A dialect and a machine, as a host would hold them.
struct Player<'a> {
    runtime: &'a dyn Runtime,
    dialect: Box<dyn Dialect>,
    machine: Machine,
    joiner: Joiner,
    drafts: Vec<Draft>,
    said: Vec<String>,
    session: Option<String>,
}

impl<'a> Player<'a> {
    fn new(runtime: &'a dyn Runtime, spec: &Spec, session_spent: Vec<SessionSpent>) -> Self {
        let mut dialect = runtime.dialect(spec);
        let said = dialect.open().into_iter().map(text).collect();
        let clocks = Clocks::default();
        // A session that is not known any more leads to another attempt, which nobody recorded.
        let attempt = if spec.session.is_some() { limits::ATTEMPTS_MAX } else { 1 };
        let terms =
            Terms { policy: spec.policy, attempt, session_spent, ..Terms::from(&clocks, 1, 1) };
        let machine = Machine::new(terms, NOW);
        let (joiner, drafts) = (Joiner::default(), Vec::new());
        let mut player = Self { runtime, dialect, machine, joiner, drafts, said, session: None };
        player.step(Input::Begin);
        player.step(Input::Launched { pid: 1, isolation: "basic".to_owned() });
        // How a run begins is the same for all and no part of what was recorded.
        player.drafts.clear();
        player
    }

    fn hear(&mut self, stream: Stream, index: usize, bytes: &[u8]) {
        let mut out = Out::default();
        self.step(Input::Heard);
        self.dialect.hear(&frame(stream, index, bytes), &mut out);
        self.spread(out);
    }

    fn spread(&mut self, out: Out) {
        for mut draft in out.drafts {
            if let Body::Usage(usage) = &mut draft.body {
                priced(usage);
            }
            self.joiner.push(draft, NOW.wall, &mut self.drafts);
        }
        self.said.extend(out.frames.into_iter().map(text));
        for mut signal in out.signals {
            if let contract::Signal::Spent(usage) = &mut signal {
                priced(usage);
            }
            self.step(Input::Signal(signal));
        }
    }

    fn step(&mut self, input: Input) {
        let mut steps = Vec::new();
        self.machine.step(NOW, input, &mut steps);
        for step in steps {
            match step {
                Step::Append(draft) => self.joiner.push(draft, NOW.wall, &mut self.drafts),
                Step::KeepSession(id) => self.session = Some(id),
                Step::Do(Effect::Say(utterance)) => {
                    let mut out = Out::default();
                    self.dialect.say(&utterance, &mut out);
                    self.spread(out);
                }
                Step::Book(_) | Step::Do(_) => {}
            }
        }
    }

    fn end(mut self, recording: &Recording, how: Close) -> Played {
        let mut out = Out::default();
        self.dialect.close(how, &mut out);
        self.spread(out);
        if recording.ended_by_us && how == Close::Ended {
            let wish = Wish::Stop { reason: Code::Cancelled, at_once: false };
            let id = "cmd_00000000000000000000000000000001".parse().expect("an id");
            let run_id = "run_00000000000000000000000000000001".parse().expect("an id");
            self.step(Input::Command(Command { id, run_id, asked_at: NOW.wall, wish }));
        }
        let stderr_tail = text(recording.stderr.join(&b'\n'));
        let exit_code = recording.exit_code.filter(|_| how == Close::Ended);
        let evidence =
            ExitEvidence { exit_code, signal: recording.signal, stderr_tail: &stderr_tail };
        let testimony = Testimony {
            exit_code,
            signal: recording.signal,
            classified: self.runtime.classify(&evidence),
            ..Testimony::default()
        };
        match how {
            Close::Ended => self.step(Input::Ended(testimony)),
            Close::Cut => self.step(Input::Lost { why: "its output was cut".to_owned() }),
        }
        self.joiner.flush(&mut self.drafts);
        let result = self.drafts.iter().find_map(|draft| match &draft.body {
            Body::Result(result) => Some(result.clone()),
            _ => None,
        });
        Played {
            result: result.expect("a run that ended has a result"),
            drafts: self.drafts,
            said: self.said,
            session: self.session,
        }
    }
}

/// Playing takes no time: what a recording's clocks would do is for scripts of the machine.
const NOW: Now = Now { wall: Timestamp(0), mono_ms: 0 };

/// By the runtime's own dollars or not at all: a table of prices would only date the snapshots.
fn priced(usage: &mut contract::event::Usage) {
    let (user, at) = (&PriceTable::default(), NOW.wall);
    price(usage, &Prices { user, imported: None, built_in: None, cost_model: None, at });
}

fn frame(stream: Stream, index: usize, bytes: &[u8]) -> Frame<'_> {
    Frame { stream, line: index as u64 + 1, bytes, cut: false }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.pop_if(|last| last.is_empty());
    lines
}

/// Of a transcript of both directions, what the agent was told.
fn told(lines: &[Vec<u8>]) -> Vec<Value> {
    let entries = entries(lines).unwrap_or_default().into_iter();
    entries.filter(|entry| entry["dir"] == "out").map(|mut entry| entry["msg"].take()).collect()
}

/// How many lines had come when nothing came for the longest time, from the first line to the end of
/// the process: what an agent does before its first line is only its start. `None` when nobody noted
/// when lines came.
fn longest_pause(meta: &Value) -> Option<usize> {
    let mut times: Vec<u64> =
        meta["line_ms"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    times.extend(meta["duration_ms"].as_u64());
    let pauses = times.windows(2).enumerate();
    let pauses = pauses.map(|(place, pair)| (place + 1, pair[1].saturating_sub(pair[0])));
    pauses.max_by_key(|(_, pause_ms)| *pause_ms).map(|(place, _)| place)
}

/// Of a transcript of both directions, what the agent said.
fn heard(lines: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    match entries(&lines) {
        Some(values) => values
            .iter()
            .filter(|value| value["dir"] == "in")
            .map(|value| match &value["msg"] {
                Value::String(raw) => raw.clone().into_bytes(),
                message => message.to_string().into_bytes(),
            })
            .collect(),
        None => lines,
    }
}

/// The entries of a transcript of both directions; `None` for what is none.
pub fn transcript(bytes: &[u8]) -> Option<Vec<Value>> {
    entries(&lines(bytes))
}

fn entries(lines: &[Vec<u8>]) -> Option<Vec<Value>> {
    let parsed: Option<Vec<Value>> =
        lines.iter().map(|line| serde_json::from_slice(line).ok()).collect();
    let entry = |value: &Value| value.get("dir").is_some() && value.get("msg").is_some();
    parsed.filter(|values| !values.is_empty() && values.iter().all(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stderr_is_heard_in_the_longest_pause_of_stdout() {
        let rows = [
            (json!({}), None),
            (json!({"line_ms": [90, 92], "duration_ms": 100}), Some(2)),
            (json!({"line_ms": [10, 95], "duration_ms": 100}), Some(1)),
            (json!({"line_ms": [10, 20], "duration_ms": 100}), Some(2)),
            (json!({"line_ms": [], "duration_ms": 100}), None),
            (json!({"line_ms": ["soon"], "duration_ms": 100}), None),
        ];
        for (meta, expected) in rows {
            assert_eq!(longest_pause(&meta), expected, "{meta}");
        }
    }
}
