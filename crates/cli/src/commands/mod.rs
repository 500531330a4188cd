//! One file per verb a person types. Each finds the host (or becomes it), asks, and shows; what is
//! asked for is done in `host::ops`.

mod agents;
mod answer;
mod apply;
mod audience;
mod background_host;
mod backup;
mod completions;
mod config;
mod conformance;
mod costs;
mod courier;
mod default_agent;
mod diff;
mod doctor;
mod export;
mod follow;
mod init;
mod intro;
mod keys;
mod line;
mod mcp;
mod mcp_login;
mod mcp_proxy;
mod prices;
mod quotas;
mod record;
mod remote;
mod replay;
mod run;
mod run_env;
mod runs;
mod runtimes;
mod serve;
mod show;
mod status;
mod stop;
mod target;
mod task;
mod token;
mod watch;
mod wish;
mod worktrees;

use crate::args::{self, Arguments, Command, Global};
use crate::client::Client;
use crate::config::{self as settings, Surroundings};
use crate::hosting::{Place, Purpose};
use crate::terminal::Gone;
use crate::way::Way;
use contract::{Code, Fault};
use host::data::DataDir;
use std::path::Path;
use std::process::ExitCode;
use target::Unnamed;

/// How a command can end early.
#[derive(Debug)]
pub enum Stopped {
    Fault(Fault),
    /// Nobody reads what we write.
    Gone(Gone),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Gone> for Stopped {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

/// What a command knows.
pub struct Context {
    pub global: Global,
    pub surroundings: Surroundings,
}

impl Context {
    /// Opens the data directory and reads the configuration.
    fn place(&self) -> Result<Place, Fault> {
        let vars = &self.surroundings.vars;
        let config =
            settings::load(settings::locate(self.global.config.as_deref(), vars).as_deref())?;
        let path = settings::data_dir(self.global.data.as_deref(), vars)?;
        let runtime = vars.get("XDG_RUNTIME_DIR").map(Path::new).filter(|path| path.is_absolute());
        let temporary = vars.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
        let data = DataDir::open(&path, runtime, temporary)?;
        Ok(Place { data, config, surroundings: self.surroundings.clone() })
    }

    /// Finds the host to look at something, asks, and leaves again. What is asked may be asked
    /// again, of the next host: it must remember what it has shown.
    async fn ask<T>(
        &self,
        mut ask: impl AsyncFnMut(&Client) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let place = self.place()?;
        let mut way = Way::find(&place, Purpose::Look).await?;
        let answer = way
            .ask(async |client| match ask(client).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(Stopped::Fault(fault)) => Err(fault),
                Err(gone @ Stopped::Gone(_)) => Ok(Err(gone)),
            })
            .await;
        if let Some(hosting) = way.hosting {
            hosting.finish().await;
        }
        answer?
    }

    /// The run that was named, or that is meant.
    async fn run_meant(&self, given: Option<&str>, unnamed: Unnamed) -> Result<String, Stopped> {
        if let Some(named) = given.filter(|given| *given != target::LAST) {
            return Ok(named.to_owned());
        }
        let place = self.place()?;
        self.ask(async |client| Ok(target::find(&place, client, given.is_some(), unnamed).await?))
            .await
    }

    /// The hint for an ostler.json in the current directory that is not read.
    fn unread_configuration(&self) -> Option<&'static str> {
        settings::unread_here(self.global.config.as_deref(), &self.surroundings)
    }

    /// Writes lines that may repeat what an agent, a file or another program said.
    fn print(&self, text: &str) -> Result<(), Gone> {
        crate::terminal::print(&crate::render::clean(text))
    }

    /// Writes what the renderer made: its colours are the only sequences in it.
    fn print_rendered(&self, text: &str) -> Result<(), Gone> {
        crate::terminal::print(text)
    }

    /// Prints rows as JSON, their ids under the name that they have everywhere, such as `task_id`, beside
    /// the older one.
    fn print_named(
        &self,
        rows: &impl serde::Serialize,
        (older, name): (&str, &str),
    ) -> Result<(), Stopped> {
        let mut rows = serde_json::to_value(rows)
            .map_err(|error| Fault::new(Code::InternalError, format!("writing JSON: {error}")))?;
        let each = match &mut rows {
            serde_json::Value::Array(rows) => rows.iter_mut().collect(),
            row => vec![row],
        };
        for fields in each.into_iter().filter_map(serde_json::Value::as_object_mut) {
            if let Some(id) = fields.get(older).cloned() {
                fields.insert(name.to_owned(), id);
            }
        }
        self.print_json(&rows)
    }

    fn print_json(&self, value: &impl serde::Serialize) -> Result<(), Stopped> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Fault::new(Code::InternalError, format!("writing JSON: {error}")))?;
        let text = crate::terminal::json(&text, self.surroundings.stdout_is_terminal);
        Ok(crate::terminal::print(&text)?)
    }
}

/// Adds to each amount in nano-dollars the same in dollars, for scripts: `effective_usd` beside
/// `effective_nanousd`. The integers stay the exact ones.
fn add_dollars(fields: &mut serde_json::Value) {
    let Some(fields) = fields.as_object_mut() else { return };
    let dollars = fields.iter().filter_map(|(name, amount)| {
        let name = name.strip_suffix("_nanousd")?;
        Some((format!("{name}_usd"), (amount.as_i64()? as f64 / 1e9).into()))
    });
    let dollars: Vec<(String, serde_json::Value)> = dollars.collect();
    fields.extend(dollars);
}

/// Does what was typed.
pub async fn perform(
    arguments: Arguments,
    surroundings: Surroundings,
) -> Result<ExitCode, Stopped> {
    let Arguments { global, command } = arguments;
    let context = Context { global, surroundings };
    match command {
        Some(command) => carry_out(&context, command).await,
        None => help(&context, &[]),
    }
    .map_err(|stopped| match stopped {
        Stopped::Fault(fault) if fault.code == Code::UnknownAgent => {
            match context.unread_configuration() {
                Some(hint) => fault.with_hint(hint).into(),
                None => fault.into(),
            }
        }
        other => other,
    })
}

async fn carry_out(context: &Context, command: Command) -> Result<ExitCode, Stopped> {
    match command {
        Command::Run(args) => run::run(context, *args).await,
        Command::Runs(args) => runs::runs(context, args).await,
        Command::Status => status::status(context).await,
        Command::Show(args) => show::show(context, args).await,
        Command::Watch(args) => watch::watch(context, args).await,
        Command::Replay(args) => replay::replay(context, args).await,
        Command::Export(args) => export::export(context, args).await,
        Command::Diff(args) => diff::diff(context, args).await,
        Command::Apply(args) => apply::apply(context, args).await,
        Command::Worktrees { verb } => worktrees::worktrees(context, verb).await,
        Command::Stop(args) => stop::stop(context, args).await,
        Command::Say(args) => wish::say(context, args).await,
        Command::Interrupt(args) => wish::interrupt(context, args).await,
        Command::Agents { command } => agents::agents(context, command.map(|c| *c)).await,
        Command::Approvals => answer::approvals(context).await,
        Command::Answer(args) => answer::answer(context, args).await,
        Command::Backup { dir } => backup::backup(context, &dir).await,
        Command::Costs(args) => costs::costs(context, args).await,
        Command::Quotas(args) => quotas::quotas(context, args).await,
        Command::Prices { command } => prices::prices(context, command).await,
        Command::Task { command } => task::task(context, command).await,
        Command::Token { command } => token::token(context, command).await,
        Command::Mcp { command: None } => mcp::mcp(context).await,
        Command::Mcp { command: Some(command) } => mcp_login::mcp_login(context, command).await,
        Command::Serve(args) => serve::serve(context, args).await,
        Command::Remote(args) => remote::remote(context, *args).await,
        Command::Conformance(args) => conformance::conformance(context, args).await,
        Command::Record(args) => record::record(context, args).await,
        Command::Runtimes(args) => runtimes::runtimes(context, args).await,
        Command::Doctor(args) => doctor::doctor(context, args).await,
        Command::Init => init::init(context),
        Command::Config { command } => config::config(context, command),
        Command::Completions { shell } => completions::completions(context, shell),
        Command::Help { words } => help(context, &words),
        Command::Version => version(context),
        Command::McpProxy => mcp_proxy::mcp_proxy(context).await,
        Command::BackgroundHost => background_host::background_host(context).await,
        Command::Courier(args) => courier::courier(context, args).await,
    }
}

fn help(context: &Context, words: &[String]) -> Result<ExitCode, Stopped> {
    context.print(&args::help::of(words)?)?;
    Ok(ExitCode::SUCCESS)
}

fn version(context: &Context) -> Result<ExitCode, Stopped> {
    match context.global.json {
        true => context.print_json(&crate::version::as_json())?,
        false => context.print(&format!("ostler {}", crate::version::TEXT))?,
    }
    Ok(ExitCode::SUCCESS)
}
