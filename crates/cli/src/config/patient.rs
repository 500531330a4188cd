//! What doctor looks at for a name: the runtime on the lane that a run would take, the adapter, and what
//! the configuration alone tells of it. `ostler doctor` and `POST /api/v1/doctor` ask the same.

use super::file::{self, Agent};
use super::resolve::{Config, Resolved};
use super::words::AdapterType;
use super::{command_shown, mistaken};
use contract::card::{ModelList, Requirement};
use contract::diagnosis::{Check, CheckCode};
use contract::plan::{Adapter, Lane, LaneChoice};
use contract::{Card, Fault, Policy};
use host::diagnose::Patient;
use runtimes::acp::cards;
use runtimes::registry::{self, Chosen};

/// What is looked at when this is what a name stands for. `agent` is the one of the file or a hired one.
pub fn patient(
    name: &str,
    resolved: Resolved,
    agent: Option<&Agent>,
    config: &Config,
) -> Result<Patient, Fault> {
    let Resolved { adapter, cwd, repository, permission, .. } = resolved;
    let mut card = on_its_lane(registry::of(&adapter)?, &adapter, permission).card();
    match (config.file.adapters.get(&adapter.name), cards::find(&adapter.name)) {
        (Some(configured), _) => describe(&mut card, configured, &adapter),
        (None, Some(known)) => cards::introduce(&mut card, known),
        (None, None) => {}
    }
    let stands_for = stands_for(&adapter, agent, config);
    let remarks = stands_for.into_iter().chain(wrong_protocol(&adapter)).collect();
    let name = name.to_owned();
    let cwd = cwd.or(repository);
    Ok(Patient { name, card, adapter, cwd, policy: permission, remarks })
}

/// The command or runtime that a configured name stands for.
fn stands_for(adapter: &Adapter, agent: Option<&Agent>, config: &Config) -> Option<Check> {
    let configured = config.file.adapters.get(&adapter.name);
    if agent.is_none() && configured.is_none() {
        return None;
    }
    let runs = match (&adapter.remote, &adapter.binary) {
        (Some(remote), _) => format!("http: {}", remote.base_url),
        (None, Some(binary)) => {
            format!("{}: {}", adapter.runtime, command_shown(binary, &adapter.args))
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
    let (message, hint) = mistaken::of_adapter(adapter, true)?;
    Some(Check::new(CheckCode::WrongProtocol, message).with_hint(hint))
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
    card.model_list = Some(ModelList::Session);
}
