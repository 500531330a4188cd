//! Judges a configured adapter by what its runs show: `ostler conformance agent NAME`. Whatever lane
//! the agent is driven by, its runs are events; this module rules over those, point by point, and
//! names the event that offends. It starts nothing and reads no file: the runs are made by the caller
//! (`crates/cli/src/commands/conformance/agent.rs`), which also looks at the workspace, at processes
//! and at doctor. Where a point cannot apply to an adapter, its finding says why.

use crate::verdict::{Case, Finding, Heard, Need, Place, Point};
use contract::card::{Card, SystemPrompt};
use contract::event::{Body, Event, Outcome, RunResult};
use contract::{Code, Policy};

/// How soon a run must end after a stop: the farewell and the grace of the ladder, and what a busy
/// machine takes.
pub const STOP_MS_MAX: u64 = 45_000;
/// How soon doctor must answer.
pub const DOCTOR_MS_MAX: u64 = 5_000;
/// A word that only the system prompt has.
pub const SYSTEM_WORD: &str = "heron-4731";
/// Why nothing is said of conversations.
const FIRST_FAILED: &str = "its first run did not succeed";
/// The level of a line that the dialect did not understand.
const UNRECOGNISED: &str = "unrecognised";

/// What is tested, in the order in which it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// The configuration, a broken variant of it, and doctor. No prompt is sent.
    Setup,
    /// One prompt with a system prompt, to its end.
    Answer,
    /// A request for a file under `--permission deny`.
    Deny,
    /// A long task that is stopped.
    Stop,
    /// A second prompt in the conversation of the first.
    Resume,
    /// A prompt in a conversation that does not exist.
    Unknown,
}

impl Scene {
    pub const ALL: [Self; 6] =
        [Self::Setup, Self::Answer, Self::Deny, Self::Stop, Self::Resume, Self::Unknown];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Answer => "answer",
            Self::Deny => "deny",
            Self::Stop => "stop",
            Self::Resume => "resume",
            Self::Unknown => "unknown session",
        }
    }

    /// What is asked of the agent; `given` takes the place of the first prompt.
    pub fn prompt(self, given: Option<&str>) -> Option<String> {
        let text = match self {
            Self::Setup => return None,
            Self::Answer => given.unwrap_or(
                "Answer with the code word of your instructions, and with nothing else. Use no tools.",
            ),
            Self::Deny => "Write the word `refused` into a new file refused.txt in this directory. \
                           If that is not allowed, say so and stop.",
            Self::Stop => "Count slowly from 1 to 2000 in words, one number on each line. Use no tools.",
            Self::Resume => "Repeat your last answer, and say nothing else. Use no tools.",
            Self::Unknown => "Say hello. Use no tools.",
        };
        Some(text.to_owned())
    }

    pub const fn policy(self) -> Policy {
        match self {
            Self::Deny => Policy::Deny,
            _ => Policy::AllowAll,
        }
    }
}

/// What was found out without a run.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Errors of the configuration that concern the adapter.
    pub errors: Vec<String>,
    /// How a broken variant was refused; `None` when it was taken.
    pub broken_refused: Option<Broken>,
    pub doctor_ms: u64,
    /// What doctor says keeps the adapter from running.
    pub doctor_errors: Vec<String>,
}

/// The refusal of a broken variant of the configuration.
#[derive(Debug, Clone)]
pub struct Broken {
    /// The path of the key.
    pub path: String,
}

/// What a run of a scene came to.
#[derive(Debug, Clone)]
pub struct Played {
    pub scene: Scene,
    /// The events as they were sent, one on each line.
    lines: Vec<Heard>,
    /// The same from their kind on: a report shows the beginning of a line, which is all envelope.
    shown: Vec<Heard>,
    /// Why the run was not started, if it was not.
    pub refused: Option<(Code, String)>,
    /// Why the scene could not be played at all.
    pub skipped: Option<&'static str>,
    /// The directory of the run.
    pub cwd: String,
    /// The launch plan, as JSON.
    pub plan: String,
    /// Files of the workspace that are not as they were before.
    pub changed: Vec<String>,
    /// Processes of the run that were there after its end.
    pub left: usize,
    /// From the stop to the end of the run.
    pub stopped_ms: Option<u64>,
    /// The agent's own name for its conversation, as it was kept.
    pub native_session: Option<String>,
}

impl Played {
    pub fn new(scene: Scene) -> Self {
        Self {
            scene,
            lines: Vec::new(),
            shown: Vec::new(),
            refused: None,
            skipped: None,
            cwd: String::new(),
            plan: String::new(),
            changed: Vec::new(),
            left: 0,
            stopped_ms: None,
            native_session: None,
        }
    }

    pub fn skipped(scene: Scene, why: &'static str) -> Self {
        Self { skipped: Some(why), ..Self::new(scene) }
    }

    /// Takes the next event of the run.
    pub fn hear(&mut self, line: Heard) {
        const KIND: &[u8] = br#""kind":"#;
        let from = line.bytes.windows(KIND.len()).position(|part| part == KIND).unwrap_or(0);
        self.shown.push(Heard { bytes: line.bytes[from..].to_vec(), ..line });
        self.lines.push(line);
    }

    /// The first event, which names the run.
    pub fn first(&self) -> Option<Event> {
        serde_json::from_slice(&self.lines.first()?.bytes).ok()
    }

    fn events(&self) -> impl Iterator<Item = (usize, Event)> {
        let read = |line: &Heard| serde_json::from_slice::<Event>(&line.bytes).ok();
        self.lines.iter().enumerate().filter_map(move |(at, line)| Some((at, read(line)?)))
    }

    /// The result, with its place.
    pub fn result(&self) -> Option<(usize, RunResult)> {
        self.events().find_map(|(at, event)| match event.body {
            Body::Result(result) => Some((at, result)),
            _ => None,
        })
    }
}

impl Place for Played {
    fn scene(&self) -> &'static str {
        self.scene.word()
    }

    #[expect(
        clippy::misnamed_getters,
        reason = "people are shown the lines without their envelope"
    )]
    fn lines(&self) -> &[Heard] {
        &self.shown
    }
}

/// Everything that was found out about an adapter.
#[derive(Debug, Clone)]
pub struct Trial {
    pub setup: Setup,
    pub card: Card,
    /// The adapter is to report tokens: by its runtime, or by a rule of its mapping. An agent that
    /// speaks a protocol may report them or not.
    pub promises_tokens: bool,
    pub played: Vec<Played>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    ConfigGood,
    ConfigBad,
    Doctor,
    Starts,
    ResultOnce,
    Succeeds,
    Answers,
    Figures,
    EventsValid,
    Understood,
    UsageWhole,
    QuotaValid,
    SystemPrompt,
    Cwd,
    Deny,
    StopEnds,
    StopObeys,
    NothingLeft,
    Resume,
    UnknownSession,
}

#[rustfmt::skip]
const RULES: [(Rule, Point, &str); 20] = [
    (Rule::ConfigGood, Point::new("config.good", "is configured without an error", Need::Run),
     "`ostler config check` shows the line"),
    (Rule::ConfigBad, Point::new("config.bad", "has its broken configuration refused, with the place", Need::Spec),
     "a wrong value of this adapter was accepted: report it with the configuration"),
    (Rule::Doctor, Point::new("doctor.answers", "is found by doctor within 5 s, without an error", Need::Run),
     "`ostler doctor NAME` shows every check"),
    (Rule::Starts, Point::new("run.starts", "is started", Need::Run),
     "`ostler doctor NAME` says what is missing; `ostler run NAME hello` shows its stderr"),
    (Rule::ResultOnce, Point::new("run.result", "ends in exactly one result, the last event", Need::Run),
     "look at the agent's last lines: `ostler record -- CMD` keeps them"),
    (Rule::Succeeds, Point::new("run.succeeds", "says that it succeeded", Need::Run),
     "a success needs a closing line of the agent: `end` of a mapping, `complete` of JSON lines"),
    (Rule::Answers, Point::new("run.answer", "gives its final answer as text", Need::Spec),
     "map the line with the final text, or end with `complete` and an output"),
    (Rule::Figures, Point::new("run.figures", "has a duration, and a cost or null", Need::Spec),
     "a cost below zero or beyond all measure is not taken: report dollars as a decimal"),
    (Rule::EventsValid, Point::new("events.valid", "has events that fit the schema, without gaps", Need::Run),
     "docs/contract.md has the schema; report this with `ostler export`"),
    (Rule::Understood, Point::new("events.understood", "prints no line that is not understood", Need::Advice),
     "map the line, or name it in `ignore`; what is not understood is kept as a log"),
    (Rule::UsageWhole, Point::new("usage.whole", "reports usage whole, or null", Need::Spec),
     "report input, output and both cache counts as numbers; say `cumulative` for totals"),
    (Rule::QuotaValid, Point::new("quota.valid", "reports quota windows as percent with an id, or none", Need::Spec),
     "a window has an id and `used_percent` from 0 to 100"),
    (Rule::SystemPrompt, Point::new("prompt.system", "is given the system prompt", Need::Spec),
     "put `{{systemPrompt}}` into `args`, or read it with `read_task`"),
    (Rule::Cwd, Point::new("prompt.cwd", "works in the directory of its run", Need::Spec),
     "take the working directory of the process, or `{{workspacePath}}`"),
    (Rule::Deny, Point::new("deny.kept", "changes nothing under `--permission deny`", Need::Spec),
     "name the flag of `deny` in the mapping's `permissions`, or leave the policy out so that it is refused"),
    (Rule::StopEnds, Point::new("stop.ends", "ends when it is stopped", Need::Run),
     "end on SIGTERM, or on the `shutdown` line"),
    (Rule::StopObeys, Point::new("stop.obeys", "ends by itself when it is told to", Need::Advice),
     "end within 15 s of SIGTERM (`graceSec`); it was killed"),
    (Rule::NothingLeft, Point::new("stop.clean", "leaves no process behind", Need::Spec),
     "do not detach children; what was left was ended by Ostler"),
    (Rule::Resume, Point::new("resume.works", "goes on with a conversation that it named", Need::Spec),
     "pass the session back (`resume` of a mapping), and name it again at the start"),
    (Rule::UnknownSession, Point::new("resume.unknown", "begins afresh when it does not know a conversation", Need::Spec),
     "print the words of `sessionUnknown`, or end with another exit status than 0"),
];

/// The points, with what to do when one fails.
pub fn points() -> impl Iterator<Item = (Point, &'static str)> {
    RULES.iter().map(|(_, point, hint)| (*point, *hint))
}

/// Rules over everything that was played so far.
pub fn judge(trial: &Trial) -> Vec<Finding> {
    let ruled = RULES.iter().map(|(rule, point, hint)| {
        let mut case = Case::new(*point);
        case.missing = "its scene was not played";
        rule.hold(trial, &mut case);
        let mut finding = case.finding();
        finding.hint = finding.why.is_some().then(|| (*hint).to_owned());
        finding
    });
    let mut findings: Vec<_> = ruled.collect();
    for finding in &mut findings {
        // A point that does not apply needs no advice.
        if finding.verdict != crate::verdict::Verdict::Fail {
            finding.hint = None;
        }
    }
    findings
}

/// Why no further scene can show anything.
pub fn dead_end(trial: &Trial) -> Option<&'static str> {
    if !trial.setup.errors.is_empty() {
        return Some("its configuration has errors");
    }
    let answer = trial.played.iter().find(|played| played.scene == Scene::Answer)?;
    match (&answer.refused, answer.result()) {
        (Some(_), _) => Some("it could not be started"),
        (None, Some((_, result))) => match result.code {
            Some(Code::NotInstalled | Code::SpawnFailed) => Some("it could not be started"),
            Some(Code::AuthRequired | Code::AuthFailed | Code::Billing) => {
                Some("its provider refused the login")
            }
            Some(Code::ProviderQuota) => Some("its quota is used up"),
            _ => None,
        },
        (None, None) => Some("its run has no result"),
    }
}

impl Rule {
    fn hold(self, trial: &Trial, case: &mut Case) {
        let Trial { setup, card, promises_tokens, played } = trial;
        let of = |scene: Scene| played.iter().find(|played| played.scene == scene);
        let nowhere = Played::new(Scene::Setup);
        match self {
            Self::ConfigGood => {
                case.seen = true;
                for error in &setup.errors {
                    case.offend(&nowhere, None, error.clone());
                }
            }
            Self::ConfigBad => match &setup.broken_refused {
                Some(broken) if !broken.path.is_empty() => case.seen = true,
                Some(_) => case.offend(&nowhere, None, "it is refused without a place"),
                None => case.offend(&nowhere, None, "a wrong value is accepted"),
            },
            Self::Doctor => {
                case.seen = setup.errors.is_empty();
                case.missing = "its configuration has errors";
                if setup.doctor_ms > DOCTOR_MS_MAX {
                    let why = format!("doctor took {} ms", setup.doctor_ms);
                    case.offend(&nowhere, None, why);
                }
                for error in &setup.doctor_errors {
                    case.offend(&nowhere, None, error.clone());
                }
            }
            Self::Starts => {
                if let Some(answer) = of(Scene::Answer) {
                    self.starts(answer, case);
                }
            }
            Self::ResultOnce | Self::Figures | Self::EventsValid | Self::QuotaValid => {
                for played in played.iter().filter(|played| !played.lines.is_empty()) {
                    case.seen = true;
                    match self {
                        Self::ResultOnce => one_result(played, case),
                        Self::Figures => figures(played, case),
                        Self::EventsValid => valid(played, case),
                        _ => quota(played, case),
                    }
                }
            }
            Self::Succeeds | Self::Answers => {
                let Some((answer, (at, result))) =
                    of(Scene::Answer).and_then(|answer| Some((answer, answer.result()?)))
                else {
                    return;
                };
                let succeeded = result.outcome == Outcome::Succeeded;
                match self {
                    Self::Succeeds if !succeeded => {
                        let code = result.code.map(Code::word).unwrap_or_default();
                        let message = result.message.unwrap_or_default();
                        case.offend(answer, Some(at), format!("it ended as {code}: {message}"));
                    }
                    Self::Answers if !succeeded => case.missing = "it did not succeed",
                    Self::Answers if has_answer(&result) => case.seen = true,
                    Self::Answers => case.offend(answer, Some(at), "its result has no text"),
                    _ => case.seen = true,
                }
            }
            Self::Understood => {
                for played in played {
                    case.seen |= !played.lines.is_empty();
                    for (at, event) in played.events() {
                        let Body::Log(log) = &event.body else { continue };
                        if log.level.as_deref() == Some(UNRECOGNISED) {
                            case.offend(played, Some(at), "this line is not understood");
                        }
                    }
                }
            }
            Self::UsageWhole => {
                let Some(answer) = of(Scene::Answer) else { return };
                usage(*promises_tokens, answer, case);
            }
            Self::SystemPrompt => {
                let Some(answer) = of(Scene::Answer).filter(|it| !it.lines.is_empty()) else {
                    return;
                };
                system_prompt(card, answer, case);
            }
            Self::Cwd => {
                case.missing = "the agent does not tell its directory";
                for played in played {
                    for (at, event) in played.events() {
                        let Body::Session(session) = &event.body else { continue };
                        let Some(told) = &session.cwd else { continue };
                        case.seen = true;
                        if *told != played.cwd {
                            let why =
                                format!("it says that it works in {told}, not {}", played.cwd);
                            case.offend(played, Some(at), why);
                        }
                    }
                }
            }
            Self::Deny => {
                let Some(deny) = of(Scene::Deny) else { return };
                denied(deny, case);
            }
            Self::StopEnds | Self::StopObeys => {
                let Some(stop) = of(Scene::Stop) else { return };
                self.stopped(stop, case);
            }
            Self::NothingLeft => {
                for played in played.iter().filter(|played| !played.lines.is_empty()) {
                    case.seen = true;
                    if played.left > 0 {
                        let why = format!("{} of its processes were left", played.left);
                        case.offend(played, None, why);
                    }
                }
            }
            Self::Resume => {
                let Some(resume) = of(Scene::Resume) else { return };
                if !has_succeeded(of(Scene::Answer)) {
                    case.missing = FIRST_FAILED;
                    return;
                }
                let first = of(Scene::Answer).and_then(|answer| answer.native_session.as_deref());
                resumed(card, first, resume, case);
            }
            Self::UnknownSession => {
                let Some(unknown) = of(Scene::Unknown) else { return };
                if !has_succeeded(of(Scene::Answer)) {
                    case.missing = FIRST_FAILED;
                    return;
                }
                afresh(card, unknown, case);
            }
        }
    }

    fn starts(self, answer: &Played, case: &mut Case) {
        if let Some((code, message)) = &answer.refused {
            return case.offend(answer, None, format!("{}: {message}", code.word()));
        }
        match answer.result() {
            Some((at, result))
                if matches!(result.code, Some(Code::NotInstalled | Code::SpawnFailed)) =>
            {
                let why = result.message.unwrap_or_default();
                case.offend(answer, Some(at), why);
            }
            _ => case.seen = true,
        }
    }

    fn stopped(self, stop: &Played, case: &mut Case) {
        if let Some(why) = stop.skipped {
            case.missing = why;
            return;
        }
        let (Some(ms), Some((at, result))) = (stop.stopped_ms, stop.result()) else {
            case.missing = "it ended before it could be stopped";
            if stop.stopped_ms.is_some() {
                case.offend(stop, None, "it did not end");
            }
            return;
        };
        if result.outcome != Outcome::Cancelled {
            case.missing = "it ended before the stop reached it";
            return;
        }
        case.seen = true;
        let is_forced = result.evidence.forced == Some(true);
        match self {
            Self::StopObeys if is_forced => {
                case.offend(stop, Some(at), "it did not obey SIGTERM and was killed");
            }
            Self::StopEnds if ms > STOP_MS_MAX => {
                case.offend(stop, Some(at), format!("it took {ms} ms to end"));
            }
            _ => {}
        }
    }
}

fn has_succeeded(answer: Option<&Played>) -> bool {
    let result = answer.and_then(Played::result);
    result.is_some_and(|(_, result)| result.outcome == Outcome::Succeeded)
}

fn has_answer(result: &RunResult) -> bool {
    let text = result.text.as_deref().unwrap_or_default();
    !text.trim().is_empty() || result.output.as_ref().is_some_and(|output| !output.is_null())
}

fn one_result(played: &Played, case: &mut Case) {
    let last = played.lines.len().saturating_sub(1);
    let results: Vec<_> = played
        .events()
        .filter(|(_, event)| matches!(event.body, Body::Result(_)))
        .map(|(at, _)| at)
        .collect();
    match results[..] {
        [at] if at == last => {}
        [at] => case.offend(played, Some(at + 1), "an event comes after the result"),
        [] => case.offend(played, Some(last), "the run has no result"),
        [_, second, ..] => case.offend(played, Some(second), "this is a second result"),
    }
}

fn figures(played: &Played, case: &mut Case) {
    let Some((at, result)) = played.result() else { return };
    if result.totals.effective_nanousd.is_some_and(|cost| cost.0 < 0) {
        case.offend(played, Some(at), "the cost is below zero");
    }
}

fn valid(played: &Played, case: &mut Case) {
    for (at, line) in played.lines.iter().enumerate() {
        match serde_json::from_slice::<Event>(&line.bytes) {
            Err(error) => {
                case.offend(played, Some(at), format!("it does not fit the schema: {error}"))
            }
            Ok(event) if event.seq != at as u64 + 1 => {
                let why = format!("its number is {}, not {}", event.seq, at + 1);
                case.offend(played, Some(at), why);
            }
            Ok(_) => {}
        }
    }
}

fn quota(played: &Played, case: &mut Case) {
    for (at, event) in played.events() {
        let Body::Quota(quota) = &event.body else { continue };
        for window in &quota.windows {
            let is_percent = window
                .used_percent
                .is_none_or(|used| used.is_finite() && (0.0..=100.0).contains(&used));
            if window.id.is_empty() || !is_percent {
                let used = window.used_percent.unwrap_or_default();
                let why = format!("the window '{}' is used by {used} %", window.id);
                case.offend(played, Some(at), why);
            }
        }
    }
}

/// Tokens that were reported are in the result; an agent that promises them reports some.
fn usage(promised: bool, answer: &Played, case: &mut Case) {
    let Some((at, result)) = answer.result() else { return };
    let told = answer.events().find_map(|(at, event)| match event.body {
        Body::Usage(usage) => usage.tokens.map(|tokens| (at, tokens)),
        _ => None,
    });
    let succeeded = result.outcome == Outcome::Succeeded;
    match (&result.report.usage, told) {
        (None, Some((at, _))) => {
            case.offend(answer, Some(at), "tokens were reported, and the result has none");
        }
        (Some(usage), _) if usage.tokens.total() == 0 && succeeded => {
            case.offend(answer, Some(at), "the usage of a finished run has no tokens");
        }
        (Some(usage), _) if usage.tokens.output == 0 && has_answer(&result) => {
            case.offend(answer, Some(at), "there is an answer, and no tokens of output");
        }
        (None, None) if promised && succeeded => {
            case.offend(answer, Some(at), "it is to report tokens, and reported none");
        }
        (Some(_), _) | (None, None) => case.seen = true,
    }
}

fn system_prompt(card: &Card, answer: &Played, case: &mut Case) {
    let answered = answer.result().and_then(|(_, result)| result.text).unwrap_or_default();
    if answered.contains(SYSTEM_WORD) || answer.plan.contains(SYSTEM_WORD) {
        case.seen = true;
        return;
    }
    match card.can.system_prompt {
        None => case.missing = "its lane has no place for a system prompt that can be seen",
        // It goes with the prompt to standard input, which no plan shows.
        Some(SystemPrompt::Prepend) => {
            case.missing = "it is put before the prompt, and the answer does not tell";
        }
        Some(SystemPrompt::Flag | SystemPrompt::File) => {
            case.offend(answer, None, "neither the launch plan nor the answer has it");
        }
    }
}

fn denied(deny: &Played, case: &mut Case) {
    if let Some((code, message)) = &deny.refused {
        match code {
            Code::PolicyNotPossible => case.missing = "it cannot be held to `deny`, and says so",
            _ => case.offend(deny, None, format!("{}: {message}", code.word())),
        }
        return;
    }
    let Some((at, result)) = deny.result() else { return };
    case.seen = true;
    if let Some(changed) = deny.changed.first() {
        case.offend(deny, Some(at), format!("{changed} was changed"));
    } else if result.code == Some(Code::PolicyBroken) {
        case.offend(deny, Some(at), result.message.unwrap_or_default());
    } else if result.code == Some(Code::PolicyNotPossible) {
        (case.seen, case.missing) = (false, "it cannot be held to `deny`, and says so");
    }
}

/// `first` is the conversation of the first run.
fn resumed(card: &Card, first: Option<&str>, resume: &Played, case: &mut Case) {
    if !card.can.resume {
        case.missing = "its card says that it cannot resume";
        return;
    }
    if let Some(why) = resume.skipped {
        case.offend(resume, None, why);
        return;
    }
    if let Some((code, message)) = &resume.refused {
        return case.offend(resume, None, format!("{}: {message}", code.word()));
    }
    let Some((at, result)) = resume.result() else { return };
    if result.outcome != Outcome::Succeeded {
        let message = result.message.unwrap_or_default();
        return case.offend(resume, Some(at), format!("the second run did not succeed: {message}"));
    }
    let sessions: Vec<_> = resume
        .events()
        .filter_map(|(at, event)| match event.body {
            Body::Session(session) => Some((at, session)),
            _ => None,
        })
        .collect();
    let goes_on = |session: &contract::event::Session| {
        session.resumed || session.native_session.as_deref() == first
    };
    match sessions.last() {
        None => case.missing = "the second run names no conversation",
        Some((_, session)) if goes_on(session) => case.seen = true,
        Some((at, _)) => case.offend(resume, Some(*at), "this is another conversation"),
    }
}

fn afresh(card: &Card, unknown: &Played, case: &mut Case) {
    if !card.can.resume {
        case.missing = "its card says that it cannot resume";
        return;
    }
    if let Some(why) = unknown.skipped {
        case.missing = why;
        return;
    }
    if let Some((code, message)) = &unknown.refused {
        return case.offend(unknown, None, format!("{}: {message}", code.word()));
    }
    let Some((at, result)) = unknown.result() else { return };
    match result.outcome {
        Outcome::Succeeded => case.seen = true,
        _ => {
            let message = result.message.unwrap_or_default();
            case.offend(unknown, Some(at), format!("it did not begin afresh: {message}"));
        }
    }
}
