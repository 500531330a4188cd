//! `ostler conformance http URL`: a scripted caller of ca-http-v1. Each scene opens a session of its
//! own and closes it again, whatever comes of it; `wire` has the hands, `points` what is judged. Nothing
//! is started here and nothing is stored: a server is judged by what it answers, from outside.

mod points;
mod wire;

use super::{Judged, Progress, interrupted, patience_ms};
use crate::args;
use crate::commands::Stopped;
use contract::{Code, Fault};
use points::{Book, Point};
use serde_json::{Value, json};
use std::time::Duration;
use wire::{Answer, Caller, Record, Stream};

/// Sessions are answered this many times at most before one counts as endless.
const CALLS_MAX: usize = 64;
/// Records of one session that are read before it counts as endless.
const RECORDS_MAX: usize = 10_000;
/// How soon a session must end after a shutdown.
const SHUTDOWN_MS: u64 = 10_000;

pub(super) async fn judged(
    progress: &mut Progress<'_>,
    args: &args::JudgedHttp,
) -> Result<Judged, Stopped> {
    let token = match &args.token_env {
        None => None,
        Some(name) => match progress.context.surroundings.vars.get(name) {
            Some(token) => Some(token.trim().to_owned()),
            None => {
                let message = format!("--token-env {name}: the variable is not set");
                return Err(Fault::new(Code::Usage, message).into());
            }
        },
    };
    let patience = Duration::from_millis(patience_ms(args.patience));
    let caller = Caller::new(&args.url, token, patience)?;
    let mut judge = Judge {
        caller,
        prompt: args.prompt.clone(),
        book: Book::default(),
        names: 0,
        resumes: false,
    };
    let mut cut_short = None;
    for scene in Scene::ALL {
        progress.plays(scene.word());
        let played = interrupted(async { Ok(judge.play(scene).await) }).await?;
        progress.found(&judge.book.findings())?;
        if let Err(why) = played {
            cut_short = Some(why);
            break;
        }
    }
    Ok(Judged { findings: judge.book.findings(), cut_short })
}

/// One part of the conversation, in the order in which they are played.
#[derive(Debug, Clone, Copy)]
enum Scene {
    /// Tests that a server answers, and that it refuses a wrong or missing token, a body that is not JSON,
    /// and a session that does not exist.
    Strangers,
    /// One session to its end.
    Plain,
    /// A session that is told to leave.
    Shutdown,
    /// A session that is closed in the middle.
    Deleted,
}

impl Scene {
    const ALL: [Self; 4] = [Self::Strangers, Self::Plain, Self::Shutdown, Self::Deleted];

    const fn word(self) -> &'static str {
        match self {
            Self::Strangers => "strangers",
            Self::Plain => "plain",
            Self::Shutdown => "shutdown",
            Self::Deleted => "deleted",
        }
    }
}

struct Judge {
    caller: Caller,
    prompt: String,
    book: Book,
    names: u32,
    /// A session said that later ones can resume it.
    resumes: bool,
}

/// A session that was opened, and what was heard of it.
#[derive(Default)]
struct Heard {
    records: Vec<Record>,
    /// The number of the next input.
    inputs: u64,
    calls: usize,
    last_id: Option<String>,
    ended: bool,
    /// It was told to leave.
    leaving: bool,
}

fn number(id: &str) -> Option<u64> {
    id.parse().ok()
}

impl Judge {
    /// Plays a scene; fails with the reason why no other scene can be played.
    async fn play(&mut self, scene: Scene) -> Result<(), &'static str> {
        match scene {
            Scene::Strangers => {
                let reached = self.caller.get("/healthz", None).await;
                self.book.hold(Point::Health, reached.status == Some(200), || reached.told());
                if reached.status.is_none() {
                    self.book.hold(Point::Create, false, || reached.told());
                    return Err("no server answers there");
                }
                let unknown = self.caller.get("/v1/sessions/no-such-session/events", None).await;
                if unknown.status == Some(401) {
                    self.book.hold(Point::Create, false, || unknown.told());
                    return Err(match self.caller.has_token() {
                        true => "the server refuses the token of --token-env",
                        false => "the server wants a token: give it with --token-env NAME",
                    });
                }
                self.strangers().await;
            }
            Scene::Plain => self.plain().await,
            Scene::Shutdown => self.shutdown().await,
            Scene::Deleted => self.deleted().await,
        }
        Ok(())
    }

    /// A name that no other session has, on this server or the next.
    fn name(&mut self) -> String {
        self.names += 1;
        format!("{}-{}", host::chance::run_id(), self.names)
    }

    fn body(&self, name: &str) -> Value {
        json!({
            "runId": name, "taskId": null, "agentId": null, "protocol": "ca-http-v1",
            "prompt": self.prompt, "systemPrompt": null, "model": null,
            "task": { "title": "conformance", "body": self.prompt }, "fencingToken": 2,
            "leaseToken": "none", "mcpUrl": null, "workspace": null, "sessionResume": null,
            "budgetEnvelope": {},
        })
    }

    /// What must be refused before anything is opened.
    async fn strangers(&mut self) {
        let body = self.body("nobody");
        if self.caller.has_token() {
            for token in [None, Some("not-the-token")] {
                let answer = self.caller.post_as(token, "/v1/sessions", &body).await;
                self.book.hold(Point::Auth, answer.status == Some(401), || answer.told());
            }
        }
        let nonsense = self.caller.post_text("/v1/sessions", "{\"runId\":").await;
        self.book.hold(Point::CreateForm, nonsense.is_refused(), || nonsense.told());
        let unknown = "/v1/sessions/no-such-session";
        let answers = [
            self.caller.get(&format!("{unknown}/events"), None).await,
            self.caller
                .post(&format!("{unknown}/input"), &json!({"type": "interrupt"}), None)
                .await,
            self.caller.delete(unknown).await,
        ];
        for answer in answers {
            self.book.hold(Point::Unknown, answer.status == Some(404), || answer.told());
        }
    }

    /// Opens a session of this name and gives its path, if it has one.
    async fn open(&mut self, name: &str) -> Option<String> {
        let body = self.body(name);
        let answer = self.caller.post("/v1/sessions", &body, Some(("idempotency-key", name))).await;
        let id = answer.body["id"].as_str().filter(|id| !id.is_empty() && !id.contains('/'));
        let good = answer.status == Some(201) && id.is_some();
        self.book.hold(Point::Create, good, || answer.told());
        self.book
            .hold(Point::CreateProtocol, answer.body["protocol"] == "ca-http-v1", || answer.told());
        self.resumes |= answer.body["capabilities"]["resume"] == true;
        id.map(|id| format!("/v1/sessions/{id}"))
    }

    /// One session to its end, its stream cut after the first event.
    async fn plain(&mut self) {
        let name = self.name();
        let Some(path) = self.open(&name).await else { return };
        let again = self
            .caller
            .post("/v1/sessions", &self.body(&name), Some(("idempotency-key", name.as_str())))
            .await;
        let same = again.body["id"].as_str() == path.rsplit('/').next();
        self.book.hold(Point::Idempotent, again.is_done() && same, || again.told());
        let mut heard = Heard::default();
        // Cut after the first event, and taken up twice from there: both must be told the same.
        self.listen(&path, &mut heard, Some(1)).await;
        let first = heard.last_id.clone();
        self.input_rules(&path, &mut heard).await;
        let mut again = Heard { last_id: first.clone(), ..Heard::default() };
        self.listen(&path, &mut heard, Some(2)).await;
        if heard.records.len() > 1 {
            self.listen(&path, &mut again, Some(1)).await;
            let told = again.records.first();
            let behind = told.and_then(Record::number) > first.as_deref().and_then(number);
            let same = told == heard.records.get(1);
            self.book.hold(Point::Reconnect, behind && same, || {
                let shown = told.map_or("nothing".to_owned(), Record::shown);
                format!("after id {}: {shown}", first.unwrap_or_default())
            });
        }
        while !heard.ended && self.listen(&path, &mut heard, None).await {}
        self.rule(&heard);
        let deleted = self.caller.delete(&path).await;
        self.book.hold(Point::Delete, deleted.is_done(), || deleted.told());
        self.gone(&path).await;
        if self.resumes {
            self.resumed(path.rsplit('/').next().unwrap_or_default()).await;
        }
    }

    /// A session that resumes an earlier one, and one that resumes none that the server knows. An agent
    /// may have left no conversation, so the first may be refused too, by the word for that.
    async fn resumed(&mut self, earlier: &str) {
        const UNKNOWN: &str = "native_session_unknown";
        for (session, known) in [(earlier, true), ("no-such-session", false)] {
            let name = self.name();
            let mut body = self.body(&name);
            body["sessionResume"] = json!(session);
            let key = Some(("idempotency-key", name.as_str()));
            let answer = self.caller.post("/v1/sessions", &body, key).await;
            let refused = answer.is_refused() && answer.body["code"] == UNKNOWN;
            let opened = answer.is_done() && answer.body["id"].is_string();
            self.book.hold(Point::Resume, refused || (known && opened), || answer.told());
            if let Some(id) = answer.body["id"].as_str().filter(|_| opened) {
                let deleted = self.caller.delete(&format!("/v1/sessions/{id}")).await;
                self.book.hold(Point::Delete, deleted.is_done(), || deleted.told());
            }
        }
    }

    /// After its end nobody finds it.
    async fn gone(&mut self, path: &str) {
        let events = self.caller.get(&format!("{path}/events"), None).await;
        let input = json!({ "type": "shutdown", "reason": "cancelled" });
        let input = self.caller.post(&format!("{path}/input"), &input, None).await;
        for answer in [events, input] {
            self.book.hold(Point::Gone, matches!(answer.status, Some(404 | 410)), || answer.told());
        }
    }

    /// Inputs that are refused, whoever the agent is.
    async fn input_rules(&mut self, path: &str, heard: &mut Heard) {
        let nonsense = self.caller.post_text(&format!("{path}/input"), "7").await;
        self.book.hold(Point::InputForm, nonsense.is_refused(), || nonsense.told());
        let budget = json!({ "type": "budget_update", "remaining": { "tokens": 1_000_000 } });
        heard.inputs += 1;
        let stale = self
            .caller
            .post_with(&format!("{path}/input"), &budget, &[("ostler-fence", "1".to_owned())])
            .await;
        self.book.hold(Point::Fence, stale.status == Some(409), || stale.told());
        let number = [("ostler-input", heard.inputs.to_string())];
        for _ in 0..2 {
            let taken = self.caller.post_with(&format!("{path}/input"), &budget, &number).await;
            self.book.hold(Point::Input, taken.status == Some(202), || taken.told());
        }
    }

    /// Reads until the end, or until so many records were heard in all; calls are answered on the way.
    /// False when nothing more can be had.
    async fn listen(&mut self, path: &str, heard: &mut Heard, until: Option<usize>) -> bool {
        let events = format!("{path}/events");
        let (answer, stream) = self.caller.follow(&events, heard.last_id.as_deref()).await;
        let is_stream = answer.content_type.as_deref().is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim() == "text/event-stream")
        });
        self.book.hold(Point::Stream, answer.status == Some(200) && is_stream, || answer.told());
        let Some(mut stream) = stream else { return false };
        let before = heard.records.len();
        while until.is_none_or(|until| heard.records.len() < until) {
            match stream.next().await {
                Stream::Record(record) => self.take(path, heard, record).await,
                Stream::Ended if heard.ended => {
                    self.book.hold(Point::EndCloses, true, String::new);
                    return false;
                }
                Stream::Ended => return heard.records.len() > before,
                Stream::Quiet => {
                    let point = match (heard.ended, heard.leaving) {
                        (true, _) => Point::EndCloses,
                        (false, true) => Point::Shutdown,
                        (false, false) => Point::End,
                    };
                    self.book.hold(point, false, || "no more output came".to_owned());
                    return false;
                }
                Stream::Broken(why) => {
                    self.book.hold(Point::Frames, false, || why);
                    return false;
                }
            }
            if heard.records.len() > RECORDS_MAX {
                self.book.hold(Point::End, false, || format!("{RECORDS_MAX} events and no end"));
                return false;
            }
        }
        true
    }

    async fn take(&mut self, path: &str, heard: &mut Heard, record: Record) {
        let line: Option<Value> = serde_json::from_str(&record.data).ok();
        let kind = line.as_ref().and_then(|line| line["type"].as_str()).unwrap_or_default();
        let known = points::TYPES.contains(&kind);
        self.book
            .hold(Point::Frames, line.as_ref().is_some_and(Value::is_object), || record.shown());
        self.book.hold(Point::Lines, known, || record.shown());
        if heard.ended {
            self.book.hold(Point::EndLast, false, || record.shown());
        }
        let numbers = (record.number(), heard.last_id.as_deref().map(number));
        let (rises, next) = match numbers {
            (Some(id), Some(Some(last))) => (id > last, id == last + 1),
            (Some(_), None) => (true, true),
            (Some(_), Some(None)) | (None, _) => (false, false),
        };
        self.book.hold(Point::Ids, rises, || record.shown());
        self.book.hold(Point::IdsNext, next, || record.shown());
        heard.last_id.clone_from(&record.id);
        heard.ended = heard.ended || matches!(kind, "complete" | "failed");
        if let (Some(line), "tool_call") = (&line, kind)
            && heard.calls < CALLS_MAX
        {
            heard.calls += 1;
            heard.inputs += 1;
            let answer = self.answer(line);
            let number = [("ostler-input", heard.inputs.to_string())];
            // Said twice, as after a lost answer: taken twice, it would answer a call that is closed.
            for _ in 0..2 {
                let taken = self.caller.post_with(&format!("{path}/input"), &answer, &number).await;
                self.book.hold(Point::Input, taken.status == Some(202), || taken.told());
            }
        }
        heard.records.push(record);
    }

    /// What the tools of a caller would give.
    fn answer(&self, call: &Value) -> Value {
        let value = match call["tool"].as_str().unwrap_or_default() {
            "read_task" => json!({
                "id": "task_0", "title": "conformance", "body": self.prompt, "prompt": self.prompt,
                "system_prompt": null, "inputs": [], "budget": { "remaining": {} }, "comments": [],
            }),
            "list_files" => json!({ "files": [], "truncated": false }),
            "get_budget" => json!({ "remaining": {} }),
            "report_progress" | "comment" | "mark_complete" | "mark_failed" => {
                json!({ "noted": true })
            }
            other => {
                let error = format!("unknown_tool: no tool named '{other}' is offered");
                return json!({ "type": "tool_result", "id": call["id"], "ok": false, "error": error });
            }
        };
        json!({ "type": "tool_result", "id": call["id"], "ok": true, "value": value })
    }

    /// What the whole session must hold.
    fn rule(&mut self, heard: &Heard) {
        let count = heard.records.len();
        self.book.hold(Point::End, heard.ended, || format!("{count} events, and none is the end"));
        if heard.ended {
            self.book.hold(Point::EndLast, true, String::new);
        }
    }

    /// A session that is told to leave.
    async fn shutdown(&mut self) {
        let name = self.name();
        let Some(path) = self.open(&name).await else { return };
        let shutdown = json!({ "type": "shutdown", "reason": "cancelled" });
        let number = Some(("ostler-input", "1"));
        let told = self.caller.post(&format!("{path}/input"), &shutdown, number).await;
        self.book.hold(Point::Input, told.status == Some(202), || told.told());
        let mut heard = Heard { inputs: 1, calls: CALLS_MAX, leaving: true, ..Heard::default() };
        let ends = async { while !heard.ended && self.listen(&path, &mut heard, None).await {} };
        let in_time = tokio::time::timeout(Duration::from_millis(SHUTDOWN_MS), ends).await.is_ok();
        self.book.hold(Point::Shutdown, in_time && heard.ended, || {
            format!(
                "{} events and no end {SHUTDOWN_MS} ms after it was told to",
                heard.records.len()
            )
        });
        self.caller.delete(&path).await;
    }

    /// A session that is closed while it works.
    async fn deleted(&mut self) {
        let name = self.name();
        let Some(path) = self.open(&name).await else { return };
        let deleted: Answer = self.caller.delete(&path).await;
        self.book.hold(Point::Delete, deleted.is_done(), || deleted.told());
        self.gone(&path).await;
    }
}
