//! `ostler conformance agent NAME`: judges an agent of the configuration by real runs, whatever its
//! lane. The runs are made by a host of their own in a temporary data directory, each in a temporary
//! workspace; nothing of the user's data directory is read or written, and nothing stays. What is
//! asked and judged is `runtimes::adapter_judge`; here are the hands: the configuration, doctor, the
//! runs, and the looks at the workspace and at processes.

use super::{Judged, Progress, interrupted};
use crate::args;
use crate::commands::{Context, Stopped, doctor, line, run};
use crate::config::{self as settings, Config, Flags, Level, Resolved};
use crate::hosting::{OWN_PROGRAM, Place, Purpose};
use crate::way::Way;
use contract::card::Told;
use contract::diagnosis::CheckLevel;
use contract::event::{Body, EndEvidence, Evidence, Origin, Outcome, RunResult};
use contract::state::Review;
use contract::{Code, Fault, RunId, RunState, TaskState, Wish, limits};
use futures::StreamExt as _;
use host::data::DataDir;
use host::diagnose::Practice;
use host::ops::resume::Resume;
use host::ops::run::{Budget, RunRequest};
use host::{chance, clock};
use runtimes::adapter_judge::{self as judge, Broken, Played, SYSTEM_WORD, Scene, Setup, Trial};
use runtimes::registry;
use runtimes::verdict::Heard;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{Batch, Claim, NewTask, RunHead, Seal, Settle, Store};

/// A conversation that no agent has.
const UNKNOWN_SESSION: &str = "00000000-0000-4000-8000-000000000000";
/// The time for which an agent works before it is stopped: from its first words, and from its start where it
/// says nothing.
const WORKS: Duration = Duration::from_millis(300);
const SILENT: Duration = Duration::from_secs(10);
/// The time within which all processes of a run must be gone after its end.
const GONE_LOOKS: u32 = 20;
const GONE_PAUSE: Duration = Duration::from_millis(100);
/// The file that is in every workspace.
const README: (&str, &str) = ("README.md", "A workspace for a conformance test.\n");
/// Files of a workspace that are compared: an agent that makes more has changed it anyway.
const FILES_MAX: usize = 1_000;

pub(super) async fn judged(
    progress: &mut Progress<'_>,
    args: &args::JudgedAgent,
) -> Result<Judged, Stopped> {
    let context = progress.context;
    let name = args.agent.as_str();
    let path = settings::locate(context.global.config.as_deref(), &context.surroundings.vars);
    progress.plays(Scene::Setup.word());
    let (config, errors) = match read(context, path.as_deref(), name) {
        Ok((config, errors)) => (config, errors),
        Err(fault) if fault.code == Code::UnknownAgent => return Err(fault.into()),
        Err(fault) => (Config::default(), vec![fault.message]),
    };
    let broken_refused = refused_when_broken(name, &config);
    let resolved = settings::resolve_with(name, &config, &Flags::default());
    let (resolved, mut errors) = match resolved {
        Ok(resolved) => (Some(resolved), errors),
        Err(fault) if errors.is_empty() => (None, vec![fault.message]),
        // The mistakes of the file say more than this.
        Err(_) => (None, errors),
    };
    errors.dedup();
    let Some(resolved) = resolved.filter(|_| errors.is_empty()) else {
        let card = registry::all()[0].card();
        let setup = Setup { errors, broken_refused, ..Setup::default() };
        let trial = Trial { setup, card, promises_tokens: false, played: Vec::new() };
        let findings = judge::judge(&trial);
        progress.found(&findings)?;
        return Ok(Judged { findings, cut_short: judge::dead_end(&trial) });
    };
    let (doctor_ms, doctor_errors) = examined(context, &config, name).await?;
    let card = registry::of(&resolved.adapter)?.card();
    let setup = Setup { errors, broken_refused, doctor_ms, doctor_errors };
    let is_mapped = resolved.adapter.mapping.is_some();
    let promises_tokens = card.reports.tokens && (is_mapped || card.reports.usage != Told::ByAgent);
    let mut trial = Trial { setup, card, promises_tokens, played: Vec::new() };
    progress.found(&judge::judge(&trial))?;
    if !context.global.json {
        crate::terminal::remark(&format!(
            "{name} is sent at most {} prompts with its own account, each for at most {} dollars (as \
             far as it reports them) and {}",
            Scene::ALL.len() - 1,
            args.budget_usd.usd(),
            match args.timeout.ms() {
                Some(ms) => contract::amount::span(ms),
                None => "the time it takes".to_owned(),
            }
        ));
    }
    let ground = Ground::new(context)?;
    let config = alone(config);
    let stage = Stage { context, config: &config, args, ground: &ground };
    stage.play_all(progress, &mut trial).await.map_err(Stopped::from)
}

/// The configuration, and its errors that concern this name.
fn read(
    context: &Context,
    path: Option<&Path>,
    name: &str,
) -> Result<(Config, Vec<String>), Fault> {
    let Some(path) = path else {
        let config = Config::default();
        settings::resolve_with(name, &config, &Flags::default())?;
        return Ok((config, Vec::new()));
    };
    let findings = settings::check(path, &context.surroundings.vars, None)?;
    let errors: Vec<_> = findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| format!("{}: {}", finding.path, finding.message))
        .collect();
    match settings::load(Some(path)) {
        Ok(config) => Ok((config, errors)),
        Err(fault) => {
            Ok((Config::default(), if errors.is_empty() { vec![fault.message] } else { errors }))
        }
    }
}

/// The configuration without what runs share and whom they tell: a test has its own limits.
fn alone(mut config: Config) -> Config {
    config.file.budgets.clear();
    config.file.agents.values_mut().for_each(|agent| agent.budgets.clear());
    config.file.notify = None;
    config
}

/// Gives the adapter a wrong value, and says how that was refused.
fn refused_when_broken(name: &str, config: &Config) -> Option<Broken> {
    let adapter = config.file.agents.get(name).map_or(name, |agent| agent.adapter.as_str());
    let mut entry = match config.file.adapters.get(adapter) {
        Some(entry) => serde_json::to_value(entry).unwrap_or_default(),
        None => json!({ "type": "cli" }),
    };
    entry["timeoutSec"] = json!("a while");
    let text = json!({ "adapters": { (adapter): entry } }).to_string();
    let found = settings::formed(&text);
    found
        .into_iter()
        .find(|finding| finding.level == Level::Error)
        .map(|finding| Broken { path: finding.path })
}

/// Asks doctor: how long it takes, and what it says keeps the agent from running.
async fn examined(
    context: &Context,
    config: &Config,
    name: &str,
) -> Result<(u64, Vec<String>), Fault> {
    let vars = &context.surroundings.vars;
    let level = settings::isolation(vars)?;
    let practice = Practice::open(PathBuf::from(OWN_PROGRAM), vars.clone(), level)?;
    let begun_ms = clock::now().mono_ms;
    let diagnosis = doctor::look(context, &practice, config, &BTreeMap::new(), (name, true)).await;
    let took_ms = clock::now().mono_ms.saturating_sub(begun_ms);
    let errors = diagnosis.checks.iter().filter(|check| check.level == CheckLevel::Error);
    Ok((took_ms, errors.map(|check| check.message.clone()).collect()))
}

/// A temporary directory with a data directory and workspaces. Dropping it takes it away.
struct Ground {
    root: PathBuf,
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What cannot be removed is in the directory for temporary files, which others sweep.
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Ground {
    fn new(context: &Context) -> Result<Self, Fault> {
        let vars = &context.surroundings.vars;
        let temporary = vars.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
        let root = temporary.join(format!("ostler-judge-{}", chance::run_id().uuid().simple()));
        let made = fs::DirBuilder::new().mode(0o700).create(&root);
        made.map_err(|error| cannot(&root, &error))?;
        // The kernel's own name of it, by which an agent tells where it works.
        let root = root.canonicalize().map_err(|error| cannot(&root, &error))?;
        Ok(Self { root })
    }

    fn workspace(&self, scene: Scene) -> Result<PathBuf, Fault> {
        // A conversation is held in one directory.
        let name = match scene {
            Scene::Resume => Scene::Answer.word(),
            scene => scene.word(),
        };
        let path = self.root.join(name.replace(' ', "-"));
        if !path.exists() {
            fs::create_dir(&path).map_err(|error| cannot(&path, &error))?;
            let readme = path.join(README.0);
            fs::write(&readme, README.1).map_err(|error| cannot(&readme, &error))?;
        }
        Ok(path)
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Fault {
    Fault::new(Code::BadWorkspace, format!("{}: {error}", path.display()))
}

/// The files below a directory with their content, links as what they name.
fn listing(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        // What cannot be read counts as not there, before and after.
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if found.len() >= FILES_MAX {
                return found;
            }
            if is_dir {
                found.insert(name, Vec::new());
                open.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}

fn changes(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Everything that a scene needs.
struct Stage<'a> {
    context: &'a Context,
    config: &'a Config,
    args: &'a args::JudgedAgent,
    ground: &'a Ground,
}

impl Stage<'_> {
    async fn play_all(
        &self,
        progress: &mut Progress<'_>,
        trial: &mut Trial,
    ) -> Result<Judged, Fault> {
        let surroundings = &self.context.surroundings;
        // Spools lie in the same temporary directory, which is taken away as a whole.
        let root = &self.ground.root;
        let data = DataDir::open(&root.join("data"), None, root)?;
        let place = Place { data, config: self.config.clone(), surroundings: surroundings.clone() };
        let unknown = self.conversation_of_nobody(place.data.path()).await?;
        let mut way = Way::find(&place, Purpose::Act).await?;
        let played = interrupted(self.scenes(progress, trial, &mut way, unknown)).await;
        way.finish().await;
        let cut_short = played?;
        Ok(Judged { findings: judge::judge(trial), cut_short })
    }

    async fn scenes(
        &self,
        progress: &mut Progress<'_>,
        trial: &mut Trial,
        way: &mut Way<'_>,
        unknown: RunId,
    ) -> Result<Option<&'static str>, Fault> {
        let mut first = None;
        for scene in Scene::ALL.into_iter().filter(|scene| *scene != Scene::Setup) {
            let resume = match scene {
                Scene::Resume => first,
                Scene::Unknown => Some(unknown),
                _ => None,
            };
            let skips = match scene {
                Scene::Resume | Scene::Unknown if !trial.card.can.resume => {
                    Some("its card says that it cannot resume")
                }
                Scene::Resume if first.is_none() => {
                    Some("its first run did not name a conversation that can be resumed")
                }
                _ => None,
            };
            let played = match skips {
                Some(why) => Played::skipped(scene, why),
                None => {
                    progress.plays(scene.word());
                    self.play(way, scene, resume).await?
                }
            };
            if scene == Scene::Answer && played.native_session.is_some() {
                first = played.first().map(|event| event.run_id);
            }
            trial.played.push(played);
            // What cannot be told of a scene must not hide what its points say.
            let told = progress.found(&judge::judge(trial));
            told.map_err(|_| Fault::new(Code::Cancelled, "the reader of the report has gone"))?;
            if let cut_short @ Some(_) = judge::dead_end(trial) {
                return Ok(cut_short);
            }
        }
        Ok(None)
    }

    fn resolved(&self, scene: Scene, workspace: &Path) -> Result<Resolved, Fault> {
        let flags = Flags {
            model: None,
            system_prompt: (scene == Scene::Answer).then(|| {
                format!("The code word is {SYSTEM_WORD}. Tell it whenever you are asked for it.")
            }),
            cwd: Some(workspace.to_owned()),
            workspace: Some(settings::words::Workspace::Here),
            permission: Some(scene.policy()),
            timeout: Some(self.args.timeout),
            budget: Budget {
                nanousd: Some(self.args.budget_usd),
                best_effort: true,
                ..Budget::default()
            },
        };
        settings::resolve_with(&self.args.agent, self.config, &flags)
    }

    fn request(
        &self,
        scene: Scene,
        workspace: &Path,
        resume: Option<RunId>,
    ) -> Result<RunRequest, Fault> {
        let prompt = scene.prompt(self.args.prompt.as_deref()).unwrap_or_default();
        let resolved = self.resolved(scene, workspace)?;
        let mut request = run::request(self.context, resolved, prompt, &[])?;
        request.attended = false;
        request.resume = resume.map(|run| Resume::Run(run.to_string()));
        Ok(request)
    }

    /// One run of the agent, to its end.
    async fn play(
        &self,
        way: &mut Way<'_>,
        scene: Scene,
        resume: Option<RunId>,
    ) -> Result<Played, Fault> {
        let workspace = self.ground.workspace(scene)?;
        let before = listing(&workspace);
        let mut played = Played::new(scene);
        played.cwd = workspace.display().to_string();
        let request = self.request(scene, &workspace, resume)?;
        let started = match line::started(way, &request).await {
            Ok(started) => started,
            Err(fault) => {
                played.refused = Some((fault.code, fault.message));
                return Ok(played);
            }
        };
        let run = started.run_id;
        self.follow(way, run, scene, &mut played).await?;
        let plan: Value =
            way.ask(async |client| client.get(&format!("/api/v1/runs/{run}/plan")).await).await?;
        played.plan = plan.to_string();
        let row = way.ask(async |client| client.run(&run.to_string()).await).await?;
        played.native_session = row.native_session;
        played.changed = changes(&before, &listing(&workspace));
        played.left = left(run).await;
        Ok(played)
    }

    /// Writes down the events, and stops the run where the scene wants that.
    async fn follow(
        &self,
        way: &mut Way<'_>,
        run: RunId,
        scene: Scene,
        played: &mut Played,
    ) -> Result<(), Fault> {
        let begun_ms = clock::now().mono_ms;
        let mut events = way.client.follow(run, 0).await?;
        let mut stopped_at_ms = None;
        let stops = scene == Scene::Stop;
        let patience = tokio::time::sleep(SILENT);
        tokio::pin!(patience);
        let mut has_spoken = false;
        loop {
            let received = tokio::select! {
                received = events.next() => received,
                () = &mut patience, if stops && stopped_at_ms.is_none() => {
                    let wish = Wish::Stop { reason: Code::Cancelled, at_once: false };
                    way.client.wish(run, chance::command_id(), &wish).await?;
                    stopped_at_ms = Some(clock::now().mono_ms);
                    continue;
                }
            };
            let Some(received) = received else { break };
            let received = received?;
            let now_ms = clock::now().mono_ms;
            let event = received.event();
            if let (false, Ok(event)) = (has_spoken, &event)
                && event.origin == Origin::Agent
            {
                has_spoken = true;
                patience.as_mut().reset(tokio::time::Instant::now() + WORKS);
            }
            let bytes = received.bytes;
            played.hear(Heard { at_ms: now_ms.saturating_sub(begun_ms), bytes, ended: true });
            if event.is_ok_and(|event| matches!(event.body, Body::Result(_))) {
                played.stopped_ms = stopped_at_ms.map(|at_ms| now_ms.saturating_sub(at_ms));
                break;
            }
        }
        Ok(())
    }

    /// A run that left a conversation which the agent does not know.
    async fn conversation_of_nobody(&self, data: &Path) -> Result<RunId, Fault> {
        let workspace = self.ground.workspace(Scene::Unknown)?;
        let Resolved { agent, adapter, .. } = self.resolved(Scene::Unknown, &workspace)?;
        let chosen = registry::of(&adapter)?;
        let head = RunHead {
            agent,
            adapter: adapter.name.clone(),
            runtime: registry::kept_as(&chosen, &adapter),
            cwd: workspace.display().to_string(),
            model: None,
            resumes: None,
            fallback: None,
            prompt_preview: Seal::default().given("an earlier run"),
        };
        seed(data, head).await.map_err(|error| {
            Fault::new(Code::InternalError, format!("preparing the temporary store: {error}"))
        })
    }
}

/// Puts a settled run with an unknown conversation into a new store.
async fn seed(data: &Path, head: RunHead) -> Result<RunId, store::Error> {
    let store = Store::open(data)?;
    let (seal, now) = (Seal::default(), clock::now().wall);
    let (run, task) = (chance::run_id(), chance::task_id());
    store
        .enqueue(NewTask {
            id: task,
            key: None,
            agent: head.agent.clone(),
            title: seal.given("an earlier run"),
            body: seal.given("an earlier run"),
            prompt: seal.given("an earlier run"),
            system_prompt: None,
            review: Review::None,
            priority: 0,
            line: None,
            errand: None,
            created_at: now,
        })
        .await?;
    let claim = Claim {
        task,
        run,
        holder: std::process::id().to_string(),
        now,
        lease_ms: limits::LEASE_MS,
        plan: seal.json(&json!({})),
        places: None,
        head,
    };
    let fence = store.claim(claim).await?.fence;
    let body = Body::Result(RunResult {
        outcome: Outcome::Succeeded,
        code: None,
        message: None,
        text: None,
        output: None,
        exit_code: None,
        signal: None,
        duration_ms: 1,
        totals: Default::default(),
        report: Default::default(),
        denials: 0,
        evidence: Evidence {
            end: EndEvidence::Explicit,
            salvaged: None,
            stopped_by: None,
            forced: None,
            note: None,
            workspace: None,
            workspace_note: None,
        },
    });
    let envelope = contract::event::Envelope {
        run_id: run,
        seq: 1,
        ts: now,
        attempt: 1,
        fence,
        origin: Origin::Ostler,
    };
    let events = vec![seal.event(&envelope, &body, None)];
    store
        .commit(Batch {
            run,
            fence,
            first_seq: 1,
            events,
            machine: seal.given("null"),
            dialect: seal.given("null"),
            host: seal.given("null"),
            spool_offset: 0,
            taken: Vec::new(),
            effects_todo: Vec::new(),
            effects_done: Vec::new(),
            run_state: RunState::Settled,
            pid: None,
            totals: None,
            report: None,
            ledger: Vec::new(),
            session: Some(seal.given(UNKNOWN_SESSION)),
            session_stale: false,
            settle: Some(Settle {
                outcome: Outcome::Succeeded,
                code: None,
                ended_at: now,
                task_state: TaskState::Done,
                waiting_for: None,
                follow: Default::default(),
                message: seal.given(""),
                turns: 1,
                unspent: false,
                is_included: false,
            }),
        })
        .await?;
    store.close().await;
    Ok(run)
}

/// Counts the processes of a run that are still there. The last of them may be about to go.
async fn left(run: RunId) -> usize {
    for _ in 0..GONE_LOOKS {
        match keeper::mark::bearers(host::adopt::MARK, &run.to_string()) {
            Ok(pids) if !pids.is_empty() => tokio::time::sleep(GONE_PAUSE).await,
            // What cannot be looked for is not counted.
            Ok(_) | Err(_) => return 0,
        }
    }
    keeper::mark::bearers(host::adopt::MARK, &run.to_string()).map_or(0, |pids| pids.len())
}
