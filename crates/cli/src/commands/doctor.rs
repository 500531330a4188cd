//! `ostler doctor`: what keeps agents from running. Without a name it looks at everything that
//! `ostler run` takes, and what is simply not installed is no failure; with a name it shows every
//! check, and a set-up that cannot work is the exit status. Agents known by an ACP name are looked for
//! and not started, unless one is named. A file with mistakes is a diagnosis too, of itself and of each
//! name that it touches. Probes are `host::diagnose`.

use super::{Context, Stopped};
use crate::args;
use crate::config::{self as settings, Book, Config, file};
use crate::hosting::OWN_PROGRAM;
use crate::render::{self, Practice as Shown};
use contract::diagnosis::{Check, CheckCode, Diagnosis, Status};
use contract::{Code, Fault, limits};
use futures::StreamExt as _;
use host::diagnose::Practice;
use host::ops::agents::{Book as _, DoctorSubject};
use host::ops::doctor::invalid;
use host::{LoginState, Logins};
use runtimes::acp::cards;
use runtimes::registry;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The name of the diagnosis of the configuration file itself.
const CONFIGURATION: &str = "configuration";

pub async fn doctor(context: &Context, args: args::Doctor) -> Result<ExitCode, Stopped> {
    let vars = &context.surroundings.vars;
    let path = settings::locate(context.global.config.as_deref(), vars);
    let (config, broken) = match settings::load(path.as_deref()) {
        Ok(config) => (config, BTreeMap::new()),
        Err(fault) => (Config::default(), mistakes(path.as_deref(), fault)),
    };
    let level = settings::isolation(vars)?;
    let practice = Practice::open(PathBuf::from(OWN_PROGRAM), vars.clone(), level)?;
    let isolation = practice.isolation().await;
    let names = match &args.agent {
        Some(name) => vec![name.clone()],
        None => names(&config, &broken),
    };
    let is_named = args.agent.is_some();
    let looked =
        names.iter().map(|name| look(context, &practice, &config, &broken, (name, is_named)));
    let mut diagnoses: Vec<Diagnosis> =
        futures::stream::iter(looked).buffered(limits::PROBES_MAX).collect().await;
    if args.agent.is_none() {
        let is_new = |known: &&cards::Known| !names.iter().any(|name| name == known.id);
        let known = cards::all().filter(is_new);
        diagnoses.extend(known.filter_map(|known| found(&practice, &config, known.id)));
    }
    let shown = Shown {
        version: env!("CARGO_PKG_VERSION"),
        config: path.as_deref(),
        isolation: isolation.as_ref().map(|(level, note)| (level.word(), note.as_deref())),
        diagnoses: &diagnoses,
    };
    let logins = match args.agent {
        Some(_) => Vec::new(),
        None => logins(context, &config)?,
    };
    if context.global.json {
        context.print_json(&json!({
            "version": shown.version,
            "isolation": shown.isolation.map(|(level, note)| json!({ "level": level, "note": note })),
            "diagnoses": diagnoses,
            "mcp_servers": logins
                .iter()
                .map(|(name, state)| json!({ "name": name, "login": state }))
                .collect::<Vec<_>>(),
        }))?;
    } else {
        let surroundings = &context.surroundings;
        let colour = crate::terminal::colour(vars, surroundings.stdout_is_terminal);
        let whole = args.agent.is_some();
        let columns = surroundings.columns_to_fill();
        context.print_rendered(&render::practice(&shown, whole, columns, colour))?;
        if !logins.is_empty() {
            context.print("\nlogins at MCP servers")?;
        }
        for (name, state) in &logins {
            context.print(&format!("  {name}  {}", login_line(name, state)))?;
        }
    }
    let is_ours = |diagnosis: &&Diagnosis| {
        args.agent.is_some()
            || broken.contains_key(&diagnosis.name)
            || config.file.agents.contains_key(&diagnosis.name)
            || config.file.adapters.contains_key(&diagnosis.name)
    };
    let fails = |diagnosis: &&Diagnosis| diagnosis.status == Status::Fail;
    Ok(match diagnoses.iter().filter(is_ours).find(fails) {
        Some(failing) => ExitCode::from(code(failing).row().exit),
        None => ExitCode::SUCCESS,
    })
}

/// The states of the logins at MCP servers that have an address and no key in `headers`.
fn logins<'c>(
    context: &Context,
    config: &'c Config,
) -> Result<Vec<(&'c str, LoginState)>, Stopped> {
    let keyless = |server: &file::McpServer| {
        !server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    };
    let servers = config.file.mcp_servers.iter().filter(|(_, server)| keyless(server));
    let servers = servers.filter_map(|(name, server)| Some((name, server.url.as_deref()?)));
    let servers: Vec<_> = servers.collect();
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    let logins = Logins::of(&context.place()?.data)?;
    Ok(servers.into_iter().map(|(name, url)| (name.as_str(), logins.state(name, url))).collect())
}

fn login_line(name: &str, state: &LoginState) -> String {
    match (state.login, state.renewable, state.expires_at) {
        ("valid", true, _) => "logged in; renewed by itself".to_owned(),
        ("valid", false, Some(at)) => format!("logged in until {at}"),
        ("valid", false, None) => "logged in".to_owned(),
        ("expired", ..) => format!("the login has expired: `ostler mcp login {name}`"),
        ("other_url", ..) => {
            format!("the login was made for another url: `ostler mcp login {name}`")
        }
        _ => format!("no login; if it wants one: `ostler mcp login {name}`"),
    }
}

/// The mistakes of a file that cannot be loaded: all of them under `CONFIGURATION`, and those of one agent
/// or adapter under its name as well.
fn mistakes(path: Option<&Path>, fault: Fault) -> BTreeMap<String, Vec<Check>> {
    let invalid = |message: String, hint: Option<String>| {
        let mut check = Check::new(CheckCode::ConfigurationInvalid, message);
        check.hint = hint;
        check
    };
    let findings = path.map(settings::mistakes).and_then(Result::ok).unwrap_or_default();
    let mut all: BTreeMap<String, Vec<Check>> = BTreeMap::new();
    for finding in findings {
        let check = invalid(finding.to_string(), finding.hint.clone());
        let mut parts = finding.path.split(['.', '[']);
        if let (Some("agents" | "adapters"), Some(name)) = (parts.next(), parts.next()) {
            all.entry(name.to_owned()).or_default().push(check.clone());
        }
        all.entry(CONFIGURATION.to_owned()).or_default().push(check);
    }
    // A file that cannot be read has no findings.
    all.entry(CONFIGURATION.to_owned()).or_insert_with(|| vec![invalid(fault.message, fault.hint)]);
    all
}

/// Every name that `ostler run` takes, what is configured first. A runtime that only configuration
/// gives a program to is not among them by itself.
fn names(config: &Config, broken: &BTreeMap<String, Vec<Check>>) -> Vec<String> {
    let mut names: Vec<String> = broken.keys().cloned().collect();
    names.extend(config.file.agents.keys().chain(config.file.adapters.keys()).cloned());
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
    broken: &BTreeMap<String, Vec<Check>>,
    (name, is_named): (&str, bool),
) -> Diagnosis {
    // Nothing can be started by a file with mistakes, so the name that was asked for has them all.
    if let Some(found) = broken.get(name).or_else(|| broken.get(CONFIGURATION))
        && (broken.contains_key(name) || registry::find(name).is_none())
    {
        return Diagnosis::new(name, CONFIGURATION, found.clone(), host::clock::now().wall);
    }
    match Book(config).patient(DoctorSubject::Name(name)) {
        Ok(mut patient) => {
            let of_file = broken.get(CONFIGURATION).filter(|_| is_named);
            patient.remarks.extend(of_file.into_iter().flatten().cloned());
            practice.diagnose(&patient).await
        }
        Err(mut fault) => {
            let unread =
                context.unread_configuration().filter(|_| fault.code == Code::UnknownAgent);
            fault.hint = unread.map(str::to_owned).or(fault.hint);
            invalid(name, fault)
        }
    }
}

/// Whether the program of an agent that is known by an ACP name is there; nothing is started.
fn found(practice: &Practice, config: &Config, name: &str) -> Option<Diagnosis> {
    // A known name always stands for something.
    let patient = Book(config).patient(DoctorSubject::Name(name)).ok()?;
    Some(practice.find(&patient))
}

/// The fault that a run would end with.
fn code(failing: &Diagnosis) -> Code {
    let has = |code: CheckCode| failing.checks.iter().any(|check| check.code == code);
    match () {
        () if has(CheckCode::ConfigurationInvalid) => Code::InvalidConfig,
        () if has(CheckCode::ProgramHangs) => Code::TimeoutFirstOutput,
        () if has(CheckCode::BinaryMissing) => Code::NotInstalled,
        () if has(CheckCode::DirectoryUnusable) => Code::BadWorkspace,
        () if has(CheckCode::PolicyNotPossible) => Code::PolicyNotPossible,
        () => Code::InvalidConfig,
    }
}
