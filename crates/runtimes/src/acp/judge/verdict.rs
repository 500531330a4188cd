//! From recordings to verdicts. Each point is one small rule over all scenes; the first line that
//! offends is named, and how many more there are. The rules here are about what became of the steps
//! of a scene; those about single lines are in `lines`.

use super::fields::STOPS;
use super::message::{self, Message, Seen};
use super::points::{RULES, Rule};
use super::script::{self, Scene, Step, VERSION};
use super::{Exchange, Exit, Finding, Heard, Point, Recording, lines};
use crate::acp::usage;
use crate::acp::wire::Prompted;
use crate::verdict::{self, Case, Place};
use serde::Deserialize as _;
use serde_json::Value;

/// A turn that ends so soon after it was cancelled may have ended by itself: what is asked for takes
/// far longer, but a model need not do as it is asked.
const RACE_MS: u64 = 3_000;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

/// Why no further scene can show anything: the first one was not started, or none of its lines was a
/// message.
pub fn dead_end(recordings: &[Recording]) -> Option<&'static str> {
    let first = recordings.first()?;
    let mut lines = first.lines.iter().map(|line| message::look(&line.bytes));
    let has_message = lines.any(|seen| matches!(seen, Seen::Message(_)));
    verdict::dead_end(&first.lines, &first.exit, has_message)
}

/// Judges every point, in the order of the table.
pub fn judge(recordings: &[Recording]) -> Vec<Finding> {
    let scenes: Vec<Played> = recordings.iter().map(Played::new).collect();
    let started = recordings.first().is_none_or(|first| first.exit.spawn_error.is_none());
    RULES
        .iter()
        .map(|(rule, point)| match started || *rule == Rule::Starts {
            true => ruled(*rule, *point, &scenes),
            false => Case::not_started(*point),
        })
        .collect()
}

fn ruled(rule: Rule, point: Point, scenes: &[Played]) -> Finding {
    let mut case = Case::new(point);
    match rule {
        Rule::Starts => starts(&mut case, scenes),
        Rule::LinesJson => lines::json(&mut case, scenes),
        Rule::LinesRpc => lines::rpc(&mut case, scenes),
        Rule::LinesIds => lines::ids(&mut case, scenes),
        Rule::LinesMethods => lines::methods(&mut case, scenes),
        Rule::GreetsVersion => greets_version(&mut case, scenes),
        Rule::GreetsName => greets_name(&mut case, scenes),
        Rule::GreetsDraft => greets(&mut case, scenes, Scene::Draft, |version| version == VERSION),
        Rule::GreetsFuture => greets(&mut case, scenes, Scene::Future, |version| version <= 2),
        Rule::SessionOpens => session_opens(&mut case, scenes),
        Rule::SessionNowhere => refuses(&mut case, scenes, Step::NewNowhere, None),
        Rule::TurnEnds => turn_ends(&mut case, scenes),
        Rule::TurnSays => turn_says(&mut case, scenes),
        Rule::TurnAgain => turn_again(&mut case, scenes),
        Rule::TurnLarge => turn_large(&mut case, scenes),
        Rule::TurnUsage => turn_usage(&mut case, scenes),
        Rule::TurnAfter => turn_after(&mut case, scenes),
        Rule::UpdatesSession => lines::sessions(&mut case, scenes),
        Rule::UpdatesKinds => lines::kinds(&mut case, scenes),
        Rule::UpdatesFields => lines::updates(&mut case, scenes),
        Rule::UpdatesCalls => lines::calls(&mut case, scenes),
        Rule::AsksOptions => lines::options(&mut case, scenes),
        Rule::AsksOffered => lines::offered(&mut case, scenes),
        Rule::AsksAllowed => {
            asked(&mut case, scenes, Scene::Allowed, |played| played.recording.done.allowed)
        }
        Rule::AsksDenied => {
            asked(&mut case, scenes, Scene::Denied, |played| played.recording.done.denied)
        }
        Rule::AsksObeys => asks_obeys(&mut case, scenes),
        Rule::AsksWithdrawn => cancelled(&mut case, scenes, Scene::Withdrawn, lines::NEVER_ASKED),
        Rule::CancelEnds => cancelled(&mut case, scenes, Scene::Cancelled, OVER),
        Rule::CancelAgain => cancel_again(&mut case, scenes),
        Rule::ErrorsMethod => {
            refuses(&mut case, scenes, Step::UnknownMethod, Some(METHOD_NOT_FOUND))
        }
        Rule::ErrorsParams => refuses(&mut case, scenes, Step::NewWithout, Some(INVALID_PARAMS)),
        Rule::ErrorsSession => refuses(&mut case, scenes, Step::PromptUnknown, None),
        Rule::HearsStrangers => hears(&mut case, scenes, Step::UnknownNotification),
        Rule::HearsBroken => hears(&mut case, scenes, Step::BrokenLine),
        Rule::LoadOpens => load_opens(&mut case, scenes),
        Rule::LoadHistory => load_history(&mut case, scenes),
        Rule::LoadAgain => load_again(&mut case, scenes),
        Rule::LoadUnknown => load_unknown(&mut case, scenes),
        Rule::LeavesEof => leaves_eof(&mut case, scenes, false),
        Rule::LeavesMidturn => leaves_eof(&mut case, scenes, true),
        Rule::LeavesTerm => leaves_term(&mut case, scenes),
    }
    case.finding()
}

const NO_TURN: &str = "no turn came that far";
const OVER: &str = "its turn was over before it could be cancelled";
const NO_LOAD: &str = "no session was loaded again";

/// A scene with its lines looked at.
pub(super) struct Played<'a> {
    pub recording: &'a Recording,
    pub seen: Vec<Seen>,
}

impl Place for Played<'_> {
    fn scene(&self) -> &'static str {
        self.recording.scene.word()
    }

    fn lines(&self) -> &[Heard] {
        &self.recording.lines
    }
}

impl<'a> Played<'a> {
    fn new(recording: &'a Recording) -> Self {
        let seen = recording.lines.iter().map(|line| message::look(&line.bytes)).collect();
        Self { recording, seen }
    }

    fn exchanges(&self) -> impl Iterator<Item = &'a Exchange> {
        self.recording.exchanges.iter()
    }

    fn turns(&self) -> impl Iterator<Item = &'a Exchange> {
        self.exchanges().filter(|exchange| matches!(exchange.step, Step::Prompt(..)))
    }

    fn message(&self, at: usize) -> Option<&Message> {
        match self.seen.get(at)? {
            Seen::Message(message) => Some(message),
            Seen::Blank | Seen::NotAnObject { .. } => None,
        }
    }

    /// The reply to a step, with its place.
    fn reply(&self, exchange: &Exchange) -> Option<(usize, &Message)> {
        let at = exchange.reply?;
        Some((at, self.message(at)?))
    }

    /// The names of all sessions that replies opened.
    pub(super) fn opened(&self) -> impl Iterator<Item = &str> {
        self.exchanges().filter_map(|exchange| {
            let (_, reply) = self.reply(exchange)?;
            reply.result()?["sessionId"].as_str()
        })
    }

    /// The updates of a session in this part of the lines: their places and kinds.
    fn updates(
        &self,
        session: Option<&str>,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (usize, &str)> {
        (from..to.min(self.seen.len())).filter_map(move |at| {
            let message = self.message(at)?;
            let (kind, _) = message.update()?;
            (message.session() == session).then_some((at, kind))
        })
    }

    /// Whether an update of a session tells the tokens of an answer, as a run would read it.
    fn tells_usage(&self, session: Option<&str>) -> bool {
        (0..self.seen.len()).filter_map(|at| self.message(at)).any(|message| {
            let update = message.update().filter(|_| message.session() == session);
            update.is_some_and(|(_, update)| usage::of_update(update.get("_meta")).is_some())
        })
    }

    /// A line that our own end of the process may have cut says nothing.
    pub(super) fn was_cut(&self, at: usize) -> bool {
        self.recording.done.told && !self.recording.lines[at].ended
    }

    /// Why something never came.
    fn how(&self) -> String {
        let Recording { done, exit, .. } = self.recording;
        match exit {
            Exit { spawn_error: Some(error), .. } => format!("it could not be started: {error}"),
            _ if done.closed_after.is_some() => "it did not answer in time".to_owned(),
            Exit { signal: Some(signal), .. } => format!("it died of signal {signal}"),
            Exit { code: Some(code), .. } => format!("it exited with {code}"),
            Exit { code: None, signal: None, .. } => "how it ended is not known".to_owned(),
        }
    }

    /// Holds the missing reply, or the error instead of one, against the agent; gives the result.
    fn result(&self, case: &mut Case, exchange: &Exchange) -> Option<(usize, &Value)> {
        case.seen = true;
        let Some((at, reply)) = self.reply(exchange) else {
            case.offend(self, None, format!("it was not answered: {}", self.how()));
            return None;
        };
        match (reply.error(), reply.result()) {
            (Some(error), _) => {
                let code = &error["code"];
                let said = error["message"].as_str().unwrap_or_default();
                case.offend(self, Some(at), format!("it was refused with {code}: {said}"));
                None
            }
            (None, Some(result)) => Some((at, result)),
            (None, None) => {
                case.offend(self, Some(at), "it was answered without a result");
                None
            }
        }
    }
}

fn of_scene<'s>(scenes: &'s [Played<'s>], scene: Scene) -> Option<&'s Played<'s>> {
    scenes.iter().find(|played| played.recording.scene == scene)
}

fn starts(case: &mut Case, scenes: &[Played]) {
    for played in scenes {
        case.seen = true;
        if let Some(error) = &played.recording.exit.spawn_error {
            case.offend(played, None, error.as_str());
        }
    }
}

/// The greetings that were said with version 1.
fn greetings<'s>(scenes: &'s [Played<'s>]) -> impl Iterator<Item = (&'s Played<'s>, &'s Exchange)> {
    scenes.iter().flat_map(|played| {
        let ours = |exchange: &&Exchange| exchange.step == Step::Greet(VERSION);
        played.exchanges().filter(ours).map(move |exchange| (played, exchange))
    })
}

fn greets_version(case: &mut Case, scenes: &[Played]) {
    for (played, exchange) in greetings(scenes) {
        let Some((at, result)) = played.result(case, exchange) else { continue };
        match result["protocolVersion"].as_u64() {
            Some(VERSION) => {}
            Some(other) => case.offend(played, Some(at), format!("it answered with {other}")),
            None => case.offend(played, Some(at), "protocolVersion must be a number"),
        }
    }
}

fn greets_name(case: &mut Case, scenes: &[Played]) {
    case.missing = "it did not greet";
    for (played, exchange) in greetings(scenes) {
        let Some((at, reply)) = played.reply(exchange) else { continue };
        let Some(result) = reply.result() else { continue };
        case.seen = true;
        let said = |name: &str| result["agentInfo"][name].as_str().is_some_and(|s| !s.is_empty());
        if !(said("name") && said("version")) {
            case.offend(played, Some(at), "agentInfo has no name and version");
        }
    }
}

/// The greeting of a scene is answered with a version that fits.
fn greets(case: &mut Case, scenes: &[Played], scene: Scene, fits: fn(u64) -> bool) {
    let Some(played) = of_scene(scenes, scene) else { return };
    for exchange in played.exchanges() {
        let Some((at, result)) = played.result(case, exchange) else { continue };
        match result["protocolVersion"].as_u64() {
            Some(version) if fits(version) => {}
            Some(version) => case.offend(played, Some(at), format!("it answered with {version}")),
            None => case.offend(played, Some(at), "protocolVersion must be a number"),
        }
    }
}

fn session_opens(case: &mut Case, scenes: &[Played]) {
    case.missing = "it was not greeted in time, or in another version";
    for played in scenes {
        for exchange in played.exchanges().filter(|exchange| exchange.step == Step::New) {
            let Some((at, result)) = played.result(case, exchange) else { continue };
            if result["sessionId"].as_str().is_none_or(str::is_empty) {
                case.offend(played, Some(at), "sessionId must be a text with something in it");
            }
        }
    }
}

/// A step that must be refused, with this code where one is wanted.
fn refuses(case: &mut Case, scenes: &[Played], step: Step, code: Option<i64>) {
    case.missing = "nothing was asked of it that it could have refused";
    for played in scenes {
        // What is asked again is asked for another reason.
        let first = played.exchanges().find(|exchange| exchange.step == step);
        let Some(exchange) = first else { continue };
        case.seen = true;
        let Some((at, reply)) = played.reply(exchange) else {
            let why = format!("it was not answered: {}", unanswered(played, exchange));
            case.offend(played, None, why);
            continue;
        };
        match (reply.error().map(|error| error["code"].as_i64()), code) {
            (None, _) => case.offend(played, Some(at), "it was not refused"),
            (Some(said), Some(code)) if said != Some(code) => {
                let said = said.map_or_else(|| "no code".to_owned(), |said| said.to_string());
                case.offend(played, Some(at), format!("it was refused with {said}"));
            }
            (Some(_), _) => {}
        }
    }
}

/// Why a step that others follow was not answered: an agent that went on had time enough.
fn unanswered(played: &Played, exchange: &Exchange) -> String {
    let last = played.recording.exchanges.last();
    match last.is_some_and(|last| last.id != exchange.id) {
        true => "it said nothing for five seconds".to_owned(),
        false => played.how(),
    }
}

fn turn_ends(case: &mut Case, scenes: &[Played]) {
    case.missing = "no session was opened";
    for played in scenes {
        for (number, turn) in played.turns().enumerate() {
            // A turn that is disturbed on purpose, or that others came before, has a point of its
            // own: of it only the reason is looked at.
            if played.recording.scene == Scene::Plain && number == 0 {
                played.result(case, turn);
            }
            let Some((at, reply)) = played.reply(turn) else { continue };
            let Some(result) = reply.result() else { continue };
            match result["stopReason"].as_str() {
                Some(reason) if STOPS.contains(&reason) => {}
                Some(reason) => {
                    case.offend(played, Some(at), format!("there is no stopReason '{reason}'"));
                }
                None => case.offend(played, Some(at), "stopReason must be a text"),
            }
        }
    }
}

fn turn_says(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_TURN;
    for played in scenes.iter().filter(|played| played.recording.scene == Scene::Plain) {
        for turn in played.turns() {
            let Some((at, _)) = played.reply(turn).filter(|(_, reply)| reply.error().is_none())
            else {
                continue;
            };
            case.seen = true;
            let works = |kind: &str| ["agent_message_chunk", "tool_call"].contains(&kind);
            let mut updates = played.updates(turn.session.as_deref(), turn.after, at);
            if !updates.any(|(_, kind)| works(kind)) {
                case.offend(played, Some(at), "the turn ended without a word and without a call");
            }
        }
    }
}

/// The turn of this number in a scene is answered, and not with an error.
fn turn_in(case: &mut Case, scenes: &[Played], scene: Scene, number: usize) {
    let Some(played) = of_scene(scenes, scene) else { return };
    let Some(turn) = played.turns().nth(number) else { return };
    played.result(case, turn);
}

fn turn_again(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_TURN;
    turn_in(case, scenes, Scene::Plain, 1);
}

/// An error is an answer too: not every model takes so much.
fn turn_large(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_TURN;
    let Some(played) = of_scene(scenes, Scene::Large) else { return };
    for turn in played.turns() {
        case.seen = true;
        if played.reply(turn).is_none() {
            case.offend(played, None, format!("it was not answered: {}", played.how()));
        }
    }
}

fn cancel_again(case: &mut Case, scenes: &[Played]) {
    case.missing = "no turn was cancelled before it";
    let Some(played) = of_scene(scenes, Scene::Cancelled) else { return };
    let first = played.turns().next().and_then(|turn| played.reply(turn)?.1.result());
    if first.is_some_and(|result| result["stopReason"] == "cancelled") {
        turn_in(case, scenes, Scene::Cancelled, 1);
    }
}

/// Something that wants no answer was said, and what comes after it is answered.
fn hears(case: &mut Case, scenes: &[Played], step: Step) {
    case.missing = "the conversation did not come that far";
    let Some(played) = of_scene(scenes, Scene::Strangers) else { return };
    let Some(said) = played.exchanges().position(|exchange| exchange.step == step) else { return };
    case.seen = true;
    if !played.exchanges().skip(said).any(|exchange| exchange.reply.is_some()) {
        case.offend(played, None, format!("nothing was answered after it: {}", played.how()));
    }
}

fn turn_usage(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_TURN;
    for played in scenes.iter().filter(|played| played.recording.scene == Scene::Plain) {
        for turn in played.turns() {
            let Some((at, reply)) = played.reply(turn) else { continue };
            let Some(result) = reply.result() else { continue };
            case.seen = true;
            let reply = Prompted::deserialize(result).unwrap_or_default();
            let told = usage::of_turn(&reply).iter().any(|spent| spent.tokens.total() > 0);
            if !told && !played.tells_usage(turn.session.as_deref()) {
                case.offend(played, Some(at), "neither the reply nor an update has usage");
            }
        }
    }
}

fn turn_after(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_TURN;
    for played in scenes {
        // Only behind the last turn is it clear which turn an update belongs to.
        let Some(turn) = played.turns().last() else { continue };
        let Some((at, _)) = played.reply(turn) else { continue };
        case.seen = true;
        let of_turn =
            ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"];
        let late: Vec<_> = played.updates(turn.session.as_deref(), at + 1, usize::MAX).collect();
        for (late, kind) in late {
            if of_turn.contains(&kind) {
                case.offend(played, Some(late), format!("the turn ended with line {}", at + 1));
            }
        }
    }
}

/// Questions were answered so, and the turns in which they were asked end all the same.
fn asked(case: &mut Case, scenes: &[Played], scene: Scene, count: fn(&Played) -> usize) {
    case.missing = lines::NEVER_ASKED;
    let whole = |played: &&Played| [scene, Scene::Plain].contains(&played.recording.scene);
    for played in scenes.iter().filter(whole).filter(|played| count(played) > 0) {
        for turn in played.turns() {
            played.result(case, turn);
        }
    }
}

fn asks_obeys(case: &mut Case, scenes: &[Played]) {
    case.missing = lines::NEVER_ASKED;
    for played in scenes.iter().filter(|played| played.recording.done.denied > 0) {
        case.seen = true;
        if played.recording.done.wrote {
            let why = format!("{} is there, and all that was asked was denied", script::FILE);
            case.offend(played, None, why);
        }
    }
}

/// A turn that was cancelled ends with that word.
fn cancelled(case: &mut Case, scenes: &[Played], scene: Scene, missing: &'static str) {
    case.missing = missing;
    let Some(played) = of_scene(scenes, scene) else { return };
    for turn in played.turns() {
        let Some(cancel) = turn.cancel else { continue };
        if let Some((at, reply)) = played.reply(turn) {
            let took_ms = played.recording.lines[at].at_ms.saturating_sub(cancel.at_ms);
            let ended = reply.result().is_some_and(|result| result["stopReason"] == "end_turn");
            // Nobody can tell who was first. One that waits for an answer cannot end by itself.
            if ended && took_ms < RACE_MS && !cancel.asked {
                continue;
            }
        }
        let Some((at, result)) = played.result(case, turn) else { continue };
        if result["stopReason"] != "cancelled" {
            let reason = result["stopReason"].as_str().unwrap_or_default();
            case.offend(played, Some(at), format!("it was cancelled, and ended with '{reason}'"));
        }
    }
}

fn loads<'s>(scenes: &'s [Played<'s>]) -> Option<(&'s Played<'s>, &'s Exchange)> {
    let played = of_scene(scenes, Scene::Loaded)?;
    Some((played, played.exchanges().find(|exchange| exchange.step == Step::Load)?))
}

fn load_opens(case: &mut Case, scenes: &[Played]) {
    case.missing = "it does not say that it can";
    let Some((played, load)) = loads(scenes) else { return };
    played.result(case, load);
}

fn load_again(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_LOAD;
    turn_in(case, scenes, Scene::Loaded, 0);
}

fn load_history(case: &mut Case, scenes: &[Played]) {
    case.missing = NO_LOAD;
    let Some((played, load)) = loads(scenes) else { return };
    let Some((at, _)) = played.reply(load).filter(|(_, reply)| reply.error().is_none()) else {
        return;
    };
    case.seen = true;
    let said = |kind: &str| ["user_message_chunk", "agent_message_chunk"].contains(&kind);
    let mut updates = played.updates(load.session.as_deref(), load.after, at);
    if !updates.any(|(_, kind)| said(kind)) {
        case.offend(played, Some(at), "it sent nothing of its history");
    }
}

fn load_unknown(case: &mut Case, scenes: &[Played]) {
    match of_scene(scenes, Scene::Strangers)
        .is_some_and(|played| script::offers_load(played.recording))
    {
        true => refuses(case, scenes, Step::LoadUnknown, None),
        // What it does not offer is a method that it does not know.
        false => refuses(case, scenes, Step::LoadUnknown, Some(METHOD_NOT_FOUND)),
    }
}

fn leaves_eof(case: &mut Case, scenes: &[Played], mid_turn: bool) {
    case.missing = "it was gone before its input ended";
    for played in scenes {
        let Recording { done, exit, scene, .. } = played.recording;
        // Where it owes us an answer it is not asked whether it would leave.
        let turn = match mid_turn {
            true => *scene == Scene::Eof && done.mid_turn,
            false => !done.mid_turn && !done.hurried,
        };
        if !turn || done.closed_after.is_none() || exit.spawn_error.is_some() {
            continue;
        }
        case.seen = true;
        if done.told {
            case.offend(played, None, "it was still there five seconds later");
        }
    }
}

fn leaves_term(case: &mut Case, scenes: &[Played]) {
    case.missing = "it always left before";
    // Later ones were given less time.
    if let Some(played) = scenes.iter().find(|played| played.recording.done.told) {
        case.seen = true;
        if played.recording.done.killed {
            case.offend(played, None, "it was still there five seconds later and was killed");
        }
    }
}
