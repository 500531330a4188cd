//! Taking up an agent's own conversation again: which one is meant, whether it may be taken up, and
//! what a fresh one is told instead when it is not known any more.
//! The agent's name for it comes from the store, where it was kept after a turn that went well.

use super::run::{RunRequest, Where, find, stored};
use crate::Host;
use crate::blocking;
use crate::clock;
use crate::trace::warning;
use contract::event::{Body, Event};
use contract::plan::{Adapter, Lane, LaunchPlan};
use contract::{Card, Code, Draft, Fault, RunId, limits};
use engine::SessionSpent;
use engine::rules::handover::{Past, handover};
use engine::rules::resume::{WornOut, worn_out};
use runtimes::registry::{self, Chosen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Conversation;
use store::backend::Backend as _;

/// A conversation that so many runs in a row took up and failed in is left alone.
const FAILURES_MAX: u64 = 3;

/// Which conversation is to be taken up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// The one of this agent's newest run in this directory.
    Newest,
    /// That of a run, named as people name it.
    Run(String),
}

/// What a run that goes on from another one begins with.
#[derive(Debug, Default)]
pub(super) struct TakenUp {
    /// The agent's own name for the conversation; absent when it must begin afresh.
    pub session: Option<String>,
    /// The prompt of a fresh conversation.
    pub fresh_prompt: Option<String>,
    /// What the conversation that is taken up has cost so far.
    pub spent: Vec<SessionSpent>,
    pub warnings: Vec<Draft>,
}

/// Where a run takes up a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here<'a> {
    /// Where a conversation is looked for.
    pub source: &'a Path,
    /// Where the run works.
    pub cwd: &'a Path,
    /// Whether a conversation of another directory is resumed all the same.
    pub force_cwd: bool,
}

/// Whether an agent of this card may resume a conversation. One that speaks the protocols of Ostler
/// says so by itself (`hello`, or the capabilities of a remote), so that a conversation of it that was
/// kept can be resumed.
pub(super) fn is_possible(card: &Card) -> bool {
    card.can.resume || says_so_itself(card)
}

fn says_so_itself(card: &Card) -> bool {
    card.lanes.iter().any(|lane| matches!(lane, Lane::Process | Lane::Http))
}

/// The workspace of ours that the conversation was held in which a request wants to take up, if it is
/// still there.
pub(super) async fn workspace_left(
    host: &Host,
    request: &RunRequest,
) -> Result<Option<PathBuf>, Fault> {
    let (store, trees) = (host.store(), &host.inner.trees);
    match (&request.resume, request.workspace) {
        (None, _) | (Some(_), Some(Where::Here)) => Ok(None),
        (Some(Resume::Run(run)), _) => {
            let row = store.run(find(host, run).await?).await.map_err(stored)?;
            let cwd = row.map(|row| PathBuf::from(row.cwd));
            Ok(cwd.filter(|cwd| trees.of(cwd).is_some_and(|tree| tree.can_be_entered())))
        }
        (Some(Resume::Newest), _) => {
            let (cwd, trees) = (request.cwd.clone(), Arc::clone(trees));
            let look = move || {
                let source = cwd.canonicalize().ok()?;
                let left: Vec<_> = trees.from(&source).take(limits::TREES_LOOK_MAX).collect();
                Some((source, left))
            };
            let looked = blocking::probe(&request.cwd, "find worktrees", look).await?;
            let Some((source, left)) = looked else { return Ok(None) };
            let held = held_in(host, &request.agent, &source).await?;
            let mut newest = held.map(|run| (run, None));
            for tree in left {
                let cwd = tree.cwd();
                let held = held_in(host, &request.agent, &cwd).await?;
                // Ids sort by their time.
                let later = held.filter(|run| newest.as_ref().is_none_or(|(known, _)| run > known));
                newest = later.map(|run| (run, Some(cwd))).or(newest);
            }
            Ok(newest.and_then(|(_, cwd)| cwd))
        }
    }
}

/// The run that left an agent's newest conversation in a directory.
async fn held_in(host: &Host, agent: &str, dir: &Path) -> Result<Option<RunId>, Fault> {
    let held = host.store().conversation(agent, &dir.display().to_string()).await;
    Ok(held.map_err(stored)?.map(|held| held.run))
}

/// Finds the conversation, before anything exists.
pub(super) async fn take_up(
    host: &Host,
    resume: Option<Resume>,
    agent: &str,
    adapter: &Adapter,
    runtime: &Chosen,
    Here { source, cwd, force_cwd }: Here<'_>,
    prompt: &str,
) -> Result<TakenUp, Fault> {
    let Some(resume) = resume else { return Ok(TakenUp::default()) };
    let card = &runtime.card();
    if !is_possible(card) {
        let message = format!("{} cannot resume a conversation", card.label);
        return Err(Fault::new(Code::NotSupported, message)
            .with_hint("run it without --continue or --resume"));
    }
    let here = cwd.display().to_string();
    let found = match &resume {
        Resume::Newest => host.store().conversation(agent, &source.display().to_string()).await,
        Resume::Run(run) => host.store().conversation_of(find(host, run).await?).await,
    };
    let Some(conversation) = found.map_err(stored)? else {
        return Err(match says_so_itself(card) {
            true => unnamed(&resume, agent),
            false => nothing(&resume, agent),
        });
    };
    let (had, has) = (&conversation.runtime, &registry::kept_as(runtime, adapter));
    let other_lane = registry::differ_by_lane(had, has);
    if had != has && !other_lane {
        let message = format!("{} was a conversation with {had}, not with {has}", conversation.run);
        return Err(Fault::new(Code::Conflict, message).with_hint(
            "use the agent of that \
         conversation",
        ));
    }
    let past = past(host, &[conversation.run]).await?;
    let mut taken = TakenUp {
        session: conversation.native_session.clone(),
        fresh_prompt: Some(handover(&past, prompt)),
        warnings: differences(host, &conversation, adapter).await?,
        spent: spent(&conversation),
    };
    // Who names a run means that conversation, however long it has become.
    let worn = match resume {
        Resume::Newest => rotated(&conversation, adapter, card),
        Resume::Run(_) => None,
    };
    if let Some(worn) = worn {
        taken.session = None;
        let had = match worn {
            WornOut::Runs(runs) => format!("{runs} runs"),
            WornOut::Hours(hours) => format!("{hours} hours"),
        };
        taken.warnings.push(warning(format!(
            "the conversation has reached its limit of {had}: a new one starts with a hand-over"
        )));
    }
    if conversation.native_session.is_none() {
        taken.warnings.push(warning(format!(
            "the agent no longer knows the conversation of {}: a new one starts with a hand-over",
            conversation.run
        )));
    }
    match other_directory(host, &conversation, &here).await? {
        Some(had) if force_cwd => taken
            .warnings
            .push(warning(format!("the conversation began with the directory {had}, not {here}"))),
        Some(had) => {
            (taken.session, taken.spent) = (None, Vec::new());
            taken.warnings.push(warning(format!(
                "the conversation was held in {had}, and this run works in {here}: a new one \
                 starts with a hand-over (--force-cwd resumes the old one)"
            )));
        }
        None => {}
    }
    if other_lane {
        // The two lanes need not know each other's conversations.
        (taken.session, taken.spent) = (None, Vec::new());
        taken.warnings.push(warning(format!(
            "the conversation was held as {had}, and this run is {has}: a new one starts with a \
             hand-over"
        )));
    }
    if conversation.failures >= FAILURES_MAX {
        taken.session = None;
        let text = format!(
            "the last {} runs that resumed this conversation failed: a new one starts",
            conversation.failures
        );
        taken.warnings.push(warning(text));
    }
    Ok(taken)
}

/// The directory of a conversation, where that is another than this one. Links are followed; a
/// conversation without a directory fits everywhere.
async fn other_directory(
    host: &Host,
    conversation: &Conversation,
    here: &str,
) -> Result<Option<String>, Fault> {
    let row = host.store().run(conversation.run).await.map_err(stored)?;
    let Some(had) = row.map(|row| row.cwd).filter(|had| !had.is_empty() && had != here) else {
        return Ok(None);
    };
    let (old, new) = (PathBuf::from(&had), PathBuf::from(here));
    // The directory here was opened before; the other one may be on a file system that hangs.
    let looked = blocking::probe(Path::new(&had), "resolve directories", move || {
        // A directory that is gone is no other name of one that is there.
        matches!((old.canonicalize(), new.canonicalize()), (Ok(old), Ok(new)) if old == new)
    });
    let is_same = looked.await?;
    Ok((!is_same).then_some(had))
}

/// Whether the conversation is to be left, by its length and age.
fn rotated(conversation: &Conversation, adapter: &Adapter, card: &Card) -> Option<WornOut> {
    let age_ms = clock::now().wall.since(conversation.begun_at);
    worn_out(adapter.rotation, card.can.compaction, conversation.runs, age_ms)
}

fn spent(conversation: &Conversation) -> Vec<SessionSpent> {
    let rows = conversation.spent.iter().map(|row| SessionSpent {
        provider: row.provider.clone(),
        model: row.model.clone(),
        tokens: row.tokens,
        nanousd: row.nanousd,
    });
    rows.collect()
}

/// What is not as it was when the conversation was left: it goes on, but someone should know.
async fn differences(
    host: &Host,
    conversation: &Conversation,
    adapter: &Adapter,
) -> Result<Vec<Draft>, Fault> {
    let mut warnings = Vec::new();
    let mut differs = |what: &str, had: &str, has: &str| {
        if had != has {
            warnings.push(warning(format!("the conversation began with {what} {had}, not {has}")));
        }
    };
    differs("the adapter", &conversation.adapter, &adapter.name);
    if let (Some(had), Some(has)) = (&conversation.model, &adapter.model) {
        differs("the model", had, has);
    }
    let had = skills_of(host, conversation.run).await?;
    let has: BTreeSet<String> = adapter.skills.iter().map(|skill| skill.name.clone()).collect();
    if had != has {
        let named = |names: &BTreeSet<String>| match names.is_empty() {
            true => "none".to_owned(),
            false => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        warnings.push(warning(format!(
            "the skills of the conversation have changed: {} then, {} now",
            named(&had),
            named(&has)
        )));
    }
    Ok(warnings)
}

/// The skills that a run was given, as its plan has them. One without a plan had none.
async fn skills_of(host: &Host, run: RunId) -> Result<BTreeSet<String>, Fault> {
    let plan = host.store().plan(run).await.map_err(stored)?.unwrap_or_default();
    let plan: Option<LaunchPlan> = serde_json::from_slice(&plan).ok();
    let mounts = plan.map(|plan| plan.mounts).unwrap_or_default();
    Ok(mounts.into_iter().map(|mount| mount.skill).collect())
}

fn nothing(resume: &Resume, agent: &str) -> Fault {
    let (message, hint) = match resume {
        Resume::Newest => (
            format!("{agent} has no conversation in this directory to continue"),
            "run it without --continue, or name a run with --resume",
        ),
        Resume::Run(run) => (
            format!("{run} left no conversation to continue"),
            "a conversation is kept after its first successful turn; run without --resume",
        ),
    };
    Fault::new(Code::NotFound, message).with_hint(hint)
}

/// The same of an agent that names its conversations by itself.
fn unnamed(resume: &Resume, agent: &str) -> Fault {
    let what = match resume {
        Resume::Newest => format!("{agent} named no conversation in this directory"),
        Resume::Run(run) => format!("the agent of {run} named no conversation"),
    };
    Fault::new(Code::NotSupported, what).with_hint(
        "an agent of this kind can be resumed when it says so: `accepts: [\"resume\"]` in its hello \
         and a `native_session` in its session event, or `resume` in the capabilities of a remote",
    )
}

/// What the events of runs tell of their work, the oldest run first: what a later one says counts.
pub(super) async fn past(host: &Host, runs: &[RunId]) -> Result<Past, Fault> {
    let mut told = Told::default();
    for run in runs {
        told.open = None;
        let mut after = 0;
        loop {
            let page = host.store().page(*run, after, limits::PAGE_ROWS_MAX).await;
            let page = page.map_err(stored)?;
            let Some(last) = page.events.last() else { break };
            after = last.seq;
            for event in &page.events {
                if let Ok(event) = serde_json::from_slice::<Event>(&event.bytes) {
                    told.note(event.body);
                }
            }
        }
    }
    Ok(told.past)
}

/// What was told so far.
#[derive(Debug, Default)]
struct Told {
    past: Past,
    /// The block whose text is being told; deltas of it are one answer.
    open: Option<Option<String>>,
}

impl Told {
    fn note(&mut self, body: Body) {
        let Self { past, open } = self;
        match body {
            Body::UserText(said) if past.task.is_empty() => past.task = said.text,
            Body::Progress(progress) => past.progress = Some(progress.summary),
            Body::Diff(diff) if !past.files.contains(&diff.path) => past.files.push(diff.path),
            Body::Permission(asked) => match asked.decision {
                None => past.questions.push(asked.title),
                Some(_) => past.questions.retain(|title| *title != asked.title),
            },
            // One that was cut short has no last answer, but it may have said something on the way.
            Body::AssistantText(said) => {
                let goes_on = said.delta && open.as_ref() == Some(&said.block);
                match past.answer.as_mut().filter(|_| goes_on) {
                    Some(answer) => answer.push_str(&said.text),
                    None => past.answer = Some(said.text),
                }
                *open = said.delta.then_some(said.block);
            }
            Body::ToolUse(_) | Body::Turn(_) => *open = None,
            Body::Result(result) => {
                past.answer = result.text.or(past.answer.take());
                past.ended = result.code.map(|code| match result.message {
                    Some(message) => format!("{}: {message}", code.word()),
                    None => code.word().to_owned(),
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_answer_is_that_of_the_result_or_else_what_was_said_last() {
        let text = |text: &str, delta| json!({"kind": "assistant_text", "text": text, "block": "b", "delta": delta});
        let tool = json!({"kind": "tool_use", "tool_call_id": "1", "name": "x", "input": {}, "via": "native"});
        let result = |text| {
            json!({"kind": "result", "outcome": "failed", "text": text, "duration_ms": 1,
                "totals": {"tokens": {"input_uncached": 0, "cache_read": 0, "cache_write": 0, "output": 0}},
                "evidence": {"end": "none"}})
        };
        let rows = [
            (vec![text("half ", true), text("way", true)], Some("half way")),
            (vec![text("first", true), tool, text("then", true)], Some("then")),
            (vec![text("whole", false), text("other", false)], Some("other")),
            (vec![text("said", true), result(None)], Some("said")),
            (vec![text("said", true), result(Some("the end"))], Some("the end")),
            (vec![result(None)], None),
        ];
        for (bodies, expected) in rows {
            let mut told = Told::default();
            for body in &bodies {
                told.note(serde_json::from_value(body.clone()).unwrap());
            }
            assert_eq!(told.past.answer.as_deref(), expected, "{bodies:?}");
        }
    }
}
