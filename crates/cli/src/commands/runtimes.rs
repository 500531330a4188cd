//! `ostler runtimes`: every name that `ostler run` takes.

use super::{Context, Stopped};
use crate::config as settings;
use ::runtimes::acp::cards::{self, Known};
use serde_json::json;
use std::process::ExitCode;

pub fn runtimes(context: &Context) -> Result<ExitCode, Stopped> {
    let path = settings::locate(context.global.config.as_deref(), &context.surroundings.vars);
    let config = settings::load(path.as_deref())?;
    let cards: Vec<_> = ::runtimes::registry::all().iter().map(|runtime| runtime.card()).collect();
    let agents: Vec<_> = config.file.agents.keys().collect();
    let adapters: Vec<_> = config.file.adapters.keys().collect();
    if context.global.json {
        context.print_json(&json!({
            "agents": agents,
            "adapters": adapters,
            "runtimes": cards,
            "acp": cards::all().map(|known| known.id).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    let named = |kind: &str, name: &str, about: &str| {
        format!("{name:<16} {kind:<8} {about}").trim_end().to_owned()
    };
    for (name, agent) in &config.file.agents {
        lines.push(named("agent", name, &format!("uses {}", agent.adapter)));
    }
    for (name, adapter) in &config.file.adapters {
        lines.push(named("adapter", name, adapter.name.as_deref().unwrap_or_default()));
    }
    let known = |known: &Known| named("acp", known.id, known.label);
    lines.extend(cards.iter().map(|card| named("runtime", &card.id, &card.label)));
    lines.extend(cards::all().map(known));
    context.print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
