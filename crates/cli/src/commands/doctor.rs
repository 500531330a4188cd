//! `ostler doctor`: what keeps agents from running. Without a name it looks at everything that
//! `ostler run` takes, and what is simply not installed is no failure; with a name it shows every
//! check, and a set-up that cannot work is the exit status. Probes are `host::diagnose`.

use super::{Context, Stopped};
use crate::args;
use crate::config::words::AdapterType;
use crate::config::{self as settings, Config, Resolved, file, resolve};
use crate::hosting::OWN_PROGRAM;
use crate::render::{self, Practice as Shown};
use contract::card::Requirement;
use contract::diagnosis::{Check, CheckCode, Diagnosis, Status};
use contract::plan::{Adapter, Lane, LaneChoice};
use contract::{Card, Code, Fault, Policy, limits};
use futures::StreamExt as _;
use host::diagnose::{Patient, Practice};
use runtimes::acp::cards::{self, Known};
use runtimes::registry::{self, Chosen};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

pub async fn doctor(context: &Context, args: args::Doctor) -> Result<ExitCode, Stopped> {
    let vars = &context.surroundings.vars;
    let path = settings::locate(context.global.config.as_deref(), vars);
    let config = settings::load(path.as_deref())?;
    let level = settings::isolation(vars)?;
    let practice = Practice::open(PathBuf::from(OWN_PROGRAM), vars.clone(), level)?;
    let isolation = practice.isolation().await;
    let names = match &args.agent {
        Some(name) => vec![name.clone()],
        None => names(&config),
    };
    let looked = names.iter().map(|name| look(context, &practice, &config, name));
    let diagnoses: Vec<Diagnosis> =
        futures::stream::iter(looked).buffered(limits::PROBES_MAX).collect().await;
    let shown = Shown {
        version: env!("CARGO_PKG_VERSION"),
        config: path.as_deref(),
        isolation: isolation.as_ref().map(|(level, note)| (level.word(), note.as_deref())),
        diagnoses: &diagnoses,
    };
    if context.global.json {
        context.print_json(&json!({
            "version": shown.version,
            "isolation": shown.isolation.map(|(level, note)| json!({ "level": level, "note": note })),
            "diagnoses": diagnoses,
        }))?;
    } else {
        let surroundings = &context.surroundings;
        let colour = crate::terminal::colour(vars, surroundings.stdout_is_terminal);
        let whole = args.agent.is_some();
        let columns = surroundings.columns_to_fill();
        context.print_rendered(&render::practice(&shown, whole, columns, colour))?;
    }
    let is_ours = |diagnosis: &&Diagnosis| {
        args.agent.is_some()
            || config.file.agents.contains_key(&diagnosis.name)
            || config.file.adapters.contains_key(&diagnosis.name)
    };
    let fails = |diagnosis: &&Diagnosis| diagnosis.status == Status::Fail;
    Ok(match diagnoses.iter().filter(is_ours).find(fails) {
        Some(failing) => ExitCode::from(code(failing).row().exit),
        None => ExitCode::SUCCESS,
    })
}

/// Every name that `ostler run` takes, what is configured first. A runtime that only configuration
/// gives a program to is not among them by itself.
fn names(config: &Config) -> Vec<String> {
    let mut names: Vec<String> =
        config.file.agents.keys().chain(config.file.adapters.keys()).cloned().collect();
    for card in registry::all().iter().map(|runtime| runtime.card()) {
        if !names.contains(&card.id) && !card.requires.is_empty() {
            names.push(card.id);
        }
    }
    names
}

pub(super) async fn look(
    context: &Context,
    practice: &Practice,
    config: &Config,
    name: &str,
) -> Diagnosis {
    match patient(config, name) {
        Ok(patient) => {
            let Diagnosis { adapter_type, mut checks, tested_at, .. } =
                practice.diagnose(&patient).await;
            checks.extend(stands_for(config, &patient));
            checks.extend(wrong_protocol(&patient.adapter));
            Diagnosis::new(name, &adapter_type, checks, tested_at)
        }
        Err(fault) => {
            let mut check = Check::new(CheckCode::ConfigurationInvalid, fault.message);
            let unread =
                context.unread_configuration().filter(|_| fault.code == Code::UnknownAgent);
            check.hint = unread.map(str::to_owned).or(fault.hint);
            Diagnosis::new(name, "unknown", vec![check], host::clock::now().wall)
        }
    }
}

/// The command or runtime that a configured name stands for.
fn stands_for(config: &Config, patient: &Patient) -> Option<Check> {
    let Patient { name, adapter, .. } = patient;
    let agent = config.file.agents.get(name);
    let configured = config.file.adapters.get(&adapter.name);
    if agent.is_none() && configured.is_none() {
        return None;
    }
    let runs = match (&adapter.remote, &adapter.binary) {
        (Some(remote), _) => format!("http: {}", remote.base_url),
        (None, Some(binary)) => {
            format!("{}: {}", adapter.runtime, settings::command_shown(binary, &adapter.args))
        }
        (None, None) => format!("runtime {}", adapter.runtime),
    };
    let message = match agent {
        Some(agent) if configured.is_some() => {
            format!("agent on adapter {}, {runs}", agent.adapter)
        }
        Some(_) => format!("agent on {runs}"),
        None => runs,
    };
    Some(Check::new(CheckCode::StandsFor, message))
}

/// An agent that Ostler knows, configured as a program that speaks JSON lines.
fn wrong_protocol(adapter: &Adapter) -> Option<Check> {
    let (message, hint) = settings::mistaken::of_adapter(adapter, true)?;
    Some(Check::new(CheckCode::WrongProtocol, message).with_hint(hint))
}

fn patient(config: &Config, name: &str) -> Result<Patient, Fault> {
    let Resolved { adapter, cwd, repository, permission, .. } = resolve(name, config)?;
    let mut card = on_its_lane(registry::of(&adapter)?, &adapter, permission).card();
    match (config.file.adapters.get(&adapter.name), cards::find(&adapter.name)) {
        (Some(configured), _) => describe(&mut card, configured, &adapter),
        (None, Some(known)) => introduce(&mut card, known),
        (None, None) => {}
    }
    Ok(Patient {
        name: name.to_owned(),
        card,
        adapter,
        cwd: cwd.or(repository),
        policy: permission,
    })
}

/// The runtime on the lane that a run would take: the configured one, else the first that keeps the
/// configured permission.
fn on_its_lane(runtime: Chosen, adapter: &Adapter, permission: Option<Policy>) -> Chosen {
    let card = runtime.card();
    let lane = match adapter.lane {
        Some(LaneChoice::Acp) => Some(Lane::Acp),
        Some(LaneChoice::Native) => None,
        Some(LaneChoice::Auto) | None => permission.and_then(|policy| card.lane_for(policy)),
    };
    match lane {
        Some(lane) => registry::on_lane(runtime, lane),
        None => runtime,
    }
}

/// What configuration alone knows of an agent that speaks ACP: its program, how it tells its
/// version, what it is called, and that it answers the greeting.
fn describe(card: &mut Card, from: &file::Adapter, adapter: &Adapter) {
    let (AdapterType::Acp, Some(binary)) = (from.kind, &adapter.binary) else { return };
    let version_args = match from.version_args.is_empty() {
        true => vec!["--version".to_owned()],
        false => from.version_args.clone(),
    };
    let install_hint = host::diagnose::fix_binary(&adapter.name, binary);
    card.requires = vec![Requirement { binary: binary.clone(), version_args, install_hint }];
    card.id = from.id.clone().unwrap_or_else(|| card.id.clone());
    card.label = from.name.clone().unwrap_or_else(|| card.label.clone());
    card.handshake = runtimes::acp::handshake(&adapter.args);
}

/// What is known of an agent that speaks ACP by its name.
fn introduce(card: &mut Card, known: &Known) {
    let words =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let version_args = words(known.version_args);
    let (binary, install_hint) = (known.binary.to_owned(), known.install_hint.to_owned());
    card.requires = vec![Requirement { binary, version_args, install_hint }];
    known.id.clone_into(&mut card.id);
    known.label.clone_into(&mut card.label);
    card.evidence = known.evidence;
    card.handshake = runtimes::acp::handshake(&words(known.args));
}

/// The fault that a run would end with.
fn code(failing: &Diagnosis) -> Code {
    let has = |code: CheckCode| failing.checks.iter().any(|check| check.code == code);
    match () {
        () if has(CheckCode::BinaryMissing) => Code::NotInstalled,
        () if has(CheckCode::DirectoryUnusable) => Code::BadWorkspace,
        () if has(CheckCode::PolicyNotPossible) => Code::PolicyNotPossible,
        () => Code::InvalidConfig,
    }
}
