//! Starting a run. Everything that can be checked is checked before anything exists, so that a
//! fault leaves no trace; then task, run and first events become durable in one transaction, and
//! only then is the keeper, which has its plan by then, told to launch.

mod terms;

use super::agents;
use super::callback;
use super::errand::{self, Errand};
use super::limits::{self as within, Newcomer};
use super::line;
use super::locks;
use super::place::{Fresh, Placed, Purpose, Site, discard};
use super::resume::{self, TakenUp};
use super::run::{RunRequest, Started, ToolsBy, stored};
use super::session;
use super::snapshot;
use super::task::add;
use super::tool::{self, Bench, TaskSheet};
use crate::abroad::Abroad;
use crate::batch::{Made, Words};
use crate::billing;
use crate::blocking::{self, Bulkhead};
use crate::drive::{self, Again, Drive, Ending, Handing};
use crate::environment::{self, Reserved};
use crate::keeping::Keeping;
use crate::perform::Mouth;
use crate::skills::{self, Mounts, Skill};
use crate::token_file;
use crate::trace::{Tracer, warning};
use crate::upstream::{Logins, Upstream};
use crate::usage;
use crate::workspace::Workspace;
use crate::workspace_check::{self, Beginning, Comparison};
use crate::{Host, chance, clock};
use contract::event::{Body, Quota, UserText};
use contract::plan::{self, Adapter, Lane, LaneChoice, LaunchPlan};
use contract::state::Review;
use contract::{Card, Code, Draft, Fault, Policy, RunId, TaskId, limits};
use engine::rules::lease::Lease;
use engine::{Input, Machine, SessionSpent, Terms, rules};
use failpoint::Point;
use keeper::door::Spawned;
use keeper::plan::{LeaseClock, StdinMode};
use runtimes::{Spec, registry, template};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::seal::Seal;
use store::{Claim, InLine, NewTask, RunHead, RunRow};
use tracing::Instrument as _;

/// A request that passed every check, with everything that was found on the way.
struct Checked {
    adapter: Adapter,
    runtime: registry::Chosen,
    workspace: Arc<Workspace>,
    environment: BTreeMap<String, String>,
    policy: Policy,
    lane: Lane,
    skills: Arc<[Skill]>,
    /// The directory that a conversation is looked for in.
    source: PathBuf,
}

impl Checked {
    /// A prompt with what must be said of the skills, of which `files` holds copies.
    fn introduced(&self, prompt: &str, files: &str) -> String {
        let (card, context) = (self.runtime.card(), self.adapter.project_context);
        skills::introduced(prompt, &card, context, &self.skills, files)
    }
}

/// The secrets and names of one run, before it exists.
struct Identity {
    run: RunId,
    task: TaskId,
    agent: contract::AgentId,
    fence: u64,
    lease_token: String,
    /// What the task says beside the request, when it is one of the queue's.
    errand: Option<Errand>,
}

/// A new task's first claim always has this fence.
const FIRST_FENCE: u64 = 1;
/// And its first launch this number.
const ATTEMPT: u32 = 1;
/// What lies beside a workspace of ours belongs to no attempt.
pub(super) const BESIDE_TREE: u32 = 0;

/// Everything that is known of a run before anything of it exists.
struct Prepared {
    checked: Checked,
    spec: Spec,
    plan: LaunchPlan,
    kept: keeper::plan::Plan,
    seal: Seal,
    upstream: Upstream,
    dialect: Box<dyn runtimes::Dialect>,
    again: Option<Box<Again>>,
    /// What changed since the conversation that this run takes up, and how the account stands.
    warnings: Vec<Draft>,
    account: Option<Quota>,
    /// What that conversation has cost so far.
    session_spent: Vec<SessionSpent>,
    /// The workspace, where one was made for this run.
    fresh: Option<Fresh>,
    /// The workspace as it was before the launch, where the policy forbids to change it.
    comparison: Comparison,
}

impl Prepared {
    /// Where the run works, and what must be kept out of what is shown of that.
    fn to_be_left(&self) -> (PathBuf, Vec<(String, String)>) {
        (self.checked.workspace.path().to_owned(), self.kept.secrets.clone())
    }
}

async fn prepare(
    host: &Host,
    request: &RunRequest,
    adapter: Adapter,
    identity: &Identity,
    purpose: Purpose,
) -> Result<Prepared, Fault> {
    let (checked, fresh, noted) = check(host, request, adapter, identity.run, purpose).await?;
    let taken_up = resume::take_up(
        host,
        request.resume.clone(),
        &request.agent,
        &checked.adapter,
        &checked.runtime,
        resume::Here {
            source: &checked.source,
            cwd: checked.workspace.path(),
            force_cwd: request.force_cwd,
        },
        &request.prompt,
    )
    .await?;
    let mut spec = spec(host, request, &checked, identity, &taken_up)?;
    if checked.lane == Lane::Http {
        spec.context.set("workspace", json!(snapshot::describe(host, identity.run)));
    }
    let plan = checked.runtime.plan(&spec)?;
    let upstream = match request.tools_by {
        ToolsBy::Host => {
            let logins = Logins::at(host.inner.data.path(), host.inner.token.clone());
            Upstream::of(&spec, identity.run, checked.workspace.path(), logins)?
        }
        // The tools of such a run are its caller's, all of them.
        ToolsBy::Caller => Upstream::default(),
    };
    let mut dialect = checked.runtime.dialect(&spec);
    let mut kept = kept_plan(host, &checked, identity, ATTEMPT, &plan, &mut *dialect)?;
    kept.secrets.extend(upstream.secrets());
    kept.luggage = upstream.packed();
    let account = usage::ask(
        &checked.adapter,
        usage::Place {
            data: host.inner.data.path(),
            host: &host.inner.environment,
            agent: &kept.env.iter().cloned().collect(),
        },
    )
    .await;
    kept.secrets.extend(account.secret);
    let mut again = again(host, &checked, identity, &spec, taken_up.fresh_prompt)?;
    if let Some(again) = &mut again {
        again.plan.secrets.clone_from(&kept.secrets);
        again.plan.luggage.clone_from(&kept.luggage);
    }
    let seal = Seal::new(kept.secrets.iter().cloned());
    let comparison = match purpose {
        Purpose::Start => comparison(host, &checked, identity.run).await?,
        Purpose::Line => Comparison::NotNeeded,
    };
    let uncompared = match &comparison {
        Comparison::NotPossible(why) => Some(workspace_check::not_compared(why)),
        Comparison::NotNeeded | Comparison::With(_) => None,
    };
    let noted = noted.into_iter().chain(taken_up.warnings).chain(account.drafts);
    let warnings = noted.chain(uncompared).collect();
    let session_spent = taken_up.spent;
    Ok(Prepared {
        checked,
        spec,
        plan,
        kept,
        seal,
        upstream,
        dialect,
        again,
        warnings,
        account: account.quota,
        session_spent,
        fresh,
        comparison,
    })
}

/// Looks at the workspace before the launch, where the policy forbids to change it. A workspace that
/// cannot be compared does not keep the run from starting; the run says so.
async fn comparison(host: &Host, checked: &Checked, run: RunId) -> Result<Comparison, Fault> {
    if !workspace_check::applies(checked.policy, checked.lane) {
        return Ok(Comparison::NotNeeded);
    }
    let others = locks::others(host, checked.workspace.path(), Some(run)).await?;
    let (workspace, policy) = (Arc::clone(&checked.workspace), checked.policy);
    let git = host.inner.trees.git().clone();
    let dir = workspace.path().to_owned();
    let taken =
        blocking::work_in(&dir, "read workspace", move || Beginning::take(workspace, git, policy))
            .await;
    Ok(match taken.map_err(|fault| fault.message).flatten() {
        Ok(beginning) => Comparison::With(Arc::new(beginning.beside(!others.is_empty()))),
        Err(why) => Comparison::NotPossible(why),
    })
}

/// The driver of a run that was begun and never launched, for whoever asked for it again.
pub(super) async fn drive_again(
    host: &Host,
    request: RunRequest,
    row: &RunRow,
) -> Result<Drive, Fault> {
    let (request, adapter) = request.completed(host).await?;
    let adapter = billing::found_out(host, &request, adapter).await;
    let identity = Identity {
        task: row.task,
        fence: row.fence,
        lease_token: host.inner.lease_token(row.id, row.fence),
        errand: errand::of(host, row.task).await?,
        ..identity(host, &request, row.id)
    };
    let (prepared, keeper) = prepare_beside_keeper(host, &request, adapter, &identity).await?;
    let (cwd, secrets) = prepared.to_be_left();
    leave_secrets(host, &cwd, secrets, row.id).await?;
    let mut drive = drive(host, &request, &identity, prepared, keeper)?;
    if drive.errand.is_some() {
        drive.standing = errand::said_before(host, row.task).await?;
    }
    Ok(drive)
}

/// Leaves what must be kept out of what is shown of the run's work, where that outlasts the run.
async fn leave_secrets(
    host: &Host,
    cwd: &Path,
    values: Vec<(String, String)>,
    run: RunId,
) -> Result<(), Fault> {
    let Some(tree) = host.inner.trees.of(cwd) else { return Ok(()) };
    let secret = host.inner.keepsake_secret(run, BESIDE_TREE);
    let left = blocking::spawn(Bulkhead::Data, "keep worktree secrets", move || {
        tree.leave_secrets(run, &secret, &values)
    });
    left.await.map_err(io::Error::other).flatten().map_err(|error| {
        Fault::new(Code::InternalError, format!("writing beside the workspace: {error}"))
    })
}

/// Prepares the run while its keeper starts, if none was there already: a process takes as long to
/// come up as all of this, and without its plan it does nothing.
async fn prepare_beside_keeper(
    host: &Host,
    request: &RunRequest,
    adapter: Adapter,
    identity: &Identity,
) -> Result<(Prepared, Spawned), Fault> {
    let keepers = Arc::clone(&host.inner.keepers);
    let spare = keepers.take_spare();
    let failed = move |error| {
        Fault::new(Code::SpawnFailed, format!("{}: {error}", host.inner.program.display()))
    };
    let starting = match spare {
        Some(spare) => Ok(spare),
        None => Err(blocking::spawn(Bulkhead::Data, "start keeper", move || keepers.start())),
    };
    let prepared = prepare(host, request, adapter, identity, Purpose::Start).await;
    let keeper = match starting {
        Ok(spare) => spare,
        Err(starting) => starting.await.map_err(io::Error::other).flatten().map_err(failed)?,
    };
    failpoint::hit(Point::KeeperSpawned);
    match prepared {
        Ok(prepared) => Ok((prepared, keeper)),
        Err(fault) => {
            drive::let_go(keeper.control, keeper.child);
            host.inner.keepers.refill();
            Err(fault)
        }
    }
}

/// What is made of a request.
pub(crate) enum Begun {
    Started(Started),
    /// All slots of its adapter are taken, or others came first. Nothing was made.
    NoSlot,
    /// Another host or a person changed the task meanwhile. Nothing was made.
    TaskChanged,
}

/// Lets a request stand in line for a slot, if it could be started now but for that. Nothing else of
/// it comes to exist: neither a run nor a lease nor a process.
pub(super) async fn line_up(
    host: &Host,
    request: RunRequest,
    adapter: Adapter,
    run: RunId,
) -> Result<TaskId, Fault> {
    let row = host.store().agent(&request.agent).await.map_err(stored)?;
    agents::may_run(&request.agent, row.as_ref())?;
    let identity = identity(host, &request, run);
    let pool = adapter.name.clone();
    let prepared = prepare(host, &request, adapter, &identity, Purpose::Line).await?;
    let Prepared { spec, seal, checked, account, .. } = prepared;
    within::heed_report(host, &checked.adapter, account, &seal).await?;
    let task = new_task(&request, &identity, &spec, &seal);
    let task = NewTask { line: Some(InLine { pool, run }), ..task };
    host.inner.heed(host.store().enqueue(task).await).map_err(stored)
}

/// The task that a request is.
fn new_task(request: &RunRequest, identity: &Identity, spec: &Spec, seal: &Seal) -> NewTask {
    NewTask {
        id: identity.task,
        key: (request.tools_by == ToolsBy::Caller).then(|| session::task_key(identity.run)),
        agent: request.agent.clone(),
        title: seal.given(&title(request)),
        body: seal.given(&request.prompt),
        prompt: seal.given(&spec.prompt),
        system_prompt: request.system_prompt.as_deref().map(|text| seal.given(text)),
        review: Review::None,
        priority: 0,
        line: None,
        errand: None,
        created_at: clock::now().wall,
    }
}

/// Starts a run that is not there yet, for a new task or for one that stood in line. When this
/// returns, task, run and its first events are durable.
pub(crate) async fn start_new(
    host: &Host,
    request: RunRequest,
    run: RunId,
    in_line: Option<TaskId>,
) -> Result<Begun, Fault> {
    // The driver has a span of its own, with the task and the fence.
    let span = tracing::info_span!("start run", %run, agent = request.agent);
    begin_new(host, request, run, in_line).instrument(span).await
}

async fn begin_new(
    host: &Host,
    request: RunRequest,
    run: RunId,
    in_line: Option<TaskId>,
) -> Result<Begun, Fault> {
    let house = &host.inner;
    if let Some(trouble) = house.trouble() {
        return Err(trouble.fault());
    }
    let (request, adapter) = request.completed(host).await?;
    let adapter = billing::found_out(host, &request, adapter).await;
    let mut around = within::look(host, &request.agent, &adapter, in_line).await?;
    agents::may_run(&request.agent, around.rows.agent.as_ref())?;
    let mut identity = identity(host, &request, run);
    let said = match in_line {
        Some(task) => identity.of_task(host, task).await?,
        None => tool::Standing::default(),
    };
    let newcomer = Newcomer { run, task: identity.task, fence: identity.fence };
    let mut admission = within::admit(host, &request, &adapter, newcomer, &around).await?;
    let request = RunRequest {
        budget: admission.budget,
        own_budget: request.budget,
        counted_budget: request.budget.over(admission.of_task),
        ..request
    };
    let (mut prepared, keeper) = prepare_beside_keeper(host, &request, adapter, &identity).await?;
    let fresh = prepared.fresh.take();
    let mut warnings = std::mem::take(&mut prepared.warnings);
    let fund = admission.fund.as_ref();
    warnings.extend(
        fund.map_or_else(Vec::new, |fund| fund.held_late(&prepared.checked.runtime.card())),
    );
    let (cwd, secrets) = prepared.to_be_left();
    let live = std::mem::take(&mut around.rows.live);
    let account = prepared.account.take();
    let (adapter, seal) = (&prepared.checked.adapter, &prepared.seal);
    let readied = async {
        within::heed_report(host, adapter, account, seal).await?;
        warnings.extend(locks::warned(host, live, &cwd, run).await?);
        leave_secrets(host, &cwd, secrets, run).await
    };
    if let Err(fault) = readied.await {
        drive::let_go(keeper.control, keeper.child);
        house.keepers.refill();
        discard(fresh).await;
        return Err(fault);
    }
    let Prepared { checked, spec, plan, kept, seal, .. } = &prepared;
    let now = clock::now();
    let task = new_task(&request, &identity, spec, seal);
    let claim = Claim {
        task: identity.task,
        run: identity.run,
        holder: std::process::id().to_string(),
        now: now.wall,
        lease_ms: house.lease_ms,
        plan: seal.view(plan),
        places: line::places(&checked.adapter),
        head: RunHead {
            agent: request.agent.clone(),
            adapter: checked.adapter.name.clone(),
            runtime: registry::kept_as(&checked.runtime, &checked.adapter),
            cwd: checked.workspace.path().display().to_string(),
            model: spec.model.clone(),
            resumes: spec.session.as_deref().map(|id| seal.given(id)),
            fallback: request.fallback.as_deref().map(|why| seal.given(why)),
            prompt_preview: seal.given(&first_line(&request.prompt)),
        },
    };

    let short = terms::short_secrets(&kept.secrets);
    let mut drive = drive(host, &request, &identity, prepared, keeper)?;
    drive.standing = said;
    drive.share.fund = admission.fund.take();
    drive.pending.drafts.push(Draft::operator(Body::UserText(UserText { text: request.prompt })));
    let fallback = request.fallback.map(|who| format!("this run is a fallback: {who}"));
    drive.pending.drafts.extend(fallback.map(warning));
    drive.pending.drafts.append(&mut admission.drafts);
    drive.pending.drafts.extend(short.into_iter().map(terms::too_short));
    warnings.iter().for_each(|draft| drive.share.note(draft));
    drive.pending.drafts.extend(warnings);
    drive.step(now, Input::Begin);
    let Made { batch, deeds } = drive.make_batch(now);
    // The store comes first and takes the longer; meanwhile the keeper makes ready what it will launch.
    let (begun, ()) = tokio::join!(within::begin(host, admission, task, claim, batch), async {
        blocking::in_place("give plan to keeper", || drive.hand_over_plan());
    });
    let begun = match begun {
        Ok(begun) => begun,
        Err(refused) => {
            drive.abandon();
            return Err(refused);
        }
    };
    match begun {
        Ok(_) => {}
        Err(store::Error::PoolFull { .. }) => {
            drive.abandon();
            discard(fresh).await;
            return Ok(Begun::NoSlot);
        }
        Err(error) => {
            drive.abandon();
            discard(fresh).await;
            let is_changed =
                matches!(error.code(), Code::Conflict | Code::FenceStale | Code::NotFound);
            return match in_line {
                Some(_) if is_changed => Ok(Begun::TaskChanged),
                Some(_) | None => Err(stored(error)),
            };
        }
    }
    if let Some(fresh) = fresh {
        fresh.keep();
    }
    failpoint::hit(Point::RunBegun);
    house.drive(drive, Some(deeds));
    // The agent is launched by the driver, which is to come before our answer.
    tokio::task::yield_now().await;
    Ok(Begun::Started(Started { run_id: identity.run, task_id: identity.task }))
}

/// The same once more without the conversation, should the agent not know it any more.
fn again(
    host: &Host,
    checked: &Checked,
    identity: &Identity,
    spec: &Spec,
    fresh_prompt: Option<String>,
) -> Result<Option<Box<Again>>, Fault> {
    let (Some(_), Some(prompt)) = (&spec.session, fresh_prompt) else { return Ok(None) };
    let attempt = ATTEMPT + 1;
    let files = host.inner.data.files(identity.run, attempt).display().to_string();
    let prompt = checked.introduced(&prompt, &files);
    let spec = Spec { session: None, prompt: prompt.clone(), files, ..spec.clone() };
    let plan = checked.runtime.plan(&spec)?;
    let mut dialect = checked.runtime.dialect(&spec);
    let kept = kept_plan(host, checked, identity, attempt, &plan, &mut *dialect)?;
    let mounts = Mounts { skills: Arc::clone(&checked.skills), mounts: plan.mounts };
    Ok(Some(Box::new(Again {
        plan: kept,
        dialect,
        files: plan.files,
        mounts,
        fresh_prompt: Some(prompt),
    })))
}

fn identity(host: &Host, request: &RunRequest, run: RunId) -> Identity {
    Identity {
        run,
        // The same digits as the run's, so that people recognise that they belong together.
        task: TaskId::new(run.uuid()),
        agent: chance::agent_id(&request.agent),
        fence: FIRST_FENCE,
        lease_token: host.inner.lease_token(run, FIRST_FENCE),
        errand: None,
    }
}

impl Identity {
    /// Makes this a run of a task that is there, under the fence that the claim will have; gives what
    /// was said of the task before.
    async fn of_task(&mut self, host: &Host, task: TaskId) -> Result<tool::Standing, Fault> {
        let row = host.store().task(task).await.map_err(stored)?;
        let fence = row.map_or(FIRST_FENCE, |row| row.fence + 1);
        self.task = task;
        self.fence = fence;
        self.lease_token = host.inner.lease_token(self.run, fence);
        self.errand = errand::of(host, task).await?;
        match self.errand {
            Some(_) => errand::said_before(host, task).await,
            None => Ok(tool::Standing::default()),
        }
    }
}

/// Puts the driver together, with its keeper that waits for the plan.
fn drive(
    host: &Host,
    request: &RunRequest,
    identity: &Identity,
    prepared: Prepared,
    spawned: Spawned,
) -> Result<Drive, Fault> {
    let house = &host.inner;
    let Prepared { checked, spec, plan, kept, seal, upstream, dialect, again, comparison, .. } =
        prepared;
    // A conversation that begins afresh has no past to be counted.
    let session_spent = match spec.session {
        Some(_) => prepared.session_spent,
        None => Vec::new(),
    };
    let terms = terms::terms(request, &checked, &plan, house.lease_ms, identity.fence);
    let terms = Terms { session_spent, ..terms };
    let now = clock::now();
    let lease_ms = house.lease_ms;
    let keeping = Keeping::new(spawned.control)
        .map_err(|error| Fault::new(Code::SpawnFailed, format!("the keeper's socket: {error}")))?;
    let (answering, answers) = drive::answers();
    let policy = checked.policy;
    Ok(Drive {
        house: Arc::clone(house),
        run: identity.run,
        fence: identity.fence,
        attempt: ATTEMPT,
        runtime: checked.runtime.clone(),
        machine: Machine::new(terms, now),
        dialect,
        joiner: Default::default(),
        tracer: Tracer::new(
            seal.clone(),
            checked.adapter.trace.then(|| {
                let bytes_max =
                    checked.adapter.output_bytes_max.unwrap_or(limits::OUTPUT_BYTES_MAX);
                house.store.new_trace(identity.run, bytes_max)
            }),
        ),
        words: Words { seal: seal.clone(), next_seq: 1, carry: Default::default(), open: None },
        pending: Default::default(),
        mouth: Mouth::default(),
        bench: Bench {
            run: identity.run,
            task: Arc::new(TaskSheet {
                id: identity.task,
                run: identity.run,
                agent: request.agent.clone(),
                title: title(request),
                body: match &identity.errand {
                    Some(errand) => errand.body.clone(),
                    None => request.prompt.clone(),
                },
                prompt: spec.prompt.clone(),
                system_prompt: request.system_prompt.clone(),
                session: spec.session.clone(),
                context: terms::told_context(request, identity),
            }),
            workspace: checked.workspace,
            policy,
            store: house.store.clone(),
            seal,
            upstream: Arc::new(upstream),
        },
        standing: tool::Standing::default(),
        errand: identity.errand.clone(),
        cost_model: checked.adapter.cost_model,
        quota: checked.adapter.quota,
        reported: Default::default(),
        share: Default::default(),
        told: Some(house.address().to_owned()),
        spool: house.data.spool(identity.run, ATTEMPT),
        spool_dropped: 0,
        // As the keeper counts it.
        lease: Lease::granted(now.mono_ms, kept.deadline_ms, lease_ms),
        again,
        plan: Handing::To(Box::new(kept)),
        files: plan.files,
        mounts: Mounts { skills: checked.skills, mounts: plan.mounts },
        keeping: Some(keeping),
        child: Some(spawned.child),
        intake: None,
        inbox: house.store.inbox_changed(identity.run),
        answers,
        answering,
        callers: Default::default(),
        abroad: Abroad::of(request.tools_by),
        leaving: house.leaving(),
        shut: None,
        pid: None,
        ending: Ending::Running,
        blind: None,
        comparison,
    })
}

async fn check(
    host: &Host,
    request: &RunRequest,
    adapter: Adapter,
    run: RunId,
    purpose: Purpose,
) -> Result<(Checked, Option<Fresh>, Vec<Draft>), Fault> {
    if request.prompt.trim().is_empty() {
        return Err(
            Fault::new(Code::Usage, "the prompt is empty").with_hint("give the task for the agent")
        );
    }
    if request.prompt.len() > limits::PROMPT_BYTES_MAX {
        let message = format!(
            "the prompt has {} bytes; the limit is {}",
            request.prompt.len(),
            limits::PROMPT_BYTES_MAX
        );
        return Err(Fault::new(Code::TooLarge, message));
    }
    if let Some(context) = &request.context {
        add::check_context(context)?;
    }
    let runtime = registry::of(&adapter)?;
    let site = Site::of(host, request).await?;
    let (environment, adapter) = match &request.environment {
        Some(environment) => (environment.clone(), adapter),
        None => with_own_environment(host, adapter, runtime.card()).await,
    };
    let mut environment = environment;
    token_file::fill(&adapter, &mut environment).await?;
    let policy = terms::policy(host, request, &adapter, &site);
    let lane = lane(&runtime.card(), &adapter, policy, &site).await?;
    let is_given = request.permission.or(adapter.permission).is_some();
    let coverage = is_given.then(|| terms::coverage(policy, lane)).flatten();
    let runtime = registry::on_lane(runtime, lane);
    rules::countable::check(&runtime.card(), &request.counted_budget)?;
    let (skills, adapter) = skilled(adapter).await?;
    let looks_at = site.source().map(Path::to_owned);
    let Placed { workspace, fresh, mut warnings } = site.make(host, run, purpose).await?;
    warnings.extend(coverage);
    let source = looks_at.unwrap_or_else(|| workspace.path().to_owned());
    let checked =
        Checked { adapter, runtime, workspace, environment, policy, lane, skills, source };
    Ok((checked, fresh, warnings))
}

/// The host's environment, for a run whose caller sends none, and the adapter with the variables that
/// the agent's own configuration names. A caller that sends its environment has looked there itself.
async fn with_own_environment(
    host: &Host,
    mut adapter: Adapter,
    card: Card,
) -> (BTreeMap<String, String>, Adapter) {
    let environment = host.inner.environment.clone();
    if card.env_files.is_empty() {
        return (environment, adapter);
    }
    let (given, caller) = (adapter.clone(), environment.clone());
    let read = blocking::spawn(Bulkhead::Data, "read agent files", move || {
        environment::pass_named_by_agent(&mut adapter, &card, &caller);
        adapter
    });
    // A panic while reading is logged where it happened; the run goes on without those names.
    (environment, read.await.unwrap_or(given))
}

/// Reads the skills that the adapter names, each once.
async fn skilled(mut adapter: Adapter) -> Result<(Arc<[Skill]>, Adapter), Fault> {
    if adapter.skills.is_empty() {
        return Ok((Default::default(), adapter));
    }
    let dir = PathBuf::from(adapter.skills_dir.clone().unwrap_or_default());
    blocking::work_in(&dir, "read skills", move || {
        let skills = skills::load(&adapter)?;
        let named = |skill: &Skill| plan::Skill { name: skill.name.clone(), always: skill.always };
        adapter.skills = skills.iter().map(named).collect();
        Ok((skills, adapter))
    })
    .await?
}

/// The lane that was asked for, else the first that can keep the policy.
async fn lane(card: &Card, adapter: &Adapter, policy: Policy, site: &Site) -> Result<Lane, Fault> {
    let wanted = match adapter.lane.unwrap_or(LaneChoice::Auto) {
        LaneChoice::Auto => None,
        LaneChoice::Native => Some(Lane::Native),
        LaneChoice::Acp => Some(Lane::Acp),
    };
    let candidates = card.lanes.iter().filter(|lane| wanted.is_none_or(|wanted| wanted == **lane));
    let mut any = false;
    for lane in candidates {
        any = true;
        if card.keeps(*lane, policy) {
            return Ok(*lane);
        }
    }
    let name = &adapter.name;
    if !any {
        let message = format!("adapters.{name}.lane: {} does not have this lane", card.label);
        return Err(Fault::new(Code::InvalidConfig, message).with_hint("set lane: auto"));
    }
    let (word, elsewhere) = (policy.word(), card.lane_for(policy));
    let message = format!("{} cannot enforce --permission {word}", card.label);
    let mut ways = vec!["--permission allow-all in a separate directory"];
    ways.extend(site.could_be_worktree().await.then_some("--worktree"));
    ways.extend(elsewhere.map(|lane| match lane {
        Lane::Acp => "lane: acp",
        Lane::Native | Lane::Process | Lane::Http => "lane: auto",
    }));
    Err(Fault::new(Code::PolicyNotPossible, message).with_hint(ways.join(", or ")))
}

fn spec(
    host: &Host,
    request: &RunRequest,
    checked: &Checked,
    identity: &Identity,
    taken_up: &TakenUp,
) -> Result<Spec, Fault> {
    let model = request.model.clone().or_else(|| checked.adapter.model.clone());
    let organization = &host.inner.organization;
    let agent = json!({
        "id": identity.agent,
        "name": request.agent,
        "companyId": organization,
        "adapterType": checked.adapter.runtime,
    });
    let mut context = template::Context::new();
    context
        .set("workspacePath", checked.workspace.path().display().to_string())
        .set("leaseToken", identity.lease_token.as_str())
        .set("fencingToken", identity.fence.to_string())
        .set("taskId", identity.task.to_string())
        .set("runId", identity.run.to_string())
        .set("mcpUrl", format!("{}/mcp", host.inner.address()))
        .set("callbackUrl", callback::url(host.inner.address(), identity.run))
        .set("agentId", identity.agent.to_string())
        .set("companyId", organization.as_str())
        .set("company", json!({ "id": organization, "name": organization }))
        .set("agent", agent)
        .set("run", json!({ "id": identity.run, "attempt": 1 }))
        .set(
            "task",
            json!({ "id": identity.task, "title": title(request), "body": request.prompt }),
        )
        .set("context", terms::told_context(request, identity))
        .set("leaseExpiresAt", terms::lease_end(host).to_string())
        .set("budgetEnvelope", terms::envelope(&request.budget));
    // A conversation that must begin afresh is told of the old one.
    let told = taken_up.fresh_prompt.as_ref().filter(|_| taken_up.session.is_none());
    let prompt = match &request.prompt_template {
        None => told.unwrap_or(&request.prompt).clone(),
        Some(template) => {
            context.set("prompt", told.unwrap_or(&request.prompt).as_str());
            template::fill_prompt(template, "promptTemplate", &context)?
        }
    };
    let files = host.inner.data.files(identity.run, ATTEMPT).display().to_string();
    let prompt = checked.introduced(&prompt, &files);
    Ok(Spec {
        adapter: checked.adapter.clone(),
        context,
        model,
        prompt,
        system_prompt: request.system_prompt.clone(),
        policy: checked.policy,
        lane: checked.lane,
        session: taken_up.session.clone(),
        budget: request.own_budget,
        counts_spending: rules::countable::is_counted(&request.counted_budget),
        files,
        as_root: rustix::process::geteuid().is_root(),
        own_program: own_program(&host.inner.program),
        caller_env: checked.environment.clone(),
    })
}

/// The path of this program as an agent may start it: a link to one's own binary means another one
/// there. When it is gone from the disk, only the link is left, and our keeper can follow it.
pub(crate) fn own_program(program: &Path) -> String {
    let real = std::fs::read_link(program).ok().filter(|real| real.exists());
    real.as_deref().unwrap_or(program).display().to_string()
}

/// The plan as the keeper needs it: every value resolved.
fn kept_plan(
    host: &Host,
    checked: &Checked,
    identity: &Identity,
    attempt: u32,
    plan: &LaunchPlan,
    dialect: &mut dyn runtimes::Dialect,
) -> Result<keeper::plan::Plan, Fault> {
    let house = &host.inner;
    let wake = identity.errand.as_ref().map(|errand| &errand.wake);
    let reserved = Reserved {
        run: identity.run,
        task: identity.task,
        agent: identity.agent,
        fence: identity.fence,
        lease_token: &identity.lease_token,
        api_url: house.address(),
        organization: &house.organization,
        workspace: checked.workspace.path(),
        wake_reason: wake.map_or(errand::wake::RUN, |wake| wake.reason.as_str()),
        wake_comment: wake.and_then(|wake| wake.comment.as_deref()),
        approval: wake.and_then(|wake| wake.approval.as_ref()),
        linked_tasks: identity.errand.as_ref().map_or(&[], |errand| &errand.linked),
        compat: &checked.adapter.env_compat,
    };
    let env = environment::build(
        &plan.env,
        runtimes::passed_env::ENV_ALLOWLIST_PREFIXES,
        &checked.environment,
        &reserved,
    );
    let clocks = &checked.adapter.clocks;
    let term_ms = clocks.term_ms.unwrap_or(limits::TERM_MS);
    let (lease_farewell_ms, lease_term_ms, lease_overrun_ms) =
        terms::lease_stop(plan.lane, term_ms);
    Ok(keeper::plan::Plan {
        version: keeper::wire::VERSION,
        run_id: identity.run.to_string(),
        attempt,
        fence: identity.fence,
        hello_secret: house.hello_secret(identity.run, attempt),
        spool_dir: house.data.spool(identity.run, attempt),
        program: plan.program.clone(),
        args: plan.args.clone(),
        cwd: checked.workspace.path().to_owned(),
        secrets: terms::secrets(plan, &env, &checked.environment, identity)?,
        luggage: None,
        env,
        stdin: match plan.stdin {
            plan::StdinMode::None => StdinMode::Null,
            plan::StdinMode::Prompt => StdinMode::Once,
            plan::StdinMode::Events | plan::StdinMode::Jsonrpc | plan::StdinMode::StreamJson => {
                StdinMode::Open
            }
        },
        first_frame: dialect.open(),
        deadline_ms: LeaseClock::Monotonic.now_ms() + house.lease_ms,
        clock: LeaseClock::Monotonic,
        farewell: dialect.farewell(Code::LeaseExpired),
        farewell_ms: limits::FAREWELL_MS,
        term_ms,
        lease_farewell_ms,
        lease_term_ms,
        lease_overrun_ms,
        drain_ms: limits::DRAIN_MS,
        output_bytes_max: checked.adapter.output_bytes_max.unwrap_or(limits::OUTPUT_BYTES_MAX),
        segment_bytes: crate::keeping::SEGMENT_BYTES,
        mark: (crate::adopt::MARK.to_owned(), identity.run.to_string()),
        level: house.isolation,
    })
}

fn title(request: &RunRequest) -> String {
    request.title.clone().unwrap_or_else(|| first_line(&request.prompt))
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(200).collect()
}
