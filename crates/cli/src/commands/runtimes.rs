//! `ostler runtimes`: every name that `ostler run` takes, and whether its program is on PATH; with a name
//! its whole card, and with `--models` what its program tells of its models.

use super::{Context, Stopped};
use crate::args;
use crate::config::{self as settings, Book, Config};
use crate::hosting::OWN_PROGRAM;
use crate::render::clean;
use ::runtimes::acp::cards::{self, Known};
use ::runtimes::{catalogue, page};
use contract::card::{Card, Model};
use contract::{Code, Fault};
use host::diagnose::{Practice, find_program};
use host::ops::agents::{Book as _, DoctorSubject};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
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

pub async fn runtimes(context: &Context, args: args::Runtimes) -> Result<ExitCode, Stopped> {
    let path = settings::locate(context.global.config.as_deref(), &context.surroundings.vars);
    let config = settings::load(path.as_deref())?;
    match args.name {
        Some(name) if args.models => models(context, &config, &name).await,
        Some(name) => one(context, &name),
        None => all(context, &config),
    }
}

/// The models that the program of a name tells.
async fn models(context: &Context, config: &Config, name: &str) -> Result<ExitCode, Stopped> {
    let vars = &context.surroundings.vars;
    let patient = Book(config).patient(DoctorSubject::Name(name))?;
    let level = settings::isolation(vars)?;
    let practice = Practice::open(PathBuf::from(OWN_PROGRAM), vars.clone(), level)?;
    let listed = practice.models(&patient).await?;
    if context.global.json {
        context.print_json(&listed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let room = listed.models.iter().map(|model| model.id.chars().count()).max().unwrap_or(0);
    let line = |model: &Model| {
        let label = if model.label == model.id { "" } else { model.label.as_str() };
        let is_default = listed.default_model.as_ref() == Some(&model.id);
        let mark = if is_default { "(default)" } else { "" };
        format!("{:<room$}  {label} {mark}", model.id).trim_end().to_owned()
    };
    let lines: Vec<String> = listed.models.iter().map(line).collect();
    context.print_rendered(&clean(&lines.join("\n")))?;
    Ok(ExitCode::SUCCESS)
}

/// The whole card of one, as a page.
fn one(context: &Context, name: &str) -> Result<ExitCode, Stopped> {
    let Some(card) = catalogue::find(name) else {
        let fault = Fault::new(Code::NotFound, format!("there is no runtime '{name}'"));
        return Err(fault.with_hint("`ostler runtimes` lists them").into());
    };
    match context.global.json {
        true => context.print_json(&card)?,
        false => context.print(page::of(&card).trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn all(context: &Context, config: &Config) -> Result<ExitCode, Stopped> {
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
