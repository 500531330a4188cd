//! `ostler run`: one agent, one prompt, watched to its end.

use super::audience::Audience;
use super::default_agent::{self, NamedBy};
use super::follow::{Follow, Followed, OnInterrupt};
use super::{Context, Stopped, intro, line, run_env};
use crate::args;
use crate::client::Client;
use crate::config::words::Workspace;
use crate::config::{self, Book, Config, Flags, Resolved, Surroundings};
use crate::hosting::{Place, Purpose};
use crate::input;
use crate::render::Detail;
use crate::way::Way;
use contract::event::{Body, Lifecycle, Phase, RunResult};
use contract::plan::Limit;
use contract::{Code, Fault, RunId, limits};
use futures::StreamExt as _;
use host::blocking::{self, Bulkhead};
use host::ops::agents::{AgentView, Book as _};
use host::ops::diff::Diff;
use host::ops::resume::Resume;
use host::ops::run::{Budget, RunRequest, Where};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long `--detach` waits for the agent's program to be started.
const LAUNCH_MAX: Duration = Duration::from_secs(3);

pub async fn run(context: &Context, mut args: args::Run) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let in_file = args.unnamed_by().is_none();
    // With --process, --acp or --http the first word is the prompt: there is no agent to name.
    let mut named_by = match args.unnamed_by() {
        Some(_) => {
            drop(args.prompt.splice(0..0, args.agent.take()));
            NamedBy::CommandLine
        }
        None => default_agent::settle(&mut args, &place)?,
    };
    let mut way = None;
    let mut hired = hired(&place, &args, &mut way).await;
    if let (Ok(None), NamedBy::CommandLine) = (&hired, named_by)
        && let Some(by) = prompt_without_agent(&mut args, &place, &mut way).await
    {
        named_by = by;
        hired = self::hired(&place, &args, &mut way).await;
    }
    let resolved = match hired.and_then(|hired| resolve(&place.config, &args, hired.as_ref())) {
        Ok(resolved) => resolved,
        Err(fault) => {
            if let Some(way) = way {
                way.finish().await;
            }
            return Err(default_agent::explained(fault, &args, named_by, &place).into());
        }
    };
    config::skills::known(&resolved.agent, &resolved.adapter)?;
    let Surroundings { stdin_is_terminal, stderr_is_terminal, .. } = context.surroundings;
    let words = joined(&args.prompt);
    // A host in this process serves others while the input is awaited.
    let read = move || input::prompt(words.as_deref(), stdin_is_terminal, stderr_is_terminal);
    let prompt =
        blocking::spawn(Bulkhead::Wait, "standard input", read).await.map_err(|error| {
            Fault::new(Code::InternalError, format!("reading the prompt: {error}"))
        })??;
    let mut trace = args.trace.as_deref().map(TraceFile::open).transpose()?;
    let mut request = request(context, resolved, prompt, &args.env)?;
    request.keep = args.keep;
    if args.force_cwd && !args.go_on && args.resume.is_none() {
        let message = "--force-cwd has no conversation to continue";
        return Err(Fault::new(Code::Usage, message)
            .with_hint("give it with --continue or --resume RUN")
            .into());
    }
    request.force_cwd = args.force_cwd;
    request.context = args.context.take().map(|given| given.0);
    request.resume = match (args.go_on, args.resume.take()) {
        (true, _) => Some(Resume::Newest),
        (false, run) => run.map(Resume::Run),
    };
    if let (Some(_), Some(adapter)) = (&trace, &mut request.adapter) {
        // Whoever asks for the trace of this run wants one.
        adapter.trace = true;
    }
    if args.detach {
        return detached(context, &place, way, request).await;
    }
    let mut way = match way {
        Some(way) => way,
        None => Way::find(&place, Purpose::Act).await?,
    };
    let started = match line::started(&mut way, &request).await {
        Ok(started) => started,
        Err(fault) => {
            way.finish().await;
            return Err(fault.into());
        }
    };
    let detail = if args.debug { Detail::Debug } else { Detail::Usual };
    let mut audience = match args.quiet {
        true if !context.global.json => Audience::quiet(context),
        _ => Audience::of(context, detail),
    };
    audience.introduce(intro::of_request(&request, &place));
    let mut follow = Follow::new(way, started.run_id, OnInterrupt::Stop);
    follow.run_ms_max = run_ms_max(&request);
    let followed = follow.until_its_end(&mut audience).await;
    let advice = match &followed {
        Ok(Followed::Ended(result)) => {
            hint(result, &audience.last_words(), context, &request, in_file)
        }
        // An error of following is returned below.
        Ok(Followed::Left) | Err(_) => None,
    };
    audience.finish_with(advice.as_deref());
    if let (Ok(Followed::Ended(_)), Some(Where::Worktree)) = (&followed, request.workspace) {
        let (id, way) = (started.run_id.to_string(), &mut follow.way);
        let path = format!("/api/v1/runs/{id}/diff?patch=false");
        let diff: Result<Diff, Fault> = way.ask(async |client| client.get(&path).await).await;
        audience.say(&worktree_line(crate::render::tail(&id), diff.ok().as_ref()));
    }
    let traced = match &mut trace {
        Some(trace) if followed.is_ok() => trace.fill(&mut follow).await,
        _ => Ok(()),
    };
    follow.way.finish().await;
    let followed = followed?;
    traced?;
    match followed {
        Followed::Ended(result) => {
            if args.quiet && !context.global.json {
                complain(&result);
            }
            Ok(match args.fail_on_denied && result.code.is_none() && result.denials > 0 {
                true => ExitCode::from(Code::PermissionDenied.row().exit),
                false => exit_code(&result),
            })
        }
        Followed::Left => Ok(ExitCode::from(Code::Cancelled.row().exit)),
    }
}

/// The cause of a failure that lies in how the run was started, and what to do about it.
/// `last_words` is what the agent said beside the message, `in_file` whether its adapter may be one of
/// the configuration.
fn hint(
    result: &RunResult,
    last_words: &str,
    context: &Context,
    request: &RunRequest,
    in_file: bool,
) -> Option<String> {
    result.code?;
    let mistaken = request.adapter.as_ref();
    let mistaken = mistaken.and_then(|it| config::mistaken::of_adapter(it, in_file));
    let mistaken = mistaken.map(|(message, hint)| format!("{message}: {hint}"));
    mistaken.or_else(|| run_env::hint(result, last_words, &context.surroundings.vars, request))
}

/// The longest time a run may take by its clock and its budget; absent if nothing limits it.
fn run_ms_max(request: &RunRequest) -> Option<u64> {
    let wall = request.adapter.as_ref().and_then(|adapter| adapter.clocks.wall);
    let wall = wall.map_or(Some(limits::WALL_MS), Limit::ms);
    wall.into_iter().chain(request.budget.ms).min()
}

/// Starts a run under a host that outlives this process, and says how to follow it.
async fn detached<'a>(
    context: &Context,
    place: &'a Place,
    way: Option<Way<'a>>,
    mut request: RunRequest,
) -> Result<ExitCode, Stopped> {
    // Nobody sits at this run's terminal; requests for approval can still be answered with
    // `ostler answer` if `--permission ask` is given.
    request.attended = false;
    let mut way = Way::in_background(place, way).await?;
    let started = line::started(&mut way, &request).await;
    let ended = match &started {
        Ok(started) => early_end(&way.client, started.run_id).await,
        // Returned below.
        Err(_) => None,
    };
    // If the background host ended meanwhile, this process drives the run and hands it over now.
    way.finish().await;
    let started = started?;
    if let Some(result) = ended {
        complain(&result);
        return Ok(exit_code(&result));
    }
    if context.global.json {
        context.print_json(&started)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = started.run_id.to_string();
    let id = crate::render::tail(&id);
    context.print(&format!(
        "started {id} in the background\n  ostler watch {id}   follow it\n  ostler stop {id}    stop it"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The result of a run that failed before its agent was running, for example because its program does
/// not exist.
async fn early_end(client: &Client, run: RunId) -> Option<Box<RunResult>> {
    let look = async {
        let mut events = client.follow(run, 0).await.ok()?;
        while let Some(Ok(received)) = events.next().await {
            match received.event().ok()?.body {
                Body::Lifecycle(Lifecycle { phase: Phase::Running, .. }) => return None,
                Body::Result(result) => return result.code.is_some().then(|| Box::new(result)),
                _ => {}
            }
        }
        None
    };
    tokio::time::timeout(LAUNCH_MAX, look).await.ok().flatten()
}

/// The words of the prompt, as one text.
fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" "))
}

/// The closing line of a run in a worktree; `diff` is absent if the worktree could not be compared.
fn worktree_line(id: &str, diff: Option<&Diff>) -> String {
    let next = format!("ostler diff {id}, then ostler apply {id}");
    match diff.map(|diff| diff.files.len() + diff.files_left_out + diff.nested.len()) {
        None => format!("  → {next}"),
        Some(0) => "  no files changed in the worktree".to_owned(),
        Some(1) => format!("  → 1 file changed: {next}"),
        Some(files) => format!("  → {files} files changed: {next}"),
    }
}

/// Where the trace of the run goes when it has ended.
struct TraceFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> TraceFile<'a> {
    /// Opened before anything is started, so that a path that cannot be written costs no run.
    fn open(path: &'a Path) -> Result<Self, Fault> {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        opened.map(|file| Self { path, file }).map_err(|error| unwritable(path, &error))
    }

    async fn fill(&mut self, follow: &mut Follow<'_>) -> Result<(), Fault> {
        let (run, file) = (follow.run, &mut self.file);
        let filled = follow.way.ask(async |client| {
            // From its beginning, also when an earlier host broke off in the middle.
            match file.rewind().and_then(|()| file.set_len(0)) {
                Ok(()) => client.trace(run, |piece| file.write_all(piece)).await,
                Err(error) => Ok(Err(error)),
            }
        });
        match filled.await {
            Ok(written) => written.map_err(|error| unwritable(self.path, &error)),
            // An agent that said nothing left no trace.
            Err(fault) if fault.code == Code::NotFound => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Fault {
    Fault::new(Code::Usage, format!("--trace {}: {error}", path.display()))
        .with_hint("give a file that can be written")
}

/// The exit status of the one fault table.
pub fn exit_code(result: &RunResult) -> ExitCode {
    result.code.map_or(ExitCode::SUCCESS, |code| ExitCode::from(code.row().exit))
}

/// Says why there is no answer, or what was not checked, where an answer was all that was wanted.
fn complain(result: &RunResult) {
    let unchecked = Some(Code::BudgetNotCountable.word()) == result.evidence.stopped_by.as_deref();
    if let (None, true, Some(note)) = (result.code, unchecked, &result.evidence.note) {
        crate::terminal::remark(note);
    }
    if let Some(note) = crate::render::workspace_note(result) {
        crate::terminal::remark(&format!("warning: {note}"));
    }
    if let Some(code) = result.code {
        let message = result.message.clone().unwrap_or_else(|| code.row().message.to_owned());
        crate::terminal::complain(&Fault::new(code, message));
    }
}

/// The spec of the agent that was named, if it was hired and nothing in the configuration comes
/// before it.
async fn hired<'a>(
    place: &'a Place,
    args: &args::Run,
    way: &mut Option<Way<'a>>,
) -> Result<Option<Value>, Fault> {
    let Some(name) = args.agent.as_deref() else { return Ok(None) };
    if Book(place.config.clone()).has(name) {
        return Ok(None);
    }
    let way = match way {
        Some(way) => way,
        None => way.insert(Way::find(place, Purpose::Act).await?),
    };
    match way.ask(async |client| client.glance(name).await).await {
        Ok(agent) => Ok(agent.spec),
        Err(fault) if fault.code == Code::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Takes all words as the prompt of the default agent, if the first of them resembles no name of an
/// agent.
async fn prompt_without_agent(
    args: &mut args::Run,
    place: &Place,
    way: &mut Option<Way<'_>>,
) -> Option<NamedBy> {
    let agents: Vec<AgentView> =
        way.as_mut()?.ask(async |client| client.all("/api/v1/agents").await).await.ok()?;
    let names: Vec<String> = agents.into_iter().map(|agent| agent.name).collect();
    if !default_agent::begins_prompt(args, place, names.iter().map(String::as_str)) {
        return None;
    }
    let word = args.agent.clone().unwrap_or_default();
    let named_by = default_agent::take_as_prompt(args, place)?;
    let agent = args.agent.as_deref().unwrap_or_default();
    crate::terminal::remark(&format!(
        "no agent is called '{word}': all words are the prompt for {agent}"
    ));
    Some(named_by)
}

fn resolve(config: &Config, args: &args::Run, hired: Option<&Value>) -> Result<Resolved, Fault> {
    let flags = flags(args);
    let adapter = match (&args.process, &args.acp, &args.http) {
        (Some(command), _, _) => Some(config::process_adapter(command)),
        (None, Some(command), _) => Some(config::acp_adapter(command)),
        (None, None, Some(url)) => Some(Ok(config::http_adapter(url, args.token_env.as_deref()))),
        (None, None, None) => None,
    };
    match (adapter, &args.agent) {
        (Some(adapter), _) => config::resolve_adapter(config, adapter?, &flags),
        (None, Some(agent)) => match hired {
            Some(spec) => Book(config.clone()).resolved(agent, spec, &flags),
            None => config::resolve_with(agent, config, &flags),
        },
        (None, None) => Err(Fault::new(Code::Usage, "no agent is named")),
    }
}

fn flags(args: &args::Run) -> Flags {
    Flags {
        model: args.model.clone(),
        system_prompt: args.system.clone(),
        cwd: args.cwd.clone(),
        workspace: match (args.worktree, args.temporary) {
            (true, _) => Some(Workspace::Worktree),
            (false, true) => Some(Workspace::Temporary),
            (false, false) => None,
        },
        permission: args.permission,
        timeout: args.timeout,
        budget: Budget {
            nanousd: args.budget_usd,
            tokens: args.budget_tokens,
            turns: args.budget_turns,
            ms: args.budget_ms,
            best_effort: args.budget_best_effort,
        },
    }
}

pub(super) fn request(
    context: &Context,
    resolved: Resolved,
    prompt: String,
    env: &[String],
) -> Result<RunRequest, Fault> {
    let Resolved {
        agent,
        mut adapter,
        prompt_template,
        system_prompt,
        cwd,
        repository,
        workspace,
        permission,
        run_budget,
        tools,
        ..
    } = resolved;
    let surroundings = &context.surroundings;
    let environment = run_env::sent(&mut adapter, &surroundings.vars, env)?;
    Ok(RunRequest {
        // Asked for again after a change of host, it is the same run.
        run_id: Some(host::chance::run_id()),
        agent,
        prompt,
        cwd: surroundings.cwd.join(cwd.or(repository).unwrap_or_default()),
        model: adapter.model.clone(),
        adapter: Some(adapter),
        title: None,
        system_prompt,
        prompt_template,
        tools,
        tools_by: Default::default(),
        clocks: Default::default(),
        permission,
        budget: run_budget,
        task_budget: Default::default(),
        fallback: None,
        goes_on_in: None,
        own_budget: Default::default(),
        counted_budget: Default::default(),
        workspace: workspace.map(config::place),
        keep: false,
        // Where someone sits who can answer, questions are asked; elsewhere the host decides.
        attended: surroundings.stdin_is_terminal,
        resume: None,
        force_cwd: false,
        context: None,
        environment: Some(environment),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktree_run_ends_with_what_to_do_next() {
        let diff = |files: usize| -> Diff {
            serde_json::from_value(serde_json::json!({
                "run_id": "run_0190c8f2a1b47c3d8e9f00112233abcd", "base": "3f3c1ca6",
                "branch": "ostler/2233abcd", "files": [], "files_left_out": files,
            }))
            .unwrap()
        };
        let told = [0, 1, 12].map(|files| worktree_line("2233abcd", Some(&diff(files))));
        let expected = [
            "  no files changed in the worktree",
            "  → 1 file changed: ostler diff 2233abcd, then ostler apply 2233abcd",
            "  → 12 files changed: ostler diff 2233abcd, then ostler apply 2233abcd",
        ];
        assert_eq!(told, expected);
    }
}
