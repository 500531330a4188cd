//! How a name becomes something to run. A name is looked up in `agents`, then `adapters`, then among
//! those that were hired (`hired.rs`), then in the registry of runtimes; a flag beats the agent, the agent beats the adapter, and what nobody says
//! is left to the runtime's card. The result is plain data: nothing here looks at the machine.

use super::file::{
    Adapter, Agent, Auth, Budget, Fallback, File, McpServer, RotateAfter, Rotation, Skill,
};
use super::nearest::nearest;
use super::words::{
    AdapterType, AuthType, AutoOff, Billing, LaneChoice, OnOff, ProjectContext, Protocol,
    QuotaSource, TurnEnd, Window, Workspace,
};
use super::{command_line, mistaken, placeholder};
use contract::money::Budget as RunBudget;
use contract::plan::{self, Clocks, Limit};
use contract::{Code, Fault, NanoUsd, Policy, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directory beside the configuration in which a person keeps skills.
pub const SKILLS_DIR: &str = "skills";

/// The registry's id of the runtime for agents that are reached by HTTP.
pub(super) const HTTP_RUNTIME: &str = "remote";

/// A configuration without mistakes of form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// Where it came from; `None` when there is no file.
    pub path: Option<PathBuf>,
    pub file: File,
}

/// What the command line says for this run alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flags {
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub cwd: Option<PathBuf>,
    pub workspace: Option<Workspace>,
    pub permission: Option<Policy>,
    pub timeout: Option<Limit>,
    pub budget: RunBudget,
}

/// The tightest of what the budgets say for the window of one run.
fn of_one_run(budgets: &[Budget]) -> RunBudget {
    let run = budgets.iter().filter(|budget| budget.window == Window::Run);
    run.fold(RunBudget::default(), |so_far, budget| RunBudget {
        nanousd: least(so_far.nanousd, budget.usd.and_then(NanoUsd::from_usd)),
        tokens: least(so_far.tokens, budget.tokens),
        turns: least(so_far.turns, budget.turns),
        // The cast saturates: an absurdly long time is the longest there is.
        ms: least(so_far.ms, budget.minutes.map(|minutes| (minutes * 60_000.0) as u64)),
        best_effort: so_far.best_effort || budget.best_effort,
    })
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Everything the configuration says about running one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The name it was asked for by.
    pub agent: String,
    /// Its model, clocks, permission and account are already those of flag, agent and adapter.
    pub adapter: plan::Adapter,
    pub prompt_template: Option<String>,
    pub system_prompt: Option<String>,
    pub cwd: Option<PathBuf>,
    pub repository: Option<PathBuf>,
    pub workspace: Option<Workspace>,
    pub permission: Option<Policy>,
    /// What this run may spend: flag over agent over the file's own budgets.
    pub run_budget: RunBudget,
    /// The agent's budgets over longer windows, and its shares of a quota.
    pub budgets: Vec<Budget>,
    /// The relayed tools it is offered; `None` is all of them.
    pub tools: Option<Vec<String>>,
    pub concurrency: Option<u32>,
    pub fallback: Vec<Fallback>,
}

/// What to run for a name, when the command line says nothing more.
pub fn resolve(name: &str, config: &Config) -> Result<Resolved, Fault> {
    resolve_with(name, config, &Flags::default())
}

/// What to run for a name.
pub fn resolve_with(name: &str, config: &Config, flags: &Flags) -> Result<Resolved, Fault> {
    resolve_agent(name, config.file.agents.get(name), config, flags)
}

/// The same for an agent whose keys are known: one of the file's own, or one that was hired.
pub fn resolve_agent(
    name: &str,
    agent: Option<&Agent>,
    config: &Config,
    flags: &Flags,
) -> Result<Resolved, Fault> {
    let adapter_name = agent.map_or(name, |agent| agent.adapter.as_str());
    let configured = config.file.adapters.get(adapter_name);
    let adapter = match configured {
        Some(configured) => adapter(adapter_name, configured),
        None if runtimes::registry::find(adapter_name).is_some() => bare(adapter_name),
        None => match runtimes::acp::cards::find(adapter_name) {
            Some(known) => known_by_name(known),
            None => return Err(unknown(config, name, adapter_name)),
        },
    };
    if adapter.mapping.is_none() && runtimes::registry::find(&adapter.runtime).is_none() {
        return Err(not_built(adapter_name, &adapter.runtime));
    }
    known_placeholders(adapter_name, &adapter, agent)?;
    Ok(overlay(config, name, flags, adapter, agent))
}

/// The program that a name starts; none for an agent elsewhere, and for what is built in.
pub fn program(name: &str, config: &Config) -> Result<Option<String>, Fault> {
    let adapter = resolve(name, config)?.adapter;
    let card = runtimes::registry::of(&adapter)?.card();
    let required = card.requires.into_iter().next().map(|required| required.binary);
    Ok(adapter.binary.filter(|binary| !binary.is_empty()).or(required))
}

/// What to run when the adapter is already known, as for `--process CMD`.
pub fn resolve_adapter(
    config: &Config,
    adapter: plan::Adapter,
    flags: &Flags,
) -> Result<Resolved, Fault> {
    let name = adapter.name.clone();
    known_placeholders(&name, &adapter, None)?;
    Ok(overlay(config, &name, flags, adapter, None))
}

/// The MCP servers of the file, as every agent is offered them.
fn servers(config: &Config) -> BTreeMap<String, plan::McpServer> {
    let server = |from: &McpServer| plan::McpServer {
        command: from.command.clone(),
        args: from.args.clone(),
        env: from.env.clone(),
        url: from.url.clone(),
        headers: from.headers.clone(),
    };
    config.file.mcp_servers.iter().map(|(name, from)| (name.clone(), server(from))).collect()
}

/// The adapter of `--process CMD`.
pub fn process_adapter(command: &str) -> Result<plan::Adapter, Fault> {
    command_adapter(AdapterType::Process, command)
}

/// The adapter of `--acp CMD`.
pub fn acp_adapter(command: &str) -> Result<plan::Adapter, Fault> {
    command_adapter(AdapterType::Acp, command)
}

/// The adapter of `--http URL`.
pub fn http_adapter(url: &str, token_env: Option<&str>) -> plan::Adapter {
    let auth = match token_env {
        Some(name) => plan::RemoteAuth::Bearer { token_env: name.to_owned(), token_file: None },
        None => plan::RemoteAuth::None,
    };
    let remote = plan::Remote { base_url: url.to_owned(), auth, ..plan::Remote::default() };
    let runtime = HTTP_RUNTIME.to_owned();
    // Slots are counted by name, and each remote has its own.
    let name = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    let name = name.filter(|name| !name.is_empty()).unwrap_or(AdapterType::Http.word());
    let max_concurrent = Some(limits::REMOTE_RUNS_MAX);
    plan::Adapter { runtime, remote: Some(remote), max_concurrent, ..bare(name) }
}

fn command_adapter(kind: AdapterType, command: &str) -> Result<plan::Adapter, Fault> {
    let mut words = command_line::split(command)?.into_iter();
    let binary = words.next().unwrap_or_default();
    let stem = Path::new(&binary).file_stem().map(|stem| stem.display().to_string());
    let name = stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| binary.clone());
    let runtime = kind.word().to_owned();
    let (binary, args) = (Some(binary), words.collect());
    Ok(plan::Adapter { runtime, binary, args, ..bare(&name) })
}

fn overlay(
    config: &Config,
    name: &str,
    flags: &Flags,
    mut adapter: plan::Adapter,
    agent: Option<&Agent>,
) -> Resolved {
    let own = |text: &String| {
        let home = config.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        home.join(text)
    };
    let flag_clocks = Clocks { wall: flags.timeout, ..Clocks::default() };
    adapter.clocks = flag_clocks.over(adapter.clocks);
    let of_agent = |field: fn(&Agent) -> Option<String>| agent.and_then(field);
    adapter.model = flags.model.clone().or(of_agent(|agent| agent.model.clone())).or(adapter.model);
    adapter.account = of_agent(|agent| agent.account.clone()).or(adapter.account);
    adapter.permission =
        flags.permission.or(agent.and_then(|agent| agent.permission)).or(adapter.permission);
    adapter.env_passthrough = passed_through(config, &adapter.env_passthrough, agent);
    if adapter.mcp {
        adapter.mcp_servers = servers(config);
    }
    if let Some(agent) = agent.filter(|agent| !agent.skills.is_empty()) {
        adapter.skills = skills(&agent.skills);
    }
    if let Some(remote) = &mut adapter.remote {
        // Files are named from where they are written down.
        let place = |path: &mut String| *path = own(path).display().to_string();
        if let plan::RemoteAuth::Mtls { cert_path, key_path } = &mut remote.auth {
            [cert_path, key_path].into_iter().for_each(place);
        }
        if let plan::RemoteAuth::Bearer { token_file: Some(path), .. } = &mut remote.auth {
            place(path);
        }
        remote.ca_path.iter_mut().for_each(place);
    }
    if !adapter.skills.is_empty() && config.path.is_some() {
        adapter.skills_dir = Some(own(&SKILLS_DIR.to_owned()).display().to_string());
    }
    let budgets = agent.map(|agent| agent.budgets.clone()).unwrap_or_default();
    let run_budget = flags.budget.over(of_one_run(&budgets)).over(of_one_run(&config.file.budgets));
    Resolved {
        agent: name.to_owned(),
        permission: adapter.permission,
        adapter,
        prompt_template: of_agent(|agent| agent.prompt_template.clone()),
        system_prompt: flags.system_prompt.clone().or(of_agent(|a| a.system_prompt.clone())),
        cwd: flags.cwd.clone().or(agent.and_then(|agent| agent.cwd.as_ref()).map(own)),
        repository: agent.and_then(|agent| agent.repository.as_ref()).map(own),
        workspace: flags.workspace.or(agent.and_then(|agent| agent.workspace)),
        run_budget,
        budgets: budgets.into_iter().filter(outlasts_a_run).collect(),
        tools: agent.and_then(|agent| agent.tools.clone()),
        concurrency: agent.and_then(|agent| agent.concurrency),
        fallback: agent.map(|agent| agent.fallback.clone()).unwrap_or_default(),
    }
}

/// The variables that an agent gets from the caller's environment: those of the file for every
/// agent, those of its adapter and its own, each once.
fn passed_through(config: &Config, of_adapter: &[String], agent: Option<&Agent>) -> Vec<String> {
    let of_agent = agent.map(|agent| agent.env_passthrough.as_slice()).unwrap_or_default();
    let all = config.file.env_passthrough.iter().chain(of_adapter).chain(of_agent);
    let mut seen = BTreeSet::new();
    all.filter(|name| seen.insert(*name)).cloned().collect()
}

/// A share of the provider's quota is held before every start, whatever the window.
fn outlasts_a_run(budget: &Budget) -> bool {
    budget.window != Window::Run || budget.quota_percent.is_some()
}

/// A configured adapter in the words of the contract.
fn adapter(name: &str, from: &Adapter) -> plan::Adapter {
    let (runtime, args) = match from.kind {
        AdapterType::Process => {
            (AdapterType::Process.word().to_owned(), from.args.clone().unwrap_or_default())
        }
        AdapterType::Cli if from.mapping.is_some() => (runtimes::mapped::id(name), Vec::new()),
        AdapterType::Cli => (from.runtime.clone().unwrap_or_else(|| name.to_owned()), Vec::new()),
        AdapterType::Acp => {
            let args = from.args.clone().unwrap_or_else(|| vec!["acp".to_owned()]);
            (AdapterType::Acp.word().to_owned(), args)
        }
        AdapterType::Http => (HTTP_RUNTIME.to_owned(), Vec::new()),
    };
    plan::Adapter {
        name: name.to_owned(),
        runtime,
        binary: from.binary.clone(),
        args,
        env: from.env.clone(),
        env_passthrough: from.env_passthrough.clone(),
        env_flags: Vec::new(),
        model: from.model.clone(),
        fallback_models: from.fallback_models.iter().map(|model| model.id().to_owned()).collect(),
        turn_end: from.turn_end.map(|end| match end {
            TurnEnd::Reply => plan::TurnEnd::Reply,
            TurnEnd::Update => plan::TurnEnd::Update,
        }),
        cost_model: from.cost_model.clone(),
        billing: from.billing.map(|billing| match billing {
            Billing::Metered => contract::Billing::Metered,
            Billing::Subscription => contract::Billing::Subscription,
            Billing::Free => contract::Billing::Free,
        }),
        env_compat: from.env_compat.iter().map(|compat| compat.word().to_owned()).collect(),
        clocks: clocks(from),
        output_bytes_max: from.max_output_bytes.filter(|bytes| *bytes > 0),
        max_concurrent: max_concurrent(from),
        permission: from.permission,
        account: from.account.clone(),
        extra_args: from.extra_args.clone(),
        project_context: from.project_context.map(|context| match context {
            ProjectContext::Load => plan::ProjectContext::Load,
            ProjectContext::Isolate => plan::ProjectContext::Isolate,
        }),
        lane: from.lane.map(|lane| match lane {
            LaneChoice::Auto => plan::LaneChoice::Auto,
            LaneChoice::Native => plan::LaneChoice::Native,
            LaneChoice::Acp => plan::LaneChoice::Acp,
        }),
        mapping: from.mapping.clone(),
        quota: from.quota.as_ref().map(|quota| match quota.source {
            QuotaSource::Auto => plan::QuotaSource::Auto,
            QuotaSource::Oauth => plan::QuotaSource::Oauth,
            QuotaSource::Off => plan::QuotaSource::Off,
        }),
        rotation: from.rotation.as_ref().map(|rotation| match rotation {
            Rotation::Off(_) => plan::Rotation::Off,
            Rotation::After(RotateAfter { runs, hours }) => {
                plan::Rotation::After { runs: *runs, hours: *hours }
            }
        }),
        trace: from.trace != Some(OnOff::Off),
        mcp: from.mcp != Some(AutoOff::Off),
        mcp_servers: Default::default(),
        skills: skills(&from.skills),
        skills_dir: None,
        remote: (from.kind == AdapterType::Http).then(|| remote(from)),
    }
}

fn remote(from: &Adapter) -> plan::Remote {
    let auth = from.auth.as_ref();
    let text = |field: fn(&Auth) -> &Option<String>| {
        auth.and_then(|auth| field(auth).clone()).unwrap_or_default()
    };
    plan::Remote {
        base_url: from.base_url.clone().unwrap_or_default(),
        protocol: match from.protocol.unwrap_or(Protocol::CaHttpV1) {
            // What does not fit is refused when the file is read.
            Protocol::CaHttpV1 | Protocol::JsonLines => plan::RemoteProtocol::CaHttpV1,
            Protocol::HermesRunsV1 => plan::RemoteProtocol::HermesRunsV1,
            Protocol::WebhookV1 => plan::RemoteProtocol::WebhookV1,
        },
        auth: match auth.map_or(AuthType::None, |auth| auth.kind) {
            AuthType::None => plan::RemoteAuth::None,
            AuthType::Bearer => match auth.and_then(|auth| auth.token_file.clone()) {
                Some(file) => plan::RemoteAuth::Bearer {
                    token_env: plan::FILE_TOKEN_ENV.to_owned(),
                    token_file: Some(file),
                },
                None => {
                    plan::RemoteAuth::Bearer { token_env: text(|a| &a.token_env), token_file: None }
                }
            },
            AuthType::Mtls => plan::RemoteAuth::Mtls {
                cert_path: text(|a| &a.cert_path),
                key_path: text(|a| &a.key_path),
            },
        },
        ca_path: auth.and_then(|auth| auth.ca_path.clone()),
        allow_insecure: from.allow_insecure == Some(true),
    }
}

fn skills(from: &[Skill]) -> Vec<plan::Skill> {
    let skill = |skill: &Skill| match skill {
        Skill::Named(name) => plan::Skill { name: name.clone(), always: false },
        Skill::Marked(marked) => plan::Skill { name: marked.name.clone(), always: marked.always },
    };
    from.iter().map(skill).collect()
}

/// How many runs of an adapter there may be at once: a remote is spared unless someone says how much
/// it bears, anything else is limited only when someone says so.
pub(super) fn max_concurrent(from: &Adapter) -> Option<u32> {
    let said = |places: Option<u32>| places.filter(|places| *places > 0);
    let own = match from.kind {
        AdapterType::Http => {
            Some(said(from.max_concurrent_sessions).unwrap_or(limits::REMOTE_RUNS_MAX))
        }
        AdapterType::Process | AdapterType::Cli | AdapterType::Acp => None,
    };
    least(own, said(from.max_concurrent))
}

fn clocks(from: &Adapter) -> Clocks {
    Clocks {
        wall: from.timeout_sec.and_then(|patience| patience.limit()),
        silence: from.silence_sec.and_then(|patience| patience.limit()),
        first_output: from.first_output_sec.and_then(|patience| patience.limit()),
        term_ms: from.grace_sec.and_then(|seconds| seconds.ms()),
        linger_ms: from.linger_sec.and_then(|seconds| seconds.ms()),
        ask_ms: from.ask_timeout_sec.and_then(|seconds| seconds.ms()),
        patience_ms: from.patience_sec.and_then(|seconds| seconds.ms()),
    }
}

/// An agent that speaks ACP, with nothing configured. One that is a runtime here is that runtime, on
/// its second lane.
fn known_by_name(known: &runtimes::acp::cards::Known) -> plan::Adapter {
    if let Some(runtime) = runtimes::acp::lane::runtime_of(known) {
        let (runtime, lane) = (runtime.to_owned(), Some(plan::LaneChoice::Acp));
        return plan::Adapter { runtime, lane, ..bare(known.id) };
    }
    plan::Adapter {
        runtime: AdapterType::Acp.word().to_owned(),
        binary: Some(known.binary.to_owned()),
        args: known.args.iter().map(|arg| (*arg).to_owned()).collect(),
        ..bare(known.id)
    }
}

/// A runtime of the registry with nothing configured.
fn bare(name: &str) -> plan::Adapter {
    plan::Adapter {
        name: name.to_owned(),
        runtime: name.to_owned(),
        binary: None,
        args: Vec::new(),
        env: Default::default(),
        env_passthrough: Vec::new(),
        env_flags: Vec::new(),
        model: None,
        fallback_models: Vec::new(),
        turn_end: None,
        cost_model: None,
        billing: None,
        env_compat: Vec::new(),
        clocks: Clocks::default(),
        output_bytes_max: None,
        max_concurrent: None,
        permission: None,
        account: None,
        extra_args: Vec::new(),
        project_context: None,
        lane: None,
        mapping: None,
        quota: None,
        rotation: None,
        trace: true,
        mcp: true,
        mcp_servers: Default::default(),
        skills: Vec::new(),
        skills_dir: None,
        remote: None,
    }
}

/// The same question `config check` asks of the whole file, asked of what is about to run.
fn known_placeholders(
    name: &str,
    adapter: &plan::Adapter,
    agent: Option<&Agent>,
) -> Result<(), Fault> {
    let key = |i| format!("adapters.{name}.args[{i}]");
    let args = adapter.args.iter().enumerate().map(|(i, text)| (key(i), text));
    let env = adapter.env.iter().map(|(k, text)| (format!("adapters.{name}.env.{k}"), text));
    let template = agent.and_then(|agent| agent.prompt_template.as_ref());
    let template = template.map(|text| ("promptTemplate".to_owned(), text));
    for (key, text) in args.chain(env).chain(template) {
        for name in placeholder::placeholders(text) {
            if let Some((message, hint)) = placeholder::unknown(name) {
                let message = format!("{key}: {message}");
                return Err(Fault::new(Code::UnknownPlaceholder, message).with_hint(hint));
            }
        }
    }
    Ok(())
}

/// Every name that an agent can be given by, except those of hired agents.
pub fn names(config: &Config) -> impl Iterator<Item = &str> {
    let runtimes = runtimes::registry::ids();
    let all = config.file.agents.keys().chain(config.file.adapters.keys()).chain(runtimes);
    all.map(String::as_str).chain(runtimes::acp::cards::all().map(|known| known.id))
}

fn unknown(config: &Config, asked: &str, missing: &str) -> Fault {
    let message = if asked == missing {
        format!("no agent, adapter or runtime is called '{asked}'")
    } else {
        format!("agent '{asked}' uses the adapter '{missing}', which does not exist")
    };
    let names: Vec<String> =
        nearest(missing, names(config)).into_iter().map(|name| format!("'{name}'")).collect();
    let fault = Fault::new(Code::UnknownAgent, message);
    if names.is_empty() {
        return fault;
    }
    fault.with_hint(format!("did you mean {}?", names.join(" or ")))
}

fn not_built(name: &str, runtime: &str) -> Fault {
    Fault::new(
        Code::NotSupported,
        format!("adapters.{name}.runtime: there is no runtime '{runtime}'"),
    )
    .with_hint(mistaken::runtime_hint(runtime))
}
