//! `ostler runtimes`: every name that `ostler run` takes, and whether its program is on PATH.

use super::{Context, Stopped};
use crate::config as settings;
use ::runtimes::acp::cards::{self, Known};
use contract::card::Card;
use host::diagnose::find_program;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

const INSTALLED: &str = "installed";
/// The two kinds that run the same agent, and which to take.
const WHEN_ACP: &str = "\
Use a runtime if there is one: it enforces --permission with the agent's own
options and reports the most. Use NAME-acp to answer its permission requests
yourself, to send it messages, or to interrupt a turn. `ostler doctor NAME`
shows what each can do.";

/// A card, and whether its runtime can be started here.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    card: &'a Card,
    /// Absent for one that needs an adapter of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
}

fn ready(card: &Card, installed: &[&str]) -> Option<bool> {
    let is_there = card.requires.is_empty() || installed.contains(&card.id.as_str());
    (!card.needs_adapter()).then_some(is_there)
}

pub fn runtimes(context: &Context) -> Result<ExitCode, Stopped> {
    let path = settings::locate(context.global.config.as_deref(), &context.surroundings.vars);
    let config = settings::load(path.as_deref())?;
    let cards: Vec<_> = ::runtimes::registry::all().iter().map(|runtime| runtime.card()).collect();
    let agents: Vec<_> = config.file.agents.keys().collect();
    let adapters: Vec<_> = config.file.adapters.keys().collect();
    let of_cards =
        cards.iter().filter_map(|card| Some((&*card.id, &*card.requires.first()?.binary)));
    let programs: BTreeMap<&str, &str> =
        of_cards.chain(cards::all().map(|known| (known.id, known.binary))).collect();
    let path = context.surroundings.vars.get("PATH").map(String::as_str);
    let is_installed = |program: &str| find_program(program, path).is_some();
    let installed: Vec<&str> =
        programs.iter().filter(|(_, program)| is_installed(program)).map(|(id, _)| *id).collect();
    if context.global.json {
        let cards: Vec<_> =
            cards.iter().map(|card| Described { ready: ready(card, &installed), card }).collect();
        context.print_json(&json!({
            "agents": agents,
            "adapters": adapters,
            "runtimes": cards,
            "acp": cards::all().map(|known| known.id).collect::<Vec<_>>(),
            "installed": installed,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    let named = |kind: &str, name: &str, there: &str, about: &str| {
        format!("{name:<16} {kind:<8} {there:<9} {about}").trim_end().to_owned()
    };
    let there = |id: &str| match (programs.get(id), installed.contains(&id)) {
        (None, _) => "",
        (Some(_), true) => INSTALLED,
        (Some(_), false) => "not found",
    };
    for (name, agent) in &config.file.agents {
        lines.push(named("agent", name, "", &format!("uses {}", agent.adapter)));
    }
    for (name, adapter) in &config.file.adapters {
        lines.push(named("adapter", name, "", adapter.name.as_deref().unwrap_or_default()));
    }
    let known = |known: &Known| named("acp", known.id, there(known.id), known.label);
    let of = |card: &Card| named("runtime", &card.id, there(&card.id), &card.label);
    lines.extend(cards.iter().map(of));
    lines.extend(cards::all().map(known));
    lines.extend([String::new(), WHEN_ACP.to_owned()]);
    context.print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
